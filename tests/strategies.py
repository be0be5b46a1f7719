"""Random containers for property tests, and the same as plain Python to compare with.

Values are multiples of 1/4, so that sums are exact in any order; texts have every kind of character, phrases and texts
may be empty, hypotheses may have no units, lists may be empty, names are shared by units and hypotheses, and rare ones
are stored sparsely.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from boostfeat.core.arrays import offsets
from boostfeat.lists.build import Builder, HypRecord, UnitRecord, attach
from boostfeat.lists.nbest import NBest, SparseRows, strings

# No deadline: the machine may be busy. Containers are slow to draw.
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = ["lm", "tm_0", "tm_1", "a=b", "pt:das|the", "ä €", "0", "😀"]
tokens = st.one_of(
    st.sampled_from(["a", "b", "c", "the", "ä", "😀", "|||", "-"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3).filter(str.strip),
)
texts = st.lists(tokens, max_size=6).map(lambda words: " ".join(" ".join(words).split()))
values = st.integers(-40, 40).map(lambda k: k / 4) | st.just(-0.0)
names = st.sampled_from(NAMES) | st.integers(0, 300).map(lambda k: f"rare:{k}")
features = st.dictionaries(names, values, max_size=4)
scores = st.just(nan) | values
spans = st.none() | st.tuples(st.integers(0, 9), st.integers(0, 3)).map(lambda a: (a[0], a[0] + a[1]))
units = st.builds(UnitRecord, features, spans, spans, texts, texts, st.sampled_from(["", "0-0", "0-1 1-0"]), scores)


@st.composite
def records(draw: st.DrawFn, *, min_sentences: int = 0, with_units: bool = True) -> list[HypRecord]:
    """Hypotheses of rising sentence ids, with gaps, as a reader yields them. Units repeat within and across lists."""
    ids = sorted(draw(st.sets(st.integers(0, 6), min_size=min_sentences, max_size=4)))
    pool = draw(st.lists(units, min_size=1, max_size=6)) if with_units else []
    some = st.lists(st.sampled_from(pool), max_size=5) if pool else st.just([])
    return [
        HypRecord(sent, draw(texts), f"list:{sent}.{k}", draw(scores), draw(features), draw(some))
        for sent in ids
        for k in range(draw(st.integers(1, 4)))
    ]


def build(hyps: list[HypRecord], **options: Any) -> NBest:
    builder = Builder(**options)
    for hyp in hyps:
        builder.add(hyp)
    return builder.finish()


@st.composite
def containers(
    draw: st.DrawFn, *, n_refs: int | None = None, min_sentences: int = 0, with_units: bool = True, rare: bool = True
) -> NBest:
    """Containers with 0 to 3 references (``n_refs`` fixes it), those with references have empty lists for skipped ids.

    ``rare`` moves some columns to the sparse part, as a longer list would have them: drawn lists are short.
    """
    nbest = build(draw(records(min_sentences=min_sentences, with_units=with_units)))
    n_refs = draw(st.integers(0, 3)) if n_refs is None else n_refs
    lines = int(nbest.ids[-1]) + 1 if len(nbest) else 0
    refs = [draw(st.lists(texts, min_size=lines, max_size=lines)) for _ in range(n_refs)]
    source = draw(st.none() | st.lists(texts, min_size=lines, max_size=lines))
    nbest = attach(nbest, source=source, refs=refs, name="drawn")
    return sparsely(nbest) if rare and draw(st.booleans()) else nbest


def sparsely(nbest: NBest) -> NBest:
    """The same lists with all ``rare:`` features in the sparse part."""
    rare = sorted({n for n in (*nbest.unit_names, *nbest.extra_names) if n.startswith("rare:")})

    def part(x: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, SparseRows, tuple[str, ...]]:
        stays = [j for j, name in enumerate(names) if not name.startswith("rare:")]
        rows = [sorted((rare.index(n), v) for n, v in zip(names, row, strict=True) if n in rare and v) for row in x.tolist()]
        flat = [pair for row in rows for pair in row]
        sparse = SparseRows(
            offsets(np.array([len(row) for row in rows], np.int64)),
            np.array([j for j, _ in flat], np.int32),
            np.array([v for _, v in flat], np.float64),
        )
        return np.ascontiguousarray(x[:, stays]), sparse, tuple(names[j] for j in stays)

    if len(nbest.sparse_names) or not rare:
        return nbest
    x, unit_sparse, unit_names = part(nbest.X, nbest.unit_names)
    extra, extra_sparse, extra_names = part(nbest.extra, nbest.extra_names)
    return replace(
        nbest,
        units=replace(nbest.units, x=x, sparse=unit_sparse),
        unit_names=unit_names,
        extra=extra,
        extra_sparse=extra_sparse,
        extra_names=extra_names,
        sparse_names=strings(rare),
    )


# -- the same as plain Python -----------------------------------------------------------------------------------------


class Hyp(NamedTuple):
    """What a hypothesis is, however its container stores it. Units' decoder scores are left out: the first seen is kept."""

    text: str
    features: frozenset[tuple[str, float]]  # its own, without zeros
    units: tuple[tuple[Any, ...], ...]  # (src start, length, phrase; tgt ...; alignment; features)
    score: float | None
    stats: tuple[int, ...] | None

    def same_as(self) -> tuple[Any, ...]:
        """What makes two hypotheses of a sentence duplicates."""
        return self[:3]


class Sentence(NamedTuple):
    id: int
    source: str
    refs: tuple[str, ...]
    hyps: tuple[Hyp, ...]


def _named(x: np.ndarray, dense: tuple[str, ...], rows: SparseRows, sparse: list[str], i: int) -> frozenset[tuple[str, float]]:
    out = dict(zip(dense, x[i].tolist(), strict=True))
    for j in range(int(rows.ptr[i]), int(rows.ptr[i + 1])):
        name = sparse[rows.idx[j]]
        out[name] = out.get(name, 0.0) + float(rows.val[j])
    return frozenset((name, value) for name, value in out.items() if value)


def plain(nb: NBest) -> list[Sentence]:
    """A container as nested tuples, element by element."""
    sparse, u = nb.sparse_names.to_pylist(), nb.units
    table = [
        (
            *(column[v].as_py() for column in (u.src, u.tgt, u.align)),
            *(int(lengths[v]) for lengths in (u.src_len, u.tgt_len)),
            _named(u.x, nb.unit_names, u.sparse, sparse, v),
        )
        for v in range(nb.n_units)
    ]

    def hyp(h: int) -> Hyp:
        own = _named(nb.extra, nb.extra_names, nb.extra_sparse, sparse, h)
        occurrences = tuple(
            (int(nb.src_start[i]), int(nb.tgt_start[i]), *table[nb.unit_idx[i]])
            for i in range(int(nb.unit_ptr[h]), int(nb.unit_ptr[h + 1]))
        )
        score = float(nb.score[h])
        stats = tuple(nb.stats[h].tolist()) if nb.has_stats else None
        return Hyp(nb.text[h].as_py(), own, occurrences, None if isnan(score) else score, stats)

    return [
        Sentence(
            int(nb.ids[s]),
            nb.source[s].as_py(),
            tuple(nb.refs[r].as_py() for r in range(int(nb.ref_ptr[s]), int(nb.ref_ptr[s + 1]))),
            tuple(hyp(h) for h in range(int(nb.hyp_ptr[s]), int(nb.hyp_ptr[s + 1]))),
        )
        for s in range(len(nb))
    ]


def plain_records(hyps: list[HypRecord]) -> list[tuple[int, tuple[Hyp, ...]]]:
    """What a list of records should become: (id, hypotheses), spans and texts as given."""

    def nonzero(values: Any) -> frozenset[tuple[str, float]]:
        return frozenset((name, value) for name, value in values.items() if value)

    def unit(record: UnitRecord) -> tuple[Any, ...]:
        (a, b), (c, d) = ((span if span else (-1, -2)) for span in (record.src, record.tgt))
        return (a, c, record.src_text, record.tgt_text, record.align, b - a, d - c, nonzero(record.features))

    out: dict[int, list[Hyp]] = {}
    for h in hyps:
        score = None if isnan(h.score) else h.score
        made = Hyp(" ".join(h.text.split()), nonzero(h.features), tuple(map(unit, h.units)), score, None)
        out.setdefault(h.sent, []).append(made)
    return [(sent, tuple(own)) for sent, own in out.items()]
