"""The systems that are compared: a set of features, a method, and the hyper-parameters that the held-out list chooses."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from ..boosting.boost_options import ABLATION, RECIPES, BoostOptions, recipe
from ..boosting.induce import induce
from ..core.arrays import I64
from ..core.errors import InputError, unknown_name
from ..core.options import named, options_of, typed
from ..core.processes import seconds_since
from ..features import SETS, TEMPLATES, Template
from ..features.feature_maker import FeatureMaker
from ..lists.choices import Scorer
from ..lists.mbr import mbr_choice
from ..lists.nbest import NBest
from ..model.model import Model
from ..model.model_file import Level
from ..trees.tree_options import LEAF_KINDS
from ..tuners import TUNERS, tuner_class
from ..tuners.base import Run, decoder_weights
from ..tuners.tuner_options import TUNER_OPTIONS
from .comparison_options import PRESETS, CompareOptions, RowOptions

LINEAR = "linear"  # boosting without trees
BOOSTERS: dict[str, Level] = {"boost-local": "local", "boost-global": "global", LINEAR: "local"}
METHODS = (*TUNERS, "mbr", *BOOSTERS)
OnGraphs: TypeAlias = Callable[[Any, NBest, Run], Model]  # fits a tuner on the search graphs of a list
BASE, INDUCED = "base", "induced"  # the list's own features; those that ``induce`` chooses for itself


@dataclass(frozen=True)
class System:
    """A row of the table."""

    name: str
    feature_set: str = BASE  # or INDUCED, or what ``featurize`` adds
    method: str = "pro"  # decoder, a tuner, mbr, boost-local, boost-global or linear
    leaves: str | None = None  # of trees; None: the recipe's, or chosen like the other hyper-parameters
    recipe: str = "default"  # of boosting (see boostfeat.boosting.boost_options)
    changes: Mapping[str, Any] = field(default_factory=dict)  # to the options of the recipe or the tuner, and of RowOptions

    @property
    def level(self) -> Level | None:
        return BOOSTERS.get(self.method)

    @property
    def is_featurized(self) -> bool:
        """Whether lists get features before it is trained."""
        return self.feature_set not in (BASE, INDUCED)

    @property
    def templates(self) -> str | None:
        """Templates as ``induce`` takes them: None where it chooses."""
        return None if self.feature_set == INDUCED else "none"

    @property
    def slug(self) -> str:
        """The name as part of a file name."""
        return re.sub(r"[^\w.+-]", "_", self.name)


SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System("decoder", method="decoder"),
        System("base-MERT", method="mert"),
        System("base-PRO", method="pro"),
        System("base/boost-global", method="boost-global"),
        System("base/boost-local", method="boost-local"),
        System(LINEAR, INDUCED, LINEAR),
        System("boost-global", INDUCED, "boost-global"),
        System("boost-local", INDUCED, "boost-local"),
        System("kbmira", method="kbmira"),
        System("mbr", method="mbr"),
    )
}
DEFAULT = tuple(SYSTEMS)[:8]  # the rows where none is named


def parse_systems(text: str | None, registry: Mapping[str, Template] = TEMPLATES) -> tuple[System, ...]:
    """Systems of a comma-separated list of names of SYSTEMS and of ``features/method``, each with what it sets after colons.

    None is DEFAULT. A list of the second kind alone comes after these; one that names any of SYSTEMS is complete.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise InputError(f"--systems: expected names separated by commas, found none; choose from {', '.join(SYSTEMS)}")
    found = [_system(name, registry) for name in names]
    if not any(system.name.partition(":")[0] in SYSTEMS for system in found):
        found = [*(SYSTEMS[name] for name in DEFAULT), *found]
    return tuple({system.name: system for system in found}.values())


def _system(name: str, registry: Mapping[str, Template]) -> System:
    head, *settings = (part if "=" in part else part.lower() for part in name.split(":"))
    known = {name.lower(): own for name, own in SYSTEMS.items()}
    system = known.get(head, known.get(f"base-{head}"))
    if system is None:
        feature_set, slash, method = (f"{BASE}/{head}" if head in METHODS else head).partition("/")
        if not slash:
            raise InputError(
                f"unknown system {name!r}: expected one of {', '.join(SYSTEMS)}, or [features/]method[:recipe, leaves, preset "
                "or NAME=VALUE]"
            )
        if method not in METHODS:
            raise unknown_name(f"method of {name!r}", method, METHODS)
        for part in feature_set.split("+") if feature_set != BASE else ():
            if part not in SETS and part not in registry:
                raise unknown_name(f"features of {name!r}", part, SETS)
        system = System(head, feature_set, method)
    system = replace(system, name=":".join([system.name, *settings]))
    for setting in settings:
        system = _with_setting(system, setting)
    if system.recipe == "paper" and system.feature_set == INDUCED:  # ``induce`` has no templates then
        system = replace(system, feature_set=BASE)
    try:
        _checked(system)
    except InputError as error:
        raise InputError(f"system {name!r}: {error}") from None
    return system


def row_options(method: str) -> tuple[type, ...]:
    """The classes whose options a row of this method can set by NAME=VALUE."""
    if method in BOOSTERS:
        return (BoostOptions,)
    return (TUNER_OPTIONS["pro" if method == "mbr" else method], RowOptions) if method != "decoder" else ()


def _with_setting(system: System, setting: str) -> System:
    """The system with one of the settings after its colons: a recipe, leaves, a preset, or NAME=VALUE."""
    names = (*LEAF_KINDS, *RECIPES) if system.level else tuple(PRESETS.get(system.method, ()))
    if system.level and setting in LEAF_KINDS:
        return replace(system, leaves=setting)
    if system.level and setting in RECIPES:
        return replace(system, recipe=setting)
    if setting in names:
        return replace(system, changes={**system.changes, **PRESETS[system.method][setting]})
    name, equals, _ = setting.partition("=")
    kinds = row_options(system.method)
    kind = next((kind for kind in kinds if name.replace("-", "_") in named(kind)), None)
    if not equals or kind is None:
        options = ", ".join(o.name for kind in kinds for o in options_of(kind))
        ways = [f"one of {', '.join(names)}"] if names else []
        ways += [f"NAME=VALUE of {options}"] if options else []
        raise InputError(f"system {system.name!r}: expected {' or '.join(ways) or 'nothing'} after ':', found {setting!r}")
    try:
        return replace(system, changes={**system.changes, **typed(kind, [setting])})
    except InputError as error:
        raise InputError(f"system {system.name!r}: {str(error).removeprefix('--set ')}") from None


def _checked(system: System) -> None:
    """Raise for values that the options of a system do not take."""
    if system.level is not None:
        recipe(system.recipe, **system.changes)
        if system.method == LINEAR and "rounds" in system.changes:
            raise InputError("rounds does nothing without trees; leave it out")
        return
    for kind in row_options(system.method):
        known = {o.field for o in options_of(kind)}
        kind(**{name: value for name, value in system.changes.items() if name in known})


def split_changes(system: System) -> tuple[dict[str, Any], RowOptions]:
    """Split what a system's name sets into options of its method and of the row."""
    own = asdict(RowOptions())
    mine = {name: value for name, value in system.changes.items() if name in own}
    return {name: value for name, value in system.changes.items() if name not in own}, RowOptions(**mine)


def ablation_systems() -> tuple[System, ...]:
    """The default recipe, the paper's, and the default without templates, without trees, and with one ingredient changed."""
    whole = SYSTEMS["boost-local"]
    changed = (replace(whole, name=f"boost-local:{name}", changes=changes) for name, changes in ABLATION.items() if changes)
    without = (SYSTEMS[name] for name in ("base/boost-local", LINEAR))
    return SYSTEMS["base-PRO"], whole, *without, *changed, *parse_systems("boost-local:paper")


# ---------------------------------------------------------------------------------------------------------------------
# Hyper-parameters: a declared grid, in stages
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """Values to try with what the stages before have chosen; the first of each is the default."""

    grid: Mapping[str, tuple[Any, ...]]
    method: str | None = None  # whose fits they are tried by, if not the system's own

    def points(self, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{**chosen, **dict(zip(self.grid, values, strict=True))} for values in product(*self.grid.values())]


FOLDS = (0, 1, 2)
MBR_SCALES = (1.0, 0.25, 0.5, 2.0, 4.0)
PAIRS = {"alpha": (1.0, 0.1), "keep": (100, 300), "l2": (1.0, 100.0)}  # [TA13 footnote 1]: K is 100 or 300
PAPER = (
    Stage(PAIRS, method="pro"),  # by the linear model that boosting starts from, so that trees explain what differs
    Stage({"leaves": ("constant", "linear"), "max_leaves": (2, 4, 8)}),  # [TA13 section 2.1]: up to 8 leaves
)
GRIDS: dict[str, tuple[Stage, ...]] = {
    "decoder": (),
    "mert": (),
    "pro": (Stage(PAIRS),),
    "mbr": (Stage(PAIRS, method="pro"), Stage({"scale": MBR_SCALES})),
    "mira": (Stage({"c": (0.01, 0.001, 0.1)}),),
    "kbmira": (Stage({"c": (0.01, 0.001, 0.1)}),),
    "rm": (Stage({"c": (0.01, 0.001), "b": (1.0, 0.5, 2.0)}), Stage({"d": (0.01, 0.1)})),
    "adagrad": (Stage({"l1": (0.1, 0.01), "eta": (0.02, 0.1)}),),
    "rampion": (Stage({"eta": (1e-4, 1e-3, 1e-5)}),),
    "arow": (Stage({"r": (100.0, 10.0, 1000.0)}),),
    **dict.fromkeys(BOOSTERS, ()),  # a recipe is complete
}


def stages(system: System) -> tuple[Stage, ...]:
    """The system's grid: that of its method, or of [TA13] for its recipe, without what the system's name fixes."""
    grid = PAPER if system.recipe == "paper" else GRIDS[system.method]
    fixed = {*system.changes, *(("leaves",) if system.leaves else ())}
    open_stages = (replace(s, grid={k: v for k, v in s.grid.items() if k not in fixed}) for s in grid)
    return tuple(stage for stage in open_stages if stage.grid)


def first_of_grid(system: System) -> dict[str, Any]:
    """Return the first value of every hyper-parameter, its default."""
    return {name: values[0] for stage in stages(system) for name, values in stage.grid.items()}


def boost_options(system: System, options: CompareOptions, params: Mapping[str, Any]) -> BoostOptions:
    """The system's recipe with what its name, the comparison and the search change."""
    rounds = {"rounds": 0} if system.method == LINEAR else {} if options.rounds is None else {"rounds": options.rounds}
    leaves = {} if system.leaves is None else {"leaves": system.leaves}
    own = {"level": system.level, "gain": options.gain, "metric": options.main_metric}
    return recipe(system.recipe, **{**own, **rounds, **leaves, **system.changes, **params})


def fit(
    system: System,
    dev: NBest,
    select: NBest,
    params: Mapping[str, Any],
    options: CompareOptions,
    *,
    threads: int = 1,
    on_graphs: OnGraphs | None = None,
) -> Model:
    """The system with these hyper-parameters; select chooses the round or epoch, on graphs the graphs do."""
    if system.level is not None:
        own = boost_options(system, options, params)
        return induce(dev, select, own, templates=system.templates, seed=options.seed, threads=threads)
    changes, row = split_changes(system)
    if row.online:
        raise InputError("online: expected a decoder to learn with, found lists; give --decode, or leave it out")
    if row.graphs and on_graphs is None:
        raise InputError("graphs: expected search graphs to tune on, found lists; 'replicate --graphs FILE' gives them")
    found = decoder_weights(dev) if row.init == "decoder" else None
    how: dict[str, Any] = {"seed": options.seed, "threads": threads, "gain": options.gain, "metric": options.main_metric}
    run = Run(**how, pick=row.pick, init=found[0] if found else None, allow_missing=True)  # compare looked at its lists
    params = {**changes, **params}
    if system.method != "mbr":
        tuner = tuner_class(system.method)(**params)
        model: Model = on_graphs(tuner, dev, run) if on_graphs else tuner.fit(dev, select, run)
        return model
    # PRO's model with its weights multiplied by the scale: p = softmax(score) is what MBR's expectation is under
    scale = params["scale"]
    linear: Model = tuner_class("pro")(**{k: v for k, v in params.items() if k != "scale"}).fit(dev, select, run)
    weights = {name: scale * w for name, w in linear.weights.items()}
    return replace(linear, weights=weights, config={**linear.config, "method": "mbr", "scale": scale})


def choose(system: System, model: Model, nbest: NBest, *, threads: int = 1) -> I64:
    """[S] what the system takes from each list: the model's best, or what has most in common with its better ones."""
    nbest = FeatureMaker(threads=threads).for_model(nbest, model)
    if system.method == "mbr":
        gain = model.config.get("gain", "bleu")
        return mbr_choice(nbest, model.decision_function(nbest), gain=gain, threads=threads)
    return model.predict(nbest)


# ---------------------------------------------------------------------------------------------------------------------
# The search: a plan says what has to be fitted next, and whoever carries it out, where and how many at a time
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """A training that a search asks for."""

    system: System
    params: Mapping[str, Any]
    seed: int
    share: float = 1.0  # of dev's sentences
    fold: int = -1  # of dev that is held out, to be scored in place of select; -1: none

    def by(self, method: str) -> Fit:
        """Return the fit by another method, with those of its settings that that one knows."""
        known = {o.field for kind in row_options(method) for o in options_of(kind)}
        changes, params = ({k: v for k, v in of.items() if k in known} for of in (self.system.changes, self.params))
        return replace(self, system=System(method, self.system.feature_set, method, changes=changes), params=params)

    @property
    def made_from(self) -> dict[str, Any]:
        """Settings that it depends on, beside the lists and what all systems share."""
        return asdict(replace(self, system=replace(self.system, name="")))


@dataclass(frozen=True)
class Fitted:
    """A finished training: its model, score, time and memory."""

    model: Model
    select: float  # the metric on select
    seconds: float
    peak_mb: float = 0.0


@dataclass(frozen=True)
class Found:
    """Settings that a search chose, and all it tried."""

    params: dict[str, Any]
    tried: list[dict[str, Any]]  # {params, select} and, where only part of dev was used, {dev: share}
    runs: tuple[Fitted, ...]  # of what was chosen: with the seed of the comparison, and with others
    fits: tuple[Fitted, ...]  # all


Report = Callable[[str], None]
Plan = Generator[list[Any], list[Fitted], Found]


def search_plan(
    system: System, options: CompareOptions, *, sign: float, runs: int = 1, task_of: Callable[[Fit], Any] = lambda fit: fit
) -> Plan:
    """Choose hyper-parameters by the gain on select, stage by stage, the first among equals; then fit the further runs.

    grid: every point of a stage. halving: all on a quarter of dev's sentences, the better half on half of them, what is left on
    all. folds: settings of pairs by three folds of dev, as [TA13] does by cross-validation, others as grid. none: the
    defaults. ``sign`` is 1 where the metric is better when higher, else -1. Fits are asked for as ``task_of`` makes them.
    """
    fitted: dict[str, Fitted] = {}  # by what they are made from
    tried: dict[str, dict[str, Any]] = {}

    def gains(points: list[dict[str, Any]], stage: Stage, share: float = 1.0) -> Generator[list[Any], list[Fitted], list[float]]:
        whole = [Fit(system, point, options.seed, share) for point in points]
        fits = whole if stage.method is None else [fit.by(stage.method) for fit in whole]
        folds = FOLDS if options.search == "folds" and stage.grid and set(stage.grid) <= set(PAIRS) else ()
        parts = [[replace(fit, fold=fold) for fold in folds] or [fit] for fit in fits]
        asked = {repr(fit.made_from): fit for part in parts for fit in part}
        fitted.update(zip(asked, (yield [task_of(fit) for fit in asked.values()]), strict=True))
        found = [float(np.mean([fitted[repr(fit.made_from)].select for fit in part])) for part in parts]
        more = {"folds": len(folds)} if folds else {} if share == 1.0 else {"dev": share}
        for part, value in zip(parts, found, strict=True):
            tried.setdefault(repr(part[0].made_from), {"params": dict(part[0].params), "select": value, **more})
        return [sign * value for value in found]

    chosen = first_of_grid(system)
    for stage in stages(system) if options.search != "none" else ():
        points, share = stage.points(chosen), {"halving": 0.25}.get(options.search, 1.0)
        while share < 1.0 and len(points) > 2:
            kept = np.argsort(-np.array((yield from gains(points, stage, share))), kind="stable")[: -(-len(points) // 2)]
            points, share = [points[k] for k in np.sort(kept)], 2 * share
        found = yield from gains(points, stage)
        chosen = points[int(np.argmax(found))]
    yield from gains([chosen], Stage({}))
    first = fitted[repr(Fit(system, chosen, options.seed).made_from)]
    more = (yield [task_of(Fit(system, chosen, options.seed + r)) for r in range(1, runs)]) if runs > 1 else []
    return Found(chosen, list(tried.values()), (first, *more), (*fitted.values(), *more))


def fitted_on_graphs(system: System, dev: NBest, select: NBest, options: CompareOptions, on_graphs: OnGraphs) -> Found:
    """Fit a system on search graphs, run by run; it has nothing to choose."""
    scorer, fits = Scorer(select), [Fit(system, {}, options.seed + r) for r in range(options.runs)]
    runs = tuple(fitted_here(each, dev, scorer, options, on_graphs=on_graphs) for each in fits)
    return Found({}, [{"params": {}, "select": runs[0].select}], runs, runs)


def fitted_here(
    fit_: Fit, dev: NBest, scorer: Scorer, options: CompareOptions, *, threads: int = 1, on_graphs: OnGraphs | None = None
) -> Fitted:
    """Carry out a fit; ``scorer`` is that of select."""
    part, select = dev, scorer.nbest
    if fit_.fold >= 0:
        train, held_out = dev.split_sentences(len(FOLDS), seed=fit_.seed)[fit_.fold]
        part, scorer = dev.take(train), Scorer(dev.take(held_out))
    if fit_.share < 1.0:
        order = np.random.default_rng(fit_.seed).permutation(len(dev))
        part = dev.take(np.sort(order[: max(1, round(fit_.share * len(dev)))]))
    began = time.monotonic()
    model = fit(fit_.system, part, select, fit_.params, replace(options, seed=fit_.seed), threads=threads, on_graphs=on_graphs)
    seconds = seconds_since(began)
    chosen = choose(fit_.system, model, scorer.nbest, threads=threads)
    return Fitted(model, scorer.score(chosen, options.main_metric).score, seconds)
