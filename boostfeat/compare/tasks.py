"""What a comparison has workers do: lists with features, fits, and scores. Each knows whether it has been done already."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..boosting.first_gradient import first_gradient
from ..core.arrays import I64
from ..core.errors import InputError
from ..core.files import atomic_path, open_output, read_bytes
from ..core.processes import Job
from ..core.strict_json import parse_json, read_json, write_json
from ..features import FeaturePlan, Posterior
from ..features.feature_maker import FeatureMaker
from ..features.options import ResourceFiles
from ..lists.choices import Scorer, decoder_choice, oracle_choice
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..metrics.bleu import HYP_LEN, REF_LEN, brevity_penalty, sum_stats
from ..metrics.metric import Metric, metrics_of
from ..model.model import Model
from ..tuners.linear import fit_pro
from .comparison_options import CompareOptions
from .systems import Fit, Fitted, Report, System, boost_options, choose, fitted_here

VERSIONS = ("numpy", "scipy", "lightgbm", "sacrebleu", "numba")
SUFFIX = ".json.gz"
ALWAYS = ("bleu", "bleu-sbp")  # where there are references
METRICS = (*ALWAYS, "chrf", "ter")  # where nothing is said
CODE, VOCAB = "code", "vocab.json"


def reported(options: CompareOptions, nbest: NBest) -> list[Metric]:
    """The metrics that are reported of a list, the one that chooses included."""
    names = [*(ALWAYS if nbest.has_stats else ()), options.metric]
    if options.metrics is None:
        names += [*(METRICS if nbest.has_stats else ()), *nbest.quality.names]
    return list({m.name: m for m in metrics_of([*names, *(options.metrics or "").split(",")], nbest)}.values())


@lru_cache(maxsize=4)
def _opened(path: str) -> NBest:
    """A mapped list, which jobs of a worker share."""
    return read_store(path)


@lru_cache(maxsize=4)
def _scorer(path: str) -> Scorer:
    """It keeps the statistics of hypotheses that several systems choose."""
    return Scorer(_opened(path))


# ---------------------------------------------------------------------------------------------------------------------
# Lists with features
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeatureTask:
    """A list with a set of features; dev teaches the vocab, which gives the other lists the same columns."""

    feature_set: str
    which: str
    source: str
    path: str
    made_from: Mapping[str, Any]
    options: CompareOptions
    files: ResourceFiles

    cost = 100.0  # what needs the list waits for it

    @property
    def key(self) -> str:
        return self.path

    @property
    def mark(self) -> Path:
        return Path(self.path).with_suffix(".json")

    def known(self) -> str | None:
        """The list, if it is there, or in a run beside this one; then it is here afterwards."""
        own = read_json(self.mark) if Path(self.path).exists() else None
        if isinstance(own, dict) and {name: own[name] for name in own if name != CODE} == self.made_from:
            return self.path
        here = Path(self.path).absolute()
        for other in sorted(here.parents[3].glob(f"*/features/{self.feature_set}/{here.name}")):
            mark = other.with_suffix(".json")
            if read_json(mark) == self._mark():
                here.parent.mkdir(parents=True, exist_ok=True)
                for name in (here.name, *([VOCAB] if self.which == "dev" else [])):
                    with atomic_path(here.with_name(name)) as copy:
                        shutil.copyfile(other.with_name(name), copy)
                if read_json(mark) == self._mark():  # else another run has begun to make it anew
                    return self.finish(None, 0.0)
        return None

    def _mark(self) -> dict[str, Any]:
        """Within a run the version says how a list was made; one from elsewhere may be of another commit."""
        return {**self.made_from, CODE: code_digest()}

    def job(self, name: str, threads: int) -> Job:
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        self.mark.unlink(missing_ok=True)  # until the list is there
        o = self.options
        how = (self.feature_set, self.which, o.seed, threads, o.gain, o.min_count, self.files)
        return Job(self.key, name, write_featurized, (self.source, self.path, *how))

    def finish(self, result: None, peak_mb: float) -> str:
        write_json(self.mark, self._mark())
        return self.path


def write_featurized(
    source: str,
    path: str,
    feature_set: str,
    which: str,
    seed: int,
    threads: int,
    gain: str = "bleu",
    min_count: int | None = None,
    files: ResourceFiles = ResourceFiles(),  # noqa: B008 (frozen)
    *,
    report: Report,
) -> None:
    """Make the features of a list, by the vocab of dev if it is another."""
    vocab, nbest = Path(path).with_name(VOCAB), read_store(source)
    maker = FeatureMaker(files, seed=seed, threads=threads, say=report)
    if which != "dev":
        maker.apply(nbest, FeaturePlan.load(vocab), to=path)
        return
    plan, posterior = maker.plan(feature_set, min_count=min_count), None
    if any(maker.registry[entry.name].kind == "list" for entry in plan.entries):
        linear = Model(fit_pro(nbest, gain=gain, seed=seed, threads=threads).weights)  # a better judge than its decoder
        posterior = Posterior(model=linear.to_json())
    gradient = partial(first_gradient, gain=gain, seed=seed, threads=threads)
    maker.learn(nbest, plan, posterior=posterior, gradient_of=gradient, to=path, keep=lambda learnt: learnt.save(vocab))


# ---------------------------------------------------------------------------------------------------------------------
# Fits: each is carried out once, by a worker, and kept in RUN/fits for other runs too
# ---------------------------------------------------------------------------------------------------------------------


class _Kept(msgspec.Struct):
    """A file of RUN/fits."""

    made_from: dict[str, Any]
    select: float
    seconds: float
    peak_mb: float
    model: dict[str, Any]


@lru_cache
def code_digest() -> str:
    """Of this package and of what its numbers come from: other code is asked anew."""
    package = Path(__file__).parents[1]
    parts = [f"{name} {version(name)}" for name in VERSIONS]
    parts += [f"{p.relative_to(package)} {hashlib.sha256(p.read_bytes()).hexdigest()}" for p in sorted(package.rglob("*.py"))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def fit_made_from(fit: Fit, lists: Mapping[str, Any], options: CompareOptions) -> dict[str, Any]:
    """All that a fit depends on; ``lists`` say what dev and select are made from."""
    what = {
        "lists": lists,
        "fit": fit.made_from,
        "boosting": _boosting(fit, options),
        "gain": options.gain,
        "metric": options.metric,
        "code": code_digest(),
    }
    made_from: dict[str, Any] = json.loads(json.dumps(what))  # tuples become lists, as they are when read back
    return made_from


def _boosting(fit: Fit, options: CompareOptions) -> str | None:
    return repr(boost_options(fit.system, options, fit.params)) if fit.system.level else None


def key_of(made_from: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class KeptFits:
    """RUN/fits: one file a fit, called after the digest of what it is made from. Those of runs beside this one are taken over."""

    folder: Path
    beside: tuple[Path, ...] = field(default=())

    @classmethod
    def of(cls, run: Path) -> KeptFits:
        own = run / "fits"
        own.mkdir(exist_ok=True)
        return cls(own, tuple(sorted(p for p in run.absolute().parent.glob("*/fits") if p != own.absolute())))

    def path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def find(self, made_from: Mapping[str, Any]) -> Fitted | None:
        """The fit, if it is here, or in a run beside this one; then it is here afterwards."""
        for folder in (self.folder, *self.beside):
            fitted = _read(folder / f"{key_of(made_from)}{SUFFIX}", made_from)
            if fitted is not None:
                if folder != self.folder:
                    self.keep(made_from, fitted)
                return fitted
        return None

    def keep(self, made_from: Mapping[str, Any], fitted: Fitted) -> None:
        parts = {"select": fitted.select, "seconds": fitted.seconds, "peak_mb": fitted.peak_mb, "model": fitted.model.to_json()}
        with open_output(self.path(key_of(made_from))) as stream:
            stream.write(json.dumps({"made_from": made_from, **parts}, ensure_ascii=False).encode())


def _read(path: Path, made_from: Mapping[str, Any]) -> Fitted | None:
    """The fit that is kept there; None where there is none, half of it, or another."""
    try:
        kept = msgspec.convert(parse_json(read_bytes(path)), _Kept) if path.exists() else None
        if kept is None or kept.made_from != made_from:
            return None
        return Fitted(Model.from_json(kept.model, str(path)), kept.select, kept.seconds, kept.peak_mb)
    except (InputError, ValueError):  # msgspec's errors are ValueErrors
        return None


@dataclass(frozen=True)
class FitTask:
    """A fit on lists that are there."""

    fit: Fit
    lists: Mapping[str, str]  # of dev and select
    lists_from: Mapping[str, Any]  # what they are made from
    options: CompareOptions
    kept: KeptFits

    @property
    def made_from(self) -> dict[str, Any]:
        return fit_made_from(self.fit, self.lists_from, self.options)

    @property
    def key(self) -> str:
        return key_of(self.made_from)

    @property
    def cost(self) -> float:
        """Return how long a fit takes beside others, by method; what other systems wait for comes early."""
        system = self.fit.system
        if system.level:
            return 4.0
        return {"pro": 3.0, "mert": 2.0}.get(system.method, 0.5)

    def known(self) -> Fitted | None:
        return self.kept.find(self.made_from)

    def job(self, name: str, threads: int) -> Job:
        return Job(self.key, name, fit_in_worker, (self.fit, dict(self.lists), self.options, threads))

    def finish(self, result: Any, peak_mb: float) -> Fitted:
        model, select, seconds = result
        fitted = Fitted(Model.from_json(model, self.key), select, round(seconds, 3), round(peak_mb, 1))
        self.kept.keep(self.made_from, fitted)
        return fitted


def fit_in_worker(
    fit: Fit, lists: Mapping[str, str], options: CompareOptions, threads: int, *, report: Report
) -> tuple[dict[str, Any], float, float]:
    """Return the model of a fit as JSON, its score on select, and the seconds it took."""
    fitted = fitted_here(fit, _opened(lists["dev"]), _scorer(lists["select"]), options, threads=threads)
    return fitted.model.to_json(), fitted.select, fitted.seconds


# ---------------------------------------------------------------------------------------------------------------------
# Scores
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreTask:
    """The scores of a system's models on a list, and what they choose."""

    system: System
    which: str
    path: str  # of the list as it was given
    featurized: str  # with the features of the system
    models: Sequence[str]
    options: CompareOptions
    hypotheses: int

    @property
    def key(self) -> str:
        return f"{self.system.name} on {self.which}"

    @property
    def cost(self) -> float:
        return self.hypotheses * (2.0 if self.system.method == "mbr" else 1.0)

    def known(self) -> None:
        return None

    def job(self, name: str, threads: int) -> Job:
        return Job(
            self.key, name, score_in_worker, (self.system, self.path, self.featurized, list(self.models), self.options, threads)
        )

    def finish(self, result: list[dict[str, Any]], peak_mb: float) -> list[dict[str, Any]]:
        return result


def score_in_worker(
    system: System, path: str, featurized: str, models: Sequence[str], options: CompareOptions, threads: int, *, report: Report
) -> list[dict[str, Any]]:
    """Of each run: all metrics on a list, and the chosen hypotheses, counted within their lists."""
    nbest, scorer = _opened(path), _scorer(path)
    metrics, metric = reported(options, nbest), scorer.metric(options.metric)
    ends = _ends(path, options.metric)
    choices = [choose(system, Model.load(file), _opened(featurized), threads=threads) for file in models]
    return [scores_of(scorer, chosen, metrics, metric, ends) for chosen in choices or [decoder_choice(nbest)]]


def scores_of(
    scorer: Scorer, chosen: I64, metrics: Sequence[Metric], metric: Metric, ends: tuple[float, float]
) -> dict[str, Any]:
    """What is kept of a choice: its scores, and the hypotheses, counted within their lists."""
    within = np.where(chosen >= 0, chosen - scorer.nbest.hyp_ptr[:-1], -1).tolist()
    return {"scores": _scores(scorer, chosen, metrics, metric, ends), "chosen": within}


@lru_cache(maxsize=4)
def _ends(path: str, metric_name: str) -> tuple[float, float]:
    """The scores of the decoder's choices and of the oracle's."""
    scorer = _scorer(path)
    metric = scorer.metric(metric_name)
    decoder, oracle = decoder_choice(scorer.nbest), oracle_choice(scorer.nbest, metric)
    return scorer.score(decoder, metric).score, scorer.score(oracle, metric).score


def _scores(
    scorer: Scorer, chosen: I64, metrics: Sequence[Metric], metric: Metric, ends: tuple[float, float]
) -> dict[str, float | None]:
    """All metrics; BLEU's length ratio, precision and brevity penalty; the share of the way from the decoder's score by the
    metric to the oracle's.
    """
    out: dict[str, float | None] = {m.name: scorer.score(chosen, m).score for m in metrics}
    lengths = scorer.stats(chosen)[:, [HYP_LEN, REF_LEN]].sum(axis=0) if scorer.nbest.has_stats else (0, 0)
    out["length_ratio"] = float(lengths[0] / lengths[1]) if lengths[1] else None
    if lengths[1]:
        out["brevity"] = brevity_penalty(sum_stats(scorer.stats(chosen)))
        out["precision"] = scorer.score(chosen, "bleu").score / out["brevity"] if out["brevity"] else None
    way, gone = ends[1] - ends[0], scorer.score(chosen, metric).score - ends[0]
    out["oracle_gap"] = gone / way if metric.sign * way > 0 else None
    return out
