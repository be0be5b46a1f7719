"""What tuners share: default options and their limits, groups of features, the record of epochs, warnings."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import inf, nan

import numpy as np
import pytest
from scipy import sparse
from synthetic import SyntheticOptions, synthetic_nbest
from test_mira import container, planted_lists, random_lists, random_stats

from boostfeat.core.errors import InputError
from boostfeat.lists.choices import Scorer, best_choice
from boostfeat.lists.nbest import strings
from boostfeat.model.model import Model
from boostfeat.tuners import TUNERS, tuner_class
from boostfeat.tuners.base import EpochLog, Features, Groups, Run, decoder_weights, feature_warnings, step_factors
from boostfeat.tuners.kbmira import Kbmira
from boostfeat.tuners.mira import Mira
from boostfeat.tuners.pro import Pro
from boostfeat.tuners.rampion import Rampion

# -- features and groups --------------------------------------------------------------------------------------------------


def test_features_are_dense_ones_and_then_sparse_ones():
    nbest = random_lists(seed=1, n_dense=2, n_sparse=3)
    features = Features.of(nbest)
    assert (features.names, features.n_dense, len(features)) == (("f0", "f1", "s0", "s1", "s2"), 2, 5)
    w = np.array([2.0, 0.0, 0.0, -3.0, 0.0])
    whole = np.hstack([nbest.global_features, nbest.global_sparse.toarray()])
    np.testing.assert_allclose(features.scores(w), whole @ w, rtol=1e-13, atol=1e-13)
    assert features.named(w) == {"f0": 2.0, "f1": 0.0, "s1": -3.0}  # dense ones always, sparse ones that are not 0
    assert (features.vector(features.named(w)) == w).all()
    assert (features.vector({"gone": 0.0, "f1": 1.0}) == [0, 1, 0, 0, 0]).all()  # a weight of 0 is not lost
    with pytest.raises(InputError, match="initial weight of 'gone': expected a feature of the list, found none; check --init"):
        features.vector({"f0": 1.0, "gone": -1e-9})


def groups_of(text: str, folder) -> Groups:
    (folder / "g.toml").write_text(text)
    return Groups.load(folder / "g.toml")


def test_later_groups_win_and_what_is_not_named_stays(tmp_path):
    text = '[[group]]\nmatch = "s*"\nc = 2\nl1 = 0\nfreeze = true\n[[group]]\nmatch = "s1"\nc = 0.25\nl2 = 8.0\nfreeze = false\n'
    groups, names = groups_of(text, tmp_path), ("f0", "s0", "s1", "S1")
    assert groups.factors(names, "c").tolist() == [1, 2, 0.25, 1]
    assert groups.factors(names, "l1").tolist() == [1, 0, 0, 1]
    assert groups.factors(names, "l2").tolist() == [1, 1, 8, 1]
    assert groups.frozen(names).tolist() == [False, True, False, False]
    features = Features(names, np.zeros((0, 4)), Features.of(random_lists(n_sparse=1)).sparse)
    assert step_factors(features, Run(groups=groups)).tolist() == [1, 0, 0.25, 1]
    groups.check("any", "l1", "l2", "c")
    with pytest.raises(InputError, match=r"group 's\*': expected only freeze, c, l2 for some, found l1; remove it"):
        groups.check("some", "c", "l2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[", "expected a TOML file of [[group]] tables, found: "),
        ("", "expected the key 'group', found none; write [[group]] tables"),
        ('x = 1\n[[group]]\nmatch = "a"', "expected only keys that boostfeat knows, found 'x'"),
        ("[[group]]\nl1 = 1", "group[0]: expected the key 'match', found none"),
        ('[[group]]\nmatch = "a"\n[[group]]\nmatch = 3', "group[1].match: expected a string, found a whole number"),
        ("group = 2", "group: expected a list"),
        ("group = [2]", "group[0]: expected an object"),
        ('[[group]]\nmatch = "a"\nfreeze = 1', "group[0].freeze: expected true or false"),
        ('[[group]]\nmatch = "a"\nrate = 1', "group[0]: expected only keys that boostfeat knows, found 'rate'"),
        ('[[group]]\nmatch = "b"\nc = -0.5', "group[0].c: expected a number >= 0.0"),
        ('[[group]]\nmatch = "a"\nl1 = inf', "group[0].l1: expected a number <= "),
        ('[[group]]\nmatch = "a"\nl1 = nan', "group[0].l1: expected a number >= 0.0"),
        ('[[group]]\nmatch = "a"\nl2 = "x"', "group[0].l2: expected a number, found a string"),
    ],
)
def test_what_is_wrong_with_a_file_of_groups(tmp_path, text, message):
    with pytest.raises(InputError) as error:
        groups_of(text, tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/g.toml: {message}")


# -- the record of epochs -------------------------------------------------------------------------------------------------


def log_of(nbest, select=None, **settings):
    features = Features.of(nbest)
    train_default = settings.pop("train_default", False)
    return EpochLog(features, nbest, select, Run(**settings), train_default=train_default), features


@pytest.mark.parametrize("threads", [1, 2])
def test_the_epoch_that_is_kept(threads):
    """auto is the held-out list, else the last epoch, or the tuning list where a method asks for that; the first of equals."""
    nbest, held_out = (random_lists(seed=s, counts=(9,) * 12) for s in (1, 2))
    rng = np.random.default_rng(0)
    weights = [*rng.normal(size=(5, 15)), *rng.normal(size=(1, 15))]
    weights.insert(3, weights[0].copy())  # ties with the first
    gains = {}
    for key, lists in (("dev", nbest), ("select", held_out)):
        features, scorer = Features.of(lists), Scorer(lists)
        gains[key] = [scorer.score(best_choice(lists, features.scores(w)), "bleu").score for w in weights]
    for pick, select, train_default, want in (
        ("auto", None, False, len(weights) - 1),
        ("auto", None, True, int(np.argmax(gains["dev"]))),
        ("auto", held_out, True, int(np.argmax(gains["select"]))),
        ("train", held_out, False, int(np.argmax(gains["dev"]))),
        ("last", held_out, True, len(weights) - 1),
    ):
        seen = []
        log, _ = log_of(nbest, select, pick=pick, train_default=train_default, callback=seen.append, threads=threads)
        for epoch, w in enumerate(weights):
            log.record(epoch, moved := w.copy(), extra=epoch / 2)
            moved[:] = 0.0  # the tuner goes on
        rows = list((model := log.model(Mira(), "mira")).history)
        assert model.config["epoch"] == want
        assert Features.of(nbest).vector(model.weights) == pytest.approx(weights[want])
        assert rows == seen
        assert [row["dev"] for row in rows] == gains["dev"]
        assert [row.get("select") for row in rows] == (gains["select"] if select else [None] * len(weights))
        assert [(row["epoch"], row["extra"], row["nonzero"]) for row in rows] == [(k, k / 2, 15) for k in range(len(weights))]
        assert model.config == {
            "method": "mira", **asdict(Mira()), "seed": 0, "gain": "bleu", "metric": "bleu", "epoch": want,
            "pick": pick if pick != "auto" else "select" if select else "train" if train_default else "last",
        }  # fmt: skip


def test_what_the_record_refuses():
    nbest = random_lists()
    with pytest.raises(InputError, match="expected a held-out list to pick the epoch by, found none; give --select"):
        log_of(nbest, pick="select")
    log, features = log_of(nbest)
    for bad in (nan, inf):
        with pytest.raises(InputError, match="epoch 3: the weights have blown up; lower C or the learning rate"):
            log.record(3, np.full(len(features), bad))
    assert log.history == []


@pytest.mark.parametrize("method", TUNERS)
def test_every_tuner_looks_whether_its_lists_agree(method):
    with pytest.raises(InputError, match="select: expected the features of the tuning list, found none of f2"):
        tuner_class(method)().fit(random_lists(seed=1), random_lists(seed=2, n_dense=2, n_sparse=1))


def test_another_number_of_references_is_said():
    lists = synthetic_nbest(SyntheticOptions(sentences=12, hyps=5, features=3))
    twice = replace(lists, refs=strings([text for text in lists.refs.to_pylist() for _ in range(2)]), ref_ptr=2 * lists.ref_ptr)
    with pytest.warns(UserWarning, match="references a sentence: the tuning list has 1, select has 2"):
        EpochLog(Features.of(lists), lists, twice, Run())


def test_a_held_out_list_may_lack_features_where_that_is_wanted():
    nbest, held_out = random_lists(seed=1), random_lists(seed=2, n_dense=2, n_sparse=1)
    with pytest.raises(InputError, match="select: expected the features of the tuning list, found none of f2"):
        log_of(nbest, held_out)
    log, features = log_of(nbest, held_out, allow_missing=True)
    w = np.random.default_rng(1).normal(size=len(features))
    known = dict(zip(features.names, w, strict=True))
    scores = Features.of(held_out).scores(np.array([known[n] for n in ("f0", "f1", "s0")]))
    log.record(1, w)
    log.settle()
    assert log.history[0]["select"] == Scorer(held_out).score(best_choice(held_out, scores), "bleu").score


@pytest.mark.parametrize(
    ("tuner", "least"),
    [(Mira(epochs=10), 0.97), (Kbmira(epochs=20), 0.95), (Rampion(eta=1e-3), 0.95), (Pro(), 0.98)],
    ids=["mira", "kbmira", "rampion", "pro"],
)
def test_planted_weights_are_recovered(tuner, least):
    nbest, truth = planted_lists()
    w = Features.of(nbest).vector(tuner.fit(nbest).weights)
    assert w @ truth / np.sqrt(w @ w * (truth @ truth)) > least


# -- warnings -------------------------------------------------------------------------------------------------------------


def lists_with(columns) -> tuple:
    x = np.column_stack(columns)
    nbest = container((3, 3), x, random_stats(np.random.default_rng(0), 6))
    return Features.of(nbest), nbest


BASE = np.array([0.0, 1.0, -1.0, 0.0, 2.0, 1.0])
OTHER = np.array([0.0, 1.0, 1.0, 0.0, -1.0, 2.0])


@pytest.mark.parametrize(
    ("columns", "warnings"),
    [
        ([BASE, OTHER], []),
        ([BASE, 1e4 * OTHER], []),  # both have the spread √(7/6): just at the limit
        ([BASE, 1.001e4 * OTHER], ["feature f1 varies 1e+04 times as much as f0: methods with one step size"]),
        ([BASE, OTHER, np.zeros(6)], ["feature f2 is all zero: it cannot change the ranking and its weight stays as it was"]),
        ([np.repeat([1.0, 2.0], 3), BASE], ["feature f0 is the same for all hypotheses of each list: it cannot change the ranking"]),
        ([BASE, OTHER, -2 * BASE + np.repeat([1.0, 5.0], 3)], ["features f0 and f2 are multiples of each other within lists"]),
        ([BASE, BASE + 1e-3 * OTHER], []),
    ],
)  # fmt: skip
def test_features_that_make_tuning_go_wrong(columns, warnings):
    _, nbest = lists_with(columns)
    found = feature_warnings(nbest, None)
    assert len(found) == len(warnings)
    for text, start in zip(found, warnings, strict=True):
        assert text.startswith(start)


def test_an_all_zero_start_is_said_and_no_hypotheses_are_no_trouble():
    _, nbest = lists_with([BASE, OTHER])
    assert feature_warnings(nbest, np.array([0.0, 1e-9])) == []
    assert [w.split(":")[0] for w in feature_warnings(nbest, np.zeros(2))] == ["all initial weights are zero"]
    none = container((0, 0), np.zeros((0, 2)), np.zeros((0, 6)), sparse.csr_matrix((0, 0)))
    assert feature_warnings(none, None) == []


def test_the_weights_of_a_decoder_are_found_in_its_scores() -> None:
    nbest = synthetic_nbest(SyntheticOptions(sentences=30, hyps=10, features=5), seed=3)
    true = dict(zip(nbest.unit_names, (0.3, -1.25, 0.07, 2.0, 0.0), strict=True))
    scored = replace(nbest, score=Model(true).decision_function(nbest) + 7.0 * nbest.sent_of_hyp)  # a constant a list is nobody's
    weights, explained = decoder_weights(scored)
    assert weights == {name: w for name, w in true.items() if w}
    assert explained == pytest.approx(1.0)
    made = replace(scored, meta={"templates": json.dumps([{"features": [nbest.unit_names[3]]}])})
    assert nbest.unit_names[3] not in decoder_weights(made)[0]  # a decoder has no weight for what a template made
    assert decoder_weights(replace(nbest, score=np.full(nbest.n_hyps, np.nan))) is None
    assert decoder_weights(replace(nbest, score=np.full(nbest.n_hyps, 2.0))) is None
    assert decoder_weights(replace(nbest, score=np.where(np.arange(nbest.n_hyps) % 2, 1e308, -1e308))) is None


def test_features_that_are_next_to_copies_share_a_weight() -> None:
    """What tells them apart is rounding: weights of either sign, as large as one likes, would fit it."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=24, hyps=10, features=2), seed=3)
    x = nbest.X[:, :1] + 1e-6 * np.random.default_rng(0).normal(size=(nbest.n_units, 2))
    near = replace(nbest, units=replace(nbest.units, x=x), unit_names=("one", "other"))
    scored = replace(near, score=near.sum_units(2.0 * x[:, 0]))
    weights, explained = decoder_weights(scored)
    assert weights == {"one": pytest.approx(1.0, abs=1e-3), "other": pytest.approx(1.0, abs=1e-3)}
    assert explained == pytest.approx(1.0)
