"""The list's own order: a model that is worse than it on lists that judge is replaced by it.

Neural models, recognisers and samplers give lists whose order is a feature, or all that the list has.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..core.arrays import I64
from ..lists.choices import best_choice, first_choice, scored
from ..lists.nbest import NBest
from ..lists.tokens import RANKINGS
from ..metrics.metric import metric_of
from .decision import CALIBRATION, KEY
from .model import Model

KEPT = "kept"  # of a model's config: the order that took the place of what was learned


def own_order(nbest: NBest) -> dict[str, float] | None:
    """Return weights that give the list's own order; None where weighted features make it up.

    The ranking is a feature of neural and speech lists. A list without scores has its order alone, which no weights keep.
    """
    name = next((name for name in RANKINGS if name in nbest.global_names), None)
    return {name: 1.0} if name is not None else None if nbest.has_scores else {}


def choice_in_order(nbest: NBest, order: dict[str, float]) -> I64:
    """[S] what is first by the list's own order."""
    return best_choice(nbest, nbest.global_column(next(iter(order)))) if order else first_choice(nbest)


def is_below_own_order(model: Model, nbest: NBest, metric: str) -> bool:
    """Whether the model's choices from these lists are worse than the lists' own."""
    if (order := own_order(nbest)) is None:
        return False
    learnt, ordered = (scored(nbest, by, metric) for by in (model.predict, partial(choice_in_order, order=order)))
    return metric_of(metric, nbest).sign * (ordered - learnt) > 0


def in_own_order(nbest: NBest, model: Model) -> Model:
    """Return the list's own order as a model, with what is known of the run but for what was learned of scores that are gone."""
    weights = own_order(nbest) or {}
    config = {key: value for key, value in model.config.items() if key not in (KEY, CALIBRATION)}
    return replace(model, weights=weights, trees=(), config={**config, KEPT: next(iter(weights), "the order")})
