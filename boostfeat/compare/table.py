"""The rows of a comparison: scores, significance against a baseline, and the table that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.arrays import F64, Array
from ..core.errors import InputError
from ..core.html import cell, title
from ..core.html import table as html_table
from ..metrics import significance
from ..metrics.metric import METRICS, Metric, shown
from .comparison_options import CompareOptions
from .intervals import intervals_html
from .systems import System

Row: TypeAlias = Mapping[str, Any]  # of results.json
LISTS = ("dev", "select", "test")
BESIDE = ("length_ratio", "oracle_gap", "brevity", "precision")  # of scores, what is no metric


def reported_lists(given: Iterable[str]) -> list[str]:
    """The lists that results are of: test, test2, ..., or select where there is no test list."""
    return [which for which in given if which.startswith("test")] or ["select"]


@dataclass(frozen=True)
class Rows:
    """Statistics of what systems chose on the reported list, of all metrics side by side: n columns together."""

    metrics: tuple[Metric, ...]
    of: Mapping[str, Array]  # [runs, S, n] of each system

    def scored(self, sums: Array) -> dict[str, Array]:
        """The columns of each metric of sums [..., n]."""
        ends = np.cumsum([m.width for m in self.metrics])
        return {m.name: sums[..., end - m.width : end] for m, end in zip(self.metrics, ends, strict=True)}


def tabulate(systems: Sequence[System], states: Mapping[str, Any], rows: Mapping[str, Rows], options: CompareOptions) -> Results:
    """results.json: an object for each system, from what is kept of it (``states``) and the statistics of its choices on the
    reported lists: those of test, or select where there is none. Scores are means over runs; the interval and the tests of single
    outputs are of the first run. ``p_value`` and the interval are by the metric, ``p_values`` and ``confidences`` by all. What
    stands beside the scores is of the first list; of several, ``tests`` has it for each, and ``mean`` their mean scores.
    """
    tested = {which: _tested(systems, own, options) for which, own in rows.items()}
    reported = next(iter(rows))
    results = Results()
    for system in systems:
        name, state = system.name, states[system.name]
        runs, first = state["scores"], tested[reported][name]
        of = {which: _mean([scores[which] for scores in runs]) for which in runs[0]}
        several = {"tests": {w: {**of[w], **tested[w][name]} for w in rows}, "mean": _mean([of[w] for w in rows])}
        sd = {m: float(np.std([s[reported][m] for s in runs], ddof=1)) for m in first["confidences"]} if runs[1:] else None
        results.append({
            "name": name,
            "method": system.method,
            "feature_set": system.feature_set,
            "level": system.level,
            "options": {**({"leaves": system.leaves} if system.leaves else {}), **system.changes},
            "features": state["features"],
            "active": state.get("active"),
            "trees": state["trees"],
            "epochs": state.get("epochs"),
            "metric": options.main_metric,
            **{which: of.get(which) for which in LISTS},
            **(several if len(rows) > 1 else {}),
            "reported": reported,
            **first,
            **{key: state[key] for key in ("seconds", "search_seconds", "peak_mb")},
            "chosen": state["chosen"],
            "tried": state["tried"],
            "runs": [{"seed": options.seed + r, **scores} for r, scores in enumerate(runs)],
            "sd": sd,
            "model": state["models"][0] if state["models"] else None,
            "choice": state["choices"][0],
        })  # fmt: skip
    return results


def _tested(systems: Sequence[System], rows: Rows, options: CompareOptions) -> dict[str, dict[str, Any]]:
    """Return p-values against the baseline and confidence intervals of each system on a list, by the metric and by all.

    ``against`` has p by the metric against the decoder, the baseline, and for local trees against global ones of equal features.
    """
    metric, baseline, trials = options.main_metric, options.baseline, options.trials
    sums = {system.name: significance.bootstrap_sums(rows.of[system.name][0], trials=trials) for system in systems}
    by = next(m for m in rows.metrics if m.name == metric)

    def p_against(other: str, name: str) -> float | None:
        if other not in rows.of or other == name:
            return None
        two = (rows.scored(rows.of[n][0])[metric] for n in (other, name))
        return significance.approximate_randomisation(*two, metric=by, trials=trials)

    out = {}
    for name in sums:
        compared = baseline in rows.of and name != baseline
        p = p_values(rows, baseline, name, sums, trials=trials) if compared else {}
        own, of_metric = rows.scored(sums[name]), p.get(metric, {})
        intervals = {m.name: list(significance.confidence_interval(own[m.name], m)) for m in rows.metrics}
        out[name] = {
            "p_value": of_metric.get("randomisation"),
            "p_bootstrap": of_metric.get("bootstrap"),
            "p_stratified": of_metric.get("stratified"),
            "p_values": p,
            "against": {
                "decoder": p_against("decoder", name),
                baseline: p.get(metric, {}).get("randomisation"),
                "global": p_against(name.replace("boost-local", "boost-global"), name),
            },
            "confidence": intervals[metric],
            "confidences": intervals,
        }
    return out


def p_values(rows: Rows, one: str, other: str, sums: Mapping[str, F64], *, trials: int) -> dict[str, dict[str, float | None]]:
    """All tests by all metrics of two systems; ``sums`` are bootstrap sums [T, n] of first runs. Trials are drawn once."""
    a, b = rows.of[one], rows.of[other]
    shuffled = [rows.scored(side) for side in significance.shuffle_sums(a[0], b[0], trials=trials)]
    dealt = [rows.scored(side) for side in significance.stratified_sums(a, b, trials=trials)] if max(len(a), len(b)) > 1 else None
    ours, theirs, of_a, of_b = (rows.scored(side) for side in (a, b, sums[one], sums[other]))
    out: dict[str, dict[str, float | None]] = {}
    for m in rows.metrics:
        k, how = m.name, {"a": ours[m.name][0], "b": theirs[m.name][0], "metric": m}
        out[k] = {
            "randomisation": significance.shuffle_p(shuffled[0][k], shuffled[1][k], **how),
            "bootstrap": significance.bootstrap_p(of_a[k], of_b[k], **how),
            "stratified": significance.shuffle_p(dealt[0][k], dealt[1][k], a=ours[k], b=theirs[k], metric=m) if dealt else None,
        }
    return out


def _mean(runs: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    columns = {name: [run[name] for run in runs] for name in runs[0]}
    return {name: None if None in values else float(np.mean(values)) for name, values in columns.items()}  # type: ignore[arg-type]


class Results(list[dict[str, Any]]):
    """The rows of results.json, which a notebook shows as the report does: scores with their intervals, then the table."""

    def _repr_html_(self) -> str:
        if not self:
            return cell(title("A comparison", "of no systems"))
        metric, on = self[0].get("metric") or "bleu-sbp", self[0]["reported"]
        label = f"{shown(metric)} on {on}"
        alone = [row["name"] for row in self if row["p_value"] is None]  # the baseline, whose p the others have
        drawn = intervals_html(self, alone[0] if len(alone) == 1 else "", metric, on=on, label=label)
        return cell(title(label, "with 95% bootstrap intervals"), drawn, html_table(*table_rows(self)))


class ResultColumn(NamedTuple):
    """A column of the table: its head and its cells, and of scores the metric and the p-values that mark them."""

    name: str
    text: Callable[[Row], str]
    metric: str = ""
    p: Callable[[Row], float | None] = lambda row: None


def columns_of(results: Sequence[Row]) -> list[ResultColumn]:
    """Return the columns of the table that people read; all after dev and select are of the test list, if there is one.

    Columns p are of approximate randomisation by the metric, against the system in their head; those after it are further tests
    against the baseline. Of several test lists the metric is shown of each, with its p-value, and their mean; the rest is of the
    first.
    """
    metric, on = results[0]["metric"], results[0]["reported"]
    seen = [m for m in results[0][on] if m not in (*BESIDE, metric)]
    several = any(row["runs"][1:] for row in results)
    others = [other for other in results[0]["against"] if any(row["against"][other] is not None for row in results)]

    def figure(name: str, value: Callable[[Row], float | None], digits: int = 2, **score: Any) -> ResultColumn:
        return ResultColumn(name, lambda row: "" if (found := value(row)) is None else f"{found:.{digits}f}", **score)

    def score(name: str, which: str, by: str = metric, **more: Any) -> ResultColumn:
        return figure(name, lambda row: row[which][by], metric=by, **more)

    def against(other: str) -> ResultColumn:
        return figure(f"p {other}", lambda row: row["against"][other], 4)

    def further(which: str) -> list[ResultColumn]:
        def p(row: Row) -> Any:
            return row["tests"][which].get("p_value")

        return [figure(which, lambda row: row["tests"][which][metric], metric=metric, p=p), figure(f"{which} p", p, 4)]

    more = [column for which in list(results[0].get("tests") or ())[1:] for column in further(which)]
    reported = f"select {shown(metric)}" if on == "select" else shown(metric)
    return [
        ResultColumn("system", lambda row: row["name"]),
        ResultColumn("features", lambda row: f"{row['features'] - row['trees']}" + (f"+{row['trees']}" if row["trees"] else "")),
        score("dev", "dev"),
        *([] if on == "select" else [score("select", "select")]),
        score(reported, on, p=lambda row: row["p_value"]),
        *([figure("sd", lambda row: row["sd"] and row["sd"][metric])] if several else []),
        ResultColumn("95%", lambda row: "{:.1f}-{:.1f}".format(*row["confidence"])),
        *(score(shown(m), on, m) for m in seen),
        figure("length", lambda row: row[on]["length_ratio"], 3),
        ResultColumn("oracle gap", lambda row: "" if (gap := row[on]["oracle_gap"]) is None else f"{100 * gap:.1f}%"),
        *map(against, others),
        figure("p (boot)", lambda row: row["p_bootstrap"], 4),
        *([figure("p (strat)", lambda row: row["p_stratified"], 4)] if several else []),
        *more,
        *([score("mean", "mean")] if more else []),
        figure("seconds", lambda row: row["seconds"], 1),
        figure("search", lambda row: row.get("search_seconds"), 1),
        figure("MB", lambda row: row["peak_mb"], 0),
    ]


def table_rows(results: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the head of the table and its lines."""
    columns = columns_of(results)
    return [column.name for column in columns], [[column.text(row) for column in columns] for row in results]


def fitting(header: list[str], rows: list[list[str]], *, width: int) -> tuple[list[str], list[list[str]], list[str]]:
    """(header, rows, names left out): the columns of the table that fit into lines of this width.

    Those a reader misses least are left out first, metrics besides the first two from the last one on.
    """
    metrics = header[header.index("95%") + 1 : header.index("length")]
    spared = ["MB", "search", "p (boot)", "oracle gap", "length", *metrics[:0:-1], "dev", "seconds", "95%", *metrics[:1]]
    kept, left_out = list(range(len(header))), []
    for name in spared:
        if sum(2 + max(len(row[c]) for row in (header, *rows)) for c in kept) - 2 <= width:
            break
        kept.remove(header.index(name))
        left_out.append(name)
    return [header[c] for c in kept], [[row[c] for c in kept] for row in rows], left_out


def markdown_table(results: Sequence[Row], signatures: Mapping[str, str] | None = None) -> str:
    """The table, below it rows that are one run, and the signature of every metric."""
    notes = [f"- {name} and {other} are one run" for name, other in same_rows(results)]
    notes += [f"- {shown(name)}: `{signature}`" for name, signature in (signatures or {}).items()]
    return markdown(*table_rows(results)) + ("\n" + "\n".join(notes) + "\n" if notes else "")


def same_rows(results: Sequence[Row]) -> list[tuple[str, str]]:
    """(a row's name, an earlier one's) where both are the same run."""
    return [(str(row["name"]), str(row["same_as"])) for row in results if row.get("same_as")]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


MARKS = ((0.01, "**"), (0.05, "*"))  # of p-values below
_TEX = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}", "<": "$<$", ">": "$>$"}
    | {c: f"\\{c}" for c in "%&#_${}"}
)


def latex_table(
    results: Sequence[Row], columns: Sequence[str] = (), *, name: str = "results", signatures: Mapping[str, str]
) -> str:
    """Return a table for \\input in a document with the package booktabs, by default of all scores but that on dev.

    The best of a column of scores is bold; marks on the scores of test lists are p-values against the baseline.
    """
    every = {column.name: column for column in columns_of(results)}
    if unknown := [column for column in columns if column not in every]:
        raise InputError(f"--columns: expected names of columns ({', '.join(every)}), found {unknown[0]!r}")
    columns = columns or ["system", "features", *(c.name for c in every.values() if c.metric and c.name != "dev")]
    cells = [[column.translate(_TEX), *_tex_cells(every[column], results, signatures)] for column in columns]
    top, *body = (" & ".join(line) + " \\\\" for line in zip(*cells, strict=True))
    baseline = next((other for other in results[0]["against"] if other not in ("decoder", "global")), "")
    tests = f"$^{{*}}$ $p < 0.05$, $^{{**}}$ $p < 0.01$ against {baseline.translate(_TEX)}, by approximate randomisation."
    return "\n".join([
        "% \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\begin{{tabular}}{{{'l' + 'r' * (len(columns) - 1)}}}",
        *("\\toprule", top, "\\midrule", *body, "\\bottomrule"),
        "\\end{tabular}",
        f"\\caption{{Bold: the best of a column. {tests}}}",
        f"\\label{{tab:{name}}}",
        "\\end{table}",
        "",
    ])  # fmt: skip


def _tex_cells(column: ResultColumn, results: Sequence[Row], signatures: Mapping[str, str]) -> list[str]:
    """Return the cells of a column, of scores with the best in bold and marks of significance."""
    cells, metric = [column.text(row).translate(_TEX) for row in results], column.metric
    if not metric:
        return cells
    lower = METRICS[metric].lower_is_better if metric in METRICS else "lower-is-better" in signatures.get(metric, "")
    best = (min if lower else max)((float(text) for text in cells if text), default=None)
    p_values = (1.0 if (p := column.p(row)) is None else p for row in results)
    marks = [next((f"$^{{{mark}}}$" for limit, mark in MARKS if p < limit), "") for p in p_values]
    bold = [f"\\textbf{{{text}}}" if text and float(text) == best else text for text in cells]
    return [text + mark for text, mark in zip(bold, marks, strict=True)]
