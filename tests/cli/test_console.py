"""How commands speak: the progress bar, the sign of work, messages and results."""

from __future__ import annotations

import time

import pytest

from boostfeat.cli import console
from boostfeat.cli.checked_inputs import FEATURIZE, ListFlags, check_missing, say_scores_alone
from boostfeat.cli.console import Common, at_work
from boostfeat.core.errors import InputError
from boostfeat.core.files import on_progress
from boostfeat.model.model import Model

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("seconds", "quiet", "is_shown"), [(0.4, False, False), (0.6, False, True), (0.6, True, False)])
def test_a_bar_is_shown_on_a_terminal_after_half_a_second(capsys, monkeypatch, seconds, quiet, is_shown):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    now = [100.0]
    monkeypatch.setattr("boostfeat.cli.console.time.monotonic", lambda: now[0])
    with at_work("import", Common()), Common(quiet=quiet).progress("reading [b]") as bar:
        now[0] += seconds
        bar.update(2, 3, "x\x1b")
    assert ("reading [b]" in capsys.readouterr().err) == is_shown
    assert console.Bar.screen is None


def test_a_command_shows_that_it_is_at_work(capsys, monkeypatch):
    """After a while, until results are printed; a command inside another adds nothing, a quiet one shows nothing."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(console, "PATIENCE", 0.05)
    flags, shown, deadline = Common(), "", time.monotonic() + 30
    with at_work("scoring", flags), at_work("of it", flags):
        while "scoring" not in shown and time.monotonic() < deadline:
            time.sleep(0.01)
            shown += capsys.readouterr().err
        flags.say("halfway")
        flags.emit(None, "a result")
        found = capsys.readouterr()
    assert "scoring" in shown
    assert ("halfway" in found.err, found.out, "of it" in shown + found.err) == (True, "a result\n", False)
    with at_work("quiet", Common(quiet=True)):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_progress_of_reading_is_told_in_megabytes(monkeypatch):
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(console.Bar, "update", lambda self, *what: told.append((self.what, *what)))
    with Common().reading("importing"):
        on_progress.get()("lists/dev.gz", 1_234_567_890, 99)
    assert told == [("importing", 1_234_567_890, None, "dev.gz: 1,235 MB of text")]
    assert on_progress.get() is None


def test_features_that_are_missing_are_said_or_refused(capsys):
    check_missing(ListFlags(), "list", [], [])
    check_missing(ListFlags(), "list", ["a"], [])
    check_missing(ListFlags(allow_missing=True), "list", ["a", "b"], ["b"])
    lines = ["boostfeat: list lacks features of the model, which count as 0: a"]
    assert capsys.readouterr().err.splitlines() == [*lines, f"{lines[0]}, b"]
    for fix in ({}, {"fix": "name them"}):
        with pytest.raises(InputError, match=r"^list: expected the features of the model, found none of b; ") as error:
            check_missing(ListFlags(), "list", ["a", "b"], ["b"], **fix)
        assert fix.get("fix", FEATURIZE) in str(error.value)


def test_results_are_lines_or_json(capsys):
    Common().emit({"ä": "\x1b\u2028"}, "a\x1b\nb\n\n")
    Common(as_json=True).emit({"ä": "\x1b\u2028"})
    Common().emit_json({"a": 1})
    Common().say_written("it", "-")
    assert capsys.readouterr() == ('a\\x1b\nb\n{"ä": "\\u001b\\u2028"}\n', "")


def test_threads_are_at_most_all_cores():
    assert Common(threads=1).threads == 1
    assert Common().threads == Common(threads=100_000).threads == console.ALL_CORES


def test_what_has_scores_alone_says_so(capsys):
    say_scores_alone(Common(), Model({"a": 1.0}, config={"decision": {"by": "score"}}), "search")
    say_scores_alone(Common(), Model({"a": 1.0}, config={"decision": {"by": "mbr", "scale": 2.0}}), "search")
    assert capsys.readouterr().err == (
        "boostfeat: warning: minimum Bayes risk decides in this model: search has its scores, and not that choice\n"
    )
