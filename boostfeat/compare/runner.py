"""Systems side by side [TA13 Table 2]: trained on dev, chosen on select, reported on test, with significance, in a folder.

First every system is trained and its choices are fixed, by workers that share all fits of all systems; each is kept as soon as
it is done. Only then are the test lists opened, if there are any: an ablation needs none, and reports on select. What the folder
holds is listed at ``Folder``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core.arrays import Array
from ..core.errors import InputError, clip_json, refuse_newer
from ..core.files import cannot_read, digest, only_writer, open_output
from ..core.processes import Workers, peak_mb
from ..core.strict_json import object_of, read_json, write_json
from ..features import TEMPLATES, FeaturePlan, Template
from ..features.feature_maker import FeatureMaker, plan_of, with_plan
from ..features.groups import feature_kinds
from ..features.options import ResourceFiles
from ..lists.agreement import check_agreement, shared_sentences
from ..lists.choices import Scorer
from ..lists.feature_range import range_warnings
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..metrics.metric import metric_of, shown
from ..metrics.significance import SEED, exact_sums
from ..model.decision import KEY as DECISION
from ..model.model import Model
from .comparison_options import CompareOptions
from .schedule import AnyPlan, Schedule, Watch
from .systems import (
    BASE,
    INDUCED,
    Found,
    Report,
    System,
    ablation_systems,
    boost_options,
    parse_systems,
    search_plan,
    stages,
)
from .table import Results, Rows, latex_table, markdown_table, reported_lists, tabulate
from .tasks import VERSIONS, FeatureTask, FitTask, KeptFits, ScoreTask, reported

VERSION = 1
OWN = (BASE, INDUCED)  # sets of features that no list gets beforehand


def all_systems(options: CompareOptions, registry: Mapping[str, Template] = TEMPLATES) -> tuple[System, ...]:
    """The systems by name; with an ablation its rows, after those that are named."""
    if not options.ablation:
        return parse_systems(options.systems, registry)
    named = parse_systems(options.systems, registry) if options.systems else ()
    return tuple({system.name: system for system in (*named, *ablation_systems())}.values())


@dataclass(frozen=True)
class Folder:
    """RUN/: results.json, config.json, table.md, table.tex; models/ and choices/ of each system and run (see ``named``);
    systems/, what is finished; fits/, every fit of a search; features/, the lists with other features than base.
    """

    path: Path
    files: ResourceFiles = field(default_factory=ResourceFiles)  # that templates read

    def digests(self, feature_set: str) -> dict[str, str]:
        """Of the files, for features that may be made with them."""
        given = {f.name: getattr(self.files, f.name) for f in fields(self.files)} if feature_set not in OWN else {}
        paths = {name: [value] if isinstance(value, str) else value for name, value in given.items() if value}
        return {name: " ".join(map(digest, of)) for name, of in paths.items()}

    def flags(self) -> list[str]:
        """The files as the command line takes them."""
        given = {f"--{f.name.replace('_', '-')}": getattr(self.files, f.name) for f in fields(self.files)}
        single = [(flag, path) for flag, path in given.items() if isinstance(path, str)]
        several = [(flag, path) for flag, paths in given.items() if isinstance(paths, list) for path in paths]
        both = [(flag, *paths) for flag, paths in given.items() if isinstance(paths, tuple)]
        return [word for words in (*single, *several, *both) for word in words]

    def named(self, kind: str, system: System, run: int = 0) -> Path:
        """models/large_pro.json, models/large_pro.run1.json, ..."""
        return self.path / kind / f"{system.slug}{f'.run{run}' if run else ''}.json"

    def list_of(self, feature_set: str, which: str, inputs: Mapping[str, Any]) -> str:
        return inputs[which]["path"] if feature_set in OWN else str(self.path / "features" / feature_set / f"{which}.nbest")

    def made_from(self, feature_set: str, which: str, inputs: Mapping[str, Any], options: CompareOptions) -> dict[str, Any]:
        """What a list with these features depends on."""
        if feature_set in OWN:
            return {"inputs": [inputs[which]["sha256"]]}
        what = {"inputs": [inputs[w]["sha256"] for w in ("dev", which)], "seed": options.seed, "version": __version__}
        what |= {} if options.gain == "bleu" else {"gain": options.gain}
        what |= {} if options.min_count is None else {"min_count": options.min_count}
        return {**what, **self.digests(feature_set)}

    def make(self) -> None:
        try:
            for name in ("models", "choices", "systems"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: expected a folder to write, found: {error.strerror}; choose another -o") from None

    def finished(self, system: System, made_from: Mapping[str, Any], *, force: bool) -> dict[str, Any] | None:
        """What an earlier run kept of a system, if it was made from the same; other leftovers are an error unless forced."""
        state = read_json(self.named("systems", system))
        if state is None or (force and state.get("made_from") != made_from):
            return None
        old = object_of(state, "made_from")
        for name, value in made_from.items():
            if old.get(name) != value:
                raise InputError(
                    f"{self.path}: expected an earlier run of the same comparison, found {system.name} made with "
                    f"{_changed(name, old.get(name), value)}; choose another -o, or replace it with --force"
                )
        return state


def compare(
    paths: Mapping[str, str],
    run: str | Path,
    options: CompareOptions | None = None,
    *,
    threads: int = 1,
    force: bool = False,
    allow_missing: bool = False,
    files: ResourceFiles | None = None,
    report: Report = lambda note: None,
    warn: Report = lambda note: None,
    watch: Watch = lambda name, done, total, result: None,
) -> Results:
    """Compare systems on the lists dev, select and, if they are given, test, test2, ... (``paths``); write ``run`` and return its
    results.json.

    Called again on the same folder it goes on from the fits that are done; those of runs beside it are taken over. As many
    processes as ``threads`` share the work, so a script that calls this needs the usual ``if __name__ == "__main__"``;
    results do not depend on how many. ``watch`` hears how many tasks of each system are done, of those asked for. ``warn`` gets
    a line for each feature that is left out, and for what else a reader of the table should know. The lists have to have the
    same features (or ``allow_missing``), and not the same sentences (or ``force``). ``files`` are those that templates of
    systems such as large/pro read.
    """
    options, folder = options or CompareOptions(), Folder(Path(run), files or ResourceFiles())
    systems = all_systems(options, FeatureMaker(folder.files).registry)
    if (given := folder.flags()) and not any(system.is_featurized for system in systems):
        raise InputError(f"{given[0]}: expected systems with features, as large/pro, found none; add one, or leave it out")
    names = [system.name for system in systems]
    options = replace(options, baseline={n.lower(): n for n in names}.get(options.baseline.lower(), options.baseline))
    if options.baseline not in (*names, CompareOptions.baseline):  # the default may be missing: then it has no p-values
        raise InputError(f"--baseline: expected one of the compared systems ({', '.join(names)}), found {options.baseline!r}")
    if folder.path.is_dir() and isinstance(earlier := read_json(folder.path / "config.json"), dict):
        refuse_newer(str(folder.path), earlier.get("boostfeat"), "compare", VERSION)
    inputs = {which: _describe(paths[which], options) for which in ("dev", "select", *reported_lists(paths)) if which in paths}
    _check_together({which: inputs[which]["path"] for which in inputs}, allow_missing=allow_missing, force=force, warn=warn)
    with only_writer(folder.path):
        return _compared(
            folder, systems, paths, inputs, options, threads=threads, force=force, report=report, warn=warn, watch=watch
        )


def _check_together(paths: Mapping[str, str], *, allow_missing: bool, force: bool, warn: Report) -> None:
    """Raise where lists have other features, or the very same sentences; say what sentences they share, and what else differs."""
    lists = {which: read_store(path) for which, path in paths.items()}
    for line in check_agreement(lists, allow_missing=allow_missing):
        warn(line)
    for two in shared_sentences(lists):
        if two.identical and not force:
            raise InputError(
                f"{two.a} and {two.b}: expected lists of different sentences, found the same {two.sentences:,} in both: "
                "what is chosen on a list looks too good there; give another, or --force"
            )
        warn(str(two))


def _compared(
    folder: Folder,
    systems: Sequence[System],
    paths: Mapping[str, str],
    inputs: Mapping[str, Any],
    options: CompareOptions,
    *,
    threads: int,
    force: bool,
    report: Report,
    warn: Report,
    watch: Watch,
) -> Results:
    """Train, score and test the systems, in a folder that is ours."""
    folder.make()
    states: dict[str, dict[str, Any]] = {}
    for system in systems:  # all leftovers are looked at before any work
        made_from = _made_from(system, inputs, options, folder)
        states[system.name] = folder.finished(system, made_from, force=force) or {"made_from": made_from}
    config = _config(paths, inputs, systems, folder, options)
    write_json(folder.path / "config.json", config)
    with Workers(max(1, threads)) as workers:
        _train_all(folder, systems, states, inputs, options, workers, report=report, warn=warn, watch=watch)
        wanted = set(config["signatures"])
        todo = [s for s in systems if not _scored(states[s.name], wanted) or not folder.named("choices", s).exists()]
        if todo:
            _score_all(folder, todo, states, inputs, options, workers, report=report, watch=watch)
    return finish_comparison(folder, systems, states, inputs, options, config=config, report=report)


def finish_comparison(
    folder: Folder,
    systems: Sequence[System],
    states: Mapping[str, Mapping[str, Any]],
    inputs: Mapping[str, Any],
    options: CompareOptions,
    *,
    config: Mapping[str, Any] | None = None,
    command: str = "",
    report: Report,
) -> Results:
    """Test what has been scored for significance, and write results.json and the tables (and config.json, if it is not there)."""
    report("significance")
    if config is None:
        config = about_run(command, inputs, systems, options)
        write_json(folder.path / "config.json", config)
    rows = {which: _choice_rows(folder, systems, states, which, inputs, options) for which in reported_lists(inputs)}
    how: dict[str, Any] = {"metric": options.metric, "baseline": options.baseline}
    results = tabulate(systems, states, rows, **how, trials=options.trials, seed=options.seed)
    note_same_models(folder, results)
    write_json(folder.path / "results.json", results)
    for name, text in (("table.md", markdown_table(results, config["signatures"])), ("table.tex", latex_table(results))):
        with open_output(folder.path / name) as stream:
            stream.write(text.encode())
    return results


def note_same_models(folder: Folder, results: Results) -> None:
    """Rows that are one run get ``same_as``, the name of the first of them: two names do not make two results."""
    first: dict[str, str] = {}
    for row in results:
        if row["model"]:
            model = Model.load(folder.path / row["model"]).to_json()
            what = [row["method"] == "mbr", model["config"].get(DECISION), model["trees"] and model["level"]]
            key = hashlib.sha256(json.dumps([*what, model["weights"], model["trees"]]).encode()).hexdigest()
            if (other := first.setdefault(key, row["name"])) != row["name"]:
                row["same_as"] = other


# ---------------------------------------------------------------------------------------------------------------------
# Training: by workers, with dev and select only
# ---------------------------------------------------------------------------------------------------------------------


def _train_all(
    folder: Folder,
    systems: Sequence[System],
    states: dict[str, dict[str, Any]],
    inputs: Mapping[str, Any],
    options: CompareOptions,
    workers: Workers,
    *,
    report: Report,
    warn: Report,
    watch: Watch,
) -> None:
    """Train the systems that are not finished, all together; keep each as soon as it is done."""
    kept, said = KeptFits.of(folder.path), dict[str, str]()
    plans: dict[str, AnyPlan] = {}

    def training(system: System) -> AnyPlan:
        state = yield from _training(folder, system, inputs, options, kept, said, warn)
        states[system.name] |= state
        write_json(folder.named("systems", system), states[system.name])
        report(_trained(system, state, options.metric))

    for system in systems:
        watch(system.name, 0, 0, None)
        if "chosen" in states[system.name]:
            report(f"{system.name}: finished already")
        else:
            plans[system.name] = training(system)
    workers.run(Schedule(plans, workers.size, watch), report=report)


def _trained(system: System, state: Mapping[str, Any], metric: str) -> str:
    """A line of what came of a system."""
    if not state["tried"]:
        return f"{system.name}: nothing to train"
    best = state["chosen_by"]
    fits = f"{len(state['tried'])} fits, " if state["tried"][1:] else ""
    return f"{system.name}: {shown(metric)} {best:.2f} on select ({fits}{state['search_seconds']:.1f} s)"


def _training(
    folder: Folder, system: System, inputs: Any, options: CompareOptions, kept: KeptFits, said: dict[str, str], warn: Report
) -> AnyPlan:
    """The plan that trains a system: its features, its search, its further runs. Gives what is kept of it."""
    lists: dict[str, str] = {}
    for which in ("dev", "select"):
        lists[which] = yield from _featurized(folder, system.feature_set, which, inputs, options)
    dev = read_store(lists["dev"])
    if system.method == "decoder":
        features = len(dev.global_names) + len(dev.sparse_names)
        nothing = {"seconds": 0.0, "search_seconds": 0.0, "peak_mb": round(peak_mb(), 1)}
        return {"chosen": {}, "tried": [], "models": [], "features": features, "trees": 0, **nothing}
    new = range_warnings(dev, said)
    said |= new
    for line in new.values():
        warn(line)
    made = {which: folder.made_from(system.feature_set, which, inputs, options) for which in lists}
    lists_from = {"features": system.feature_set, **made}
    sign = metric_of(options.metric, read_store(lists["select"])).sign
    found: Found = yield from search_plan(
        system, options, sign=sign, runs=options.runs, task_of=lambda fit: FitTask(fit, lists, lists_from, options, kept)
    )
    plan = FeaturePlan.load(Path(lists["dev"]).with_name("vocab.json")) if system.is_featurized else None
    models = [found.model, *(fitted.model for fitted in found.more)]
    for r, model in enumerate(models):
        with_plan(model, plan).save(folder.named("models", system, r))
    first = found.model
    return {
        "chosen": {**found.params, **({"rounds": len(first.trees)} if system.level else {})},
        "tried": found.tried,
        "chosen_by": found.select,
        "models": [str(folder.named("models", system, r).relative_to(folder.path)) for r in range(len(models))],
        "features": sum(w != 0 for w in first.weights.values()) + len(first.trees),
        "trees": len(first.trees),
        "active": active_features(first, dev),
        "epochs": len(first.history),
        "seconds": round(found.seconds, 3),
        "search_seconds": round(found.search_seconds, 3),
        "peak_mb": round(found.peak_mb, 1),
    }


def _featurized(
    folder: Folder, feature_set: str, which: str, inputs: Any, options: CompareOptions
) -> Generator[list[FeatureTask], list[Any], str]:
    """The path of a list with a set of features, which is made where it is not there yet."""
    path = folder.list_of(feature_set, which, inputs)
    if feature_set not in OWN:
        made_from = folder.made_from(feature_set, which, inputs, options)
        yield [FeatureTask(feature_set, which, inputs[which]["path"], path, made_from, options, folder.files)]
    return path


def active_features(model: Model, nbest: NBest) -> dict[str, int]:
    """How many weights that are not 0 each template has; decoder: of the features that came with the list [EMR13 Table 2]."""
    plan, of_list = plan_of(model), {name: template for name, (template, _) in feature_kinds(nbest).items()}
    kinds = of_list | {name: e.name for e in (plan.entries if plan else ()) for name in e.features or ()}
    return dict(Counter(kinds.get(name, "decoder") for name, weight in model.weights.items() if weight))


# ---------------------------------------------------------------------------------------------------------------------
# Scoring: after all choices are final
# ---------------------------------------------------------------------------------------------------------------------


def _scored(state: Mapping[str, Any], metrics: set[str]) -> bool:
    """Has a system been scored by these metrics?"""
    return "scores" in state and all(metrics <= set(scores) for run in state["scores"] for scores in run.values())


def _score_all(
    folder: Folder,
    systems: Sequence[System],
    states: Any,
    inputs: Any,
    options: CompareOptions,
    workers: Workers,
    *,
    report: Report,
    watch: Watch,
) -> None:
    """Score the systems' models on all lists; keep scores and choices."""

    def scoring(system: System) -> AnyPlan:
        lists = {}
        for which in inputs:
            lists[which] = yield from _featurized(folder, system.feature_set, which, inputs, options)
        models = [str(folder.path / m) for m in states[system.name]["models"]]
        found = yield [
            ScoreTask(system, which, inputs[which]["path"], lists[which], models, options, inputs[which]["hypotheses"])
            for which in inputs
        ]
        keep_scores(folder, system, states[system.name], dict(zip(inputs, found, strict=True)))

    report("scoring")
    workers.run(Schedule({s.name: scoring(s) for s in systems}, workers.size, watch), report=report)


def keep_scores(folder: Folder, system: System, state: dict[str, Any], found: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write what a system's runs choose on every list, and keep their scores."""
    runs = len(found["dev"])
    files = [folder.named("choices", system, r) for r in range(runs)]
    for r, file in enumerate(files):
        order = dict.fromkeys([*reported_lists(found), "dev", "select"])
        write_json(file, {which: found[which][r]["chosen"] for which in order})
    state["choices"] = [str(file.relative_to(folder.path)) for file in files]
    state["scores"] = [{which: of[r]["scores"] for which, of in found.items()} for r in range(runs)]
    write_json(folder.named("systems", system), state)


def _choice_rows(
    folder: Folder, systems: Sequence[System], states: Any, which: str, inputs: Any, options: CompareOptions
) -> Rows:
    """Statistics rows of each system's choices on the list that is reported, of all metrics."""
    nbest = read_store(inputs[which]["path"])
    scorer, metrics = Scorer(nbest), reported(options, nbest)

    def rows(file: str) -> Array:
        within = np.array(json.loads((folder.path / file).read_bytes())[which])
        chosen = np.where(within >= 0, within + nbest.hyp_ptr[:-1], -1)
        return np.concatenate([exact_sums(scorer.rows(chosen, metric)) for metric in metrics], axis=1)

    found = {system.name: np.stack([rows(file) for file in states[system.name]["choices"]]) for system in systems}
    return Rows(tuple(metrics), found)


# ---------------------------------------------------------------------------------------------------------------------
# What it takes to make it again
# ---------------------------------------------------------------------------------------------------------------------


def _describe(path: str, options: CompareOptions) -> dict[str, Any]:
    """What identifies a list; it must have sentences, and what metrics need."""
    if path == "-":
        raise InputError("compare: expected files, found '-'; a list is read several times")
    try:
        with open(path, "rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(path, error) from None
    nbest = read_store(path)
    if not len(nbest):
        raise InputError(f"{path}: expected a list with sentences, found none; import it with -r REF")
    try:
        for metric in (metric_of(options.gain, nbest), *reported(options, nbest)):
            metric.check(nbest)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    sizes = {"sentences": len(nbest), "hypotheses": nbest.n_hyps}
    return {"path": os.path.abspath(path), "sha256": sha256, **sizes, "n_refs": Scorer(nbest).n_refs}


def _signatures(path: str, options: CompareOptions) -> dict[str, str]:
    """What the numbers of each metric mean that is reported of a list."""
    nbest = read_store(path)
    return {m.name: m.signature(Scorer(nbest).n_refs, nbest.tokenizer) for m in reported(options, nbest)}


def _made_from(system: System, inputs: Mapping[str, Any], options: CompareOptions, folder: Folder) -> dict[str, Any]:
    """All that a system's numbers depend on."""
    lists = {which: inputs[which]["sha256"] for which in inputs}
    return settings(system, options, lists, folder.digests(system.feature_set))


def settings(
    system: System, options: CompareOptions, inputs: Mapping[str, Any], resources: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A system's settings in a comparison, and what it is made from."""
    what = {
        **inputs,
        **{name: getattr(options, name) for name in ("runs", "search", "metric", "rounds", "seed")},
        **({} if options.gain == "bleu" else {"gain": options.gain}),
        **({} if options.min_count is None else {"min_count": options.min_count}),
        "resources": resources or None,
        "system": asdict(system),
        "boosting": asdict(boost_options(system, options, {})) if system.level else None,
        "grid": [stage.to_json() for stage in stages(system)],
        "version": __version__,
    }
    made_from: dict[str, Any] = json.loads(json.dumps(what))  # tuples become lists, as they are when read back
    return made_from


def _changed(name: str, old: Any, new: Any) -> str:
    if name in ("dev", "select") or name.startswith("test"):
        return f"another {name} list"
    return f"{name} {clip_json(old)}, not {clip_json(new)}"


def _config(
    paths: Mapping[str, str], inputs: Any, systems: Sequence[System], folder: Folder, options: CompareOptions
) -> dict[str, Any]:
    """config.json: command, options, seeds, hashes of inputs, signatures of metrics, versions, the grid."""
    lists = [paths["dev"], *(part for which in list(inputs)[1:] for part in (f"--{which.rstrip('0123456789')}", paths[which]))]
    words = ["boostfeat", "compare", *lists, *options.flags(), *folder.flags(), "-o", str(folder.path)]
    return about_run(shlex.join(words), inputs, systems, options)


def about_run(command: str, inputs: Mapping[str, Any], systems: Sequence[System], options: CompareOptions) -> dict[str, Any]:
    """config.json of a command with these inputs."""
    return {
        "boostfeat": f"compare/{VERSION}",
        "version": __version__,
        "command": command,
        "options": asdict(options),
        "systems": [asdict(system) for system in systems],
        "seeds": [options.seed + r for r in range(options.runs)],
        "test_seed": SEED,
        "inputs": inputs,
        "signatures": _signatures(inputs[reported_lists(inputs)[0]]["path"], options),
        "versions": {**{name: version(name) for name in VERSIONS}, "python": platform.python_version()},
        "grid": {system.name: [stage.to_json() for stage in stages(system)] for system in systems},
        "trials": options.trials,
    }
