"""Kernels are compiled once for all runs: a second process finds their machine code, also where a part of it is damaged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from numba.core import event

from boostfeat.cli.console import Compiling
from boostfeat.core import arrays, kernels
from boostfeat.core.files import read_lines
from boostfeat.core.kernels import kernel

DATA = Path(__file__).parents[2] / "data"


def boostfeat(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process and with a cache of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "boostfeat", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(DATA.parent), "NUMBA_CACHE_DIR": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def short_lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first sentences of two lists of data/, imported; the first command compiles kernels and says so."""
    folder = tmp_path_factory.mktemp("short")
    for name, n in (("dev", 30), ("select", 15)):
        lines = (line for _, line in read_lines(DATA / f"{name}.nbest.xz") if int(line.split(" ", 1)[0]) < n)
        (folder / "list").write_text("".join(f"{line}\n" for line in lines))
        for kind in ("src", "ref"):
            (folder / kind).write_text("".join((DATA / f"{name}.{kind}").read_text().splitlines(keepends=True)[:n]))
        done = boostfeat(folder, "import", "list", "-s", "src", "-r", "ref", "-o", f"{name}.nbest")
        assert done.stderr.startswith("boostfeat: compiling (once)\n") is (name == "dev")
    return folder


INDUCE = ("induce", "dev.nbest", "--select", "select.nbest", "--rounds", "3", "--threads", "2", "-o", "model.json")


def test_a_second_run_compiles_nothing(short_lists: Path) -> None:
    first, second = (boostfeat(short_lists, *INDUCE, NUMBA_DEBUG_CACHE="1") for _ in range(2))
    assert "[cache] data saved" in first.stdout
    assert "[cache] data loaded" in second.stdout
    assert "saved" not in second.stdout
    assert [done.stderr.count("compiling (once)") for done in (first, second)] == [1, 0]


def emptied(data: bytes) -> bytes:
    return b""


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def garbled(data: bytes) -> bytes:
    """Other bytes in the middle, where the machine code is: it would end the process."""
    return data[: len(data) // 4] + bytes(255 - byte for byte in data[len(data) // 4 : -100]) + data[-100:]


@pytest.mark.parametrize("damage", [emptied, cut, garbled])
def test_a_damaged_cache_costs_a_compilation(short_lists: Path, damage: Callable[[bytes], bytes]) -> None:
    expected = boostfeat(short_lists, "score", "dev.nbest").stdout
    for path in sorted((short_lists / "cache").rglob("*.nb[ic]"))[::2]:
        path.write_bytes(damage(path.read_bytes()))
    again = boostfeat(short_lists, "score", "dev.nbest")
    assert (again.stdout, again.stderr) == (expected, "boostfeat: compiling (once)\n")
    assert boostfeat(short_lists, "score", "dev.nbest").stderr == ""


def test_no_room_for_the_cache_costs_a_compilation(short_lists: Path) -> None:
    """The output fits where the cache does not."""
    expected = boostfeat(short_lists, "score", "dev.nbest").stdout
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)); from boostfeat.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(DATA.parent), "NUMBA_CACHE_DIR": str(short_lists / "none")}
    words = [sys.executable, "-c", limited, "score", "dev.nbest"]
    done = subprocess.run(words, cwd=short_lists, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, expected)
    assert re.fullmatch(r"boostfeat: compiling \(each time: .*/none/.* has no room\)\n", done.stderr)


def test_without_jit_a_kernel_is_a_function(short_lists: Path) -> None:
    compiled, plain = (boostfeat(short_lists, "score", "dev.nbest", "-q", NUMBA_DISABLE_JIT=jit).stdout for jit in "01")
    assert compiled == plain


def test_where_nothing_can_be_written_kernels_are_compiled_for_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def njit(function: object, **options: object) -> object:
        made.append(options)
        if "cache" in options:
            raise RuntimeError("cannot cache function")
        return function

    monkeypatch.setattr(kernels, "njit", njit)
    assert kernel(len) is len
    assert made == [{"cache": True, "nogil": True}, {"nogil": True}]


def test_compiling_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(Compiling, "teller", os.getpid())
    empty = np.zeros(1, np.int64), np.zeros(1), np.zeros(0, np.int64)
    fresh = [kernels.njit(arrays._segment_argmax.py_func) for _ in range(3)]
    with event.install_listener("numba:compile", Compiling(lambda line: told.append(f"first: {line}"))):
        for function in fresh[:2]:
            function(*empty)
    with event.install_listener("numba:compile", Compiling(lambda line: told.append(f"second: {line}"))):
        fresh[2](*empty)
    assert told == ["first: compiling (once)"]


def test_a_cache_that_names_a_class_of_an_earlier_release_costs_a_compilation(tmp_path: Path) -> None:
    """numba reads the types of what it kept before it looks whether the module has changed."""
    text = """
        from typing import NamedTuple
        from boostfeat.core.kernels import kernel
        class NAME(NamedTuple):
            x: int
        @kernel
        def double(pair):
            return 2 * pair.x
        print(double(NAME(4)))
    """
    for second, name in enumerate(("Old", "Renewed")):
        path = tmp_path / "module.py"
        path.write_text(dedent(text).replace("NAME", name))
        os.utime(path, (time.time() + 5 * second,) * 2)  # later than what the first run keeps
        run = "import sys; sys.path.insert(0, '.'); import module"
        environment = {**os.environ, "PYTHONPATH": str(DATA.parent)}
        told = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (told.stdout, told.returncode) == ("8\n", 0), told.stderr
