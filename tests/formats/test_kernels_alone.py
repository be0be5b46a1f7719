"""Lists that kernels read to their end: what they do not understand is read plainly, which would hide a fault of theirs.

The plain readers are the oracle. First they read; then they are taken away.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from golden import check_golden
from toy_graphs import OSGX

from boostfeat import formats
from boostfeat.core.errors import FormatError
from boostfeat.core.files import Block
from boostfeat.formats import columns, marian, marian_fast
from boostfeat.formats.byte_kernels import read_digits, read_number, skip_blanks, starts_with
from boostfeat.formats.columns import Room
from boostfeat.formats.moses import enriched, nbest
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.nbest import NBest
from boostfeat.search.graphs import moses_search_graph as search_graph
from boostfeat.search.graphs import moses_search_graph_fast as search_graph_fast

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
    " ||| LM0= -0.5 TM0= 0.5 2.75 ||| 3e1 x |||",
    "   ",
    "9 ||| u |9-9,wa=0-0 ,total=9, LM0= 0 TM0= 99.99 -9e-9|  ||| LM0= 9e-7 TM0= 99.99 -9e-9 ||| 9 ||| 9=0 ||| 9-0",
    "12 ||| |0-11,wa= ,total=0, LM0= 1 TM0= 2 3| ä |12-12,wa=0-0,total=1, LM0= 1 TM0= 2 3|  ||| LM0= 2 TM0= 4 6 ||| -1 |||\r",
    "12 ||| w |10-11,wa=1-0 0-0 ,total=.5, LM0= 12345.6789 TM0= 1e2 -7| ||| LM0= 12345.6789 TM0= 100 -7 ||| 0 ||| ",
]
LISTS = {"moses": MOSES, "moses-enriched": ENRICHED}
# totals that no block carries, before, between and behind the others
MORE = [
    re.sub(r"\|\|\| LM0= (\S+) (TM0= \S+ \S+) \|\|\|", r"||| A= 3 LM0= \1 Doc0= 7 -1 \2 Z= -0.5 |||", line) for line in ENRICHED
]
OF_MARIAN = [
    "0 ||| the house ||| WordScores= -1 -0.5 -0.25 ||| F0= -1.75 F1= -1.5 ||| -0.5",
    "0 |||\t a\tb \t||| WordScores= 1e-3 .5 -0 ||| F0= 9 F1= 99.99 ||| 9e1 ",
    "0 ||| ||| WordScores= -1 ||| F0= 0 F1= 12345678901 ||| 0\r",
    "  ",
    " 9 ||| ä ö ü ||| WordScores= 1 2 3 4 ||| F0= -0.30000000000000004 F1= +2 ||| 1",
    "12 |||x||| WordScores= 1 2||| F0= 1 F1= 2|||3",
    "123456789012 ||| c ||| WordScores= 0 0 ||| F0= 1 F1= 2 ||| 3",
]
REGULAR = {**LISTS, "moses-enriched with more": MORE, "marian": OF_MARIAN}


def attempt(path: Path, format: str, **options: object) -> NBest | str:
    try:
        return formats.read(path, ReadOptions(warn=lambda line: None, **options), format=format)
    except FormatError as error:
        return str(error)


@pytest.fixture
def plainly(monkeypatch):
    """Reads without kernels."""

    def read(path: Path, format: str, **options: object) -> NBest | str:
        with monkeypatch.context() as patch:
            for reader in (enriched.FastReader, nbest.FastReader):
                patch.setattr(reader, "for_list", lambda *_: None)
            patch.setattr(marian, "_fast_for", lambda *_: None)
            return attempt(path, format, **options)

    return read


@pytest.fixture
def alone(monkeypatch):
    """Takes the plain readers away."""

    def take() -> None:
        for module in (enriched, nbest):
            monkeypatch.setattr(module, "parse_line", lambda line, where, _: pytest.fail(f"{where} was left to the plain reader"))
        monkeypatch.setattr(marian, "_hyps", lambda lines, *, ids: [pytest.fail(f"{where} was left") for where, _ in lines])

    return take


def check_same(found: NBest | str, expected: NBest | str) -> None:
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
    else:
        assert found.differences(expected) == []


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("options", [{}, {"size": 1}, {"first": 8}, {"source": [" ".join("abcdefghijklmn")] * 13}])
@pytest.mark.parametrize("name", REGULAR)
def test_regular_lists(tmp_path, monkeypatch, plainly, alone, name, options, block):
    """Numbers, spans, links, blanks and escapes of every kind that kernels know, in blocks of a line and in one."""
    format = name.split()[0]
    monkeypatch.setattr(columns, "BLOCK_BYTES", block)
    monkeypatch.setattr(marian_fast, "BLOCK_BYTES", block)
    (tmp_path / "list").write_text("\n".join(REGULAR[name]) + "\n", newline="")
    expected = plainly(tmp_path / "list", format, **options)
    assert not isinstance(expected, str)
    assert expected.n_hyps > 0
    alone()
    check_same(attempt(tmp_path / "list", format, **options), expected)


@pytest.mark.parametrize("format", LISTS)
def test_whatever_is_changed(tmp_path, plainly, format):
    """A byte more, less or another, in a list of two lines: the same list, or the same error."""
    rng = random.Random(7)
    whole = "\n".join([LISTS[format][0], LISTS[format][-1].strip()]) + "\n"
    for _ in range(120):
        at = rng.randrange(len(whole) - 1)
        piece = rng.choice(['"', "|", " ", "-", "=", "0", "9", ",", ".", "e", "[", "]", "{", "}", ":", "\t", "||", "1", "\\", ""])
        text = whole[:at] + piece + whole[at + rng.randrange(3) :]
        (tmp_path / "list").write_text(text, newline="")
        check_same(attempt(tmp_path / "list", format), plainly(tmp_path / "list", format))


CHANGED = {"moses": MOSES[1], "moses-enriched": ENRICHED[0], "marian": OF_MARIAN[0]}


@pytest.mark.parametrize("format", CHANGED)
def test_whole_lines_with_a_byte_changed(format):
    """Which of them kernels read: what they leave is read plainly, which would hide that they leave too much. Below a line of
    the file there is a sign for each of its bytes: + where the line is read still, after the byte has gone or is another.
    """
    line = CHANGED[format].encode()
    reader = {
        "moses": lambda: nbest.FastReader.for_list(line, ReadOptions()),
        "moses-enriched": lambda: enriched.FastReader.for_list(line, ReadOptions(source=["das alte haus"])),
        "marian": lambda: marian._fast_for(line.decode(), ReadOptions()),
    }[format]()
    found = {"": line.decode()}
    for piece in ("", *"| "):
        changed = (line[:k] + piece.encode() + line[k + 1 :] + b"\n" for k in range(len(line)))
        parts = [(text, reader.parse_block(Block(bytearray(text), len(text)), Room())) for text in changed]
        found[piece or "less"] = "".join("+" if part.end == len(text) else "." for text, part in parts)
    check_golden(found, Path(__file__).parent / "whole_lists" / f"{format}.bytes.json")


MARIAN = "0 ||| ▁a b ▁c ||| WordScores= -0.5 -1 -2.25 -0.125 ||| F0= -3.875 L= 2 1 ||| -1.25"


@pytest.mark.parametrize(("format", "line"), [*((f, lines[0]) for f, lines in LISTS.items()), ("marian", MARIAN)])
def test_lines_that_end_too_soon(tmp_path, plainly, format, line):
    """Cut at every place, alone and with bars behind it: the same list, or the same error."""
    before = line + "\n"
    for end in range(len(line)):
        for behind in ("", "|", "||", "|||") if line[end - 1] == " " else ("",):
            (tmp_path / "list").write_text(before + line[:end] + behind + "\n")
            check_same(attempt(tmp_path / "list", format), plainly(tmp_path / "list", format))


def graphs(path: Path) -> list[object] | str:
    """All that graphs hold, as text; -0, which kernels read as 0, is 0."""
    try:
        found = search_graph.read_graphs(path, ReadOptions())
        return [(line, sent, re.sub(r"-0\. ", " 0. ", str(vars(graph)))) for line, sent, graph in found]
    except FormatError as error:
        return str(error)


def test_regular_graphs(tmp_path, monkeypatch):
    """Two sentences, one of them in two chunks."""
    path = tmp_path / "graph"
    path.write_text(OSGX.replace(" d_a=1", "") + OSGX.replace(" d_a=1", "").replace("4 hyp", "12 hyp").replace("7 hyp", "13 hyp"))
    with monkeypatch.context() as patch:
        patch.setattr(search_graph, "fast_graph", lambda *_: None)
        expected = graphs(path)
    monkeypatch.setattr(search_graph, "read_plainly", lambda *_: pytest.fail("a graph was left to the plain reader"))
    found = graphs(path)
    assert len(found) == 4
    assert found == expected


def test_whatever_is_changed_in_a_graph(tmp_path, monkeypatch):
    rng = random.Random(8)
    path, whole = tmp_path / "graph", OSGX.replace(" d_a=1", "")
    for _ in range(100):
        at = rng.randrange(len(whole) - 1)
        piece = rng.choice(['"', "|", " ", "-", "=", "0", "9", ",", ".", "(", ")", "\r", "1", "é", ""])
        path.write_text(whole[:at] + piece + whole[at + rng.randrange(3) :], newline="")
        with monkeypatch.context() as patch:
            patch.setattr(search_graph, "fast_graph", lambda *_: None)
            expected = graphs(path)
        assert graphs(path) == expected


# -- parts of lines --------------------------------------------------------------------------------------------------------


def raw(text: str) -> np.ndarray:
    return np.frombuffer(text.encode() or b" ", np.uint8)


NUMBERS = ["0", "-0", "+0", "7", "-12", "+3.5", ".5", "5.", "-.25", "1e5", "1E+5", "1e-5", "12.5e-3",
           "922337203685477579", "0.1", "123456789.123456789", "1e22", "1e-22", "1e-23",
           "9007199254740992e22", "1e100", "1e-100", "8.41e21", "2.2250738585072014e-80", "179769313486231570e50"]  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_that_kernels_know(text):
    """Python's own float, to the last bit, also with something behind it; -0 is 0."""
    for behind in ("", " ", "|", ",x", "x"):
        found, end = read_number(raw(f"<{text}{behind}"), 1, 1 + len(text) + len(behind))
        assert (found, end) == (float(text) + 0.0, 1 + len(text))


@pytest.mark.parametrize("text", ["", "-", "+", ".", "-.", "e5", "1e", "1e+", "1e-x", "x", "nan", "inf", "92233720368547758070",
                                  "1e101", "9007199254740993", "9223372036854775807", "1e23", "1e-101", "1e400", "1e-99999999999"])  # fmt: skip
def test_numbers_that_are_left_to_python(text):
    assert read_number(raw(text), 0, len(text))[1] == -1


@pytest.mark.parametrize(("text", "value", "end"), [("0", 0, 1), ("12x", 12, 2), ("123456789", 123456789, 9), ("1234567890", 123456789, 9),
                                                    ("x", 0, -1), ("/", 0, -1), (":", 0, -1), ("", 0, -1)])  # fmt: skip
def test_digits(text, value, end):
    assert read_digits(raw(text), 0, len(text)) == (value, end)
    shifted = read_digits(raw("99" + text), 2, 2 + len(text))
    assert shifted == (value, end + 2 if end >= 0 else -1)


def test_blanks_and_words():
    assert [skip_blanks(raw("  a "), i, 4) for i in range(5)] == [2, 2, 2, 4, 4]
    word = raw("total=0123456789")
    for n in range(17):
        for text in ("total=0123456789", "total=012345678X", "Xotal=0123456789"):
            found = starts_with(raw("ab" + text), 2, 18, word, 0, n)
            assert bool(found) == (text[:n] == "total=0123456789"[:n])
            assert not starts_with(raw("ab" + text), 2, 1 + n, word, 0, n)


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ("4 hyp=0 stack=0 forward=1 fscore=-2.000", True),
        ("4 hyp=0 stack=0 forward=-1 fscore=-2.000 ", True),
        ("4 hyp=0 stack=0 forward=1 fscore=", False),
        ("4 hyp=0 stack=0 forward=1 fscore=1 x", False),
        ("4 hyp=0 stack= forward=1 fscore=1", False),
        ("4  hyp=0 stack=0 forward=1 fscore=1", False),
        ("x hyp=0 stack=0 forward=1 fscore=1", False),
        ("4x hyp=0 stack=0 forward=1 fscore=1", False),
        ("4", False),
        ("", False),
        (OSGX.splitlines()[2], True),
        (OSGX.splitlines()[2] + " \r", True),
        (OSGX.splitlines()[2].replace('|that"', 'that"'), False),
        (OSGX.splitlines()[2].replace('|that"', '|th|at"'), False),
        (OSGX.splitlines()[2].replace('that"', "that"), False),
        (OSGX.splitlines()[2].replace("0-0", "0"), False),
        (OSGX.splitlines()[2].replace("0-0", "1-0"), False),
        (OSGX.splitlines()[2].replace(",2.500", ""), False),
        (OSGX.splitlines()[2].replace("2.500)", "2.500,1)"), False),
        (OSGX.splitlines()[2].replace("-1.500 rec", "x rec"), False),
        (OSGX.splitlines()[2].replace("score=-7.0", "score=é"), False),
        (OSGX.splitlines()[2].replace("das", "dä"), True),
    ],
)
def test_which_lines_of_graphs_are_read(line, is_read):
    _, lines = search_graph_fast.scanned((OSGX.splitlines()[1].replace(" d_a=1", "") + "\n" + line + "\n").encode())
    assert lines.is_read.tolist() == [True, is_read]
    first, own = (int(found[0]) if (found := re.match(r"\d+(?= )", text)) else -1 for text in (OSGX.splitlines()[1], line))
    assert lines.sent.tolist() == [first, own if own >= 0 else first]  # a line without a number is of the sentence before
    if is_read and "back" in line:
        row = {
            name: getattr(lines, name)[1].tolist()
            for name in ("hyp", "stack", "back", "recombined", "transition", "start", "end")
        }
        assert row == {"hyp": 2, "stack": 1, "back": 0, "recombined": 1, "transition": -1.5, "start": 0, "end": 1}
        assert lines.core[1].tolist() == [-1.5, 2.5]
