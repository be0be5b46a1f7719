"""Dense templates of words and word clusters: insertions, deletions, cluster signatures [TA13 2.2].

A source word without a link is deleted, a target word without one is inserted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import I64, Array, Bool
from ..core.strings import Strings
from ..lists.nbest import strings
from ..lists.words import Words, concat, positions
from .clusters import cluster_names
from .context import Rows
from .registry import Dense, template
from .resources import UNKNOWN_CLUSTER

_ALIGNED = ("source phrase", "target phrase", "alignment")


def most_frequent(names: Strings, counts: Array, top: int) -> list[str]:
    """The top names by falling count; equal counts by name, so that the order in which they were met does not matter."""
    some = np.flatnonzero(counts)
    kept = some[np.argsort(-counts[some], kind="stable")]
    least = counts[kept[top - 1]] if len(kept) > top else 0
    ranked = sorted((-int(counts[k]), names[int(k)].as_py()) for k in kept[counts[kept] >= least])
    return [name for _, name in ranked[:top]]


def top_words(words: Words, counts: I64, top: int, tokens: Bool | None = None) -> list[str]:
    """The most frequent words of rows that occur so often, or the most frequent of the marked tokens."""
    weight = counts[words.owner] * (1 if tokens is None else tokens)
    return most_frequent(words.names, np.bincount(words.ids, weight, minlength=len(words.names)).astype(np.int64), top)


def _learn_source(rows: Rows, counts: I64, *, top: int = 15) -> dict[str, Any]:
    return {"words": top_words(rows.src, counts, top)}


def _learn_target(rows: Rows, counts: I64, *, top: int = 15) -> dict[str, Any]:
    return {"words": top_words(rows.tgt, counts, top)}


@template("deleted_words", kind="static", reads=_ALIGNED, learn=_learn_source)
def deleted_words(rows: Rows, *, words: list[str]) -> Dense:
    """For each of the most frequent source words, how often it is there without a link."""
    return _columns("del.", words, rows.src, rows.src.find(words), ~rows.src_linked)


@template("inserted_words", kind="static", reads=_ALIGNED, learn=_learn_target)
def inserted_words(rows: Rows, *, words: list[str]) -> Dense:
    """For each of the most frequent target words, how often it is there without a link."""
    return _columns("ins.", words, rows.tgt, rows.tgt.find(words), ~rows.tgt_linked)


def _columns(prefix: str, names: Sequence[str], words: Words, which: I64, marked: Bool) -> Dense:
    """One column a name: marked tokens of each row that are it."""
    table = np.zeros((len(words), len(names)))
    some = marked & (which >= 0)
    np.add.at(table, (words.owner[some], which[some]), 1.0)
    return {prefix + name: table[:, k] for k, name in enumerate(names)}


# -- clusters ---------------------------------------------------------------------------------------------------------


def _clusters_of(words: Words, clusters: Mapping[str, str]) -> Strings:
    """[len(names)] the cluster of each word of the dictionary."""
    return strings([clusters.get(word, UNKNOWN_CLUSTER) for word in words.names.to_pylist()])


def _in_clusters(prefix: str, words: Words, clusters: Mapping[str, str], linked: Bool) -> Dense:
    names = cluster_names(clusters)
    which = positions(_clusters_of(words, clusters), strings(names))
    return _columns(prefix, names, words, which[words.ids], ~linked)


@template("deleted_clusters", kind="static", reads=(*_ALIGNED, "clusters"))
def deleted_clusters(rows: Rows) -> Dense:
    """For each cluster of source words, how many are there without a link."""
    return _in_clusters("del.c", rows.src, rows.resources.clusters.src, rows.src_linked)


@template("inserted_clusters", kind="static", reads=(*_ALIGNED, "clusters"))
def inserted_clusters(rows: Rows) -> Dense:
    """For each cluster of target words, how many are there without a link."""
    return _in_clusters("ins.c", rows.tgt, rows.resources.clusters.tgt, rows.tgt_linked)


def _signatures(rows: Rows) -> Strings:
    """[n] clusters of the source words, a bar, clusters of the target words: '12 3|7'."""
    clusters = rows.resources.clusters
    sides = ((rows.src, clusters.src), (rows.tgt, clusters.tgt))
    src, tgt = (words.joined(_clusters_of(words, of)) for words, of in sides)
    return concat(src, "|", tgt)


def _learn_signatures(rows: Rows, counts: I64, *, top: int = 55) -> dict[str, Any]:
    found = _signatures(rows).dictionary_encode()
    which = found.indices.to_numpy(zero_copy_only=False)
    n = np.bincount(which, counts, minlength=len(found.dictionary)).astype(np.int64)
    return {"signatures": most_frequent(found.dictionary, n, top)}


@template("cluster_signature", kind="static", reads=("source phrase", "target phrase", "clusters"), learn=_learn_signatures)
def cluster_signature(rows: Rows, *, signatures: list[str]) -> Dense:
    """Indicators of the most frequent cluster signatures of phrase pairs."""
    which = positions(_signatures(rows), strings(signatures))
    return {f"cl.{name}": (which == k).astype(np.float64) for k, name in enumerate(signatures)}
