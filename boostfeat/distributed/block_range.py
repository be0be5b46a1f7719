"""Some blocks of sentences on a worker: what they add to every sum that boosting and PRO are made of.

A worker has a part for each of its threads. Where a sum rounds, what a part gives is a list with an item for each of its blocks:
these are the same however many workers and threads there are. All other lists have one item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..boosting.boost_options import BoostOptions
from ..boosting.record import scores_of, tree_scores
from ..boosting.round_loss import RoundLoss, Standing
from ..core.arrays import F64, I64
from ..core.feature_table import FeatureTable
from ..lists.choices import best_choice
from ..lists.nbest import NBest
from ..losses.pairs import PairOptions, Pairs, sample_pairs
from ..metrics.metric import metric_of
from ..model.effects import squares_within_lists
from ..model.model import Model
from ..model.units import UnitSpace
from ..trees.tree import Tree
from ..tuners.linear import LinearPart

T = TypeVar("T")
RayAt = tuple[float, float, float]
Start = tuple[RayAt, tuple[float, int]]  # of a line search: ray(0), and what the scale of the tree is made of


def in_order(numbers: Any) -> Any:
    """Their sum, from left to right: from Python 3.12 on, sum() rounds in another way."""
    return reduce(add, numbers, 0.0)


class Place(NamedTuple):
    """The place of consecutive blocks in a corpus that the worker does not see."""

    first: int  # sentence
    first_hyp: int
    units: I64  # of its units in the order of their first use, the numbers in the corpus
    host: I64  # of each, the number of the part that has its row


class BlockRange(Standing):
    """Consecutive blocks of a corpus, and the scores of their hypotheses under the model so far."""

    def __init__(self, lists: NBest, ptr: I64, number: int, options: BoostOptions | None, place: Place | None = None) -> None:
        """``ptr``: offsets of its blocks among the sentences of the lists; its number among all parts.

        The lists are the corpus, or sentences of it, where ``place`` says where the blocks are in the corpus.
        """
        self.number, self.options = number, options
        self.nbest, self.units = lists.run(int(ptr[0]), int(ptr[-1]))
        self.blocks, self.host = ptr - ptr[0], None if place is None else place.host
        if place is None:
            self.first, self.first_hyp = int(ptr[0]), int(lists.hyp_ptr[ptr[0]])
        else:
            self.first, self.first_hyp, self.units = place.first, place.first_hyp, place.units
        self._drawn: tuple[PairOptions, Any] | None = None
        if options is not None:
            self.space = UnitSpace.of(self.nbest, options.level)
            self.counts = self.space.counts()
            self.gains = metric_of(options.gain, self.nbest).gain(self.nbest, alpha=options.pairs.alpha)

    # -- scores --------------------------------------------------------------------------------------------------------

    def start(self, model: Model) -> None:
        self.scores = scores_of(model, self.nbest, self.space)

    def add(self, tree: Tree) -> None:
        self.scores += tree_scores(tree, self.space)

    def choice(self) -> I64:
        """The 1-best of each sentence under the scores, as the corpus counts hypotheses; -1 where there is none."""
        return self._in_corpus(best_choice(self.nbest, self.scores))

    def linear_choice(self, weights: dict[str, float]) -> list[I64]:
        """Return the 1-best of each sentence under linear weights alone."""
        return [self._in_corpus(best_choice(self.nbest, Model(weights).decision_function(self.nbest)))]

    def _in_corpus(self, hyps: I64) -> I64:
        return np.where(hyps >= 0, hyps + self.first_hyp, -1)

    # -- pairs ---------------------------------------------------------------------------------------------------------

    def draw(self, options: PairOptions, seed: int, gain: str = "bleu") -> list[int]:
        """Draw pairs: those that these sentences have in the whole corpus. Gives their number."""
        if self._drawn != (options, seed):  # else the pairs of the linear weights are those of the first round, too
            self._drawn = options, seed
            how: dict[str, Any] = {"seed": seed, "first": self.first}
            if self.options is None:
                self.gains = metric_of(gain, self.nbest).gain(self.nbest, alpha=options.alpha)
            self.pairs: Pairs = sample_pairs(self.nbest.hyp_ptr, self.gains, options, **how)
        return [len(self.pairs)]

    def train(self) -> list[float]:
        """Make the loss of the rounds to come. Gives its reach."""
        self.loss = RoundLoss.of(self.space, self.nbest.hyp_ptr, self.pairs, blocks=self.blocks)
        units = np.diff(self.space.unit_ptr)
        reach = self.loss.loss.weight * (units[self.pairs.better] + units[self.pairs.worse])
        return [float(reach[block].sum()) for block in self._pair_slices()]

    def _pair_slices(self) -> Iterator[slice]:
        return (slice(a, b) for a, b in pairwise(self.pairs.sent_ptr[self.blocks].tolist()))

    def agree(self, reach: float) -> None:
        """Round gradients to the grid of the whole corpus."""
        self.loss = replace(self.loss, reach=reach)

    def _losses(self) -> list[float]:
        found: list[float] = self.here.losses.tolist()
        return found

    # -- rows ----------------------------------------------------------------------------------------------------------
    # A unit of several parts is a row of the first of them only, its host; the others send it what they have of it. So the
    # rows of a cluster are those of one machine.

    def settle(self, host: I64 | None) -> None:
        """The host of each unit; None: all are its own."""
        own = np.ones(len(self.counts), np.bool_) if host is None else host == self.number
        self._guests, self._hosts = np.flatnonzero(~own), np.zeros(0, np.int64) if host is None else host[~own]
        self._own = np.flatnonzero(own) if len(self._guests) else None
        self._table = FeatureTable(self.space.table.names, self.space.table.x[self._guests]) if len(self._guests) else None

    def guests(self) -> list[tuple[I64, I64]]:
        """Units that are rows elsewhere: where, and which."""
        return [(self._hosts, self.units[self._guests] if len(self._guests) else self._guests)]

    def adopt(self, units: list[I64]) -> list[tuple[F64, F64]]:
        """Units of its own that other parts send something of. Gives occurrences: of its guests, and of these."""
        self._adopted = np.zeros(0, np.int64)
        if len(units[self.number]):
            own = self.mine(self.units)
            order = np.argsort(own)
            self._adopted = order[np.searchsorted(own, units[self.number], sorter=order)]
        self.c = self.mine(self.counts).copy()
        return [(self.counts[self._guests], self.c[self._adopted])]

    def complete_counts(self, counts: list[F64]) -> None:
        self.c[self._adopted] = counts[self.number]

    def complete(self, target: list[F64]) -> None:
        self.g[self._adopted] = target[self.number]

    def mine(self, values: Any) -> Any:
        """Select those of its units that are rows here."""
        return values if self._own is None else values[self._own]

    # -- a round -------------------------------------------------------------------------------------------------------

    def target(self) -> list[tuple[F64, F64, float, float]]:
        """y = -dΨ/dF of its units. Gives that of guests and of adopted rows, and the largest and the sum of all other |y|."""
        target = self.loss.target(self.here)
        self.g = self.mine(target)
        size = np.abs(self.g)
        size[self._adopted] = 0.0
        return [(target[self._guests], self.g[self._adopted], float(size.max(initial=0.0)), float(size.sum()))]

    def aim(self, tree: Tree, h: F64) -> list[Start]:
        """Prepare the line search along a tree, which gives h of the rows here. Gives where it starts."""
        if self._own is not None:
            every = np.empty(len(self.counts))
            every[self._own], every[self._guests] = h, tree.predict(self._table)  # type: ignore[arg-type]
            h = every
        self._direction = self.space.sum(h)
        self._ray = self.loss.along(self.here, self._direction)
        return list(zip(self.ray(0.0), self._ray.told_apart, strict=True))

    def ray(self, rho: float) -> list[RayAt]:
        return self._ray.blocks(rho)

    def move(self, rho: float) -> list[tuple[list[float], list[float], I64]]:
        """F += ρ h. Gives what its effect is made of, squares about the lists' means; and the row."""
        step = rho * self._direction
        self.scores += step
        return [(self._squares(step), *self.row()[0])]

    def _squares(self, column: F64) -> list[float]:
        return squares_within_lists(self.nbest.hyp_ptr, column, self.blocks)

    def row(self) -> list[tuple[list[float], I64]]:
        """Return what a row of the history needs: the losses of its blocks, and the 1-best."""
        return [(self._losses(), self.choice())]

    # -- linear weights ------------------------------------------------------------------------------------------------

    def prepare_linear(self) -> None:
        """Prepare what the methods of LinearPart are about."""
        self._linear = LinearPart(self.nbest, self.pairs, self.blocks)

    def linear(self, method: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a method of the linear part of its blocks."""
        return [method(self._linear, *arguments)]

    def forget_linear(self) -> None:
        del self._linear

    def spreads(self, names: list[str]) -> list[F64]:
        """Squares of dense features about the lists' means, of each block."""
        squares = np.zeros((len(self.blocks) - 1, len(names)))
        for j, name in enumerate(names):
            squares[:, j] = self._squares(self.nbest.global_column(name))
        return list(squares)
