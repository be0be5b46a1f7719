"""Whether what Moses will compute equals what this library computes, on the phrases of a list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.arrays import F64, I64, Bool
from ...core.errors import InputError, counted
from ...core.feature_table import FeatureTable
from ...core.strings import Strings
from ...core.text import split_words
from ...formats.moses.ini import Ini
from ...formats.moses.phrase_table import SOURCE, TARGET, read_entries
from ...formats.moses.weights import read_weights
from ...lists.nbest import NBest
from ...lists.words import concat, positions
from ...model.model import Model, tree_scores, unit_table
from .. import Check, Context
from ..c import PREFIX
from ..kinds import tested_features
from ..verify import difference
from .run import run_model
from .weights import MosesWeights
from .writing import TABLE, WEIGHTS, Parts, TablePlan, function_weights, given_ini, known_features, linear_value

BAR = " ||| "
NOISE = 1e-3  # relative; a list has six digits, and its phrases' scores are differences of sums in single precision


def check_source(model: Model, written: list[Path], context: Context) -> Check:
    """What the feature function adds, phrase by phrase in the order of each hypothesis; Moses itself is not there to ask."""
    prefix, columns, nbest = context.options.prefix or PREFIX, context.options.columns or "trees", context.rows
    parts = Parts.of(model, context)
    inner = parts.function or Model({})
    places = {}
    if parts.table is not None:
        of_table = TablePlan.of(parts, context, given_ini(context)).places()
        places = {name: of_table[name] for name in parts.inputs}
    folder = next(path for path in written if path.name == f"{prefix}.model").parent
    found = run_model(folder, prefix, nbest, function_weights(inner, columns), places)
    expected = nbest.weigh(dict(inner.weights))[0] + tree_scores(inner.trees, unit_table(nbest))
    worst = difference(found, expected[nbest.unit_idx])
    weights = linear_difference(model, written, context)
    note = "the feature function's source, on phrases in their order, and the ini's weights"
    return Check(nbest.n_occurrences, "phrases", float(np.maximum(worst, weights)), 1e-6, note)


def check_weights(model: Model, written: list[Path], context: Context) -> Check:
    """The weights alone."""
    return Check(len(model.weights), "weights", linear_difference(model, written, context), 1e-6)


def linear_difference(model: Model, written: list[Path], context: Context) -> float:
    """max |λ in the ini and the file of sparse weights − λ of the model|, over all features that Moses has itself."""
    files = {path.name: path for path in written}
    own = MosesWeights.of(model, known_features(context))
    ini = Ini.read(files["moses.ini" if context.options.ini else "moses.ini.lines"]).weights()
    sparse = read_weights([files[WEIGHTS]]) if WEIGHTS in files else {}
    pairs = [(a, b) for name, values in own.dense.items() for a, b in zip(ini.get(name, []), values, strict=False)]
    pairs += [(sparse[name], weight) for name, weight in own.sparse.items()]
    return max((abs(a - b) for a, b in pairs), default=0.0)


@dataclass(frozen=True)
class _Pairs:
    """The distinct phrase pairs of a list, and what was found about them in a table. NaN: the table does not have it."""

    names: Strings  # [P] source ||| target
    of_unit: I64  # [V]
    added: F64  # [P] what the new scores add to the model's score, as written
    single: F64  # [P] the same in Moses' single precision
    expected: F64  # [P] the model's trees, and its weights of features that Moses does not have
    x: F64  # [P, len(tested)] features that trees look at

    @classmethod
    def of(cls, nbest: NBest, n_tested: int) -> _Pairs:
        encoded = concat(nbest.units.src, BAR, nbest.units.tgt).dictionary_encode()
        n = len(encoded.dictionary)
        of_unit = np.asarray(encoded.indices).astype(np.int64)
        added, single, expected = np.full((3, n), np.nan)
        return cls(encoded.dictionary, of_unit, added, single, expected, np.full((n, n_tested), np.nan))

    @property
    def is_known(self) -> Bool:
        """[V] whether the table has the phrase pair of a unit."""
        return ~np.isnan(self.expected[self.of_unit])


def check_table(model: Model, written: list[Path], context: Context) -> Check:
    """What the new table adds to the score of every distinct unit of the list, against the trees of the same entry.

    An entry's features must be those that the list has, up to the list's rounding. Phrases without an entry are unknown words.
    """
    nbest, files = context.rows, {path.name: path for path in written}
    parts = Parts.of(model, context)
    plan, part = TablePlan.of(parts, context, given_ini(context)), parts.table or Model({})
    ini = Ini.read(files["moses.ini" if context.options.ini else "moses.ini.lines"])
    n_scores, features = plan.n_scores, plan.features
    weights = np.array(ini.weights()[plan.producer][n_scores:])
    other = linear_value(MosesWeights.of(part, known_features(context)).other)
    tested = [name for name in (*tested_features(part), *parts.inputs) if name in nbest.unit_names]
    pairs = _Pairs.of(nbest, len(tested))

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
        context.on_progress(int(entries.number[-1]), None, "verifying")
    _check_unknown(nbest, pairs)
    _check_features(nbest, pairs, tested)
    difference = float(np.nanmax(np.abs(pairs.added - pairs.expected), initial=linear_difference(model, written, context)))
    return Check(nbest.n_units, "distinct units", difference, 1e-6, _note(nbest, pairs, score(unit_table(nbest))))


def _check_unknown(nbest: NBest, pairs: _Pairs) -> None:
    """Moses copies or drops a word that no entry translates; any other phrase must have an entry."""
    for u in np.flatnonzero(~pairs.is_known).tolist():
        src, tgt = nbest.units.src[u].as_py(), nbest.units.tgt[u].as_py()
        if len(split_words(src)) != 1 or tgt not in (src, ""):
            raise InputError(
                f"--phrase-table: expected the phrases of the list, found no entry {src + BAR + tgt!r}; "
                "give the table that the list was decoded with"
            )


def _check_features(nbest: NBest, pairs: _Pairs, tested: list[str]) -> None:
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


def _note(nbest: NBest, pairs: _Pairs, listed: F64) -> str:
    """What differs for reasons that are not the export's: unknown words, a list's rounding, Moses' single precision."""
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
