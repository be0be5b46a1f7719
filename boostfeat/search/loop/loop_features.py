"""Templates in the loop: every iteration's lists get the features of a plan that grows as new ones appear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...boosting.first_gradient import first_gradient
from ...core.errors import InputError
from ...features.feature_maker import FeatureMaker, plan_of
from ...features.plan import FeaturePlan
from ...lists.nbest import NBest
from ...model.model import Model
from ..decoder.searchable import Searchable, searchable


@dataclass(frozen=True)
class LoopFeatures:
    """What the lists of a loop get: templates by name, which the first list teaches, or those that the start carries."""

    maker: FeatureMaker
    what: str | None = None  # sets, templates or a TOML file; None: those of the start
    gain: str = "bleu"

    def __post_init__(self) -> None:
        if self.what is not None:
            _ = self.first  # what search cannot have is refused now, not after hours

    @classmethod
    def of(cls, maker: FeatureMaker, what: str | None, start: Model, gain: str = "bleu") -> LoopFeatures | None:
        """None where there are no templates; those of a start that carries its own are kept, and others refused."""
        wanted = None if what in (None, "none") else what
        if wanted is not None and start.plan is not None:
            raise InputError(f"--templates {what}: expected none with an --init that carries its own, found both; leave one out")
        if taught := maker.taught(plan_of(start)):
            raise InputError(
                f"--init: expected a model whose templates dev's references did not teach, found {taught!r}, by which lists of "
                "dev look too good; learn one with --templates classes"
            )
        return cls(maker, wanted, gain) if wanted is not None or start.plan is not None else None

    @property
    def first(self) -> FeaturePlan:
        """The plan before any list has taught it; members of sets that search cannot have are left out."""
        return searchable(self.maker.plan(str(self.what)), self.maker.registry, self.maker.say)

    def made_from(self) -> dict[str, Any]:
        """All that they depend on besides the lists."""
        plan = {} if self.what is None else {"templates": self.what, "plan": self.first.signature}
        return {**plan, **self.maker.digests}

    def plan(self, dev: NBest, before: Model, *, seed: int, threads: int) -> tuple[NBest, FeaturePlan]:
        """The list with its features, and the plan: that of the model before, grown, or a new one that the list teaches."""
        if (plan := plan_of(before)) is not None:
            return self.maker.grow(dev, plan)
        gradient = partial(first_gradient, gain=self.gain, seed=seed, threads=threads)
        return self.maker.learn(dev, self.first, gradient_of=gradient)

    def lists(
        self, dev: NBest, select: NBest | None, before: Model, *, seed: int, threads: int
    ) -> tuple[NBest, NBest | None, FeaturePlan]:
        """Both lists with their features, and the plan."""
        made, plan = self.plan(dev, before, seed=seed, threads=threads)
        return made, None if select is None else self.maker.apply(select, plan), plan

    def tree_features(self, made: NBest, plan: FeaturePlan) -> tuple[str, ...]:
        """The dense features that trees may look at in search."""
        known = Searchable(plan, self.maker.registry)
        return tuple(name for name in made.unit_names if known.problem(name, in_tree=True) is None)


def without_names(plan: FeaturePlan, maker: FeatureMaker) -> FeaturePlan:
    """The plan as if no sparse feature had been seen: whatever comes is new."""
    return replace(plan, entries=tuple(replace(e, features=()) if maker.is_sparse(e) else e for e in plan.entries))


def with_names(plan: FeaturePlan, names: Iterable[str]) -> FeaturePlan:
    """The plan with these sparse features, each under the template that its name begins with."""
    by: dict[str, list[str]] = {}
    for name in sorted(names):
        by.setdefault(name.partition(":")[0], []).append(name)
    return replace(plan, entries=tuple(replace(e, features=tuple(by[e.name])) if e.name in by else e for e in plan.entries))
