"""Systems side by side [TA13 Table 2]: trained on dev, chosen on select, reported on test, with significance, in a folder.

First every system is trained and its choices are fixed, by workers that share all fits of all systems; each is kept as soon as
it is done. Only then are the test lists opened, if there are any: an ablation needs none, and reports on select. What the folder
holds is listed at ``Folder``.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..boosting.record import as_read
from ..core.arrays import first_use_order
from ..core.errors import InputError, clip_json, refuse_newer
from ..core.files import digest, only_writer, open_output
from ..core.processes import peak_mb
from ..core.strict_json import object_of, read_json, write_json
from ..features import TEMPLATES, FeaturePlan, Template
from ..features.feature_maker import FeatureMaker, plan_of, with_plan
from ..features.groups import feature_kinds
from ..features.resources import ResourceFiles
from ..lists.agreement import check_agreement, shared_sentences
from ..lists.choices import Scorer
from ..lists.feature_range import range_warnings
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..metrics.metric import metric_of, shown
from ..metrics.significance import SEED
from ..model.decision import KEY as DECISION
from ..model.model import Model
from .comparison_options import CompareOptions, as_words
from .job_processes import JobProcesses
from .systems import (
    BASE,
    INDUCED,
    Found,
    OnGraphs,
    Report,
    System,
    ablation_systems,
    boost_options,
    fitted_on_graphs,
    parse_systems,
    search_plan,
    stages,
)
from .table import Results, Rows, latex_table, markdown_table, reported_lists, tabulate
from .tasks import PLAN, VERSIONS, AnyPlan, KeptFits, Schedule, Watch, choice_rows, feature_task, fit_task, reported, score_task

VERSION = 1
OWN = (BASE, INDUCED)  # sets of features that no list gets beforehand


def file_of_run(first: str, run: int) -> str:
    """Return the name of a model or of choices in another run than the first: x.json, x.run1.json, ..."""
    return f"{first.removesuffix('.json')}.run{run}.json" if run else first


def all_systems(options: CompareOptions, registry: Mapping[str, Template] = TEMPLATES) -> tuple[System, ...]:
    """Return the systems by name; with an ablation its rows, after those that are named."""
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
        """Return digests of the files, for features that may be made with them."""
        return {} if feature_set in OWN else self.files.digests()

    def named(self, kind: str, system: System, run: int = 0) -> Path:
        """Return models/large_pro.json, models/large_pro.run1.json, ..."""
        return self.path / kind / file_of_run(f"{system.slug}.json", run)

    def list_of(self, feature_set: str, which: str, inputs: Mapping[str, Any]) -> str:
        return inputs[which]["path"] if feature_set in OWN else str(self.path / "features" / feature_set / f"{which}.nbest")

    def made_from(self, feature_set: str, which: str, inputs: Mapping[str, Any], options: CompareOptions) -> dict[str, Any]:
        """Return what a list with these features depends on."""
        if feature_set in OWN:
            return {"inputs": [inputs[which]["sha256"]]}
        what = {"inputs": [inputs[w]["sha256"] for w in ("dev", which)], "version": __version__}
        settings = {name: getattr(options, name) for name in ("seed", "gain", "min_count")}
        return {**what, **settings, **self.digests(feature_set)}

    def make(self) -> None:
        try:
            for name in ("models", "choices", "systems"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: expected a folder to write, found: {error.strerror}; choose another -o") from None

    def finished(self, system: System, made_from: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
        """Return what is kept of a system; leftovers that were made from something else are an error, unless forced."""
        state = read_json(self.named("systems", system))
        if state is None or (force and state.get("made_from") != made_from):
            return {"made_from": made_from}
        old = object_of(state, "made_from")
        for name, value in made_from.items():
            if old.get(name) != value:
                raise InputError(
                    f"{self.path}: expected an earlier run of the same comparison, found {system.name} made with "
                    f"{_changed(name, old.get(name), value)}; choose another -o, or replace it with --force"
                )
        return state


@dataclass(frozen=True)
class Comparison:
    """Systems on lists, in a folder that is ours, and what is kept of each so far (``states``)."""

    folder: Folder
    systems: Sequence[System]
    states: dict[str, dict[str, Any]]
    inputs: Mapping[str, Any]  # what identifies each list
    options: CompareOptions
    command: str
    report: Report = lambda note: None
    warn: Report = lambda note: None
    watch: Watch = lambda name, done, total, result: None
    on_graphs: OnGraphs | None = None

    def finish(self) -> Results:
        """Test what has been scored for significance, and write config.json, results.json and the tables."""
        self.report("significance")
        config = self.write_config()
        rows = {which: self._choice_rows(which) for which in reported_lists(self.inputs)}
        results = tabulate(self.systems, self.states, rows, self.options)
        note_same_models(self.folder, results)
        write_json(self.folder.path / "results.json", results)
        signatures = config["signatures"]
        texts = {"table.md": markdown_table(results, signatures), "table.tex": latex_table(results, signatures=signatures)}
        for name, text in texts.items():
            with open_output(self.folder.path / name) as stream:
                stream.write(text.encode())
        return results

    def _choice_rows(self, which: str) -> Rows:
        """Return statistics rows of each system's choices on a list that is reported, of all metrics."""
        nbest = read_store(self.inputs[which]["path"])
        scorer, metrics = Scorer(nbest), reported(self.options, nbest)
        files = {s.name: [self.folder.path / file for file in self.states[s.name]["choices"]] for s in self.systems}
        of = {name: np.stack([choice_rows(scorer, file, which, metrics) for file in own]) for name, own in files.items()}
        return Rows(tuple(metrics), of)

    def write_config(self) -> dict[str, Any]:
        """Write and return config.json: command, options, seeds, hashes of inputs, signatures of metrics, versions, the grid."""
        options, nbest = self.options, read_store(self.inputs[reported_lists(self.inputs)[0]]["path"])
        n_refs = Scorer(nbest).n_refs
        config = {
            "boostfeat": f"compare/{VERSION}",
            "version": __version__,
            "command": self.command,
            "options": asdict(options),
            "systems": [asdict(system) for system in self.systems],
            "seeds": [options.seed + r for r in range(options.runs)],
            "test_seed": SEED,
            "inputs": self.inputs,
            "signatures": {m.name: m.signature(n_refs, nbest.tokenizer) for m in reported(options, nbest)},
            "versions": {**{name: version(name) for name in VERSIONS}, "python": platform.python_version()},
            "grid": {system.name: list(map(asdict, stages(system))) for system in self.systems},
            "trials": options.trials,
        }
        write_json(self.folder.path / "config.json", config)
        return config

    # -- training: by workers, with dev and select only ------------------------------------------------------------------

    def train(self, workers: JobProcesses) -> None:
        """Train the systems that are not finished, all together; keep each as soon as it is done."""
        kept, said = KeptFits.of(self.folder.path), dict[str, str]()
        plans: dict[str, AnyPlan] = {}
        for system in self.systems:
            self.watch(system.name, 0, 0, None)
            if "chosen" in self.states[system.name]:
                self.report(f"{system.name}: finished already")
            else:
                plans[system.name] = self._training(system, kept, said)
        workers.run(Schedule(plans, workers.size, self.watch), report=self.report)

    def _training(self, system: System, kept: KeptFits, said: dict[str, str]) -> AnyPlan:
        """Plan the training of a system: its features, its search, its further runs. Keeps what comes of it."""
        lists: dict[str, str] = {}
        for which in ("dev", "select"):
            lists[which] = yield from self._featurized(system.feature_set, which)
        dev = read_store(lists["dev"])
        note, state = "nothing to train", self.states[system.name]
        if system.method == "decoder":
            features = len(dev.global_names) + len(dev.sparse_names)
            nothing = {"seconds": 0.0, "search_seconds": 0.0, "peak_mb": round(peak_mb(), 1)}
            state |= {"chosen": {}, "tried": [], "models": [], "features": features, "trees": 0, **nothing}
        else:
            new = range_warnings(dev, said)
            said |= new
            for line in new.values():
                self.warn(line)
            made = {which: self.folder.made_from(system.feature_set, which, self.inputs, self.options) for which in lists}
            lists_from = {"features": system.feature_set, **made}
            sign = metric_of(self.options.main_metric, read_store(lists["select"])).sign
            how: dict[str, Any] = {"sign": sign, "runs": self.options.runs}
            found: Found
            if self.on_graphs is not None and "graphs" in system.changes:  # here: workers do not have them
                found = fitted_on_graphs(system, dev, read_store(lists["select"]), self.options, self.on_graphs)
            else:
                found = yield from search_plan(
                    system, self.options, **how, task_of=lambda fit: fit_task(fit, lists, lists_from, self.options, kept)
                )
            state |= self._trained(system, found, dev, lists)
            fits = f"{len(found.tried)} fits, " if found.tried[1:] else ""
            best = f"{shown(self.options.main_metric)} {found.runs[0].select:.2f} on select"
            note = f"{best} ({fits}{state['search_seconds']:.1f} s)"
        write_json(self.folder.named("systems", system), state)
        self.report(f"{system.name}: {note}")

    def _trained(self, system: System, found: Found, dev: NBest, lists: Mapping[str, str]) -> dict[str, Any]:
        """Write the models of a system; return what is kept of it."""
        plan = FeaturePlan.load(Path(lists["dev"]).with_name(PLAN)) if system.is_featurized else None
        files = [self.folder.named("models", system, r) for r in range(len(found.runs))]
        for file, fitted in zip(files, found.runs, strict=True):
            with_plan(fitted.model, plan).save(file)
        first = found.runs[0].model
        return {
            "chosen": {**found.params, **({"rounds": len(first.trees)} if system.level else {})},
            "tried": found.tried,
            "chosen_by": found.runs[0].select,
            "models": [str(file.relative_to(self.folder.path)) for file in files],
            "features": sum(w != 0 for w in first.weights.values()) + len(first.trees),
            "trees": len(first.trees),
            "active": active_features(first, dev),
            "epochs": len(first.history),
            "seconds": round(float(np.mean([fitted.seconds for fitted in found.runs])), 3),
            "search_seconds": round(sum(fitted.seconds for fitted in found.fits), 3),
            "peak_mb": round(max(fitted.peak_mb for fitted in found.fits), 1),
        }

    def _featurized(self, feature_set: str, which: str) -> Generator[Any, list[Any], str]:
        """Plan a list with a set of features, which is made where it is not there yet; the plan returns its path."""
        path = self.folder.list_of(feature_set, which, self.inputs)
        if feature_set not in OWN:
            made_from = self.folder.made_from(feature_set, which, self.inputs, self.options)
            source = self.inputs[which]["path"]
            yield [feature_task(feature_set, which, source, path, made_from, self.options, self.folder.files)]
        return path

    # -- scoring: after all choices are final ----------------------------------------------------------------------------

    def score(self, workers: JobProcesses, metrics: set[str]) -> None:
        """Score the models of systems that have not been scored by these metrics on all lists; keep scores and choices."""

        def scoring(system: System) -> AnyPlan:
            lists, state = {}, self.states[system.name]
            for which in self.inputs:
                lists[which] = yield from self._featurized(system.feature_set, which)
            models = [str(self.folder.path / m) for m in state["models"]]
            tasks = [score_task(system, w, self.inputs[w], lists[w], models, self.options) for w in self.inputs]
            keep_scores(self.folder, system, state, dict(zip(self.inputs, (yield tasks), strict=True)))

        def is_scored(system: System) -> bool:
            runs = self.states[system.name].get("scores", [{"": {}}])
            return (
                all(metrics <= set(of) for run in runs for of in run.values()) and self.folder.named("choices", system).exists()
            )

        plans = {system.name: scoring(system) for system in self.systems if not is_scored(system)}
        if plans:
            self.report("scoring")
            workers.run(Schedule(plans, workers.size, self.watch), report=self.report)


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
    on_graphs: OnGraphs | None = None,
) -> Results:
    """Compare systems on the lists dev, select and, if they are given, test, test2, ... (``paths``); write ``run`` and return its
    results.json.

    Called again on the same folder it goes on from the fits that are done; those of runs beside it are taken over. As many
    processes as ``threads`` share the work, so a script that calls this needs the usual ``if __name__ == "__main__"``;
    results do not depend on how many. ``watch`` hears how many tasks of each system are done, of those asked for. ``warn`` gets
    a line for each feature that is left out, and for what else a reader of the table should know. The lists have to have the
    same features (or ``allow_missing``), and not the same sentences (or ``force``). ``files`` are those that templates of
    systems such as large/pro read; ``on_graphs`` fits MERT's row that has ``graphs`` in its name.
    """
    options, folder = options or CompareOptions(), Folder(Path(run), files or ResourceFiles())
    systems = all_systems(options, FeatureMaker(folder.files).registry)
    if (given := as_words(folder.files)) and not any(system.is_featurized for system in systems):
        raise InputError(f"{given[0]}: expected systems with features, as large/pro, found none; add one, or leave it out")
    names = [system.name for system in systems]
    options = replace(options, baseline={n.lower(): n for n in names}.get(options.baseline.lower(), options.baseline))
    if options.baseline not in (*names, CompareOptions.baseline):  # the default may be missing: then it has no p-values
        raise InputError(f"--baseline: expected one of the compared systems ({', '.join(names)}), found {options.baseline!r}")
    if folder.path.is_dir() and isinstance(earlier := read_json(folder.path / "config.json"), dict):
        refuse_newer(str(folder.path), earlier.get("boostfeat"), "compare", VERSION)
    inputs = {which: _checked(paths[which], options) for which in ("dev", "select", *reported_lists(paths)) if which in paths}
    _check_together({which: inputs[which]["path"] for which in inputs}, allow_missing=allow_missing, force=force, warn=warn)
    lists = [paths["dev"], *(part for which in list(inputs)[1:] for part in (f"--{which.rstrip('0123456789')}", paths[which]))]
    command = shlex.join(["boostfeat", "compare", *lists, *as_words(options), *given, "-o", str(folder.path)])
    with only_writer(folder.path):
        folder.make()
        sha256 = {which: inputs[which]["sha256"] for which in inputs}
        made_from = {s.name: settings(s, options, sha256, folder.digests(s.feature_set)) for s in systems}
        states = {s.name: folder.finished(s, made_from[s.name], force=force) for s in systems}  # before any work
        comparison = Comparison(folder, systems, states, inputs, options, command, report, warn, watch, on_graphs)
        metrics = set(comparison.write_config()["signatures"])
        first_use_order(np.zeros(0))  # the first kernel loads what all need, which forks then have
        with JobProcesses(max(1, threads)) as workers:
            comparison.train(workers)
            comparison.score(workers, metrics)
        return comparison.finish()


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


def note_same_models(folder: Folder, results: Results) -> None:
    """Give rows that are one run ``same_as``, the name of the first of them: two names do not make two results."""
    first: dict[str, str] = {}
    for row in results:
        if row["model"]:
            model = Model.load(folder.path / row["model"])
            what = row["method"] == "mbr", model.config.get(DECISION), model.trees and model.level
            key = repr((*what, model.weights, [tree.to_json() for tree in model.trees]))
            if (other := first.setdefault(key, row["name"])) != row["name"]:
                row["same_as"] = other


def active_features(model: Model, nbest: NBest) -> dict[str, int]:
    """Count the weights that are not 0 by template; decoder: of the features that came with the list [EMR13 Table 2]."""
    plan, of_list = plan_of(model), {name: template for name, (template, _) in feature_kinds(nbest).items()}
    kinds = of_list | {name: e.name for e in (plan.entries if plan else ()) for name in e.features or ()}
    return dict(Counter(kinds.get(name, "decoder") for name, weight in model.weights.items() if weight))


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


# ---------------------------------------------------------------------------------------------------------------------
# What it takes to make it again
# ---------------------------------------------------------------------------------------------------------------------


def described(path: str | Path, nbest: NBest) -> dict[str, Any]:
    """Return what identifies a list."""
    sizes = {"sentences": len(nbest), "hypotheses": nbest.n_hyps, "n_refs": Scorer(nbest).n_refs}
    return {"path": os.path.abspath(path), "sha256": digest(path), **sizes}


def _checked(path: str, options: CompareOptions) -> dict[str, Any]:
    """Return what identifies a list; it must have sentences, and what metrics need."""
    if path == "-":
        raise InputError("compare: expected files, found '-'; a list is read several times")
    nbest = read_store(path)
    if not len(nbest):
        raise InputError(f"{path}: expected a list with sentences, found none; import it with -r REF")
    try:
        for metric in (metric_of(options.gain, nbest), *reported(options, nbest)):
            metric.check(nbest)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return described(path, nbest)


def settings(
    system: System, options: CompareOptions, inputs: Mapping[str, Any], resources: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return all that a system's numbers depend on: its settings in a comparison, and what it is made from."""
    return as_read({
        **inputs,
        **{name: getattr(options, name) for name in ("runs", "search", "rounds", "seed", "gain", "min_count")},
        "metric": options.main_metric,
        "resources": resources or None,
        "system": asdict(system),
        "boosting": asdict(boost_options(system, options, {})) if system.level else None,
        "grid": list(map(asdict, stages(system))),
        "version": __version__,
    })  # fmt: skip


def _changed(name: str, old: Any, new: Any) -> str:
    if name in ("dev", "select") or name.startswith("test"):
        return f"another {name} list"
    return f"{name} {clip_json(old)}, not {clip_json(new)}"
