"""Drift: compare the lists that a model meets in use with those of its training."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..features.feature_maker import plan_of
from ..features.known_words import KnownWords
from ..features.plan import FeaturePlan
from ..lists.choices import texts
from ..lists.nbest import NBest
from ..model.chance import quantiles
from ..model.decision import CALIBRATION, RANGES, Calibration
from ..model.model import Model
from .plain import Decided

RECENT = 10_000  # choices whose margins and probabilities are kept
_ROUNDING = 1e-9  # of sums in another order


class Drift:
    """Counts the choices of a model; threads may share it."""

    def __init__(self, model: Model, name: str = "") -> None:
        self.model, self.name, self.plan = model, name, plan_of(model) or FeaturePlan()
        self._training = Calibration.of(model.config) if CALIBRATION in model.config else None
        self._ranges = {name: _widened(*ends) for name, ends in (model.config.get(RANGES) or {}).items()}
        self._words = KnownWords(self.plan)
        self._lists = self._kept = 0
        self._margins = deque[float](maxlen=RECENT)  # of choices that are not the decoder's
        self._probabilities = deque[float](maxlen=RECENT)
        self._missing, self._outside = Counter[str](), Counter[str]()
        self._lock = Lock()

    def meet(self, nbest: NBest, ranked: F64, chosen: I64, margin: F64) -> None:
        """Count the choices from lists by their margins over the decoder's, 0 where it was kept."""
        curve = self._training and self._training.chance
        sure = curve.of_choices(nbest, ranked, chosen).tolist() if curve else []
        lacking = self.model.missing_features(nbest, self.plan.features)
        outside = Counter[str]()
        for name, (low, high) in self._ranges.items():
            if name in nbest.global_names:
                values = nbest.global_column(name)
                outside[name] = len(np.unique(nbest.sent_of_hyp[(values < low) | (values > high)]))
        with self._lock:
            self._missing.update(dict.fromkeys(lacking, len(nbest)))
            self._count(margin.tolist(), sure, nbest.source.to_pylist(), texts(nbest, chosen), outside)

    def meet_candidates(self, candidates: Sequence[Mapping[str, Any]], source: str, choice: Decided) -> None:
        """Count the choice from candidates."""
        outside = set[str]()
        for each in candidates:
            sums = dict(each.get("features") or {})
            for unit in each.get("units") or ():
                for name, value in (unit.get("features") or {}).items():
                    sums[name] = sums.get(name, 0.0) + value
            for name in self._ranges.keys() & sums.keys():
                low, high = self._ranges[name]
                if not low <= sums[name] <= high:
                    outside.add(name)
        sure = [] if choice.probability is None else [choice.probability]
        margin = 0.0 if choice.kept_first else choice.margin
        with self._lock:
            self._count([margin], sure, [source], [candidates[choice.index]["text"]], Counter(outside))

    def _count(
        self, margins: list[float], sure: list[float], sources: Iterable[str], chosen: Iterable[str], outside: Counter[str]
    ) -> None:
        self._lists += len(margins)
        changed = [margin for margin in margins if margin > 0]
        self._kept += len(margins) - len(changed)
        self._margins.extend(changed)
        self._probabilities.extend(sure)
        self._outside.update(outside)
        self._words.meet(source=sources, target=chosen)

    def miss(self, features: Iterable[str]) -> None:
        """Count features of the model that a list lacked."""
        with self._lock:
            self._missing.update(features)

    def report(self) -> dict[str, Any]:
        """Return what was met, as JSON has it; quantiles are of the last choices, those of margins where they changed."""
        with self._lock:
            report = {
                "model": f"{self.name} {self.model.signature}".strip(),
                "lists": self._lists,
                "kept_first": self._kept / self._lists if self._lists else None,
                "margin": quantiles(np.array(self._margins)),
                "probability": quantiles(np.array(self._probabilities)),
                "missing_features": dict(self._missing),
                "features_out_of_range": dict(sorted((+self._outside).items())),
                "unknown_words": self._words.unknown_shares(),
            }
        if (known := self._training) is not None:
            report["training"] = {
                "lists": known.lists,
                "kept_first": 1 - known.changed / known.lists,
                "margin": known.margin,
                "probability": known.probability,
            }
        return report


def _widened(low: float, high: float) -> tuple[float, float]:
    return low - _ROUNDING * max(1.0, abs(low)), high + _ROUNDING * max(1.0, abs(high))
