"""A translation system: phrase table, reordering table and language model, without any weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.arrays import F64, I32
from ...features.language_model import LanguageModel, isolated_scores
from .names import base_names
from .tables import PhraseTable, read_phrase_table, with_reordering


@dataclass(frozen=True)
class System:
    """What a decoder needs besides a model. P phrase pairs, D distinct forward scores."""

    table: PhraseTable
    lm: LanguageModel
    lm_ids: I32  # [target words of the table]
    isolated: F64  # [P] ln p of each target phrase without a history
    forward: I32  # [P] row of ``ahead``, -1 without a reordering table
    ahead: F64  # [D, 3] forward reordering scores: equal ones need not be told apart in search

    @classmethod
    def load(
        cls,
        *,
        phrase_table: str | Path,
        lm: str | Path,
        reordering_table: str | Path | None = None,
        only: Iterable[str] | None = None,
    ) -> System:
        """Read the files of a system; with ``only``, what these sentences need."""
        table = read_phrase_table(phrase_table, only)
        return cls.of(table if reordering_table is None else with_reordering(table, reordering_table), LanguageModel.load(lm))

    @classmethod
    def of(cls, table: PhraseTable, lm: LanguageModel) -> System:
        ids, isolated = lm.ids(list(table.vocab)), np.empty(len(table))
        isolated_scores(lm.automaton, table.word_ptr, ids[table.words], isolated)
        if table.reordering is None:
            return cls(table, lm, ids, isolated, np.full(len(table), -1, np.int32), np.zeros((1, 3)))
        ahead, forward = np.unique(table.reordering[:, 3:], axis=0, return_inverse=True)
        return cls(table, lm, ids, isolated, forward.ravel().astype(np.int32), ahead)

    @property
    def names(self) -> tuple[str, ...]:
        """The features of Moses' n-best lists, in their order."""
        return base_names(self.table.scores.shape[1], has_reordering=self.table.reordering is not None)

    @property
    def has_counts(self) -> bool:
        return not np.isnan(self.table.count).any()
