"""How cost grows with size: exponents with their errors, and a plot of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, log10
from typing import NamedTuple

import numpy as np

from boostfeat.compare.intervals import PALETTE

GOAL = 1.1  # an exponent above it is worse than linear
WIDTH, HEIGHT, MARGIN, LEGEND = 250, 200, 52, 170


class Growth(NamedTuple):
    """cost = factor · size ^ exponent."""

    exponent: float
    error: float  # standard error of the exponent
    factor: float

    def at(self, size: float) -> float:
        return self.factor * float(size) ** self.exponent


def fit(sizes: Sequence[float], costs: Sequence[float]) -> Growth:
    """Least squares on logarithms: ln cost = ln factor + exponent · ln size. At least three points."""
    x, y = np.log(np.asarray(sizes, float)), np.log(np.maximum(costs, 1e-12))
    n, spread = len(x), float(((x - x.mean()) ** 2).sum())
    exponent = float(((x - x.mean()) * y).sum()) / spread
    level = float(y.mean() - exponent * x.mean())
    rest = float(((y - level - exponent * x) ** 2).sum())
    return Growth(exponent, float(np.sqrt(rest / (n - 2) / spread)), float(np.exp(level)))


def fit_line(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """(a, b) of cost = a + b · size, by least squares."""
    slope, level = np.polyfit(sizes, costs, 1)
    return float(level), float(slope)


Curve = Sequence[tuple[float, float]]  # of (size, cost)
Panels = Mapping[str, Mapping[str, Mapping[str, Curve]]]  # by cost (rows), axis (columns) and stage


def svg(panels: Panels) -> str:
    """Log-log panels: a row for each cost, a column for each axis, a line for each stage; a dotted line is linear growth."""
    stages = list(dict.fromkeys(stage for row in panels.values() for panel in row.values() for stage in panel))
    colour = {stage: PALETTE[k % len(PALETTE)] for k, stage in enumerate(stages)}
    columns = max(len(row) for row in panels.values())
    out = []
    for r, (cost, row) in enumerate(panels.items()):
        for c, (axis, lines) in enumerate(row.items()):
            out.append(f'<g transform="translate({MARGIN + c * (WIDTH + MARGIN)},{20 + r * (HEIGHT + MARGIN)})">')
            out += _panel(cost, axis, lines, colour)
            out.append("</g>")
    left = MARGIN + columns * (WIDTH + MARGIN)
    for k, stage in enumerate(stages):
        out.append(f'<text x="{left}" y="{32 + 18 * k}" fill="{colour[stage]}">{stage}</text>')
    width, height = left + LEGEND, 20 + len(panels) * (HEIGHT + MARGIN)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *out, "</svg>", ""])


def _panel(cost: str, axis: str, lines: Mapping[str, Curve], colour: Mapping[str, str]) -> list[str]:
    sizes = sorted({x for line in lines.values() for x, _ in line})
    costs = [max(y, 1e-6) for line in lines.values() for _, y in line]
    low, high = 10 ** np.floor(log10(min(costs))), 10 ** np.ceil(log10(max(costs) * 1.0001))

    def at(x: float, y: float) -> str:
        across = (log(x) - log(sizes[0])) / log(sizes[-1] / sizes[0])
        up = (log(max(y, 1e-6)) - log(low)) / log(high / low)
        return f"{WIDTH * across:.1f},{HEIGHT * (1 - up):.1f}"

    out = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>']
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT + 32}" text-anchor="middle">{axis}</text><text x="0" y="-6">{cost}</text>')
    out += [
        f'<text x="{at(x, low).split(",")[0]}" y="{HEIGHT + 16}" text-anchor="middle" fill="#777">{x:,.0f}</text>' for x in sizes
    ]
    for power in range(round(log10(low)), round(log10(high)) + 1):
        y = at(sizes[0], 10.0**power).split(",")[1]
        out.append(f'<text x="-6" y="{y}" text-anchor="end" dominant-baseline="middle" fill="#777">{10.0**power:g}</text>')
    top = min(sizes[-1] / sizes[0], high / low)
    out.append(f'<polyline points="{at(sizes[0], low)} {at(sizes[0] * top, low * top)}" stroke="#bbb" stroke-dasharray="2 4"/>')
    for stage, line in lines.items():
        points = [at(x, y) for x, y in line]
        out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour[stage]}" stroke-width="1.8"/>')
        out += [
            f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2.5" fill="{colour[stage]}"><title>{stage}</title></circle>'
            for p in points
        ]
    return out
