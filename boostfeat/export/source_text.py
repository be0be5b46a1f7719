"""The source of functions and classes with all that they use, as text that stands alone."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..core.errors import InputError


class SourceText:
    """Sources by name, and the imports and constants that they need; whatever they use is added with them."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {"annotations": "from __future__ import annotations"}
        self.constants: dict[str, str] = {}
        self.definitions: dict[str, str] = {}

    @property
    def text(self) -> str:
        """All of it, in an order that Python can read."""
        first, *imports = dict.fromkeys(self.imports.values())
        lines = [first, "", *sorted(imports), "", *(f"{name} = {text}" for name, text in self.constants.items())]
        return "\n".join(lines) + "\n\n\n" + "\n\n\n".join(self.definitions.values()) + "\n"

    def add(self, *classes: type) -> None:
        """Add classes."""
        for each in classes:
            self._add_value(each.__name__, each, "")

    def add_function(self, function: Callable[..., Any], template: str) -> str:
        """Add the function of a template without what decorates it, and return its name."""
        function = inspect.unwrap(function)
        source = textwrap.dedent(inspect.getsource(function))
        if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
            raise InputError(f"template {template!r}: expected a function with a name, found {function!r}; write it with def")
        self._define(function.__name__, source[source.index("def ") :], template)
        self._add_used(function.__code__, function.__globals__, template)
        return function.__name__

    def add_name(self, name: str, statement: str) -> None:
        """Add an import."""
        self.imports[name] = statement

    def _define(self, name: str, text: str, template: str) -> None:
        text = text.rstrip()
        if self.definitions.setdefault(name, text) != text:
            raise InputError(f"template {template!r}: two functions have the name {name!r}; rename one of them")

    def _add_value(self, name: str, value: Any, template: str) -> None:
        """Add what a global name stands for."""
        inner = inspect.unwrap(value) if callable(value) else value
        module = value.__name__ if isinstance(value, ModuleType) else getattr(inner, "__module__", "") or ""
        if name in self.definitions or name in self.imports or name in self.constants:
            return
        if isinstance(value, re.Pattern):
            self.imports["re"] = "import re"
            self.constants[name] = f"re.compile({value.pattern!a}, {int(value.flags)})"
        elif module.partition(".")[0] in sys.stdlib_module_names:
            name_there = getattr(inner, "__name__", name)
            is_module = isinstance(value, ModuleType)
            self.imports[name] = f"import {module}" if is_module else f"from {module.lstrip('_')} import {name_there}"
        elif isinstance(inner, FunctionType | type) and not is_foreign(inner):
            source = textwrap.dedent(inspect.getsource(inner))
            self._define(name, source, template)
            namespace = sys.modules[module].__dict__ if isinstance(inner, type) else inner.__globals__
            for used in header_names(source):
                self._add_global(used, namespace, template)
            for function in written_functions(inner):
                self._add_used(function.__code__, namespace, template)
        elif is_literal(value):
            self.constants[name] = ascii(value)
        else:
            raise InputError(f"template {template!r}: it uses {name!r}, which only its program has; write it with Python alone")

    def _add_used(self, code: CodeType, namespace: dict[str, Any], template: str) -> None:
        for name in sorted(global_names(code)):
            self._add_global(name, namespace, template)

    def _add_global(self, name: str, namespace: dict[str, Any], template: str) -> None:
        if name in namespace:
            self._add_value(name, namespace[name], template)
        elif not hasattr(builtins, name):
            raise InputError(f"template {template!r}: it uses {name!r}, which is not known; correct it")


def is_foreign(value: Any) -> bool:
    """Tell whether a function or class is of a package that is neither this one nor a user's file."""
    try:
        path = inspect.getsourcefile(value) or ""
    except TypeError:
        return True
    return "site-packages" in path or "dist-packages" in path


def written_functions(value: Any) -> list[FunctionType]:
    """Return a function, or those of a class that stand in its source: a dataclass has others."""
    if isinstance(value, FunctionType):
        return [value]
    functions = (getattr(each, "fget", each) for each in vars(value).values())
    path = inspect.getsourcefile(value)
    return [each for each in functions if isinstance(each, FunctionType) and each.__code__.co_filename == path]


def is_literal(value: Any) -> bool:
    """Tell whether the text of a value gives it again."""
    try:
        return bool(ast.literal_eval(ascii(value)) == value)
    except (ValueError, SyntaxError):
        return False


def global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function uses, functions inside it included."""
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(each.argval)
        if isinstance(each.argval, CodeType):
            yield from global_names(each.argval)


def header_names(source: str) -> list[str]:
    """Return the names that a definition needs when it is made: of decorators, base classes and defaults, not of annotations."""
    (definition,) = ast.parse(source).body
    parts: list[ast.AST | None] = []
    if isinstance(definition, ast.ClassDef):
        parts += [*definition.decorator_list, *definition.bases]
        parts += [node.value for node in definition.body if isinstance(node, ast.AnnAssign | ast.Assign)]
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef):
            parts += [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
    walked = (node for part in parts if part is not None for node in ast.walk(part))
    return [node.id for node in walked if isinstance(node, ast.Name)]
