"""Regression trees as flat arrays: what boosting learns, the model file holds and a person reads [TA13 section 2.1].

Node 0 is the root and children come after their parents. ``x <= threshold`` goes left. A leaf gives ``value`` (constant),
``value * x[on]`` (linear) or ``intercept + value * x[on]`` (affine). A tree knows features by name and nothing of sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Annotated, Any, Protocol

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from ..core.arrays import F64, I32, in_ranges
from ..core.errors import FormatError, counted
from ..core.html import cell, shown, title
from ..core.kernels import kernel
from ..core.strict_json import typed
from .drawing import tree_svg
from .tree_options import LEAF_KINDS, LeafKind

DRAWN = 64  # leaves of a tree that is drawn, and lines of rules of a larger one
DEEPEST = 40  # levels that are indented in rules; deeper ones are numbered, or a deep tree would be megabytes of blanks
_SMALL, _ROWS = 31, 4096  # nodes of a small tree, and the rows that go down it at a time
_ZERO = 1e-30  # LightGBM writes 1e-35 for a threshold at 0


class TreeInput(Protocol):
    """Rows of named features, which trees can be evaluated on."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> F64:
        """[n] the values of a feature; zeros where the table has no such feature."""
        ...


_KEPT = 1 << 26  # bytes of columns


class Remembered:
    """A table that keeps the columns it was asked for last: for many trees in turn, which use few of its features."""

    def __init__(self, table: TreeInput) -> None:
        self.table, self.column = table, lru_cache(maxsize=_KEPT // max(1, 8 * len(table)))(table.column)

    def __len__(self) -> int:
        return len(self.table)


@kernel
def descend(columns, slot, threshold, left, right, first, last, out):  # type: ignore[no-untyped-def]
    """Find the leaves of rows first:last. IN columns[k, n], slot[n_nodes] (a node's row of columns); OUT out[n].

    Rows go down a small tree split by split, some at a time: there is nothing to guess, as there is in walking row by row.
    """
    small = len(left) <= _SMALL
    for start in range(first, last if small else first, _ROWS):
        part = out[start : min(start + _ROWS, last)]
        part[:] = 0
        for n in range(len(left)):  # parents come before their children
            if left[n] >= 0:
                own, border, one, other = columns[slot[n], start : start + len(part)], threshold[n], left[n], right[n]
                for r in range(len(part)):
                    below = one if own[r] <= border else other
                    part[r] = below if part[r] == n else part[r]
    for r in range(last if small else first, last):
        node = 0
        while left[node] >= 0:
            node = left[node] if columns[slot[node], r] <= threshold[node] else right[node]
        out[r] = node


def leaf_outputs(leaf_of: I32, *, value: F64, intercept: F64, x: F64 | None, threads: int = 1) -> F64:
    """h [n] of rows in these leaves [n]: b, or a + b x with the values x [n] of the tree's own feature."""
    out = np.empty(len(leaf_of))

    def fill(some: slice) -> None:
        own = leaf_of[some]
        np.take(value, own, out=out[some], mode="clip")  # to raise, it would copy
        if x is not None:
            out[some] *= x[some]
            out[some] += intercept[own]

    in_ranges(fill, len(out), threads)
    return out


_Child = Annotated[int, Meta(gt=0, lt=1 << 31)]
_FIX = "repair the model file or write it again"


class NodeRecord(Struct, forbid_unknown_fields=True):
    """A node in the model file: a split, or a leaf with its value."""

    feature: str | UnsetType = UNSET
    threshold: float | UnsetType = UNSET
    left: _Child | UnsetType = UNSET
    right: _Child | UnsetType = UNSET
    intercept: float | UnsetType = UNSET
    value: float | UnsetType = UNSET


class TreeRecord(Struct, forbid_unknown_fields=True, kw_only=True):
    """A tree in the model file."""

    name: str
    weight: float
    leaf: LeafKind
    on: str | UnsetType | None = UNSET
    nodes: Annotated[list[NodeRecord], Meta(min_length=1)]


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree feature h(x) with its weight ρ. Arrays are over nodes; equal trees have equal JSON."""

    name: str
    weight: float
    leaf: LeafKind
    on: str | None  # the feature that linear and affine leaves multiply
    feature: tuple[str, ...]  # of internal nodes, "" at leaves
    threshold: F64
    left: I32  # -1 at leaves
    right: I32
    value: F64  # b of each leaf, 0 at internal nodes
    intercept: F64 = field(default_factory=lambda: np.zeros(0))  # a of each affine leaf; empty means 0 everywhere

    def __post_init__(self) -> None:
        """Check everything once; all code after this may trust it."""
        n = len(self.feature)
        if not len(self.intercept):
            object.__setattr__(self, "intercept", np.zeros(n))
        if self.leaf not in LEAF_KINDS:
            raise ValueError(f"leaf: expected one of {', '.join(LEAF_KINDS)}, found {self.leaf!r}")
        if (self.on is None) != (self.leaf == "constant"):
            raise ValueError(
                f"on: expected a feature for linear and affine leaves only, found {self.on!r} for {self.leaf} leaves"
            )
        for what in ("threshold", "left", "right", "value", "intercept"):
            array = getattr(self, what)
            if len(array) != n:
                raise ValueError(f"{what}: expected {counted(n, 'node')}, found {len(array)}")
            if not np.isfinite(array).all():
                raise ValueError(f"{what}: expected finite numbers, found {array[~np.isfinite(array)][0]}")
        if not isfinite(self.weight):
            raise ValueError(f"weight: expected a finite number, found {self.weight}")
        if self.leaf != "affine" and self.intercept.any():
            raise ValueError(f"intercept: expected 0 for {self.leaf} leaves, found {self.intercept[self.intercept != 0][0]}")
        _check_links(self.left, self.right)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    # -- shape -------------------------------------------------------------------------------------------------------

    @property
    def leaves(self) -> I32:
        """Node indices of the leaves."""
        return np.flatnonzero(self.left < 0).astype(np.int32)

    @property
    def n_leaves(self) -> int:
        return len(self.leaves)

    def __repr__(self) -> str:
        over = ", ".join(sorted(self.features())) or "nothing"
        return f"Tree({self.name!r}, {counted(self.n_leaves, 'leaf')} over {over}, weight {self.weight:.4g})"

    def features(self) -> set[str]:
        """The names of all features the tree looks at."""
        return {*self._tests, *([] if self.on is None else [self.on])}

    @property
    def _tests(self) -> list[str]:
        """The features of inner nodes, each once."""
        return list(dict.fromkeys(f for f, child in zip(self.feature, self.left, strict=True) if child >= 0))

    # -- prediction --------------------------------------------------------------------------------------------------

    def leaf_of(self, table: TreeInput) -> I32:
        """[n] the leaf (a node index) of each row."""
        slots = {name: k for k, name in enumerate(self._tests)}
        columns, out = np.empty((len(slots), len(table))), np.empty(len(table), np.int32)
        for name, k in slots.items():
            columns[k] = table.column(name)
        slot = np.array([slots.get(name, 0) for name in self.feature])
        descend(columns, slot, self.threshold, self.left, self.right, 0, len(out), out)
        return out

    def predict(self, table: TreeInput) -> F64:
        """h(x) [n], without the weight."""
        x = None if self.on is None else table.column(self.on)
        return leaf_outputs(self.leaf_of(table), value=self.value, intercept=self.intercept, x=x)

    # -- for people --------------------------------------------------------------------------------------------------

    def rules(self, notes: Mapping[int, str] | None = None) -> str:
        """The tree as a person would write it: one line for up to two leaves, an indented block for more.

        ``notes`` (by node) stand in brackets behind the leaves.
        """
        notes = notes or {}
        weight = f"weight {_decimal(self.weight)}"
        if self.n_leaves == 1:
            return f"{self._leaf_rule(0, notes)}, {weight}"
        if self.n_leaves == 2:
            left, right = self._leaf_rule(self.left[0], notes), self._leaf_rule(self.right[0], notes)
            return f"if {self._test(0)}: {left} else {right}, {weight}"
        lines = []
        todo = [(0, 0, "")]  # (node, depth, what stands before it); a stack, since depth has no bound
        while todo:
            node, depth, head = todo.pop()
            indent = "    " * depth if depth <= DEEPEST else f"{'    ' * DEEPEST}({depth}) "
            if self.left[node] < 0:
                lines.append(f"{indent}{head} {self._leaf_rule(node, notes)}")
                continue
            if head:
                lines.append(indent + head)
                depth += 1
            todo.append((int(self.right[node]), depth, "else:"))
            todo.append((int(self.left[node]), depth, f"if {self._test(node)}:"))
        return "\n".join([*lines, weight])

    def _test(self, node: int) -> str:
        t = float(self.threshold[node])
        return f"{_shown(self.feature[node])} <= {0.0 if abs(t) < _ZERO else t:.4g}"

    def _leaf_rule(self, node: int, notes: Mapping[int, str]) -> str:
        b, a = float(self.value[node]), float(self.intercept[node])
        note = f" [{notes[int(node)]}]" if int(node) in notes else ""
        if self.on is None:
            return _decimal(b) + note
        if self.leaf == "linear":
            return f"{_decimal(b)} * {_shown(self.on)}{note}"
        return f"{_decimal(a)} {'-' if b < 0 else '+'} {_decimal(abs(b))} * {_shown(self.on)}{note}"

    def _repr_html_(self) -> str:
        return cell(self.card())

    def card(self, shares: Mapping[int, float] | None = None, note: str = "") -> str:
        """The tree in HTML: its name and weight, its drawing with these shares of rows by leaf, or its rules if it is large."""
        weight = f"weight {_decimal(self.weight)}{f' · x is {self.on}' if self.on else ''}{note}"
        if self.n_leaves <= DRAWN:
            return title(self.name, weight) + tree_svg(self, shares)
        lines = self.rules().split("\n")
        rules = "\n".join(shown(line, 1000) for line in lines[:DRAWN])
        return f"{title(self.name, weight)}<pre>{rules}\n… {len(lines) - DRAWN:,} more lines</pre>"

    # -- the model file ----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the object in the model file's list of trees."""
        columns = (column.tolist() for column in (self.threshold, self.left, self.right, self.intercept, self.value))
        nodes = [
            NodeRecord(feature, threshold, left, right)
            if left >= 0
            else NodeRecord(intercept=intercept if self.leaf == "affine" else UNSET, value=value)
            for feature, threshold, left, right, intercept, value in zip(self.feature, *columns, strict=True)
        ]
        record = TreeRecord(
            name=self.name, weight=float(self.weight), leaf=self.leaf, on=UNSET if self.on is None else self.on, nodes=nodes
        )
        out: dict[str, Any] = to_builtins(record)
        return out

    @classmethod
    def from_json(cls, obj: object, where: str) -> Tree:
        """Return the tree of an object of the model file; ``where`` is its place for errors, as in ``model.json: trees[3]``."""
        return cls.from_record(typed(obj, TreeRecord, where, fix=_FIX), where)

    @classmethod
    def from_record(cls, record: TreeRecord, where: str) -> Tree:
        nodes, leaf_keys = record.nodes, {"value", "intercept"} if record.leaf == "affine" else {"value"}
        split_keys = {"feature", "threshold", "left", "right"}
        for i, keys in enumerate(map(set, map(to_builtins, nodes))):
            if keys not in (leaf_keys, split_keys):
                expected = f"the keys {', '.join(sorted(leaf_keys))} or {', '.join(sorted(split_keys))}"
                found = ", ".join(sorted(keys)) or "none"
                raise FormatError(f"{where}.nodes[{i}]", expected=expected, found=found, fix=_FIX)

        def column(name: str, absent: Any) -> list[Any]:
            return [absent if (value := getattr(node, name)) is UNSET else value for node in nodes]

        try:
            return cls(
                name=record.name,
                weight=record.weight,
                leaf=record.leaf,
                on=None if record.on is UNSET else record.on,
                feature=tuple(column("feature", "")),
                threshold=np.array(column("threshold", 0.0)),
                left=np.array(column("left", -1), np.int32),
                right=np.array(column("right", -1), np.int32),
                value=np.array(column("value", 0.0)),
                intercept=np.array(column("intercept", 0.0)),
            )
        except ValueError as error:
            raise FormatError(where, expected="a tree", found=str(error), fix=_FIX) from None


def _check_links(left: I32, right: I32) -> None:
    """Raise for the first link that does not make a tree with children after their parents."""
    n, parents = len(left), Counter[int]()
    if not n:
        raise ValueError("node 0: expected at least one node, found none")
    for i, children in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        if children != (-1, -1):
            if not all(i < child < n for child in children):
                raise ValueError(
                    f"node {i}: expected two children from {i + 1} to {n - 1}, found {children[0]} and {children[1]}"
                )
            parents.update(children)
    for i in range(1, n):
        if parents[i] != 1:
            raise ValueError(f"node {i}: expected one parent, found {parents[i]}")


def _shown(name: str) -> str:
    return name if name.isprintable() and name and " " not in name else repr(name)


def _decimal(x: float) -> str:
    """Four digits; a whole number keeps its point: a slope of 2 is 2.0."""
    text = f"{x:.4g}"
    return text + ".0" if text.lstrip("-").isdigit() else text
