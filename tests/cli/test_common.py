"""What commands share: the progress bar, tables, choices without a model."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from boostfeat.cli import common
from boostfeat.cli.common import at_work, progress, say, say_scores_alone
from boostfeat.cli.explain import _cut
from boostfeat.cli.lists import _chosen, _interval
from boostfeat.cli.rescore import _model
from boostfeat.core.errors import InputError
from boostfeat.core.files import on_progress
from boostfeat.core.text_table import table
from boostfeat.features.options import ResourceFiles
from boostfeat.model.model import Model

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


@pytest.mark.parametrize(
    ("quiet", "is_terminal", "shown"), [(False, True, 1), (True, True, 0), (False, False, 0), (True, False, 0)]
)
def test_work_is_shown_on_terminals_by_the_outermost(monkeypatch, quiet, is_terminal, shown):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    with at_work("outer", quiet=quiet):
        outer = common._Ticker.now
        assert (outer is not None) == shown
        with at_work("inner", quiet=quiet):
            assert common._Ticker.now is outer
    assert common._Ticker.now is None


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


def test_an_interval_below_0_has_no_two_dashes():
    assert [_interval(found) for found in ([0.5, 1.0], [-0.5, 1.0], None)] == ["0.5-1.0", "-0.5 to 1.0", ""]


def test_the_output_of_one_system_needs_neither_scores_nor_a_model(dev):
    """A sentence without output leaves no choice either."""
    whole = dev[:3].hyp_ptr
    bare = replace(dev[:3], score=np.full(whole[-1], np.nan))
    one = bare.take_hyps(whole[:2], np.array([0, 1, 1, 2]))
    how = {"model": None, "store": "x", "files": ResourceFiles(), "allow_missing": False, "quiet": True}
    assert _chosen(one, **how).tolist() == [0, -1, 1]
    with pytest.raises(InputError):
        _chosen(bare, **how)


def test_rescoring_takes_a_model_or_weights(tmp_path):
    (tmp_path / "w").write_text("a 1.5\n")
    Model({"b": 2.0}).save(tmp_path / "m")
    model, weights = str(tmp_path / "m"), [str(tmp_path / "w")]
    found = [_model(model, None), _model(None, weights), _model(None, None)]
    assert [None if one is None else one.weights for one in found] == [{"b": 2.0}, {"a": 1.5}, None]
    with pytest.raises(InputError, match="--weights: expected -m or --weights, found both"):
        _model(model, weights)


def test_phrases_are_cut_to_a_column():
    assert [_cut("x" * n) for n in (0, 24, 25)] == ["", "x" * 24, "x" * 21 + "..."]
    assert _cut(None) == "(hypothesis)"


def test_progress_of_reading_is_told_in_megabytes(monkeypatch):
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(common.Bar, "update", lambda self, *what: told.append((self.what, *what)))
    with common.reading("importing", quiet=False):
        on_progress.get()("lists/dev.gz", 1_234_567_890, 99)
    assert told == [("importing", 1_234_567_890, None, "dev.gz: 1,235 MB of text")]
    assert on_progress.get() is None


@pytest.mark.parametrize(("seconds", "is_shown"), [(0.499, False), (0.5, True)])
def test_a_bar_has_what_it_was_told(capsys, monkeypatch, seconds, is_shown):
    now = [100.0]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(common, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress("reading [b]", quiet=False) as bar:
        now[0] += seconds
        bar.update(1, 4, "x\x1b")
        assert (bar._progress is not None, common.Bar.shown) == (is_shown, int(is_shown))
        if is_shown:
            bar.update(2, 5, "y")
            (task,) = bar._progress.tasks
            assert (task.description, task.completed, task.total, task.fields) == ("reading [b]", 2, 5, {"note": "y"})
            assert [column.markup for column in bar._progress.columns if hasattr(column, "markup")] == [False, False]
            assert (bar._progress.console.stderr, bar._progress.live.transient) == (True, True)
    assert (bar._progress, common.Bar.shown) == (None, 0)
    assert capsys.readouterr().out == ""


def test_the_sign_of_work_has_no_end_in_sight(monkeypatch):
    """It stands until something else is shown, and tells the time since the command began."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with at_work("scoring", quiet=False):
        ticker = common._Ticker.now
        assert ticker._timer.daemon
        assert ticker._timer.interval == common.PATIENCE == 2.0
        ticker._show()
        (task,) = ticker._progress.tasks
        assert (task.description, task.total, task.start_time) == ("scoring", None, ticker._began)
        assert (ticker._progress.console.stderr, ticker._progress.live.transient) == (True, True)
        first = ticker._timer
        common.hide_ticker()
        assert (ticker._progress, ticker._timer is first) == (None, False)
        monkeypatch.setattr(common.Bar, "shown", 1)
        ticker._show()
        assert ticker._progress is None  # a bar is there
    assert common._Ticker.now is None
    assert ticker._timer.finished.is_set()


@pytest.mark.parametrize(
    ("missing", "wrong", "allow", "line"),
    [
        ([], [], False, ""),
        (["a"], [], False, "boostfeat: list lacks features of the model, which count as 0: a\n"),
        (["a", "b"], ["b"], True, "boostfeat: list lacks features of the model, which count as 0: a, b\n"),
    ],
)
def test_features_that_are_missing_are_said(capsys, missing, wrong, allow, line):
    common.check_missing("list", missing, wrong, allow_missing=allow, quiet=False)
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(("fix", "told"), [("", common.FEATURIZE), ("name them", "name them")])
def test_features_that_should_be_there_are_an_error(fix, told):
    line = f"list: expected the features of the model, found none of b; {told}, or give --allow-missing: they count as 0 then"
    with pytest.raises(InputError, match=re.escape(line)):
        common.check_missing("list", ["a", "b"], ["b"], fix=fix, allow_missing=False, quiet=True)


def test_results_are_lines_or_json(capsys):
    common.emit({"ä": "\x1b\u2028"}, "a\x1b\nb\n\n", as_json=False)
    common.emit({"ä": "\x1b\u2028"}, "", as_json=True)
    common.say_written("it", "-", 0.0, quiet=False)
    assert capsys.readouterr() == ('a\\x1b\nb\n{"ä": "\\u001b\\u2028"}\n', "")


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ({"by": "score"}, ""),
        ({"by": "mbr", "scale": 2.0}, "minimum Bayes risk decides"),
        ({"by": "score", "length": {"shared": [0, 1, 0], "stems": {}, "weight": 1}}, "the length that references teach counts"),
    ],
)
def test_what_has_scores_alone_says_so(capsys, decision, said):
    say_scores_alone(Model({"a": 1.0}, config={"decision": decision}), "search", quiet=False)
    told = f"boostfeat: warning: {said} in this model: search has its scores, and not that choice\n" if said else ""
    assert capsys.readouterr().err == told
