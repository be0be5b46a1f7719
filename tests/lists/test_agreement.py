"""Lists that are used together have the same features, tokenisation and references, or it is said."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.errors import InputError
from boostfeat.lists.agreement import (
    Shared,
    check_agreement,
    lacking,
    sentence_digest,
    sentence_digests,
    shared_sentences,
    shown,
)
from boostfeat.lists.nbest import NBest, strings

LISTS = synthetic_nbest(SyntheticOptions(sentences=12, hyps=4, features=3), seed=1)


def renamed(nbest: NBest, **names: str) -> NBest:
    return replace(nbest, unit_names=tuple(names.get(n, n) for n in nbest.unit_names))


def with_sparse(nbest: NBest, *names: str) -> NBest:
    return replace(nbest, sparse_names=strings(names))


def test_lists_of_one_kind_agree() -> None:
    assert check_agreement({"dev": LISTS, "select": LISTS[:5], "test": LISTS[5:]}) == []


def test_a_dense_feature_that_is_missing_is_named() -> None:
    other = renamed(LISTS, **{LISTS.unit_names[1]: "other"})
    with pytest.raises(InputError, match=f"select: expected the features of dev, found none of {LISTS.unit_names[1]}; featurize"):
        check_agreement({"dev": LISTS, "select": other})
    assert check_agreement({"dev": LISTS, "select": other}, allow_missing=True) == [
        f"select lacks {LISTS.unit_names[1]} of dev, which count as 0",
        "select has features that dev lacks, which are not used: other",
    ]


def test_lists_by_another_vocab_are_refused() -> None:
    dev, select = (replace(LISTS, meta={"vocab": name}) for name in "ab")
    with pytest.raises(InputError, match="select: expected templates as dev has them, by the plan a, found b; featurize"):
        check_agreement({"dev": dev, "select": select})
    assert check_agreement({"dev": dev, "select": LISTS}) == check_agreement({"dev": dev, "select": dev}) == []
    assert check_agreement({"dev": dev, "select": select}, allow_missing=True) == [
        "select was featurized by another plan than dev"
    ]


MADE = replace(LISTS, meta={"templates": '[{"template": "pt", "prefix": "pt:"}, {"template": "len", "features": ["len"]}]'})


@pytest.mark.parametrize(
    ("nbest", "needed", "lacks"),
    [
        (LISTS, LISTS.unit_names, []),
        (LISTS, ["LM9", "pt:a|b", "pt_a~b"], ["LM9", "pt:a|b", "pt_a~b"]),
        (with_sparse(LISTS, "pt:c|d", "pt_c~d"), ["LM9", "pt:a|b", "pt_a~b", "al:a|b"], ["LM9", "al:a|b"]),
        (with_sparse(LISTS, "TM_x"), ["TM_1", "TM_y"], ["TM_1"]),  # numbers are values of one dense feature
        (MADE, ["pt:a|b", "al:a|b", "len"], ["al:a|b", "len"]),  # a short list may have no feature of a template at all
        (with_sparse(LISTS, "rare"), ["other"], []),  # sparse names that stand alone
    ],
)
def test_features_that_a_list_should_have(nbest: NBest, needed: list[str], lacks: list[str]) -> None:
    assert lacking(needed, nbest) == lacks


@pytest.mark.parametrize(("there", "fails"), [((), True), (("x:9",), True), (("x:1", "x:9"), False)])
def test_some_sparse_features_may_be_missing_but_not_all(there: tuple[str, ...], fails: bool) -> None:
    dev, select = with_sparse(LISTS, *(f"x:{k}" for k in range(7))), with_sparse(LISTS, *there)
    if fails:
        with pytest.raises(InputError, match=r"found none of x:0, x:1, x:2, x:3, x:4 and 2 more"):
            check_agreement({"dev": dev, "select": select})
    else:
        assert check_agreement({"dev": dev, "select": select}) == []


def test_names_with_blanks_and_commas_can_be_told_apart() -> None:
    assert shown(["LM0", "pt:, a|b c", "lo:a,b"]) == "LM0, 'pt:, a|b c', 'lo:a,b'"
    assert shown([f"x{k}" for k in range(1006)]) == "x0, x1, x2, x3, x4 and 1,001 more"


def test_other_tokenisation_is_refused_and_other_references_are_named() -> None:
    by_13a = replace(LISTS, meta={"tokenize": "13a"})
    for dev, test, names in ((LISTS, by_13a, ("none", "13a")), (by_13a, LISTS, ("13a", "none"))):
        with pytest.raises(
            InputError, match="test: expected BLEU statistics by --tokenize {}, as dev has them, found {}".format(*names)
        ):
            check_agreement({"dev": dev, "test": test})
    n = len(LISTS)
    two = replace(LISTS, ref_ptr=2 * np.arange(n + 1), refs=strings(["a", "b"] * n))
    assert check_agreement({"dev": LISTS, "test": two}) == ["references a sentence: dev has 1, test has 2"]
    some = replace(LISTS, ref_ptr=np.array([0, *range(4, n + 4)]), refs=strings(["a"] * (n + 3)))  # 15 of 12 sentences
    assert check_agreement({"dev": some, "test": LISTS}) == ["references a sentence: dev has 1.25, test has 1"]
    assert check_agreement({"dev": LISTS[:0], "test": LISTS}) == []  # no sentence: nothing to compare


def test_shared_sentences_are_counted() -> None:
    found = shared_sentences({"dev": LISTS[:8], "select": LISTS[6:], "test": LISTS[10:]})
    assert [str(two) for two in found] == [
        f"{who}: what is learned or chosen on them looks too good there"
        for who in ("dev and select share 2 sentences (33% of select)", "select and test share 2 sentences (100% of test)")
    ]
    assert found == [Shared("dev", "select", 2, 2 / 6, identical=False), Shared("select", "test", 2, 1.0, identical=False)]
    assert [two.identical for two in shared_sentences({"dev": LISTS, "select": LISTS[::-1]})] == [True]
    for k in range(8):  # one sentence is another: before or after it in the alphabet
        pair = {"dev": LISTS[:8], "select": LISTS.take(np.array([*(s for s in range(8) if s != k), 8]))}
        for lists in (pair, dict(reversed(pair.items()))):
            assert [(two.sentences, two.identical) for two in shared_sentences(lists)] == [(7, False)]
    bare = replace(LISTS, source=strings([""] * len(LISTS)), refs=strings([""] * len(LISTS)))
    assert shared_sentences({"dev": bare[:6], "select": bare[8:]}) == []


def test_a_leak_is_found_by_whatever_two_lists_have() -> None:
    """One imported without sources, another without references: texts tell."""
    nothing = strings([""] * len(LISTS))
    no_source, no_refs = replace(LISTS, source=nothing), replace(LISTS, refs=nothing)
    for a, b in combinations_with_replacement((LISTS, no_source, no_refs, replace(no_source, refs=nothing)), 2):
        assert shared_sentences({"dev": a, "select": b}) == [Shared("dev", "select", len(LISTS), 1.0, identical=True)]
        assert shared_sentences({"dev": a[:6], "select": b[8:]}) == []


def test_digests_of_sentences() -> None:
    """CRC-32, whose check value for the nine digits is public; source and references are lines of one text."""
    assert sentence_digest(("123456789",)) == "cbf43926"
    assert sentence_digest(("1234\n56789",)) == sentence_digest(("1234", "56789")) != sentence_digest(("123456789",))
    assert sentence_digest(("",)) == "00000000"
    two = replace(LISTS[:2], source=strings(["a b", ""]), ref_ptr=np.array([0, 2, 2]), refs=strings(["c", "d"]))
    assert sentence_digests(two) == [sentence_digest(("a b", "c", "d"))]  # the other has nothing that tells it apart
