"""Real lists of neural decoders: nothing that they print is lost. Expected numbers are those printed in the files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat import formats
from boostfeat.core.errors import FormatError
from boostfeat.core.files import read_lines
from boostfeat.formats.importing import Corpus, import_corpus
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.choices import Scorer, first_choice
from boostfeat.lists.nbest import NBest

REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[3] / "shared" / "real"))
MARIAN, NMT = REAL / "marian", REAL / "nmt-de-en"
needs_real = pytest.mark.skipif(not MARIAN.is_dir(), reason="needs the real lists: set BOOSTFEAT_REAL_DATA")


def refuse(message: str) -> None:
    raise AssertionError(message)


STRICT = ReadOptions(warn=refuse)
LENIENT = ReadOptions(warn=lambda message: None)


def sums_of_units(nbest: NBest, name: str) -> np.ndarray:
    return nbest.sum_units(np.ascontiguousarray(nbest.X[:, nbest.unit_names.index(name)]))


WORD = ("WordScores", "WordScores.min", "WordScores.first", "WordScores.mean", "Pieces", "Words")
OWN = ("F0", "DecoderScore")
ALIGNED = (*OWN, "Alignment.covered", "Alignment.unaligned")
LAYOUTS = {  # file: sentences, hypotheses, features of units, features of hypotheses
    "decoder.align.align_nbest": (30, 90, ("Pieces", "Words"), ALIGNED),
    "decoder.align.soft.nbest": (
        30,
        90,
        ("Alignment.max", "Alignment.entropy", "Pieces", "Words"),
        (*ALIGNED, "Alignment.coverage"),
    ),
    "decoder.wmt16.nbest": (100, 500, ("Pieces", "Words"), OWN),
    "decoder.word-scores.ensemble": (30, 30, WORD, ()),
    "decoder.word-scores.nbest": (30, 90, WORD, OWN),
    "decoder.word-scores.nbest_align_nrm": (30, 90, WORD, ALIGNED),
    "models.transformer.text.b6.nbest": (50, 300, ("Pieces", "Words"), OWN),
    "pymarian.despm": (4, 12, ("WordScores",), (*OWN, "Pieces", "Words")),
    "pymarian.o": (4, 12, WORD, OWN),
    "pymarian.pieces": (4, 12, WORD, OWN),
    "pymarian.rescored": (4, 12, ("WordScores", "R2L.WordScores"), ("R2L", *OWN, "Pieces", "Words")),
    "scorer.align.nbest": (30, 150, ("Pieces", "Words"), (*ALIGNED, "Score")),
    "scorer.nbest.nbest": (20, 100, ("Pieces", "Words"), (*OWN, "Score")),
}


@needs_real
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_of_marian(name: str) -> None:
    path = MARIAN / f"{name}.txt"
    sentences, hypotheses, units, own = LAYOUTS[name]
    assert formats.detect(path) == "marian"
    said: list[str] = []
    nbest = formats.read(path, ReadOptions(warn=said.append))
    # pieces are scored, the text is joined: 13 scores, 11 words
    hidden = "Pieces" in own
    assert [line.partition(": ")[2][:41] for line in said] == ["13 scores of tokens, 11 words in the text"] * hidden
    assert (len(nbest), nbest.n_hyps) == (sentences, hypotheses)
    assert (nbest.unit_names, set(nbest.extra_names)) == (units, set(own))
    lines = [line for _, line in read_lines(path)]
    if "F0" in own:
        printed = [float(line.partition("F0= ")[2].split()[0]) for line in lines]
        assert nbest.global_column("F0").tolist() == printed
        assert nbest.score.tolist() == nbest.global_column("DecoderScore").tolist() == [float(line.split()[-1]) for line in lines]
        if "WordScores" in units:
            np.testing.assert_allclose(sums_of_units(nbest, "WordScores"), printed, atol=1e-3)
    if "Score" in own:
        assert nbest.global_column("Score").tolist() == [float(line.partition(" Score= ")[2].split()[0]) for line in lines]
    if "WordScores" in units:
        total = [sum(map(float, line.rpartition("WordScores= ")[2].partition("|")[0].split("R2L")[0].split())) for line in lines]
        np.testing.assert_allclose(sums_of_units(nbest, "WordScores"), total, atol=1e-9)
    assert not any("@@" in text or "▁" in text for text in nbest.text.to_pylist())
    if units != ("WordScores",) and len(units) != 2:  # words have text and place, and make the text
        assert nbest.tgt_start.min() >= 0
        words = np.where(nbest.units.tgt_len[nbest.unit_idx] > 0, nbest.units.tgt.take(nbest.unit_idx).to_pylist(), "")
        for h, text in enumerate(nbest.text.to_pylist()):
            assert " ".join(w for w in words[nbest.unit_ptr[h] : nbest.unit_ptr[h + 1]] if w) == text


@needs_real
def test_rescored_list_has_both_models() -> None:
    nbest = formats.read(MARIAN / "pymarian.rescored.txt", LENIENT)
    assert nbest.global_column("R2L")[0] == -18.9048
    np.testing.assert_allclose(sums_of_units(nbest, "R2L.WordScores"), nbest.global_column("R2L"), atol=1e-3)
    fourth = nbest.X[nbest.unit_idx[7]].tolist()  # the last digit of the eighth token differs in the file
    assert dict(zip(nbest.unit_names, fourth, strict=True)) == {"WordScores": -2.39985, "R2L.WordScores": -2.39984}


@needs_real
def test_pieces_and_joined_text_of_one_decode() -> None:
    pieces, joined, normalised = (
        import_corpus(Corpus([str(MARIAN / f"pymarian.{name}.txt")], [str(MARIAN / "s4.en")], str(MARIAN / "s4.de")), LENIENT)
        for name in ("pieces", "despm", "o")
    )
    assert pieces.text.equals(joined.text)
    assert pieces.text.equals(normalised.text)
    bleu = [Scorer(nbest).score(first_choice(nbest), "bleu").score for nbest in (pieces, joined, normalised)]
    assert bleu[0] == bleu[1] == bleu[2] > 5
    for name in ("WordScores", "Pieces", "Words"):
        np.testing.assert_allclose(pieces.global_column(name), joined.global_column(name), atol=1e-12)
    assert pieces.global_column("DecoderScore").tolist() != normalised.global_column("DecoderScore").tolist()


@needs_real
def test_hard_alignment_gives_source_spans() -> None:
    """``Indien und Japan Ministerpräsidenten treffen sich in Tokio ||| 0-0 1-1 2-2 3-3 5-4 6-5 6-6 7-7 8-8``: 8-8 is the end."""
    source = "India and Japan prime ministers meet in Tokyo"
    nbest = formats.read(MARIAN / "decoder.align.align_nbest.txt", replace(STRICT, source=[source], size=1)).take(np.array([0]))
    assert nbest.src_start.tolist() == [0, 1, 2, 3, 5, 6, 6, 7]
    assert nbest.units.src.take(nbest.unit_idx).to_pylist() == ["India", "and", "Japan", "prime", "meet", "in", "in", "Tokyo"]
    soft = formats.read(MARIAN / "decoder.align.soft.nbest.txt", replace(STRICT, source=[source], size=1)).take(np.array([0]))
    assert soft.src_start.tolist() == [0, 1, 2, 3, 5, 6, 6, 7]
    assert soft.X[soft.unit_idx[0], soft.unit_names.index("Alignment.max")] == 0.727188


def test_twice_rescored(tmp_path: Path) -> None:
    """As marian-scorer writes: what a model adds stands around the first field after the text."""
    line = "0 ||| a ||| WordScores= -3 -3 ||| WordScores= -2 -2 B= -6 ||| WordScores= -1 -1 A= -4 ||| F0= -2 ||| -1\n"
    (tmp_path / "list").write_text(line)
    nbest = formats.read(tmp_path / "list", STRICT)
    assert {name: nbest.global_column(name)[0] for name in nbest.global_names} == {
        "WordScores": -2, "A.WordScores": -4, "B.WordScores": -6, "Words": 1, "A": -4, "B": -6, "F0": -2, "DecoderScore": -1,
    }  # fmt: skip


def test_first_scores_of_tokens_are_a_scorers(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(
        "0 ||| a ||| WordScores= -3 -3 ||| F0= -2 B= -6 ||| -1\n0 ||| b ||| WordScores= -3 -3 ||| F0= -2 B= -6 ||| -1\n"
    )
    assert formats.read(tmp_path / "list", STRICT).unit_names == ("B.WordScores", "Words")


def test_one_line_does_not_decide(tmp_path: Path) -> None:
    """A text that is a number, or a line that looks like another format's, among lines without ids."""
    (tmp_path / "list").write_text("1999 ||| WordScores= -1 -2\nhallo ||| WordScores= -1 -2\nja ||| WordScores= -3 -1\n")
    nbest = formats.read(tmp_path / "list", STRICT)
    assert nbest.text.to_pylist() == ["1999", "hallo", "ja"]
    (tmp_path / "list").write_text("0 |||  ||| F0= -1 ||| -1\n0 ||| a ||| WordScores= -1 -1 ||| F0= -2 ||| -1\n")
    assert formats.detect(tmp_path / "list") == "marian"


BAD = [
    ("0 ||| a ||| x-0 ||| F0= 1 ||| 2", "an alignment or named features"),
    ("0 ||| a ||| 0-0 \x1c1-1 ||| F0= 1 ||| 2", "an alignment or named features"),  # no blank of this format
    ("0 ||| a ||| 0-\uff11 ||| F0= 1 ||| 2", "an alignment or named features"),
    ("0 ||| a ||| 0.5,0.5 0.5 ||| F0= 1 ||| 2", "2 weights for each target token"),
    ("0 ||| a ||| F0= 1 ||| F0= 2 ||| 2", "distinct feature names"),
    ("0 ||| a ||| WordScores= 1 nan ||| F0= 1 ||| 2", "a finite number for WordScores"),
    ("0 ||| a ||| WordScores= 1 1_0 ||| F0= 1 ||| 2", "a finite number for WordScores"),
    ("0 ||| a ||| DecoderScore= 1 F0= 1 ||| 2", "distinct feature names"),
]


@pytest.mark.parametrize(("line", "expected"), BAD)
def test_bad_lines(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "list").write_text(line + "\n")
    with pytest.raises(FormatError, match=rf"list:1: expected {expected}"):
        formats.read(tmp_path / "list", STRICT, format="marian")


@needs_real
def test_tokens_as_units() -> None:
    words = formats.read(MARIAN / "pymarian.pieces.txt", STRICT)
    tokens = formats.read(MARIAN / "pymarian.pieces.txt", replace(STRICT, units="token"))
    assert tokens.unit_names == ("WordScores", "Pieces", "Words")
    assert tokens.text.equals(words.text)
    for name in tokens.unit_names:
        np.testing.assert_allclose(sums_of_units(tokens, name), sums_of_units(words, name), atol=1e-12)
    last = tokens.unit_idx[10:13]  # ▁people . </s>
    assert tokens.units.tgt.take(last).to_pylist() == ["▁people", ".", "</s>"]
    assert (tokens.tgt_start[10:13].tolist(), tokens.units.tgt_len[last].tolist()) == ([10, 11, 11], [1, 0, 0])


@needs_real
def test_real_list_of_pieces() -> None:
    """select.12: 1,014 sentences; sums of units are F0 on every line, and the texts have the BLEU of the joined text."""
    corpus = Corpus([str(NMT / "select.12.marian.xz")], [str(NMT / "select.en.xz")], str(NMT / "select.de.xz"))
    nbest = import_corpus(corpus, STRICT)
    assert (len(nbest), nbest.n_hyps) == (1014, 12168)
    np.testing.assert_allclose(sums_of_units(nbest, "WordScores"), nbest.global_column("F0"), atol=1e-3)
    plain = ["".join(line.split("|||")[1].split()).replace("▁", " ").strip() for _, line in read_lines(corpus.files[0])]
    assert nbest.text.to_pylist() == plain
    first = import_corpus(replace(corpus, first=100), STRICT)
    assert first == nbest.take(np.arange(100))


def test_references_in_pieces_keep_texts_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("0 ||| eine republi@@ kanische ||| WordScores= -1 -1 -1 -1 ||| F0= -4 ||| -1\n")
    (tmp_path / "ref").write_text("die republi@@ kanische\n")
    (tmp_path / "words").write_text("die republikanische\n")
    said: list[str] = []
    options = ReadOptions(warn=said.append)
    nbest = import_corpus(Corpus([str(tmp_path / "list")], [str(tmp_path / "ref")]), options)
    assert nbest.text.to_pylist() == ["eine republi@@ kanische"]
    assert "the references are in pieces (bpe, '@@')" in said[0]
    assert len(said) == 1
    nbest = import_corpus(Corpus([str(tmp_path / "list")], [str(tmp_path / "words")]), replace(options, subwords="none"))
    assert nbest.text.to_pylist() == ["eine republi@@ kanische"]
    assert "100% of the texts have '@@': they are in pieces (bpe) and the references are not" in said[1]


def test_pieces_of_a_phrase_based_list_are_said(tmp_path: Path) -> None:
    """Moses' lists stay as they are."""
    (tmp_path / "list").write_text("0 ||| eine republi@@ kanische ||| lm= -1 ||| -1\n")
    (tmp_path / "ref").write_text("die republikanische\n")
    said: list[str] = []
    nbest = import_corpus(Corpus([str(tmp_path / "list")], [str(tmp_path / "re?")]), ReadOptions(warn=said.append))
    assert (nbest.text.to_pylist(), len(said)) == (["eine republi@@ kanische"], 1)
