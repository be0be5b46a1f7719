"""Runs the model file of a feature function over a list, as Moses' search would: phrase by phrase, in C++ that knows no Moses."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping
from pathlib import Path
from string import Template

import numpy as np

from ...core.arrays import F64, I64, Array
from ...core.errors import InputError
from ...formats.moses.labels import component
from ...lists.nbest import NBest
from ..compiling import CXX, compiled
from ..unit_arrays import UnitArrays, pointers

_DRIVER = """
#include <fstream>
#include "$header"

using namespace ${prefix}_moses;

static Word At(const char* texts, const long* at, long word) {
  const Word out = {texts + at[word], static_cast<size_t>(at[word + 1] - at[word])};
  return out;
}

extern "C" const char* run(const char* path, const char* texts, const long* at,         // the words of the dictionary
                           const long* ptr, const long* words,                           // of sentences, sources, targets
                           const long* link_ptr, const int* links, long n_sentences, long n_units,
                           const long* hyp_ptr, const long* sentence_of, long n_hyps,    // phrases of hypotheses
                           const long* unit_of, const long* start, const long* length, const double* scores,
                           const double* weights, double* out) {
  static std::string error;
  try {
    Model model;
    std::ifstream file(path);
    model.Read(file, path);
    const size_t n_scores = model.producers.size();
    std::vector<std::vector<Word> > texts_of(n_sentences + 2 * n_units);
    for (size_t k = 0; k < texts_of.size(); ++k)
      for (long i = ptr[k]; i < ptr[k + 1]; ++i) texts_of[k].push_back(At(texts, at, words[i]));
    std::vector<double> cache(model.CacheSize()), values(model.n_values), late(model.n_values);
    Sentence looked_at;
    for (long h = 0; h < n_hyps; ++h) {
      State state;
      const std::vector<Word>& sentence = texts_of[sentence_of[h]];
      model.Look(sentence, looked_at);
      long n_words = sentence.size(); // as far as phrases reach where the sentence is not known
      for (long r = hyp_ptr[h]; r < hyp_ptr[h + 1] && sentence.empty(); ++r)
        n_words = std::max(n_words, start[r] + length[unit_of[r]]);
      for (long r = hyp_ptr[h]; r < hyp_ptr[h + 1]; ++r) {
        const long u = unit_of[r];
        const std::vector<Word>&source = texts_of[n_sentences + u], &target = texts_of[n_sentences + n_units + u];
        const Unit unit = {source.data(), target.data(), static_cast<int>(source.size()), static_cast<int>(target.size()),
                           links + 2 * link_ptr[u], static_cast<int>(link_ptr[u + 1] - link_ptr[u])};
        std::fill(values.begin(), values.end(), 0.0);
        std::fill(late.begin(), late.end(), 0.0);
        model.Isolated(unit, scores + u * n_scores, &values[0], &cache[0]);
        if (model.LooksAtSentence()) model.InSentence(unit, start[r], looked_at, &values[0], &cache[0]);
        Here here;
        here.start = start[r];
        here.end = start[r] + length[u];
        here.n_words = n_words;
        here.is_last = r + 1 == hyp_ptr[h + 1];
        here.n_tgt = unit.n_tgt;
        if (unit.n_tgt) here.tgt_first = target.front(), here.tgt_last = target.back();
        here.cached = &cache[0];
        here.scores = scores + u * n_scores;
        here.unit = &unit;
        State next;
        model.Applied(here, state, next, &values[0], &late[0]);
        state = next;
        for (size_t k = 0; k < model.n_values; ++k) {
          out[r] += weights[k] * values[k];
          if (r > hyp_ptr[h]) out[r - 1] += weights[k] * late[k];
        }
      }
    }
    return NULL;
  } catch (const std::exception& e) {
    error = e.what();
    return error.c_str();
  }
}
"""


def run_model(folder: Path, prefix: str, nbest: NBest, weights: list[float], places: Mapping[str, str]) -> F64:
    """[R] what the feature function adds to the score of each phrase occurrence, by the header and the model in ``folder``.

    ``places``: scores of an augmented table by the features that they are, which the list has under their own names.
    """
    model_file = folder / f"{prefix}.model"
    with tempfile.TemporaryDirectory() as build:
        driver = Template(_DRIVER).substitute(header=f"{prefix}.h", prefix=prefix)
        library = compiled(driver, Path(build), CXX, target="moses", what="feature function", flags=(f"-I{folder}",))
        out = np.zeros(nbest.n_occurrences)
        texts = UnitArrays.of(nbest.units, nbest.source)
        hyps = _long(nbest.unit_ptr), _long(nbest.sent_of_hyp)
        occurrences = _long(nbest.unit_idx), _long(nbest.src_start), _long(nbest.units.src_len)
        numbers = np.ascontiguousarray(_scores(model_file, nbest, places)), np.array(weights, np.float64), out
        n_sentences, n_units, n_hyps = map(ctypes.c_long, (len(nbest), nbest.n_units, nbest.n_hyps))
        library.run.restype = ctypes.c_char_p
        failed = library.run(
            str(model_file).encode(),
            *texts.pointers,
            n_sentences,
            n_units,
            *pointers(*hyps),
            n_hyps,
            *pointers(*occurrences, *numbers),
        )
    if failed is not None:
        raise InputError(f"--to moses: expected a model that the feature function reads, found: {failed.decode()}; report this")
    return out


def _long(array: Array) -> I64:
    return np.ascontiguousarray(array, np.int64)


def _scores(model_file: Path, nbest: NBest, places: Mapping[str, str]) -> F64:
    """[V, S] the scores that the model looks at, from the list."""
    lines = model_file.read_text().split("\n")
    at = lines.index(next(line for line in lines if line.startswith("scores ")))
    asked = [line.split() for line in lines[at + 1 : at + 1 + int(lines[at].split()[1])]]
    features = {place: name for name, place in places.items()}
    columns = {component(name): k for k, name in enumerate(nbest.unit_names)}
    columns |= {component(place): nbest.unit_names.index(name) for place, name in features.items() if name in nbest.unit_names}
    out = np.zeros((nbest.n_units, len(asked)))
    for k, (producer, number) in enumerate(asked):
        if (producer, int(number)) in columns:
            out[:, k] = nbest.X[:, columns[producer, int(number)]]
    return out
