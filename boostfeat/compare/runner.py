"""Systems side by side [TA13 Table 2]: trained on dev, chosen on select, reported on test, with significance, in a folder.

First every system is trained and its choices are fixed, each in a process of its own and kept as soon as it is done; only then
are the test lists opened, if there are any: an ablation needs none, and reports on select. What the folder holds is listed at
``Folder``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..boosting.first_gradient import first_gradient
from ..core.arrays import I64, Array
from ..core.digests import digest
from ..core.errors import InputError, clip_json, refuse_newer
from ..core.files import cannot_read, only_writer, open_output
from ..core.processes import in_child, in_children
from ..core.strict_json import read_json, write_json
from ..features import TEMPLATES, FeaturePlan, Posterior, Template
from ..features.carried import FeatureMaker, carrying
from ..features.groups import feature_kinds
from ..features.options import ResourceFiles
from ..lists.agreement import check_agreement, shared_sentences
from ..lists.choices import Scorer, decoder_choice, oracle_choice
from ..lists.learnable import range_warnings
from ..lists.nbest import NBest
from ..lists.store import read_store, write_store
from ..metrics.bleu import HYP_LEN, REF_LEN, brevity_penalty, sum_stats
from ..metrics.metric import Metric, metric_of, metrics_of
from ..metrics.significance import SEED, exact_sums
from ..model.model import Model
from ..tuners.linear import fit_pro
from .options import CompareOptions
from .systems import (
    FitOptions,
    Report,
    System,
    ablation_systems,
    boost_options,
    choose,
    fit,
    parse_systems,
    search,
    stages,
)
from .table import Results, Rows, latex_table, markdown_table, reported_lists, tabulate

VERSION = 1
ALWAYS = ("bleu", "bleu-sbp")  # where there are references
METRICS = (*ALWAYS, "chrf", "ter")  # where nothing is said
VERSIONS = ("numpy", "scipy", "lightgbm", "sacrebleu", "numba")


def fit_options(options: CompareOptions, *, threads: int = 1) -> FitOptions:
    return FitOptions(options.search, options.metric, options.gain, options.rounds, options.seed, threads)


def all_systems(options: CompareOptions, registry: Mapping[str, Template] = TEMPLATES) -> tuple[System, ...]:
    """The systems by name; with an ablation its rows, after those that are named."""
    if not options.ablation:
        return parse_systems(options.systems, registry)
    named = parse_systems(options.systems, registry) if options.systems else ()
    return tuple({system.name: system for system in (*named, *ablation_systems())}.values())


def reported(options: CompareOptions, nbest: NBest) -> list[Metric]:
    """The metrics that are reported of a list, the one that chooses included."""
    names = [*(ALWAYS if nbest.has_stats else ()), options.metric]
    if options.metrics is None:
        names += [*(METRICS if nbest.has_stats else ()), *nbest.quality.names]
    return list({m.name: m for m in metrics_of([*names, *(options.metrics or "").split(",")], nbest)}.values())


@dataclass(frozen=True)
class Folder:
    """RUN/: results.json, config.json, table.md, table.tex; models/ and choices/ of each system and run (see ``named``);
    systems/, what is finished; features/, the lists with other features than base.
    """

    path: Path
    files: ResourceFiles = field(default_factory=ResourceFiles)  # that templates read

    def digests(self, feature_set: str) -> dict[str, str]:
        """Of the files, for features that may be made with them."""
        given = {f.name: getattr(self.files, f.name) for f in fields(self.files)} if feature_set != "base" else {}
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
        return inputs[which]["path"] if feature_set == "base" else str(self.path / "features" / feature_set / f"{which}.nbest")

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
        old = state.get("made_from", {})
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
) -> Results:
    """Compare systems on the lists dev, select and, if they are given, test, test2, ... (``paths``); write ``run`` and return its
    results.json.

    Called again on the same folder it goes on from the systems that are finished. Systems run in processes of their own, so a
    script that calls this needs the usual ``if __name__ == "__main__"``. ``warn`` gets a line for each feature that is left out,
    and for what else a reader of the table should know. The lists have to have the same features (or ``allow_missing``), and
    not the same sentences (or ``force``). ``files`` are those that templates of systems such as large/pro read.
    """
    options, folder = options or CompareOptions(), Folder(Path(run), files or ResourceFiles())
    systems = all_systems(options, FeatureMaker(folder.files).registry)
    if (given := folder.flags()) and all(system.feature_set == "base" for system in systems):
        raise InputError(f"{given[0]}: expected systems with features, as large/pro, found none; add one, or leave it out")
    names = [system.name for system in systems]
    if options.baseline not in (*names, CompareOptions.baseline):  # the default may be missing: then there are no p-values
        raise InputError(f"--baseline: expected one of the compared systems ({', '.join(names)}), found {options.baseline!r}")
    if folder.path.is_dir() and isinstance(earlier := read_json(folder.path / "config.json"), dict):
        refuse_newer(str(folder.path), earlier.get("boostfeat"), "compare", VERSION)
    inputs = {which: _describe(paths[which], options) for which in ("dev", "select", *reported_lists(paths)) if which in paths}
    _check_together({which: inputs[which]["path"] for which in inputs}, allow_missing=allow_missing, force=force, warn=warn)
    with only_writer(folder.path):
        return _compared(folder, systems, paths, inputs, options, threads=threads, force=force, report=report, warn=warn)


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
) -> Results:
    """Train, score and test the systems, in a folder that is ours."""
    folder.make()
    states: dict[str, dict[str, Any]] = {}
    for system in systems:  # all leftovers are looked at before any work
        made_from = _made_from(system, inputs, options, folder)
        states[system.name] = folder.finished(system, made_from, force=force) or {"made_from": made_from}
    config = _config(paths, inputs, systems, folder, options)
    write_json(folder.path / "config.json", config)
    looked_at: set[str] = set()
    left_out: dict[str, str] = {}
    for system in systems:
        state = states[system.name]
        if "chosen" in state:
            report(f"{system.name}: finished already")
            continue
        lists = {w: _prepared(folder, system.feature_set, w, inputs, options, threads, report) for w in ("dev", "select")}
        if system.method != "decoder" and lists["dev"] not in looked_at:
            looked_at.add(lists["dev"])
            new = range_warnings(read_store(lists["dev"]), left_out)
            left_out |= new
            for line in new.values():
                warn(line)
        state.update(_named_errors(system, _train, folder, system, lists, options, threads, report=report))
        write_json(folder.named("systems", system), state)
        report(f"{system.name}: trained in {state['seconds']:.1f} s")
    wanted = set(config["signatures"])
    todo = [s for s in systems if not _scored(states[s.name], wanted) or not folder.named("choices", s).exists()]
    if todo:
        report(f"scoring {', '.join(s.name for s in todo)}")
        _score_all(folder, todo, states, inputs, options, threads, report)
    report("significance")
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
            learnt = [row["feature_set"], row["method"] == "mbr", *(model[part] for part in ("level", "weights", "trees"))]
            key = hashlib.sha256(json.dumps(learnt).encode()).hexdigest()
            if (other := first.setdefault(key, row["name"])) != row["name"]:
                row["same_as"] = other


# ---------------------------------------------------------------------------------------------------------------------
# Training: in a child process, with dev and select only
# ---------------------------------------------------------------------------------------------------------------------


def _train(
    folder: Folder, system: System, lists: Mapping[str, str], options: CompareOptions, threads: int, *, report: Report
) -> dict[str, Any]:
    """Search, fit the further runs, save the models."""
    dev, select = read_store(lists["dev"]), read_store(lists["select"])
    started = time.monotonic()
    if system.method == "decoder":
        features = len(dev.global_names) + len(dev.sparse_names)
        return {"chosen": {}, "tried": [], "models": [], "features": features, "trees": 0, "seconds": 0.0, "search_seconds": 0.0}
    fitting = fit_options(options, threads=threads)
    found = search(system, dev, select, fitting, lambda note: report(f"{system.name}: {note}"))
    models, chosen_seconds = [found.model], [found.seconds]
    for r in range(1, options.runs):
        began = time.monotonic()
        models.append(fit(system, dev, select, found.params, replace(fitting, seed=options.seed + r)))
        chosen_seconds.append(time.monotonic() - began)
        report(f"{system.name}: run {r + 1} of {options.runs}")
    seconds = time.monotonic() - started
    plan = None
    if system.feature_set != "base":
        plan = FeaturePlan.load(Path(lists["dev"]).with_name("vocab.json"))
    for r, model in enumerate(models):
        carrying(model, plan).save(folder.named("models", system, r))
    first = found.model
    return {
        "chosen": {**found.params, **({"rounds": len(first.trees)} if system.level else {})},
        "tried": found.tried,
        "models": [str(folder.named("models", system, r).relative_to(folder.path)) for r in range(len(models))],
        "features": sum(w != 0 for w in first.weights.values()) + len(first.trees),
        "trees": len(first.trees),
        "active": active_features(first, dev),
        "epochs": len(first.history),
        "seconds": round(float(np.mean(chosen_seconds)), 3),
        "search_seconds": round(seconds, 3),
    }


def active_features(model: Model, nbest: NBest) -> dict[str, int]:
    """How many weights that are not 0 each template has; decoder: of the features that came with the list [EMR13 Table 2]."""
    kinds = feature_kinds(nbest)
    out: dict[str, int] = {}
    for name, weight in model.weights.items():
        if weight:
            template = kinds[name][0] if name in kinds else "decoder"
            out[template] = out.get(template, 0) + 1
    return out


def _named_errors(system: System, job: Callable[..., Any], *args: Any, report: Report) -> dict[str, Any]:
    try:
        result, peak_mb = in_child(job, *args, report=report)
    except InputError as error:
        raise InputError(f"{system.name}: {error}") from None
    return {**result, "peak_mb": round(peak_mb, 1)}


def _prepared(
    folder: Folder, feature_set: str, which: str, inputs: Any, options: CompareOptions, threads: int, report: Report
) -> str:
    """The path of a list with this set of features, which is made where it is not there yet."""
    path = folder.list_of(feature_set, which, inputs)
    if feature_set == "base":
        return path
    mark = Path(path).with_suffix(".json")
    made_from = {"inputs": [inputs[w]["sha256"] for w in ("dev", which)], "seed": options.seed, "version": __version__}
    made_from |= {} if options.gain == "bleu" else {"gain": options.gain}
    made_from |= {} if options.min_count is None else {"min_count": options.min_count}
    made_from |= folder.digests(feature_set)
    if not (Path(path).exists() and read_json(mark) == made_from):
        report(f"{feature_set}: features of {which}")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        how = (feature_set, which, options.seed, threads, options.gain, options.min_count, folder.files)
        in_child(write_featurized, inputs[which]["path"], path, *how, report=report)
        write_json(mark, made_from)
    return path


def write_featurized(
    source: str,
    path: str,
    feature_set: str,
    which: str,
    seed: int,
    threads: int,
    gain: str = "bleu",
    min_count: int | None = None,
    files: ResourceFiles = ResourceFiles(),  # noqa: B008 (frozen)
    *,
    report: Report,
) -> None:
    """dev teaches the vocab, which gives the other lists the same columns."""
    vocab, nbest = Path(path).with_name("vocab.json"), read_store(source)
    maker = FeatureMaker(files, seed=seed, threads=threads, say=report)
    if which != "dev":
        write_store(maker.apply(nbest, FeaturePlan.load(vocab)), path)
        return
    plan, posterior = maker.plan(feature_set, min_count=min_count), None
    if any(maker.registry[entry.name].kind == "list" for entry in plan.entries):
        linear = Model(fit_pro(nbest, gain=gain, seed=seed, threads=threads).weights)  # a better judge than its decoder
        posterior = Posterior(model=linear.to_json())
    gradient = partial(first_gradient, gain=gain, seed=seed, threads=threads)
    made, learnt = maker.learn(nbest, plan, posterior=posterior, gradient_of=gradient)
    learnt.save(vocab)
    write_store(made, path)


# ---------------------------------------------------------------------------------------------------------------------
# Scoring: after all choices are final
# ---------------------------------------------------------------------------------------------------------------------


def _scored(state: Mapping[str, Any], metrics: set[str]) -> bool:
    """Has a system been scored by these metrics?"""
    return "scores" in state and all(metrics <= set(scores) for run in state["scores"] for scores in run.values())


def _score_all(
    folder: Folder, systems: Sequence[System], states: Any, inputs: Any, options: CompareOptions, threads: int, report: Report
) -> None:
    """Score the systems' models on the three lists, the lists side by side; keep scores and choices."""
    for feature_set in dict.fromkeys(s.feature_set for s in systems):
        for which in inputs:
            _prepared(folder, feature_set, which, inputs, options, threads, report)

    models = [(s, [str(folder.path / m) for m in states[s.name]["models"]]) for s in systems]
    calls = [
        (inputs[which]["path"], {s.feature_set: folder.list_of(s.feature_set, which, inputs) for s in systems}, models, options)
        for which in inputs
    ]
    done = in_children(_score_list, calls, report=report, at_once=threads)
    found = {which: result for which, (result, _) in zip(inputs, done, strict=True)}
    for system in systems:
        runs = len(found["dev"][system.name])
        files = [folder.named("choices", system, r) for r in range(runs)]
        for r, file in enumerate(files):
            order = dict.fromkeys([*reported_lists(found), "dev", "select"])
            write_json(file, {which: found[which][system.name][r]["chosen"] for which in order})
        states[system.name]["choices"] = [str(file.relative_to(folder.path)) for file in files]
        states[system.name]["scores"] = [{w: found[w][system.name][r]["scores"] for w in found} for r in range(runs)]
        write_json(folder.named("systems", system), states[system.name])


def _score_list(
    path: str, lists: Mapping[str, str], models: Any, options: CompareOptions, *, report: Report
) -> dict[str, list[dict[str, Any]]]:
    """For each system and run: all metrics on a list, and the chosen hypotheses, counted within their lists."""
    nbest = read_store(path)
    scorer = Scorer(nbest)  # keeps the segment statistics of hypotheses that several systems choose
    metrics, metric = reported(options, nbest), scorer.metric(options.metric)
    ends = scorer.score(decoder_choice(nbest), metric).score, scorer.score(oracle_choice(nbest, metric), metric).score
    out: dict[str, list[dict[str, Any]]] = {}
    for system, files in models:
        featurized = nbest if system.feature_set == "base" else read_store(lists[system.feature_set])
        choices = [choose(system, Model.load(file), featurized) for file in files] or [decoder_choice(nbest)]
        out[system.name] = [
            {
                "scores": _scores(scorer, chosen, metrics, metric, ends),
                "chosen": np.where(chosen >= 0, chosen - nbest.hyp_ptr[:-1], -1).tolist(),
            }
            for chosen in choices
        ]
    report(f"scored {path}")
    return out


def _scores(
    scorer: Scorer, chosen: I64, metrics: Sequence[Metric], metric: Metric, ends: tuple[float, float]
) -> dict[str, float | None]:
    """All metrics; BLEU's length ratio, precision and brevity penalty; the share of the way from the decoder's score by the
    metric to the oracle's.
    """
    out: dict[str, float | None] = {m.name: scorer.score(chosen, m).score for m in metrics}
    lengths = scorer.stats(chosen)[:, [HYP_LEN, REF_LEN]].sum(axis=0) if scorer.nbest.has_stats else (0, 0)
    out["length_ratio"] = float(lengths[0] / lengths[1]) if lengths[1] else None
    if lengths[1]:
        out["brevity"] = brevity_penalty(sum_stats(scorer.stats(chosen)))
        out["precision"] = scorer.score(chosen, "bleu").score / out["brevity"] if out["brevity"] else None
    way, gone = ends[1] - ends[0], scorer.score(chosen, metric).score - ends[0]
    out["oracle_gap"] = gone / way if metric.sign * way > 0 else None
    return out


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
    what = {
        **{which: inputs[which]["sha256"] for which in inputs},
        **{name: getattr(options, name) for name in ("runs", "search", "metric", "rounds", "seed")},
        **({} if options.gain == "bleu" else {"gain": options.gain}),
        **({} if options.min_count is None else {"min_count": options.min_count}),
        "resources": folder.digests(system.feature_set) or None,
        "system": asdict(system),
        "boosting": asdict(boost_options(system, fit_options(options), {})) if system.level else None,
        "grid": [asdict(stage) for stage in stages(system)],
        "version": __version__,
    }
    return json.loads(json.dumps(what))  # tuples become lists, as they are when read back


def _changed(name: str, old: Any, new: Any) -> str:
    if name in ("dev", "select") or name.startswith("test"):
        return f"another {name} list"
    return f"{name} {clip_json(old)}, not {clip_json(new)}"


def _config(
    paths: Mapping[str, str], inputs: Any, systems: Sequence[System], folder: Folder, options: CompareOptions
) -> dict[str, Any]:
    """config.json: command, options, seeds, hashes of inputs, signatures of metrics, versions, the grid."""
    lists = [paths["dev"], *(part for which in list(inputs)[1:] for part in (f"--{which.rstrip('0123456789')}", paths[which]))]
    return {
        "boostfeat": f"compare/{VERSION}",
        "version": __version__,
        "command": shlex.join(["boostfeat", "compare", *lists, *options.flags(), *folder.flags(), "-o", str(folder.path)]),
        "options": asdict(options),
        "systems": [asdict(system) for system in systems],
        "seeds": [options.seed + r for r in range(options.runs)],
        "test_seed": SEED,
        "inputs": inputs,
        "signatures": _signatures(inputs[reported_lists(inputs)[0]]["path"], options),
        "versions": {**{name: version(name) for name in VERSIONS}, "python": platform.python_version()},
        "grid": {system.name: [asdict(stage) for stage in stages(system)] for system in systems},
        "trials": options.trials,
    }
