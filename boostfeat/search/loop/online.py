"""Online learning: every sentence is decoded with the weights of the moment, and its fresh k-best list moves them.

An epoch is an iteration of the loop. MIRA and RM choose hope and fear from each fresh list [E12], [EMR13]; AdaGrad takes
gradients of mini-batches side by side at weights that are some steps old [G13 algorithm 2]. The formulas are those of the
tuners. Sparse features of templates are learned as they appear in fresh lists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from ...core.arrays import F64, I64, U8, Array
from ...core.errors import FormatError, InputError
from ...core.files import atomic_path
from ...features.feature_maker import plan_of, with_plan
from ...features.featurizing import featurize
from ...features.plan import FeaturePlan, product_name
from ...lists.choices import best_choice
from ...lists.feature_range import learnable
from ...lists.nbest import NBest, SparseRows
from ...metrics.metric import Metric, metric_of
from ...metrics.sums import add_row
from ...model.model import Model
from ...model.tree_columns import augment, augmented_weights, folded
from ...tuners.adaptive import Adagrad, Differences, Weights
from ...tuners.base import Features, Groups, Run, step_factors
from ...tuners.margin import KernelLists, health
from ...tuners.mira import Mira, RelativeMargin, Trace, context_scale, first_choice, learner_pass
from ..decoder.search_templates import SearchTemplates
from .decoders import ParallelText, ReferenceDecoder
from .learners import LearningTask, LoopFeatures, Tick, learnt, no_tick, with_names, without_names


@dataclass(frozen=True)
class Fresh:
    """Makes the lists of some sentences under weights [D]; ``start`` gives the trees, whose weights are learned too.

    Columns are the decoder's features, dense ones of templates and trees, then sparse features in the order in which they
    appear: lists grow ``ids``, and weights that are shorter are 0 for what is new.
    """

    decoder: ReferenceDecoder
    corpus: ParallelText
    start: Model
    plan: FeaturePlan | None = None  # of templates, without the names of sparse features
    ids: dict[str, int] = field(default_factory=dict)  # sparse features -> column among them

    @cached_property
    def templates(self) -> SearchTemplates | None:
        return None if self.plan is None else self.decoder.templates(self.plan)

    @cached_property
    def dense(self) -> tuple[str, ...]:
        """The columns that are there from the start."""
        listed = self.decoder.with_model(replace(self.start, weights=self._own()), self.templates).names
        entries = self.plan.entries if self.plan else ()
        made = (name for entry in entries for name in entry.features or ())
        products = map(product_name, (self.plan.products if self.plan else None) or ())
        return (*listed, *made, *products, *(tree.name for tree in self.start.trees))

    def _own(self) -> dict[str, float]:
        """The start's weights without those of sparse features."""
        sparse = {entry.name for entry in self.plan.entries if not entry.features} if self.plan else set()
        return {name: w for name, w in self.start.weights.items() if name.partition(":")[0] not in sparse}

    @property
    def names(self) -> tuple[str, ...]:
        """[D] the columns so far."""
        return (*self.dense, *self.ids)

    def vector(self) -> F64:
        """[D] the weights of the start; a weight of a feature that the decoder does not list stays with the model."""
        given, own = augmented_weights(self.start), self._own()
        for name, w in self.start.weights.items():
            if w and name not in own:
                self.ids.setdefault(name, len(self.ids))
        return np.array([given.get(name, 0.0) for name in self.names])

    def model(self, w: F64, ids: Iterable[str] | None = None) -> Model:
        d = len(self.dense)
        weights = {**self._kept, **dict(zip(self.dense, w[:d].tolist(), strict=True))}
        weights |= {name: v for name, v in zip(self.ids if ids is None else ids, w[d:].tolist(), strict=False) if v}
        return folded(weights, self.start)

    @cached_property
    def _kept(self) -> dict[str, float]:
        """Weights that nobody learns."""
        own = self._own()
        return {name: w for name, w in augmented_weights(self.start).items() if name in own or name not in self.start.weights}

    def with_plan(self, w: F64) -> Model:
        """The model, with the plan of its features that have weights."""
        model = self.model(w)
        if self.plan is None:
            return model
        return with_plan(model, with_names(self.plan, (name for name in self.ids if name in model.weights)))

    def lists(self, w: F64, sentences: I64, ids: dict[str, int] | None = None) -> tuple[NBest, Features]:
        """Fresh k-best lists with references of these sentences, and their features in the columns of ``names``.

        INOUT ids: the sparse features known, those of this object unless others are given.
        """
        ids = self.ids if ids is None else ids
        model = self.model(w, ids)
        source, *refs = (tuple(lines[s] for s in sentences) for lines in (self.corpus.source, *self.corpus.refs))
        part = ParallelText(self.corpus.name, source, tuple(refs))
        nbest = part.attached(self.decoder.list(model, part.source, templates=self.templates), part.name)
        augmented = learnable(augment(self.featurized(nbest), model))
        columns = np.stack([augmented.global_column(name) for name in self.dense], axis=1)
        if self.plan is None:
            return nbest, Features(self.dense, columns, SparseRows.empty(nbest.n_hyps))
        place = np.array([ids.setdefault(name, len(ids)) for name in augmented.sparse_names.to_pylist()], np.int64)
        found = augmented.global_sparse.tocoo()
        rows = sparse.csr_matrix((found.data, (found.row, place[found.col])), shape=(nbest.n_hyps, len(ids)))
        return nbest, Features((*self.dense, *ids), columns, SparseRows.from_matrix(rows))

    def featurized(self, nbest: NBest) -> NBest:
        """The list with the features of templates: all sparse ones that it has."""
        if self.plan is None or self.templates is None:
            return nbest
        opened = tuple(e if e.features else replace(e, features=None, min_count=1) for e in self.plan.entries)
        plan = replace(self.plan, entries=opened)
        return featurize(nbest, plan, registry=self.decoder.maker.registry, resources=self.templates.resources)[0]


def padded(x: F64, n: int) -> F64:
    """A vector with zeros after it, n numbers in all."""
    return x if len(x) == n else np.append(x, np.zeros(n - len(x), x.dtype))


@dataclass
class State:
    """The state that an epoch hands to the next one; kept beside its model, so that an interrupted run goes on from there."""

    w: F64  # [D] the last weights
    total: F64  # [D] the sum of the epochs' mean weights less the start's: a weight nobody moves keeps every bit
    rows: Array  # [S, n] statistics of each sentence's 1-best when last decoded
    seen: I64  # [S] whether it was
    squares: F64  # [D] Σ g² of AdaGrad
    last: I64  # [D]
    t: I64  # [] steps of AdaGrad
    unit: F64  # [D] in which AdaGrad takes differences; empty before the first epoch
    names: U8  # sparse features, the last of the D: JSON

    @classmethod
    def new(cls, w: F64, n_sentences: int, width: int = 11) -> State:
        d = len(w)
        return cls(
            w=w,
            total=np.zeros(d),
            rows=np.zeros((n_sentences, width)),
            seen=np.zeros(n_sentences, np.int64),
            squares=np.zeros(d),
            last=np.zeros(d, np.int64),
            t=np.zeros((), np.int64),
            unit=np.zeros(0),
            names=np.zeros(0, np.uint8),
        )

    def sparse_names(self) -> list[str]:
        return msgspec.json.decode(self.names.tobytes() or b"[]", type=list[str])

    def keep_names(self, names: Iterable[str]) -> None:
        self.names = np.frombuffer(msgspec.json.encode(list(names)), np.uint8)

    def grow(self, n: int) -> None:
        """Make room for features that are new."""
        more = n - len(self.w)
        self.w, self.total, self.squares = (padded(x, n) for x in (self.w, self.total, self.squares))
        self.last = np.append(self.last, np.full(more, self.t))
        if len(self.unit):
            self.unit = np.append(self.unit, np.ones(n - len(self.unit)))

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def load(cls, path: Path, new: State, n_dense: int | None = None) -> State:
        """Read what save has written for a run that started as ``new``; its sparse features are new to that."""
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as columns:
                state = cls(**{f.name: np.asarray(columns[f.name]) for f in fields(cls)})  # bytes where it is no array
            names = state.sparse_names()
            if len(set(names)) < len(names):
                raise ValueError("a name twice")
        except Exception as error:  # numpy and zipfile raise a dozen kinds for damaged data
            raise _bad_state(path, f"{type(error).__name__}: {error}") from None
        wide = ((len(new.w) if n_dense is None else n_dense) + len(names),)
        for f in fields(cls):
            found, expected = getattr(state, f.name), getattr(new, f.name)
            shapes: tuple[tuple[int, ...], ...] = (wide,) if f.name in ("w", "total", "squares", "last") else (expected.shape,)
            shapes = ((0,), wide) if f.name == "unit" else (found.shape,) if f.name == "names" else shapes
            if found.dtype != expected.dtype or found.shape not in shapes:
                raise _bad_state(path, f"{f.name} of {found.dtype} {found.shape}")
        return state


def _bad_state(path: Path, found: str) -> FormatError:
    return FormatError(str(path), expected="the state of this run", found=found, fix="it is damaged: start again with --force")


@dataclass
class Seen:
    """Curves of what passed by while weights moved: statistics of the model's best, of oracles and of predictions, and spreads.

    These are the curves of [E12] Figures 1 to 6 and of [EMR13] section 6, of real decoding.
    """

    sums: F64  # [3, n]
    spread: list[float] = field(default_factory=list)  # w·(f(y+) - f(y of the lowest score)) of each list

    @classmethod
    def nothing(cls, width: int) -> Seen:
        return cls(np.zeros((3, width)))

    def add(self, rows: Array, spread: Iterable[float]) -> None:
        """Statistics [3, n] of some lists, and their spreads; NaN is that of a list of one."""
        self.sums += rows
        self.spread += [value for value in spread if not np.isnan(value)]

    def row(self, metric: Metric) -> dict[str, float]:
        """Make a row of the history: scores (0..100), and the mean and standard deviation of the spread."""
        scores = {
            name: metric.points * float(metric.score(sums))
            for name, sums in zip(("dev", "oracle", "prediction"), self.sums, strict=True)
        }
        spread = np.array(self.spread) if self.spread else np.zeros(1)
        return {**scores, "spread_mean": float(spread.mean()), "spread_sd": float(spread.std())}


@dataclass(frozen=True)
class OnlineLearner:
    """A pass over the sentences of the corpus for each iteration of the loop."""

    tuner: Mira | RelativeMargin | Adagrad
    decoder: ReferenceDecoder
    corpus: ParallelText
    start: Model
    groups: Groups = Groups()  # noqa: RUF009 (frozen)
    gain: str = "bleu"  # what is learned
    features: LoopFeatures | None = None

    def __post_init__(self) -> None:
        self.groups.check(self.method, *(("l1", "c") if self.method == "adagrad" else ("c",)))

    level = None
    online = True

    @cached_property
    def metric(self) -> Metric:
        """The metric of the gain. Fresh lists have texts and references, and no quality columns."""
        return metric_of(self.gain)

    @property
    def method(self) -> str:
        return "rm" if isinstance(self.tuner, RelativeMargin) else type(self.tuner).__name__.lower()

    @cached_property
    def fresh(self) -> Fresh:
        return Fresh(self.decoder, self.corpus, self.start)

    def _open(self, task: LearningTask) -> Fresh:
        """Return what makes lists; the first iteration's list teaches templates, later ones find what it taught in the model."""
        if self.features is not None and "fresh" not in self.__dict__:
            plan = plan_of(task.start) or self.features.plan(task.dev, task.start, seed=task.seed, threads=task.threads)[1]
            self.__dict__["fresh"] = Fresh(self.decoder, self.corpus, self.start, without_names(plan))
        return self.fresh

    def made_from(self) -> dict[str, Any]:
        options = {name: "inf" if value == inf else value for name, value in asdict(self.tuner).items() if name != "epochs"}
        templates = {} if self.features is None else self.features.made_from()
        return {"online": self.method, **options, "groups": self.groups.rules, **learnt(self.gain), **templates}

    def learn(self, task: LearningTask) -> Model:
        fresh = self._open(task)
        task.name_left_out(augment(fresh.featurized(task.dev), self.start))
        before = task.folder.parent / f"iteration-{task.iteration - 1:02d}" / "online.npz"
        state = State.new(fresh.vector(), len(self.corpus.source), self.metric.width)
        if task.iteration > 1:
            state, names = State.load(before, state, len(fresh.dense)), fresh.ids
            names.clear()
            names.update((name, k) for k, name in enumerate(state.sparse_names()))
        how: dict[str, Any] = {"epoch": task.iteration, "seed": task.seed, "tick": task.tick, "groups": self.groups}
        if isinstance(self.tuner, Adagrad):
            gradient_of = partial(batch_gradient, self.tuner, fresh, gain=self.gain)
            row = adagrad_epoch(self.tuner, fresh, gradient_of, state, **how, gain=self.gain)
        else:
            row = mira_epoch(self.tuner, fresh, state, self.metric, **how, threads=task.threads)
        state.keep_names(fresh.ids)
        state.save(task.folder / "online.npz")
        average = not isinstance(self.tuner, Adagrad) and self.tuner.average
        start = padded(fresh.vector(), len(state.w))
        model = fresh.with_plan(start + state.total / task.iteration if average else state.w)
        rows = task.start.history if task.iteration > 1 else ()
        grown = {"features": int(np.count_nonzero(state.w))} if fresh.plan is not None else {}
        return replace(model, config=self.made_from(), history=(*rows, {"epoch": task.iteration, **row, **grown}))


def factors(names: tuple[str, ...], groups: Groups) -> F64:
    """[D] factor of each feature's steps, 0 where it is frozen."""
    return step_factors(Features(names, np.zeros((0, len(names))), SparseRows.empty(0)), Run(groups=groups))


# ---------------------------------------------------------------------------------------------------------------------
# MIRA and RM
# ---------------------------------------------------------------------------------------------------------------------


def mira_epoch(
    tuner: Mira | RelativeMargin,
    fresh: Fresh,
    state: State,
    metric: Metric,
    *,
    epoch: int,
    seed: int,
    threads: int = 1,
    tick: Tick = no_tick,
    groups: Groups = Groups(),  # noqa: B008 (frozen)
) -> dict[str, Any]:
    """[E12 algorithm 1] where each sentence is decoded when its turn comes; RM's updates are [EMR13]'s. IN OUT state, fresh.ids.

    Shards learn side by side from the same weights and are mixed after the epoch; the result depends on their number only.
    """
    choice = first_choice(tuner)
    if epoch > 1:
        choice = choice._replace(scale=context_scale(tuner, len(state.rows)))
    limits = tuner.limits()
    parts = np.array_split(np.random.default_rng([seed, epoch]).permutation(len(state.rows)), tuner.shards)
    first, done = padded(fresh.vector(), len(state.w)), list[int]()
    _ = fresh.dense, fresh.templates  # made now, and not in every thread
    before = state.rows[state.seen.astype(bool)].sum(axis=0)

    def learn(order: I64) -> tuple[int, F64, F64, dict[str, int], Seen]:
        """Steps, the last weights, the mean change of weights, the sparse features that they are of, and what was seen."""
        ids = dict(fresh.ids)  # a shard does not see what others find
        w, total, sums, moves = state.w.copy(), np.zeros(len(state.w)), before.copy(), 0
        own_first, factor, seen = first, factors(fresh.names, groups), Seen.nothing(metric.width)
        for s in order:
            nbest, features = fresh.lists(w, np.array([s]), ids)
            w, total, own_first = (padded(x, len(features)) for x in (w, total, own_first))
            factor = np.append(factor, factors(features.names[len(factor) :], groups))
            if state.seen[s]:
                add_row(state.rows[s], -1, sums)
            if nbest.n_hyps:
                x, gains = KernelLists.of(nbest, features, metric.name), metric.gain(nbest)
                trace = Trace(best=np.full(1, -1), plus=np.full(1, -1), minus=np.full(1, -1), spread=np.full(1, np.nan))
                past = np.zeros(len(w))  # age 0: the mean is kept here
                one = np.zeros(1, np.int64)
                moves += learner_pass(x, one, gains, choice, limits, w, past, factor, sums, trace)
                state.rows[s], state.seen[s] = x.rows[trace.best[0]], 1
                seen.add(x.rows[[trace.best[0], trace.plus[0], trace.minus[0]]], trace.spread)
            total += w - own_first
            done.append(s)
            tick(len(done), len(state.rows))
        return moves, w, total / max(len(order), 1), ids, seen

    with ThreadPoolExecutor(max(1, min(threads, tuner.shards))) as pool:
        moves, last, mean, found, seen = zip(*pool.map(learn, parts), strict=True)
    started = bool(state.w.any())
    d = len(fresh.dense)
    for ids in found:
        for name in ids:
            fresh.ids.setdefault(name, len(fresh.ids))
    state.grow(d + len(fresh.ids))
    places = [np.append(np.arange(d), [d + fresh.ids[name] for name in ids]).astype(np.int64) for ids in found]
    state.w = state.w + sum(_scattered(w - state.w[at], at, len(state.w)) for w, at in zip(last, places, strict=True)) / len(last)
    state.total = state.total + sum(_scattered(m, at, len(state.w)) for m, at in zip(mean, places, strict=True)) / len(mean)
    every = Seen.nothing(metric.width)
    for own in seen:
        every.add(own.sums, own.spread)
    return {**every.row(metric), "moves": sum(moves), **health(epoch, state.w, started=started, moves=sum(moves))}


def _scattered(x: F64, at: I64, n: int) -> F64:
    """[n] numbers x in places ``at``, 0 elsewhere."""
    out = np.zeros(n)
    out[at] = x
    return out


# ---------------------------------------------------------------------------------------------------------------------
# AdaGrad
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gradient:
    """The gradient of a mini-batch at some weights."""

    active: I64
    values: F64  # [len(active)]
    loss: float
    n_pairs: int
    seen: Seen
    new: tuple[str, ...] = ()  # sparse features that the weights did not have: the columns after theirs


def batch_gradient(
    tuner: Adagrad,
    fresh: Fresh,
    w: F64,
    unit: F64,
    sentences: I64,
    seed: Sequence[int],
    names: Sequence[str] = (),
    *,
    gain: str = "bleu",
) -> Gradient:
    """Decode a mini-batch with raw weights w [D], draw pairs, and take the gradient of weights in units of ``unit`` [D].

    ``names`` are the sparse features among the D.
    """
    ids = {name: k for k, name in enumerate(names)}
    nbest, features = fresh.lists(w, sentences, ids)
    metric = metric_of(gain)
    gains = metric.gain(nbest)
    pairs = tuner.draw(nbest, gains, np.random.default_rng(seed), Run())
    seen = seen_in(nbest, features.scores(padded(w, len(features))), gains, metric)
    unit = np.append(unit, np.ones(len(features) - len(unit)))
    batch = replace(Differences.of(features), unit=unit).batch(pairs.better, pairs.worse)
    values, loss = batch.gradient((padded(w, len(features)) * unit)[batch.active], loss=tuner.loss)
    return Gradient(batch.active, values, loss, len(pairs), seen, tuple(ids)[len(names) :])


def seen_in(nbest: NBest, scores: F64, gains: F64, metric: Metric) -> Seen:
    """Sum up fresh lists with scores and gains [H]: the oracle has the highest gain, the prediction is the model's best."""
    some = nbest.take(np.flatnonzero(np.diff(nbest.hyp_ptr)))
    best, oracle, worst = (best_choice(some, of) for of in (scores, gains, -scores))
    rows = [metric.rows(some, at).sum(axis=0) for at in (best, oracle, best)]
    spread = np.where(np.diff(some.hyp_ptr) > 1, scores[oracle] - scores[worst], np.nan)
    seen = Seen.nothing(metric.width)
    seen.add(np.array(rows, np.float64), spread.tolist())
    return seen


class _Steps:
    """Steps of AdaGrad on weights in units; these and the state grow with the sparse features that gradients bring."""

    def __init__(self, tuner: Adagrad, fresh: Fresh, state: State, groups: Groups, seen: Seen) -> None:
        self.tuner, self.fresh, self.state, self.groups, self.seen = tuner, fresh, state, groups, seen
        self.loss = self.n_pairs = 0.0
        state.grow(len(fresh.names))
        self.weights = self._weights(state.w * state.unit)
        self.weights.squares, self.weights.last, self.weights.t = state.squares, state.last, int(state.t)

    def _weights(self, w: F64) -> Weights:
        features = Features(self.fresh.names, np.zeros((0, len(self.fresh.dense))), SparseRows.empty(0))
        return self.tuner.weights(features, w, Run(groups=self.groups), root=True)

    def raw(self) -> F64:
        """[D] the weights now, of raw features."""
        return self.weights.settled() / self.state.unit

    def take(self, known: int, gradient: Gradient) -> None:
        """Apply the gradient at weights that had so many features."""
        ids, d = self.fresh.ids, len(self.fresh.dense)
        of_new = np.array([d + ids.setdefault(name, len(ids)) for name in gradient.new], np.int64)
        if (n := d + len(ids)) > len(self.weights.w):
            grown = self._weights(np.zeros(n))
            self.weights.grow(rate=grown.rate, l1=grown.l1)
            self.state.grow(n)
        active, is_new = gradient.active.copy(), gradient.active >= known
        active[is_new] = of_new[active[is_new] - known]
        by_column = np.argsort(active, kind="stable")
        self.weights.step(active[by_column], gradient.values[by_column])
        self.loss, self.n_pairs = self.loss + gradient.loss, self.n_pairs + gradient.n_pairs
        self.seen.add(gradient.seen.sums, gradient.seen.spread)


def adagrad_epoch(
    tuner: Adagrad,
    fresh: Fresh,
    gradient_of: Callable[..., Gradient],
    state: State,
    *,
    epoch: int,
    seed: int,
    gain: str = "bleu",
    tick: Tick = no_tick,
    groups: Groups = Groups(),  # noqa: B008 (frozen)
) -> dict[str, Any]:
    """[G13 algorithm 2] on a fixed schedule: the gradient of batch t is taken at the weights of step t - n.

    IN OUT state, fresh.ids. Gradients are applied in the order of batches, so the result depends on the number n of workers and
    not on which is done first. An epoch starts with no gradient under way and ends when all are applied. ``gradient_of`` is
    ``batch_gradient`` with its first arguments.
    """
    order = np.random.default_rng([seed, epoch]).permutation(len(state.rows))
    batches = [order[i : i + tuner.batch] for i in range(0, len(order), tuner.batch)]
    if not len(state.unit):
        state.unit = _units(tuner, fresh, gain, state.w, batches[0], seed)
    steps = _Steps(tuner, fresh, state, groups, Seen.nothing(metric_of(gain).width))
    under_way: deque[tuple[int, Future[Gradient]]] = deque()
    _ = fresh.templates  # made now, and not in every thread

    def take() -> None:
        known, gradient = under_way.popleft()
        steps.take(known, gradient.result())

    with ThreadPoolExecutor(tuner.workers) as pool:
        for t, sentences in enumerate(batches):
            if len(under_way) == tuner.workers:
                take()
            tick(t, len(batches))
            raw = steps.raw()
            future = pool.submit(gradient_of, raw, state.unit.copy(), sentences, (seed, epoch, t), tuple(fresh.ids))
            under_way.append((len(raw), future))
        while under_way:
            take()
    weights = steps.weights
    if not np.isfinite(weights.squares).all():
        raise InputError(f"epoch {epoch}: the gradients have blown up; rescale the features")
    state.w, state.squares, state.last, state.t = steps.raw(), weights.squares, weights.last, np.array(weights.t)
    return {**steps.seen.row(metric_of(gain)), "loss": steps.loss / max(steps.n_pairs, 1), "pairs": int(steps.n_pairs)}


def _units(tuner: Adagrad, fresh: Fresh, gain: str, w: F64, sentences: I64, seed: int) -> F64:
    """[D] what differences are measured in: their typical size in the first mini-batch, as the start's weights decode it."""
    nbest, features = fresh.lists(w, sentences)
    rng = np.random.default_rng([seed, 0])
    return tuner.differences(features, nbest, metric_of(gain).gain(nbest), rng, Run()).unit
