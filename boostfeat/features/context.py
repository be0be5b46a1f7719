"""What templates read, as arrays: words as numbers, the distinct phrase pairs, and the context of every occurrence.

    S sentences, H hypotheses, R unit occurrences, V distinct units, P distinct phrase pairs (source, target, alignment)

A template computes rows of distinct keys only: phrase pairs, or (unit, the context that it declares to read).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, Bool, unique_rows
from ..core.errors import InputError, clip
from ..lists.nbest import NBest, take_strings
from ..lists.words import NONE, Links, Words, parse_alignments, tokenise, words_of
from ..metrics.ngrams import posteriors
from .resources import Resources


@dataclass(frozen=True)
class Corpus:
    """A list as templates read it. Everything is computed when first asked for."""

    nbest: NBest
    resources: Resources = field(default_factory=Resources)

    @cached_property
    def _pairs(self) -> tuple[I64, I64]:
        """Distinct phrase pairs: (a unit of each [P], the pair of each unit [V])."""
        u = self.nbest.units
        codes = [c.dictionary_encode().indices.to_numpy(zero_copy_only=False) for c in (u.src, u.tgt, u.align)]
        return unique_rows(np.stack(codes, axis=1).astype(np.int64), np.zeros((len(u), 0), np.int64))

    @property
    def pair_of_unit(self) -> I64:
        """[V]"""
        return self._pairs[1]

    @cached_property
    def _source(self) -> tuple[Words, Words]:
        src, sentences = tokenise(take_strings(self.nbest.units.src, self._pairs[0]), self.nbest.source)
        return src, sentences

    @property
    def src(self) -> Words:
        """[P] source phrases."""
        return self._source[0]

    @property
    def sentences(self) -> Words:
        """[S] source sentences; the dictionary is that of the source phrases."""
        return self._source[1]

    @cached_property
    def tgt(self) -> Words:
        """[P] target phrases."""
        return words_of(take_strings(self.nbest.units.tgt, self._pairs[0]))

    @cached_property
    def hyps(self) -> Words:
        """[H] texts of hypotheses, with a dictionary of their own."""
        return words_of(self.nbest.text)

    @cached_property
    def links(self) -> Links:
        """[P] word alignments, inside the phrases."""
        pairs = self._pairs[0]
        links = parse_alignments(take_strings(self.nbest.units.align, pairs))
        outside = (links.src >= self.src.counts[links.owner]) | (links.tgt >= self.tgt.counts[links.owner])
        if outside.any():
            p = links.owner[np.argmax(outside)]
            src, tgt, align = (
                c[int(pairs[p])].as_py() for c in (self.nbest.units.src, self.nbest.units.tgt, self.nbest.units.align)
            )
            raise InputError(
                f"alignment {clip(align)} of {clip(src)} and {clip(tgt)}: expected links inside the phrases, found one outside; "
                "import the list with the source that was decoded"
            )
        return links

    # -- occurrences -------------------------------------------------------------------------------------------------

    @cached_property
    def sent_of_occurrence(self) -> I64:
        """[R]"""
        nb = self.nbest
        return np.repeat(nb.sent_of_hyp, np.diff(nb.unit_ptr))

    @cached_property
    def source_lengths(self) -> I64:
        """[S] words of each source sentence; where it is not given, as far as its units reach."""
        nb = self.nbest
        given = self.sentences.counts.copy()
        reach = np.zeros(len(nb), np.int64)
        np.maximum.at(reach, self.sent_of_occurrence, self._end)
        return np.where(given > 0, given, reach)

    @cached_property
    def _end(self) -> I64:
        return self.nbest.src_start.astype(np.int64) + self.nbest.units.src_len[self.nbest.unit_idx]

    @cached_property
    def _edges(self) -> tuple[Bool, Bool]:
        """[R] which occurrences are the first and the last of their hypotheses."""
        ptr = self.nbest.unit_ptr
        first, last = np.zeros((2, self.nbest.n_occurrences), bool)
        some = np.diff(ptr) > 0
        first[ptr[:-1][some]] = last[ptr[1:][some] - 1] = True
        return first, last

    def column(self, name: str) -> I64:
        """[R] one column of the occurrences' context."""
        nb = self.nbest
        match name:
            case "unit":
                return nb.unit_idx.astype(np.int64)
            case "pair":
                return self.pair_of_unit[nb.unit_idx]
            case "sent":
                return self.sent_of_occurrence
            case "start":
                return nb.src_start.astype(np.int64)
            case "end":
                return self._end
            case "n_src":
                return self.source_lengths[self.sent_of_occurrence]
            case "prev" | "next":
                return self._neighbour(self.column("pair"), name, NONE)
            case "prev_unit" | "next_unit":
                return self._neighbour(self.column("unit"), name[:4], NONE)
            case "back":  # words between the end of the previous unit and this one; the first unit follows position 0
                return self.column("start") - self._neighbour(self._end, "prev", 0)
            case "back_swap":  # 0: the previous unit's source follows this one's at once
                return self._neighbour(self.column("start"), "prev", 0) - self._end
            case "ahead":  # the last unit is followed by the end of the sentence
                return self._neighbour(self.column("start"), "next", self.column("n_src")) - self._end
            case "ahead_swap":
                return self.column("start") - self._neighbour(self._end, "next", self.column("n_src") + 1)
        raise ValueError(f"unknown context column {name!r}")

    def _neighbour(self, column: I64, which: str, at_edge: int | I64) -> I64:
        step = 1 if which == "prev" else -1
        return np.where(self._edges[0 if which == "prev" else 1], at_edge, np.roll(column, step))

    @cached_property
    def posterior(self) -> F64:
        """[H] p(h) under the model that is given, or the decoder; equal ones where the list has no scores."""
        how, scales = self.resources.posterior, self.resources.scales
        scale = (1.0 if how.scale is None else how.scale) if scales is None else scales[self.nbest.sent_of_hyp]
        return posteriors(self.nbest.hyp_ptr, list_scores(self.nbest, how.model), scale=scale)

    # -- rows for templates ------------------------------------------------------------------------------------------

    def pair_rows(self) -> tuple[Rows, I64]:
        """Rows of phrase pairs, and the row of each unit [V]."""
        return Rows(self, len(self._pairs[0]), {"pair": np.arange(len(self._pairs[0]))}), self.pair_of_unit

    def occurrence_rows(self, columns: Sequence[str]) -> tuple[Rows, I64]:
        """Rows of the distinct values of context columns, and the row of each occurrence [R]."""
        table = np.stack([self.column(name) for name in columns], axis=1)
        first, inverse = unique_rows(table, np.zeros((len(table), 0), np.int64))
        return Rows(self, len(first), {name: table[first, k] for k, name in enumerate(columns)}), inverse

    def all_rows(self) -> tuple[Rows, I64]:
        """Rows of all occurrences, each for itself."""
        every = np.arange(self.nbest.n_occurrences)
        return Rows(self, len(every), {"unit": self.column("unit")}), every

    def hyp_rows(self) -> tuple[Rows, I64]:
        """Rows of hypotheses."""
        n = self.nbest.n_hyps
        return Rows(self, n, {"hyp": np.arange(n), "sent": self.nbest.sent_of_hyp}), np.arange(n)


@dataclass(frozen=True)
class Rows:
    """What one template sees: n rows of what it declared to read. All lengths [n] unless stated."""

    corpus: Corpus
    n: int
    columns: Mapping[
        str, I64
    ]  # pair, unit, start, end, n_src, prev, next, prev_unit, back, back_swap, ahead, ahead_swap, sent, hyp

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, column: str) -> I64:
        return self.columns[column]

    def take(self, some: I64) -> Rows:
        return Rows(self.corpus, len(some), {name: column[some] for name, column in self.columns.items()})

    @cached_property
    def pair(self) -> I64:
        return self.columns["pair"] if "pair" in self.columns else self.corpus.pair_of_unit[self.columns["unit"]]

    @cached_property
    def src(self) -> Words:
        return self.corpus.src.take(self.pair)

    @cached_property
    def tgt(self) -> Words:
        return self.corpus.tgt.take(self.pair)

    @cached_property
    def links(self) -> Links:
        return self.corpus.links.take(self.pair)

    @cached_property
    def src_linked(self) -> Bool:
        """[source tokens] whether each has a link."""
        return _linked(self.src, self.links.owner, self.links.src)

    @cached_property
    def tgt_linked(self) -> Bool:
        """[target tokens] whether each has a link."""
        return _linked(self.tgt, self.links.owner, self.links.tgt)

    @property
    def link_words(self) -> tuple[I64, I64]:
        """[links] the source word and the target word of each link."""
        links = self.links
        return self.src.ids[self.src.ptr[links.owner] + links.src], self.tgt.ids[self.tgt.ptr[links.owner] + links.tgt]

    @property
    def sentences(self) -> Words:
        """Source sentences of the rows' sentences: index with ``self["sent"]``."""
        return self.corpus.sentences

    @property
    def hyps(self) -> Words:
        return self.corpus.hyps

    def feature(self, name: str) -> F64:
        """A feature that the list has already."""
        nb = self.corpus.nbest
        return nb.X[self.columns["unit"], nb.unit_names.index(name)]

    @property
    def resources(self) -> Resources:
        return self.corpus.resources


def _linked(words: Words, owner: I64, position: I64) -> Bool:
    out = np.zeros(len(words.ids), bool)
    out[words.ptr[owner] + position] = True
    return out


def list_scores(nbest: NBest, model: Mapping[str, Any] | None) -> F64:
    """[H] scores under a model (as in its file), or the decoder's own; 0 where the decoder gave none."""
    from ..model.model import Model

    if model is None and not nbest.has_scores:
        return np.zeros(nbest.n_hyps)
    return nbest.score if model is None else Model.from_json(model, "model of the consensus").decision_function(nbest)
