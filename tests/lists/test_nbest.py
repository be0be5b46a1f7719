"""The container and its making, against the same thing done element by element in plain Python."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, replace
from inspect import currentframe
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Hyp, Sentence, build, containers, names, plain, plain_records, quick, records, sparsely, values
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.errors import FormatError, InputError, counted
from boostfeat.lists.build import (
    DENSE_SHARE,
    MAX_DENSE,
    Builder,
    HypRecord,
    ReadOptions,
    UnitRecord,
    attach,
    own_features,
    with_own_lines,
    with_stats,
)
from boostfeat.lists.merging import concat, merge
from boostfeat.lists.nbest import NBest, Notes, Qualities, SparseRows, Units, columns, strings, with_columns


def hyp(sent: int = 0, text: str = "a", **more: Any) -> HypRecord:
    return HypRecord(sent, text, f"list:{sent}", **more)


def without_duplicates(hyps: list[Hyp]) -> tuple[Hyp, ...]:
    first: dict[Any, Hyp] = {}
    for h in hyps:
        first.setdefault(h.same_as(), h)
    return tuple(first.values())


# -- from records -----------------------------------------------------------------------------------------------------


@quick
@given(records())
def test_builder_keeps_everything(hyps: list[HypRecord]) -> None:
    nb = build(hyps)
    assert [(s.id, s.hyps) for s in plain(nb)] == plain_records(hyps)
    assert [(s.id, s.hyps) for s in plain(sparsely(nb))] == plain_records(hyps)
    assert nb.n_units == len({unit[2:] for s in plain(nb) for h in s.hyps for unit in h.units})  # each distinct unit once
    assert list(dict.fromkeys(nb.unit_idx.tolist())) == list(range(nb.n_units))  # numbered by first use
    assert nb == build(hyps)


@pytest.mark.parametrize(
    ("other", "n_units"),
    [
        ({"f": 1.0, "g": 0.0}, 1),
        ({"f": 1.0, "g": -0.0}, 1),
        ({"f": 1.0}, 1),  # absent is 0
        ({"g": 0.0, "f": 1}, 1),
        ({"f": np.nextafter(1.0, 2)}, 2),
        ({"f": 1.0, "g": 5e-324}, 2),
        ({"f": 1.0, "h": 0.0}, 1),
    ],
)
def test_units_are_merged_exactly(other: dict[str, float], n_units: int) -> None:
    filler = [UnitRecord({"lm": float(k)}) for k in range(1, 40)]  # so that f, g, h are rare: sparse
    for more in ([], filler):
        nb = build([hyp(units=[UnitRecord({"f": 1.0, "g": 0.0}), UnitRecord(other), *more])])
        assert nb.n_units == n_units + len(more)
        assert bool(len(nb.sparse_names)) == bool(more)
        assert not np.signbit(nb.X[nb.X == 0]).any()


@pytest.mark.parametrize("change", [{"src": (1, 2)}, {"tgt": (3, 4)}, {"score": 7.0}])
def test_place_and_score_do_not_tell_units_apart(change: dict[str, Any]) -> None:
    unit = UnitRecord({"f": 1.0}, src=(0, 1), tgt=(0, 1), src_text="s", tgt_text="t", score=1.0)
    nb = build([hyp(units=[unit, unit._replace(**change)])])
    assert (nb.n_units, nb.units.score.tolist()) == (1, [1.0])
    for other in ({"src": (0, 2)}, {"tgt": (0, 0)}, {"tgt": None}, {"src_text": "S"}, {"tgt_text": ""}, {"align": "0-0"}):
        assert build([hyp(units=[unit, unit._replace(**other)])]).n_units == 2


def test_words_of_spans() -> None:
    options = ReadOptions(source=["das  haus ist", ""])
    unit = UnitRecord({}, src=(1, 3), tgt=(0, 2))
    nb = build([hyp(0, "the  house is", units=[unit, UnitRecord({})]), hyp(1, "x y", units=[unit])], options=options)
    assert nb.units.src.to_pylist() == ["haus ist", "", ""]
    assert nb.units.tgt.to_pylist() == ["the house", "", "x y"]
    with pytest.raises(FormatError, match="list:0: expected a source span within the sentence's 3 words, found 2-3"):
        build([hyp(0, units=[UnitRecord({}, src=(2, 4))])], options=options)


def test_dense_and_declared_columns() -> None:
    unit = [UnitRecord({"often": 1.0, f"once{k}": 2.0, **({"declared": 3.0} if k == 7 else {})}) for k in range(25)]
    nb = build([hyp(units=unit, features={"once3": 1.0, "own": 2.0})], declared_dense=("absent", "declared"))
    assert nb.unit_names == ("absent", "declared", "often", "once3")  # dense for extras, so dense for units
    assert nb.extra_names == ("once3", "own")
    assert nb.sparse_names.to_pylist() == [f"once{k}" for k in range(25) if k != 3]
    assert nb.X[:, 0].tolist() == [0.0] * 25
    assert nb.X[:, 1].sum() == 3.0
    assert DENSE_SHARE * 25 > 1


def test_ids_do_not_go_back() -> None:
    with pytest.raises(FormatError, match="list:1: expected sentence id 2 or higher, found 1; sort the list"):
        build([hyp(2), hyp(1)])
    assert build([hyp(0), hyp(2**61)]).ids.tolist() == [0, 2**61]


@quick
@given(records(), st.integers(1, 4))
def test_size_limits_lists_like_truncate(hyps: list[HypRecord], size: int) -> None:
    assert plain(build(hyps, options=ReadOptions(size=size))) == plain(build(hyps).truncate(size))


@pytest.mark.parametrize("n_hyps", [1, 10])
def test_many_names_given_once_stay_sparse(n_hyps: int) -> None:
    """In a list this short every feature passes DENSE_SHARE: the columns would fill memory as hypotheses are added."""
    each = 100_000 // n_hyps
    nb = build([hyp(features={f"f{h}.{k}": 1.0 for k in range(each)} | {"all": 2.0}) for h in range(n_hyps)])
    assert len(nb.extra_names) == MAX_DENSE
    assert n_hyps == 1 or "all" in nb.extra_names  # those that most hypotheses give
    assert len(nb.sparse_names) == 100_001 - MAX_DENSE
    assert nb.extra.sum() + nb.global_sparse.sum() == 100_000 + 2.0 * n_hyps


def test_totals_are_compared_with_the_units() -> None:
    unit = UnitRecord({"lm": -1.5})
    good = build([hyp(units=[unit, unit], totals={"lm": -3.000001, "d": -4.0}, features={"d": 1.0})])
    assert plain(good)[0].hyps[0].features == {("d", -3.0)}
    # what decoders round away grows with the numbers that were added, not with their sum: 2e5 - 2e5 is 0 to six digits
    large = [UnitRecord({"lm": 2e5}), UnitRecord({"lm": -2e5})]
    assert plain(build([hyp(units=large, totals={"lm": 1e-3})]))[0].hyps[0].features == frozenset()
    bad = [hyp(units=[unit, unit], totals={"lm": -3.1})]
    with pytest.raises(FormatError, match=r"list:0: expected units whose lm sums to the hypothesis' -3.1, found -3; .*mismatch"):
        build(bad)
    kept = build(bad, options=ReadOptions(allow_mismatch=True))
    assert dict(plain(kept)[0].hyps[0].features) == pytest.approx({"lm": -0.1})


def test_a_million_sparse_names() -> None:
    """Each unit has a name of its own: 8 TB if densified. Sums, slices and merging take time in the order of the names."""
    n = 1_000_000
    few = build([hyp(0, "a", units=[UnitRecord({"lm": 0.5})]), hyp(1, "b")])
    rows = SparseRows(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n))
    nb = replace(
        few,
        unit_ptr=np.array([0, n, n]),
        unit_idx=np.arange(n, dtype=np.int32),
        src_start=np.zeros(n, np.int32),
        tgt_start=np.zeros(n, np.int32),
        units=replace(few.units.take(np.zeros(n, np.int64)), sparse=rows),
        sparse_names=strings([f"pt:{k}" for k in range(n)]),
    )
    started = time.process_time()
    assert nb.global_sparse.nnz == n
    unit_scores, own = nb.weigh({"pt:7": 2.0, "lm": 1.0})
    assert nb.sum_units(unit_scores, own).tolist() == [2.0 + n / 2, 0.0]
    assert nb[1:].n_units == 0
    assert merge([nb, nb]) == nb
    assert time.process_time() - started < 20  # about 4 s


# -- the matrices -----------------------------------------------------------------------------------------------------


def totals(sentences: list[Sentence]) -> list[dict[str, float]]:
    out = []
    for h in (h for s in sentences for h in s.hyps):
        total: dict[str, float] = {}
        for name, value in [*h.features, *(pair for unit in h.units for pair in unit[-1])]:
            total[name] = total.get(name, 0.0) + value
        out.append({name: value for name, value in total.items() if value})
    return out


@quick
@given(containers(), st.dictionaries(names, values))
def test_global_features_are_sums(nb: NBest, weights: dict[str, float]) -> None:
    dense, sparse = nb.global_features, nb.global_sparse.toarray()
    found = []
    for h in range(nb.n_hyps):
        total = dict(zip(nb.global_names, dense[h].tolist(), strict=True))
        for name, value in zip(nb.sparse_names.to_pylist(), sparse[h].tolist(), strict=True):
            total[name] = total.get(name, 0.0) + value
        found.append({name: value for name, value in total.items() if value})
    naive = totals(plain(nb))
    assert found == naive
    scores = nb.sum_units(*nb.weigh(weights))
    assert scores.tolist() == [sum(weights.get(name, 0.0) * v for name, v in t.items()) for t in naive]
    counts = np.zeros((nb.n_hyps, nb.n_units))
    for h in range(nb.n_hyps):
        for i in range(nb.unit_ptr[h], nb.unit_ptr[h + 1]):
            counts[h, nb.unit_idx[i]] += 1
    np.testing.assert_array_equal(nb.A.toarray(), counts)
    assert nb.X is nb.units.x
    assert nb.sent_of_hyp.tolist() == [s for s, sent in enumerate(plain(nb)) for _ in sent.hyps]
    if nb.n_occurrences:
        assert np.shares_memory(nb.A.indices, nb.unit_idx)


@quick
@given(containers())
def test_arrays_are_read_only(nb: NBest) -> None:
    columns = [getattr(o, f.name) for o in (nb, nb.units, nb.units.sparse, nb.extra_sparse) for f in fields(o)]
    arrays = [c for c in [*columns, nb.X, nb.global_features] if isinstance(c, np.ndarray)]
    assert len(arrays) >= 20
    assert not any(a.flags.writeable for a in arrays)


# -- other lists ------------------------------------------------------------------------------------------------------


@quick
@given(containers(), st.data())
def test_take_slice_and_truncate(nb: NBest, data: st.DataObject) -> None:
    lists = plain(nb)
    idx = data.draw(st.lists(st.integers(-len(nb), len(nb) - 1), max_size=5)) if len(nb) else []
    assert plain(nb.take(np.array(idx, np.int64))) == [lists[i] for i in idx]
    assert plain(nb.take(idx)) == [lists[i] for i in idx]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(nb), max_size=len(nb))), bool)
    assert plain(nb.take(mask)) == [s for s, is_in in zip(lists, mask, strict=True) if is_in]
    part = data.draw(st.slices(len(nb)))
    taken = nb[part]
    assert plain(taken) == lists[part]
    assert set(taken.unit_idx.tolist()) == set(range(taken.n_units))  # no unit is left that nobody uses
    size = data.draw(st.integers(0, 3))
    assert plain(nb.truncate(size)) == [s._replace(hyps=s.hyps[:size]) for s in lists]
    assert nb[:] == nb.compact() == nb == nb.truncate(99)


@quick
@given(st.lists(containers(n_refs=1), min_size=1, max_size=3))
def test_concat_then_slice_gives_the_parts_back(parts: list[NBest]) -> None:
    """Whatever is dense in one and sparse, or absent, in the other."""
    whole = concat(parts)
    numbered = [s for part in parts for s in plain(part)]
    assert plain(whole) == [s._replace(id=i) for i, s in enumerate(numbered)]
    assert whole.has_stats == (len(whole) > 0)
    start = 0
    for part in parts:
        mine = replace(whole[start : start + len(part)], ids=part.ids)
        assert plain(mine) == plain(part)
        start += len(part)
    same = concat([parts[0], parts[0]])
    n = len(parts[0])
    assert replace(same[:n], ids=parts[0].ids) == replace(same[n:], ids=parts[0].ids) == parts[0]  # to the last bit


def test_notes_of_some_lists_stay_with_their_sentences_and_hypotheses() -> None:
    """Nothing is said of the others; of no list, nothing at all."""
    nb = synthetic_nbest(SyntheticOptions(sentences=2, hyps=3), seed=1)
    said = replace(nb, notes=Notes(strings(["s", "t"]), strings([])))
    both = concat([nb, said, replace(nb, notes=Notes(strings([]), strings(list("abcdef"))))])
    assert both.notes.sentences.to_pylist() == ["", "", "s", "t", "", ""]
    assert both.notes.hyps.to_pylist() == [""] * 12 + list("abcdef")
    one = replace(nb[:1], notes=Notes(strings(["s"]), strings([])))
    assert [bool(found.notes) for found in (nb, said, both, one, concat([nb, nb]))] == [False, True, True, True, False]


@quick
@given(containers(n_refs=0), containers(n_refs=0), containers(n_refs=0))
def test_merge_is_the_union(a: NBest, b: NBest, c: NBest) -> None:
    merged = merge([a, b, c])
    expected: dict[int, list[Hyp]] = {}
    for s in (s for nb in (a, b, c) for s in plain(nb)):
        expected.setdefault(s.id, []).extend(s.hyps)
    assert [(s.id, s.hyps) for s in plain(merged)] == [(i, without_duplicates(expected[i])) for i in sorted(expected)]
    once = merge([a, a])
    assert plain(once) == [s._replace(hyps=without_duplicates(list(s.hyps))) for s in plain(a)]
    assert merge([once, once]) == once
    assert plain(merge([merged, b, a])) == plain(merged)
    assert plain(merge([sparsely(a), a, b, c])) == plain(merged)


def with_refs(nb: NBest, *refs: list[str]) -> NBest:
    return attach(nb, source=None, refs=refs, name="x")


def test_merge_takes_references_and_source_where_they_are_given() -> None:
    bare, sourced = build([hyp(0, "a b")]), attach(build([hyp(0, "b")]), source=["quelle"], refs=[], name="x")
    full = with_refs(build([hyp(0, "a")]), ["a b"], ["b"])
    merged = merge([bare, full, sourced])
    assert plain(merged)[0][1:3] == ("quelle", ("a b", "b"))
    assert merged.stats.tolist() == [[2, 1, 0, 0, 2, 2], [1, 0, 0, 0, 1, 1], [1, 0, 0, 0, 1, 1]]  # of all, by hand
    other = with_refs(build([hyp(0, "a")]), ["a c"], ["b"])
    with pytest.raises(InputError, match="sentence 0: expected the same references in all lists to merge, found others; "):
        merge([full, other])


def test_a_short_list_makes_no_dense_columns_in_a_long_one() -> None:
    """All 3000 features of one hypothesis are frequent in its list; in 20,000 hypotheses they would be 480 MB of zeros."""
    short = build([hyp(0, "x", features={f"pt:{k}": 1.0 for k in range(3000)})])
    long = build([hyp(s, "y", features={"lm": 1.0}) for s in range(1, 20_001)])
    tracemalloc.start()
    both = concat([long, short])
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()
    assert both.extra_names == ("lm",)
    assert both.global_sparse.sum() == 3000
    assert plain(both[-1:])[0].hyps == plain(short)[0].hyps
    assert concat([short, build([hyp(0, features={"lm": 1.0})])]).extra_names == (*short.extra_names, "lm")


@pytest.mark.parametrize("lists", [[], [build([])], [build([]), build([])]])
def test_nothing_to_join(lists: list[NBest]) -> None:
    if not lists:
        with pytest.raises(ValueError, match="expected at least one list"):
            merge(lists)
    else:
        assert merge(lists) == concat(lists) == build([])


def test_an_empty_list_takes_nothing_away() -> None:
    nb = with_refs(build([hyp(0, "a b", units=[UnitRecord({"f": 1.0})])]), ["a"])
    for joined in (concat([nb, build([])]), concat([build([]), nb]), merge([nb, build([])])):
        assert joined == nb
        assert joined.has_stats


@quick
@given(containers(min_sentences=1), st.integers(2, 5))
def test_folds_partition_the_sentences(nb: NBest, k: int) -> None:
    folds = nb.split_sentences(k, seed=3)
    assert sorted(np.concatenate([held for _, held in folds]).tolist()) == list(range(len(nb)))
    for train, held in folds:
        assert sorted([*train, *held]) == list(range(len(nb)))


# -- attach -----------------------------------------------------------------------------------------------------------


def test_attach_fills_gaps_with_empty_lists() -> None:
    nb = build([hyp(1, "the house"), hyp(1, "a"), hyp(3, "x")])
    out = attach(nb, source=["a", " b  c ", "d", "e"], refs=[["p", "the  house", "q", "x"], ["r", "house", "s", "x y"]], name="n")
    assert out.hyp_ptr.tolist() == [0, 0, 2, 2, 3]
    assert out.ids.tolist() == [0, 1, 2, 3]
    assert out.source.to_pylist() == ["a", "b c", "d", "e"]
    assert plain(out)[1].refs == ("the house", "house")
    assert out.stats.tolist() == [[2, 1, 0, 0, 2, 2], [0, 0, 0, 0, 1, 1], [1, 0, 0, 0, 1, 1]]
    assert attach(nb, source=None, refs=[], name="n") is nb


def test_attach_keeps_what_the_list_itself_has() -> None:
    own = attach(build([hyp(0, "a"), hyp(1, "b")]), source=["s t", "u"], refs=[["a", "b"]], name="n")
    assert attach(own, source=["s", "t"], refs=[], name="n") == replace(own, source=strings(["s", "t"]))
    assert attach(own, source=None, refs=[["a", "b"]], name="n") == own
    gap = attach(replace(own, ids=np.array([0, 2])), source=["x", "y", "z"], refs=[], name="n")
    assert [s[1:3] for s in plain(gap)] == [("x", ("a",)), ("y", ()), ("z", ("b",))]
    assert gap.stats.tolist() == own.stats.tolist()


@pytest.mark.parametrize(
    ("source", "refs", "message"),
    [
        (
            None,
            [["a"]],
            "name: expected sentence ids up to 0, as references with 1 line have, found ids up to 1; give the references of",
        ),
        (None, [["a"] * 3], "ids up to 2, as references with 3 lines have, found ids up to 1"),
        (["a"], [], "ids up to 0, as source with 1 line have, found ids up to 1; give the source of"),
        (None, [["a"] * 2, ["a"]], "the same number of lines, found references: 2, references: 1; align them"),
        (["a"], [["a"] * 2], "found references: 2, source: 1; align them"),
        (None, [[]], "name: expected references with lines, found an empty file; give the references of"),
    ],
)
def test_attach_refuses_other_lengths(source: list[str] | None, refs: list[list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attach(build([hyp(0), hyp(1)]), source=source, refs=refs, name="name")


def test_attach_refuses_lists_out_of_order() -> None:
    nb = build([hyp(0), hyp(1), hyp(2)]).take([1, 0, 2])
    with pytest.raises(InputError, match="name: expected sentence ids that rise"):
        attach(nb, source=None, refs=[["a"] * 3], name="name")
    wide = replace(nb, ids=np.array([2**62 + 10, -(2**62) - 10, 0]))  # their differences wrap around
    with pytest.raises(InputError, match="name: expected sentence ids that rise"):
        attach(wide, source=["a"], refs=[], name="name")
    below = replace(nb, ids=np.array([-1, 0, 1]))
    with pytest.raises(InputError, match="name: expected sentence ids that rise"):
        attach(below, source=["a", "b"], refs=[], name="name")


def test_statistics_need_a_reference() -> None:
    with pytest.raises(ValueError, match="sentence 0: expected at least one reference, found none"):
        with_stats(build([hyp(0)]))


# -- checks -----------------------------------------------------------------------------------------------------------

GOOD = with_refs(build([hyp(0, units=[UnitRecord({"f": 1.0})], features={"e": 1.0}), hyp(1)]), ["a", "b"])
i64 = np.int64


def units(**change: Any) -> dict[str, Units]:
    return {"units": replace(GOOD.units, **change)}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"ids": np.arange(3)}, "length of ref_ptr: expected 4, found 3"),
    ({"ref_ptr": np.array([0, 1, 3])}, "ref_ptr: expected offsets that rise from 0 to 2, found 0 to 3"),
    ({"ref_ptr": np.array([1, 1, 2])}, "ref_ptr: .*found 1 to 2"),
    ({"refs": strings(["a"])}, "ref_ptr: expected offsets that rise from 0 to 1"),
    ({"hyp_ptr": np.array([0, 3, 2])}, "hyp_ptr: .*or a fall"),
    ({"hyp_ptr": np.array([0, 2])}, "length of hyp_ptr: expected 3, found 2"),
    ({"hyp_ptr": np.array([], i64)}, "length of hyp_ptr: expected 3, found 0"),
    ({"text": strings(["a"])}, "hyp_ptr: expected offsets that rise from 0 to 1"),
    ({"unit_ptr": np.array([0, 1, 2])}, "unit_ptr: expected offsets that rise from 0 to 1, found 0 to 2"),
    ({"unit_ptr": np.array([0, -1, 1])}, "unit_ptr: .*fall"),
    ({"unit_idx": np.array([1], np.int32)}, "unit_idx: expected values from 0 to 0, found 1 to 1"),
    ({"unit_idx": np.array([-1], np.int32)}, "unit_idx: .*found -1"),
    ({"source": strings(["x"])}, "length of source: expected 2, found 1"),
    ({"score": np.zeros(1)}, "length of score: expected 2, found 1"),
    ({"stats": np.zeros((1, 6), np.int32)}, "length of stats: expected 2, found 1"),
    ({"stats": np.zeros((2, 5), np.int32)}, "columns of stats: expected 6, found 5"),
    ({"src_start": np.zeros(2, np.int32)}, "length of src_start: expected 1, found 2"),
    ({"tgt_start": np.zeros(0, np.int32)}, "length of tgt_start: expected 1, found 0"),
    ({"extra": np.zeros((1, 1))}, "length of extra: expected 2, found 1"),
    ({"extra": np.zeros((2, 2))}, "columns of extra: expected 1, found 2"),
    ({"extra_names": ("e", "e"), "extra": np.zeros((2, 2))}, "extra_names: expected distinct names, found 'e' twice"),
    ({"unit_names": ("f", "g")}, "columns of units.x: expected 2, found 1"),
    ({"unit_names": ("f", "f"), **units(x=np.ones((1, 2)))}, "unit_names: expected distinct names, found 'f' twice"),
    ({"extra_sparse": SparseRows.empty(1)}, "length of extra_sparse.ptr: expected 3, found 2"),
    (
        {"extra_sparse": SparseRows(np.array([0, 1, 1]), np.array([0], np.int32), np.ones(1))},
        "extra_sparse.idx: expected values from 0 to -1, found 0",
    ),
    (
        {
            "extra_sparse": SparseRows(np.array([0, 1, 1]), np.array([0], np.int32), np.ones(2)),
            "sparse_names": strings(["s"]),
        },
        "length of extra_sparse.val: expected 1, found 2",
    ),
    (units(x=np.ones((2, 1))), "units.sparse|length of units"),
    (units(sparse=SparseRows.empty(2)), "length of units.sparse.ptr: expected 2, found 3"),
    (units(src=strings([])), "length of units.src: expected 1, found 0"),
    (units(tgt=strings(["a", "b"])), "length of units.tgt: expected 1, found 2"),
    (units(align=strings([])), "length of units.align: expected 1, found 0"),
    (units(src_len=np.zeros(2, np.int32)), "length of units.src_len: expected 1, found 2"),
    (units(tgt_len=np.zeros(0, np.int32)), "length of units.tgt_len: expected 1, found 0"),
    (units(score=np.zeros(3)), "length of units.score: expected 1, found 3"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_every_check_fires(change: dict[str, Any], message: str) -> None:
    assert replace(GOOD) == GOOD
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **change)


def test_offsets_that_go_round_all_int64() -> None:
    """Each is the one before and something that is not negative, modulo 2^64."""
    nbest, largest = build([hyp(0), hyp(0), hyp(0), hyp(0)]), 2**63 - 1
    with pytest.raises(ValueError, match=r"unit_ptr: .*or a fall"):
        replace(nbest, unit_ptr=np.array([0, largest, -largest - 1, -1, 0]))


CHANGES: list[tuple[str, Callable[[NBest], Any]]] = [
    ("ids", lambda nb: nb.ids + 1),
    ("source", lambda nb: strings(["x", ""])),
    ("refs", lambda nb: strings(["a", "B"])),
    ("text", lambda nb: strings(["a", "b"])),
    ("score", lambda nb: np.zeros(2)),
    ("stats", lambda nb: nb.stats + 1),
    ("src_start", lambda nb: nb.src_start + 1),
    ("extra", lambda nb: nb.extra * (1 + 2e-16)),
    ("extra_names", lambda nb: ("E",)),
    ("unit_names", lambda nb: ("F",)),
    ("sparse_names", lambda nb: strings(["s"])),
    ("notes.sentences", lambda nb: Notes(strings(["n", ""]), nb.notes.hyps)),
    ("notes.hyps", lambda nb: Notes(nb.notes.sentences, strings(["", "n"]))),
    *((f"quality.{name}", lambda nb, k=k: qualities(k)) for k, name in enumerate(("names", "lower", "value", "weight"))),
]


def qualities(k: int = -1) -> Qualities:
    """A column, other than GOOD's in one thing: its name, direction, values or weights."""
    value, weight = np.ones((2, 1)), np.ones((2, 1))
    return Qualities(("p" if k == 0 else "q",), (k == 1,), (1.0,), value + (k == 2), weight + (k == 3))


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_differences_name_the_column(name: str, change: Callable[[NBest], Any]) -> None:
    good = replace(GOOD, quality=qualities()) if name.startswith("quality") else GOOD
    other = replace(good, **{name.partition(".")[0]: change(GOOD)})
    assert (good.differences(other), other.differences(good)) == ([name], [name])
    assert other != GOOD
    assert replace(GOOD, meta={"from": "elsewhere"}) == GOOD
    assert GOOD.differences(replace(GOOD, units=replace(GOOD.units, score=np.ones(1)))) == ["units.score"]


def test_strings_of_slices() -> None:
    """Columns may be views into longer ones, as after a zero-copy slice."""
    nb = build([hyp(0, f"w{k}") for k in range(4)])
    sliced = replace(nb, text=pa.concat_arrays([strings(["junk"]), nb.text]).slice(1))
    for made in (nb, sliced):
        assert with_refs(made, ["w1 w2"]).stats[:, 0].tolist() == [0, 1, 1, 0]


@quick
@given(containers(n_refs=2))
def test_repr_says_what_it_holds(nb: NBest) -> None:
    sizes = counted(len(nb), "sentence"), counted(nb.n_hyps, "hypothesis"), counted(nb.n_occurrences, "unit")
    assert repr(nb).startswith(f"NBest({', '.join(sizes)} ({nb.n_units:,} distinct), ")
    assert isinstance(Builder().finish(), NBest)


def test_a_name_is_stored_one_way_for_units_and_extras() -> None:
    """One feature has one weight: common among units and rare among extras (or the other way round), it is dense for both."""
    for common, rare in (("units", "extras"), ("extras", "units")):
        builder = Builder()
        for h in range(40):
            units = [UnitRecord({"lm": 1.0 + h} if common == "units" or h == 0 else {"other": 1.0})]
            features = {"lm": 2.0} if common == "extras" or h == 0 else {}
            builder.add(HypRecord(0, "a", "x", -1.0, features, units))
        nb = builder.finish()
        assert "lm" in nb.unit_names, rare
        assert "lm" in nb.extra_names
        assert "lm" not in nb.sparse_names.to_pylist()


@quick
@given(containers(), st.data())
def test_rows_and_columns_of_global_features(nb: NBest, data: st.DataObject) -> None:
    """Parts that are computed without the whole are the whole's, bit for bit."""
    hyps = np.array(data.draw(st.lists(st.integers(0, max(0, nb.n_hyps - 1)), max_size=5)) if nb.n_hyps else [], np.int64)
    np.testing.assert_array_equal(nb.global_rows(hyps), nb.global_features[hyps])
    for j, name in enumerate(nb.global_names):
        np.testing.assert_array_equal(nb.global_column(name), nb.global_features[:, j])


def test_one_sentence_is_lists_too() -> None:
    nb = synthetic_nbest(SyntheticOptions(sentences=4, hyps=3, features=2))
    for at in (0, len(nb) - 1, -1, np.int64(0)):
        assert nb[at] == nb.take(np.array([at]))
    assert [len(one) for one in nb] == [1] * len(nb)
    for at in (len(nb), -len(nb) - 1):
        with pytest.raises(IndexError, match=f"sentence {at}: expected one of {len(nb)}"):
            _ = nb[at]


def test_blocks_of_sentences_are_runs_of_neighbours() -> None:
    nb = synthetic_nbest(SyntheticOptions(sentences=7, hyps=3), seed=0)
    folds = nb.blocks_of_sentences(3)
    assert [held_out.tolist() for _, held_out in folds] == [[0, 1, 2], [3, 4], [5, 6]]
    assert all(sorted([*train, *held_out]) == list(range(7)) for train, held_out in folds)


@pytest.mark.parametrize("column", ["source", "refs"])
def test_copies_of_a_sentence_are_in_one_fold(column: str) -> None:
    """By their sources, or by their references where there are no sources; sentences without either are no copies."""
    nb = synthetic_nbest(SyntheticOptions(sentences=9, hyps=3), seed=0)
    texts = ["a", "b", "c", "a", "", "d", "", "b", "a"]
    nb = replace(nb, source=strings(texts if column == "source" else [""] * 9))
    if column == "refs":
        nb = replace(nb, refs=strings(texts))
    assert nb.n_repeats == 3
    for folds in (nb.blocks_of_sentences(3), nb.split_sentences(3, seed=1)):
        assert sorted(s for _, held_out in folds for s in held_out) == list(range(9))
        for train, held_out in folds:
            assert not {texts[s] for s in train if texts[s]} & {texts[s] for s in held_out}


@quick
@given(containers(), st.data())
def test_a_run_of_sentences_is_what_its_sentences_are(nb: NBest, data: st.DataObject) -> None:
    """Views of a run hold what copies of the sentences in another order do."""
    if not len(nb):
        return
    first = data.draw(st.integers(0, len(nb) - 1))
    some = np.arange(first, data.draw(st.integers(first + 1, len(nb))))
    backwards = np.arange(len(some))[::-1]
    assert nb.take(some[::-1]).take(backwards).differences(nb.take(some)) == []
    assert nb[first : int(some[-1]) + 1].differences(nb.take(some)) == []


@quick
@given(containers())
def test_without_sparse_features_the_dense_ones_stay(nb: NBest) -> None:
    dense = nb.without_sparse()
    assert dense.feature_names == tuple(nb.global_names)
    assert (dense.global_features == nb.global_features).all()


@quick
@given(containers())
def test_weights_in_the_order_of_features_are_those_by_name(nbest):
    weights = np.linspace(-1, 2, len(nbest.feature_names))
    by_name = nbest.weigh(dict(zip(nbest.feature_names, weights.tolist(), strict=True)))
    assert [x.tolist() for x in nbest.weigh(weights)] == [x.tolist() for x in by_name]


def test_minus_zero_is_zero():
    """Equal numbers are equal bytes of a store: scores, features of units and of hypotheses, dense and sparse."""
    often = [HypRecord(0, "a", f"h{k}", -0.0, {"f": -0.0}, [UnitRecord({"u": -0.0})]) for k in range(20)]
    rare = HypRecord(
        0, "b", "h", -0.0, {"f": -0.0, "rare": -0.0, "seen": 1.0}, [UnitRecord({"u": -0.0, "odd": -0.0, "even": 2.0})]
    )
    nbest = build([*often, rare])
    scored = build([HypRecord(0, "a", "h", 0.0, {}, [UnitRecord({"u": 1.0}, score=-0.0)])])
    for column in (scored.units.score, nbest.score, nbest.X, nbest.extra, nbest.extra_sparse.val, nbest.units.sparse.val):
        assert not np.signbit(column).any()


def test_own_features_by_hand():
    """What units do not carry is added to what the hypothesis has; a total may differ by what decoders round away."""
    one, two = UnitRecord({"lm": -1.5, "tm": 1.0}), UnitRecord({"lm": 0.5})

    def own(*, allow_mismatch=False, **totals):
        record = hyp(units=[one, two], totals=totals, features={"d": 2.0, "tm": 0.25})
        return own_features(record, allow_mismatch=allow_mismatch)

    assert own(d=3.0, e=4.0) == {"d": 5.0, "tm": 0.25, "e": 4.0}
    assert own(lm=-1.0, tm=1.0) == {"d": 2.0, "tm": 0.25}
    # of lm 1e-5 · (1.5 + 0.5 + 1) + 1e-6 = 3.1e-5 may be lost
    assert own(lm=-1.00003) == own(lm=-0.99997) == {"d": 2.0, "tm": 0.25}
    for total in (-1.000033, -0.999967):
        with pytest.raises(FormatError, match="lm sums to the hypothesis'"):
            own(lm=total)
    assert own(allow_mismatch=True, lm=-3.0, tm=5.0) == {"d": 2.0, "tm": 0.25 + 4.0, "lm": -2.0}
    bare = hyp(units=[one], features={"d": 2.0})
    assert own_features(bare, allow_mismatch=False) is bare.features


def test_a_builder_takes_sentences_up_to_the_first_that_is_not_wanted():
    hyps = iter([hyp(0, "a"), hyp(1, "b"), hyp(3, "c"), hyp(4, "d")])
    builder = Builder(ReadOptions(first=3))
    assert builder.take(hyps) is False
    assert builder.finish().text.to_pylist() == ["a", "b"]
    assert next(hyps).text == "d"  # no more was read
    assert Builder(ReadOptions(first=3)).take([hyp(2, "a")]) is True
    assert Builder().take([hyp(2, "a")]) is True


def test_a_warning_is_of_who_called_the_reader():
    def reader():
        ReadOptions().warn("said")

    with pytest.warns(UserWarning, match="said") as found:
        reader()
    line = currentframe().f_lineno - 1
    assert [(warning.filename, warning.lineno) for warning in found] == [(__file__, line)]


def test_lines_of_a_lists_own_file():
    """BLEU is counted where every sentence has a reference."""
    nb = build([hyp(0, "a b"), hyp(1, "c")])
    for refs in ([["a"], []], [[], []]):
        assert not with_own_lines(nb, source=["x", "z"], refs=refs).has_stats
    assert not with_own_lines(nb[:0], source=[], refs=[]).has_stats
    found = with_own_lines(nb, source=["x  y", "z"], refs=[["a"], ["c", "d  e"]])
    assert found.source.to_pylist() == ["x y", "z"]
    assert (found.ref_ptr.tolist(), found.refs.to_pylist()) == ([0, 1, 3], ["a", "c", "d e"])
    assert found.stats.tolist() == [[1, 0, 0, 0, 2, 1], [1, 0, 0, 0, 1, 1]]


def test_a_name_that_only_hypotheses_give_is_no_column_of_units():
    """Dense in one list, sparse in another: the names of columns are those that some row gives."""
    unit = [UnitRecord({"u": 1.0})]
    dense = build([hyp(0, "a", features={"s": 1.0}, units=unit)])
    rare = sparsely(build([hyp(1, "b", features={"rare:1": 2.0}, units=unit)]))
    rare = replace(rare, sparse_names=strings(["s"]))
    both = concat([dense, rare])
    assert (both.unit_names, both.extra_names, both.sparse_names.to_pylist()) == (("u",), ("s",), [])
    assert both.extra.tolist() == [[1.0], [2.0]]
    of_units = sparsely(build([hyp(1, "b", units=[UnitRecord({"rare:1": 2.0})])]))
    both = concat([dense, replace(of_units, sparse_names=strings(["s"]))])
    assert (both.unit_names, both.extra_names) == (("u", "s"), ("s",))
    assert both.global_column("s").tolist() == [1.0, 2.0]


@quick
@given(nb=containers())
def test_hashes_of_sentences_are_those_of_any_part(nb: NBest) -> None:
    for k in range(len(nb) + 1):
        parts = np.concatenate([nb[:k].sentence_hashes, nb[k:].sentence_hashes])
        assert parts.tolist() == nb.sentence_hashes.tolist()


def test_a_digest_is_of_all_that_a_list_has(dev):
    """But for units' scores, of which merged lists keep those of the first unit."""
    nbest = dev[:20].truncate(5)
    digests = {nbest.digest}
    for name, column in columns(nbest).items():
        if isinstance(column, np.ndarray) and len(column) and not name.endswith("ptr") and column.size:
            changed = column.copy()
            changed[-1] = column[0] if name == "unit_idx" else column[-1] + 1
        elif isinstance(column, pa.Array) and len(column):
            changed = strings([*column.to_pylist()[:-1], "else"])
        else:
            continue
        other = with_columns(nbest, {name: changed})
        assert (other.digest in digests) == (name == "units.score"), name
        digests.add(other.digest)
    assert len(digests) > 15
