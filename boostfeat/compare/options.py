"""Options of a comparison. Standard library only: the command line reads them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf

from ..core.options import check, option

SEARCHES = ("grid", "halving", "none")


@dataclass(frozen=True)
class CompareOptions:
    """What is compared, and how."""

    systems: str | None = option(
        None,
        "Of decoder, base-MERT, base-PRO, kbmira, mbr, boost-global, boost-local (all of them). Names like large/pro, "
        "boost-local:fast or large/boost-local:linear ([features/]method[:leaves or recipe]) go with these; those with "
        "features, given alone, are added to all",
    )
    runs: int = option(1, "Repeat with other seeds: mean, sd and the stratified test", least=1)
    search: str = option("grid", "Of hyper-parameters, or halving, none", choices=SEARCHES)
    gain: str = option("bleu", "What is learnt, or chrf, ter, wer, a quality column")
    metric: str = option("", "What they are chosen and tested by (bleu-sbp, or the gain if it is another)")
    metrics: str | None = option(None, "Others to report, by commas (chrf,ter and quality columns)")
    rounds: int | None = option(None, "Trees of boosting, at most (as the recipe says)", least=0)
    trials: int = option(10_000, "Of the significance tests", least=1)
    baseline: str = option("base-PRO", "The system that p-values are against; of an ablation boost-local")
    seed: int = option(0, "Seed of all random choices", least=0, most=inf)
    ablation: bool = option(
        False, "Rows of the default recipe with one ingredient changed at a time, on select where there is no --test"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", self.metric or ("bleu-sbp" if self.gain == "bleu" else self.gain))
        check(self)

    def flags(self) -> list[str]:
        """The options as the command line takes them."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, False, "")}
        return [
            part for name, value in given.items() for part in ((f"--{name}",) if value is True else (f"--{name}", str(value)))
        ]
