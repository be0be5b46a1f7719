"""The tools beside the suite name what exists: the kernels of coverage.sh, what CI runs."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


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
