"""Plots have the numbers of the model or the comparison, and can be saved and shown."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import BoostReranker, InputError, Model, Reranker, plot_compare, plot_importance, plot_learning, plot_tree

ROWS = [
    {"name": name, "metric": "bleu-sbp", "reported": "test", "test": {"bleu-sbp": score}, "confidence": [score - 1, score + 1.5]}
    for name, score in (("decoder", 29.0), ("base-PRO", 30.0), ("boost-$local$", 31.0))
]


@pytest.fixture(scope="module")
def fitted() -> BoostReranker:
    dev = synthetic_nbest(SyntheticOptions(sentences=20, hyps=10, slots=4), seed=1)
    return BoostReranker("paper", rounds=4, draws=200, min_occurrences=5, max_leaves=3, rule="all").fit(dev)


def test_learning_shows_the_history(fitted):
    history = [{**row, "select": row["dev"] - 1} for row in fitted.history_]
    above, middle, below = plot_learning(replace(fitted.model_, history=tuple(history))).axes
    curves = {line.get_label(): line for line in above.lines}
    for name in ("dev", "select"):
        assert list(curves[name].get_ydata()) == [row[name] for row in history]
    assert list(middle.lines[0].get_ydata()) == [row["loss"] for row in history]
    assert [bar.get_height() for bar in below.patches][1:] == [row["rho"] for row in history[1:]]
    assert len(plot_learning(fitted).axes[0].lines) == 2  # dev, and the round that was kept
    assert above.get_ylabel() == "BLEU-SBP"
    with pytest.raises(InputError, match="plot_learning: the model has no history"):
        plot_learning(Model({"a": 1.0}))


def test_importance_shows_the_largest_effects(fitted):
    (axes,) = plot_importance(fitted, top=3).axes
    effects = list(fitted.model_.effects.items())[:3][::-1]
    assert [label.get_text() for label in axes.get_yticklabels()] == [name for name, _ in effects]
    assert [bar.get_width() for bar in axes.patches[:3]] == [effect for _, effect in effects]  # of weights; then those of trees


def test_a_tree_shows_its_tests_and_leaves(fitted):
    tree = fitted.model_.trees[1]
    (axes,) = plot_tree(Reranker(fitted.model_), 1).axes
    words = " ".join(text.get_text() for text in axes.texts)
    assert all(name in words for name in tree.features())
    assert (len(axes.patches), len(axes.lines)) == (2 * tree.n_leaves - 1, 2 * tree.n_leaves - 2)
    for k in (-1, 4):
        with pytest.raises(InputError, match=f"plot_tree: the model has 4 trees, counted from 0; there is none of number {k}"):
            plot_tree(fitted, k)
    with pytest.raises(InputError, match="expected a model, or a fitted estimator, found str"):
        plot_tree("model.json")


def test_a_comparison_shows_scores_with_their_intervals(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(ROWS))
    for run in (ROWS, tmp_path, str(tmp_path)):
        (axes,) = plot_compare(run).axes
        spans = [np.sort(bars.get_segments()[0][:, 0]).tolist() for bars in axes.collections]
        assert spans == [row["confidence"] for row in ROWS[::-1]]
    with pytest.raises(InputError, match="plot_compare: expected a comparison of systems, found none"):
        plot_compare([])
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(InputError, match="name the folder of a comparison"):
        plot_compare(tmp_path)


def test_figures_show_themselves_and_are_saved(tmp_path):
    figure = plot_compare(ROWS)
    assert "<svg" in figure._repr_svg_()
    for suffix in ("pdf", "svg", "png"):
        figure.savefig(tmp_path / f"f.{suffix}")
        assert (tmp_path / f"f.{suffix}").stat().st_size > 1000


def test_without_matplotlib_one_line_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None\nimport boostfeat\nprint(boostfeat.Model)\nboostfeat.plot_tree"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        "boostfeat.core.errors.InputError: plots: expected the package matplotlib, found none; pip install 'boostfeat[plot]'"
        in done.stderr
    )
