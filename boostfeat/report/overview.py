"""The page on systems as a whole: results, curves, duels, levels, buckets, lengths, and how to make them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..compare.table import BESIDE
from ..core.arrays import F64, I64, Array
from ..core.text import split_words
from ..lists.choices import texts
from ..lists.nbest import strings
from ..metrics.bleu import HYP_SUM, REF_SUM, brevity_penalty, corpus_bleu
from ..metrics.metric import metric_of, shown
from ..metrics.significance import approximate_randomisation, exact_sums
from ..model.model import Model
from .run_folder import FinishedRun, FinishedSystem

LENGTHS = (1, 6, 11, 16, 21, 31, 41)  # first value of each bucket; the last is open
SIZES = (1, 2, 11, 51, 101, 201, 501)
RANKS = {1: "1", 2: "2–5", 6: "6–20", 21: "21–100", 101: "101+"}
SETS = ("dev", "select", "test")


def metric(run: FinishedRun) -> dict[str, Any]:
    """Return the metric that the page is about, and the others."""
    names = [name for name in run.systems[0].row.test if name not in (run.metric.name, *BESIDE)]
    return {
        "name": run.metric.name,
        "title": shown(run.metric.name),
        "gain": run.gain_name,
        "sign": run.metric.sign,
        "others": [{"name": name, "title": shown(name), "lower": run.scorer.metric(name).lower_is_better} for name in names],
        "references": run.test.has_stats,
    }


def headline(run: FinishedRun) -> dict[str, Any]:
    """Whether ours is better than what the user has, the decoder's or the list's first choice, and than other systems."""
    ours = run.ours
    test = {s.name: s.row.score("test", run.metric.name) for s in run.systems}
    numbered = {name: value for name, value in test.items() if value is not None}
    first = run.score(run.decoder)
    rest = {s.name: s for s in (run.linear, run.rival) if s is not None and s is not ours and s.row.method != "decoder"}
    return {
        "ours": ours.name,
        "linear": run.linear.name,
        "score": test[ours.name],
        "best": max(numbered, key=lambda n: run.metric.sign * numbered[n]) if numbered else None,
        "have": "the decoder" if run.test.has_scores or run.system("decoder") else "the lists' first hypotheses",
        "gain": _difference(test[ours.name], first),
        "p": randomisation_p(run, ours.chosen, run.decoder),
        "gap": ours.row.score("test", "oracle_gap"),
        "others": [
            {"name": name, "gain": _difference(test[ours.name], test[name]), "p": randomisation_p(run, ours.chosen, s.chosen)}
            for name, s in rest.items()
        ],
        "sentences": len(run.test),
        "hypotheses": run.test.n_hyps,
    }


def results(run: FinishedRun) -> list[dict[str, Any]]:
    """The table: what results.json holds, with the difference to the linear row."""
    name = run.metric.name
    base = run.linear.row.score("test", name)
    others = [o for o in run.systems[0].row.against if any(s.row.against.get(o) is not None for s in run.systems)]
    keys = ("name", "method", "feature_set", "level", "features", "trees", "p_bootstrap", "p_stratified", "confidence")
    return [
        {
            **{key: getattr(s.row, key) for key in (*keys, "seconds", "search_seconds", "peak_mb", "sd", "same_as")},
            "against": {other: s.row.against.get(other) for other in others},
            "more": _more_tests(s, name),
            **{which: dict(getattr(s.row, which) or {}) for which in SETS},
            "gain": None if s is run.linear else _difference(s.row.score("test", name), base),
            "runs": len(s.row.runs),
        }
        for s in run.systems
    ]


def waterfalls(run: FinishedRun) -> list[dict[str, Any]]:
    """Return what each part of a model is worth on the lists that chose, of every system that knows it."""
    known = {s.name: s.model.config["waterfall"] for s in run.systems if s.model and "waterfall" in s.model.config}
    return [{"system": name, **about, "metric": shown(about["metric"])} for name, about in known.items()]


def curves(run: FinishedRun) -> list[dict[str, Any]]:
    """Learning curves of all systems that have them."""
    rows = ((s.name, learning_curve(s.model)) for s in run.systems if s.model)
    return [{"system": name, **row} for name, row in rows if row]


def learning_curve(model: Model) -> dict[str, Any] | None:
    """Return rounds or epochs, whatever of loss, dev, select and ρ the history has, and where it stopped."""
    history = [row for row in model.history if not row.get("bag")]  # of bags, the first
    step = next((k for k in ("round", "epoch") if history and k in history[0]), None)
    if step is None:
        return None
    stop = model.config.get("best_round" if step == "round" else "epoch")
    return {
        "step": step,
        "metric": model.config.get("metric", ""),
        "at": [row.get(step) for row in history],
        "stop": stop if isinstance(stop, int) else None,
        **{k: [row.get(k) for row in history] for k in ("loss", "dev", "select", "rho") if any(k in r for r in history)},
    }


def duels(run: FinishedRun) -> list[dict[str, Any]]:
    """Pairs of systems sentence by sentence: gains over the decoder's choice, wins, ties and losses."""
    a, base = run.ours, run.gains(run.decoder)
    known = {s.name: s for s in (run.rival, run.linear, run.system("decoder")) if s is not None and s is not a}
    out = []
    for b in list(known.values()) or [s for s in run.systems if s is not a][-3:]:
        mine, theirs = run.gains(a.chosen), run.gains(b.chosen)
        difference = mine - theirs
        wins, losses = int((difference > 1e-9).sum()), int((difference < -1e-9).sum())
        out.append({
            "a": a.name,
            "b": b.name,
            "x": rounded(theirs - base),
            "y": rounded(mine - base),
            "difference": rounded(difference),
            "wins": wins,
            "losses": losses,
            "ties": len(difference) - wins - losses,
            "same": int((a.chosen == b.chosen).sum()),
            "mean": float(difference.mean()) if len(difference) else 0.0,
            "p": randomisation_p(run, a.chosen, b.chosen),
        })  # fmt: skip
    return out


def randomisation_p(run: FinishedRun, a: I64, b: I64) -> float:
    """p of the difference between choices by the metric on test, by approximate randomisation."""
    rows = [exact_sums(run.scorer.rows(chosen, run.metric)) for chosen in (a, b)]
    return approximate_randomisation(*rows, metric=run.metric)


def levels(run: FinishedRun) -> dict[str, Any]:
    """Return what folds said of the trees of each boosted system, and ours beside its rival (see ``duels``)."""
    ours, rival, agreement = run.ours, run.rival, None
    if rival is not None and ours is not rival and ours.model is not None and ours.model.level == "local":
        difference = run.metric.sign * (run.score(ours.chosen) - run.score(rival.chosen))
        have_trees = [bool(s.model and s.model.trees) for s in (ours, rival)]
        agreement = {"ours": ours.name, "rival": rival.name, "have_trees": have_trees, "difference": difference}
    return {"systems": [told for s in run.systems if s.model and (told := folded(run, s))], "agreement": agreement}


def folded(run: FinishedRun, system: FinishedSystem) -> dict[str, Any] | None:
    """Numbers of trees on folds of the training list, where they chose: none, the best, and what was kept."""
    assert system.model is not None
    why, name = system.model.config.get("tree_count"), str(system.model.config.get("metric"))
    if why is None or not any(why["trees"]):  # another rule chose, or none were wanted
        return None
    scores, counts, sign = why[name], list(why["trees"]), metric_of(name, run.test).sign
    return {
        "system": system.name,
        "level": system.model.level,
        "by": "the select list" if system.model.config.get("chosen_by") == "select" else "folds of its training list",
        "rule": str(why["rule"]),
        "metric": shown(name),
        "trees": len(system.model.trees),
        "most": counts[-1],
        "without": scores[0],
        "score": scores[0] + sign * why["gain"],
        "best_score": scores[counts.index(why["best"])],
        **{key: why[key] for key in ("gain", "gain_error", "best", "best_gain", "best_error")},
        "worse_than": system.model.config.get("kept"),
    }


def buckets(run: FinishedRun) -> dict[str, Any]:
    """The metric over the decoder's by source length and list size; share and mean gain by rank of the choice."""
    nb = run.test
    lengths, by = _word_counts(nb.source), "source words"
    if not lengths.any() and nb.has_stats:
        lengths, by = run.scorer.rows(run.decoder, "bleu")[:, REF_SUM], "reference words"
    elif not lengths.any():
        lengths, by = _word_counts(strings(texts(nb, run.decoder))), "words of the decoder's choice"
    others = [s for s in run.systems if not np.array_equal(s.chosen, run.decoder)]
    return {
        "length": {"by": by, **_bucketed(run, others, lengths, LENGTHS)},
        "size": {"by": "hypotheses in the list", **_bucketed(run, others, np.diff(nb.hyp_ptr), SIZES)},
        "rank": _ranks(run, others),
    }


def _bucketed(run: FinishedRun, systems: list[FinishedSystem], values: Array, starts: tuple[int, ...]) -> dict[str, Any]:
    bucket, metric = bucket_of(values, starts), run.metric
    used = [k for k in range(len(starts)) if (bucket == k).any()]
    rows = []

    def scores(chosen: I64) -> F64:
        own = run.scorer.rows(chosen, metric)
        return metric.points * metric.sign * np.array([float(metric.score(own[bucket == k].sum(axis=0))) for k in used])

    base = scores(run.decoder)
    for s in systems:
        gains = scores(s.chosen) - base
        rows.append({"system": s.name, "gain": rounded(gains, 3)})
    ranges = [(int(values[bucket == k].min()), int(values[bucket == k].max())) for k in used]
    labels = [str(low) if low == high else f"{low}–{high}" for low, high in ranges]
    return {"labels": labels, "count": [int((bucket == k).sum()) for k in used], "rows": rows}


def bucket_of(values: Array, starts: tuple[int, ...]) -> I64:
    """The bucket of each value; those of less than a fiftieth of all join a neighbour: alone they are noise."""
    kept = list(range(len(starts)))
    while True:
        bucket = np.searchsorted([starts[k] for k in kept], values, side="right") - 1
        counts = np.bincount(np.maximum(bucket, 0), minlength=len(kept))
        least = int(counts.argmin())
        if len(kept) == 1 or 50 * counts[least] >= len(values):
            return np.maximum(bucket, 0)
        del kept[max(least, 1)]


def _ranks(run: FinishedRun, systems: list[FinishedSystem]) -> dict[str, Any]:
    base = run.gains(run.decoder)
    bucket = np.full((len(systems), len(base)), -1)
    for row, s in zip(bucket, systems, strict=True):
        some = s.chosen >= 0
        row[some] = np.searchsorted(list(RANKS), run.rank[s.chosen[some]], side="right") - 1
    used = [k for k in range(len(RANKS)) if (bucket == k).any()]
    rows = []
    for at, s in zip(bucket, systems, strict=True):
        difference, inside = run.gains(s.chosen) - base, [at == k for k in used]
        rows.append({
            "system": s.name,
            "share": rounded(np.array([100 * i.mean() for i in inside])),
            "gain": [round(float(difference[i].mean()), 3) if i.any() else None for i in inside],
        })  # fmt: skip
    return {"labels": [label for k, label in enumerate(RANKS.values()) if k in used], "rows": rows}


def lengths(run: FinishedRun) -> dict[str, Any]:
    """Split BLEU into BP · precision: a system that only got the length right shows here. It takes references."""
    if not run.test.has_stats:
        return {"systems": [], "sets": []}
    base = run.scorer.rows(run.decoder, "bleu")[:, HYP_SUM]
    out = []
    for name, chosen in [*((s.name, s.chosen) for s in run.systems), ("oracle", run.oracle)]:
        rows = run.scorer.rows(chosen, "bleu")
        sums = rows.sum(axis=0).astype(np.float64)
        whole = sums.copy()
        whole[8] = whole[10] = max(whole[9], 1.0)  # as long as the reference: no penalty, so BLEU is the precision alone
        precision = float(corpus_bleu(whole))
        shift = rows[:, HYP_SUM] - base
        out.append({
            "system": name,
            "ratio": float(sums[8] / sums[9]) if sums[9] else None,
            "precision": 100 * precision,
            "bp": brevity_penalty(sums),
            "strict_bp": brevity_penalty(sums, strict=True),
            "shift": {int(k): int(n) for k, n in zip(*np.unique(np.clip(shift, -8, 8), return_counts=True), strict=True)},
            "mean_shift": float(shift.mean()),
            "shorter": float((shift < 0).mean()),
            "longer": float((shift > 0).mean()),
        })  # fmt: skip
    sets = [{"system": s.name, **{w: s.row.score(w, "length_ratio") for w in SETS}} for s in run.systems]
    return {"systems": out, "sets": sets}


def experiments(run: FinishedRun) -> dict[str, Any]:
    """Return curves of all systems that have them: MIRA's strategies by epoch [E12], and the spread of scores [EMR13]."""
    strategies, spreads = list[dict[str, Any]](), list[dict[str, Any]]()
    for s in run.systems:
        if not any("oracle" in row or "spread_mean" in row for row in (s.model.history if s.model else ())):
            continue
        histories = run.histories(s)
        if curve := _curve(s.name, histories, "dev", "prediction", "oracle"):
            strategies.append(curve)
        ends = [[{**r, "low": r["spread_mean"] - r["spread_sd"], "high": r["spread_mean"] + r["spread_sd"]}
                 for r in history if "spread_mean" in r] for history in histories]  # fmt: skip
        if curve := _curve(s.name, ends, "spread_mean", "low", "high"):
            spreads.append(curve)
    return {"strategies": strategies, "spreads": spreads}


def _curve(name: str, histories: Sequence[Sequence[Mapping[str, Any]]], *keys: str) -> dict[str, Any] | None:
    """Return the means over runs of a value and of the ends of its bar by epoch, and the deviation of the value over runs."""
    n = min((sum(all(key in row for key in keys) for row in history) for history in histories), default=0)
    if not n:
        return None
    values = np.array([[[row[key] for key in keys] for row in history[:n]] for history in histories])  # [runs, epochs, 3]
    y, low, high = values.mean(axis=0).T
    band = values[:, :, 0].std(axis=0, ddof=1) if len(values) > 1 else np.zeros(n)
    parts = {"y": y, "low": low, "high": high, "band": band}
    return {"name": name, "at": [row["epoch"] for row in histories[0][:n]], **{k: rounded(v, 4) for k, v in parts.items()}}


def reproduction(run: FinishedRun) -> dict[str, Any]:
    """The command, what it read, and what was tried and chosen for each system."""
    named = ("command", "version", "trials", "seeds", "signatures", "versions")
    return {
        **{name: run.config[name] for name in named},
        "inputs": [{"set": name, **row} for name, row in run.config["inputs"].items()],
        "systems": [
            {"system": s.name, "signature": s.model.signature if s.model else None, "chosen": s.row.chosen, "tried": s.row.tried,
             "runs": s.row.runs}
            for s in run.systems
        ],
        "config": dict(run.config),
    }  # fmt: skip


# -- small pieces ------------------------------------------------------------------------------------------------------


def rounded(values: Array, digits: int = 2) -> list[float]:
    """Numbers for the page: few digits, and no -0."""
    return (np.round(np.asarray(values, np.float64), digits) + 0.0).tolist()


def _word_counts(texts: Any) -> I64:
    return np.array([len(split_words(text)) for text in texts.to_pylist()], np.int64)


def _more_tests(system: FinishedSystem, metric: str) -> list[tuple[str, float | None]]:
    """The metric on the test lists after the first, and the mean of all."""
    tests = system.row.tests or {}
    further = [(which, scores.get(metric)) for which, scores in list(tests.items())[1:]]
    return [*further, ("mean", system.row.score("mean", metric))] if further else []


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
