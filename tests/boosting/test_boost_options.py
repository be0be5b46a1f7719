"""Options of boosting: recipes and what they are made of, limits, when pairs are drawn, penalties of sparse features."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import numpy as np
import pytest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import ABLATION, RECIPES, BoostOptions, recipe
from boostfeat.boosting.induce import induce
from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.choices import Scorer
from boostfeat.lists.nbest import NBest
from boostfeat.losses.pairs import SAMPLERS, PairOptions
from boostfeat.trees.growing import TreeOptions

QUICK = {"rounds": 4, "min_occurrences": 20, "draws": 300, "keep": 30}


# -- recipes --------------------------------------------------------------------------------------------------------------


def test_changes_go_where_they_belong():
    changed = recipe("default", rounds=7, keep=55, max_leaves=3, level="global")
    assert (changed.rounds, changed.pairs.keep, changed.tree.max_leaves, changed.level) == (7, 55, 3, "global")
    assert replace(changed, rounds=0, pairs=PairOptions(), tree=TreeOptions(), level="local") == replace(
        RECIPES["default"], rounds=0, pairs=PairOptions(), tree=TreeOptions()
    )
    assert recipe("default", sampler="hm11", keep=7).pairs == replace(SAMPLERS["hm11"], keep=7, alpha=0.1)
    names = [f.name for part in (BoostOptions, PairOptions, TreeOptions) for f in fields(part)]
    assert len(set(names)) == len(names)  # so that a name says where it belongs
    with pytest.raises(InputError, match="unknown recipe 'soup': expected one of default, fast, paper"):
        recipe("soup")
    with pytest.raises(InputError, match="unknown option 'leafs' of boosting"):
        recipe("fast", leafs=3)


@pytest.mark.parametrize("name", list(ABLATION))
def test_every_row_of_the_ablation_runs(dev, select, name):
    model = induce(dev, select, recipe("default", **{**QUICK, **ABLATION[name], "rounds": 3}), templates="none")
    assert len(model.history) == 1 + model.config["rounds"]
    assert np.isfinite(model.decision_function(select)).all()


def test_no_row_of_the_ablation_is_another():
    assert len({repr(asdict(recipe("default", **row))) for row in ABLATION.values()}) == len(ABLATION)


# -- limits ---------------------------------------------------------------------------------------------------------------


def test_an_unknown_metric_is_refused_where_lists_are(dev, select):
    """A metric may be a quality column: only lists know."""
    for lists in ((dev, None), (dev, select)):
        with pytest.raises(InputError, match="unknown metric 'soup': expected one of bleu, bleu-sbp"):
            boost(*lists, recipe("paper", **QUICK, metric="soup"))


@pytest.mark.parametrize(
    ("every", "drawn_after", "draws_before"),
    [
        (0, [0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]),  # once, as in the paper
        (1, [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
        (3, [0, 0, 0, 3, 3, 3, 6], [0, 0, 0, 1, 1, 1, 2]),
    ],
)
def test_when_pairs_are_drawn(every, drawn_after, draws_before):
    """Of the rounds that follow round 0, 1, 2, ...: where their pairs were drawn, and how many draws there were before."""
    options = BoostOptions(resample_pairs=every)
    assert [options.drawn_after(m) for m in range(7)] == drawn_after
    assert [options.draws_before(m) for m in range(7)] == draws_before


# -- sparse features ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worded(dev) -> NBest:
    """Lists with an indicator of every phrase pair."""
    return featurize(dev, FeaturePlan.of("pt", TEMPLATES, min_count=1))[0]


def test_sparse_features_have_a_penalty_of_their_own(dev, worded):
    """The first weights minimise Σ log-loss + l2/2 |dense|² + sparse_l2/2 |sparse|²: a huge one leaves the dense model."""
    names = worded.sparse_names.to_pylist()
    assert len(names) > 50

    def first(nbest: NBest, **changes: float | None) -> dict[str, float]:
        return dict(boost(nbest, None, recipe("paper", rounds=0, **changes)).weights)

    alone, freely = first(dev), first(worded)
    assert first(worded, sparse_l2=1.0) == freely == first(worded, sparse_l2=None)
    kinds = [first(worded, sparse_l2=l2) for l2 in (1.0, 100.0, 1e4)]
    sizes = [np.linalg.norm([w for n, w in weights.items() if n in names]) for weights in kinds]
    assert sizes[0] > 2 * sizes[1] > 8 * sizes[2] > 0
    tied = first(worded, sparse_l2=1e6)
    assert {n: w for n, w in tied.items() if n not in names} == pytest.approx(alone, rel=0.01)
    assert freely["LexWeight"] != pytest.approx(alone["LexWeight"], rel=0.05)


def test_trees_look_at_dense_features(worded):
    """Indicators of phrases are the first weights' matter; where there is nothing else, or they are named, trees take them."""
    names = set(worded.sparse_names.to_pylist())
    once = {**QUICK, "min_occurrences": 1, "sparse_l2": 1e4, "rule": "best"}

    def tested(nbest: NBest, **changes: object) -> set[str]:
        trees = boost(nbest, None, recipe("default", **once, **changes)).trees
        return set().union(*(tree.features() for tree in trees))

    assert not tested(worded) & names
    some = sorted(names)[:30]
    assert tested(worded, tree_features=("LexWeight", *some)) <= {"LexWeight", *some}
    assert tested(worded, tree_features=tuple(some)) & names
    bare = replace(worded, units=replace(worded.units, x=worded.X[:, :0]), unit_names=())
    assert tested(bare) & names


@pytest.mark.slow
def test_sparse_features_gain_on_real_lists(real):
    """BLEU-SBP of devtrain's last 500 sentences, 50-best: above PRO with the penalty of the default, below it with PRO's own."""
    source, refs = ((real / "fi-en" / f"devtrain.{x}").read_text().splitlines() for x in ("fi", "en"))
    nbest = read(real / "fi-en" / "devtrain.200.enriched.xz", ReadOptions(source=source)).truncate(50)
    nbest = attach(nbest, source=source, refs=[refs], name="devtrain")
    train, held = nbest.take(np.arange(2000)), nbest.take(np.arange(2000, 2500))
    worded, vocab = featurize(train, FeaturePlan.of("sparse", TEMPLATES))

    def gain(dev: NBest, test: NBest, **changes: object) -> float:
        model = boost(dev, None, recipe("default", rounds=0, **changes))
        return Scorer(test).score(model.predict(test), "bleu-sbp").score

    plain, test = gain(train, held), featurize(held, vocab)[0]
    assert gain(worded, test) > plain + 0.2
    assert gain(worded, test, sparse_l2=None) < plain
