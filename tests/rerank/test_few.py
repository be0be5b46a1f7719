"""A few candidates without the engine: when it is asked after all, and what stands around a unit.

That scores are the engine's to the bit is tested beside the templates (tests/features/test_by_unit.py).
"""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from toy_trees import stump

from boostfeat.core.feature_table import FeatureTable
from boostfeat.features import FeaturePlan, Posterior
from boostfeat.features.by_unit import Pair, Place
from boostfeat.features.carried import FeatureMaker
from boostfeat.features.options import ResourceFiles
from boostfeat.features.vocab import Entry
from boostfeat.model.model import Model
from boostfeat.rerank import few as module
from boostfeat.rerank.few import Few, FewLists, Unit, _depth, _Forest, _place
from boostfeat.rerank.reranker import Reranker
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick

ONE, TWO = Unit("das", "the", "0-0", 1, 1, {"f": 2.0}), Unit("alte haus", "house", "1-0", 2, 1, {"f": 3.0})
LISTED = FewLists(
    source=["das", "alte", "haus"], names=("f",), units=[ONE, TWO], hyps=[[(0, 0), (1, 1)], [(1, 1)]], tgt_start=[0, 1, 0],
    texts=["the house", "house"], score=[-1.0, -2.0], own_names=("g",), own=np.array([[0.5], [0.25]]),
)  # fmt: skip


def units(**changes: object) -> dict[str, object]:
    """The list with one of its units changed."""
    return {"units": [ONE._replace(**changes), TWO]}


def both(**changes: object) -> dict[str, object]:
    return {"units": [ONE._replace(**changes), TWO._replace(**changes)]}


@pytest.mark.parametrize(
    ("reads", "changes", "lacks"),
    [
        ("", {}, False),
        ("", {"names": ("f", "made")}, True),
        ("", {"names": ("f", "made of lists")}, True),
        ("", {"own_names": ("made",)}, True),
        ("", {"names": ("f", "pt:a|b")}, True),
        ("", {"own_names": ("pt:a|b",)}, True),
        ("", {"names": ("f", "other:a", "pt.a")}, False),
        ("", {"names": ("other",)}, True),  # a template reads f
        ("", {"units": [], "hyps": [], "tgt_start": []}, False),
        ("source sentence", {"units": [], "hyps": [], "tgt_start": []}, True),
        ("source phrase", units(src=""), False),
        ("source phrase", both(src=""), True),
        ("target phrase", units(tgt=""), False),
        ("target phrase", both(tgt=""), True),
        ("target phrase", both(src=""), False),
        ("alignment", units(align=""), False),
        ("alignment", both(align=""), True),
        ("source sentence", {}, False),
        ("source sentence", {"source": []}, True),
        ("source phrase", {"source": []}, False),
        ("list", {}, False),
        ("list", {"score": [-1.0, nan]}, True),
        ("source phrase", {"score": [-1.0, nan]}, False),
        ("target span", {}, False),
        ("target span", {"tgt_start": [0, -1, 0]}, True),
        ("target span", units(tgt_len=-1), True),
        ("target span", units(tgt_len=0), False),
        ("target span", units(src_len=-1), False),
        ("target span", {"hyps": [[(0, -1), (1, 1)], [(1, 1)]]}, False),
        ("previous span", {}, False),
        ("previous span", units(src_len=-1), True),
        ("previous span", units(src_len=0), False),
        ("previous span", {"hyps": [[(0, -1), (1, 1)], [(1, 1)]]}, True),
        ("previous span", {"tgt_start": [0, -1, 0]}, False),
        ("source phrase", units(src_len=-1), False),
    ],
)
def test_what_a_list_lacks_is_left_to_the_engine(reads, changes, lacks):
    own = Few(Model({"f": 1.0}), FeaturePlan(products=()))
    own._reads, own._x, own.dense_names, own._own_names = set(filter(None, [reads])), {"f"}, ["made"], ["made of lists"]
    assert own._lacks(LISTED._replace(**changes)) is lacks


def test_trees_need_units():
    empty = LISTED._replace(units=[], hyps=[[], []], tgt_start=[])
    for trees, lacks in (((), False), ((stump("constant", None, feature="f"),), True)):
        assert Few(Model({"f": 1.0}, trees), FeaturePlan(products=()))._lacks(empty) is lacks


@pytest.mark.parametrize(
    ("model", "plan", "is_made"),
    [
        (Model({"f": 1.0}), None, True),
        (Model({"f": 1.0}, level="global"), None, False),
        (Model({"f": 1.0}), FeaturePlan((Entry("length", features=("len.src",)),), products=()), True),
        (Model({"f": 1.0}), FeaturePlan((Entry("mine", features=("x",)),), products=()), False),
        (Model({"f": 1.0}), FeaturePlan(posterior=Posterior(1.0), products=()), True),
        (Model({"f": 1.0}), FeaturePlan(posterior=Posterior(1.0, {"weights": {}}), products=()), False),
        (
            Model({"f": 1.0}),
            FeaturePlan((Entry("length", features=("a", "b")), Entry("size", features=("b",))), products=()),
            False,
        ),
        (Model({"f": 1.0}), FeaturePlan((Entry("length", features=("a", "b")),), products=(("a", "b"),)), True),
        (Model({"f": 1.0}), FeaturePlan((Entry("length", options=3, features=("a",)),), products=()), False),
        (Model({"f": 1.0}), FeaturePlan((Entry("length", features=("a", "b", "a*b")),), products=(("a", "b"),)), False),
    ],
)
def test_which_models_need_no_engine(model, plan, is_made):
    assert (Few.of(model, plan) is not None) == is_made


def test_scores_by_hand():
    """f and g weigh 2 and 4: 2 (2 + 3) + 4 / 2 and 2 · 3 + 4 / 4. A tree adds 10 where f is above 2.5, 1 below."""
    assert Few(Model({"f": 2.0, "g": 4.0}), FeaturePlan(products=())).scores(LISTED).tolist() == [12.0, 7.0]
    tree = stump("constant", None, feature="f", threshold=2.5, values=(1.0, 10.0), weight=0.5)
    assert Few(Model({"f": 2.0, "g": 4.0}, (tree,)), FeaturePlan(products=())).scores(LISTED).tolist() == [17.5, 12.0]


def test_what_is_not_finite_or_not_there_is_left_to_the_engine():
    few = Few(Model({"f": 1e308}), FeaturePlan(products=()))
    with np.errstate(over="ignore"):
        assert few.scores(LISTED) is None
    assert few.scores(LISTED._replace(hyps=[[(7, 0)]])) is None
    assert few.scores(LISTED._replace(own=np.zeros((2, 5)))) is None


def test_phrase_pairs_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(module, "MOST_PAIRS", 2)
    few = Few(Model({"f": 1.0}), FeaturePlan(products=()))
    for text, kept in (("a", 1), ("b", 2), ("a", 2), ("c", 1), ("d", 2)):
        few._known(ONE._replace(src=text))
        assert len(few._pairs) == kept


def test_links_beyond_the_phrases_are_left_to_the_engine():
    few = Few(Model({"f": 1.0}), FeaturePlan(products=()))
    few._reads = {"alignment"}
    assert few._learn("a b", "x", "1-0 0-0").pair == Pair(["a", "b"], ["x"], [(1, 0), (0, 0)])
    for align in ("2-0", "0-1"):
        with pytest.raises(ValueError, match="a link outside"):
            few._learn("a b", "x", align)
    few._reads = set()
    assert few._learn("a b", "x", "9-9").pair.a == []


def test_the_place_of_a_unit_by_hand():
    """A sentence of 6 words; spans [2, 3), then [0, 2), then [4, 6)."""
    spans, known = [1, 2, 2], [few_known(name) for name in "abc"]
    given = LISTED._replace(units=[ONE._replace(x={"f": float(k)}) for k in range(3)])
    a, b, c = (one.pair for one in known)
    first = _place(given, known, spans, 6, 0, 2, (-1, 0), (1, 0))
    assert first == Place(a, {"f": 0.0}, 2, 3, None, b, None, {"f": 1.0}, 2, -3, -3, 0, given.source, 6)
    middle = _place(given, known, spans, 6, 1, 0, (0, 2), (2, 4))
    assert middle == Place(b, {"f": 1.0}, 0, 2, a, c, {"f": 0.0}, {"f": 2.0}, -3, 0, 2, -6, given.source, 6)
    last = _place(given, known, spans, 6, 2, 4, (1, 0), (-1, 0))
    assert last == Place(c, {"f": 2.0}, 4, 6, b, None, {"f": 1.0}, None, 2, -6, 0, -3, given.source, 6)


def few_known(name: str) -> module._Known:
    return module._Known(Pair([name], [name], []), np.zeros(0), (), 0.0, {})


def chain(n: int, leaf: str, on: str | None) -> Tree:
    """A tree of n tests one below the other, on two features in turn."""
    size = 2 * n + 1
    left, right = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    inner = np.arange(0, 2 * n, 2)
    left[inner], right[inner] = inner + 1, inner + 2
    names = tuple(("f" if i % 4 else "g") if left[i] >= 0 else "" for i in range(size))
    intercept = np.arange(size) / 4 if leaf == "affine" else np.zeros(0)
    return Tree(f"t{n}{leaf}", 0.5 + n, leaf, on, names, np.arange(size) / 3.0, left, right, np.arange(size) - 2.0, intercept)


def test_a_forest_is_its_trees():
    trees = [chain(n, leaf, on) for n in (0, 1, 3) for leaf, on in (("constant", None), ("linear", "h"), ("affine", "g"))]
    x = np.random.default_rng(0).normal(1.0, 2.0, (7, 3))
    forest = _Forest(trees)
    assert forest.place == {"f": 0, "g": 1, "h": 2}
    assert [_depth(tree) for tree in trees[::3]] == [0, 1, 3]
    assert forest.depth == 3
    for rows in (x, x[:1]):
        expected = np.zeros(len(rows))
        for tree in trees:
            expected += tree.weight * tree.predict(FeatureTable(["f", "g", "h"], rows))
        assert forest.scores(rows).tolist() == expected.tolist()


def test_a_file_that_no_template_reads_is_said_by_the_engine():
    """With a language model at hand, the engine says whether it is used; without one, nothing is to be said."""
    model = Model({"f": 1.0})
    assert Reranker(model)._few is not None
    assert Reranker(model, FeatureMaker())._few is not None
    assert Reranker(model, FeatureMaker(ResourceFiles(lm="lm.arpa")))._few is None
