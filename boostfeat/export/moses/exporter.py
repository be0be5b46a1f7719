"""The target moses: it writes tables, feature functions or weights, and verifies what it wrote on the phrases of a list.

Moses itself is not there to ask: what its loader would read from a table is read back, and the model file of a feature function
is run phrase by phrase as Moses' search would, in C++ that knows no Moses.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...core.arrays import F64, I64, Array, Bool
from ...core.errors import InputError, counted
from ...core.feature_table import FeatureTable
from ...core.text import Strings, split_words
from ...formats.fields import component
from ...formats.moses.ini import Ini, read_weights
from ...formats.moses.table_files import SOURCE, TARGET, read_entries
from ...lists.nbest import NBest
from ...lists.words import concat, positions
from ...model.model import Model, tree_scores, unit_table
from ..compiling import CXX, UnitArrays, compiled, pointers
from ..kinds import tested_features
from ..target import Check, Context, Exporter, filled
from ..verify import difference
from .feature_function import function_weights
from .writing import TABLE, WEIGHTS, MosesJob, linear_value, named_parts, write

USES = ("prefix", "static", "phrase_table", "ini", "columns", "binary", "hidden", "plan")
BAR = " ||| "
NOISE = 1e-3  # relative; a list has six digits, and its phrases' scores are differences of sums in single precision


def check_source(job: MosesJob, written: list[Path]) -> Check:
    """Check what the feature function adds, phrase by phrase in the order of each hypothesis."""
    nbest, inner = job.context.rows, job.parts.function or Model({})
    folder = next(path for path in written if path.name == f"{job.prefix}.model").parent
    found = run_model(folder, job.prefix, nbest, function_weights(inner, job.columns), job.places)
    expected = nbest.weigh(dict(inner.weights))[0] + tree_scores(inner.trees, unit_table(nbest))
    worst = difference(found, expected[nbest.unit_idx])
    weights = linear_difference(job, written)
    note = "the feature function's source, on phrases in their order, and the ini's weights"
    return Check(nbest.n_occurrences, "phrases", float(np.maximum(worst, weights)), note=note)


def linear_difference(job: MosesJob, written: list[Path]) -> float:
    """Return max |λ in the ini and the file of sparse weights − λ of the model|, over all features that Moses has itself."""
    files, own = {path.name: path for path in written}, job.weights
    ini = Ini.read(files["moses.ini" if job.ini else "moses.ini.lines"]).weights()
    sparse = read_weights([files[WEIGHTS]]) if WEIGHTS in files else {}
    pairs = [(a, b) for name, values in own.dense.items() for a, b in zip(ini.get(name, []), values, strict=False)]
    pairs += [(sparse[name], weight) for name, weight in own.sparse.items()]
    return max((abs(a - b) for a, b in pairs), default=0.0)


@dataclass(frozen=True)
class _PhrasePairs:
    """The distinct phrase pairs of a list, and what was found about them in a table. NaN: the table does not have it."""

    names: Strings  # [P] source ||| target
    of_unit: I64  # [V]
    added: F64  # [P] what the new scores add to the model's score, as written
    single: F64  # [P] the same in Moses' single precision
    expected: F64  # [P] the model's trees, and its weights of features that Moses does not have
    x: F64  # [P, len(tested)] features that trees look at

    @classmethod
    def of(cls, nbest: NBest, n_tested: int) -> _PhrasePairs:
        encoded = concat(nbest.units.src, BAR, nbest.units.tgt).dictionary_encode()
        n = len(encoded.dictionary)
        of_unit = np.asarray(encoded.indices).astype(np.int64)
        added, single, expected = np.full((3, n), np.nan)
        return cls(encoded.dictionary, of_unit, added, single, expected, np.full((n, n_tested), np.nan))

    @property
    def is_known(self) -> Bool:
        """[V] whether the table has the phrase pair of a unit."""
        return ~np.isnan(self.expected[self.of_unit])


def check_table(job: MosesJob, written: list[Path]) -> Check:
    """Check what the new table adds to the score of every distinct unit of the list, against the trees of the same entry.

    An entry's features must be those that the list has, up to the list's rounding. Phrases without an entry are unknown words.
    """
    nbest, files = job.context.rows, {path.name: path for path in written}
    plan, part = job.plan, job.parts.table or Model({})
    ini = Ini.read(files["moses.ini" if job.ini else "moses.ini.lines"])
    n_scores, features = plan.n_scores, plan.features
    weights = np.array(ini.weights()[plan.producer][n_scores:])
    other = linear_value(job.table_weights.other)
    tested = [name for name in (*tested_features(part), *job.parts.inputs) if name in nbest.unit_names]
    pairs = _PhrasePairs.of(nbest, len(tested))

    def score(table: FeatureTable) -> F64:
        return tree_scores(part.trees, table) + other(table)

    for entries in read_entries(files[TABLE]):
        at = positions(concat(entries.texts(SOURCE), BAR, entries.texts(TARGET)), pairs.names)
        rows = np.flatnonzero(at >= 0)
        at, table = at[rows], features.table(entries)
        pairs.added[at] = np.log(entries.scores[rows, n_scores:]) @ weights
        pairs.single[at] = entries.logs(np.float32)[rows, n_scores:] @ weights
        pairs.expected[at] = score(table)[rows]
        for k, name in enumerate(tested):
            pairs.x[at, k] = table.column(name)[rows]
        job.context.on_progress(entries.lines.before + entries.lines.n_lines, None, "verifying")
    _check_unknown(nbest, pairs)
    _check_features(nbest, pairs, tested)
    difference = float(np.nanmax(np.abs(pairs.added - pairs.expected), initial=linear_difference(job, written)))
    return Check(nbest.n_units, "distinct units", difference, note=_note(nbest, pairs, score(unit_table(nbest))))


def _check_unknown(nbest: NBest, pairs: _PhrasePairs) -> None:
    """Moses copies or drops a word that no entry translates; any other phrase must have an entry."""
    for u in np.flatnonzero(~pairs.is_known).tolist():
        src, tgt = nbest.units.src[u].as_py(), nbest.units.tgt[u].as_py()
        if len(split_words(src)) != 1 or tgt not in (src, ""):
            raise InputError(
                f"--phrase-table: expected the phrases of the list, found no entry {src + BAR + tgt!r}; "
                "give the table that the list was decoded with"
            )


def _check_features(nbest: NBest, pairs: _PhrasePairs, tested: list[str]) -> None:
    known = np.flatnonzero(pairs.is_known)
    for k, name in enumerate(tested):
        listed, here = nbest.X[known, nbest.unit_names.index(name)], pairs.x[pairs.of_unit[known], k]
        off = np.abs(listed - here) > NOISE * np.maximum(1.0, np.abs(here))
        if off.any():
            u = int(np.argmax(off))
            pair = pairs.names[int(pairs.of_unit[known[u]])].as_py()
            raise InputError(
                f"--phrase-table: {name} of {pair!r}: expected {listed[u]:.6g} as in the list, found {here[u]:.6g}; "
                "give the table that the list was decoded with"
            )


def _note(nbest: NBest, pairs: _PhrasePairs, listed: F64) -> str:
    """Say what differs for reasons that are not the export's: unknown words, a list's rounding, Moses' single precision."""
    known = pairs.is_known
    expected = pairs.expected[pairs.of_unit]
    moved = np.abs(listed - expected)[known] > NOISE * np.maximum(1.0, np.abs(expected[known]))
    missing = nbest.sum_units(np.where(known, 0.0, listed))
    low, high = np.full(len(nbest), np.inf), np.full(len(nbest), -np.inf)
    np.minimum.at(low, nbest.sent_of_hyp, missing)
    np.maximum.at(high, nbest.sent_of_hyp, missing)
    n_lists = int(np.sum(high - low > 1e-9))
    single = float(np.nanmax(np.abs(pairs.single - pairs.expected), initial=0.0))
    return (
        f"{counted(int(np.sum(~known)), 'unknown word')} to which Moses gives no tree values: matters in {n_lists:,} of "
        f"{counted(len(nbest), 'list')}; {counted(int(moved.sum()), 'unit')} beyond a threshold only because the list's numbers "
        f"are rounded; with Moses' single precision {single:.1g}"
    )


def run_model(folder: Path, prefix: str, nbest: NBest, weights: list[float], places: Mapping[str, str]) -> F64:
    """[R] what the feature function adds to the score of each phrase occurrence, by the header and the model in ``folder``.

    ``places``: scores of an augmented table by the features that they are, which the list has under their own names.
    """
    model_file = folder / f"{prefix}.model"
    with tempfile.TemporaryDirectory() as build:
        driver = filled("moses/moses_run.cpp.in", {}, prefix)
        library = compiled(driver, Path(build), CXX, target="moses", what="feature function", flags=(f"-I{folder}",))
        out = np.zeros(nbest.n_occurrences)
        texts = UnitArrays.of(nbest.units, nbest.source)
        hyps = _long(nbest.unit_ptr), _long(nbest.sent_of_hyp)
        occurrences = _long(nbest.unit_idx), _long(nbest.src_start), _long(nbest.units.src_len)
        numbers = np.ascontiguousarray(_scores(model_file, nbest, places)), np.array(weights, np.float64), out
        n_sentences, n_units, n_hyps = map(ctypes.c_long, (len(nbest), nbest.n_units, nbest.n_hyps))
        library.run.restype = ctypes.c_char_p
        lists = *texts.pointers, n_sentences, n_units, *pointers(*hyps), n_hyps, *pointers(*occurrences, *numbers)
        failed = library.run(str(model_file).encode(), *lists)
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


def verify(model: Model, written: list[Path], context: Context) -> Check:
    job = MosesJob(model, context)
    if job.is_plain:
        return Check(len(model.weights), "weights", linear_difference(job, written))
    if job.parts.table is None:
        return check_source(job, written)
    table = check_table(job, written)
    if job.parts.function is None:
        return table
    source = check_source(job, written)
    worst = float(np.maximum(table.difference, source.difference))  # NaN stays NaN
    return replace(table, difference=worst, note=f"{table.note}; {source.note}")


def carries(model: Model, context: Context) -> str:
    job = MosesJob(model, context)
    if job.is_plain:
        return f"has {counted(len(model.weights), 'weight')} for a stock Moses"
    parts = job.parts
    held = parts.table and named_parts(replace(parts.table, weights=job.table_weights.other))
    table = f"a phrase table with {held or 'inputs of the feature function'} for a stock Moses" if parts.table else ""
    function = f"a feature function, which Moses is built with, of {named_parts(parts.function)}" if parts.function else ""
    return f"has {' and '.join(filter(None, (table, function)))}"


EXPORTER = Exporter(write, verify, carries, uses=USES, folder=True)
