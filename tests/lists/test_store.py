"""The store on disk: what goes in comes out, any Arrow reader opens it, and damage is an error."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from strategies import build, containers, plain, quick

from boostfeat.core.errors import FormatError
from boostfeat.lists.build import HypRecord, UnitRecord, attach
from boostfeat.lists.nbest import NBest, Qualities
from boostfeat.lists.store import VERSION, read_store, write_store
from boostfeat.model.model import Model


def example() -> NBest:
    """Three lists of five, every column in use: dense, sparse, extras, two references, spans, alignment."""

    def unit(k: int, j: int) -> UnitRecord:
        features = {"lm": k / 2, f"pt:{k}{j}": 1.0}
        return UnitRecord(features, src=(j, j + 1), tgt=(j, j + 2), src_text="q", tgt_text=f"z{j}", align="0-0", score=1.0)

    hyps = [
        HypRecord(s, f"w{s} x{k} ä", "list", -float(k), {"e": 1.0, f"rare:{s}{k}": 2.0}, [unit(k, j) for j in range(3)])
        for s in range(3)
        for k in range(5)
    ]
    return attach(build(hyps), source=["a b c d"] * 3, refs=[["w0 x", "w1", "w2"]] * 2, name="example")


NB = example()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "example.nbest"
    write_store(NB, path)
    return path


# -- round trips ------------------------------------------------------------------------------------------------------


@quick
@given(containers())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, nb: NBest) -> None:
    path = tmp_path_factory.getbasetemp() / "random.nbest"
    nb = replace(nb, meta={"from": "ä"})
    write_store(nb, path)
    again = read_store(path)
    assert again.differences(nb) == []
    assert (again.meta, again.has_stats) == (nb.meta, nb.has_stats)
    assert plain(again[::-1]) == plain(nb)[::-1]  # what was mapped can be worked with


@pytest.mark.parametrize("ending", ["gz", "xz", "bz2", "zst"])
def test_compressed_stores(tmp_path: Path, path: Path, ending: str) -> None:
    """A store is an input like any other: compressed by hand, or by the name it is written to."""
    named = tmp_path / f"example.nbest.{ending}"
    write_store(NB, named)
    assert named.stat().st_size < path.stat().st_size / 2
    assert read_store(named) == NB
    by_hand = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
    if ending in by_hand:
        named.write_bytes(by_hand[ending](path.read_bytes()))
        assert read_store(named) == NB
    named.write_bytes(named.read_bytes()[:-10])
    with pytest.raises(FormatError, match="truncated or damaged"):
        read_store(named)


def test_standard_input_and_output(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    write_store(NB, "-")
    assert out.getvalue() == path.read_bytes()
    assert not Path("-").exists()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.getvalue())))
    assert read_store("-") == NB


def test_a_pipe_with_a_name(path: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["cp", path, fifo]):  # as in: boostfeat info <(ssh host cat dev.nbest)
        assert read_store(fifo) == NB


# -- other readers ----------------------------------------------------------------------------------------------------


def test_plain_pyarrow_reads_it(path: Path) -> None:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        metadata = reader.schema.metadata
        (row,) = reader.read_all().to_pylist()
    assert metadata[b"boostfeat"] == f"nbest-store/{VERSION}".encode()
    assert tuple(json.loads(metadata[b"unit_names"])) == NB.unit_names
    expected = plain(NB)
    for mine, sent in zip(row["sentences"], expected, strict=True):
        assert (mine["id"], mine["source"], tuple(mine["refs"])) == sent[:3]
        for hyp, want in zip(mine["hyps"], sent.hyps, strict=True):
            assert (hyp["text"], hyp["score"], tuple(hyp["stats"])) == (want.text, want.score, want.stats)
            names = {row["sparse_names"][pair["name"]]: pair["value"] for pair in hyp["sparse"]}
            assert names | dict(zip(NB.extra_names, hyp["extra"], strict=True)) == dict(want.features)
            for occurrence, unit in zip(hyp["units"], want.units, strict=True):
                distinct = row["units"][occurrence["unit"]]
                sparse = {row["sparse_names"][pair["name"]]: pair["value"] for pair in distinct["sparse"]}
                dense = {name: x for name, x in zip(NB.unit_names, distinct["x"], strict=True) if x}
                place = (occurrence["src"], occurrence["tgt"])
                texts = tuple(distinct[key] for key in ("src", "tgt", "align", "src_len", "tgt_len"))
                assert (*place, *texts, frozenset((dense | sparse).items())) == unit


def test_polars_reads_it(path: Path) -> None:
    """The line that the module's docstring gives."""
    pl = pytest.importorskip("polars")
    units = pl.read_ipc(path).select(pl.col("units").explode()).unnest("units")
    assert units["x"].to_list() == NB.X.tolist()
    assert units["tgt"].to_list() == NB.units.tgt.to_pylist()
    assert units["src_len"].to_list() == NB.units.src_len.tolist()
    sentences = pl.read_ipc(path).select(pl.col("sentences").explode()).unnest("sentences")
    hyps = sentences.select(pl.col("hyps").explode()).unnest("hyps")
    assert hyps["stats"].to_list() == NB.stats.tolist()


def test_reading_copies_nothing(path: Path) -> None:
    """Every array is a read-only view of the mapping, whose pages are read when they are used."""
    before = pa.total_allocated_bytes()
    nb = read_store(path)
    columns = [getattr(o, f.name) for o in (nb, nb.units, nb.units.sparse, nb.extra_sparse) for f in fields(o)]
    arrays = [c for c in columns if isinstance(c, np.ndarray)]
    assert len(arrays) >= 18
    for array in arrays:
        assert not array.flags.owndata
        assert not array.flags.writeable
    assert pa.total_allocated_bytes() - before < 4096  # Arrow's own buffers: none of the columns
    os.unlink(path)
    assert nb == NB  # the mapping outlives the name


# -- bad files --------------------------------------------------------------------------------------------------------


def arrow_file(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def change(key: str, value: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        table = pa.ipc.open_file(path.read_bytes()).read_all()
        arrow_file(path, table.replace_schema_metadata({**table.schema.metadata, key.encode(): value}))

    return write


def drop(column: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        table = pa.ipc.open_file(path.read_bytes()).read_all()
        arrow_file(path, table.drop_columns([column]))

    return write


def no_rows(path: Path) -> None:
    arrow_file(path, pa.ipc.open_file(path.read_bytes()).read_all().slice(0, 0))


def two_rows(path: Path) -> None:
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    arrow_file(path, pa.concat_tables([table, table]))


BAD: list[tuple[Callable[[Path], object], str]] = [
    (lambda p: p.write_bytes(b""), "expected a store written by 'boostfeat import', found an empty file; import"),
    (lambda p: p.write_bytes(b"0 ||| a ||| lm= 1 ||| 2\n"), "found a list; import the list first"),
    (lambda p: p.write_bytes(gzip.compress(b"0 ||| a\n")), "found text; import the list first"),
    (Model({"a": 1.0}).save, "found a model; import the list first"),
    (lambda p: p.write_bytes(b"ARROW1"), "expected an intact store"),
    (lambda p: p.write_bytes(b"ARROW1\0\0" + b"\0" * 99), "expected an intact store"),
    (lambda p: arrow_file(p, pa.table({"a": [1]})), "expected a boostfeat nbest-store, found an Arrow file of another kind"),
    (change("boostfeat", "model/1"), "expected a boostfeat nbest-store, found an Arrow file of another kind"),
    (change("boostfeat", "nbest-store/x"), "found an Arrow file of another kind"),
    (
        change("boostfeat", f"nbest-store/{VERSION + 1}"),
        f"expected format version {VERSION} or lower, found {VERSION + 1}; upgrade",
    ),
    (change("unit_names", '["lm", "more"]'), r"columns of units\.x: expected 2, found 1"),
    (change("unit_names", "{"), "expected an intact store"),
    (change("unit_names", "[1]"), r"unit_names: \[0\]: expected a string, found a whole number; the file is damaged"),
    (change("unit_names", '"l"'), "unit_names: expected a list, found a string"),
    (change("extra_names", "null"), "extra_names: expected a list, found null"),
    (change("meta", "[]"), "meta: expected an object, found a list"),
    (drop("units"), "expected an intact store"),
    (drop("sparse_names"), "expected an intact store"),
    (no_rows, "expected one row"),
    (two_rows, "expected one row"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD, ids=range(len(BAD)))
def test_other_files_are_refused(path: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(path)
    with pytest.raises(FormatError, match=message) as caught:
        read_store(path)
    assert "\n" not in str(caught.value)


# -- writing ----------------------------------------------------------------------------------------------------------


def test_a_store_can_be_replaced_while_it_is_open(path: Path) -> None:
    opened = read_store(path)
    write_store(opened[:1], path)
    assert opened == NB
    assert read_store(path) == NB[:1]


@pytest.mark.parametrize(("target", "told"), [("/dev/null", 1), ("-", 0)])
def test_a_store_can_be_written_to_what_has_no_position(target, told, tmp_path):
    (tmp_path / "list").write_text("0 ||| a b ||| lm= 1 ||| 2\n")
    command = [sys.executable, "-m", "boostfeat", "import", str(tmp_path / "list"), "-o", target]
    with open("/dev/null", "wb") as nowhere:
        found = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (found.returncode, found.stderr.count(" -> ")) == (0, told)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("ids", 0, 1 << 62),
        *((name, -1, 1 << 30) for name in ("src_start", "tgt_start", "src_len", "tgt_len")),
        ("stats", 0, 1 << 30),
    ],
)
def test_places_and_counts_are_within_bounds(name: str, low: int, high: int, tmp_path: Path) -> None:
    nb = attach(build([HypRecord(0, "a", "list", units=[UnitRecord({"f": 1.0})])]), source=None, refs=[["a"]], name="x")
    for value, fine in ((low, True), (high - 1, True), (low - 1, False), (high, False)):
        if name.endswith("len"):
            changed = replace(nb, units=replace(nb.units, **{name: np.full(1, value, np.int32)}))
        else:
            changed = replace(nb, **{name: np.full_like(getattr(nb, name), value)})
        write_store(changed, tmp_path / "s")
        if fine:
            assert read_store(tmp_path / "s") == changed
        else:
            with pytest.raises(FormatError, match=f"{name}: expected numbers from {low} to {high - 1}, found {value}; the file"):
                read_store(tmp_path / "s")


@pytest.mark.parametrize("ids", [[1, 0], [1, 1], [0, 2, 1]])
def test_sentences_rise(ids: list[int], tmp_path: Path) -> None:
    nb = build([HypRecord(s, "a", "list") for s in range(len(ids))])
    write_store(replace(nb, ids=np.array(ids)), tmp_path / "s")
    with pytest.raises(FormatError, match="ids: expected numbers that rise, found some that do not"):
        read_store(tmp_path / "s")


@pytest.mark.parametrize(
    ("about", "fine"),
    [
        ({}, True),
        ({"within_lists": [1.0, 0.5]}, True),
        ({"lower": [True]}, False),
        ({"lower": [True, 0]}, False),
        ({"within_lists": [1.0]}, False),
        ({"within_lists": [1.0, 0.0]}, False),
        ({"within_lists": [1.0, "2"]}, False),
        ({"within_lists": [float("inf"), 1.0]}, False),
        ({"names": ["p"], "lower": [True], "within_lists": [1.0]}, None),
        ({"names": ["p", "p"]}, False),
        ({"names": ["p", "q", "r"]}, None),
    ],
)
def test_quality_columns_of_a_store(about: dict[str, Any], fine: bool | None, path: Path) -> None:
    """As many names, all different, as directions and units above 0; as many columns as there are numbers."""
    value, weight = np.arange(30.0).reshape(15, 2), np.arange(30.0, 60.0).reshape(15, 2)
    nb = replace(NB, quality=Qualities(("p", "q"), (True, False), (1.0, 2.0), value, weight))
    write_store(nb, path)
    assert read_store(path) == nb
    own = {"names": ["p", "q"], "lower": [True, False], "within_lists": [1.0, 2.0], **about}
    change("quality", json.dumps(own))(path)
    if fine:
        assert read_store(path).quality.unit == tuple(own["within_lists"])
        return
    message = (
        "expected [26] values in each quality"
        if fine is None
        else "expected a name, a direction and a unit|quality: .*expected |a finite number is expected"
    )
    with pytest.raises(FormatError, match=message):
        read_store(path)


@pytest.mark.parametrize("side", ["value", "weight"])
def test_quality_columns_are_finite(side: str, path: Path) -> None:
    columns = {"value": np.ones((15, 1)), "weight": np.ones((15, 1))}
    columns[side][14] = np.nan
    nb = replace(NB, quality=Qualities(("p",), (True,), (1.0,), **columns))
    write_store(nb, path)
    with pytest.raises(FormatError, match="expected finite numbers in quality columns, found others"):
        read_store(path)
