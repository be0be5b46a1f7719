"""The translation options of a sentence under a model, and what chosen ones look like as units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.arrays import F64, I32, I64, offsets, segment_positions
from ...features.language_model import isolated_scores
from ...features.plan import product_name
from ...lists.build import UnitRecord
from . import search as kernel
from .decoder_features import EXTRAS, UnitScorer
from .search_ngrams import Ngrams
from .search_templates import BACK, NEXT, PREV, Weighed, no_moves
from .search_trees import INVERSE, LM, N_CONTEXT, ORIENTATION, PER_WORD, tree_scores
from .system import CONTEXT, PHRASE_PENALTY, UNKNOWN, UNKNOWN_VALUE, WORD_PENALTY, PhraseSystem


@dataclass(frozen=True)
class Derivation:
    """A translation and how it came about. The score of a unit is that of its edge: the move onto it is part of it."""

    text: str
    score: float
    units: tuple[UnitRecord, ...]


@dataclass(frozen=True)
class Lattice:
    """Options by span, the best of each first. O options, D features."""

    system: PhraseSystem
    scorer: UnitScorer
    tokens: list[str]
    row: I64  # [O] of the phrase table
    start: I64  # [O]
    end: I64  # [O]
    options: kernel.Options
    words: I32  # as options.words, in numbers of the target vocabulary; unknown words after it
    estimate: F64  # [O] score with what context is expected to add
    moves: kernel.Moves

    @classmethod
    def of(cls, system: PhraseSystem, scorer: UnitScorer, tokens: list[str], *, table_limit: int = 0) -> Lattice:
        """All options, or the ``table_limit`` best of each span by estimate. Unknown words are options of their own.

        As in Moses, what depends on the phrase's place in the sentence has no say in which are the best, and is added then.
        """
        row, span = _find_rows(system, tokens)
        options = _ScoredOptions.of(system, scorer, tokens, row, span)
        keep = np.lexsort((-options.estimate, span))
        if table_limit:
            rank = np.arange(len(keep)) - np.searchsorted(span[keep], span[keep])
            keep = keep[rank < table_limit]
        options = options.take(keep)
        if scorer.weighed is not None and scorer.weighed.templates.placed:
            options = options.in_place(scorer.weighed)
        return options.lattice()

    def text(self, o: int) -> str:
        return self.system.table.tgt[self.row[o]] if self.row[o] else self.tokens[self.start[o]]

    def edges(self, hyps: I64, tails: I64, chosen: I64) -> tuple[F64, F64]:
        """Features [R, D] and scores [R] of the edges that put options ``chosen`` [R] after hypotheses ``tails`` [R]."""
        lm, context, added = self.system.lm, np.empty((len(tails), N_CONTEXT)), np.empty(len(tails))
        about = (lm.automaton, self.options, self.moves, self.scorer.quantiles)
        n = len(self.tokens)
        kernel.context_rows(*about, hyps, tails, chosen, self.start, self.end, n, lm.end, context, added)
        x = self.options.x[chosen]
        scores = self.options.score[chosen] + added + self.scorer.context_scores(context, x)
        x = np.ascontiguousarray(x[:, : len(self.scorer.names)])
        for name in set(CONTEXT).intersection(self.scorer.names):
            x[:, self.scorer.column(name)] = context[:, CONTEXT.index(name)]
        return x, scores

    def derivation(self, chosen: I64, x: F64, scores: F64) -> Derivation:
        """The derivation of these options, whose edges have features x [R, D] and scores [R]."""
        units, names, align, at = list[UnitRecord](), self.scorer.names, self.system.table.align, 0
        n_words = np.diff(self.options.word_ptr)[chosen].tolist()
        for o, n, row, score in zip(chosen.tolist(), n_words, x.tolist(), scores.tolist(), strict=True):
            src, features = (int(self.start[o]), int(self.end[o])), dict(zip(names, row, strict=True))
            texts = " ".join(self.tokens[slice(*src)]), self.text(o)
            units.append(UnitRecord(features, src, (at, at + n), *texts, align[self.row[o]], score))
            at += n
        text = " ".join([unit.tgt_text for unit in units if unit.tgt_text])
        return Derivation(text, float(scores.sum()), tuple(units))


@dataclass(frozen=True)
class _ScoredOptions:
    """Options under a model while a lattice is made. O options, C columns."""

    system: PhraseSystem
    scorer: UnitScorer
    tokens: list[str]
    row: I64  # [O]
    span: I64  # [O]
    x: F64  # [O, C]
    sums: dict[str, F64]  # [O] what templates add, by part
    score: F64  # [O]
    estimate: F64  # [O]

    @classmethod
    def of(cls, system: PhraseSystem, scorer: UnitScorer, tokens: list[str], row: I64, span: I64) -> _ScoredOptions:
        start, n_src = span // system.table.longest, span % system.table.longest + 1
        x, sums, none = _static_features(system, scorer, row, n_src), dict[str, F64](), np.zeros(len(row))
        if scorer.weighed is not None:
            sums, x[:, scorer.tested] = scorer.weighed.options(tokens, row, start)
            sums[PREV] += scorer.beside("previous", PREV, x)
            sums[NEXT] += scorer.beside("following", NEXT, x)
        return cls(system, scorer, tokens, row, span, x, sums, none, none).scored()

    @property
    def start(self) -> I64:
        return self.span // self.system.table.longest

    @property
    def end(self) -> I64:
        return self.start + self.span % self.system.table.longest + 1

    def take(self, rows: I64) -> _ScoredOptions:
        columns = {name: getattr(self, name)[rows] for name in ("row", "span", "x", "score", "estimate")}
        return replace(self, sums={part: x[rows] for part, x in self.sums.items()}, **columns)

    def in_place(self, weighed: Weighed) -> _ScoredOptions:
        """Add what their places in the sentence tell."""
        found = weighed.templates.at_places(self.tokens, self.row, self.start, self.end)
        self.x[:, self.scorer.tested] += weighed.tested_columns(found)
        self.sums["static"] += weighed.sum_of(found)
        options = self.scored()
        return options.take(np.lexsort((-options.estimate, self.span)))

    def scored(self) -> _ScoredOptions:
        """Fill products, scores and estimates."""
        x, sums, columns = self.x, self.sums, self.scorer.columns
        for one, other in self.scorer.products:
            x[:, columns.index(product_name((one, other)))] = x[:, columns.index(one)] * x[:, columns.index(other)]
        score = self.scorer.static_scores(x, is_unknown=self.row == 0)
        expected = _expected_context(self.system, self.scorer, self.tokens, self.row, self.start, x)
        if self.scorer.weighed is not None:
            inside = sums["static"] + sums[PREV] + sums[NEXT]
            for ngrams in self.scorer.weighed.ngrams:
                inside += ngrams.inside(*_symbols(self.system, ngrams, self.tokens, self.row, self.start))
            score = score + inside
            return replace(self, score=score, estimate=score + sums[BACK[0]] + expected)
        return replace(self, score=score, estimate=score + expected)

    def lattice(self) -> Lattice:
        system, row, start, n = self.system, self.row, self.start, len(self.tokens)
        words, lm_words = _find_words(system, self.tokens, row, start)
        reordering = system.table.reordering
        options = kernel.Options(
            span_ptr=offsets(np.bincount(self.span, minlength=n * system.table.longest)),
            score=self.score,
            x=self.x,
            word_ptr=offsets(np.diff(system.table.word_ptr)[row]),
            words=lm_words,
            backward=np.zeros((len(row), 3)) if reordering is None else np.ascontiguousarray(reordering[row, :3]),
            forward=system.forward[row],
            ahead=system.ahead,
        )
        moves = no_moves()
        if (weighed := self.scorer.weighed) is not None and weighed.has_moves:
            symbols = [_symbols(system, ngrams, self.tokens, row, start) for ngrams in weighed.ngrams]
            moves = weighed.moves(self.sums, self.end, n, symbols)
        return Lattice(system, self.scorer, self.tokens, row, start, self.end, options, words, self.estimate, moves)


def _find_rows(system: PhraseSystem, tokens: list[str]) -> tuple[I64, I64]:
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


def _find_words(system: PhraseSystem, tokens: list[str], row: I64, start: I64) -> tuple[I32, I32]:
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


def _symbols(system: PhraseSystem, ngrams: Ngrams, tokens: list[str], row: I64, start: I64) -> tuple[I64, I64]:
    """(offsets [O+1], words of the options as n-grams number them)."""
    table = system.table
    symbols = ngrams.of_vocab[table.words[segment_positions(table.word_ptr, row)]]
    word_ptr = offsets(np.diff(table.word_ptr)[row])
    unknown = np.flatnonzero(row == 0)
    symbols[word_ptr[unknown]] = [ngrams.symbol(tokens[i]) for i in start[unknown].tolist()]
    return word_ptr, symbols


def _static_features(system: PhraseSystem, scorer: UnitScorer, row: I64, n_src: I64) -> F64:
    """[O, C]: the columns of context and of templates are 0."""
    table = system.table
    n_tgt = np.diff(table.word_ptr)[row].astype(np.float64)
    x = np.zeros((len(row), len(scorer.columns)))
    first = scorer.column(PHRASE_PENALTY) + 1
    x[:, scorer.column(WORD_PENALTY)], x[:, first - 1] = -n_tgt, 1.0
    x[:, first : first + table.scores.shape[1]] = table.scores[row]
    for j, name in enumerate(scorer.names):
        if name in EXTRAS:
            x[:, j] = EXTRAS[name](n_src.astype(np.float64), n_tgt, table.count[row])
        elif name == UNKNOWN:
            x[:, j] = UNKNOWN_VALUE * (row == 0)
    return x + 0.0  # no -0.0


def _expected_context(system: PhraseSystem, scorer: UnitScorer, tokens: list[str], row: I64, start: I64, x: F64) -> F64:
    """[O] what context will add to a phrase's score, as far as one can say: its language-model score without a history, as
    in Moses, and the trees' value with that score where the phrase stands in monotone order."""
    lm, unknown = system.isolated[row], row == 0
    words = system.lm.ids([tokens[i] for i in start[unknown].tolist()])
    of_words = np.empty(len(words))
    isolated_scores(system.lm.automaton, offsets(np.ones(len(words), np.int64)), words, of_words)
    lm[unknown] = of_words
    context = np.zeros((len(row), N_CONTEXT))
    context[:, LM], context[:, ORIENTATION] = lm, 1.0
    if len(scorer.quantiles):
        n_words = np.diff(system.table.word_ptr)[row]
        context[:, INVERSE] = np.divide(1.0, n_words, out=np.zeros(len(row)), where=n_words > 0)
        context[:, PER_WORD] = np.divide(lm, n_words, out=np.zeros(len(row)), where=n_words > 0)
        context[:, PER_WORD + 1 : INVERSE] = context[:, PER_WORD, None] < scorer.quantiles
    if system.table.reordering is not None:
        context[:, 0] = system.table.reordering[row, 0]
    linear = context[:, PER_WORD:INVERSE] @ scorer.context_weights[PER_WORD:] if len(scorer.quantiles) else 0.0
    return scorer.context_weights[LM] * lm + linear + tree_scores(scorer.context_trees, context, x)
