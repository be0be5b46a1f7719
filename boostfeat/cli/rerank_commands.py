"""Commands that choose from lists by a model, and say why: rerank, score, explain."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError, counted
from ..core.files import open_output
from ..core.options import REQUIRED, argument, option
from ..core.strict_json import write_json
from ..features.feature_maker import FeatureMaker, plan_of
from ..features.known_words import KnownWords
from ..features.plan import FeaturePlan
from ..formats import write
from ..formats.jsonl import stream as sentences
from ..lists.absent import HELP as ABSENT
from ..lists.absent import WAYS, with_absent
from ..lists.build import ReadOptions
from ..lists.choices import Scorer, best_choice, first_choice, texts
from ..lists.nbest import NBest
from ..lists.quality import default_metric
from ..lists.store import read_store
from ..metrics.metric import figure, metrics_of
from ..metrics.significance import bootstrap_sums, confidence_interval, exact_sums
from ..model.decision import Calibration, careful_choice, least_margin, ranks
from ..model.model import Model
from ..rerank.drift import Drift
from ..rerank.explanation import explain as explanation_of
from ..rerank.explanation import list_of
from ..rerank.reranker import Reranker
from . import checked_inputs as inputs
from .console import file, model_file, output_file, print_result, table

LIST_FORMATS = ("moses", "moses-enriched", "jsonl")
LISTED = (*(f"format={name}" for name in LIST_FORMATS), "json")  # flags that ask for lists
OF_TEXT: dict[str, Any] = {"needs": "model", "without": LISTED}


@dataclass(frozen=True, kw_only=True)
class ChoiceFlags(inputs.ModelFlags):
    """Flags of commands that choose by a model, or by the decoder's own scores."""

    store: str = argument(*inputs.LIST)
    model: str | None = model_file("Model file; default: the decoder's own score")
    missing: str | None = option(None, ABSENT, choices=WAYS, needs="model")


@dataclass(frozen=True, kw_only=True)
class RerankFlags(ChoiceFlags, inputs.OutputFlags):
    """Flags of ``rerank``."""

    format: str = option(
        "text", "text: the best of each; moses, moses-enriched, jsonl: whole lists, best first", choices=("text", *LIST_FORMATS)
    )
    output: str = output_file("File to write; '-' is standard output", default="-")
    stream: bool = option(
        False, "Answer each JSON line of '-' before reading the next", needs="model", without=("output", "format", "json")
    )
    confidence: bool = option(False, "Print the probability of being the best of its list before each text", **OF_TEXT)
    keep_first: str = option("never", "Keep the first choice where the margin is below X; auto: if that paid", **OF_TEXT)
    monitor: str | None = file(
        "Write JSON that compares choices with training: share kept, margins, missing features, unknown words", **OF_TEXT
    )


def rerank(o: RerankFlags) -> None:
    """Sort each list by a model's score, or the decoder's own.

    \b
    Example:
      boostfeat rerank test.nbest -m model.json > test.out
      boostfeat rerank test.nbest -m model.json --keep-first auto \\
        --confidence > test.tsv
      decoder --json | boostfeat rerank - --stream -m model.json
    """
    if o.as_json and o.format not in ("text", "jsonl"):
        raise InputError(f"--json: expected --format jsonl or none, found {o.format}; leave one of them out")
    format = "jsonl" if o.as_json else o.format
    if o.stream:
        _answer(o)
        return
    nbest = read_store(o.store)
    scores = model_scores(o, nbest)
    if format == "text":
        model = Model.load(o.model) if o.model else Model({})
        config = model.config
        chosen, margin = careful_choice(nbest, scores, least_margin(config, o.keep_first))
        lines = texts(nbest, chosen)
        if o.confidence:
            sure = Calibration.of(config).probabilities(nbest, scores, chosen).tolist()
            lines = [f"{share:.4f}\t{line}" for share, line in zip(sure, lines, strict=True)]
        if o.monitor:
            drift = Drift(model, Path(str(o.model)).name)
            drift.meet(nbest, scores, chosen, margin)
            write_json(Path(o.monitor), drift.report())
        if o.confidence or o.keep_first != "never":
            o.say(f"{int((margin > 0).sum()):,} of {len(nbest):,} choices are not the decoder's")
        with open_output(o.output) as out:
            out.write("".join(line + "\n" for line in lines).encode())
    else:
        inputs.say_unwritten(o, nbest, format)
        order = np.lexsort((np.arange(len(scores)), -scores, nbest.sent_of_hyp))
        with open_output(o.output) as out:
            write(replace(nbest.take_hyps(order, nbest.hyp_ptr), score=scores[order]).compact(), out, format=format)
    o.say_written(f"{counted(len(nbest), 'sentence')} reranked, {format}", o.output)


def _answer(o: RerankFlags) -> None:
    """For each list that comes in, print {"id", "choice", "text", "scores"} before the next one is read."""
    if o.store != "-":
        raise InputError(f"--stream: expected '-' (standard input), found {o.store}; give - for the list")
    reranker = Reranker(Model.load(str(o.model)), FeatureMaker(o.files, say=o.say), o.missing)
    least = least_margin(reranker.model.config, o.keep_first)
    calibration = Calibration.of(reranker.model.config) if o.confidence else None
    words = KnownWords(plan_of(reranker.model) or FeaturePlan())
    drift = Drift(reranker.model, Path(str(o.model)).name)
    for nbest in sentences(iter(sys.stdin.buffer.readline, b""), ReadOptions(warn=o.say)):
        (sent,) = nbest.ids.tolist()
        try:
            scores = reranker.scores(nbest)
            ranked = reranker.ranks(nbest, scores)
        except InputError as error:
            raise InputError(f"stdin: sentence {sent}: {error}") from None
        words.meet(source=nbest.source.to_pylist(), target=nbest.text[:1].to_pylist())
        for doubt in words.doubts():
            o.warn(f"stdin: {doubt}")
        chosen, margin = careful_choice(nbest, ranked, least)
        best = int(chosen[0]) if len(scores) else None
        text = None if best is None else nbest.text[best].as_py()
        drift.meet(nbest, ranked, chosen, margin)
        answer: dict[str, Any] = {"id": sent, "choice": best, "text": text, "scores": scores.tolist()}
        if calibration is not None:
            answer["confidence"] = float(calibration.probabilities(nbest, ranked, chosen)[0])
        print_result(answer, "", as_json=True)
        sys.stdout.flush()
    if o.monitor:
        write_json(Path(o.monitor), drift.report())


@dataclass(frozen=True, kw_only=True)
class ScoreFlags(ChoiceFlags):
    """Flags of ``score``."""

    metric: str | None = option(
        None,
        "Metrics, separated by commas: bleu, bleu-sbp, chrf, chrf++, ter, wer, cer, quality columns, and sums such as "
        "bleu-ter (default: bleu,bleu-sbp and all quality columns)",
    )


def score(o: ScoreFlags) -> None:
    """Score the reranked 1-best against the references, or by its quality columns, with 95% bootstrap intervals.

    \b
    Example:
      boostfeat score test.nbest -m model.json --metric bleu,bleu-sbp,chrf,ter
    """
    nbest = read_store(o.store)
    wanted = metrics_of(o.metric if o.metric is not None else default_metrics(nbest), nbest)
    chosen = _chosen(o, nbest)
    scorer = Scorer(nbest)
    results: dict[str, dict[str, Any]] = {}
    for metric in wanted:
        found = scorer.score(chosen, metric)
        sums = bootstrap_sums(exact_sums(scorer.rows(chosen, metric)), trials=1000) if len(nbest) else None
        interval = list(confidence_interval(sums, metric)) if sums is not None else None
        results[metric.name] = {"score": found.score, "signature": found.signature, "confidence": interval}
    rows = [[name, figure(name, r["score"]), _interval(name, r["confidence"]), r["signature"]] for name, r in results.items()]
    o.emit({"metrics": results, "sentences": len(nbest)}, table(rows, right=(1,)))


def _chosen(o: ChoiceFlags, nbest: NBest) -> I64:
    """[S] the best of each list. The output of one system leaves no choice: it needs neither scores nor a model."""
    if o.model is None and not nbest.has_scores and (nbest.hyp_ptr[1:] - nbest.hyp_ptr[:-1] <= 1).all():
        inputs.refuse_files(o.files, inputs.CARRYING)
        return first_choice(nbest)
    return best_choice(nbest, model_scores(o, nbest))


def model_scores(o: ChoiceFlags, nbest: NBest) -> F64:
    """[H] what a model file ranks by, its features computed where the list lacks them; or the decoder's own scores.

    Features that the list lacks and the model does not carry are an error.
    """
    if o.model is None:
        inputs.refuse_files(o.files, inputs.CARRYING)
        if not nbest.has_scores:
            found = "none" if np.isnan(nbest.score).all() else "some without"
            raise InputError(
                f"{o.store}: expected hypotheses with a decoder score, found {found}; give a model with -m ('boostfeat info' "
                "scores the first of each list)"
            )
        return nbest.score
    loaded = Model.load(o.model)
    if not loaded.trees and not any(loaded.weights.values()):
        o.warn(f"{o.model}: it has no trees, and no weight but 0: the order of the list stays")
    plan = plan_of(loaded)
    nbest = with_absent(nbest, o.missing, o.store, o.say)
    with inputs.feature_maker(o, o.files) as maker:
        inputs.refuse_unused(maker, plan)
        inputs.check_model(o, loaded, nbest, o.store, made=plan.features if plan else frozenset())
        lists = maker.runs_for_model(nbest, loaded, where=o.store)
        return ranks(loaded.config, nbest, np.concatenate([loaded.decision_function(part) for part in lists]))


def _interval(metric: str, low_high: list[float] | None) -> str:
    if low_high is None:
        return ""
    low, high = (figure(metric, value) for value in low_high)
    return f"{low}{'-' if low_high[0] >= 0 else ' to '}{high}"


def default_metrics(nbest: NBest) -> list[str]:
    """Return what a list is scored by where nothing is said."""
    default_metric(nbest)  # raises where there is nothing
    return [*(("bleu", "bleu-sbp") if nbest.has_stats else ()), *nbest.quality.names]


# ---------------------------------------------------------------------------------------------------------------------
# Why
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ExplainFlags(inputs.ModelFlags):
    """Flags of ``explain``."""

    store: str = argument(*inputs.LIST)
    model: str = model_file("Model file", default=REQUIRED)
    sentence: int | None = option(None, "Sentence id; default: a summary of the whole list", least=0)
    hyp: int | None = option(
        None, "Hypothesis to explain, counted from 0; default: the model's choice", least=0, needs="sentence"
    )
    against: int | None = option(None, "Hypothesis to compare with; default: the decoder's choice", least=0, needs="sentence")
    metric: str | None = option(None, "Metric that says which is better (default: bleu, or the first quality column)")
    top: int = option(20, "Maximum rows of features and trees", least=1)


def explain(o: ExplainFlags) -> None:
    """Say why a model chose a hypothesis and not the decoder's: phrase by phrase, feature by feature, tree by tree.

    The parts add up to the difference in score. Over a whole list: which templates and which features decided most choices, for
    better or worse.

    \b
    Example:
      boostfeat explain test.nbest -m model.json --sentence 12
      boostfeat explain test.nbest -m model.json
    """
    loaded = Model.load(o.model)
    raw = read_store(o.store)
    nbest = inputs.with_features(o, raw if o.sentence is None else list_of(raw, o.sentence), loaded, o.files, where=o.store)
    inputs.check_model(o, loaded, nbest, o.store)
    one = o.sentence is not None
    reasons = explanation_of(loaded, nbest, one=one, hyp=o.hyp, against=o.against, metric=o.metric, top=o.top)
    o.emit(reasons, "\n".join(p if isinstance(p, str) else table(p.rows, header=p.header, right=p.right) for p in reasons.parts))
