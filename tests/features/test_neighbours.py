"""Features of the previous and the following unit: by hand, a naive twin, what they need of a decoder, and how units multiply."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest
from strategies import build
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.errors import InputError
from boostfeat.features import SETS, TEMPLATES, FeaturePlan, feature_groups, feature_kinds, featurize
from boostfeat.features.registry import STATES
from boostfeat.features.teach import quantile_bins
from boostfeat.features.templates.place import checked_bins
from boostfeat.lists.build import HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store

pytestmark = pytest.mark.quick

SOURCE = ["se on iso talo ."]
NAMES = ("LM0", "tm")


def unit(src: tuple[int, int], tgt: tuple[int, int], lm: float, tm: float) -> UnitRecord:
    return UnitRecord({"LM0": lm, "tm": tm}, src, tgt)


HYPS = [
    HypRecord(
        0,
        "it is a big house .",
        "h",
        units=[unit((0, 2), (0, 2), -4, 1), unit((2, 4), (2, 5), -6, 2), unit((4, 5), (5, 6), -0.5, 3)],
    ),
    HypRecord(0, "house .", "h", units=[unit((0, 4), (0, 1), -8, 4), unit((4, 5), (1, 2), -0.5, 3)]),
]


@pytest.fixture(scope="module")
def nbest() -> NBest:
    made = build(HYPS, options=ReadOptions(source=SOURCE), declared_dense=NAMES)
    return attach(made, source=SOURCE, refs=[["it is a house ."]], name="test")


def plan(what: str, folder=None, text: str = "") -> FeaturePlan:
    if text:
        (folder / "own.toml").write_text(text)
        what = str(folder / "own.toml")
    return FeaturePlan.of(what, TEMPLATES)


def column(nbest: NBest, name: str) -> list[float]:
    """[R] a feature of every occurrence."""
    return nbest.X[nbest.unit_idx, nbest.unit_names.index(name)].tolist()


EXACT = "[templates.previous]\nbins = 0\n[templates.following]\nbins = 0\n"


def test_exact_values_by_hand(nbest, tmp_path):
    out, _ = featurize(nbest, plan("", tmp_path, EXACT))
    assert column(out, "prev.LM0") == [0, -4, -6, 0, -8]
    assert column(out, "next.LM0") == [-6, -0.5, 0, -0.5, 0]
    assert column(out, "prev.none") == [1, 0, 0, 1, 0]
    assert column(out, "next.none") == [0, 0, 1, 0, 1]
    assert column(out, "next.tm") == [2, 3, 0, 3, 0]
    assert (nbest.n_units, out.n_units) == (4, 5)  # '.' follows two different units
    sizes, _ = featurize(nbest, plan("neighbour_sizes"))
    assert column(sizes, "prev.len.src") == [0, 2, 2, 0, 4]
    assert column(sizes, "next.len.tgt") == [3, 1, 0, 1, 0]


def test_bins_are_quantiles_of_occurrences():
    """Values 1 2 3 4 seen 1 1 1 5 times: the first half of the eight occurrences ends in 4, which no cut can part."""
    x, times = np.array([3.0, 1.0, 4.0, 2.0, 9.0]), np.array([1, 1, 5, 1, 0])
    assert quantile_bins(x, times, 2) == {"cuts": [], "means": [26 / 8]}
    assert quantile_bins(x, times, 4) == {"cuts": [2.0], "means": [1.5, 23 / 6]}
    assert quantile_bins(x, np.minimum(times, 1), 4) == {"cuts": [1.0, 2.0, 3.0], "means": [1.0, 2.0, 3.0, 4.0]}
    assert quantile_bins(x, 0 * times, 4) == {"cuts": [], "means": [0.0]}


def naive(nbest: NBest, vocab: FeaturePlan) -> dict[str, list[float]]:
    """Neighbours by loops over hypotheses, binned by comparing with every cut."""
    options = {e.name: e.options for e in vocab.entries}
    out: dict[str, list[float]] = {}
    for h in range(nbest.n_hyps):
        units = nbest.unit_idx[nbest.unit_ptr[h] : nbest.unit_ptr[h + 1]].tolist()
        for side, step, entry in (("prev", -1, "previous"), ("next", 1, "following")):
            for k in range(len(units)):
                at = units[k + step] if 0 <= k + step < len(units) else None
                out.setdefault(f"{side}.none", []).append(float(at is None))
                for j, name in enumerate(nbest.unit_names):
                    bins = options[entry]["quantiles"][name]
                    value = 0.0
                    if at is not None:
                        value = bins["means"][sum(nbest.X[at, j] > cut for cut in bins["cuts"])]
                    out.setdefault(f"{side}.{name}", []).append(value)
    return out


def test_against_a_naive_twin():
    dev, test = (synthetic_nbest(SyntheticOptions(sentences=12, hyps=8, features=4), seed=s) for s in (0, 1))
    _, vocab = featurize(dev, plan("previous+following"))
    out, _ = featurize(test, vocab)  # with what dev taught
    for name, values in naive(test, vocab).items():
        assert column(out, name) == values, name
    np.testing.assert_allclose(out.global_features[:, :4], test.global_features)  # sums of the old features stay


def test_coarse_bins_keep_units_together(tmp_path):
    nbest = synthetic_nbest(SyntheticOptions(sentences=30, hyps=20, features=4), seed=0)
    sizes = []
    for bins in (1, 4, 0):
        text = f"[templates.previous]\nbins = {bins}\n[templates.following]\nbins = {bins}\n"
        sizes.append(featurize(nbest, plan("", tmp_path, text))[0].n_units)
    assert nbest.n_units <= sizes[0] < sizes[1] < sizes[2]


def test_any_features_of_the_list_can_be_taken(nbest, tmp_path):
    large, _ = featurize(nbest, plan("length"))
    out, _ = featurize(large, plan("", tmp_path, "[templates.previous]\nfeatures = ['len.tgt']\nbins = 0\n"))
    assert column(out, "prev.len.tgt") == [0, 2, 3, 0, 1]
    default, _ = featurize(large, plan("previous"))  # by default the decoder's own
    assert [name for name in default.unit_names if name.startswith("prev.")] == ["prev.none", "prev.LM0", "prev.tm"]
    with pytest.raises(InputError, match=r"neighbours: expected features of the list \(LM0, tm\), found 'frob'"):
        featurize(nbest, plan("", tmp_path, "[templates.previous]\nfeatures = ['frob']\n"))
    with pytest.raises(InputError, match="neighbours: expected bins of at least 0"):
        featurize(nbest, plan("", tmp_path, "[templates.previous]\nbins = 'many'\n"))


# -- what a decoder must keep -------------------------------------------------------------------------------------------


def test_the_state_is_declared_and_stays_with_the_list(nbest, tmp_path, boostfeat):
    vocab = plan("length+position+neighbours+jump")
    out, _ = featurize(nbest, vocab)
    write_store(out, tmp_path / "out.nbest")
    out = read_store(tmp_path / "out.nbest")
    states = {group.name: group.state for group in feature_groups(out)}
    assert states == {
        "decoder": "",
        "length": "",
        "position": "",
        "previous": "previous features",
        "following": "following features",
        "neighbour_sizes": "previous unit, following unit",
        "jump": "previous span",
    }
    assert feature_kinds(out)["prev.LM0"] == ("previous", "contextual")
    assert boostfeat("info", tmp_path / "out.nbest", "--json")[0] == 0
    code, text, _ = boostfeat("templates", "--json")
    listed = {t["template"]: t for t in json.loads(text)["templates"]}
    assert code == 0
    assert set(listed) == set(TEMPLATES)
    assert listed["previous"]["state"] == ["previous features"]
    assert {what for t in listed.values() for what in t["state"]} == set(STATES)
    # decomposable over bigrams of units: nothing beyond the two neighbours
    needs = {what for name in SETS["neighbours"] for what in TEMPLATES[name].state}
    assert needs <= {f"{side} {what}" for side in ("previous", "following") for what in ("unit", "features")}
    code, text, _ = boostfeat("templates")
    assert "following features" in text


def test_static_templates_have_no_state():
    assert all(not t.state for t in TEMPLATES.values() if t.kind == "static")


@pytest.mark.parametrize(
    ("cuts", "means", "fine"),
    [
        ([], [0.0], True),
        ([1.0, 2], [0, 1.5, -3.0], True),
        ([1.0], [0.0, 2**53 - 1], True),
        ([1.0], [0.0, -(2**53)], False),  # an array of such whole numbers is none of floats
        ([9e299], [-9e299, 0.0], True),
        ([1e300], [0.0, 1.0], False),
        ([float("nan")], [0.0, 1.0], False),
        ([1.0], [0.0, True], False),
        ([1.0], [0.0, "1.5"], False),
        ([1.0], [0.0], False),
        ([], [0.0, 1.0], False),
        ([1.0, 1.0], [0.0, 1.0, 2.0], False),
        ([2.0, 1.0], [0.0, 1.0, 2.0], False),
    ],
)
def test_bins_that_a_list_could_have_taught(cuts, means, fine):
    """Numbers of which cuts rise, and a mean more than cuts."""
    both = {"a": {"cuts": [1.0], "means": [0.0, 1.0]}, "b": {"cuts": cuts, "means": means}}
    with nullcontext() if fine else pytest.raises(ValueError, match="cuts and means that do not fit"):
        checked_bins(features=[], quantiles=both)
