"""Templates: the set that fits a list's units, or none, by what first weights pick from lists that they were not fitted to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...core.arrays import Array
from ...core.errors import InputError
from ...features.feature_maker import FeatureMaker, plan_of
from ...features.groups import fitting_templates
from ...features.plan import FeaturePlan
from ...lists.nbest import NBest
from ...metrics.metric import metric_of
from ...metrics.significance import HeldOutRows
from ...model.model import Model
from ..boost_options import BoostOptions
from ..local import first_gradient
from .penalty import Penalty, chosen_penalty
from .trials import Trials

TEMPLATES, NONE = "templates", "none"  # a key of a model's config; the name of no templates


@dataclass(frozen=True)
class FeaturedLists:
    """Lists with the features to learn with, and what choosing them has found out already."""

    dev: NBest
    select: NBest | None
    plan: FeaturePlan | None = None
    penalty: Penalty | None = None  # of these features
    own_rows: Array | None = None  # [S, n] with templates: what weights of the list's own features pick, trial by trial
    why: dict[str, Any] = field(default_factory=dict)


def chosen_features(
    dev: NBest,
    select: NBest | None,
    options: BoostOptions,
    templates: str | None,
    start: Model | None,
    maker: FeatureMaker,
    *,
    static_only: bool = False,
    **how: Any,
) -> FeaturedLists:
    """Compute the templates that are named, those that a model to start from carries, or those that pay.

    Where nothing is named, the set that fits the list's units is compared with none of it: it is taken unless the weights of the
    list's own features do as well, within half a standard error. ``how`` has ``tell`` and ``cluster`` of Trials.
    """
    if start is not None and (plan := plan_of(start)) is not None:
        if templates is not None:
            raise InputError(f"--templates {templates}: the model of --init carries templates of its own; leave one of them out")
        if options.for_decoder:
            plan.for_search(maker.registry, maker.say)
        return FeaturedLists(maker.for_model(dev, start), None if select is None else maker.for_model(select, start), plan)
    resumed = start is not None and TEMPLATES in start.config
    if start is not None and templates is None:  # a model without templates stays without; a run goes on with its own
        templates = str(start.config[TEMPLATES]["chosen"]) if resumed else NONE
    tries = templates is None and options.try_templates
    fitting = fitting_templates(dev, static_only=static_only) if tries else None
    own = FeaturedLists(dev, select)
    if templates == NONE or (templates is None and fitting is None):
        return own
    more = taught(own, templates or str(fitting), options, maker)
    trials = Trials(dev, select, seed=maker.seed, threads=maker.threads, **how)
    if templates is not None or not trials.are_enough:
        return more
    without, with_them = (chosen_penalty(trials.on(of.dev, of.select), options) for of in (own, more))
    held_out = HeldOutRows(metric_of(options.metric, dev), [without.rows, with_them.rows])
    gain, error = float(held_out.gains[1] - held_out.gains[0]), held_out.error(0, 1)
    takes = gain > error / 2
    why = {
        "chosen": fitting if takes else NONE,
        "rule": "the templates that fit the units, unless the list's own features do as well within half a standard error",
        "tried": fitting,
        "by": trials.by,
        "gain": held_out.written(gain),
        "error": held_out.written(error),
    }
    if not takes:
        return FeaturedLists(dev, select, penalty=without, why={TEMPLATES: why})
    return FeaturedLists(more.dev, more.select, more.plan, with_them, without.rows, {TEMPLATES: why})


def taught(lists: FeaturedLists, templates: str, options: BoostOptions, maker: FeatureMaker) -> FeaturedLists:
    """Teach the templates by the training list, and compute them on both lists."""
    gradient = partial(first_gradient, gain=options.gain, seed=maker.seed, threads=maker.threads)
    plan = maker.plan(templates)
    if options.for_decoder:
        plan = plan.for_search(maker.registry, maker.say)
    dev, plan = maker.learn(lists.dev, plan, gradient_of=gradient)
    return FeaturedLists(dev, None if lists.select is None else maker.apply(lists.select, plan), plan)
