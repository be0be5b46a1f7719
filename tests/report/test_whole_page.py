"""All that the page shows of a small run, whole: systems by hand, lists of 0 to 5 hypotheses of different lengths.

The two files of JSON were made by the program, and stand for what people see; where a number comes from is asked in test_report.py,
with naive twins, and in ``test_counts_by_hand``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden import check_golden
from small_list import REFS, stump, the_list

from boostfeat.lists.store import write_store
from boostfeat.model.model import Model
from boostfeat.report import gather, load_run
from boostfeat.report.figures import figures, sizes
from boostfeat.report.page import _count, _fixed, _p, _share, _signed, _value

HERE = Path(__file__).parent
HISTORY = tuple(
    {"round": k, "loss": 0.7 - 0.1 * k, "dev": 20.0 + k, "select": 19.0 + k, "rho": 0.5 / (k + 1), "bag": 0} for k in range(3)
)
MODELS = {
    "decoder": None,
    "base-PRO": Model({"LM0": 1.0, "TM0_0": 0.25}, history=({"epoch": 0, "loss": 0.5},)),
    "boost-global": Model({"LM0": 1.0}, (stump("LM0", -4.0, -1.0, 2.0),), "global", config={"best_round": 2}, history=HISTORY),
    "boost-local": Model(
        {"LM0": 0.5, "TM0_0": -0.25},
        (stump("LM0", -1.5, 2.0, -1.0), stump("TM0_0", -1.0, 0.5, 1.5, "u", on="LM0")),
        config={"metric": "bleu-sbp", "best_round": 1},
        history=HISTORY,
    ),
}


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
            "features": 3, "trees": len(model.trees) if model else 0, "dev": score, "select": score, "test": score,
            "tests": {"test": score, "other": {"bleu-sbp": 10.0 + k}}, "mean": {"bleu-sbp": 15.0 + k}, "p_value": 0.01 * k,
            "confidence": [19.0 + k, 21.0 + k], "seconds": 1.5, "peak_mb": 200.0 + k, "chosen": {"l2": 1.0},
            "tried": [{"params": {"l2": 1.0}, "select": 19.0}], "runs": [{"seed": 0}, {"seed": 1}],
            "model": f"{name}.json" if model else None, "choice": f"{name}.choice",
        })  # fmt: skip
    (folder / "results.json").write_text(json.dumps(rows))
    inputs = {"test": {"path": "test.nbest", "sentences": len(nbest)}}
    (folder / "config.json").write_text(
        json.dumps({"command": "boostfeat compare", "version": "0.2.0", "seeds": [0, 1], "inputs": inputs})
    )
    epochs = [{"epoch": e, "dev": 30.0 + e, "oracle": 40.0, "prediction": 10.0 + e} for e in range(1, 10)]
    (folder / "strategy-grid.json").write_text(json.dumps([{"oracle": "hope", "prediction": "fear", "history": epochs}]))
    spread = [
        {"epoch": e, "spread_mean": 1.0, "spread_sd": 2.0, "mira_spread_mean": 6.0 + e, "mira_spread_sd": 9.0} for e in (1, 2)
    ]
    (folder / "spread.json").write_text(json.dumps({"RM": spread}))
    return load_run(folder)


@pytest.fixture(scope="module")
def gathered(run):
    return gather(run)


def test_all_that_is_gathered(gathered):
    check_golden({k: v for k, v in gathered.items() if k != "reproduction"}, HERE / "gathered.json")
    told = gathered["reproduction"]
    assert (told["command"], told["seeds"], told["trials"]) == ("boostfeat compare", [0, 1], None)
    assert told["inputs"] == [{"set": "test", "path": "test.nbest", "sentences": 6}]
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


def test_the_figure_of_a_papers_table():
    table = {"kind": "sizes", "header": ["k", "BLEU"], "rows": [["1", "20.5"], ["1000", "40"]]}
    check_golden({"sizes": sizes(table)}, HERE / "sizes.json")


@pytest.mark.parametrize(
    ("shows", "value", "text"),
    [
        (_fixed, None, "–"), (_fixed, -1.234, "−1.23"), (_signed, None, "–"), (_signed, 1.235e2, "+123.50"), (_signed, -0.5, "−0.50"),
        (_p, None, "–"), (_p, 0.001, "0.001"), (_p, 0.00099, "< 0.001"), (_p, 0.25, "0.250"), (_share, None, "–"),
        (_share, 0.1234, "12.3%"), (_share, -0.5, "−50.0%"), (_count, None, "–"), (_count, 12345.6, "12,346"),
        (_value, 0.12345678, "0.123457"), (_value, "x", "x"), (_value, [1, "é"], '[1, "é"]'), (_value, True, "true"),
    ],
)  # fmt: skip
def test_numbers_as_the_page_shows_them(shows, value, text):
    assert shows(value) == text
