"""Optimisers side by side where every system decodes for itself (``compare --decode``).

Every system and run is a loop of learning and decoding, from the same weights. When all are done, what they decoded of a set
of sentences is made one list (RUN/lists), in which a system's choice is its own output. So tables, tests over runs, the folder
and the report are those of any comparison.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ...compare.comparison_options import CompareOptions, as_words, numbered
from ...compare.job_processes import JobProcesses
from ...compare.runner import Comparison, Folder, described, keep_scores, settings
from ...compare.systems import Report, System, boost_options, first_of_grid, parse_systems, split_changes
from ...compare.table import Results
from ...compare.tasks import AnyPlan, Schedule, Task, Watch, scores_of
from ...core.arrays import I64, offsets
from ...core.errors import InputError
from ...core.files import digest_lines, only_writer
from ...core.strict_json import object_of, read_json, write_json
from ...features.feature_maker import FeatureMaker
from ...formats.importing import mismatches
from ...lists.choices import Scorer, best_choice, decoder_choice, oracle_choice
from ...lists.merging import merge
from ...lists.nbest import NBest
from ...lists.store import read_store, write_store
from ...model.model import Model
from ...tuners import tuner_class
from .decoders import DecodingPlace, LoopDecoder, ParallelText, ReferenceDecoder
from .driver import Loop, LoopFolder, LoopOptions
from .learners import Learner, LoopFeatures, TreeLearner, TunerLearner
from .online import OnlineLearner

ONLINE = ("mira", "rm", "adagrad")


@dataclass(frozen=True)
class Decoding:
    """Sentences to decode, the decoder, and the weights that it starts from."""

    corpora: tuple[ParallelText, ...]  # dev and, if there is one, select
    tests: tuple[ParallelText, ...]
    decoder: LoopDecoder
    start: Model
    limits: LoopOptions
    maker: FeatureMaker

    @property
    def sets(self) -> dict[str, ParallelText]:
        """All sentences under the names of a comparison: dev, select, test, test2, ..."""
        return {**{corpus.name: corpus for corpus in self.corpora}, **numbered("test", self.tests)}

    def made_from(self) -> dict[str, Any]:
        texts = {name: [digest_lines(lines) for lines in (c.source, *c.refs)] for name, c in self.sets.items()}
        start = replace(self.start, config={}).signature  # search goes by scores
        return {**texts, "decoder": self.decoder.made_from(), "start": start, "loop": asdict(self.limits)}


def compare_decoded(
    decoding: Decoding,
    run: str | Path,
    options: CompareOptions,
    *,
    command: Sequence[str] = (),
    threads: int = 1,
    force: bool = False,
    report: Report = lambda note: None,
    watch: Watch = lambda name, done, total, result: None,
) -> Results:
    """Run a loop for each system and run, ``threads`` at once, and write the comparison of what they decode into ``run``.

    Called again on the same folder it goes on from the iterations that are finished.
    """
    folder = Folder(Path(run))
    systems = decoded_systems(options, decoding.maker)
    if not decoding.tests:
        raise InputError("--test: expected sentences to report on, found none; give some")
    for system in systems:
        check_decodable(system, decoding)
    with only_writer(folder.path):
        folder.make()
        states: dict[str, dict[str, Any]] = {}
        for system in systems:
            made_from = settings(system, options, {"decoding": decoding.made_from()})
            states[system.name] = folder.finished(system, made_from, force=force)
        plans = {s.name: _loops(folder, s, states[s.name], decoding, options, report) for s in systems}
        with JobProcesses(max(1, threads)) as workers:
            workers.run(Schedule(plans, workers.size, watch), report=report)
        inputs = lists_of_outputs(folder, systems, states, _outputs(folder, systems, states, decoding), options)
        words = ["boostfeat", "compare", *command, *as_words(options), "-o", str(folder.path)]
        return Comparison(folder, systems, states, inputs, options, shlex.join(words), report).finish()


def decoded_systems(options: CompareOptions, maker: FeatureMaker) -> tuple[System, ...]:
    """The systems that are named, and some tuners where none is; names with features are not added to others."""
    named = options.systems or "decoder,base-MERT,base-PRO,kbmira"
    alone = all("/" in name for name in named.split(","))
    return parse_systems(f"decoder,{named}" if alone else named, maker.registry)


def check_decodable(system: System, decoding: Decoding) -> None:
    """Raise now, and not after hours, for rows that no loop can have."""
    row = split_changes(system)[1]
    if system.method == "mbr" or (row.online and system.method not in ONLINE):
        raise InputError(f"system {system.name!r}: expected a tuner, boosting or decoder, found another; leave it out")
    if row.online and not isinstance(decoding.decoder, ReferenceDecoder):
        raise InputError(f"system {system.name!r}: expected the reference decoder for online learning, found a command")
    if system.level:
        decoding.decoder.check_trees(system.level)
    if system.is_featurized:
        decoding.decoder.check_templates()


# ---------------------------------------------------------------------------------------------------------------------
# Loops
# ---------------------------------------------------------------------------------------------------------------------


def start_task(folder: Path, decoding: Decoding, seed: int) -> Task:
    """Return the task of the first lists of all sentences."""

    def known() -> str | None:
        there = all((folder / f"{corpus.name}.nbest").exists() for corpus in decoding.sets.values())
        return str(folder) if there else None

    return Task(str(folder), decode_start, (folder, decoding, seed), 100.0, known)


def decode_start(folder: Path, decoding: Decoding, seed: int, threads: int, *, report: Report) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for corpus in decoding.sets.values():
        report(f"decoding {corpus.name} with the first weights")
        nbest = decoding.decoder.decode(decoding.start, corpus, DecodingPlace(folder, 0, seed, threads))
        for line in mismatches(nbest):
            report(f"warning: {corpus.name}: {line}")
        write_store(nbest, folder / f"{corpus.name}.nbest")


def loop_task(system: System, run: int, folder: Folder, start: Path, decoding: Decoding, options: CompareOptions) -> Task:
    """Return the task of a loop of a system with a seed; ``start`` has the first lists."""
    place = loop_folder(folder, system, run)

    def keep(result: dict[str, Any], peak_mb: float) -> dict[str, Any]:
        return {**result, "peak_mb": round(peak_mb, 1)}

    args = system, run, place, start, decoding, options
    return Task(str(place), loop_in_worker, args, 2.0 if system.level else 1.0, keep=keep)


def loop_in_worker(
    system: System, run: int, folder: Path, start: Path, d: Decoding, options: CompareOptions, threads: int, *, report: Report
) -> dict[str, Any]:
    """Run a loop; return its rows, the iteration that was picked, and the time it took."""
    learner, features = learner_of(system, d, options)
    limits = replace(d.limits, seed=options.seed + run, gain=options.gain, metric=options.main_metric)
    how: dict[str, Any] = {"threads": threads, "features": features, "tests": d.tests, "first_lists": start}
    scored = f": {limits.metric} "  # in the line of an iteration that is done

    def tell(note: str) -> None:
        if scored in note:
            report(f"{system.name}: run {run + 1}, {note}")

    result = Loop(d.corpora, d.decoder, learner, d.start, folder, limits, **how, report=tell).run(resume=True)
    seconds = [sum(row["seconds"].values()) for row in result.rows]
    return {"picked": result.picked, "iterations": len(result.rows) - 1, "seconds": round(sum(seconds), 3)}


def learner_of(system: System, decoding: Decoding, options: CompareOptions) -> tuple[Learner, LoopFeatures | None]:
    """Make what learns in the loops of a system, and the templates that its lists get. Nothing is searched: defaults count."""
    changes, row = split_changes(system)
    features = None
    if system.is_featurized:
        features = LoopFeatures.of(decoding.maker, system.feature_set.replace("+", ","), decoding.start, options.gain)
    if system.level:
        return TreeLearner(boost_options(system, options, first_of_grid(system))), features
    tuner = tuner_class(system.method)(**changes, **first_of_grid(system))
    if row.online:
        assert isinstance(decoding.decoder, ReferenceDecoder)
        own = OnlineLearner(tuner, decoding.decoder, decoding.corpora[0], decoding.start, gain=options.gain, features=features)
        return own, None  # it makes its own lists
    return TunerLearner(system.method, tuner, metric=options.main_metric, gain=options.gain, pick=row.pick), features


def _loops(
    folder: Folder, system: System, state: dict[str, Any], decoding: Decoding, options: CompareOptions, report: Report
) -> AnyPlan:
    """The plan of a system: the first lists, then a loop for each run. Keeps what came of them."""
    start = folder.path / "loops" / "start"
    yield [start_task(start, decoding, options.seed)]
    if "picked" in state:
        report(f"{system.name}: finished already")
        return
    runs = range(options.runs if system.method != "decoder" else 0)
    found = yield [loop_task(system, r, folder, start, decoding, options) for r in runs]
    models = [folder.named("models", system, r) for r in runs]
    for r, file in enumerate(models):
        loop = LoopFolder(loop_folder(folder, system, r))
        with_whole_history(Model.load(loop.path / "model.json"), loop.model(found[r]["iterations"])).save(file)
    first = Model.load(models[0]) if models else decoding.start
    state |= {
        "picked": [one["picked"] for one in found],
        "models": [str(file.relative_to(folder.path)) for file in models],
        "chosen": {**first_of_grid(system), "iteration": found[0]["picked"]} if found else {},
        "tried": [],
        "features": sum(w != 0 for w in first.weights.values()) + len(first.trees),
        "trees": len(first.trees),
        "epochs": found[0]["iterations"] if found else 0,
        "seconds": round(float(np.mean([one["seconds"] for one in found])), 3) if found else 0.0,
        "search_seconds": round(sum(one["seconds"] for one in found), 3),
        "peak_mb": max((one["peak_mb"] for one in found), default=0.0),
    }
    write_json(folder.named("systems", system), state)
    report(f"{system.name}: {len(found)} loops, {state['search_seconds']:.1f} s" if found else f"{system.name}: decoded")


def with_whole_history(model: Model, last: Model) -> Model:
    """Return the model of an iteration; of online learning with the epochs of all iterations, which the last one has."""
    return replace(model, history=last.history) if any("oracle" in row for row in last.history) else model


def loop_folder(folder: Folder, system: System, run: int) -> Path:
    return folder.path / "loops" / f"{system.slug}{f'.run{run}' if run else ''}"


# ---------------------------------------------------------------------------------------------------------------------
# Outputs as lists
# ---------------------------------------------------------------------------------------------------------------------


def _outputs(
    folder: Folder, systems: Sequence[System], states: Mapping[str, Mapping[str, Any]], decoding: Decoding
) -> dict[str, dict[str, list[NBest]]]:
    """Read what each system and run decoded of each set: lists of one hypothesis. The first weights' are named ""."""
    start = folder.path / "loops" / "start"
    found: dict[str, dict[str, list[NBest]]] = {}
    for which, corpus in decoding.sets.items():
        first = [_best(read_store(start / f"{corpus.name}.nbest"))]
        found[which] = {"": first}
        for system in systems:
            loops = enumerate(states[system.name]["picked"])
            own = [_best(LoopFolder(loop_folder(folder, system, r)).list(k, corpus.name)) for r, k in loops]
            found[which][system.name] = own or first
    return found


def lists_of_outputs(
    folder: Folder,
    systems: Sequence[System],
    states: Mapping[str, dict[str, Any]],
    outputs: Mapping[str, Mapping[str, list[NBest]]],
    options: CompareOptions,
) -> dict[str, Any]:
    """Write a list of all outputs for each set of sentences, and what each system has in it; gives what identifies the lists."""
    (folder.path / "lists").mkdir(exist_ok=True)
    inputs: dict[str, Any] = {}
    found: dict[str, dict[str, list[dict[str, Any]]]] = {system.name: {} for system in systems}
    for which, of in outputs.items():
        together = merge([one for runs in of.values() for one in runs])
        path = folder.path / "lists" / f"{which}.nbest"
        write_store(together, path)
        scorer = Scorer(together)
        metric, start = scorer.metric(options.main_metric), choice_of(together, of[""][0])
        ends = scorer.score(start, metric).score, scorer.score(oracle_choice(together, metric), metric).score
        for system in systems:
            chosen = [choice_of(together, one) for one in of[system.name]]
            found[system.name][which] = [scores_of(scorer, own, options, ends) for own in chosen]
        inputs[which] = described(path, together)
    for system in systems:
        keep_scores(folder, system, states[system.name], found[system.name])
    return inputs


def _best(nbest: NBest) -> NBest:
    """The hypothesis that the decoder ranks highest, of each list."""
    chosen = decoder_choice(nbest)
    return nbest.take_hyps(chosen[chosen >= 0], offsets((chosen >= 0).astype(np.int64)))


def choice_of(together: NBest, one: NBest) -> I64:
    """[S] where the only hypothesis of each list is in lists of many: the first of the same text, -1 of an empty list."""
    texts, own = together.text.to_pylist(), one.text.to_pylist()
    wanted = [own[a] if b > a else None for a, b in pairwise(one.hyp_ptr.tolist())]
    same = np.array([float(text == wanted[s]) for text, s in zip(texts, together.sent_of_hyp.tolist(), strict=True)])
    found = best_choice(together, same)
    return np.where([text is not None for text in wanted], found, -1)


# ---------------------------------------------------------------------------------------------------------------------
# A loop as a comparison
# ---------------------------------------------------------------------------------------------------------------------


class _LoopRow(msgspec.Struct):
    """The part of a row of a loop's results.json that is read."""

    seconds: dict[str, float]


class _LoopTest(msgspec.Struct):
    """A test set of a loop."""

    name: str


class _LoopResults(msgspec.Struct):
    picked: int
    rows: list[_LoopRow]
    tests: list[_LoopTest] = []  # as they were given


def _finished(source: LoopFolder) -> _LoopResults:
    try:
        results = msgspec.convert(read_json(source.path / "results.json"), _LoopResults)
    except msgspec.ValidationError:
        raise InputError(
            f"{source.path}: expected a finished loop, found none; finish it with 'boostfeat loop --resume'"
        ) from None
    if not 0 <= results.picked < len(results.rows):
        raise InputError(
            f"{source.path / 'results.json'}: expected the iteration picked among {len(results.rows)}, found {results.picked}; "
            "finish it anew with 'boostfeat loop --resume'"
        )
    return results


def loop_comparison(loop: str | Path, into: str | Path) -> None:
    """Write a finished loop as a comparison of its first weights, of the iteration that it gives, and of its last one.

    They are reported on the first test set, or on select or dev where the loop had none: the page is that of any comparison.
    """
    source, folder = LoopFolder(Path(loop)), Folder(Path(into))
    results, made_from = _finished(source), object_of(read_json(source.path / "config.json"), "made_from")
    picked, last = results.picked, len(results.rows) - 1
    tests = [test.name for test in results.tests]
    held_out = "select" if source.has_list(0, "select") else "dev"
    sets = {"dev": "dev", "select": held_out, **numbered("test", tests or [held_out])}
    method = made_from.get("learner method") or made_from.get("learner online") or "pro"
    method = f"boost-{made_from.get('learner level', 'local')}" if method == "induce" else method
    rows = {"start": 0, f"iteration {picked}": picked, **({} if tests else {f"iteration {last}": last})}
    systems = [System(name, method="decoder" if k == 0 else method) for name, k in rows.items()]
    options = CompareOptions(metric=made_from.get("loop metric") or "bleu-sbp", baseline="start")
    folder.make()
    states = {name: _loop_state(source, folder, results.rows, k) for name, k in rows.items()}
    outputs = {
        which: {"": [_best(source.list(0, name))], **{row: [_best(source.list(k, name))] for row, k in rows.items()}}
        for which, name in sets.items()
    }
    inputs = lists_of_outputs(folder, systems, states, outputs, options)
    Comparison(folder, systems, states, inputs, options, f"boostfeat loop ... -o {loop}").finish()


def _loop_state(source: LoopFolder, folder: Folder, rows: Sequence[_LoopRow], k: int) -> dict[str, Any]:
    """Write the model of an iteration; return what a comparison keeps of it."""
    model, file = source.model(k), folder.path / "models" / f"{k}.json"
    (with_whole_history(model, source.model(len(rows) - 1)) if k else model).save(file)
    seconds = round(sum(sum(row.seconds.values()) for row in rows[: k + 1]), 3)
    return {
        "models": [str(file.relative_to(folder.path))],
        "chosen": {"iteration": k},
        "tried": [],
        "features": sum(w != 0 for w in model.weights.values()) + len(model.trees),
        "trees": len(model.trees),
        "epochs": k,
        "seconds": seconds,
        "search_seconds": seconds,
        "peak_mb": None,
    }
