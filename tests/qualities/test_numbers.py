"""Numbers at the ends of what a float holds: weights, trees and scores stay finite, and what is left out is named."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest
from workers_here import PATCHED, WorkersHere

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.core.errors import InputError
from boostfeat.formats import write
from boostfeat.lists.feature_range import LARGEST, SMALLEST, learnable, out_of_range, range_warnings
from boostfeat.lists.nbest import NBest, SparseRows, strings
from boostfeat.lists.store import write_store
from boostfeat.metrics.ngrams import posteriors
from boostfeat.model.model import Model
from boostfeat.search.loop.learners import LearningTask, TreeLearner
from boostfeat.trees.growing import TreeOptions
from boostfeat.trees.tree import LEAF_KINDS
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import Run, feature_warnings

BASE = synthetic_nbest(SyntheticOptions(sentences=12, hyps=8, features=4, slots=3, choices=3))
FIRST = BASE.unit_names[0]


def with_column(change: Callable[[np.ndarray], np.ndarray]) -> NBest:
    """The same lists, the first feature of units replaced."""
    x = BASE.X.copy()
    x[:, 0] = change(x[:, 0])
    return replace(BASE, units=replace(BASE.units, x=x))


def one(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda column: np.where(np.arange(len(column)) == 3, value, column)


LEFT_OUT = {
    "1e308": with_column(lambda c: c / np.abs(c).max() * 1e308),
    "sums that overflow": with_column(lambda c: np.full(len(c), 1.7e308)),
    "one of 1e308": with_column(one(1e308)),
    "1e61": with_column(lambda c: c / np.abs(c).max() * 1e61),
    "denormal": with_column(lambda c: np.sign(c) * 5e-324),
    "1e-300": with_column(lambda c: c * 1e-300),
}
KEPT = {
    "the largest": with_column(lambda c: c / np.abs(c).max() * LARGEST),
    "the smallest": with_column(lambda c: c / np.abs(c).max() * SMALLEST),
    "constant": with_column(lambda c: np.full(len(c), 3.5)),
    "zero": with_column(np.zeros_like),
    "collinear": with_column(lambda c: BASE.X[:, 1] * -2),
    "one denormal": with_column(one(5e-324)),
}
LISTS = LEFT_OUT | KEPT


def check(model: Model, nbest: NBest) -> None:
    """All numbers of a model that is written and read back, and its scores."""
    arrays = [np.array(list(model.weights.values()))]
    for tree in model.trees:
        arrays += [np.array([tree.weight]), tree.threshold, tree.value, tree.intercept]
    assert all(np.isfinite(a).all() for a in arrays)
    assert np.isfinite(model.decision_function(nbest)).all()


@cache
def without_it(method: str) -> dict[str, float]:
    """The weights of lists whose first feature is 0 everywhere."""
    return dict(tuner_class(method)().fit(KEPT["zero"], KEPT["zero"], run=Run(seed=1)).weights)


@pytest.mark.parametrize("case", LISTS)
@pytest.mark.parametrize("method", TUNERS)
def test_weights_stay_finite(method: str, case: str) -> None:
    model = tuner_class(method)().fit(LISTS[case], LISTS[case], run=Run(seed=1))
    check(model, LISTS[case])
    if case in LEFT_OUT:
        assert model.weights[FIRST] == 0
        assert model.weights == without_it(method)


@pytest.mark.parametrize("case", LISTS)
@pytest.mark.parametrize(
    ("level", "leaves"), [("local", kind) for kind in LEAF_KINDS] + [("global", "constant"), ("global", "linear")]
)
def test_trees_stay_finite(case: str, level: str, leaves: str) -> None:
    tree = TreeOptions(leaves=leaves, max_leaves=3, min_occurrences=5)
    model = boost(LISTS[case], LISTS[case], BoostOptions(level=level, rounds=3, patience=3, tree=tree))
    check(model, LISTS[case])
    if case in LEFT_OUT:
        assert FIRST not in set().union(*(tree.features() for tree in model.trees))
        assert model.weights[FIRST] == 0


def test_trees_are_learnt_beside_what_is_left_out() -> None:
    tree = TreeOptions(max_leaves=3, min_occurrences=5)
    assert boost(LEFT_OUT["1e308"], None, BoostOptions(rounds=3, tree=tree)).trees


@pytest.mark.parametrize("case", LISTS)
def test_a_warning_names_what_is_left_out(case: str) -> None:
    nbest = LISTS[case]
    found = feature_warnings(nbest, None)
    assert any(f"feature {FIRST} has values up to" in line for line in found) == (case in LEFT_OUT)
    assert (learnable(nbest) is nbest) == (case in KEPT)


def test_sparse_features_and_those_of_hypotheses() -> None:
    h = BASE.n_hyps
    extra = np.zeros((h, 2))
    extra[5, 1] = -1e200
    rows = SparseRows(np.append(np.arange(h), h), np.zeros(h, np.int32), np.full(h, 2e99))
    rows = replace(rows, idx=np.arange(h, dtype=np.int32) % 2, val=np.where(np.arange(h) % 2, 2e99, 1.0))
    nbest = replace(BASE, extra=extra, extra_names=("fine", "wild"), extra_sparse=rows, sparse_names=strings(["rare", "odd"]))
    assert out_of_range(nbest) == {"wild": 1e200, "odd": 2e99}
    kept = learnable(nbest)
    assert (np.abs(kept.extra).max(), kept.extra_sparse.val.max(), kept.X is nbest.X) == (0, 1, False)
    assert out_of_range(kept) == {}
    assert list(range_warnings(nbest)) == ["wild", "odd"]
    assert list(range_warnings(nbest, {"wild"})) == ["odd"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_store_with_what_readers_refuse(tmp_path: Path, value: float, boostfeat: Callable[..., tuple[int, str, str]]) -> None:
    """Only a store from elsewhere can hold it: it is left out of learning, and no score is made of it in silence."""
    nbest, path = with_column(one(value)), tmp_path / "x.nbest"
    write_store(nbest, path)
    code, _, err = boostfeat("tune", path, "--method", "pro", "-o", tmp_path / "m.json", "--threads", 1)
    assert (code, f"warning: feature {FIRST} has values up to" in err) == (0, True)
    assert Model.load(tmp_path / "m.json").weights[FIRST] == 0
    code, out, err = boostfeat("rerank", path, "-m", tmp_path / "m.json")
    assert (code, out) == (2, "")
    assert "expected scores that are finite" in err
    code, _, err = boostfeat("induce", path, "--rounds", 2, "-o", tmp_path / "t.json", "--threads", 1)
    assert (code, f"warning: feature {FIRST} has values up to" in err) == (0, True)


def test_a_comparison_names_what_is_left_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boostfeat: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.setattr(PATCHED, WorkersHere)  # processes of their own load and compile everything
    write_store(LEFT_OUT["1e308"], path := tmp_path / "x.nbest")
    more = ("--systems", "decoder,base-PRO,base/pro", "--search", "none", "--trials", 10, "--threads", 1)
    code, _, err = boostfeat("compare", path, "--select", path, "--test", path, "--force", *more, "-o", tmp_path / "run")
    assert (code, err.count(f"warning: feature {FIRST} has values up to 1e+308")) == (0, 1)


def test_a_loop_names_what_is_left_out_once(tmp_path: Path, boostfeat: Callable[..., tuple[int, str, str]]) -> None:
    """The decoder gives more of a list each time, in which a feature has values that cannot be learned from."""
    with open(tmp_path / "list", "wb") as stream:
        write(LEFT_OUT["1e61"], stream, format="moses")
    for name, lines in (("src", BASE.source), ("ref", BASE.refs)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines.to_pylist()))
    Model(dict.fromkeys(BASE.unit_names[1:], 1.0)).save(tmp_path / "start.json")
    given = ("loop", tmp_path / "src", "-r", tmp_path / "ref", "--init", tmp_path / "start.json")
    more = "import sys; a, b, k = sys.argv[1:4]; open(b, 'w').writelines(x for i, x in enumerate(open(a)) if i % 3 <= int(k))"
    decoder = [sys.executable, "-S", "-E", "-c", more, tmp_path / "list", "{nbest}", "{iteration}", "{weights}"]
    how = ("--decoder", shlex.join(map(str, decoder)), "--set", "weights-format=name-value", "--max-iterations", 2)
    code, _, err = boostfeat(*given, *how, "--set", "min-weight-change=0", "--threads", 1, "-o", tmp_path / "run")
    assert (code, err.count("iteration 2: learning"), err.count(f"warning: feature {FIRST} has values up to")) == (0, 1, 1)


def test_a_loop_with_trees_names_what_is_left_out(tmp_path: Path) -> None:
    named: list[NBest] = []
    nbest, learner = LEFT_OUT["1e61"], TreeLearner(BoostOptions(rounds=1))
    task = LearningTask(1, Model({}), nbest, None, seed=0, threads=1, folder=tmp_path, name_left_out=named.append)
    first = learner.learn(task)
    again = learner.learn(replace(task, iteration=2, start=first, folder=tmp_path))
    assert named == [nbest, nbest]
    check(again, nbest)
    assert again.weights[FIRST] == 0


def test_scores_that_overflow_are_refused() -> None:
    with pytest.raises(InputError, match="sentence 0: expected scores that are finite, found inf"):
        Model({FIRST: 1e10}).decision_function(with_column(lambda c: np.full(len(c), 1e308)))


# ---------------------------------------------------------------------------------------------------------------------
# Logistic and softmax
# ---------------------------------------------------------------------------------------------------------------------

EXTREME = np.array([0.0, 1e308, -1e308, 745.2, -745.2, 710.0, 5e-324, -0.0, 1e200, 36.7])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_posteriors_of_extreme_scores(scale: float) -> None:
    p = posteriors(np.array([0, 4, 4, len(EXTREME)]), EXTREME, scale=scale)
    assert np.isfinite(p).all()
    assert p[:4].sum() == pytest.approx(1)
    assert p[1] == 1
