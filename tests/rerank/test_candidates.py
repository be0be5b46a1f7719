"""Candidates of a program: their scores by hand, and what is said of wrong ones."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from toy_trees import stump

from boostfeat import Reranker
from boostfeat.core.errors import InputError
from boostfeat.model.model import Model

pytestmark = pytest.mark.quick


def test_scores_by_hand():
    """f and g weigh 2 and 4: 2 (2 + 3) + 4 / 2 and 2 · 3 + 4 / 4. A tree adds 0.5 · 10 where f is above 2.5, 0.5 below."""
    one, two = ({"src": src, "tgt": tgt, "features": {"f": f}} for src, tgt, f in (([0, 1], [0, 1], 2), ([1, 3], [1, 2], 3.0)))
    given = [
        {"text": "the house", "features": {"g": 0.5}, "units": [one, two]},
        {"text": "house", "features": {"g": 0.25}, "units": [{**two, "tgt": (0, 1)}]},
    ]
    weights = {"f": 2.0, "g": 4.0}
    assert Reranker(Model(weights)).scores(given, source="das alte haus").tolist() == [12.0, 7.0]
    tree = stump("constant", None, feature="f", threshold=2.5, values=(1.0, 10.0), weight=0.5)
    assert Reranker(Model(weights, (tree,))).scores(given, source="das alte haus").tolist() == [17.5, 12.0]


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ({"text": 1}, "candidates[0]: expected a text, found 1"),
        ({"odd": 1}, "candidates[0]: expected the keys features, score, text, units, found 'odd'"),
        ([], "candidates[0]: expected a dictionary, found []"),
        ({"text": "a", "features": {"x": True}}, "candidates[0]: feature 'x': expected a finite number, found True"),
        ({"text": "a", "features": {"x": inf}}, "candidates[0]: feature 'x': expected a finite number, found inf"),
        ({"text": "a", "units": [{"features": {"x": 10**400}}]}, "candidates[0].units[0]: feature 'x': expected a finite number, found 1000"),
        ({"text": "a", "score": "x"}, "candidates[0].score: expected a finite number, found 'x'"),
        ({"text": "a", "units": [{"src": [1, 0]}]}, "candidates[0].units[0].src: expected [start, end] in words, half-open, found [1, 0]"),
        ({"text": "a", "units": [{}, {"tgt": [0]}]}, "candidates[0].units[1].tgt: expected [start, end] in words, half-open, found [0]"),
        ({"text": "a", "units": [{"src": [0, 2**31]}]}, "candidates[0].units[0].src: expected [start, end] in words, half-open, found [0, 2147483648]"),
        ({"text": "a", "features": {}}, "candidates: expected numbers for 'a', 'b', which the model reads, found none; give them to all"),
        ({"text": "a", "features": {"a": 1}}, "candidates: expected numbers for 'b', which the model reads, found none; give them to all"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(candidate, message):
    with pytest.raises(InputError) as error:
        Reranker(Model({"a": 1.0, "b": 1.0})).scores([candidate])
    assert str(error.value).startswith(message)


def test_the_best_is_chosen_and_the_first_of_equals():
    reranker = Reranker(Model({"a": 1.0}))
    given = [{"text": str(k), "features": {"a": value}} for k, value in enumerate((1.0, 3.0, 3.0, 2.0))]
    assert reranker.choose(given) == 1
    assert np.array_equal(reranker.scores(given), [1.0, 3.0, 3.0, 2.0])
    with pytest.raises(InputError, match="candidates: expected at least one, found none"):
        reranker.choose([])
    for one in ("a b", {"text": "a"}, {"error": "busy"}, None):  # whose characters or keys are no candidates
        with pytest.raises(InputError, match="candidates: expected a list of them, found "):
            reranker.choose(one)
    with pytest.raises(InputError, match="sources: expected one for each of 2 lists, found 1; align them"):
        reranker.choose_many([given, given], ["x"])
    with pytest.raises(InputError, match=r"Reranker: expected a model, found 'm\.json'; Reranker\.load"):
        Reranker("m.json")
