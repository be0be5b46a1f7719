"""Hard word clusters: read from mkcls or Brown files, or learned from text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from ..core.arrays import I64, offsets
from ..core.errors import FormatError, clip
from ..core.files import read_lines
from ..core.text import is_whole, split_words
from ..lists.words import Words

CONTEXTS = 400  # neighbours that are told apart, the most frequent ones
DIMENSIONS = 40
LAYOUT, FIX = "'word class' (mkcls) or 'bits word count' (Brown)", "give a file that mkcls or wcluster wrote"
RARE = 3  # a word seen less often has too few neighbours to be clustered by them


def read_clusters(path: str | Path) -> dict[str, str]:
    """Clusters of a file: ``word class`` (mkcls) or ``bits word count`` (Brown) lines."""
    out: dict[str, str] = {}
    for number, line in read_lines(path):
        fields = split_words(line)
        if not fields:
            continue
        is_brown = len(fields) == 3 and not fields[0].strip("01") and is_whole(fields[2])
        if not is_brown and not (len(fields) == 2 and is_whole(fields[1])):
            raise FormatError(f"{path}:{number}", expected=LAYOUT, found=clip(line), fix=FIX)
        word, cluster = (fields[1], fields[0]) if is_brown else (fields[0], fields[1])
        if out.setdefault(word, cluster) != cluster:
            expected, found = f"{clip(word)} in one cluster", f"{clip(cluster)} after {clip(out[word])}"
            raise FormatError(f"{path}:{number}", expected=expected, found=found, fix="keep one of the lines")
    if not out:
        raise FormatError(str(path), expected="word clusters", found="an empty file", fix=FIX)
    return out


def learn_clusters(texts: Words, *, size: int, seed: int) -> dict[str, str]:
    """At most ``size`` clusters of words with like neighbours: k-means on distributional vectors.

    A word's vector holds the square roots of the relative frequencies of its left and right neighbours (so that distances
    are Hellinger's), reduced by a truncated SVD and normalised. Cluster 0 holds the rare words; the others are numbered by
    falling frequency.
    """
    from sklearn.cluster import KMeans  # 0.6 s to import, more than all a short command imports otherwise
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    names = np.array(texts.names.to_pylist(), object)
    counts = np.bincount(texts.ids, minlength=len(names))
    by_name = np.argsort(names)  # the result must not depend on the order in which words were met
    kept = by_name[counts[by_name] >= RARE]
    if len(kept) < 2 or size < 2:
        return {str(word): "1" for word in names[kept]}
    x = _neighbours(texts, kept, counts)
    # Sums of threads come in any order. The SVD also divides by the variance of all vectors, 0 where words share neighbours.
    with threadpool_limits(1), np.errstate(invalid="ignore"):
        width = min(DIMENSIONS, min(x.shape) - 1)
        vectors = normalize(TruncatedSVD(width, random_state=seed).fit_transform(x)) if width >= 1 else x.toarray()
        k = min(size - 1, len(np.unique(vectors.round(12), axis=0)))
        label = KMeans(k, n_init=3, random_state=seed).fit(vectors, sample_weight=np.sqrt(counts[kept])).labels_
    weight = np.bincount(label, counts[kept], minlength=k)
    rank = np.empty(k, np.int64)
    rank[np.argsort(-weight, kind="stable")] = np.arange(1, k + 1)
    return {str(word): str(rank[c]) for word, c in zip(names[kept], label, strict=True)}


def _neighbours(texts: Words, kept: I64, counts: I64) -> sparse.csr_matrix:
    """[words, 2 (CONTEXTS + 1)] square roots of the shares of left and right neighbours; a text's edge is one, too."""
    frequent = kept[np.argsort(-counts[kept], kind="stable")[:CONTEXTS]]
    row, context = np.full((2, len(counts)), -1)
    row[kept] = np.arange(len(kept))
    context[frequent] = np.arange(1, len(frequent) + 1)
    left, right = np.zeros((2, len(texts.ids)), np.int64)
    same_row = texts.owner[1:] == texts.owner[:-1]
    left[1:][same_row] = context[texts.ids[:-1]][same_row]
    right[:-1][same_row] = context[texts.ids[1:]][same_row]
    width = len(frequent) + 1
    token_row = row[texts.ids]
    rows, columns = np.concatenate([token_row, token_row]), np.concatenate([left, np.where(right >= 0, right + width, -1)])
    some = (rows >= 0) & (columns >= 0)
    keys, n = np.unique(rows[some] * (2 * width) + columns[some], return_counts=True)
    share = np.sqrt(n / counts[kept][keys // (2 * width)])
    ptr = offsets(np.bincount(keys // (2 * width), minlength=len(kept)))
    return sparse.csr_matrix((share, keys % (2 * width), ptr), shape=(len(kept), 2 * width))
