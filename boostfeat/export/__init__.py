"""Exporters: the model in other programs' terms, one file each, in a registry.

An exporter writes files and can read them back to score the same rows: ``export`` does both, compares, and only then puts
the files in their place. What a target cannot express is refused by name.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import InputError, unknown_name
from ..core.files import is_writable_target, open_output, temporary_folder
from ..core.guard import on_write
from ..core.options import option

if TYPE_CHECKING:
    from ..features import FeaturePlan
    from ..lists.nbest import NBest
    from ..model.model import Model

EXPORTERS: dict[str, str] = {  # modules of this package, each with an EXPORTER
    "c": "c",
    "moses": "moses.exporter",
    "json": "json_model",
    "onnx": "onnx",
    "treelite": "treelite",
    "python": "python",
    "cdec": "cdec",
    "nbest": "nbest",
}


@dataclass(frozen=True)
class ExportOptions:
    """What the command line can say; each exporter names those it uses, and the others are errors for it."""

    prefix: str | None = option(None, "c, moses: of all C names (boostfeat)")
    static: tuple[str, ...] = option((), "c, moses: features to take for static (phrase pair alone)")
    phrase_table: str | None = option(None, "moses: the phrase table (a file) to augment")
    ini: str | None = option(None, "moses: the moses.ini (a file) to rewrite")
    columns: str | None = option(None, "moses: trees, or sum (all in one)")
    binary: str | None = option(None, "moses: compact or probing: a binary table, by Moses' own tool")
    hidden: bool = option(False, "moses: lists do not show the new scores, so that no tuner learns them")
    vocab: str | None = option(None, "moses: the file that featurize wrote", was=("graph_vocab",))

    def given(self) -> list[str]:
        """The options that are not at their default."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]


@dataclass(frozen=True)
class Context:
    """What an exporter may look at beside the model."""

    nbest: NBest | None = None  # the list of --verify or --list
    options: ExportOptions = field(default_factory=ExportOptions)
    plan: FeaturePlan | None = None  # of the model's features, if it carries one
    target: Path | None = None  # where the main file will be once verified; None for a stream
    on_progress: Callable[[float, float | None, str], None] = lambda done, total, note: None
    warn: Callable[[str], None] = lambda line: None  # gets what the user has to do besides

    @property
    def rows(self) -> NBest:
        """The list, for verification: it is there."""
        if self.nbest is None:
            raise ValueError("nbest: expected a list to verify on, found none")
        return self.nbest

    def kinds(self, names: Sequence[str]) -> Mapping[str, str]:
        """Of each feature: static, contextual, ... as the list declares it, else by well-known decoder names."""
        from .kinds import kinds_of

        return kinds_of(names, self.nbest, static=self.options.static)


@dataclass(frozen=True)
class Check:
    """What verification found: the largest difference between the export's numbers and this library's."""

    rows: int
    what: str  # the rows are: "distinct units", "hypotheses", "entries"
    difference: float
    tolerance: float
    note: str = ""
    near: int = 0  # rows so near to a threshold that the list's rounding may have put them on this side of it

    @property
    def passed(self) -> bool:
        return self.difference <= self.tolerance  # False for NaN


@dataclass(frozen=True)
class Exporter:
    """A target. ``write`` puts files at or beside ``out`` and returns them, the main one first; ``verify`` reads them back."""

    write: Callable[[Model, Path, Context], list[Path]]
    verify: Callable[[Model, list[Path], Context], Check]
    uses: tuple[str, ...] = ()  # the fields of ExportOptions that mean something here
    needs_list: bool = False
    folder: bool = False  # out is a folder


def exporter(name: str) -> Exporter:
    """The exporter of a target."""
    if name not in EXPORTERS:
        raise unknown_name("target", name, EXPORTERS)
    found: Exporter = importlib.import_module(f"{__name__}.{EXPORTERS[name]}").EXPORTER
    return found


def export(
    model: Model, target: str, out: str | Path, context: Context | None = None, *, verify: bool = True
) -> tuple[list[str], Check | None]:
    """Write a model for a target; verified on the context's list, if it has one. Gives the files and what was found.

    Files come into being in a folder of their own and are renamed into place after verification: what is wrong is never there.
    """
    found, context = exporter(target), context or Context()
    if unused := [name for name in context.options.given() if name not in found.uses]:
        flag = "--" + unused[0].replace("_", "-")
        raise InputError(f"{flag}: expected a target that uses it, found --to {target}; leave it out")
    if found.needs_list and context.nbest is None:
        raise InputError(f"--to {target}: expected a list to write, found none; give one with --list or --verify")
    is_stream = str(out) == "-" or (os.path.exists(out) and not os.path.isfile(out) and not os.path.isdir(out))
    final = Path(os.path.realpath(out))  # what a link points to: the link stays
    if found.folder and (is_stream or os.path.isfile(out)):
        what = "a stream" if is_stream else "a file"
        raise InputError(f"-o {out}: expected a folder for --to {target}, found {what}; name a folder")
    if not (found.folder and final.is_dir()):
        is_writable_target(out)
    with tempfile.TemporaryDirectory() if is_stream else temporary_folder(final) as staging:
        place = Path(staging) / (f"model.{target}" if is_stream else final.name)
        if found.folder:
            place.mkdir()
        context = replace(context, target=None if is_stream else final)
        written = found.write(model, place, context)
        if is_stream and len(written) > 1:
            names = ", ".join(path.name for path in written)
            raise InputError(f"-o {out}: expected a file name for --to {target}, which writes {names}; name one")
        check = found.verify(model, written, context) if verify and context.nbest is not None else None
        if check is not None and not check.passed:
            raise InputError(
                f"--to {target}: expected the same scores within {check.tolerance:g}, found a difference of "
                f"{check.difference:.3g} in {check.rows:,} {check.what}; nothing was written"
                + (f" ({check.note})" if check.note else "")
            )
        if check is not None:
            check = replace(check, near=_near_thresholds(model, context))
        if is_stream:
            _copy(written[0], str(out))
            return [str(out)], check
        places = [final.parent / path.relative_to(staging) for path in written]
        for place in places:  # of all, before the first
            on_write(place)
        return [_put(path, place) for path, place in zip(written, places, strict=True)], check


def _near_thresholds(model: Model, context: Context) -> int:
    from .verify import near_thresholds

    return near_thresholds(model, context.rows)


def _copy(path: Path, out: str) -> None:
    with open(path, "rb") as source, open_output(out) if out == "-" else open(out, "wb") as stream:
        shutil.copyfileobj(source, stream)


def _put(path: Path, place: Path) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "rb") as written:
        os.fsync(written.fileno())
    os.replace(path, place)
    return str(place)
