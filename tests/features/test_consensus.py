"""Consensus features: by hand, naive twins, what they sum to, under a model, and declared as what no decoder can carry."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from strategies import build
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.local import first_gradient
from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, Posterior, Resources, feature_groups, feature_kinds, featurize
from boostfeat.features.compute import ListView
from boostfeat.features.posterior import SCALES
from boostfeat.features.templates.helpers import STEP
from boostfeat.formats import read
from boostfeat.lists.build import HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.choices import Scorer
from boostfeat.lists.mbr import mbr_choice, mbr_gains
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store
from boostfeat.metrics.ngrams import posteriors
from boostfeat.model.model import Model


def unit(src: tuple[int, int], tgt: tuple[int, int]) -> UnitRecord:
    return UnitRecord({"tm": -0.5}, src, tgt)


# p = 1/2, 1/4, 1/4 at scale 1
SOURCE = ["talo on"]
HYPS = [
    HypRecord(0, "house is", "h", score=np.log(2.0), units=[unit((0, 1), (0, 1)), unit((1, 2), (1, 2))]),
    HypRecord(0, "is house", "h", score=0.0, units=[unit((1, 2), (0, 1)), unit((0, 1), (1, 2))]),
    HypRecord(0, "house house is", "h", score=0.0, units=[unit((0, 1), (0, 2)), unit((1, 2), (2, 3))]),
]


@pytest.fixture(scope="module")
def nbest() -> NBest:
    made = build(HYPS, options=ReadOptions(source=SOURCE), declared_dense=("tm",))
    return attach(made, source=SOURCE, refs=[["the house is"]], name="test")


def made(nbest: NBest, what: str, scale: float | None = 1.0, model: Model | None = None) -> NBest:
    posterior = Posterior(scale, model.to_json() if model else None)
    return featurize(nbest, FeaturePlan.of(what, TEMPLATES), resources=Resources(posterior=posterior))[0]


def column(nbest: NBest, name: str) -> list[float]:
    return nbest.X[nbest.unit_idx, nbest.unit_names.index(name)].tolist()


def test_posteriors_are_those_of_the_scale_and_1_without(nbest):
    assert ListView(nbest).posterior == pytest.approx([1 / 2, 1 / 4, 1 / 4])
    assert ListView(nbest, Resources(posterior=Posterior(2.0))).posterior == pytest.approx([4 / 6, 1 / 6, 1 / 6])


def test_agreement_by_hand(nbest):
    """'house' and 'is' are in all; a second 'house' in 1/4; 'house is' in 3/4, 'is house' and 'house house' in 1/4 each."""
    out = made(nbest, "agreement")
    assert column(out, "agree.1") == [1, 1, 1, 1, 1.25, 1]
    assert column(out, "agree.2") == [0, 0.75, 0, 0.25, 0.25, 0.75]
    assert column(out, "agree.3") == [0, 0, 0, 0, 0, 0.25]
    assert column(out, "agree.4") == [0] * 6
    assert column(out, "agree.least.1") == [1, 1, 1, 1, 0.25, 1]
    assert column(out, "agree.least.2") == [1, 0.75, 1, 0.25, 0.25, 0.75]


def test_support_by_hand(nbest):
    """talo -> house in 3/4, talo -> house house in 1/4, on -> is in all; all cut the source the same way."""
    out = made(nbest, "support")
    assert column(out, "support.pair") == [0.75, 1, 1, 0.75, 0.25, 1]
    assert column(out, "support.span") == [1] * 6
    assert column(out, "support.ratio") == [0.75, 1, 1, 0.75, 0.25, 1]


def test_hypotheses_by_hand(nbest):
    out = made(nbest, "mbr")
    np.testing.assert_allclose(out.extra[:, 0], mbr_gains(nbest, nbest.score)[:, 0])
    expected_length = 2 * 0.75 + 3 * 0.25
    longer, shorter = (out.extra[:, out.extra_names.index(f"list.{side}")] for side in ("longer", "shorter"))
    np.testing.assert_allclose(longer, [0, 0, 3 - expected_length])
    np.testing.assert_allclose(shorter, [expected_length - 2] * 2 + [0])


def naive_matches(texts: list[str], p: np.ndarray, n: int) -> np.ndarray:
    """Σ_h' p(h') Σ_w min(count_h(w), count_h'(w)) over the n-grams w, as BLEU clips them."""
    bags = [Counter(tuple(t.split()[i : i + n]) for i in range(len(t.split()) - n + 1)) for t in texts]
    return np.array([sum(q * (mine & other).total() for q, other in zip(p, bags, strict=True)) for mine in bags])


def test_units_sum_to_expected_matches():
    """Up to the rounding of each unit to STEP."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=10, hyps=15, features=3), seed=1)
    out = made(nbest, "agreement", 0.3)
    p, texts = posteriors(nbest.hyp_ptr, nbest.score, scale=0.3), nbest.text.to_pylist()
    most = np.diff(nbest.unit_ptr).max() * STEP / 2
    for n in range(1, 5):
        found = out.global_column(f"agree.{n}")
        for a, b in pairwise(nbest.hyp_ptr):
            np.testing.assert_allclose(found[a:b], naive_matches(texts[a:b], p[a:b], n), atol=most)


def test_support_against_a_naive_twin():
    nbest = synthetic_nbest(SyntheticOptions(sentences=10, hyps=15, features=3), seed=1)
    p, u = posteriors(nbest.hyp_ptr, nbest.score, scale=0.3), nbest.units
    src, tgt, align = (c.to_pylist() for c in (u.src, u.tgt, u.align))

    def keys(h: int, whole: bool) -> list[tuple]:
        at = range(nbest.unit_ptr[h], nbest.unit_ptr[h + 1])
        rows = [(int(nbest.src_start[r]), int(nbest.unit_idx[r])) for r in at]
        return [(s, src[v], tgt[v], align[v]) if whole else (s, s + int(u.src_len[v])) for s, v in rows]

    out = made(nbest, "support", 0.3)
    for name, whole in (("support.pair", True), ("support.span", False)):
        expected = []
        for a, b in pairwise(nbest.hyp_ptr):
            held = [set(keys(h, whole)) for h in range(a, b)]
            for h in range(a, b):
                expected += [sum(p[a + k] for k, other in enumerate(held) if key in other) for key in keys(h, whole)]
        np.testing.assert_allclose(column(out, name), expected, atol=STEP / 2 + 1e-12)


def test_order_of_hypotheses_and_a_constant_do_not_matter():
    nbest = synthetic_nbest(SyntheticOptions(sentences=8, hyps=12, features=3), seed=4)
    out = made(nbest, "consensus")
    order = np.lexsort((np.random.default_rng(1).random(nbest.n_hyps), nbest.sent_of_hyp))
    permuted = nbest.take_hyps(order, nbest.hyp_ptr)
    shifted = made(replace(permuted, score=permuted.score + 5.0), "consensus")
    np.testing.assert_allclose(shifted.global_features, out.global_features[order], atol=1e-9)


# -- the model they are under -------------------------------------------------------------------------------------------


def test_under_a_model_that_the_vocab_keeps(tmp_path, boostfeat):
    dev, test = (synthetic_nbest(SyntheticOptions(sentences=20, hyps=10, features=3), seed=s) for s in (0, 1))
    model = Model(dict(zip(dev.unit_names, (0.7, -0.3, 0.2), strict=False)), config={"about": "x"})
    model.save(tmp_path / "m.json")
    for name, nbest in (("dev", dev), ("test", test)):
        write_store(nbest, tmp_path / f"{name}.nbest")
    arguments = ("--templates", "consensus", "--model", tmp_path / "m.json", "--scale", 2, "-o", tmp_path / "dev.c.nbest")
    code, out, err = boostfeat("featurize", tmp_path / "dev.nbest", *arguments)
    assert code == 0, err
    assert "list" in out
    vocab = tmp_path / "dev.c.plan.json"
    assert json.loads(vocab.read_text())["posterior"]["model"]["config"] == {}
    (tmp_path / "m.json").unlink()  # select and test need the plan alone
    arguments = ("featurize", tmp_path / "test.nbest", "--plan", vocab, "-o", tmp_path / "test.c.nbest", "-q")
    assert boostfeat(*arguments)[0] == 0
    found = read_store(tmp_path / "test.c.nbest")
    np.testing.assert_allclose(
        found.extra[:, found.extra_names.index("mbr.gain")],
        mbr_gains(test, model.decision_function(test), (2.0,))[:, 0],
    )
    code, _, err = boostfeat(*arguments, "--scale", 1)
    assert (code, err.count("\n")) == (2, 1)
    assert "--scale does not go with --plan" in err


def test_the_dev_list_chooses_the_scale():
    """Without references there is nothing to choose by."""
    dev = synthetic_nbest(SyntheticOptions(sentences=30, hyps=10, features=3), seed=0)
    _, vocab = featurize(dev, FeaturePlan.of("mbr", TEMPLATES))
    reached = [Scorer(dev).score(mbr_choice(dev, dev.score, scale=scale), "bleu").score for scale in SCALES]
    assert vocab.posterior == Posterior(SCALES[int(np.argmax(reached))])
    plain = build([HypRecord(0, "a", "h", score=1.0)])
    with pytest.raises(InputError, match="expected a list with references to choose the scale by, found none; give one with"):
        featurize(plain, FeaturePlan.of("mbr", TEMPLATES))
    assert made(plain, "mbr", 1.0).extra[0, 0] == 1


def test_hypotheses_without_scores_are_equally_probable():
    unscored = build([HypRecord(0, text, "h") for text in ("a b", "a b c", "a b")])
    equal = replace(unscored, score=np.zeros(3))
    assert featurize(unscored, FeaturePlan.of("mbr", TEMPLATES))[1].posterior == Posterior(1.0)
    for scale in (1.0, 4.0):
        np.testing.assert_array_equal(made(unscored, "mbr", scale).extra, made(equal, "mbr", scale).extra)


def test_declared_as_of_the_list(nbest):
    out = made(nbest, "length+consensus")
    kinds, states = feature_kinds(out), {group.name: group.state for group in feature_groups(out)}
    assert kinds["agree.2"] == ("agreement", "list")
    assert kinds["mbr.gain"] == ("mbr", "list")
    assert states["support"] == "list"
    assert states["mbr"] == "hypothesis, list"
    assert kinds["len.src"][1] == "static"


def test_products_of_list_features_are_of_the_list():
    nbest = synthetic_nbest(SyntheticOptions(sentences=40, hyps=12, features=2), seed=3)
    vocab = FeaturePlan.of("agreement+previous", TEMPLATES, products=12)
    gradient = partial(first_gradient, seed=0)
    out, learnt = featurize(nbest, vocab, resources=Resources(posterior=Posterior(1.0)), gradient_of=gradient)
    kinds = feature_kinds(out)
    assert learnt.products
    for a, b in learnt.products:
        of_list = "list" in (kinds[a][1], kinds[b][1])
        assert kinds[f"{a}*{b}"] == ("products", "list" if of_list else "contextual")


@pytest.mark.slow
def test_real_lists(real):
    """200,000 hypotheses in well under a minute."""
    source, refs = ((real / "fi-en" / f"devselect.{x}").read_text().splitlines() for x in ("fi", "en"))
    nbest = read(real / "fi-en" / "devselect.200.enriched.xz", ReadOptions(source=source))
    nbest = attach(nbest, source=source, refs=[refs], name="devselect", threads=2)
    started = time.monotonic()
    out = made(nbest, "consensus", 5.0)
    assert time.monotonic() - started < 40
    assert out.n_units < 2 * nbest.n_units
