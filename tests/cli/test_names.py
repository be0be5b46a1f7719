"""The same names of options in all commands, the old ones accepted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command

from boostfeat.cli import app
from boostfeat.cli.flags import Given, in_short
from boostfeat.cli.graphs import core_names, metric_of
from boostfeat.cli.tune import PICKS
from boostfeat.compare.options import numbered
from boostfeat.compare.systems import parse_systems
from boostfeat.core.errors import InputError
from boostfeat.core.options import option
from boostfeat.model.model import Model

DATA = Path(__file__).parents[2] / "data"
SAME = {  # what is one thing, and the commands that have it
    ("--nbest", "--size"): ("import", "decode", "rescore", "loop", "tune", "induce"),
    ("--names", "--graph-names"): ("import", "rescore", "loop", "tune", "induce"),
    ("--vocab", "--graph-vocab"): ("rescore", "tune", "induce", "export"),
    ("--pairs", "--keep"): ("tune", "induce"),
    ("--distinct", "--derivations"): ("import", "decode", "rescore"),
}


@pytest.mark.parametrize(("names", "commands"), SAME.items())
def test_one_thing_has_the_same_names_everywhere(names, commands):
    for command in commands:
        own = [p for p in get_command(app).commands[command].params if {*names} <= {*p.opts, *p.secondary_opts}]
        assert len(own) == 1, command


def options_of(command: str) -> dict[str, str]:
    """What each name of a command's option is called in the help."""
    return {name: p.opts[0] for p in get_command(app).commands[command].params for name in p.opts}


def test_held_out_sentences_are_called_as_held_out_lists_are():
    names = options_of("loop")
    assert (names["--select"], names["--test"]) == ("--select-input", "--test-input")
    names = options_of("compare")
    assert (names["-r"], names["--select"], names["--test"]) == ("--ref", "--select", "--test")


def test_one_name_means_one_thing():
    """--distinct is of texts, not of pairs; --leaves says of what kind, not how many; the old names are accepted."""
    assert options_of("induce")["--distinct"] == "--distinct-pairs"
    assert options_of("augment")["--leaves"] == "--each-leaf"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("rerank l.nbest -m a.json -m b.json", "--model: expected one value, found 2; give one of them"),
        ("rerank l.nbest -m a.json --model=b.json", "--model: expected one value, found 2; give one of them"),
        ("tune l.nbest --seed 1 --seed 2 -o x", "--seed: expected one value, found 2; give one of them"),
        ("compare l --select a --select b --test t -o x", "--select: expected one value, found 2; give one of them"),
        ("decode - --nbest 5 --size 6", "--nbest: expected one value, found 2; give one of them"),
    ],
)
def test_the_first_of_two_values_is_not_lost(boostfeat, words, line):
    assert boostfeat(*words.split()) == (2, "", f"boostfeat: {line}\n")


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["import", "list", "-s", "", "-o", "x"], "--source"),
        (["import", "list", "-r", "", "-o", "x"], "--ref"),
        (["import", "list", "-o", ""], "--output"),
        (["rerank", "l.nbest", "-m", ""], "--model"),
        (["rerank", ""], "LIST.nbest"),
        (["tune", "l.nbest", "--select=", "-o", "x"], "--select"),
        (["induce", "l.nbest", "--templates", "", "-o", "x"], "--templates"),
    ],
)
def test_a_variable_that_is_not_set_is_no_value(boostfeat, words, flag):
    assert boostfeat(*words) == (2, "", f"boostfeat: {flag}: expected a value, found ''; give one, or leave it out\n")


def test_flags_and_repeatable_options_may_come_twice(boostfeat, tmp_path):
    (tmp_path / "list").write_text("0 ||| a ||| lm= 1 ||| 1\n")
    (tmp_path / "ref").write_text("a\n")
    refs = ["-r", tmp_path / "ref", "-r", tmp_path / "ref"]
    assert boostfeat("import", tmp_path / "list", *refs, "-q", "-q", "-o", tmp_path / "x.nbest") == (0, "", "")


def test_names_of_values_come_from_a_list_or_an_ini():
    assert core_names(None) is None
    assert core_names("a, b,c") == ("a", "b", "c")
    found = core_names(str(DATA / "system" / "moses.ini"))
    assert found is not None
    assert {"LM0", "Distortion0", "TranslationModel0_0"} <= {*found}


@pytest.mark.parametrize(
    ("formats", "given", "metric"),
    [(["plf"], None, "wer"), (["htk-slf", "plf"], None, "wer"), (["moses-osgx", "plf"], None, "bleu"), ([], None, "bleu"),
     (["plf"], "bleu", "bleu"), ([], "wer", "wer")],
)  # fmt: skip
def test_graphs_of_speech_are_measured_by_wer(formats, given, metric):
    """By the format of the first; all of them come again."""
    items = [SimpleNamespace(format=name) for name in formats]
    by, again = metric_of(iter(items), given)
    assert (by, list(again)) == (metric, items)
    with pytest.raises(InputError, match="unknown metric of graphs 'ter': expected one of bleu, wer"):
        metric_of(iter(items), "ter")


def test_a_recipe_of_a_system_needs_no_feature_set():
    names = parse_systems("decoder,boost-local:fast,boost-global:linear,base/boost-local:fast")
    assert [s.name for s in names] == ["decoder", "boost-local:fast", "boost-global:linear", "base/boost-local:fast"]
    short, leaves, whole = names[1:]
    assert (short.feature_set, short.method, short.recipe) == (whole.feature_set, whole.method, whole.recipe)
    assert (leaves.level, leaves.leaves) == ("global", "linear")
    with pytest.raises(InputError, match="system 'kbmira:fast': expected one of paper"):
        parse_systems("kbmira:fast")


def test_test_lists_are_numbered_from_the_second():
    assert numbered("test", ["a", "b", "c"]) == {"test": "a", "test2": "b", "test3": "c"}


def test_picks_of_tune_are_those_of_loop():
    assert {"auto", "select", "dev", "last"} <= set(PICKS)
    assert PICKS["dev"] == PICKS["train"]


def test_the_commands_are_told_in_a_line_each(boostfeat, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = boostfeat("--help")
    assert boostfeat() == boostfeat("--") == (0, out, "")
    told = dict(line.split(maxsplit=1) for line in out.partition("Commands:\n")[2].rstrip().split("\n"))
    assert (code, [*told]) == (0, [*get_command(app).commands])
    assert not [line for line in told.values() if line.endswith(("...", ",", ":"))]


@pytest.mark.parametrize(
    ("doc", "line"),
    [
        ("Tune weights.\n\nMore: here.", "Tune weights"),
        ("Show what a list holds: sizes, features, and BLEU or another metric of its hypotheses.", "Show what a list holds"),
        ("Write a model for other programs, and check that it scores the very same there.", "Write a model for other programs"),
        (f"{'a' * 66}. B.", "a" * 66),
        (f"{'a' * 67}.", "a" * 67),
    ],
)
def test_a_docstring_in_short(doc, line):
    assert in_short(doc) == line


@pytest.mark.parametrize("command", get_command(app).commands)
@pytest.mark.parametrize("how", ["--help", "--help-all"])
def test_help_fits_a_terminal_and_begins_with_files(boostfeat, monkeypatch, command, how):
    monkeypatch.setenv("COLUMNS", "80")
    if how == "--help-all" and "--help-all" not in options_of(command):
        return
    code, out, err = boostfeat(command, how)
    headings = [line for line in out.split("\n") if line.endswith(":") and line[0].isupper()]
    assert (code, err, [line for line in out.split("\n") if len(line) > 80]) == (0, "", [])
    assert "Files:" not in headings[1:]
    assert headings[-1] == "Common:"


@pytest.mark.parametrize(
    ("flags", "alone"),
    [(["--method", "induce"], False), (["--method", "induce", "--static-only"], True), (["--method", "kbmira"], True), (["--method", "pro"], True)],
)  # fmt: skip
def test_trees_in_moses_may_look_at_more_than_phrase_pairs(boostfeat, monkeypatch, tmp_path, flags, alone):
    """Unless it is said; a tuner has no trees that would."""

    def of(*args: object, **how: object) -> None:
        raise InputError(f"asked for {how}")

    monkeypatch.setattr("boostfeat.search.loop.moses_decoder.MosesDecoder.of", of)
    (tmp_path / "text").write_text("a\n")
    Model({"LM0": 1.0}).save(tmp_path / "m.json")
    text = tmp_path / "text"
    command = [
        "loop",
        text,
        "-r",
        text,
        "--init",
        tmp_path / "m.json",
        "--decoder",
        "moses",
        "-o",
        tmp_path / "run",
        "--threads",
        1,
    ]
    code, _, err = boostfeat(*command, "--nbest", 7, *flags)
    asked = {"size": 7, "threads": 1, "timeout": None, "static_only": alone}
    assert (code, err) == (2, f"boostfeat: asked for {asked}\n")


@dataclass(frozen=True)
class One:
    size: int = option(3, "How many", least=1, symbol="K")
    shuffle: bool = option(False, "In any order", rare=True)


@dataclass(frozen=True)
class Two:
    size: int = option(4, "How many", rare=True)
    plain: bool = option(True, "Without more")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (Given(One), [("size", "How many", "K", 3, False), ("shuffle", "In any order", "", False, True)]),
        (Given(One, rare=True), [("size", "How many", "K", 3, True), ("shuffle", "In any order", "", False, True)]),
        (Given(One, defaults=False), [("size", "How many", "K", None, False), ("shuffle", "In any order", "", False, True)]),
        (Given({"one": One, "two": Two}), [("size", "How many (K)", "", None, False), ("shuffle", "In any order: one", "", False, True), ("plain", "Without more: two", "", True, False)]),
        (Given({"two": Two, "one": One}), [("size", "How many (K)", "", None, False), ("plain", "Without more: two", "", True, False), ("shuffle", "In any order: one", "", False, True)]),
    ],
)  # fmt: skip
def test_options_as_flags(given, found):
    """Of several methods, one flag a name, as the method that shows it has it; its default is the method's, and not told."""
    assert [(o.name, o.help, o.symbol, o.default, o.rare) for o in given.options()] == found
