"""The rows of a comparison: scores, significance against a baseline, and the table that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..metrics.significance import (
    TRIALS,
    bootstrap_p,
    bootstrap_sums,
    confidence_interval,
    shuffle_p,
    shuffle_sums,
    stratified_sums,
)
from .systems import System

LISTS = ("dev", "select", "test")
METRICS = ("bleu", "bleu-sbp")  # that are tested
SPARED = ("MB", "p (boot)", "oracle gap", "length", "TER", "chrF", "dev", "seconds", "95%")  # first left out where space is short


def tabulate(
    systems: Sequence[System],
    states: Mapping[str, Mapping[str, Any]],
    rows: Mapping[str, I64],
    *,
    baseline: str,
    trials: int = TRIALS,
    seed: int,
) -> list[dict[str, Any]]:
    """results.json: an object for each system, from what is kept of it (``states``) and the statistics rows [runs, S, 11] of its
    choices on the reported list: test, or select where there is no test list. Scores are means over runs; the interval and the
    tests of single outputs are of the first run.
    """
    sums = {system.name: bootstrap_sums(rows[system.name][0], trials=trials) for system in systems}
    results = []
    for system in systems:
        name, state = system.name, states[system.name]
        p: dict[str, dict[str, float | None]] = {}
        if baseline in rows and name != baseline:
            p = p_values(rows[baseline], rows[name], sums[baseline], sums[name], trials=trials)
        runs, of_first = state["scores"], p.get("bleu-sbp", {})
        reported = "test" if "test" in runs[0] else "select"
        results.append({
            "name": name,
            "method": system.method,
            "feature_set": system.feature_set,
            "level": system.level,
            "features": state["features"],
            "trees": state["trees"],
            **{which: _mean([scores[which] for scores in runs]) if which in runs[0] else None for which in LISTS},
            "reported": reported,
            "p_value": of_first.get("randomisation"),
            "p_bootstrap": of_first.get("bootstrap"),
            "p_stratified": of_first.get("stratified"),
            "p_values": p,
            "confidence": list(confidence_interval(sums[name], "bleu-sbp")),
            "seconds": state["seconds"],
            "peak_mb": state["peak_mb"],
            "chosen": state["chosen"],
            "tried": state["tried"],
            "runs": [{"seed": seed + r, **scores} for r, scores in enumerate(runs)],
            "sd": {m: float(np.std([s[reported][m] for s in runs], ddof=1)) for m in METRICS} if len(runs) > 1 else None,
            "model": state["models"][0] if state["models"] else None,
            "choice": state["choices"][0],
        })  # fmt: skip
    return results


def p_values(a: I64, b: I64, sums_a: F64, sums_b: F64, *, trials: int) -> dict[str, dict[str, float | None]]:
    """All tests for both metrics of systems with rows [runs, S, 11] and bootstrap sums [T, 11] of their first runs."""
    shuffled = shuffle_sums(a[0], b[0], trials=trials)
    dealt = stratified_sums(a, b, trials=trials) if max(len(a), len(b)) > 1 else None
    return {
        metric: {
            "randomisation": shuffle_p(*shuffled, a=a[0], b=b[0], metric=metric),
            "bootstrap": bootstrap_p(sums_a, sums_b, a=a[0], b=b[0], metric=metric),
            "stratified": shuffle_p(*dealt, a=a, b=b, metric=metric) if dealt else None,
        }
        for metric in METRICS
    }


def _mean(runs: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    columns = {name: [run[name] for run in runs] for name in runs[0]}
    return {name: None if None in values else float(np.mean(values)) for name, values in columns.items()}  # type: ignore[arg-type]


def table_rows(results: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """(header, cells) of the table that people read; all columns after dev and select are of the test list, if there is one."""
    tested = any(r["test"] for r in results)
    several = any(len(r["runs"]) > 1 for r in results)

    def number(value: float | None, digits: int = 2) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    header = ["system", "features", "dev", *(["select", "BLEU-SBP"] if tested else ["select BLEU-SBP"]),
              *(["sd"] if several else []), "95%", "BLEU", "chrF", "TER", "length", "oracle gap", "p (AR)", "p (boot)",
              *(["p (strat)"] if several else []), "seconds", "MB"]  # fmt: skip
    rows = []
    for r in results:
        test, low_high = r[r["reported"]], r["confidence"]
        gap = "" if test["oracle_gap"] is None else f"{100 * test['oracle_gap']:.1f}%"
        rows.append([
            r["name"],
            f"{r['features'] - r['trees']} + {r['trees']}" if r["trees"] else str(r["features"]),
            number(r["dev"]["bleu-sbp"]),
            *([number(r["select"]["bleu-sbp"])] if tested else []),
            number(test["bleu-sbp"]),
            *([number(r["sd"] and r["sd"]["bleu-sbp"])] if several else []),
            f"{low_high[0]:.1f}-{low_high[1]:.1f}",
            *(number(test[m]) for m in ("bleu", "chrf", "ter")),
            number(test["length_ratio"], 3),
            gap,
            number(r["p_value"], 4),
            number(r["p_bootstrap"], 4),
            *([number(r["p_stratified"], 4)] if several else []),
            number(r["seconds"], 1),
            number(r["peak_mb"], 0),
        ])  # fmt: skip
    return header, rows


def fitting(header: list[str], rows: list[list[str]], *, width: int) -> tuple[list[str], list[list[str]], list[str]]:
    """(header, rows, names left out): the columns of the table that fit into lines of this width; SPARED ones go first."""
    kept, left_out = list(range(len(header))), []
    for name in SPARED:
        if sum(2 + max(len(row[c]) for row in (header, *rows)) for c in kept) - 2 <= width:
            break
        kept.remove(header.index(name))
        left_out.append(name)
    return [header[c] for c in kept], [[row[c] for c in kept] for row in rows], left_out


def markdown_table(results: Sequence[Mapping[str, Any]]) -> str:
    header, rows = table_rows(results)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def latex_table(results: Sequence[Mapping[str, Any]]) -> str:
    """For \\input in a document with the package booktabs."""
    header, rows = table_rows(results)

    def line(cells: Sequence[str]) -> str:
        return " & ".join("".join(f"\\{c}" if c in "%&#_$" else c for c in cell) for cell in cells) + " \\\\"

    columns = "l" + "r" * (len(header) - 1)
    parts = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", line(header), "\\midrule", *map(line, rows), "\\bottomrule"]
    return "\n".join([*parts, "\\end{tabular}"]) + "\n"
