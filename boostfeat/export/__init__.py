"""Exporters: the model in other programs' terms, one file each, in a registry.

An exporter writes files and can read them back to score the same rows: ``export`` does both, compares, and only then puts
the files in their place. What a target cannot express is refused by name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from ..core.errors import InputError, unknown_name
from ..core.files import is_writable_target, open_output, temporary_folder
from ..core.overwriting import on_write
from ..model.decision import ways_to_decide
from ..model.model import Model
from .target import FOR_DECODER, Check, Context, Exporter, ExportOptions
from .verify import near_thresholds

__all__ = ["EXPORTERS", "Check", "Context", "ExportOptions", "Exporter", "contents", "export", "exporter"]

EXPORTERS: dict[str, str] = {  # modules of this package, each with an EXPORTER
    "c": "c",
    "moses": "moses.exporter",
    "json": "json_model",
    "onnx": "onnx",
    "treelite": "treelite",
    "python": "python",
    "cdec": "cdec_weights",
    "nbest": "list_with_trees",
}


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
            check = replace(check, near=near_thresholds(model, context.rows))
        if is_stream:
            with open_output(out) as stream:
                stream.write(written[0].read_bytes())
            return [str(out)], check
        places = [final.parent / path.relative_to(staging) for path in written]
        context.tell(contents(model, target, context))
        for place in () if context.force else places if found.folder else places[1:]:
            # all that boostfeat writes names it somewhere; a folder's README.txt answers for files without room for a name
            if place.is_file() and not any(map(is_ours, (place, place.with_name("README.txt")))):
                raise InputError(f"{place}: this file is not of boostfeat; choose another output, or give --force to replace it")
        for place in places:  # of all, before the first
            on_write(place)
        return [_put(path, place) for path, place in zip(written, places, strict=True)], check


def contents(model: Model, target: str, context: Context) -> str:
    """Say in one line what of a model a target has, and what not."""
    found = exporter(target)
    ways = "" if found.whole else ways_to_decide(model.config)
    rest = f"; it has scores alone, where in the model {ways} ({FOR_DECODER})" if ways else ""
    return f"--to {target} {found.carries(model, context)}{rest}"


def is_ours(path: Path) -> bool:
    """Tell whether boostfeat wrote a file: it is named near its beginning. An empty file belongs to nobody."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        head = file.read(4096)
        return not head or b"boostfeat" in head
    return False


def _put(path: Path, place: Path) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "rb") as written:
        os.fsync(written.fileno())
    os.replace(path, place)
    return str(place)
