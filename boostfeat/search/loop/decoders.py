"""Decoders of the loop, which make fresh n-best lists with a model: any command, the reference decoder, or search graphs.

A decoder of the loop has ``decode(model, corpus, place) -> NBest``, ``check_trees(level)``, which raises where it cannot score
trees of that level in search, ``check_templates()``, which raises where it cannot compute a model's templates there, and
``made_from()``, all that its lists depend on.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...core.errors import FormatError, InputError, clip, counted, unknown_name
from ...core.files import digest, open_output, read_head, read_lines
from ...core.text import is_whole
from ...features.feature_maker import FeatureMaker
from ...features.plan import FeaturePlan
from ...formats import read
from ...formats.fields import score_names
from ...formats.importing import expand
from ...formats.moses.ini import Ini, looks_like_ini, read_weights, weight_lines, write_lines
from ...lists.build import ReadOptions, attach
from ...lists.nbest import NBest, empty_strings
from ...model.model import Model
from ..decoder.decoder import Decoded, Decoder
from ..decoder.output import collect
from ..decoder.search_templates import SearchTemplates
from ..decoder.setup import SearchOptions
from ..decoder.system import UNKNOWN, PhraseSystem
from ..graphs.rescoring import kbest_nbest


def read_start(path: str | Path) -> Model:
    """The model to start from: a model file, a Moses ini, or lines of ``name value`` or ``Name= value``."""
    head = read_head(path).decode("utf-8", "replace")
    if head.lstrip().startswith("{"):
        return Model.load(path)
    weights = _all_weights(Ini.read(path)) if looks_like_ini(head) else read_weights([path])
    if not weights:
        raise InputError(f"{path}: expected weights to start from, found none; give a model, an ini, or 'name value' lines")
    return Model(weights)


def kept_weights(start: Model, ini: str | Path) -> list[str]:
    """Features of an ini that a start has no weight for: theirs stay as the ini has them until a list shows the features."""
    return [name for name, w in _all_weights(Ini.read(ini)).items() if w and name not in start.weights]


def _all_weights(ini: Ini) -> dict[str, float]:
    """Read the weights of [weight], and of sparse features in the file that [weight-file] names."""
    dense, sparse = ini.require("weight").named_weights(), _sparse_weights(ini)
    if twice := dense.keys() & sparse.keys():
        fix = "remove it from the file of [weight-file]"
        raise FormatError(ini.where, expected="each weight once", found=f"{clip(min(twice))} again", fix=fix)
    return dense | sparse


def _sparse_weights(ini: Ini) -> dict[str, float]:
    files = {at: ini.locate(ini.says(at)) for at in ini.section("weight-file")}
    for at, file in files.items():
        if not Path(file).exists():
            found, fix = f"none called {clip(file)}", "correct its path"
            raise FormatError(ini.place(at), expected="a file of weights", found=found, fix=fix)
    return read_weights(files.values())


def write_ini(weights: Mapping[str, float], path: Path, base: str | Path | None) -> None:
    """The ini ``base`` with these weights in [weight]; those of sparse features go to a file that [weight-file] names.

    A feature that the weights do not name keeps the weight it has in the base.
    """
    if base is None:
        raise InputError("--weights-format moses: expected --ini FILE whose [weight] section is replaced, found none; give it")
    ini, left = Ini.read(base).require("weight"), dict(weights)
    entries = ini.weights()
    features = {name: score_names(name, len(values)) for name, values in entries.items()}
    dense = {name: [left.pop(f, w) for f, w in zip(features[name], entries[name], strict=True)] for name in entries}
    _check_sparse([name for name, w in left.items() if w != 0], (*entries, *ini.features()), base)
    sparse = {name: w for name, w in (_sparse_weights(ini) | left).items() if w != 0}
    ini = ini.without("weight-file").with_weights(dense)
    if sparse:
        file = path.with_name("sparse-weights.txt")
        write_named(sparse, file, None)
        ini = ini.with_weight_file(str(file))
    ini.write(path)


def _check_sparse(names: Sequence[str], functions: Sequence[str], base: str | Path) -> None:
    """Sparse features are named Function_anything; a number would be a dense one that the ini lacks."""
    for name in names:
        rest = next((name[len(f) + 1 :] for f in functions if name.startswith(f + "_")), "")
        if not rest or is_whole(rest):
            raise InputError(
                f"{base}: expected a weight for the model's feature {clip(name)}, found none; add it to [weight] and [feature]"
            )


def write_named(weights: Mapping[str, float], path: Path, base: str | Path | None, *, equals: str = "") -> None:
    """Write ``name value`` lines, as cdec and Joshua read them, or ``name= value``, as Moses' own tools do."""
    write_lines(weight_lines(weights, path.name, equals=equals), path)


# name of the format: (name of the file, writer)
WEIGHT_FORMATS: dict[str, tuple[str, Callable[[Mapping[str, float], Path, str | Path | None], None]]] = {
    "moses": ("moses.ini", write_ini),
    "cdec": ("weights.cdec", write_named),
    "name-value": ("weights.txt", partial(write_named, equals="=")),
}


TAIL = 8  # last lines of a decoder that failed


class DecoderError(InputError):
    """A decoder that failed, hung or wrote something else than a list; ``tail`` has its last lines."""

    def __init__(self, message: str, tail: Sequence[str] = ()) -> None:
        self.tail = tuple(tail)
        super().__init__(message)


@dataclass(frozen=True)
class ParallelText:
    """Sentences to decode, with references."""

    name: str  # dev, select or test-...: what its files in the run's folder are called
    source: tuple[str, ...]
    refs: tuple[tuple[str, ...], ...]  # a sequence of lines for each reference

    @classmethod
    def read(cls, name: str, source: str, refs: Sequence[str]) -> ParallelText:
        if not refs:
            raise InputError(f"{source}: expected at least one reference (-r REF), found none; learning needs them")
        refs = expand(refs)
        lines = [tuple(line for _, line in read_lines(path)) for path in (source, *refs)]
        if not lines[0]:
            raise InputError(f"{source}: expected sentences, one a line, found none; check the file")
        for path, found in zip(refs, lines[1:], strict=True):
            if len(found) != len(lines[0]):
                n = len(lines[0])
                raise InputError(f"{path}: expected {counted(n, 'line')}, as many as {source}, found {len(found)}; align them")
        return cls(name, lines[0], tuple(lines[1:]))

    def without_lists(self) -> NBest:
        """Return the sentences before they are decoded."""
        nothing = NBest.bare(np.zeros(len(self.source) + 1, np.int64), empty_strings(0))
        return attach(nothing, source=self.source, refs=self.refs, name=self.name)

    def attached(self, nbest: NBest, where: str, *, threads: int = 1) -> NBest:
        """A decoder's list with source and references; a sentence without hypotheses is an error."""
        nbest = attach(nbest, source=self.source, refs=self.refs, name=where, threads=threads)
        empty = [s for s in np.flatnonzero(np.diff(nbest.hyp_ptr) == 0) if self.source[s].strip()]
        if empty:
            more = f" and {len(empty) - 1} more" if empty[1:] else ""
            raise InputError(f"{where}: expected hypotheses of every sentence, found none of sentence {empty[0]}{more}")
        return nbest


@dataclass(frozen=True)
class DecodingPlace:
    """A place in the run's folder where a decoding leaves its files, and how it is done."""

    folder: Path
    iteration: int
    seed: int
    threads: int
    tick: Callable[[int], None] = lambda done: None  # called with the number of sentences decoded


class LoopDecoder(Protocol):
    def check_trees(self, level: str) -> None: ...
    def check_templates(self) -> None: ...
    def decode(self, model: Model, corpus: ParallelText, place: DecodingPlace) -> NBest: ...
    def made_from(self) -> dict[str, Any]: ...


# ---------------------------------------------------------------------------------------------------------------------
# Any command
# ---------------------------------------------------------------------------------------------------------------------

PLACES = ("ini", "weights", "model", "input", "nbest", "size", "iteration", "seed")
PLACE = re.compile(r"\{\{|\}\}|\{(\w*)\}")


@dataclass(frozen=True)
class CommandDecoder:
    """A command line with places, split into arguments as a shell would and run without one.

    Without {input} the sentences are its standard input; without {nbest} its standard output is the list.
    """

    command: str
    size: int = 100
    weights_format: str = "moses"
    ini: str | None = None  # whose [weight] section is replaced
    format: str = "auto"  # of the list
    timeout: float | None = None  # seconds

    def __post_init__(self) -> None:
        if self.weights_format not in WEIGHT_FORMATS:
            raise unknown_name("weights format", self.weights_format, WEIGHT_FORMATS)
        if not {"ini", "weights", "model"} & self.places():
            raise InputError(
                "--decoder: expected a place for the weights, {weights}, {ini} or {model}, found none; add one of them"
            )
        if self.timeout is not None and not self.timeout > 0:
            raise InputError(f"--timeout: expected seconds above 0, found {self.timeout}")

    def arguments(self) -> list[str]:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise InputError(f"--decoder: expected a command line, found: {error}; check its quotes") from None
        if not words:
            raise InputError("--decoder: expected a command line, found nothing; see 'boostfeat loop --help'")
        return words

    def places(self) -> set[str]:
        used = {match[1] for word in self.arguments() for match in PLACE.finditer(word) if match[1] is not None}
        for name in sorted(used - set(PLACES)):
            raise unknown_name("place in --decoder", "{" + name + "}", ["{" + p + "}" for p in PLACES])
        return used

    def made_from(self) -> dict[str, Any]:
        what = {"command": self.command, "size": self.size, "weights_format": self.weights_format, "format": self.format}
        return {**what, "ini": digest(self.ini) if self.ini else None}

    def check_trees(self, level: str) -> None:
        if "model" not in self.places():
            raise InputError(
                "--decoder: expected a place {model}, since a weights file has no room for trees, found none; "
                "use --decoder moses, the reference decoder, or a script that takes {model} and brings its trees into the decoder"
            )

    def check_templates(self) -> None:
        if "model" not in self.places():
            raise InputError(
                "--templates: expected a decoder that computes them, with a place {model}, found another; "
                "use the reference decoder (--phrase-table and --lm), or 'boostfeat tune --templates' on its lists"
            )

    def decode(self, model: Model, corpus: ParallelText, place: DecodingPlace) -> NBest:
        """Run the command. Its output is in a folder of this attempt until it is known to be whole."""
        folder = place.folder.resolve()
        if {"ini", "weights"} & self.places():
            self.write_weights(model, folder)
        model.save(folder / "model.json")
        with open_output(folder / f"{corpus.name}.input") as stream:
            stream.write("".join(line + "\n" for line in corpus.source).encode())
        for stale in folder.glob(f"{corpus.name}.*.attempt"):
            shutil.rmtree(stale, ignore_errors=True)
        attempt = Path(tempfile.mkdtemp(prefix=f"{corpus.name}.", suffix=".attempt", dir=folder))
        try:
            return self._attempt(corpus, place, folder, attempt)
        except KeyboardInterrupt:  # what a decoder that failed has left is there to look at; this one did not fail
            shutil.rmtree(attempt, ignore_errors=True)
            raise

    def write_weights(self, model: Model, folder: Path) -> None:
        """Write the files that {ini} and {weights} stand for."""
        name, write = WEIGHT_FORMATS[self.weights_format]
        write(model.weights, folder / name, self.ini)

    def _attempt(self, corpus: ParallelText, place: DecodingPlace, folder: Path, attempt: Path) -> NBest:
        name = WEIGHT_FORMATS[self.weights_format][0]
        files = {
            "ini": folder / name,
            "weights": folder / name,
            "model": folder / "model.json",
            "input": folder / f"{corpus.name}.input",
            "nbest": attempt / "nbest",
        }
        values = {**files, "size": self.size, "iteration": place.iteration, "seed": place.seed}
        self._run([filled(word, values) for word in self.arguments()], files, attempt)
        listed = files["nbest"] if "nbest" in self.places() else attempt / "stdout"
        nbest = self._read(listed, corpus, attempt, threads=place.threads)
        for log in ("stdout", "stderr"):
            if attempt / log != listed:
                os.replace(attempt / log, folder / f"{corpus.name}.{log}")
        shutil.rmtree(attempt, ignore_errors=True)  # the list is kept as a store
        return nbest

    def _run(self, arguments: list[str], files: dict[str, Path], attempt: Path) -> None:
        stdin = os.devnull if "input" in self.places() else files["input"]
        with open(stdin, "rb") as given, open(attempt / "stdout", "wb") as out, open(attempt / "stderr", "wb") as err:
            try:  # a session of its own, so that what it starts can be ended with it
                process = subprocess.Popen(arguments, stdin=given, stdout=out, stderr=err, start_new_session=True)
            except OSError as error:
                raise DecoderError(
                    f"--decoder: expected a program to run, found {clip(arguments[0])}: {error.strerror}; check the command"
                ) from None
            try:
                code = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                _end_group(process)
                raise self._error(attempt, f"an end within {self.timeout:g} seconds (--timeout)", "it still at work") from None
            except BaseException:
                _end_group(process)
                raise
        if code:
            _end_group(process)
            found = f"exit code {code}" if code > 0 else f"its end by signal {-code} ({_signal_name(-code)})"
            raise self._error(attempt, "exit code 0", found)

    def _read(self, listed: Path, corpus: ParallelText, attempt: Path, *, threads: int) -> NBest:
        try:
            options = ReadOptions(source=corpus.source, size=self.size, threads=threads)
            return corpus.attached(read(listed, options, format=self.format), str(listed), threads=threads)
        except InputError as error:
            raise self._error(attempt, "a whole n-best list", str(error)) from None

    def _error(self, attempt: Path, expected: str, found: str) -> DecoderError:
        lines = [line for log in ("stdout", "stderr") for line in _last_lines(attempt / log)]
        return DecoderError(
            f"decoder: expected {expected}, found {found}; repair it and go on with --resume (its output is in {attempt})",
            lines[-TAIL:],
        )


def filled(word: str, values: dict[str, Any]) -> str:
    return PLACE.sub(lambda m: str(values[m[1]]) if m[1] is not None else m[0][0], word)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return "unknown"


def _last_lines(path: Path) -> list[str]:
    with open(path, "rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 8192))
        text = stream.read().decode("utf-8", "replace")
    return ["".join(c if c.isprintable() else " " for c in line)[:200] for line in text.splitlines() if line.strip()][-TAIL:]


# ---------------------------------------------------------------------------------------------------------------------
# Search graphs: the decoder-free stand-in
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphDecoder:
    """The k-best of search graphs of one decoding, under the model; no graph grows, but lists of 100 see 10^10 paths."""

    graphs: dict[str, tuple[str, ...]]  # files of each corpus
    size: int = 100
    names: tuple[str, ...] | None = None  # of the values of core=(...) in osgx files

    def check_trees(self, level: str) -> None:
        if level == "global":
            raise InputError("--graphs: expected trees of level local, found global: an edge has no values of a whole hypothesis")

    def check_templates(self) -> None:
        raise InputError(
            "--templates: expected a decoder that computes them, found --graphs; use the reference decoder (--phrase-table and "
            "--lm), or 'boostfeat induce --graphs --graph-plan' on featurized lists"
        )

    def made_from(self) -> dict[str, Any]:
        files = {name: [digest(path) for path in paths] for name, paths in self.graphs.items()}
        return {"command": "graphs", "size": self.size, "names": self.names, "graphs": files}

    def decode(self, model: Model, corpus: ParallelText, place: DecodingPlace) -> NBest:
        files = self.graphs[corpus.name]
        nbest = kbest_nbest(
            files, model, size=self.size, source=corpus.source, names=self.names, threads=place.threads, report=place.tick
        )
        return corpus.attached(nbest, files[0], threads=place.threads)


@dataclass(frozen=True)
class ReferenceDecoder:
    """The decoder of this package on the sentences of the run; tables are read once, and only what these sentences need."""

    phrase_table: str
    lm: str
    reordering_table: str | None
    search: SearchOptions
    sentences: tuple[str, ...]  # all that will be decoded
    extra: tuple[str, ...] = ()  # features to list besides those that the model uses
    size: int = 100
    maker: FeatureMaker = field(default_factory=FeatureMaker, repr=False)  # has the files that a model's templates read

    @cached_property
    def decoder(self) -> Decoder:
        only = list(dict.fromkeys(self.sentences))
        system = PhraseSystem.load(phrase_table=self.phrase_table, lm=self.lm, reordering_table=self.reordering_table, only=only)
        return Decoder(system, Model({}), self.search, extra=self.extra, maker=self.maker)

    def templates(self, plan: FeaturePlan) -> SearchTemplates:
        """A plan on the tables: all the features that its templates can give."""
        return SearchTemplates(self.decoder.system, plan, self.maker)

    def with_model(self, model: Model, templates: SearchTemplates | None = None) -> Decoder:
        """The decoder with a model, which may name the penalty for unknown words: as in Moses it counts and is not listed.

        It is a rule (no word is left that a known phrase could translate) rather than a taste: no tuner is to see it. A model
        whose trees ask for it, or a user who does, gets it listed as any other feature.
        """
        asked = {*self.extra}.union(*(tree.features() for tree in model.trees))
        if UNKNOWN in asked:
            return replace(self.decoder, model=model, templates=templates)
        weights = {name: w for name, w in model.weights.items() if name != UNKNOWN}
        hidden = model.weights.get(UNKNOWN, 0.0)
        return replace(self.decoder, model=replace(model, weights=weights), unknown_weight=hidden, templates=templates)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "decoder"}  # another process reads its own

    def check_trees(self, level: str) -> None:
        if level == "global":
            raise InputError("expected trees of level local, found global: search cannot score them; rerank lists with them")

    def check_templates(self) -> None:
        """All that search can have is scored in search."""

    def made_from(self) -> dict[str, Any]:
        files = {name: getattr(self, name) for name in ("phrase_table", "lm", "reordering_table")}
        return {
            "command": "reference",
            **{name: digest(path) if path else None for name, path in files.items()},
            **asdict(self.search),
            "extra": self.extra,
            "size": self.size,
        }

    def decode(self, model: Model, corpus: ParallelText, place: DecodingPlace) -> NBest:
        nbest = self.list(model, corpus.source, threads=place.threads, tick=place.tick)
        return corpus.attached(nbest, corpus.name, threads=place.threads)

    def list(
        self,
        model: Model,
        sentences: Sequence[str],
        *,
        threads: int = 1,
        tick: Callable[[int], None] = lambda done: None,
        templates: SearchTemplates | None = None,
    ) -> NBest:
        """n-best lists without references of some sentences, numbered from 0. ``templates``: of a model that is still learned."""

        def counted() -> Iterator[Decoded]:
            for done, result in enumerate(self.with_model(model, templates).decode_all(sentences, threads=threads), 1):
                tick(done)
                yield result

        return collect(counted(), self.size)
