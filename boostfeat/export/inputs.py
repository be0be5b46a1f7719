"""The inputs of an export: the features that its caller gives, and thousands of sparse weights as one of them, ``sparse.sum``.

Runtimes that know no words (ONNX, treelite) get all sparse weights so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip, counted
from ..lists.nbest import NBest
from ..model.model import Model
from .target import Check, Context
from .unit_text import template_of
from .verify import compare_scores

MAX_INPUTS = 4096  # a program with more named inputs than this is no use to a decoder
NAME = "sparse.sum"


@dataclass(frozen=True)
class Inputs:
    """Inputs of a program: the model that it computes, whose sparse weights may be one, and its inputs by name."""

    whole: Model
    model: Model
    names: tuple[str, ...]  # the order of x
    templates: Mapping[str, str] = field(default_factory=dict)  # those that made features, by name

    @classmethod
    def of(cls, model: Model, context: Context, target: str) -> Inputs:
        """Return the inputs of a program that knows no words: sparse weights of templates are one of them."""
        sparse = {name for name, weight in model.weights.items() if weight and template_of(name)}
        changed = _as_one(model, sparse) if sparse and (context.plan is not None or len(sparse) > MAX_INPUTS) else model
        return cls(model, changed, inputs_of(changed, target), context.made_by)

    @property
    def summed(self) -> dict[str, float]:
        """The weights that the input sparse.sum is of."""
        return {name: w for name, w in self.whole.weights.items() if w and name not in self.model.weights}

    def describe(self) -> str:
        """Say what the program computes, and what its caller has to give."""
        n_weights = sum(1 for weight in self.whole.weights.values() if weight) - len(self.summed)
        has = f"has {counted(n_weights, 'weight')} and {counted(len(self.model.trees), 'tree')}"
        made = [name for name in self.names if name in self.templates]
        names = ", ".join(dict.fromkeys(self.templates[name] for name in made))
        parts = [f"{len(self.names) - len(made) - bool(self.summed):,} of the decoder"]
        parts += [f"{len(made):,} of templates ({names}), as 'boostfeat featurize' computes them"] if made else []
        parts += [f"{NAME}, {self.how(NAME)}"] if self.summed else []
        return f"{has}; the caller fills {counted(len(self.names), 'input')}: {', '.join(parts)}"

    def how(self, name: str) -> str:
        """Say how an input is computed."""
        if self.summed and name == NAME:
            templates = ", ".join(sorted({template_of(each) or each for each in self.summed}))
            return f"the sum of {counted(len(self.summed), 'weight')} of the model over a row's sparse features ({templates})"
        template = self.templates.get(name)
        return f"template {template}, as 'boostfeat featurize' computes it" if template else "the decoder's"

    def metadata(self) -> dict[str, Any]:
        """Return what a file says of its inputs: their order, how to compute each, and what rows and scores are."""
        row = "a hypothesis, all units summed" if self.model.level == "global" else "a unit (a phrase, or a word) of a hypothesis"
        score = "the row's score" if self.model.level == "global" else "the sum over its units, and weights times own features"
        return {
            "signature": self.whole.signature,
            "level": self.model.level,
            "features": self.names,
            "inputs": {name: self.how(name) for name in self.names},
            "row": row,
            "score of a hypothesis": score,
        }

    def compare(self, context: Context, score: Callable[[F64, int], F64]) -> Check:
        """Score every row of the context's list both ways; ``score`` gets rows x [n, len(names)] and the number of the first."""
        if self.model is not self.whole:
            context = replace(context, nbest=self.with_sums(context.rows))
        return compare_scores(self.model, context, score, self.names)

    def with_sums(self, nbest: NBest) -> NBest:
        """Return the list with sparse.sum as a feature of units, and of hypotheses where they have sparse features themselves."""
        of_units, of_hyps = nbest.weigh(self.summed)
        units = replace(nbest.units, x=np.column_stack([nbest.X, of_units]))
        out = replace(nbest, units=units, unit_names=(*nbest.unit_names, NAME))
        if not of_hyps.any():
            return out
        return replace(out, extra=np.column_stack([out.extra, of_hyps]), extra_names=(*out.extra_names, NAME))


def inputs_of(model: Model, target: str) -> tuple[str, ...]:
    """Return the features a model looks at: those with a weight as the model file has them, then the trees' others.

    A feature of weight 0 that no tree looks at is no input.
    """
    names = dict.fromkeys(name for name, weight in model.weights.items() if weight)
    for tree in model.trees:
        names.update(dict.fromkeys(sorted(tree.features())))
    if len(names) > MAX_INPUTS:
        example = next((name for name in reversed(names) if template_of(name)), list(names)[-1])
        raise InputError(
            f"--to {target}: expected at most {MAX_INPUTS:,} input features, found {len(names):,}, as {clip(example)}; "
            "use --to python or json, or tune with an L1 penalty (--method adagrad)"
        )
    return tuple(names)


def _as_one(model: Model, sparse: Collection[str]) -> Model:
    if NAME in model.weights:
        raise InputError(f"feature {NAME!r}: the sum of sparse weights has this name; rename the feature in the model")
    return replace(model, weights={name: w for name, w in model.weights.items() if name not in sparse} | {NAME: 1.0})
