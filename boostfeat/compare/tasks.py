"""Work of a comparison, done in worker processes: lists with features, fits and scores. What is done already is not done again.

A plan is a generator that yields a list of tasks and is sent their results, in the same order; what it returns is its result.
So results do not depend on how many workers there are, nor on who is done first.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..boosting.local import first_gradient
from ..boosting.record import as_read
from ..core.arrays import I64, Array
from ..core.errors import InputError
from ..core.files import atomic_path, digest, digest_lines, open_output, read_bytes
from ..core.strict_json import parse_json, read_json, write_json
from ..features import FeaturePlan, Posterior
from ..features.feature_maker import FeatureMaker
from ..features.resources import ResourceFiles
from ..lists.choices import Scorer, decoder_choice, oracle_choice
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..metrics.bleu import HYP_SUM, REF_SUM, brevity_penalty
from ..metrics.metric import Metric, metrics_of
from ..metrics.significance import exact_sums
from ..model.model import Model
from ..tuners.base import Run
from ..tuners.pro import Pro
from .comparison_options import CompareOptions
from .job_processes import Job
from .systems import INDUCED, Fit, Fitted, Report, System, boost_options, choose, fitted_here

VERSIONS = ("numpy", "scipy", "lightgbm", "sacrebleu", "numba")
SUFFIX = ".json.zst"
ALWAYS = ("bleu", "bleu-sbp")  # where there are references
METRICS = (*ALWAYS, "chrf", "ter")  # where nothing is said
PLAN = "plan.json"

AnyPlan = Generator[Sequence["Task"], list[Any], Any]
Watch = Callable[[str, int, int, Any], None]  # a plan's name, tasks done and asked for, the last result or None


# ---------------------------------------------------------------------------------------------------------------------
# Plans of several systems, carried out together
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A call for a worker, known by its key; ``function`` gets the arguments, the number of threads, and ``report``."""

    key: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    cost: float  # of it and of what waits for it, beside others: what takes longest starts first
    known: Callable[[], Any] = lambda: None  # returns its result, where it is there already
    keep: Callable[[Any, float], Any] = lambda result, peak_mb: result  # returns what the plan is sent


@dataclass
class _Asked:
    """A plan and what it waits for."""

    plan: AnyPlan
    waiting: dict[int, str] = field(default_factory=dict)  # place of a task -> its key
    results: list[Any] = field(default_factory=list)
    done: int = 0
    total: int = 0


@dataclass
class Schedule:
    """The jobs of plans by name, for ``JobProcesses.run``; ``found`` has what plans returned. Equal tasks are one job."""

    plans: Mapping[str, AnyPlan]
    threads: int
    watch: Watch = lambda name, done, total, result: None
    found: dict[str, Any] = field(default_factory=dict)
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _ready: dict[str, tuple[Task, str]] = field(default_factory=dict)  # key -> the task, and the plan that asked first
    _running: dict[str, Task] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, plan in self.plans.items():
            self._asked[name] = _Asked(plan)
            self._send(name, None)

    def take(self) -> Job | None:
        """Return the job that may take longest. It shares the threads with those that may take as long."""
        if not self._ready:
            return None
        key = max(self._ready, key=lambda key: self._ready[key][0].cost)  # of equals, what was asked for first
        task, name = self._ready.pop(key)
        beside = [*self._running.values(), *(other for other, _ in self._ready.values())]
        threads = max(1, self.threads // (1 + sum(other.cost >= task.cost for other in beside)))
        self._running[key] = task
        return Job(key, name, task.function, (*task.args, threads))

    def done(self, job: Job, result: Any, peak_mb: float) -> None:
        """Hand a result to all plans that wait for it, and let those go on that wait for nothing else."""
        finished = self._running.pop(job.key).keep(result, peak_mb)
        for name, asked in self._asked.items():
            places = [place for place, wanted in asked.waiting.items() if wanted == job.key]
            for place in places:
                del asked.waiting[place]
                asked.results[place] = finished
                asked.done += 1
                self.watch(name, asked.done, asked.total, finished)
            if places and not asked.waiting:
                self._send(name, asked.results)

    def _send(self, name: str, results: list[Any] | None) -> None:
        """Let a plan go on, as far as it can with what is known."""
        asked = self._asked[name]
        while True:
            try:
                tasks = next(asked.plan) if results is None else asked.plan.send(results)
            except StopIteration as end:
                self.found[name] = end.value
                return
            asked.results, asked.total = [None] * len(tasks), asked.total + len(tasks)
            for place, task in enumerate(tasks):
                waits = task.key in self._running or task.key in self._ready
                if not waits and (known := task.known()) is not None:
                    asked.results[place] = known
                    asked.done += 1
                    continue
                asked.waiting[place] = task.key
                if not waits:
                    self._ready[task.key] = task, name
            self.watch(name, asked.done, asked.total, None)
            if asked.waiting:
                return
            results = asked.results


@lru_cache(maxsize=4)
def _opened(path: str) -> NBest:
    """Return a mapped list, which jobs of a worker share."""
    return read_store(path)


@lru_cache(maxsize=4)
def _scorer(path: str) -> Scorer:
    """Return what keeps the statistics of hypotheses that several systems choose."""
    return Scorer(_opened(path))


@lru_cache
def code_digest() -> str:
    """Return a digest of this package and of what its numbers come from: other code is asked anew."""
    package = Path(__file__).parents[1]
    parts = [f"{name} {version(name)}" for name in VERSIONS]
    parts += [f"{p.relative_to(package)} {digest(p)}" for p in sorted(package.rglob("*.py"))]
    return digest_lines(parts)


# ---------------------------------------------------------------------------------------------------------------------
# Lists with features
# ---------------------------------------------------------------------------------------------------------------------


def feature_task(
    feature_set: str,
    which: str,
    source: str,
    path: str,
    made_from: Mapping[str, Any],
    options: CompareOptions,
    files: ResourceFiles,
) -> Task:
    """Return the task of a list with a set of features; it is taken from a run beside this one where it is there."""
    here, mark = Path(path).absolute(), {**made_from, "code": code_digest()}

    def known() -> str | None:
        for place in (here, *sorted(here.parents[3].glob(f"*/features/{feature_set}/{here.name}"))):
            if not place.exists() or read_json(place.with_suffix(".json")) != mark:
                continue
            if place == here:
                return path
            here.parent.mkdir(parents=True, exist_ok=True)
            for name in (here.name, *([PLAN] if which == "dev" else [])):
                with atomic_path(here.with_name(name)) as copy:
                    shutil.copyfile(place.with_name(name), copy)
            if read_json(place.with_suffix(".json")) == mark:  # else another run has begun to make it anew
                return keep(None, 0.0)
        return None

    def keep(result: None, peak_mb: float) -> str:
        write_json(here.with_suffix(".json"), mark)
        return path

    return Task(path, write_featurized, (source, path, feature_set, which, options, files), 100.0, known, keep)


def write_featurized(
    source: str,
    path: str,
    feature_set: str,
    which: str,
    options: CompareOptions,
    files: ResourceFiles,
    threads: int,
    *,
    report: Report,
) -> None:
    """Make the features of a list; dev teaches the plan, which gives the other lists the same columns."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).with_suffix(".json").unlink(missing_ok=True)  # until the list is there
    plan_file, nbest, gain = Path(path).with_name(PLAN), read_store(source), options.gain
    maker = FeatureMaker(files, seed=options.seed, threads=threads, say=report)
    if which != "dev":
        maker.apply(nbest, FeaturePlan.load(plan_file), to=path)
        return
    plan, posterior = maker.plan(feature_set, min_count=options.min_count), None
    if any(maker.registry[entry.name].kind == "list" for entry in plan.entries):
        run = Run(seed=options.seed, threads=threads, gain=gain)
        linear = Model(Pro().fit(nbest, None, run).weights)  # a better judge than its decoder
        posterior = Posterior(model=linear.to_json())
    gradient = partial(first_gradient, gain=gain, seed=options.seed, threads=threads)
    maker.learn(nbest, plan, posterior=posterior, gradient_of=gradient, to=path, keep=lambda learnt: learnt.save(plan_file))


# ---------------------------------------------------------------------------------------------------------------------
# Fits: each is carried out once, by a worker, and kept in RUN/fits for other runs too
# ---------------------------------------------------------------------------------------------------------------------


class _KeptFit(msgspec.Struct):
    """A file of RUN/fits."""

    made_from: dict[str, Any]
    select: float
    seconds: float
    peak_mb: float
    model: dict[str, Any]


def fit_task(fit: Fit, lists: Mapping[str, str], lists_from: Mapping[str, Any], options: CompareOptions, kept: KeptFits) -> Task:
    """Return the task of a fit on lists of dev and select that are there; ``lists_from`` says what they are made from."""
    system = fit.system
    made_from = as_read({
        "lists": lists_from,
        "fit": fit.made_from,
        "boosting": repr(boost_options(system, options, fit.params)) if system.level else None,
        "gain": options.gain,
        "metric": options.main_metric,
        "code": code_digest(),
    })  # fmt: skip
    key = key_of(made_from)

    def keep(result: Fitted, peak_mb: float) -> Fitted:
        return kept.keep(made_from, replace(result, peak_mb=round(peak_mb, 1)))

    cost = 4.0 if system.level else {"pro": 3.0, "mert": 2.0}.get(system.method, 0.5)  # what others wait for comes early
    return Task(key, fit_in_worker, (fit, dict(lists), options), cost, partial(kept.find, made_from), keep)


def key_of(made_from: Mapping[str, Any]) -> str:
    """Return the name of what a fit is made from."""
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class KeptFits:
    """RUN/fits: one file a fit, called after the digest of what it is made from. Those of runs beside this one are taken over."""

    folder: Path
    beside: tuple[Path, ...] = ()

    @classmethod
    def of(cls, run: Path) -> KeptFits:
        own = run / "fits"
        own.mkdir(exist_ok=True)
        return cls(own, tuple(sorted(p for p in run.absolute().parent.glob("*/fits") if p != own.absolute())))

    def find(self, made_from: Mapping[str, Any]) -> Fitted | None:
        """Return the fit, if it is here, or in a run beside this one; then it is here afterwards."""
        for folder in (self.folder, *self.beside):
            fitted = _read_fit(folder / f"{key_of(made_from)}{SUFFIX}", made_from)
            if fitted is not None:
                if folder != self.folder:
                    self.keep(made_from, fitted)
                return fitted
        return None

    def keep(self, made_from: Mapping[str, Any], fitted: Fitted) -> Fitted:
        parts = {"select": fitted.select, "seconds": fitted.seconds, "peak_mb": fitted.peak_mb, "model": fitted.model.to_json()}
        with open_output(self.folder / f"{key_of(made_from)}{SUFFIX}") as stream:
            stream.write(json.dumps({"made_from": made_from, **parts}, ensure_ascii=False).encode())
        return fitted


def _read_fit(path: Path, made_from: Mapping[str, Any]) -> Fitted | None:
    """Return the fit that is kept there; None where there is none, half of it, or another."""
    try:
        kept = msgspec.convert(parse_json(read_bytes(path)), _KeptFit) if path.exists() else None
        if kept is None or kept.made_from != made_from:
            return None
        return Fitted(Model.from_json(kept.model, str(path)), kept.select, kept.seconds, kept.peak_mb)
    except (InputError, ValueError):  # msgspec's errors are ValueErrors
        return None


def fit_in_worker(fit: Fit, lists: Mapping[str, str], options: CompareOptions, threads: int, *, report: Report) -> Fitted:
    """Carry out a fit."""
    return fitted_here(fit, _opened(lists["dev"]), _scorer(lists["select"]), options, threads=threads)


# ---------------------------------------------------------------------------------------------------------------------
# Scores
# ---------------------------------------------------------------------------------------------------------------------


def reported(options: CompareOptions, nbest: NBest) -> list[Metric]:
    """Return the metrics that are reported of a list, the one that chooses included."""
    names = [*(ALWAYS if nbest.has_stats else ()), *options.metric.split(",")]
    if "," not in options.metric:
        names += [*(METRICS if nbest.has_stats else ()), *nbest.quality.names]
    return list({m.name: m for m in metrics_of(names, nbest)}.values())


def score_task(
    system: System, which: str, given: Mapping[str, Any], featurized: str, models: Sequence[str], options: CompareOptions
) -> Task:
    """Return the task of the scores of a system's models on a list, as it was given and with the system's features."""
    cost = given["hypotheses"] * (10.0 if system.feature_set == INDUCED else 2.0 if system.method == "mbr" else 1.0)
    return Task(f"{system.name} on {which}", score_in_worker, (system, given["path"], featurized, list(models), options), cost)


def score_in_worker(
    system: System, path: str, featurized: str, models: Sequence[str], options: CompareOptions, threads: int, *, report: Report
) -> list[dict[str, Any]]:
    """Return all metrics of each run on a list, and the chosen hypotheses, counted within their lists."""
    nbest, scorer = _opened(path), _scorer(path)
    ends = _ends(path, options.main_metric)
    choices = [choose(system, Model.load(file), _opened(featurized), threads=threads) for file in models]
    return [scores_of(scorer, chosen, options, ends) for chosen in choices or [decoder_choice(nbest)]]


@lru_cache(maxsize=4)
def _ends(path: str, metric_name: str) -> tuple[float, float]:
    """Return the scores of the decoder's choices and of the oracle's."""
    scorer = _scorer(path)
    metric = scorer.metric(metric_name)
    decoder, oracle = decoder_choice(scorer.nbest), oracle_choice(scorer.nbest, metric)
    return scorer.score(decoder, metric).score, scorer.score(oracle, metric).score


def choice_rows(scorer: Scorer, file: Path, which: str, metrics: Sequence[Metric]) -> Array:
    """[S, n] statistics of the choices on a list that a file keeps, of all metrics side by side."""
    within = np.array(json.loads(file.read_bytes())[which])
    chosen = np.where(within >= 0, within + scorer.nbest.hyp_ptr[:-1], -1)
    return np.concatenate([exact_sums(scorer.rows(chosen, metric)) for metric in metrics], axis=1)


def scores_of(scorer: Scorer, chosen: I64, options: CompareOptions, ends: tuple[float, float]) -> dict[str, Any]:
    """Return what is kept of a choice: the hypotheses, counted within their lists, and their scores.

    These are all metrics; BLEU's length ratio, precision and brevity penalty; and the share of the way from the first of the two
    ends, the decoder's score by the metric, to the second, the oracle's.
    """
    metric = scorer.metric(options.main_metric)
    scores: dict[str, float | None] = {m.name: scorer.score(chosen, m).score for m in reported(options, scorer.nbest)}
    sums = scorer.rows(chosen, "bleu").sum(axis=0) if scorer.nbest.has_stats else np.zeros(REF_SUM + 1)
    scores["length_ratio"] = float(sums[HYP_SUM] / sums[REF_SUM]) if sums[REF_SUM] else None
    if sums[REF_SUM]:
        scores["brevity"] = brevity_penalty(sums)
        scores["precision"] = scorer.score(chosen, "bleu").score / scores["brevity"] if scores["brevity"] else None
    way, gone = ends[1] - ends[0], scorer.score(chosen, metric).score - ends[0]
    scores["oracle_gap"] = gone / way if metric.sign * way > 0 else None
    return {"scores": scores, "chosen": np.where(chosen >= 0, chosen - scorer.nbest.hyp_ptr[:-1], -1).tolist()}
