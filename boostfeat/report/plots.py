"""Figures of models and comparisons by matplotlib (the extra ``[plot]``), for papers and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import unescape
from io import BytesIO, StringIO
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from msgspec import to_builtins

from ..compare.intervals import GREY, PALETTE, colours
from ..core.errors import InputError, counted
from ..core.files import open_output
from ..core.strict_json import load_json
from ..metrics.metric import shown
from ..model.model import Model
from ..trees.drawing import LEAF, NODE, ROW, clipped, leaf_output, places, split_test
from .figures import curve, effects, figures
from .overview import learning_curve
from .run_folder import FinishedRun

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError:
    raise InputError("plots: expected the package matplotlib, found none; pip install 'boostfeat[plot]'") from None

UNITS = 80  # of a drawing, in an inch
PIXELS = 110  # of a figure of the page, in an inch
COLUMNS = {"1col": 3.3, "2col": 6.8}  # width in inches of figures for an article
LETTER = 0.065  # inches, about
SMALL = 210  # pixels of height of a figure that is for one column only
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
SYMBOLS = {"diamond": "D", "line-ns-open": "|"}
STYLE: dict[Any, Any] = {
    **{"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False},
    **{"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "boostfeat"},
}


class Plot(Figure):
    """A figure of matplotlib that a notebook shows."""

    def _repr_svg_(self) -> str:
        stream = StringIO()
        self.savefig(stream, format="svg")
        return stream.getvalue()


def plot_learning(model: Any) -> Figure:
    """Draw the metric on each list, the loss and the step over rounds; the dotted line is the round that was kept.

    The model is a Model, or an estimator or a Reranker that has one.
    """
    learned = _model(model)
    row = learning_curve(learned)
    if row is None:
        raise InputError("plot_learning: the model has no history of rounds; models of 'induce' and 'tune' have")
    return draw(curve({**row, "metric": shown(str(row["metric"]))}, PALETTE[1]))


def plot_importance(model: Any, *, top: int = 20) -> Figure:
    """Draw the features that moved the ranking most, by the standard deviation within lists of what they add to scores."""
    most = list(_model(model).effects.items())[:top]
    return draw(effects({"features": [{"name": name, "linear": effect, "total": effect} for name, effect in most]}))


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


def plot_compare(run: str | Path | Sequence[Mapping[str, Any]], *, width: float = 6) -> Figure:
    """Draw scores of systems with their 95% intervals; ``run`` is the folder of a comparison, or what ``compare`` returned."""
    rows: Any = run
    if isinstance(run, str | Path):
        rows = load_json(Path(run) / "results.json", list[dict[str, Any]], expected="rows", fix="name the folder of a comparison")
    if not rows:
        raise InputError("plot_compare: expected a comparison of systems, found none")
    metric, on, colour = rows[0]["metric"], rows[0]["reported"], colours([row["name"] for row in rows])
    figure = Plot(figsize=(width, 1 + 0.3 * len(rows)), layout="constrained")
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


# -- figures of the page -----------------------------------------------------------------------------------------------


def save_figures(run: FinishedRun, data: Mapping[str, Any], folder: Path) -> int:
    """Write figures of a page (``data``) as PDF and SVG, for one column and for two; count them.

    They are those of all systems together, and curves, effects and trees of the one that people come for: those of every
    system, and response curves, are on the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows, ours = [to_builtins(system.row) for system in run.systems], run.ours
    own = {part: [row for row in data[part] if row["system"] == ours.name] for part in ("curves", "waterfalls", "features")}
    own["features"] = [{**panel, "responses": []} for panel in own["features"]]
    drawings, n_trees = figures({**data, **own}), len(ours.model.trees) if ours.model else 0
    with rc_context(STYLE):
        for size, width in COLUMNS.items():
            _save(plot_compare(rows, width=width), folder / f"results-{size}")
            for name, figure in drawings.items():
                if size == "1col" or figure["layout"]["height"] > SMALL:
                    _save(draw(figure, width), folder / f"{name}-{size}")
        for k in range(n_trees):
            _save(plot_tree(ours.model, k), folder / f"tree-{k + 1}")
    return 1 + len(drawings) + n_trees


def _save(figure: Figure, path: Path) -> None:
    for kind, date in (("pdf", "CreationDate"), ("svg", "Date")):
        drawn = BytesIO()  # of a full disk matplotlib raises an error of another kind
        figure.savefig(drawn, format=kind, metadata={date: None})
        with open_output(f"{path}.{kind}") as stream:
            stream.write(drawn.getvalue())


def draw(figure: Mapping[str, Any], width: float = COLUMNS["2col"]) -> Figure:
    """Draw a figure of the page (see ``figures``): its panels above each other, legend on top."""
    layout = figure["layout"]
    panels = [layout[key] for key in ("yaxis", "yaxis2", "yaxis3") if key in layout]
    heights = [high - low for low, high in (panel.get("domain", (0, 1)) for panel in panels)]
    plot = Plot(figsize=(width, layout["height"] / PIXELS), layout="constrained")
    axes = list(plot.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    for k, trace in enumerate(figure["data"]):
        DRAWN[trace["type"]](axes[int(trace.get("yaxis", "y")[1:] or 1) - 1], trace, figure, k)
    for panel, own in zip(panels, axes, strict=True):
        own.set_ylabel(_title(panel, layout["height"] / PIXELS / len(panels)))
        own.set_ylim(panel.get("range"))
    for shape in layout.get("shapes", ()):
        for own in axes:
            _reference(own, shape)
    _axis(axes[-1], layout["xaxis"], width)
    handles = [pair for own in axes for pair in zip(*own.get_legend_handles_labels(), strict=True)]
    if layout.get("showlegend", len(handles) > 1):
        ncols = max(1, int(width / (0.5 + LETTER * max(len(label) for _, label in handles))))
        plot.legend(*zip(*handles, strict=True), loc="outside upper left", ncols=ncols, frameon=False)
    return plot


def _axis(axes: Axes, xaxis: Mapping[str, Any], width: float) -> None:
    axes.set_xlabel(_title(xaxis, width))
    if "tickvals" in xaxis:
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(xaxis["tickvals"], xaxis["ticktext"], rotation=45)
    elif xaxis.get("type") == "category" and len(axes.get_xticks()) > 10:
        axes.tick_params(axis="x", rotation=90)
    elif "dtick" in xaxis:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if xaxis.get("visible") is False:
        axes.set_axis_off()


def _title(axis: Mapping[str, Any], inches: float) -> str:
    return fill(_text(axis.get("title", {}).get("text", "")), max(10, int(inches / LETTER)))


def _text(text: str) -> str:
    return unescape(text.replace("<br>", "\n"))


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array(values, float)


def _places(values: Sequence[Any]) -> Any:
    """Return numbers, or categories in words."""
    return [_text(value) for value in values] if values and isinstance(values[0], str) else _numbers(values)


def _reference(axes: Axes, shape: Mapping[str, Any]) -> None:
    ends = {key: shape[key] for key in ("x0", "x1", "y0", "y1")}
    if shape.get("yref") == "paper":
        axes.axvline(ends["x0"], color=GREY, linestyle=":", linewidth=1)
    else:
        axes.plot((ends["x0"], ends["x1"]), (ends["y0"], ends["y1"]), color=GREY, linewidth=1)


def _scatter(axes: Axes, trace: Mapping[str, Any], figure: Mapping[str, Any], k: int) -> None:
    x, marker = _places(trace["x"]), trace.get("marker", {})
    if trace.get("line", {}).get("width") == 0:  # an edge of a band; the second one fills it
        if "fill" in trace:
            other = figure["data"][k - 1]["y"]
            axes.fill_between(x, _numbers(other), _numbers(trace["y"]), color=trace["fillcolor"][:7], alpha=0.2, linewidth=0)
        return
    y = _places(trace["y"])
    colour = trace.get("line", marker).get("color")
    label = _text(trace.get("name", "")) if trace.get("showlegend", True) else ""
    symbol, mode = SYMBOLS.get(marker.get("symbol", ""), "o"), trace["mode"]
    if isinstance(colour, list):
        axes.scatter(x, y, c=colour, s=8, alpha=0.6, linewidths=0)
        return
    style: dict[str, Any] = {"linestyle": DASHES[trace["line"].get("dash", "solid")] if "lines" in mode else "none"}
    if "markers" in mode:
        hollow = {"markerfacecolor": "none"} if "open" in marker.get("symbol", "") else {}
        style |= {"marker": symbol, "markersize": 3, **hollow}
    axes.plot(x, y, color=colour, label=label or "_", linewidth=1.2, **style)
    if bars := trace.get("error_y"):
        ends = [bars.get("arrayminus", bars["array"]), bars["array"]]
        axes.errorbar(x, y, yerr=np.array(ends, float), fmt="none", ecolor=colour, elinewidth=0.7, capsize=2)


def _bar(axes: Axes, trace: Mapping[str, Any], figure: Mapping[str, Any], k: int) -> None:
    """Draw bars at numbers or categories, on what stands before them (stack) or beside it (group)."""
    bars = [t for t in figure["data"] if t["type"] == "bar" and t.get("yaxis") == trace.get("yaxis")]
    mode, before = figure["layout"].get("barmode"), bars.index(trace)
    lying = trace.get("orientation") == "h"
    labels, lengths = (trace["y"], trace["x"]) if lying else (trace["x"], trace["y"])
    named = bool(labels) and isinstance(labels[0], str)
    places = np.arange(len(labels), dtype=float) if named else _numbers(labels)
    thick = 0.7 / len(bars) if mode == "group" else 0.7
    start = np.array(trace.get("base", 0.0))
    if mode == "stack":
        start = sum((_numbers(t["x"]) for t in bars[:before]), np.zeros(len(labels)))
    offset = (before - (len(bars) - 1) / 2) * thick if mode == "group" else 0.0
    how: dict[str, Any] = {"color": trace["marker"]["color"], "label": _text(trace.get("name", "")) or "_"}
    if lying:
        axes.barh(places + offset, _numbers(lengths), thick, left=start, **how)
    else:
        axes.bar(places + offset, _numbers(lengths), thick, bottom=start, **how)
    if named:
        (axes.set_yticks if lying else axes.set_xticks)(places, [_text(label) for label in labels])


def _histogram(axes: Axes, trace: Mapping[str, Any], figure: Mapping[str, Any], k: int) -> None:
    axes.hist(trace["x"], bins=trace["nbinsx"], color=trace["marker"]["color"])


def _heatmap(axes: Axes, trace: Mapping[str, Any], figure: Mapping[str, Any], k: int) -> None:
    axes.imshow(trace["z"], cmap="Blues", aspect="auto")
    names, at = [_text(name) for name in trace["x"]], range(len(trace["x"]))
    axes.set_xticks(at, names, rotation=40, ha="right")
    axes.set_yticks(at, names)
    for row, values in enumerate(trace["z"]):
        for column, value in enumerate(values):
            axes.text(column, row, str(value), ha="center", va="center")


DRAWN: dict[str, Callable[[Axes, Mapping[str, Any], Mapping[str, Any], int], None]] = {
    "scatter": _scatter,
    "bar": _bar,
    "histogram": _histogram,
    "heatmap": _heatmap,
}
