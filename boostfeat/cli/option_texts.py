"""Options as commands have them: those of all methods side by side, an instance of what flags say, and the texts of the help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from typing import Any

from ..core.options import Option, options_of, part_of


@cache
def method_options(cls: Any) -> tuple[Option, ...]:
    """Return the options of all methods of a dataclass (``methods``): one of each name, which says what methods have it."""
    declared = next((f.metadata for f in fields(cls) if "methods" in f.metadata), None)
    if declared is None:
        return ()
    classes, found = declared["methods"], dict[str, Option]()
    having: dict[str, list[str]] = {}
    for method, o in ((method, o) for method, kind in classes.items() for o in options_of(kind)):
        having.setdefault(o.name, []).append(method)
        if o.name not in found or (found[o.name].rare and not o.rare):
            found[o.name] = o
    if not declared["are_flags"]:
        return tuple(replace(o, rare=True) for o in found.values())
    if len(classes) == 1:
        values = _values(declared["defaults"])
        return tuple(replace(o, default=values.get(o.field, o.default)) for o in found.values())
    some = {name: f" ({', '.join(of)})" for name, of in having.items() if len(of) < len(classes)}
    return tuple(replace(o, help=titled(o) + some.get(o.name, ""), symbol="", default=None) for o in found.values())


def _values(options: Any) -> dict[str, Any]:
    """Return the values of an instance and of its parts by field."""
    if options is None:
        return {}
    own = {f.name: getattr(options, f.name) for f in fields(options)}
    return {**own, **{name: value for part in own.values() if is_dataclass(part) for name, value in _values(part).items()}}


def made(cls: Any, used: Mapping[str, Any], **more: Any) -> Any:
    """Return an instance of a dataclass and of its parts from values by the names that people type."""
    own = {o.field: used[o.name] for o in options_of(cls) if o.name in used}
    of_methods = {o.name: used[o.name] for o in method_options(cls) if o.name in used}
    values = {f.name: of_methods for f in fields(cls) if "methods" in f.metadata}
    values |= {f.name: made(part, used) for f in fields(cls) if (part := part_of(f)) is not None}
    return cls(**values, **{f.name: own[f.name] for f in fields(cls) if f.name in own and "option" in f.metadata}, **more)


def describe(options: Iterable[Option]) -> list[tuple[str, str]]:
    """Return (name, help) of options: what each is, the paper's symbol, and in brackets its default and what it takes."""
    out = []
    for o in options:
        takes = ", ".join(o.choices) or (o.expected if o.has_bounds else "")
        notes = "; ".join(note for note in (default_text(o), takes) if note)
        out.append((o.name.replace("_", "-"), titled(o) + (f"  [{notes}]" if notes else "")))
    return out


def default_text(o: Option) -> str:
    """Return the default as people type it; nothing where there is none."""
    if o.default in (None, (), "") or o.default is MISSING:
        return ""
    if isinstance(o.default, bool):
        return "yes" if o.default else "no"
    return f"{o.default:g}" if isinstance(o.default, float) else str(o.default)


def titled(o: Option) -> str:
    """Return the help with the paper's symbol."""
    return f"{o.help} ({o.symbol})" if o.symbol else o.help
