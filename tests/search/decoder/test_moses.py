"""Against a real Moses, where there is one: data/system/moses.ini as it is gives what `boostfeat decode` gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
N = 60  # sentences


def test_the_shipped_ini_is_moses_own(
    moses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boostfeat: Callable[..., tuple[int, str, str]]
) -> None:
    """A stock Moses runs in the repository's root, where the ini's paths begin; ours runs anywhere."""
    (tmp_path / "in").write_text("".join((ROOT / "data" / "test.src").read_text().splitlines(keepends=True)[:N]))
    command = [moses, "-f", "data/system/moses.ini", "-i", tmp_path / "in"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    monkeypatch.chdir(tmp_path)
    code, out, err = boostfeat("decode", "in", "--ini", ROOT / "data" / "system" / "moses.ini", "--threads", 1, "-q")
    assert code == 0, err
    assert len(out.splitlines()) == N
    assert [line.split() for line in done.stdout.splitlines()] == [line.split() for line in out.splitlines()]
