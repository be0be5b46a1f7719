"""The translation options of a sentence under a model, and what chosen ones look like as units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import F64, I32, I64, offsets, segment_positions
from ..core.errors import InputError, clip
from ..lm.automaton import isolated_scores
from . import search as kernel
from .features import EXTRAS, Scorer
from .names import PHRASE_PENALTY, UNKNOWN, UNKNOWN_VALUE, WORD_PENALTY
from .system import System
from .trees import LM, N_CONTEXT, tree_scores


@dataclass(frozen=True)
class Unit:
    """A phrase of a derivation. Spans are half-open."""

    src: tuple[int, int]
    tgt: tuple[int, int]
    text: str
    align: str
    features: F64  # [D]
    score: float


@dataclass(frozen=True)
class Derivation:
    """A translation and how it came about."""

    text: str
    score: float
    units: tuple[Unit, ...]
    names: tuple[str, ...]  # [D]

    @property
    def features(self) -> dict[str, float]:
        """Totals over the units."""
        total = np.sum([np.zeros(len(self.names)), *(unit.features for unit in self.units)], axis=0)
        return dict(zip(self.names, total.tolist(), strict=True))


@dataclass(frozen=True)
class Lattice:
    """Options by span, the best of each first. O options, D features."""

    system: System
    scorer: Scorer
    tokens: list[str]
    row: I64  # [O] of the phrase table
    start: I64  # [O]
    end: I64  # [O]
    options: kernel.Options
    words: I32  # as options.words, in numbers of the target vocabulary; unknown words after it
    estimate: F64  # [O] score with what context is expected to add

    @classmethod
    def of(cls, system: System, scorer: Scorer, tokens: list[str], *, table_limit: int = 0) -> Lattice:
        """All options, or the ``table_limit`` best of each span by estimate. Unknown words are options of their own."""
        table, n_spans = system.table, len(tokens) * system.table.longest
        row, span = _find_rows(system, tokens)
        start, n_src = span // table.longest, span % table.longest + 1
        x = _static_features(system, scorer, row, n_src)
        score = scorer.static_scores(x, is_unknown=row == 0)
        estimate = score + _expected_context(system, scorer, tokens, row, start, x)
        keep = np.lexsort((-estimate, span))
        if table_limit:
            rank = np.arange(len(keep)) - np.searchsorted(span[keep], span[keep])
            keep = keep[rank < table_limit]
        row, start, end = row[keep], start[keep], (start + n_src)[keep]
        words, lm_words = _find_words(system, tokens, row, start)
        backward = np.zeros((len(row), 3)) if table.reordering is None else np.ascontiguousarray(table.reordering[row, :3])
        options = kernel.Options(
            span_ptr=offsets(np.bincount(span[keep], minlength=n_spans)),
            score=score[keep],
            x=x[keep],
            word_ptr=offsets(np.diff(table.word_ptr)[row]),
            words=lm_words,
            backward=backward,
            forward=system.forward[row],
            ahead=system.ahead,
        )
        return cls(system, scorer, tokens, row, start, end, options, words, estimate[keep])

    def find(self, start: int, end: int, text: str) -> int:
        """The option that translates start:end as ``text``."""
        for o in np.flatnonzero((self.start == start) & (self.end == end)).tolist():
            if self.text(o) == text:
                return int(o)
        src = " ".join(self.tokens[start:end])
        raise InputError(f"expected a phrase pair of the table, found {clip(src)} -> {clip(text)}; check the derivation")

    def text(self, o: int) -> str:
        return self.system.table.tgt[self.row[o]] if self.row[o] else self.tokens[self.start[o]]

    def edges(self, hyps: I64, tails: I64, chosen: I64) -> tuple[F64, F64]:
        """Features [R, D] and scores [R] of the edges that put options ``chosen`` [R] after hypotheses ``tails`` [R]."""
        lm, context = self.system.lm, np.empty((len(tails), N_CONTEXT))
        n = len(self.tokens)
        kernel.context_rows(lm.automaton, self.options, hyps, tails, chosen, self.start, self.end, n, lm.end, context)
        x = self.options.x[chosen]
        scores = self.options.score[chosen] + self.scorer.context_scores(context, x)
        for j, i in self.scorer.context_columns:
            x[:, j] = context[:, i]
        return x, scores

    def derivation(self, chosen: I64, x: F64, scores: F64) -> Derivation:
        """The derivation of these options, whose edges have features x [R, D] and scores [R]."""
        units: list[Unit] = []
        at = 0
        n_words, align = np.diff(self.options.word_ptr)[chosen].tolist(), self.system.table.align
        for o, n, features, score in zip(chosen.tolist(), n_words, x, scores.tolist(), strict=True):
            src = (int(self.start[o]), int(self.end[o]))
            units.append(Unit(src, (at, at + n), self.text(o), align[self.row[o]], features, score))
            at += n
        text = " ".join([unit.text for unit in units if unit.text])
        return Derivation(text, float(scores.sum()), tuple(units), self.scorer.names)


def _find_rows(system: System, tokens: list[str]) -> tuple[I64, I64]:
    """Rows [O] of the table that fit, and the span of each (first word · longest + length - 1); row 0 for unknown words."""
    table, n = system.table, len(tokens)
    rows: list[I64] = [np.zeros(0, np.int64)]
    spans: list[int] = [0]
    for i in range(n):
        for length in range(1, min(table.longest, n - i) + 1):
            found = table.rows.get(" ".join(tokens[i : i + length]), range(length == 1))
            rows.append(np.arange(found.start, found.stop))
            spans.append(i * table.longest + length - 1)
    return np.concatenate(rows), np.repeat(spans, [len(found) for found in rows])


def _find_words(system: System, tokens: list[str], row: I64, start: I64) -> tuple[I32, I32]:
    """Words of the options as numbers of the target vocabulary, and of the language model."""
    table = system.table
    words = table.words[segment_positions(table.word_ptr, row)]
    lm_words = system.lm_ids[words]
    word_ptr = offsets(np.diff(table.word_ptr)[row])
    added: dict[str, int] = {}
    for o in np.flatnonzero(row == 0):
        word = tokens[start[o]]
        words[word_ptr[o]] = table.vocab.get(word, len(table.vocab) + added.setdefault(word, len(added)))
        lm_words[word_ptr[o]] = system.lm.ids([word])[0]
    return words, lm_words


def _static_features(system: System, scorer: Scorer, row: I64, n_src: I64) -> F64:
    """[O, D]: the columns of context are 0."""
    table = system.table
    n_tgt = np.diff(table.word_ptr)[row].astype(np.float64)
    x = np.zeros((len(row), len(scorer.names)))
    first = scorer.column(PHRASE_PENALTY) + 1
    x[:, scorer.column(WORD_PENALTY)], x[:, first - 1] = -n_tgt, 1.0
    x[:, first : first + table.scores.shape[1]] = table.scores[row]
    for j, name in enumerate(scorer.names):
        if name in EXTRAS:
            x[:, j] = EXTRAS[name](n_src.astype(np.float64), n_tgt, table.count[row])
        elif name == UNKNOWN:
            x[:, j] = UNKNOWN_VALUE * (row == 0)
    return x + 0.0  # no -0.0


def _expected_context(system: System, scorer: Scorer, tokens: list[str], row: I64, start: I64, x: F64) -> F64:
    """[O] what context will add to a phrase's score, as far as one can say: its language-model score without a history, as
    in Moses, and the trees' value with that score where the phrase stands in monotone order."""
    lm = system.isolated[row]
    for o in np.flatnonzero(row == 0):
        isolated_scores(system.lm.automaton, np.array([0, 1]), system.lm.ids([tokens[start[o]]]), lm[o : o + 1])
    context = np.zeros((len(row), N_CONTEXT))
    context[:, LM] = lm
    if system.table.reordering is not None:
        context[:, 0] = system.table.reordering[row, 0]
    return scorer.context_weights[LM] * lm + tree_scores(scorer.context_trees, context, x)
