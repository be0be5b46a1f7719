"""boostfeat featurize as a person runs it."""

from __future__ import annotations

import errno
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.files import read_bytes
from boostfeat.features import FeaturePlan, featurizing
from boostfeat.lists import store
from boostfeat.lists.store import read_store, write_store

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def stores(data_stores, tmp_path_factory) -> Path:
    """Of 10 hypotheses a sentence."""
    folder = tmp_path_factory.mktemp("stores")
    for name in ("dev", "select", "test"):
        write_store(read_store(data_stores / f"{name}.nbest").truncate(10), folder / f"{name}.nbest")
    return folder


def test_dev_select_and_test_have_the_same_columns(boostfeat, stores, tmp_path):
    what = "large,sparse"
    code, out, err = boostfeat("featurize", stores / "dev.nbest", "--templates", what, "-o", tmp_path / "dev.l.nbest", "--json")
    assert code == 0, err
    found, vocab = json.loads(out), tmp_path / "dev.l.plan.json"
    dev = read_store(tmp_path / "dev.l.nbest")
    assert found["plan"] == str(vocab)
    assert found["unit_features"] == len(dev.unit_names) > 100
    assert found["sparse_features"] == len(dev.sparse_names) > 100
    for name in ("select", "test"):
        again = [] if name == "select" else ["--templates", what]  # what the plan says anyway
        arguments = ("featurize", stores / f"{name}.nbest", *again, "--plan", vocab, "-o", tmp_path / f"{name}.nbest")
        assert boostfeat(*arguments)[0] == 0
        other = read_store(tmp_path / f"{name}.nbest")
        assert other.unit_names == dev.unit_names
        assert other.sparse_names.equals(dev.sparse_names)
        assert json.loads(other.meta["templates"]) == json.loads(dev.meta["templates"])
        assert not (tmp_path / f"{name}.plan.json").exists()
    code, out, _ = boostfeat("info", tmp_path / "test.nbest")
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines() if line.startswith(("length", "bi "))] == [
        ["length", "static", "5"],
        ["bi", "contextual", f"{sum(n.startswith('bi:') for n in dev.sparse_names.to_pylist()):,}"],
    ]
    groups = json.loads(boostfeat("info", tmp_path / "test.nbest", "--json")[1])["groups"]
    assert sum(g["features"] for g in groups) == len(dev.unit_names) + len(dev.sparse_names)


def test_seed_and_threads(boostfeat, stores, tmp_path):
    """The same bytes for any number of threads; another seed clusters otherwise."""
    made = {}
    for name, options in {"a": ("--threads", 1), "b": ("--threads", 2), "c": ("--seed", 1)}.items():
        arguments = ("--templates", "large", "--products", "top:3", *options, "-o", tmp_path / f"{name}.nbest")
        assert boostfeat("featurize", stores / "select.nbest", *arguments, "-q")[0] == 0
        made[name] = [(tmp_path / f"{name}{end}").read_bytes() for end in (".nbest", ".plan.json")]
    assert made["a"] == made["b"]
    assert made["a"][1] != made["c"][1]
    assert len(FeaturePlan.load(tmp_path / "a.plan.json").products or ()) == 3


def test_the_result_can_be_trained_on(boostfeat, stores, tmp_path):
    boostfeat("featurize", stores / "dev.nbest", "--templates", "length,jump,pt,bi", "-o", tmp_path / "dev.nbest", "-q")
    for method in ("adagrad", "rm"):
        command = ("tune", tmp_path / "dev.nbest", "--method", method, "--epochs", 2, "-o", tmp_path / "m.json", "-q")
        assert boostfeat(*command)[0] == 0
        weights = json.loads((tmp_path / "m.json").read_text())["weights"]
        assert any(name.startswith("bi:") and w for name, w in weights.items())


def test_toml_and_plugin(boostfeat, stores, tmp_path):
    (tmp_path / "own.py").write_text(
        "from boostfeat.features import template\n"
        "@template('vowels')\n"
        "def vowels(target, *, pattern='a'):\n"
        "    '''Words with a letter.'''\n"
        "    return {'vowels': sum(pattern in word for word in target)}\n"
    )
    (tmp_path / "own.toml").write_text(
        "include = ['base']\nmin_count = 3\nclusters = 4\n[templates.length]\n[templates.vowels]\npattern = '1'\n"
        "[templates.inserted_clusters]\n[templates.deleted_words]\ntop = 2\n[templates.pt]\nmin_count = 1\n"
    )
    arguments = ("--templates", tmp_path / "own.toml", "--plugin", tmp_path / "own.py", "-o", tmp_path / "dev.x.nbest", "-q")
    code, _, err = boostfeat("featurize", stores / "dev.nbest", *arguments)
    assert code == 0, err
    dev = read_store(tmp_path / "dev.x.nbest")
    added = dev.unit_names[dev.unit_names.index("len.src") :]
    assert added[5:10] == ("vowels", "ins.c0", "ins.c1", "ins.c2", "ins.c3")
    assert [name.split(".")[0] for name in added[10:]] == ["del", "del"]
    expected = np.array([sum("1" in word for word in text.split()) for text in dev.text.to_pylist()])
    np.testing.assert_array_equal(dev.global_features[:, dev.unit_names.index("vowels")], expected)
    # the plan alone does not bring the user's code
    arguments = ("featurize", stores / "test.nbest", "--plan", tmp_path / "dev.x.plan.json", "-o", tmp_path / "t.nbest")
    code, _, err = boostfeat(*arguments)
    assert code == 2
    assert "unknown template 'vowels'" in err
    assert "--plugin" in err
    assert boostfeat(*arguments, "--plugin", tmp_path / "own.py")[0] == 0
    assert read_store(tmp_path / "t.nbest").unit_names == dev.unit_names


@pytest.mark.parametrize("run", [100, 10_000_000], ids=["many runs", "one run"])
def test_a_store_that_cannot_be_written_leaves_no_vocab(boostfeat, stores, tmp_path, monkeypatch, run):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(featurizing, "RUN", run)
    arguments = ("featurize", stores / "dev.nbest", "--templates", "length", "-o", tmp_path / "d.nbest", "-q")
    with monkeypatch.context() as patch:
        patch.setattr(store.pa.ipc, "new_file", full)
        code, _, err = boostfeat(*arguments)
    assert (code, "No space left on device" in err) == (2, True)
    assert not list(tmp_path.iterdir())
    assert boostfeat(*arguments)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.nbest", "d.plan.json"]


def test_runs_have_about_so_many_occurrences_and_hypotheses(stores, monkeypatch):
    dev = read_store(stores / "dev.nbest")
    monkeypatch.setattr(featurizing, "RUN", 10_000)
    runs = [len(run) for run in featurizing.runs_of(dev)]
    a_sentence = (dev.n_occurrences + dev.n_hyps) / len(dev)
    assert runs[:-1] == [int(10_000 / a_sentence)] * (len(runs) - 1)
    assert len(runs) > 2
    monkeypatch.setattr(featurizing, "RUN", 1)
    assert {len(run) for run in featurizing.runs_of(dev[:4])} == {1}


def test_phrase_table_bitext_and_clusters(boostfeat, tmp_path):
    stores = tmp_path
    lines = read_bytes(DATA / "test.nbest.xz").decode()
    (tmp_path / "list").write_text(re.sub(r" count\.log= [-.\d]+", "", lines), encoding="utf-8")  # which the table is to give
    arguments = ("import", tmp_path / "list", "-s", DATA / "test.src", "--size", 10, "-o", stores / "test.nbest")
    assert boostfeat(*arguments)[0] == 0
    nbest = read_store(stores / "test.nbest")
    src, tgt = nbest.units.src[0].as_py(), nbest.units.tgt[0].as_py()
    (tmp_path / "table").write_text(f"{src} ||| {tgt} ||| 1 1 1 1 ||| 0-0 ||| 9 8 7 ||| |||\n")
    (tmp_path / "clusters").write_text(f"{tgt.split()[0]} 5\n")
    given = ("--phrase-table", tmp_path / "table", "--bitext", DATA / "select.src", DATA / "select.ref")
    arguments = (
        *("featurize", stores / "test.nbest", "--templates", "large"),
        *given,
        *("--set", f"clusters-tgt={tmp_path / 'clusters'}"),
    )
    code, _, err = boostfeat(*arguments, "-o", tmp_path / "t.nbest")
    assert code == 0, err
    out = read_store(tmp_path / "t.nbest")
    assert {"count.log", "lex.tgt|src", "lex.src|tgt", "ins.c5"} <= set(out.unit_names)
    assert "ins.c1" not in out.unit_names
    assert out.X[0, out.unit_names.index("count.log")] == pytest.approx(np.log(8))
    assert (out.X[:, out.unit_names.index("lex.tgt|src")] < 0).all()
    frozen = ("featurize", stores / "test.nbest", "--plan", tmp_path / "t.plan.json", "-o", tmp_path / "u.nbest")
    code, _, err = boostfeat(*frozen)
    assert code == 2
    assert "--phrase-table FILE" in err
    assert boostfeat(*frozen, *given)[0] == 0
    assert read_store(tmp_path / "u.nbest").differences(out) == []


PLUGIN = "from boostfeat import template\n@template('mine')\ndef mine(target):\n"

BAD = [
    (["--templates", "huge"], "unknown template 'huge': expected one of base, large, sparse"),
    (["--templates", "length,xx"], "unknown template 'xx'"),
    (["--templates", "none.toml"], "expected a file, found none"),
    (["--templates", "{bad}/syntax.toml"], "expected TOML"),
    (["--templates", "{bad}/key.toml"], "a file has include, min_count, hash"),
    (["--templates", "{bad}/include.toml"], "include[0]: expected a string"),
    (["--templates", "{bad}/option.toml"], "template 'length' has no option 'size'; it has min_count, hash"),
    (["--templates", "{bad}/top.toml"], "deleted_words.top: expected a whole number of at least 1"),
    (["--templates", "{bad}/words.toml"], "template 'deleted_words': expected to run, found"),
    (["--products", "20"], "products: expected top:K"),
    (["--plan", "none.json"], "expected a file, found none"),
    (["--plan", "{bad}/top.toml"], "expected a plan that featurize wrote"),
    (["--plan", "{bad}/new.json"], "expected format version 1 or lower, found 9"),
    (["--plan", "{bad}/ok.json", "--min-count", "2"], "--min-count does not go with --plan"),
    (["--plan", "{bad}/ok.json", "--templates", "large"], "--templates large: expected those of"),
    (["--plugin", "none.py"], "expected a Python file, found none"),
    (["--plugin", "{bad}/fails.py"], "fails.py:1: expected a Python file that runs, found ZeroDivisionError"),
    (["--plugin", "{bad}/ends.py"], "ends.py:2: expected a Python file that runs, found SystemExit: 0"),
    (
        ["--plugin", "{bad}/strings.py", "--templates", "mine"],
        "template 'mine': expected to run, found TypeError: expected numbers, found str",
    ),
    (["--plugin", "{bad}/exits.py", "--templates", "mine"], "exits.py:4: template 'mine': expected to run, found SystemExit: 0"),
    (
        ["--plugin", "{bad}/raises.py", "--templates", "mine"],
        "raises.py:4: template 'mine': expected to run, found ZeroDivisionError",
    ),
    (["--plugin", "{bad}/sparse.py", "--templates", "mine"], "template 'mine': expected to run, found"),
    (
        ["--plan", "{bad}/list.json"],
        'expected a plan that featurize wrote ("boostfeat": "vocab/1"), found another kind of JSON',
    ),
    (["--plan", "{bad}/lacks.json"], "expected the key 'templates', found none"),
    (["--plan", "{bad}/kinds.json"], "templates: expected a list, found a whole number"),
    (["--plugin", "{bad}/empty.py"], "expected a function decorated with @template"),
    (["--plugin", "{bad}/known.py"], "template 'length': expected a name of its own"),
    (["--bitext", "{bad}/one", "{bad}/two"], "expected parallel text, found 1 and 2 lines"),
    (["--set", "clusters-src={bad}/one"], "one:1: expected 'word class'"),
    (["--phrase-table", "{bad}/one"], "one:1: expected 'source"),
    (["--min-count", "0"], "--min-count: expected 1 or more"),
    (["--template", "large"], "No such option"),
]


@pytest.fixture(scope="module")
def bad(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    files = {
        "syntax.toml": "include = [",
        "key.toml": "includes = ['base']",
        "include.toml": "include = [['base']]",
        "option.toml": "[templates.length]\nsize = 3",
        "top.toml": "[templates.deleted_words]\ntop = 'many'",
        "words.toml": "[templates.deleted_words]\nwords = 5",
        "new.json": '{"boostfeat": "vocab/9"}',
        "ok.json": json.dumps(FeaturePlan().to_json()),
        "fails.py": "1 / 0",
        "ends.py": "import sys\nsys.exit(0)",
        "strings.py": f"{PLUGIN}    return {{'mine.a': 'x'}}",
        "exits.py": f"{PLUGIN}    raise SystemExit(0)",
        "raises.py": f"{PLUGIN}    1 / 0",
        "sparse.py": f"{PLUGIN}    return [3]",
        "list.json": "[]",
        "lacks.json": '{"boostfeat": "vocab/1"}',
        "kinds.json": '{"boostfeat": "vocab/1", "templates": 3}',
        "empty.py": "x = 1",
        "known.py": "from boostfeat.features import TEMPLATES\nlength = TEMPLATES['length']",
        "one": "only one field here\n",
        "two": "a\nb\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_input(boostfeat, stores, bad, tmp_path, arguments, message):
    filled = [a.format(bad=bad) for a in arguments]
    code, out, err = boostfeat("featurize", stores / "test.nbest", *filled, "-o", tmp_path / "out.nbest", "-q")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_set_says_what_it_is_without(boostfeat, stores, tmp_path):
    _, _, err = boostfeat("featurize", stores / "test.nbest", "--templates", "large", "-o", tmp_path / "out.nbest")
    assert "boostfeat: large is without phrase_count, which takes --phrase-table FILE\n" in err
    for name in ("lexical_weight", "morpheme_weight"):
        assert f"boostfeat: large is without {name}, which takes --bitext SOURCE TARGET\n" in err


def test_a_list_that_lacks_alignments(boostfeat, tmp_path):
    (tmp_path / "list.jsonl").write_text(
        '{"boostfeat": "nbest/1", "unit_features": ["lm"]}\n'
        '{"id": 0, "source": "das haus", "refs": ["the house"], "hyps": [{"text": "the house", "score": -4.4, '
        '"units": [{"src": [0, 1], "tgt": [0, 1], "x": [-0.3]}, {"src": [1, 2], "tgt": [1, 2], "x": [-0.2]}]}]}\n'
    )
    assert boostfeat("import", tmp_path / "list.jsonl", "-o", tmp_path / "list.nbest", "-q")[0] == 0
    code, _, err = boostfeat("featurize", tmp_path / "list.nbest", "--templates", "large", "-o", tmp_path / "out.nbest")
    assert code == 0
    lacking = "unaligned, links, deleted_words, inserted_words, deleted_clusters, inserted_clusters"
    assert f"templates {lacking} are left out: they need word alignments; have the decoder write them" in err
    code, _, err = boostfeat("featurize", tmp_path / "list.nbest", "--templates", "unaligned", "-o", tmp_path / "out.nbest")
    assert code == 2
    assert "template 'unaligned' needs word alignments" in err
    works = err.partition("templates that work on this list: ")[2].strip()
    assert {"length", "jump", "pt", "bi"} <= set(works.split(", "))
    named = works.replace(" ", "")
    assert boostfeat("featurize", tmp_path / "list.nbest", "--templates", named, "-o", tmp_path / "out.nbest")[0] == 0


@pytest.mark.slow
def test_real_lists(boostfeat, real, tmp_path):
    """[TA13 2.2] about 190 features, in under a minute; at least 10^5 sparse ones."""
    folder = real / "fi-en"
    for name in ("devtrain", "devselect"):
        files = (folder / f"{name}.200.enriched.xz", "-s", folder / f"{name}.fi", "-r", folder / f"{name}.en")
        assert boostfeat("import", *files, "--size", 100, "-o", tmp_path / f"{name}.nbest", "-q")[0] == 0
    for what, dense, least in (("large", 190, 0), ("sparse", 14, 100_000)):
        started = time.monotonic()
        out = tmp_path / f"dev.{what}.nbest"
        assert boostfeat("featurize", tmp_path / "devtrain.nbest", "--templates", what, "-o", out, "--threads", 1, "-q")[0] == 0
        assert time.monotonic() - started < 60
        made = read_store(out)
        assert len(made.unit_names) == dense
        assert len(made.sparse_names) >= least
        vocab = tmp_path / f"dev.{what}.plan.json"
        boostfeat("featurize", tmp_path / "devselect.nbest", "--plan", vocab, "-o", tmp_path / "select.nbest", "-q")
        select = read_store(tmp_path / "select.nbest")
        assert select.unit_names == made.unit_names
        assert select.sparse_names.equals(made.sparse_names)
