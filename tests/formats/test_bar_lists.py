"""Lists in blocks and threads, several files, reading no more than is wanted; lines that kernels leave to Python.

Kernels mark lines that they do not understand, which Python reads one by one: whichever reads a line, the list is the same.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import formats
from boostfeat.core.errors import FormatError
from boostfeat.formats import bar_lines
from boostfeat.formats.bar_lines import BarLines
from boostfeat.formats.importing import Corpus, import_corpus
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.nbest import NBest

WRITTEN = ("moses", "moses-enriched", "jsonl")  # by us
COMPRESS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few sentences."""
    monkeypatch.setattr(bar_lines, "BLOCK_BYTES", 4000)


def some_lists() -> NBest:
    nb = synthetic_nbest(SyntheticOptions(sentences=12, hyps=8, features=3), seed=5)
    return replace(nb, meta={})


def text_of(nb: NBest, format: str) -> bytes:
    out = io.BytesIO()
    formats.write(nb, out, format=format)
    return out.getvalue()


def read(path: Path, format: str, **options: object) -> NBest:
    return formats.read(path, ReadOptions(**options), format=format.split()[0])


def read_plainly(path: Path, format: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> NBest:
    """Read every line in Python."""

    def all_odd(lines: BarLines) -> np.ndarray:
        lines.odd[:] = True
        return np.zeros(len(lines), np.int64)

    with monkeypatch.context() as patch:
        patch.setattr(BarLines, "ids", all_odd)
        return read(path, format, **options)


# ---------------------------------------------------------------------------------------------------------------------
# Kernels and Python
# ---------------------------------------------------------------------------------------------------------------------

CHANGES = {
    "as written": lambda text: text,
    "ends of lines of Windows": lambda text: text.replace(b"\n", b"\r\n"),
    "blank lines": lambda text: text.replace(b"\n", b"\n\n"),
    "other alphabets": lambda text: text.replace(b"a", "\u00e4".encode()).replace("\u00e4".encode(), b"a", 1),
    "no end of the last line": lambda text: text.removesuffix(b"\n"),
    "a number that is left to Python": lambda text: text.replace(b"-1.", b"-0001.", 1),
    "a mark of four bars": lambda text: text.replace(b"|||", b"||||", 1),
    "no UTF-8": lambda text: text[: len(text) // 2] + b"\xff" + text[len(text) // 2 :],
    "NUL": lambda text: text[: len(text) // 2] + b"\0" + text[len(text) // 2 :],
    "a line that is cut": lambda text: text[: len(text) // 2],
    "sentences that go back": lambda text: text + b"".join(text.splitlines(keepends=True)[1:3]),
}


@pytest.mark.parametrize(("first", "n"), [(10, 1), (10, 2), (13, 1), (13, 2), (1, 1)])
def test_what_is_dense_depends_on_the_whole_list(tmp_path, monkeypatch, first, n):
    """Lines of one block and of another, read by kernels or in Python, decide together."""
    path = tmp_path / "list"
    lines = [f"0 ||| w{h} ||| A= {h}" + " B= 1" * (first <= h < first + n) for h in range(15)]
    path.write_text("".join(f"{line} ||| -1\n" for line in lines))
    assert read(path, "moses").differences(read_plainly(path, "moses", monkeypatch)) == []


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("format", WRITTEN)
@pytest.mark.parametrize("change", CHANGES)
def test_what_the_plain_reader_makes_of_it(tmp_path, monkeypatch, change, format, size):
    """The same lists, or the same error."""
    path = tmp_path / "list"
    path.write_bytes(CHANGES[change](text_of(some_lists(), format)))
    try:
        expected = read_plainly(path, format, monkeypatch, size=size)
    except FormatError as error:
        for threads in (1, 3):
            with pytest.raises(FormatError) as found:
                read(path, format, size=size, threads=threads)
            assert str(found.value) == str(error)
        return
    for threads in (1, 3):
        found = read(path, format, size=size, threads=threads)
        assert found.differences(expected) == []
        assert change != "as written" or found.n_hyps == 12 * (size or 8)


@pytest.mark.parametrize("format", WRITTEN)
def test_minus_zero_is_zero_for_both(tmp_path, monkeypatch, format):
    """Scores of hypotheses and of units: equal numbers are equal bytes of a store, whoever read them."""
    nb, path = some_lists(), tmp_path / "list"
    units = replace(nb.units, score=np.full(nb.n_units, -0.0))
    path.write_bytes(text_of(replace(nb, score=np.full(nb.n_hyps, -0.0), units=units), format))
    assert b"-0" in path.read_bytes()
    for found in (read_plainly(path, format, monkeypatch), read(path, format)):
        assert (found.score == 0).all()
        assert not np.signbit(found.score).any()
        assert not np.signbit(found.units.score[~np.isnan(found.units.score)]).any()


PLAIN = "{} ||| a b ||| lm= -1 tm= 2 3 ||| -4 ||| 0=0 1-2=1 ||| 0-0 2-1\n"


@pytest.mark.parametrize(
    "line",
    [
        PLAIN,
        PLAIN.replace("1-2=1", "1-2=2"),  # beyond the text
        PLAIN.replace("2-1", "0-1"),  # a point outside of its segment
        PLAIN.replace("0=0 1-2=1", "0=0 1=0 2=1"),  # a phrase without words
        PLAIN.replace(" ||| 0-0 2-1", ""),
        PLAIN.replace(" ||| 0=0 1-2=1 ||| 0-0 2-1", " ||| 0-0 2-1"),
        PLAIN.replace("0=0 1-2=1", ""),
        PLAIN.replace(" ||| -4 ||| 0=0 1-2=1 ||| 0-0 2-1", ""),
        PLAIN.replace("-4", ""),
        PLAIN.replace("-4", "-4 5"),
        PLAIN.replace("a b", "a\tb  "),
        PLAIN.replace("a b", "a |0-0| b |1-2|").replace(" ||| 0=0 1-2=1 ||| 0-0 2-1", ""),
        PLAIN.replace("tm= 2 3", "tm= 2 3 sparse_x= 1"),
        PLAIN.replace("2-1", "2-1 2-1").replace("0-0", "0-0\t"),
    ],
)
def test_plain_lines(tmp_path, monkeypatch, line):
    """A line in the middle of a list of regular ones, and before them."""
    regular = "".join(PLAIN.format(k // 4) for k in range(200))
    for text in (regular + line.format(50) + PLAIN.format(51), line.format(0) + regular):
        (tmp_path / "list").write_text(text)
        try:
            expected: object = read_plainly(tmp_path / "list", "moses", monkeypatch, source=["x y z"] * 60)
        except FormatError as error:
            expected = str(error)
        try:
            found: object = formats.read(tmp_path / "list", ReadOptions(source=["x y z"] * 60), format="moses")
        except FormatError as error:
            found = str(error)
        assert found == expected


MOSES = [
    "0 ||| das haus ||| LM0= -1.5 TM0= -0.25 0 ||| -1.75 ||| 0=0 1=1 ||| 0-0 1-1",
    "0 |||  a  b\tc  ||| LM0= 1e-3 TM0= +2 -3. ||| 2.5e+1  ||| 0-1=0 2=1-2 ||| 1-0 0-0 2-2 2-1",
    "0 ||| x y z ||| LM0= .5 TM0= 123456789012345678 900719925474099 ||| -0.30000000000000004 ||| 0=0 1=1 2=1 3=2 ||| ",
    "0 |||  ||| LM0= -0 TM0= 0 0 ||| 0 |||  ||| ",
    "",
    "7 ||| w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 ||| LM0= 1 TM0= 2 3 ||| 4 ||| 0-9=0-9 10=10-11 ||| 0-9 9-0 10-11 10-10",
    "7 ||| das haus ||| LM0= -1.5 TM0= -0.25 0 ||| -1.75 ||| 1=0 0=1 ||| 0-1 1-0\r",
    "  12 ||| ä ö ||| LM0= 8.67e-18 TM0= 1.17E-05 -100 ||| -7 ||| 0=0 1=1",
    "123456789012 ||| ä ö ||| LM0= 1 TM0= 1 1 ||| -7 ||| 0-0 1-1",
    "123456789013 ||| a b ||| LM0= 1 TM0= 1 1 |||  ",
]
ENRICHED = [
    "0 ||| the |0-0,wa=0-0 ,total=-0.5, LM0= -1.5 TM0= -0.5 -0.25| red  house |1-2,wa=0-0 1-1 ,total=-1, LM0= -2 TM0= -1 -0| "
    " ||| LM0= -3.5 TM0= -1.5 -0.25 ||| -1.5 ||| 0=0 1-2=1-2 ||| 0-0 1-1 2-2",
    "0 ||| the |0-0,wa=0-0 ,total=-9, LM0= -1.5 TM0= -0.5 -0.25| |1-1,total=2.5e0, LM0= 1 TM0= 1 1| b\tc |2-2, LM0= 0 TM0= 0 2| "
    " ||| LM0= -0.5 TM0= 0.5 2.75 ||| 3e1 |||",
    "   ",
    "9 ||| u |9-9,wa=0-0 ,total=9, LM0= 0 TM0= 99.99 -9e-9|  ||| LM0= 9e-7 TM0= 99.99 -9e-9 ||| 9 ||| 9=0 ||| 9-0",
    "12 ||| |0-11,wa= ,total=0, LM0= 1 TM0= 2 3| ä |12-12,wa=0-0,total=1, LM0= 1 TM0= 2 3|  ||| LM0= 2 TM0= 4 6 ||| -1 |||\r",
    "12 ||| w |10-11,wa=1-0 0-0 ,total=.5, LM0= 12345.6789 TM0= 1e2 -7| ||| LM0= 12345.6789 TM0= 100 -7 ||| 0 ||| ",
]
# totals that no block carries, before, between and behind the others
MORE = [
    re.sub(r"\|\|\| LM0= (\S+) (TM0= \S+ \S+) \|\|\|", r"||| A= 3 LM0= \1 Doc0= 7 -1 \2 Z= -0.5 |||", line) for line in ENRICHED
]
REGULAR = {"moses": MOSES, "moses-enriched": ENRICHED, "moses-enriched with more": MORE}


def attempt(path, format, monkeypatch=None, **options):
    try:
        if monkeypatch is not None:
            return read_plainly(path, format, monkeypatch, warn=lambda line: None, **options)
        return read(path, format, warn=lambda line: None, **options)
    except FormatError as error:
        return str(error)


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("options", [{}, {"size": 1}, {"first": 8}, {"source": [" ".join("abcdefghijklmn")] * 13}])
@pytest.mark.parametrize("name", REGULAR)
def test_lines_that_kernels_read(tmp_path, monkeypatch, name, options, block):
    """Numbers, spans, links and blanks of every kind that kernels know, in blocks of a line and in one."""
    monkeypatch.setattr(bar_lines, "BLOCK_BYTES", block)
    (tmp_path / "list").write_text("\n".join(REGULAR[name]) + "\n", newline="")
    expected = attempt(tmp_path / "list", name, monkeypatch, **options)
    assert not isinstance(expected, str)
    assert expected.n_hyps > 0
    monkeypatch.setattr(BarLines, "text", lambda lines, row: pytest.fail(f"{lines.where(row)} was left to Python"))
    assert attempt(tmp_path / "list", name, **options).differences(expected) == []


def test_no_room_for_blocks_is_kept(tmp_path, monkeypatch):
    """Arrays that a block is read into may take several times its bytes; texts are copied from them."""
    monkeypatch.setattr(bar_lines, "BLOCK_BYTES", 1 << 16)
    (tmp_path / "list").write_text("".join(f"{k}{ENRICHED[0][1:]}\n" for k in range(10_000)))
    read(tmp_path / "list", "moses-enriched", first=5)  # loads kernels
    tracemalloc.start()
    read(tmp_path / "list", "moses-enriched")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * (tmp_path / "list").stat().st_size


@pytest.mark.parametrize("name", REGULAR)
def test_whatever_is_changed(tmp_path, monkeypatch, name):
    """A byte more, less or another, or a line that is cut: the same list, or the same error."""
    rng = random.Random(7)
    whole = "\n".join([REGULAR[name][0], REGULAR[name][-1].strip()]) + "\n"
    for k in range(150):
        at = rng.randrange(len(whole) - 1)
        piece = rng.choice(["|", " ", "-", "=", "0", "9", ",", ".", "e", ":", "\t", "||", "1", "|||", ""])
        text = whole[:at] + piece + whole[at + rng.randrange(3) :] if k % 3 else whole[:at] + "\n"
        (tmp_path / "list").write_text(text, newline="")
        assert attempt(tmp_path / "list", name) == attempt(tmp_path / "list", name, monkeypatch)


# ---------------------------------------------------------------------------------------------------------------------
# Several files, and no more than is wanted
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", *COMPRESS])
@pytest.mark.parametrize("format", WRITTEN)
def test_first_stops_reading(tmp_path, format, ending):
    """What follows the first sentences is damaged, and not met."""
    whole = text_of(some_lists(), format)
    lines = whole.splitlines(keepends=True)
    kept = 1 + 4 if format == "jsonl" else 8 * 4
    text = b"".join(lines[:kept]) + b"".join(lines[kept:]) + b"what is this?\n" * 3000
    (tmp_path / "list").write_bytes(COMPRESS[ending](text) if ending else text)
    if ending:
        with pytest.raises(FormatError, match="list:"):
            read(tmp_path / "list", format)
    found = read(tmp_path / "list", format, first=3)
    (tmp_path / "whole").write_bytes(whole)
    expected = read(tmp_path / "whole", format)[:3]
    assert found.differences(replace(expected.compact(), meta=found.meta)) == []


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("marian", "".join(f"{s} ||| a b ||| F0= -1 ||| -1\n" for s in range(5))),
        ("cdec", "".join(f"{s} ||| a b ||| lm=-1 ||| -1\n" for s in range(5))),
        ("hyporadise", "".join('{"input": ["a"], "output": "a"}\n' for _ in range(5))),
    ],
)
def test_first_stops_reading_of_other_formats(tmp_path, format, text):
    (tmp_path / "list").write_text(text + "what is this?\n")
    with pytest.raises(FormatError, match="list:6"):
        formats.read(tmp_path / "list", ReadOptions(), format=format)
    assert formats.read(tmp_path / "list", ReadOptions(first=3), format=format).ids.tolist() == [0, 1, 2]


def test_import_of_the_first_sentences_of_parts(tmp_path):
    """Parts after the first sentences are looked at only; references are cut as well."""
    lines = text_of(some_lists(), "moses").splitlines(keepends=True)
    for k in range(3):
        (tmp_path / f"part{k}").write_bytes(b"".join(lines[32 * k : 32 * k + 32]) + (b"what is this?\n" if k else b""))
    (tmp_path / "ref").write_text("a\n" * 12)
    corpus = Corpus([str(tmp_path / f"part{k}") for k in range(3)], [str(tmp_path / "ref")], first=3)
    assert len(import_corpus(corpus, ReadOptions())) == 3
    with pytest.raises(FormatError, match="part1:33"):
        import_corpus(replace(corpus, first=None), ReadOptions())


def test_files_of_a_folder_come_in_the_order_of_their_numbers(tmp_path):
    """part2 before part10: as one list, not accumulated; errors name the part and its line."""
    nb = some_lists()
    whole = text_of(nb, "moses-enriched")
    lines = whole.splitlines(keepends=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(12):
        (folder / f"part{k}.xz").write_bytes(lzma.compress(b"".join(lines[8 * k : 8 * k + 8])))
    (tmp_path / "whole").write_bytes(whole)
    expected = formats.read(tmp_path / "whole", ReadOptions())
    found = formats.read_all([folder], ReadOptions())
    assert found.ids.tolist() == list(range(12))
    assert found.differences(replace(expected, meta=found.meta)) == []
    (folder / "part10.xz").write_bytes(lzma.compress(b"".join(lines[80:88]) + b"10 ||| x\n"))
    with pytest.raises(FormatError, match=r"part10\.xz:9: "):
        formats.read_all([folder], ReadOptions())


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("format", WRITTEN)
def test_compressed_lists_that_were_cut_are_refused(tmp_path, format, ending):
    path = tmp_path / f"list.{ending}"
    data = COMPRESS[ending](text_of(some_lists(), format))
    path.write_bytes(data)
    assert read(path, format).n_hyps == 96
    path.write_bytes(data[:-20])
    for threads in (1, 2):
        with pytest.raises(FormatError, match="expected intact compressed data") as found:
            read(path, format, threads=threads)
        assert "\n" not in str(found.value)
