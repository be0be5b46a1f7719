"""What comes from strangers is data: it starts no code, leaves no folder, fills no memory."""

from __future__ import annotations

import ast
import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from fuzz.readers import OPTIONS, STATE, generated
from fuzz.samples import MODEL, RUN

from boostfeat import formats
from boostfeat.core import compression
from boostfeat.core.errors import FormatError, InputError
from boostfeat.core.files import read_bytes, read_chunks, read_head
from boostfeat.lists.store import read_store, write_store
from boostfeat.report.run_folder import load_run
from boostfeat.search.loop.decoders import CommandDecoder
from boostfeat.search.loop.online import State

PACKAGE = Path(__file__).parents[2] / "boostfeat"

# ---------------------------------------------------------------------------------------------------------------------
# No code from data
# ---------------------------------------------------------------------------------------------------------------------

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "tarfile", "zipfile", "xml", "imp"}
NAMES = {"eval", "exec", "compile", "__import__"}
CALLS = {"os.system", "os.popen", "shutil.unpack_archive", "pandas.read_pickle", "subprocess.getoutput", "np.frompyfunc"}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("folder", sorted({path.parent for path in PACKAGE.rglob("*.py")}), ids=lambda folder: folder.name)
def test_no_code_is_made_of_data(folder: Path) -> None:
    for path in folder.glob("*.py"):
        check_code(path)


def check_code(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    imported = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {
        (node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert not imported & MODULES
    for name, call in calls(tree):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        assert name not in NAMES | CALLS, f"{path.name}:{call.lineno}"
        assert "shell" not in given, f"{path.name}:{call.lineno}: a shell"
        if name in ("np.load", "numpy.load"):
            assert ast.unparse(given["allow_pickle"]) == "False", f"{path.name}:{call.lineno}: pickles"
        if name in ("subprocess.run", "subprocess.Popen"):
            assert not isinstance(call.args[0], ast.JoinedStr | ast.Constant), (
                f"{path.name}:{call.lineno}: a command line as text"
            )


def test_the_scan_sees_what_it_looks_for() -> None:
    found = dict(calls(ast.parse("import os\nos.system('x')\nsubprocess.run(f'{x}', shell=True)")))
    assert set(found) == {"os.system", "subprocess.run"}
    assert found["subprocess.run"].keywords[0].arg == "shell"


def test_the_decoder_is_an_argument_list(tmp_path: Path) -> None:
    """No word of the command, and no file name put into it, is read by a shell."""
    name = "x; touch pwned; $(touch pwned) `touch pwned`"
    decoder = CommandDecoder(f"{sys.executable} -c 'print(1)' {{model}} '$(touch pwned)' '; touch pwned'", size=1)
    assert decoder.arguments()[1:] == ["-c", "print(1)", "{model}", "$(touch pwned)", "; touch pwned"]
    folder = tmp_path / name
    folder.mkdir()
    files = {"input": folder / "in"}
    (folder / "in").write_text("a\n")
    decoder._run([str(folder / "m") if w == "{model}" else w for w in decoder.arguments()], files, folder)
    assert sorted(p.name for p in folder.iterdir()) == ["in", "stderr", "stdout"]
    assert (folder / "stdout").read_text() == "1\n"


# ---------------------------------------------------------------------------------------------------------------------
# Nothing outside the folder
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["model", "choice"])
@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a/../../secret.json", "link"])
def test_a_run_names_no_files_elsewhere(tmp_path: Path, key: str, name: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "secret.json").write_text(json.dumps(MODEL if key == "model" else RUN["choices.json"]))
    (folder / "link").symlink_to(tmp_path / "secret.json")
    write_store(generated(), folder / "test.nbest")
    for file, whole in RUN.items():
        (folder / file).write_text(json.dumps(whole))
    (folder / "results.json").write_text(json.dumps([{**RUN["results.json"][0], key: name}]))
    with pytest.raises(FormatError, match="names of files in the folder"):
        load_run(folder)


ON_A_RUN = {  # commands that write into a folder, or a file of it
    "compare": "compare {lists}/dev.nbest --select {lists}/select.nbest --test {lists}/test.nbest --systems decoder -o run",
    "replicate": "replicate ta13 {lists}/dev.nbest --select {lists}/select.nbest --test {lists}/test.nbest --quick -o run",
    "loop": "loop {data}/dev.src -r {data}/dev.ref --ini {data}/system/moses.ini --max-iterations 1 --resume -o run",
    "export": "export weights.json --to json --force -o run/model.json",
}


@pytest.mark.parametrize(
    ("command", "link"),
    [
        *product(["compare", "replicate", "loop"], [".lock", "table.md", "config.json", "systems", "a/b/c"]),
        ("export", "boostfeat-model.schema.json"),
    ],
)
def test_a_strangers_run_folder_replaces_no_file_of_ours(boostfeat, data_stores, tmp_path, monkeypatch, command, link) -> None:
    """A folder that was unpacked may have links to anything."""
    monkeypatch.chdir(tmp_path)
    Path("victim").mkdir()
    Path("victim/file").write_text("precious")
    place = Path("run") / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / ("victim" if link == "systems" else "victim/file"))
    Path("weights.json").write_text(json.dumps(MODEL))
    words = ON_A_RUN[command].format(lists=data_stores, data=PACKAGE.parent / "data").split()
    code, _, err = boostfeat(*words)
    assert code == 2
    assert f"{link} is a symbolic link, and nothing is written through one that you did not name; remove it" in err
    assert [path.read_text() for path in Path("victim").iterdir()] == ["precious"]


def test_a_list_of_moses_cannot_be_an_archive(tmp_path: Path) -> None:
    """Archives are not unpacked at all."""
    (tmp_path / "x.tar").write_bytes(b"../evil".ljust(257, b"\0") + b"ustar" + b"\0" * 1000)
    with pytest.raises(FormatError, match="a tar archive; unpack it"):
        formats.read(tmp_path / "x.tar", OPTIONS)
    assert [p.name for p in tmp_path.iterdir()] == ["x.tar"]


# ---------------------------------------------------------------------------------------------------------------------
# Decompression bombs
# ---------------------------------------------------------------------------------------------------------------------

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
BOMB = b"0 ||| a ||| f= 1\n" * (1 << 17)  # 2 MB that any method makes hundreds of times smaller


@pytest.fixture
def bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE_BYTES", 1 << 16)
    monkeypatch.setattr(compression, "MAX_EXPANSION", 50)


@pytest.mark.usefixtures("bombs")
@pytest.mark.parametrize("kind", COMPRESS)
def test_a_bomb_stops_at_the_stated_limit(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"bomb.{kind}"
    path.write_bytes(COMPRESS[kind](BOMB))
    for read in (
        read_bytes,
        lambda path: list(read_chunks(path, 1 << 16)),
        lambda path: formats.read(path, OPTIONS, format="moses"),
    ):
        with pytest.raises(
            FormatError, match=r"expected at most 50 times the compressed data, .* set BOOSTFEAT_MAX_EXPANSION=500"
        ):
            read(path)
    assert read_head(path).startswith(BOMB[:100])
    monkeypatch.setenv("BOOSTFEAT_MAX_EXPANSION", "1e9")
    assert read_bytes(path) == BOMB


@pytest.mark.usefixtures("bombs")
@pytest.mark.parametrize("text", ["0", "x", "nan", "-3"])
def test_a_limit_must_be_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "x.gz").write_bytes(COMPRESS["gz"](BOMB))
    monkeypatch.setenv("BOOSTFEAT_MAX_EXPANSION", text)
    with pytest.raises(InputError, match="BOOSTFEAT_MAX_EXPANSION: expected a number from 1"):
        read_bytes(tmp_path / "x.gz")


def test_a_bomb_through_a_pipe(tmp_path: Path) -> None:
    """The compressed size of a pipe is what has come through it."""
    code = "from boostfeat.core import compression; compression.FREE_BYTES = 1 << 16; from boostfeat.core.files import read_bytes; read_bytes('-')"
    done = subprocess.run([sys.executable, "-c", code], input=gzip.compress(BOMB), capture_output=True, check=False)
    assert b"expected at most 250 times" in done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Models and stores
# ---------------------------------------------------------------------------------------------------------------------


def spoilt(tmp_path: Path, change: Callable[[dict[str, pa.Array]], None]) -> Path:
    """A store whose columns of hypotheses were replaced, offsets and all; Arrow finds nothing wrong with it."""
    write_store(generated(), tmp_path / "good")
    with pa.OSFile(str(tmp_path / "good")) as file:
        batch = pa.ipc.open_file(file).read_all().to_batches()[0]
    sentences = batch.column("sentences").values
    hyps = sentences.field("hyps").values
    columns = {field.name: hyps.field(field.name) for field in hyps.type}
    change(columns)
    made = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    lists = pa.LargeListArray.from_arrays(sentences.field("hyps").offsets, made)
    parts = {f.name: lists if f.name == "hyps" else sentences.field(f.name) for f in sentences.type}
    table = pa.StructArray.from_arrays(list(parts.values()), list(parts))
    column = pa.LargeListArray.from_arrays(pa.array([0, len(table)], pa.int64()), table)
    row = pa.record_batch([column, batch.column("units"), batch.column("sparse_names")], ["sentences", "units", "sparse_names"])
    with (
        pa.OSFile(str(tmp_path / "bad"), "wb") as sink,
        pa.ipc.new_file(sink, row.schema.with_metadata(batch.schema.metadata)) as out,
    ):
        out.write_batch(row.replace_schema_metadata(batch.schema.metadata))
    return tmp_path / "bad"


def put(name: str, value: int) -> Callable[[dict[str, pa.Array]], None]:
    """One number of the units of hypotheses replaced."""

    def change(columns: dict[str, pa.Array]) -> None:
        units = columns["units"].values
        parts = {f.name: units.field(f.name) for f in units.type}
        numbers = parts[name].to_numpy().copy()
        numbers[1] = value
        made = pa.StructArray.from_arrays([pa.array(numbers) if n == name else c for n, c in parts.items()], list(parts))
        columns["units"] = pa.LargeListArray.from_arrays(columns["units"].offsets, made)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("unit", 10**6), "unit_idx: expected values from 0"),
        (put("unit", -1), "unit_idx: expected values from 0"),
        (put("tgt", -7), "tgt_start: expected numbers from -1 to 1073741823, found -7"),
        (put("src", -(2**31)), "src_start: expected numbers from -1"),
        (put("src", 2**31 - 1), "src_start: expected numbers from -1 to 1073741823, found 2147483647"),
        (lambda c: c.update(score=pa.array([1] * 6)), "expected a column of float64"),
        (lambda c: c.update(text=pa.array(["a"] * 5 + [None], pa.large_string())), "expected a column of strings without nulls"),
        (lambda c: c.update(text=pa.array(["a"] * 6)), "expected a column of strings"),
        (lambda c: c.pop("score"), "score"),
    ],
)
def test_offsets_are_checked_before_use(tmp_path: Path, change: Callable[[dict[str, pa.Array]], None], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_store(spoilt(tmp_path, change))


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_a_bomb_inside_a_store_is_not_unpacked(tmp_path: Path, kind: str) -> None:
    """Arrow's own compression has no bound: 200 KB were 5 GB."""
    write_store(generated(), tmp_path / "good")
    with pa.OSFile(str(tmp_path / "good")) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    options = pa.ipc.IpcWriteOptions(compression=kind)
    with pa.OSFile(str(tmp_path / "bad"), "wb") as sink, pa.ipc.new_file(sink, batch.schema, options=options) as out:
        out.write_batch(batch)
    with pytest.raises(FormatError, match="expected one row in one batch that is not compressed"):
        read_store(tmp_path / "bad")


def test_ids_beyond_all_lists_are_refused(tmp_path: Path) -> None:
    """Their differences overflow."""
    nbest = generated(sentences=1)
    for last, fine in ((2**62 - 1, True), (2**63 - 1, False)):
        write_store(replace(nbest, ids=np.array([last])), tmp_path / "store")
        with nullcontext() if fine else pytest.raises(FormatError, match="ids: expected numbers from 0 to"):
            read_store(tmp_path / "store")


def test_an_unchanged_store_is_read(tmp_path: Path) -> None:
    assert read_store(spoilt(tmp_path, lambda columns: None)) == generated()


@pytest.mark.parametrize("what", ["objects", "shape", "kind", "missing"])
def test_a_state_of_another_kind_is_refused(tmp_path: Path, what: str) -> None:
    columns = {f.name: getattr(STATE, f.name) for f in fields(STATE)}
    if what == "missing":
        del columns["w"]
    else:
        columns["w"] = {"objects": np.array([{}, [], 1], object), "shape": np.zeros(4), "kind": np.zeros(3, np.float32)}[what]
    stream = io.BytesIO()
    np.savez(stream, **columns)
    (tmp_path / "state.npz").write_bytes(stream.getvalue())
    with pytest.raises(FormatError, match="expected the state of this run"):
        State.load(tmp_path / "state.npz", STATE)
