"""The number of trees, none included, chosen by folds of the training list before the model is learnt.

A select list alone is small, and trees that gain on it by chance lose elsewhere. Folds hold out every sentence once; what their
models choose also says how the model is to decide, how far margins are to be trusted, and whether anything was learnt that the
list's ranking does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, Array
from ..core.machine import give_back
from ..lists.choices import Scorer, best_choice
from ..lists.nbest import NBest
from ..metrics.held_out import HeldOutRows
from ..metrics.metric import metric_of
from ..model.calibration import KEY as CALIBRATION
from ..model.calibration import calibration, margins
from ..model.length import Length, learn_length
from ..model.model import Model
from .decision import Decisions, chosen_decision, decisions, is_to_choose
from .options import BoostOptions
from .stopping import ranking_of, staged_scores

FOLDS = 3  # fits of two thirds of the sentences each: with the last fit, about three times its time
STEPS = 30  # numbers of trees that are looked at, beside none

Fit = Callable[[NBest, BoostOptions], Model]


@dataclass(frozen=True)
class HeldOutChoices:
    """What models choose for S sentences that they were not trained on, after each of K numbers of trees."""

    rows: list[Array]  # [K][S, n] statistics of the choices
    margin: list[F64]  # [K][S] by how much they are ahead of the first hypotheses
    first: Array  # [S, n] statistics of the first hypotheses
    ranked: Array | None  # [S, n] of the best by the list's own ranking, where that is a feature


def counts_to_try(rounds: int) -> list[int]:
    """None, and up to STEPS numbers of trees that lie evenly up to all of them."""
    return [0, *np.unique(np.linspace(0, rounds, STEPS + 1).round().astype(int))[1:].tolist()]


def chosen_tree_count(
    dev: NBest, select: NBest | None, options: BoostOptions, fit: Fit
) -> tuple[BoostOptions, Mapping[str, Any]]:
    """The options with that number of rounds which does best on held-out sentences, and why.

    Trees must gain more than a standard error over the first weights, or there are none. Else it is the last number within a
    standard error of the best: steps are small, curves are flat, and more trees average out what each took from chance.
    The models with that number say how to decide.
    """
    counts = counts_to_try(options.rounds)
    folds = Folds.of(dev, select, options, fit)
    choices = held_out_choices(folds, options.metric, counts)
    metric = metric_of(options.metric, dev)
    held_out = HeldOutRows(metric, choices.rows)
    gains, best = held_out.gains, int(np.argmax(held_out.gains))
    errors = [held_out.error(best, k) for k in range(len(counts))]
    kept = held_out.last_within_error(best) if gains[best] > gains[0] + errors[0] else 0
    why = {
        "rule": "the last number of trees within a standard error of the best; none, where the best gains less than that",
        "folds": FOLDS,
        "trees": counts,
        options.metric: [round(100 * float(score), 4) for score in held_out.scores],
        "error": [round(100 * e, 4) for e in errors],
        "gain": round(100 * float(gains[kept] - gains[0]), 4),
        "gain_error": round(100 * held_out.error(kept, 0), 4),
    }
    reasons: dict[str, Any] = {"tree_count": why}
    ours, margin = choices.rows[kept], choices.margin[kept]
    if is_to_choose(options):
        found = held_out_decisions(folds, options.metric, counts[kept])
        ours, margin, decision = chosen_decision(metric, found, learn_length(dev))
        reasons |= decision
    gain = float(metric.higher(metric.score(ours.sum(axis=0))))
    if choices.ranked is not None and metric.higher(metric.score(choices.ranked.sum(axis=0))) > gain:
        why["worse_than"] = ranking_of(dev)
    if select is None and (of := calibration(metric, ours=ours, theirs=choices.first, margin=margin)):
        reasons[CALIBRATION] = asdict(of)
    return replace(options, rounds=counts[kept]), reasons


@dataclass(frozen=True)
class Folds:
    """Models of dev's folds; each has not seen its own fold, and select, which no fold trains on."""

    models: list[Model]
    lengths: list[Length | None]  # that references taught, those of each model's sentences
    held_out: list[I64]  # the sentences of dev that each model has not seen
    dev: NBest
    select: NBest | None

    @classmethod
    def of(cls, dev: NBest, select: NBest | None, options: BoostOptions, fit: Fit) -> Folds:
        alone, models, lengths, parts = replace(options, rule="best"), [], [], dev.blocks_of_sentences(FOLDS)
        for train, _ in parts:
            part = dev.take(train)
            models.append(fit(part, alone))
            lengths.append(learn_length(part))
            del part
            give_back()
        return cls(models, lengths, [held_out for _, held_out in parts], dev, select)

    def each(self, of: Callable[[Model, Length | None, NBest], Any]) -> list[Any]:
        """What a function gives for each model, and what its sentences teach of lengths, with each list that it has not seen."""
        more = [] if self.select is None else [self.select]
        unseen = ([self.dev.neighbours(held_out), *more] for held_out in self.held_out)
        known = zip(self.models, self.lengths, unseen, strict=True)
        return [of(model, length, part) for model, length, parts in known for part in parts]

    def together(self, columns: Sequence[Array]) -> Array:
        """[S, ...] columns of each model's lists, sentence by sentence; of select, the means over the models."""
        n, more = len(self.dev), 0 if self.select is None else len(self.select)
        out = np.zeros((n + more, *columns[0].shape[1:]))
        shared = [] if self.select is None else [np.arange(n, n + more)]
        places = [place for held_out in self.held_out for place in (held_out, *shared)]
        for place, column in zip(places, columns, strict=True):
            share = np.where(place < n, 1.0, 1 / FOLDS)
            out[place] += (column.T * share).T
        return out


def held_out_choices(folds: Folds, metric: str, counts: list[int]) -> HeldOutChoices:
    """For each number of trees what is chosen for every sentence."""
    parts = folds.each(lambda model, _, part: staged_choices(model, part, metric, counts))
    ranked = [part.ranked for part in parts if part.ranked is not None]
    return HeldOutChoices(
        [folds.together([part.rows[k] for part in parts]) for k in range(len(counts))],
        [folds.together([part.margin[k] for part in parts]) for k in range(len(counts))],
        folds.together([part.first for part in parts]),
        folds.together(ranked) if len(ranked) == len(parts) else None,
    )


def held_out_decisions(folds: Folds, metric: str, n_trees: int) -> Decisions:
    """What is taken for every sentence in each way to decide, by models of so many trees and what their sentences teach."""
    parts = folds.each(lambda model, length, part: decisions(model.truncated(n_trees), length, part, metric))
    ways = range(min(len(part.rows) for part in parts))
    return Decisions(
        [folds.together([part.rows[c] for part in parts]) for c in ways],
        [folds.together([part.margin[c] for part in parts]) for c in ways],
        float(np.mean([part.spread for part in parts])),
    )


def staged_choices(model: Model, nbest: NBest, metric_name: str, counts: list[int]) -> HeldOutChoices:
    """What the model chooses after so many trees; a model that ended early stays as it is."""
    scorer, metric, own = Scorer(nbest), metric_of(metric_name, nbest), ranking_of(nbest)
    found = []
    for scores in staged_scores(model, nbest, counts):
        chosen, first, margin = margins(nbest, scores)
        found.append((scorer.rows(chosen, metric), margin))
    ranked = None if own is None else scorer.rows(best_choice(nbest, nbest.global_column(own)), metric)
    return HeldOutChoices([rows for rows, _ in found], [margin for _, margin in found], scorer.rows(first, metric), ranked)
