"""Options of pairs. Standard library only: the command line reads them."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.options import check, option

PAIRS = "Pairs"


@dataclass(frozen=True)
class PairOptions:
    """Options of drawing pairs. See ``sample_pairs`` for what the two samplers do."""

    sampler: str = option("ta13", "How pairs are drawn: ta13 or hm11", choices=("ta13", "hm11"), group=PAIRS, rare=True)
    draws: int = option(10_000, "Random pairs a sentence", least=0, symbol="Γ", group=PAIRS, rare=True)
    threshold: float = option(0.04, "Least difference in gain of a pair", least=0, group=PAIRS, rare=True)
    keep: int = option(
        100,
        "Pairs kept a sentence",
        least=1,
        symbol="K",
        flag="pairs",
        group=PAIRS,
    )
    alpha: float = option(1.0, "Smoothing of sentence BLEU", least=0, group=PAIRS, rare=True)
    distinct: bool = option(
        False, "Keep a pair once, however often it was drawn; the papers do not", flag="distinct_pairs", group=PAIRS, rare=True
    )

    def __post_init__(self) -> None:
        check(self)


SAMPLERS: dict[str, PairOptions] = {
    "ta13": PairOptions("ta13", draws=10_000, threshold=0.04, keep=100),
    "hm11": PairOptions("hm11", draws=5_000, threshold=0.05, keep=50),
}
