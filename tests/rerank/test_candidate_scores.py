"""A few candidates as they are: their scores are those of a list of them, bit by bit, under any weights and trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_systems import stump
from toy_trees import stump as tree_of

from boostfeat.core.errors import InputError
from boostfeat.core.feature_table import FeatureTable
from boostfeat.features import TEMPLATES, FeaturePlan, template
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.options import ResourceFiles
from boostfeat.features.plan import Entry
from boostfeat.features.resources import Posterior
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.rerank import candidate_scores
from boostfeat.rerank.candidate_scores import CandidateScorer, OneList, Unit
from boostfeat.rerank.reranker import Reranker, listed_of, one_list
from boostfeat.trees.forest import forest, forest_scores
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick


def unit(src: tuple[int, int], tgt: tuple[int, int], align: str, lm: float, **more: object) -> dict[str, object]:
    return {"features": {"LM0": lm, "tm": 0.1 * lm - 1}, "src": src, "tgt": tgt, "align": align, **more}


# gaps, marks and letters of other scripts, numbers, copies, crossings, several links of a word, links written twice and in any
# order, phrases without words, -0.0, one unit alone, and a hypothesis without any
SOURCE = "« talo » 3,5 &quot; Äiti \U0001f600 [X][1] ja ja ."
STRANGE = [
    {
        "text": "« house » 3,5 &quot; Äiti 中文 ! [X] the the",
        "features": {"own": 1.5, "LM0": 0.25},
        "units": [
            unit((0, 3), (0, 3), "0-0 1-1 2-2", -3.25),
            unit((3, 6), (3, 6), "2-2 0-0 0-0", -0.0),
            unit((7, 8), (6, 9), "0-1", -7.5),
            unit((8, 9), (9, 9), "", -1.0, tgt_text=""),
            unit((6, 7), (9, 10), "0-0", -1.0, src_text="[X] \U0001f600 [Y] [Y]", tgt_text="[X] a [Y]"),
            unit((9, 11), (9, 11), "0-1 1-0", -2.0),
        ],
    },
    {"text": ". 3,5", "features": {}, "units": [unit((0, 11), (0, 2), "10-0 3-1 2-1 9-1", -9.0)]},
    {"text": "", "features": {"own": -0.0}, "units": []},
]


TABLES = {  # what references would teach: translations, some of words that no text has, and of the empty word
    "model1": {
        "": {"the": 0.3, "!": 0.01},
        "tal": {"house": 0.7, "the": 0.1},
        "ja": {"the": 0.25},
        "q": {"!": 1.0},
        "b": {"a": 0.3},
    },
    "model1_inverse": {
        "house": {"tal": 0.9},
        "the": {"ja": 0.3, "&qu": 0.2},
        "": {"»": 0.125, "b": 0.1},
        "a": {"Äit": 0.7, "b": 0.1},
    },
}


def taught(plan: FeaturePlan) -> FeaturePlan:
    """With tables, where a list without references teaches none."""
    options = {name: {"cut": 3, "table": table} for name, table in TABLES.items()} | {
        "frequency": {"frequencies": {"a": 3, "b": 1}}
    }
    return replace(plan, entries=tuple(replace(e, options=options.get(e.name, e.options)) for e in plan.entries))


def learn(raw: NBest, what: str, **options: int) -> tuple[NBest, FeaturePlan]:
    maker = FeatureMaker()
    plan = maker.plan(what, **{"min_count": 1, **options})
    return maker.learn(raw, plan if len(raw.refs) else taught(plan))


def random_model(made: NBest, raw: NBest, plan: FeaturePlan, seed: int) -> Model:
    """Weights of all features but some, and trees over any."""
    rng = np.random.default_rng(seed)
    names = sorted(made.feature_names)
    weights = {name: float(rng.normal()) for name in names if rng.random() < 0.9}
    some = rng.choice(names, min(12, len(names)), replace=False).tolist()
    trees = [
        stump(name, float(rng.choice([0.0, 0.5, 1.5])), value=(float(rng.normal()), float(rng.normal())), on=on)
        for name in some
        for on in (None, some[0])
    ]
    renamed = tuple(type(tree)(**{**vars(tree), "name": f"tree.{k:03}"}) for k, tree in enumerate(trees))
    return with_plan(Model(weights, renamed), plan)


def word_lists(rng: np.random.Generator, n: int) -> list[dict[str, object]]:
    """Candidates of few different words, in units of none, one or two of them, and words that are in no unit."""
    out = []
    for _ in range(n):
        words = rng.choice(["a", "b", "(", "3,5", ")", "Äiti", "x-ray", "’s"], int(rng.integers(0, 12))).tolist()
        units, at = [], 0
        while at <= len(words):
            size = int(rng.integers(0, 3))
            if rng.random() < 0.8 and at + size <= len(words):
                units.append({"features": {"LM0": float(rng.normal())}, "tgt": [at, at + size], "src": [0, 1]})
            at += max(size, 1)
        out.append({"text": " ".join(words), "score": float(rng.normal()), "features": {}, "units": units})
    return out


GIVEN_FILES = ("phrase_count", "lexical_weight", "lm")
OF_LISTS = [name for name, t in TEMPLATES.items() if t.kind in ("list", "global") or t.of_text or name == "place"]
WORDS = [
    *(name for name in OF_LISTS if name not in ("support", "lm")),
    "model1",
    "word",
    "frequency",
    "source_words",
    "words-basic",
    "mbr,place,bi,agreement,word",
]


@pytest.mark.parametrize("what", WORDS)
def test_lists_of_words(what: str) -> None:
    rng = np.random.default_rng(len(what))
    for n in (1, 2, 10, 12):
        given = word_lists(rng, n)
        raw = one_list(given, source="a Äiti 3,5 b")
        if not raw.n_occurrences:
            continue
        maker = FeatureMaker()
        made, plan = maker.learn(raw, taught(maker.plan(what, min_count=1)), posterior=Posterior(scale=1.5))
        for seed in range(3):
            reranker = Reranker(random_model(made, raw, plan, seed))
            found = reranker._scorer.scores(listed_of(raw))
            assert np.array_equal(found, reranker._by_list(given, "a Äiti 3,5 b"))
            assert np.array_equal(reranker.scores(given, source="a Äiti 3,5 b"), found)


CHECKED = [
    *(name for name in TEMPLATES if name not in GIVEN_FILES),
    "words-basic",
    "large",
    "sparse",
    "phrases",
    "g13",
    "emr13",
    "large+sparse+neighbours",
    "bi,pt,position,al,length,lo",
]


@pytest.mark.parametrize("what", CHECKED)
def test_scores_are_those_of_lists_to_the_bit(data_stores: Path, what: str) -> None:
    dev, test = (read_store(data_stores / f"{name}.nbest") for name in ("dev", "test"))
    made, plan = learn(dev[:25], what)
    model = random_model(made, dev, plan, seed=len(what))
    few = CandidateScorer.of(model, plan)
    assert few is not None
    wanted = Reranker(model)._by_list(test[:20], "")
    found = [few.scores(listed) for s in range(20) if (listed := listed_of(test[s : s + 1])) is not None]
    assert np.array_equal(np.concatenate(found), wanted)
    assert len(set(wanted.tolist())) > 20


@pytest.mark.parametrize("what", [what for what in CHECKED if what not in WORDS])
@pytest.mark.parametrize("hash_bits", [0, 3])
def test_strange_units(what: str, hash_bits: int) -> None:
    raw = one_list(STRANGE, source=SOURCE)
    made, plan = learn(raw, what, hash_bits=hash_bits)
    for seed in range(3):
        reranker = Reranker(random_model(made, raw, plan, seed))
        found = reranker._scorer.scores(listed_of(raw))
        assert np.array_equal(found, reranker._by_list(STRANGE, SOURCE))
        assert np.array_equal(reranker.scores(STRANGE, source=SOURCE), found)


def test_products_of_features() -> None:
    raw = one_list(STRANGE, source=SOURCE)
    made, plan = learn(raw, "length,jump")
    plan = FeaturePlan(plan.entries, clusters=plan.clusters, n_products=2, products=(("len.src", "LM0"), ("jump.log", "tm")))
    model = with_plan(Model({"len.src*LM0": 0.7, "jump.log*tm": 1.1, "LM0": 0.1}), plan)
    reranker = Reranker(model)
    assert np.array_equal(reranker._scorer.scores(listed_of(raw)), reranker._by_list(STRANGE, SOURCE))
    assert made.n_hyps == 3


# -- by hand -----------------------------------------------------------------------------------------------------------

ONE, TWO = Unit("das", "the", "0-0", 1, 1, {"f": 2.0}), Unit("alte haus", "house", "1-0", 2, 1, {"f": 3.0})
LISTED = OneList(
    source=["das", "alte", "haus"], names=("f",), units=[ONE, TWO], hyps=[[(0, 0), (1, 1)], [(1, 1)]], tgt_start=[0, 1, 0],
    texts=["the house", "house"], score=[-1.0, -2.0], own_names=("g",), own=np.array([[0.5], [0.25]]),
)  # fmt: skip


def units(**changes: object) -> dict[str, object]:
    """The list with one of its units changed."""
    return {"units": [ONE._replace(**changes), TWO]}


def both(**changes: object) -> dict[str, object]:
    return {"units": [ONE._replace(**changes), TWO._replace(**changes)]}


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
        (Model({"f": 1.0}), FeaturePlan((Entry("length", features=("a", "b", "a*b")),), products=(("a", "b"),)), False),
    ],
)
def test_which_models_need_no_engine(model, plan, is_made):
    assert (CandidateScorer.of(model, plan) is not None) == is_made


def test_scores_by_hand():
    """f and g weigh 2 and 4: 2 (2 + 3) + 4 / 2 and 2 · 3 + 4 / 4. A tree adds 10 where f is above 2.5, 1 below."""
    assert CandidateScorer(Model({"f": 2.0, "g": 4.0}), FeaturePlan(products=())).scores(LISTED).tolist() == [12.0, 7.0]
    tree = tree_of("constant", None, feature="f", threshold=2.5, values=(1.0, 10.0), weight=0.5)
    assert CandidateScorer(Model({"f": 2.0, "g": 4.0}, (tree,)), FeaturePlan(products=())).scores(LISTED).tolist() == [17.5, 12.0]


def test_what_is_not_finite_is_left_to_lists():
    with np.errstate(over="ignore"):
        assert CandidateScorer(Model({"f": 1e308}), FeaturePlan(products=())).scores(LISTED) is None


def test_phrase_pairs_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(candidate_scores, "MOST_PAIRS", 2)
    scorer = CandidateScorer(Model({"f": 1.0}), FeaturePlan(products=()))
    for text, kept in (("a", 1), ("b", 2), ("a", 2), ("c", 1), ("d", 2)):
        scorer.scores(LISTED._replace(units=[ONE._replace(src=text)], hyps=[[(0, 0)]] * 2, tgt_start=[0, 0]))
        assert len(scorer._pairs) == kept


def test_an_error_in_a_template_is_said_in_one_line():
    @template("fails")
    def fails(target):
        raise KeyError("oops")

    plan = FeaturePlan((Entry("fails", features=("x",)),), products=())
    scorer = CandidateScorer(Model({"x": 1.0}), plan, {**TEMPLATES, "fails": fails})
    with pytest.raises(InputError, match="template 'fails': expected to run, found KeyError: 'oops'"):
        scorer.scores(LISTED)


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
    arrays, names = forest(trees)
    assert names == ("f", "g", "h")
    for rows in (x, x[:1]):
        expected = np.zeros(len(rows))
        for tree in trees:
            expected += tree.weight * tree.predict(FeatureTable(["f", "g", "h"], rows))
        assert forest_scores(arrays, rows).tolist() == expected.tolist()


def test_a_file_that_no_template_reads_is_said_by_the_engine():
    """With a language model at hand, the engine says whether it is used; without one, nothing is to be said."""
    model = Model({"f": 1.0})
    assert Reranker(model)._scorer is not None
    assert Reranker(model, FeatureMaker())._scorer is not None
    assert Reranker(model, FeatureMaker(ResourceFiles(lm="lm.arpa")))._scorer is None


def test_a_template_of_the_user_needs_no_more_than_its_function(data_stores: Path, tmp_path: Path) -> None:
    """Dense and sparse, of a phrase and of a place: learned on a list, and called directly for candidates."""
    (tmp_path / "own.py").write_text(
        "from boostfeat import template\n"
        "@template('vowels')\ndef vowels(target):\n    return {'vowels': sum(word[0] in 'aeiou' for word in target)}\n"
        "@template('after')\ndef after(target, words_before):\n"
        "    return [f'{words_before[-1]}|{len(target)}'] if words_before else []\n"
    )
    maker = FeatureMaker(ResourceFiles(plugin=[str(tmp_path / "own.py")]))
    dev, test = (read_store(data_stores / f"{name}.nbest") for name in ("dev", "test"))
    made, plan = maker.learn(dev[:25], maker.plan("vowels,after,length", min_count=1))
    reranker = Reranker(random_model(made, dev, plan, seed=1), maker)
    assert {"vowels", "len.src"} <= set(made.unit_names)
    for s in range(10):
        assert np.array_equal(reranker._scorer.scores(listed_of(test[s : s + 1])), reranker._by_list(test[s : s + 1], ""))
