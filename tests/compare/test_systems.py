"""Rows of a comparison by name, their grids, and limits of its options."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boostfeat.boosting.boost_options import recipe
from boostfeat.compare.runner import CompareOptions
from boostfeat.compare.systems import (
    BASE,
    DEFAULT,
    GRIDS,
    INDUCED,
    METHODS,
    SYSTEMS,
    Fit,
    System,
    boost_options,
    choose,
    fit,
    parse_systems,
    stages,
)
from boostfeat.core.errors import InputError
from boostfeat.lists.mbr import mbr_choice
from boostfeat.search.loop.driver import LoopOptions
from boostfeat.search.loop.learners import learnt
from boostfeat.tuners import tuner_class


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, list(DEFAULT)),
        (
            "Base-pro,LINEAR,Large/PRO:l2=2,BASE/Boost-Local:Fast",
            ["base-PRO", "linear", "large/pro:l2=2", "base/boost-local:fast"],
        ),
        ("boost-local, base-PRO,boost-local", ["boost-local", "base-PRO"]),
        ("PRO,Mira,Mert", ["base-PRO", "mira", "base-MERT"]),
        ("base/mira", [*DEFAULT, "base/mira"]),
        ("base-PRO,base/boost-global:affine", ["base-PRO", "base/boost-global:affine"]),
    ],
)
def test_systems_by_name(text, names):
    assert [system.name for system in parse_systems(text)] == names


@pytest.mark.quick
def test_every_method_has_a_grid_that_it_takes():
    for method in METHODS:
        (system,) = [s for s in parse_systems(f"decoder,base/{method}") if s.method == method]
        for stage in stages(system):
            if method in GRIDS and system.level is None:
                for point in stage.points({}):
                    if method == "mbr":  # PRO's, and a scale
                        point.pop("scale", None)
                    tuner_class("pro" if method == "mbr" else method)(**point)
    assert set(GRIDS) == {*METHODS, "decoder"}
    assert any("leaves" in stage.grid for stage in stages(*parse_systems("boost-local:paper")))
    assert not any("leaves" in stage.grid for stage in stages(*parse_systems("boost-local:paper:linear")))


def test_mbr_is_pro_with_its_weights_scaled(dev, select):
    """Twin: PRO with the same settings. Its choice is under its own gain."""
    (system,) = parse_systems("mbr")
    params, options = (
        {"alpha": 0.1, "keep": 20, "l2": 10.0, "scale": 4.0, "tol": 0.001},
        CompareOptions(metric="bleu", gain="chrf", seed=3),
    )
    own = {name: value for name, value in params.items() if name != "scale"}
    pro = fit(SYSTEMS["base-PRO"], dev, select, own, options)
    found = fit(system, dev, select, params, options)
    assert dict(found.weights) == {name: 4.0 * w for name, w in pro.weights.items()}
    assert found.config == {**pro.config, "method": "mbr", "scale": 4.0}
    assert found.history == pro.history
    expected = mbr_choice(select, found.decision_function(select), gain="chrf")
    assert choose(system, found, select).tolist() == expected.tolist()
    assert choose(SYSTEMS["base-PRO"], found, select).tolist() == found.predict(select).tolist() != expected.tolist()
    other = replace(found, config={})
    by_bleu = mbr_choice(select, found.decision_function(select), gain="bleu")
    assert choose(system, other, select).tolist() == by_bleu.tolist() != expected.tolist()


def test_what_a_fit_is_by_another_method():
    """What the other knows of its settings stays, of its name and of the search; its features, seed and share stay too."""
    (_, boosting) = parse_systems("decoder,large/boost-local:paper:pairs=50:max-leaves=3:linear")
    found = Fit(boosting, {"alpha": 0.1, "leaves": "linear", "l2": 2.0}, 4, 0.5, 1).by("pro")
    assert found == Fit(System("pro", "large", "pro", changes={"keep": 50}), {"alpha": 0.1, "l2": 2.0}, 4, 0.5, 1)
    assert found.made_from == {
        "system": {"name": "", "feature_set": "large", "method": "pro", "leaves": None, "recipe": "default", "changes": {"keep": 50}},
        "params": {"alpha": 0.1, "l2": 2.0}, "seed": 4, "share": 0.5, "fold": 1,
    }  # fmt: skip
    renamed = replace(boosting, name="another name of the same system")
    assert Fit(renamed, {}, 4).made_from == Fit(boosting, {}, 4).made_from != Fit(boosting, {}, 4, fold=0).made_from


@pytest.mark.parametrize(
    ("name", "features", "templates"),
    [
        ("boost-local", INDUCED, None),
        ("linear", INDUCED, None),
        ("boost-global:fast", INDUCED, None),
        ("boost-local:paper", BASE, "none"),  # as ``induce --recipe paper``
        ("base/boost-local", BASE, "none"),
        ("large/boost-local", "large", "none"),  # the list has them already
    ],
)
def test_features_of_boosted_rows(name, features, templates):
    row = parse_systems(f"decoder,{name}")[1]
    assert (row.feature_set, row.templates, row.is_featurized) == (features, templates, features == "large")


def test_linear_has_no_trees():
    """Whatever the comparison says of rounds; a row that says it is refused."""
    assert boost_options(SYSTEMS["linear"], CompareOptions(rounds=9), {}).rounds == 0
    with pytest.raises(InputError, match="system 'linear:rounds=3': rounds does nothing without trees; leave it out"):
        parse_systems("linear:rounds=3")


def test_options_of_a_boosted_row():
    """The comparison's rounds, the row's leaves and changes, and what the search tries, the last word each."""
    (_, row) = parse_systems("decoder,boost-global:paper:linear:pairs=50:rounds=9")
    found = boost_options(row, CompareOptions(metric="ter", gain="chrf", rounds=4), {"keep": 70})
    assert found == recipe("paper", level="global", leaves="linear", rounds=9, keep=70, metric="ter", gain="chrf")
    plain = boost_options(SYSTEMS["boost-local"], CompareOptions(rounds=0), {})
    assert plain == recipe("default", level="local", rounds=0, metric="bleu-sbp", gain="bleu")
    assert boost_options(SYSTEMS["boost-local"], CompareOptions(), {}) == recipe(
        "default", level="local", metric="bleu-sbp", gain="bleu"
    )


def test_online_rows_need_a_decoder(dev, select):
    (_, row) = parse_systems("decoder,base/mira:online")
    with pytest.raises(InputError, match="online: expected a decoder to learn with, found lists; give --decode, or leave it out"):
        fit(row, dev, select, {}, CompareOptions())


@pytest.mark.parametrize("kind", [CompareOptions, LoopOptions])
def test_the_metric_of_a_gain(kind):
    """BLEU-SBP of BLEU, else the gain itself, unless another is given."""
    assert [kind(gain=gain).metric for gain in ("adequacy", "bleu", "chrf")] == ["adequacy", "bleu-sbp", "chrf"]
    assert kind(gain="chrf", metric="ter").metric == "ter"
    assert [learnt(gain) for gain in ("adequacy", "bleu", "chrf")] == [{"gain": "adequacy"}, {}, {"gain": "chrf"}]
