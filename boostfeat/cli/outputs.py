"""Outputs never replace inputs: one rule for every command, before it begins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from typer.core import TyperCommand

from ..core.errors import InputError

OUTPUTS = ("output", "vocab_out", "nbest_output", "search_graph", "trace")  # parameters that name what is written


class Command(TyperCommand):
    """A command that looks at its paths before it runs."""

    def invoke(self, ctx: Any) -> Any:
        check_outputs(ctx.params)
        return super().invoke(ctx)


def check_outputs(parameters: Mapping[str, Any]) -> None:
    """Raise where an output is a file that the command reads, or one that is there already in a folder that it reads."""
    inputs = [path for name, value in parameters.items() if name not in OUTPUTS for path in _paths(value)]
    outputs = [path for name in OUTPUTS for path in _paths(parameters.get(name)) if os.path.isfile(path)]
    for output in outputs:
        for path in inputs:
            if os.path.isfile(path) and os.path.samefile(path, output):
                raise InputError(f"-o {output}: expected another file than the inputs, found {path}; choose another output")
            if os.path.isdir(path) and _is_inside(output, path) and not _is_page(output):
                raise InputError(
                    f"-o {output}: expected a new file or one outside {path}, which is read, found one of its own; "
                    "choose another output"
                )


def _paths(value: Any) -> Iterator[str]:
    """The files and folders that a parameter names; those of NAME=FILE after the sign."""
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, str):
            yield from (text for text in (part, part.partition("=")[2]) if text and text != "-" and os.path.exists(text))


def _is_inside(path: str, folder: str) -> bool:
    return os.path.commonpath([os.path.realpath(path), os.path.realpath(folder)]) == os.path.realpath(folder)


def _is_page(path: str) -> bool:
    """A report that stands in the folder it is about may be made anew."""
    with open(path, "rb") as file:
        return file.read(64).lstrip().lower().startswith(b"<!doctype html")
