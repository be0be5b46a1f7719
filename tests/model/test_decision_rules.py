"""What a model ranks by: scores or expected gains, by kernels and by plain Python, on lists and called from programs."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import Reranker
from boostfeat.core.errors import InputError
from boostfeat.formats.jsonl import write as write_jsonl
from boostfeat.lists.choices import texts
from boostfeat.lists.mbr import expected_gains, mbr_gains
from boostfeat.lists.nbest import strings
from boostfeat.lists.store import write_store
from boostfeat.lists.words import words_of
from boostfeat.model.decision import Decision, ranks
from boostfeat.model.model import Model

MBR = {"decision": {"by": "mbr", "scale": 0.8}}
WEIGHTS = {"RelFreq": 0.3, "LexWeight": 0.5, "LM0": 0.4}


def test_expected_bleu_by_hand():
    """'a b' has all its n-grams in 'a b c', so its BLEU+1 is the brevity penalty exp(1 - 3/2). The other way 2 of 3 words match,
    (1 + 1) of (2 + 1) bigrams, 1 of (1 + 1) trigrams and 1 of 1, smoothed. With itself it is 1.
    """
    found = expected_gains(np.array([0, 2]), words_of(strings(["a b", "a b c"])), np.array([[0.25], [0.75]]))[:, 0]
    there = np.exp(1 - 3 / 2)
    back = (2 / 3 * 2 / 3 * 1 / 2 * 1) ** 0.25
    np.testing.assert_allclose(found, [0.25 + 0.75 * there, 0.75 + 0.25 * back])


def test_scores_decide_unless_the_config_says_so():
    nbest = synthetic_nbest(SyntheticOptions(sentences=5, hyps=10), seed=1)
    scores = Model(WEIGHTS).decision_function(nbest)
    for config in ({}, {"decision": {"by": "score"}}, {"decision": None}):
        assert Decision.of(config).scale is None
        assert ranks(config, nbest, scores) is scores


@pytest.mark.parametrize("scale", [0, -1, "3", None, True, float("nan")])
def test_a_scale_that_is_none_is_said(scale):
    with pytest.raises(InputError, match=r"model: decision: .*make the model again"):
        Decision.of({"decision": {"by": "mbr", "scale": scale}})


def test_programs_and_commands_choose_what_the_model_chooses(tmp_path, boostfeat, monkeypatch):
    """Some choices are not those of the highest score; 'rerank', its lists, --stream and Reranker have the same ones."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=12, hyps=10), seed=1)
    model = Model(WEIGHTS, config=MBR)
    chosen = model.predict(nbest)
    assert (chosen != Model(WEIGHTS).predict(nbest)).any()
    within = (chosen - nbest.hyp_ptr[:-1]).tolist()
    reranker = Reranker(model)
    assert within == [reranker.choose(nbest[s : s + 1]) for s in range(len(nbest))]
    path = tmp_path / "test.nbest"
    write_store(nbest, path)
    model.save(tmp_path / "model.json")
    wanted = texts(nbest, chosen)
    assert boostfeat("rerank", path, "-m", tmp_path / "model.json")[1].splitlines() == wanted
    first = read_lines(boostfeat("rerank", path, "-m", tmp_path / "model.json", "--format", "moses")[1])
    assert first == wanted
    stream = io.BytesIO()
    write_jsonl(nbest, stream)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stream.getvalue())))
    answers = [json.loads(line) for line in boostfeat("rerank", "-", "--stream", "-m", tmp_path / "model.json")[1].splitlines()]
    assert [answer["choice"] for answer in answers] == within
    np.testing.assert_allclose(np.concatenate([a["scores"] for a in answers]), model.decision_function(nbest))


def test_what_has_scores_only_is_said(tmp_path, boostfeat):
    """By 'export' and by 'explain', whose parts add up to a difference in score."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=3, hyps=5), seed=1)
    write_store(nbest, tmp_path / "test.nbest")
    for config, said in ((MBR, True), ({}, False)):
        Model(WEIGHTS, config=config).save(tmp_path / "model.json")
        for target, left_out in (("json", False), ("cdec", said)):
            _, _, err = boostfeat("export", tmp_path / "model.json", "--to", target, "-o", tmp_path / f"out.{target}")
            assert ("it has scores alone, where in the model minimum Bayes risk decides" in err) == left_out
        explain = "explain", tmp_path / "test.nbest", "-m", tmp_path / "model.json"
        _, out, _ = boostfeat(*explain)
        assert ("minimum Bayes risk decides" in out) == said
        _, out, _ = boostfeat(*explain, "--sentence", 0, "--hyp", 1, "--against", 2, "--json")
        expected = mbr_gains(nbest, Model(WEIGHTS).decision_function(nbest), (MBR["decision"]["scale"],))[:, 0]
        assert json.loads(out)["expected"] == (pytest.approx(100 * expected[[1, 2]]) if said else None)


def read_lines(moses: str) -> list[str]:
    """The first text of each list."""
    found: dict[str, str] = {}
    for line in moses.splitlines():
        number, text, *_ = line.split(" ||| ")
        found.setdefault(number, text)
    return list(found.values())
