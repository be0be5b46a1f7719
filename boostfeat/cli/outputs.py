"""Outputs never replace inputs, nor files of another kind: one rule for every command, before it begins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.files import is_special, read_head
from ..core.overwriting import BINARY, EMPTY, HEAD, LIST, MODEL, PAGE, STORE, TEXT, guarded, kind_of
from ..core.strict_json import read_json

OUTPUTS = ("output", "nbest_output", "search_graph", "figures", "tex")  # parameters that name what is written
WRITES = {  # what -o of a command is; others write text
    **dict.fromkeys(("import", "featurize", "augment", "join"), STORE),
    **dict.fromkeys(("tune", "induce"), MODEL),
    "report": PAGE,
    "convert": LIST,
}
EXPORTS = {"json": MODEL, "onnx": BINARY, "treelite": BINARY, "nbest": LIST}
RUNS = ("compare", "loop", "replicate")  # commands whose -o is a folder with a config.json
FOLDERS = (*RUNS, "demo", "export")  # commands whose -o may be a folder


def check_paths(command: str, parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what a command reads and writes. Raise where an output would replace something else, a file of another kind too."""
    inputs, outputs = check_outputs(parameters)
    if command in RUNS:
        check_names([*inputs, *outputs])
    for name in OUTPUTS if not parameters.get("force") else ():
        path = parameters.get(name)
        if isinstance(path, str) and command in RUNS:
            _check_run(command, path)
        elif isinstance(path, str):
            check_kind(path, _kind_written(command, name, parameters))
    return inputs, outputs


def check_outputs(parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what a command reads and writes. Raise where two outputs are one, or one is in a run that is read."""
    inputs = [path for name, value in parameters.items() if name not in OUTPUTS for path in _paths(value)]
    outputs = [str(path) for name in OUTPUTS if (path := parameters.get(name)) and path != "-"]
    for k, output in enumerate(outputs):
        if os.path.realpath(output) in map(os.path.realpath, outputs[:k]) and not is_special(output):
            raise InputError(f"-o {output}: expected a file for each output, found one for two; choose another output")
        for path in inputs:  # a page may be made anew
            if os.path.isdir(path) and os.path.isfile(output) and _is_inside(output, path) and _kind_found(output) != PAGE:
                raise InputError(
                    f"-o {output}: expected a new file or one outside {path}, which is read, found one of its own; "
                    "choose another output"
                )
    return inputs, outputs


def check_names(paths: Iterable[str]) -> None:
    """Raise for a name that is no text: a run keeps the names of its files in JSON."""
    for path in paths:
        try:
            os.path.abspath(path).encode()
        except UnicodeEncodeError:
            raise InputError(f"{path}: expected a name in UTF-8, which a run can keep, found other bytes; rename it") from None


def _kind_written(command: str, name: str, parameters: Mapping[str, Any]) -> str:
    """Return the kind of file that a command writes to one of its outputs."""
    if name != "output":
        return LIST if name == "nbest_output" else TEXT
    if command in ("rerank", "rescore"):  # the best, or lists
        oracle, format = parameters.get("oracle"), parameters.get("format")
        format = format or ("text" if oracle or parameters.get("nbest", 1) == 1 else "moses")
        return LIST if format != "text" or (parameters.get("json") and not oracle) else TEXT
    return EXPORTS.get(str(parameters.get("to")), WRITES.get(command, TEXT))


def check_kind(path: str, kind: str) -> None:
    """Raise where there is a file of another kind; an empty one may become anything."""
    if path == "-" or not os.path.isfile(path):
        return
    found = _kind_found(path)
    if found not in (kind, EMPTY):
        raise InputError(
            f"-o {path}: expected no file or {kind} to replace, found {found}; choose another output, or give --force"
        )


def _kind_found(path: str) -> str:
    try:
        with guarded([], []):  # looking at an output is not reading an input
            return kind_of(read_head(path, HEAD))
    except InputError:  # compressed, and damaged
        return BINARY


def _check_run(command: str, path: str) -> None:
    config = read_json(Path(path) / "config.json") if os.path.isdir(path) else None
    kind = str(config.get("boostfeat", "")).partition("/")[0] if isinstance(config, dict) else ""
    if kind in RUNS and kind != {"replicate": "compare"}.get(command, command):  # a comparison as well
        raise InputError(f"-o {path}: expected a new folder or one of {command}, found a run of {kind}; choose another output")


def _paths(value: Any) -> Iterator[str]:
    """The files and folders that a parameter names; those of NAME=FILE after the sign."""
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, str):
            yield from (text for text in (part, part.partition("=")[2]) if text and text != "-" and os.path.exists(text))


def _is_inside(path: str, folder: str) -> bool:
    return os.path.commonpath([os.path.realpath(path), os.path.realpath(folder)]) == os.path.realpath(folder)
