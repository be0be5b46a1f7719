"""Lists from frames, records and files of tables, and back."""

from __future__ import annotations

import bz2
import gzip
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zstandard

from boostfeat import InputError, NBest, import_lists, read_store

ROWS = [
    {"prompt": "wer ?", "answer": 'he "is"\nhere', "lp": -1.5, "length": 3, "reward": 0.25, "by": "a", "refs": ["he is"]},
    {"prompt": "was, was ?", "answer": "no", "lp": -2.0, "length": 1, "reward": -1.0, "by": "b", "refs": ["yes", "no"]},
    {"prompt": "wer ?", "answer": "", "lp": 0.5, "length": 0, "reward": 0.0, "by": "c", "refs": ["he is"]},
]
NAMED: dict[str, Any] = {"group": "prompt", "text": "answer", "features": ["lp", "length"], "quality": "reward"}
FLAGS = ["--group", "prompt", "--text", "answer", "--features", "lp,length", "--quality", "reward"]


def numbers_of_numpy(rows: list[dict[str, Any]]) -> Any:
    return (row | {"lp": np.float32(row["lp"]), "length": np.int64(row["length"])} for row in rows)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, iter, numbers_of_numpy])
def test_frames_and_records(frame: Callable[[Any], Any]) -> None:
    """Rows of a group are a list wherever they stand; the other columns are told."""
    make = NBest.from_records if frame in (iter, numbers_of_numpy) else NBest.from_frame
    with pytest.warns(UserWarning, match="columns that are not read: by$"):
        nbest = make(frame(ROWS), **NAMED, source="prompt", refs="refs")
    assert nbest.text.to_pylist() == ['he "is" here', "", "no"]
    assert nbest.hyp_ptr.tolist() == [0, 2, 3]
    assert nbest.source.to_pylist() == ["wer ?", "was, was ?"]
    assert nbest.refs.to_pylist() == ["he is", "yes", "no"]
    assert nbest.global_names == ("Words", "lp", "length")
    assert nbest.global_features.tolist() == [[3, -1.5, 3], [0, 0.5, 0], [1, -2, 1]]
    assert nbest.quality.names == ("reward",)
    assert nbest.quality.value[:, 0].tolist() == [0.25, 0, -1]
    assert nbest.has_stats


def write_csv(path: Path, separator: str) -> None:
    pd.DataFrame(ROWS).drop(columns="refs").to_csv(path, sep=separator, index=False)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.parquet": lambda path: pd.DataFrame(ROWS).to_parquet(path),
    "a.feather": lambda path: pd.DataFrame(ROWS).to_feather(path),
    "a.csv": lambda path: write_csv(path, ","),
    "a.txt.gz": lambda path: write_csv(path, ","),  # told by its header
    "a.tsv": lambda path: write_csv(path, "\t"),
    "a.jsonl": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in ROWS)),
    "a.jsonl.zst": lambda path: path.write_bytes(zstandard.compress("".join(json.dumps(r) + "\n" for r in ROWS).encode())),
    "a.json.bz2": lambda path: path.write_bytes(bz2.compress(json.dumps(ROWS).encode())),
    "bom.jsonl.gz": lambda path: path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(ROWS).encode())),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_are_read_as_frames_are(name: str, tmp_path: Path, boostfeat: Callable[..., tuple[int, str, str]]) -> None:
    WRITERS[name](tmp_path / name)
    code, _, said = boostfeat("import", tmp_path / name, *FLAGS, "-o", tmp_path / "x.nbest")
    assert code == 0
    assert "columns that are not read: by" in said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_store(tmp_path / "x.nbest") == NBest.from_records(ROWS, **NAMED) == import_lists(tmp_path / name, **NAMED)


def test_a_table_without_its_columns_is_told_what_to_name(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ",")
    with pytest.raises(InputError, match=r"found 'prompt,answer.*; a table needs --group COLUMN and --text COLUMN; name them$"):
        import_lists(tmp_path / "a.csv")
    (tmp_path / "list").write_text("0 ||| a ||| x= 1 ||| 1\n")
    for frame in (pl.LazyFrame(ROWS), str(tmp_path / "a.csv")):
        with pytest.raises(
            InputError, match=r"frame: expected one of pandas or polars, .* found (LazyFrame|str); collect\(\) a lazy frame"
        ):
            NBest.from_frame(frame, **NAMED)
    with pytest.raises(InputError, match="--quality reward: expected NAME=FILE, found no name or no file"):
        import_lists(tmp_path / "list", quality="reward")


def test_columns_or_files_of_sources_and_references(tmp_path: Path, boostfeat: Callable[..., tuple[int, str, str]]) -> None:
    """A folder is the parts of one table; numbers that are not named are told with the flag that reads them."""
    (tmp_path / "parts").mkdir()
    for k, row in enumerate(ROWS):
        (tmp_path / f"parts/{k}.jsonl").write_text(json.dumps(row))
    (tmp_path / "ref").write_text("he\nno\n")
    flags = ["--group", "prompt", "--text", "answer", "-s", "prompt", "-r", tmp_path / "ref", "--lower-is-better", "reward"]
    code, _, said = boostfeat("import", tmp_path / "parts", *flags, "--quality", "reward", "-o", tmp_path / "x.nbest")
    assert code == 0
    assert "numbers that are not read: lp, length; --features lp,length or --quality length" in said
    nbest = read_store(tmp_path / "x.nbest")
    assert nbest.source.to_pylist() == ["wer ?", "was, was ?"]
    assert nbest.refs.to_pylist() == ["he", "no"]
    assert nbest.quality.lower == (True,)


def test_there_and_back() -> None:
    """Texts have single blanks; groups that are no numbers come back in a column of their name."""
    with pytest.warns(UserWarning, match="not read"):
        nbest = NBest.from_records(ROWS, **NAMED, refs="refs")
    for backend in ("pandas", "polars", "pyarrow"):
        frame = nbest.to_frame(backend)
        assert list(frame.columns if backend != "pyarrow" else frame.column_names) == [
            *("id", "prompt", "refs", "text", "Words", "lp", "length", "reward")
        ]
        with pytest.warns(UserWarning, match="numbers that are not read: id, Words"):
            again = NBest.from_frame(frame, **NAMED | {"text": "text"}, refs="refs")
        assert again == nbest


def test_whole_numbers_are_ids() -> None:
    rows = [{"q": q, "text": "a b", "score": float(q)} for q in (7, 3, 7)]
    for group in (int, str):
        nbest = NBest.from_records([row | {"q": group(row["q"])} for row in rows], group="q", text="text", features="score")
        assert nbest.ids.tolist() == [3, 7]
        assert nbest.score.tolist() == [3, 7, 7]
    assert nbest.to_frame()["id"].tolist() == [3, 7, 7]
    zeros = NBest.from_records([{"q": q, "t": "a"} for q in ("07", "7")], group="q", text="t")
    assert zeros.ids.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("changes", "cells", "message"),
    [
        ({"group": "p"}, {}, "expected a column 'p', found"),
        ({"features": "lp", "quality": "lp"}, {}, "column 'lp' is named twice"),
        ({"features": "Words"}, {"Words": 1}, "expected no feature 'Words', which is counted here"),
        ({}, {"lp": None}, "row 2: expected a finite number for lp"),
        ({}, {"reward": np.nan}, "row 2: expected a finite number for reward"),
        ({}, {"answer": None}, "row 2: expected a text for answer"),
        ({}, {"prompt": 1.5}, "row 2: expected a text or a whole number for prompt"),
        ({"source": "by"}, {}, "row 3: expected the value of row 1, which is of the same list, for by"),
        ({"refs": "lp"}, {"prompt": "wer ?"}, "for lp"),
        ({"lower_is_better": "bleu"}, {}, "expected a quality column"),
        ({"quality": "bleu"}, {"bleu": 1.0}, "expected a name that is no metric"),
    ],
)
@pytest.mark.filterwarnings("ignore:table. columns")
def test_refusals(changes: dict[str, Any], cells: dict[str, Any], message: str) -> None:
    rows = [dict.fromkeys(cells, 0.5) | row for row in ROWS]
    rows[1] |= cells
    with pytest.raises((InputError, ValueError), match=message):
        NBest.from_records(rows, **NAMED | changes)


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.jsonl"])
def test_tables_without_names_of_columns(name: str, tmp_path: Path, boostfeat: Callable[..., tuple[int, str, str]]) -> None:
    WRITERS[name](tmp_path / name)
    code, _, said = boostfeat("import", tmp_path / name, "-o", tmp_path / "x.nbest")
    assert code == 2
    assert "a table needs --group" in said
