"""Moses' enriched n-best lists: the kernel against the plain reader, round trips, real lists, bad lines."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.core.errors import FormatError
from boostfeat.core.files import read_blocks
from boostfeat.formats import detect, read
from boostfeat.formats.bar_lines import last_sentence
from boostfeat.formats.moses import enriched as moses_enriched
from boostfeat.formats.moses.enriched import parse_line
from boostfeat.lists.build import Builder, ReadOptions, attach
from boostfeat.lists.choices import Scorer, first_choice

LINE = (
    "0 ||| the |0-0,wa=0-0 ,total=-0.5, LM0= -1.5 TM0= -0.5 -0.25| red house |1-2,wa=0-0 1-1 ,total=-1, LM0= -2 TM0= -1 -0| "
    " ||| LM0= -3.5 TM0= -1.5 -0.25 ||| -1.5 ||| 0=0 1-2=1-2 ||| 0-0 1-1 2-2\n"
)


def read_text(tmp_path: Path, text: str, **options: object):
    path = tmp_path / "list"
    path.write_text(text, newline="")
    return read(path, ReadOptions(**options), format="moses-enriched")


def read_plainly(text: str, **options: object):
    """The naive twin: every line through the plain reader."""
    builder = Builder(ReadOptions(**options))
    for n, line in enumerate(text.splitlines(), 1):
        if line.strip():
            builder.add(parse_line(line, f"list:{n}", {}))
    return builder.finish()


def test_a_line_in_all_its_parts(tmp_path):
    nb = read_text(tmp_path, LINE, source=["das rote haus"])
    assert nb.unit_names == ("LM0", "TM0_0", "TM0_1")
    assert nb.text.to_pylist() == ["the red house"]
    assert nb.score.tolist() == [-1.5]
    assert nb.units.x.tolist() == [[-1.5, -0.5, -0.25], [-2.0, -1.0, 0.0]]
    assert nb.units.src.to_pylist() == ["das", "rote haus"]
    assert nb.units.tgt.to_pylist() == ["the", "red house"]
    assert nb.units.align.to_pylist() == ["0-0", "0-0 1-1"]
    assert nb.units.score.tolist() == [-0.5, -1.0]
    assert (nb.src_start.tolist(), nb.tgt_start.tolist()) == ([0, 1], [0, 1])
    assert (nb.units.src_len.tolist(), nb.units.tgt_len.tolist()) == ([1, 2], [1, 2])
    assert not np.signbit(nb.units.x[1, 2])  # -0 is 0
    assert nb.global_features.tolist() == [[-3.5, -1.5, -0.25]]
    assert not nb.extra_names


@pytest.mark.parametrize("seed", range(30))
def test_columns_come_in_the_order_in_which_lines_give_them(tmp_path, seed):
    """Whoever reads which line: the kernel reads the first ones, the plain reader those whose blocks and totals differ.

    There a name may be the units' in one line and the hypothesis' in another, and rare ones are sparse.
    """
    rng = np.random.default_rng(seed)
    n, share = int(rng.choice([3, 6, 20, 60])), rng.choice([0.02, 0.1, 0.5, 0.9])
    alike, text = rng.integers(1, n), ""
    for k in range(n):
        units, own = ["LM0"], ["A", "B"]
        if k >= alike:
            units = [name for name in ("LM0", "U", "V", "A") if rng.random() < (0.7 if name == "LM0" else share)]
            own = [name for name in ("A", "B", "C", "D", "U", "V", "LM0") if name not in units and rng.random() < share]
            rng.shuffle(own)
        block, totals = (" ".join(f"{name}= 1" for name in units), " ".join(f"{name}= {rng.integers(3)}" for name in own))
        text += f"{k // 2} ||| a |0-0,wa=0-0 ,total=1, {block}| ||| {block} {totals} ||| 1\n"
    assert read_text(tmp_path, text).differences(read_plainly(text)) == []


@pytest.mark.parametrize(
    ("span", "is_read"),
    [("0-0", True), ("3-2", False), ("2-3", True), ("2147483646-2147483646", True), ("0-2147483647", False), ("0", False), ("0-", False),
     ("-0", False), ("0-x", False), ("0:1", False), ("٣-٤", False), ("0-²", False), ("0-" + "1" * 5000, False)],
)  # fmt: skip
def test_source_spans(span, is_read):
    """Whole numbers in order, whose ends fit into 32 bits."""
    line = f"0 ||| a |{span},wa=,total=1, f= 1| ||| f= 1 ||| 1"
    if not is_read:
        with pytest.raises(FormatError, match="here: expected a source span like 0-1 in a block, found "):
            parse_line(line, "here", {})
        return
    first, last = map(int, span.split("-"))
    assert parse_line(line, "here", {}).units[0].src == (first, last + 1)


def test_round_trip(tmp_path):
    nb = replace(synthetic_nbest(SyntheticOptions(sentences=7, hyps=9), seed=3), meta={})
    nb = replace(nb, stats=np.zeros((0, 6), np.int32), ref_ptr=np.zeros(8, np.int64), refs=nb.refs[:0])
    out = io.BytesIO()
    moses_enriched.write(nb, out)
    source = nb.source.to_pylist()
    again = attach(read_text(tmp_path, out.getvalue().decode(), source=source), source=source, refs=[], name="list")
    assert again.differences(nb) == []
    assert detect(tmp_path / "list") == "moses-enriched"


def test_equal_units_of_different_sentences_are_one(tmp_path):
    text = LINE + LINE.replace("0 |||", "1 |||")
    assert read_text(tmp_path, text).n_units == 2
    assert read_text(tmp_path, text, source=["a b c", "x y z"]).n_units == 4  # other source words: other units


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.replace("LM0= -3.5", "LM0= -3.6"),
            "list:2: expected units whose LM0 sums to the hypothesis' -3.6, found -3.5",
        ),
        (lambda t: t.replace("LM0= -1.5", "LM0= nan"), "list:2: expected a finite number for feature LM0, found 'nan'"),
        (lambda t: t.replace("LM0= -1.5", "LM0= x"), "list:2: expected a finite number for feature LM0, found 'x'"),
        (lambda t: t.replace("||| -1.5 |||", "||| inf |||"), "list:2: expected a finite number for the score, found 'inf'"),
        (lambda t: t.replace("|0-0,", "|0+0,"), "list:2: expected a source span like 0-1 in a block, found '0+0'"),
        (lambda t: t.replace("|1-2,", "|2-1,"), "list:2: expected a source span like 0-1 in a block, found '2-1'"),
        (lambda t: t[:60] + "\n", "list:2: expected 3 fields separated by ' ||| '"),
        (lambda t: t.replace("0 ||| the", "x ||| the"), "list:2: expected a sentence id (0, 1, ...), found 'x'"),
        (lambda t: t.replace("LM0= -2 ", "LM0= -2 LM0= -2 "), "list:2: expected distinct feature names, found 'LM0' twice"),
        (lambda t: t.replace("-0.25| red", "-0.25 red"), "list:2: expected a block |span,...| after every phrase"),
        (lambda t: t.replace("|1-2,", "|1-3,"), "list:2: expected a source span within the sentence's 3 words, found 1-3"),
        (lambda t: LINE.replace("0 |||", "5 |||") + t, "list:3: expected sentence id 5 or higher, found 0"),
    ],
)
def test_bad_lines_name_their_place(tmp_path, change, message):
    with pytest.raises(FormatError) as error:
        read_text(tmp_path, LINE + change(LINE), source=["das rote haus"] * 6)
    assert str(error.value).removeprefix(f"{tmp_path}/").startswith(message)


def test_bad_utf8_names_its_line(tmp_path):
    path = tmp_path / "list"
    path.write_bytes(LINE.encode() + LINE.encode().replace(b"red", b"r\xffd"))
    with pytest.raises(FormatError, match=r"list:2: expected UTF-8 text, found byte 0xff"):
        read(path, ReadOptions())


@pytest.mark.parametrize("name", ["devselect"])
def test_real_list(real, name):
    """Numbers of shared/real/README.md: decoder BLEU 31.03 by sacrebleu; sizes by counting the file's lines and blocks."""
    source, refs = ((real / "fi-en" / f"{name}.{x}").read_text().splitlines() for x in ("fi", "en"))
    nb = read(real / "fi-en" / f"{name}.200.enriched.xz", ReadOptions(source=source))
    nb = attach(nb, source=source, refs=[refs], name=name, threads=2)
    assert (len(nb), nb.n_hyps) == (1000, 198_944)
    assert not nb.extra_names  # unit sums are the totals; no feature is left over
    assert f"{Scorer(nb).score(first_choice(nb), 'bleu').score:.2f}" == "31.03"
    assert nb.text[0].as_py() == "rounded rectangle line properties"


# ---------------------------------------------------------------------------------------------------------------------
# Chunks and threads
# ---------------------------------------------------------------------------------------------------------------------


def test_blocks_hold_whole_sentences(tmp_path):
    lines = [f"{sent} ||| {k}\n".encode() for sent in (0, 0, 1, 11, 11, 11, 2) for k in range(2)]
    (tmp_path / "list").write_bytes(b"".join(lines))
    for size in range(1, 80, 7):
        blocks = [block.text() for block in read_blocks(tmp_path / "list", size, last_sentence)]
        assert b"".join(blocks) == b"".join(lines)
        ends = [(a.splitlines()[-1].split()[0], b.split()[0]) for a, b in pairwise(blocks)]
        assert all(last != first for last, first in ends)
        assert size > 40 or len(blocks) > 1
    (tmp_path / "list").write_bytes(b"")
    assert list(read_blocks(tmp_path / "list", 10, last_sentence)) == []
