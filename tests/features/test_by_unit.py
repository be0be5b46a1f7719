"""Templates unit by unit are the engine's: the same features, so that scores under any weights and trees are the same bits."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from toy_systems import stump

from boostfeat.features import SETS, TEMPLATES, FeaturePlan
from boostfeat.features.by_list import BY_LIST
from boostfeat.features.by_unit import BY_UNIT, has_letter, is_punctuation
from boostfeat.features.carried import FeatureMaker, carrying
from boostfeat.features.resources import Posterior
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model
from boostfeat.rerank.few import Few
from boostfeat.rerank.reranker import Reranker, few_of_list, one_list

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
    return carrying(Model(weights, renamed), plan)


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


WORDS = [*BY_LIST, "model1", "word", "frequency", "source_words", "words-basic", "mbr,place,bi,agreement,word"]


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
            found = reranker._few.scores(few_of_list(raw))
            assert np.array_equal(found, reranker._by_engine(given, "a Äiti 3,5 b"))
            assert np.array_equal(reranker.scores(given, source="a Äiti 3,5 b"), found)


CHECKED = [
    *BY_LIST,
    "words-basic",
    *BY_UNIT,
    "large",
    "sparse",
    "phrases",
    "g13",
    "emr13",
    "large+sparse+neighbours",
    "bi,pt,position,al,length,lo",
]


@pytest.mark.parametrize("what", CHECKED)
def test_scores_are_the_engines_to_the_bit(data_stores: Path, what: str) -> None:
    dev, test = (read_store(data_stores / f"{name}.nbest") for name in ("dev", "test"))
    made, plan = learn(dev[:25], what)
    model = random_model(made, dev, plan, seed=len(what))
    few = Few.of(model, plan)
    assert few is not None
    wanted = Reranker(model)._by_engine(test[:20], "")
    found = [few.scores(listed) for s in range(20) if (listed := few_of_list(test[s : s + 1])) is not None]
    assert np.array_equal(np.concatenate(found), wanted)
    assert len(set(wanted.tolist())) > 20


@pytest.mark.parametrize("what", [what for what in CHECKED if what not in WORDS])
@pytest.mark.parametrize("hash_bits", [0, 3])
def test_strange_units(what: str, hash_bits: int) -> None:
    raw = one_list(STRANGE, source=SOURCE)
    made, plan = learn(raw, what, hash_bits=hash_bits)
    for seed in range(3):
        reranker = Reranker(random_model(made, raw, plan, seed))
        found = reranker._few.scores(few_of_list(raw))
        assert np.array_equal(found, reranker._by_engine(STRANGE, SOURCE))
        assert np.array_equal(reranker.scores(STRANGE, source=SOURCE), found)


def test_products_of_features() -> None:
    raw = one_list(STRANGE, source=SOURCE)
    made, plan = learn(raw, "length,jump")
    plan = FeaturePlan(plan.entries, clusters=plan.clusters, n_products=2, products=(("len.src", "LM0"), ("jump.log", "tm")))
    model = carrying(Model({"len.src*LM0": 0.7, "jump.log*tm": 1.1, "LM0": 0.1}), plan)
    reranker = Reranker(model)
    assert np.array_equal(reranker._few.scores(few_of_list(raw)), reranker._by_engine(STRANGE, SOURCE))
    assert made.n_hyps == 3


@pytest.mark.parametrize("name", BY_UNIT)
def test_they_read_what_the_engine_says(name: str) -> None:
    assert BY_UNIT[name].reads == TEMPLATES[name].reads
    assert BY_UNIT[name].of == ("pair" if TEMPLATES[name].kind == "static" else "place")


def test_the_whole_registry_is_that_of_the_engine() -> None:
    """What is computed of one phrase pair is of the kind that the registry says: numbers by name, or names."""
    made = {name: signature(TEMPLATES[name].compute).return_annotation for name in BY_UNIT}
    assert {name: how.is_sparse for name, how in BY_UNIT.items()} == {name: made[name] == "Sparse" for name in made}
    assert set(made.values()) == {"Sparse", "Dense"}
    assert BY_UNIT["size"].compute(["a"], ["b", "c"], ()) == {"size.1x2": 1.0}
    assert BY_UNIT["shape"].compute(["a"], ["b", "c"], ()) == ["1|2"]


@pytest.mark.parametrize("name", BY_LIST)
def test_they_read_what_the_engine_says_of_lists(name: str) -> None:
    assert BY_LIST[name].reads == TEMPLATES[name].reads
    assert {"occurrence": "occurrences", "hypothesis": "hypotheses"}[BY_LIST[name].of] == TEMPLATES[name].rows_are


def test_the_default_sets_for_phrases_are_complete() -> None:
    given_files = {"phrase_count", "lexical_weight"}
    assert set(SETS["words-basic"]) <= {*BY_UNIT, *BY_LIST}
    for name in ("phrases", "classes", "sparse", "sparse-static", "large", "neighbours", "g13", "e12", "emr13"):
        assert set(SETS[name]) - given_files <= set(BY_UNIT)


@pytest.mark.parametrize(
    ("word", "mark", "letter"),
    [
        ("!", True, False),
        ("a", False, True),
        ("…", True, False),
        ("&quot;", True, True),
        ("&quot", False, True),
        ("€.", True, False),
        ("中", False, True),
        ("٣", False, False),
        ("3", False, False),
        ("«a", False, True),
        ("&#39;", True, False),
    ],
)
def test_marks_and_letters_are_unicodes(word: str, mark: bool, letter: bool) -> None:
    assert (is_punctuation(word), has_letter(word)) == (mark, letter)
