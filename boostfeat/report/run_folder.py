"""A finished comparison, read back from its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from ..compare.paper_page import PaperRecord
from ..compare.runner import VERSION, file_of_run
from ..core.arrays import F64, I64, offsets
from ..core.errors import FormatError, InputError, clip_json, refuse_newer
from ..core.files import digest
from ..core.strict_json import load_json, typed
from ..features import FeaturePlan
from ..features.feature_maker import FeatureMaker, plan_of
from ..lists.choices import Scorer, decoder_choice, oracle_choice
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..metrics.metric import Bleu, Metric, shown
from ..model.describe import describe
from ..model.model import Model

T = TypeVar("T")
Scores = dict[str, float | None]
_FIX = "make the run again with 'boostfeat compare'"


class Row(Struct):
    """A row of results.json, as far as the page shows it."""

    name: str
    method: str
    feature_set: str
    level: str | None
    features: int
    trees: int
    metric: str
    dev: Scores
    test: Scores
    confidence: tuple[float, float]
    p_bootstrap: float | None
    p_stratified: float | None
    against: dict[str, float | None]
    seconds: float | None
    search_seconds: float | None
    peak_mb: float | None
    chosen: dict[str, Any]
    tried: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    choice: str
    model: str | None = None
    select: Scores | None = None
    sd: Scores | None = None
    tests: dict[str, dict[str, Any]] | None = None
    mean: Scores | None = None
    same_as: str | None = None
    p_value: float | None = None
    reported: str = "test"

    def score(self, which: str, metric: str) -> float | None:
        """Return a score on dev, select or test."""
        return (getattr(self, which) or {}).get(metric)


class _RecordedInput(Struct):
    path: str
    sha256: str = ""


class _Config(Struct):
    """The settings in config.json."""

    command: str
    version: str
    trials: int
    seeds: list[int]
    options: dict[str, Any]
    inputs: dict[str, _RecordedInput]
    signatures: dict[str, str]
    versions: dict[str, str]


class _Choices(Struct):
    test: list[Annotated[int, Meta(ge=-1, lt=1 << 31)]]


@dataclass(frozen=True)
class FinishedSystem:
    """One row of the table: what results.json says, its model, and what it chose."""

    row: Row
    model: Model | None
    chosen: I64  # [S] hypotheses of the test list, -1 for an empty list
    nbest: NBest  # the test list with the features that the model reads

    @property
    def name(self) -> str:
        return self.row.name

    @cached_property
    def told(self) -> dict[str, Any]:
        """Describe what its model does on the test list."""
        assert self.model is not None
        return describe(self.model, self.nbest)


@dataclass(frozen=True)
class FinishedRun:
    """The systems in table order, the test list they are reported on, and how it all came about."""

    folder: Path
    systems: tuple[FinishedSystem, ...]
    test: NBest
    config: Mapping[str, Any]
    paper: Mapping[str, Any] | None = None  # its tables, where the run is a paper's experiment

    def system(self, name: str) -> FinishedSystem | None:
        return next((s for s in self.systems if s.name == name), None)

    def histories(self, system: FinishedSystem) -> list[tuple[Mapping[str, Any], ...]]:
        """Return what the models of all runs of a system say of their epochs."""
        if system.model is None:
            return []
        names = [file_of_run(str(system.row.model), r) for r in range(1, len(system.row.runs))]
        more = [_inside(self.folder, name) for name in names if (self.folder / name).exists()]
        return [system.model.history, *(Model.load(file).history for file in more)]

    @property
    def linear(self) -> FinishedSystem:
        """The linear row that p-values are against."""
        baseline = self.config["options"].get("baseline")
        named = self.system(str(labels_of(self.paper).get(baseline, baseline)))
        return named or next((s for s in self.systems if s.model and not s.model.trees), self.systems[0])

    @property
    def ours(self) -> FinishedSystem:
        """The row that people come for: boost-local, or the last with local trees, with any, or the last."""
        local = [s for s in self.boosted if s.model and s.model.level == "local"]
        return self.system("boost-local") or (local or self.boosted or self.systems)[-1]

    @property
    def rival(self) -> FinishedSystem | None:
        """The row it is set against: the global one of equal features, or the last with trees of whole hypotheses."""
        whole = [s for s in self.boosted if s.model and s.model.level == "global"]
        equal = self.system(self.ours.name.replace("boost-local", "boost-global"))
        return equal if equal not in (None, self.ours) else whole[-1] if whole else None

    @property
    def boosted(self) -> list[FinishedSystem]:
        return [s for s in self.systems if s.model and s.model.trees]

    @cached_property
    def decoder(self) -> I64:
        """[S] what the decoder chose: its row, else its best score, else the first of each list."""
        if system := self.system("decoder"):
            return system.chosen
        return decoder_choice(self.test)

    @cached_property
    def metric(self) -> Metric:
        """The metric that the comparison chose by."""
        return self.scorer.metric(self.systems[0].row.metric)

    @cached_property
    def scorer(self) -> Scorer:
        return Scorer(self.test)

    @property
    def gain_name(self) -> str:
        """The name of the gain of a sentence, higher is better: BLEU+1, since BLEU of a sentence means little, or the metric."""
        name = "BLEU+1" if isinstance(self.metric, Bleu) else shown(self.metric.name)
        return f"−{name}" if self.metric.lower_is_better else name

    @cached_property
    def oracle(self) -> I64:
        return oracle_choice(self.test, self.metric)

    @cached_property
    def rank(self) -> I64:
        """[H] place of each hypothesis in its list under the decoder's score (its place as given where there is none), from 1."""
        nb = self.test
        score = nb.score if nb.has_scores else np.zeros(nb.n_hyps)
        order = np.lexsort((np.arange(nb.n_hyps), -score, nb.sent_of_hyp))
        rank = np.empty(nb.n_hyps, np.int64)
        rank[order] = np.arange(nb.n_hyps) - np.repeat(nb.hyp_ptr[:-1], np.diff(nb.hyp_ptr)) + 1
        return rank

    def score(self, chosen: I64) -> float:
        """Return the metric of a choice of hypotheses."""
        return self.scorer.score(chosen, self.metric).score

    def gains(self, chosen: I64) -> F64:
        """[S] the gain of one hypothesis per sentence, better when higher; of an empty list, that of an empty line."""
        out = np.empty(len(chosen))
        some = chosen >= 0
        out[some] = self.hyp_gains[chosen[some]]
        for s in np.flatnonzero(~some):
            row = np.zeros(0) if isinstance(self.metric, Bleu) else self.metric.empty_row(self.test, int(s))
            out[s] = self.metric.points * self.metric.sign * float(self.metric.score(row)) if len(row) else 0.0
        return out

    @cached_property
    def hyp_gains(self) -> F64:
        """[H] the gain of every hypothesis, better when higher."""
        return self.metric.points * self.metric.unit(self.test) * self.metric.gain(self.test)


def load_run(folder: str | Path, *, test: str | Path | None = None, maker: FeatureMaker | None = None) -> FinishedRun:
    """Read RUN/ and the test list it names (or ``test``, where it is now); a list that differs from the run's is refused.

    Where the folder no longer holds the list with a model's features, ``maker`` computes those that the model carries.
    """
    folder, maker = Path(folder), maker or FeatureMaker()
    if not (folder / "config.json").is_file():
        found = "another folder" if folder.is_dir() else "none"
        raise InputError(f"{folder}: expected the folder of a comparison, found {found}; make it with 'boostfeat compare'")
    config = _read(folder / "config.json", dict[str, Any])
    refuse_newer(str(folder), config.get("boostfeat"), "compare", VERSION)
    settings = typed(config, _Config, str(folder / "config.json"), fix=_FIX)
    nbest = read_store(_test_path(folder, settings.inputs, test))
    paper = _paper(folder / "paper.json")
    rows = _rows(folder, paper)
    if not len(nbest):
        raise InputError(f"{folder}: expected a test list with sentences, found an empty one")
    _refuse_unused(folder, rows, maker)
    systems = tuple(_system(folder, row, nbest, maker) for row in rows)
    return FinishedRun(folder, systems, nbest, config, paper)


def read_results(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows of results.json, under a paper's labels where there is one, and the signatures of metrics."""
    config = _read(folder / "config.json", _Config)
    paper = _paper(folder / "paper.json")
    return [to_builtins(row) for row in _rows(folder, paper)], config.signatures


def _rows(folder: Path, paper: Mapping[str, Any] | None) -> list[Row]:
    """Return the rows of results.json, of which there is at least one, under a paper's labels where there is one."""
    if not (rows := _read(folder / "results.json", list[Row])):
        raise _bad(folder / "results.json", "a list of systems", "none")
    return [_labelled(row, paper) for row in rows]


def labels_of(paper: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the paper's labels by the names of systems."""
    return {name: label for label, name in (paper["rows"] if paper else {}).items()}


def _labelled(row: Row, paper: Mapping[str, Any] | None) -> Row:
    """Return a row under the paper's labels, where the run is a paper's experiment."""
    labels = labels_of(paper)
    against = {labels.get(name, name): p for name, p in row.against.items()}
    same_as = labels.get(str(row.same_as), row.same_as)
    return replace(row, name=labels.get(row.name, row.name), against=against, same_as=same_as)


def _read(path: Path, shape: type[T]) -> T:
    return load_json(path, shape, expected="JSON", fix=_FIX)


def _test_path(folder: Path, inputs: Mapping[str, _RecordedInput], given: str | Path | None) -> Path:
    if "test" not in inputs:
        raise InputError(f"{folder}: expected a comparison on a test list, found an ablation without one; compare with --test")
    recorded = inputs["test"]
    names = [Path(given)] if given is not None else [Path(recorded.path), folder / recorded.path]
    path = next((p for p in names if given is not None or os.path.isfile(p)), None)
    if path is None:
        raise InputError(f"{recorded.path}: expected the test list of {folder}, found no file; say where it is now with --test")
    # the digest of what stands in the file, as compare takes it; the choices are positions in exactly these lists
    found = digest(path) if path.is_file() else None
    if found and recorded.sha256 and found != recorded.sha256:
        raise InputError(
            f"{path}: expected the test list of {folder} (sha256 {recorded.sha256[:12]}...), found another ({found[:12]}...); "
            "give the very list that was compared, or compare again"
        )
    return path


def _system(folder: Path, row: Row, nbest: NBest, maker: FeatureMaker) -> FinishedSystem:
    model = Model.load(_inside(folder, row.model)) if row.model else None
    path, sizes = _inside(folder, row.choice), np.diff(nbest.hyp_ptr)
    within = np.array(_read(path, _Choices).test, np.int64)
    if len(within) != len(nbest):
        raise _bad(path, f"test: {len(nbest)} hypothesis numbers", str(len(within)))
    wrong = np.flatnonzero((within >= sizes) | ((within < 0) & (sizes > 0)))
    if len(wrong):
        s = int(wrong[0])
        raise _bad(path, f"test[{s}]: a hypothesis of its {int(sizes[s])}", str(within[s]))
    chosen = np.where(within < 0, -1, offsets(sizes)[:-1] + within)
    return FinishedSystem(row, model, chosen, _featurized(folder, row, nbest, model, maker))


def _refuse_unused(folder: Path, rows: Sequence[Row], maker: FeatureMaker) -> None:
    """Raise for a file that nothing reads: templates are computed of models whose lists are not in the folder."""
    models = (Model.load(_inside(folder, row.model)) for row in rows if row.model and not _list_of(folder, row).is_file())
    plans = [plan for model in models if (plan := plan_of(model))]
    for flag in maker.unused(FeaturePlan(tuple(entry for plan in plans for entry in plan.entries), products=())):
        raise InputError(f"{flag}: none of the templates that the page computes reads it; leave it out")


def _list_of(folder: Path, row: Row) -> Path:
    """Return where compare left the test list with a set of features."""
    return _inside(folder, f"features/{row.feature_set}/test.nbest")


def _featurized(folder: Path, row: Row, nbest: NBest, model: Model | None, maker: FeatureMaker) -> NBest:
    """Return the test list with a set of features; where it is no longer there, with those that the model carries, if any."""
    path = _list_of(folder, row)
    if not path.is_file():
        return nbest if model is None else maker.for_model(nbest, model, where=row.name)
    found = read_store(path)
    if not all(np.array_equal(getattr(found, name), getattr(nbest, name)) for name in ("ids", "hyp_ptr", "unit_ptr")):
        raise _bad(path, "the test list of the run", "another")
    return found


def _inside(folder: Path, name: str) -> Path:
    """Return a file of the folder: a results.json from elsewhere names no others."""
    if not name or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise _bad(folder / "results.json", "names of files in the folder", clip_json(name))
    return folder / name


def _paper(path: Path) -> Mapping[str, Any] | None:
    """Return the tables of a paper's experiment; None where the run is none."""
    if not path.exists():
        return None
    tables = _read(path, dict[str, Any])
    typed(tables, PaperRecord, str(path), fix=_FIX)
    return tables


def _bad(path: Path, expected: str, found: str) -> FormatError:
    return FormatError(str(path), expected=expected, found=found, fix=_FIX)
