"""Online learning: every sentence is decoded with the weights of the moment, and its fresh k-best list moves them.

An epoch is an iteration of the loop. MIRA chooses hope and fear from each fresh list [E12]; AdaGrad takes gradients of
mini-batches in worker processes at weights that are some steps old [G13 algorithm 2]. The formulas are those of the tuners.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..core.arrays import F64, I64, Array
from ..core.errors import FormatError, InputError
from ..core.files import atomic_path
from ..lists.learnable import learnable
from ..lists.nbest import NBest, SparseRows
from ..metrics.bleu import N_STATS, corpus_rows
from ..metrics.metric import Metric, metric_of
from ..metrics.sums import add_row
from ..model.model import Model
from ..model.tree_columns import augment, augmented_weights, folded
from ..tuners.adagrad import Adagrad
from ..tuners.adaptive import Differences, Weights
from ..tuners.base import Features, Groups, Run, step_factors
from ..tuners.margin import Limits, Lists, health
from ..tuners.mira import ORACLES, PREDICTIONS, Choice, Mira, Trace, context_scale, learner_pass
from .decoders import Corpus
from .learners import Task, Tick, learnt, no_tick
from .reference import ReferenceDecoder


@dataclass(frozen=True)
class Fresh:
    """Makes the lists of some sentences under weights [D]; ``start`` gives the trees, whose weights are learnt too."""

    decoder: ReferenceDecoder
    corpus: Corpus
    start: Model

    @cached_property
    def names(self) -> tuple[str, ...]:
        """[D] the columns: the decoder's features, then trees."""
        return (*self.decoder.with_model(self.start).names, *(tree.name for tree in self.start.trees))

    def vector(self) -> F64:
        """[D] the weights of the start; a weight of a feature that the decoder does not list stays with the model."""
        given = augmented_weights(self.start)
        return np.array([given.get(name, 0.0) for name in self.names])

    def model(self, w: F64) -> Model:
        weights = {**augmented_weights(self.start), **dict(zip(self.names, w.tolist(), strict=True))}
        return folded(weights, self.start)

    def lists(self, w: F64, sentences: I64) -> tuple[NBest, Features]:
        """Fresh k-best lists with references of these sentences, and their features in the columns of ``names``."""
        model = self.model(w)
        part = Corpus(
            self.corpus.name,
            tuple(self.corpus.source[s] for s in sentences),
            tuple(tuple(lines[s] for s in sentences) for lines in self.corpus.refs),
        )
        nbest = part.attached(self.decoder.list(model, part.source), part.name)
        augmented = learnable(augment(nbest, model))
        columns = np.stack([augmented.global_column(name) for name in self.names], axis=1)
        return nbest, Features(self.names, columns, SparseRows.empty(nbest.n_hyps))


@dataclass
class State:
    """What an epoch hands to the next one; kept beside its model, so that an interrupted run goes on from there."""

    w: F64  # [D] the last weights
    total: F64  # [D] the sum of the epochs' mean weights less the start's: a weight nobody moves keeps every bit
    rows: Array  # [S, n] statistics of each sentence's 1-best when last decoded
    seen: I64  # [S] whether it was
    squares: F64  # [D] Σ g² of AdaGrad
    last: I64  # [D]
    t: I64  # [] steps of AdaGrad
    unit: F64  # [D] in which AdaGrad takes differences; empty before the first epoch

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
        )

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def load(cls, path: Path, new: State) -> State:
        """What save has written for a run that started as ``new``."""
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as columns:
                state = cls(**{f.name: np.asarray(columns[f.name]) for f in fields(cls)})  # bytes where it is no array
        except Exception as error:  # numpy and zipfile raise a dozen kinds for damaged data
            raise _bad_state(path, f"{type(error).__name__}: {error}") from None
        if state.rows.shape == (len(new.rows), N_STATS):  # as release 0.1 kept them
            state.rows = corpus_rows(state.rows).astype(np.float64)
        for f in fields(cls):
            found, expected = getattr(state, f.name), getattr(new, f.name)
            shapes = (expected.shape, new.w.shape) if f.name == "unit" else (expected.shape,)
            if found.dtype != expected.dtype or found.shape not in shapes:
                raise _bad_state(path, f"{f.name} of {found.dtype} {found.shape}")
        return state


def _bad_state(path: Path, found: str) -> FormatError:
    return FormatError(str(path), expected="the state of this run", found=found, fix="it is damaged: start again with --force")


@dataclass(frozen=True)
class OnlineLearner:
    """A pass over the sentences of the corpus for each iteration of the loop."""

    tuner: Mira | Adagrad
    decoder: ReferenceDecoder
    corpus: Corpus
    start: Model
    groups: Groups = Groups()  # noqa: RUF009 (frozen)
    gain: str = "bleu"  # what is learnt

    def __post_init__(self) -> None:
        self.groups.check("mira", "c") if isinstance(self.tuner, Mira) else self.groups.check("adagrad", "l1", "c")
        if isinstance(self.tuner, Adagrad) and self.tuner.asynchronous:
            raise InputError("asynchronous: expected the fixed schedule of online learning, found true; leave it out")

    @property
    def level(self) -> str | None:
        return None

    @cached_property
    def metric(self) -> Metric:
        """Of the gain. Fresh lists have texts and references, and no quality columns."""
        return metric_of(self.gain)

    @cached_property
    def fresh(self) -> Fresh:
        return Fresh(self.decoder, self.corpus, self.start)

    @cached_property
    def workers(self) -> list[Worker]:
        """Those of AdaGrad, for all epochs: each reads the decoder's tables once. A single one is this process."""
        assert isinstance(self.tuner, Adagrad)
        n, job = self.tuner.workers, partial(batch_gradient, self.tuner, self.fresh, gain=self.gain)
        return [There(job) for _ in range(n)] if n > 1 else [Here(job)]

    def close(self) -> None:
        for worker in self.__dict__.get("workers", ()):
            worker.close()

    def made_from(self) -> dict[str, Any]:
        options = {name: value for name, value in asdict(self.tuner).items() if name != "epochs"}
        return {"online": type(self.tuner).__name__.lower(), **options, "groups": self.groups.rules, **learnt(self.gain)}

    def learn(self, task: Task) -> Model:
        task.name_left_out(augment(task.dev, task.start))
        before = task.folder.parent / f"iteration-{task.iteration - 1:02d}" / "online.npz"
        fresh = self.fresh
        state = State.new(fresh.vector(), len(self.corpus.source), self.metric.width)
        state = State.load(before, state) if task.iteration > 1 else state
        features = Features(fresh.names, np.zeros((0, len(state.w))), SparseRows.empty(0))
        factor = step_factors(features, Run(groups=self.groups))
        how: dict[str, Any] = {"epoch": task.iteration, "seed": task.seed, "tick": task.tick}
        if isinstance(self.tuner, Mira):
            row = mira_epoch(self.tuner, fresh, state, factor, self.metric, **how, threads=task.threads)
        else:
            l1 = self.tuner.l1 * self.groups.factors(fresh.names, "l1")
            row = adagrad_epoch(self.tuner, fresh, self.workers, state, factor, l1, **how, gain=self.gain)
        state.save(task.folder / "online.npz")
        average = isinstance(self.tuner, Mira) and self.tuner.average
        model = fresh.model(fresh.vector() + state.total / task.iteration if average else state.w)
        rows = task.start.history if task.iteration > 1 else ()
        return replace(model, config=self.made_from(), history=(*rows, {"epoch": task.iteration, **row}))


# ---------------------------------------------------------------------------------------------------------------------
# MIRA
# ---------------------------------------------------------------------------------------------------------------------


def mira_epoch(
    tuner: Mira,
    fresh: Fresh,
    state: State,
    factor: F64,
    metric: Metric,
    *,
    epoch: int,
    seed: int,
    threads: int = 1,
    tick: Tick = no_tick,
) -> dict[str, Any]:
    """[E12 algorithm 1] where each sentence is decoded when its turn comes. IN OUT state.

    Shards learn side by side from the same weights and are mixed after the epoch; the result depends on their number only.
    """
    choice = Choice(*ORACLES[tuner.oracle], *PREDICTIONS[tuner.prediction], tuner.k if tuner.oracle == "lu" else 0, 0.0)
    if epoch > 1:
        choice = choice._replace(scale=context_scale(tuner, len(state.rows)))
    limits = Limits(c=tuner.c, bound=inf, d=0.0, max_iter=0)
    parts = np.array_split(np.random.default_rng([seed, epoch]).permutation(len(state.rows)), tuner.shards)
    first, done = fresh.vector(), list[int]()
    before = state.rows[state.seen == 1].sum(axis=0)

    def learn(order: I64) -> tuple[int, F64, F64]:
        w, total, sums, moves = state.w.copy(), np.zeros(len(state.w)), before.copy(), 0
        for s in order:
            nbest, features = fresh.lists(w, np.array([s]))
            if state.seen[s]:
                add_row(state.rows[s], -1, sums)
            if nbest.n_hyps:
                x, gains = Lists.of(nbest, features, metric.name), metric.gain(nbest)
                trace = Trace(best=np.full(1, -1), plus=np.full(1, -1), minus=np.full(1, -1), spread=np.full(1, np.nan))
                past = np.zeros(len(w))  # age 0: the mean is kept here
                one = np.zeros(1, np.int64)
                moves += learner_pass(x, one, gains, choice, limits, w, past, factor, sums, trace, x.longest, x.n_scratch)
                state.rows[s], state.seen[s] = x.rows[trace.best[0]], 1
            total += w - first
            done.append(s)
            tick(len(done), len(state.rows))
        return moves, w, total / max(len(order), 1)

    with ThreadPoolExecutor(max(1, min(threads, tuner.shards))) as pool:
        moves, last, mean = zip(*pool.map(learn, parts), strict=True)
    started = bool(state.w.any())
    state.w = state.w + sum(w - state.w for w in last) / len(last)
    state.total = state.total + sum(mean) / len(mean)
    return {"moves": sum(moves), **health(epoch, state.w, started=started, moves=sum(moves))}


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


def batch_gradient(
    tuner: Adagrad, fresh: Fresh, w: F64, unit: F64, sentences: I64, seed: Sequence[int], *, gain: str = "bleu"
) -> Gradient:
    """Decode a mini-batch with raw weights w [D], draw pairs, and take the gradient of weights in units of ``unit`` [D]."""
    nbest, features = fresh.lists(w, sentences)
    pairs = tuner.draw(nbest, metric_of(gain).gain(nbest), np.random.default_rng(seed), Run())
    batch = replace(Differences.of(features), unit=unit).batch(pairs.better, pairs.worse)
    values, loss = batch.gradient((w * unit)[batch.active], loss=tuner.loss)
    return Gradient(batch.active, values, loss, len(pairs))


def adagrad_epoch(
    tuner: Adagrad,
    fresh: Fresh,
    pool: Sequence[Worker],
    state: State,
    factor: F64,
    l1: F64,
    *,
    epoch: int,
    seed: int,
    gain: str = "bleu",
    tick: Tick = no_tick,
) -> dict[str, Any]:
    """[G13 algorithm 2] on a fixed schedule: the gradient of batch t is taken at the weights of step t - n. IN OUT state.

    Worker t mod n decodes batch t, so the result depends on the number n of workers and not on which is done first. An epoch
    starts with no gradient under way and ends when all are applied.
    """
    order = np.random.default_rng([seed, epoch]).permutation(len(state.rows))
    batches = [order[i : i + tuner.batch] for i in range(0, len(order), tuner.batch)]
    if not len(state.unit):
        state.unit = _units(tuner, fresh, gain, state.w, batches[0], seed)
    weights = Weights(state.w * state.unit, rate=tuner.dense_eta * factor, l1=l1, root=True)
    weights.squares, weights.last, weights.t = state.squares, state.last, int(state.t)
    total = n_pairs = 0.0

    def step(gradient: Gradient) -> None:
        nonlocal total, n_pairs
        weights.step(gradient.active, gradient.values)
        total, n_pairs = total + gradient.loss, n_pairs + gradient.n_pairs

    n = len(pool)
    for t, sentences in enumerate(batches):
        if t >= n:
            step(pool[t % n].result())
        tick(t, len(batches))
        pool[t % n].start(weights.settled() / state.unit, state.unit, sentences, (seed, epoch, t))
    for t in range(max(len(batches) - n, 0), len(batches)):
        step(pool[t % n].result())
    if not np.isfinite(weights.squares).all():
        raise InputError(f"epoch {epoch}: the gradients have blown up; rescale the features")
    state.w, state.squares, state.last = weights.settled() / state.unit, weights.squares, weights.last
    state.t = np.array(weights.t)
    return {"loss": total / max(n_pairs, 1), "pairs": int(n_pairs)}


def _units(tuner: Adagrad, fresh: Fresh, gain: str, w: F64, sentences: I64, seed: int) -> F64:
    """[D] what differences are measured in: their typical size in the first mini-batch, as the start's weights decode it."""
    nbest, features = fresh.lists(w, sentences)
    rng = np.random.default_rng([seed, 0])
    return tuner.differences(features, nbest, metric_of(gain).gain(nbest), rng, Run()).unit


# ---------------------------------------------------------------------------------------------------------------------
# Worker processes
# ---------------------------------------------------------------------------------------------------------------------


class Worker(Protocol):
    """Does one job at a time: ``start`` it, later take its ``result``."""

    def start(self, *args: Any) -> None: ...
    def result(self) -> Any: ...
    def close(self) -> None: ...


class Here:
    """A worker that is this process."""

    def __init__(self, job: Any) -> None:
        self.job, self.value = job, None

    def start(self, *args: Any) -> None:
        self.value = self.job(*args)

    def result(self) -> Any:
        return self.value

    def close(self) -> None:
        pass


class There:
    """A worker in a process of its own, which ends with ours, however that ends."""

    def __init__(self, job: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, job), daemon=True)
        self.process.start()
        other.close()

    def start(self, *args: Any) -> None:
        try:
            self.pipe.send(args)
        except BrokenPipeError:
            raise self._gone() from None

    def result(self) -> Any:
        try:
            kind, value = self.pipe.recv()
        except EOFError:
            raise self._gone() from None
        if kind != "done":
            raise InputError(value) if kind == "input error" else RuntimeError(value)
        return value

    def _gone(self) -> InputError:
        self.process.join()
        return InputError(
            f"worker: expected a gradient, found its end (exit code {self.process.exitcode}); is there enough memory?"
        )

    def close(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def _serve(pipe: Any, job: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the caller ends us
    while True:
        try:
            args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("done", job(*args)))
        except InputError as error:
            pipe.send(("input error", str(error)))
        except Exception:
            import traceback

            pipe.send(("error", traceback.format_exc()))
