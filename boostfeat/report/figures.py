"""Figures as plotly's own JSON ({"data": ..., "layout": ...}). Fonts and grid colours come from the page's theme."""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import Any

from ..compare.intervals import GREY, PALETTE, colours

SCALE = [[0, "rgba(63,127,214,0.05)"], [1, "rgba(63,127,214,0.95)"]]  # the page shines through: for light and dark
UP, DOWN = "#2a9d8f", "#d64f62"
DOMAINS = {  # of panels above each other, by their number: half of the height for the first, a quarter for others, gaps of 7 %
    1: [[0.0, 1.0]],
    2: [[0.38, 1.0], [0.0, 0.31]],
    3: [[0.57, 1.0], [0.285, 0.5], [0.0, 0.215]],
}
BESIDE = 0.12  # epochs between the bars of two curves, at most
SETS = {"dev": GREY, "select": PALETTE[1], "test": PALETTE[4]}

Figure = dict[str, Any]


def figures(data: dict[str, Any]) -> dict[str, Figure]:
    """Return all figures of the page by id."""
    colour = colours([row["name"] for row in data["results"]])
    out = {f"curve-{k}": curve(row, colour[row["system"]]) for k, row in enumerate(data["curves"]) if len(row["at"]) > 1}
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
    tables = (data["paper"] or {}).get("tables", ())
    strategies = {row["name"]: row for row in data["experiments"]["strategies"]}
    panels = next((table["panels"] for table in tables if table["panels"]), [list(strategies)] if strategies else [])
    ends = [v for row in strategies.values() for key in ("low", "y", "high") for v in row[key]]
    for k, panel in enumerate(panels):
        drawn = [strategies[name] for name in panel if name in strategies]
        out[f"strategy-{k}"] = overlay(drawn, f"dev {metric['title']}", range=[min(ends) - 1, max(ends) + 1])
    if data["experiments"]["spreads"]:
        out["spread"] = overlay(data["experiments"]["spreads"], "spread of scores, mean ± sd")
    out |= {f"sizes-{k}": sizes(table) for k, table in enumerate(tables) if table["kind"] == "sizes"}
    return out


def _figure(
    data: list[dict[str, Any]],
    *,
    height: int,
    x: str = "",
    y: str = "",
    margin: tuple[int, int, int, int] = (10, 12, 30, 48),
    **layout: Any,
) -> Figure:
    """Return a figure; x and y are titles of its axes, ``margin`` is left, right, top, bottom, ``legend`` how high it stands."""
    if "legend" in layout:
        layout["legend"] = {"orientation": "h", "y": layout["legend"], "yanchor": "bottom", "traceorder": "normal"}
    layout["xaxis"] = {**({"title": _title(x)} if x else {}), **layout.get("xaxis", {})}
    layout["yaxis"] = {**({"title": _title(y)} if y else {}), "automargin": True, **layout.get("yaxis", {})}
    return {"data": data, "layout": {"height": height, **layout, "margin": dict(zip("lrtb", margin, strict=True))}}


def _shown(name: str) -> str:
    """Return a name as plotly takes it: in its texts, too, < begins markup."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _title(text: str) -> dict[str, str]:
    return {"text": _shown(text)}


def _counting(n: int) -> dict[str, Any]:
    """Return an axis of rounds or epochs: whole numbers."""
    return {"zeroline": False, "dtick": max(1, -(-n // 8))}


def _lines(x: Any, y: Any, name: str, colour: str, *, dash: str = "solid", digits: int = 2, **more: Any) -> dict[str, Any]:
    """Return a curve."""
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": _shown(name),
            "line": {"color": colour, "width": 2, "dash": dash}, "hovertemplate": f"%{{y:.{digits}f}}", **more}  # fmt: skip


def _line(x: float, axis: str = "x", **more: Any) -> dict[str, Any]:
    """Return a reference line across the plot."""
    other = "y" if axis == "x" else "x"
    return {"type": "line", f"{axis}0": x, f"{axis}1": x, f"{other}0": 0, f"{other}1": 1, f"{other}ref": "paper",
            "line": {"color": GREY, "width": 1, "dash": "dot"}, **more}  # fmt: skip


def waterfall(row: dict[str, Any], colour: str) -> Figure:
    """Draw scores from the first choice on, stage by stage: a bar is what a stage changes, a whisker its standard error."""
    stages, scores = ([step[key] for step in row["steps"]] for key in ("stage", "score"))
    changes = [0.0, *(b - a for a, b in pairwise(scores))]
    labels = ["", *(f"{step['gain']:+.2f} ± {step['error']:.2f}" for step in row["steps"][1:])]
    bars = {"type": "bar", "x": stages, "y": changes, "base": scores[:1] + scores[:-1], "marker": {"color": colour}}
    bars["hoverinfo"] = "skip"
    points = {"type": "scatter", "mode": "markers", "x": stages, "y": scores, "marker": {"color": GREY, "size": 7},
              "error_y": {"type": "data", "array": [step["error"] for step in row["steps"]], "color": GREY},
              "customdata": labels, "hovertemplate": "%{y:.2f}  %{customdata}<extra></extra>"}  # fmt: skip
    return _figure([bars, points], height=260, y=row["metric"], margin=(10, 12, 12, 40), showlegend=False, bargap=0.5,
                   xaxis={"type": "category"})  # fmt: skip


def curve(row: dict[str, Any], colour: str) -> Figure:
    """Draw gain, loss and ρ over rounds, above each other on one axis; the dotted line is the round that was kept."""
    gains = [k for k in ("dev", "select") if k in row]
    panels = [p for p in (gains, ["loss"] if "loss" in row else [], ["rho"] if "rho" in row else []) if p]
    titles = {"dev": row["metric"] or "gain", "select": row["metric"] or "gain", "loss": "loss", "rho": "ρ"}
    traces, axes = [], dict[str, Any]()
    for k, (panel, domain) in enumerate(zip(panels, DOMAINS[len(panels)], strict=True), 1):
        suffix = "" if k == 1 else str(k)
        zero = {"zeroline": panel == ["rho"]}
        axes[f"yaxis{suffix}"] = {"domain": domain, "title": _title(titles[panel[0]]), "automargin": True, **zero}
        for name in panel:
            shade = GREY if name == "dev" else colour
            about = {"yaxis": f"y{suffix}", "showlegend": name in gains}
            if name == "rho":
                bars = {"type": "bar", "x": row["at"], "y": row[name], "name": "ρ", "marker": {"color": shade}}
                traces.append({**bars, "hovertemplate": "%{y:.4~f}", **about})
            else:
                points: dict[str, Any] = {"mode": "lines+markers", "marker": {"size": 5}, **about}
                traces.append(_lines(row["at"], row[name], name, shade, digits=4 if name == "loss" else 2, **points))
    shapes, notes = [], []
    if row["stop"] is not None:
        shapes = [_line(row["stop"])]
        notes = [{"x": row["stop"], "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False, "font": {"size": 11},
                  "text": f"kept: {row['step']} {row['stop']}"}]  # fmt: skip
    xaxis = {**_counting(len(row["at"])), "anchor": f"y{len(panels)}" if panels[1:] else "y"}
    axes |= {"shapes": shapes, "annotations": notes, "hovermode": "x unified", "legend": 1.06, "margin": (10, 12, 56, 40)}
    return _figure(traces, height=150 + 110 * len(panels), x=row["step"], xaxis=xaxis, **axes)


def effects(panel: dict[str, Any]) -> Figure:
    """Draw features by total effect: what the weight does and what trees add."""
    rows = panel["features"][::-1]
    names = [_shown(f["name"]) for f in rows]
    bars = [("weight", PALETTE[1], [f["linear"] for f in rows]), ("trees", PALETTE[0], [f["total"] - f["linear"] for f in rows])]
    return _figure(
        [{"type": "bar", "orientation": "h", "y": names, "x": x, "name": name, "marker": {"color": c},
          "hovertemplate": "%{y}: %{x:.4f}"} for name, c, x in bars],
        height=110 + 24 * len(rows), x="effect (sd within lists)", barmode="stack", bargap=0.35, legend=1,
        showlegend=any(f["total"] > f["linear"] for f in rows),
        yaxis={"type": "category", "ticklabelstandoff": 4, "dtick": 1},
    )  # fmt: skip


def response(row: dict[str, Any], colour: str) -> Figure:
    """Draw the partial dependence of the unit score; ticks at the bottom are quantiles of real values."""
    alone = [_lines(row["x"], row["linear"], "weight alone", GREY, dash="dash", digits=3)] if row["trees"] else []
    low = min([*row["total"], *row["linear"]])
    ticks = {"type": "scatter", "mode": "markers", "x": row["quantiles"], "y": [low] * len(row["quantiles"]),
             "marker": {"symbol": "line-ns-open", "size": 7, "color": GREY}, "hoverinfo": "skip"}  # fmt: skip
    score = _lines(row["x"], row["total"], "score", colour, digits=3)
    return _figure([*alone, score, ticks], height=210, showlegend=False, hovermode="x unified", margin=(10, 10, 8, 30),
                   xaxis={"zeroline": False, "nticks": 6}, yaxis={"nticks": 6})  # fmt: skip


def used_together(pairs: dict[str, Any]) -> Figure:
    """Draw how many trees use each pair of features."""
    names = [_shown(name) for name in pairs["names"]]
    return _figure(
        [{"type": "heatmap", "x": names, "y": names, "z": pairs["matrix"], "colorscale": SCALE, "xgap": 2,
          "ygap": 2, "hovertemplate": "%{x} with %{y}: %{z} trees<extra></extra>", "texttemplate": "%{z}",
          "showscale": False}],
        height=190 + 30 * len(names), margin=(10, 10, 10, 10),
        xaxis={"automargin": True, "tickangle": -40, "showgrid": False, "type": "category"},
        yaxis={"autorange": "reversed", "showgrid": False, "type": "category"},
    )  # fmt: skip


def duel_scatter(duel: dict[str, Any], gain: str) -> Figure:
    """Draw each sentence by the two systems' gains over the decoder's. Above the diagonal, the first one wins."""
    colour = [UP if d > 0 else DOWN if d < 0 else GREY for d in duel["difference"]]
    limit = max([1.0, *(abs(v) for v in duel["x"] + duel["y"])]) * 1.05
    hover = f"sentence %{{customdata}}<br>{_shown(duel['b'])} %{{x:+.1f}}<br>{_shown(duel['a'])} %{{y:+.1f}}<extra></extra>"
    diagonal = {"type": "line", "x0": -limit, "y0": -limit, "x1": limit, "y1": limit, "line": {"color": GREY, "width": 1}}
    return _figure(
        [{"type": "scatter", "mode": "markers", "x": duel["x"], "y": duel["y"], "customdata": list(range(len(duel["x"]))),
          "marker": {"color": colour, "size": 7, "opacity": 0.6}, "hovertemplate": hover}],
        height=460, x=f"{duel['b']} − decoder ({gain})", y=f"{duel['a']} − decoder", margin=(10, 12, 12, 48),
        xaxis={"range": [-limit, limit]}, yaxis={"range": [-limit, limit]}, shapes=[diagonal],
    )  # fmt: skip


def outcome(duel: dict[str, Any]) -> Figure:
    """Draw wins, ties and losses as one bar."""
    parts = (("wins", UP), ("ties", GREY), ("losses", DOWN))
    return _figure(
        [{"type": "bar", "orientation": "h", "x": [duel[name]], "y": [""], "name": f"{name} {duel[name]:,}",
          "marker": {"color": c}, "hovertemplate": f"{name}: %{{x}}<extra></extra>"} for name, c in parts],
        height=110, barmode="stack", legend=1, margin=(4, 4, 36, 4), yaxis={"visible": False},
        xaxis={"visible": False, "range": [0, max(1, sum(duel[name] for name, _ in parts))]},
    )  # fmt: skip


def differences(duel: dict[str, Any], gain: str, colour: dict[str, str]) -> Figure:
    """Draw the distribution of the difference where there is one."""
    values = [d for d in duel["difference"] if d]
    return _figure(
        [{"type": "histogram", "x": values, "nbinsx": 41, "marker": {"color": colour[duel["a"]]},
          "hovertemplate": "%{x}: %{y}<extra></extra>"}],
        height=300, x=f"{duel['a']} − {duel['b']} ({gain}), ties left out", y="sentences", shapes=[_line(0)], bargap=0.04,
        margin=(10, 12, 12, 48),
    )  # fmt: skip


def bucket_bars(bucket: dict[str, Any], title: str, colour: dict[str, str]) -> Figure:
    """Draw the gain of each system by bucket."""
    labels = [f"{label}<br>n = {n:,}" for label, n in zip(bucket["labels"], bucket["count"], strict=True)]
    return _bars(labels, [(r["system"], r["gain"]) for r in bucket["rows"]], title, bucket["by"], colour)


def rank_bars(ranks: dict[str, Any], key: str, title: str, colour: dict[str, str]) -> Figure:
    """Draw how often each system takes which rank, or what it gains there."""
    return _bars(ranks["labels"], [(r["system"], r[key]) for r in ranks["rows"]], title, "rank in the decoder's list", colour)


def _bars(labels: list[str], rows: list[tuple[str, Any]], title: str, by: str, colour: dict[str, str]) -> Figure:
    return _figure(
        [{"type": "bar", "x": labels, "y": y, "name": _shown(name), "marker": {"color": colour[name]},
          "hovertemplate": "%{y:.2f}"} for name, y in rows],
        height=360, x=by, y=title, barmode="group", hovermode="x unified", legend=1.02, margin=(10, 12, 30, 60), bargap=0.25,
        bargroupgap=0.12, xaxis={"type": "category"},
    )  # fmt: skip


def ratios(lengths: dict[str, Any]) -> Figure:
    """Draw the length ratio on every set: a dot a set; 1 is as long as the reference."""
    rows = lengths["sets"][::-1]
    return _figure(
        [{"type": "scatter", "mode": "markers", "x": [r[name] for r in rows], "y": [_shown(r["system"]) for r in rows],
          "name": name, "marker": {"color": c, "size": 11, "symbol": symbol}, "hovertemplate": "%{y}: %{x:.4f}"}
         for (name, c), symbol in zip(SETS.items(), ("circle-open", "diamond", "circle"), strict=True)],
        height=110 + 38 * len(rows), x="hypothesis words / reference words", xaxis={"zeroline": False}, shapes=[_line(1.0)],
        legend=1, yaxis={"type": "category", "dtick": 1},
    )  # fmt: skip


def shifts(lengths: dict[str, Any], colour: dict[str, str]) -> Figure:
    """Draw how many words each choice is longer or shorter than the decoder's; sentences of equal length are left out."""
    rows = [r for r in lengths["systems"] if any(k for k in r["shift"])]
    at = [k for k in range(-8, 9) if k]
    names = [f"{'≤ ' if k == -8 else '≥ ' if k == 8 else ''}{k:+d}" for k in at]
    traces = [
        _lines(names, [r["shift"].get(k, 0) for k in at], r["system"], colour[r["system"]], digits=0, mode="lines+markers",
               dash="dot" if r["system"] == "oracle" else "solid", marker={"size": 5}) for r in rows
    ]  # fmt: skip
    return _figure(traces, height=360, x="words more than the decoder's choice", y="sentences", hovermode="x unified",
                   shapes=[_line(7.5)], legend=1.02, xaxis={"type": "category"}, yaxis={"rangemode": "tozero"})  # fmt: skip


def overlay(curves: list[dict[str, Any]], title: str, **yaxis: Any) -> Figure:
    """Draw curves by epoch on one axis as the papers do: bars go from prediction to oracle, or over the deviation of a spread;
    bands are the standard deviation over seeds [E12 figures 1 to 6, EMR13 section 6]. Bars of an epoch stand side by side.
    """
    traces: list[dict[str, Any]] = []
    beside = min(BESIDE, 0.6 / len(curves))
    for k, (curve, shade, dash) in enumerate(zip(curves, cycle(PALETTE), cycle(("solid", "dash", "dot", "dashdot")))):
        x, y = [epoch + beside * (k - (len(curves) - 1) / 2) for epoch in curve["at"]], curve["y"]
        if any(curve["band"]):
            edges = [[v + sign * b for v, b in zip(y, curve["band"], strict=True)] for sign in (1, -1)]
            how = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
            traces += [{**how, "y": edges[0]}, {**how, "y": edges[1], "fill": "tonexty", "fillcolor": f"{shade}33"}]
        up, down = ([abs(end - v) for v, end in zip(y, curve[side], strict=True)] for side in ("high", "low"))
        bars = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1, "width": 3, "color": shade}
        traces.append(_lines(x, y, curve["name"], shade, dash=dash, mode="lines+markers", error_y=bars))
    xaxis = {**_counting(max(len(curve["at"]) for curve in curves)), "hoverformat": ".0f"}
    return _figure(traces, height=380, x="epoch", y=title, xaxis=xaxis, yaxis=yaxis, hovermode="closest", legend=1.02)


def sizes(table: dict[str, Any]) -> Figure:
    """Draw the oracle among the first k of every list, beside the paper's [E12 Table 2]."""
    traces = []
    for c, (name, shade) in enumerate(zip(table["header"][1:], cycle((PALETTE[1], GREY, *PALETTE[2:]))), 1):
        rows = [row for row in table["rows"] if row[c]]
        points = [float(row[0]) for row in rows], [float(row[c]) for row in rows]
        traces.append(_lines(*points, name, shade, mode="lines+markers", dash="solid" if c == 1 else "dot"))
    k = [float(row[0]) for row in table["rows"]]
    xaxis = {"type": "log", "tickvals": k, "ticktext": [f"{n:,.0f}" for n in k]}
    return _figure(traces, height=300, x="hypotheses of a list", y="BLEU of the oracle", legend=1.02, xaxis=xaxis)
