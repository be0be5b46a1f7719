"""Rows of a comparison by name, their grids, and limits of its options."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boostfeat.compare.runner import CompareOptions
from boostfeat.compare.systems import GRIDS, METHODS, SYSTEMS, parse_systems, stages
from boostfeat.core.errors import InputError
from boostfeat.tuners import tuner_class

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, list(SYSTEMS)),
        ("boost-local, base-PRO,boost-local", ["boost-local", "base-PRO"]),
        ("base/mira", [*SYSTEMS, "base/mira"]),
        ("base-PRO,base/boost-global:affine", ["base-PRO", "base/boost-global:affine"]),
    ],
)
def test_systems_by_name(text, names):
    assert [system.name for system in parse_systems(text)] == names


def test_every_method_has_a_grid_that_it_takes():
    for method in METHODS:
        (system,) = [s for s in parse_systems(f"base-PRO,base/{method}") if s.method == method and "/" in s.name]
        for stage in stages(system):
            if method in GRIDS and system.level is None:
                for point in stage.points({}):
                    if method == "mbr":  # PRO's, and a scale
                        point.pop("scale", None)
                    tuner_class("pro" if method == "mbr" else method)(**point)
    assert set(GRIDS) == {*METHODS, "decoder"}
    assert any("leaves" in stage.grid for stage in stages(SYSTEMS["boost-local:paper"]))
    assert not any("leaves" in stage.grid for stage in stages(replace(SYSTEMS["boost-local:paper"], leaves="linear")))


@pytest.mark.parametrize(("option", "low"), [("runs", 1), ("rounds", 0), ("trials", 1), ("seed", 0)])
def test_limits_of_compare(option, low):
    assert getattr(CompareOptions(**{option: low}), option) == low
    with pytest.raises(InputError, match=f"{option}: expected {low} or more, found {low - 1}"):
        CompareOptions(**{option: low - 1})
