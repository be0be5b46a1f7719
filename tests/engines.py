"""Engines for tests of the boosting loop: one that has no lists, and one that tells what another is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from boostfeat.model.model import Model
from boostfeat.trees.tree import Tree

NOTHING = [np.array([-1]), np.array([-1])]  # the children of a single leaf


def one_leaf(name: str = "tree", *, on: str | None = None, weight: float = 1.0, value: float = 1.0) -> Tree:
    """A tree of one leaf: constant, or value · x[on]."""
    return Tree(name, weight, "linear" if on else "constant", on, ("",), np.zeros(1), *NOTHING, np.array([value]))


class Spoken:
    """An engine without lists: it gives these trees, this ρ, and keeps what it is asked, in order."""

    drawn = -1

    def __init__(self, trees: Sequence[Tree | None], rho: float = 2.0) -> None:
        self.trees, self.rho, self.asked = trees, rho, list[tuple[Any, ...]]()

    def first_weights(self) -> dict[str, float]:
        self.asked.append(("first_weights",))
        return {"LM0": 1.0}

    def load(self, model: Model) -> None:
        self.asked.append(("load", len(model.trees)))

    def add(self, tree: Tree) -> None:
        self.asked.append(("add", tree.name))

    def train(self, m: int) -> None:
        self.drawn = m
        self.asked.append(("train", m))

    def grow(self, m: int) -> tuple[Tree, float] | None:
        self.asked.append(("grow", m))
        tree = self.trees[m - 1]
        return None if tree is None else (tree, 10.0 * m)

    def line_search(self) -> float:
        self.asked.append(("line_search",))
        return self.rho

    def move(self, rho: float, m: int) -> tuple[float, list[int]]:
        self.asked.append(("move", rho, m))
        return 0.25, [7]

    def row(self) -> tuple[float, float]:
        self.asked.append(("row",))
        return 0.5, 30.0

    def effects(self, model: Model) -> dict[str, float]:
        self.asked.append(("effects",))
        return dict.fromkeys(model.weights, 0.125)


class Told:
    """Another engine, and the names and rounds of what it is asked."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.asked = engine, list[tuple[Any, ...]]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        return self._telling(name, found) if callable(found) else found

    def _telling(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            self.asked.append((name, *(a for a in arguments if isinstance(a, int))))
            return method(*arguments)

        return ask
