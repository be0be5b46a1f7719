"""Shared parts of all tuners: features as arrays, the run's settings, groups of features, and the record of epochs.

A tuner is a frozen dataclass of its options with one method, ``fit(nbest, select=None, run=Run()) -> Model``.
"""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from sys import float_info
from typing import Annotated, Any, Protocol

import numpy as np
from msgspec import Meta, Struct

from ..core.arrays import F64, I64, Bool, sum_in_order
from ..core.errors import InputError
from ..core.feature_table import linear_scores
from ..core.files import decode, read_bytes
from ..core.strict_json import typed
from ..lists.agreement import check_agreement
from ..lists.choices import Scorer, best_choice
from ..lists.feature_range import learnable, lost_ranking, range_warnings
from ..lists.nbest import NBest, SparseRows
from ..lists.quality import choosing_metric
from ..lists.tokens import RANKINGS
from ..metrics.metric import metric_of
from ..model.model import Model


@dataclass(frozen=True)
class Features:
    """Hypothesis features as kernels take them: [H, D] dense, and rows of sparse ones. Columns: first the dense ones."""

    names: tuple[str, ...]
    dense: F64  # [H, D]
    sparse: SparseRows  # [H], idx from 0 to N-1

    @classmethod
    def of(cls, nbest: NBest) -> Features:
        names, nbest = nbest.feature_names, learnable(nbest)
        return cls(names, np.ascontiguousarray(nbest.global_features), SparseRows.from_matrix(nbest.global_sparse))

    @property
    def n_dense(self) -> int:
        return self.dense.shape[1]

    def __len__(self) -> int:
        return len(self.names)

    def scores(self, w: F64) -> F64:
        """[H] w·f of every hypothesis."""
        return linear_scores(self.dense, self.sparse.matrix(len(self) - self.n_dense), w)

    def vector(self, weights: Mapping[str, float]) -> F64:
        """Weights by name as a vector; a weight whose feature the list lacks is an error, since it would be lost."""
        known = set(self.names)
        unknown = [n for n, w in weights.items() if w != 0 and n not in known]
        if unknown:
            raise InputError(f"initial weight of {unknown[0]!r}: expected a feature of the list, found none; check --init")
        return np.array([weights.get(n, 0.0) for n in self.names])

    def start(self, init: Mapping[str, float] | None) -> F64:
        """The weights that a tuner begins with: those given; else the list's own ranking where it is a feature, else 0."""
        own = next((name for name in RANKINGS if name in self.names[: self.n_dense]), None)
        return self.vector(init if init is not None else {own: 1.0} if own else {})

    def named(self, w: F64) -> dict[str, float]:
        """Weights by name: all dense ones, and the sparse ones that are not 0."""
        return {n: float(v) for j, (n, v) in enumerate(zip(self.names, w, strict=True)) if j < self.n_dense or v != 0}


_Factor = Annotated[float, Meta(ge=0, le=float_info.max)]


class _GroupRecord(Struct, forbid_unknown_fields=True):
    match: str
    freeze: bool = False
    l1: _Factor = 1.0
    l2: _Factor = 1.0
    c: _Factor = 1.0


class _GroupsFile(Struct, forbid_unknown_fields=True):
    group: Annotated[list[_GroupRecord], Meta(min_length=1)]


@dataclass(frozen=True)
class Groups:
    """Settings of single features by name pattern: frozen weights, and factors of L1, L2 and step size (C or eta)."""

    rules: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> Groups:
        """Read ``[[group]] match = "LM*"`` tables with ``freeze = true`` and/or factors ``l1``, ``l2``, ``c``; later ones win."""
        text = decode(read_bytes(path), str(path))
        try:
            table = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: expected a TOML file of [[group]] tables, found: {error}; repair it") from None
        typed(table, _GroupsFile, str(path), fix='write [[group]] tables of match = "pattern" and any of freeze, l1, l2, c')
        return cls(tuple((rule["match"], rule) for rule in table["group"]))

    def check(self, method: str, *keys: str) -> None:
        """Raise if a rule sets what the method has no use for: all methods can freeze, some know factors besides."""
        for pattern, rule in self.rules:
            for key in ("l1", "l2", "c"):
                if key in rule and key not in keys:
                    known = ", ".join(("freeze", *keys))
                    raise InputError(f"group {pattern!r}: expected only {known} for {method}, found {key}; remove it")

    def frozen(self, names: tuple[str, ...]) -> Bool:
        return self._values(names, "freeze", False).astype(bool)

    def factors(self, names: tuple[str, ...], key: str) -> F64:
        """[len(names)] factor of ``l1``, ``l2`` or ``c`` of each feature."""
        return self._values(names, key, 1.0).astype(np.float64)

    def _values(self, names: tuple[str, ...], key: str, default: Any) -> Any:
        out = np.full(len(names), default)
        for pattern, rule in self.rules:
            if key in rule:
                out[[fnmatchcase(n, pattern) for n in names]] = rule[key]
        return out


@dataclass(frozen=True)
class Run:
    """Settings of a run that are not the method's own."""

    seed: int = 0
    threads: int = 1
    init: Mapping[str, float] | None = None  # start from these weights, features not named at 0; None: see Features.start
    groups: Groups = field(default_factory=Groups)
    gain: str = "bleu"  # what is learned
    metric: str = ""  # what the epoch is chosen by on --select; not given: what is learned
    pick: str = "auto"  # auto: the best epoch on select, else the last; train: the best on the tuning list; last
    allow_missing: bool = False  # select need not agree with the list: features that it lacks count as 0
    callback: Callable[[Mapping[str, Any]], None] | None = None  # called with every history row

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", self.metric or self.gain)

    def gains(self, nbest: NBest, *, alpha: float = 1.0) -> F64:
        """[H] what is learned, of each hypothesis on its own: higher is better."""
        return metric_of(self.gain, nbest).learnable_gain(nbest, alpha=alpha)


def step_factors(features: Features, run: Run) -> F64:
    """[D+N] factor c of each feature's steps, 0 where it is frozen."""
    return np.where(run.groups.frozen(features.names), 0.0, run.groups.factors(features.names, "c"))


class Tuner(Protocol):
    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = ...) -> Model: ...


class EpochLog:
    """Evaluates the weights of each epoch, keeps the history and the weights to return."""

    def __init__(self, features: Features, nbest: NBest, select: NBest | None, run: Run, *, train_default: bool = False) -> None:
        self.features, self.nbest, self.run = features, nbest, run
        self.scorer, self.metric = Scorer(nbest), metric_of(run.metric, nbest)
        if select is not None:
            choosing_metric(select, run.metric)
            for line in () if run.allow_missing else check_agreement({"the tuning list": nbest, "select": select}):
                warnings.warn(line, stacklevel=4)  # where fit is called
        self.select = (Scorer(select), Features.of(select)) if select is not None else None
        pick = run.pick if run.pick != "auto" else "select" if select is not None else "train" if train_default else "last"
        if pick == "select" and select is None:
            raise InputError("expected a held-out list to pick the epoch by, found none; give --select")
        self.pick = pick
        self.history: list[dict[str, Any]] = []
        self.best, self.best_gain, self.best_epoch = None, -inf, -1  # type: tuple[F64 | None, float, int]
        self._beside, self._open = ThreadPoolExecutor(1), list[tuple[F64, Callable[[], dict[str, Any]]]]()

    def record(self, epoch: int, w: F64, also: Callable[[], Mapping[str, Any]] = dict, /, **more: Any) -> None:
        """Score the weights of an epoch (the ones that would be returned), keep them if they are the best so far.

        That is done beside the next epoch, or at its end where there are no threads for it, as is what ``also`` adds to the row
        of history.
        """
        if not np.isfinite(w).all():
            raise InputError(f"epoch {epoch}: the weights have blown up; lower C or the learning rate, or rescale the features")
        w = w.copy()

        def scored() -> dict[str, Any]:
            row: dict[str, Any] = {"epoch": epoch, "dev": self.dev_score(w), **also(), **more}
            if self.select is not None:
                scorer, features = self.select
                weights = self.features.named(w)
                row["select"] = self.score(scorer, features.scores(np.array([weights.get(n, 0.0) for n in features.names])))
            return row

        self.settle()
        self._open.append((w, self._beside.submit(scored).result if self.run.threads > 1 else scored))

    def settle(self) -> None:
        """Keep the last epoch, once it is scored."""
        for w, scored in self._open:
            row, sign = scored(), self.metric.sign
            gain = {"select": sign * row.get("select", -inf), "train": sign * row["dev"], "last": row["epoch"]}[self.pick]
            if self.best is None or gain > self.best_gain:
                self.best, self.best_gain, self.best_epoch = w, gain, row["epoch"]
            row["nonzero"] = int(np.count_nonzero(w))
            self.history.append(row)
            if self.run.callback:
                self.run.callback(row)
        self._open.clear()

    def dev_score(self, w: F64) -> float:
        """The metric of the weights on the tuning list."""
        return self.score(self.scorer, self.features.scores(w))

    def score(self, scorer: Scorer, scores: F64) -> float:
        chosen: I64 = best_choice(scorer.nbest, scores)
        return scorer.score(chosen, self.run.metric).score

    def model(self, tuner: Any, method: str) -> Model:
        """The model of the chosen epoch, with all it takes to make it again."""
        self.settle()
        assert self.best is not None, "record() is called at least once"
        of_run = {name: getattr(self.run, name) for name in ("seed", "gain", "metric")}
        config = {"method": method, **asdict(tuner), **of_run, "pick": self.pick, "epoch": self.best_epoch}
        return Model(weights=self.features.named(self.best), config=config, history=tuple(self.history))


FITTED = 2000  # sentences that tell the decoder's weights


def decoder_weights(nbest: NBest) -> tuple[dict[str, float], float] | None:
    """(weights, share of the variance within lists that they explain) of the decoder's scores, by least squares.

    Of dense features that no template made. Where a score is linear in them these are the decoder's own weights; they are
    rounded, so that they do not depend on the order of sums. None where hypotheses have no scores, or all the same.
    """
    made = {name for group in json.loads(nbest.meta.get("templates", "[]")) for name in group.get("features", ())}
    names = [name for name in nbest.global_names if name not in made]
    if not nbest.has_scores or not nbest.n_hyps or not names:
        return None
    nbest = learnable(nbest)
    ptr, at = nbest.hyp_ptr[: FITTED + 1], [nbest.global_names.index(name) for name in names]
    both = np.column_stack([nbest.global_features[: ptr[-1], at], nbest.score[: ptr[-1]]])
    # a row more, for empty lists at the end; sums of empty lists are wrong, and nobody's
    sums = np.add.reduceat(np.vstack([both, np.zeros(both.shape[1])]), ptr[:-1])
    both -= (sums / np.maximum(np.diff(ptr), 1)[:, None])[nbest.sent_of_hyp[: ptr[-1]]]
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.sqrt(np.mean(both**2, axis=0))
    if not scale[-1] or not np.isfinite(scale).all():
        return None
    x, y = both[:, :-1] / np.where(scale[:-1] > 0, scale[:-1], 1.0), both[:, -1] / scale[-1]
    w = np.linalg.lstsq(x.T @ x, x.T @ y, rcond=1e-9)[0]
    found = w * scale[-1] / np.where(scale[:-1] > 0, scale[:-1], 1.0)
    weights = {name: float(f"{value:.6g}") for name, value in zip(names, found.tolist(), strict=True) if abs(value) > 1e-12}
    return weights, 1 - float(np.mean((y - x @ w) ** 2))


def _products(nbest: NBest) -> tuple[F64, F64]:
    """Return sums of products [D, D] of dense features less those of the first of each list, and their largest values [D]."""
    x = learnable(nbest).global_features
    difference = x - x[nbest.hyp_ptr[:-1][nbest.sent_of_hyp]]
    return difference.T @ difference, np.abs(x).max(axis=0, initial=0.0)


def feature_warnings(nbest: NBest, init: F64 | None) -> list[str]:
    """Warn of what quietly spoils tuning: features that cannot matter, are copies, or dwarf others; an all-zero start."""
    out = [*range_warnings(nbest).values(), *filter(None, [lost_ranking(nbest)])]
    if nbest.n_hyps:
        sums, largest = zip(*nbest.in_parts(_products), strict=True)
        products, names = sum_in_order(sums) / nbest.n_hyps, nbest.global_names
        spread = np.sqrt(np.diag(products))
        for j in np.flatnonzero(spread == 0):
            what = "the same for all hypotheses of each list" if np.any([most[j] for most in largest]) else "all zero"
            out.append(f"feature {names[j]} is {what}: it cannot change the ranking and its weight stays as it was")
        live = np.flatnonzero(spread > 0)
        correlation = products[np.ix_(live, live)] / np.outer(spread[live], spread[live])
        for a, b in zip(*np.nonzero(np.triu(np.abs(correlation) > 1 - 1e-9, 1)), strict=True):
            out.append(f"features {names[live[a]]} and {names[live[b]]} are multiples of each other within lists")
        if len(live) and spread[live].max() > 1e4 * spread[live].min():
            big, small = live[spread[live].argmax()], live[spread[live].argmin()]
            out.append(
                f"feature {names[big]} varies {spread[big] / spread[small]:.0e} times as much as "
                f"{names[small]}: methods with one step size for all features will barely move the latter; rescale it"
            )
    if init is not None and not init.any():
        out.append("all initial weights are zero: the first ranking is the order of the list; give --init to start elsewhere")
    return out
