"""Absent is not zero: a feature that nearly all hypotheses have and some lack is told, refused, or the worst of its list."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from boostfeat import Reranker
from boostfeat.core.errors import InputError
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model

GOOD, WORSE, BARE = "0 ||| good ||| lm= -3 tm= -1 ||| -1", "0 ||| worse ||| lm= -9 tm= 0 ||| -2", "0 ||| junk |||  ||| -3"
MOSES = f"{GOOD}\n{WORSE}\n{BARE}\n1 ||| other ||| lm= -20 tm= -1 ||| -1\n"
WEIGHTS = {"lm": 1.0, "tm": 0.5}


def jsonl(**of_junk: object) -> str:
    """The same list as JSON lines; features are those of units."""
    header = {"boostfeat": "nbest/1", "unit_features": ["lm", "tm"]}
    hyps = [{"text": text, "score": -1, "units": [{"x": x}]} for text, x in (("good", [-3, -1]), ("worse", [-9, 0]))]
    other = {"id": 1, "hyps": [{"text": "other", "score": -1, "units": [{"x": [-20, -1]}]}]}
    return (
        "\n".join(map(json.dumps, (header, {"id": 0, "hyps": [*hyps, {"text": "junk", "score": -3, **of_junk}]}, other))) + "\n"
    )


LISTS = {"moses": MOSES, "units": jsonl()}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.chdir(tmp_path)
    model = Model(WEIGHTS)
    model.save("model.json")
    return model


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("kind", LISTS)
def test_import_and_rerank_tell_how_many_lack_what_and_where(boostfeat, kind: str) -> None:
    Path("list").write_text(LISTS[kind])
    expected = "1 hypothesis of 4 without lm, tm, first in sentence 0, hypothesis 3"
    code, _, err = boostfeat("import", "list", "-o", "list.nbest")
    assert (code, err.count(f"warning: list: {expected}")) == (0, 1)
    code, out, err = boostfeat("rerank", "list.nbest", "-m", "model.json")
    assert (code, out, err.count(f"warning: list.nbest: {expected}")) == (0, "junk\nother\n", 1)
    for missing, chosen in (("worst", "good\nother\n"), ("zero", "junk\nother\n")):
        assert boostfeat("rerank", "list.nbest", "-m", "model.json", "--missing", missing) == (0, chosen, "")
        code, _, err = boostfeat("import", "list", "-o", f"{missing}.nbest", "--missing", missing)
        assert code == 0
        assert "without" not in err
    assert boostfeat("rerank", "worst.nbest", "-m", "model.json") == (0, "good\nother\n", "")  # nothing is absent there
    for words in (["import", "list", "-o", "new"], ["rerank", "list.nbest", "-m", "model.json"]):
        code, _, err = boostfeat(*words, "--missing", "refuse")
        assert (code, expected in err) == (2, True)
    assert not Path("new").exists()


@pytest.mark.usefixtures("model")
def test_the_worst_is_the_lowest_of_the_list_or_of_all_lists(boostfeat) -> None:
    Path("list").write_text(
        MOSES + "".join(f"{s} ||| more ||| lm= -30 tm= -2 ||| -1\n" for s in range(2, 20)) + "20 ||| x ||| tm= 1 ||| 0\n"
    )
    assert boostfeat("import", "list", "-o", "list.nbest", "--missing", "worst")[0] == 0
    features = read_store("list.nbest").global_features.tolist()
    assert features[2] == [-9, -1]
    assert features[-1] == [-30, 1]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("format", ["jsonl", "moses"])
def test_what_is_absent_stays_so_in_json_lines_and_is_zero_in_lists_of_moses(boostfeat, format: str) -> None:
    Path("list").write_text(MOSES)
    boostfeat("import", "list", "-o", "list.nbest")
    assert boostfeat("convert", "list.nbest", "--format", format, "-o", "again")[0] == 0
    assert "-0" not in Path("again").read_text()
    code, _, err = boostfeat("import", "again", "-o", "again.nbest")
    assert (code, "without lm, tm" in err) == (0, format == "jsonl")


@pytest.mark.parametrize("units", [False, True])
def test_a_reranker_tells_once_and_does_as_it_is_told(model: Model, units: bool) -> None:
    def candidate(text: str, **features: float) -> dict[str, object]:
        own = {"units": [{"features": features}]} if units else {"features": features}
        return {"text": text, **(own if features else {})}

    candidates = [candidate("good", lm=-3, tm=-1), candidate("worse", lm=-9, tm=0), candidate("junk")]
    reranker = Reranker(model)
    with pytest.warns(UserWarning, match=r"1 of 3 without the model's feature 'lm', first candidates\[2\]; it counts as 0"):
        assert reranker.choose(candidates) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reranker.choose(candidates) == 2  # it has told
        assert Reranker(model, missing="zero").choose(candidates) == 2
        assert Reranker(model, missing="worst").choose(candidates) == 0
        assert Reranker(model, missing="worst").scores(candidates).tolist() == [-3.5, -9, -9.5]
        with pytest.raises(InputError, match="1 of 3 without the model's feature 'lm'"):
            Reranker(model, missing="refuse").choose(candidates)
    with pytest.raises(InputError, match="unknown missing 'best': expected one of refuse, zero, worst"):
        Reranker(model, missing="best")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([0, 0, 1, 1, 4, 4, 6, 6], "3 sentences between others without a list, first 2; is a part of the file missing?"),
        ([*range(20), *range(19)], "the list of sentence 19 has 1 hypothesis, all others 2; was it cut?"),
        ([0, 1], None),
        ([1, 1, 2, 2, 3, 3], None),
        ([0, 1, 1, 2, 2, 3], None),
    ],
)
def test_gaps_and_a_short_list_are_told(boostfeat, lines: list[int], message: str | None) -> None:
    Path("list").write_text("".join(f"{s} ||| a ||| lm= {k} ||| {k}\n" for k, s in enumerate(sorted(lines))))
    code, _, err = boostfeat("import", "list", "-o", "list.nbest")
    assert (code, [line for line in err.splitlines() if "warning" in line]) == (
        0,
        [f"boostfeat: warning: {message}"] if message else [],
    )


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("end", "messages"),
    [
        ("0 ||| cut ||| lm= -3 tm= -1 ||| -1", ["its last line has no line end; was the file cut?"]),
        (
            "0 ||| cut ||| lm= -3",
            ["its last line has no line end", "without tm", "1 hypothesis of 13 without the decoder's score"],
        ),
        ("0 ||| cut ||| lm= -3\n", ["without tm", "without the decoder's score, first in sentence 0; was a line cut?"]),
        (f"{GOOD}\n", []),
    ],
)
def test_a_last_line_that_was_cut_is_told(boostfeat, end: str, messages: list[str]) -> None:
    Path("list").write_text(f"{GOOD}\n" * 12 + end)
    code, _, err = boostfeat("import", "list", "-o", "list.nbest")
    assert code == 0
    assert err.count("warning") == len(messages)
    assert all(message in err for message in messages)
