"""The tools beside the suite name what exists: mutation groups and equivalent mutants, the kernels of coverage.sh, what CI runs."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


@pytest.fixture(scope="module")
def groups() -> dict[str, dict[str, str]]:
    """Of tests/mutation/run.py, without running anything of it."""
    text = (TESTS / "mutation" / "run.py").read_text()
    found: dict[str, dict[str, dict[str, str]]] = {}
    exec(re.search(r"^GROUPS.*?^}", text, re.DOTALL | re.MULTILINE)[0], found)
    return found["GROUPS"]


def test_mutation_groups_name_modules_and_their_tests(groups):
    for modules in groups.values():
        for module, tests in modules.items():
            assert (ROOT / "boostfeat" / f"{module}.py").is_file(), module
            for name in tests.split():
                folder, _, of = name.rpartition("/")
                assert (TESTS / folder / f"test_{of}.py").is_file(), name


def test_tests_elsewhere_exist():
    text = re.search(r"^ELSEWHERE = \{.*?^\}", (TESTS / "mutation" / "run.py").read_text(), re.DOTALL | re.MULTILINE)[0]
    for name in re.findall(r"\w+/\w+", text):
        folder, _, of = name.rpartition("/")
        assert (TESTS / folder / f"test_{of}.py").is_file(), name


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("for a, b in zip(x, y, strict=True): pass", ["for a, b in []: pass"]),  # a loop of nothing stays a mutant
        ("flag = g(strict=True)", ["flag = g(strict=False)"]),
        ("with ThreadPoolExecutor(max(1, n)) as pool: pass", []),
        ("def f(*, threads=1, seed=1): pass", ["def f(*, threads=1, seed= 2): pass", "def f(*, threads=1, seed= 0): pass"]),
        ("try:\n    f()\nexcept (OSError, zlib.error):\n    pass",
         ["except (CosmicRayTestingException, zlib.error):"]),
        ("try:\n    f()\nexcept zlib.error:\n    pass", []),
        ("def f(x: int | None = None) -> int | None: pass", []),
    ],
)  # fmt: skip
def test_what_is_no_mutant(monkeypatch, source, changed):
    """Each rule of mutants.py, on a line."""
    pytest.importorskip("cosmic_ray")
    monkeypatch.syspath_prepend(str(TESTS / "mutation"))
    from mutants import mutants_in

    assert [mutant.change(source)[1] for mutant in mutants_in(source, "x")] == changed


def test_equivalent_mutants_are_of_lines_that_exist(groups):
    in_groups = {module for modules in groups.values() for module in modules}
    packages = re.findall(
        r'"(\w+)"', re.search(r"for _name in \((.*?)\):", (TESTS / "mutation" / "run.py").read_text(), re.DOTALL)[1]
    )
    for mutant in tomllib.loads((TESTS / "mutation" / "equivalent.toml").read_text())["mutant"]:
        assert mutant["module"] in in_groups or mutant["module"].split("/")[0] in {*packages, "core", "lm", "report"}
        assert mutant["line"] in (ROOT / "boostfeat" / f"{mutant['module']}.py").read_text(), mutant["line"]


@pytest.mark.parametrize("script", [".ci/run", "tests/coverage.sh"])
def test_scripts_name_files_that_exist(script):
    text = (ROOT / script).read_text()
    kernels = re.search(r"^kernels=\((.*?)\)", text, re.DOTALL | re.MULTILINE)
    named = {f"tests/{name}" for name in kernels[1].split()} if kernels else set()
    named |= set(re.findall(r"\btests/[\w./-]+", text))
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def test_imports_name_modules_that_exist():
    """Those in strings too, which other processes run, and those of scripts that no test runs."""
    scripts = [path for folder in (TESTS, ROOT / "examples") for path in folder.rglob("*.py")]
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        shown = {
            name.replace("/", ".") for name in re.findall(r"^# (boostfeat/[\w/]+)\.py$", text, re.MULTILINE)
        }  # made on the page
        for _, module in re.findall(r"\b(from|import) (boostfeat(?:\.\w+)+)\b", text):
            assert module in {*shown, *sys.modules} or find_spec(module) is not None, f"{path}: {module}"


def test_no_two_test_files_have_the_same_name():
    """Folders of tests are no packages: pytest tells files apart by their names."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert len(names) == len(set(names))


def test_tests_mirror_packages():
    """Every folder of test files is a package's, or holds what crosses them."""
    packages = {path.parent.name for path in (ROOT / "boostfeat").glob("*/__init__.py")}
    folders = {path.parent.name for path in TESTS.rglob("test_*.py")}
    assert folders - packages == {"qualities"}
    assert packages - folders == set()
