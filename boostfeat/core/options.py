"""Options as data: a field declares its default, help, bounds and symbol once, and everything else is made from that.

    @dataclass(frozen=True)
    class Kbmira:
        c: float = option(0.01, "Largest step", above=0, symbol="C")

        def __post_init__(self) -> None:
            check(self)

From it come the check (``check``), the flag (boostfeat.cli.flags), NAME=VALUE of ``--set`` (``typed``), changes of a recipe
(``changed``), ``--help-all`` (``describe``) and the parameter of the estimator. A dataclass in a field is a part: its options are
the whole's too. Standard library only: ``boostfeat --help`` reads the options of all commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from math import inf, isfinite
from typing import Any, TypeVar

from .errors import InputError, clip, unknown_name

MOST = 2**31 - 1  # of a whole number that says nothing else: kernels count in 64 bits, and products of two fit
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """What a field declares. ``name`` is what people type, ``field`` what Python and files say; mostly they are the same."""

    help: str
    above: float | None = None
    least: float | None = None
    most: float | None = None  # inf: infinity is a value like others
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # values beside numbers, such as auto
    symbol: str = ""  # the paper's
    flag: str = ""  # name, or on/off of a switch; default: the field's name
    was: tuple[str, ...] = ()  # other names that are accepted; one of a letter is short: -r
    group: str = ""  # heading in --help
    rare: bool = False  # in --help-all only
    field: str = ""
    kind: str = ""  # the annotation
    default: Any = None

    @property
    def name(self) -> str:
        return self.flag.partition("/")[0] or self.field

    @property
    def names(self) -> tuple[str, ...]:
        """All that is accepted, the name first."""
        return tuple(dict.fromkeys((self.name, self.field, *self.was)))

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value: "expected ..., found ..."; None if nothing is."""
        if isinstance(value, str) and self.words:
            return None if value in self.words else f"expected {self.expected}, found {value!r}"
        numbers = {"int", "float"} & {kind.strip() for kind in self.kind.split("|")}
        if isinstance(value, str) and numbers:
            return f"expected {self.expected}, found {value!r}"
        if value is None or isinstance(value, bool | str | tuple | list):
            return None
        if numbers == {"int"} and isfinite(value) and value % 1:
            return f"expected a whole number, found {value}"
        if value == inf and self.most != inf:
            return "expected a finite number, found inf"
        fine = (isfinite(value) or (self.most == inf and value == inf)) and not (
            (self.above is not None and value <= self.above)
            or (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
        )
        if fine and isinstance(value, int) and self.most is None and abs(value) > MOST:
            return f"expected {MOST} or less, found {value}"
        return None if fine else f"expected {self.expected}, found {value}"

    @property
    def expected(self) -> str:
        return ", or ".join((*self.words, self._numbers))

    @property
    def _numbers(self) -> str:
        low = self.above if self.least is None else self.least
        if low is None:
            return "a finite number" if self.most in (None, inf) else f"{self.most:g} or less"
        if self.most in (None, inf):
            return f"a number above {low:g}" if self.least is None else f"{low:g} or more"
        return f"a number above {low:g} up to {self.most:g}" if self.least is None else f"a number from {low:g} to {self.most:g}"

    def parse(self, text: str) -> Any:
        """The value that a text stands for, of the type that the field declares."""
        kinds = [kind.strip() for kind in self.kind.split("|")]
        if "None" in kinds and text.lower() == "none":
            return None
        if text in self.words:
            return text
        try:
            if "bool" in kinds:
                return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
            if self.kind.startswith("tuple"):
                return comma_list(text)
            return int(text) if "int" in kinds else float(text) if "float" in kinds else text
        except (ValueError, KeyError):
            what = self.expected if self.words else self.kind
            raise InputError(f"--set {self.name}: expected {what}, found {clip(text)}; give another") from None


class OptionError(InputError):
    """A value that an option does not take; the command line names the flag in place of the field."""

    def __init__(self, option: Option, problem: str) -> None:
        self.option, self.problem = option, problem
        super().__init__(f"{option.field}: {problem}")


def option(
    default: Any,
    help: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    choices: Iterable[str] = (),
    words: Iterable[str] = (),
    symbol: str = "",
    flag: str = "",
    was: Iterable[str] = (),
    group: str = "",
    rare: bool = False,
) -> Any:
    """A field of a dataclass that is an option."""
    declared = Option(help, above, least, most, tuple(choices), tuple(words), symbol, flag, tuple(was), group, rare)
    return field(default=default, metadata={"option": declared})


def same(cls: type, name: str, default: Any = MISSING, **changes: Any) -> Any:
    """The option of another class as a field here too, declared there; with another default, or what else is given."""
    there = named(cls)[name]
    return field(default=there.default if default is MISSING else default, metadata={"option": replace(there, **changes)})


@cache
def options_of(cls: Any) -> tuple[Option, ...]:
    """The options of a dataclass, those of its parts included."""
    out: list[Option] = []
    for f in fields(cls):
        if isinstance(f.default_factory, type) and is_dataclass(f.default_factory):
            out += options_of(f.default_factory)
        elif "option" in f.metadata:
            out.append(replace(f.metadata["option"], field=f.name, kind=str(f.type), default=f.default))
    return tuple(out)


@cache
def named(cls: Any) -> Mapping[str, Option]:
    """Options by every name that is accepted; a name of today means what it says today, though another had it before."""
    found = options_of(cls)
    old = {name: o for o in found for name in o.was}
    return {**old, **{o.field: o for o in found}, **{o.name: o for o in found}}


def check(options: Any) -> None:
    """Raise for the first value that its option does not take: what every ``__post_init__`` calls."""
    cls: Any = type(options)
    own = {f.name for f in fields(options)}  # parts have checked themselves
    for o in (o for o in options_of(cls) if o.field in own):
        value = getattr(options, o.field)
        if o.choices and value is not None and value not in o.choices:
            raise unknown_name(o.field, value, o.choices)
        if problem := o.problem(value):
            raise OptionError(o, problem)


def typed(cls: type, settings: Iterable[str]) -> dict[str, Any]:
    """Values by field from texts NAME=VALUE; a name that the class does not know is an error that lists those it does."""
    known, out = named(cls), {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"--set: expected NAME=VALUE, found {text!r}")
        if (key := name.replace("-", "_")) not in known:
            names = ", ".join(o.name for o in options_of(cls))
            raise InputError(f"--set {name}: expected one of {names}; found none of that name")
        out[known[key].field] = known[key].parse(value)
    return out


def changed(options: T, changes: Mapping[str, Any]) -> T:
    """A dataclass with other values of some options, of its parts too, by any of their names."""
    cls: Any = type(options)
    known = named(cls)
    values = {known[name].field: value for name, value in changes.items()}

    def part(of: Any) -> Any:
        new = {f.name: values[f.name] for f in fields(of) if f.name in values and "option" in f.metadata}
        inner = {f.name: part(value) for f in fields(of) if is_dataclass(value := getattr(of, f.name))}
        return replace(of, **inner, **new)

    result: T = part(options)
    return result


def describe(cls: type) -> list[tuple[str, str]]:
    """(name, help) of every option: what it is, the paper's symbol, what it takes and its default."""
    return [(o.name, describe_option(o)) for o in options_of(cls)]


def describe_option(o: Option) -> str:
    """The help of an option with its symbol, and in brackets its default, what it takes and its older names."""
    takes = ", ".join(o.choices) or (o.expected if (o.above, o.least, o.most) != (None, None, None) else "")
    notes = "; ".join(note for note in (default_text(o), takes, ", ".join(f"was {name}" for name in o.names[1:])) if note)
    return titled(o) + (f"  [{notes}]" if notes else "")


def default_text(o: Option) -> str:
    """The default as people type it; nothing where there is none."""
    if o.default in (None, ()) or o.default is MISSING:
        return ""
    if isinstance(o.default, bool):
        return "yes" if o.default else "no"
    return f"{o.default:g}" if isinstance(o.default, float) else str(o.default)


def titled(o: Option) -> str:
    """The help with the paper's symbol."""
    return f"{o.help} ({o.symbol})" if o.symbol else o.help


def comma_list(text: str | None) -> tuple[str, ...]:
    """The parts of a list by commas; none where there is no text."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()
