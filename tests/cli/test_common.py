"""What commands share: the progress bar, tables."""

from __future__ import annotations

import time

import pytest

from boostfeat.cli import common
from boostfeat.cli.common import at_work, progress, say
from boostfeat.core.text_table import table

pytestmark = pytest.mark.quick


def test_a_bar_is_shown_on_a_terminal_after_half_a_second(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("boostfeat.cli.common.time.monotonic", lambda: now[0])
    with progress("reading", quiet=False) as bar:
        bar.update(1, 3)
        assert capsys.readouterr().err == ""
        now[0] += 0.6
        bar.update(2, 3, "nearly")
    assert "reading" in capsys.readouterr().err


def test_a_quiet_bar_is_not_shown(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    now = iter(range(100))
    monkeypatch.setattr("boostfeat.cli.common.time.monotonic", lambda: next(now))
    with progress("reading", quiet=True) as bar:
        bar.update(1, 3)
    assert capsys.readouterr().err == ""


def test_a_table_without_rows_is_nothing():
    assert table([]) == ""


def seen(capsys, what: str) -> str:
    """What was written to standard error until this was."""
    found, deadline = "", time.monotonic() + 30
    while what not in found and time.monotonic() < deadline:
        time.sleep(0.01)
        found += capsys.readouterr().err
    return found


def test_a_command_without_a_bar_shows_that_it_is_at_work(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(common, "PATIENCE", 0.05)
    with at_work("scoring", quiet=False), at_work("of it", quiet=False):
        assert "scoring" in seen(capsys, "scoring")
        say("halfway", quiet=False)  # hides it, and it comes again
        assert "scoring" in seen(capsys, "scoring")
    capsys.readouterr()
    with at_work("quiet", quiet=True):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_bar_takes_the_place_of_the_sign(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(common, "PATIENCE", 0.05)
    with at_work("scoring", quiet=False), progress("reading", quiet=False) as bar:
        bar._started -= 1.0
        bar.update(1, 3)
        capsys.readouterr()
        time.sleep(0.3)
        assert "scoring" not in capsys.readouterr().err
    assert common.Bar.shown == 0
