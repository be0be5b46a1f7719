"""Values of flags without pydantic, which newer releases of typer import for every command: it takes longer than a short list.

What a flag's text plainly means (a word, a whole or decimal number within its bounds) is read here. All else, also errors,
is typer's.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBER = {int: re.compile(r"-?[0-9]{1,15}"), float: re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")}


def take_plain_values(parameters: list[Any]) -> list[Any]:
    """Parameters of a command, whose plain values are read here; with a typer that does otherwise nothing changes."""
    for parameter in parameters:
        if getattr(parameter, "_runtime_param", parameter) is None and hasattr(parameter, "type_descriptor"):
            parameter._runtime_param = _PlainValue()
    return parameters


class _PlainValue:
    """In place of a parameter's own conversion, which typer makes when it is first used."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        info, kind = param.type_descriptor.parameter_info, param.type_descriptor.annotation
        if getattr(info, "parser", None) is None and getattr(info, "click_type", None) is None:
            if several and kind == list[str] and isinstance(value, list | tuple) and all(type(v) is str for v in value):
                return list(value)
            if not several and kind is str and type(value) is str:
                return value
            if not several and kind in _NUMBER and (found := _number(kind, value, info.min, info.max)) is not None:
                return found
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _number(kind: Any, value: Any, least: float | None, most: float | None) -> Any:
    """The number that a text plainly is, None where it is none within the bounds."""
    if type(value) is str and _NUMBER[kind].fullmatch(value):
        value = kind(value)
    fits = type(value) is kind and (least is None or value >= least) and (most is None or value <= most)
    return value if fits else None
