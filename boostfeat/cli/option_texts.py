"""Options as commands have them: those of all methods side by side, an instance of what flags say, and the texts of the help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from typing import Any

from ..core.options import Option, options_of, part_of


@cache
def options_by_method(cls: Any) -> dict[str, tuple[Option, ...]]:
    """Return the options of each method that a command can run, with the defaults that its help shows."""
    declared: Mapping[str, Any] = next((f.metadata for f in fields(cls) if "methods" in f.metadata), {"methods": {}})
    values = {method: _values(declared["defaults"].get(method)) for method in declared["methods"]}
    return {
        method: tuple(replace(o, default=values[method].get(o.field, o.default)) for o in options_of(kind))
        for method, kind in declared["methods"].items()
    }


@cache
def method_options(cls: Any) -> tuple[Option, ...]:
    """Return the options of all methods of a dataclass (``methods``): one of each name, which says what methods have it."""
    by_method, of_name, having = options_by_method(cls), dict[str, Option](), dict[str, dict[str, Option]]()
    for method, o in ((method, o) for method, options in by_method.items() for o in options):
        having.setdefault(o.name, {})[method] = o
        if o.name not in of_name or (of_name[o.name].rare and not o.rare):
            of_name[o.name] = o
    if any(not f.metadata.get("are_flags", True) for f in fields(cls)):
        return tuple(replace(o, rare=True) for o in of_name.values())
    if len(by_method) == 1:
        return tuple(of_name.values())
    texts = {name: f"{titled(o)} [{_defaults(having[name])}]" for name, o in of_name.items()}
    return tuple(replace(o, help=texts[name], symbol="", default=None) for name, o in of_name.items())


def _defaults(of: Mapping[str, Option]) -> str:
    """Return the defaults of the methods that have an option, as "1 pro; 20 mira, rm"."""
    methods: dict[str, list[str]] = {}
    for method, o in of.items():
        methods.setdefault(default_text(o), []).append(method)
    return "; ".join(f"{value} {', '.join(names)}".strip() for value, names in methods.items())


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
