"""Packages import only from those below them, imports inside functions and for typing included."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

PACKAGE = Path(__file__).parents[2] / "boostfeat"

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "metrics": {"core"},
    "lists": {"core", "metrics"},
    "trees": {"core"},
    "model": {"core", "metrics", "lists", "trees"},
    "formats": {"core", "metrics", "lists", "model"},
    "features": {"core", "metrics", "lists", "trees", "model", "formats"},
    "losses": {"core", "metrics", "lists"},
    "tuners": {"core", "metrics", "lists", "model", "losses"},
    "rerank": {"core", "metrics", "lists", "trees", "model", "formats", "features"},
    "boosting": {"core", "metrics", "lists", "trees", "model", "losses", "tuners", "features", "rerank"},
    "export": {"core", "lists", "trees", "model", "formats", "features", "rerank"},
    "distributed": {"core", "metrics", "lists", "trees", "model", "features", "losses", "tuners", "boosting"},
    "compare": {"core", "metrics", "lists", "trees", "model", "features", "losses", "tuners", "boosting"},
    "report": {"core", "metrics", "lists", "trees", "model", "features", "losses", "tuners", "boosting", "compare"},
}
MAY_IMPORT["search"] = set(MAY_IMPORT) - {"report", "distributed"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)


def test_root_holds_no_module() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == {"__init__.py", "__main__.py", "py.typed"}
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} == set(MAY_IMPORT)


def test_the_table_has_no_cycle() -> None:
    assert list(TopologicalSorter(MAY_IMPORT).static_order())


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_point_one_way(package: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line} imports {target}"
        for path in sorted((PACKAGE / package).rglob("*.py"))
        for line, target in imports(path)
        if (top := target.split(".")[0]) and top not in {package, *MAY_IMPORT[package]}
    ]
    assert not found


def test_modules_import_each_other_in_no_circle() -> None:
    """A package stands for its ``__init__``, which may gather its modules: it is left out where they import it, and so is the
    root, which shows type checkers what it offers and has the version.
    """
    graph = {name(path): {t for _, t in imports(path) if t in MODULES} for path in PACKAGE.rglob("*.py")}
    for module, targets in graph.items():
        targets -= {module, "", *(module.rsplit(".", k)[0] for k in range(1, module.count(".") + 1))}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_what_is_learnt_is_known_to_metrics_alone() -> None:
    """Sentence BLEU is one gain among many: its module defines it, that of metrics takes it, and nobody else does."""
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if "sentence_bleu" in path.read_text()}
    assert found == {"metrics/bleu.py", "metrics/metric.py"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module inside boostfeat) of every import of a file, wherever it stands."""
    own = name(path)
    package = own if path.name == "__init__.py" else own.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = package.split(".") if package else []
            base = ".".join([*parts[: len(parts) - (node.level - 1)], *([node.module] if node.module else [])])
            for alias in node.names:
                module = f"{base}.{alias.name}".strip(".")
                yield node.lineno, module if module in MODULES else base


def name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name(path) for path in PACKAGE.rglob("*.py")}


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        # ``boostfeat --help`` answers at once: numpy, numba and pyarrow are for the commands that need them
        ("boostfeat.cli", {"numpy", "numba", "pyarrow", "scipy", "lightgbm"}),
        ("boostfeat.cli.learning_commands", {"lightgbm", "sklearn"}),  # tuners grow no trees
        ("boostfeat.compare", {"lightgbm", "sklearn"}),
    ],
)
def test_heavy_packages_are_imported_by_what_needs_them(module: str, heavy: set[str]) -> None:
    program = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert found.stdout.strip() == ""


OF_TUPLES = {"_replace", "_asdict", "_fields", "_make"}  # public names of typing.NamedTuple


def test_no_private_attribute_of_a_dependency_is_touched():
    """Private names in a module are those that it defines itself, or that a class of ours beside it does."""
    defined, used = OF_TUPLES | {"_exit"}, {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Attribute):
                is_own = isinstance(node.ctx, ast.Store) and ast.unparse(node.value) in ("self", "cls")
                (defined.add(node.attr) if is_own else used.setdefault(node.attr, f"{path}:{node.lineno}"))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr"):
                name = node.args[1]
                if isinstance(name, ast.Constant):
                    used.setdefault(name.value, f"{path}:{node.lineno}")
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert not any(part.startswith("_") for part in str(node.module).replace("__future__", "").split(".")), path
                used |= {alias.name: f"{path}:{node.lineno}" for alias in node.names}
    private = {name: where for name, where in used.items() if name.startswith("_") and not name.endswith("__")}
    assert {name: where for name, where in private.items() if name not in defined} == {}


OPTIONAL = {"distributed", "dask", "onnx", "onnxruntime", "treelite", "jinja2", "plotly", "thot"}
SLOW = {"sklearn", "lightgbm"}  # 0.6 s of CPU to import, as much as all that a short command imports otherwise


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_functions_import_optional_packages_only(package: str) -> None:
    found = []
    for path in sorted((PACKAGE / package).rglob("*.py")):
        tree = ast.parse(path.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in (node for function in functions for node in ast.walk(function)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                target = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
                found += [f"{path.name}:{node.lineno} {target}"] if target.split(".")[0] not in OPTIONAL | SLOW else []
    assert not found


def test_a_name_of_a_file_or_class_has_one_meaning() -> None:
    """Private classes count with public ones: a reader sees no difference between ``_Group`` and ``Group``."""
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        classes = {node.name.strip("_") for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}
        for name in classes | {path.name} - {"__init__.py"}:
            places.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


OPENERS = re.compile(r"(What|Of|The same|Those|Which|How|Where|As|So|Has|Have|In|By|With)\b")


def test_docstrings_begin_with_a_verb_or_name_the_thing() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {text.splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node) or "")
        if OPENERS.match(text)
    ]
    assert not found


def test_commands_are_short() -> None:
    lengths = {
        f"{path.name}:{node.name}": node.end_lineno - node.lineno + 1
        for path in sorted((PACKAGE / "cli").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
    }
    assert {name: n for name, n in lengths.items() if n > 60} == {}
