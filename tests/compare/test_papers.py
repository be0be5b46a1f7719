"""The papers' experiments: that their rows and tables exist, and what tables say of handmade runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from golden import check_golden
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.compare import paper_page
from boostfeat.compare.comparison_options import CompareOptions
from boostfeat.compare.findings import NOT_SHOWN, SHOWN, WITHIN, verdict_of
from boostfeat.compare.paper_page import COLUMNS, KINDS, Page, page_text, scores_by_test, with_numbers, write_page
from boostfeat.compare.papers import Finding, Paper, PaperTable, method_of, paper_of, paper_options, papers
from boostfeat.compare.runner import Folder, all_systems
from boostfeat.compare.systems import fit, parse_systems, stages
from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.lists.choices import Scorer, oracle_choice
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.report.run_folder import _paper

LISTS = SyntheticOptions(sentences=20, hyps=12, features=4)


@pytest.mark.quick
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", papers())
def test_every_row_and_table_of_a_paper_is_one(name, quick):
    paper = paper_of(name, quick=quick)
    options = paper_options(paper, seed=3)
    systems = {system.name: system for system in all_systems(options)}
    assert list(systems) == list(paper.rows.values())  # and no others
    assert options.baseline in systems
    assert {system.method for system in systems.values()} == {method_of(row) for row in paper.rows.values()}
    for table in paper.tables:
        assert table.kind in KINDS
        assert set(table.rows) <= set(paper.rows)
        assert set(table.columns) <= set(COLUMNS)
        assert table.finding
        assert {len(values) for values in table.paper.values()} <= {len(table.paper_columns)}
    assert (options.search == "none") == quick
    labels = {label for finding in paper.findings for label in (finding.of, finding.over)}
    labels |= {label for table in paper.tables for panel in table.panels for label in panel}
    assert labels <= set(paper.rows)
    assert paper.findings[0].of in paper.rows
    assert paper.question.endswith("?")
    if quick:  # no note on what is not done then
        notes = " ".join(note for table in paper.tables for note in (*table.differs, *table.searched))
        assert not re.search("20 epochs|20 random|three folds|2, 4 or 8|as select says", notes)
        for setting in paper.differs[0].removesuffix(".").split(" rows ")[1].split(", "):  # each is of a row
            assert any(setting.partition(":")[2] in row and setting.startswith(method_of(row)) for row in paper.rows.values())


@pytest.mark.quick
def test_settings_of_the_papers():
    """What the papers say of their own settings is fixed, and what they chose on held-out data is searched."""

    def searched(label: str, paper: str) -> set[str]:
        (system,) = [s for s in all_systems(paper_options(papers()[paper])) if s.name == papers()[paper].rows[label]]
        return {name for stage in stages(system) for name in stage.grid}

    assert searched("boost-local", "ta13") == {"alpha", "keep", "l2", "leaves", "max_leaves"}  # no shrinkage
    assert searched("LU/MC", "e12") == set()
    assert searched("RM, sparse", "emr13") == {"d"}
    assert searched("PRO", "emr13") == {"l2"}  # "requiring regularization tuning"
    assert searched("+PT, this paper", "g13") == set()
    with pytest.raises(InputError, match="unknown paper 'ta14': expected one of ta13, e12, g13, emr13"):
        paper_of("ta14")
    with pytest.raises(InputError, match="--graphs: expected the paper e12 or emr13 with it, found g13; leave it out"):
        paper_of("g13", graphs="abc")


# -- tables of handmade results -----------------------------------------------------------------------------------------


def result(name: str, bleu: float, ter: float, **more) -> dict:
    tests = {w: {"bleu": bleu + d, "ter": ter + d, "precision": 2 * bleu, "brevity": 0.5, "p_value": 0.25} for w, d in (("test", 0.0), ("test2", 2.0))}  # fmt: skip
    return {
        "name": name, "metric": "bleu", "features": 7, "trees": 0, "dev": {"bleu": bleu + 5}, "tests": tests, "p_value": 0.25,
        "mean": {"bleu": bleu + 1}, "epochs": 4, "seconds": 2.0, "active": {"decoder": 4, "id": 3}, **more,
    }  # fmt: skip


def handmade(tmp_path: Path, name: str) -> Page:
    paper = papers()[name]
    rows = [result(system, 30 + k, 60 - 2 * k) for k, system in enumerate(paper.rows.values())]
    return Page(Folder(tmp_path), paper, rows, {"inputs": {}, "options": {"baseline": paper.rows["MERT"]}})


@pytest.mark.quick
def test_columns_of_two_test_lists(tmp_path):
    page = handmade(tmp_path, "emr13")
    table = PaperTable("", "", rows=("MIRA",), columns=tuple(COLUMNS))
    header, (cells,) = KINDS["systems"](page, table)
    assert dict(zip(header, cells, strict=True)) == {
        "system": "MIRA", "features": "7", "dev BLEU": "36.00",
        "test BLEU": "31.00", "test2 BLEU": "33.00", "mean BLEU": "32.00", "test TER": "58.00", "test2 TER": "60.00",
        "test TER-BLEU": "27.00", "test2 TER-BLEU": "27.00", "test precision": "62.00", "test2 precision": "62.00",
        "test BP": "0.500", "test2 BP": "0.500", "test p against MERT": "0.2500", "test2 p against MERT": "0.2500",
        "epochs": "4", "seconds an epoch": "0.500", "seconds in all": "2.00",
    }  # fmt: skip
    one = {**page.results[0], "test": {"bleu": 9.0}}
    del one["tests"]
    assert scores_by_test(one) == {"test": {"bleu": 9.0, "p_value": 0.25}}


@pytest.mark.quick
def test_gains_of_relative_margin_over_the_others(tmp_path):
    """Labels in the paper's order: MERT, MIRA, PRO, RAMPION, RM, then sparse ones; each a BLEU above and 2 TER below the last."""
    header, rows = KINDS["gains"](handmade(tmp_path, "emr13"), papers()["emr13"].tables[2])
    assert header == ["RM over", "small BLEU", "small TER", "large BLEU", "large TER"]
    assert rows == [
        ["MERT", "4.00", "8.00", "", ""],
        ["MIRA", "3.00", "6.00", "3.00", "6.00"],
        ["PRO", "2.00", "4.00", "2.00", "4.00"],
        ["RAMPION", "1.00", "2.00", "1.00", "2.00"],
    ]
    header, rows = KINDS["active"](handmade(tmp_path, "emr13"), papers()["emr13"].tables[0])
    assert (header, rows[0]) == (["system", "decoder", "id"], ["RM, sparse", "4", "3"])


@pytest.mark.quick
def test_strategies_stand_where_the_paper_has_them(tmp_path):
    header, rows = KINDS["strategies"](handmade(tmp_path, "e12"), papers()["e12"].tables[1])
    assert header == ["prediction", "test LU", "test M-C", "test2 LU", "test2 M-C"]
    bleu = {label: 30.0 + k for k, label in enumerate(papers()["e12"].rows)}  # on test; 2 more on test2
    assert rows == [
        *([p, *(f"{bleu[f'{o}/{p}'] + d:.2f}" for d in (0, 2) for o in ("LU", "M-C"))] for p in ("PB", "MC", "M+C")),
        *([one, f"{bleu[one]:.2f}", "", f"{bleu[one] + 2:.2f}", ""] for one in ("max-BLEU/MC", "MERT")),
    ]
    assert rows[0] == ["PB", "31.00", "34.00", "33.00", "36.00"]


def test_sizes_up_to_the_longest_list(dev, tmp_path):
    """A list of 10 has sizes 1 and 10, one of 11 also its own; the oracle of one hypothesis is the first."""
    for longest, sizes in ((1, [1]), (10, [1, 10]), (11, [1, 10, 11])):
        part = dev[:6].truncate(longest)
        write_store(part, tmp_path / "dev.nbest")
        page = SimpleNamespace(config={"inputs": {"dev": {"path": tmp_path / "dev.nbest"}}}, metric="bleu")
        header, rows = KINDS["sizes"](page, None)
        assert (header, [row[0] for row in rows]) == (["k", "oracle BLEU"], list(map(str, sizes)))
        best = [Scorer(part.truncate(k)).score(oracle_choice(part.truncate(k), "bleu"), "bleu").score for k in sizes]
        assert [row[1] for row in rows] == [f"{score:.2f}" for score in best]
        assert rows[0][1] == f"{Scorer(part).score(part.hyp_ptr[:-1], 'bleu').score:.2f}"


@pytest.mark.quick
def test_curves_may_be_of_different_lengths(tmp_path):
    labels = ("LU/PB", "LU/C")
    paper = Paper("", "", (), dict(zip(labels, ("pb", "c"), strict=True)), {"metric": "bleu"}, (), ())
    for name, dev in (("pb", [30.0]), ("c", [31.0, 29.0, 30.0])):
        history = tuple({"dev": score, "prediction": score - 1, "oracle": score + 5} for score in dev)
        Model({}, config={"oracle": "lu", "prediction": name}, history=history).save(tmp_path / f"{name}.json")
    rows = [result(name, 30, 60, model=f"{name}.json") for name in ("pb", "c")]
    header, cells = KINDS["curves"](Page(Folder(tmp_path), paper, rows, {"inputs": {}}), PaperTable("", ""))
    assert header == ["epoch", *labels]
    assert cells == [
        ["1", "30.0 (29.0 to 35.0)", "31.0 (30.0 to 36.0)"],
        ["2", "", "29.0 (28.0 to 34.0)"],
        ["3", "", "30.0 (29.0 to 35.0)"],
        ["mean change", "0.00", "1.50"],  # (2 + 1) / 2
    ]


# -- tables of real runs ------------------------------------------------------------------------------------------------


SMALL = Paper(
    "A small paper",
    "Is small good?",
    (
        Finding("RM is above LU", "RM", "LU/PB", "+0.1"),
        Finding("RM is calmer", "RM", "LU/PB", "2 and 1", kind="spread"),
        Finding("LU keeps fewer", "LU/PB", "+PT", "9 of 10", kind="features"),
    ),
    {
        "boost-local": "boost-local:paper",
        "LU/PB": "base/mira:paper:lu-pb:epochs=3",
        "RM": "base/rm:paper:epochs=3",
        "+PT": "pt/adagrad:paper",
    },
    {"metric": "bleu"},
    (
        PaperTable("Figure 1", "sums", kind="units", rows=("boost-local",)),
        PaperTable("Figure 2", "trees", kind="trees", rows=("boost-local",)),
        PaperTable("Sizes", "more is more", kind="sizes", paper_columns=("cs",), paper={"10": ("7.5",), "500": ("9.5",)}),
        PaperTable("Curves", "swing", kind="curves"),
        PaperTable("Spread", "below 1", kind="spreads", rows=("RM", "LU/PB")),
        PaperTable("Overlap", "few", kind="overlap", rows=("+PT",)),
        PaperTable("Rules", "of a word", kind="rules", rows=("+PT",), differs=("Words differ.",)),
        PaperTable("Bitext", "is another domain", kind="bitext", rows=("LU/PB", "+PT"), columns=("features",)),
    ),
    ("Everything differs.",),
    bitext=("+PT",),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> tuple[Path, dict]:
    """A folder as a comparison leaves it, made without child processes."""
    folder = Folder(tmp_path_factory.mktemp("run"))
    folder.make()
    lists = {which: synthetic_nbest(LISTS, seed=k) for k, which in enumerate(("dev", "select", "test"))}
    inputs = {which: {"path": str(folder.path / f"{which}.nbest"), "sha256": which} for which in lists}
    for which, nbest in lists.items():
        write_store(nbest, inputs[which]["path"])
    results = []
    for system in parse_systems(",".join(["base-PRO", *SMALL.rows.values()]))[1:]:
        dev = lists["dev"]
        if system.feature_set != "base":
            dev, _ = featurize(dev, FeaturePlan.of(system.feature_set, TEMPLATES, min_count=1))
        if system.level:
            model = boost(dev, lists["select"], recipe("paper", rounds=3))
        else:
            model = fit(system, dev, lists["select"], {"d": 0.01} if system.method == "rm" else {}, CompareOptions(search="none"))
        model.save(folder.named("models", system))
        file = str(folder.named("models", system).relative_to(folder.path))
        active = sum(w != 0 for w in model.weights.values())
        choice = f"choices/{system.slug}.json"
        about = {"feature_set": system.feature_set, "features": active, "trees": 0, "runs": [{}], "choice": choice}
        if system.feature_set == "base":
            chosen = {which: (model.predict(of) - of.hyp_ptr[:-1]).tolist() for which, of in lists.items()}
            (folder.path / choice).write_text(json.dumps(chosen))
        results.append({"name": system.name, "metric": "bleu", "model": file, **about})
    options = {"seed": 0, "baseline": "base-PRO"}
    config = {"inputs": inputs, "options": options, "trials": 200, "version": "0", "command": "boostfeat replicate small"}
    (folder.path / "config.json").write_text(json.dumps(config))
    (folder.path / "counts.json").write_text(json.dumps(results))
    return folder.path, write_page(folder, SMALL, results, {"bitext": (folder, results)})


def cells_of(page, title: str) -> tuple[list[str], list[list[str]]]:
    (table,) = [table for table in page[1]["tables"] if table["title"] == title]
    return table["header"], table["rows"]


def test_a_page_whole(page):
    """Every cell as it was when the tests below held: its words, and its numbers up to what other releases of scipy change."""

    def parts(cell: str) -> list[str | float]:
        number = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
        return [re.sub(number, "#", cell), *map(float, re.findall(number, cell))]

    found = [{**table, "rows": [[parts(cell) for cell in row] for row in table["rows"]]} for table in page[1]["tables"]]
    check_golden({**page[1], "tables": found}, Path(__file__).parent / "paper.json", rel=2e-3)


def test_findings_are_differences_with_their_errors_and_tests(page):
    """Of scores on the test list, of curves by epoch, and of counts."""
    folder, data = page
    above, calmer, fewer = (finding["here"][0] for finding in data["findings"])
    test = read_store(folder / "test.nbest")
    score = {}
    for name in ("base_rm_paper_epochs_3", "base_mira_paper_lu-pb_epochs_3"):
        within = np.array(json.loads((folder / f"choices/{name}.json").read_text())["test"])
        score[name] = Scorer(test).score(within + test.hyp_ptr[:-1], "bleu").score
    rm, lu = score.values()
    assert (above["on"], above["difference"]) == ("test", pytest.approx(rm - lu))
    assert above["error"] > 0
    assert above["test"] == "approximate randomisation"
    assert 0 < above["p"] <= 1
    assert calmer["test"] == "paired t-test over 3 epochs"
    counts = {row["name"]: row["features"] for row in json.loads((folder / "counts.json").read_text())}
    assert fewer["difference"] == counts["pt/adagrad:paper"] - counts["base/mira:paper:lu-pb:epochs=3"]
    assert (fewer["error"], fewer["p"], fewer["verdict"]) == (None, None, SHOWN)
    assert (
        f"| RM is above LU | +0.1 | {above['difference']:+.2f} ± {above['error']:.2f} (test) |"
        in (folder / "paper.md").read_text()
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    ("kind", "difference", "error", "p", "expected"),
    [
        ("above", 0.5, 0.2, 0.01, SHOWN),
        ("above", -0.5, 0.2, 0.01, NOT_SHOWN),
        ("above", 0.5, 0.4, 0.2, WITHIN),
        ("above", -0.1, 0.4, 0.8, WITHIN),
        ("near", -0.5, 0.2, 0.01, SHOWN),  # less than a point apart, in all likelihood
        ("near", 1.5, 0.2, 0.01, NOT_SHOWN),
        ("near", 0.5, 0.8, 0.6, WITHIN),
        ("features", 3.0, None, None, SHOWN),
        ("features", 0.0, None, None, NOT_SHOWN),
    ],
)
def test_verdicts(kind, difference, error, p, expected):
    assert verdict_of(kind, difference, error, p) == expected


@pytest.mark.quick
def test_numbers_of_the_paper_stand_beside_ours():
    """By the first cell or the first two; rows that only the paper has come last."""
    table = PaperTable("", "", paper_columns=("cs", "fr"), paper={"b / y": ("3", "4"), "a": ("1", "2"), "c / z": ("5", "6")})
    header, rows = with_numbers(table, ["system", "on", "ours"], [["a", "x", "1.1"], ["b", "y", "3.1"], ["d", "x", "7"]])
    assert header == ["system", "on", "ours", "paper: cs", "paper: fr"]
    assert rows == [["a", "x", "1.1", "1", "2"], ["b", "y", "3.1", "3", "4"], ["d", "x", "7", "", ""], ["c", "z", "", "5", "6"]]


def test_local_values_sum_to_the_global_one(page):
    header, rows = cells_of(page, "Figure 1")
    assert 2 <= len(header) - 2 <= 8
    assert any(row[0].startswith("tree.") for row in rows)
    for _, *local, whole in rows:
        assert float(whole) == pytest.approx(sum(map(float, local)), rel=2e-3, abs=1e-6)


def test_the_page_and_what_the_report_reads(page, monkeypatch):
    folder, data = page
    text = (folder / "paper.md").read_text()
    assert text == page_text(data, "boostfeat replicate small")
    assert "- Words differ.\n" in text
    assert "## Settings of all that differ from the paper\n\n- Everything differs.\n" in text
    assert _paper(folder / "paper.json") == data
    monkeypatch.setattr(paper_page, "featurize", None)  # nothing is tuned twice
    config = json.loads((folder / "config.json").read_text())
    assert KINDS["overlap"](Page(Folder(folder), SMALL, [{"name": "pt/adagrad:paper", "metric": "bleu", "model": "models/pt_adagrad_paper.json", "feature_set": "pt"}], config), SMALL.tables[5])[1]  # fmt: skip


def test_bad_usage_is_one_line(boostfeat, tmp_path):
    code, out, err = boostfeat("replicate", "x99", "dev", "--select", "s", "--test", "t", "-o", tmp_path / "run")
    assert (code, out, err) == (2, "", "boostfeat: unknown paper 'x99': expected one of ta13, e12, g13, emr13\n")
    code, _, err = boostfeat("replicate", "e12", "d", "--select", "s", "--test", "t", "--tune-on", "b", "-o", tmp_path / "run")
    assert (code, err) == (2, "boostfeat: --tune-on: expected the paper g13 with it, found e12; leave it out\n")
