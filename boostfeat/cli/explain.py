"""The command that says why a model chose as it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.text_table import table
from ..features.options import ResourceFiles
from .carried import with_features
from .common import AllowMissing, Store, check_model, emit
from .flags import add

if TYPE_CHECKING:
    from ..lists.nbest import NBest
    from ..model.explain import Differences

_PHRASE = 24  # characters of a phrase that a table shows


def register(app: typer.Typer) -> None:
    add(app, explain)


def explain(
    store: Store,
    model: Annotated[str, typer.Option("-m", "--model", help="A model file.", show_default=False)],
    sentence: Annotated[
        int | None, typer.Option("--sentence", min=0, help="Of this id; without it, the whole list in sums.")
    ] = None,
    hyp: Annotated[
        int | None, typer.Option("--hyp", min=0, help="This hypothesis of the list, from 0, in place of the model's choice.")
    ] = None,
    against: Annotated[int | None, typer.Option("--against", min=0, help="That one, in place of the decoder's choice.")] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What is better (default: bleu, or the first quality column).")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of features and trees to show.")] = 20,
    allow_missing: AllowMissing = False,
    *,
    files: ResourceFiles,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say why a model chose a hypothesis and not the decoder's: phrase by phrase, feature by feature, tree by tree.

    The parts add up to the difference in score. Over a whole list: which templates and which features decided most choices, for
    better or worse.

    \b
    Example:
      boostfeat explain test.nbest -m model.json --sentence 12
      boostfeat explain test.nbest -m model.json
    """
    from ..core.errors import InputError
    from ..lists.choices import best_choice, decoder_choice
    from ..lists.store import read_store
    from ..model.decision import posterior_scale, ranks
    from ..model.explain import Differences, with_length
    from ..model.model import Model

    if sentence is None and not (hyp is None and against is None):
        raise InputError("--hyp, --against: expected --sentence beside them, found none; name the sentence")
    loaded = Model.load(model)
    raw = read_store(store)
    if sentence is not None:
        raw = _only(raw, sentence, store)
    nbest = with_features(raw, loaded, files, where=store, quiet=quiet)
    check_model(loaded, nbest, store, allow_missing=allow_missing, quiet=quiet)
    ranked = ranks(loaded.config, nbest, loaded.decision_function(nbest))
    chosen, other = best_choice(nbest, ranked), decoder_choice(nbest)
    by_risk = posterior_scale(loaded.config) is not None
    if sentence is not None:
        if not nbest.n_hyps:
            raise InputError(f"--sentence {sentence}: expected a list with hypotheses, found an empty one; name another")
        chosen, other = (_given(nbest, k, flag, own) for k, flag, own in ((hyp, "--hyp", chosen), (against, "--against", other)))
    loaded, nbest = with_length(loaded, nbest)
    found = Differences.of(loaded, nbest, chosen, other)
    gains = _gains(raw, metric, chosen, other)
    if sentence is not None:
        expected = [100 * ranked[k].item() for k in (chosen, other)] if by_risk else None
        rival = "decoder" if against is None else "other"
        _show_one(found, nbest, chosen, other, gains, top, expected=expected, rival=rival, as_json=as_json)
    else:
        of_differing = None if gains is None else gains[found.sentences]
        _show_list(found, nbest, of_differing, top, by_risk=by_risk, as_json=as_json)


def _only(nbest: NBest, sentence: int, store: str) -> NBest:
    import numpy as np

    from ..core.errors import InputError

    at = np.flatnonzero(nbest.ids == sentence)
    if not len(at):
        raise InputError(f"--sentence: expected an id of {store}, found {sentence}; see 'boostfeat info'")
    return nbest.take(at)


def _given(nbest: NBest, k: int | None, flag: str, own: Any) -> Any:
    import numpy as np

    from ..core.errors import InputError

    if k is None:
        return own
    if k >= nbest.n_hyps:
        raise InputError(f"{flag}: expected a hypothesis of the list, below {nbest.n_hyps}, found {k}")
    return np.array([k])


def _gains(nbest: NBest, metric: str | None, chosen: Any, other: Any) -> Any:
    """[S] how much better the chosen hypotheses are, in the points of 'score'; None where nothing says what is good."""
    import numpy as np

    from ..lists.quality import default_metric
    from ..metrics.metric import metric_of

    if metric is None and not (nbest.has_stats or nbest.quality.names):
        return None
    by = metric_of(metric or default_metric(nbest), nbest)
    gain = 100 * by.unit(nbest) * by.gain(nbest)
    return np.where(chosen >= 0, gain[chosen] - gain[other], 0.0) if len(gain) else np.zeros(len(chosen))


def _show_one(
    found: Differences,
    nbest: NBest,
    chosen: Any,
    other: Any,
    gains: Any,
    top: int,
    *,
    expected: list[float] | None,
    rival: str,
    as_json: bool,
) -> None:
    from ..lists.choices import texts

    both = {"chosen": texts(nbest, chosen)[0], rival: texts(nbest, other)[0]}
    source = nbest.source[0].as_py() if len(nbest.source) else ""
    result: dict[str, Any] = {"id": int(nbest.ids[0]), "source": source, **both, "expected": expected}
    if not len(found.sentences):
        emit(
            {**result, "difference": 0.0, "gain": None, "units": [], "features": []},
            f"both are the same hypothesis: {both['chosen']}",
            as_json=as_json,
        )
        return
    features, units = found.features(0), found.units(0)
    result |= {
        "difference": float(found.totals[0]),
        "gain": None if gains is None else float(gains[0]),
        "units": units,
        "features": [{"name": name, "part": part, "tree": name in found.trees} for name, part in features],
    }
    better = "" if gains is None else f"; by the metric {gains[0]:+.1f} points"
    rows = [[u["in"], _cut(u["src"]), _cut(u["tgt"] or ""), f"{u['linear']:+.4f}", f"{u['trees']:+.4f}"] for u in units]
    parts = [[name, f"{part:+.4f}"] for name, part in features[:top]]
    if rest := features[top:]:
        parts.append([f"{len(rest)} more", f"{sum(part for _, part in rest):+.4f}"])
    parts.append(["together", f"{result['difference']:+.4f}"])
    side = "ahead" if result["difference"] >= 0 else "behind"
    text = [*([f"source:  {source}"] if source else []), f"chosen:  {both['chosen']}", f"{rival + ':':8} {both[rival]}"]
    text.append(f"score: {side} by {abs(result['difference']):.4f}{better}")
    if expected is not None:
        text.append(f"minimum Bayes risk decides: BLEU+1 that the model expects, {expected[0]:.2f} and {expected[1]:.2f}")
    text.append("")
    if rows:
        text += [table(rows, header=["in", "source", "target", "linear", "trees"], right=(3, 4)), ""]
    emit(result, "\n".join([*text, table(parts, header=["feature or tree", "adds"], right=(1,))]), as_json=as_json)


def _cut(phrase: str | None) -> str:
    if phrase is None:
        return "(hypothesis)"
    return phrase if len(phrase) <= _PHRASE else phrase[: _PHRASE - 3] + "..."


def _show_list(found: Differences, nbest: NBest, gains: Any, top: int, *, by_risk: bool, as_json: bool) -> None:
    import numpy as np

    from ..features.groups import feature_kinds
    from ..model.explain import LENGTH

    n = len(found.sentences)
    known = np.zeros(n) if gains is None else gains
    groups = {name: of for name, (of, _) in feature_kinds(nbest).items()} | dict.fromkeys(found.trees, "trees")
    groups[LENGTH] = LENGTH
    result: dict[str, Any] = {"sentences": len(nbest), "changed": n}
    if gains is not None:
        result |= {"better": int((gains > 0).sum()), "worse": int((gains < 0).sum())}
    if by_risk:
        result["lower_score"] = int((found.totals <= 0).sum())
    result |= {"groups": found.group_movers(groups, known), "movers": found.movers(known)}
    how = "" if gains is None else f": {result['better']:,} are better, {result['worse']:,} worse"
    text = [f"of {len(nbest):,} choices {n:,} are not the decoder's{how}"]
    if by_risk:
        lower = f"{result['lower_score']:,} of them have no higher score"
        text.append(f"minimum Bayes risk decides: {lower}, and nothing below decided them")
    points = ["better", "worse", "points"] if gains is not None else []

    def row(mover: dict[str, Any], *first: str) -> list[str]:
        more = [str(mover["better"]), str(mover["worse"]), f"{mover['gain']:+.2f}"] if points else []
        return [*first, str(mover["decided"]), *more]

    if result["movers"]:
        by_group = [row(m, m["name"], f"{m['features']:,}") for m in result["groups"]]
        by_name = [row(m, m["name"]) for m in result["movers"][:top]]
        text += ["", table(by_group, header=["template", "features", "decided", *points])]
        text += ["", table(by_name, header=["feature or tree", "decided", *points]), ""]
        mean = "; points are the mean of what these choices gain by the metric" if points else ""
        text.append(f"decided: without it the decoder's hypothesis would be ahead{mean}")
    emit(result, "\n".join(text), as_json=as_json)
