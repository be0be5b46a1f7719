"""The units of a level, and how hypotheses are made of them: the matrices A and X."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.arrays import F64, I32, I64, occurrences
from ..core.errors import InputError
from ..core.feature_table import FeatureTable
from ..core.prefixes import Prefixes
from ..lists.nbest import NBest
from .model import hypothesis_table, unit_table
from .model_file import Level


@dataclass(frozen=True)
class UnitSpace:
    """The units of a level: their features, and how hypotheses are made of them. Global is local with A = I."""

    hyp_ptr: I64 | None  # [S+1] lists, whose hypotheses begin alike; None: A = I
    unit_ptr: I64  # [H+1]
    unit_idx: I32  # [R]
    table: FeatureTable  # X [V, D], and the sparse features
    threads: int = 1  # of sums; they do not depend on it

    @classmethod
    def of(cls, nbest: NBest, level: Level, *, threads: int = 1) -> UnitSpace:
        n = nbest.n_hyps
        if level == "global":
            return cls(None, np.arange(n + 1), np.arange(n, dtype=np.int32), hypothesis_table(nbest), threads)
        if n and not nbest.n_occurrences:
            raise InputError(
                "expected a list with units (phrases) for level local, found none; import one that has them, or use level global"
            )
        return cls(nbest.hyp_ptr, nbest.unit_ptr, nbest.unit_idx, unit_table(nbest), threads)

    def __len__(self) -> int:
        """H"""
        return len(self.unit_ptr) - 1

    @cached_property
    def _prefixes(self) -> Prefixes | None:
        """Made for the first sum, in the time of some ten of them; there are as many as trees."""
        return None if self.hyp_ptr is None else Prefixes.of(self.hyp_ptr, self.unit_ptr, self.unit_idx, threads=self.threads)

    def sum(self, unit_values: F64) -> F64:
        """A F [H]: hypothesis scores of unit scores [V]."""
        return unit_values + 0.0 if self._prefixes is None else self._prefixes.sum(unit_values, threads=self.threads)

    def spread_of(self, hyps: I64) -> Callable[[F64], F64]:
        """g [L] -> A' g [V]: what these hypotheses, which rise, ask of each unit, for g on a grid (growing_kernels.on_grid)."""
        if self._prefixes is None:
            return lambda g: _put(g, hyps, len(self.table))
        some = self._prefixes.some(hyps, threads=self.threads)
        return lambda g: some.spread(g, len(self.table), threads=self.threads)

    def for_trees(self, names: Collection[str]) -> FeatureTable:
        """Of its features these; where none are named, the dense ones, or the sparse ones of a list without."""
        table, wanted = self.table, set(names or self.table.sparse_names)
        if not names and (len(table.names) or not wanted):
            return FeatureTable(table.names, table.x)
        if unknown := sorted(wanted - set(table.all_names)):
            raise InputError(f"tree features: expected features of the list, found {unknown[0]!r}; see 'boostfeat info'")
        dense = [j for j, name in enumerate(table.names) if name in wanted]
        sparse = [j for j, name in enumerate(table.sparse_names) if name in wanted]
        return FeatureTable(
            [table.names[j] for j in dense],
            table.x[:, dense],
            table.sparse[:, sparse] if sparse else None,
            [table.sparse_names[j] for j in sparse],
        )

    def counts(self) -> F64:
        """c [V]: occurrences of each unit."""
        return occurrences(self.unit_idx, len(self.table))


def _put(values: F64, at: I64, n: int) -> F64:
    """[n] values at these places, 0 elsewhere."""
    out = np.zeros(n)
    out[at] += values  # which makes -0 a 0
    return out
