"""Recipes and what they are made of: the paper's model as it always was, bags, folds, rules that choose a round."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from boostfeat.boosting.bagging import merged
from boostfeat.boosting.selection import choose_structure, fold_curve
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting import stopping as rounds
from boostfeat.boosting.boost import boost
from boostfeat.boosting.estimator import BoostReranker
from boostfeat.boosting.options import ABLATION, RECIPES, BoostOptions, recipe, with_changes
from boostfeat.boosting.stopping import best_round, kept_rounds, model_at, one_se_round, smooth_round, staged_scores
from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, Vocab, featurize
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.choices import Scorer, best_choice, chosen_stats
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store
from boostfeat.losses.pairs import SAMPLERS, PairOptions
from boostfeat.metrics.bleu import corpus_bleu, corpus_rows
from boostfeat.model.model import Model
from boostfeat.trees.growing import TreeOptions
from boostfeat.trees.tree import Tree

SMALL = SyntheticOptions(sentences=40, hyps=30, features=6)
QUICK = {"rounds": 4, "min_occurrences": 20, "draws": 300, "keep": 30}


@pytest.fixture(scope="module")
def dev() -> NBest:
    return synthetic_nbest(SMALL, seed=1)


@pytest.fixture(scope="module")
def select() -> NBest:
    return synthetic_nbest(SMALL, seed=2)


# -- recipes --------------------------------------------------------------------------------------------------------------


def test_the_paper_is_figure_3_as_before_there_were_recipes(dev, select):
    """Losses, select gains and weights that the version before recipes printed for its defaults on these lists."""
    assert recipe("paper") == BoostOptions() == BoostOptions(pairs=PairOptions(), tree=TreeOptions())
    model = boost(dev, select, recipe("paper"))
    losses = [0.206378251, 0.136125019, 0.106784623, 0.094341664, 0.083015374, 0.073097247,
              0.069470168, 0.067096404, 0.065751158, 0.064650253, 0.063247408]  # fmt: skip
    gains = [40.502031, 38.728273, 38.688794, 36.330153, 37.457074, 39.320396,
             40.001703, 36.431772, 36.431772, 38.544137, 38.544137]  # fmt: skip
    assert [row["loss"] for row in model.history] == pytest.approx(losses, abs=2e-9)
    assert [row["select"] for row in model.history] == pytest.approx(gains, abs=1e-6)
    assert model.weights["LexWeight"] == pytest.approx(0.8345711015977463, rel=1e-9)


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
    changes = {**QUICK, **ABLATION[name], "min_sentences": min(5, ABLATION[name].get("min_sentences", 0))}
    model = boost(
        dev, select, recipe("default", **{**changes, "rounds": 3, "refit_every": min(2, changes.get("refit_every", 0))})
    )
    assert np.isfinite(model.decision_function(select)).all()
    assert len({repr(asdict(recipe("default", **row))) for row in ABLATION.values()}) == len(ABLATION)  # no row is another


def test_estimator_takes_a_recipe():
    options = BoostReranker("fast", n_rounds=3, n_pairs=9, more={"min_sentences": 4}).options()
    assert options == recipe("fast", rounds=3, keep=9, min_sentences=4)
    assert BoostReranker().options() == RECIPES["default"]


# -- bags -----------------------------------------------------------------------------------------------------------------


def test_bags_are_the_mean_of_their_models(dev, select):
    options = recipe("fast", **QUICK)
    bag = boost(dev, select, replace(options, bags=3), seed=5)
    alone = [boost(dev, select, options, seed=5 + k * 1_000_003) for k in range(3)]
    np.testing.assert_allclose(
        bag.decision_function(select), np.mean([m.decision_function(select) for m in alone], axis=0), rtol=0, atol=1e-9
    )
    assert [t.name for t in bag.trees] == [f"tree.{k:03d}" for k in range(sum(len(m.trees) for m in alone))]
    rows = {row["tree"]: row for row in bag.history if "tree" in row}
    for tree in bag.trees:  # the history tells of each tree what the merged list of trees has
        assert rows[tree.name]["rho"] == pytest.approx(tree.weight)
    assert bag.config["best_rounds"] == [m.config["best_round"] for m in alone]
    assert len({m.signature for m in alone}) == 3
    assert merged(alone[:1]).decision_function(dev) == pytest.approx(alone[0].decision_function(dev), rel=1e-12)


def test_bags_share_the_trees_they_start_from(dev):
    init = boost(dev, None, recipe("paper", **QUICK))
    bag = boost(dev, None, recipe("paper", **{**QUICK, "rounds": 1, "bags": 2, "resample_pairs": 1}), init=init)
    assert [tree.to_json() for tree in bag.trees[:4]] == [tree.to_json() for tree in init.trees]
    assert len(bag.trees) == 6
    with pytest.raises(InputError, match="refit linear"):
        boost(dev, None, recipe("paper", **QUICK, bags=2, refit="trees"), init=init)


# -- rounds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refit", ["linear", "ensemble", "trees", "leaves"])
def test_earlier_rounds_are_restored_after_refits(dev, select, refit):
    """The model of round m of a long run is the model of a run of m rounds, whatever later refits did to its weights."""
    options = recipe("fast", **{**QUICK, "rounds": 5, "refit": refit, "refit_every": 2, "resample_pairs": 2})
    seen = {}
    boost(dev, select, options, callback=lambda row, model: seen.update({row["round"]: model}))
    last = Model.from_json(seen[5].to_json(), "last")
    for m, then in seen.items():
        assert (model_at(last, m).weights, model_at(last, m).trees) == (then.weights, then.trees)
    staged = list(staged_scores(last, select))
    scorer = Scorer(select)
    for row, scores in zip(last.history, staged, strict=True):
        assert scorer.score(best_choice(select, scores), "bleu-sbp").score == pytest.approx(row["select"], abs=1e-9)
        np.testing.assert_allclose(scores, seen[row["round"]].decision_function(select), rtol=0, atol=1e-9)
    assert seen[2].weights != seen[1].weights


@pytest.mark.parametrize(
    ("gains", "best", "smooth"),
    [
        ([1.0], 0, 0),
        ([1, 2, 3], 2, 2),  # at the end the mean is of what there is: 1, 2, 2.5
        (
            [1, 4, 5, 4, 3, 3, 2, 2, 2, 2, 2, 2],
            2,
            2,
        ),  # an early peak: 1, 4, 4.33, 4, 3.4, ...; not the start, which only lies near it
        ([1, 2], 1, 1),
        ([0] * 30 + [5] + [0] * 30 + [2] * 30, 30, 71),  # one lucky round against thirty good ones: ten good ones on either side
    ],
)
def test_smooth_rule(gains, best, smooth):
    history = [{"round": m, "select": g} for m, g in enumerate(gains)]
    assert (best_round(history), smooth_round(history)) == (best, smooth)
    assert smooth_round([{"round": 0}, {"round": 1}]) == 1  # no select: all rounds


@pytest.mark.parametrize("n", [3, 8, 40])
def test_smooth_rounds_are_those_of_a_naive_loop(n):
    for gains in np.random.default_rng(n).random((30, n)):
        near = [[k for k in range(n) if abs(k - m) <= min(m // 2, 10)] for m in range(n)]
        best = max(range(n), key=lambda m: np.mean(gains[near[m]]))
        assert smooth_round([{"round": m, "select": g} for m, g in enumerate(gains)]) == best


@pytest.mark.parametrize(
    ("metric", "kept"),
    [
        ("bleu", {"best": 2, "smooth": 7, "one-se": 2, "last-se": 2}),
        ("chrf", {"best": 2, "smooth": 7, "one-se": 2, "last-se": 7}),  # no standard error: last-se is smooth
    ],
)
def test_rules_without_a_list_to_measure_on(metric, kept):
    history = tuple({"round": m, "select": float(g)} for m, g in enumerate([0, 0, 9, 0, 6, 6, 6, 6]))
    model = Model({"a": 1.0}, history=history, config={"metric": metric})
    for rule in rounds.RULES:
        assert kept_rounds(model, rule=rule).config["best_round"] == kept[rule]


def test_one_standard_error(dev, select):
    """The first round within one bootstrap standard error of the best one: the delta method gives nearly that error."""
    model = boost(dev, None, recipe("paper", **{**QUICK, "rounds": 12}))
    rows = [corpus_rows(chosen_stats(select, best_choice(select, s))) for s in staged_scores(model, select)]
    gains = np.array([corpus_bleu(r.sum(axis=0), strict=True) for r in rows])
    best = int(gains.argmax())
    draws = np.random.default_rng(0).integers(0, len(select), (4000, len(select)))
    errors = [np.std([corpus_bleu(b[d].sum(0), strict=True) - corpus_bleu(r[d].sum(0), strict=True) for d in draws[:500]])
              for r, b in ((r, rows[best]) for r in rows)]  # fmt: skip
    late = one_se_round(model, select, best=best, last=True)
    assert late >= best
    assert gains[late] >= gains[best] - 1.2 * errors[late]
    assert all(gains[m] < gains[best] - 0.8 * errors[m] for m in range(late + 1, len(gains)))
    found = one_se_round(model, select, best=best)
    assert found <= best
    assert gains[found] >= gains[best] - 1.2 * errors[found]  # 500 draws, and a first-order error
    for m in range(found):
        assert gains[m] <= gains[best] - 0.8 * errors[m]
    assert one_se_round(model, select, best=0) == 0
    kept = kept_rounds(replace(model, history=tuple({**row, "select": g} for row, g in zip(model.history, gains, strict=True))),
                       select=select, rule="one-se")  # fmt: skip
    assert (len(kept.trees), kept.config["best_round"]) == (found, found)
    with pytest.raises(InputError, match="one-se: expected metric bleu or bleu-sbp"):
        one_se_round(replace(model, config={"metric": "chrf"}), select, best=best)


def test_the_standard_error_is_of_the_metric_of_the_model(dev, select, monkeypatch):
    model, seen = boost(dev, None, recipe("paper", **{**QUICK, "rounds": 1})), set()
    monkeypatch.setattr(rounds, "corpus_bleu", lambda sums, *, strict: seen.add(strict) or corpus_bleu(sums, strict=strict))
    for metric in ("bleu", "bleu-sbp"):
        seen.clear()
        one_se_round(replace(model, config={"metric": metric}), select, best=1)
        assert seen == {metric == "bleu-sbp"}


@pytest.mark.parametrize(
    ("rule", "metric", "has_select", "kept", "asked"),
    [
        ("best", "bleu", True, 2, None),
        ("smooth", "bleu", True, 4, None),
        ("one-se", "bleu", True, 1, {"best": 2, "last": False}),
        ("one-se", "bleu", False, 2, None),
        ("last-se", "bleu", True, 1, {"best": 2, "last": True}),
        ("last-se", "bleu-sbp", True, 1, {"best": 2, "last": True}),
        ("last-se", "bleu", False, 2, None),
        ("last-se", "chrf", True, 4, None),  # an error that is not known: smooth
    ],
)
def test_rules(monkeypatch, rule, metric, has_select, kept, asked):
    """Which rule asks whom: round 2 is the best, round 4 in the middle of a good stretch, and 1 what one_se_round is made to say."""
    seen = []
    monkeypatch.setattr(rounds, "one_se_round", lambda model, select, n_init, **how: seen.append((select, n_init, how)) or 1)
    gains = [0, 0, 9, 0, 6, 6, 6, 0, 0]
    history = tuple({"round": m, "select": g} for m, g in enumerate(gains))
    trees = tuple(single_leaf(f"tree.{m:03d}", 0.5, float(m)) for m in range(len(gains) + 1))
    model = Model({"a": 1.0}, trees, config={"metric": metric, "more": 1}, history=history)
    select = object() if has_select else None
    found = kept_rounds(model, 2, select=select, rule=rule)
    assert found.config == {"metric": metric, "more": 1, "best_round": kept}
    assert found.trees == trees[: 2 + kept]
    assert found.history == history
    assert seen == ([(select, 2, asked)] if asked else [])


def single_leaf(name: str, weight: float, value: float) -> Tree:
    return Tree(name, weight, "constant", None, ("",), np.zeros(1), np.array([-1]), np.array([-1]), np.array([value]))


def test_a_round_after_a_refit_has_its_weights_and_what_later_trees_were_given():
    """Two trees to start from, a refit in round 2, one more tree; the model is that of round 3."""
    trees = tuple(single_leaf(f"t{k}", 9.0, 9.0) for k in range(5))
    refitted = {"weights": {"a": 2.0}, "tree_weights": [0.1, 0.2, 0.3, 0.4], "leaf_values": [[1.0], [2.0], [3.0], [4.0]]}
    history = (
        {"round": 0, "weights": {"a": 1.0}, "tree_weights": [0.5, 0.6], "leaf_values": [[5.0], [6.0]]},
        {"round": 1, "rho": 0.7, "values": [7.0]},
        {"round": 2, **refitted},
        {"round": 3, "rho": 0.8, "values": [8.0]},
    )
    model = Model({"a": 3.0}, trees, history=history)
    for m, a, given in (
        (0, 1.0, [(0.5, 5.0), (0.6, 6.0)]),
        (1, 1.0, [(0.5, 5.0), (0.6, 6.0), (0.7, 7.0)]),
        (2, 2.0, [(0.1, 1.0), (0.2, 2.0), (0.3, 3.0), (0.4, 4.0)]),
        (3, 2.0, [(0.1, 1.0), (0.2, 2.0), (0.3, 3.0), (0.4, 4.0), (0.8, 8.0)]),
    ):
        then = model_at(model, m, n_init=2)
        assert then.weights == {"a": a}
        assert [(tree.weight, float(tree.value[0])) for tree in then.trees] == given
        assert then.history == history


def test_the_slope_of_bleu_is_its_derivative():
    """By the formula: ∂BLEU/∂c_n = BLEU / (4 c_n), ∂BLEU/∂t_n = -BLEU / (4 t_n), and with a brevity penalty ∂/∂ref = -BLEU / len."""
    total = np.array([6000, 4000, 3000, 2000, 10000, 9000, 8000, 7000, 10000, 11000, 9500], np.float64)
    for strict, length in ((False, 8), (True, 10)):
        bleu = float(corpus_bleu(total, strict=strict))
        want = np.zeros(11)
        want[:4], want[4:8] = bleu / 4 / total[:4], -bleu / 4 / total[4:8]
        want[9], want[length] = -bleu / total[length], bleu * total[9] / total[length] ** 2
        np.testing.assert_allclose(rounds._slope(total, strict=strict), want, rtol=1e-6, atol=1e-12)
    small = rounds._slope(total / 1e4, strict=False)  # steps of 1 at least, below 0 even
    assert np.isfinite(small).all()


# -- folds ----------------------------------------------------------------------------------------------------------------


def test_folds_choose_by_sentences_not_trained_on(dev):
    """The curve is that of models trained without each fold, counts added up; the highest of the structures is taken."""
    options = recipe("paper", **QUICK)
    curve = fold_curve(dev, options, folds=3, seed=1)
    total = 0
    for train, held in dev.split_sentences(3, seed=1):
        model, rest = boost(dev.take(train), None, options, seed=1), dev.take(held)
        total = total + corpus_rows(chosen_stats(rest, best_choice(rest, model.decision_function(rest)))).sum(axis=0)
    assert curve[-1] == pytest.approx(100 * float(corpus_bleu(total, strict=True)), abs=1e-6)
    assert len(curve) == 5
    seen = []
    best = choose_structure(dev, options, ({"max_leaves": 2}, {"max_leaves": 3}), folds=3, seed=1, report=seen.append)
    assert seen[0].curve == pytest.approx(curve)
    assert best.gain == max(choice.gain for choice in seen) == max(best.curve)
    for bad in ({"folds": 1}, {"folds": 41}):
        with pytest.raises(InputError, match="folds: expected from 2 to the 40 sentences"):
            fold_curve(dev, options, seed=1, **bad)
    with pytest.raises(InputError, match="folds: expected metric"):
        fold_curve(dev, with_changes(options, {"metric": "chrf"}), folds=2, seed=1)


# -- the command ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stores(dev, select, tmp_path_factory):
    """As a Moses list would name them: two static features, the others not known to be."""
    folder = tmp_path_factory.mktemp("stores")
    names = ("TranslationModel0_0", "TranslationModel0_1", *dev.unit_names[2:])
    for name, nbest in (("dev", dev), ("select", select)):
        write_store(replace(nbest, unit_names=names), folder / name)
    return folder


def test_flags_override_the_recipe(boostfeat, stores, tmp_path):
    lists = ["induce", stores / "dev", "--select", stores / "select", "-o", tmp_path / "m.json"]
    quick = ["--rounds", 2, "--min-occurrences", 20, "--draws", 300, "--pairs", 30]
    for more, changes in (
        ([], {}),
        (["--recipe", "fast", "--no-context", "--refit", "trees", "--refit-every", 1], {"context": False, "refit": "trees", "refit_every": 1}),
        (["--recipe", "paper", "--bags", 2, "--columns", 0.5], {"bags": 2, "columns": 0.5}),
    ):  # fmt: skip
        name = more[1] if more else "default"
        code, _, err = boostfeat(*lists, *quick, *more)
        assert code == 0, err
        want = asdict(recipe(name, **{**QUICK, "rounds": 2, **changes}))
        found = Model.load(tmp_path / "m.json").config
        assert {key: found[key] for key in want} == json.loads(json.dumps(want))
    code, _, err = boostfeat(*lists, "--recipe", "soup")
    assert (code, err) == (2, "boostfeat: unknown recipe 'soup': expected one of default, fast, paper\n")


def test_static_only_and_leaves_as_features(boostfeat, stores, tmp_path):
    model, wider = tmp_path / "m.json", tmp_path / "wider"
    lists = ["induce", stores / "dev", "-o", model, "--recipe", "paper", "--rounds", 3, "--min-occurrences", 20]
    assert boostfeat(*lists, "--static-only")[0] == 0
    learnt = Model.load(model)
    static = {"TranslationModel0_0", "TranslationModel0_1"}
    assert len(learnt.trees) == 3
    assert set().union(*(tree.features() for tree in learnt.trees)) <= static
    assert set(learnt.weights) > static
    assert boostfeat("augment", stores / "dev", "-m", model, "-o", wider, "--leaves")[0] == 0
    assert read_store(wider).sparse_names.to_pylist() == [f"tree.{m:03d}.{k}" for m in range(3) for k in range(2)]
    assert boostfeat(*lists, "--tree-features", "LM0,PhraseCount")[0] == 0
    assert set().union(*(tree.features() for tree in Model.load(model).trees)) <= {"LM0", "PhraseCount"}
    code, _, err = boostfeat(*lists, "--static-only", "--tree-features", "LM0")
    assert code == 2
    assert "--tree-features: expected features of the list that trees may test, found 'LM0'" in err


def test_folds_of_the_command(boostfeat, stores, tmp_path):
    flags = ["--recipe", "paper", "--rounds", 2, "--min-occurrences", 20, "--folds", 2]
    code, _, err = boostfeat("induce", stores / "dev", "--select", stores / "select", *flags, "-o", tmp_path / "m.json")
    assert code == 0
    chosen = Model.load(tmp_path / "m.json").config["tree"]["max_leaves"]
    assert f"folds: max_leaves {chosen} (" in err


# -- sparse features ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worded() -> NBest:
    """Lists with an indicator of every phrase pair."""
    return featurize(synthetic_nbest(SMALL, seed=1), Vocab.of("pt", TEMPLATES, min_count=1))[0]


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


@pytest.mark.parametrize(("changes", "sparse"), [({}, False), ({"sparse_trees": True}, True)])
def test_trees_of_the_default_look_at_dense_features(worded, changes, sparse):
    """Indicators of phrases are the first weights' matter; where there is nothing else, trees take them all the same."""
    names = set(worded.sparse_names.to_pylist())
    once = {**QUICK, "min_occurrences": 1, "rounds": 12, "sparse_l2": 1e6}

    def tested(nbest: NBest) -> set[str]:
        return set().union(*(tree.features() for tree in boost(nbest, None, recipe("default", **once, **changes)).trees))

    assert bool(tested(worded) & names) == sparse
    bare = replace(worded, units=replace(worded.units, x=worded.X[:, :0]), unit_names=())
    assert tested(bare)


def test_a_negative_penalty_is_refused():
    with pytest.raises(InputError, match="sparse_l2: expected 0 or more, found -1"):
        recipe("default", sparse_l2=-1)


@pytest.mark.slow
def test_sparse_features_gain_on_real_lists(real):
    """BLEU-SBP of devtrain's last 500 sentences, 50-best: above PRO with the penalty of the default, below it with PRO's own."""
    source, refs = ((real / "fi-en" / f"devtrain.{x}").read_text().splitlines() for x in ("fi", "en"))
    nbest = read(real / "fi-en" / "devtrain.200.enriched.xz", ReadOptions(source=source)).truncate(50)
    nbest = attach(nbest, source=source, refs=[refs], name="devtrain")
    train, held = nbest.take(np.arange(2000)), nbest.take(np.arange(2000, 2500))
    worded, vocab = featurize(train, Vocab.of("sparse", TEMPLATES))

    def gain(dev: NBest, test: NBest, **changes: object) -> float:
        model = boost(dev, None, recipe("default", rounds=0, **changes))
        return Scorer(test).score(model.predict(test), "bleu-sbp").score

    plain, test = gain(train, held), featurize(held, vocab)[0]
    assert gain(worded, test) > plain + 0.2
    assert gain(worded, test, sparse_l2=None) < plain
