"""Readers and writers of line-based n-best lists. Layouts of the decoders are as their sources print them."""

from __future__ import annotations

import gzip
import io
import json
import re
from dataclasses import replace
from math import isnan, log
from pathlib import Path

import numpy as np
import pytest
from fuzz.samples import CDEC, ENRICHED, FOREST, WEIGHTS
from hypothesis import given, settings
from hypothesis import strategies as st

from boostfeat import formats
from boostfeat.core.arrays import segment_argmax
from boostfeat.core.errors import FormatError, InputError
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.merging import merge
from boostfeat.lists.nbest import NBest
from boostfeat.metrics import bleu

OPTIONS = ReadOptions()


def read(tmp_path: Path, text: str | bytes, *, format: str = "auto", options: ReadOptions = OPTIONS) -> NBest:
    path = tmp_path / "list"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return formats.read(path, options, format=format)


def written(nbest: NBest, format: str) -> bytes:
    stream = io.BytesIO()
    formats.write(nbest, stream, format=format)
    return stream.getvalue()


def features(nbest: NBest, h: int = 0) -> dict[str, float]:
    """Dense and non-zero sparse features of a hypothesis by name."""
    out = dict(zip(nbest.global_names, nbest.global_features[h].tolist(), strict=True))
    row = nbest.global_sparse[[h]].tocoo()
    return out | {nbest.sparse_names[int(j)].as_py(): float(v) for j, v in zip(row.col, row.data, strict=True)}


# ---------------------------------------------------------------------------------------------------------------------
# One line of each decoder
# ---------------------------------------------------------------------------------------------------------------------

LINES = {
    "moses": ("0 ||| the house ||| d= 0 -1.5 lm= -3 ||| -4.5", {"d_0": 0, "d_1": -1.5, "lm": -3}, -4.5),
    "moses legacy": ("0|||the house||| d: 0 -1.5 lm: -3 ||| -4.5", {"d_0": 0, "d_1": -1.5, "lm": -3}, -4.5),
    "moses sparse": ("0 ||| the house ||| lm= -3 pt_a:b|c= 1 x_= 2 y==_= 3", {"lm": -3, "pt_a:b|c": 1, "x_": 2, "y==_": 3}, None),
    "cdec": ("0 ||| the house ||| Glue=2 LanguageModel=-3 a=b=1 ||| -4.5", {"Glue": 2, "LanguageModel": -3, "a=b": 1}, -4.5),
    "joshua": ("0 ||| the house ||| tm_pt_0=-1.500 lm_0=-3.000 ||| -4.500", {"tm_pt_0": -1.5, "lm_0": -3}, -4.5),
    "joshua -moses": ("0 ||| the house ||| tm-pt-0=-1.5 OOV_Penalty=1 ||| -4.5", {"tm-pt-0": -1.5, "OOV_Penalty": 1}, -4.5),
    "joshua 3": ("0 ||| the house ||| -1.5 -3 ||| -4.5", {"f_0": -1.5, "f_1": -3}, -4.5),
    "joshua %a": ("0 ||| the house ||| tm_pt_0=-1.5 lm_0=-3 ||| -4.5 ||| 0-0 1-1", {"tm_pt_0": -1.5, "lm_0": -3}, -4.5),
    "phrasal": ("0 ||| the house ||| LM: -3 TM:lex(f|t): -2.3407E1 ||| -4.5E0 ||| 0-0", {"LM": -3, "TM:lex(f|t)": -23.407}, -4.5),
    "travatar": ("0 ||| the house ||| -4.5 ||| lm=-3 unk=1", {"lm": -3, "unk": 1}, -4.5),
    "marian": ("0 ||| the house ||| F0= -3 F1= -1.5 ||| -4.5", {"Words": 2, "F0": -3, "F1": -1.5, "DecoderScore": -4.5}, -4.5),
    "marian 1.6": (
        "0 ||| the house ||| 0-0 1-1 ||| F0=-3 ||| -4.5",
        {"Words": 2, "F0": -3, "DecoderScore": -4.5, "Alignment.covered": 2, "Alignment.unaligned": 0}, -4.5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_line_of_each_decoder(tmp_path: Path, case: str) -> None:
    line, expected, score = LINES[case]
    for text in (line, f"\r\n\n{line}\r\n"):
        nbest = read(tmp_path, text)
        assert formats.detect(tmp_path / "list") == case.split()[0]
        assert nbest.text.to_pylist() == ["the house"]
        assert features(nbest) == expected
        assert isnan(nbest.score[0]) if score is None else nbest.score[0] == score


@pytest.mark.parametrize("case", LINES)
def test_detection_looks_at_a_head_that_ends_anywhere(tmp_path: Path, case: str) -> None:
    line = LINES[case][0]
    for more in (5, len(line) // 2, len(line) - 2):
        (tmp_path / "list").write_text(f"{line}\n{line[:more]}")
        assert formats.detect(tmp_path / "list") == case.split()[0]


def test_absent_features_are_zero_and_layouts_may_change(tmp_path: Path) -> None:
    """The parser remembers the labels of the line before; a line with others must not be read by them."""
    nbest = read(
        tmp_path,
        "0 ||| a ||| d= 1 2 lm= 3 ||| 0\n0 ||| b ||| lm= 4 d= 5 6 ||| 0\n2 ||| c ||| d= 7 w= 8 ||| 0\n2 ||| d ||| ||| 1\n",
    )
    assert nbest.ids.tolist() == [0, 2]
    assert nbest.extra_names == ("d_0", "d_1", "lm", "d", "w")
    assert nbest.extra.tolist() == [[1, 2, 3, 0, 0], [5, 6, 4, 0, 0], [0, 0, 0, 7, 8], [0] * 5]


def test_rare_features_are_sparse(tmp_path: Path) -> None:
    lines = [f"0 ||| w{i} ||| lm= {i}" + (" wt_a~b= 2" if i == 7 else "") + " ||| 0" for i in range(30)]
    nbest = read(tmp_path, "\n".join(lines))
    assert (nbest.extra_names, nbest.sparse_names.to_pylist()) == (("lm",), ["wt_a~b"])
    assert features(nbest, 7) == {"lm": 7, "wt_a~b": 2}


# ---------------------------------------------------------------------------------------------------------------------
# Moses' segmentation
# ---------------------------------------------------------------------------------------------------------------------

SEGMENTED = {  # how the same three phrases are written
    "fields": "0 ||| a b c d ||| lm= -1 ||| -2 ||| 2-3=0-1 0=2 1=3",
    "alignment too": "0 ||| a b c d ||| lm= -1 ||| -2 ||| 2-3=0-1 0=2 1=3 ||| 2-1 3-0 0-2",
    "inline": "0 ||| a b |2-3| c |0-0| d |1-1| ||| lm= -1 ||| -2",
}


@pytest.mark.parametrize("case", SEGMENTED)
def test_segmentation_makes_units_without_features(tmp_path: Path, case: str) -> None:
    nbest = read(tmp_path, SEGMENTED[case], options=ReadOptions(source=["w x y z"]))
    assert nbest.text.to_pylist() == ["a b c d"]
    assert (nbest.unit_names, features(nbest)) == ((), {"lm": -1})
    assert (nbest.src_start.tolist(), nbest.tgt_start.tolist()) == ([2, 0, 1], [0, 2, 3])
    assert (nbest.units.src_len.tolist(), nbest.units.tgt_len.tolist()) == ([2, 1, 1], [2, 1, 1])
    assert (nbest.units.src.to_pylist(), nbest.units.tgt.to_pylist()) == (["y z", "w", "x"], ["a b", "c", "d"])
    assert nbest.units.align.to_pylist() == (["0-1 1-0", "0-0", ""] if case == "alignment too" else ["", "", ""])


def test_phrase_without_words(tmp_path: Path) -> None:
    """Moses prints the first word of an empty target phrase, which is that of the next phrase, or the end."""
    nbest = read(tmp_path, "0 ||| a b ||| lm= 1 ||| 0 ||| 0=0 1=0 2=1 3=2\n")
    assert (nbest.tgt_start.tolist(), nbest.units.tgt_len[nbest.unit_idx].tolist()) == ([0, 0, 1, 2], [0, 1, 1, 0])


# ---------------------------------------------------------------------------------------------------------------------
# Tokens of neural decoders
# ---------------------------------------------------------------------------------------------------------------------


def test_marian_word_scores(tmp_path: Path) -> None:
    lines = [
        "0 ||| a b ||| WordScores= -0.5 -0.25 -0.125 ||| F0= -0.875 ||| -0.3",  # tokens and the end of the sentence
        "0 ||| a b ||| 0-0 1-1 ||| WordScores= -0.5 -0.25 ||| F0= -0.75 ||| -0.3",  # cut off at the longest length
        "0 ||| a b ||| F0= -0.875 WordScores= -0.5 -0.25 -0.125 ||| -0.3",
    ]
    nbest = read(tmp_path, "\n".join(lines))
    assert np.diff(nbest.unit_ptr).tolist() == [3, 2, 3]
    assert nbest.unit_names == ("WordScores", "Words")
    assert nbest.global_column("WordScores").tolist() == nbest.global_column("F0").tolist() == [-0.875, -0.75, -0.875]
    assert nbest.units.tgt.take(nbest.unit_idx).to_pylist() == ["a", "b", "</s>", "a", "b", "a", "b", "</s>"]
    assert nbest.tgt_start.tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    assert nbest.units.tgt_len[nbest.unit_idx].tolist() == [1, 1, 0, 1, 1, 1, 1, 0]
    assert nbest.src_start.tolist() == [-1, -1, -1, 0, 1, -1, -1, -1]
    with pytest.raises(FormatError, match=r"list:1: expected a score for each of 3 tokens, found 2"):
        read(tmp_path, "0 ||| a b c ||| WordScores= -0.5 -0.25 ||| F0= -0.875 ||| -0.3")


def test_marian_more_scores_than_words_are_units_without_words(tmp_path: Path) -> None:
    """One line with joined pieces tells that those of the others may be joined, too."""
    lines = [
        "0 ||| a b ||| WordScores= -0.5 -0.25 -0.125 -1 ||| F0= -1.875 ||| -0.3",
        "0 ||| a ||| WordScores= -1 -2 ||| F0= -3 ||| -0.3",
    ]
    with pytest.warns(UserWarning, match="4 scores of tokens, 2 words in the text"):
        nbest = read(tmp_path, "\n".join(lines))
    assert (nbest.unit_names, nbest.tgt_start.tolist()) == (("WordScores",), [-1] * 6)
    assert features(nbest) == {"WordScores": -1.875, "F0": -1.875, "DecoderScore": -0.3, "Pieces": 4, "Words": 2}


FAIRSEQ = """2020-01-01 12:00:00 | INFO | fairseq_cli.generate | loading model(s) from m.pt
S-7\tdas haus
T-7\tthe house
H-7\t-0.5\tthe house
D-7\t-0.5\tthe house
P-7\t-1.0000 -2.0000 -0.5000
H-7\t-0.75\thouse
D-7\t-0.75\thouse
P-7\t-3.0000 -0.2500
S-2\thallo
H-2\t-0.25\thello
D-2\t-0.25\thello
P-2\t-0.1000 -0.2000
Generate test with beam=2: BLEU4 = 30.00
"""


def test_fairseq(tmp_path: Path) -> None:
    nbest = read(tmp_path, FAIRSEQ)
    assert formats.detect(tmp_path / "list") == "fairseq"
    assert (nbest.ids.tolist(), nbest.hyp_ptr.tolist()) == ([2, 7], [0, 1, 3])
    assert nbest.text.to_pylist() == ["hello", "the house", "house"]
    np.testing.assert_allclose(nbest.score, np.array([-0.25, -0.5, -0.75]) * log(2), rtol=1e-15)
    np.testing.assert_allclose(nbest.global_features[:, 0], np.array([-0.3, -3.5, -3.25]) * log(2), rtol=1e-15)
    assert nbest.units.tgt.take(nbest.unit_idx).to_pylist() == ["hello", "</s>", "the", "house", "</s>", "house", "</s>"]
    assert nbest.tgt_start.tolist() == [0, 1, 0, 1, 2, 0, 1]


def test_fairseq_subwords_take_the_detokenised_text(tmp_path: Path) -> None:
    """Its words get their tokens by characters."""
    text = "H-0\t-1\tthe hou@@ se !\nD-0\t-1\tthe house!\nP-0\t-1 -1 -2 -1 -1\nH-0\t-2\tyes !\nD-0\t-2\tyes!\nP-0\t-1 -1 -1\n"
    nbest = read(tmp_path, text)
    assert nbest.text.to_pylist() == ["the house!", "yes!"]
    assert nbest.units.tgt.take(nbest.unit_idx).to_pylist() == ["the", "house!", "</s>", "yes!", "</s>"]
    assert nbest.tgt_start.tolist() == [0, 1, 2, 0, 1]
    house = dict(zip(nbest.unit_names, nbest.X[nbest.unit_idx[1]].tolist(), strict=True))
    assert house == pytest.approx(
        {"P": -4 * log(2), "P.min": -2 * log(2), "P.first": -log(2), "P.mean": -4 / 3 * log(2), "Pieces": 3, "Words": 1}
    )


def test_fairseq_pieces_without_detokenised_text_are_joined(tmp_path: Path) -> None:
    nbest = read(
        tmp_path, "H-0\t-1\tthe hou@@ se\nP-0\t-1 -1 -2 -1\nA-0\t0-0 1-1 1-2\n", options=ReadOptions(source=["das haus"])
    )
    assert nbest.text.to_pylist() == ["the house"]
    assert (nbest.units.src.to_pylist(), nbest.units.align.to_pylist()) == (["das", "haus", ""], ["0-0", "0-0", ""])
    assert nbest.global_column("P").tolist() == pytest.approx([-5 * log(2)])


# ---------------------------------------------------------------------------------------------------------------------
# JSON lines
# ---------------------------------------------------------------------------------------------------------------------

HEADER = '{"boostfeat": "nbest/1", "unit_features": ["tm0", "lm"]}\n'


def test_jsonl_of_the_design(tmp_path: Path) -> None:
    sentence = {
        "id": 4, "source": "das haus", "refs": ["the house", "house"],
        "hyps": [
            {"text": "the house", "score": -4.4, "features": {"extra": 1}, "units": [
                {"src": [0, 1], "tgt": [0, 1], "x": [-0.3, -1.2], "sparse": {"pt:das|the": 1}},
                {"src": [1, 2], "tgt": [1, 2], "x": [-0.5, 0], "align": "0-0", "score": -1.5, "tgt_text": "HOUSE"}]},
            {"text": ""},
        ],
    }  # fmt: skip
    nbest = read(tmp_path, HEADER + json.dumps(sentence) + '\n{"id": 9, "refs": ["x"]}\n')
    assert (nbest.ids.tolist(), nbest.hyp_ptr.tolist(), nbest.ref_ptr.tolist()) == ([4, 9], [0, 2, 2], [0, 2, 3])
    assert (nbest.source.to_pylist(), nbest.refs.to_pylist()) == (["das haus", ""], ["the house", "house", "x"])
    assert features(nbest) == {"tm0": -0.8, "lm": -1.2, "extra": 1, "pt:das|the": 1}
    assert features(nbest, 1) == {"tm0": 0, "lm": 0, "extra": 0}
    assert (nbest.unit_names, nbest.sparse_names.to_pylist()) == (("tm0", "lm"), ["pt:das|the"])
    assert (nbest.units.src.to_pylist(), nbest.units.tgt.to_pylist()) == (["das", "haus"], ["the", "HOUSE"])
    np.testing.assert_array_equal(nbest.score, [-4.4, np.nan])
    assert nbest.stats.tolist() == [[2, 1, 0, 0, 2, 2], [0, 0, 0, 0, 0, 1]]
    assert read(tmp_path, written(nbest, "jsonl")) == nbest


def hyp(**keys: object) -> str:
    return HEADER + json.dumps({"id": 0, "hyps": [{"text": "a b"}, {"text": "a b", **keys}]})


BAD_JSONL = {
    HEADER + '{"id": 0, "hyps": [{"text": "a", "units": [{"x": [1, NaN]}]}]}': r"list:2: expected JSON, found NaN where a finite",
    HEADER + '{"id": 0, "hyps": [{"text": "a", "score": -Infinity}]}': r"list:2: expected JSON, found -Infinity where a finite",
    HEADER + '{"id": 0, "hyps": [{"text": "a", "features": {"b": 1e999}}]}': r"list:2: expected JSON, found 1e999 where a finite",
    hyp(units=[{"x": [1, 2]}, {"x": [1, "2"]}]): r"list:2: hyps\[1\].units\[1\].x\[1\]: expected a number, found a string",
    hyp(units=[{"x": [1]}]): r"list:2: hyps\[1\].units\[0\].x: expected 2 values, as unit_features has, found 1",
    hyp(units=[{"sparse": {"lm": 1}}]): r"hyps\[1\].units\[0\].sparse: expected distinct feature names, found 'lm' twice",
    hyp(units=[{"sparse": {"q": None}}]): r"hyps\[1\].units\[0\].sparse\[...\]: expected a number, found null",
    hyp(units=[{"tgt": [1, 3]}]): r"hyps\[1\].units\[0\].tgt: expected a span \[start, end\) of 2 words, found \[1, 3\]",
    HEADER + '{"id": 0, "source": "x", "hyps": [{"text": "a", "units": [{"src": [0, 2]}]}]}': r"\.src: .* of 1 word, found",
    hyp(units=[{"src": [2, 1]}]): r"hyps\[1\].units\[0\].src: expected a span",
    hyp(units=[{"src": [1]}]): r"hyps\[1\].units\[0\].src: expected a list of length 2, found",
    hyp(units=[{"tgt": [0, 1], "align": "0-1"}]): r"units\[0\].align: expected an alignment of .* 1 target words, found '0-1'",
    hyp(units=[{"align": "a-b"}]): r"hyps\[1\].units\[0\].align: expected an alignment of links like 0-1, found 'a-b'",
    hyp(source="a\0b"): r"list:2: expected JSON, found \\u0000, which no text has",
    HEADER + '{"id": 0, "hyps": [{"score": 1}]}': r"list:2: hyps\[0\]: expected the key 'text'",
    HEADER
    + '{"id": 0, "hyps": [{"text": "a", "features": {"b": 1, "b": 2}}]}': r"list:2: expected JSON, found key 'b' twice in one object",
    HEADER + '{"id": 0, "hyps": [], "id": 1}': r"list:2: expected JSON, found key 'id' twice in one object",
    HEADER + r'{"id": 0, "source": "\"", "\u0069d": 1}': r"list:2: expected JSON, found key 'id' twice in one object",
    HEADER + '{"id": 0, "hyps": [{"text": "a", "text": "b"}]}': r"list:2: expected JSON, found key 'text' twice in one object",
    HEADER
    + '{"id": 0, "hyps": [{"text": "a", "quality": {"q": 1, "q": 2}}]}': r"list:2: expected JSON, found key 'q' twice in one object",
    HEADER
    + '{"id": 0, "hyps": [{"text": "a", "units": [{"x": [1, 2], "x": [1, 2]}]}]}': r"units\[0\]: expected JSON, found key 'x' twice in one object",
    HEADER + '{"id": 0, "mine": 1, "mine": 2}': r"list:2: expected JSON, found key 'mine' twice in one object",
    '{"boostfeat": "nbest/1", "meta": {}, "meta": {}}': r"list:1: expected JSON, found key 'meta' twice in one object",
    HEADER + '{"id": 0}, {"id": 1}': r"list:2: expected JSON, found Extra data: column 10",
    HEADER + '{"id": 1}\n\n{"id": 1}': r"list:4: id: expected a whole number above 1, that of the line before, found 1",
    HEADER + '{"id": -1}': r"list:2: id: expected a whole number >= 0, found another",
    HEADER + '{"id": 0': r"list:2: expected JSON, found Expecting ',' delimiter: column 9",
    HEADER + "[1]": r"list:2: expected an object, found a list",
    '{"id": 0, "hyps": []}': r"list:1: expected the key 'boostfeat'",
    '{"boostfeat": "nbest/2"}': r"list:1: expected format version 1 or lower, found 2; upgrade boostfeat",
    '{"boostfeat": "nbest/1", "unit_features": ["a", "a"]}': r"list:1: unit_features: expected distinct .* 'a' twice",
    "\n": r"list: expected an n-best list, found an empty file",
}


@pytest.mark.parametrize("text", BAD_JSONL)
def test_bad_jsonl_is_an_error_that_names_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match=BAD_JSONL[text]) as caught:
        read(tmp_path, text, format="jsonl")
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------------
# Bad lines
# ---------------------------------------------------------------------------------------------------------------------

GOOD = "0 ||| a ||| d= 1 2 lm= 3 ||| 4\n"
BAD = [
    ("moses", "0 ||| a", r"list:2: expected 3 fields .* found 2"),
    ("moses", "0 ||| a ||| lm= 1 ||| 2 ||| 0=0 ||| 0-0 ||| x", r"list:2: expected at most 6 fields .* found 7"),
    ("moses", "x ||| a ||| lm= 1 ||| 2", r"list:2: expected a sentence id \(0, 1, ...\), found 'x'"),
    ("moses", "-1 ||| a ||| lm= 1 ||| 2", r"list:2: expected a sentence id"),
    ("moses", "0 ||| a ||| d= 1 2 lm= x ||| 2", r"list:2: expected a finite number for feature lm, found 'x'"),
    ("moses", "0 ||| a ||| d= 1 nan lm= 1 ||| 2", r"list:2: expected a finite number for feature d_1, found 'nan'"),
    ("moses", "0 ||| a ||| d= 1 2 lm= -inf ||| 2", r"list:2: expected a finite number for feature lm, found '-inf'"),
    ("moses", "0 ||| a ||| d= 1 2 lm= 1_0 ||| 2", r"list:2: expected a finite number for feature lm, found '1_0'"),
    ("moses", "0 ||| a ||| d= 1 2 lm= 1 ||| best", r"list:2: expected a finite number for the score, found 'best'"),
    ("moses", "0 ||| a ||| d= lm= 1 ||| 2", r"list:2: expected a number after 'd', found none"),
    ("moses", "0 ||| a ||| lm= 1 lm= 2 ||| 2", r"list:2: expected distinct feature names, found 'lm' twice"),
    ("moses", "0 ||| a ||| d= 1 2 d_1= 2 ||| 2", r"list:2: expected distinct feature names, found 'd_1' twice"),
    ("moses", "0 ||| a ||| = 1 ||| 2", r"list:2: expected a feature's name before '=', found '='"),
    ("moses", "0 ||| a ||| lm= 1 ||| 2 ||| 0-0=5", r"list:2: expected segments of 1 word, found '0-0=5'"),
    ("moses", "0 ||| a ||| lm= 1 ||| 2 ||| 3-1=0", r"list:2: expected a span that does not end before it starts, found '3-1=0'"),
    ("moses", "0 ||| a ||| lm= 1 ||| 2 ||| 0:0=0", r"list:2: expected a segment like 0-1=0, found '0:0=0'"),
    ("moses", "0 ||| a ||| lm= 1 ||| 2 ||| 0=0 ||| 1-0", r"list:2: expected alignment points inside segments, found 1-0"),
    ("moses", "0 ||| a ||| lm= 1 ||| 2 ||| was ist das", r"list:2: expected an alignment point like 0-1, found 'was'"),
    ("moses", "0 ||| a |0-0| b ||| lm= 1 ||| 2", r"list:2: expected a mark like \|0-1\| after the last phrase, found 'b'"),
    ("cdec", "0 ||| a ||| lm=1", r"list:2: expected 4 fields .* found 3"),
    ("travatar", "0 ||| a ||| lm=1 ||| 2", r"list:2: expected a finite number for the score, found 'lm=1'"),
    ("joshua", "0 ||| a ||| 1 x ||| 2", r"list:2: expected features like Name= value, found 'x'"),
    ("marian", "0 ||| a ||| WordScores= 1 x ||| F0= 1 ||| 2", r"list:2: expected a finite number for WordScores, found 'x'"),
]


@pytest.mark.parametrize(("format", "line", "message"), BAD)
def test_bad_lines_are_errors_that_name_their_line(tmp_path: Path, format: str, line: str, message: str) -> None:
    good = {"travatar": "0 ||| a ||| 4 ||| lm=3\n"}.get(format, GOOD)
    assert read(tmp_path, good, format=format).n_hyps == 1
    with pytest.raises(FormatError, match=message) as caught:
        read(tmp_path, good + line, format=format)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format", ["moses", "cdec", "joshua", "phrasal"])
def test_ids_do_not_go_back(tmp_path: Path, format: str) -> None:
    with pytest.raises(FormatError, match=r"list:2: expected sentence id 1 or higher, found 0"):
        read(tmp_path, "1 ||| a ||| lm=3 ||| 4\n" + GOOD, format=format)


@pytest.mark.parametrize("format", ["auto", "moses", "cdec", "joshua", "phrasal", "travatar", "marian", "fairseq", "jsonl"])
@pytest.mark.parametrize("text", ["", "\n \r\n"])
def test_empty_files(tmp_path: Path, format: str, text: str) -> None:
    with pytest.raises(FormatError, match="an empty file"):
        read(tmp_path, text, format=format)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H-0\t-1\n", r"list:1: expected a score, a tab and the text"),
        ("P-0\t-1 -2\n", r"list:1: expected an H-0 line before this one"),
        ("H-0\t-1\ta\nP-0\t-1\nP-0\t-1\n", r"list:3: expected an H-0 line before"),
        ("H-0\t-1\ta\nP-0\t-inf\n", r"list:2: expected a finite number for a token's score"),
        ("S-0\ta\n", r"list: expected H- lines, found none"),
    ],
)
def test_bad_fairseq(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(tmp_path, text, format="fairseq")


# ---------------------------------------------------------------------------------------------------------------------
# Round trips
# ---------------------------------------------------------------------------------------------------------------------

# words may hold any blank of Unicode but the two that lists separate them with, and the ends of lines
words = st.text(st.characters(codec="utf-8", exclude_characters="\0 \t\n\r"), min_size=1, max_size=4)
values = st.floats(allow_nan=False, allow_infinity=False)
names = st.sampled_from(["d_0", "d_1", "d_2", "lm", "Foo_0", "x_1", "a=b", "p:q|r", "=", ":", "_0", "_1", "ü", '"', "\\", "{}%s"])
SOURCE = ["q w e r t z u i o p a s"] * 3  # twelve words: segments draws from them
scores = st.one_of(st.just(float("nan")), values)


@st.composite
def spans(draw: st.DrawFn, n: int) -> tuple[int, int] | None:
    if draw(st.booleans()):
        return None
    a = draw(st.integers(0, n))
    return a, draw(st.integers(a, n))


@st.composite
def any_units(draw: st.DrawFn, n_words: int) -> list[UnitRecord]:
    def unit() -> UnitRecord:
        text = st.one_of(st.none(), words, st.just(""))
        maps, src, tgt = draw(st.dictionaries(names, values, max_size=4)), draw(spans(5)), draw(spans(n_words))
        n_src, n_tgt = (span[1] - span[0] if span else 2 for span in (src, tgt))
        align = draw(st.sampled_from(["", *["0-0"] * (n_src > 0 < n_tgt), *["0-1 1-0"] * (n_src > 1 < n_tgt)]))
        return UnitRecord(maps, src, tgt, draw(text), draw(text), align, draw(scores))

    return [unit() for _ in range(draw(st.integers(0, 3)))]


@st.composite
def segments(draw: st.DrawFn, n_words: int) -> list[UnitRecord]:
    """Phrases that cover the text, as Moses' segmentation has them, or none."""
    if draw(st.booleans()):
        return []
    cuts = sorted(draw(st.sets(st.integers(1, n_words - 1)))) if n_words > 1 else []
    units = []
    for a, b in zip([0, *cuts], [*cuts, n_words], strict=True):
        if a == b:
            continue
        s = draw(st.integers(0, 9))
        n_src = draw(st.integers(1, 3))
        points = draw(st.lists(st.tuples(st.integers(0, n_src - 1), st.integers(0, b - a - 1)), max_size=2))
        units.append(UnitRecord({}, (s, s + n_src), (a, b), align=" ".join(f"{i}-{j}" for i, j in points)))
    return units


@st.composite
def lists(draw: st.DrawFn, *, plain: bool) -> NBest:
    """Containers as builders make them. Plain: what a Moses list can hold."""
    builder = Builder(ReadOptions(source=SOURCE))
    ids = sorted(draw(st.sets(st.one_of(st.integers(0, 3), st.integers(0, 10**18 - 1)), min_size=1, max_size=3)))
    own_values = values.filter(bool) if plain else values  # a sparse 0 is not kept, but numbers its name when it is read
    for sent in ids:
        for _ in range(draw(st.sampled_from([1, 2, 15]))):
            tokens = draw(st.lists(words.filter(lambda w: "|" not in w) if plain else words, max_size=4))
            own = draw(st.dictionaries(names, own_values, max_size=3))
            if draw(st.integers(0, 9)) == 0:
                own |= draw(st.dictionaries(words.filter(lambda w: "|||" not in w), own_values, max_size=2))
            units = draw(segments(len(tokens)) if plain else any_units(len(tokens)))
            builder.add(HypRecord(sent, " ".join(tokens), "here", draw(scores), own, units))
    return builder.finish()


@settings(max_examples=40, deadline=None)
@given(lists(plain=False))
def test_jsonl_round_trip(tmp_path_factory: pytest.TempPathFactory, nbest: NBest) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "list"
    path.write_bytes(written(nbest, "jsonl"))
    again = formats.read(path, OPTIONS)
    assert again.differences(nbest) == []
    assert written(replace(again, meta=nbest.meta), "jsonl") == path.read_bytes()  # reading finds the precision of features


@settings(max_examples=40, deadline=None)
@given(lists(plain=True))
def test_moses_round_trip(tmp_path_factory: pytest.TempPathFactory, nbest: NBest) -> None:
    path = tmp_path_factory.mktemp("moses") / "list"
    path.write_bytes(written(nbest, "moses"))
    again = formats.read(path, ReadOptions(source=SOURCE), format="moses")
    assert again.differences(nbest) == []


def test_moses_groups_numbered_names(tmp_path: Path) -> None:
    line = "0 ||| a ||| d= 0 -1.5 lm= -3 Foo_0= 1 tm_1= 2 ||| -4.5\n"
    assert written(read(tmp_path, line), "moses").decode() == line


def test_moses_writes_sums_of_units(tmp_path: Path) -> None:
    units = [{"x": [1, 2], "sparse": {"s": 1}}, {"x": [0.5, 0], "sparse": {"s": 2, "extra": 4}}]
    text = HEADER + json.dumps({"id": 3, "hyps": [{"text": "a", "features": {"lm": 8, "extra": 1}, "units": units}]})
    assert written(read(tmp_path, text), "moses") == b"3 ||| a ||| tm0= 1.5 lm= 10 s= 3 extra= 5\n"


@pytest.mark.parametrize("bad", [{"text": "a ||| b"}, {"text": "a |0-1|"}, {"text": "a", "features": {"x y": 1}}])
def test_moses_cannot_hold_everything(tmp_path: Path, bad: dict[str, object]) -> None:
    nbest = read(tmp_path, HEADER + json.dumps({"id": 0, "hyps": [bad]}))
    with pytest.raises(InputError, match="write JSON lines instead"):
        written(nbest, "moses")


def test_header_says_what_is_dense(tmp_path: Path) -> None:
    """Without hyp_features the frequent ones are dense; a unit's sparse features are sparse however frequent."""
    hyps = [{"text": "a", "features": {"e": 1, "f": 2}, "units": [{"x": [1, 1], "sparse": {"s": 3}}]}]
    lines = json.dumps({"id": 0, "hyps": hyps})
    nbest = read(tmp_path, HEADER + lines)
    assert (nbest.unit_names, nbest.extra_names, nbest.sparse_names.to_pylist()) == (("tm0", "lm"), ("e", "f"), ["s"])
    header = json.loads(HEADER) | {"hyp_features": ["f", "g"], "sparse_features": ["z", "s"]}
    declared = read(tmp_path, json.dumps(header) + "\n" + lines)
    assert (declared.extra_names, declared.sparse_names.to_pylist()) == (("f", "g"), ["z", "s", "e"])
    assert features(declared) == features(nbest) | {"g": 0}


# ---------------------------------------------------------------------------------------------------------------------
# Real lists, and what public tools printed for them
# ---------------------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_moses_extractor_statistics(real: Path) -> None:
    """truth.txt.gz of Moses' extractor test: each run accumulates the lists before; equal rows of a sentence are there once."""
    folder = real / "moses-tests" / "extractor"
    truth = re.sub(r"(?m)^STDOUT_\d+=", "", gzip.decompress((folder / "truth.txt.gz").read_bytes()).decode())
    blocks = [
        [np.array([row.split() for row in rows.strip().splitlines()], float) for rows in re.findall(pattern, truth)]
        for pattern in (r"FEATURES_TXT_BEGIN_0 .*\n((?:[-\d].*\n)+)", r"SCORES_TXT_BEGIN_0 .*\n((?:[-\d].*\n)+)")
    ]
    runs = [formats.read(folder / f"nbest.{i}.gz", OPTIONS) for i in range(1, 6)]
    assert len(blocks[0]) == len(blocks[1]) == 5 * len(runs[0])
    for k in range(5):
        nbest = attach(merge(runs[: k + 1]), source=None, refs=[lines_of(folder / "reference")], name="extractor")
        order = sorted(range(14), key=lambda j: nbest.extra_names[j])  # Moses sorts labels
        rows = bleu.corpus_rows(nbest.stats)
        ours = np.hstack([nbest.extra[:, order], rows[:, [0, 4, 1, 5, 2, 6, 3, 7, 9]]])
        for s in range(len(nbest)):
            theirs = np.hstack([blocks[0][10 * k + s], blocks[1][10 * k + s]])
            mine = ours[nbest.hyp_ptr[s] : nbest.hyp_ptr[s + 1]]
            np.testing.assert_array_equal(np.unique(mine, axis=0), np.unique(theirs, axis=0))


def test_moses_mert_rounds(real: Path) -> None:
    """truth.dat of Moses' mert test: BLEU at the weights of each round, on the lists so far (printed with 6 decimals)."""
    folder = real / "moses-tests" / "mert-moses-new"
    truth = (folder / "truth.dat").read_text()
    weights = [[float(w) for w in row.split()] for row in re.findall(r"weights_\d+: (.*)", truth)]
    best = [float(b) for b in re.findall(r"best_\d+:\s+(\S+)", truth)]
    refs = [lines_of(folder / f"reference.{i}") for i in range(3)]
    runs = [formats.read(folder / f"run{i}.nbest.gz", OPTIONS) for i in range(1, 8)]
    found = []
    for k, row in enumerate(weights):
        nbest = attach(merge(runs[: k + 1]), source=None, refs=refs, name="mert")
        assert nbest.extra_names == (
            *("d_0", "d_1", "d_2", "d_3", "d_4", "d_5", "d_6", "lm", "w", "tm_0", "tm_1", "tm_2", "tm_3"),
            "tm_4",
        )
        scores = nbest.sum_units(*nbest.weigh(dict(zip(nbest.extra_names, row, strict=True))))
        found.append(bleu.corpus_bleu(bleu.corpus_rows(nbest.stats[segment_argmax(nbest.hyp_ptr, scores)]).sum(axis=0)))
    np.testing.assert_allclose(found, best, atol=5.1e-7)


def test_moses_inline_segments(real: Path) -> None:
    """promix: the same 100-best with and without segmentation, and a source of 9 words that each hypothesis covers."""
    folder = real / "moses-tests" / "promix"
    source = lines_of(folder / "test.nbest.input")
    plain = formats.read(folder / "test.nbest.nbest", OPTIONS)
    marked = formats.read(folder / "test.nbest.nbest.segments", ReadOptions(source=source))
    assert plain.text.equals(marked.text)
    np.testing.assert_array_equal(plain.global_features, marked.global_features)
    for h in range(marked.n_hyps):
        at = slice(marked.unit_ptr[h], marked.unit_ptr[h + 1])
        units = marked.unit_idx[at]
        assert " ".join(marked.units.tgt.take(units).to_pylist()) == marked.text[h].as_py()
        covered = [s + i for s, n in zip(marked.src_start[at], marked.units.src_len[units], strict=True) for i in range(n)]
        assert sorted(covered) == list(range(9))
    first = marked.unit_idx[: marked.unit_ptr[1]]
    assert marked.units.src.take(first).to_pylist() == ["domando a", "los políticos", "en ambos", "lados del Atlántico"]


def test_phrasal_samples(real: Path) -> None:
    nbest = formats.read(real / "phrasal" / "properSample.test", OPTIONS)
    assert np.diff(nbest.hyp_ptr).tolist() == [231, 167]  # cut -d' ' -f1 | uniq -c
    assert not nbest.has_scores
    first = features(nbest)
    assert (first["LM"], first["TM:lex(f|t)"], first["WordPenalty"], first["LexR::swapWithNext"]) == (-43.621, -23.407, -8, 0)
    with pytest.raises(
        FormatError, match=r"improperFeatures.test:1: expected a finite number for feature LM, found 'NotANumber'"
    ):
        formats.read(real / "phrasal" / "improperFeatures.test", OPTIONS)
    with pytest.raises(FormatError, match=r"improperIDs.test:1: expected a sentence id \(0, 1, ...\), found 'a'"):
        formats.read(real / "phrasal" / "improperIDs.test", OPTIONS)


@pytest.mark.parametrize(
    "name", ["moses-tests/extractor/nbest.1.gz", "moses-tests/promix/test.nbest.nbest.segments", "phrasal/properSample.test"]
)
def test_real_lists_round_trip(real: Path, tmp_path: Path, name: str) -> None:
    nbest = formats.read(real / name, OPTIONS)
    for format in ("moses", "jsonl"):
        assert read(tmp_path, written(nbest, format), format=format).differences(nbest) == []


def test_a_named_format_gives_way_to_its_richer_form(tmp_path: Path):
    for name, text in (("enriched", ENRICHED), ("forest", FOREST), ("cdec", CDEC)):
        (tmp_path / name).write_text(text)
    options = ReadOptions(weights=WEIGHTS)
    assert (
        formats.read(tmp_path / "enriched", options, format="moses").n_units
        == formats.read(tmp_path / "enriched", options).n_units
        > 0
    )
    assert formats.read(tmp_path / "forest", options, format="cdec").text == formats.read(tmp_path / "forest", options).text
    assert formats.read(tmp_path / "cdec", options, format="cdec").n_hyps == CDEC.count("\n")
    with pytest.raises(InputError, match="unknown format 'soup': expected one of auto, jsonl"):
        formats.read(tmp_path / "cdec", options, format="soup")


def test_files_of_following_sentences_are_one_list(tmp_path):
    """As if they were one file: nothing is sorted, duplicates stay. A folder stands for its files."""
    lines = [f"{sent} ||| t{hyp % 2} ||| a= {hyp % 2} ||| {-hyp % 2}\n" for sent in range(6) for hyp in range(4)]
    (tmp_path / "whole").write_text("".join(lines))
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / ".hidden").write_text("no list")
    for k in range(3):
        (folder / f"part{k}").write_text("".join(lines[8 * k : 8 * k + 8]))
    whole = formats.read_all([tmp_path / "whole"], ReadOptions())
    for paths in ([folder], sorted(folder.glob("part*"))):
        assert formats.read_all(paths, ReadOptions()).differences(whole) == []
    again = formats.read_all([folder / "part0", folder], ReadOptions())  # sentences go back: accumulated, duplicates removed
    assert (len(again), again.n_hyps) == (6, 12)


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(FormatError, match="expected a folder of n-best lists, found no files in it"):
        formats.read_all([tmp_path], ReadOptions())
