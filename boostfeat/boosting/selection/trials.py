"""Lists that choose: a select list that is never learned from, or folds of the training lists.

A fold is a run of neighbouring sentences, which are often of one document. Every choice (templates, penalty, number of trees,
way to decide, calibration) is made by what models pick from lists that they were not trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import I64
from ...lists.nbest import NBest

FOLDS = 3  # fits of two thirds of the sentences each: with the last fit, about three times its time

Tell = Callable[[str, int, int], None]  # what is chosen, the fits or rounds done, of how many
Why = Mapping[str, Any]  # what a model's config says of choices
NO_REASONS: Why = {}


class Trial(NamedTuple):
    """Sentences of the training list to learn from, and lists that a model of them has not seen."""

    train: I64
    unseen: NBest


@dataclass(frozen=True)
class Trials:
    """The select list, or FOLDS folds of the training list."""

    dev: NBest
    select: NBest | None = None

    @property
    def by(self) -> str:
        return "folds" if self.select is None else "select"

    def __len__(self) -> int:
        return FOLDS if self.select is None else 1

    def __iter__(self):  # type: ignore[no-untyped-def]
        if self.select is not None:
            yield Trial(np.arange(len(self.dev)), self.select)
            return
        for train, held_out in self.dev.blocks_of_sentences(FOLDS):
            yield Trial(train, self.dev.neighbours(held_out))

    @property
    def are_enough(self) -> bool:
        """Whether there are sentences enough to choose by."""
        return len(self.dev) >= 2 * FOLDS if self.select is None else len(self.select) > 0
