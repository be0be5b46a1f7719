"""The systems that are compared: a set of features, a method, and the hyper-parameters that the held-out list chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from .errors import InputError, unknown_name
from .grow import TreeOptions
from .metrics import Scorer
from .model import Level, Model
from .nbest import NBest
from .tree import LEAF_KINDS
from .tuners import TUNERS, tuner_class

BOOSTERS: dict[str, Level] = {"boost-local": "local", "boost-global": "global"}
METHODS = (*TUNERS, *BOOSTERS)


@dataclass(frozen=True)
class System:
    """A row of the table."""

    name: str
    feature_set: str = "base"  # the list's own features, or what ``featurize`` adds
    method: str = "pro"  # decoder, a tuner, boost-local or boost-global
    leaves: str | None = None  # of trees; None: chosen like the other hyper-parameters

    @property
    def level(self) -> Level | None:
        return BOOSTERS.get(self.method)

    @property
    def slug(self) -> str:
        """The name as part of a file name."""
        return self.name.replace("/", "_").replace(":", "_")


SYSTEMS: dict[str, System] = {
    "decoder": System("decoder", method="decoder"),
    "base-MERT": System("base-MERT", method="mert"),
    "base-PRO": System("base-PRO", method="pro"),
    "kbmira": System("kbmira", method="kbmira"),
    "boost-global": System("boost-global", method="boost-global"),
    "boost-local": System("boost-local", method="boost-local"),
}


def parse_systems(text: str | None) -> tuple[System, ...]:
    """Systems of a comma-separated list of names of SYSTEMS and of ``features/method[:leaves]``.

    None is all of SYSTEMS. A list of the second kind alone comes after these; one that names any of SYSTEMS is complete.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise InputError(f"--systems: expected names separated by commas, found none; choose from {', '.join(SYSTEMS)}")
    if all("/" in name for name in names):
        names = [*SYSTEMS, *names]
    return tuple(_system(name) for name in dict.fromkeys(names))


def _system(name: str) -> System:
    if name in SYSTEMS:
        return SYSTEMS[name]
    feature_set, slash, rest = name.partition("/")
    method, colon, leaves = rest.partition(":")
    if not slash:
        raise InputError(
            f"unknown system {name!r}: expected one of {', '.join(SYSTEMS)}, or features/method[:leaves] as in 'large/pro'"
        )
    if method not in METHODS:
        raise unknown_name(f"method of {name!r}", method, METHODS)
    if colon and (method not in BOOSTERS or leaves not in LEAF_KINDS):
        kinds = ", ".join(LEAF_KINDS)
        raise InputError(f"system {name!r}: expected leaves ({kinds}) after ':', of a boosting method; found {leaves!r}")
    if feature_set != "base":
        templates = feature_templates()
        for part in feature_set.split("+"):
            if part not in templates.SETS and part not in templates.TEMPLATES:
                raise unknown_name(f"features of {name!r}", part, templates.SETS)
    return System(name, feature_set, method, leaves or None)


def feature_templates() -> Any:
    """The module that computes feature sets other than base, or why there is none."""
    try:
        from . import templates
    except ImportError as error:
        raise InputError(f"features other than base: expected boostfeat's templates, found: {error}; install it whole") from None
    return templates


# ---------------------------------------------------------------------------------------------------------------------
# Hyper-parameters: a declared grid, in stages
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """Values to try with what the stages before have chosen; the first of each is the default."""

    grid: Mapping[str, tuple[Any, ...]]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # in this stage only

    def points(self, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{**chosen, **dict(zip(self.grid, values, strict=True))} for values in product(*self.grid.values())]


PAIRS = {"alpha": (1.0, 0.1), "keep": (100, 300), "l2": (1.0, 100.0)}  # [TA13 footnote 1]: K is 100 or 300
BOOST = (
    Stage(PAIRS, {"rounds": 0}),  # by the linear model that boosting starts from: PRO's, so trees explain what differs
    Stage({"leaves": ("constant", "linear"), "max_leaves": (2, 4)}),
    Stage({"shrinkage": (1.0, 0.5)}),
)
GRIDS: dict[str, tuple[Stage, ...]] = {
    "decoder": (),
    "mert": (),
    "pro": (Stage(PAIRS),),
    "mira": (Stage({"c": (0.01, 0.001, 0.1)}),),
    "kbmira": (Stage({"c": (0.01, 0.001, 0.1)}),),
    "rm": (Stage({"c": (0.01, 0.001), "b": (1.0, 0.5, 2.0)}),),
    "adagrad": (Stage({"l1": (0.1, 0.01), "eta": (0.02, 0.1)}),),
    "rampion": (Stage({"eta": (1e-4, 1e-3, 1e-5)}),),
    "arow": (Stage({"r": (100.0, 10.0, 1000.0)}),),
    "boost-local": BOOST,
    "boost-global": BOOST,
}
SEARCHES = ("grid", "halving", "none")


def stages(system: System) -> tuple[Stage, ...]:
    """The system's grid: that of its method, without what its name fixes."""
    if system.leaves is None:
        return GRIDS[system.method]
    return tuple(replace(s, grid={k: v for k, v in s.grid.items() if k != "leaves"}) for s in GRIDS[system.method])


@dataclass(frozen=True)
class FitOptions:
    """What all systems of a comparison share."""

    search: str = "grid"
    metric: str = "bleu-sbp"  # what MERT climbs, epochs and rounds stop by, and hyper-parameters are chosen by
    rounds: int = 40  # of boosting, at most; the held-out list chooses how many
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        if self.search not in SEARCHES:
            raise unknown_name("search", self.search, SEARCHES)
        if self.metric not in ("bleu", "bleu-sbp"):
            raise unknown_name("metric of compare", self.metric, ("bleu", "bleu-sbp"))


def fit(system: System, dev: NBest, select: NBest, params: Mapping[str, Any], options: FitOptions) -> Model:
    """The system with these hyper-parameters; select chooses the round or epoch."""
    if system.level is not None:
        from .boost import BoostOptions, boost
        from .pairs import SAMPLERS

        trees = {"leaves": system.leaves or "constant", **{k: params[k] for k in ("leaves", "max_leaves") if k in params}}
        boosting = BoostOptions(
            level=system.level,
            metric=options.metric,
            pairs=replace(SAMPLERS["ta13"], **{k: params[k] for k in ("alpha", "keep") if k in params}),
            tree=TreeOptions(**trees),
            **{"rounds": options.rounds, **{k: params[k] for k in ("rounds", "shrinkage", "l2") if k in params}},
        )
        return boost(dev, select, boosting, seed=options.seed, threads=options.threads)
    from .tuners.base import Run

    run = Run(seed=options.seed, threads=options.threads, metric=options.metric)
    model: Model = tuner_class(system.method)(**params).fit(dev, select, run)
    return model


@dataclass(frozen=True)
class Found:
    """What the search chose, and all it tried."""

    model: Model
    params: dict[str, Any]
    tried: list[dict[str, Any]]  # {params, select} and, where only part of dev was used, {dev: share}


Report = Callable[[str], None]


def search(system: System, dev: NBest, select: NBest, options: FitOptions, report: Report = lambda note: None) -> Found:
    """Choose hyper-parameters by the gain on select, stage by stage, the first among equals.

    grid: every point of a stage. halving: all on a quarter of dev's sentences, the better half on half of them, what is left on
    all. none: the defaults.
    """
    scorer = Scorer(select)
    order = np.random.default_rng(options.seed).permutation(len(dev))
    memo: dict[str, tuple[float, Model]] = {}
    tried: list[dict[str, Any]] = []

    def fitted(params: Mapping[str, Any], stage: Stage, share: float = 1.0) -> tuple[float, Model]:
        key = repr((sorted(params.items()), share))
        if key not in memo:
            part = dev if share == 1.0 else dev.take(np.sort(order[: max(1, round(share * len(dev)))]))
            model = fit(system, part, select, params, options)
            gain = scorer.score(model.predict(select), options.metric).score
            memo[key] = gain, model
            tried.append({"params": dict(params), "select": gain, **({} if share == 1.0 else {"dev": share})})
            what = ", ".join(f"{name} {params[name]}" for name in stage.grid) or "fitted"
            report(f"{what}: {gain:.2f}" + ("" if share == 1.0 else f" ({share:.0%} of dev)"))
        return memo[key]

    chosen = {name: values[0] for stage in stages(system) for name, values in stage.grid.items()}
    for stage in stages(system) if options.search != "none" else ():
        points, share = stage.points(chosen), 0.25 if options.search == "halving" else 1.0
        while share < 1.0 and len(points) > 2:
            gains = [fitted({**point, **stage.fixed}, stage, share)[0] for point in points]
            kept = np.argsort(-np.array(gains), kind="stable")[: -(-len(points) // 2)]
            points, share = [points[k] for k in np.sort(kept)], 2 * share
        chosen = max(points, key=lambda point: fitted({**point, **stage.fixed}, stage)[0])
    return Found(fitted(chosen, Stage({}))[1], chosen, tried)
