"""The worth of each part of a model on lists that it was not learned from: a waterfall from the decoder's choice on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.arrays import Array
from ...metrics.metric import Metric, figure
from ...metrics.significance import HeldOutRows

KEY = "waterfall"
FIRST, OWN, TEMPLATES, TREES, DECISION = "first choice", "list's features", "+ templates", "+ trees", "+ decision"


def waterfall(metric: Metric, stages: Mapping[str, Array], *, by: str) -> dict[str, Any]:
    """Return the score of each stage, given statistics [S, n] of its choices, and its gain over the one before with its error."""
    held_out = HeldOutRows(metric, list(stages.values()))
    steps = [
        {
            "stage": name,
            "score": held_out.written(held_out.scores[k]),
            "gain": held_out.written(held_out.gains[k] - held_out.gains[max(k - 1, 0)]),
            "error": held_out.written(held_out.error(k, max(k - 1, 0))),
        }
        for k, name in enumerate(stages)
    ]
    return {KEY: {"by": by, "metric": metric.name, "steps": steps}}


def lines(config: Mapping[str, Any]) -> list[list[str]]:
    """Return rows of text: stage, score, gain over the stage before with its standard error."""
    about, out = config.get(KEY, {"steps": []}), list[list[str]]()
    for step in about["steps"]:
        score, error = (figure(about["metric"], step[name]) for name in ("score", "error"))
        out.append([step["stage"], score, f"{figure(about['metric'], step['gain'], '+')} ± {error}" if out else ""])
    return out
