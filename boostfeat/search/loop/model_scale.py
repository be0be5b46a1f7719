"""The scale of a model: weights as shares, and powers of two that bring one model to the scale of another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...model.model import Model

UNKNOWN = "UnknownWordPenalty0"  # a constant of the sentence for nearly all hypotheses: it says nothing about scale


def share_change(old: Model, new: Model) -> float:
    """The largest change of a weight as its share of all weights, max |w/Σ|w| - w'/Σ|w'||: decoding does not see the scale.

    A tree counts as a weight; one that only one of the models has, as a change by its whole share.
    """
    a, b = (_shares(m) for m in (old, new))
    return max((abs(a.get(name, 0.0) - b.get(name, 0.0)) for name in {*a, *b}), default=0.0)


def _shares(model: Model) -> dict[str, float]:
    trees = {str({**tree.to_json(), "weight": None}): tree.weight for tree in model.trees}
    weights = {name: w for name, w in {**model.weights, **trees}.items() if name != UNKNOWN}
    total = sum(abs(w) for w in weights.values())
    return {name: w / total for name, w in weights.items()} if total else {}


def rescaled(model: Model, factor: float) -> Model:
    """The model with all scores multiplied by a factor: the same rankings, and for powers of two the same bits back."""
    return replace(
        model,
        weights={name: w * factor for name, w in model.weights.items()},
        trees=tuple(replace(tree, weight=tree.weight * factor) for tree in model.trees),
    )


def scale_to(model: Model, like: Model) -> float:
    """The power of two that brings the sum of |weights| nearest to that of another model, over the features it names.

    Decoders prune by differences of scores, so the scale that a tuner happens to give matters to search.
    """
    names = like.weights.keys() - {UNKNOWN}
    mine, theirs = (sum(abs(m.weights.get(name, 0.0)) for name in names) for m in (model, like))
    return float(np.ldexp(1.0, round(np.log2(theirs / mine)))) if mine > 0 and theirs > 0 else 1.0
