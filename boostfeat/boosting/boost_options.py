"""Options of boosting, and recipes: settings that belong together, by name. Every value can be overridden.

Standard library only: the command line reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import InputError, unknown_name
from ..core.options import changed, check, named, option, options_of
from ..losses.pairs import PAIRS, SAMPLERS, PairOptions
from ..model.model_file import LEVELS, Level
from ..trees.tree_options import TREES, TreeOptions

RULES = ("best", "all")  # which number of trees is kept, see boosting.selection.tree_count
AUTO = "auto"  # chosen by lists that were not learned from, see boosting.selection.penalty
NOTHING_TO_CHOOSE = 1000.0  # of lists without sparse features, and of a few sentences


@dataclass(frozen=True)
class BoostOptions:
    """Options of inducing features: Figure 3 of [TA13], with a floor of leaves and a cap of rounds. RECIPES has better ones.

    ``l2`` is the penalty on the initial weights and on each ρ, both standardised. ``context`` weighs pairs by their difference
    in corpus BLEU, in the context of the 1-best when they are drawn. ``rule`` says how many trees are kept: as many as are
    best on lists that were not learned from, or all. Those lists also choose between the highest score and minimum Bayes
    risk (``decide``, boosting.selection.way).
    """

    level: Level = option("local", "Units of trees: local (phrases) or global (hypotheses)", choices=LEVELS, group=TREES)
    rounds: int = option(25, "Maximum number of trees", least=0, symbol="M", group=TREES)
    shrinkage: float = option(1.0, "Factor of every tree's weight; 1 is the paper's", above=0, most=1, group=TREES, rare=True)
    l2: float = option(1.0, "L2 penalty on weights and steps", least=0, group=TREES, rare=True)
    sparse_l2: float | str | None = option(
        None, "L2 penalty on sparse features; auto: held-out lists choose", least=0, words=(AUTO,), group=TREES, rare=True
    )
    patience: int = option(10, "Stop after N rounds without a better --select", least=0, group=TREES, rare=True, needs="select")
    gain: str = option("bleu", "Metric to learn: bleu, chrf, ter, wer or a quality column", group=PAIRS)
    metric: str = option("bleu-sbp", "Metric that chooses; default: bleu-sbp, or that of --gain", group=TREES)
    rule: str = option("best", "Number of trees kept: the best on held-out lists, or all", choices=RULES, group=TREES, rare=True)
    decide: str = option(
        "score",
        "Decision rule: score; auto: what gains most on held-out lists",
        choices=("score", AUTO),
        group=TREES,
        rare=True,
        needs="gain=bleu",
    )
    resample_pairs: int = option(0, "Draw new pairs every N rounds; 0: never", least=0, group=PAIRS, rare=True)
    context: bool = option(False, "Weigh pairs by their effect on corpus BLEU", flag="context/no_context", group=PAIRS, rare=True)
    for_decoder: bool = option(False, "Learn a model that a decoder's search can apply as a whole", group=TREES)
    try_templates: bool = option(
        False, "Take templates if held-out lists gain, without --templates", group=TREES, rare=True, without=("templates", "init")
    )
    tree_features: tuple[str, ...] = option((), "Features that trees may test; default: all dense ones", group=TREES, rare=True)
    pairs: PairOptions = field(default_factory=PairOptions)
    tree: TreeOptions = field(default_factory=TreeOptions)

    def __post_init__(self) -> None:
        check(self)
        if self.for_decoder and (self.decide == AUTO or self.level == "global"):
            what = "level global sees whole hypotheses" if self.level == "global" else "decide auto ranks whole lists"
            raise InputError(f"for-decoder: {what}, which search does not have; a decoder wants level local and decide score")

    def penalties(self, n_dense: int, n_sparse: int) -> list[float]:
        """[D + N] the penalty on each initial weight, once ``auto`` is a number."""
        if self.sparse_l2 == AUTO:
            raise InputError("sparse-l2: auto is for induce(), where held-out lists choose; boost() takes a number or None")
        return [self.l2] * n_dense + [self.l2 if self.sparse_l2 is None else float(self.sparse_l2)] * n_sparse

    @property
    def context_metric(self) -> str:
        """Name the metric that pairs are weighed by: corpus BLEU as the metric has it, or the gain's own metric."""
        return self.gain if self.gain != "bleu" else "bleu" if self.metric == "bleu" else "bleu-sbp"

    def drawn_after(self, m: int) -> int:
        """The round after which the pairs of round m + 1 are drawn; 0 is the start."""
        return m - m % self.resample_pairs if self.resample_pairs else 0

    def draws_before(self, m: int) -> int:
        """Count how often pairs were drawn before those of round m + 1."""
        return m // self.resample_pairs if self.resample_pairs else 0


_DEFAULT = BoostOptions(
    rounds=150,
    shrinkage=0.3,
    patience=100,
    decide=AUTO,
    try_templates=True,
    resample_pairs=5,
    context=True,
    sparse_l2=AUTO,
    pairs=PairOptions(draws=2500, alpha=0.1),
    tree=TreeOptions(max_leaves=4, min_occurrences=1000),
)

RECIPES: dict[str, BoostOptions] = {
    "default": _DEFAULT,  # the best all-round: chosen by cross-validation on two pairs, see examples/trials.md
    "fast": replace(_DEFAULT, rounds=40, patience=20, shrinkage=0.5, decide="score"),
    # Figure 3 of [TA13], nothing else: rounds until select degrades, and no floor of leaves, of which the paper says nothing.
    # Kept for speed: thresholds between 255 bins, and linear leaves on the best 4 features of a search for the first split.
    "paper": BoostOptions(rounds=200, patience=25, tree=TreeOptions(min_occurrences=1)),
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
    "all trees": {"rule": "all"},
    "score decides": {"decide": "score"},
}


def recipe(name: str = "default", **changes: Any) -> BoostOptions:
    """The recipe of this name, with changes by the names of the options of BoostOptions, PairOptions and TreeOptions."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    return with_changes(RECIPES[name], changes)


def with_changes(options: BoostOptions, changes: Mapping[str, Any]) -> BoostOptions:
    """Options with some changed, those of pairs and trees too. Another sampler comes with its own numbers."""
    for name in changes:
        if name not in named(BoostOptions):
            known = ", ".join(sorted(o.name for o in options_of(BoostOptions)))
            raise InputError(f"unknown option {name!r} of boosting: expected one of {known}")
    sampler = changes.get("sampler", options.pairs.sampler)
    if sampler not in SAMPLERS:
        raise unknown_name("sampler", sampler, SAMPLERS)
    if sampler != options.pairs.sampler:
        options = replace(options, pairs=replace(SAMPLERS[sampler], alpha=options.pairs.alpha))
    if changes.get("gain", "bleu") not in ("bleu", options.gain) and "metric" not in changes:
        changes = {**changes, "metric": changes["gain"]}  # choose by what is learned
    if changes.get("for_decoder"):
        changes = {"decide": "score", **changes}
    return changed(options, changes)
