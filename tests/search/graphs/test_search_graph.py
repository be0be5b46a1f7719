"""Moses search graphs: lines that mean the same are read alike, and others are refused by their number."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_graphs import OSGX, write

from boostfeat.core.errors import InputError
from boostfeat.lists.build import ReadOptions
from boostfeat.search.graphs import moses_search_graph
from boostfeat.search.graphs.graph import Graph

pytestmark = pytest.mark.quick


def outcome(path: Path) -> tuple[list[Graph], str]:
    """Everything read, and the error it ended with, if any."""
    found: list[Graph] = []
    try:
        found.extend(graph for _, _, graph in moses_search_graph.read_graphs(path, ReadOptions()))
    except InputError as error:
        return found, str(error)
    return found, ""


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
        found, error = outcome(write(tmp_path, "g.osgx", text.replace(old, new)))
        assert error == "" or "12345678901" in new
        assert len(found) == 2 or error


def test_a_return_inside_a_number_that_is_not_kept(tmp_path: Path) -> None:
    assert "expected an arc" in outcome(write(tmp_path, "g.osgx", OSGX.replace(" fscore=-", " fscore=-\r")))[1]


def test_nul_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    for place in (0, OSGX.index("fscore=") + 8, OSGX.index("house"), len(OSGX) - 2):
        _, error = outcome(write(tmp_path, "g.osgx", OSGX[:place] + "\0" + OSGX[place:]))
        assert error.startswith(f"{tmp_path / 'g.osgx'}:{OSGX[:place].count(chr(10)) + 1}: "), error
