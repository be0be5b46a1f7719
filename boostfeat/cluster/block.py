"""A block of sentences on a worker: what it adds to every sum that boosting, PRO and refits are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..arrays import F64, I32, I64
from ..augment import squares_within_lists
from ..bleu import context_bleu, corpus_bleu, corpus_rows, sentence_bleu
from ..build import first_use_order
from ..expected import ExpectedBleu
from ..grow_kernels import slope_sums, sums
from ..metrics import best_choice, chosen_stats
from ..model import Model
from ..nbest import NBest, Units
from ..objective import Training
from ..pairs import PairOptions, Pairs, pairs_for, sample_pairs
from ..pro import LinearPart
from ..refit import Terms
from ..rounds import scores_of, tree_scores
from ..space import Space
from ..tree import Tree, leaf_outputs

if TYPE_CHECKING:
    from ..boost import BoostOptions


def cut_block(nbest: NBest, first: int, last: int) -> NBest:
    """Sentences first:last as views of the store; only their units are copied, without their strings, which nobody reads."""
    a, b = int(nbest.hyp_ptr[first]), int(nbest.hyp_ptr[last])
    u, v = int(nbest.unit_ptr[a]), int(nbest.unit_ptr[b])
    r, t = int(nbest.ref_ptr[first]), int(nbest.ref_ptr[last])
    used, unit_idx = first_use_order(nbest.unit_idx[u:v], nbest.n_units)
    n = len(used)
    blank = pa.array(np.zeros(n, np.int8)).cast(pa.large_string()) if n else nbest.units.src.slice(0, 0)
    units = Units(
        x=nbest.units.x[used],
        sparse=nbest.units.sparse.take(used),
        **dict.fromkeys(("src", "tgt", "align"), blank),
        **dict.fromkeys(("src_len", "tgt_len"), np.full(n, -1, np.int32)),
        score=np.full(n, np.nan),
    )
    return replace(
        nbest,
        ids=nbest.ids[first:last],
        source=nbest.source.slice(first, last - first),
        ref_ptr=nbest.ref_ptr[first : last + 1] - r,
        refs=nbest.refs.slice(r, t - r),
        hyp_ptr=nbest.hyp_ptr[first : last + 1] - a,
        text=nbest.text.slice(a, b - a),
        score=nbest.score[a:b],
        stats=nbest.stats[a:b],
        unit_ptr=nbest.unit_ptr[a : b + 1] - u,
        unit_idx=unit_idx,
        src_start=nbest.src_start[u:v],
        tgt_start=nbest.tgt_start[u:v],
        units=units,
        extra=nbest.extra[a:b],
        extra_sparse=nbest.extra_sparse.take(np.arange(a, b)),
    )


class Block:
    """Sentences first:last of a corpus, and the scores of their hypotheses under the model so far."""

    def __init__(self, corpus: NBest, first: int, last: int, options: BoostOptions | None) -> None:
        self.nbest, self.options = cut_block(corpus, first, last), options
        self.first, self.first_hyp, self.n = first, int(corpus.hyp_ptr[first]), len(corpus)
        self._drawn: tuple[PairOptions, Any] | None = None
        if options is not None:
            self.space = Space.of(self.nbest, options.level)
            self.counts = self.space.counts()
            self.own = np.ones(len(self.counts), np.bool_)
            self._leaves: tuple[Any, I32] | None = None
            self.gains = sentence_bleu(self.nbest.stats, alpha=options.pairs.alpha)
            self.strict = options.metric != "bleu"

    # -- scores --------------------------------------------------------------------------------------------------------

    def start(self, model: Model) -> None:
        self.scores = scores_of(model, self.nbest, self.space)

    def add(self, tree: Tree) -> None:
        self.scores += tree_scores(tree, self.space)

    def choice(self) -> I64:
        """The 1-best of each sentence under the scores, as the corpus counts hypotheses; -1 where there is none."""
        return self._in_corpus(best_choice(self.nbest, self.scores))

    def linear_choice(self, weights: dict[str, float]) -> I64:
        """The same under linear weights alone."""
        return self._in_corpus(best_choice(self.nbest, Model(weights).decision_function(self.nbest)))

    def _in_corpus(self, hyps: I64) -> I64:
        return np.where(hyps >= 0, hyps + self.first_hyp, -1)

    # -- pairs and their weights ---------------------------------------------------------------------------------------

    def draw(self, options: PairOptions, seed: int) -> int:
        """Draw pairs: those that this block has in the whole corpus. Returns their number."""
        if self._drawn != (options, seed):  # else the pairs of the linear weights are those of the first round, too
            self._drawn = options, seed
            how: dict[str, Any] = {"seed": seed, "first": self.first}
            if self.options is None:
                self.pairs: Pairs = pairs_for(self.nbest, options, **how)
            else:
                self.pairs = sample_pairs(self.nbest.hyp_ptr, self.gains, options, **how)
        self.weight: F64 | None = None
        return len(self.pairs)

    def context(self) -> I64:
        """What the 1-best adds to the statistics of the corpus."""
        self._rows = corpus_rows(chosen_stats(self.nbest, best_choice(self.nbest, self.scores)))
        return self._rows.sum(axis=0)

    def weigh(self, total: I64) -> float:
        """Weights of pairs by their gain in the context of the corpus' 1-best; returns their sum. See gains.pair_weights."""
        gains = context_bleu(self.nbest.stats, total - self._rows[self.nbest.sent_of_hyp], strict=self.strict)
        gains = self.n * (gains - float(corpus_bleu(total, strict=self.strict)))
        self.weight = np.maximum(gains[self.pairs.better] - gains[self.pairs.worse], 0.0)
        return float(self.weight.sum())

    def train(self, scale: float, mean: float | None) -> float:
        """Make the loss of the rounds to come; with weights over their mean, or of 1 where that is 0. Returns its reach."""
        assert self.options is not None
        weight = None
        if mean is not None and self.weight is not None:
            weight = self.weight / mean if mean > 0 else np.ones(len(self.pairs))
        self.training = Training.of(
            self.space,
            self.nbest.hyp_ptr,
            self.pairs,
            self.gains,
            replace(self.options, scale=scale),
            weight=weight,
            blocks=np.array([0, len(self.nbest)]),
        )
        return self.training.reach

    def agree(self, reach: float) -> None:
        """Round gradients to the grid of the whole corpus."""
        self.training = replace(self.training, reach=reach)

    def loss(self) -> float:
        return self.training.loss.value(self.scores[self.training.hyps])

    # -- rows ----------------------------------------------------------------------------------------------------------
    # A unit of several blocks is a row of the first of them only, its host; the others send it what they have of it. So the
    # rows of a cluster are those of one machine.

    def settle(self, units: I64, host: I64, number: int) -> None:
        """The units [V] of this block, ``number`` of all, as the corpus counts them, and the host of each."""
        self.units, self._host, self.number = units, host, number
        self.own = host == number

    def guests(self) -> tuple[I64, I64]:
        """Units that are rows elsewhere: where, and which."""
        away = ~self.own
        return (self._host[away], self.units[away]) if away.any() else (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def adopt(self, units: list[I64]) -> F64:
        """Find the units that other blocks send something of, in the order they come. Returns occurrences of guests."""
        self._adopted = np.zeros(0, np.int64)
        if len(units[self.number]):
            order = np.argsort(self.units)
            self._adopted = order[np.searchsorted(self.units, units[self.number], sorter=order)]
        return self.counts[~self.own]

    def adopt_counts(self, sent: list[F64]) -> None:
        self.c = self._received(self.counts.copy(), sent)

    def adopt_target(self, sent: list[F64]) -> tuple[float, float]:
        """Complete the targets of rows; returns the largest and the sum of their absolute values."""
        self.g = self._received(self._target, sent)
        size = np.abs(self.g)
        return float(size.max(initial=0.0)), float(size.sum())

    def _received(self, values: F64, sent: list[F64]) -> F64:
        np.add.at(values, self._adopted, sent[self.number])
        return values[self.own]

    # -- a round -------------------------------------------------------------------------------------------------------

    def target(self, seed: int, m: int, subsample: float) -> F64:
        """y = -dΨ/dF of its units; returns that of guests."""
        among = None
        if subsample < 1:
            drawn = np.random.default_rng([seed, m]).random(self.n)[self.first : self.first + len(self.nbest)] < subsample
            among = drawn[self.nbest.sent_of_hyp]
        self._target = self.training.target(self.scores, among)
        return self._target[~self.own]

    def n_occurrences(self) -> float:
        return float(self.counts.sum())

    def leaf_sums(self, tree: Tree, scale: float, shift: float, centre: F64 | None) -> F64:
        """Σ (c, g) over each leaf; with a centre also Σ (c z, z g, c z²) about it, z = x / scale - shift of feature ``on``."""
        leaf_of, n = self._leaf_of(tree)[self.own], len(tree.feature)
        parts, slopes = np.zeros((4, n, 2)), np.zeros((n, 3))
        sums(leaf_of, self.c, self.g, parts)
        if centre is None or tree.on is None:
            return parts.sum(axis=0)
        z = self.space.table.column(tree.on)[self.own] / scale - shift
        slope_sums(leaf_of, self.c, self.g, z, centre, slopes)
        return np.hstack([parts.sum(axis=0), slopes])

    def _leaf_of(self, tree: Tree) -> I32:
        """[V] the leaf of each unit; the last answer is kept, since leaves are summed first and aimed along next."""
        splits = (tree.feature, tree.threshold.tobytes(), tree.left.tobytes())
        if self._leaves is None or self._leaves[0] != splits:
            self._leaves = splits, tree.leaf_of(self.space.table)
        return self._leaves[1]

    def aim(self, tree: Tree) -> tuple[float, float, float]:
        """Prepare the line search along a tree. Returns where it starts: ray(0)."""
        x = None if tree.on is None else self.space.table.column(tree.on)
        h = leaf_outputs(self._leaf_of(tree), value=tree.value, intercept=tree.intercept, x=x)
        self._direction = self.space.sum(h)
        at = self.training.hyps
        self._ray = self.training.loss.ray(self.scores[at], self._direction[at])
        return self._ray(0.0)

    def ray(self, rho: float) -> tuple[float, float, float]:
        return self._ray(rho)

    def move(self, rho: float) -> tuple[float, float, I64]:
        """F += ρ h. Returns what its effect is made of, squares about the lists' means; and the row."""
        step = rho * self._direction
        self.scores += step
        return self._squares(step), *self.row()

    def _squares(self, column: F64) -> float:
        return float(squares_within_lists(self.nbest.hyp_ptr, column[:, None])[0])

    def row(self) -> tuple[float, I64]:
        """What a row of the history needs: the loss, and the 1-best."""
        return self.loss(), self.choice()

    # -- linear weights ------------------------------------------------------------------------------------------------

    def prepare_linear(self) -> None:
        """What columns, n_pairs, peak, squares, standardise and at are about."""
        self._linear = LinearPart(self.nbest, self.pairs)

    def columns(self) -> I64:
        return self._linear.columns()

    def n_pairs(self) -> int:
        return self._linear.n_pairs()

    def peak(self) -> F64:
        return self._linear.peak()

    def squares(self, peak: F64) -> tuple[F64, F64]:
        return self._linear.squares(peak)

    def standardise(self, rms: F64) -> None:
        self._linear.standardise(rms)

    def at(self, w: F64) -> tuple[float, F64]:
        return self._linear.at(w)

    def forget_linear(self) -> None:
        del self._linear

    def spreads(self, names: list[str]) -> tuple[F64, F64]:
        """Of dense features: squares about the lists' means, and the largest values."""
        columns = [self.nbest.global_column(name) for name in names]
        return np.array([self._squares(c) for c in columns]), np.array([np.abs(c).max(initial=0.0) for c in columns])

    def sparse_squares(self) -> F64:
        return np.asarray(self.nbest.global_sparse.power(2).sum(axis=0)).ravel()

    # -- expected BLEU -------------------------------------------------------------------------------------------------

    def prepare_refit(self, model: Model, scale: float) -> None:
        self._terms = Terms(self.nbest, self.space, model.trees, "linear")
        self._expected = ExpectedBleu(self.nbest.hyp_ptr, self.nbest.stats, scale, strict=self.strict)

    def expect(self, theta: F64) -> F64:
        """Statistics that the weights let expect [10]."""
        self._p, expected = self._expected.expected(self._terms.scores(theta))
        return expected

    def refit_slope(self, slope: F64) -> F64:
        """dΨ/dθ, from the slope [10] of ln BLEU in the expected statistics of the corpus."""
        return self._terms.gradient(self._expected.margins(slope, self._p, n=self.n))
