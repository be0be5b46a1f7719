"""Mutants of a module: cosmic-ray's operators, less those that any test kills and those that change nothing.

Left out: arithmetic made bitwise and back (a TypeError on floats), orderings made ``is``, signs other than left out, decorators
(numba's change speed, not results), annotations and ``if TYPE_CHECKING`` (never evaluated), the stars of parameters and arguments, numbers too
large for 1 to matter, the default number of threads and how many a pool has (results do not depend on them, and tests say so),
``strict`` of zip (an assertion: where lengths can differ, another line says so first), exceptions that are no plain names (cosmic-ray
cannot replace them), equality with a name in quotes made an order of the alphabet (``how < "auto"`` is nobody's fault, and whether
a test sees it hangs on the other names), lengths compared as if they could be below 0, or a set's above its list's.
Put in: ``x += y`` made ``x -= y``, which it lacks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator, operator_names

BITWISE = {"BitAnd", "BitOr", "BitXor", "LShift", "RShift"}
SIGNS = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|="}
UNPACKING = {"parameters", "param", "argument", "arglist", "dictorsetmaker"}  # where cosmic-ray takes stars for operators


class AugmentedAssignment(Operator):
    """``x += y`` to ``x -= y`` and the like."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if isinstance(node, parso.python.tree.Operator) and node.value in SIGNS:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        node.value = SIGNS[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x += y", "x -= y"),)


def _wanted(name: str) -> bool:
    kind, *parts = name.removeprefix("core/").split("_")
    if kind == "ReplaceBinaryOperator":
        return (parts[0] in BITWISE) == (parts[1] in BITWISE)
    if kind == "ReplaceComparisonOperator":
        return ("Is" in parts[0]) == ("Is" in parts[1])
    if kind == "ReplaceUnaryOperator":
        return parts[0] == "Delete"
    return kind not in ("RemoveDecorator", "VariableInserter", "VariableReplacer")


OPERATORS: dict[str, Operator] = {n.removeprefix("core/"): get_operator(n)() for n in sorted(operator_names()) if _wanted(n)}
OPERATORS["AugmentedAssignment"] = AugmentedAssignment()


@dataclass(frozen=True)
class Mutant:
    module: str  # as in boostfeat/tuners/mert.py: tuners/mert
    operator: str
    occurrence: int  # of the operator in the module
    line: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.module, self.operator, self.occurrence

    def source(self, original: str) -> str:
        """The mutated module."""
        changed: str | None = mutate_code(original, OPERATORS[self.operator], self.occurrence)
        assert changed is not None, self
        return changed

    def compiles(self, original: str) -> bool:
        """Whether it is Python at all: cosmic-ray writes ``if not x := y``."""
        try:
            ast.parse(self.source(original))
        except SyntaxError:
            return False
        return True

    def change(self, original: str) -> tuple[str, str]:
        """The line before and after."""
        lines = zip(original.splitlines(), self.source(original).splitlines(), strict=True)
        return next((a.strip(), b.strip()) for a, b in lines if a != b)


def mutants_of(module: str, path: Path) -> list[Mutant]:
    """All mutants of a module, in the order of operators and places."""
    return mutants_in(path.read_text(), module)


def mutants_in(source: str, module: str) -> list[Mutant]:
    """The same of its text."""
    plain = ast.parse(source)
    tree, dead, same = get_ast(source), _annotations(plain), _same_comparisons(plain)
    nodes = list(ast_nodes(tree))
    out = []
    for name, operator in OPERATORS.items():
        count = 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                bare_star = (
                    node.parent is not None and node.parent.type in UNPACKING and getattr(node, "value", "") in ("*", "**")
                )
                huge = name == "NumberReplacer" and abs(ast.literal_eval(node.value)) > 2**53
                no_name = name == "ExceptionReplacer" and _is_no_name(node, start)
                idle = any(a <= start < b and name.endswith(pairs) for a, b, pairs in same)
                mutant = Mutant(module, name, count, start[0])
                if not idle and not bare_star and not huge and not no_name and not any(a <= start < b for a, b in dead):
                    out.append(mutant)
                count += 1
    return out


def _is_no_name(clause: Any, start: tuple[int, int]) -> bool:
    """Whether an exception of an ``except`` is one like zlib.error or *KINDS."""
    nodes = [node for node in ast_nodes(clause) if node.start_pos == start and node.type != "operator"]
    return not all(node.type in ("name", "testlist_comp") for node in nodes)


def _annotations(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Spans ((line, column), (line, column)) of annotations, decorators, imports for type checkers, numbers of threads and zip's strict."""
    nodes: list[Any] = []
    for node in ast.walk(tree):
        nodes += [getattr(node, "annotation", None), getattr(node, "returns", None), *getattr(node, "decorator_list", [])]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes.append(node)
        called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        if called == "ThreadPoolExecutor":
            nodes += node.args
        if called == "zip":
            nodes += [keyword.value for keyword in node.keywords if keyword.arg == "strict"]
        if isinstance(node, ast.arguments):
            named = zip(reversed([*node.posonlyargs, *node.args]), reversed(node.defaults), strict=False)
            pairs = [*named, *zip(node.kwonlyargs, node.kw_defaults, strict=True)]
            nodes += [default for arg, default in pairs if arg.arg == "threads"]
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in nodes if n is not None]


def _same_comparisons(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int], tuple[str, ...]]]:
    """Places of comparisons, and the replacements there that are no faults, as cosmic-ray names them."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for left, right in pairwise([node.left, *node.comparators]):
                a, b = ast.unparse(left), ast.unparse(right)
                found: list[str] = []
                if any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", 0), str) for side in (left, right)):
                    found = [f"{old}_{new}" for old in ("Eq", "NotEq") for new in ("Lt", "LtE", "Gt", "GtE")]
                elif (b == "0" and (a.startswith("len(") or a.endswith((".size", ".ndim")))) or b == f"len(set({a[4:-1]}))":
                    found = ["Eq_LtE", "NotEq_Gt", "Gt_NotEq", "LtE_Eq"]
                elif a == f"len(set({b[4:-1]}))":
                    found = ["Eq_GtE", "NotEq_Lt", "Lt_NotEq", "GtE_Eq"]
                place = (left.end_lineno or 0, left.end_col_offset or 0), (right.lineno, right.col_offset)
                out.append((*place, tuple(f"ReplaceComparisonOperator_{pair}" for pair in found)))
    return [row for row in out if row[2]]
