"""``boostfeat doctor``: what it finds, and that it notices what is broken."""

from __future__ import annotations

import json

import pytest

from boostfeat.cli import self_test as doctor
from boostfeat.losses.pairwise import PairwiseLogLoss
from boostfeat.trees.tree import Tree


def test_a_sound_installation(boostfeat):
    code, out, err = boostfeat("doctor", "--json")
    found = json.loads(out)
    assert (code, err, found["ok"]) == (0, "", True)
    assert len(found["checks"]) == 3
    assert all(check["ok"] for check in found["checks"])
    assert None not in found["versions"].values()
    assert found["numba_cache"]["loaded"] + found["numba_cache"]["compiled"] > 0
    assert found["machine"]["usable_cores"] >= 1


@pytest.mark.parametrize(
    ("owner", "name", "broken", "check", "what"),
    [
        (PairwiseLogLoss, "gradient", lambda self, scores: 1.01 * scores, 0, "expected the differences of the loss"),
        (
            Tree,
            "predict",
            lambda self, table: 0.0 * table.column("count"),
            1,
            "expected BLEU-SBP 100 with trees and less without",
        ),
        (doctor, "_middle_lists", lambda n, seed: None, 2, "AttributeError"),
    ],
)
def test_what_is_broken_is_found(monkeypatch, owner, name, broken, check, what):
    monkeypatch.setattr(owner, name, broken)
    found = list(doctor.self_test())[check]
    assert not found["ok"]
    assert what in found["found"]


def test_what_is_broken_is_shown(boostfeat, monkeypatch):
    monkeypatch.setattr(doctor, "self_test", lambda: [{"check": "trees", "ok": False, "found": "none", "seconds": 0.0}])
    monkeypatch.setitem(doctor.OPTIONAL, "no-such-package", "wishes")
    code, out, _ = boostfeat("doctor")
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert code == 1
    assert ["trees", "BROKEN: none (0.0 s)"] in lines
    assert ["no-such-package", "not found; needed for: wishes"] in lines


def test_a_missing_requirement(boostfeat, monkeypatch):
    monkeypatch.setattr(doctor, "REQUIRED", (*doctor.REQUIRED, "no-such-package"))
    code, out, _ = boostfeat("doctor")
    assert code == 1
    assert "missing: install it with pip" in out
