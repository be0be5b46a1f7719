"""What a list teaches templates: frequent names, word clusters, products and groups, each whole and against a naive twin."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from strategies import build, sparsely
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, clusters, feature_groups, featurize, groups, products, template
from boostfeat.features.groups import Group, fitting_templates
from boostfeat.features.teach import most_frequent
from boostfeat.features.templates.phrase import cluster_names
from boostfeat.lists.build import HypRecord, UnitRecord
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.words import Words, words_of

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("counts", "top", "expected"),
    [
        ({"a": 1, "b": 3, "c": 2}, 3, "b c a"),
        ({"a": 1, "b": 3, "c": 2}, 2, "b c"),
        ({"b": 2, "c": 2, "a": 2}, 2, "a b"),  # equals by name, wherever they were met
        ({"d": 1, "b": 2, "c": 2, "a": 2}, 1, "a"),
        ({"a": 0, "b": 1}, 2, "b"),
        ({"a": 0}, 1, ""),
        ({}, 1, ""),
    ],
)
def test_the_most_frequent(counts: dict[str, int], top: int, expected: str) -> None:
    assert most_frequent(Counter(counts), top) == expected.split()


# -- clusters ---------------------------------------------------------------------------------------------------------


def texts(lines: list[str]) -> Words:
    return words_of(strings(lines))


def test_which_words_are_clustered() -> None:
    """Those that are there three times or more; with no two of them, or no room for a second cluster, all are in one."""
    learn = clusters.learn_clusters
    assert learn(texts(["a a a b b"]), size=4, seed=0) == {"a": "1"}
    assert learn(texts(["a a b b"]), size=4, seed=0) == {}
    assert learn(texts(["a a a b b b c c"]), size=1, seed=0) == {"a": "1", "b": "1"}
    assert learn(texts(["a b"] * 3), size=2, seed=0) == {"a": "1", "b": "1"}
    of_three = texts(["v n d"] * 3 + ["n d", "d"])  # each has neighbours of its own: numbered by falling frequency
    assert learn(of_three, size=4, seed=0) == learn(of_three, size=9, seed=0) == {"d": "1", "n": "2", "v": "3"}


def test_names_of_clusters() -> None:
    assert cluster_names({"a": "10", "b": "2", "c": "0", "d": "2"}) == ["0", "2", "10"]
    assert cluster_names({}) == ["0"]


# -- products ---------------------------------------------------------------------------------------------------------


def naive_products(nbest: NBest, gradient: np.ndarray, counts: np.ndarray, k: int, support: int) -> list[tuple[str, str]]:
    """Greedily by (Σ g x y)² / Σ c (x y)²; none that is 0 but in few sentences' units, or like one that is taken."""
    x, names, found = nbest.X, nbest.unit_names, []
    sentences = np.array(
        [len({int(s) for s, u in zip(occurrences(nbest), nbest.unit_idx, strict=True) if u == v}) for v in range(len(x))]
    )
    for i, j in combinations_with_replacement(range(len(names)), 2):
        product = x[:, i] * x[:, j]
        if sentences[product != 0].sum() >= support:
            found.append(((gradient @ product) ** 2 / (counts @ product**2), i, j, product * np.sqrt(counts)))
    chosen: list[tuple[str, str]] = []
    columns: list[np.ndarray] = []
    for drop, i, j, product in sorted(found, key=lambda row: -row[0]):
        cosines = [abs(product @ other) / np.linalg.norm(product) / np.linalg.norm(other) for other in columns]
        if drop > 0 and len(chosen) < k and all(cosine < 0.99 for cosine in cosines):
            chosen.append((names[i], names[j]))
            columns.append(product)
    return chosen


def occurrences(nbest: NBest) -> np.ndarray:
    return np.repeat(nbest.sent_of_hyp, np.diff(nbest.unit_ptr))


@pytest.mark.parametrize("support", [1, 30, 31, 10**6])
@pytest.mark.parametrize("k", [0, 1, 4, 100])
def test_products_are_those_of_the_naive_twin(k: int, support: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of units, too; one column is rare, one a copy of another but for a little."""
    monkeypatch.setattr(products, "SUPPORT", support)
    monkeypatch.setattr(products, "BLOCK", 50)
    nbest = synthetic_nbest(SyntheticOptions(sentences=12, hyps=5, features=3), seed=2)
    rng = np.random.default_rng(0)
    of_unit = np.bincount(nbest.unit_idx[np.unique(occurrences(nbest) * nbest.n_units + nbest.unit_idx, return_index=True)[1]])
    rare = np.zeros(nbest.n_units)
    rare[np.cumsum(of_unit) <= 30] = 1.0
    assert of_unit[rare > 0].sum() == 30
    x = np.column_stack([nbest.X, rare, 2 * nbest.X[:, 0] + 0.01 * rng.normal(size=nbest.n_units)])
    nbest = replace(nbest, units=replace(nbest.units, x=x), unit_names=(*nbest.unit_names, "rare", "alike"))
    gradient, counts = rng.normal(size=nbest.n_units), np.bincount(nbest.unit_idx).astype(float)
    chosen = products.choose_products(nbest, k, lambda given: (gradient, counts))
    assert list(chosen) == naive_products(nbest, gradient, counts, k, support)
    if support <= 31 and k == 100:
        assert any("rare" in pair for pair in chosen) == (support <= 30)
        assert len(chosen) > 4


def test_products_have_no_negative_zeros_and_need_their_factors() -> None:
    nbest = synthetic_nbest(SyntheticOptions(sentences=2, hyps=3, features=2))
    x = np.column_stack([np.where(np.arange(nbest.n_units) % 2, -1.0, 3.0), np.zeros(nbest.n_units)])
    nbest = replace(nbest, units=replace(nbest.units, x=x), unit_names=("a", "b"))
    out = products.add_products(nbest, [("a", "b"), ("a", "a")])
    assert out.unit_names == ("a", "b", "a*b", "a*a")
    np.testing.assert_array_equal(out.X, np.column_stack([x, x[:, 0] * 0, x[:, 0] ** 2]))
    assert not np.signbit(out.X[:, 2]).any()
    assert products.add_products(nbest, ()) is nbest
    with pytest.raises(InputError) as error:
        products.add_products(nbest, [("a", "c")])
    assert str(error.value) == "products: expected a list with feature 'c', found none; featurize it as the dev list was"
    bare = replace(nbest, stats=np.zeros((0, 6), np.int32))
    with pytest.raises(InputError) as error:
        products.choose_products(bare, 1, lambda given: (x[:, 0], x[:, 0]))
    assert str(error.value) == "products: expected a list with references to choose them by, found one without; import it with -r"


# -- groups -----------------------------------------------------------------------------------------------------------


@template("ends")
def ends(hypothesis: list[str]) -> list[str]:
    """The last word of a hypothesis."""
    return hypothesis[-1:]


def some_lists() -> NBest:
    """Two lists; features of units, some 0, of hypotheses, and sparse ones of both."""
    hyps = [
        (0, "a b", {"own": 1.0, "r:x": 2.0}, [(0.5, 0, 1), (0.0, 1, 2)]),
        (0, "b", {"own": 0.0}, [(0.5, 0, 1)]),
        (1, "a b", {"own": -1.0, "r:x": 1.0, "r:y": 1.0}, [(1.5, 0, 1), (0.0, 1, 2)]),
    ]
    made = []
    for k, (s, text, features, units) in enumerate(hyps):
        own = [UnitRecord({"lm": lm}, (a, b), (a, b), tgt_text=text.split()[a]) for lm, a, b in units]
        made.append(HypRecord(s, text, f"h{k}", 0.0, features, units=own))
    return build(made)


@pytest.mark.parametrize("block", [1, 2, 1 << 15])
def test_groups_of_all_kinds(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by hand. Five occurrences, three hypotheses; lm is 0 in two, own in one; r:x is in two of three, r:y in one."""
    monkeypatch.setattr(groups, "BLOCK", block)
    registry = {**TEMPLATES, "ends": ends}
    plan = FeaturePlan.of("place,w,ends", registry, min_count=1)
    out, _ = featurize(some_lists(), plan, registry=registry)
    found = {g.name: g for g in feature_groups(out)}
    assert list(found) == ["decoder", "place", "w", "ends"]
    # dense: lm 3 of 5, own 2 of 3; sparse of hypotheses: 2 of 3 and 1 of 3
    assert found["decoder"] == Group("decoder", "decoder", "", 4, 4, (3 + 2 + 2 + 1) / (5 + 3 + 3 + 3))
    # first in 3, last in 3, start and end in 5; fifth1 in 3, fifth3 in 2 (the second of two words)
    assert found["place"] == Group("place", "contextual", "words around", 9, 6, (3 + 3 + 5 + 5 + 3 + 2) / 45)
    assert found["w"] == Group("w", "static", "", 2, 2, 5 / 10)  # a twice, b three times
    assert found["ends"] == Group("ends", "global", "hypothesis", 1, 1, 3 / 3)  # all end in b


@pytest.mark.parametrize("block", [1, 2, 1 << 15])
@pytest.mark.parametrize("seed", range(4))
def test_whole_groups_equal_those_counted_one_by_one(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense and sparse features of units and hypotheses, made by templates or not; some are nowhere, some lists are empty."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(groups, "BLOCK", block)

    def some(names: Sequence[str]) -> dict[str, float]:
        return {name: float(rng.integers(0, 3)) for name in names if rng.random() < 0.6}

    dense, rare, own = ("tm", "len.src", "len.tgt"), ("rare:a", "rare:b", "old:c"), ("lm", "list.rank")
    hyps = [
        HypRecord(
            s,
            "x y",
            "h",
            features={**some(own), **some(rare[1:])},
            units=[UnitRecord({**some(dense), **some(rare)}) for _ in range(n)],
        )
        for s in range(3)
        for n in rng.integers(0, 4, 2).tolist()
    ]
    declared = [
        {"template": "length", "kind": "static", "features": ["len.src", "len.tgt"]},
        {"template": "rank", "kind": "global", "features": ["list.rank"]},
        {"template": "pt", "kind": "contextual", "prefix": "rare:", "state": ["previous unit", "span"]},
    ]
    nbest = sparsely(build(hyps))
    nbest = replace(nbest, meta={**nbest.meta, "templates": json.dumps(declared)})
    of = {"len.src": 0, "len.tgt": 0, "list.rank": 1, "rare:a": 2, "rare:b": 2}
    expected: dict[tuple[str, str, str], list[float]] = {}
    units = [unit for hyp in hyps for unit in hyp.units]
    for name in nbest.feature_names:
        made = declared[of[name]] if name in of else {"template": "decoder", "kind": "decoder"}
        in_units = sum(unit.features.get(name, 0) != 0 for unit in units)
        in_hyps = sum(hyp.features.get(name, 0) != 0 for hyp in hyps)
        of_hyps = made["kind"] == "global" or name in {*nbest.extra_names} - {*nbest.unit_names} or (not in_units and in_hyps)
        row = expected.setdefault((made["template"], made["kind"], ", ".join(made.get("state", ()))), [0, 0, 0, 0])
        for k, more in enumerate((1, in_units + in_hyps > 0, in_units + in_hyps, len(hyps) if of_hyps else len(units))):
            row[k] += more
    assert feature_groups(nbest) == [
        Group(*key, int(n), int(used), filled / total if total else 0.0) for key, (n, used, filled, total) in expected.items()
    ]


def test_fitting_templates() -> None:
    """By what a list has: phrases with texts on both sides, words that a model ranked, or nothing."""
    phrases = synthetic_nbest(SyntheticOptions(sentences=2, hyps=3, features=2))
    assert fitting_templates(phrases) == "phrases"
    assert fitting_templates(phrases, static_only=True) == "sparse-static"
    assert fitting_templates(featurize(phrases, FeaturePlan.of("length"))[0]) is None
    units = replace(phrases.units, src=strings([""] * phrases.n_units))
    assert fitting_templates(replace(phrases, units=units)) == "words-basic"
    units = replace(phrases.units, tgt=strings([""] * phrases.n_units))
    assert fitting_templates(replace(phrases, units=units)) is None
    assert fitting_templates(build([HypRecord(0, "a", "h")])) is None
