"""Verdicts on a paper's findings: a difference between two of its rows, the standard error, and the test that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.special import stdtr

from ..core.arrays import F64, Array
from ..lists.choices import Scorer
from ..lists.store import read_store
from ..metrics.significance import approximate_randomisation, bootstrap_sums, stratified_randomisation
from ..model.model import Model
from .papers import Finding
from .runner import file_of_run
from .tasks import choice_rows

Row = Mapping[str, Any]
SHOWN, WITHIN, NOT_SHOWN = "shown", "within the error", "not shown"
NEAR = 1.0  # points that rows may differ by where the paper calls them comparable
SURE = 0.05  # largest p of a difference that is no chance

MEASURES: dict[str, Callable[[Sequence[Row]], F64]] = {  # of a history, by epoch
    "change": lambda history: np.abs(np.diff([row["dev"] for row in history])),
    "range": lambda history: np.array([row["oracle"] - row["prediction"] for row in history]),
    "spread": lambda history: np.array([row["spread_mean"] for row in history]),
}


class Outcome(msgspec.Struct):
    """A difference in the paper's direction, on a list."""

    on: str
    difference: float
    error: float | None
    p: float | None
    test: str
    verdict: str


def outcomes(
    finding: Finding, of: Row, over: Row, folder: Path, config: Mapping[str, Any], tests: Sequence[str]
) -> list[Outcome]:
    """Return what came of a finding: of scores on each test list, of curves and counts once."""
    found: list[tuple[str, float, float | None, float | None, str]]
    if finding.kind == "features":
        found = [("", float(over["features"] - of["features"]), None, None, "counts")]
    elif finding.kind in MEASURES:
        found = [_by_epoch(finding.kind, of, over, folder)]
    else:
        lists = tests if finding.on == "test" else [finding.on]
        found = [_by_score(finding, of, over, folder, config, which) for which in lists]
    return [Outcome(*one, verdict_of(finding.kind, *one[1:4])) for one in found]


def verdict_of(kind: str, difference: float, error: float | None, p: float | None) -> str:
    """Say whether a difference shows what the paper found: that it is above 0, or that there is hardly any (``near``)."""
    if error is None or p is None:
        return SHOWN if difference > 0 else NOT_SHOWN
    if kind == "near" and abs(difference) + 2 * error < NEAR:
        return SHOWN
    if p >= SURE:
        return WITHIN
    return SHOWN if difference > 0 and kind != "near" else NOT_SHOWN


def _by_score(
    finding: Finding, of: Row, over: Row, folder: Path, config: Mapping[str, Any], which: str
) -> tuple[str, float, float | None, float | None, str]:
    """Compare two rows by a metric on a list: bootstrap over sentences for the error, randomisation for the test."""
    scorer = Scorer(read_store(config["inputs"][which]["path"]))
    metric, trials = scorer.metric(finding.metric or of["metric"]), int(config["trials"])

    def rows(row: Row) -> Array:
        """[runs, S, n] statistics of what a row's runs chose."""
        files = [folder / file_of_run(row["choice"], r) for r in range(len(row["runs"]))]
        return np.stack([choice_rows(scorer, file, which, [metric]) for file in files])

    def scores(runs: Array) -> F64:
        """[1 + T] the mean score of runs, on the list and on resamples of it."""
        sums = [np.vstack([run.sum(axis=0), bootstrap_sums(run, trials=trials)]) for run in runs]
        return 100 * metric.sign * np.mean([metric.score(one) for one in sums], axis=0)

    a, b = rows(of), rows(over)
    differences = scores(a) - scores(b)
    several = max(len(a), len(b)) > 1
    p = (
        stratified_randomisation(a, b, metric=metric, trials=trials)
        if several
        else approximate_randomisation(a[0], b[0], metric=metric, trials=trials)
    )
    test = "approximate randomisation" + (", stratified over runs" if several else "")
    if not differences.any():
        test = "they choose the same"
    return which, float(differences[0]), float(differences[1:].std(ddof=1)), p, test


def _by_epoch(kind: str, of: Row, over: Row, folder: Path) -> tuple[str, float, float | None, float | None, str]:
    """Compare two rows by a measure of their curves, which the paper finds lower in the first: a paired t-test over epochs."""
    sides = []
    for row in (of, over):
        models = [Model.load(folder / file_of_run(row["model"], r)) for r in range(len(row["runs"]))]
        sides.append([MEASURES[kind](model.history) for model in models])
    pairs = [(a[: len(b)], b[: len(a)]) for a, b in zip(*sides, strict=False)]
    lower, higher = (np.concatenate(values) for values in zip(*pairs, strict=True))
    difference, n = higher - lower, len(lower)
    if n < 2 or not difference.std():
        return "dev", float(difference.mean()) if n else 0.0, None, None, f"{n} epochs"
    mean, error = float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(n))
    p = float(2 * stdtr(n - 1, -abs(mean) / error))
    return "dev", mean, error, p, f"paired t-test over {n} epochs"
