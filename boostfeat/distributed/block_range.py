"""Some blocks of sentences on a worker: what they add to every sum that boosting and PRO are made of.

A worker has a part for each of its threads. Where a sum rounds, what a part gives is a list with an item for each of its blocks:
these are the same however many workers and threads there are. All other lists have one item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from ..boosting.boost_options import BoostOptions
from ..boosting.record import scores_of, tree_scores
from ..boosting.round_loss import RoundLoss, Standing
from ..core.arrays import F64, I64, Array
from ..core.feature_table import FeatureTable
from ..lists.choices import Scorer, best_choice, rows_to_sum
from ..lists.feature_range import learnable
from ..lists.nbest import SEEDS, NBest
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


class BlockRange(Standing):
    """Consecutive blocks of a corpus, and the scores of their hypotheses under the model so far."""

    def __init__(
        self, lists: NBest, ptr: I64, number: int, options: BoostOptions | None, start: int, left_out: Collection[str]
    ) -> None:
        """``ptr``: offsets of its blocks among the sentences of the corpus; its number among all parts.

        The lists are the corpus, or sentences of it, of which the first is ``start`` there. Some features count as 0.
        """
        self.number, self.options, self.first = number, options, int(ptr[0])
        self._given, self.units = lists.run(*(ptr[[0, -1]] - start).tolist())
        self.nbest, self.blocks = learnable(self._given, left_out), ptr - ptr[0]
        self.scorer = Scorer(self.nbest)
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

    def linear_rows(self, weights: dict[str, float], metric: str) -> list[Array]:
        """Return statistics of the 1-best of each sentence under linear weights alone."""
        return [self._rows(Model(weights).decision_function(self.nbest), metric)]

    def _rows(self, scores: F64, metric: str) -> Array:
        return rows_to_sum(self.nbest, partial(best_choice, scores=scores), metric, self.scorer)

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

    def hashes(self, n_parts: int) -> list[Array]:
        """Return [V, 2] hashes of units that others of so many parts may have, 128 bits each; hypotheses are of one part."""
        is_alone = n_parts == 1 or self.options is None or self.options.level == "global"
        own = [self._given.unit_hashes(seed) for seed in (SEEDS[:1], SEEDS[1:])]
        return [np.stack(own, axis=1)[: 0 if is_alone else None]]

    def settle(self, hosted: list[I64], guests: list[I64]) -> list[tuple[F64, F64]]:
        """Take, by part, units that others have, too, rows here or elsewhere. Gives occurrences of its guests and such rows."""
        self._guests, own = guests[self.number], np.ones(len(self.counts), np.bool_)
        own[self._guests] = False
        self._own = np.flatnonzero(own) if len(self._guests) else None
        self._table = FeatureTable(self.space.table.names, self.space.table.x[self._guests]) if len(self._guests) else None
        self._adopted = (np.cumsum(own) - 1)[hosted[self.number]]
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

    def move(self, rho: float, metric: str) -> list[tuple[list[float], list[float], Array]]:
        """F += ρ h. Gives what its effect is made of, squares about the lists' means; and the row."""
        step = rho * self._direction
        self.scores += step
        return [(self._squares(step), *self.row(metric)[0])]

    def _squares(self, column: F64) -> list[float]:
        return squares_within_lists(self.nbest.hyp_ptr, column, self.blocks)

    def row(self, metric: str) -> list[tuple[list[float], Array]]:
        """Return what a row of the history needs: the losses of its blocks, and statistics of the 1-best."""
        return [(self._losses(), self._rows(self.scores, metric))]

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
