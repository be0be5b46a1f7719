"""Numbers that stores, lists of graphs and what is said of lists depend on. Who changes one means to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import toy_graphs
from strategies import build as listed

from boostfeat.core.errors import InputError
from boostfeat.lists import build, feature_range, mbr, pieces, precision, store
from boostfeat.lists.build import HypRecord
from boostfeat.search.graphs import graph

pytestmark = pytest.mark.quick

SETTINGS = {
    build: {"DENSE_SHARE": 0.1, "MAX_DENSE": 4096, "ROUNDING": 1e-5},
    graph: {"DEFAULT_SIZE": 100, "EXAMINED_PER_STRING": 100, "MAX_DERIVATION": 50_000, "MAX_SCORE": 1e300},
    feature_range: {"SAMPLE": 300, "UNEXPLAINED": 0.1, "SMALLEST": 1e-60, "LARGEST": 1e60},
    mbr: {"LONGEST": 20_000},
    pieces: {"LEAST_ROWS": 0.5, "LEAST_TOKENS": 0.3, "MOST_OUT_OF_PLACE": 0.1},
    precision: {"SAMPLE": 50_000},
    store: {"VERSION": 1},
}


def test_lists_are_made_with_the_numbers_that_were_chosen(tmp_path: Path) -> None:
    nbest = listed([HypRecord(0, text, "here", score, {"f": score}) for text, score in (("a b", -1.0), ("a", -2.0))])
    store.write_store(nbest, tmp_path / "store")
    assert store.read_store(tmp_path / "store") == nbest
    assert feature_range.lost_ranking(nbest) is None
    assert mbr.mbr_choice(nbest, np.array([0.0, 5.0])).tolist() == [1]
    assert pieces.scheme_of_lines(["▁a ▁b"]) == "spm"
    assert len(precision.precision_of(nbest, ["f"])) == 1
    found, scores = toy_graphs.build([(0, [], ["a"], -1.0)])
    assert found.text(found.best(scores), 0) == "a"
    assert {module: {name: getattr(module, name) for name in names} for module, names in SETTINGS.items()} == SETTINGS


def test_lists_too_long_for_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the longest they are compared; the message has the numbers."""
    monkeypatch.setattr(mbr, "LONGEST", 2)
    for n in (2, 3):
        nbest = listed([HypRecord(0, "a", "here", -float(k)) for k in range(n)])
        if n == 2:
            assert mbr.mbr_choice(nbest, nbest.score).tolist() == [0]
        else:
            with pytest.raises(InputError, match=r"expected lists of at most 2 hypotheses, .* found one of 3; import fewer"):
                mbr.mbr_choice(nbest, nbest.score)
