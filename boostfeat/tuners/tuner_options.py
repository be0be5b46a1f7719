"""The options of all tuners, a dataclass each. Standard library only: the command line reads them.

What several methods have is declared with the first of them. Where the papers give one letter two meanings, the flag says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

from ..core.options import Checked, option, same
from ..losses.pairs import SAMPLERS, PairOptions

# (γ, β): y+ = argmax γ w·f - β cost, y- = argmax γ w·f + β cost [E12 eq. 3, algorithms 2 and 3]; oracle pb: its other losses
ORACLES: dict[str, tuple[float, float]] = {"lu": (0.0, 1.0), "hope": (1.0, 1.0), "max-bleu": (0.0, 1.0), "pb": (1.0, 0.0)}
PREDICTIONS: dict[str, tuple[float, float]] = {"pb": (1.0, 0.0), "mc": (0.0, 1.0), "fear": (1.0, 1.0)}
LINEAR = "variant=linear"  # of arow, which others do not have
METHOD = "Of the method (defaults, and what is rare: --help-all)"


@dataclass(frozen=True)
class MiraOptions(Checked):
    c: float = option(0.01, "Largest step", above=0, symbol="C", group=METHOD)
    k: int = option(
        500, "Number of the model's best from which lu takes its oracle", least=1, symbol="k", rare=True, needs="oracle=lu"
    )
    oracle: str = option("hope", "Oracle: the hypothesis that a step goes towards", choices=ORACLES, rare=True)
    prediction: str = option("fear", "The hypothesis that a step goes away from", choices=PREDICTIONS, rare=True)
    epochs: int = option(20, "Passes over the lists; pro: fits to average, mert: rounds of starts", least=1, group=METHOD)
    average: bool = option(True, "Return the mean of the weights, not the last", flag="average/last", rare=True)
    shards: int = option(1, "Learners whose weights are averaged after each epoch", least=1, symbol="n", rare=True)
    context_scale: float | str | None = option(
        None,
        "Scale of BLEU in context: a number, or shard: the lists of a learner; default: all lists",
        above=0,
        words=("shard",),
        rare=True,
    )


@dataclass(frozen=True)
class RelativeMarginOptions(Checked):
    c: float = same(MiraOptions, "c")
    b: float = option(1.0, "Bound on the spread of scores", above=0, most=inf, symbol="B", rare=True)
    by_cost: bool = option(False, "Multiply the bound by the cost of the hypothesis [EMR13 footnote 4]", rare=True)
    d: float = option(0.01, "Largest step of the bound; [EMR13] takes 0.1 with sparse features", least=0, symbol="D", rare=True)
    solver: str = option("pa", "pa: a margin and a bound step; cp: cutting planes", choices=("pa", "cp"), rare=True)
    max_iter: int = option(
        100, "Rounds of cutting planes", least=1, symbol="MaxIter", flag="planes", rare=True, needs="solver=cp"
    )
    k: int = same(MiraOptions, "k", without=("solver=cp",))
    oracle: str = same(MiraOptions, "oracle")
    prediction: str = same(MiraOptions, "prediction")
    epochs: int = same(MiraOptions, "epochs")
    average: bool = same(MiraOptions, "average")
    shards: int = same(MiraOptions, "shards")
    context_scale: float | str | None = same(MiraOptions, "context_scale")


@dataclass(frozen=True)
class KbmiraOptions(Checked):
    c: float = same(MiraOptions, "c")
    decay: float = option(0.999, "Decay of the background corpus", least=0, most=1, symbol="γ", rare=True)
    epochs: int = same(MiraOptions, "epochs", 60, symbol="J")
    background: str = option("hope", "Hypothesis that enters the background corpus", choices=("hope", "model"), rare=True)
    shuffle: bool = option(True, "Shuffle the sentences in each epoch", rare=True)


@dataclass(frozen=True)
class ProOptions(Checked):
    """Options of PRO; None means the sampler's own."""

    sampler: str = same(PairOptions, "sampler", group="")
    draws: int | None = same(PairOptions, "draws", None)
    threshold: float | None = same(PairOptions, "threshold", None)
    keep: int | None = same(PairOptions, "keep", None, group=METHOD)
    alpha: float = same(PairOptions, "alpha", group=METHOD, rare=False)
    l2: float = option(1.0, "L2 penalty l2/2 |λ|² on weights of standardised features", least=0, group=METHOD)
    max_iter: int = option(1000, "Maximum number of L-BFGS iterations", least=0, rare=True)
    tol: float = option(1e-6, "Stop where no entry of the mean objective's gradient is larger", least=0, rare=True)
    rounds: int = same(MiraOptions, "epochs", 1, flag="epochs")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pair_options()

    def pair_options(self) -> PairOptions:
        """Options of drawing pairs: the sampler's preset, changed where an option is given."""
        given: dict[str, Any] = {name: getattr(self, name) for name in ("draws", "threshold", "keep")}
        return replace(SAMPLERS[self.sampler], alpha=self.alpha, **{k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True)
class MertOptions(Checked):
    restarts: int = option(5, "Random starts of the first epoch, besides the initial weights", least=0, rare=True)
    rounds: int = same(MiraOptions, "epochs", 11, flag="epochs")
    shakes: int = option(2, "Starts of each later epoch", least=0, rare=True)
    directions: int = option(10, "Random directions to try where no single feature helps", least=0, rare=True)
    shake: float = option(0.3, "Maximum length of a random step from the best weights", least=0, rare=True)
    tol: float = option(
        1e-3, "Gain (0..100) of a line search below which it does not help", least=0, flag="least_gain", rare=True
    )
    max_features: int = option(100, "Refuse to tune more features than this", least=1, rare=True)


@dataclass(frozen=True)
class RampionOptions(Checked):
    epochs: int = same(MiraOptions, "epochs", 10, symbol="T'")
    passes: int = option(5, "Passes over the sentences in an epoch", least=1, symbol="T''", rare=True)
    eta: float = option(1e-4, "Learning rate", above=0, symbol="η", group=METHOD)
    c: float = option(1.0, "Strength of the pull towards the initial weights", least=0, symbol="C", flag="pull", rare=True)
    alpha: float = option(10.0, "Weight of the cost", least=0, symbol="α", flag="cost_scale", rare=True)


@dataclass(frozen=True)
class OnlineOptions(Checked):
    """Options of [G13] Algorithms 1 and 2: adagrad and arow."""

    eta: float = same(RampionOptions, "eta", 0.02)
    dense_eta: float = option(1.0, "Learning rate of dense features", above=0, rare=True, needs=LINEAR)
    l1: float = option(0.1, "L1 penalty, relative to the loss of a mini-batch", least=0, symbol="λ", group=METHOD, needs=LINEAR)
    pairs: int = same(PairOptions, "keep", 15, symbol="s", flag="", group=METHOD, needs=(LINEAR,))
    draws: int = same(PairOptions, "draws", 5000, least=1, needs=(LINEAR,))
    threshold: float = same(PairOptions, "threshold", 0.05)
    batch: int = option(20, "Sentences in a mini-batch", least=1, rare=True, needs=LINEAR)
    epochs: int = same(MiraOptions, "epochs", 10)
    loss: str = option("logistic", "Loss of a pair", choices=("logistic", "hinge"), rare=True, needs=LINEAR)
    standardise: bool = option(
        True, "Dense features in units of their typical difference over the pairs", flag="standardise/raw", rare=True
    )
    workers: int = option(
        1,
        "Gradients computed at the same time; each is applied N - 1 steps late",
        least=1,
        most=256,
        flag="under_way",
        rare=True,
        needs=LINEAR,
    )


@dataclass(frozen=True)
class ArowOptions(OnlineOptions):
    eta: float = same(RampionOptions, "eta", 0.01, needs=(LINEAR,))
    variant: str = option("linear", "linear: tangent of the loss; exact: hope and fear", choices=("linear", "exact"), rare=True)
    variance: float = option(1.0, "Initial variance of the weights (the diagonal of Σ_0)", above=0, rare=True)
    c: float = same(MiraOptions, "c", 0.03, needs=("variant=exact",))
    r: float = option(100.0, "Regularisation; slows the fall of variances", above=0, symbol="r", rare=True, needs=LINEAR)


TUNER_OPTIONS: dict[str, type] = {
    "pro": ProOptions,
    "mert": MertOptions,
    "mira": MiraOptions,
    "kbmira": KbmiraOptions,
    "rm": RelativeMarginOptions,
    "adagrad": OnlineOptions,
    "rampion": RampionOptions,
    "arow": ArowOptions,
}
