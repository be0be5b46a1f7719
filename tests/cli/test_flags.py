"""Flags and settings of all commands: names, bounds, help, and what is refused because it would do nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf, isfinite
from pathlib import Path

import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import Model, write_store
from boostfeat.boosting.boost_options import RECIPES, BoostOptions
from boostfeat.cli import COMMANDS, HINTS, command
from boostfeat.cli.flags import flags_of, settings_of
from boostfeat.cli.learning_commands import make_tuner
from boostfeat.cli.option_texts import options_by_method
from boostfeat.core.errors import InputError
from boostfeat.core.options import MOST, REQUIRED, Option, options_of
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.tuners.base import Run
from boostfeat.tuners.tuner_options import TUNER_OPTIONS

ROOT = Path(__file__).parents[2]
CLASSES = {name: command(name).options for name in COMMANDS}
COMMON = {"seed", "threads", "quiet", "json"}
INPUTS = {  # what a command needs to come as far as its flags
    "import": "list -o new.nbest",
    "info": "dev.nbest",
    "convert": "dev.nbest",
    "rerank": "dev.nbest",
    "score": "dev.nbest",
    "join": "dev.nbest --column x=numbers -o new.nbest",
    "featurize": "dev.nbest --templates base -o new.nbest",
    "tune": "dev.nbest -o new.json",
    "induce": "dev.nbest -o new.json",
    "augment": "dev.nbest -m model.json -o new.nbest",
    "show": "model.json",
    "explain": "dev.nbest -m model.json",
    "decode": "source --phrase-table table --lm lm --ini ini",
    "loop": "source -r source --phrase-table table --lm lm --init model.json -o run",
    "compare": "dev.nbest --select dev.nbest --test dev.nbest -o run",
    "replicate": "ta13 dev.nbest --select dev.nbest --test dev.nbest -o run",
    "export": "model.json --to c -o new.h",
    "rescore": "graph",
    "report": "run -o new.html",
}
NOT_HERE = {"templates", "demo", "doctor"}  # commands without numbers and without inputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_store(synthetic_nbest(SyntheticOptions(sentences=4, hyps=3, features=2)), "dev.nbest")
    Model({"f0": 1.0}).save("model.json")
    for name in ("list", "numbers", "source", "table", "lm", "graph"):
        Path(name).write_text("1\n")
    return tmp_path


def words_of(o: Option, value: str) -> list[str]:
    """An option as it is typed."""
    if o.rare:
        return ["--set", f"{o.name.replace('_', '-')}={value}"]
    if "bool" in o.kind:
        return [o.typed_name if o.default is not True else f"--{o.flag.partition('/')[2] or 'no-' + o.name}"]
    return [o.typed_name, *([value] * (2 if o.kind.startswith("tuple[str, str]") else 1))]


# -- counts and names ---------------------------------------------------------------------------------------------------


def test_every_command_is_here():
    assert {*INPUTS} | NOT_HERE == {*COMMANDS}


@pytest.mark.parametrize(("name", "most"), [("tune", 30), ("induce", 30), ("loop", 32)])
def test_flags_are_what_people_type(name, most):
    flags = [o.name for o in flags_of(CLASSES[name]) if not o.is_argument]
    assert len(flags) + 2 <= most  # with --set and --help


@pytest.mark.parametrize("name", COMMANDS)
def test_no_flag_is_hidden_and_none_stands_for_two_options(name):
    flags = [flag for p in command(name).params for flag in (*p.opts, *p.secondary_opts)]
    assert len(flags) == len({*flags})
    assert not [p.name for p in command(name).params if getattr(p, "hidden", False)]
    assert {o.name for o in flags_of(CLASSES[name])} >= COMMON


@pytest.mark.parametrize("name", COMMANDS)
def test_every_method_has_its_settings(name):
    """What a flag shows and what --set takes have one declaration; a setting of the command hides none of a method."""
    own = {o.name for o in settings_of(CLASSES[name])}
    for method, options in options_by_method(CLASSES[name]).items():
        assert not own & {o.name for o in options}, method


# -- help ---------------------------------------------------------------------------------------------------------------


def test_the_commands_are_told_in_a_line_each(boostfeat, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = boostfeat("--help")
    assert boostfeat() == boostfeat("--") == (0, out, "")
    told = dict(line.split(maxsplit=1) for line in out.partition("Commands:\n")[2].rstrip().split("\n"))
    assert (code, told) == (0, {name: summary for name, (_, summary) in COMMANDS.items()})


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("how", ["--help", "--help-all"])
def test_help_fits_a_terminal_and_begins_with_files(boostfeat, monkeypatch, name, how):
    monkeypatch.setenv("COLUMNS", "80")
    flags = {flag for p in command(name).params for flag in p.opts}
    if how not in {*flags, "--help"}:
        return
    code, out, err = boostfeat(name, how)
    headings = [line for line in out.split("\n") if line.endswith(":") and line[0].isupper()]
    assert (code, err, [line for line in out.split("\n") if len(line) > 80]) == (0, "", [])
    assert "Files:" not in headings[1:]
    assert "Common:" in headings
    assert f"boostfeat {name}" in out.partition("Example")[2]
    if how == "--help":
        assert len(out.splitlines()) <= 80
    settings = settings_of(CLASSES[name]) if how == "--help-all" else []
    assert not [o.name for o in settings if f"  {o.name.replace('_', '-')}" not in out]


def test_help_imports_no_command():
    program = "import sys; sys.argv[1:] = ['--help']; from boostfeat.cli import run; run(); print(*sys.modules, file=sys.stderr)"
    how = {"capture_output": True, "text": True, "check": True, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    done = subprocess.run([sys.executable, "-c", program], **how)
    assert not {"numpy", "numba", "rich", "pydantic", "boostfeat.cli.flags"} & {*done.stderr.split()}


# -- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", HINTS)
def test_words_that_people_try_are_told_the_command(boostfeat, word):
    code, out, err = boostfeat(word, "x")
    assert (code, out, err) == (
        2,
        "",
        f"boostfeat: there is no command {word!r}; did you mean {HINTS[word]}? See 'boostfeat --help'\n",
    )


def idle() -> Iterator[tuple[str, Option]]:
    """Options that need another of the command itself; those that need one of their method are tried with the methods."""
    for name, cls in CLASSES.items():
        options = (*flags_of(cls), *settings_of(cls))
        here = {o.name for o in options}
        yield from ((name, o) for o in options if here & {need.partition("=")[0] for need in o.needs})


@pytest.mark.parametrize(("name", "option"), [pytest.param(n, o, id=f"{n} {o.typed_name}") for n, o in idle()])
def test_what_would_do_nothing_is_refused(folder, boostfeat, name, option):
    given = INPUTS[name]
    required = {o.name for o in flags_of(CLASSES[name]) if o.default is REQUIRED}
    if required & {*option.needs} or any(f"--{need} " in given for need in option.needs):
        pytest.skip("the command needs it")
    if "gain=bleu" in option.needs:
        given += " --gain chrf"
    before = sorted(folder.iterdir())
    value = option.choices[0] if option.choices else "no" if "bool" in option.kind else "1"
    code, out, err = boostfeat(name, *given.split(), *words_of(option, value))
    assert (code, out, err.count("\n")) == (2, "", 1)
    here = {o.name: o.typed_name for o in (*flags_of(CLASSES[name]), *settings_of(CLASSES[name]))}
    needed = next(here[need.partition("=")[0]] for need in option.needs if need.partition("=")[0] in here)
    assert err.startswith(f"boostfeat: {option.typed_name} does nothing without {needed}")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("rerank dev.nbest --lm lm", "--lm does nothing without a model that carries templates; leave it out"),
        ("tune dev.nbest --method rampion --alpha 0.1 -o m", "--alpha: rampion has no such option; it has --epochs, --passes"),
        ("tune dev.nbest --method rampion --c 0.1 -o m", "--c: rampion has no such option; it has --epochs, --passes"),
        ("tune dev.nbest --pick last -o m", "--pick is a setting: give --set pick=VALUE"),
        ("tune dev.nbest --plan x -o m", "No such option: --plan"),
        ("tune dev.nbest --groups x -o m", "--groups is a setting: give --set groups=VALUE"),
        ("tune dev.nbest --set colour=1 -o m", "--set colour: there is no such setting; choose from sampler, draws"),
        ("tune dev.nbest --method adagrad --eta 1 -o m", "eta does nothing with a list that has no sparse features"),
        ("tune dev.nbest --gain chrf --alpha 1 -o m", "alpha does nothing with --gain chrf: BLEU is what it smooths"),
        ("tune dev.nbest --method mert --graphs graph --set graph-nbest=3 -o m", "--set graph-nbest does not go with --method mert"),
        ("induce dev.nbest --templates none --set sparse-l2=3 -o m", "sparse-l2 does nothing with a list that has no sparse features"),
        ("induce dev.nbest --templates none --set try-templates=no -o m", "--set try-templates does not go with --templates"),
        ("tune dev.nbest --set groups=groups -o m", "no feature of the list matches 'lm*'; see 'boostfeat info dev.nbest'"),
        ("induce dev.nbest --set patience=3 --set rule=all -o m", "--set patience does nothing without --select"),
        ("induce dev.nbest --set colour=1 -o m", "--set colour: there is no such setting; choose from"),
        ("rerank dev.nbest --set colour=1", "--set colour: there is no such setting; choose from clusters-src, clusters-tgt"),
        ("compare dev.nbest --select dev.nbest --test dev.nbest --systems base-PRO --rounds 3 --force -o run", "--rounds"),
        ("loop source -r source --init model.json --online mira --method rm -o run", "--method does not go with --online"),
        ("loop source -r source --init model.json --graphs graph --set stack=5 -o run", "--set stack does not go with --graphs"),
        ("report run -o x.pdf", "-o x.pdf: the page is HTML; name a file that ends in .html"),
        ("featurize dev.nbest --plan v --products top:2 -o x", "--products does not go with --plan; leave one of them out"),
        ("rerank - -m model.json --stream --json", "--stream does not go with --json; leave one of them out"),
    ],
)  # fmt: skip
def test_what_does_not_count_is_named(folder, boostfeat, words, line):
    Path("groups").write_text('[[group]]\nmatch = "lm*"\nfreeze = true\n')
    code, out, err = boostfeat(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err


def other_values(o: Option, default: object) -> list[object]:
    """Values of an option that are far from its default."""
    special = {"gain": ["chrf"], "metric": ["chrf"], "tree_features": ["f1"], "sparse_l2": [5], "max_bin": [3]}
    if o.name in special:
        return special[o.name]
    if "bool" in o.kind:
        return ["no" if default else "yes"]
    if o.choices:
        return [choice for choice in o.choices if choice != default]
    number = default if isinstance(default, int | float) else 1
    values = (1, 2, 7, 50 * number) if "int" in o.kind else (number / 100 or 0.3, 100 * number + 0.5)
    return [value for value in values if value != default and o.problem(value) is None]


def idle_ones(options: Iterable[Option], defaults: Mapping[str, object], learned: Callable[[str], object]) -> list[str]:
    """Options none of whose values changes what is learned, or is refused by name."""
    usual = learned("")

    def counts(o: Option, value: object) -> bool:
        try:
            return learned(f"{o.name}={value}") != usual
        except InputError as error:
            return o.name.replace("_", "-") in str(error).replace("_", "-")

    return [o.name for o in options if not any(counts(o, value) for value in other_values(o, defaults[o.field]))]


@pytest.mark.parametrize(
    ("method", "variant"),
    [*((method, "") for method in TUNER_OPTIONS), ("rm", "solver=cp"), ("mira", "oracle=lu"), ("arow", "variant=exact")],
)
def test_every_setting_of_a_method_counts_or_is_refused(method, variant):
    options = options_of(TUNER_OPTIONS[method])
    short = {"epochs": "epochs=2", **({"batch": "batch=2"} if method in ("adagrad", "arow") and not variant else {})}
    lists = synthetic_nbest(SyntheticOptions(sentences=12, hyps=8, features=4))
    if method != "mert":  # which is for few features
        lists, _ = featurize(lists, FeaturePlan.of("sparse", TEMPLATES))

    def learned(setting: str) -> object:
        name = setting.partition("=")[0]
        settings = [*(text for known, text in short.items() if known != name), *filter(None, (variant, setting))]
        model = make_tuner(method, {}, settings).fit(lists, None, Run(gain="bleu", metric="bleu"))
        return model.weights, model.history

    free = [o for o in options if o.name != variant.partition("=")[0]]
    assert idle_ones(free, {o.field: o.default for o in options}, learned) == []


def test_every_setting_of_boosting_counts_or_is_refused(folder, boostfeat):
    write_store(synthetic_nbest(SyntheticOptions(sentences=14, hyps=8, features=4)), "dev.nbest")
    options, default = options_of(BoostOptions), RECIPES["default"]
    defaults = {
        o.field: next(getattr(x, o.field) for x in (default, default.pairs, default.tree) if hasattr(x, o.field)) for o in options
    }

    def learned(setting: str) -> object:
        name, _, value = setting.partition("=")
        o = next((o for o in options if o.name == name), None)
        short = {"rounds": 4, "min_occurrences": 2, "templates": "none"}
        words = [word for known, n in short.items() if known != name for word in (f"--{known.replace('_', '-')}", n)]
        words += words_of(o, value) if o else []
        code, _, err = boostfeat("induce", "dev.nbest", "-q", *words, "-o", "m.json")
        if code:
            raise InputError(err)
        config = Model.load("m.json").config
        return Model.load("m.json").signature, [config.get(name) for name in ("waterfall", "decision", "tree_count")]

    assert idle_ones(options, defaults, learned) == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("rerank l.nbest -m a.json -m b.json", "--model: expected one value, found 2; give one of them"),
        ("rerank l.nbest -m a.json --model=b.json", "--model: expected one value, found 2; give one of them"),
        ("compare l --select a --select b --test t -o x", "--select: expected one value, found 2; give one of them"),
    ],
)
def test_the_first_of_two_values_is_not_lost(boostfeat, words, line):
    assert boostfeat(*words.split()) == (2, "", f"boostfeat: {line}\n")


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["import", "list", "-r", "", "-o", "x"], "--ref"),
        (["rerank", "l.nbest", "-m", ""], "--model"),
        (["rerank", ""], "LIST.nbest"),
        (["tune", "l.nbest", "--select=", "-o", "x"], "--select"),
    ],
)
def test_a_variable_that_is_not_set_is_no_value(boostfeat, words, flag):
    assert boostfeat(*words) == (2, "", f"boostfeat: {flag}: expected a value, found ''; give one, or leave it out\n")


def test_names_of_methods_and_formats_have_any_case(folder, boostfeat):
    assert boostfeat("convert", "dev.nbest", "-q")[0] == 0
    words = (("--metric", "BLEU,Wer"), ("--metrics", "bleu,wer"))  # both spellings, any case
    found = [boostfeat("score", "dev.nbest", *way, "--json") for way in words]
    assert found[0] == found[1]
    assert boostfeat("tune", "dev.nbest", "--method", "PRO", "--set", "pick=Last", "-q", "-o", "m.json")[0] == 0


# -- numbers ------------------------------------------------------------------------------------------------------------


def wrong(kind: str, o: Option) -> Iterator[str]:
    """Values that a number with these bounds does not take."""
    yield from ("x", "", "nan")
    if o.most != inf:
        yield "inf"
    if kind == "int":
        yield "1.5"
        yield from [str(MOST + 1)] if o.most is None else []
    if o.least is not None or o.above is not None:
        yield f"{o.least - 1 if o.least is not None else o.above:g}"
    if o.most is not None and isfinite(o.most):
        yield f"{2 * o.most + 1:.0f}"


def numbers(name: str) -> Iterator[tuple[list[str], Option, str]]:
    """(words before, option, value): every number of a command and of its methods, with values that it does not take."""
    cls = CLASSES[name]
    options = [([], o) for o in (*flags_of(cls), *settings_of(cls)) if o.name in {p.name for p in options_of(cls)}]
    for method, of in options_by_method(cls).items():
        before = ["--method", method] if len(options_by_method(cls)) > 1 else []
        options += [(before, o) for o in of]
    for before, o in options:
        found = {kind.strip() for kind in o.kind.split("|")} & {"int", "float"}
        if found and not (name == "loop" and before == ["--method", "induce"]):
            yield from ((before, o, value) for value in wrong(min(found, key=("int", "float").index), o))


@pytest.mark.parametrize("name", INPUTS)
def test_numbers_that_are_none_or_out_of_range(name, folder, boostfeat):
    before, found = sorted(folder.iterdir()), []
    needed = {"rerank": "-m model.json", "explain": "--sentence 0", "tune": "--graphs graph", "induce": "--graphs graph"}
    for more, o, value in numbers(name):
        rare = o.rare or (name == "loop" and more)
        words = ["--set", f"{o.name}={value}"] if rare else [f"{o.typed_name}={value}"]
        code, out, err = boostfeat(name, *INPUTS[name].split(), *needed.get(name, "").split(), *more, *words)
        if (code, out, err.count("\n")) != (2, "", 1) or (o.name not in err and o.typed_name not in err and value):
            found.append((*more, *words, code, out[:50], err[:200]))
    assert not found, "\n".join(map(str, found))
    assert sorted(folder.iterdir()) == before
