"""The units of a level, and how hypotheses are made of them: the matrices A and X."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from ..core.arrays import F64, I32, I64, add_segment_sums, in_ranges, scatter_segments
from ..core.errors import InputError
from ..core.feature_table import FeatureTable
from ..lists.nbest import NBest
from .model import check_units, hypothesis_table, unit_table
from .model_file import Level


@dataclass(frozen=True)
class UnitSpace:
    """The units of a level: their features, and how hypotheses are made of them. Global is local with A = I."""

    unit_ptr: I64  # [H+1]
    unit_idx: I32  # [R]
    table: FeatureTable  # X [V, D], and the sparse features
    threads: int = 1  # of sums; they do not depend on it

    @classmethod
    def of(cls, nbest: NBest, level: Level, *, threads: int = 1) -> UnitSpace:
        n = nbest.n_hyps
        if level == "global":
            return cls(np.arange(n + 1), np.arange(n, dtype=np.int32), hypothesis_table(nbest), threads)
        check_units(nbest)
        return cls(nbest.unit_ptr, nbest.unit_idx, unit_table(nbest), threads)

    def __len__(self) -> int:
        """H"""
        return len(self.unit_ptr) - 1

    def sum(self, unit_values: F64) -> F64:
        """A F [H]: hypothesis scores of unit scores [V]."""
        out = np.zeros(len(self))

        def part(some: slice) -> None:
            add_segment_sums(self.unit_ptr[some.start : some.stop + 1], self.unit_idx, unit_values, out[some])

        in_ranges(part, len(self), self.threads)
        return out

    def spread_of(self, hyps: I64) -> Callable[[F64], F64]:
        """g [L] -> A' g [V]: what hypotheses ask of each unit, of g on a grid (trees.growing.on_grid), whose sums are exact."""

        def spread(g: F64) -> F64:
            values = np.zeros(len(self))
            values[hyps] = g

            def part(some: slice) -> F64:
                ptr = self.unit_ptr[some.start : some.stop + 1]
                return scatter_segments(ptr, self.unit_idx, values[some], len(self.table))

            total, *others = in_ranges(part, len(self), self.threads)
            for other in others:
                total += other
            return total

        return spread

    def for_trees(self, names: Collection[str]) -> FeatureTable:
        """Select features for trees; where none are named, the dense ones, or the sparse ones of a list without."""
        table, wanted = self.table, set(names or self.table.sparse_names)
        if not names and (len(table.names) or not wanted):
            return FeatureTable(table.names, table.x)
        if unknown := sorted(wanted - set(table.all_names)):
            raise InputError(f"tree features: expected features of the list, found {unknown[0]!r}; see 'boostfeat info'")
        dense = [j for j, name in enumerate(table.names) if name in wanted]
        sparse = [j for j, name in enumerate(table.sparse_names) if name in wanted]
        names, sparse_names = [table.names[j] for j in dense], [table.sparse_names[j] for j in sparse]
        return FeatureTable(names, table.x[:, dense], table.sparse[:, sparse] if sparse else None, sparse_names)

    def counts(self) -> F64:
        """c [V]: occurrences of each unit."""
        return scatter_segments(self.unit_ptr, self.unit_idx, np.ones(len(self)), len(self.table))
