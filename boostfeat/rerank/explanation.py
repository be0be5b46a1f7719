"""Reasons for the choices of a model, as data and as tables: what ``explain`` prints, and what a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import html
from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..features.feature_maker import FeatureMaker
from ..features.groups import feature_kinds
from ..lists.choices import best_choice, decoder_choice, texts
from ..lists.nbest import NBest
from ..lists.quality import default_metric
from ..metrics.metric import metric_of
from ..model.decision import Decision, ranks
from ..model.explain import LENGTH, ChangedChoices, with_length
from ..model.model import Model

_PHRASE = 24  # characters of a phrase that a table shows


class ExplanationTable(NamedTuple):
    """A table of an explanation."""

    rows: list[list[str]]
    header: list[str]
    right: tuple[int, ...] | None = None  # columns of numbers; None: all but the first


class Explanation(dict[str, Any]):
    """Reasons by name, as ``boostfeat explain --json`` has them; ``parts`` are the lines and tables that people read."""

    def __init__(self, reasons: dict[str, Any], parts: Sequence[str | ExplanationTable]) -> None:
        super().__init__(reasons)
        self.parts = parts

    def _repr_html_(self) -> str:
        return html.cell(*(html.remark(p) if isinstance(p, str) else html.table(p.header, p.rows) for p in self.parts))


def list_of(nbest: NBest, sentence: int) -> NBest:
    """Return the list of a sentence, by its id."""
    place = np.flatnonzero(nbest.ids == sentence)
    if not len(place):
        raise InputError(f"sentence {sentence}: there is no list of this id; see NBest.ids or 'boostfeat info'")
    return nbest.take(place)


def explain_lists(model: Model, nbest: NBest, sentence: int | None, **how: Any) -> Explanation:
    """Explain the choices from raw lists, or that from the list of a sentence, by its id."""
    lists = nbest if sentence is None else list_of(nbest, sentence)
    return explain(model, FeatureMaker().for_model(lists, model), one=sentence is not None, **how)


def explain(
    model: Model,
    nbest: NBest,
    *,
    one: bool = False,
    hyp: int | None = None,
    against: int | None = None,
    metric: str | None = None,
    top: int = 20,
) -> Explanation:
    """Explain the choices from lists that have the model's features; of ``one`` list, part by part.

    There ``hyp`` and ``against`` may name other hypotheses, counted from 0, than the model's and the decoder's choice.
    """
    ranked = ranks(model.config, nbest, model.decision_function(nbest))
    chosen, other = best_choice(nbest, ranked), decoder_choice(nbest)
    by_risk = Decision.of(model.config).scale is not None
    if one:
        if not nbest.n_hyps:
            raise InputError(f"sentence {nbest.ids[0]}: its list is empty; name another")
        chosen, other = _named(nbest, hyp, "hyp", chosen), _named(nbest, against, "against", other)
    gains = _gains(nbest, metric, chosen, other)
    differences = ChangedChoices.of(*with_length(model, nbest), chosen, other)
    if not one:
        return _of_lists(differences, nbest, None if gains is None else gains[differences.sentences], top, by_risk=by_risk)
    both = {"chosen": texts(nbest, chosen)[0], "decoder" if against is None else "other": texts(nbest, other)[0]}
    expected = [100 * ranked[k].item() for k in (chosen, other)] if by_risk else None
    return _of_one(differences, nbest, both, None if gains is None else float(gains[0]), expected, top)


def _named(nbest: NBest, k: int | None, name: str, default: I64) -> I64:
    """Return the hypothesis that is named, or the default."""
    if k is None:
        return default
    if not 0 <= k < nbest.n_hyps:
        raise InputError(f"{name}: expected a hypothesis of the list, below {nbest.n_hyps}, found {k}")
    return np.array([k])


def _gains(nbest: NBest, metric: str | None, chosen: I64, other: I64) -> F64 | None:
    """[S] how much better the chosen hypotheses are, in the points of 'score'; None where nothing says what is good."""
    if metric is None and not (nbest.has_stats or nbest.quality.names):
        return None
    by = metric_of(metric or default_metric(nbest), nbest)
    gain = by.points * by.unit(nbest) * by.gain(nbest)
    return np.where(chosen >= 0, gain[chosen] - gain[other], 0.0) if len(gain) else np.zeros(len(chosen))


def _of_one(
    differences: ChangedChoices, nbest: NBest, both: dict[str, str], gain: float | None, expected: list[float] | None, top: int
) -> Explanation:
    """Explain one choice: what each unit, feature and tree adds to it over the other hypothesis."""
    same = not len(differences.sentences)
    features, units = ([], []) if same else (differences.features(0), differences.units(0))
    difference, source = 0.0 if same else float(differences.totals[0]), nbest.source[0].as_py() if len(nbest.source) else ""
    reasons: dict[str, Any] = {
        "id": int(nbest.ids[0]),
        "source": source,
        **both,
        "expected": expected,
        "difference": difference,
        "gain": None if same else gain,
        "units": units,
        "features": [{"name": name, "part": part, "tree": name in differences.trees} for name, part in features],
    }
    if same:
        return Explanation(reasons, [f"both are the same hypothesis: {both['chosen']}"])
    parts: list[str | ExplanationTable] = [f"source:  {source}"] if source else []
    parts += [f"{name + ':':8} {text}" for name, text in both.items()]
    better = "" if gain is None else f"; by the metric {gain:+.1f} points"
    parts.append(f"score: {'ahead' if difference >= 0 else 'behind'} by {abs(difference):.4f}{better}")
    if expected is not None:
        parts.append(f"minimum Bayes risk decides: BLEU+1 that the model expects, {expected[0]:.2f} and {expected[1]:.2f}")
    parts.append("")
    if units:
        rows = [[u["in"], _cut(u["src"]), _cut(u["tgt"] or ""), f"{u['linear']:+.4f}", f"{u['trees']:+.4f}"] for u in units]
        parts += [ExplanationTable(rows, ["in", "source", "target", "linear", "trees"], (3, 4)), ""]
    added = [[name, f"{part:+.4f}"] for name, part in features[:top]]
    if rest := features[top:]:
        added.append([f"{len(rest)} more", f"{sum(part for _, part in rest):+.4f}"])
    added.append(["together", f"{difference:+.4f}"])
    return Explanation(reasons, [*parts, ExplanationTable(added, ["feature or tree", "adds"], (1,))])


def _cut(phrase: str | None) -> str:
    if phrase is None:
        return "(hypothesis)"
    return phrase if len(phrase) <= _PHRASE else phrase[: _PHRASE - 3] + "..."


def _of_lists(differences: ChangedChoices, nbest: NBest, gains: F64 | None, top: int, *, by_risk: bool) -> Explanation:
    """Explain all choices: the templates, features and trees that decided most of them, for better or worse."""
    n = len(differences.sentences)
    known = np.zeros(n) if gains is None else gains
    groups = {name: of for name, (of, _) in feature_kinds(nbest).items()} | dict.fromkeys(differences.trees, "trees")
    groups[LENGTH] = LENGTH
    reasons: dict[str, Any] = {"sentences": len(nbest), "changed": n}
    if gains is not None:
        reasons |= {"better": int((gains > 0).sum()), "worse": int((gains < 0).sum())}
    if by_risk:
        reasons["lower_score"] = int((differences.totals <= 0).sum())
    reasons |= {"groups": differences.group_movers(groups, known), "movers": differences.movers(known)}
    how = "" if gains is None else f": {reasons['better']:,} are better, {reasons['worse']:,} worse"
    parts: list[str | ExplanationTable] = [f"of {len(nbest):,} choices {n:,} are not the decoder's{how}"]
    if by_risk:
        lower = f"{reasons['lower_score']:,} of them have no higher score"
        parts.append(f"minimum Bayes risk decides: {lower}, and nothing below decided them")
    points = ["better", "worse", "points"] if gains is not None else []

    def row(mover: dict[str, Any], *first: str) -> list[str]:
        more = [str(mover["better"]), str(mover["worse"]), f"{mover['gain']:+.2f}"] if points else []
        return [*first, str(mover["decided"]), *more]

    if reasons["movers"]:
        by_group = [row(m, m["name"], f"{m['features']:,}") for m in reasons["groups"]]
        by_name = [row(m, m["name"]) for m in reasons["movers"][:top]]
        parts += ["", ExplanationTable(by_group, ["template", "features", "decided", *points])]
        parts += ["", ExplanationTable(by_name, ["feature or tree", "decided", *points]), ""]
        mean = "; points are the mean of what these choices gain by the metric" if points else ""
        parts.append(f"decided: without it the decoder's hypothesis would be ahead{mean}")
    return Explanation(reasons, parts)
