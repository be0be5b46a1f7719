"""Phrase tables and reordering tables in Moses' text format: what the one reader finds, keeps and refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from boostfeat.core.errors import FormatError
from boostfeat.formats.moses import table_files
from boostfeat.formats.moses.table_files import (
    ALIGNMENT,
    FLOOR,
    PHRASES,
    REORDERING,
    SOURCE,
    TARGET,
    Entries,
    TableKind,
    count_scores,
    log_scores,
    read_entries,
    spliced,
)

TABLE = """\
das ||| the ||| 0.5 0 ||| 0-0 ||| 9 8 3 ||| |||

das haus|||the  house ||| 1e-60 .25

ä\u00a0ö ||| ||| 1 0.1234567890123456789 ||| ||| 9 8
"""


def read(path: Path, text: str | bytes, kind: TableKind = PHRASES) -> list[Entries]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read_entries(path, kind))


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_fields_of_lines(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank lines are skipped and yet counted; fields may be missing, or have no blanks around them."""
    monkeypatch.setattr(table_files, "CHUNK", chunk)
    parts = read(tmp_path / "pt", TABLE)
    assert count_scores(tmp_path / "pt") == 2
    assert [n for part in parts for n in part.lines.number + part.lines.before] == [1, 3, 5]
    assert [s for part in parts for s in part.texts(SOURCE).to_pylist()] == ["das", "das haus", "ä\u00a0ö"]
    assert [t for part in parts for t in part.texts(TARGET).to_pylist()] == ["the", "the  house", ""]
    assert [a for part in parts for a in part.texts(ALIGNMENT).to_pylist()] == ["0-0", "", ""]
    assert [n for part in parts for n in np.diff(part.words(TARGET)[0])] == [1, 2, 0]
    scores = np.concatenate([part.scores for part in parts])
    assert scores.tolist() == [[0.5, 0.0], [1e-60, 0.25], [1.0, 0.1234567890123456789]]
    counts = np.concatenate([part.joint_counts(needed=False) for part in parts])
    np.testing.assert_array_equal(counts, [3, np.nan, np.nan])


def test_numbers_are_exact(tmp_path: Path) -> None:
    """1e23 lies midway between two floats; Arrow does not know +1."""
    scores = ["1 2", "1e23 0.5", "0.12345678901234567890123 1", "3 4", "5 1e23", "+1 2"]
    (entries,) = read(tmp_path / "pt", "".join(f"a ||| x ||| {text}\n" for text in scores))
    assert entries.scores.tolist() == [[float(word) for word in text.split()] for text in scores]


@pytest.mark.parametrize(("blank", "end"), [("\t", "\n"), ("  ", "\r\n"), (" ", "\r\n"), (" \t", "\n")])
def test_blanks_and_ends_of_lines(tmp_path: Path, blank: str, end: str) -> None:
    """Tabs, several blanks and the ends that Windows writes change nothing."""
    text = TABLE.replace("the  house", "the house")
    (plain,), (other,) = read(tmp_path / "a", text), read(tmp_path / "b", text.replace(" ", blank).replace("\n", end))
    assert [other.place(row)[-1] for row in range(3)] == [plain.place(row)[-1] for row in range(3)]
    np.testing.assert_array_equal(other.scores, plain.scores)
    for field in (SOURCE, TARGET, ALIGNMENT):
        assert other.texts(field).to_pylist() == [text.replace(" ", blank) for text in plain.texts(field).to_pylist()]
        assert other.words(field)[1].to_pylist() == plain.words(field)[1].to_pylist()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a ||| x ||| 1", "a ||| x ||| 1 +"),
        ("a ||| x ||| 1 ||| 0-0", "a ||| x ||| 1 + ||| 0-0"),
        ("a ||| x ||| 1  ||| 0-0", "a ||| x ||| 1 + ||| 0-0"),
        ("a ||| x ||| 1 ||| ||| 9", "a ||| x ||| 1 + ||| ||| 9"),
        ("a|||x|||1|||0-0|||9", "a|||x|||1 + |||0-0|||9"),
    ],
)
def test_texts_go_behind_the_scores(tmp_path: Path, line: str, expected: str) -> None:
    """By hand: what is there stays as it is."""
    (entries,) = read(tmp_path / "pt", f"{line}\n{line}\n")
    added = pa.array(["x", "+", ""], pa.large_string())[1:]
    assert spliced(entries, added).decode().split("\n")[0] == expected
    long = pa.array(["+", "x" * 99], pa.large_string())
    assert spliced(entries, long).decode() == f"{expected}\n{expected.replace('+', 'x' * 99)}\n"


def test_logarithms_in_both_precisions() -> None:
    """Moses' are in single precision: what is too small for it falls on the floor; in double precision it does not."""
    scores = np.array([1.0, 0.0, 1e-60, 0.1])
    assert log_scores(scores).tolist() == [0.0, FLOOR, FLOOR, np.log(0.1)]
    assert log_scores(np.array([1e-40])).tolist() == [np.log(1e-40)]
    assert log_scores(scores, np.float32).tolist() == [0.0, FLOOR, FLOOR, float(np.log(np.float32(0.1)))]


LAYOUT = r"'source \|\|\| target \|\|\| scores \[\|\|\| alignment \[\|\|\| counts\]\]'"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", PHRASES, "pt: expected a phrase table, found an empty file"),
        ("\n\n", PHRASES, "pt: expected a phrase table, found an empty file"),
        ("a ||| x\n", PHRASES, rf"pt:1: expected {LAYOUT}, found 'a \|\|\| x'"),
        ("a ||| x ||| 1\n\nb\n", PHRASES, rf"pt:3: expected {LAYOUT}, found 'b'"),
        ("a ||| x ||| 1\n ||| x ||| 1\n", PHRASES, rf"pt:2: expected {LAYOUT}, found ' \|\|\| x"),
        ("a ||| x |||\n", PHRASES, f"pt:1: expected {LAYOUT}"),
        ("a ||| x ||| 1 1\nb ||| y ||| 1\n", PHRASES, "pt:2: expected 2 scores as in the first line, found '1'"),
        ("a ||| x ||| 1\nb ||| y ||| 1 1\n", PHRASES, "pt:2: expected 1 scores as in the first line, found '1 1'"),
        ("a ||| x ||| 1 -1\n", PHRASES, "pt:1: expected probabilities or counts, none negative, .*, found '1 -1'"),
        ("a ||| x ||| 1 one\n", PHRASES, "pt:1: expected probabilities or counts, none negative, .*, found '1 one'"),
        ("a ||| x ||| 1 nan\n", PHRASES, "pt:1: expected probabilities or counts, none negative, .*, found '1 nan'"),
        ("a ||| x ||| 1 1e400\n", PHRASES, "pt:1: expected probabilities or counts, none negative"),
        ("a ||| x ||| 1e39\n", PHRASES, "pt:1: expected probabilities .* that fit Moses' single precision, found '1e39'"),
        ("a ||| x ||| 1_0\n", PHRASES, "pt:1: expected probabilities or counts, none negative, .*, found '1_0'"),
        ("a ||| x ||| １\n", PHRASES, "pt:1: expected probabilities or counts, none negative, .*, found '１'"),
        ("a ||| x ||| 1\nb ||| \0 ||| 1\n", PHRASES, "pt:2: expected UTF-8 text, found byte 0x00 at column 1"),
        (b"a ||| x ||| 1\nb ||| \xff ||| 1\n", PHRASES, "pt:2: expected UTF-8 text, found byte 0xff"),
        ("a ||| x\n", REORDERING, r"pt:1: expected 'source \|\|\| target \|\|\| six probabilities', found 'a \|\|\| x'"),
        ("a ||| x ||| 1 1 1 1 1 1 ||| y\n", REORDERING, r"pt:1: expected 'source \|\|\| target \|\|\| six probabilities'"),
        ("a ||| x ||| 1 1 1\n", REORDERING, r"pt:1: expected 6 probabilities \(msd-bidirectional-fe\), found '1 1 1'"),
    ],
)
def test_bad_tables(text: str | bytes, kind: TableKind, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        all([(entries.scores, entries.texts(TARGET)) for entries in read(tmp_path / "pt", text, kind)])


@pytest.mark.parametrize("counts", ["", "1 2", "1 2 x", "1 2 -3", "1 2 nan"])
def test_counts_that_are_needed(counts: str, tmp_path: Path) -> None:
    (entries,) = read(tmp_path / "pt", f"a ||| x ||| 1 ||| 0-0 ||| {counts}\n")
    with pytest.raises(FormatError, match="pt:1: expected "):
        entries.joint_counts()


def test_some_entries(tmp_path: Path) -> None:
    (entries,) = read(tmp_path / "pt", "a b ||| x ||| 0.5 1 ||| 0-0 1-0 ||| 3 2 1 ||| |||\na ||| y ||| 1e-07 1\n")
    assert entries.take(np.array([1])).texts(TARGET).to_pylist() == ["y"]
    assert entries.take(np.array([1])).place(0).endswith("pt:2")
