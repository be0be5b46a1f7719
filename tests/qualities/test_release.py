"""A release: one version everywhere, a wheel and an sdist that twine takes, and a wheel that does its work without extras."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import boostfeat

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"

# Every command, in an order in which each finds what it reads; {data} is the folder of the lists.
COMMANDS = """
import {data}/dev.nbest.xz -s {data}/dev.src -r {data}/dev.ref --size 10 --first 40 -o dev.nbest
import {data}/test.nbest.xz -s {data}/test.src -r {data}/test.ref --size 10 --first 30 -o test.nbest
info dev.nbest
templates
featurize dev.nbest --templates base -o dev.base.nbest
join dev.nbest --nbest second={data}/dev.nbest.xz -o joined.nbest
tune dev.nbest --method kbmira --epochs 2 -o kbmira.json
induce dev.nbest --recipe fast --rounds 3 -o model.json
show model.json
explain test.nbest -m model.json
rerank test.nbest -m model.json
score test.nbest -m model.json --metric bleu,chrf,ter
augment dev.nbest -m model.json -o more.nbest
convert test.nbest --format jsonl -o test.jsonl
export model.json --to python -o model_trees.py --verify test.nbest
export model.json --to c -o model.h
export model.json --to json -o again.json
export model.json --to nbest --list test.nbest -o test.list
export kbmira.json --to cdec -o weights.cdec
export kbmira.json --to moses --phrase-table {data}/system/phrase-table.xz -o moses
decode short.src --ini {data}/system/moses.ini --nbest 5 --nbest-output short.list --search-graph short.osgx
rescore short.osgx -m kbmira.json --names {data}/system/moses.ini --allow-missing
loop short.src -r short.ref --ini {data}/system/moses.ini --method pro --max-iterations 1 --nbest 5 -o looped
compare dev.nbest --select test.nbest --test test.nbest --systems decoder,base-PRO --search none --trials 50 --force -o run
replicate ta13 dev.nbest --select test.nbest --test test.nbest --quick --force -o ta13
doctor
demo -o demo
"""
# What takes an extra, and the extra that its one line names
EXTRAS = {
    "report run -o report.html": "report",
    "export model.json --to onnx -o model.onnx": "export",
    "export model.json --to treelite -o model.treelite": "export",
    "induce dev.nbest --recipe fast --rounds 2 --engine dask -o dask.json": "dask",
}


@pytest.mark.quick
def test_the_version_is_said_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "boostfeat/__init__.py"
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == boostfeat.__version__
    assert f"\n## {boostfeat.__version__}\n" in (ROOT / "examples" / "changes.md").read_text(encoding="utf-8")


@pytest.mark.quick
def test_pythons_of_the_classifiers_are_those_of_the_script():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    told = re.findall(r":: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)
    assert told == re.findall(r"python(3\.\d+)", re.search(r"PYTHONS:-(.*?)}", (ROOT / "tests" / "versions.sh").read_text())[1])


@pytest.mark.quick
def test_type_checkers_see_what_the_package_offers():
    tree = ast.parse((ROOT / "boostfeat" / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == boostfeat._EXPORTS


@pytest.mark.quick
def test_every_command_is_tried():
    from boostfeat import cli

    tried = {line.split()[0] for line in [*COMMANDS.split("\n")[1:-1], *EXTRAS]}
    assert tried == {*cli.COMMANDS}


@pytest.mark.quick
def test_every_target_of_export_is_tried():
    from boostfeat.export import EXPORTERS

    lines = [line.split() for line in [*COMMANDS.split("\n"), *EXTRAS] if line.startswith("export ")]
    assert sorted(line[line.index("--to") + 1] for line in lines) == sorted(EXPORTERS)


def run(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COVERAGE_PROCESS_START")}
    return subprocess.run(list(map(str, words)), cwd=cwd, env={**clean, **more}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    if not (find_spec("build") and find_spec("twine")):
        pytest.skip("build and twine are not installed: pip install 'boostfeat[release]'")
    out = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    return next(dist.glob("*.whl"))


@pytest.mark.slow
def test_twine_takes_both(dist):
    files = sorted(path.name for path in dist.iterdir())
    assert files == [f"boostfeat-{boostfeat.__version__}{end}" for end in ("-py3-none-any.whl", ".tar.gz")]
    done = run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir(), cwd=dist)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(wheel):
    found = {name for name in zipfile.ZipFile(wheel).namelist() if not name.split("/")[0].endswith(".dist-info")}
    shipped = {f"boostfeat/{path.relative_to(ROOT / 'boostfeat').as_posix()}" for path in tracked("boostfeat")}
    shipped |= {f"boostfeat/{path.relative_to(ROOT).as_posix()}" for path in tracked("data")}
    assert found == shipped
    assert "boostfeat/py.typed" in found


@pytest.mark.slow
def test_the_sdist_can_run_its_tests(dist):
    """It has the tests, the examples and the data beside the package."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    for name in (
        *("pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "tests/conftest.py"),
        *("examples/tour.ipynb", "data/dev.ref"),
    ):
        assert name in found


def tracked(folder: str) -> list[Path]:
    """Files under a folder that are no leftovers of a run."""
    return [p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Path:
    """The Python of a fresh environment with the wheel, and no extra."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = run(python, "-m", "pip", "install", "-q", "--only-binary=:all:", wheel, cwd=folder)
    if done.returncode:
        pytest.skip(f"the wheel cannot be installed here: {done.stderr[-500:]}")
    return python


@pytest.mark.slow
def test_the_wheel_does_its_work_without_extras(bare, tmp_path):
    for name in ("src", "ref"):
        (tmp_path / f"short.{name}").write_text("".join((DATA / f"dev.{name}").read_text().splitlines(keepends=True)[:4]))
    for line in COMMANDS.strip().split("\n"):
        done = run(bare.parent / "boostfeat", *line.format(data=DATA).split(), "-q", cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    for line, extra in EXTRAS.items():
        done = run(bare.parent / "boostfeat", *line.split(), cwd=tmp_path)
        assert done.returncode == 2, f"{line}: {done.stderr}"
        assert f"pip install 'boostfeat[{extra}]'" in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.slow
def test_a_users_program_is_typed(bare, tmp_path):
    """By the installed package's own types, with mypy's strictest settings, and it runs."""
    program = tmp_path / "program.py"
    program.write_text((ROOT / "tests" / "typed_program.py").read_text())
    checked = run(sys.executable, "-m", "mypy", "--strict", "--python-executable", bare, program, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    made = f"import {DATA}/dev.nbest.xz -s {DATA}/dev.src -r {DATA}/dev.ref --size 10 --first 40 -o dev.nbest -q"
    assert run(bare.parent / "boostfeat", *made.split(), cwd=tmp_path).returncode == 0
    ran = run(bare, program, "dev.nbest", tmp_path, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout.splitlines()[-1]) > 0
