"""All that the page shows of a small run, whole: systems by hand, lists of 0 to 5 hypotheses of different lengths.

The two files of JSON were made by the program, and stand for what people see; where a number comes from is asked in test_report.py,
with naive twins, and in ``test_counts_by_hand``.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from golden import check_golden
from small_list import REFS, stump, the_list

from boostfeat.core.errors import InputError
from boostfeat.core.files import digest
from boostfeat.lists.choices import best_choice, first_choice
from boostfeat.lists.store import write_store
from boostfeat.model.model import Model
from boostfeat.report import gather, load_run
from boostfeat.report.figures import effects, figures, overlay, rank_bars, sizes, used_together, waterfall
from boostfeat.report.page import render
from boostfeat.report.plots import draw

HERE = Path(__file__).parent
HISTORY = tuple(
    {"round": k, "loss": 0.7 - 0.1 * k, "dev": 20.0 + k, "select": 19.0 + k, "rho": 0.5 / (k + 1), "bag": 0} for k in range(3)
)
EPOCHS = tuple(
    {"epoch": e, "dev": 30.0 + e, "oracle": 40.0, "prediction": 10.0 + e, "spread_mean": 1.0, "spread_sd": 2.0}
    for e in range(1, 10)
)
MODELS = {
    "decoder": None,
    "base-PRO": Model({"LM0": 1.0, "TM0_0": 0.25}, config={"oracle": "hope", "prediction": "fear"}, history=EPOCHS),
    "boost-global": Model({"LM0": 1.0}, (stump("LM0", -4.0, -1.0, 2.0),), "global", config={"best_round": 2}, history=HISTORY),
    "boost-local": Model(
        {"LM0": 0.5, "TM0_0": -0.25},
        (stump("LM0", -1.5, 2.0, -1.0), stump("TM0_0", -1.0, 0.5, 1.5, "u", on="LM0")),
        config={"metric": "bleu-sbp", "best_round": 1},
        history=HISTORY,
    ),
}


def config_of(test: Path) -> dict:
    about = {
        "command": "boostfeat compare",
        "version": "0.2.0",
        "seeds": [0, 1],
        "trials": 100,
        "options": {"baseline": "base-PRO"},
    }
    inputs = {"test": {"path": test.name, "sentences": 6, "sha256": digest(test)}}
    return {**about, "inputs": inputs, "signatures": {"bleu": "x"}, "versions": {"numpy": "2"}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    nbest = the_list(folder)
    write_store(nbest, folder / "test.nbest")
    rows = []
    for k, (name, model) in enumerate(MODELS.items()):
        chosen = [0 if b > a else -1 for a, b in zip(nbest.hyp_ptr, nbest.hyp_ptr[1:], strict=False)]
        if model:
            model.save(folder / f"{name}.json")
            chosen = np.where((c := model.predict(nbest)) < 0, -1, c - nbest.hyp_ptr[:-1]).tolist()
        (folder / f"{name}.choice").write_text(json.dumps({"test": chosen}))
        score = {"bleu-sbp": 20.0 + k, "bleu": 21.0 + k, "ter": 60.0 - k, "length_ratio": 0.9 + k / 100, "oracle_gap": k / 10}
        rows.append({
            "name": name, "method": name, "feature_set": "base", "level": model.level if model and model.trees else None,
            "features": 3, "trees": len(model.trees) if model else 0, "metric": "bleu-sbp", "dev": score, "select": score,
            "test": score, "tests": {"test": score, "other": {"bleu-sbp": 10.0 + k}}, "mean": {"bleu-sbp": 15.0 + k},
            "against": {"decoder": None, "base-PRO": 0.01 * k}, "p_bootstrap": None, "p_stratified": None,
            "confidence": [19.0 + k, 21.0 + k], "seconds": 1.5, "search_seconds": 2.5, "peak_mb": 200.0 + k, "chosen": {"l2": 1.0},
            "tried": [{"params": {"l2": 1.0}, "select": 19.0}], "runs": [{"seed": 0}, {"seed": 1}],
            "model": f"{name}.json" if model else None, "choice": f"{name}.choice",
        })  # fmt: skip
    (folder / "results.json").write_text(json.dumps(rows))
    (folder / "config.json").write_text(json.dumps(config_of(folder / "test.nbest")))
    return load_run(folder)


@pytest.fixture(scope="module")
def gathered(run):
    return gather(run)


def test_all_that_is_gathered(gathered):
    check_golden({k: v for k, v in gathered.items() if k != "reproduction"}, HERE / "gathered.json")
    told = gathered["reproduction"]
    assert (told["command"], told["seeds"], told["trials"]) == ("boostfeat compare", [0, 1], 100)
    assert [(i["set"], i["path"], i["sentences"]) for i in told["inputs"]] == [("test", "test.nbest", 6)]
    assert [(s["system"], s["chosen"], len(s["runs"])) for s in told["systems"]] == [(name, {"l2": 1.0}, 2) for name in MODELS]


def test_counts_by_hand(gathered):
    """The decoder's choices, the first ones, have 5 + 3 + 5 + 5 + 3 words and the references 20. Of 15 hypotheses three have an LM0
    above -4: (0, 1, 1), (1, 1, 1) and (1, 1, 2). Lists of 2 to 5 are four."""
    assert gathered["lengths"]["systems"][0]["ratio"] == 21 / 20
    card = gathered["trees"][0]["cards"][0]
    assert [leaf["fires"] for leaf in card["leaves"]] == [12, 3]
    assert gathered["buckets"]["size"]["count"] == [2, 4]
    assert [x["tgt"] for x in card["leaves"][1]["examples"]] == ["a house is", "a house stands", "the house is"]
    assert gathered["sentences"]["sentences"][3]["refs"] == [REFS[3]]


def test_all_figures(gathered):
    check_golden(figures(gathered), HERE / "figures.json")


def test_figures_and_a_table_for_an_article(run, gathered, boostfeat, tmp_path):
    """Figures of all systems, and those of boost-local, as PDF and SVG with the words of the page; a table; a page that is no HTML."""
    table = tmp_path / "main.tex"
    (tmp_path / "figures").mkdir()  # as an earlier report left it
    code, _, err = boostfeat(
        "report", run.folder, "--figures", tmp_path / "figures", "--tex", table, "--columns", "system,BLEU-SBP"
    )
    assert code == 0, err
    drawn = {file.name for file in (tmp_path / "figures").iterdir()}
    of_systems = ("curve", "waterfall", "effects", "response", "pairs")
    ids = ("results", "curve-0", "effects-0", "pairs-0", *(name for name in figures(gathered) if not name.startswith(of_systems)))
    assert {name.removesuffix("-1col.pdf") for name in drawn if name.endswith("-1col.pdf")} == set(ids)
    assert {"tree-1.pdf", "tree-2.svg", "strategy-0-2col.pdf", "bucket-size-1col.svg"} <= drawn
    assert (tmp_path / "figures/results-1col.pdf").read_bytes().startswith(b"%PDF")
    for name, words in (("strategy-0-2col", "dev BLEU-SBP"), ("bucket-length-1col", "source words"), ("tree-1", "LM0")):
        assert words in (tmp_path / f"figures/{name}.svg").read_text()
    assert "\\textbf{23.00}" in table.read_text()
    assert not (tmp_path / "report.html").exists()
    (tmp_path / "x.pdf").touch()
    for flags, message in (
        (
            ("-o", tmp_path / "x.pdf"),
            f"-o {tmp_path}/x.pdf: the page is HTML; name a file that ends in .html, or print it from a browser",
        ),
        (
            ("--tex", table, "--phrase-table", tmp_path / "x.pdf"),
            "--phrase-table does nothing without a page or --figures; leave it out",
        ),
        (("--columns", "dev"), "--columns does nothing without --tex FILE; give both"),
        (
            ("--phrase-table", tmp_path / "x.pdf"),
            "--phrase-table: none of the templates that the page computes reads it; leave it out",
        ),
    ):
        assert boostfeat("report", run.folder, *flags)[::2] == (2, f"boostfeat: {message}\n")


def test_bars_bands_and_cells_of_drawings():
    """By hand: a band from 1 to 3 and 2 to 4, curves side by side, a bar on a bar, a bar beside a bar, and a table of counts."""
    curve = {"name": "a", "at": [1, 2], "y": [2.0, 3.0], "low": [1.5, 2.5], "high": [5.0, 6.0], "band": [1.0, 1.0]}
    (axes,) = draw(overlay([curve, curve], "dev", range=[0, 9])).axes
    (band,) = [c for c in axes.collections if len(c.get_paths()[0].vertices) > 4][:1]
    assert {tuple(v) for v in band.get_paths()[0].vertices} == {(0.94, 1.0), (0.94, 3.0), (1.94, 2.0), (1.94, 4.0)}
    assert axes.get_ylim() == (0, 9)
    features = [{"name": "x", "linear": 1.0, "total": 3.0}, {"name": "y", "linear": 2.0, "total": 2.0}]
    (axes,) = draw(effects({"features": features})).axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 2), (0, 1), (2, 0), (1, 2)]
    ranks = {"labels": ["1", "2"], "rows": [{"system": "a", "gain": [1.0, None]}, {"system": "b", "gain": [2.0, 3.0]}]}
    (axes,) = draw(rank_bars(ranks, "gain", "gain", {"a": "#111111", "b": "#222222"})).axes
    assert [round(bar.get_x() + bar.get_width(), 3) for bar in axes.patches] == [0.0, 1.0, 0.35, 1.35]
    (axes,) = draw(used_together({"names": ["x", "y<"], "matrix": [[2, 1], [1, 0]]})).axes
    assert [text.get_text() for text in axes.texts] == ["2", "1", "1", "0"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y<"]


def test_a_waterfall_is_drawn_and_told(gathered):
    """By hand: of WER, which falls, a stage that gains 1.5 is a bar from 12 down to 10.5."""
    steps = [
        {"stage": "first choice", "score": 12.0, "gain": 0.0, "error": 0.0},
        {"stage": "+ trees", "score": 10.5, "gain": 1.5, "error": 0.25},
    ]
    told = {"system": "boost-local", "by": "folds", "metric": "WER", "steps": steps}
    bars, points = waterfall(told, "#123456")["data"]
    assert (bars["x"], bars["base"], bars["y"]) == (["first choice", "+ trees"], [12.0, 12.0], [0.0, -1.5])
    assert (points["y"], points["error_y"]["array"], points["customdata"]) == ([12.0, 10.5], [0.0, 0.25], ["", "+1.50 ± 0.25"])
    page = render({**gathered, "waterfalls": [told]})
    assert "first choice 12.00, + trees +1.50 ± 0.25" in page
    assert "WER on folds of the lists learned from" in page
    assert "What each part is worth" not in render(gathered)


def test_a_papers_table_with_its_figure(gathered):
    """Its numbers stand under a heading of their own; a difference of counts is a whole number."""
    rows = [["1", "20.5", "17.9"], ["1000", "40", ""], ["50000", "", "29.4"]]
    table = {"kind": "sizes", "header": ["k", "BLEU", "paper: cs-en"], "rows": rows}
    check_golden({"sizes": sizes(table)}, HERE / "sizes.json")
    here = {"on": "", "difference": 755.0, "error": None, "p": None, "test": "counts", "verdict": "shown"}
    paper = {
        "title": "T",
        "question": "Q?",
        "rows": {},
        "findings": [{"says": "few", "paper": "9", "here": [here]}],
        "differs": [],
    }
    page = render(
        {**gathered, "paper": {**paper, "tables": [{**table, "title": "", "finding": "", "panels": [], "differs": []}]}}
    )
    assert '<th class="theirs" colspan="1">the paper</th></tr><tr><th scope="col">k</th>' in page
    assert '<th scope="col" class="theirs">cs-en</th>' in page
    assert '<span class="nowrap">+755</span>' in page


# -- the folder of a run -------------------------------------------------------------------------------------------------

AGAIN = "make the run again with 'boostfeat compare'"


def choices(*at: int) -> str:
    return json.dumps({"test": list(at)})


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("results.json", "{}", "results.json: expected a list, found an object"),
        ("results.json", "[1]", "results.json: [0]: expected an object, found a whole number"),
        ("results.json", "[{}]", "results.json: [0]: expected the key 'name', found none"),
        ("results.json", '[{"name": "x"}]', "results.json: [0]: expected the key 'method', found none"),
        ("results.json", '[{"name": "x", "choice": "a\\u0000"}]', "results.json: expected JSON, found \\u0000, which no text has"),
        ("decoder.choice", "{}", "decoder.choice: expected the key 'test', found none"),
        ("decoder.choice", choices(-1, 0, 0, 0, 0), "decoder.choice: expected test: 6 hypothesis numbers, found 5"),
        ("decoder.choice", '{"test": [-1, 0, 0, 0, 0, true]}', "decoder.choice: test[5]: expected a whole number, found true or false"),
        ("decoder.choice", choices(-1, 0, 0, 0, 0, 5), "decoder.choice: expected test[5]: a hypothesis of its 5, found 5"),
        ("decoder.choice", choices(-1, -1, 0, 0, 0, 0), "decoder.choice: expected test[1]: a hypothesis of its 1, found -1"),
        ("decoder.choice", choices(-2, 0, 0, 0, 0, 0), "decoder.choice: test[0]: expected a whole number >= -1, found another"),
        ("decoder.choice", choices(0, 0, 0, 0, 0, 0), "decoder.choice: expected test[0]: a hypothesis of its 0, found 0"),
        ("config.json", "{}", "config.json: expected the key 'command', found none"),
        ("paper.json", "{}", "paper.json: expected the key 'title', found none"),
    ],
)  # fmt: skip
def test_folders_that_are_no_run(run, tmp_path, file, content, message):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    (folder / file).write_text(content)
    with pytest.raises(InputError) as error:
        load_run(folder)
    assert str(error.value) == f"{folder}/{message}; {AGAIN}"


def test_the_test_list_of_a_run(run, tmp_path):
    """Named by the run or given; a list of other bytes than the run's is refused, and so is one that is gone."""
    folder, config = tmp_path / "run", dict(run.config)
    shutil.copytree(run.folder, folder)
    (tmp_path / "moved").write_bytes((folder / "test.nbest").read_bytes())
    (folder / "test.nbest").unlink()
    for told, given, message in (
        ({}, None, f"test.nbest: expected the test list of {folder}, found no file; say where it is now with --test"),
        ({}, tmp_path / "moved", None),
        ({"path": str(tmp_path / "moved")}, None, None),
        ({"sha256": "0" * 64}, tmp_path / "moved",
         f"{tmp_path / 'moved'}: expected the test list of {folder} (sha256 000000000000...), found another ({digest(tmp_path / 'moved')[:12]}...); "
         "give the very list that was compared, or compare again"),
        (None, None, f"{folder}: expected a comparison on a test list, found an ablation without one; compare with --test"),
    ):  # fmt: skip
        (folder / "config.json").write_text(
            json.dumps({**config, "inputs": {} if told is None else {"test": {**config["inputs"]["test"], **told}}})
        )
        if message is None:
            assert len(load_run(folder, test=given).test) == 6
            continue
        with pytest.raises(InputError) as error:
            load_run(folder, test=given)
        assert str(error.value) == message


def test_which_systems_are_set_against_each_other(run):
    """The row that is named, else base-PRO, else the first of weights alone, else the first; what people come for, else the last."""
    decoder, pro, whole, _ = run.systems

    def roles(*systems, **options):
        other = replace(run, systems=tuple(systems), config={"options": options})
        return [s and s.name for s in (other.linear, other.ours, other.rival)]

    named = [replace(s, row=msgspec.structs.replace(s.row, name=name)) for s, name in zip(run.systems, "dpgl", strict=True)]
    assert roles(*run.systems) == ["base-PRO", "boost-local", "boost-global"]
    assert roles(*run.systems, baseline="decoder") == ["decoder", "boost-local", "boost-global"]
    assert roles(*run.systems, baseline="gone") == ["base-PRO", "boost-local", "boost-global"]
    assert roles(*named) == ["p", "l", "g"]
    assert roles(*named[::-1]) == ["p", "l", "g"]
    assert roles(named[0], named[2]) == ["d", "g", "g"]
    assert roles(named[3], named[0]) == ["l", "l", None]
    assert roles(named[0]) == ["d", "d", None]
    assert roles(decoder, pro, whole, named[3]) == ["base-PRO", "l", "boost-global"]
    assert replace(run, systems=(named[1],)).decoder.tolist() == best_choice(run.test, run.test.score).tolist()
    bare = replace(run, systems=(named[1],), test=replace(run.test, score=np.full(run.test.n_hyps, np.nan)))
    assert bare.decoder.tolist() == first_choice(run.test).tolist()
    assert bare.rank.tolist() == [k + 1 for a, b in pairwise(run.test.hyp_ptr.tolist()) for k in range(b - a)]


@pytest.mark.parametrize(
    ("name", "shown", "sign"), [("bleu-sbp", "BLEU+1", 1), ("bleu", "BLEU+1", 1), ("ter", "−TER", -1), ("chrf", "chrF", 1)]
)
def test_gains_of_sentences(run, name, shown, sign):
    """Better when higher, of 100; an empty list has that of an empty line: 0 of BLEU, and of TER all words of the reference, of which there are none."""
    first, *others = run.systems
    other = replace(run, systems=(replace(first, row=msgspec.structs.replace(first.row, metric=name)), *others))
    assert (other.gain_name, other.metric.name) == (shown, name)
    gains = other.gains(first.chosen)
    assert gains[0] == 0
    of_all = 100 * other.metric.gain(run.test)
    assert gains[1:] == pytest.approx(of_all[first.chosen[1:]])
    assert (sign * gains >= 0).all()
    nothing = other.gains(np.full(len(run.test), -1))  # to put in all words of a reference is an edit each
    assert nothing.tolist() == [0.0, *[-100.0 if name == "ter" else 0.0] * (len(run.test) - 1)]
