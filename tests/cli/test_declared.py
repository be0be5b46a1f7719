"""Every flag, option, recipe and grid as declared: names, defaults, bounds, headings, what is rare. People and files rely on them.

After a change that is meant: python tests/cli/test_declared.py, and look at what it changes in declared.txt.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import get_args

from boostfeat.cli import app
from boostfeat.core.machine import usable_cores
from boostfeat.core.options import Option, options_of

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "boostfeat"
UNSAID = asdict(Option(""))
REGISTRIES = {  # literal ones, whose values are settings
    "boosting.options": "RECIPES ABLATION",
    "losses.pair_options": "SAMPLERS",
    "compare.options": "PRESETS",
    "compare.systems": "SYSTEMS GRIDS",
    "tuners.tuner_options": "ORACLES PREDICTIONS",
}


def declared() -> list[str]:
    """A line for every flag of every command, every option of every class of options, and every entry of the registries."""
    commands = [(c.name or c.callback.__name__.strip("_"), inspect.signature(c.callback)) for c in app.registered_commands]
    flags = [f"{name} {flag_line(p)}" for name, signature in commands for p in signature.parameters.values()]
    files = [*sorted(PACKAGE.rglob("*options.py")), PACKAGE / "cli/engine.py"]
    modules = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files]
    classes = [(m, cls) for m in modules for cls in vars(importlib.import_module(m)).values() if isinstance(cls, type)]
    own = [(m, cls) for m, cls in classes if is_dataclass(cls) and cls.__module__ == m != "boostfeat.core.options"]
    options = [f"{m.removeprefix('boostfeat.')}.{cls.__name__} {option_line(o)}" for m, cls in own for o in options_of(cls)]
    named = [
        (f"{m}.{name}", getattr(importlib.import_module(f"boostfeat.{m}"), name))
        for m, names in REGISTRIES.items()
        for name in names.split()
    ]
    return [*flags, *options, *(f"{name}[{key!r}] = {value!r}" for name, registry in named for key, value in registry.items())]


def flag_line(p: inspect.Parameter) -> str:
    """Names, place of the value, default, bounds, heading, and what else is so; the help is for people."""
    kind, info = get_args(p.annotation)[:2]
    given = (info.default, *(getattr(info, "param_decls", None) or ()))
    names = " ".join(name for name in given if isinstance(name, str))
    default = "cores" if p.name == "threads" and p.default == usable_cores() else None if p.default is p.empty else p.default
    bounds = "" if (info.min, info.max) == (None, None) else f" {info.min}..{info.max}"
    marks = [mark for mark in ("hidden", "show_default", "is_eager") if getattr(info, mark, False)]
    required = ["required"] if p.default is p.empty else []
    kind = getattr(kind, "__name__", str(kind)) if isinstance(kind, type) else str(kind)
    line = f"{names or p.name}: {kind} {info.metavar or ''} = {default!r}{bounds} ({info.rich_help_panel or ''})"
    return " ".join([line, *required, *marks])


def option_line(o: Option) -> str:
    """The field and its default, then what it says besides; the help is for people."""
    said = {k: v for k, v in asdict(o).items() if k not in ("help", "field", "default", "kind") and v != UNSAID[k]}
    return f"{o.field}: {o.kind} = {o.default!r} {said}"


def test_flags_and_options_are_those_declared():
    assert declared() == (HERE / "declared.txt").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    (HERE / "declared.txt").write_text("\n".join(declared()) + "\n", encoding="utf-8")
