"""The search of a comparison without its workers: one fit after the other, in this process."""

from __future__ import annotations

from boostfeat.compare.comparison_options import CompareOptions
from boostfeat.compare.systems import Fitted, Found, System, fitted_here, search_plan
from boostfeat.lists.choices import Scorer
from boostfeat.lists.nbest import NBest


def search(system: System, dev: NBest, select: NBest, options: CompareOptions) -> Found:
    """Carry out the plan of a system."""
    scorer = Scorer(select)
    plan = search_plan(system, options, sign=scorer.metric(options.metric).sign)
    answer: list[Fitted] | None = None
    while True:
        try:
            fits = next(plan) if answer is None else plan.send(answer)
        except StopIteration as end:
            return end.value
        answer = [fitted_here(fit, dev, scorer, options) for fit in fits]
