"""Lines of weights: several values of a name, comments, and names that a line cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from boostfeat.core.errors import FormatError, InputError
from boostfeat.formats.moses.ini import read_weights, weight_lines, write_lines


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_weight_files(tmp_path: Path) -> None:
    dense = write(tmp_path, "dense", "# tuned\nLM0= 0.5\nTM0= 1\nTM0= 2\n\nLR= 1 2\n")
    sparse = write(tmp_path, "sparse", "WT_=~= -1e-3\n")
    weights = read_weights([dense, sparse])
    assert weights == {"LM0": 0.5, "TM0_1": 1.0, "TM0_2": 2.0, "LR_1": 1.0, "LR_2": 2.0, "WT_=~": -1e-3}
    with pytest.raises(FormatError, match="each name once"):
        read_weights([dense, dense])


@pytest.mark.parametrize(
    "text", ["LM0=\n", "a b\n", "a 1 2\n", "a 1\na 2\n", "LM0= nan\n", "a= 1\na= 2\na_1 3\n", "= 1\n", "a\n", "a 1_0\n"]
)
def test_bad_lines(text: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"bad:\d: expected"):
        read_weights([write(tmp_path, "bad", text)])


def test_lines_are_written_in_both_styles(tmp_path: Path) -> None:
    weights = {"LM0": 1.0, "TM0_x": -0.1}
    assert weight_lines(weights, "w") == ["LM0 1", "TM0_x -0.1"]
    assert weight_lines(weights, "w", equals="=") == ["LM0= 1", "TM0_x= -0.1"]
    write_lines(weight_lines(weights, "w"), tmp_path / "w.gz")
    assert read_weights([tmp_path / "w.gz"]) == weights


@pytest.mark.parametrize("name", ["a b", "#x", "", "a\tb"])
def test_names_that_a_line_cannot_hold(name: str) -> None:
    with pytest.raises(InputError, match=r"w\.txt: expected feature names without spaces"):
        weight_lines({name: 1.0}, "w.txt")
