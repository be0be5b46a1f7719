"""Options as data: one declaration gives the check, the flag, --set, the help, changes of a recipe and the estimator's parameter."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from boostfeat import BoostReranker
from boostfeat.boosting.options import ABLATION, GONE, RECIPES, BoostOptions, recipe
from boostfeat.cli import app
from boostfeat.cli.flags import Given, add
from boostfeat.core.errors import InputError
from boostfeat.core.machine import usable_cores
from boostfeat.core.options import MOST, OptionError, changed, check, comma_list, describe, named, option, options_of, same, typed
from boostfeat.losses.pair_options import PairOptions
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.tuner_options import TUNER_OPTIONS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    size: int = option(4, "How large", least=2, most=64)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Toy:
    """What a new option looks like: ``step`` is declared here and nowhere else."""

    step: float = option(0.5, "Length of a step", above=0, most=1, symbol="η", group="Steps")
    keep: int = option(3, "So many", least=1, flag="pairs", was=("old_pairs",), group="Steps", rare=True)
    bound: float = option(inf, "Largest", above=0, most=inf)
    shift: float | None = option(None, "Any number")
    kind: str = option("plain", "Of what kind", choices=("plain", "fancy"))
    warm: bool = option(True, "Start warm")
    loud: bool = option(False, "Say it")
    names: tuple[str, ...] = option((), "Of what")
    part: Part = field(default_factory=Part)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Other:
    step: float = same(Toy, "step", 0.25)
    keep: int = option(7, "Pairs of another kind", least=0, flag="others")


# -- check --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step": 0.0}, "step: expected a number above 0 up to 1, found 0.0"),
        ({"step": nan}, "step: expected a number above 0 up to 1, found nan"),
        ({"keep": 0}, "keep: expected 1 or more, found 0"),
        ({"keep": MOST + 1}, f"keep: expected {MOST} or less, found {MOST + 1}"),
        ({"bound": 0.0}, "bound: expected a number above 0, found 0.0"),
        ({"shift": inf}, "shift: expected a finite number, found inf"),
        ({"shift": nan}, "shift: expected a finite number, found nan"),
        ({"step": "x"}, "step: expected a number above 0 up to 1, found 'x'"),
        ({"keep": 1.5}, "keep: expected a whole number, found 1.5"),
        ({"kind": "odd"}, "unknown kind 'odd': expected one of plain, fancy"),
    ],
)
def test_values_out_of_bounds_are_refused(given, message):
    with pytest.raises(InputError) as error:
        Toy(**given)
    assert str(error.value) == message


def test_values_at_the_bounds_are_taken_and_parts_check_themselves():
    Toy(step=1.0, keep=MOST, bound=inf, shift=-1e300, kind="fancy")
    with pytest.raises(OptionError, match="size: expected a number from 2 to 64, found 65"):
        Part(65)


def test_what_is_the_same_elsewhere_is_declared_once():
    there, here = named(Toy)["step"], named(Other)["step"]
    assert (here.help, here.above, here.most, here.symbol, here.default) == (there.help, 0, 1, "η", 0.25)
    with pytest.raises(OptionError, match="step: expected a number above 0 up to 1, found 2"):
        check(Other(step=2))


# -- --set, recipes, help ------------------------------------------------------------------------------------------------


def test_settings_by_any_name():
    given = ["step=0.1", "pairs=9", "shift=none", "warm=no", "loud=yes", "names=a, b,", "size=8"]
    expected = {"step": 0.1, "keep": 9, "shift": None, "warm": False, "loud": True, "names": ("a", "b"), "size": 8}
    assert typed(Toy, given) == expected
    assert [typed(Toy, [f"warm={text}"])["warm"] for text in ("true", "yes", "false", "no", "True")] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert typed(Toy, ["keep=9"]) == typed(Toy, ["old-pairs=9"]) == {"keep": 9}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "colour=1",
            "--set colour: expected one of step, pairs, bound, shift, kind, warm, loud, names, size; found none of that",
        ),
        ("step", "--set: expected NAME=VALUE, found 'step'"),
        ("step=", "--set: expected NAME=VALUE, found 'step='"),
        ("pairs=many", "--set pairs: expected int, found 'many'"),
        ("warm=perhaps", "--set warm: expected bool, found 'perhaps'"),
    ],
)
def test_bad_settings(text, message):
    with pytest.raises(InputError, match=message):
        typed(Toy, [text])


def test_changes_reach_parts_and_are_checked():
    assert changed(Toy(), {"pairs": 5, "size": 8}) == Toy(keep=5, part=Part(8))
    with pytest.raises(OptionError, match="size: expected a number from 2 to 64, found 1"):
        changed(Toy(), {"size": 1})


def test_descriptions():
    told = dict(describe(Toy))
    assert told["step"] == "Length of a step (η)  [0.5; a number above 0 up to 1]"
    assert told["pairs"] == "So many  [3; 1 or more; was keep, was old_pairs]"
    assert told["kind"] == "Of what kind  [plain; plain, fancy]"
    assert [told[name].partition("  ")[2] for name in ("warm", "loud")] == ["[yes]", "[no]"]
    assert list(told) == ["step", "pairs", "bound", "shift", "kind", "warm", "loud", "names", "size"]


def test_comma_lists():
    assert comma_list(None) == comma_list("") == ()
    assert comma_list("a, b ,c,") == ("a", "b", "c")


# -- flags --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def toy():
    """(run a command with these flags: what its function got, its help)."""
    seen: dict[str, Any] = {}
    small = typer.Typer(rich_markup_mode=None, add_completion=False)

    def whole(*, toy: Toy, threads: int) -> None:
        seen.update(toy=toy, threads=threads)

    def used(*, given: Annotated[Mapping[str, Any], Given({"toy": Toy, "other": Other})], seed: int) -> None:
        seen.update(given=given, seed=seed)

    add(small, whole)
    add(small, used)

    def run(*arguments: object) -> dict[str, Any]:
        seen.clear()
        small([str(a) for a in arguments], standalone_mode=False)
        return dict(seen)

    return run


def test_flags_make_an_instance(toy):
    assert toy("whole")["toy"] == Toy()
    given = ["--step", 0.1, "--pairs", 5, "--no-warm", "--loud", "--names", "a,b", "--size", 8, "--bound", 2]
    assert toy("whole", *given)["toy"] == Toy(0.1, 5, 2.0, warm=False, loud=True, names=("a", "b"), part=Part(8))
    assert toy("whole", "--old-pairs", 6)["toy"] == toy("whole", "--keep", 6)["toy"] == Toy(keep=6)
    with pytest.raises(OptionError, match="step: expected"):
        toy("whole", "--step", 3)


def test_flags_that_were_used(toy):
    assert toy("used") == {"given": {}, "seed": 0}
    assert toy("used", "--pairs", 5, "--others", 2, "--seed", 7) == {"given": {"pairs": 5, "others": 2}, "seed": 7}


def test_threads_are_capped(toy):
    assert toy("whole", "--threads", 1)["threads"] == 1
    assert toy("whole", "--threads", 100_000)["threads"] == usable_cores()


def test_help_shows_groups_and_help_all_what_is_rare(toy, capsys):
    toy("used", "--help")
    shown = capsys.readouterr().out
    assert "Steps:\n  --step X  Length of a step (η)\n" in shown
    assert "--pairs" not in shown
    assert "So many" not in shown
    toy("used", "--help-all")
    every = capsys.readouterr().out
    assert "--pairs, --keep, --old-pairs N" in every
    assert every.index("Steps:") < every.index("Common:")


# -- the package's own ---------------------------------------------------------------------------------------------------


def flags_of(command: str) -> dict[str, Any]:
    return {flag: p for p in get_command(app).commands[command].params for flag in (*p.opts, *p.secondary_opts)}


@pytest.mark.parametrize("command", ["induce", "tune", "loop"])
def test_help_fits_two_screens(command):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "boostfeat", command, "--help"], env=env, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 80 + 2  # an example may be a little wider
    assert "Example:" in done.stdout


@pytest.mark.parametrize("command", sorted(get_command(app).commands))
def test_no_flag_stands_for_two_options(command):
    counts = Counter(flag for p in get_command(app).commands[command].params for flag in (*p.opts, *p.secondary_opts))
    assert [flag for flag, n in counts.items() if n > 1] == []


def test_an_option_of_boosting_appears_everywhere():
    flags, parameters = flags_of("induce"), inspect.signature(BoostReranker.__init__).parameters
    for o in options_of(BoostOptions):
        assert f"--{o.name.replace('_', '-')}" in flags
        assert o.name in parameters
        assert named(BoostOptions)[o.name] == o
    for changes in ABLATION.values():
        assert set(changes) <= set(named(BoostOptions))
    assert recipe("paper", pairs=7) == recipe("paper", keep=7)
    assert BoostReranker("paper", n_pairs=7, more={"rule": "best"}).options() == BoostReranker("paper", pairs=7).options()
    assert BoostReranker().set_params(n_rounds=3).get_params()["rounds"] == 3
    assert set(RECIPES) == {"default", "fast", "paper"}


def test_flags_of_release_0_1_are_still_there():
    """All of them, as that release listed them, but those whose option is gone, which are refused with a line of their own."""
    old = {
        "induce": "--recipe --level --leaves --max-leaves --rounds --init --shrinkage --l2 --sparse-l2 --patience --metric --rule --sampler --pairs --draws --threshold --alpha --resample-pairs --context --no-context --min-occurrences --static-only --tree-features --graphs --graph-iterations --graph-size --graph-names --graph-vocab --engine --scheduler --workers --timeout --resume",
        "tune": "--method -o --output --select --init --metric --pick --groups --runs --graphs --graph-iterations --graph-size --graph-names --graph-vocab --strategy-grid --epochs --rounds --c --k --oracle --prediction --average --last --shards --context-scale --b --d --solver --max-iter --decay --background --shuffle --no-shuffle --passes --alpha --eta --dense-eta --standardise --raw --l1 --l2 --loss --pairs --batch --workers --async --variant --variance --r --sampler --draws --threshold --keep --restarts --shakes --shake --directions --tol --max-features --engine --scheduler --timeout",
        "loop": "-r --ref -o --output --method --set --online --recipe --reweigh --no-reweigh --groups --init --select-input --select-ref --decoder --weights-format --ini --format --timeout --phrase-table --lm --reordering-table --stack --beam --table-limit --distortion-limit --extra --graphs --select-graphs --names --nbest-size --nbest --max-iterations --maximum-iterations --accumulate --prev-aggregate-nbestlist --min-weight-change --minimum-required-change-in-weights --patience --metric --pick --rescale --no-rescale --resume --force",
        "decode": "--phrase-table --lm --reordering-table -m --model --ini --nbest --nbest-output --distinct --no-distinct --search-graph --extra --stack --beam --table-limit --distortion-limit -o --output",
        "compare": "--select -o --output --test --systems --ablation --runs --search --metric --rounds --trials --baseline --force",
        "export": "--to -o --output --verify --list --no-verify --prefix --static --phrase-table --ini --columns --vocab",
    }  # fmt: skip
    for command, names in old.items():
        flags = flags_of(command)
        assert [name for name in names.split() if name not in flags] == [], command
        assert {"--seed", "--threads", "-q", "--quiet", "--json"} <= set(flags)


@pytest.mark.parametrize("name", GONE)
def test_options_that_are_gone_say_so(boostfeat, name):
    flag = "--" + name.replace("_", "-")
    code, _, err = boostfeat("induce", "x.nbest", flag, "1", "-o", "m.json")
    assert code == 2
    assert err.endswith(f"boostfeat induce: {flag}: expected none, found one of release 0.1 that did not help; leave it out\n")


@pytest.mark.parametrize("method", TUNERS)
def test_names_of_two_meanings_are_settled_by_the_method(method):
    """An old flag means to each method what it meant; a name of today means one thing in all methods."""
    known = named(tuner_class(method))
    for o in options_of(tuner_class(method)):
        assert known[o.name] is not None
        for name in o.names[1:]:
            others = [p for m in TUNERS if m != method for p in options_of(tuner_class(m)) if p.name == name]
            assert known[name].field == o.field or others
    helps = {}
    for o in (o for cls in TUNER_OPTIONS.values() for o in options_of(cls)):
        assert helps.setdefault(o.name, o.help) == o.help, o.name


@pytest.mark.parametrize(
    ("method", "flag", "field_"),
    [("pro", "--rounds", "rounds"), ("mert", "--rounds", "rounds"), ("pro", "--keep", "keep"), ("adagrad", "--pairs", "pairs"),
     ("rampion", "--alpha", "alpha"), ("pro", "--alpha", "alpha"), ("rampion", "--c", "c"), ("mira", "--c", "c"), ("rm", "--max-iter", "max_iter"),
     ("pro", "--max-iter", "max_iter"), ("mert", "--tol", "tol"), ("pro", "--tol", "tol"), ("adagrad", "--workers", "workers")],
)  # fmt: skip
def test_old_flags_of_tune_mean_what_they_meant(boostfeat, monkeypatch, tmp_path, method, flag, field_):
    import boostfeat.cli.tune as command

    made: list[Any] = []

    def stop(*args: Any, **kwargs: Any) -> Any:
        made.append(make(*args, **kwargs))
        raise InputError("enough")

    make = command.make_tuner
    monkeypatch.setattr(command, "make_tuner", stop)
    boostfeat("tune", "dev.nbest", "--method", method, flag, 3, "-o", tmp_path / "m.json")
    assert getattr(made[0], field_) == 3


def test_no_option_is_declared_twice():
    """Every ``option(...)`` in the package has a name of its own within its file; what another class has too is ``same``."""
    for path in sorted((ROOT / "boostfeat").rglob("*.py")):
        declared = [
            node.target.id
            for tree in [ast.parse(path.read_text())]
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.value, ast.Call)
            and getattr(node.value.func, "id", "") == "option"
            and isinstance(node.target, ast.Name)
        ]
        twice = [name for name, n in Counter(declared).items() if n > 1]
        meant = {"tuners/tuner_options.py": {"c", "alpha", "max_iter", "tol"}}  # one letter, two things: their flags differ
        assert set(twice) <= meant.get(str(path.relative_to(ROOT / "boostfeat")), set()), path


# -- out of range on the command line: one line, exit code 2 ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["induce", "x", "-o", "m", "--max-leaves", 100_000], "boostfeat: --max-leaves: expected a number from 2 to 65536, found 100000\n"),
        (["induce", "x", "-o", "m", "--set", "max_bin=256"], "boostfeat: --max-bin: expected a number from 2 to 255, found 256\n"),
        (["induce", "x", "-o", "m", "--pairs", 0], "boostfeat: --pairs: expected 1 or more, found 0\n"),
        (["induce", "x", "-o", "m", "--draws", 10**30], f"boostfeat: --draws: expected {MOST} or less, found {10**30}\n"),
        (["induce", "x", "-o", "m", "--l2", "inf"], "boostfeat: --l2: expected a finite number, found inf\n"),
        (["induce", "x", "-o", "m", "--l2", "nan"], "boostfeat: --l2: expected 0 or more, found nan\n"),
        (["tune", "x", "-o", "m", "--method", "mert", "--epochs", 0], "boostfeat: --epochs: expected 1 or more, found 0\n"),
        (["tune", "x", "-o", "m", "--method", "adagrad", "--set", "under_way=257"], "boostfeat: --under-way: expected a number from 1 to 256, found 257\n"),
        (["tune", "x", "-o", "m", "--set", "colour=1"], "boostfeat: --set colour: expected one of sampler, draws, threshold, pairs, alpha, l2, max_iter, tol, epochs; found none of that name\n"),
        (["decode", "x", "-m", "m", "--beam", 2], None),
        (["loop", "x", "-r", "x", "-o", "m", "--patience", 0], "boostfeat: --patience: expected 1 or more, found 0\n"),
        (["compare", "x", "--select", "x", "--test", "x", "-o", "m", "--trials", 0], "boostfeat: --trials: expected 1 or more, found 0\n"),
        (["import", "x", "-o", "m", "--size", 10**30], None),
        (["show", "x", "--top", 10**30], None),
        (["induce", "x", "-o", "m", "--threads", 0], None),
        (["induce", "x", "-o", "m", "--seed", -1], None),
    ],
)  # fmt: skip
def test_out_of_range_is_one_line_and_exit_code_2(boostfeat, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = boostfeat(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message is None or err == message
    assert "Traceback" not in err


def test_pairs_is_one_name_for_one_number():
    assert named(PairOptions)["pairs"].field == "keep"
    for command in ("induce", "tune"):
        flags = flags_of(command)
        assert flags["--pairs"] is flags["--keep"]
    for method in ("pro", "adagrad", "arow"):
        assert "pairs" in named(tuner_class(method))


def test_whole_help_of_a_command(capsys, monkeypatch):
    """What --help shows, then what --help-all shows besides: rare flags with all their names, and what the command adds."""
    monkeypatch.setenv("COLUMNS", "80")
    small = typer.Typer(rich_markup_mode=None, add_completion=False)

    def whole(
        store: Annotated[str, typer.Argument(metavar="LIST", help="A list.", show_default=False)],
        output: Annotated[str, typer.Option("-o", "--output", help="To write.")] = "-",
        top: Annotated[int, typer.Option("--top", min=1, help="Rows.")] = 20,
        *,
        toy: Toy,
        threads: int,
    ) -> None:
        """Do it all."""

    add(small, whole, more=lambda: [("Of whole", [("a", "What a is")])])
    add(small, lambda *, seed: None, "other")
    small(["whole", "--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    options = """Options:
  -o, --output FILE  To write [-]
  --top N            Rows [20]
  --bound X          Largest [inf]
  --shift X          Any number
  --kind NAME        Of what kind [plain]
  --warm/--no-warm   Start warm
  --loud             Say it
  --names A,B,...    Of what
  --size N           How large [4]
"""
    common = """Common:
  --seed N     Seed of all random choices [0]
  --threads N  At most all cores, the default; results do not depend on it
  -q, --quiet  No progress, no messages
  --json       Results for programs, on standard output
  -h, --help   Show this; --help-all: rare options too
"""
    head = "  Do it all.\n\nFiles:\n  LIST  A list\n"
    steps = "Steps:\n  --step X  Length of a step (η) [0.5]\n"
    assert shown.partition("\n\n")[2] == "\n".join([head, options, steps, common])
    small(["whole", "--help-all"], standalone_mode=False)
    every = capsys.readouterr().out
    head = "  Do it all.\n\nFiles:\n  LIST     A list\n  --force  Replace a file of another kind\n"
    steps = f"Steps:\n  --step X                    Length of a step (η) [0.5]\n  --pairs, --keep, --old-pairs N\n{' ' * 30}So many [3]\n"
    assert every.partition("\n\n")[2] == "\n".join([head, options, steps, "Of whole:\n  a  What a is\n", common])
