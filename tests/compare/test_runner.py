"""A comparison's folder, whole: what is written of a small run, what is said on the way, and what it is made from."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import pytest
from synthetic import SyntheticOptions, synthetic_nbest, write_lists

from boostfeat import __version__
from boostfeat.compare import runner, tasks
from boostfeat.compare.comparison_options import CompareOptions, as_words
from boostfeat.compare.runner import Folder, compare, settings
from boostfeat.compare.systems import SYSTEMS, parse_systems
from boostfeat.core.errors import InputError
from boostfeat.core.files import digest
from boostfeat.features.resources import ResourceFiles
from boostfeat.lists.store import write_store
from boostfeat.metrics.significance import SEED
from boostfeat.model.model import Model

SMALL = SyntheticOptions(sentences=12, hyps=6, features=3)
OPTIONS = CompareOptions("decoder,kbmira,al/pro", runs=2, trials=7, metric="bleu,ter", seed=3, min_count=1)


@pytest.fixture(scope="module")
def lists(tmp_path_factory) -> dict[str, str]:
    return write_lists(tmp_path_factory.mktemp("lists"), SMALL)


class Said:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.seen: list[tuple[str, int, int, bool]] = []

    def watch(self, name: str, done: int, total: int, result: object) -> None:
        self.seen.append((name, done, total, result is not None))


@pytest.fixture(scope="module")
def run(lists, tmp_path_factory) -> tuple[Path, Said]:
    said, folder = Said(), tmp_path_factory.mktemp("alone") / "run"
    compare(lists, folder, OPTIONS, report=said.notes.append, warn=said.warnings.append, watch=said.watch)
    return folder, said


def state_of(folder: Path, name: str) -> dict:
    return json.loads((folder / "systems" / f"{name}.json").read_text())


def test_what_is_said_on_the_way(run):
    """A line for each system that is trained, with its fits where there were several; jobs are counted, of training and scoring."""
    folder, said = run
    kbmira, pro = state_of(folder, "kbmira"), state_of(folder, "al_pro")
    notes = [note for note in said.notes if " made " not in note and "featur" not in note]
    assert sorted(notes[:3]) == sorted(
        [
            "decoder: nothing to train",
            f"kbmira: BLEU {kbmira['chosen_by']:.2f} on select (3 fits, {kbmira['search_seconds']:.1f} s)",
            f"al/pro: BLEU {pro['chosen_by']:.2f} on select (8 fits, {pro['search_seconds']:.1f} s)",
        ]
    )
    assert notes[3:] == ["scoring", "significance"]
    by_name = {name: [tuple(rest) for who, *rest in said.seen if who == name] for name in ("decoder", "kbmira", "al/pro")}
    new, none = (0, 0, False), False
    scored = [(0, 3, none), (1, 3, True), (2, 3, True), (3, 3, True)]
    assert by_name["decoder"] == [new, *scored]
    fits = [
        (0, 3, none),
        *((k, 3, True) for k in (1, 2, 3)),
        (4, 4, none),
        (4, 5, none),
        (5, 5, True),
    ]  # the chosen one, a second run
    assert by_name["kbmira"] == [new, *fits, *scored]
    lists_first = [(0, 1, none), (1, 1, True), (1, 2, none), (2, 2, True)]
    assert by_name["al/pro"][:6] == [new, *lists_first, (2, 10, none)]
    assert said.warnings == []


def test_the_config_whole(run, lists):
    folder, _ = run
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("versions") == {
        **{name: version(name) for name in ("numpy", "scipy", "lightgbm", "sacrebleu", "numba")},
        "python": platform.python_version(),
    }
    sha256 = {which: hashlib.sha256(Path(path).read_bytes()).hexdigest() for which, path in lists.items()}
    sizes = {"sentences": 12, "hypotheses": 72, "n_refs": 1}
    signatures = config.pop("signatures")
    assert list(signatures) == ["bleu", "bleu-sbp", "ter"]
    assert all(text.startswith("nrefs:1|") for text in signatures.values())
    grids = config.pop("grid")
    assert grids == {
        "decoder": [],
        "kbmira": [{"grid": {"c": [0.01, 0.001, 0.1]}, "method": None}],
        "al/pro": [{"grid": {"alpha": [1.0, 0.1], "keep": [100, 300], "l2": [1.0, 100.0]}, "method": None}],
    }
    assert config == {
        "boostfeat": "compare/1",
        "version": __version__,
        "command": f"boostfeat compare {lists['dev']} --select {lists['select']} --test {lists['test']} "
        f"--systems decoder,kbmira,al/pro --runs 2 --metric bleu,ter --trials 7 --seed 3 --min-count 1 -o {folder}",
        "options": asdict(OPTIONS),
        "systems": [json.loads(json.dumps(asdict(s))) for s in parse_systems(OPTIONS.systems)],
        "seeds": [3, 4],
        "test_seed": SEED,
        "inputs": {which: {"path": lists[which], "sha256": sha256[which], **sizes} for which in lists},
        "trials": 7,
    }


def test_files_that_templates_read(tmp_path):
    """As flags, and as digests; those of two or of several files as well."""
    for name in "abcde":
        (tmp_path / name).write_text(name)
    a, b, c, d, e = (str(tmp_path / name) for name in "abcde")
    given = ResourceFiles(bitext=(a, b), clusters_tgt=c, plugin=[d, e])
    folder = Folder(Path("run"), given)
    more = ["--set", f"clusters-tgt={c}", "--plugin", d, "--plugin", e]
    assert as_words(given) == ["--bitext", a, b, *more]
    digests = {name: digest(tmp_path / name) for name in "abcde"}
    whole = {"bitext": f"{digests['a']} {digests['b']}", "clusters_tgt": digests["c"], "plugin": f"{digests['d']} {digests['e']}"}
    assert folder.digests("large") == folder.digests("a") == whole
    assert (folder.digests("base"), Folder(Path("run")).digests("large"), as_words(ResourceFiles())) == ({}, {}, [])
    inputs = {which: {"sha256": which} for which in ("dev", "test")}
    assert folder.made_from("large", "test", inputs, CompareOptions())["plugin"] == whole["plugin"]


@pytest.mark.parametrize(
    ("name", "old", "said"),
    [
        ("select", "x", "another select list"),
        ("test2", "x", "another test2 list"),
        ("seed", 4, "seed '4', not '3'"),
        ("resources", {"lm": "x"}, "resources"),
    ],
)
def test_what_an_earlier_run_was_made_from(tmp_path, name, old, said):
    """The first difference is named; with force it is forgotten, and where nothing differs it is taken."""
    folder, system = Folder(tmp_path), SYSTEMS["kbmira"]
    made_from = settings(system, CompareOptions(seed=3), {"dev": "a", "select": "b", "test2": "c"})
    assert folder.finished(system, made_from, force=False) == {"made_from": made_from}
    (tmp_path / "systems").mkdir()
    state = {"made_from": {**made_from, name: old}, "chosen": {}}
    (tmp_path / "systems" / "kbmira.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match=f"expected an earlier run of the same comparison, found kbmira made with {said}"):
        folder.finished(system, made_from, force=False)
    assert folder.finished(system, made_from, force=True) == {"made_from": made_from}
    for force in (False, True):
        assert folder.finished(system, state["made_from"], force=force) == state
    less = {"made_from": {k: v for k, v in made_from.items() if k != "seed"}}
    (tmp_path / "systems" / "kbmira.json").write_text(json.dumps(less))
    with pytest.raises(InputError, match="made with seed 'null', not '3'"):
        folder.finished(system, made_from, force=False)


def test_what_is_scored_again(run, lists, monkeypatch):
    """What lacks a metric, or its choices; nothing else, and nothing is fitted."""
    folder, _ = run
    scored: list[str] = []
    keep = runner.keep_scores
    monkeypatch.setattr(runner, "keep_scores", lambda folder, system, *rest: (scored.append(system.name), keep(folder, system, *rest)))  # fmt: skip
    monkeypatch.setattr(tasks, "fit_in_worker", lambda *how: pytest.fail("fitted"))
    before = (folder / "results.json").read_bytes()
    compare(lists, folder, OPTIONS)
    assert scored == []
    (folder / "choices" / "kbmira.json").unlink()
    compare(lists, folder, OPTIONS)
    assert scored == ["kbmira"]
    state = state_of(folder, "decoder")
    del state["scores"][0]["dev"]["ter"]
    (folder / "systems" / "decoder.json").write_text(json.dumps(state))
    compare(lists, folder, OPTIONS)
    assert scored == ["kbmira", "decoder"]
    assert (folder / "results.json").read_bytes() == before
    compare(lists, folder, replace(OPTIONS, metric="bleu,ter,chrf"))
    assert scored == ["kbmira", "decoder", "decoder", "kbmira", "al/pro"]
    assert "chrf" in state_of(folder, "kbmira")["scores"][1]["select"]


def test_lists_have_to_be_files_with_sentences(lists, tmp_path):
    with pytest.raises(InputError, match="compare: expected files, found '-'; a list is read several times"):
        compare({**lists, "select": "-"}, tmp_path / "run", OPTIONS)
    write_store(synthetic_nbest(SMALL)[:0], tmp_path / "none.nbest")
    with pytest.raises(InputError, match=r"none.nbest: expected a list with sentences, found none; import it with -r REF"):
        compare({**lists, "select": str(tmp_path / "none.nbest")}, tmp_path / "run", OPTIONS)
    with pytest.raises(InputError, match=re.escape("--baseline: expected one of the compared systems (decoder), found 'mbr'")):
        compare(lists, tmp_path / "run", CompareOptions("decoder", baseline="mbr"))
    assert not (tmp_path / "run").exists()


def test_rows_that_are_one_run(tmp_path):
    """Equal weights are, whatever the methods; MBR chooses otherwise, as another decision does. Without trees levels are one."""
    methods = {"k": "pro", "b": "kbmira", "c": "mbr", "d": "pro", "x": "adagrad", "f": "boost-global", "e": "linear"}
    rows = []
    for name, method in methods.items():
        decision = {"decision": {"by": "mbr"}} if name == "e" else {}
        level = "global" if name == "f" else "local"
        model = Model({"x": 2.0 if name == "d" else 1.0}, level=level, config={"own": name, **decision})
        model.save(tmp_path / f"{name}.json")
        rows.append({"name": name, "method": method, "model": f"{name}.json"})
    rows.append({"name": "none", "method": "decoder", "model": None})
    runner.note_same_models(Folder(tmp_path), rows)
    assert {row["name"]: row["same_as"] for row in rows if "same_as" in row} == {"b": "k", "x": "k", "f": "k"}


@pytest.mark.parametrize("name", ["file", "file/run"])
def test_a_folder_that_cannot_be_made(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=rf"{name}: expected a folder to write, found: .*; choose another -o"):
        Folder(tmp_path / name).make()
