"""Commands from functions: flags come from options, help in groups.

A parameter of the function is a flag as typer has it; or a dataclass of options, each of which becomes a flag; or
``Given``, the values of the flags that were used. ``--seed``, ``--threads``, ``-q`` and ``--json`` are flags of every
command: the function takes those that it has a use for. ``--help`` shows what people need, ``--help-all`` the rest too.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import is_dataclass, replace
from keyword import iskeyword
from math import isfinite
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import OptionInfo

from ..core.errors import InputError
from ..core.options import MOST, Option, OptionError, changed, default_text, options_of, titled
from .common import ALL_CORES, AllowEdited, AsJson, Force, Quiet, Seed, Threads, at_work, edited_models
from .outputs import Command
from .plain_values import take_plain_values

COMMON = {"seed": (Seed, 0), "threads": (Threads, ALL_CORES), "quiet": (Quiet, False), "as_json": (AsJson, False)}
MODELS = {"model", "init", "weights"}  # what parameters of commands are called that name models
METAVARS = {"int": "N", "float": "X", "bool": ""}
_FILES = {  # what parameters of commands are called that name files
    *("output", "source", "ref", "vocab", "weights", "plugin", "phrase_table", "reordering_table", "lm", "ini"),
    *("nbest_output", "search_graph", "clusters_src", "clusters_tgt"),
}
WIDEST = 26  # column of the flags; a longer one has its help on the next line
More = Callable[[], Iterable[tuple[str, list[tuple[str, str]]]]]
"""(heading, [(name, help)]) of what --help-all shows besides the flags."""


class Given:
    """Marks a parameter that takes {name: value} of the flags used, of all options of these dataclasses.

    Of several, {method: dataclass}, a flag says which methods have it: one of each name, shown if one of them shows it.
    """

    def __init__(self, classes: type | Mapping[str, type], *, rare: bool = False, defaults: bool = True) -> None:
        self.rare, self.defaults = rare, defaults
        self.classes = {"": classes} if isinstance(classes, type) else classes

    def options(self) -> list[Option]:
        found: dict[str, Option] = {}
        of: dict[str, list[str]] = {}
        for method, o in ((method, o) for method, cls in self.classes.items() for o in options_of(cls)):
            of.setdefault(o.name, []).append(method)
            if o.name not in found or (found[o.name].rare and not o.rare):
                found[o.name] = o
        if len(self.classes) == 1:
            shown = found.values() if self.defaults else [replace(o, default=_switched(o)) for o in found.values()]
            return [replace(o, rare=o.rare or self.rare) for o in shown]
        return [replace(o, help=titled(o) + self._if_few(of[o.name]), symbol="", default=_switched(o)) for o in found.values()]

    def _if_few(self, methods: list[str]) -> str:
        return f": {', '.join(methods)}" if len(methods) < len(self.classes) else ""

    def argument(self, used: Mapping[str, Any]) -> Any:
        """What the function gets."""
        return used


def add(app: typer.Typer, function: Callable[..., Any], name: str | None = None, more: More | None = None) -> None:
    """Make a function a command."""
    cls = type("Command", (_Command,), {"more": staticmethod(more) if more else None})
    app.command(name, cls=cls, short_help=in_short(function.__doc__ or ""))(flagged(function))


SHORT = 66  # characters of a command's line in 'boostfeat --help', on 80 columns


def in_short(doc: str) -> str:
    """The first sentence of a docstring, as much of it as fits a line: all, or up to a colon, else a comma."""
    sentence = " ".join(doc.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    parts = [sentence, *(sentence.partition(mark)[0] for mark in (": ", "; "))]
    parts += [sentence[: at.start()] for at in reversed(list(re.finditer(", ", sentence)))]
    return next((part for part in parts if len(part) <= SHORT), sentence)


def flagged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as typer takes it: every option a keyword of its own."""
    signature = inspect.signature(function, eval_str=True)
    spread = {p.name: given for p in signature.parameters.values() if (given := _given(p.annotation))}
    plain = [p for p in signature.parameters.values() if p.name not in spread and p.name not in COMMON]
    taken = {d for p in plain for d in _declared(p.annotation)}
    taken |= {f"--{_flag(o.name)}" for given in spread.values() for o in given.options()}
    parameters: list[inspect.Parameter] = []
    for p in signature.parameters.values():
        if p.name in spread:
            parameters += [_parameter(o, taken) for o in spread[p.name].options() if o.name not in COMMON]
        elif p.name not in COMMON:
            parameters.append(p.replace(kind=p.KEYWORD_ONLY, annotation=_bounded(p.name, p.annotation)))
    if MODELS & signature.parameters.keys():
        parameters.append(_keyword("allow_edited", AllowEdited, False))
    if "output" in signature.parameters and "force" not in signature.parameters:
        parameters.append(_keyword("force", Force, False))
    parameters += [_keyword(name, annotation, default) for name, (annotation, default) in COMMON.items()]
    if any(_info(p.annotation).hidden for p in parameters if isinstance(_info(p.annotation), OptionInfo)):
        parameters.append(_keyword("help_all", HelpAll, False))

    @functools.wraps(function)
    def run(**values: Any) -> Any:
        values.pop("help_all", None)
        edited, quiet = values.pop("allow_edited", False), values["quiet"]
        values["threads"] = min(values["threads"], ALL_CORES)  # more would not help, and far more crash the system's
        arguments = {name: values.pop(name) for name in COMMON if name in signature.parameters}
        for name, given in spread.items():
            used = {o.name: _value(o, values.pop(_key(o))) for o in given.options() if _key(o) in values}
            used = {name: value for name, value in used.items() if value is not None}
            arguments[name] = given.argument(used)
        arguments |= {name: values[name] for name in values if name in signature.parameters}
        on_terminal = values.get("output") == "-" and sys.stdout.isatty()  # what is written there is what it shows
        what = function.__name__.strip("_")
        with edited_models() if edited else nullcontext(), at_work(what, quiet=quiet or on_terminal):
            return function(**arguments)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


class _Flags(Given):
    """Marks a parameter that takes an instance of a dataclass."""

    def argument(self, used: Mapping[str, Any]) -> Any:
        return changed(self.classes[""](), used)


def _given(annotation: Any) -> Given | None:
    if is_dataclass(annotation) and isinstance(annotation, type):
        return _Flags(annotation)
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Given)), None)


def _parameter(o: Option, taken: set[str]) -> inspect.Parameter:
    """An option as a keyword; None where its flag is not used. An old name that has come to mean another option is not its."""
    kinds = {kind.strip() for kind in o.kind.split("|")}
    number: Any = bool if "bool" in kinds else int if "int" in kinds else float if "float" in kinds else str
    number = {"list[str]": list[str], "tuple[str, str]": tuple[str, str]}.get(o.kind.partition(" |")[0], number)
    text = "A,B,..." if o.kind.startswith("tuple[str, ...") else "FILE" if "file" in o.help else "NAME"
    metavar = "FILE FILE" if number == tuple[str, str] else METAVARS.get(number.__name__, text)
    kind: Any = str if o.words else number
    names = [o.flag or o.name, *(name for name in o.names[1:] if f"--{_flag(name)}" not in taken)]
    info = typer.Option(
        *(_switch(name, on=o.default is False) if kind is bool else _dashed(o, name) for name in names),
        help=titled(o) + (f" [{value}]" if (value := default_text(o)) and kind is not bool else ""),
        hidden=o.rare,
        show_default=False,
        metavar=metavar or None,
        rich_help_panel=o.group or None,
    )
    return _keyword(_key(o), Annotated[kind | None, info], None)


def _key(o: Option) -> str:
    return f"{o.name}_" if iskeyword(o.name) else o.name


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _switch(name: str, *, on: bool) -> str:
    """--this/--that where it is said so; else one that is off can be put on, and one that is on can be put off."""
    this, slash, that = name.partition("/")
    if on and not slash:
        return f"--{_flag(this)}"
    return f"--{_flag(this)}/--{_flag(that) if slash else 'no-' + _flag(this)}"


def _switched(o: Option) -> bool | None:
    return o.default if isinstance(o.default, bool) else None


def _dashed(o: Option, name: str) -> str:
    """--NAME; another name of one letter is the short one."""
    return f"-{name}" if len(name) == 1 and name in o.was else f"--{_flag(name)}"


def _flag(name: str) -> str:
    return name.partition("/")[0].replace("_", "-")


def _value(o: Option, value: Any) -> Any:
    """The value of a flag: what typer cannot tell from its text is read here."""
    if not isinstance(value, str) or not (o.words or o.kind.startswith("tuple")):
        return value
    try:
        return o.parse(value)
    except InputError:
        raise OptionError(o, f"expected {o.expected}, found {value!r}; give another") from None


def _info(annotation: Any) -> Any:
    return get_args(annotation)[1] if get_origin(annotation) is Annotated else None


def _declared(annotation: Any) -> tuple[str, ...]:
    info = _info(annotation)
    return (str(info.default), *(info.param_decls or ())) if isinstance(info, OptionInfo) else ()


def _bounded(name: str, annotation: Any) -> Any:
    """A flag of a command's own: a whole number has an end, others are finite, and its place in the help has a name."""
    info = _info(annotation)
    if not isinstance(info, OptionInfo):
        return annotation
    kind, info = get_args(annotation)[0], copy(info)
    whole, real = ({of} & {kind, *get_args(kind)} for of in (int, float))
    if whole and info.max is None:
        info.max = MOST
    if real:
        info.callback = _finite
    if info.metavar is None and kind is not bool and bool not in get_args(kind):
        text = "FILE" if name in _FILES else {"model": "MODEL", "select": "LIST", "test": "LIST"}.get(name, "NAME")
        info.metavar = "N" if whole else "X" if real else text
    return Annotated[kind, info]


def _finite(value: float | None) -> float | None:
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"expected a finite number, found {value}")
    return value


# ---------------------------------------------------------------------------------------------------------------------
# Help
# ---------------------------------------------------------------------------------------------------------------------


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[__name__] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=_show_all,
        help="Show this; --help-all: rare options too",
        rich_help_panel="Common",
    ),
]


class _Command(Command):
    more: More | None = None

    def get_params(self, ctx: Any) -> list[Any]:
        return take_plain_values(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse what would be lost without a word: the first of two values, and a shell's variable that holds nothing."""
        order: list[Any] = self.make_parser(ctx).parse_args(list(args))[2]
        for parameter in order:
            if order.count(parameter) > 1 and not (parameter.multiple or getattr(parameter, "is_flag", True)):
                raise InputError(f"{_long(parameter)}: expected one value, found {order.count(parameter)}; give one of them")
        rest: list[str] = super().parse_args(ctx, args)
        for parameter in order:
            value = ctx.params.get(parameter.name)
            if "" in (value if isinstance(value, list | tuple) else [value]):
                raise InputError(f"{_long(parameter)}: expected a value, found ''; give one, or leave it out")
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Flags under the headings that they declare, in the order of the signature."""
        every = bool(ctx.meta.get(__name__))
        groups: dict[str, list[tuple[str, str]]] = {"Files": []}
        parameters = self.get_params(ctx)
        for parameter in parameters:
            if parameter.name == "help" and any(p.name == "help_all" for p in parameters):
                continue  # one line for both
            panel = getattr(parameter, "rich_help_panel", None)
            if not getattr(parameter, "hidden", False) or (every and panel):  # ``more`` describes what has no heading
                is_file = not parameter.opts[0].startswith("-")
                heading = panel or ("Common" if parameter.name == "help" else "Files" if is_file else "Options")
                groups.setdefault(heading, []).append(_row(parameter, every=every))
        groups["Common"] = groups.pop("Common")
        sections = [(heading, rows) for heading, rows in groups.items() if rows]
        if every and self.more:
            sections[-1:-1] = self.more()
        for heading, rows in sections:
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=WIDEST)


def _long(parameter: Any) -> str:
    """What a flag or an argument is called in messages."""
    return next((name for name in parameter.opts if name.startswith("--")), parameter.metavar or parameter.opts[0])


def _row(parameter: Any, *, every: bool) -> tuple[str, str]:
    """(flags, help): the short name and the first long one, all names where every option is shown."""
    if parameter.name == "help_all":
        return "-h, --help", parameter.help
    if not parameter.opts[0].startswith("-"):
        return parameter.metavar or parameter.name.upper(), (parameter.help or "").rstrip(".")
    long = [name for name in parameter.opts if name.startswith("--")]
    names = [name for name in parameter.opts if not name.startswith("--")] + (long if every else long[:1])
    value = "" if parameter.is_flag else f" {parameter.metavar or 'NAME'}"
    default = parameter.default
    shown = f" [{default}]" if parameter.show_default and isinstance(default, str | int) and not isinstance(default, bool) else ""
    off = "".join(f"/{name}" for name in parameter.secondary_opts[:1])
    return ", ".join(names) + off + value, (parameter.help or "").rstrip(".") + (" [required]" if parameter.required else shown)
