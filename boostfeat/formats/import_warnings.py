"""Warnings of an import: lists and references that can be read, and whose scores would mean little."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from unicodedata import normalize

import numpy as np

from ..core.errors import counted
from ..core.text import BLANKS, split_words
from ..lists.nbest import NBest
from ..lists.pieces import MARKS, has_marks, scheme_of
from ..lists.words import tokenise

FEW, ENOUGH = 20, 200  # sentences that tell something, and beyond which no more is told
NEARER = 1.1  # times as many words as with the references of other sentences


def warn_of_references(nbest: NBest, warn: Callable[[str], None]) -> None:
    """Say so where references cannot be those of the lists: empty, the source, or no nearer than those of other sentences."""
    if not len(nbest.refs):
        return
    refs, sources = nbest.refs.to_pylist(), nbest.source.to_pylist()
    if without := sum(a == b for a, b in pairwise(nbest.ref_ptr.tolist())):
        warn(f"warning: sentences without references: {without:,} of {len(nbest):,}; no metric is computed unless all have them")
    if empty := sum(not ref.strip(BLANKS) for ref in refs):
        warn(f"warning: references without words: {empty:,} of {len(refs):,}; nothing can be right there")
    if any(sources) and all(
        source in refs[a:b] for source, (a, b) in zip(sources, pairwise(nbest.ref_ptr.tolist()), strict=True)
    ):
        warn("warning: the references are the source sentences; give the translations with -r")
    few = nbest.take(slice(ENOUGH))
    if lost := lost_by_form(few):
        warn(
            f"warning: {counted(lost, 'word')} of the first texts and their references are the same in print, and not in bytes: "
            "one is in Unicode's form NFC, the other in NFD; bring both into one form (uconv -x any-nfc)"
        )
    shared = shared_words(few)
    if shared is not None and shared[0] <= NEARER * shared[1]:
        warn(
            f"warning: texts share {shared[0]:.0%} of their words with their references, and {shared[1]:.0%} with those of the "
            "next sentence; are these of the same sentences, in the same order, case and tokenisation?"
        )


def _words(nbest: NBest) -> tuple[list[list[str]], list[set[str]]]:
    """Return for each sentence the words of the first hypothesis, and those of all references."""
    refs, text = nbest.refs.to_pylist(), nbest.text
    first = [split_words(text[a].as_py()) if a < b else [] for a, b in pairwise(nbest.hyp_ptr.tolist())]
    return first, [{word for ref in refs[a:b] for word in split_words(ref)} for a, b in pairwise(nbest.ref_ptr.tolist())]


def lost_by_form(nbest: NBest) -> int:
    """Count the words of first hypotheses are in their references only where both have accents in the same way."""
    pairs = zip(*_words(nbest), strict=True)
    return sum(_nfc(word) in map(_nfc, known) for words, known in pairs for word in words if word not in known)


def _nfc(word: str) -> str:
    return normalize("NFC", word)


def shared_words(nbest: NBest) -> tuple[float, float] | None:
    """The share of the words of first hypotheses that are in their references, and in those of the next sentence.

    None where that tells nothing: few sentences, mostly the same texts, or words that only a tokeniser finds.
    """
    first, known = _words(nbest)
    n = sum(map(len, first))
    if len(first) < FEW or not n or nbest.tokenizer != "none" or 2 * len({*map(tuple, first)}) < len(first):
        return None
    own, other = (
        sum(word in names for words, names in zip(first, sets, strict=True) for word in words)
        for sets in (known, known[1:] + known[:1])
    )
    return own / n, other / n


def warn_of_names(nbest: NBest, warn: Callable[[str], None]) -> None:
    """Say so where a feature has one value in some hypotheses and several in others: these have names of their own."""
    names = set(nbest.global_names)
    if both := next((name for name in nbest.global_names if {f"{name}_0", f"{name}_1"} <= names), None):
        warn(
            f"warning: {both} has one value in some hypotheses, more in others ({both}_0, ...); those that are absent count as 0"
        )


def warn_of_pieces(nbest: NBest, warn: Callable[[str], None]) -> None:
    """Say so where texts are in pieces and the references are not: no metric can compare them."""
    if not len(nbest.refs) or not has_marks(nbest.text):
        return
    text, refs = tokenise(nbest.text, nbest.refs)
    scheme = scheme_of(text)
    if scheme != "none" and scheme_of(refs) == "none":
        share = np.mean(text.per_row(text.matches(MARKS[scheme])) > 0)
        warn(
            f"{share:.0%} of the texts have {MARKS[scheme]!r}: they are in pieces ({scheme}) and the references are not, so that "
            f"scores mean nothing; join the pieces of this list before, or by --subwords {scheme} where its format has that"
        )
