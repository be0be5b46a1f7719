"""Computing templates on a run of sentences: each on its distinct keys only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import F64, I64, Array, offsets
from ..core.errors import InputError, clip
from ..core.strings import Strings
from ..lists.nbest import NBest, SparseRows, strings
from ..lists.words import concat, positions
from .context import Corpus, Rows
from .parts import Met, Part, PartOf
from .registry import Counted, Dense, Sparse, Tally, Template, described, keywords, place_in
from .vocab import Entry, full_name

_PART_OF: dict[str, PartOf] = {
    "pairs": "unit",
    "contexts": "occurrence",
    "occurrences": "occurrence",
    "hypotheses": "hypothesis",
}


@dataclass(frozen=True)
class Keys:
    """The distinct rows of some context, and which one each unit [V], occurrence [R] or hypothesis [H] has."""

    rows: Rows
    row_of: I64
    row_of_occurrence: I64  # [R]; for hypotheses the rows themselves
    sent_of_occurrence: I64

    @cached_property
    def counts(self) -> I64:
        """[n] occurrences of each row."""
        return np.bincount(self.row_of_occurrence, minlength=len(self.rows))

    @cached_property
    def by_sentence(self) -> sparse.csr_matrix:
        """[S, n] which rows a sentence's lists have."""
        n, s = max(len(self.rows), 1), int(self.sent_of_occurrence.max(initial=-1)) + 1
        keys = np.unique(self.sent_of_occurrence * n + self.row_of_occurrence)
        ptr = offsets(np.bincount(keys // n, minlength=s))
        return sparse.csr_matrix((np.ones(len(keys)), keys % n, ptr), shape=(s, len(self.rows)))


@dataclass(frozen=True)
class Crossing:
    """Blocks of sentences, and the entry of a template that each is computed with: what the other blocks teach."""

    block_of: I64  # [S] of the list
    entries: list[Entry]  # [B]


@dataclass
class Engine:
    """Computes templates on a run of sentences. The corpus has no references: no template knows those of its own sentence."""

    part: NBest  # the run as it is in the list
    corpus: Corpus
    units: I64 | None = None  # [V] which units of the list those of the run are; None: the run is all of it
    present: bool = False  # of a frozen plan's sparse features, those that occur
    first: int = 0  # which sentence of the list the first of the run is
    _keys: dict[object, Keys] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return self.units is None

    def of_list(self, units: Array) -> I64:
        """Which units of the list some of the run are."""
        return units if self.units is None else self.units[units]

    def keys_of(self, template: Template, crossing: Crossing | None = None) -> Keys:
        """Return the rows that a template sees; templates that read the same share them. Crossed ones differ by sentence."""
        if crossing is not None and template.rows_are in ("pairs", "contexts"):
            return self._rows("contexts", tuple(dict.fromkeys([*template.columns, "sent"])))
        return self._rows(template.rows_are, template.columns)

    def _rows(self, what: str, columns: tuple[str, ...]) -> Keys:
        corpus, nb = self.corpus, self.corpus.nbest
        key = columns if what == "contexts" else what
        if key not in self._keys:
            if what == "hypotheses":
                rows, row_of = corpus.hyp_rows()
                self._keys[key] = Keys(rows, row_of, row_of, nb.sent_of_hyp)
            elif what == "pairs":
                rows, row_of = corpus.pair_rows()
                self._keys[key] = Keys(rows, row_of, row_of[nb.unit_idx], corpus.sent_of_occurrence)
            else:
                rows, row_of = corpus.all_rows() if what == "occurrences" else corpus.occurrence_rows(columns)
                self._keys[key] = Keys(rows, row_of, row_of, corpus.sent_of_occurrence)
        return self._keys[key]

    def forget(self, template: Template, later: Iterable[Template]) -> None:
        """Let go of the rows that a template saw, unless one of those to come sees them, too."""
        if _kind_of_rows(template) not in map(_kind_of_rows, later):
            self._keys.pop(_kind_of_rows(template), None)
        if template.rows_are == "pairs":
            self._keys.pop((*template.columns, "sent"), None)  # of a crossed one

    def count(self, template: Template, learn: Counted, entry: Entry) -> dict[str, Tally]:
        """What this run adds to what a template learns."""
        reads_features = any(what.endswith("features") for what in template.reads)
        keys = self.keys_of(template) if reads_features else self._rows("pairs", ())
        with blamed(template):
            return learn.count(keys.rows, keys.counts, **own_options(learn.count, entry))

    def compute(self, template: Template, entry: Entry, crossing: Crossing | None = None) -> Part | Met:
        """Features of the template: dense ones, or all sparse ones that this run has."""
        keys = self.keys_of(template, crossing)
        of = "occurrence" if crossing is not None and template.rows_are == "pairs" else _PART_OF[template.rows_are]
        with blamed(template):
            if crossing is None or not len(keys.rows):
                result = template.compute(keys.rows, **own_options(template.compute, entry))
            else:
                result = self._crossed(template, keys.rows, crossing)
            if isinstance(result, Sparse):
                return self._met(template, entry, keys, result)
            names, values = self._dense(template, entry, keys, result)
        return Part.made(of, names, values, keys.row_of)

    def _crossed(self, template: Template, rows: Rows, crossing: Crossing) -> Dense:
        """Columns whose rows of each block are computed with its own entry."""
        block = crossing.block_of[self.first + rows["sent"]]
        out: Dense = {}
        for b in np.unique(block).tolist():
            some = np.flatnonzero(block == b)
            found = template.compute(rows.take(some), **own_options(template.compute, crossing.entries[b]))
            assert isinstance(found, dict)
            for name, column in found.items():
                out.setdefault(name, np.zeros(len(rows)))[some] = column
        return out

    def features_of(self, template: Template, entry: Entry, crossing: Crossing | None = None) -> Part:
        """Features of a template whose names are known."""
        found = self.compute(template, entry, crossing)
        return found if isinstance(found, Part) else found.kept(*self._places(entry, found.names[0]))

    def _dense(self, template: Template, entry: Entry, keys: Keys, result: Dense) -> tuple[tuple[str, ...], F64]:
        where = f"{template.place}template {template.name!r}"
        if not isinstance(result, dict):
            raise InputError(
                f"{where}: expected a dict of columns or Sparse, found {type(result).__name__}; correct the function"
            )
        names = tuple(result) if entry.features is None else entry.features
        x = np.zeros((len(keys.rows), len(names)))
        for k, name in enumerate(names):
            if name in result:
                column = _numbers(result[name], f"{where}: {name}")
                if column.shape != (len(keys.rows),):
                    raise InputError(
                        f"{where}: {name}: expected {len(keys.rows)} values, found {column.shape}; correct the function"
                    )
                x[:, k] = column
        if not np.isfinite(x).all():
            name = names[int(np.argmin(np.isfinite(x).all(axis=0)))]
            raise InputError(f"{where}: {name}: expected finite numbers, found NaN or infinity; correct the function or the list")
        x += 0.0  # -0.0 becomes 0.0
        return names, x

    def _met(self, template: Template, entry: Entry, keys: Keys, result: Sparse) -> Met:
        """Names with the template's before them, equal ones merged; where they are to be learnt, sentences that have each."""
        names = full_names(template.name, result.names, entry.hash_bits).dictionary_encode()
        which, known = names.indices.to_numpy(zero_copy_only=False).astype(np.int64), names.dictionary
        shape = len(keys.rows), len(known)
        rows = SparseRows.of_entries(result.row, which[result.idx], np.ones(len(result.row)), shape)
        sentences = np.zeros(0, np.int64)
        if entry.features is None:
            sentences = np.bincount((keys.by_sentence @ rows.matrix(len(known))).indices, minlength=len(known))
        return Met(_PART_OF[template.rows_are], (known, sentences), rows, keys.row_of.astype(np.int32))

    def _places(self, entry: Entry, names: Strings) -> tuple[tuple[str, ...], I64]:
        """The features of a frozen entry, and where each name stands among them, -1 if it does not."""
        features = entry.features or ()
        if not self.present and len(features) < len(names):
            return features, positions(names, strings(features))
        # few names among many features: these are looked up in a table that is made once, not for every run
        place = np.array([entry.places.get(name, -1) for name in names.to_pylist()], np.int64)
        if self.present:
            found = np.sort(place[place >= 0])
            features = tuple(features[j] for j in found.tolist())
            place = np.where(place >= 0, np.searchsorted(found, place), -1)
        return features, place


def own_options(function: Callable[..., Any], entry: Entry) -> dict[str, Any]:
    """Those of the entry's options that a function of the template takes."""
    return {name: value for name, value in entry.options.items() if name in keywords(function)}


def _kind_of_rows(template: Template) -> object:
    """Templates of one kind see the same rows."""
    return template.columns if template.rows_are == "contexts" else template.rows_are


def _numbers(column: object, where: str) -> F64:
    try:
        return np.asarray(column, np.float64)
    except (ValueError, TypeError):
        raise InputError(f"{where}: expected a column of numbers, found {clip(repr(column))}; correct the function") from None


@contextlib.contextmanager
def blamed(template: Template) -> Iterator[None]:
    """An error in a template, which may be the user's own or have been given wrong options, as one line."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        where = place_in(template.compute.__code__.co_filename, error) if template.place else ""
        raise InputError(
            f"{where}template {template.name!r}: expected to run, found {described(error)}; check its options or function"
        ) from error


def full_names(template: str, names: Strings, hash_bits: int) -> Strings:
    """Names of sparse features with the template's before them, or as one of 2^bits numbers."""
    if hash_bits:
        return strings([full_name(template, name, hash_bits) for name in names.to_pylist()])
    return concat(f"{template}:", names)
