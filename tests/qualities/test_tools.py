"""The tools beside the suite name what exists: what a mutant is and how it is put in, the kernels of coverage.sh, what CI runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


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
        ('if a == "b": pass', ['if not a == "b": pass', 'if a != "b": pass']),
        ('a == f"{b}"', ['a != f"{b}"']),
        ("len(a) == 0", ["len(a) == 1", "len(a) == -1", *(f"len(a) {sign} 0" for sign in (">", ">=", "<", "!="))]),
        ("len(set(a)) != len(a)", [f"len(set(a)) {sign} len(a)" for sign in ("==", ">", ">=", "<=")]),
        ("def f(x: int | None = None) -> int | None: pass", []),
    ],
)  # fmt: skip
def test_what_is_no_mutant(monkeypatch, source, changed):
    """Each rule of mutants.py, on a line."""
    pytest.importorskip("cosmic_ray")
    monkeypatch.syspath_prepend(str(TESTS / "mutation"))
    from mutants import mutants_in

    assert [mutant.change(source)[1] for mutant in mutants_in(source, "x")] == changed


def test_equivalent_mutants_are_of_lines_that_exist():
    for mutant in tomllib.loads((TESTS / "mutation" / "equivalent.toml").read_text())["mutant"]:
        lines = (ROOT / "boostfeat" / f"{mutant['module']}.py").read_text().splitlines()
        assert mutant["line"] in map(str.strip, lines), mutant["line"]


BEFORE = """
N = 3
class Box:
    @property
    def size(self): return [N + k for k in range(2)]
def double(x, by=2): return x * by
"""


@pytest.mark.parametrize(
    ("change", "functions"),
    [
        (("N + k", "N - k"), ["Box.size"]),
        (("x * by", "x / by"), ["double"]),
        (("N = 3", "N = 4"), None),  # outside of functions the module has to be imported anew
        (("by=2", "by=3"), None),
    ],
)
def test_what_of_a_mutant_can_be_exchanged(monkeypatch, change, functions):
    monkeypatch.syspath_prepend(str(TESTS / "mutation"))
    from exchange import Exchange

    found = Exchange.of("core/box", BEFORE, BEFORE.replace(*change))
    assert functions == (None if found is None else list(found.codes))


PUT = """
import numpy as np
from exchange import Exchange
from boostfeat.core import fast_exp

source = open(fast_exp.__file__).read()
found = Exchange.of("core/fast_exp", source, source.replace("x[k] *= powers[k]", "x[k] /= powers[k]"))
results = [found.fits()]
for do in (lambda: None, found.interpret, found.put):
    do()
    x = np.array([-1.0])
    fast_exp.exp_nonpositive(x, np.empty(1))
    results.append(round(float(x[0]), 3))
print(*results, found.kernels())
"""


def test_a_mutated_kernel_and_its_callers_are_interpreted():
    """In a process of its own: exp(-1) is 0.736 / 2, and a compiled kernel calls the one that halves; the mutant doubles."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS / 'mutation'}:{ROOT}"}
    said = subprocess.run([sys.executable, "-c", PUT], capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.split() == ["True", "0.368", "0.368", "1.472", "['_scale']"]


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
