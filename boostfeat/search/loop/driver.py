"""The loop: learn, decode, accumulate, learn again ...; every number is of real decoding."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from ... import __version__
from ...boosting.record import as_read
from ...core.errors import InputError, clip_json, counted, refuse_newer
from ...core.files import digest_lines, only_writer
from ...core.options import check, option
from ...core.processes import seconds_since
from ...core.strict_json import object_of, read_json, write_json
from ...features.feature_maker import with_plan
from ...formats.importing import mismatches
from ...lists.agreement import check_agreement
from ...lists.choices import Scorer, decoder_choice
from ...lists.feature_range import range_warnings
from ...lists.merging import merge
from ...lists.nbest import NBest
from ...lists.store import read_store, write_store
from ...metrics.metric import metric_of, shown
from ...metrics.significance import approximate_randomisation, exact_sums
from ...model.model import Model
from .decoders import DecodingPlace, LoopDecoder, ParallelText
from .learners import Learner, LearningTask, LoopFeatures, Tick, no_tick, rescaled, scale_to, share_change
from .moses_decoder import without_trees

VERSION = 1
ITERATIONS = "Iterations"


@dataclass(frozen=True)
class LoopOptions:
    """When the loop ends, what it learns from, and which iteration's model it gives."""

    max_iterations: int = option(10, "Maximum number of iterations of learning and decoding", least=1, group=ITERATIONS)
    accumulate: int = option(-1, "Learn from the newest list and N before it; -1: all", least=-1, group=ITERATIONS, rare=True)
    min_weight_change: float = option(1e-5, "Stop when no weight's share changes by more", least=0, group=ITERATIONS, rare=True)
    patience: int = option(3, "Stop after N iterations without a better held-out score", least=1, group=ITERATIONS)
    gain: str = option("bleu", "Metric to learn: bleu, chrf, ter or wer", group=ITERATIONS)
    metric: str = option("", "Metric that chooses the iteration; default: bleu-sbp, or that of --gain", group=ITERATIONS)
    pick: str = option(
        "auto",
        "Iteration to keep; auto: by select, else by dev if --online, else the last",
        choices=("auto", "select", "dev", "last"),
        group=ITERATIONS,
        rare=True,
    )
    rescale: bool = option(True, "Keep the scale of the first weights, which pruning is tuned for", group=ITERATIONS, rare=True)
    seed: int = option(0, "Seed of all random choices", least=0, most=inf, group="Common")

    STOPPING = ("max_iterations", "min_weight_change", "patience", "pick")  # a run may go on with other ones

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", self.metric or ("bleu-sbp" if self.gain == "bleu" else self.gain))
        check(self)

    def made_from(self) -> dict[str, Any]:
        """Options that may not change when a run goes on. The learner says what it learns."""
        return {name: value for name, value in asdict(self).items() if name not in (*self.STOPPING, "gain")}


@dataclass(frozen=True)
class LoopFolder:
    """RUN/: config.json (what the run is made from), iteration-NN/ (model, lists, logs, state), results.json and model.json.

    Every file is whole or absent, and an iteration's state.json is its last: what a killed run has is not done again.
    """

    path: Path

    def iteration(self, k: int) -> Path:
        return self.path / f"iteration-{k:02d}"

    def open(self, made_from: Mapping[str, Any], *, resume: bool, force: bool) -> None:
        """Make the folder, or check that what is there belongs to the same run; ``force`` removes it."""
        made_from = as_read({**made_from, "version": __version__})
        config = read_json(self.path / "config.json")
        if isinstance(config, dict):
            refuse_newer(str(self.path), config.get("boostfeat"), "loop", VERSION)
        found = self.path.is_dir() and any(self.path.glob("iteration-*"))
        if found and force:
            self._clear(config)
        elif found and not resume:
            raise InputError(f"{self.path}: expected a new folder, found an earlier run; --resume goes on, --force replaces it")
        elif found:
            old = object_of(config, "made_from")
            for name in {**made_from, **old}:
                if old.get(name) != made_from.get(name):
                    was, now = clip_json(old.get(name)), clip_json(made_from.get(name))
                    raise InputError(
                        f"{self.path}: expected the run's own {name} {was}, found {now}; give the same, or choose another -o"
                    )
        write_json(self.path / "config.json", {"boostfeat": f"loop/{VERSION}", "made_from": made_from})

    def _clear(self, config: Mapping[str, Any] | None) -> None:
        if config is None or not str(config.get("boostfeat", "")).startswith("loop/"):
            raise InputError(f"{self.path}: expected an earlier run of 'boostfeat loop' to replace, found another folder")
        for entry in self.path.iterdir():
            if re.fullmatch(r"iteration-\d+", entry.name):
                shutil.rmtree(entry)
        for name in ("results.json", "model.json"):
            (self.path / name).unlink(missing_ok=True)

    # -- an iteration ------------------------------------------------------------------------------------------------

    def state(self, k: int) -> dict[str, Any] | None:
        """Read what an iteration that is finished has kept."""
        return read_json(self.iteration(k) / "state.json")

    def finish(self, k: int, state: Mapping[str, Any]) -> None:
        write_json(self.iteration(k) / "state.json", state)

    def model(self, k: int) -> Model:
        return Model.load(self.iteration(k) / "model.json")

    def list(self, k: int, name: str) -> NBest:
        return read_store(self.iteration(k) / f"{name}.nbest")

    def has_list(self, k: int, name: str) -> bool:
        return (self.iteration(k) / f"{name}.nbest").exists()

    def keep_list(self, k: int, name: str, nbest: NBest) -> NBest:
        """The list as it is read back, so that an interrupted run goes on with the same bits."""
        write_store(nbest, self.iteration(k) / f"{name}.nbest")
        return self.list(k, name)


REPORTED = ("bleu", "bleu-sbp")


@dataclass(frozen=True)
class Result:
    """A row for each iteration (the start is row 0), the one whose model is given, and why the loop ended."""

    rows: tuple[Mapping[str, Any], ...]
    picked: int
    reason: str
    model: Model
    tests: tuple[Mapping[str, Any], ...] = ()  # of each test set: scores of the start and of the iteration given, and p


@dataclass
class Loop:
    """Iteration 0 decodes with ``start``; iteration k learns a model from the lists so far and decodes with it.

    All is kept in the folder; a run that goes on after any interruption comes to the very model that an uninterrupted one gives,
    where the decoder itself repeats its lists. Lists are kept up as iterations come, whether done now or before.
    """

    corpora: Sequence[ParallelText]  # to learn from and, optionally, to select by
    decoder: LoopDecoder
    learner: Learner
    start: Model
    path: str | Path
    options: LoopOptions = LoopOptions()
    threads: int = 1
    allow_missing: bool = False
    features: LoopFeatures | None = None  # of templates: lists get them before they are learned from, and models carry them
    tests: Sequence[ParallelText] = ()  # decoded at last, with the start and with the model that the loop gives
    first_lists: Path | None = None  # a folder that has the start's lists already
    report: Callable[[str], None] = lambda note: None  # gets a line when a step begins or ends
    warn: Callable[[str], None] = lambda note: None  # gets a line for each feature that is left out
    tick: Tick = no_tick  # gets how much of the step is done, and of how much
    accumulated: dict[str, NBest] = field(default_factory=dict, init=False)
    left_out: dict[str, str] = field(default_factory=dict, init=False)

    @cached_property
    def folder(self) -> LoopFolder:
        return LoopFolder(Path(self.path))

    def run(self, *, resume: bool = False, force: bool = False) -> Result:
        """Iterate to the end, in a new folder, or with ``resume`` in one of an earlier run, which ``force`` replaces."""
        options, folder, has_select = self.options, self.folder, len(self.corpora) > 1
        self._check()
        with only_writer(folder.path):
            folder.open(self._made_from(), resume=resume, force=force)
            rows: list[Mapping[str, Any]] = []
            reason = None
            while reason is None:
                rows.append(self.iteration(len(rows)))
                reason = stop_reason(rows, options)
            by = picked_by(options, has_select=has_select, online=self.learner.online)
            picked = pick(rows, by, options.metric)
            if options.pick == "auto" and by == "dev":
                self.warn(
                    f"no sentences to select by: iteration {picked} is kept, whose {options.metric} on the sentences learned "
                    "from is the best; give --select for a better choice"
                )
            model = folder.model(picked)
            model.save(folder.path / "model.json")
            tested = [self.tested(corpus, picked) for corpus in self.tests]
            results = {"rows": rows, "picked": picked, "reason": reason, "model": model.signature}
            write_json(folder.path / "results.json", {**results, **({"tests": tested} if tested else {})})
        return Result(tuple(rows), picked, reason, model, tuple(tested))

    def _check(self) -> None:
        """Raise now, and not after hours, for what cannot be learned or decoded."""
        for name in (self.options.gain, self.options.metric):
            metric_of(name)  # fresh lists have texts and references, and no quality columns
        if self.options.pick == "select" and not self.corpora[1:]:
            raise InputError(
                "--set pick=select: expected sentences to select by, found none; give --select-input and --select-ref"
            )
        for level in (self.start.level if self.start.trees else None, self.learner.level):
            if level is not None:
                self.decoder.check_trees(level)
        if self.features is not None or self.start.plan is not None:
            self.decoder.check_templates()

    def _made_from(self) -> dict[str, Any]:
        """All that the run depends on: a run that goes on has the same."""
        inputs = {c.name: [digest_lines(lines) for lines in (c.source, *c.refs)] for c in self.corpora}
        parts = {"decoder": self.decoder.made_from(), "learner": self.learner.made_from(), "loop": self.options.made_from()}
        parts["input"] = inputs
        if self.features is not None:
            parts["features"] = self.features.made_from()
        made_from = {f"{part} {name}": value for part, values in parts.items() for name, value in values.items()}
        return {**made_from, "start": replace(self.start, config={}).signature}

    def iteration(self, k: int) -> Mapping[str, Any]:
        """The row of iteration k; what of it is in the folder is not done again."""
        folder, place = self.folder, self.folder.iteration(k)
        done = folder.state(k)
        place.mkdir(exist_ok=True)
        began = time.monotonic()
        if not (place / "model.json").exists():
            self.learn(k).save(place / "model.json")
        seconds = {"learn": seconds_since(began)}
        model, began = folder.model(k), time.monotonic()
        fresh = {corpus.name: self.list(k, corpus) for corpus in self.corpora}
        seconds["decode"] = seconds_since(began)
        if k == 0:
            for line in check_agreement(fresh, allow_missing=self.allow_missing):
                self.warn(line)
        new = {name: self.accumulate(k, name, nbest) for name, nbest in fresh.items()}
        if done is None:
            done = {
                "iteration": k,
                **{name: decoded_gains(nbest, self.options.metric) for name, nbest in fresh.items()},
                "weight_change": share_change(folder.model(k - 1), model) if k else None,
                "new": new["dev"],
                "hypotheses": self.accumulated["dev"].n_hyps,
                "trees": len(model.trees),
                "signature": model.signature,
                "seconds": seconds,
            }
            folder.finish(k, done)
            self.report(f"iteration {k}: {self.options.metric} {gains_text(done, self.options.metric)}")
        return done

    def tested(self, corpus: ParallelText, picked: int) -> Mapping[str, Any]:
        """Scores of a test set decoded with the start and with the picked model, and p of their difference by the metric."""
        lists = [self.list(k, corpus) for k in (0, picked)]
        metric = metric_of(self.options.metric)
        rows = [exact_sums(Scorer(nbest).rows(decoder_choice(nbest), metric)) for nbest in lists]
        start, given = (decoded_gains(nbest, self.options.metric) for nbest in lists)
        return {"name": corpus.name, "start": start, "picked": given, "p_value": approximate_randomisation(*rows, metric=metric)}

    def list(self, k: int, corpus: ParallelText) -> NBest:
        """Return the list that iteration k decodes of a corpus; one that is in the folder is not made again."""
        if self.folder.has_list(k, corpus.name):
            return self.folder.list(k, corpus.name)
        if k == 0 and self.first_lists is not None:
            nbest = read_store(self.first_lists / f"{corpus.name}.nbest")
        else:
            self.report(f"iteration {k}: decoding {corpus.name}")
            nbest = self.decode(k, self.folder.model(k), corpus)
            for line in mismatches(nbest) if k == 0 else ():
                self.warn(f"{corpus.name}: {line}")
        return self.folder.keep_list(k, corpus.name, nbest)

    def decode(self, k: int, model: Model, corpus: ParallelText) -> NBest:
        def tick(done: int) -> None:
            self.tick(done, len(corpus.source))

        place = DecodingPlace(self.folder.iteration(k), k, self.options.seed + k, self.threads, tick)
        nbest = self.decoder.decode(model, corpus, place)
        return without_trees(nbest, model, self.folder.list(0, corpus.name)) if k and model.trees else nbest

    def learn(self, k: int) -> Model:
        """The model of iteration k, at the scale it is decoded with; ``config["loop"]`` says by what it was multiplied."""
        if k == 0:
            return replace(self.start, config={**self.start.config, "loop": {"iteration": 0, "scale": 1.0}})
        self.report(f"iteration {k}: learning from {self.accumulated['dev'].n_hyps:,} hypotheses")
        before = self.folder.model(k - 1)
        dev, select, plan = self.accumulated["dev"], self.accumulated.get("select"), None
        tree_features: tuple[str, ...] = ()
        if self.features is not None:
            dev, plan = self.features.plan(dev, before, seed=self.options.seed, threads=self.threads)
            select = None if select is None else self.features.maker.apply(select, plan)
            tree_features = self.features.tree_features(dev, plan)
        task = LearningTask(
            iteration=k,
            start=rescaled(before, 1 / before.config["loop"]["scale"]),
            dev=dev,
            select=select,
            seed=self.options.seed + k,
            threads=self.threads,
            folder=self.folder.iteration(k),
            tick=self.tick,
            name_left_out=self.name_left_out,
            tree_features=tree_features,
        )
        model = with_plan(self.learner.learn(task), plan)
        scale = scale_to(model, self.start) if self.options.rescale else 1.0
        return replace(rescaled(model, scale), config={**model.config, "loop": {"iteration": k, "scale": scale}})

    def name_left_out(self, nbest: NBest) -> None:
        """Warn of features that cannot be learned from, of each once."""
        new = range_warnings(nbest, self.left_out)
        self.left_out |= new
        for line in new.values():
            self.warn(line)

    def accumulate(self, k: int, name: str, fresh: NBest) -> int:
        """Add a list to those that are learned from; how many hypotheses it has that they did not."""
        old, n_before = self.accumulated.get(name), self.options.accumulate
        union = merge([fresh] if old is None else [old, fresh])
        kept = union
        if 0 <= n_before < k:
            kept = merge([self.folder.list(i, name) for i in range(k - n_before, k + 1)])
        self.accumulated[name] = kept
        return union.n_hyps - (old.n_hyps if old is not None else 0)


def decoded_gains(nbest: NBest, metric: str) -> dict[str, float]:
    """Metrics of what the decoder ranks highest."""
    scorer, chosen = Scorer(nbest), decoder_choice(nbest)
    return {name: scorer.score(chosen, name).score for name in dict.fromkeys((*REPORTED, metric))}


def stop_reason(rows: Sequence[Mapping[str, Any]], options: LoopOptions) -> str | None:
    """Why the loop ends after these rows, None if it does not."""
    last = rows[-1]
    k = last["iteration"]
    if k == 0:
        return None
    if last["weight_change"] < options.min_weight_change:
        return f"no weight's share changes by {options.min_weight_change:g}"
    if not last["new"]:
        return "decoding finds no new hypotheses"
    if "select" in last and k - _best(rows, "select", options.metric) >= options.patience:
        return f"{counted(options.patience, 'iteration')} without a better {options.metric} on select"
    return counted(k, "iteration") if k >= options.max_iterations else None


def picked_by(options: LoopOptions, *, has_select: bool, online: bool) -> str:
    """Return what picks the iteration whose model is given: select, dev or last.

    Batch learners see all lists so far, and their last weights are the ones to take. Online weights wander.
    """
    if options.pick != "auto":
        return options.pick
    return "select" if has_select else "dev" if online else "last"


def pick(rows: Sequence[Mapping[str, Any]], by: str, metric: str) -> int:
    """Return the iteration whose model is given."""
    return len(rows) - 1 if by == "last" else _best(rows, by, metric)


def _best(rows: Sequence[Mapping[str, Any]], name: str, metric: str) -> int:
    """The first iteration of the best gain."""
    sign = metric_of(metric).sign
    return max(range(len(rows)), key=lambda k: (sign * rows[k][name][metric], -k))


def gains_text(row: Mapping[str, Any], metric: str) -> str:
    return "  ".join(f"{name} {row[name][metric]:.2f}" for name in ("dev", "select") if name in row)


def table_rows(rows: Sequence[Mapping[str, Any]], picked: int) -> tuple[list[str], list[list[str]]]:
    """(header, cells) of the table that people read; scores are of real decoding, the picked iteration is marked."""
    lists = [name for name in ("dev", "select") if name in rows[0]]
    metrics = list(rows[0]["dev"])
    header = ["iteration", *(f"{name} {shown(m)}" for name in lists for m in metrics),
              "change", "new", "hypotheses", "trees", "learn s", "decode s", ""]  # fmt: skip
    cells = []
    for row in rows:
        gains = [f"{row[name][m]:.2f}" for name in lists for m in metrics]
        change = "" if row["weight_change"] is None else f"{row['weight_change']:.5f}"
        counts = [f"{row[name]:,}" for name in ("new", "hypotheses", "trees")]
        seconds = [f"{row['seconds'][name]:.1f}" for name in ("learn", "decode")]
        cells.append([str(row["iteration"]), *gains, change, *counts, *seconds, "*" if row["iteration"] == picked else ""])
    return header, cells


def test_lines(tests: Sequence[Mapping[str, Any]], metric: str) -> list[str]:
    """A line for each test set."""
    return [
        f"{test['name']} {shown(metric)}: {test['start'][metric]:.2f} at the start, {test['picked'][metric]:.2f} now, "
        f"p {test['p_value']:.4f}"
        for test in tests
    ]
