"""Recipes: settings of boosting that belong together, by name. Every value can be overridden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ..core.errors import InputError, unknown_name
from ..losses.pairs import SAMPLERS, PairOptions
from ..trees.growing import TreeOptions
from .boost import BoostOptions

_DEFAULT = BoostOptions(
    rounds=150,
    shrinkage=0.3,
    patience=100,
    rule="last-se",
    resample_pairs=5,
    context=True,
    sparse_l2=1000.0,  # of 100 pairs a sentence: thousands of indicators tell the same few sentences apart
    sparse_trees=False,
    pairs=PairOptions(draws=2500, alpha=0.1),
    tree=TreeOptions(max_leaves=4, min_occurrences=1000),
)

RECIPES: dict[str, BoostOptions] = {
    "default": _DEFAULT,  # the best all-round: chosen by cross-validation on two pairs, see README
    "fast": replace(_DEFAULT, rounds=40, patience=20, shrinkage=0.5),
    "paper": BoostOptions(),  # Figure 3 of [TA13], nothing else
}

# What a row of the ablation changes in the default recipe. The first is the recipe itself; "-" leaves out, "+" adds.
ABLATION: dict[str, dict[str, Any]] = {
    "default": {},
    "+ start on expected BLEU": {"refit": "linear"},
    "- corpus context": {"context": False},
    "- fresh pairs": {"resample_pairs": 0},
    "- shrinkage": {"shrinkage": 1.0},
    "2 leaves": {"max_leaves": 2},
    "8 leaves": {"max_leaves": 8},
    "linear leaves": {"leaves": "linear"},
    "300 pairs": {"keep": 300},
    "pairs by BLEU+1": {"alpha": 1.0},
    "lambda": {"loss": "lambda", "context": False},
    "expected BLEU": {"loss": "expected-bleu", "scale": 3.0},
    "+ leaf refits": {"refit_leaves": True},
    "+ second order": {"curvature": True},
    "+ refits of one factor": {"refit": "ensemble", "refit_every": 30},
    "+ refits of trees": {"refit": "trees", "refit_every": 30},
    "+ half the sentences": {"subsample": 0.5},
    "+ half the columns": {"columns": 0.5},
    "+ 50 sentences a leaf": {"min_sentences": 50},
    "+ length on select": {"length": True},
    "+ 3 bags": {"bags": 3},
    "best round": {"rule": "best"},
    "smooth round": {"rule": "smooth"},
    "one standard error": {"rule": "one-se"},
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
    here = own(options)
    if left:
        known = sorted({f.name for part in (options, options.pairs, options.tree) for f in fields(part)} - {"pairs", "tree"})
        raise InputError(f"unknown option {next(iter(left))!r} of boosting: expected one of {', '.join(known)}")
    return replace(options, **{"pairs": pairs, "tree": tree, **here})
