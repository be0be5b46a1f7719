"""Options of boosting, and recipes: settings that belong together, by name. Every value can be overridden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..core.errors import InputError, unknown_name
from ..losses.pairs import SAMPLERS, PairOptions
from ..model.model import LEVELS, Level
from ..trees.growing import TreeOptions
from .stopping import RULES


@dataclass(frozen=True)
class BoostOptions:
    """How features are induced; the defaults are Figure 3 of [TA13]. RECIPES has better ones."""

    level: Level = "local"
    rounds: int = 25  # M, at most so many trees
    shrinkage: float = 1.0  # factor of every ρ; 1 is the paper's
    l2: float = 1.0  # penalty on the initial weights (standardised) and on each ρ
    sparse_l2: float | None = None  # penalty on the initial weights of sparse features; None: l2
    patience: int = 10  # rounds without a better select gain before it stops
    gain: str = "bleu"  # what pairs are drawn and weighed by
    metric: str = "bleu-sbp"  # what the stopping point is chosen by on select
    rule: str = "best"  # round kept: of the best select gain, or last-se: the last within a standard error of it
    resample_pairs: int = 0  # draw pairs anew every so many rounds; 0: never, as in the paper
    context: bool = False  # weigh pairs by their difference in corpus BLEU, in the context of the 1-best when they are drawn
    tree_features: tuple[str, ...] = ()  # the features that trees may look at; none named: the dense ones
    pairs: PairOptions = field(default_factory=PairOptions)
    tree: TreeOptions = field(default_factory=TreeOptions)

    def __post_init__(self) -> None:
        for name, known in (("level", LEVELS), ("rule", RULES)):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        for name in ("rounds", "l2", "patience", "resample_pairs"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name}: expected 0 or more, found {getattr(self, name)}")
        if self.sparse_l2 is not None and not self.sparse_l2 >= 0:
            raise InputError(f"sparse_l2: expected 0 or more, found {self.sparse_l2}")
        if not 0 < self.shrinkage <= 1:
            raise InputError(f"shrinkage: expected a number above 0 up to 1, found {self.shrinkage}")

    def penalties(self, n_dense: int, n_sparse: int) -> list[float]:
        """[D + N] the penalty on each initial weight."""
        return [self.l2] * n_dense + [self.l2 if self.sparse_l2 is None else self.sparse_l2] * n_sparse

    @property
    def context_metric(self) -> str:
        """What pairs are weighed by: corpus BLEU as the metric has it, or the gain's own metric."""
        return self.gain if self.gain != "bleu" else "bleu" if self.metric == "bleu" else "bleu-sbp"

    def drawn_after(self, m: int) -> int:
        """The round after which the pairs of round m + 1 are drawn; 0 is the start."""
        return m - m % self.resample_pairs if self.resample_pairs else 0

    def draws_before(self, m: int) -> int:
        """How often pairs were drawn before those of round m + 1."""
        return m // self.resample_pairs if self.resample_pairs else 0


_DEFAULT = BoostOptions(
    rounds=150,
    shrinkage=0.3,
    patience=100,
    rule="last-se",
    resample_pairs=5,
    context=True,
    sparse_l2=1000.0,  # of 100 pairs a sentence: thousands of indicators tell the same few sentences apart
    pairs=PairOptions(draws=2500, alpha=0.1),
    tree=TreeOptions(max_leaves=4, min_occurrences=1000),
)

RECIPES: dict[str, BoostOptions] = {
    "default": _DEFAULT,  # the best all-round: chosen by cross-validation on two pairs, see examples/results.md
    "fast": replace(_DEFAULT, rounds=40, patience=20, shrinkage=0.5),
    "paper": BoostOptions(),  # Figure 3 of [TA13], nothing else
}

# What a row of the ablation changes in the default recipe. The first is the recipe itself; "-" leaves out.
ABLATION: dict[str, dict[str, Any]] = {
    "default": {},
    "- corpus context": {"context": False},
    "- fresh pairs": {"resample_pairs": 0},
    "- shrinkage": {"shrinkage": 1.0},
    "2 leaves": {"max_leaves": 2},
    "8 leaves": {"max_leaves": 8},
    "linear leaves": {"leaves": "linear"},
    "300 pairs": {"keep": 300},
    "pairs by BLEU+1": {"alpha": 1.0},
    "best round": {"rule": "best"},
}


def recipe(name: str = "default", **changes: Any) -> BoostOptions:
    """The recipe of this name, with changes by the names of the fields of BoostOptions, PairOptions and TreeOptions."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    return with_changes(RECIPES[name], changes)


def with_changes(options: BoostOptions, changes: Mapping[str, Any]) -> BoostOptions:
    """Options with some fields changed, those of pairs and trees too. Another sampler comes with its own numbers."""
    left = dict(changes)

    def own(part: Any) -> dict[str, Any]:
        return {f.name: left.pop(f.name) for f in fields(part) if f.name in left}

    sampler = left.get("sampler", options.pairs.sampler)
    if sampler not in SAMPLERS:
        raise unknown_name("sampler", sampler, SAMPLERS)
    start = options.pairs if sampler == options.pairs.sampler else replace(SAMPLERS[sampler], alpha=options.pairs.alpha)
    pairs, tree = replace(start, **own(start)), replace(options.tree, **own(options.tree))
    if left.get("gain", "bleu") not in ("bleu", options.gain) and "metric" not in left:
        left["metric"] = left["gain"]  # choose by what is learnt
    here = own(options)
    if left:
        known = sorted({f.name for part in (options, options.pairs, options.tree) for f in fields(part)} - {"pairs", "tree"})
        raise InputError(f"unknown option {next(iter(left))!r} of boosting: expected one of {', '.join(known)}")
    return replace(options, **{"pairs": pairs, "tree": tree, **here})
