"""What trees add to a phrase table: more scores, or sparse features that have a weight for every leaf.

The loader of Moses takes the logarithm of every score, in single precision, and floors it at -100: what is to come out as v is
written as exp(v). Sparse features are taken as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.arrays import F64
from ...core.errors import InputError
from ...core.strings import Strings
from ...features.dense import count_features
from ...formats.moses.labels import score_names
from ...formats.moses.phrase_table import ALIGNMENT, SCORES, SOURCE, SPARSE, TARGET, Entries, read_entries, spliced
from ...lists.nbest import strings
from ...model.model import unit_table
from ...trees.tree import Table, Tree
from ..phrase_pairs import PairFeatures, factors
from .numbers import number_rows

if TYPE_CHECKING:
    from ...features import FeaturePlan

LEAST, MOST = -87.3, 88.7  # exp(v) is a normal number in single precision; others lose digits, or become 0 or infinite
COUNT_NAMES = frozenset(count_features(np.zeros(0)))  # entries bring their counts: no lookup by phrases, as for lists
_PENALTY = re.compile(r"(WordPenalty|PhrasePenalty|UnknownWordPenalty)\d*")

Value = Callable[[Table], F64]


@dataclass(frozen=True)
class EntryFeatures:
    """How the features that trees look at come from a line: its scores, Moses' penalties, and static templates."""

    pairs: PairFeatures
    n_scores: int  # that the features are computed from; a table may have more

    @classmethod
    def of(cls, names: Collection[str], producer: str, n_scores: int, vocab: FeaturePlan | None = None) -> EntryFeatures:
        """For these names; ``producer`` is the feature function whose scores the table holds, as TranslationModel0."""
        asked = {*names, *factors(names, vocab)}
        own = sorted(name for name in asked if _PENALTY.fullmatch(name) or name in COUNT_NAMES)
        return cls(PairFeatures.of(names, (*score_names(producer, n_scores), *own), vocab), n_scores)

    def table(self, entries: Entries) -> Table:
        """Rows of features; one row more than there are entries, see PairFeatures.compute."""
        own = self.pairs.own[self.n_scores :]
        x = np.empty((len(entries), len(self.pairs.own)))
        x[:, : self.n_scores] = entries.logs(np.float32)[:, : self.n_scores]
        counts = count_features(entries.joint_counts()) if COUNT_NAMES & set(own) else {}
        for k, name in enumerate(own, self.n_scores):
            x[:, k] = counts[name] if name in counts else _penalty(name, entries)
        nothing = strings([""] * len(entries))
        src, tgt, align = (entries.texts(f) if self.pairs.vocab.entries else nothing for f in (SOURCE, TARGET, ALIGNMENT))
        return unit_table(self.pairs.compute(x, src=src, tgt=tgt, align=align))


def _penalty(name: str, entries: Entries) -> F64 | float:
    """Moses' penalties of an entry: minus its target words, 1 a phrase, and 0, since what a table has is not unknown."""
    if name.startswith("WordPenalty"):
        return -entries.words(TARGET)
    return 1.0 if name.startswith("PhrasePenalty") else 0.0


class Columns(Protocol):
    """What is added to the lines of a table."""

    @property
    def field(self) -> int:
        """Behind the content of which field."""
        ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def what(self) -> str:
        """What they are, for people."""
        ...

    def texts(self, table: Table, place: Callable[[int], str]) -> Strings:
        """[n] what is added to each row; ``place`` names a row in errors."""
        ...


@dataclass(frozen=True)
class Scores:
    """Named scores, each a function of the features, written as exp(v)."""

    names: tuple[str, ...]
    values: tuple[Value, ...]
    field: int = SCORES
    what: str = "scores, each written as exp(value)"

    def texts(self, table: Table, place: Callable[[int], str]) -> Strings:
        values = np.stack([value(table) for value in self.values])  # [k, n]
        outside = ~((values >= LEAST) & (values <= MOST))
        if outside.any():
            row, k = np.argwhere(outside.T)[0]
            raise InputError(
                f"{place(int(row))}: {self.names[k]}: expected a value from {LEAST} to {MOST}, whose exponential Moses can read, "
                f"found {values[k, row]:.6g}; use --columns leaves, which writes values as they are"
            )
        return number_rows(np.exp(values).T)


@dataclass(frozen=True)
class Leaves:
    """Sparse features, one a leaf: 1 for constant leaves, x[on] for slopes, and beside it 1 for an intercept."""

    trees: tuple[Tree, ...]
    linear: Value | None = None  # the weighted sum of static features that Moses does not have
    field: int = SPARSE
    what: str = "sparse features, in the sixth field"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.weights())

    def weights(self) -> dict[str, float]:
        """Of the sparse features, without the name of the feature function."""
        out = {}
        for tree in self.trees:
            for leaf in tree.leaves.tolist():
                out[f"{tree.name}.{leaf}"] = tree.weight * float(tree.value[leaf])
                if tree.leaf == "affine":
                    out[f"{tree.name}.{leaf}.1"] = tree.weight * float(tree.intercept[leaf])
        return {**out, **({"linear": 1.0} if self.linear else {})}

    def texts(self, table: Table, place: Callable[[int], str]) -> Strings:
        on = {tree.on for tree in self.trees}
        values = {name: np.ones(len(table)) if name is None else table.column(name) for name in on}
        numbers = {name: number_rows(column[:, None]) for name, column in values.items()}  # once for all trees on a feature
        columns = []
        for tree in self.trees:
            names = [f"{tree.name}.{node}" for node in range(len(tree.feature))]
            if tree.leaf == "affine":
                names = [f"{name}.1 1 {name}" for name in names]
            columns += [strings(names).take(pa.array(tree.leaf_of(table))), numbers[tree.on]]
        if self.linear is not None:
            columns += [strings(["linear"] * len(table)), number_rows(self.linear(table)[:, None])]
        return pc.binary_join_element_wise(*columns, pa.scalar(" ", pa.large_string()))


def augment_table(
    path: str | Path,
    stream: IO[bytes] | GzipFile,
    features: EntryFeatures,
    columns: Columns,
    report: Callable[[int], None] = lambda n: None,
) -> int:
    """Write a table with more scores or sparse features; all else stays as it is. Gives the number of entries."""
    n = 0
    written: Future[int] | None = None
    with ThreadPoolExecutor(1) as writer:  # compression releases the GIL: it overlaps with the next chunk
        for entries in read_entries(path):
            texts = columns.texts(features.table(entries), entries.place)[: len(entries)]
            lines = spliced(entries, columns.field, texts)
            if written is not None:
                written.result()
            written = writer.submit(stream.write, lines)
            n += len(entries)
            report(n)
        if written is not None:
            written.result()
    return n
