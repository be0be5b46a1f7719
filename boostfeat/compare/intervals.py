"""Scores of systems with their intervals, drawn: what the report opens on and notebooks show. It needs no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

from ..core.html import shown

GREY = "#8b93a1"
# mid tones: each is readable on white and on near-black, and none is the green or red of better and worse
PALETTE = ("#d08a2e", "#3f7fd6", "#7d9a2e", "#c25f9c", "#8e6bc9", "#3aa6c4", "#a3754f", "#5f6fd1", "#b8a02a", "#6b8fa8")
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)  # between ticks


def colours(names: list[str]) -> dict[str, str]:
    """A system has one colour on the whole page; the decoder is grey."""
    rest = [name for name in names if name != "decoder"]
    return {"decoder": GREY, "oracle": GREY} | {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(rest)}


def intervals(rows: Sequence[Mapping[str, Any]], linear: str, metric: str, *, on: str = "test") -> dict[str, Any]:
    """The metric on a list with its 95% interval: places in per cent of the width."""
    shown = [
        (row["name"], float(row[on][metric]), [float(v) for v in row["confidence"] or [row[on][metric]] * 2])
        for row in rows
        if row[on].get(metric) is not None
    ]
    if not shown:
        return {"rows": [], "ticks": [], "base": None}
    low, high = min(i[0] for _, _, i in shown), max(i[1] for _, _, i in shown)
    step = next(s for s in STEPS if (high - low) / s <= 7 or s == STEPS[-1])
    first, last = floor(low / step), ceil(high / step)

    def place(value: float) -> float:
        return round(100 * (value - first * step) / max(step, (last - first) * step), 2)

    digits = 0 if step >= 1 else 1 if step >= 0.1 else 2
    return {
        "rows": [
            {
                "name": name,
                "score": score,
                "interval": i,
                "dot": place(score),
                "left": place(i[0]),
                "width": round(place(i[1]) - place(i[0]), 2),
            }
            for name, score, i in shown
        ],
        "ticks": [{"at": place(k * step), "label": f"{k * step:.{digits}f}"} for k in range(first, last + 1)],
        "base": next((place(score) for name, score, _ in shown if name == linear), None),
    }


def intervals_html(rows: Sequence[Mapping[str, Any]], linear: str, metric: str, *, on: str = "test", label: str) -> str:
    """The drawing of ``intervals``: a point and a whisker a system, a dashed line at the score of ``linear``."""
    drawn, colour = intervals(rows, linear, metric, on=on), colours([row["name"] for row in rows])
    base = "" if drawn["base"] is None else f'<i class="base" style="left:{drawn["base"]}%"></i>'
    lines = "".join(_line(row, colour[row["name"]], base) for row in drawn["rows"])
    ticks = "".join(f'<span style="left:{tick["at"]}%">{tick["label"]}</span>' for tick in drawn["ticks"])
    axis = f'<div></div><div class="axis">{ticks}</div><div></div>'
    return f'<div class="forest" role="img" aria-label="{shown(label)}">{lines}{axis}</div>'


def _line(row: Mapping[str, Any], colour: str, base: str) -> str:
    score, low, high = (f"{value:.2f}".replace("-", "−") for value in (row["score"], *row["interval"]))
    whisker = f'<i class="whisker" style="left:{row["left"]}%;width:{row["width"]}%;color:{colour}"></i>'
    point = f'<i class="point" style="left:{row["dot"]}%;background:{colour}" title="{score} [{low}, {high}]"></i>'
    track = f'<div class="track">{base}{whisker}{point}</div>'
    return f'<div class="name">{shown(row["name"])}</div>{track}<div class="score">{score}</div>\n'
