"""Blanks are what the format says they are: a no-break space is part of a word, for spans, alignments and texts alike."""

from __future__ import annotations

import io
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import sacrebleu

from boostfeat.core.errors import FormatError
from boostfeat.features.clusters import read_clusters
from boostfeat.formats import read, write
from boostfeat.formats.bar_lines import BarLines
from boostfeat.formats.lines import read_systems
from boostfeat.formats.moses.ini import read_weights
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.choices import Scorer, first_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.words import words_of

NB = "\u00a0"
SOURCE = f"A{NB}B C D"
LISTS = {
    "moses-enriched": f"0 ||| x{NB}y z |0-1,wa=0-0 1-1 ,total=-1, LM0= -1| w |2-2,wa=0-0 , LM0= -2|  ||| LM0= -3 ||| -1\n",
    "moses": f"0 ||| x{NB}y z w ||| LM0= -3 ||| -1 ||| 0-1=0-1 2=2 ||| 0-0 1-1 2-2\n",
    "jsonl": '{"boostfeat": "nbest/1", "unit_features": ["LM0"]}\n'
    f'{{"id": 0, "source": "{SOURCE}", "hyps": [{{"text": "x{NB}y z  w\\n", "score": -1, "units": ['
    '{"src": [0, 2], "tgt": [0, 2], "align": "0-0 1-1", "x": [-1]}, {"src": [2, 3], "tgt": [2, 3], "align": "0-0", "x": [-2]}]}]}\n',
    "moses-osgx": "0 hyp=0 stack=0 forward=1 fscore=0\n"
    f'0 hyp=1 stack=2 back=0 score=-1 transition=-1 forward=2 fscore=-1 covered=0-1 scores="core=(-1)" out="A{NB}B C|x{NB}y z"\n'
    '0 hyp=2 stack=3 back=1 score=-3 transition=-2 forward=-1 fscore=-3 covered=2-2 scores="core=(-2)" out="D|w"\n',
}


def of(path: Path, format: str) -> NBest:
    path.write_text(LISTS[format], encoding="utf-8", newline="")
    return read(path, ReadOptions(source=[SOURCE]), format=format)


def all_odd(lines: BarLines) -> np.ndarray:
    """Leave every line to Python."""
    lines.odd[:] = True
    return np.zeros(len(lines), np.int64)


@pytest.mark.parametrize("twin", ["compiled", "plain"])
@pytest.mark.parametrize("format", LISTS)
def test_words_keep_their_blanks_and_places(tmp_path: Path, format: str, twin: str) -> None:
    if twin == "plain":
        with patch.object(BarLines, "ids", all_odd):
            nbest = of(tmp_path / "list", format)
    else:
        nbest = of(tmp_path / "list", format)
    assert nbest.text.to_pylist() == [f"x{NB}y z w"]
    assert nbest.units.tgt.to_pylist() == [f"x{NB}y z", "w"]
    assert nbest.units.src.to_pylist() == [f"A{NB}B C", "D"]
    assert (nbest.units.src_len.tolist(), nbest.units.tgt_len.tolist()) == ([2, 1], [2, 1])
    assert (nbest.src_start.tolist(), nbest.tgt_start.tolist()) == ([0, 2], [0, 2])
    words = [words_of(side) for side in (nbest.units.src, nbest.units.tgt)]
    assert [w.counts.tolist() for w in words] == [[2, 1], [2, 1]]  # what templates see
    if format != "moses-osgx":
        assert nbest.units.align.to_pylist() == ["0-0 1-1", "0-0"]


@pytest.mark.parametrize("format", ["moses", "moses-enriched", "jsonl"])
def test_texts_are_written_as_they_came(tmp_path: Path, format: str) -> None:
    nbest, stream = attach(of(tmp_path / "list", "moses-enriched"), source=[SOURCE], refs=[], name="x"), io.BytesIO()
    assert nbest.source.to_pylist() == [SOURCE]
    write(nbest, stream, format=format)
    (tmp_path / "again").write_bytes(stream.getvalue())
    again = attach(read(tmp_path / "again", ReadOptions(source=[SOURCE])), source=[SOURCE], refs=[], name="x")
    assert again.text.equals(nbest.text)
    assert again.units.tgt.equals(nbest.units.tgt)
    assert again.units.align.equals(nbest.units.align)


def test_words_and_names_that_begin_with_another_blank_are_written_whole(tmp_path: Path) -> None:
    line = LISTS["moses-enriched"].replace(f"x{NB}y", f"{NB}x").replace("LM0", f"{NB}LM0")
    (tmp_path / "list").write_text(line, encoding="utf-8", newline="")
    nbest, stream = read(tmp_path / "list", ReadOptions(), format="moses-enriched"), io.BytesIO()
    assert (nbest.text.to_pylist(), nbest.feature_names) == ([f"{NB}x z w"], (f"{NB}LM0",))
    write(nbest, stream, format="moses-enriched")
    assert f"||| {NB}x z |0-1," in stream.getvalue().decode()
    assert f"||| {NB}LM0= -3 |||" in stream.getvalue().decode()


def test_bleu_splits_where_sacrebleu_does(tmp_path: Path) -> None:
    nbest = of(tmp_path / "list", "moses")
    refs = ["x y z w v"]
    found = Scorer(attach(nbest, source=None, refs=[refs], name="x"))
    expected = sacrebleu.corpus_bleu(nbest.text.to_pylist(), [refs], tokenize="none", force=True).score
    assert found.score(first_choice(found.nbest), "bleu").score == pytest.approx(expected)


BAD = {
    "0 ||| x y |0-1,wa=9-9 , LM0= -1| ||| LM0= -1 ||| -1": "an alignment of links like 0-1 of 2 source and 2 target words, found '9-9'",
    "0 ||| x y |0-1,wa=a-b , LM0= -1| ||| LM0= -1 ||| -1": "an alignment of .*, found 'a-b'",
    "0 ||| x |0-0,wa=0-0 , LM0= \uff11| ||| LM0= 1 ||| -1": "a finite number for feature LM0, found '\uff11'",
    "0 ||| x\0 |0-0,wa=0-0 , LM0= 1| ||| LM0= 1 ||| -1": "UTF-8 text, found byte 0x00 at column 8",
    f"0 ||| x |0-0,wa=0-0 , LM0={NB}1| ||| LM0= 1 ||| -1": "a finite number for feature LM0, found",
}


@pytest.mark.parametrize("line", BAD)
def test_what_import_would_let_through(tmp_path: Path, line: str) -> None:
    (tmp_path / "list").write_text(LISTS["moses-enriched"] + line + "\n", encoding="utf-8", newline="")
    with pytest.raises(FormatError, match=f"list:2: expected {BAD[line]}"):
        read(tmp_path / "list", ReadOptions(), format="moses-enriched")


def test_a_word_that_moses_drops_has_no_links(tmp_path: Path) -> None:
    line = LISTS["moses-enriched"].replace("w |2-2", "|2-2")
    for text in (line, "0 |||  ||| LM0= 0 ||| 0\n" + line):  # the second is for the plain reader
        (tmp_path / "list").write_text(text)
        assert read(tmp_path / "list", ReadOptions(), format="moses-enriched").units.align.to_pylist() == ["0-0 1-1", ""]


def test_source_phrases_longer_than_any_buffer(tmp_path: Path) -> None:
    """Memory for source phrases was reserved by the number of units, and a long one went beyond it."""
    source = " ".join("word" for _ in range(100_000))
    (tmp_path / "list").write_text("0 ||| x |0-99999,wa=0-0 ,total=-1, LM0= -1|  ||| LM0= -1 ||| -1\n")
    nbest = read(tmp_path / "list", ReadOptions(source=[source]), format="moses-enriched")
    assert nbest.units.src.to_pylist() == [source]


NEURAL = {
    "hyporadise": f'[{{"input": ["x{NB}y  z"], "output": "a", "am_score": [-1]}}]',
    "mlm-scoring": f'{{"u": {{"hyp_1": {{"score": -1, "text": "x{NB}y  z"}}, "ref": "a"}}}}',
    "sockeye": f'{{"sentence_id": 0, "translations": ["x{NB}y  z"], "scores": [[1]]}}',
    "vosk": f'{{"alternatives": [{{"confidence": 1.5, "text": "x{NB}y  z"}}]}}',
    "openai": f'{{"choices": [{{"text": "x{NB}y z", "logprobs": {{"tokens": ["x{NB}", "y", " z"], "token_logprobs": [-1, -2, -3]}}}}]}}',
    "lines": f"x{NB}y  z\n",
    "nemo": f"x{NB}y  z\t-1\n",
    "marian": f"0 ||| ▁x{NB}y ▁z ||| WordScores= -1 -0.5 -0.25 ||| F0= -1.75 ||| -0.5\n",
    "fairseq": f"S-0\ta\nH-0\t-0.5\tx{NB}y z\nP-0\t-1 -2 -0.5\n",
}


@pytest.mark.parametrize("format", NEURAL)
def test_pieces_and_plain_texts_keep_their_blanks(tmp_path: Path, format: str) -> None:
    (tmp_path / "list").write_text(NEURAL[format], encoding="utf-8", newline="")
    nbest = read(tmp_path / "list", ReadOptions(n=1, warn=lambda text: None), format=format)
    assert nbest.text.to_pylist() == [f"x{NB}y z"]
    assert nbest.units.tgt.to_pylist()[:2] == [f"x{NB}y", "z"]


def test_files_of_words_keep_their_blanks(tmp_path: Path) -> None:
    for name, text in (("clusters", f"x{NB}y\t1\n"), ("weights", f"pt_x{NB}y 0.5\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_clusters(tmp_path / "clusters") == {f"x{NB}y": "1"}
    assert read_weights([tmp_path / "weights"]) == {f"pt_x{NB}y": 0.5}
    systems = [tmp_path / "a", tmp_path / "b"]
    for path in systems:
        path.write_text(f"{NB}x  z{NB}\n", encoding="utf-8")
    assert read_systems([f"{path.name}={path}" for path in systems], ReadOptions()).text.to_pylist() == [f"{NB}x z{NB}"] * 2
