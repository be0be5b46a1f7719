"""A mutant put into modules that are imported already: the code of its functions is exchanged.

A kernel that is mutated, and those that call it, become functions of Python in this process; Python calls all others compiled. What is
outside of functions (constants, defaults, decorators) cannot be exchanged: the mutated module has to be imported in place of its file.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).parents[2]
IS_FUNCTION = 0x2  # CO_NEWLOCALS


@dataclass(frozen=True)
class Exchange:
    """New code for the old of some functions of a module, by their qualified names."""

    module: str
    old: dict[str, CodeType]
    codes: dict[str, CodeType]

    @classmethod
    def of(cls, module: str, before: str, after: str) -> Exchange | None:
        """What makes the one source of the other; None where more than functions differ."""
        path = str(ROOT / f"boostfeat/{module}.py")
        old, new = compile(before, path, "exec"), compile(after, path, "exec")
        if _outside(old) != _outside(new):
            return None
        a, b = _functions(old), _functions(new)
        changed = [name for name in a if a[name] != b[name]]
        return cls(module, {name: a[name] for name in changed}, {name: b[name] for name in changed}) if changed else None

    def fits(self) -> bool:
        """Whether the functions are to be found under their names, with the very code that is to be exchanged."""
        try:
            return all(_resolve(self.module, name).__code__ == code for name, code in self.old.items())
        except (LookupError, AttributeError, TypeError):
            return False

    def put(self) -> None:
        """In a child: from now on the functions have the new code, and nothing is remembered of the old one's results."""
        for name, code in self.codes.items():
            _resolve(self.module, name).__code__ = code
        self.interpret()
        for loaded in list(sys.modules.values()):
            if getattr(loaded, "__name__", "").startswith("boostfeat"):
                for value in list(vars(loaded).values()):
                    with contextlib.suppress(Exception):
                        value.cache_clear()

    def interpret(self) -> None:
        """The kernels among them, and those that call them, run as Python (alone: what tests do without the new code)."""
        from boostfeat.core.kernels import KERNELS

        namespace = vars(importlib.import_module(module_name(self.module)))
        interpret([k for k in KERNELS if k.__name__ in self.codes and namespace.get(k.__name__) is k])

    def kernels(self) -> list[str]:
        """The kernels among the functions."""
        namespace = vars(importlib.import_module(module_name(self.module)))
        return [name for name in self.codes if type(namespace.get(name)).__name__ == "Kernel"]


def module_name(module: str) -> str:
    return "boostfeat." + module.replace("/", ".")


def interpret(kernels: Iterable[Any]) -> None:
    """These kernels and all that call them become functions of Python, down to what they call: a compiled kernel would give them
    numbers of Python where they expect numpy's.
    """
    import numpy as np

    from boostfeat.core.kernels import KERNELS

    plain = set(map(id, kernels))
    while more := [k for k in KERNELS if id(k) not in plain and any(id(other) in plain for other in k._called().values())]:
        plain |= set(map(id, more))
    done: dict[int, Callable[..., Any]] = {}

    def python(kernel: Any) -> Callable[..., Any]:
        if id(kernel) not in done:
            done[id(kernel)] = kernel._with_globals({name: python(other) for name, other in kernel._called().items()})
        return done[id(kernel)]

    for kernel in KERNELS:
        if id(kernel) in plain:
            kernel._compiled = np.errstate(all="ignore")(python(kernel))


def _functions(code: CodeType) -> dict[str, CodeType]:
    """Functions and methods by their qualified names; those within them are theirs."""
    out: dict[str, CodeType] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and not inner.co_name.startswith("<"):
            out |= {inner.co_qualname: inner} if inner.co_flags & IS_FUNCTION else _functions(inner)
    return out


def _outside(code: CodeType) -> Any:
    """What a module or class does, without the insides of its functions."""
    parts: list[Any] = []
    for value in code.co_consts:
        if not isinstance(value, CodeType):
            parts.append((type(value), repr(value)))
        elif value.co_name.startswith("<"):  # a lambda, a comprehension
            parts.append(value)
        else:
            parts.append(value.co_qualname if value.co_flags & IS_FUNCTION else _outside(value))
    return code.co_code, code.co_names, tuple(parts)


def _resolve(module: str, name: str) -> FunctionType:
    """The function of this name, out of whatever wraps it."""
    found: Any = importlib.import_module(module_name(module))
    for part in name.split("."):
        found = vars(found)[part]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        for inner in ("py_func", "fget", "__func__", "func", "__wrapped__"):
            if hasattr(found, inner):
                found = getattr(found, inner)
                break
        else:
            raise LookupError(name)
    return found
