"""Options as data: a field declares its default, help, bounds and symbol once, and everything else is made from that.

    @dataclass(frozen=True)
    class Kbmira:
        c: float = option(0.01, "Largest step", above=0, symbol="C")

        def __post_init__(self) -> None:
            check(self)

From it come the check (``check``), the flag (boostfeat.cli.flags), NAME=VALUE of ``--set`` (``typed``), changes of a recipe
(``changed``), ``--help-all`` (``describe``) and the parameter of the estimator. A dataclass in a field is a part: its options are
the whole's too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from math import inf, isfinite
from typing import Any, TypeVar

from .errors import InputError, clip, unknown_name

MOST = 2**31 - 1  # of a whole number that says nothing else: kernels count in 64 bits, and products of two fit
T = TypeVar("T")


REQUIRED = MISSING  # default of an option that has to be given


@dataclass(frozen=True)
class Option:
    """Declaration of a field. ``name`` is what people type, ``field`` what Python and files say; mostly they are the same."""

    help: str
    above: float | None = None
    least: float | None = None
    most: float | None = None  # inf: infinity is a value like others
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # values beside numbers, such as auto
    symbol: str = ""  # the paper's
    flag: str = ""  # name, or on/off of a switch; default: the field's name
    short: str = ""  # one letter: -o
    metavar: str = ""  # place of the value in the help; by the kind where nothing is said
    group: str = ""  # heading in --help
    rare: bool = False  # a setting: --set NAME=VALUE, shown by --help-all
    needs: tuple[str, ...] = ()  # flags, NAME or NAME=VALUE, of which one has to be given for this one to count
    without: tuple[str, ...] = ()  # flags beside which this one would not count
    is_argument: bool = False  # given by its place, without a flag
    field: str = ""
    kind: str = ""  # the annotation
    default: Any = None

    @property
    def name(self) -> str:
        return self.flag.partition("/")[0] or self.field

    @property
    def typed_name(self) -> str:
        """The name as messages and the command line have it."""
        return self.metavar if self.is_argument else f"{'--set ' if self.rare else '--'}{self.name.replace('_', '-')}"

    @property
    def is_repeatable(self) -> bool:
        return self.kind.startswith(("list[", "Sequence["))

    @property
    def _kinds(self) -> set[str]:
        return {kind.strip() for kind in self.kind.split("|")}

    def problem(self, value: Any) -> str | None:
        """Say what is wrong with a value ("expected ..., found ..."); None if nothing is."""
        numbers = {"int", "float"} & self._kinds
        if isinstance(value, str):
            is_wrong = value not in self.words if self.words else bool(numbers)
            return f"expected {self.expected}, found {value!r}" if is_wrong else None
        if value is None or isinstance(value, bool | tuple | list):
            return None
        if numbers == {"int"} and isfinite(value) and value % 1:
            return f"expected a whole number, found {value}"
        if value == inf and self.most != inf:
            return "expected a finite number, found inf"
        if isinstance(value, int) and self.most is None and abs(value) > MOST:
            return f"expected {MOST} or less, found {value}"
        is_above = value > (-inf if self.above is None else self.above)
        is_within = value >= (-inf if self.least is None else self.least) and value <= (inf if self.most is None else self.most)
        return None if is_above and is_within else f"expected {self.expected}, found {value}"

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
        """Return the value that a text stands for, of the type that the field declares."""
        kinds = self._kinds
        if "None" in kinds and {"int", "float"} & kinds and text.lower() == "none":
            return None
        if text in self.words:
            return text
        try:
            if "bool" in kinds:
                return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
            if self.kind.startswith("tuple"):
                return comma_list(text)
            if self.is_repeatable:
                return [text]
            if "int" in kinds or "float" in kinds:
                return int(text) if "int" in kinds else float(text)
            return next((choice for choice in self.choices if choice.lower() == text.lower()), text)
        except (ValueError, KeyError):
            kind = "a whole number" if "int" in kinds else "a number"
            what = "yes or no" if "bool" in kinds else self.expected if self.has_bounds or self.words else kind
            raise OptionError(self, f"expected {what}, found {clip(text)}") from None

    @property
    def has_bounds(self) -> bool:
        return (self.above, self.least, self.most) != (None, None, None)


class OptionError(InputError):
    """Error about a value that an option does not take; the command line names the flag in place of the field."""

    def __init__(self, option: Option, problem: str) -> None:
        self.option, self.problem = option, problem
        super().__init__(f"{option.field}: {problem}")


def option(default: Any, help: str, **declared: Any) -> Any:
    """Return a field of a dataclass that is an option, declared as ``Option`` has it; a single name may be a string there."""
    for key in declared.keys() & {"choices", "needs", "without"}:
        declared[key] = (declared[key],) if isinstance(declared[key], str) else tuple(declared[key])
    return field(default=default, metadata={"option": Option(help, **declared)})


def argument(metavar: str, help: str, default: Any = REQUIRED) -> Any:
    """Return a field that the command line takes by its place."""
    return field(default=default, metadata={"option": Option(help, metavar=metavar, is_argument=True)})


def methods(classes: Mapping[str, type], *, are_flags: bool = True, defaults: Mapping[str, Any] = {}) -> Any:
    """Return a field for {name: value} of the options used, of all methods; ``classes`` has the options of each.

    Those that are not rare are flags, or settings like the others (``are_flags``). ``defaults`` has instances of methods that
    have other defaults in this command than in their class: the help shows them.
    """
    return field(default_factory=dict, metadata={"methods": classes, "are_flags": are_flags, "defaults": defaults})


def same(cls: type, name: str, default: Any = MISSING, **changes: Any) -> Any:
    """Return a field with the option of another class, declared there; with another default, or what else is given."""
    there = named(cls)[name]
    return field(default=there.default if default is MISSING else default, metadata={"option": replace(there, **changes)})


def part_of(f: Field[Any]) -> Any:
    """Return the dataclass of a field that is a part, else None."""
    return f.default_factory if isinstance(f.default_factory, type) and is_dataclass(f.default_factory) else None


@cache
def options_of(cls: Any) -> tuple[Option, ...]:
    """Return the options of a dataclass and of its parts, those that it declares itself before those that it inherits."""
    inherited = {f.name for base in cls.__bases__ if is_dataclass(base) for f in fields(base)}
    out: list[Option] = []
    for f in sorted(fields(cls), key=lambda f: f.name in inherited):
        if (part := part_of(f)) is not None:
            out += options_of(part)
        elif "option" in f.metadata:
            out.append(replace(f.metadata["option"], field=f.name, kind=str(f.type), default=f.default))
    return tuple(out)


@cache
def named(cls: Any) -> Mapping[str, Option]:
    """Return options by the name of their field and by the name that people type, which comes first."""
    options = options_of(cls)
    return {**{o.field: o for o in options}, **{o.name: o for o in options}}


def check(options: Any) -> None:
    """Raise for the first value that its option does not take; every ``__post_init__`` calls this."""
    cls: Any = type(options)
    own = {f.name for f in fields(options)}  # parts have checked themselves
    for o in (o for o in options_of(cls) if o.field in own):
        value = getattr(options, o.field)
        if o.choices and value is not None and value not in o.choices:
            raise unknown_name(o.field, value, o.choices)
        if problem := o.problem(value):
            raise OptionError(o, problem)


class Checked:
    """A dataclass of options that are checked when they are made."""

    def __post_init__(self) -> None:
        check(self)


NOTHING: Mapping[str, Any] = {}


def typed(cls: type, settings: Iterable[str], also: Iterable[str] = (), *, given: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Return values by field from texts NAME=VALUE; an error about an unknown name lists the options, and ``also`` others.

    What would do nothing is refused, also of the values that flags have ``given``.
    """
    options = options_of(cls)
    values = {o.name: o for o in options}
    found = read_settings(options, settings)
    unknown = [name for name in found if name not in values]
    if unknown:
        names = ", ".join(name.replace("_", "-") for name in dict.fromkeys([*values, *also]))
        raise InputError(f"--set {unknown[0].replace('_', '-')}: there is no such setting; choose from {names}")
    refuse_idle(options, {**given, **found})
    return {values[name].field: value for name, value in found.items()}


def refuse_idle(options: Iterable[Option], used: Mapping[str, Any]) -> None:
    """Raise for an option that does nothing: nothing that it needs is given, or something that takes its place."""
    defaults, typed = {o.name: o.default for o in options}, {o.name: o.typed_name for o in options}
    for o in (o for o in options if o.name in used):
        needs = [need for need in o.needs if need.partition("=")[0] in typed]  # a command may lack some
        if needs and not any(_is_met(need, {**defaults, **used} if "=" in need else used) for need in needs):
            raise InputError(f"{o.typed_name} does nothing without {' or '.join(_shown(n, typed) for n in needs)}; leave it out")
        for other in o.without:
            if _is_met(other, used):
                raise InputError(f"{o.typed_name} does not go with {_shown(other, typed)}; leave one of them out")


def _is_met(need: str, values: Mapping[str, Any]) -> bool:
    name, equals, wanted = need.partition("=")
    value = values.get(name)
    return value == wanted if equals else value not in (None, REQUIRED, ()) and value is not False


def _shown(need: str, typed: Mapping[str, str]) -> str:
    name, equals, value = need.partition("=")
    return f"{typed[name]} {value}" if equals else typed[name]


def read_settings(options: Iterable[Option], settings: Iterable[str]) -> dict[str, Any]:
    """Return the values of texts NAME=VALUE by name, typed as these options say; text where no option has the name."""
    by_name = {o.name: o for o in options}
    out: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"--set: expected NAME=VALUE, found {text!r}")
        key = name.replace("-", "_")
        o = by_name.get(key)
        if o is None:
            out[key] = value
        elif o.is_repeatable:
            out[key] = [*out.get(key, []), value]
        else:
            out[key] = o.parse(value)
    return out


def changed(options: T, changes: Mapping[str, Any]) -> T:
    """Return a dataclass with other values of some options, of its parts too, by any of their names."""
    cls: Any = type(options)
    by_name = named(cls)
    values = {by_name[name].field: value for name, value in changes.items()}

    def part(of: Any) -> Any:
        new = {f.name: values[f.name] for f in fields(of) if f.name in values and "option" in f.metadata}
        inner = {f.name: part(value) for f in fields(of) if is_dataclass(value := getattr(of, f.name))}
        return replace(of, **inner, **new)

    result: T = part(options)
    return result


def comma_list(text: str | None) -> tuple[str, ...]:
    """Return the parts of a list by commas; none where there is no text."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()
