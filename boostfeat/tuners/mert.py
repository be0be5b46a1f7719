"""MERT: ascent on corpus BLEU itself, or any other metric, by exact line search over all hypotheses [Och03].

Along a line w + γ d the score of every hypothesis is a straight line in γ, a + γ b. The winners of a list are the upper
envelope of its lines, and corpus statistics change only where the winner of some list does. So the metric is known on the
whole line from the change points of all lists, sorted, and exact differences of statistics: nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import F64, I64, Array, in_threads, segment_argmax
from ..core.errors import InputError
from ..core.kernels import kernel
from ..lists.choices import all_rows
from ..lists.nbest import NBest
from ..metrics.metric import Metric, metric_of
from ..metrics.significance import exact_sums
from ..metrics.sums import Recipe, gain_of
from ..metrics.symbols import longest_part
from ..model.model import Model
from .base import EpochLog, Features, Run
from .tuner_options import MertOptions

NARROW = 1e-9  # an interval this narrow beside the length of the weights may be the rounding of scores: it is not entered
FLOOR = 1e-12  # a spread this small beside a feature's largest value is the rounding of sums


# ---------------------------------------------------------------------------------------------------------------------
# The line search
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def envelopes(hyp_ptr, a, b, first, at, old, new):  # type: ignore[no-untyped-def]
    """Upper envelopes of the lines a + γ b of every list.

    IN hyp_ptr[S+1], a[H], b[H]; OUT first[S] (the winner at γ = -∞, -1 of an empty list) and, for each change point, by list and
    rising, at (its γ), old and new (the winners before and after it), each [H]. Returns the number of change points.

    Where two lines of the envelope cross, either a third is above them, and the highest there is on the envelope between
    them, or none is, and the crossing is a change point. The search starts with the winners far left, at γ = 0 and far right;
    a line that is above these somewhere is so at one of their two crossings, as they are convex together. Few lines are.
    Of identical lines the first is taken, as ``segment_argmax`` does: copies of a hypothesis change nothing.
    """
    longest = longest_part(hyp_ptr)
    ca, cb, ch = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)  # lines that may be on the envelope
    found = np.empty(longest + 2, np.int64)  # those known to be, right of the current one; the nearest is last
    n = 0
    for s in range(len(hyp_ptr) - 1):
        start, end = hyp_ptr[s], hyp_ptr[s + 1]
        if start == end:
            first[s] = -1
            continue
        left = top = right = start
        la = ta = ra = a[start]
        lb = tb = rb = b[start]
        for h in range(start + 1, end):
            p, q = a[h], b[h]
            if q <= lb and (q < lb or p > la):
                left, la, lb = h, p, q
            if q >= rb and (q > rb or p > ra):
                right, ra, rb = h, p, q
            if p >= ta and (p > ta or q > tb):
                top, ta, tb = h, p, q
        first[s] = left
        if lb == rb:
            continue
        x = (la - ta) / (tb - lb) if lb < tb else np.nan  # where there is no crossing, nothing is above it
        y = (ta - ra) / (rb - tb) if tb < rb else np.nan
        floor_x, floor_y = ta + x * tb, ta + y * tb
        m = 0
        for h in range(start, end):  # without a branch: it would be hard to predict
            p, q = a[h], b[h]
            ca[m], cb[m], ch[m] = p, q, h
            m += (p + x * q > floor_x) | (p + y * q > floor_y)
        found[0] = right
        depth = 1
        if lb < tb < rb:
            found[1] = top
            depth = 2
        while depth:
            right = found[depth - 1]
            la, lb, ra, rb = a[left], b[left], a[right], b[right]
            x = (la - ra) / (rb - lb)
            highest, above = max(la + x * lb, ra + x * rb), -1
            for i in range(m):
                v = ca[i] + x * cb[i]
                if v > highest and lb < cb[i] < rb:  # the slopes only fail to be between by rounding
                    highest, above = v, ch[i]
            if above >= 0:
                found[depth] = above
                depth += 1
            else:
                at[n], old[n], new[n] = x, left, right
                n += 1
                left = right
                depth -= 1
    return n


@kernel
def _changes(at, old, new, rows, change):  # type: ignore[no-untyped-def]
    """Keep the change points [n] where statistics do change; OUT change[m] (of the statistics) of those kept. Returns m.

    Points come list by list, so the rows of a list are read while they are in the cache.
    """
    m = 0
    for k in range(len(at)):
        before, after, some = rows[old[k]], rows[new[k]], False
        for c in range(len(before)):
            change[m, c] = after[c] - before[c]
            some |= change[m, c] != 0
        at[m] = at[k]
        m += some  # another winner of the same statistics does not end an interval
    return m


@kernel
def _best_interval(at, order, change, sums, recipe, reach, narrow):  # type: ignore[no-untyped-def]
    """(γ, value) in the middle of the best interval between changes of the statistics; of equals the widest, then the first.

    IN at and change[n] of the change points and their order by rising γ; sums[n] of the winners at γ = -∞ is changed.
    Intervals not wider than narrow are passed over. One wider than 2 reach, as the two outer ones are, counts as just
    that wide and is entered by reach only: its middle may be far from anything the weights stand for.
    """
    best, where, widest, low = -np.inf, 0.0, 0.0, -np.inf
    for k in range(len(order) + 1):
        last = k == len(order)
        high = at[order[k]] if not last else np.inf
        width = min(high - low, 2 * reach)
        if width > narrow:  # not where several lists change winners at one point, before all of them have
            value = gain_of(recipe, sums)
            if value > best or (value == best and width > widest):
                best, widest = value, width
                where = low + width / 2 if width < 2 * reach else min(max(0.0, low + reach), high - reach)
        if not last:
            low = high
            for c in range(len(sums)):
                sums[c] += change[order[k], c]
    return where, best


@dataclass(frozen=True)
class LineSearchLists:
    """Lists as a line search takes them: S sentences, H hypotheses, D features that may move."""

    hyp_ptr: I64  # [S+1]
    x: F64  # [D, H] features that may move
    base: F64  # [H] the score of the others
    rows: Array  # [H, n] statistics of the metric: whole numbers, or such that sums are exact
    empty: Array  # [n] their sum over empty lists
    recipe: Recipe  # what they are worth

    def slopes(self, d: F64) -> F64:
        """[H] how fast scores change in direction d. Not by BLAS, whose sums of equal rows may differ in the last bit."""
        moved = np.flatnonzero(d)
        if len(moved) == 1 and d[moved[0]] == 1:
            return np.asarray(self.x[moved[0]])
        out = np.zeros(self.x.shape[1])
        for j in moved:
            out += d[j] * self.x[j]
        return out

    def scores(self, w: F64) -> F64:
        """[H] the score of every hypothesis."""
        return self.base + self.slopes(w)

    def value(self, scores: F64) -> float:
        """Return the gain of the winners, which is climbed."""
        return float(gain_of(self.recipe, sums_of(segment_argmax(self.hyp_ptr, scores), self.rows, self.empty)))

    def line_search(self, a: F64, b: F64, *, reach: float = 1.0, narrow: float = 0.0) -> tuple[float, float]:
        """(γ, value) of the best point of the line of scores a + γ b; see ``_best_interval`` for which of many."""
        return best_interval_of(self.hyp_ptr, a, b, self.rows, self.empty, self.recipe, reach=reach, narrow=narrow)


def best_interval_of(
    hyp_ptr: I64, a: F64, b: F64, rows: Array, empty: Array, recipe: Recipe, *, reach: float, narrow: float
) -> tuple[float, float]:
    """(γ, value) of the best point of the line of scores a + γ b [H] of lists with statistics rows [H, n]."""
    at, old, new = np.empty(len(a)), np.empty(len(a), np.int32), np.empty(len(a), np.int32)
    first = np.empty(len(hyp_ptr) - 1, np.int64)
    n = envelopes(hyp_ptr, a, b, first, at, old, new)
    at, change = at[:n], np.empty((n + 1, rows.shape[1]), rows.dtype)
    at = at[: _changes(at, old[:n], new[:n], rows, change)]
    where, best = _best_interval(at, np.argsort(at), change, sums_of(first, rows, empty), recipe, reach, narrow)
    return float(where), float(best)


def sums_of(chosen: I64, rows: Array, empty: Array) -> Array:
    """[n] the statistics of the chosen hypotheses; -1 is an empty list, counted in ``empty``."""
    return np.asarray(rows[chosen[chosen >= 0]].sum(axis=0, dtype=empty.dtype) + empty)


# ---------------------------------------------------------------------------------------------------------------------
# The tuner
# ---------------------------------------------------------------------------------------------------------------------


class _Climb(NamedTuple):
    """A climb that a thread is at, or has done."""

    base: F64  # the best weights before its round, as far as they were known
    given_up: Event
    found: Future[tuple[F64, float, int]]


@dataclass(frozen=True)
class Mert(MertOptions):
    """Climb from the initial weights and from random ones; then, in each further round, from shaken copies of the best so far.

    What it climbs is the gain's metric on the corpus; for the gain bleu, BLEU or BLEU-SBP as the metric says.
    A climb searches the line of each feature in turn, then random lines, and moves at once where BLEU is higher, until none
    helps. In one trial on a real list that took some 60 searches; always taking the best of all lines took 288, to a lower BLEU.
    Deviation: [Och03] restarts at random only. Most such starts end in poor optima; shaken copies of good weights do not.
    Features are divided by their spread within lists first, so that random weights and directions treat them alike.
    Weights are returned at the scale (Σ|λ|) of the initial ones, or 1 if these are 0, unless frozen weights set the scale.
    """

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        """The best weights on the list, or the round whose weights are best on the held-out one."""
        metric = climbed(nbest, run)
        metric.check_learnable(nbest)
        features = Features.of(nbest)
        log = EpochLog(features, nbest, select, run, train_default=True)
        init = features.start(run.init)
        moves, scale, corpus = self.prepare(features, nbest, init, run, metric)
        return self.search(log, corpus, init, moves, scale)

    def search(self, log: EpochLog, corpus: Any, init: F64, moves: I64, scale: F64) -> Model:
        """Climb on lists, or a GraphCorpus, round by round."""
        run = log.run
        start = init[moves] * scale
        total = float(np.abs(init[moves]).sum()) or 1.0
        at_start = corpus.value(corpus.scores(start))
        for r, (best, best_value, searches) in enumerate(self._rounds(corpus, start, run)):
            weights = init.copy()
            if best is not start and best_value != at_start:
                weights[moves] = best / scale
                if not corpus.base.any():
                    weights[moves] *= total / np.abs(weights[moves]).sum()
            more = {} if isinstance(corpus, LineSearchLists) else {"graphs": 100 * best_value}
            log.record(r, weights, searches=searches, **more)
        return log.model(self, "mert")

    def _rounds(self, corpus: Any, start: F64, run: Run) -> Iterator[tuple[F64, float, int]]:
        """(best weights so far, their value, line searches so far) after each round.

        Threads that a round leaves idle climb for the next ones already, from the best weights known by then. Climbs that turn
        out to have begun elsewhere than their round does are begun anew: threads do not change what is found.
        """
        starts = [[(r, k) for k in range(self.shakes if r else 1 + self.restarts)] for r in range(self.rounds)]
        climbs: dict[tuple[int, int], _Climb] = {}
        best, best_value, searches = start, _ranked(corpus, start), 0
        with ThreadPoolExecutor(max(1, run.threads)) as pool:

            def climb_on(r: int) -> set[Future[Any]]:
                """Give every thread a climb of this round or the next ones; return those that run."""
                likely, value, running = best, best_value, set[Future[Any]]()
                for of_round in starts[r:]:
                    base = likely
                    for at in of_round:
                        if at in climbs and climbs[at].base is not base:
                            climbs.pop(at).given_up.set()
                        if at not in climbs and len(running) < max(1, run.threads):
                            given_up = Event()
                            found = pool.submit(self._climb, corpus, base, [run.seed, *at], given_up)
                            climbs[at] = _Climb(base, given_up, found)
                        if at not in climbs:
                            continue
                        if not climbs[at].found.done():
                            running.add(climbs[at].found)
                        elif climbs[at].found.result()[1] > value:
                            likely, value, _ = climbs[at].found.result()
                return running

            try:
                for r, of_round in enumerate(starts):
                    while (running := climb_on(r)) and not all(at in climbs and climbs[at].found.done() for at in of_round):
                        wait(running, return_when=FIRST_COMPLETED)
                    for w, value, n in (climbs.pop(at).found.result() for at in of_round):
                        searches += n
                        if value > best_value:
                            best, best_value = w, value
                    yield best, best_value, searches
            finally:
                for climb in climbs.values():
                    climb.given_up.set()

    def _climb(self, corpus: Any, base: F64, stream: Sequence[int], given_up: Event) -> tuple[F64, float, int]:
        """(weights, value, number of line searches) of a local optimum, by the random stream (seed, round, start)."""
        rng, w, (_, r, k) = np.random.default_rng(stream), base, stream
        if r:
            w = base + self.shake * rng.random() * (float(np.linalg.norm(base)) or 1.0) * random_direction(len(base), rng)
        elif k:
            w = random_direction(len(base), rng)
        a = corpus.scores(w)
        value = _ranked(corpus, w)
        order, n, idle = np.eye(len(w))[rng.permutation(len(w))], 0, 0
        while idle < len(w) + self.directions and not given_up.is_set():
            d = order[n % len(w)] if idle < len(w) else random_direction(len(w), rng)
            reach = float(np.linalg.norm(w)) or 1.0
            b = corpus.slopes(d)
            step, promised = corpus.line_search(a, b, reach=reach, narrow=NARROW * reach)
            n, idle = n + 1, idle + 1
            if promised > value:
                moved = a + step * b
                found = corpus.value(moved)  # what the ranking has, should rounding have promised more
                if found > value:
                    gained = found - (value if value > -np.inf else 0.0)
                    idle = 0 if 100 * gained > self.tol else idle
                    w, a, value = w + step * d, moved, found
        return w, _ranked(corpus, w), n  # anew: the steps' rounding adds up

    def prepare(self, features: Features, nbest: NBest, init: F64, run: Run, metric: Metric) -> tuple[I64, F64, LineSearchLists]:
        """(features that may move, their spreads, the corpus): features that are frozen or the same within lists stay."""
        run.groups.check("mert")
        free = np.flatnonzero(~run.groups.frozen(features.names))
        if len(free) > self.max_features:
            raise InputError(
                f"mert: expected at most {self.max_features} features to tune, found {len(free)}; freeze some with --set groups, "
                "raise --set max-features, or take a method for many features (pro, kbmira, adagrad)"
            )
        x, d = features.dense, features.n_dense
        sparse = features.sparse.matrix(len(features) - d)[:, free[free >= d] - d]
        x = np.concatenate([x[:, free[free < d]].T, np.ascontiguousarray(sparse.toarray().T)])
        first = nbest.hyp_ptr[:-1][nbest.sent_of_hyp]
        scale = np.zeros(len(x))
        if nbest.n_hyps:
            scale[:] = in_threads(lambda column: np.sqrt(np.mean((column - column[first]) ** 2)), [*x], max(1, run.threads))
        live = scale > FLOOR * np.abs(x).max(axis=1, initial=0.0)
        moves, scale, x = free[live], scale[live], x[live]
        x /= scale[:, None]
        fixed = init.copy()
        fixed[free] = 0.0
        return moves, scale, LineSearchLists(nbest.hyp_ptr, x, features.scores(fixed), **statistics(nbest, metric))


def _ranked(corpus: Any, w: F64) -> float:
    """The value of weights; those that are all 0 rank nothing, and the order of the lists is no achievement of theirs."""
    return float(corpus.value(corpus.scores(w))) if w.any() or corpus.base.any() else -np.inf


def climbed(nbest: NBest, run: Run) -> Metric:
    """The metric that is climbed: the gain's own, or for BLEU that with the brevity penalty of the metric."""
    return metric_of("bleu-sbp" if (run.gain, run.metric) == ("bleu", "bleu-sbp") else run.gain, nbest)


def statistics(nbest: NBest, metric: Metric) -> dict[str, Any]:
    """Return what LineSearchLists hold of a metric."""
    rows = all_rows(nbest, metric)
    kind = np.int64 if rows.dtype.kind == "i" else np.float64
    none = np.flatnonzero(np.diff(nbest.hyp_ptr) == 0)
    empty = np.array([metric.empty_row(nbest, int(s)) for s in none], kind).reshape(-1, metric.width)
    if kind is np.float64 and len(empty):
        both = exact_sums(np.concatenate([rows, empty]))
        rows, empty = both[: len(rows)], both[len(rows) :]
    return {"rows": rows, "empty": empty.sum(axis=0, dtype=kind), "recipe": metric.recipe(nbest)}


def random_direction(n: int, rng: np.random.Generator) -> F64:
    """[n] a random vector of length 1."""
    v = rng.normal(size=n)
    return v / (float(np.linalg.norm(v)) or 1.0)
