"""Figure 3 in one process: the lists a run learns from, and what its rounds are fitted to."""

from __future__ import annotations

import numpy as np

from ..core.arrays import F64, I64, in_ranges, segment_positions
from ..core.kernels import kernel
from ..core.processes import give_back
from ..lists.choices import Scorer
from ..lists.nbest import NBest
from ..lists.precision import precision_of
from ..lists.quality import default_metric
from ..losses.corpus_weights import pair_weights, weighed_by_size
from ..losses.pairs import Pairs, sample_pairs
from ..metrics.metric import metric_of
from ..model.effects import linear_effects, within_list_sd
from ..model.model import Model
from ..model.units import UnitSpace
from ..trees.growing import Grower, GrownTree
from ..trees.tree import Tree
from ..tuners.linear import problem_of_some
from .boost_options import BoostOptions
from .record import score_of, tree_scores, with_trees
from .round_loss import RoundLoss, Standing


@kernel
def _add_step(rho, step, scores):  # type: ignore[no-untyped-def]
    """INOUT step[n] times ρ; scores[n] += that."""
    for h in range(len(step)):
        step[h] *= rho
        scores[h] += step[h]


EXACT, NEAR = 1e-6, 1e-4  # tolerances of first weights; those of folds choose the same in a quarter of the time


class Local(Standing):
    """An engine that holds all lists; its loss is that of the rounds since the pairs were drawn."""

    drawn: int  # the round after which the pairs were
    _grower: Grower | None = None
    _grown: GrownTree  # the tree of the round under way
    _direction: F64  # [H] A h: what it adds to each hypothesis

    def __init__(
        self,
        dev: NBest,
        options: BoostOptions,
        *,
        seed: int,
        threads: int,
        near: F64 | None = None,
        some_of: tuple[NBest, I64] | None = None,
    ) -> None:
        """Hold the lists; first weights need not be exact where weights [D + N] near them are given.

        Lists that are some sentences of others, ``some_of``, may lack the sparse features that these have for first weights.
        """
        self.dev, self.options, self.seed, self.threads, self.near = dev, options, seed, threads, near
        self.all, self.sentences = some_of or (dev, np.arange(len(dev)))
        self.space = UnitSpace.of(dev, options.level, threads=threads)
        self.scorer = Scorer(dev)
        self.gains = metric_of(options.gain, dev).learnable_gain(dev, alpha=options.pairs.alpha)
        self.context_metric = metric_of(options.context_metric, dev).fixed(options.pairs.alpha)
        self.counts = self.space.counts()
        self._pairs: tuple[int, Pairs] | None = None  # the last pairs and their number
        self._weights: dict[str, float] | None = None

    def first_weights(self, threads: int | None = None) -> dict[str, float]:
        """Fit them once, with these threads."""
        if self._weights is None:
            penalty = self.options.penalties(len(self.all.global_names), len(self.all.sparse_names))
            pairs = weighed_by_size(self.pairs(0), self.dev, self.context_metric) if self.options.context else self.pairs(0)
            problem = problem_of_some(self.all, self.sentences, pairs, threads=threads or self.threads)
            tolerance = EXACT if self.near is None else NEAR
            self._weights = problem.fit(init=self.near, l2_factors=np.array(penalty), tol=tolerance).weights
            del problem  # another form of the list's features
            give_back()
        return self._weights

    def load(self, model: Model) -> None:
        linear = Model(model.weights).decision_function(self.all)
        self.scores = with_trees(linear[segment_positions(self.all.hyp_ptr, self.sentences)], model.trees, self.space)

    def add(self, tree: Tree) -> None:
        self.scores += tree_scores(tree, self.space)

    def train(self, m: int) -> None:
        pairs = self.pairs(m)
        weight = pair_weights(self.scorer, pairs, self.scores, self.context_metric) if self.options.context else None
        self.loss, self.drawn = RoundLoss.of(self.space, self.dev.hyp_ptr, pairs, weight=weight), m

    def pairs(self, m: int) -> Pairs:
        """The pairs of round m + 1."""
        draw = self.options.draws_before(m)
        if self._pairs is None or self._pairs[0] != draw:
            drawn = sample_pairs(self.dev.hyp_ptr, self.gains, self.options.pairs, seed=self.seed + draw, threads=self.threads)
            self._pairs = draw, drawn
        return self._pairs[1]

    def grow(self, m: int) -> tuple[Tree, float] | None:
        if self._grower is None:
            table, how = self.space.for_trees(self.options.tree_features), {"threads": self.threads, "seed": self.seed}
            self._grower = Grower(table, self.counts, self.options.tree, **how, precision=precision_of(self.dev, table.names))
        grown = self._grower.grow(self.loss.target(self.here))
        if grown is None or not grown.h.any():
            return None
        self._grown = grown
        return grown.tree, grown.gain

    def line_search(self) -> float:
        self._direction = self.space.sum(self._grown.h)
        return self.loss.line_search(self.here, self._direction, l2=self.options.l2)

    def move(self, rho: float, m: int) -> tuple[float, list[int]]:
        fires, step = self._grown.fires, self._direction
        del self._grown, self._direction  # numbers for every unit and hypothesis: not beside those of the next round
        scores = self.scores

        in_ranges(lambda some: _add_step(rho, step[some], scores[some]), len(step), self.threads)
        self.scores = scores  # Ψ is to be computed anew
        return within_list_sd(self.dev.hyp_ptr, step, threads=self.threads), fires.astype(int).tolist()

    def row(self) -> tuple[float, float]:
        return self.loss.mean(self.here), score_of(self.scorer, self.scores, self.options.metric, threads=self.threads)

    def effects(self, model: Model) -> dict[str, float]:
        return linear_effects(self.dev, model.weights, threads=self.threads)


def first_gradient(nbest: NBest, *, gain: str | None = None, seed: int, threads: int = 1) -> tuple[F64, F64]:
    """g = A' P' σ(-z) [V] at the PRO solution, for whoever chooses features by it, and the occurrences c [V].

    It is of BLEU, or of what else the list has.
    """
    engine = Local(nbest, BoostOptions(gain=gain or default_metric(nbest)), seed=seed, threads=threads)
    engine.load(Model(engine.first_weights()))
    engine.train(0)
    return engine.loss.target(engine.here), engine.counts
