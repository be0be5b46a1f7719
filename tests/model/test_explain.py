"""Explanations add up: what features, trees and units add is the difference of scores."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from toy_trees import stump

from boostfeat import formats
from boostfeat.core.feature_table import FeatureTable
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.choices import decoder_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
from boostfeat.model.decision import Length
from boostfeat.model.explain import ChangedChoices
from boostfeat.model.model import Model


@pytest.fixture(params=["local", "global"])
def model(request, dev: NBest) -> Model:
    rng = np.random.default_rng(3)
    names = dev.global_names
    trees = tuple(
        replace(stump(on=names[m], feature=names[m + 1], threshold=0.1 * m, weight=float(rng.normal())), name=f"t{m}")
        for m in range(4)
    )
    return Model(dict(zip(names, rng.normal(size=len(names)).tolist(), strict=True)), trees, request.param)


def test_parts_add_up_to_the_difference_of_scores(dev, model):
    scores, chosen, other = model.decision_function(dev), model.predict(dev), decoder_choice(dev)
    found = ChangedChoices.of(model, dev, chosen, other)
    s = found.sentences
    assert len(s) > 5
    assert (chosen[s] != other[s]).all()
    assert found.totals == pytest.approx(scores[chosen[s]] - scores[other[s]], abs=1e-9)
    for k in range(len(s)):
        assert sum(part for _, part in found.features(k)) == pytest.approx(found.totals[k], abs=1e-9)
        units = found.units(k)
        assert sum(u["linear"] + u["trees"] for u in units) == pytest.approx(found.totals[k], abs=1e-9)
        sizes = [abs(part) for _, part in found.features(k)]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("level", ["local", "global"])
def test_a_phrase_that_comes_twice_counts_twice(tmp_path, level):
    """The other one has a phrase of value 1 two times: the tree (2 · 1 above 0.7) takes it for 2 · 2."""
    units = [[{"tgt": [k, k + 1], "x": [x]} for k in range(n)] for n, x in ((2, 1.0), (1, 0.5))]
    hyps = [{"text": text, "units": own} for text, own in zip(("a a", "b"), units, strict=True)]
    lines = ({"boostfeat": "nbest/1", "unit_features": ["x"]}, {"id": 0, "hyps": hyps})
    (tmp_path / "list").write_text("\n".join(map(json.dumps, lines)))
    nbest = formats.read(tmp_path / "list", ReadOptions())
    model = Model({"x": 1.0}, (stump(on="x", feature="x", threshold=0.7, weight=1.0),), level)
    [other] = [
        row
        for row in ChangedChoices.of(model, nbest, np.array([1]), np.array([0])).units(0)
        if row["in"] == "other" and row["tgt"]
    ]
    value = model.trees[0].predict(FeatureTable(["x"], np.array([[1.0]])))[0]
    assert other["linear"] == -2
    assert level == "global" or other["trees"] == pytest.approx(-2 * value)


def test_a_phrase_of_both_in_another_context_is_one_row(tmp_path):
    """The phrase 'a' has x = 1 in one and 0.25 in the other: together they add 2 · 0.75."""
    units = [[{"tgt": [0, 1], "x": [x]}, {"tgt": [1, 2], "x": [0.0]}] for x in (1.0, 0.25)]
    hyps = [{"text": text, "units": own} for text, own in zip(("a b", "a c"), units, strict=True)]
    lines = ({"boostfeat": "nbest/1", "unit_features": ["x"]}, {"id": 0, "hyps": hyps})
    (tmp_path / "list").write_text("\n".join(map(json.dumps, lines)))
    nbest = formats.read(tmp_path / "list", ReadOptions())
    found = ChangedChoices.of(Model({"x": 2.0}), nbest, np.array([0]), np.array([1])).units(0)
    assert [(row["in"], row["tgt"], row["linear"]) for row in found] == [
        ("chosen", "b", 0),
        ("other", "c", 0),
        ("both", "a", 1.5),
    ]


def test_who_decided(dev, model):
    """Without the feature or tree, the other hypothesis would be ahead: against scores without it."""
    chosen, other = model.predict(dev), decoder_choice(dev)
    found = ChangedChoices.of(model, dev, chosen, other)
    gains = np.where(np.arange(len(found.sentences)) % 3 == 0, -1.0, 2.0)
    movers = {m["name"]: m for m in found.movers(gains)}
    c, d = chosen[found.sentences], other[found.sentences]
    for name in dev.global_names:
        without = Model({n: w for n, w in model.weights.items() if n != name}, model.trees, model.level).decision_function(dev)
        decided = (without[c] - without[d] <= 0) & (found.totals > 0)
        expected = movers.get(name, {"decided": 0, "better": 0, "worse": 0})
        assert abs(expected["decided"] - decided.sum()) <= 1  # a tie may be rounded to either side
        assert expected["better"] + expected["worse"] == expected["decided"]


def test_parts_of_one_size_are_told_by_name(dev):
    """Whatever their sign: two of them are 2 and -2, then -2 and 2."""
    first, second, third = dev.global_names[:3]
    chosen, other = np.array(dev.hyp_ptr[:-1]), np.array(dev.hyp_ptr[:-1]) + 1
    x = dev.global_features[chosen[0]] - dev.global_features[other[0]]
    for part in (2, -2):
        weights = {first: part / x[0], second: -part / x[1], third: 1 / x[2]}
        found = ChangedChoices.of(Model(weights), dev, chosen, other).features(0)
        assert [name for name, _ in found if name in weights] == [*sorted([first, second]), third]


def test_which_groups_decided(dev, model):
    """All features of a group taken away at once, and all trees: against scores without them."""
    chosen, other = model.predict(dev), decoder_choice(dev)
    found = ChangedChoices.of(model, dev, chosen, other)
    half = set(dev.global_names[::2])
    groups = {**{name: "half" if name in half else "rest" for name in dev.global_names}, **dict.fromkeys(found.trees, "trees")}
    movers = {m["name"]: m for m in found.group_movers(groups, np.ones(len(found.sentences)))}
    c, d = chosen[found.sentences], other[found.sentences]
    kept = {name: w for name, w in model.weights.items() if name not in half}
    without = {"half": Model(kept, model.trees, model.level), "trees": Model(model.weights, (), model.level)}
    for name, smaller in without.items():
        scores = smaller.decision_function(dev)
        decided = (scores[c] - scores[d] <= 0) & (found.totals > 0)
        assert decided.any()
        assert abs(movers[name]["decided"] - decided.sum()) <= 1  # a tie may be rounded to either side
        assert movers[name]["better"] == movers[name]["decided"]
    assert movers["half"]["features"] == len(half)
    assert movers["trees"]["features"] == len(model.trees)


def test_the_command(dev, model, boostfeat, tmp_path: Path):
    write_store(dev, tmp_path / "dev.nbest")
    model.save(tmp_path / "m.json")
    command = ("explain", tmp_path / "dev.nbest", "-m", tmp_path / "m.json")
    code, out, err = boostfeat(*command, "--json")
    assert (code, err) == (0, "")
    whole = json.loads(out)
    differ = int((model.predict(dev) != decoder_choice(dev)).sum())
    assert (whole["sentences"], whole["changed"]) == (len(dev), differ)
    assert whole["better"] + whole["worse"] <= differ
    code, out, _ = boostfeat(*command, "--top", 3)
    assert code == 0
    tables = [block.splitlines()[1:] for block in out.split("\n\n")[1:3]]
    assert {line.split()[0] for line in tables[0]} == {row["name"] for row in whole["groups"]} <= {"decoder", "trees"}
    assert [line.split()[0] for line in tables[1]] == [row["name"] for row in whole["movers"][:3]]
    assert out.splitlines()[-1].startswith("decided: without it the decoder's hypothesis would be ahead")
    s = int(ChangedChoices.of(model, dev, model.predict(dev), decoder_choice(dev)).sentences[0])
    code, out, _ = boostfeat(*command, "--sentence", dev.ids[s], "--json")
    one = json.loads(out)
    assert one["id"] == dev.ids[s]
    assert one["difference"] == pytest.approx(sum(f["part"] for f in one["features"]))
    code, out, _ = boostfeat(*command, "--sentence", dev.ids[s], "--top", 2)
    assert "together" in out
    assert max(map(len, out.splitlines()[3:])) <= 80
    code, out, _ = boostfeat(*command, "--sentence", dev.ids[s], "--hyp", 1, "--against", 1)
    assert "both are the same hypothesis" in out
    _, out, _ = boostfeat(*command, "--sentence", dev.ids[s], "--hyp", 0, "--against", 1)
    assert any(line.startswith("other:   ") for line in out.splitlines())
    said = {line.split()[1] for k in (0, 1) for line in boostfeat(*command, "--sentence", dev.ids[s], "--hyp", k, "--against", 1 - k)[1].splitlines()
            if line.startswith("score: ")}  # fmt: skip
    assert said == {"ahead", "behind"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sentence", 99999], "sentence 99999: there is no list of this id"),
        (["--sentence", 0, "--hyp", 999], "hyp: expected a hypothesis of the list"),
        (["--hyp", 1], "--hyp does nothing without --sentence"),
        (["--metric", "frob"], "frob"),
    ],
)
def test_misuse_is_one_line(dev, boostfeat, tmp_path, arguments, message):
    write_store(dev, tmp_path / "dev.nbest")
    Model({dev.global_names[0]: 1.0}).save(tmp_path / "m.json")
    code, out, err = boostfeat("explain", tmp_path / "dev.nbest", "-m", tmp_path / "m.json", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_points_are_those_of_score(dev, boostfeat, tmp_path):
    """A column beyond 1 is learned in its own unit, and told in points."""
    value = np.arange(dev.n_hyps, dtype=float) * 7
    column = dev.with_quality("judge", value)
    write_store(column, tmp_path / "dev.nbest")
    model = Model({dev.global_names[0]: -1.0})
    model.save(tmp_path / "m.json")
    chosen, other = model.predict(dev), decoder_choice(dev)
    s = int(np.flatnonzero(chosen != other)[0])
    command = ("explain", tmp_path / "dev.nbest", "-m", tmp_path / "m.json", "--metric", "judge", "--json")
    found = json.loads(boostfeat(*command, "--sentence", dev.ids[s])[1])
    assert found["gain"] == pytest.approx(value[chosen[s]] - value[other[s]])


def test_an_empty_list_is_one_line(boostfeat, tmp_path):
    lines = [{"boostfeat": "nbest/1", "hyp_features": ["f"]}, {"id": 0, "refs": ["b"], "hyps": []}]
    lines.append({"id": 1, "refs": ["b"], "hyps": [{"text": "b", "features": {"f": 1}}]})
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert boostfeat("import", tmp_path / "list.jsonl", "-o", tmp_path / "list.nbest", "-q")[0] == 0
    Model({"f": 1.0}).save(tmp_path / "m.json")
    command = ("explain", tmp_path / "list.nbest", "-m", tmp_path / "m.json")
    assert boostfeat(*command)[1] == "of 2 choices 0 are not the decoder's: 0 are better, 0 worse\n"
    code, _, err = boostfeat(*command, "--sentence", 0)
    assert (code, err.count("\n")) == (2, 1)
    assert "sentence 0: its list is empty" in err


def test_lists_that_are_empty_do_not_differ_and_features_without_weight_add_nothing(dev, model):
    chosen, other = np.array(dev.hyp_ptr[:-1]), np.array(dev.hyp_ptr[:-1]) + 1
    chosen[0] = other[1] = -1
    chosen[2] = other[2] = -1
    first, *_ = names = dev.global_names
    weights = {name: w for name, w in model.weights.items() if name != first}
    found = ChangedChoices.of(replace(model, weights=weights), dev, chosen, other)
    assert found.sentences.tolist() == list(range(3, len(dev)))
    column = found.names.index(first)
    assert found.parts[:, column].nnz == 0
    assert found.parts[:, found.names.index(names[1])].nnz > 0


def test_what_lengths_and_minimum_bayes_risk_decided(boostfeat, tmp_path):
    """A source of one word teaches one: 'a' is ahead by (4 - 1)² less f. Where scores have next to no weight, the longer one has the higher expectation."""
    hyps = [{"text": "a b c d", "score": 1.0, "features": {"f": 1}}, {"text": "a", "score": 0.0, "features": {"f": 0}}]
    lines = [{"boostfeat": "nbest/1", "hyp_features": ["f"]}, {"id": 0, "source": "x", "refs": ["a"], "hyps": hyps}]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert boostfeat("import", tmp_path / "list.jsonl", "-o", tmp_path / "list.nbest", "-q")[0] == 0
    command = ("explain", tmp_path / "list.nbest", "-m", tmp_path / "m.json")
    length = asdict(Length((0.0, 1.0, 0.0), {}, weight=1.0))
    Model({"f": 1.0}, config={"decision": {"by": "score", "length": length}}).save(tmp_path / "m.json")
    found = json.loads(boostfeat(*command, "--json")[1])
    assert (found["changed"], found["better"], found["worse"], "lower_score" in found) == (1, 1, 0, False)
    assert [(row["name"], row["features"], row["decided"]) for row in found["groups"]] == [("(length)", 1, 1)]
    assert [row["name"] for row in found["movers"]] == ["(length)"]
    one = json.loads(boostfeat(*command, "--sentence", 0, "--json")[1])
    assert {row["name"]: row["part"] for row in one["features"]} == {"(length)": 9.0, "f": -1.0}
    Model({"f": -1.0}, config={"decision": {"by": "mbr", "scale": 1e-9, "length": length}}).save(tmp_path / "m.json")
    found = json.loads(boostfeat(*command, "--json")[1])
    assert (found["changed"], found["lower_score"]) == (0, 0)
    Model({"f": -9.0}, config={"decision": {"by": "mbr", "scale": 1.0}}).save(tmp_path / "m.json")
    code, out, _ = boostfeat(*command)
    assert (code, out.split("\n")[1]) == (
        0,
        "minimum Bayes risk decides: 0 of them have no higher score, and nothing below decided them",
    )
