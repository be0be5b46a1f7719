"""AdaGrad: pairwise ranking by stochastic gradients, a learning rate for each feature, L1 [G13]."""

from __future__ import annotations

from dataclasses import dataclass

from ..lists.nbest import NBest
from ..model.model import Model
from .adaptive import OnlineRanker
from .base import Run


@dataclass(frozen=True)
class Adagrad(OnlineRanker):
    """min Σ_pairs log(1 + exp(-w·(f(y⁺) - f(y⁻)))) + λ|w|₁ online: ``OnlineRanker`` with the steps η / √(Σ g²) of ``Weights``."""

    def fit(self, nbest: NBest, select: NBest | None = None, run: Run = Run()) -> Model:  # noqa: B008 (frozen)
        return self.learn(nbest, select, run, root=True).model(self, "adagrad")
