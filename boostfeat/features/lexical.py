"""Dense templates of words and word clusters: insertions, deletions, cluster signatures [TA13 2.2].

A source word without a link is deleted, a target word without one is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import I64, Array, Bool
from ..core.strings import Strings
from ..lists.nbest import strings
from ..lists.words import Words, concat, positions
from .clusters import cluster_names
from .context import Corpus, Rows
from .registry import Counted, Dense, Tally, template
from .resources import UNKNOWN_CLUSTER

_ALIGNED = ("source phrase", "target phrase", "alignment")


def most_frequent(names: Strings, counts: Array, top: int) -> list[str]:
    """The top names by falling count; equal counts by name, so that the order in which they were met does not matter."""
    some = np.flatnonzero(counts)
    kept = some[np.argsort(-counts[some], kind="stable")]
    least = counts[kept[top - 1]] if len(kept) > top else 0
    ranked = sorted((-int(counts[k]), names[int(k)].as_py()) for k in kept[counts[kept] >= least])
    return [name for _, name in ranked[:top]]


def frequent(most: int, **of: Callable[[Rows, I64], Tally]) -> Counted:
    """Learning the most frequent of what functions count, an option each; ``top`` says how many."""

    def count(rows: Rows, counts: I64) -> dict[str, Tally]:
        return {name: tally(rows, counts) for name, tally in of.items()}

    def choose(corpus: Corpus, tallies: dict[str, Tally], *, top: int = most) -> dict[str, Any]:
        return {name: most_frequent(*tally, top) for name, tally in tallies.items()}

    return Counted(count, choose)


def word_counts(words: Words, counts: I64, tokens: Bool | None = None) -> Tally:
    """The words of rows that occur so often, all or the marked tokens."""
    weight = counts[words.owner] * (1 if tokens is None else tokens)
    return words.names, np.bincount(words.ids, weight, minlength=len(words.names)).astype(np.int64)


@template(
    "deleted_words", kind="static", reads=_ALIGNED, learn=frequent(15, words=lambda rows, counts: word_counts(rows.src, counts))
)
def deleted_words(rows: Rows, *, words: list[str]) -> Dense:
    """For each of the most frequent source words, how often it is there without a link."""
    return _columns("del.", words, rows.src, rows.src.find(words), ~rows.src_linked)


@template(
    "inserted_words", kind="static", reads=_ALIGNED, learn=frequent(15, words=lambda rows, counts: word_counts(rows.tgt, counts))
)
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


def _count_signatures(rows: Rows, counts: I64) -> Tally:
    found = _signatures(rows).dictionary_encode()
    which = found.indices.to_numpy(zero_copy_only=False)
    return found.dictionary, np.bincount(which, counts, minlength=len(found.dictionary)).astype(np.int64)


@template(
    "cluster_signature",
    kind="static",
    reads=("source phrase", "target phrase", "clusters"),
    learn=frequent(55, signatures=_count_signatures),
)
def cluster_signature(rows: Rows, *, signatures: list[str]) -> Dense:
    """Indicators of the most frequent cluster signatures of phrase pairs."""
    which = positions(_signatures(rows), strings(signatures))
    return {f"cl.{name}": (which == k).astype(np.float64) for k, name in enumerate(signatures)}
