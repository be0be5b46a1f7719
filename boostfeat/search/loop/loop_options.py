"""Options of the loop, and of fresh lists from search graphs. Standard library only: the command line reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from ...core.options import check, option

if TYPE_CHECKING:
    from ...features.plan import FeaturePlan

ITERATIONS = "Iterations"
GRAPHS = "Graphs and clusters"


@dataclass(frozen=True)
class LoopOptions:
    """When the loop ends, what it learns from, and which iteration's model it gives."""

    max_iterations: int = option(10, "Of learning and decoding, at most", least=1, group=ITERATIONS)
    accumulate: int = option(
        -1,
        "Learn from the newest list and N before it; -1: all",
        least=-1,
        group=ITERATIONS,
        rare=True,
    )
    min_weight_change: float = option(
        1e-5,
        "End when no weight's share of all changes by so much",
        least=0,
        group=ITERATIONS,
        rare=True,
    )
    patience: int = option(3, "End after N iterations without a better select", least=1, group=ITERATIONS)
    gain: str = option("bleu", "What is learnt, or chrf, ter, wer", group=ITERATIONS)
    metric: str = option("", "Chooses iterations: bleu-sbp, or that of the gain", group=ITERATIONS)
    pick: str = option(
        "auto",
        "Of auto (select, else dev when --online, else last), select, dev, last",
        choices=("auto", "select", "dev", "last"),
        group=ITERATIONS,
    )
    rescale: bool = option(
        True, "Decode at the scale of the first weights, which pruning is set for", group=ITERATIONS, rare=True
    )
    seed: int = option(0, "Seed of all random choices", least=0, most=inf, group="Common")

    STOPPING = ("max_iterations", "min_weight_change", "patience", "pick")  # a run may go on with other ones

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", self.metric or ("bleu-sbp" if self.gain == "bleu" else self.gain))
        check(self)

    def made_from(self) -> dict[str, Any]:
        """What may not change when a run goes on. The learner says what it learns."""
        return {name: value for name, value in asdict(self).items() if name not in (*self.STOPPING, "gain")}


@dataclass(frozen=True)
class GraphOptions:
    """Which graphs, and how often and how much is taken from them."""

    paths: Sequence[str] = option(
        (), "Add their k-best between fits; mert: all paths", flag="graphs", metavar="FILE", group=GRAPHS
    )
    iterations: int = option(
        5, "Fits and fresh lists before the last fit", least=1, flag="graph_iterations", rare=True, needs="graphs"
    )
    size: int = option(100, "k of the k-best of a graph", least=1, flag="graph_nbest", rare=True, needs="graphs")
    core_names: str | None = option(
        None, "osgx: what core=(...) holds, or the moses.ini that says it", flag="graph_names", rare=True, needs="graphs"
    )
    vocab: str | None = option(
        None, "The file of 'featurize' that gave the list its features", flag="graph_vocab", rare=True, needs="graphs"
    )
    names: tuple[str, ...] | None = None  # of the values of core=(...) in osgx files
    plan: FeaturePlan | None = None  # of the templates that gave the list its features, where no file holds it

    def __post_init__(self) -> None:
        check(self)
