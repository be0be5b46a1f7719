"""Relative margin: MIRA that also bounds the spread of the scores [EMR13]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isinf

from ..lists.nbest import NBest
from ..model.model import Model
from .base import Run
from .margin import Limits
from .mira import train
from .tuner_options import RelativeMarginOptions


@dataclass(frozen=True)
class RelativeMargin(RelativeMarginOptions):
    """min 1/2 |w - w_t|² + C ξ + D τ  s.t.  ds(y+, y-) >= cost(y-) - cost(y+) - ξ,  |ds(y+, y_w)| <= B + τ   [EMR13 eq. 4]

    y_w is the hypothesis that the model likes least. With B = inf and solver ``pa``, this is MIRA to the last bit.
    """

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        return self.finished(train(self, self.limits(), nbest, select, run, "rm"))

    def limits(self) -> Limits:
        return Limits(c=self.c, bound=self.b, d=self.d, max_iter=self.max_iter if self.solver == "cp" else 0)

    def finished(self, model: Model) -> Model:
        """JSON has no infinity."""
        return replace(model, config={**model.config, "b": "inf"}) if isinf(self.b) else model
