"""Figures as plotly's own JSON ({"data": ..., "layout": ...}). Fonts and grid colours come from the page's theme."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..compare.intervals import GREY, PALETTE, colours

SCALE = [[0, "rgba(63,127,214,0.05)"], [1, "rgba(63,127,214,0.95)"]]  # the page shines through: for light and dark
UP, DOWN = "#2a9d8f", "#d64f62"
DOMAINS = {  # of panels above each other, by their number: half of the height for the first, a quarter for others, gaps of 7 %
    1: [[0.0, 1.0]],
    2: [[0.38, 1.0], [0.0, 0.31]],
    3: [[0.57, 1.0], [0.285, 0.5], [0.0, 0.215]],
}
SETS = {"dev": GREY, "select": PALETTE[1], "test": PALETTE[4]}

Figure = dict[str, Any]


def figures(data: dict[str, Any]) -> dict[str, Figure]:
    """All figures of the page by id."""
    colour = colours([row["name"] for row in data["results"]])
    out = {f"curve-{k}": curve(row, colour) for k, row in enumerate(data["curves"]) if len(row["at"]) > 1}
    out |= {f"waterfall-{k}": waterfall(row, colour[row["system"]]) for k, row in enumerate(data["waterfalls"])}
    for k, panel in enumerate(data["features"]):
        out[f"effects-{k}"] = effects(panel)
        out |= {f"response-{k}-{j}": response(row, colour[panel["system"]]) for j, row in enumerate(panel["responses"])}
        if panel["pairs"]["any"]:
            out[f"pairs-{k}"] = used_together(panel["pairs"])
    metric = data["metric"]
    for k, duel in enumerate(data["duels"]):
        out[f"duel-{k}"] = duel_scatter(duel, metric["gain"])
        out[f"outcome-{k}"] = outcome(duel)
        out[f"difference-{k}"] = differences(duel, metric["gain"], colour)
    over = f"{metric['title']} {'over' if metric['sign'] > 0 else 'below'} the decoder's"
    for name in ("length", "size"):
        out[f"bucket-{name}"] = bucket_bars(data["buckets"][name], over, colour)
    out["rank-share"] = rank_bars(data["buckets"]["rank"], "share", "share of sentences (%)", colour)
    out["rank-gain"] = rank_bars(data["buckets"]["rank"], "gain", f"mean {metric['gain']} over the decoder's", colour)
    if metric["references"]:
        out["ratios"] = ratios(data["lengths"])
        out["shifts"] = shifts(data["lengths"], colour)
    if data["experiments"]["strategies"]:
        out |= strategies(data["experiments"]["strategies"])
    if data["experiments"]["spreads"]:
        out["spread"] = spreads(data["experiments"]["spreads"])
    for table in (data["paper"] or {}).get("tables", ()):
        if table.get("kind") == "sizes":
            out["sizes"] = sizes(table)
    return out


def _figure(data: list[dict[str, Any]], *, height: int, margin: tuple[int, int, int, int], **layout: Any) -> Figure:
    """Return a figure; ``margin`` is left, right, top, bottom, and ``legend`` how high it stands."""
    if "legend" in layout:
        y, *order = layout["legend"] if isinstance(layout["legend"], tuple) else (layout["legend"],)
        layout["legend"] = {"orientation": "h", "y": y, "yanchor": "bottom", **({"traceorder": order[0]} if order else {})}
    return {"data": data, "layout": {"height": height, **layout, "margin": dict(zip("lrtb", margin, strict=True))}}


def _shown(name: str) -> str:
    """A name as plotly takes it: in its texts, too, < begins markup."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _title(text: str) -> dict[str, str]:
    return {"text": _shown(text)}


def _counting(title: str, n: int) -> dict[str, Any]:
    """An axis of rounds or epochs: whole numbers."""
    return {"title": _title(title), "zeroline": False, "dtick": max(1, -(-n // 8))}


def _line(x: float, axis: str = "x", **more: Any) -> dict[str, Any]:
    """A reference line across the plot."""
    other = "y" if axis == "x" else "x"
    return {"type": "line", f"{axis}0": x, f"{axis}1": x, f"{other}0": 0, f"{other}1": 1, f"{other}ref": "paper",
            "line": {"color": GREY, "width": 1, "dash": "dot"}, **more}  # fmt: skip


def waterfall(row: dict[str, Any], colour: str) -> Figure:
    """Scores from the first choice on, stage by stage: a bar is what a stage changes, a whisker its standard error."""
    stages, scores = ([step[key] for step in row["steps"]] for key in ("stage", "score"))
    changes = [b - a for a, b in pairwise(scores)]
    labels = ["", *(f"{step['gain']:+.2f} ± {step['error']:.2f}" for step in row["steps"][1:])]
    bars = {"type": "bar", "x": stages[1:], "y": changes, "base": scores[:-1], "marker": {"color": colour}, "hoverinfo": "skip"}
    points = {"type": "scatter", "mode": "markers", "x": stages, "y": scores, "marker": {"color": GREY, "size": 7},
              "error_y": {"type": "data", "array": [step["error"] for step in row["steps"]], "color": GREY},
              "customdata": labels, "hovertemplate": "%{y:.2f}  %{customdata}<extra></extra>"}  # fmt: skip
    return _figure([bars, points], height=260, showlegend=False, bargap=0.5, margin=(10, 12, 12, 40),
                   xaxis={"type": "category"}, yaxis={"title": _title(row["metric"]), "automargin": True})  # fmt: skip


def curve(row: dict[str, Any], colour: dict[str, str]) -> Figure:
    """Gain, loss and ρ over rounds, above each other on one axis; the dotted line is the round that was kept."""
    gains = [k for k in ("dev", "select") if k in row]
    panels = [p for p in (gains, ["loss"] if "loss" in row else [], ["rho"] if "rho" in row else []) if p]
    titles = {"dev": row["metric"] or "gain", "select": row["metric"] or "gain", "loss": "loss", "rho": "ρ"}
    traces, axes = [], {}
    for k, (panel, domain) in enumerate(zip(panels, DOMAINS[len(panels)], strict=True), 1):
        suffix = "" if k == 1 else str(k)
        axes[f"yaxis{suffix}"] = {"domain": domain, "title": _title(titles[panel[0]]), "automargin": True,
                                  "zeroline": panel == ["rho"]}  # fmt: skip
        for name in panel:
            shade = GREY if name == "dev" else colour[row["system"]]
            traces.append({
                "type": "bar" if name == "rho" else "scatter", "x": row["at"], "y": row[name], "yaxis": f"y{suffix}",
                "name": "ρ" if name == "rho" else name, "showlegend": name in gains,
                **({"marker": {"color": shade}} if name == "rho" else
                   {"mode": "lines+markers", "line": {"color": shade, "width": 2}, "marker": {"size": 5}}),
                "hovertemplate": "%{y:.4~f}" if name in ("loss", "rho") else "%{y:.2f}",
            })  # fmt: skip
    shapes, notes = [], []
    if row["stop"] is not None:
        shapes = [_line(row["stop"])]
        notes = [{"x": row["stop"], "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False, "font": {"size": 11},
                  "text": f"kept: {row['step']} {row['stop']}"}]  # fmt: skip
    xaxis = {**_counting(row["step"], len(row["at"])), "anchor": f"y{len(panels)}" if panels[1:] else "y"}
    return _figure(
        traces, height=150 + 110 * len(panels), xaxis=xaxis, **axes, shapes=shapes, annotations=notes, hovermode="x unified",
        legend=1.06, margin=(10, 12, 56, 40),
    )  # fmt: skip


def effects(panel: dict[str, Any]) -> Figure:
    """Features by total effect: what the weight does and what trees add."""
    rows = panel["features"][::-1]
    names = [_shown(f["name"]) for f in rows]
    bars = [("weight", PALETTE[1], [f["linear"] for f in rows]), ("trees", PALETTE[0], [f["total"] - f["linear"] for f in rows])]
    return _figure(
        [{"type": "bar", "orientation": "h", "y": names, "x": x, "name": name, "marker": {"color": c},
          "hovertemplate": "%{y}: %{x:.4f}"} for name, c, x in bars],
        height=110 + 24 * len(rows),
        barmode="stack",
        showlegend=any(f["total"] > f["linear"] for f in rows),
        xaxis={"title": _title("effect (sd within lists)")},
        yaxis={"automargin": True, "type": "category", "ticklabelstandoff": 4, "dtick": 1},
        legend=(1, "normal"),
        margin=(10, 12, 30, 48),
        bargap=0.35,
    )  # fmt: skip


def response(row: dict[str, Any], colour: str) -> Figure:
    """Partial dependence of the unit score; ticks at the bottom are quantiles of real values."""
    traces = []
    if row["trees"]:
        traces.append({"type": "scatter", "mode": "lines", "x": row["x"], "y": row["linear"], "name": "weight alone",
                       "line": {"color": GREY, "width": 1.2, "dash": "dash"}, "hovertemplate": "%{y:.3f}"})  # fmt: skip
    traces.append({"type": "scatter", "mode": "lines", "x": row["x"], "y": row["total"], "name": "score",
                   "line": {"color": colour, "width": 2}, "hovertemplate": "%{y:.3f}"})  # fmt: skip
    low = min([*row["total"], *row["linear"]])
    traces.append({"type": "scatter", "mode": "markers", "x": row["quantiles"], "y": [low] * len(row["quantiles"]),
                   "marker": {"symbol": "line-ns-open", "size": 7, "color": GREY}, "hoverinfo": "skip"})  # fmt: skip
    return _figure(traces, height=210, showlegend=False, hovermode="x unified", margin=(10, 10, 8, 30),
                   xaxis={"zeroline": False, "nticks": 6}, yaxis={"automargin": True, "nticks": 6})  # fmt: skip


def used_together(pairs: dict[str, Any]) -> Figure:
    names = [_shown(name) for name in pairs["names"]]
    return _figure(
        [{"type": "heatmap", "x": names, "y": names, "z": pairs["matrix"], "colorscale": SCALE, "xgap": 2,
          "ygap": 2, "hovertemplate": "%{x} with %{y}: %{z} trees<extra></extra>", "texttemplate": "%{z}",
          "showscale": False}],
        height=190 + 30 * len(names),
        xaxis={"automargin": True, "tickangle": -40, "showgrid": False, "type": "category"},
        yaxis={"automargin": True, "autorange": "reversed", "showgrid": False, "type": "category"},
        margin=(10, 10, 10, 10),
    )  # fmt: skip


def duel_scatter(duel: dict[str, Any], gain: str) -> Figure:
    """Each sentence: the two systems' gains over the decoder's. Above the diagonal, the first one wins."""
    colour = [UP if d > 0 else DOWN if d < 0 else GREY for d in duel["difference"]]
    limit = max([1.0, *(abs(v) for v in duel["x"] + duel["y"])]) * 1.05
    numbers = list(range(len(duel["x"])))
    hover = f"sentence %{{customdata}}<br>{_shown(duel['b'])} %{{x:+.1f}}<br>{_shown(duel['a'])} %{{y:+.1f}}<extra></extra>"
    diagonal = {"type": "line", "x0": -limit, "y0": -limit, "x1": limit, "y1": limit, "line": {"color": GREY, "width": 1}}
    return _figure(
        [{"type": "scatter", "mode": "markers", "x": duel["x"], "y": duel["y"], "customdata": numbers,
          "marker": {"color": colour, "size": 7, "opacity": 0.6},
          "hovertemplate": hover}],
        height=460,
        xaxis={"title": _title(f"{duel['b']} − decoder ({gain})"), "range": [-limit, limit]},
        yaxis={"title": _title(f"{duel['a']} − decoder"), "range": [-limit, limit], "automargin": True},
        shapes=[diagonal],
        margin=(10, 12, 12, 48),
    )  # fmt: skip


def outcome(duel: dict[str, Any]) -> Figure:
    """Wins, ties and losses as one bar."""
    parts = (("wins", UP), ("ties", GREY), ("losses", DOWN))
    return _figure(
        [{"type": "bar", "orientation": "h", "x": [duel[name]], "y": [""], "name": f"{name} {duel[name]:,}",
          "marker": {"color": c}, "hovertemplate": f"{name}: %{{x}}<extra></extra>"} for name, c in parts],
        height=110,
        barmode="stack",
        xaxis={"visible": False, "range": [0, max(1, sum(duel[name] for name, _ in parts))]},
        yaxis={"visible": False},
        legend=(1, "normal"),
        margin=(4, 4, 36, 4),
    )  # fmt: skip


def differences(duel: dict[str, Any], gain: str, colour: dict[str, str]) -> Figure:
    """Distribution of the difference where there is one."""
    values = [d for d in duel["difference"] if d]
    return _figure(
        [{"type": "histogram", "x": values, "nbinsx": 41, "marker": {"color": colour[duel["a"]]},
          "hovertemplate": "%{x}: %{y}<extra></extra>"}],
        height=300,
        xaxis={"title": _title(f"{duel['a']} − {duel['b']} ({gain}), ties left out")},
        yaxis={"title": _title("sentences"), "automargin": True},
        shapes=[_line(0)],
        bargap=0.04,
        margin=(10, 12, 12, 48),
    )  # fmt: skip


def bucket_bars(bucket: dict[str, Any], title: str, colour: dict[str, str]) -> Figure:
    labels = [f"{label}<br>n = {n:,}" for label, n in zip(bucket["labels"], bucket["count"], strict=True)]
    return _bars(labels, [(r["system"], r["gain"]) for r in bucket["rows"]], title, bucket["by"], colour)


def rank_bars(ranks: dict[str, Any], key: str, title: str, colour: dict[str, str]) -> Figure:
    return _bars(ranks["labels"], [(r["system"], r[key]) for r in ranks["rows"]], title, "rank in the decoder's list", colour)


def _bars(labels: list[str], rows: list[tuple[str, Any]], title: str, by: str, colour: dict[str, str]) -> Figure:
    return _figure(
        [{"type": "bar", "x": labels, "y": y, "name": _shown(name), "marker": {"color": colour[name]},
          "hovertemplate": "%{y:.2f}"}
         for name, y in rows],
        height=360,
        barmode="group",
        hovermode="x unified",
        xaxis={"title": _title(by), "type": "category"},
        yaxis={"title": _title(title), "automargin": True},
        legend=1.02,
        margin=(10, 12, 30, 60),
        bargap=0.25,
        bargroupgap=0.12,
    )  # fmt: skip


def ratios(lengths: dict[str, Any]) -> Figure:
    """Length ratio on every set: a dot a set; 1 is as long as the reference."""
    rows = lengths["sets"][::-1]
    return _figure(
        [{"type": "scatter", "mode": "markers", "x": [r[name] for r in rows], "y": [_shown(r["system"]) for r in rows],
          "name": name, "marker": {"color": c, "size": 11, "symbol": symbol}, "hovertemplate": "%{y}: %{x:.4f}"}
         for (name, c), symbol in zip(SETS.items(), ("circle-open", "diamond", "circle"), strict=True)],
        height=110 + 38 * len(rows),
        xaxis={"title": _title("hypothesis words / reference words"), "zeroline": False},
        yaxis={"automargin": True, "type": "category", "dtick": 1},
        shapes=[_line(1.0)],
        legend=1,
        margin=(10, 16, 30, 48),
    )  # fmt: skip


def shifts(lengths: dict[str, Any], colour: dict[str, str]) -> Figure:
    """Draw how many words each choice is longer or shorter than the decoder's; sentences of equal length are left out."""
    rows = [r for r in lengths["systems"] if any(k for k in r["shift"])]
    at = [k for k in range(-8, 9) if k]
    names = [f"{'≤ ' if k == -8 else '≥ ' if k == 8 else ''}{k:+d}" for k in at]
    traces = [
        {"type": "scatter", "mode": "lines+markers", "x": names, "y": [r["shift"].get(k, 0) for k in at],
         "name": _shown(r["system"]),
         "line": {"color": colour[r["system"]], "width": 2, "dash": "dot" if r["system"] == "oracle" else "solid"},
         "marker": {"size": 5}, "hovertemplate": "%{y}"} for r in rows
    ]  # fmt: skip
    return _figure(
        traces,
        height=360,
        hovermode="x unified",
        xaxis={"title": _title("words more than the decoder's choice"), "type": "category"},
        yaxis={"title": _title("sentences"), "automargin": True, "rangemode": "tozero"},
        shapes=[_line(7.5)],
        legend=1.02,
        margin=(10, 12, 30, 48),
    )


def strategies(cells: list[dict[str, Any]]) -> dict[str, Figure]:
    """[E12] figures 1 to 6: for each strategy, BLEU of oracle, best and prediction by epoch."""
    out = {}
    for k, cell in enumerate(cells):
        history = cell["history"]
        look = {"oracle": (UP, "dot"), "dev": (PALETTE[1], "solid"), "select": (PALETTE[0], "solid"), "prediction": (DOWN, "dot")}
        out[f"strategy-{k}"] = _figure(
            [{"type": "scatter", "mode": "lines", "x": [r.get("epoch") for r in history], "y": [r.get(name) for r in history],
              "name": name, "line": {"color": c, "width": 2, "dash": dash}, "hovertemplate": "%{y:.2f}"}
             for name, (c, dash) in look.items() if any(name in r for r in history)],
            height=240,
            hovermode="x unified",
            xaxis=_counting("epoch", len(history)),
            yaxis={"automargin": True},
            legend=1.02,
            margin=(10, 10, 24, 44),
        )  # fmt: skip
    return out


def sizes(table: dict[str, Any]) -> Figure:
    """[E12 Table 2] the oracle among the first k of every list."""
    k, oracle = ([float(row[c]) for row in table["rows"]] for c in (0, 1))
    return _figure(
        [{"type": "scatter", "mode": "lines+markers", "x": k, "y": oracle, "line": {"color": PALETTE[1], "width": 2},
          "hovertemplate": "first %{x}: %{y:.2f}<extra></extra>"}],
        height=260,
        xaxis={"type": "log", "title": _title("hypotheses of a list"), "tickvals": k, "ticktext": [f"{n:,.0f}" for n in k]},
        yaxis={"title": _title(table["header"][1]), "automargin": True},
        margin=(10, 10, 14, 48),
    )  # fmt: skip


def spreads(rows: list[dict[str, Any]]) -> Figure:
    """[EMR13 section 6] mean ± sd of w·(f(y+) − f(y_w)) by epoch: RM bounds it, MIRA does not."""
    return _figure(
        [{"type": "scatter", "mode": "lines+markers", "x": r["at"], "y": r["mean"], "name": _shown(r["name"]),
          "line": {"color": PALETTE[k % len(PALETTE)], "width": 2}, "hovertemplate": "%{y:.2f}",
          "error_y": {"type": "data", "array": r["sd"], "thickness": 1, "width": 3, "color": PALETTE[k % len(PALETTE)]}}
         for k, r in enumerate(rows)],
        height=380,
        hovermode="x unified",
        xaxis=_counting("epoch", max(len(r["at"]) for r in rows)),
        yaxis={"title": _title("spread of scores, mean ± sd"), "automargin": True},
        legend=1.02,
        margin=(10, 10, 30, 48),
    )  # fmt: skip
