"""The fast reader of Moses search graphs is the plain one, only faster: the same graphs, the same errors."""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_graphs import OSGX, write

from boostfeat.core import files
from boostfeat.core.errors import InputError
from boostfeat.lists.build import ReadOptions
from boostfeat.search.graphs import moses_search_graph as moses_osgx
from boostfeat.search.graphs import moses_search_graph_fast as moses_osgx_fast
from boostfeat.search.graphs.graph import Graph

pytestmark = pytest.mark.quick


def content(graph: Graph) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.tolist()
        if hasattr(value, "_fields"):
            return [plain(v) for v in value]
        return [plain(getattr(value, f.name)) for f in fields(value)] if hasattr(value, "__dataclass_fields__") else value

    return {f.name: plain(getattr(graph, f.name)) for f in fields(graph)}


def outcome(path: Path, options: ReadOptions | None = None) -> tuple[list[Any], str]:
    """Everything read, and the error it ended with, if any."""
    found: list[Any] = []
    try:
        for line, sent, graph in moses_osgx.read_graphs(path, options or ReadOptions()):
            found.append((line, sent, content(graph)))
    except InputError as error:
        return found, str(error)
    return found, ""


def both(path: Path) -> tuple[list[Any], str]:
    """The outcome, which must be that of the plain reader alone."""
    fast = outcome(path)
    with patch.object(moses_osgx, "fast_graph", lambda *_: None):
        assert outcome(path) == fast
    return fast


def test_lines_are_understood() -> None:
    regular = OSGX.replace(" d_a=1", "").encode()
    _, lines = moses_osgx_fast.scanned(regular)
    assert lines.is_read.all()
    for end in (b"\r\n", b" \n", b" \r\n"):
        assert moses_osgx_fast.scanned(regular.replace(b"\n", end))[1].is_read.all()
    assert not moses_osgx_fast.scanned(OSGX.encode())[1].is_read[1]  # a sparse feature is for the plain reader


@pytest.mark.parametrize(
    ("recombined", "expected"),
    [
        ([-1, -1, -1, -1], [0, 1, 2, 3]),
        ([-1, 9, 5, -1], [0, 1, 1, 1]),  # 5 into 9 and 7 into 5: a chain
        ([-1, 5, 5, 3], None),  # into itself
        ([-1, -1, 8, -1], None),  # into none
    ],
)
def test_recombination(recombined: list[int], expected: list[int] | None) -> None:
    found = moses_osgx_fast.nodes_of(np.array([3, 5, 7, 9]), np.array(recombined))
    assert (found[0].tolist() if found else None) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("4 hyp", "4 hyp"),
        (" d_a=1", ""),
        ("\n", "\r\n"),
        ("\n", "\n\n"),
        ("\n", "   \n"),
        ("das haus|", "das  haus | "),
        ("haus|house", "haus|house \u2003 \u00e4"),
        ("(-1.000,2.000)", "(-1e-3,+2)"),
        ("(-1.000,2.000)", "(-1.0000000000000000001,2.)"),  # more digits than are exact at once
        ("4 hyp=0", "\ufeff4 hyp=0"),
        ("4 hyp", "1234567890123 hyp"),
        ("7 hyp=0", "007 hyp=0"),
        ("hyp=3 ", "hyp=12345678901 "),
        ('out="haus|house"', 'out="haus|a " house"'),
        ('out="haus|house"', 'out="|"'),
    ],
)
def test_variants(tmp_path: Path, old: str, new: str) -> None:
    for text in (OSGX, OSGX.replace(" d_a=1", "")):
        found, error = both(write(tmp_path, "g.osgx", text.replace(old, new)))
        assert error == "" or "12345678901" in new
        assert len(found) == 2 or error


def test_a_return_inside_a_number_that_is_not_kept(tmp_path: Path) -> None:
    line = OSGX.replace(" d_a=1", "")
    assert "expected an arc" in both(write(tmp_path, "g.osgx", line.replace(" fscore=-", " fscore=-\r")))[1]


def test_nul_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    line = OSGX.replace(" d_a=1", "")
    for place in (0, line.index("fscore=") + 8, line.index("house"), len(line) - 2):
        with_nul = both(write(tmp_path, "g.osgx", line[:place] + "\0" + line[place:]))
        assert with_nul[1].startswith(f"{tmp_path / 'g.osgx'}:{line[:place].count(chr(10)) + 1}: "), with_nul


@settings(max_examples=200, deadline=None)
@given(data=st.data(), sparse=st.booleans(), size=st.sampled_from([40, 300, 1 << 22]))
def test_the_same_graphs_and_errors(
    data: st.DataObject, sparse: bool, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cuts, deletions, repeats, new bytes, in chunks of any size: what the plain reader makes of them."""
    raw = bytearray((OSGX if sparse else OSGX.replace(" d_a=1", "")).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        a = data.draw(st.integers(0, len(raw)))
        b = min(len(raw), a + data.draw(st.integers(0, 9)))
        tokens = [
            b"9",
            b"-",
            b" ",
            b"\n",
            b"|",
            b"=",
            b'"',
            b"(",
            b",",
            b"1e9",
            b"nan",
            b"\xff",
            b"\xc3\xa4",
            b"4 hyp=0",
            b"\r",
            b"\0",
        ]
        raw[a:b] = data.draw(st.one_of(st.just(b""), st.just(bytes(raw[a:b] * 2)), st.sampled_from(tokens)))
    path = tmp_path_factory.getbasetemp() / "changed.osgx"
    path.write_bytes(bytes(raw))
    whole = both(path)
    with patch.object(moses_osgx_fast, "read_chunks", lambda p: files.read_chunks(p, size)):
        assert outcome(path) == whole


def test_real_graphs(real: Path) -> None:
    path = real / "fi-en" / "sg.test300.osgx.xz"
    for block in islice(moses_osgx_fast.blocks(path), 15):
        assert block.own_lines().is_read.all()
        names = [f"core_{i}" for i in range(15)]
        graph = moses_osgx_fast.fast_graph(block, names, str(path))
        ((line, sent, plain),) = moses_osgx.read_plainly(block, str(path), ReadOptions())
        assert graph is not None
        assert content(graph) == content(plain)
        assert (line, sent) == (block.first, block.own_lines().sent[0])
