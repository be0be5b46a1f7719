"""Thousands of sparse weights as one input, for runtimes that know no words: ``sparse.sum`` is Σ λ_l f_l over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..lists.nbest import NBest
from ..model.model import Model
from . import Context
from .unit_text import template_of
from .verify import MAX_INPUTS

NAME = "sparse.sum"


def sparse_weights(model: Model) -> dict[str, float]:
    """The weights of features that sparse templates made."""
    return {name: weight for name, weight in model.weights.items() if weight != 0 and template_of(name)}


def summed(model: Model, context: Context) -> Model:
    """The model with its sparse weights as one of weight 1: where it carries its templates, or has too many."""
    sparse = sparse_weights(model)
    if not sparse or (context.plan is None and len(sparse) <= MAX_INPUTS):
        return model
    if NAME in model.weights:
        raise InputError(f"feature {NAME!r}: expected another name, which the sum of sparse weights has; rename it in the model")
    return replace(model, weights={name: w for name, w in model.weights.items() if name not in sparse} | {NAME: 1.0})


def with_sums(nbest: NBest, model: Model) -> NBest:
    """The list with that sum as a feature of its units, and of hypotheses where they have sparse features themselves."""
    of_units, of_hyps = nbest.weigh(sparse_weights(model))
    units = replace(nbest.units, x=np.column_stack([nbest.X, of_units]))
    out = replace(nbest, units=units, unit_names=(*nbest.unit_names, NAME))
    if not of_hyps.any():
        return out
    return replace(out, extra=np.column_stack([out.extra, of_hyps]), extra_names=(*out.extra_names, NAME))


def checked(context: Context, model: Model, changed: Model) -> Context:
    """The context whose list has the sum, if the changed model looks at it."""
    return context if changed is model else replace(context, nbest=with_sums(context.rows, model))
