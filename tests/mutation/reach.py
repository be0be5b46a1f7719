"""Which tests reach which functions of the package, and how long they take: kept in a file, renewed for files of tests that change."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

from cpu_limit import late as skip_test
from exchange import ROOT
from session import Session, Tell, Test, child, run_pytest

LONGEST = 30.0  # CPU seconds of a test, traced: one that takes longer is left out
BUDGET = 25.0  # CPU seconds of tests, traced, that a mutant meets at most
WHOLE = ("test_declared", "test_transcript", "whole")  # tests that compare whole results
FAR = "tests/distributed/"  # their work is done in processes that no mutant reaches, each of which would compile all kernels anew


class Reach:
    """Seconds of tests, and tests by module and function."""

    def __init__(self, files: dict[str, Any]) -> None:
        self.seconds: dict[str, float] = {}
        self.tests: dict[tuple[str, str], set[str]] = {}
        self.at_import: set[tuple[str, str]] = set()  # functions that run when modules or files of tests are imported
        self.packages: set[str] = set()  # installed ones that tests import
        for found in files.values():
            self.seconds |= found["seconds"]
            for module, functions in found["reach"].items():
                for function, nodes in functions.items():
                    self.tests.setdefault((module, function), set()).update(nodes)
            self.at_import |= {(module, function) for module, function in found["at_import"]}
            self.packages |= set(found["packages"])

    def tests_for(self, module: str, line: int) -> list[Test]:
        """Tests that reach the function of this line, quickest first (of a file together, for its fixtures), within the budget.

        Outside functions, and of a function that none seems to reach (coverage does not see into forks): all that reach the
        module. Tests of whole results have their place in the budget first, then those of the module's own package.
        """
        name = function_at(module, line)
        nodes = self.tests.get((module, name), set())
        nodes = nodes or {node for (other, _), found in self.tests.items() if other == module for node in found}
        if not name:
            nodes = nodes | {
                node for node in self.seconds if "test_declared" in node
            }  # names, defaults and bounds of all options
        own, out, total = f"tests/{module.split('/')[0]}/", list[Test](), 0.0
        rank = {n: (not any(w in n for w in WHOLE), not n.startswith(own), self.seconds[n], n) for n in nodes}
        for node in sorted(nodes, key=rank.__getitem__):
            if total + self.seconds[node] <= BUDGET:
                total += self.seconds[node]
                out.append((node, self.seconds[node]))
        return sorted(out, key=lambda test: (int(test[1] / 0.1).bit_length(), not test[0].startswith(own), test[0]))


def function_at(module: str, line: int) -> str:
    """The qualified name of the outermost function around a line; '' outside of functions, and for defaults of theirs."""
    return _functions(module).get(line, "")


@cache
def _functions(module: str) -> dict[int, str]:
    out: dict[int, str] = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                out.update(dict.fromkeys(range(inner.body[0].lineno, (inner.end_lineno or 0) + 1), prefix + inner.name))
            else:
                walk(inner, f"{prefix}{inner.name}." if isinstance(inner, ast.ClassDef) else prefix)

    walk(ast.parse((ROOT / f"boostfeat/{module}.py").read_text()), "")
    return out


def known_reach(path: Path, jobs: int) -> Reach:
    """From a file, after the tests that are new or have changed were run."""
    files: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    names = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "tests").rglob("test_*.py"))]
    names = [name for name in names if not name.startswith(FAR)]
    digests = {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names}
    files = {name: files[name] for name in names if name in files}
    todo = [name for name in names if files.get(name, {}).get("digest") != digests[name]]

    def heard(found: dict[str, Any]) -> None:
        name, left = found["name"], found["left"]
        files[name] = {"digest": digests[name], **found}
        path.write_text(json.dumps(files))
        more = f"; left out: {', '.join(left)}" if left else ""
        print(f"# {name}: {len(found['seconds'])} tests, {sum(found['seconds'].values()):.0f} s{more}", file=sys.stderr)

    with ThreadPoolExecutor(jobs) as pool:
        parts = [part for k in range(jobs) if (part := todo[k::jobs])]
        list(pool.map(lambda part: child(lambda folder, tell: _measure(part, tell), heard, inf), parts))
    if missing := [name for name in todo if name not in files]:
        raise SystemExit(f"these tests do not run: {' '.join(missing)}")
    return Reach(files)


def _measure(names: Sequence[str], tell: Tell) -> None:
    """In a child: collect these files of tests, and trace each in a child of its own."""
    tracer = _tracer()

    def use(session: Session) -> None:
        tracer.stop()
        at_import = [(m, f) for m, functions in _by_function(tracer).items() for f in functions if f]
        packages = [
            n for n, m in sys.modules.items() if "site-packages" in str(getattr(m, "__file__", "")) and "boostfeat" not in n
        ]
        for name in names:
            nodes = [node for node in session.items if node.startswith(f"{name}::")]
            found: list[dict[str, Any]] = []
            child(lambda folder, tell, nodes=nodes: tell(_traced(session, nodes, folder)), found.append)
            [result] = found or [{"seconds": {}, "reach": {}, "left": nodes}]
            tell({"name": name, "at_import": at_import, "packages": packages, **result})

    tracer.start()
    run_pytest(names, Session(use))


def _tracer() -> Any:
    import coverage

    return coverage.Coverage(data_file=None, include=[str(ROOT / "boostfeat/*")], config_file=False, messages=False)


def _traced(session: Session, nodes: Sequence[str], folder: Path) -> dict[str, Any]:
    """In a child: the seconds of these tests and the functions that they reach; kernels are seen where Python calls them."""
    from boostfeat.core.kernels import Kernel

    tracer, called, left, node = _tracer(), dict[str, set[Kernel]](), set[str](), ""
    plain = Kernel.__call__

    def call(kernel: Kernel, *arguments: Any) -> Any:
        called.setdefault(node, set()).add(kernel)
        return plain(kernel, *arguments)

    def late(number: int, frame: FrameType | None) -> None:
        left.add(node)
        skip_test(number, frame)

    Kernel.__call__ = call  # type: ignore[method-assign]
    with tracer.collect():
        for node in session.run(nodes, folder, lambda node: LONGEST, late):
            tracer.switch_context(node)
    reach = _by_function(tracer)
    for node, found in called.items():
        for kernel in _with_called(found):
            module = kernel.py_func.__module__.removeprefix("boostfeat.").replace(".", "/")
            reach.setdefault(module, {}).setdefault(kernel.py_func.__qualname__, set()).add(node)
    left |= set(session.failed)
    kept = {m: {f: sorted(tests - left - {""}) for f, tests in functions.items()} for m, functions in reach.items()}
    return {"seconds": {n: s for n, s in session.seconds.items() if n not in left}, "reach": kept, "left": sorted(left)}


def _by_function(tracer: Any) -> dict[str, dict[str, set[str]]]:
    """Tests by module and function of what was traced."""
    out: dict[str, dict[str, set[str]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tests that reach nothing are no matter
        data = tracer.get_data()
    for path in data.measured_files():
        module = Path(path).relative_to(ROOT / "boostfeat").with_suffix("").as_posix()
        for line, tests in data.contexts_by_lineno(path).items():
            out.setdefault(module, {}).setdefault(function_at(module, line), set()).update(tests)
    return out


def _with_called(kernels: Iterable[Any]) -> set[Any]:
    """Kernels and all that they call."""
    found, todo = set(kernels), list(kernels)
    while todo:
        new = set(todo.pop()._called().values()) - found
        found, todo = found | new, [*todo, *new]
    return found
