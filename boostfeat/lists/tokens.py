"""Containers from the lists of neural decoders and recognisers: texts in tokens, with a score a token from each model.

A unit is a word with its text and place (or a token, ``ReadOptions.units``). Of each model it has, over the tokens of the word,

    NAME = Σ log p     NAME.min     NAME.first     NAME.mean = Σ log p / Pieces          (only NAME where texts are in words)

and ``Pieces``, its number of tokens (where texts are in pieces), and ``Words``, 1: sums over units count the hypothesis'
length. The score of the end of the sentence is a unit of its own with the text ``</s>``, after the last word, with Words 0.
Where a decoder has joined its pieces in the text, nobody can tell which scores belong to which word: units are the scores
alone, and Pieces and Words are features of the hypothesis.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from itertools import pairwise
from math import nan
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..core.arrays import F64, HUGE, I64, Array, Bool, offsets, owners
from ..core.errors import FormatError, clip, counted
from ..core.text import Strings, ascii_words, has_text, split_words
from .build import Builder, GrowingRows, ReadOptions, TextColumn, UnitColumns
from .nbest import NBest, empty_strings, strings, take_strings
from .pieces import MARKS, Joined, join_pieces, marked_rows, scheme_of, words_at
from .words import Words, words_of

END_OF_SENTENCE = "</s>"
PIECES, WORDS, DECODER_SCORE = "Pieces", "Words", "DecoderScore"
RANK, FIRST = "Rank", "First"
RANKINGS = (DECODER_SCORE, FIRST)  # features that rank a list as its tool did, the one that says more first
COVERED, UNALIGNED, COVERAGE = "Alignment.covered", "Alignment.unaligned", "Alignment.coverage"
SHARPNESS, ENTROPY = "Alignment.max", "Alignment.entropy"


Values = dict[str, tuple[I64, F64]]  # by name: how many tokens of each hypothesis have a number, and the numbers


class TokenHyp(NamedTuple):
    """One hypothesis, as a reader found it; ``where`` is its place for error messages."""

    sent: int
    tokens: str  # separated by blanks, as the model has them
    where: str
    score: float = nan
    features: Mapping[str, float] = {}
    scores: Mapping[str, Sequence[float]] = {}  # by model: a log-probability a token, and one for the end of the sentence
    signals: Mapping[str, Sequence[float]] = {}  # other numbers a token, of which a word has the mean
    links: Iterable[tuple[int, int]] | None = None  # (source, target) tokens
    text: str | None = None  # what the tool shows, if it is not the tokens joined


def attention(rows: Sequence[Sequence[float]]) -> tuple[list[tuple[int, int]], dict[str, list[float]], dict[str, float]]:
    """Links, numbers a token and features of a hypothesis from soft alignments [target tokens, source tokens].

    A token is linked to its largest weight. Alignment.coverage = Σ_j log min(Σ_i a_ij, 1), [W16 eq. 14].
    """
    a = np.asarray(rows, np.float64)
    if not a.size:
        return [], {}, {}
    best = a.argmax(axis=1)
    p = np.clip(a, 1e-12, None)
    signals = {SHARPNESS: a.max(axis=1).tolist(), ENTROPY: (-(a * np.log(p)).sum(axis=1)).tolist()}
    coverage = float(np.log(np.clip(a.sum(axis=0), 1e-12, 1.0)).sum())
    return [(int(j), i) for i, j in enumerate(best)], signals, {COVERAGE: coverage}


class TokenBuilder(Builder):
    """Takes hypotheses in the order of a list and makes a container of them; see the module's docstring.

    ``ranked``: the tool lists its best first, which Rank (0, 1, ...) and First (1, 0, ...) keep.
    """

    def __init__(self, options: ReadOptions, *, ranked: bool = False) -> None:
        super().__init__(options)
        self.ranked = ranked
        self._where: list[str] = []
        self._tokens: list[str] = []
        self._shown: list[str | None] = []
        self._models: dict[str, list[tuple[int, array[float]]]] = {}  # by name: (hypothesis, a number a token)
        self._signals: dict[str, list[tuple[int, array[float]]]] = {}
        self._links: list[tuple[int, list[tuple[int, int]]]] = []  # (hypothesis, its links)

    def add(self, hyp: TokenHyp) -> None:
        self.sentence(hyp.sent, hyp.where)
        rank = self._hyp_counts[-1]
        if self._is_full():
            return
        features = {**hyp.features, RANK: float(rank), FIRST: float(rank == 0)} if self.ranked else hyp.features
        for kind, found in ((self._models, hyp.scores), (self._signals, hyp.signals)):
            for name, values in found.items():
                kind.setdefault(name, []).append((len(self._where), array("d", values)))
        if hyp.links is not None:
            links = sorted(set(hyp.links))
            self._links.append((len(self._where), links))
            features = {**features, **_coverage(links, hyp.tokens)}
        self._hyp_counts[-1] += 1
        self._where.append(hyp.where)
        self._tokens.append(hyp.tokens)
        self._shown.append(hyp.text)
        self._score.few.append(hyp.score)
        self._extra.add(self._indices(features), features.values())

    # -- columns to container ----------------------------------------------------------------------------------------

    def finish(self) -> NBest:
        tokens = words_of(strings(self._tokens))
        scheme = self._scheme(tokens)
        models, signals = self._flat(self._models), self._fitting_signals(tokens)
        together = self._same_counts(models, tokens)
        counts = next(iter(together.values()))[0] if together else np.zeros(len(self._where), np.int64)
        self._refuse_few(counts, tokens)
        if (more := np.flatnonzero(counts > tokens.counts + 1)).size:
            h = int(more[0])
            lost = f"; {', '.join(signals)} of tokens are not kept" if signals else ""
            self.options.warn(
                f"{self._where[h]}: {counted(counts[h], 'score')} of tokens, {counted(tokens.counts[h], 'word')} in the text: of "
                "pieces that are not shown, so that units have scores and no words"
                f"{lost}; have the decoder write pieces (Marian: --no-spm-decode)"
            )
            return self._container(self._bare(together, counts, tokens), join_pieces(tokens, "none").rows())
        joined = join_pieces(tokens, scheme)
        whole = self._regrouped(joined)
        if self.options.units == "token":
            return self._container(self._draft(together, signals, tokens, _one_by_one(tokens, joined), pieces=True), whole.rows())
        pieces = scheme != "none" or bool((whole.n_pieces > 1).any())  # the same columns for every list of one decoder
        return self._container(self._draft(together, signals, tokens, whole, pieces=pieces, split=pieces), whole.rows())

    def _scheme(self, tokens: Words) -> str:
        """The kind of pieces, as told or found; what looks like pieces here and there is said."""
        told = self.options.subwords
        found = scheme_of(tokens) if told in ("auto", "none") else told
        if told == "auto" and found == "none":
            for scheme, n in marked_rows(tokens).items():
                self.options.warn(
                    f"{n} of {len(tokens)} hypotheses have {MARKS[scheme]!r}, as pieces of words do, which are kept as they are; "
                    f"--subwords {scheme} joins them"
                )
        return "none" if told == "none" else found

    def _fault(self, h: int, *, expected: str, found: str) -> FormatError:
        return FormatError(self._where[h], expected=expected, found=found, fix="repair or remove this line")

    def _flat(self, columns: Mapping[str, Sequence[tuple[int, array[float]]]]) -> Values:
        """The numbers of all hypotheses one after the other."""
        out: Values = {}
        for name, rows in columns.items():
            counts = np.zeros(len(self._where), np.int64)
            counts[[h for h, _ in rows]] = [len(own) for _, own in rows]
            values = np.concatenate([np.zeros(0), *(own for _, own in rows)]) + 0.0  # -0.0 becomes 0.0
            odd = ~(np.abs(values) < HUGE)  # sums of a few larger ones are no numbers
            if odd.any():
                k = int(np.argmax(odd))  # the first
                raise self._fault(owners(offsets(counts))[k], expected=f"a finite number for {name}", found=str(values[k]))
            out[name] = counts, values
        return out

    def _fitting_signals(self, tokens: Words) -> Values:
        """The other numbers of tokens, where there is one for each (and for the end)."""
        out = {}
        for name, (counts, values) in self._flat(self._signals).items():
            odd = (counts != tokens.counts) & (counts != tokens.counts + 1) & (counts > 0)
            if odd.any():
                h = np.argmax(odd)
                values_here, tokens_here = counted(counts[h], "value"), counted(tokens.counts[h], "token")
                self.options.warn(f"{self._where[h]}: {values_here} of {name}, {tokens_here}: it is not kept")
            else:
                out[name] = (counts, values)
        return out

    def _refuse_few(self, counts: I64, tokens: Words) -> None:
        few = (counts < tokens.counts) & (counts > 0)
        if few.any():
            h = int(np.argmax(few))
            raise self._fault(h, expected=f"a score for each of {counted(tokens.counts[h], 'token')}", found=str(counts[h]))
        without = int((counts == 0).sum())
        if without and counts.any():
            self.options.warn(f"{without} of {len(counts)} hypotheses have no scores of tokens, which count as 0")

    def _same_counts(self, models: Values, tokens: Words) -> Values:
        """The models that score the same tokens as the first; of others the hypothesis keeps sum, minimum and count."""
        together: Values = {}
        for name, (counts, values) in models.items():
            first = next(iter(together.values()))[0] if together else counts
            if np.array_equal(counts, first):
                together[name] = (counts, values)
                continue
            h = int(np.argmax(counts != first))
            self.options.warn(
                f"{name}: {counted(counts[h], 'score')} at {self._where[h]} where {next(iter(together))} has {first[h]}: "
                f"models with other pieces; kept as features of the hypothesis {name}, {name}.min, {name}.{PIECES}"
            )
            some, ptr = counts > 0, offsets(counts)
            total, least = np.zeros(len(counts)), np.zeros(len(counts))
            total[some] = np.add.reduceat(values, ptr[:-1][some])
            least[some] = np.minimum.reduceat(values, ptr[:-1][some])
            self._extra_columns({name: total, f"{name}.min": least, f"{name}.{PIECES}": counts.astype(np.float64)})
        return together

    def _extra_columns(self, columns: Mapping[str, F64]) -> None:
        """Add more features of all hypotheses."""
        old, new = self._extra.rows(), self._numbers_of(tuple(columns))
        self._extra = GrowingRows()
        ends = np.repeat(old.ptr[1:], len(new))
        idx = np.insert(old.idx, ends, np.tile(new, len(old)))
        val = np.insert(old.val, ends, np.column_stack(list(columns.values())).reshape(-1))
        self._extra.extend(np.diff(old.ptr) + len(new), idx, val)

    def _regrouped(self, joined: Joined) -> Joined:
        """Words of the texts that the tool showed, where those are others than the pieces make; matched by characters."""
        if all(text is None for text in self._shown):
            return joined
        rows, texts, ptr = joined.rows().to_pylist(), joined.text.to_pylist(), joined.ptr.tolist()
        out: list[tuple[str, int, int]] = []  # (text, words, first of the old words)
        counts, unmatched = [], []
        for h, shown in enumerate(self._shown):
            own = range(ptr[h], ptr[h + 1])
            own_words = split_words(rows[h])
            words = own_words if shown is None else ascii_words(shown)
            if words == own_words:
                new = [(texts[w], int(joined.n_words[w]), w) for w in own]
            elif "".join(parts := [unescape(texts[w]).replace(" ", "") for w in own]) != "".join(words):
                unmatched.append(h)
                new = [(" ".join(words), len(words), ptr[h])] if len(own) else []
            else:
                first: dict[int, int] = {}  # of the parts in each word
                for k, word in enumerate(words_at(parts, words)):
                    first.setdefault(word, k)
                runs = zip(pairwise([0, *list(first)[1:], len(words)]), first.values(), strict=True)
                new = [(" ".join(words[a:b]), b - a, ptr[h] + k) for (a, b), k in runs]
            out += new
            counts.append(len(new))
        if unmatched:
            self.options.warn(
                f"{len(unmatched)} of {len(rows)} texts have other characters than their tokens: each is one unit "
                f"(first: {self._where[unmatched[0]]}, {clip(self._shown[unmatched[0]] or '')})"
            )
        first_pieces = joined.first[[w for _, _, w in out]] if out else _NO_INTS
        total = int(joined.n_pieces.sum())
        return Joined(
            ptr=offsets(np.array(counts, np.int64)),
            text=strings([text for text, _, _ in out]),
            n_words=np.array([n for _, n, _ in out], np.int64),
            first=first_pieces,
            n_pieces=np.diff(np.append(first_pieces, total)),
        )

    # -- units -------------------------------------------------------------------------------------------------------

    def _bare(self, models: Values, counts: I64, tokens: Words) -> _Draft:
        """Units that are scores without a word."""
        self._extra_columns({PIECES: counts.astype(np.float64), WORDS: tokens.counts.astype(np.float64)})
        n = int(counts.sum())
        unknown = np.full(n, -1, np.int32)
        x, none = np.stack([values for _, values in models.values()], axis=1), empty_strings(n)
        return _Draft(offsets(counts), unknown, unknown, tuple(models), x, none, unknown, unknown, none)

    def _draft(
        self, models: Values, signals: Values, tokens: Words, joined: Joined, *, pieces: bool, split: bool = False
    ) -> _Draft:
        """Units of words, and of the ends of sentences; counts of pieces, and how scores are split over them, where wanted."""
        columns: dict[str, tuple[F64, F64]] = {}  # of words, and of ends of sentences
        for name, (counts, values) in models.items():
            of_tokens, ends = _token_values(counts, values, tokens)
            total = np.add.reduceat(of_tokens, joined.first)
            columns[name] = (total, ends)
            if split:
                columns[f"{name}.min"] = (np.minimum.reduceat(of_tokens, joined.first), ends)
                columns[f"{name}.first"] = (of_tokens[joined.first], ends)
                columns[f"{name}.mean"] = (total / joined.n_pieces, ends)
        for name, (counts, values) in signals.items():
            of_tokens, ends = _token_values(counts, values, tokens)
            columns[name] = (np.add.reduceat(of_tokens, joined.first) / joined.n_pieces, ends)
        if pieces:
            columns[PIECES] = (joined.n_pieces.astype(np.float64), np.ones(len(tokens)))
        columns[WORDS] = (joined.n_words.astype(np.float64), np.zeros(len(tokens)))
        has_end = next(iter(models.values()))[0] == tokens.counts + 1 if models else np.zeros(len(tokens), bool)
        return _with_ends(columns, joined, self._source_spans(tokens, joined.first, joined.n_pieces), has_end)

    def _source_spans(self, tokens: Words, first: I64, n_pieces: I64) -> tuple[I64, I64, Strings]:
        """[W] each: first source token that pieces of a unit are linked to, how many up to the last, and the links, '0-0 2-0'."""
        n = len(first)
        linked: dict[int, set[int]] = {}  # source tokens, by unit
        if self._links and self._links_fit(tokens):
            unit, ptr = np.repeat(np.arange(n), n_pieces).tolist(), tokens.ptr.tolist()
            n_source, n_target = self._source_lengths(tokens).tolist(), tokens.counts.tolist()
            for h, links in self._links:
                for s, t in links:
                    if s < n_source[h] and t < n_target[h]:
                        linked.setdefault(unit[ptr[h] + t], set()).add(s)
        start, length, align = np.full(n, -1, np.int64), np.full(n, -1, np.int64), [""] * n
        for u, own in linked.items():
            start[u], length[u] = min(own), max(own) + 1 - min(own)
            align[u] = " ".join(f"{s - min(own)}-0" for s in sorted(own))
        return start, length, strings(align) if linked else empty_strings(n)

    def _source_lengths(self, tokens: Words) -> I64:
        """[H] tokens of each source sentence; beyond them is its end. Enormous where no source was given."""
        source = self.options.source
        if source is None:
            return np.full(len(tokens), _FAR)
        return np.repeat([len(split_words(source[s])) if s < len(source) else _FAR for s in self._ids], self._hyp_counts)

    def _links_fit(self, tokens: Words) -> bool:
        """Whether links are between these tokens and the words of the source that was given, if one was."""
        lengths = self._source_lengths(tokens)
        for h, links in self._links:
            s, t = (max((link[k] for link in links), default=0) for k in (0, 1))
            if t > tokens.counts[h] or s > lengths[h]:
                side, at, n = ("target", t, tokens.counts[h]) if t > tokens.counts[h] else ("source", s, lengths[h])
                fix = "; give -s in the model's pieces to have source spans" if side == "source" else ""
                self.options.warn(
                    f"{self._where[h]}: alignment to token {at} of a {side} of {n}: it is of pieces; "
                    f"used for features of coverage only{fix}"
                )
                return False
        return True

    def _container(self, draft: _Draft, text: Strings) -> NBest:
        if twice := next((name for name in (PIECES, WORDS) if name in draft.names and name in self._names), None):
            expected = f"no feature {twice!r}, which is counted here"
            fix = "rename it, or give --format moses for a list that boostfeat wrote"
            raise FormatError(self._where[0], expected=expected, found="one in the list", fix=fix)
        n, width = draft.x.shape
        self.declared_dense = draft.names
        lengths = draft.src_len.astype(np.int32), draft.tgt_len.astype(np.int32)
        features = [np.full(n, width), np.tile(np.arange(width, dtype=np.int32), n), draft.x.reshape(-1)]
        texts = self._source_texts(draft), draft.text, draft.align
        self.add_units(UnitColumns._make([*texts, *lengths, np.full(n, nan), draft.names, *features]))
        self._text = TextColumn()
        self._text.extend(text)
        self._unit_counts.extend(np.diff(draft.ptr))
        self._unit_idx.extend(np.arange(n))
        self._src_start.extend(draft.src_start)
        self._tgt_start.extend(draft.tgt_start)
        return super().finish()

    def _source_texts(self, draft: _Draft) -> Strings:
        """[R] the words of the source in each unit's span, where both are known."""
        source, some = self.options.source, np.flatnonzero(draft.src_start >= 0)
        if source is None or not len(some):
            return empty_strings(len(draft.x))
        texts = [""] * len(draft.x)
        sent = owners(offsets(np.array(self._hyp_counts, np.int64)))[owners(draft.ptr)]
        words = {s: split_words(source[s]) if s < len(source) else [] for s in self._ids}
        for r in some.tolist():
            a = int(draft.src_start[r])
            texts[r] = " ".join(words[self._ids[sent[r]]][a : a + int(draft.src_len[r])])
        return strings(texts)


_NO_INTS = np.zeros(0, np.int64)
_FAR = 1 << 29  # beyond any token, and sums fit into 32 bits


class _Draft(NamedTuple):
    """Units and their places, equal ones not yet merged."""

    ptr: I64  # [H+1]
    src_start: Array  # [R]
    tgt_start: Array  # [R]
    names: tuple[str, ...]  # [D]
    x: F64  # [R, D]
    text: Strings  # [R]
    src_len: Array
    tgt_len: Array
    align: Strings


def _coverage(links: Sequence[tuple[int, int]], tokens: str) -> dict[str, float]:
    n = tokens.count(" ") + 1 if tokens else 0
    aligned = {t for _, t in links if t < n}
    return {COVERED: float(len({s for s, t in links if t < n})), UNALIGNED: float(n - len(aligned))}


def _token_values(counts: I64, values: F64, tokens: Words) -> tuple[F64, F64]:
    """Values of tokens [T] and of the ends of hypotheses [H], 0 where there is none."""
    ptr, some = offsets(counts), counts > 0
    out = np.zeros(len(tokens.ids))
    at = np.arange(len(tokens.ids)) - np.repeat(tokens.ptr[:-1] - ptr[:-1], tokens.counts)
    own = np.repeat(some, tokens.counts)
    out[own] = values[at[own]]
    ends = np.zeros(len(tokens))
    has_end = counts > tokens.counts
    ends[has_end] = values[ptr[:-1][has_end] + tokens.counts[has_end]]
    return out, ends


def _one_by_one(tokens: Words, joined: Joined) -> Joined:
    """Return tokens as if each were a word: the first of a word has its place, the others the empty place after it."""
    n = len(tokens.ids)
    n_words = np.zeros(n, np.int64)
    n_words[joined.first] = joined.n_words
    return Joined(tokens.ptr, take_strings(tokens.names, tokens.ids), n_words, np.arange(n), np.ones(n, np.int64))


def _with_ends(columns: Mapping[str, tuple[F64, F64]], words: Joined, spans: tuple[I64, I64, Strings], has_end: Bool) -> _Draft:
    """Units of words [W] and, where there is one, that of the end of each hypothesis, after its words."""
    src_start, src_len, links = spans
    n, ends = len(words.text), np.flatnonzero(has_end)
    places = words.ptr[1:][ends]

    def spread(of_words: Array, at_end: Array | int) -> Array:
        return np.insert(of_words, places, at_end)

    x = np.column_stack([spread(of_words, at_end[ends]) for of_words, at_end in columns.values()])
    at = spread(np.arange(n), n)  # of each unit's text, that of ends after all others
    texts = take_strings(pa.concat_arrays([words.text, strings([END_OF_SENTENCE])]), at)
    aligned = take_strings(pa.concat_arrays([links, strings([""])]), at) if has_text(links) else empty_strings(len(at))
    starts = spread(src_start, -1), spread(words.starts(), np.diff(offsets(words.n_words)[words.ptr])[ends])
    unit_ptr = offsets(np.diff(words.ptr) + has_end)
    return _Draft(unit_ptr, *starts, tuple(columns), x, texts, spread(src_len, -1), spread(words.n_words, 0), aligned)
