"""Thousands of sparse weights as one input: ``sparse.sum`` is Σ λ_l f_l over them.

Runtimes that know no words (ONNX, treelite) get all of them so; C and Python those that the texts of a unit do not tell.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ..core.errors import InputError, counted
from ..lists.nbest import NBest
from ..model.model import Model
from . import Context
from .unit_text import template_of
from .verify import MAX_INPUTS

NAME = "sparse.sum"


def sparse_weights(model: Model) -> dict[str, float]:
    """The weights of features that sparse templates made."""
    return {name: weight for name, weight in model.weights.items() if weight and template_of(name)}


def summed(model: Model, context: Context) -> Model:
    """The model with its sparse weights as one of weight 1: where it carries its templates, or has too many."""
    sparse = sparse_weights(model)
    return _as_one(model, sparse) if sparse and (context.plan is not None or len(sparse) > MAX_INPUTS) else model


def summed_beside(model: Model, told: Collection[str]) -> Model:
    """The model with its sparse weights but those ``told`` as one of weight 1, where they are too many for inputs."""
    rest = sparse_weights(model).keys() - told
    return _as_one(model, rest) if len(rest) > MAX_INPUTS else model


def _as_one(model: Model, sparse: Collection[str]) -> Model:
    if NAME in model.weights:
        raise InputError(f"feature {NAME!r}: expected another name, which the sum of sparse weights has; rename it in the model")
    return replace(model, weights={name: w for name, w in model.weights.items() if name not in sparse} | {NAME: 1.0})


def with_sums(nbest: NBest, model: Model, changed: Model) -> NBest:
    """The list with that sum as a feature of its units, and of hypotheses where they have sparse features themselves."""
    of_units, of_hyps = nbest.weigh({name: w for name, w in model.weights.items() if name not in changed.weights})
    units = replace(nbest.units, x=np.column_stack([nbest.X, of_units]))
    out = replace(nbest, units=units, unit_names=(*nbest.unit_names, NAME))
    if not of_hyps.any():
        return out
    return replace(out, extra=np.column_stack([out.extra, of_hyps]), extra_names=(*out.extra_names, NAME))


def checked(context: Context, model: Model, changed: Model) -> Context:
    """The context whose list has the sum, if the changed model looks at it."""
    return context if changed is model else replace(context, nbest=with_sums(context.rows, model, changed))


def tell_of_sum(context: Context, model: Model, changed: Model) -> None:
    """Say which weights are one input that the caller has to fill."""
    rest = [name for name in model.weights if name not in changed.weights]
    if rest:
        templates = ", ".join(sorted({template_of(name) or name for name in rest}))
        context.warn(
            f"{NAME}: an input for the sum of {counted(len(rest), 'weight')} that a unit's texts do not tell ({templates})"
        )
