"""What joins, quality columns and files of numbers refuse, each with its sentence; and a few things by hand."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from boostfeat import formats
from boostfeat.core.errors import InputError
from boostfeat.core.printed_numbers import EXACT, Precision
from boostfeat.formats.importing import read_other
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.joining import join_column
from boostfeat.lists.nbest import NBest, Qualities, strings
from boostfeat.lists.precision import KEY, precision_of, with_derived
from boostfeat.lists.quality import choosing_metric, default_metric, join_qualities, join_quality
from boostfeat.lists.store import write_store
from boostfeat.lists.tables import Numbers, read_numbers, read_rows

pytestmark = pytest.mark.quick


@pytest.fixture
def nbest(tmp_path: Path) -> NBest:
    (tmp_path / "list").write_text("0 ||| a ||| f= 0.25 ||| -2\n0 ||| b ||| f= 0.5 ||| -1\n")
    return formats.read(tmp_path / "list", ReadOptions(), format="moses")


@pytest.mark.parametrize(
    ("text", "column", "line"),
    [
        (" \n", "", "numbers: expected numbers, found an empty file; check what wrote it"),
        ("1\0", "", "numbers: expected UTF-8 text, found byte 0x00 at column 2; looks like a binary file"),
        ("1\n1_0\n", "", "numbers: row 2: expected a finite number, found '1_0'"),
        ("a\ta\n1\t2\n", ":a", "numbers:1: expected distinct names of columns, found "),
        ("1 2\n3 4\n5 x\n", "", "numbers: row 3: expected a finite number for denominator, found 'x'"),
        ("[1,", "", "numbers:1: expected JSON, found"),
        ('[1]\n{"a": 1}\nx', "", "numbers:3: expected JSON, found"),
        ('{"a": [1], "b": [2]}', "", "numbers: expected one column of numbers, found 0 among "),
        ('{"a": [{"x": 1}], "b": [{"x": 1}]}', "", "numbers: expected one list of hypotheses, found 2: "),
        ('[{"a": 1, "b": 2}]', "", "numbers: expected one column of numbers, found 2 among "),
        ('[{"a": 1}]', ":b", "numbers: expected a column 'b', found "),
        ('[{"a": 1}]', ":a,a,a", "numbers: expected a column, or a numerator and a denominator, found 3 names; name one or two"),
        ('[{"a": 1, "b": -1}]', ":a,b", "numbers: row 1: expected a denominator of 0 or more, found -1.0; repair the file"),
        ('[{"a": 1}, {"a": true}]', ":a", "numbers: row 2: expected a finite number for a, found 'true'; repair the file"),
        ('[{"a": 1}, {"a": 1' + "0" * 400 + "}]", ":a", "numbers:1: expected JSON, found a whole number of 401 digits where "),
        ('[{"a": 1}, {"b": 1}]', ":a", "numbers: row 2: expected a finite number for a, found 'null'; repair the file"),
    ],
)
def test_files_of_numbers(tmp_path: Path, text: str, column: str, line: str) -> None:
    (tmp_path / "numbers").write_text(text)
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/{line}")):
        read_numbers(f"{tmp_path / 'numbers'}{column}")


def test_numbers_of_objects(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_text('{"meta": 1, "rows": [{"a": {"b": 1}, "mt": "x"}, {"a": {"b": "2.5"}, "mt": "y"}]}')
    found = read_numbers(f"{tmp_path / 'numbers'}:a.b")
    assert found.values.tolist() == [1.0, 2.5]
    assert found.texts is not None
    assert found.texts.to_pylist() == ["x", "y"]
    (tmp_path / "numbers").write_text('{"a": 3}')  # one hypothesis
    assert read_numbers(f"{tmp_path / 'numbers'}:a").values.tolist() == [3.0]
    (tmp_path / "numbers").write_bytes(b'["\xff"]')
    with pytest.raises(InputError, match=r"numbers: expected UTF-8 text, found byte 0xff .* iconv"):
        read_numbers(str(tmp_path / "numbers"))


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_a_table_is_the_same_in_every_file(tmp_path: Path, name: str) -> None:
    table = pa.table({"q": [1.5, -2.0], "mt": ['say "x", y', "z"], "more": pa.array([{"n": 3}, {"n": 4}])})
    rows, path = table.to_pylist(), tmp_path / name
    if name.endswith("parquet"):
        pa.parquet.write_table(table, path)
    elif name.endswith("feather"):
        pa.feather.write_feather(table, str(path))
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name.endswith("tsv"):
        path.write_text("q\tmt\tmore.n\n" + "".join(f"{row['q']}\t{row['mt']}\t{row['more']['n']}\n" for row in rows))
    else:
        lines = b'q,mt,more.n\r\n1.5,"say ""x"", y",3\r\n-2.0,z,4\r\n'
        path.write_bytes(gzip.compress(lines) if name.endswith("gz") else lines)
    found = read_numbers(f"{path}:q,more.n")
    assert (found.values.tolist(), found.denominators.tolist(), found.texts.to_pylist()) == (
        [1.5, -2.0],
        [3.0, 4.0],
        ['say "x", y', "z"],
    )


def test_what_is_wrong_with_json_is_told_of_the_file_or_of_its_line(tmp_path: Path) -> None:
    """A file that is no JSON from its first line on may be one value over several lines; the places are the parser's."""
    for text, line, found in (
        ("[1,\n2,\nx]", 1, "Expecting value: line 3 column 1 (char 7)"),
        ('{"a": 1}\n\n{"a"\n', 3, "Expecting ':' delimiter: line 1 column 5 (char 4)"),
    ):
        (tmp_path / "numbers").write_text(text)
        with pytest.raises(InputError) as error:
            read_numbers(str(tmp_path / "numbers"))
        assert str(error.value) == f"{tmp_path}/numbers:{line}: expected JSON, found {found}; repair the file"


def test_objects_in_objects(tmp_path: Path) -> None:
    """Up to nine, one in the other; columns that a row lacks are empty there."""
    for depth, fine in ((1, True), (9, True), (10, False)):
        names, value = ["a"] * depth, "7"
        for name in names:
            value = f'{{"{name}": {value}}}'
        (tmp_path / "numbers").write_text(f"[{value}]")
        spec = f"{tmp_path}/numbers:{'.'.join(names)}"
        if fine:
            assert read_numbers(spec).values.tolist() == [7.0]
        else:
            with pytest.raises(InputError, match="expected a column"):
                read_numbers(spec)
    (tmp_path / "numbers").write_text('[{"b": 1}, {"c": 5, "b": 2, "mt": 3}, {"b": 3}]')
    assert read_numbers(str(tmp_path / "numbers")).values.tolist() == [1.0, 2.0, 3.0]  # the only column of numbers throughout
    assert read_numbers(str(tmp_path / "numbers")).texts is None
    with pytest.raises(InputError, match=r"row 1: expected a finite number for c, found 'null'"):
        read_numbers(f"{tmp_path}/numbers:c")


def test_rows_of_several_numbers(tmp_path: Path) -> None:
    """The place of what is no number is that of its line."""
    (tmp_path / "rows").write_text("1 2\n\n-3.5\n4 5 6\n7")
    ptr, values = read_rows(str(tmp_path / "rows"))
    assert (ptr.tolist(), values.tolist()) == ([0, 2, 2, 3, 6, 7], [1.0, 2.0, -3.5, 4.0, 5.0, 6.0, 7.0])
    (tmp_path / "rows").write_text("")
    assert [column.tolist() for column in read_rows(str(tmp_path / "rows"))] == [[0], []]
    for text, line, found in (("1 2\n\n3 x 4\n5 y\n", 3, "x"), ("1 2_0\n", 1, "2_0"), ("1\n2\n3 4 inf\n", 3, "inf")):
        (tmp_path / "rows").write_text(text)
        with pytest.raises(InputError) as error:
            read_rows(str(tmp_path / "rows"))
        assert str(error.value) == f"{tmp_path}/rows:{line}: expected a finite number, found '{found}'; repair the file"


@pytest.mark.parametrize(
    ("text", "line", "found"), [("1 2\n3\n4 5\n", 2, "3"), ("1 2 3\n1 2 3\n", 1, "1 2 3"), ("1\n2\n3 4\n", 3, "3 4")]
)
def test_lines_of_other_lengths(tmp_path: Path, text: str, line: int, found: str) -> None:
    (tmp_path / "numbers").write_text(text)
    with pytest.raises(InputError) as error:
        read_numbers(str(tmp_path / "numbers"))
    assert str(error.value) == (
        f"{tmp_path}/numbers:{line}: expected a number a line, or a numerator and a denominator on each, found '{found}'; "
        "repair the file, or name a column of a table with FILE:COLUMN"
    )


def test_tables_of_text(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_bytes(b"mt\tq\r\na b\t1\r\nc\t-2\r\n")
    found = read_numbers(f"{tmp_path}/numbers:q")
    assert (found.values.tolist(), found.texts.to_pylist() if found.texts is not None else None) == ([1.0, -2.0], ["a b", "c"])
    (tmp_path / "numbers").write_text("a\tb\n1\t2\n3\n4\n")
    with pytest.raises(InputError) as error:
        read_numbers(f"{tmp_path}/numbers:a")
    assert str(error.value) == f"{tmp_path}/numbers:3: expected 2 columns, as the header has, found 1; repair the file"


def test_joined_columns(nbest: NBest) -> None:
    two = np.array([1.0, 2.0])
    with pytest.raises(InputError, match="file: expected one number a hypothesis, found two; name a column with FILE:COLUMN"):
        join_column(nbest, "g", Numbers(two, two), "file")
    assert join_column(nbest, "g", Numbers(two), "file").global_column("g").tolist() == [1.0, 2.0]
    with pytest.raises(
        InputError, match=r"file: row 2: expected a numerator and a denominator of a finite ratio, found 1e.300 and 1e-300"
    ):
        join_quality(nbest, "q", Numbers(np.array([1.0, 1e300]), np.array([1.0, 1e-300])), "file")
    with pytest.raises(InputError, match=r"file: row 1: expected a numerator .* found -1e.300 and 1e-300; repair the file"):
        join_quality(nbest, "q", Numbers(np.array([-1e300, 1e300]), np.array([1e-300, 1e-300])), "file")
    joined = join_quality(nbest, "q", Numbers(np.array([1e300, 2.0]), np.array([0.0, 4.0])), "file", lower=True)
    assert (joined.quality.value.tolist(), joined.quality.weight.tolist()) == ([[1e300], [2.0]], [[0.0], [4.0]])
    assert (joined.quality.names, joined.quality.lower) == (("q",), (True,))
    assert join_quality(nbest, "q", Numbers(two), "file").quality.weight.tolist() == [[1.0], [1.0]]


def test_quality_columns(nbest: NBest, tmp_path: Path) -> None:
    (tmp_path / "q").write_text("0.5\n0.75\n")
    spec = f"q={tmp_path / 'q'}"
    with pytest.raises(InputError, match="--quality q: expected each name once, found it twice; choose another"):
        join_qualities(nbest, [spec, spec])
    with pytest.raises(InputError, match=r"--lower-is-better r: expected a quality column \(q\), found none of that name"):
        join_qualities(nbest, [spec], lower=["r"])
    with pytest.raises(InputError, match="expected a list with references or a quality column, found neither"):
        default_metric(nbest)
    joined = join_qualities(nbest, [spec], lower=["q"])
    assert (default_metric(joined), joined.quality.lower) == ("q", (True,))
    assert join_qualities(join_qualities(nbest, [spec]), [], lower=["q"]).quality.lower == (True,)
    assert choosing_metric(joined, "q").name == "q"
    with pytest.raises(InputError, match=r"^select: "):
        choosing_metric(nbest, "bleu")


def test_containers_that_contradict_themselves(nbest: NBest) -> None:
    with pytest.raises(ValueError, match=r"length of quality\.weight: expected 2, found 1"):
        replace(nbest, quality=Qualities(("q",), (False,), (1.0,), np.zeros((2, 1)), np.zeros((1, 1))))
    with pytest.raises(ValueError, match="expected each name among the dense or the sparse ones, found 'f' in both"):
        replace(nbest, sparse_names=strings(["f"]))


def test_another_list_may_be_a_store(nbest: NBest, tmp_path: Path) -> None:
    write_store(nbest, tmp_path / "list.nbest")
    for name in ("list", "list.nbest"):
        assert read_other(str(tmp_path / name), threads=1, warn=pytest.fail) == nbest


def test_features_that_were_derived_keep_their_precision(nbest: NBest) -> None:
    assert with_derived(nbest, {"g": EXACT}) == nbest.meta
    coarse = Precision(0.25, 0)
    meta = with_derived(nbest, {"g": coarse, "h": EXACT})
    assert "h" not in json.loads(meta[KEY])
    again = replace(nbest, meta=meta)
    assert precision_of(again, ["g", "h"]) == [coarse, EXACT]
    bare = replace(nbest, meta={})  # as of release 0.1: it is looked at
    assert json.loads(with_derived(bare, {"g": coarse})[KEY])["g"] == [0.25, 0]
