"""Hypotheses in tokens with scores of models: what counts as 0, what is refused, and where it says it is."""

from __future__ import annotations

import pytest

from boostfeat.core.errors import FormatError
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.tokens import TokenBuilder, TokenHyp

pytestmark = pytest.mark.quick


def built(*hyps: TokenHyp, **options):
    notes: list[str] = []
    builder = TokenBuilder(ReadOptions(warn=notes.append, **options))
    for hyp in hyps:
        builder.add(hyp)
    return builder.finish(), notes


def hyp(tokens: str, *scores: float, where: str = "list:1", **more) -> TokenHyp:
    return TokenHyp(0, tokens, where, -1.0, scores={"lm": scores} if scores else {}, **more)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_hypothesis_without_scores_counts_as_0(place):
    """Wherever it stands, before the first with scores or after the last."""
    hyps = [hyp("a b", -1.0, -2.0), hyp("c d", -3.0, -4.0)]
    hyps.insert(place, hyp("e f"))
    nbest, notes = built(*hyps)
    sums = [-3.0, -7.0]
    sums.insert(place, 0.0)
    assert nbest.global_column("lm").tolist() == sums
    assert notes == ["1 of 3 hypotheses have no scores of tokens, which count as 0"]


@pytest.mark.parametrize(("place", "at"), [(0, 0), (0, 1), (1, 0), (2, 1)])
def test_a_number_that_is_none_is_refused_at_its_line(place, at):
    scores = [[-1.0, -2.0] for _ in range(3)]
    scores[place][at] = float("inf")
    with pytest.raises(FormatError, match=f"^list:{place}: expected a finite number for lm, found inf; repair or remove"):
        built(*(hyp("a b", *row, where=f"list:{k}") for k, row in enumerate(scores)))


def test_fewer_scores_than_tokens_are_refused_and_one_more_is_of_the_end():
    with pytest.raises(FormatError, match=r"^list:1: expected a score for each of 2 tokens, found 1"):
        built(hyp("a b", -1.0))
    nbest, _ = built(hyp("a b", -1.0, -2.0, -4.0))
    assert nbest.units.tgt.to_pylist() == ["a", "b", "</s>"]
    assert nbest.global_column("lm").tolist() == [-7.0]
    assert nbest.global_column("Words").tolist() == [2.0]


def test_at_most_so_many_are_kept():
    nbest, _ = built(*(hyp("a", -float(k)) for k in range(4)), size=3)
    assert nbest.n_hyps == 3
