"""Local against global: why each system has its trees or none, by its model's own record, and how far the two choose alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..metrics.metric import metric_of, shown
from .run import Run, System


def levels(run: Run) -> dict[str, Any]:
    """What folds said of the trees of each boosted system, and the choices of ours beside those of its rival."""
    ours, rival = run.ours, run.rival
    both = rival is not None and ours is not rival and ours.model is not None and ours.model.level == "local"
    return {
        "systems": [told for s in run.systems if s.model is not None and (told := folded(run, s))],
        "agreement": agreement(run, ours, rival) if both and rival is not None else None,
    }


def folded(run: Run, system: System) -> dict[str, Any] | None:
    """Numbers of trees on folds of the training list, where they chose: none, the best, and what was kept."""
    assert system.model is not None
    why, name = system.model.config.get("tree_count"), str(system.model.config.get("metric"))
    if not isinstance(why, Mapping):  # another rule chose, or release 0.1
        return None
    scores, counts = np.array(why[name], np.float64), list(why["trees"])
    sign = metric_of(name, run.test).sign
    best = int(np.argmax(sign * scores))
    return {
        "system": system.name,
        "level": system.model.level,
        "folds": int(why["folds"]),
        "rule": str(why["rule"]),
        "metric": shown(name),
        "trees": len(system.model.trees),
        "most": counts[-1],
        "without": float(scores[0]),
        "score": float(scores[0] + sign * why["gain"]),
        "gain": float(why["gain"]),
        "gain_error": float(why["gain_error"]),
        "best": counts[best],
        "best_score": float(scores[best]),
        "best_gain": float(sign * (scores[best] - scores[0])),
        "best_error": float(why["error"][0]),
        "worse_than": why.get("worse_than"),
    }


def agreement(run: Run, ours: System, rival: System) -> dict[str, Any]:
    """How often two systems choose the same hypothesis of the test list, who is better where not, and by how much in all."""

    def score(system: System) -> float:
        return 100 * run.metric.sign * float(run.metric.score(run.scorer.rows(system.chosen, run.metric).sum(axis=0)))

    difference = run.gains(ours.chosen) - run.gains(rival.chosen)
    return {
        "ours": ours.name,
        "rival": rival.name,
        "have_trees": [bool(s.model and s.model.trees) for s in (ours, rival)],
        "same": int((ours.chosen == rival.chosen).sum()),
        "sentences": len(ours.chosen),
        "better": int((difference > 1e-9).sum()),
        "worse": int((difference < -1e-9).sum()),
        "difference": score(ours) - score(rival),
    }
