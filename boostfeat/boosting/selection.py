"""Nested selection: folds of the training list choose the structure, the select list then chooses the stopping point.

So that nothing is chosen twice on the same sentences: each fold is scored by models that have not seen it, and the counts of all
folds add up to one corpus. All the sentences of dev take part, where select alone would be small beside the differences sought.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..lists.choices import best_choice, chosen_stats
from ..lists.nbest import NBest
from ..metrics.bleu import corpus_bleu, sum_stats
from .boost import BoostOptions, boost
from .recipes import with_changes
from .stopping import staged_scores

STRUCTURES: tuple[Mapping[str, Any], ...] = ({"max_leaves": 2}, {"max_leaves": 4}, {"max_leaves": 8})


class Choice(NamedTuple):
    """A structure and how it did on the folds."""

    changes: Mapping[str, Any]
    gain: float  # the best of the curve
    curve: list[float]  # metric (0..100) of all folds together after each round


def fold_curve(dev: NBest, options: BoostOptions, *, folds: int, seed: int, threads: int = 1) -> F64:
    """[rounds + 1] the metric of held-out folds together, after 0, 1, 2, ... rounds."""
    if options.metric not in ("bleu", "bleu-sbp"):
        raise InputError(f"folds: expected metric bleu or bleu-sbp, whose counts add up, found {options.metric}")
    if not 2 <= folds <= len(dev):
        raise InputError(f"folds: expected from 2 to the {len(dev)} sentences of the list, found {folds}")
    once = with_changes(options, {"bags": 1, "length": False})
    total = np.zeros((once.rounds + 1, 11))
    for train, held in dev.split_sentences(folds, seed=seed):
        model, rest = boost(dev.take(train), None, once, seed=seed, threads=threads), dev.take(held)
        sums: list[I64] = [sum_stats(chosen_stats(rest, best_choice(rest, s))) for s in staged_scores(model, rest)]
        total += sums + [sums[-1]] * (len(total) - len(sums))  # where no tree was left to find, the last model stays
    return 100 * corpus_bleu(total, strict=once.metric == "bleu-sbp")


def choose_structure(
    dev: NBest,
    options: BoostOptions,
    structures: Sequence[Mapping[str, Any]] = STRUCTURES,
    *,
    folds: int,
    seed: int = 0,
    threads: int = 1,
    report: Callable[[Choice], None] = lambda choice: None,
) -> Choice:
    """The structure (changes of options) whose curve over folds is highest; the first among equals."""
    choices = []
    for changes in structures:
        curve = fold_curve(dev, with_changes(options, changes), folds=folds, seed=seed, threads=threads)
        choices.append(Choice(changes, float(curve.max()), curve.tolist()))
        report(choices[-1])
    return max(choices, key=lambda choice: choice.gain)
