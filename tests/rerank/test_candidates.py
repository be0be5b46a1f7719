"""Candidates of a program as they are against the list that an import would make of them: the same units, places and numbers."""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest

from boostfeat import Reranker
from boostfeat.core.errors import InputError
from boostfeat.model.model import Model
from boostfeat.rerank.candidate_scores import OneList
from boostfeat.rerank.reranker import _listed, listed_of, one_list

PHRASE = {"src": [0, 1], "tgt": [0, 2], "features": {"lm": -1.5, "tm": 2}, "align": "0-0 0-1"}
CASES = {
    "units, features and scores": [
        {"text": "a b  c", "score": -1, "features": {"n": 1, "m": 2.5}, "units": [PHRASE, {"src": [1, 3], "tgt": [2, 3], "features": {"tm": 1}}]},
        {"text": "c a b", "score": None, "features": {"n": 0}, "units": [{"tgt": [0, 1]}, PHRASE | {"tgt": (1, 3)}]},
    ],
    "the same unit twice, others of other numbers": [
        {"text": "a b a b", "units": [PHRASE, PHRASE | {"tgt": [2, 4]}, PHRASE | {"features": {"lm": -1.5, "tm": 3}}, PHRASE | {"align": ""}]},
    ],
    "texts of their own": [
        {"text": "x", "units": [{"src_text": "s t", "tgt_text": "u v w", "features": {"lm": 1.0}}, {"src": [1, 2], "src_text": "own"}]},
        {"text": "", "units": []},
    ],
    "phrases without words": [{"text": "a", "units": [{"src": [0, 0], "tgt": [0, 0]}, {"src": [2, 2], "tgt": [1, 1], "features": {"q": 4}}]}],
    "features alone": [{"text": "a", "features": {"lm": -1}}, {"text": "b", "features": {"lm": -0.0, "x": 7}}],
    "nothing but text": [{"text": "a"}],
}  # fmt: skip


@pytest.mark.parametrize("source", ["das alte  haus", ""])
@pytest.mark.parametrize("case", CASES)
def test_the_same_as_in_a_list(case, source):
    found, expected = _listed(CASES[case], source), listed_of(one_list(CASES[case], source=source))
    assert found is not None
    assert expected is not None
    assert shown(found) == shown(expected)


def shown(few: OneList) -> dict[str, object]:
    """Features that a unit does not have are 0; those of hypotheses that are nowhere but 0 need no column."""
    units = [(*u[:5], [float(u.x.get(name, 0.0)) for name in few.names]) for u in few.units]
    own = {name: few.own[:, k].tolist() for k, name in enumerate(few.own_names) if few.own[:, k].any()}
    score = [None if isnan(v) else v for v in few.score]
    return {"source": list(few.source), "names": list(few.names), "units": units, "hyps": [list(map(tuple, h)) for h in few.hyps],
            "tgt_start": list(few.tgt_start), "texts": list(few.texts), "score": score, "own": own}  # fmt: skip


@pytest.mark.parametrize(
    "candidate",
    [
        {"text": 1},
        {"text": "a", "odd": 1},
        {"text": "a", "score": "1"},
        {"text": "a", "features": {"x": True}},
        {"text": "a", "features": {"x": inf}},
        {"text": "a", "features": {"x": nan}},
        {"text": "a", "features": {1: 1.0}},
        {"text": "a", "features": [1.0]},
        {"text": "a", "units": [[]]},
        {"text": "a", "units": [{"odd": 1}]},
        {"text": "a", "units": [{"src": [1]}]},
        {"text": "a", "units": [{"src": [1, 0]}]},
        {"text": "a", "units": [{"src": [-1, 0]}]},
        {"text": "a", "units": [{"src": [0, 2**31]}]},
        {"text": "a", "units": [{"src": [0, 1.0]}]},
        {"text": "a", "units": [{"src": [0, 4]}]},
        {"text": "a", "units": [{"tgt": "01"}]},
        {"text": "a", "units": [{"align": 1}]},
        {"text": "a", "units": [{"src_text": 1}]},
        {"text": "a", "units": [{"tgt_text": 1}]},
        ["text"],
    ],
)
def test_what_is_looked_at_with_care(candidate):
    assert _listed([{"text": "a"}, candidate], "das alte haus") is None


def test_features_of_few_hypotheses_would_be_sparse_in_a_list():
    """Those that fewer than a tenth have: one of ten is a tenth, one of eleven is less."""
    for n, is_few in ((10, True), (11, False)):
        given = [{"text": "a", "features": {"rare": 1.0} if k == 0 else {}} for k in range(n)]
        assert (_listed(given, "") is not None) == is_few
    many = [{"text": "a", "features": {f"x{k}": 1.0 for k in range(n)}} for n in (4096, 4097)]
    assert [_listed([each], "") is not None for each in many] == [True, False]


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ({"text": 1}, "candidates[0]: expected a text, found '1'"),
        ({"odd": 1}, "candidates[0]: expected the keys features, score, text, units, found 'odd'"),
        ([], "candidates[0]: expected a dictionary, found '[]'"),
        ({"text": "a", "features": {"x": True}}, "candidates[0]: feature 'x': expected a finite number, found 'True'"),
        ({"text": "a", "features": {"x": inf}}, "candidates[0]: feature 'x': expected a finite number, found 'inf'"),
        ({"text": "a", "units": [{"src": [1, 0]}]}, "candidates[0].units[0].src: expected [start, end] in words, half-open, found '[1, 0]'"),
        ({"text": "a", "units": [{}, {"tgt": [0]}]}, "candidates[0].units[1].tgt: expected [start, end] in words, half-open, found '[0]'"),
        ({"text": "a", "units": [{"src": [0, 2**31]}]}, "candidates[0].units[0].src: expected [start, end] in words, half-open, found '[0, 2147483648]'"),
        ({"text": "a", "features": {}}, "candidates: expected the model's feature 'a' and 1 more, found none; give it to all of them"),
        ({"text": "a", "features": {"a": 1}}, "candidates: expected the model's feature 'b', found none; give it to all of them"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(candidate, message):
    with pytest.raises(InputError) as error:
        Reranker(Model({"a": 1.0, "b": 1.0})).scores([candidate])
    assert str(error.value) == message


def test_the_best_is_chosen_and_the_first_of_equals():
    reranker = Reranker(Model({"a": 1.0}))
    given = [{"text": str(k), "features": {"a": value}} for k, value in enumerate((1.0, 3.0, 3.0, 2.0))]
    assert reranker.choose(given) == 1
    assert np.array_equal(reranker.scores(given), [1.0, 3.0, 3.0, 2.0])
    with pytest.raises(InputError, match="candidates: expected at least one, found none"):
        reranker.choose([])
    with pytest.raises(InputError, match=r"Reranker: expected a model, found 'm\.json'; Reranker\.load"):
        Reranker("m.json")
