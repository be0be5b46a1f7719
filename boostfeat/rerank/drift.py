"""Drift: compare the lists that a model meets in use with those of its training."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from threading import Lock
from typing import Any

import numpy as np

from ..features.feature_maker import plan_of
from ..features.known_words import KnownWords
from ..features.plan import FeaturePlan
from ..model.decision import CALIBRATION, Calibration
from ..model.model import Model

RECENT = 10_000  # choices whose margins are kept
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Drift:
    """Counts the choices of a model; threads may share it."""

    def __init__(self, model: Model, name: str = "") -> None:
        self.model, self.name = model, name
        self._calibration = Calibration.of(model.config) if CALIBRATION in model.config else None
        self._words = KnownWords(plan_of(model) or FeaturePlan())
        self._lists = self._kept = 0
        self._margins = deque[float](maxlen=RECENT)  # of choices that are not the decoder's
        self._missing = Counter[str]()
        self._lock = Lock()

    def meet(self, margins: Iterable[float], sources: Iterable[str] = (), texts: Iterable[str] = ()) -> None:
        """Count choices by their margins over the decoder's, 0 where it was kept; and words, those of chosen texts."""
        with self._lock:
            for margin in margins:
                self._lists += 1
                if margin > 0:
                    self._margins.append(margin)
                else:
                    self._kept += 1
            self._words.meet(source=sources, target=texts)

    def miss(self, features: Iterable[str], lists: int = 1) -> None:
        """Count features of the model that lists lacked."""
        with self._lock:
            self._missing.update(dict.fromkeys(features, lists))

    def report(self) -> dict[str, Any]:
        """Return what was met, as JSON has it; quantiles are of the last choices that were not the decoder's."""
        with self._lock:
            margins, of_training = np.array(self._margins), self._calibration
            report = {
                "model": f"{self.name} {self.model.signature}".strip(),
                "lists": self._lists,
                "kept_first": self._kept / self._lists if self._lists else None,
                "margin": _quantiles(margins),
                "probability": None if of_training is None else _quantiles(of_training.confidence(margins)),
                "missing_features": dict(self._missing),
                "unknown_words": self._words.unknown_shares(),
            }
        if of_training is not None:
            median = np.array([of_training.scale])
            report["training"] = {
                "lists": of_training.lists,
                "kept_first": 1 - of_training.changed / of_training.lists,
                "margin": _quantiles(median, (0.5,)),
                "probability": _quantiles(of_training.confidence(median), (0.5,)),
            }
        return report


def _quantiles(values: Any, at: tuple[float, ...] = QUANTILES) -> dict[str, float] | None:
    return {str(q): float(np.quantile(values, q)) for q in at} if len(values) else None
