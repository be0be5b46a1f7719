"""Hypotheses in tokens with scores of models: what counts as 0, what is refused, and where it says it is."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from boostfeat.core.errors import FormatError
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.tokens import TokenBuilder, TokenHyp, attention

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


def test_pieces_are_joined_and_their_scores_summed():
    nbest, notes = built(hyp("▁a b ▁c", -1.0, -3.0, -0.5, -0.25))
    assert (notes, nbest.text.to_pylist(), nbest.units.tgt.to_pylist()) == ([], ["ab c"], ["ab", "c", "</s>"])
    columns = ("lm", "lm.min", "lm.first", "lm.mean", "Pieces", "Words")
    assert nbest.unit_names == columns
    rows = [(-4.0, -3.0, -1.0, -2.0, 2.0, 1.0), (-0.5, -0.5, -0.5, -0.5, 1.0, 1.0), (-0.25, -0.25, -0.25, -0.25, 1.0, 0.0)]
    assert nbest.units.x[nbest.unit_idx].tolist() == [list(row) for row in rows]
    assert nbest.tgt_start.tolist() == [0, 1, 2]


def test_tokens_as_units():
    nbest, _ = built(hyp("▁a b ▁c", -1.0, -3.0, -0.5, -0.25, signals={"s": (1.0, 2.0, 3.0)}), units="token")
    assert (nbest.text.to_pylist(), nbest.units.tgt.to_pylist()) == (["ab c"], ["▁a", "b", "▁c", "</s>"])
    assert nbest.unit_names == ("lm", "s", "Pieces", "Words")
    rows = [[-1.0, 1.0, 1.0, 1.0], [-3.0, 2.0, 1.0, 0.0], [-0.5, 3.0, 1.0, 1.0], [-0.25, 0.0, 1.0, 0.0]]
    assert nbest.units.x[nbest.unit_idx].tolist() == rows
    assert nbest.tgt_start.tolist() == [0, 1, 1, 2]


def test_scores_of_pieces_that_are_not_shown_are_units_without_words():
    nbest, notes = built(hyp("a b", -1.0, -2.0, -3.0, -4.0, signals={"s": (1.0, 2.0)}), hyp("c", -5.0, -6.0, where="list:2"))
    assert len(notes) == 1
    assert notes[0].startswith("list:1: 4 scores of tokens, 2 words in the text: of pieces that are not shown")
    assert "; s of tokens are not kept;" in notes[0]
    assert nbest.units.tgt.to_pylist() == [""] * 6
    assert nbest.unit_ptr.tolist() == [0, 4, 6]
    for name, values in (("lm", [-10.0, -11.0]), ("Pieces", [4.0, 2.0]), ("Words", [2.0, 1.0])):
        assert nbest.global_column(name).tolist() == values


def test_models_with_other_pieces_are_features_of_the_hypothesis():
    scores = [{"lm": (-1.0, -2.0), "r": (-1.0, -4.0, -2.0)}, {"lm": (-3.0,), "r": (-5.0,)}, {"lm": (-6.0,)}]
    texts = ("a b", "c", "d")
    nbest, notes = built(*(TokenHyp(0, texts[k], f"list:{k}", scores=own) for k, own in enumerate(scores)))
    assert notes == [
        "r: 3 scores at list:0 where lm has 2: models with other pieces; kept as features of the hypothesis r, r.min, r.Pieces"
    ]
    for name, values in (
        ("lm", [-3.0, -3.0, -6.0]),
        ("r", [-7.0, -5.0, 0.0]),
        ("r.min", [-4.0, -5.0, 0.0]),
        ("r.Pieces", [3.0, 1.0, 0.0]),
    ):
        assert nbest.global_column(name).tolist() == values


def test_other_numbers_of_tokens_are_means_or_not_kept():
    nbest, notes = built(hyp("▁a b ▁c", -1.0, -1.0, -1.0, signals={"s": (1.0, 2.0, 5.0), "t": (1.0,)}))
    assert notes == ["list:1: 1 value of t, 3 tokens: it is not kept"]
    assert nbest.global_column("s").tolist() == [1.5 + 5.0]
    assert "t" not in nbest.global_names
    nbest, notes = built(hyp("▁a b ▁c", -1.0, -1.0, -1.0, -1.0, signals={"s": (1.0, 2.0, 5.0, 7.0), "t": (1.0, 2.0)}))
    assert notes == ["list:1: 2 values of t, 3 tokens: it is not kept"]  # one more would be that of the end
    assert "s" in nbest.global_names
    with pytest.raises(FormatError, match=r"^list:1: expected a finite number for s, found nan"):
        built(hyp("a", -1.0, signals={"s": (float("nan"),)}))


def test_attention_by_hand():
    links, signals, features = attention([[0.75, 0.25, 0.0], [0.5, 0.0, 0.5]])
    assert links == [(0, 0), (0, 1)]
    assert signals["Alignment.max"] == [0.75, 0.5]
    entropies = [-(0.75 * log(0.75) + 0.25 * log(0.25)), log(2)]
    assert signals["Alignment.entropy"] == pytest.approx(entropies, rel=1e-12)
    assert features["Alignment.coverage"] == pytest.approx(log(0.25) + log(0.5), rel=1e-12)  # log min(1.25, 1) = 0
    assert attention([]) == ([], {}, {})


def test_links_give_source_spans():
    links = [(2, 0), (1, 1), (0, 2), (0, 2), (3, 3)]  # of three tokens, the last is the end's on both sides
    nbest, notes = built(hyp("▁a b ▁c", links=links), source=["x y z"])
    assert notes == []
    assert nbest.units.tgt.to_pylist() == ["ab", "c"]
    assert (nbest.src_start.tolist(), nbest.units.src_len.tolist()) == ([1, 0], [2, 1])
    assert nbest.units.src.to_pylist() == ["y z", "x"]
    assert nbest.units.align.to_pylist() == ["0-0 1-0", "0-0"]
    assert nbest.global_column("Alignment.covered").tolist() == [3.0]
    assert nbest.global_column("Alignment.unaligned").tolist() == [0.0]


@pytest.mark.parametrize(
    ("links", "side", "fix"),
    [
        ([(0, 3)], "token 3 of a target of 2", ""),
        ([(4, 0)], "token 4 of a source of 3", "; give -s in the model's pieces to have source spans"),
        ([(4, 2)], "token 4 of a source of 3", "; give -s in the model's pieces to have source spans"),
    ],
)
def test_links_of_other_tokens_give_no_spans(links, side, fix):
    nbest, notes = built(hyp("a b", links=[*links, (0, 0)]), source=["x y z"])
    assert notes == [f"list:1: alignment to {side}: it is of pieces; used for features of coverage only{fix}"]
    assert nbest.src_start.tolist() == [-1, -1]
    assert nbest.global_column("Alignment.unaligned").tolist() == [1.0]


def test_an_empty_hypothesis_with_no_links_is_linked_to_nothing():
    """Also of a source without words: there is nothing out of range."""
    nbest, notes = built(hyp("a b", links=[(0, 0), (0, 1)]), hyp("", links=[]), source=["x"])
    assert notes == []
    assert (nbest.text.to_pylist(), nbest.unit_ptr.tolist()) == (["a b", ""], [0, 2, 2])
    assert (nbest.src_start.tolist(), nbest.units.src_len.tolist()) == ([0, 0], [1, 1])
    nbest, notes = built(hyp("a", links=[]), source=[""])
    assert (notes, nbest.src_start.tolist()) == ([], [-1])


def test_words_are_those_of_the_text_that_is_shown():
    shown = hyp("▁it ▁' s ▁here", -1.0, -2.0, -3.0, -4.0, text="it's here")
    nbest, notes = built(shown)
    assert (notes, nbest.text.to_pylist(), nbest.units.tgt.to_pylist()) == ([], ["it's here"], ["it's", "here"])
    assert nbest.units.x[nbest.unit_idx][:, 0].tolist() == [-6.0, -4.0]
    other = hyp("▁x ▁y", -1.0, -2.0, text="a b c", where="list:2")
    nbest, notes = built(shown, other)
    assert notes == ["1 of 2 texts have other characters than their tokens: each is one unit (first: list:2, 'a b c')"]
    assert nbest.text.to_pylist() == ["it's here", "a b c"]
    assert nbest.units.tgt.to_pylist() == ["it's", "here", "a b c"]
    assert nbest.global_column("lm").tolist() == [-10.0, -3.0]
    assert nbest.global_column("Words").tolist() == [2.0, 3.0]


def test_what_looks_like_pieces_here_and_there_is_said():
    hyps = [hyp("a b"), hyp("c"), hyp("▁d e")]
    nbest, notes = built(*hyps, subwords="auto")
    assert notes == ["1 of 3 hypotheses have '▁', as pieces of words do, which are kept as they are; --subwords spm joins them"]
    assert nbest.text.to_pylist() == ["a b", "c", "▁d e"]
    nbest, notes = built(*hyps, subwords="spm")
    assert (notes, nbest.text.to_pylist()) == ([], ["ab", "c", "de"])
    assert built(*hyps, subwords="none")[1] == []
    nbest, notes = built(hyps[0], hyps[2], subwords="auto")  # half of them are enough
    assert (notes, nbest.text.to_pylist()) == ([], ["ab", "de"])


def test_a_list_may_be_empty_and_ranks_are_kept():
    builder = TokenBuilder(ReadOptions(), ranked=True)
    builder.sentence(0, "list:1")
    for text in ("a", "b"):
        builder.add(TokenHyp(3, text, "list:2"))
    nbest = builder.finish()
    assert (nbest.ids.tolist(), np.diff(nbest.hyp_ptr).tolist()) == ([0, 3], [0, 2])
    assert nbest.global_column("Rank").tolist() == [0.0, 1.0]
    assert nbest.global_column("First").tolist() == [1.0, 0.0]
    assert TokenBuilder(ReadOptions()).finish().n_hyps == 0


def test_of_several_faults_the_first_is_told():
    """Each in its line: numbers that are none, too few scores, other pieces, and scores without words."""
    with pytest.raises(FormatError, match=r"^list:2: expected a finite number for lm, found -inf;"):
        built(hyp("a", -1.0), hyp("b", float("-inf"), where="list:2"), hyp("c", float("nan"), where="list:3"))
    with pytest.raises(FormatError, match=r"^list:2: expected a score for each of 3 tokens, found 2;"):
        built(hyp("a", -1.0), hyp("b c d", -1.0, -1.0, where="list:2"), hyp("e f", -1.0, where="list:3"))
    _, notes = built(hyp("a", -1.0, -1.0), *(hyp("b", *[-1.0] * n, where=f"list:{n}") for n in (3, 4)))
    assert notes[0].startswith("list:3: 3 scores of tokens, 1 word in the text: ")
    texts = [("a", (1.0,)), ("b c", (1.0, 2.0, 3.0, 4.0)), ("d", (1.0, 2.0, 3.0))]
    _, notes = built(*(hyp(text, where=f"list:{k}", signals={"s": values}) for k, (text, values) in enumerate(texts)))
    assert notes == ["list:1: 4 values of s, 2 tokens: it is not kept"]
    scores = [{"lm": (-1.0,), "r": (-1.0,)}, {"lm": (-1.0, -2.0), "r": (-1.0,) * 3}, {"lm": (-1.0,), "r": (-1.0,) * 4}]
    _, notes = built(*(TokenHyp(0, "a b" if k == 1 else "c", f"list:{k}", scores=own) for k, own in enumerate(scores)))
    assert [note.partition(":")[2][:37] for note in notes] == [" 3 scores at list:1 where lm has 2: m"]
