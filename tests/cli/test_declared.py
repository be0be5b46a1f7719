"""Every flag, option, recipe and grid as declared: names, defaults, bounds, headings, what is rare. People and files rely on them.

After a change that is meant: python tests/cli/test_declared.py, and look at what it changes in declared.txt.
"""

from __future__ import annotations

import importlib
from dataclasses import asdict, is_dataclass
from pathlib import Path

from boostfeat.cli import COMMANDS, command
from boostfeat.cli.flags import flags_of, settings_of
from boostfeat.core.options import REQUIRED, Option, options_of

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "boostfeat"
UNSAID = asdict(Option(""))
REGISTRIES = {  # literal ones, whose values are settings
    "boosting.boost_options": "RECIPES ABLATION",
    "losses.pairs": "SAMPLERS",
    "compare.comparison_options": "PRESETS",
    "compare.systems": "SYSTEMS GRIDS",
    "tuners.tuner_options": "ORACLES PREDICTIONS",
}


def declared() -> list[str]:
    """A line for every flag and setting of every command, every option of every class of options, and every registry entry."""
    commands = {name: command(name).options for name in COMMANDS}
    flags = [f"{name} {option_line(o)}" for name, cls in commands.items() for o in (*flags_of(cls), *settings_of(cls))]
    files = [*sorted(PACKAGE.rglob("*options.py"))]
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


def option_line(o: Option) -> str:
    """The field and its default, then what it says besides; the help is for people."""
    said = {k: v for k, v in asdict(o).items() if k not in ("help", "field", "default", "kind") and v != UNSAID[k]}
    return f"{o.field}: {o.kind} = {'required' if o.default is REQUIRED else repr(o.default)} {said}"


def test_flags_and_options_are_those_declared():
    assert declared() == (HERE / "declared.txt").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    (HERE / "declared.txt").write_text("\n".join(declared()) + "\n", encoding="utf-8")
