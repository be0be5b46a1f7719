"""Relative margin: MIRA that also bounds the spread of the scores [EMR13]; METHOD section 4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isinf

from ..core.errors import unknown_name
from ..lists.nbest import NBest
from ..model.model import Model
from .base import Run
from .margin import Limits, check_options
from .mira import check_training, train

SOLVERS = {"pa": "one margin and one bound step a sentence", "cp": "cutting plane: working sets of violated constraints"}


@dataclass(frozen=True)
class RelativeMargin:
    """min 1/2 |w - w_t|² + C ξ + D τ  s.t.  ds(y+, y-) >= cost(y-) - cost(y+) - ξ,  |ds(y+, y_w)| <= B + τ   [EMR13 eq. 4]

    y_w is the hypothesis that the model likes least. With B = inf and solver ``pa``, this is MIRA to the last bit.
    """

    c: float = 0.01  # (C) largest margin step
    b: float = 1.0  # (B) bound of the spread
    d: float = 0.01  # (D) largest bound step; [EMR13] takes 0.1 with sparse features
    solver: str = "pa"  # pa or cp
    max_iter: int = 100  # (MaxIter) of the cutting-plane loops
    k: int = 500
    oracle: str = "hope"
    prediction: str = "fear"  # of solver pa; cp finds its own most violated constraints
    epochs: int = 20
    average: bool = True
    shards: int = 1
    context_scale: float | None = None

    def __post_init__(self) -> None:
        check_training("rm", self)
        if self.solver not in SOLVERS:
            raise unknown_name("rm solver", self.solver, SOLVERS)
        check_options(
            "rm",
            b=(self.b, self.b > 0, "above 0"),
            d=(self.d, 0 <= self.d < inf, "from 0"),
            max_iter=(self.max_iter, self.max_iter >= 1, "of at least 1"),
        )

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        return self.finished(train(self, self.limits(), nbest, select, run, "rm"))

    def limits(self) -> Limits:
        return Limits(c=self.c, bound=self.b, d=self.d, max_iter=self.max_iter if self.solver == "cp" else 0)

    def finished(self, model: Model) -> Model:
        """JSON has no infinity."""
        return replace(model, config={**model.config, "b": "inf"}) if isinf(self.b) else model
