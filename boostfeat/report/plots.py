"""Figures of models and comparisons by matplotlib (the extra ``[plot]``), for papers and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ..compare.intervals import GREY, PALETTE, colours
from ..core.errors import InputError, counted
from ..core.strict_json import load_json
from ..metrics.metric import shown
from ..model.model import Model
from ..trees.drawing import LEAF, NODE, ROW, clipped, leaf_output, places, split_test

try:
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError:
    raise InputError("plots: expected the package matplotlib, found none; pip install 'boostfeat[plot]'") from None

UNITS = 80  # of a drawing, in an inch


class Plot(Figure):
    """A figure of matplotlib that a notebook shows."""

    def _repr_svg_(self) -> str:
        stream = StringIO()
        self.savefig(stream, format="svg")
        return stream.getvalue()


def plot_learning(model: Any) -> Figure:
    """Draw the metric on each list, and the loss, over rounds; the dotted line is the round that was kept.

    The model is a Model, or an estimator or a Reranker that has one.
    """
    learned = _model(model)
    step = next((key for key in ("round", "epoch") if learned.history and key in learned.history[0]), None)
    if step is None:
        raise InputError("plot_learning: the model has no history of rounds; models of 'induce' and 'tune' have")
    figure, at = Plot(figsize=(6, 4.5), layout="constrained"), [row[step] for row in learned.history]
    above, below = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    for axes, name, colour in ((above, "dev", GREY), (above, "select", PALETTE[1]), (below, "loss", PALETTE[0])):
        if name in learned.history[0]:
            axes.plot(at, [row[name] for row in learned.history], color=colour, label=name, marker=".")
    above.set_ylabel(shown(str(learned.config.get("metric", "metric"))))
    above.legend(frameon=False)
    if (kept := learned.config.get("best_round")) is not None:
        for axes in (above, below):
            axes.axvline(kept, color=GREY, linestyle=":")
    below.set(xlabel=step, ylabel="loss")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def plot_importance(model: Any, *, top: int = 20) -> Figure:
    """Draw the features that moved the ranking most, by the standard deviation within lists of what they add to scores."""
    effects = list(_model(model).effects.items())[:top][::-1]
    figure = Plot(figsize=(6, 1 + 0.25 * len(effects)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh([name for name, _ in effects], [effect for _, effect in effects], color=PALETTE[1])
    axes.set_xlabel("effect (sd within lists)")
    return figure


def plot_tree(model: Any, k: int = 0) -> Figure:
    """Draw tree ``k``, counted from 0: its tests from left to right, and what its leaves add to the score."""
    trees = _model(model).trees
    if not 0 <= k < len(trees):
        raise InputError(f"plot_tree: the model has {counted(len(trees), 'tree')}, counted from 0; there is none of number {k}")
    tree = trees[k]
    x, y, children = places(tree)
    size = x.max() + LEAF[0] + 2, (len(x) - len(children)) * ROW
    figure = Plot(figsize=(size[0] / UNITS, size[1] / UNITS))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
    axes.set_axis_off()
    for node in range(len(x)):
        width, height = NODE if node in children else LEAF
        colour, text = PALETTE[1], clipped(leaf_output(tree, node, "x"), 20)
        if node in children:
            colour, text = GREY, f"{clipped(tree.feature[node], 23)}\n{split_test(tree, node)}"
        for child, word in zip(children.get(node, ()), ("yes", "no"), strict=False):
            start = x[node] + width
            axes.plot((start, x[child]), (y[node], y[child]), color=GREY, zorder=0)
            axes.text((start + x[child]) / 2, (y[node] + y[child]) / 2, word, ha="center", va="bottom", fontsize=8)
        corner, style = (x[node], y[node] - height / 2), "round,pad=0,rounding_size=9"
        axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, fc="white", ec=colour))
        axes.text(x[node] + width / 2, y[node], text, ha="center", va="center", fontsize=9, parse_math=False)
    return figure


def plot_compare(run: str | Path | Sequence[Mapping[str, Any]]) -> Figure:
    """Draw scores of systems with their 95% intervals; ``run`` is the folder of a comparison, or what ``compare`` returned."""
    rows: Any = run
    if isinstance(run, str | Path):
        rows = load_json(Path(run) / "results.json", list[dict[str, Any]], expected="rows", fix="name the folder of a comparison")
    if not rows:
        raise InputError("plot_compare: expected a comparison of systems, found none")
    metric, on, colour = rows[0]["metric"], rows[0]["reported"], colours([row["name"] for row in rows])
    figure = Plot(figsize=(6, 1 + 0.3 * len(rows)), layout="constrained")
    axes = figure.add_subplot(xlabel=f"{shown(metric)} on {on}, 95% interval")
    for row in rows[::-1]:
        score, (low, high) = row[on][metric], row["confidence"]
        bounds = [[max(0.0, score - low)], [max(0.0, high - score)]]
        axes.errorbar(score, row["name"], xerr=bounds, fmt="o", color=colour[row["name"]], capsize=3)
    axes.margins(y=0.2)
    return figure


def _model(model: Any) -> Model:
    found = getattr(model, "model_", getattr(model, "model", model))
    if not isinstance(found, Model):
        raise InputError(f"expected a model, or a fitted estimator, found {type(model).__name__}")
    return found
