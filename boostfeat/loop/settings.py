"""Options of dataclasses by name, from the text of ``--set NAME=VALUE``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..core.errors import InputError, clip


def typed(options: Any, given: Mapping[str, str]) -> dict[str, Any]:
    """Values for fields of a dataclass, or of those in its fields, of the types that these declare; unknown names are errors."""
    kinds = dict(_kinds(options))
    out = {}
    for name, text in given.items():
        key = name.replace("-", "_")
        if key not in kinds:
            raise InputError(f"--set {name}: expected one of {', '.join(kinds)}; found none of that name")
        out[key] = _value(name, text, kinds[key])
    return out


def _kinds(options: Any) -> Iterator[tuple[str, str]]:
    for f in fields(options):
        if is_dataclass(value := getattr(options, f.name)):
            yield from _kinds(value)
        else:
            yield f.name, str(f.type)


def _value(name: str, text: str, kind: str) -> Any:
    kinds = [k.strip() for k in kind.split("|")]
    if "None" in kinds and text.lower() == "none":
        return None
    words = {"true": True, "yes": True, "false": False, "no": False}
    try:
        if "bool" in kinds:
            return words[text.lower()]
        if kind.startswith("tuple"):
            return tuple(part.strip() for part in text.split(","))
        return int(text) if "int" in kinds else float(text) if "float" in kinds else text
    except (ValueError, KeyError):
        raise InputError(f"--set {name}: expected {kind}, found {clip(text)}; give another") from None
