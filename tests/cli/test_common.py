"""What commands share: the progress bar, tables."""

from __future__ import annotations

import pytest

from boostfeat.cli.common import progress
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
