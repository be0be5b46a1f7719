"""Word alignment: hidden Markov models in both directions (the library thot), symmetrised by grow-diag-final-and."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from boostfeat.core.arrays import I64
from boostfeat.core.errors import InputError
from boostfeat.core.text import split_words

UNALIGNED = -1


def align(source: Sequence[str], target: Sequence[str], *, iterations: int = 5) -> list[str]:
    """The links of each sentence pair, in Moses' form '0-0 1-2'. Model 1, then the HMM, so many rounds of EM each."""
    pairs = [(split_words(s), split_words(t)) for s, t in zip(source, target, strict=True)]
    full = [n for n, (s, t) in enumerate(pairs) if s and t]
    out = [""] * len(pairs)
    if full:
        given, words = [pairs[n][0] for n in full], [pairs[n][1] for n in full]
        links = symmetrise(_viterbi(given, words, iterations), _viterbi(words, given, iterations))
        for n, line in zip(full, links, strict=True):
            out[n] = line
    return out


def _viterbi(given: list[list[str]], words: list[list[str]], iterations: int) -> list[I64]:
    """For each sentence, the position of the given word that each word is aligned to, or UNALIGNED."""
    try:
        from thot.alignment import HmmAlignmentModel, Ibm1AlignmentModel
    except ImportError:
        raise InputError(
            "word alignment: expected the library thot, found none; pip install 'boostfeat[train]', or give your own alignments"
        ) from None

    def trained(model: Any) -> Any:
        for f, e in zip(given, words, strict=True):
            model.add_sentence_pair(f, e)
        model.start_training()
        for _ in range(iterations):
            model.train()
        model.end_training()
        return model

    hmm = trained(HmmAlignmentModel(trained(Ibm1AlignmentModel())))
    out = []
    for (_, matrix), e in zip(hmm.get_best_alignments(given, words), words, strict=True):
        row, column = np.nonzero(matrix.to_numpy())
        position = np.full(len(e), UNALIGNED)
        position[column] = row
        out.append(position)
    return out


def symmetrise(forward: Sequence[I64], backward: Sequence[I64]) -> list[str]:
    """grow-diag-final-and of two one-to-many alignments of each sentence, as lines of links.

    forward[n][j] is the source position of target word j, backward[n][i] the target position of source word i, or UNALIGNED.
    """
    out = []
    for f, b in zip(forward, backward, strict=True):
        links = grow_diag_final_and(np.asarray(f, np.int64), np.asarray(b, np.int64))
        out.append(" ".join(f"{i}-{j}" for i, j in zip(*np.nonzero(links), strict=True)))
    return out


@njit(cache=True)
def grow_diag_final_and(forward, backward):  # type: ignore[no-untyped-def]
    """[source, target] links: the intersection, grown into the union, then pairs of words that both have none.

    [K03] as Moses does it: a point of the union is added when it is beside a link (also diagonally) and
    one of its words has none, until there is no such point; then points of each direction whose words have none.
    """
    n_src, n_tgt = len(backward), len(forward)
    links = np.zeros((n_src, n_tgt), np.bool_)
    union = np.zeros((n_src, n_tgt), np.bool_)
    has_src, has_tgt = np.zeros(n_src, np.bool_), np.zeros(n_tgt, np.bool_)
    for j in range(n_tgt):
        if forward[j] >= 0:
            union[forward[j], j] = True
    for i in range(n_src):
        if backward[i] >= 0:
            j = backward[i]
            if union[i, j]:
                links[i, j] = has_src[i] = has_tgt[j] = True
            union[i, j] = True
    neighbours = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
    added = True
    while added:
        added = False
        for j in range(n_tgt):
            for i in range(n_src):
                if links[i, j]:
                    for dj, di in neighbours:
                        a, b = i + di, j + dj
                        if 0 <= a < n_src and 0 <= b < n_tgt and union[a, b] and not (has_src[a] and has_tgt[b]):
                            links[a, b] = has_src[a] = has_tgt[b] = added = True
    for j in range(n_tgt):
        i = forward[j]
        if i >= 0 and not has_tgt[j] and not has_src[i]:
            links[i, j] = has_src[i] = has_tgt[j] = True
    for i in range(n_src):
        j = backward[i]
        if j >= 0 and not has_tgt[j] and not has_src[i]:
            links[i, j] = has_src[i] = has_tgt[j] = True
    return links
