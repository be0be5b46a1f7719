"""Learners of a model from the lists of a loop: any tuner, or boosting; and the templates whose features the lists get.

A learner has ``learn(task) -> Model``, ``made_from()``, all that its models depend on besides the task, the ``level`` of the
trees that it makes, None if it makes none, and says whether it is ``online``: its weights wander, and the last may be poor ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...boosting.induce import induce
from ...boosting.local import first_gradient
from ...core.errors import InputError
from ...export.kinds import static_features
from ...features.feature_maker import FeatureMaker, plan_of
from ...features.plan import FeaturePlan
from ...lists.feature_range import learnable
from ...lists.nbest import NBest
from ...losses.pairs import pairs_for
from ...model.model import Model
from ...model.tree_columns import augment, augmented_weights, folded
from ...tuners.base import Groups, Run, Tuner
from ...tuners.linear import linear_problem
from ..decoder.searchable import Searchable, searchable
from ..decoder.system import UNKNOWN  # a constant of the sentence for nearly all hypotheses: it says nothing about scale

Tick = Callable[[int, int], None]  # called with how much of a step is done, and of how much


def no_tick(done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class LearningTask:
    """Lists and model to learn from in an iteration."""

    iteration: int  # from 1
    start: Model  # of the iteration before
    dev: NBest  # accumulated
    select: NBest | None
    seed: int
    threads: int
    folder: Path  # of this iteration; the one before is beside it
    tick: Tick = no_tick
    name_left_out: Callable[[NBest], None] = lambda nbest: None  # features of a list that cannot be learned from
    tree_features: tuple[str, ...] = ()  # that trees may look at; none: what the learner says


class Learner(Protocol):
    @property
    def level(self) -> str | None: ...
    @property
    def online(self) -> bool: ...
    def learn(self, task: LearningTask) -> Model: ...
    def made_from(self) -> dict[str, Any]: ...


def known_names(nbest: NBest) -> set[str]:
    return set(nbest.feature_names)


def tune(tuner: Tuner, dev: NBest, select: NBest | None, start: Model, run: Run) -> Model:
    """A tuner's model from the weights of ``start``; where that has trees, their weights are tuned too.

    Weights of features that the lists do not show, as a decoder's unknown-word penalty, stay what they are.
    """
    if start.trees:
        dev, select = augment(dev, start), augment(select, start) if select is not None else None
    known, weights = known_names(dev), augmented_weights(start)
    init = {name: w for name, w in weights.items() if name in known}
    tuned = tuner.fit(dev, select, replace(run, init=init))
    held = {name: w for name, w in weights.items() if name not in known}
    return replace(folded({**held, **tuned.weights}, start), config=tuned.config, history=tuned.history)


def learnt(gain: str) -> dict[str, str]:
    """Name the gain in a folder's settings; BLEU, the default, is left out."""
    return {} if gain == "bleu" else {"gain": gain}


@dataclass(frozen=True)
class TunerLearner:
    """A tuner that starts from the weights of the iteration before."""

    method: str
    tuner: Any  # one of boostfeat.tuners
    groups: Groups = Groups()  # noqa: RUF009 (frozen)
    metric: str = "bleu"
    gain: str = "bleu"  # what is learned
    pick: str = "auto"  # the epoch that is kept: by select, if there is one; train, by dev; last

    level = None
    online = False

    def made_from(self) -> dict[str, Any]:
        return {
            "method": self.method,
            **asdict(self.tuner),
            "groups": self.groups.rules,
            "metric": self.metric,
            **learnt(self.gain),
            **({} if self.pick == "auto" else {"pick": self.pick}),
        }

    def learn(self, task: LearningTask) -> Model:
        task.name_left_out(task.dev)
        total = getattr(self.tuner, "epochs", getattr(self.tuner, "rounds", 1))
        run = Run(
            seed=task.seed,
            threads=task.threads,
            groups=self.groups,
            gain=self.gain,
            metric=self.metric,
            pick=self.pick,
            allow_missing=True,  # the driver looks at lists
            callback=lambda row: task.tick(row["epoch"], total),
        )
        return tune(self.tuner, task.dev, task.select, task.start, run)


@dataclass(frozen=True)
class TreeLearner:
    """Boosting that goes on from the trees of the iteration before.

    The first iteration starts from nothing, as ``induce`` does. Later ones first fit the weights of all features and trees anew
    to the accumulated pairs (``reweigh``), since the lists now hold what the decoder does with these trees, then add trees.
    """

    options: Any  # BoostOptions
    reweigh: bool = True
    static_only: bool = False  # trees look at features of the phrase pair only

    online = False

    @property
    def level(self) -> str | None:
        return str(self.options.level)

    def made_from(self) -> dict[str, Any]:
        options = {name: value for name, value in asdict(self.options).items() if name != "gain"}
        static = {"static_only": True} if self.static_only else {}
        return {"method": "induce", **options, "reweigh": self.reweigh, **static, **learnt(self.options.gain)}

    def learn(self, task: LearningTask) -> Model:
        """Rounds are kept in partial.json as they come, so that an interruption loses no more than one."""
        task.name_left_out(task.dev)
        options = self.options
        if self.static_only or (task.tree_features and not options.tree_features):
            options = replace(options, tree_features=static_features(task.dev) if self.static_only else task.tree_features)
        start = self._reweighed(task) if task.start.trees and self.reweigh else task.start
        known = known_names(task.dev)
        held = {name: w for name, w in start.weights.items() if name not in known}
        partial = task.folder / "partial.json"

        def keep(row: Mapping[str, Any], model: Model) -> None:
            model.save(partial)
            task.tick(row["round"], self.options.rounds)

        init = replace(start, weights={n: w for n, w in start.weights.items() if n in known}, plan=None) if start.trees else None
        model = induce(
            task.dev,
            task.select,
            options,
            templates="none",  # the decoder computes them
            seed=task.seed,
            threads=task.threads,
            init=init,
            so_far=Model.load(partial) if partial.exists() else None,
            callback=keep,
        )
        return replace(model, weights={**held, **model.weights})

    def _reweighed(self, task: LearningTask) -> Model:
        """The start with the weights of its features and trees fitted to the accumulated pairs, as PRO does."""
        dev = augment(learnable(task.dev), task.start)
        known, weights = known_names(dev), augmented_weights(task.start)
        pairs = pairs_for(dev, self.options.pairs, gain=self.options.gain, seed=task.seed, threads=task.threads)
        fit = linear_problem(dev, pairs).fit(l2=self.options.l2, init={n: w for n, w in weights.items() if n in known})
        return folded({**{n: w for n, w in weights.items() if n not in known}, **fit.weights}, task.start)


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
    trees = tuple(replace(tree, weight=tree.weight * factor) for tree in model.trees)
    return replace(model, weights={name: w * factor for name, w in model.weights.items()}, trees=trees)


def scale_to(model: Model, like: Model) -> float:
    """The power of two that brings the sum of |weights| nearest to that of another model, over the features it names.

    Decoders prune by differences of scores, so the scale that a tuner happens to give matters to search.
    """
    names = like.weights.keys() - {UNKNOWN}
    mine, theirs = (sum(abs(m.weights.get(name, 0.0)) for name in names) for m in (model, like))
    return float(np.ldexp(1.0, round(np.log2(theirs / mine)))) if mine > 0 and theirs > 0 else 1.0


@dataclass(frozen=True)
class LoopFeatures:
    """Templates of a loop's lists: by name, which the first list teaches, or those that the start carries.

    The plan grows as new features appear.
    """

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

    def tree_features(self, made: NBest, plan: FeaturePlan) -> tuple[str, ...]:
        """The dense features that trees may look at in search."""
        known = Searchable(plan, self.maker.registry)
        return tuple(name for name in made.unit_names if known.problem(name, in_tree=True) is None)


def without_names(plan: FeaturePlan) -> FeaturePlan:
    """The plan as if no sparse feature had been seen: whatever comes is new."""
    return replace(plan, entries=tuple(replace(e, features=()) if e.is_sparse else e for e in plan.entries))


def with_names(plan: FeaturePlan, names: Iterable[str]) -> FeaturePlan:
    """The plan with these sparse features, each under the template that its name begins with."""
    by: dict[str, list[str]] = {}
    for name in sorted(names):
        by.setdefault(name.partition(":")[0], []).append(name)
    return replace(plan, entries=tuple(replace(e, features=tuple(by[e.name])) if e.name in by else e for e in plan.entries))
