"""The inputs of an export: the features that its caller gives, and thousands of sparse weights as one of them, ``sparse.sum``.

Runtimes that know no words (ONNX, treelite) get all sparse weights so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

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

    @classmethod
    def of(cls, model: Model, context: Context, target: str) -> Inputs:
        """Return the inputs of a program that knows no words: sparse weights of templates are one of them."""
        sparse = _sparse_weights(model)
        changed = _as_one(model, sparse) if sparse and (context.plan is not None or len(sparse) > MAX_INPUTS) else model
        return cls(model, changed, inputs_of(changed, target))

    def describe(self) -> str:
        """Say what the program computes, and what its caller has to give beside the features of the decoder."""
        rest = [name for name in self.whole.weights if name not in self.model.weights]
        n_weights = sum(1 for name, weight in self.whole.weights.items() if weight) - len(rest)
        has = f"{counted(n_weights, 'weight')} and {counted(len(self.model.trees), 'tree')}"
        if not rest:
            return f"has {has}, of {counted(len(self.names), 'input')}"
        templates = ", ".join(sorted({template_of(name) or name for name in rest}))
        return f"has {has}; {NAME} is an input that the caller fills: the sum of {counted(len(rest), 'weight')} ({templates})"

    def compare(self, context: Context, score: Callable[[F64, int], F64]) -> Check:
        """Score every row of the context's list both ways; ``score`` gets rows x [n, len(names)] and the number of the first."""
        if self.model is not self.whole:
            context = replace(context, nbest=self.with_sums(context.rows))
        return compare_scores(self.model, context, score, self.names)

    def with_sums(self, nbest: NBest) -> NBest:
        """Return the list with sparse.sum as a feature of units, and of hypotheses where they have sparse features themselves."""
        rest = {name: w for name, w in self.whole.weights.items() if name not in self.model.weights}
        of_units, of_hyps = nbest.weigh(rest)
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


def _sparse_weights(model: Model) -> dict[str, float]:
    """Select the weights of features that sparse templates made."""
    return {name: weight for name, weight in model.weights.items() if weight and template_of(name)}


def _as_one(model: Model, sparse: Collection[str]) -> Model:
    if NAME in model.weights:
        raise InputError(f"feature {NAME!r}: the sum of sparse weights has this name; rename the feature in the model")
    return replace(model, weights={name: w for name, w in model.weights.items() if name not in sparse} | {NAME: 1.0})
