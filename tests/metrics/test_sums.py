"""Metrics of sums of statistics in compiled loops: they are the metrics on arrays, which other tools' numbers hold up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.nbest import NBest, Qualities
from boostfeat.metrics.metric import metric_of
from boostfeat.metrics.sums import EDITS, RATIO, STRICT, TER, Recipe, add_row, context_gain, gain_of

NAMES = ["bleu", "bleu-sbp", "bleu+1", "bleu+0.1", "chrf", "chrf++", "ter", "wer", "cer", "comet", "metricx", "bleu-ter",
         "0.3*chrf+0.1*metricx-wer"]  # fmt: skip


@pytest.fixture(scope="module")
def lists() -> NBest:
    """Some empty hypotheses and columns of both directions, one of numbers beyond 1, one with lengths."""
    from dataclasses import replace

    nbest = synthetic_nbest(SyntheticOptions(sentences=6, hyps=9, features=3), seed=2)
    rng = np.random.default_rng(0)
    columns = Qualities().with_column("comet", rng.normal(size=nbest.n_hyps), np.ones(nbest.n_hyps), hyp_ptr=nbest.hyp_ptr)
    size = rng.integers(0, 30, nbest.n_hyps).astype(float)
    return replace(
        nbest,
        quality=columns.with_column("metricx", 9 * size * rng.random(nbest.n_hyps), size, hyp_ptr=nbest.hyp_ptr, lower=True),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_the_metric(lists, name):
    """Of single rows, of sums, with and without a decay, and of nothing: better when higher, in units of the gain."""
    metric = metric_of(name, lists)
    recipe, rows, rng = metric.recipe(lists), metric.rows(lists), np.random.default_rng(1)
    assert rows.shape[1] == metric.width == recipe.width
    for k, decay in ((0, 1.0), (1, 1.0), (5, 0.3), (30, 1.0), (30, 0.999)):
        sums = decay * rows[rng.permutation(len(rows))[:k]].sum(axis=0).astype(float)
        for row in rows[::7]:
            expected = metric.context_gain(row, sums) / metric.unit(lists)
            assert context_gain(recipe, row, sums, np.empty(len(sums))) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    whole = rows.sum(axis=0)  # of counts, whole numbers
    assert gain_of(recipe, whole) == pytest.approx(metric.higher(metric.score(whole)) / metric.unit(lists), rel=1e-12)


@pytest.mark.parametrize("name", [n for n in NAMES if "bleu" not in n or n.startswith("bleu+")])
def test_the_gain_of_a_hypothesis_is_that_of_its_row(lists, name):
    """BLEU's is smoothed; all others are what the corpus would be with this hypothesis alone."""
    metric = metric_of(name, lists)
    recipe = metric.recipe(lists)
    found = [gain_of(recipe, row.astype(float)) for row in metric.rows(lists)]
    assert found == pytest.approx(metric.gain(lists), rel=1e-12, abs=1e-15)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=11, max_size=11), min_size=1, max_size=4), st.sampled_from([0.0, 0.3, 1.0]))
def test_bleu_of_short_rows(rows, decay):
    """Zero counts of some or all orders, which are smoothed; lengths of 0."""
    rows = np.array(rows)
    sums = decay * rows[1:].sum(axis=0).astype(float) if len(rows) > 1 else np.zeros(11)
    for name in ("bleu", "bleu-sbp"):
        metric = metric_of(name)
        expected = metric.context_gain(rows[0], sums)
        recipe = Recipe.of([(1.0, metric.kind, 11)], size=9)
        assert context_gain(recipe, rows[0], sums, np.empty(11)) == pytest.approx(expected, rel=1e-12)


def test_rows_are_added_and_taken_away():
    sums = np.array([1.0, 2.0])
    add_row(np.array([3, 4], np.int32), -1, sums)
    assert sums.tolist() == [-2.0, -2.0]


@pytest.mark.parametrize(("kind", "expected"), [(RATIO, [0.75, 0, 0]), (EDITS, [0.75, 3, 0]), (TER, [0.75, 1, 0])])
def test_references_of_no_length(kind, expected):
    """Of 3 of 4, 3 of 0 and 0 of 0; half of each, as the weight says."""
    recipe = Recipe.of([(0.5, kind, 2)], size=1)
    assert [gain_of(recipe, np.array(sums)) for sums in ([3.0, 4.0], [3.0, 0.0], [0.0, 0.0])] == [0.5 * x for x in expected]
    assert recipe.width == 2
    both = Recipe.of([(1.0, STRICT, 11), (0.5, kind, 2)], size=9)
    assert (both.start.tolist(), both.stop.tolist(), both.width) == ([0, 11], [11, 13], 13)
