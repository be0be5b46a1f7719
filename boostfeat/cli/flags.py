"""Commands from functions: the one parameter of the function is a dataclass, whose options are the flags.

An option that is rare is a setting, ``--set NAME=VALUE``. ``--help`` shows the flags under the headings that they declare,
``--help-all`` the settings too. What would do nothing in a call is refused (``needs`` of an option).
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from keyword import iskeyword
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from ..core.errors import InputError
from ..core.files import is_folder_name, is_new_folder, is_writable_target
from ..core.options import REQUIRED, Option, options_of, read_settings, refuse_idle
from ..core.overwriting import guarded
from ..metrics.metric import METRICS
from ..model.model import accept_edited
from .console import COMMON, FILES, at_work
from .option_texts import default_text, describe, made, method_options, options_by_method, titled
from .outputs import FOLDERS, check_paths

WIDEST = 26  # column of the flags; a longer one has its help on the next line
SET = Option(
    "Set a rare option, listed by --help-all; repeatable", metavar="NAME=VALUE", group=COMMON, field="set", kind="list[str]"
)


def command_of(name: str, function: Callable[[Any], Any]) -> Any:
    """Return the command that calls a function with an instance of the dataclass that it takes."""
    cls = next(hint for key, hint in get_type_hints(function).items() if key != "return")
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=type("Command", (_Command,), {"options": cls}), help=function.__doc__)(_flagged(name, function, cls))
    return get_command(app)


def flags_of(cls: type) -> list[Option]:
    """Return the options of a command that are flags or arguments: of each name the first."""
    every = [o for o in (*options_of(cls), *method_options(cls)) if not o.rare]
    return list({o.name: o for o in reversed(every)}.values())[::-1]


def settings_of(cls: type) -> list[Option]:
    """Return the options of the command itself that only ``--set`` takes."""
    return [o for o in options_of(cls) if o.rare]


def _flagged(name: str, function: Callable[[Any], Any], cls: type) -> Callable[..., Any]:
    """Return the function as typer takes it: every flag a keyword of its own."""
    flags, settings = flags_of(cls), settings_of(cls)
    by_method = options_by_method(cls)
    parameters = [_parameter(o) for o in flags]
    if settings or by_method:
        parameters += [_parameter(SET), _keyword("help_all", HelpAll, False)]

    @functools.wraps(function)
    def run(**values: Any) -> Any:
        used = {o.name: _value(o, values[_key(o)]) for o in flags if values[_key(o)] is not None}
        texts: list[str] = values.pop(SET.name, None) or []
        taken = settings if len(by_method) > 1 else [*settings, *method_options(cls)]
        names = {o.name for o in taken}
        own = [text for text in texts if text.partition("=")[0].replace("-", "_") in names]
        left = tuple(text for text in texts if text not in own)  # for the method that is chosen
        if left and len(by_method) < 2:
            known = ", ".join(o.name.replace("_", "-") for o in taken)
            raise InputError(f"--set {left[0].partition('=')[0]}: there is no such setting; choose from {known}")
        used |= read_settings(taken, own)
        refuse_idle((*flags, *taken), used)
        options = made(cls, used, settings=left)
        every = {**{o.name: o.default for o in flags if o.default is not REQUIRED}, **used, "settings": texts}
        inputs, outputs = check_paths(name, every)
        on_terminal = every.get("output") == "-" and sys.stdout.isatty()  # what is written there is what it shows
        accept_edited.set(bool(used.get("allow_edited")))
        with guarded(inputs, outputs), at_work(name, options, on_terminal=on_terminal):
            for output in outputs if name not in FOLDERS else ():  # told now, not after hours
                if output == str(every.get("figures")) and os.path.isdir(output):
                    continue  # they are drawn again
                (is_new_folder if is_folder_name(output) else is_writable_target)(output)
            return function(options)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _parameter(o: Option) -> inspect.Parameter:
    """Return an option as a keyword of typer's; None where its flag is not used."""
    kind: Any = list[str] if o.is_repeatable else tuple[str, str] if o.kind.startswith("tuple[str, str]") else str
    kind = bool if "bool" in o.kind else kind
    required, default = o.default is REQUIRED, "" if isinstance(o.default, bool) else default_text(o)
    value = f" [{default}]" if default else ""
    how: dict[str, Any] = {"metavar": _metavar(o) or None, "help": titled(o) + value, "show_default": False}
    if o.is_argument:
        info: Any = typer.Argument(**how)
    else:
        switch = _switch(o) if kind is bool else o.typed_name
        names = [f"-{o.short}", switch] if o.short else [switch, "--metrics"] if o.name == "metric" else [switch]
        info = typer.Option(*names, **how, rich_help_panel=o.group or None)
    return _keyword(_key(o), Annotated[kind if required else kind | None, info], inspect.Parameter.empty if required else None)


def _metavar(o: Option) -> str:
    if o.metavar or "bool" in o.kind:
        return o.metavar
    if o.kind.startswith("tuple"):
        return "FILE FILE" if o.kind.startswith("tuple[str, str]") else "A,B,..."
    return "N" if "int" in o.kind else "X" if "float" in o.kind else "NAME"


def _key(o: Option) -> str:
    return f"{o.name}_" if iskeyword(o.name) else o.name


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _switch(o: Option) -> str:
    """Return --this/--that where it is said so; else one that is off can be put on, and one that is on can be put off."""
    this, slash, that = (f"--{o.field}" if not o.flag else f"--{o.flag}").replace("_", "-").partition("/")
    if o.default is not True and not slash:
        return this
    return f"{this}/--{that or 'no-' + this[2:]}"


def _value(o: Option, value: Any) -> Any:
    """Return the value of a flag; metrics that we have may be written in any case, quality columns as the list has them."""
    if isinstance(value, str) and o.name in ("gain", "metric"):
        value = ",".join(name.lower() if name.lower() in METRICS else name for name in value.split(","))
    return o.parse(value) if isinstance(value, str) else value


# ---------------------------------------------------------------------------------------------------------------------
# Help
# ---------------------------------------------------------------------------------------------------------------------


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[__name__] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


_HELP = "Show this help; --help-all: with all settings"
HelpAll = Annotated[bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help=_HELP, rich_help_panel=COMMON)]


class _Command(TyperCommand):
    options: type

    @property
    def setting_names(self) -> set[str]:
        """Names that --set takes."""
        return {o.name for o in (*settings_of(self.options), *method_options(self.options))}

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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments as they are declared."""
        return ["[OPTIONS]", *(str(p.metavar) for p in self.get_params(ctx) if not p.opts[0].startswith("-"))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write flags under the headings that they declare, and with --help-all the settings."""
        groups: dict[str, list[tuple[str, str]]] = {FILES: []}
        parameters = self.get_params(ctx)
        for parameter in parameters:
            if parameter.name == "help" and any(p.name == "help_all" for p in parameters):
                continue  # one line for both
            is_file = not parameter.opts[0].startswith("-")
            heading = COMMON if parameter.name == "help" else FILES if is_file else "Options"
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or heading, []).append(_row(parameter))
        groups[COMMON] = groups.pop(COMMON)
        groups[FILES].sort(key=lambda row: row[0].startswith("-"))  # arguments first
        sections = [(heading, rows) for heading, rows in groups.items() if rows]
        if ctx.meta.get(__name__):
            own = settings_of(self.options)
            sections += [("Settings (--set NAME=VALUE)", describe(own))] if own else []
            for method, options in options_by_method(self.options).items():
                sections.append((f"Settings of {method} (--set NAME=VALUE)", describe(options)))
        for heading, rows in sections:
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=WIDEST)


def _long(parameter: Any) -> str:
    """Return what a flag or an argument is called in messages."""
    return next((name for name in parameter.opts if name.startswith("--")), parameter.metavar or parameter.opts[0])


def _row(parameter: Any) -> tuple[str, str]:
    """Return (flags, help) of a parameter."""
    if parameter.name == "help_all":
        return "-h, --help", parameter.help
    required = " [required]" if parameter.required else ""
    if not parameter.opts[0].startswith("-"):
        return parameter.metavar or parameter.name.upper(), (parameter.help or "").rstrip(".") + required
    value = "" if parameter.is_flag else f" {parameter.metavar or 'NAME'}"
    off = "".join(f"/{name}" for name in parameter.secondary_opts[:1])
    names = sorted(parameter.opts, key=lambda name: name.startswith("--"))  # the short one first
    return ", ".join(names) + off + value, (parameter.help or "").rstrip(".") + required
