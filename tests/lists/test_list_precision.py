"""The printed precision of a list's features: looked for in some of its units, and kept with it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from strategies import build

from boostfeat.core.printed_numbers import EXACT, Precision
from boostfeat.lists.build import HypRecord, UnitRecord
from boostfeat.lists.nbest import NBest
from boostfeat.lists.precision import KEY, precision_of, with_derived, with_precision

pytestmark = pytest.mark.quick


def the_list() -> NBest:
    """Five hypotheses of up to three units: a feature of four decimals, one of six digits, one of whole numbers."""
    rng = np.random.default_rng(0)
    rows = [[UnitRecord({"fixed": round(float(v), 4), "digits": float(f"{-v / 7:.6g}"), "whole": float(k)}) for v in rng.uniform(1, 90, 1 + k % 3)]
            for k in range(5)]  # fmt: skip
    return build([HypRecord(k // 2, "a b c", f"h{k}", units=own) for k, own in enumerate(rows)])


def test_what_a_list_tells_is_kept(monkeypatch):
    nbest = replace(the_list(), meta={"other": "x"})
    largest = float(np.abs(nbest.global_column("digits")).max())
    expected = {"fixed": [pytest.approx(1e-4), 0], "digits": [float(np.spacing(np.float32(largest))), 6]}
    kept = with_precision(nbest)
    assert (json.loads(kept.meta[KEY]), kept.meta["other"]) == (expected, "x")
    names = ["whole", "digits", "fixed", "unknown"]
    for told in (kept, nbest):  # as it says, or looked for
        assert precision_of(told, names) == [EXACT, Precision(*expected["digits"]), Precision(pytest.approx(1e-4)), EXACT]
    made = replace(nbest, meta={"templates": json.dumps([{"features": ["fixed"]}, {}])})
    assert list(json.loads(with_precision(made).meta[KEY])) == ["digits"]  # a template's feature is exact
    assert json.loads(with_precision(nbest[:0]).meta[KEY]) == {}


def test_more_features_that_are_not_exact():
    nbest = the_list()
    assert with_derived(nbest, {"new": EXACT}) is nbest.meta
    for told in (nbest, with_precision(nbest)):
        found = json.loads(with_derived(told, {"new": Precision(0.5, 3), "exact": EXACT})[KEY])
        assert found == {**json.loads(with_precision(nbest).meta[KEY]), "new": [0.5, 3]}
