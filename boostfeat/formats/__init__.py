"""Readers and writers of n-best lists and graphs, one file each.

A reader module has ``read(path, options) -> NBest``, a writer module ``write(nbest, stream)``. ``auto`` asks the table of
sniffers in its order: do most of these first lines look like this format?
"""

from __future__ import annotations

import importlib
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import IO

from ..core.errors import FormatError, clip, unknown_name
from ..core.files import by_numbers, read_head
from ..lists.agreement import check_agreement
from ..lists.build import ReadOptions
from ..lists.frames import read as read_table
from ..lists.merging import merge, stack
from ..lists.nbest import NBest
from ..lists.precision import with_precision
from .bar_lines import LAYOUTS, read_labelled
from .neural_lists import is_folder
from .sniffers import SNIFFERS

READERS: dict[str, str] = {  # modules, with the function if it is not ``read``; those of graphs are above this package
    "jsonl": "jsonl",
    "hyporadise": "neural_lists:read_hyporadise",
    "mlm-scoring": "neural_lists:read_mlm_scoring",
    "sockeye": "neural_lists:read_sockeye",
    "vosk": "neural_lists:read_vosk",
    "openai": "neural_lists:read_openai",
    "plf": ".search.graphs.plf",
    "htk-slf": ".search.graphs.htk_slf",
    "cdec-forest": ".search.graphs.cdec_forest",
    "moses-hypergraph": ".search.graphs.moses_hypergraph",
    "moses-osgx": ".search.graphs.moses_search_graph",
    "fairseq": "token_lines:read_fairseq",
    "travatar": "bar_lines",
    "marian": "token_lines:read_marian",
    "moses-enriched": "moses.enriched",
    "joshua": "bar_lines",
    "cdec": "bar_lines",
    "phrasal": "bar_lines",
    "moses": "moses.plain_lists",
    "espnet": "neural_lists:read_espnet",  # a folder
    "lines": "lines",  # these by name only: any text would do
    "opennmt": "lines",
    "nemo": "lines",
    "table": ".lists.frames",
}

TABLES = "; a table needs --group"
COUNTED = ("plf", "htk-slf")  # have no numbers of sentences: those of several files follow each other
GRAPHS = ("moses-osgx", "moses-hypergraph", "cdec-forest", *COUNTED)

WRITERS: dict[str, str] = {"moses": "moses.plain_lists", "moses-enriched": "moses.enriched", "jsonl": "jsonl"}


def _module(table: dict[str, str], name: str) -> ModuleType:
    if name not in table:
        raise unknown_name("format", name, ["auto", *table])
    return importlib.import_module(f".{table[name].partition(':')[0]}", __name__)


reader_module = partial(_module, READERS)


def detect(path: str | Path) -> str:
    """The name of the format of a file, by looking at its first lines."""
    if Path(path).is_dir() and is_folder(path):
        return "espnet"
    head = _head(path)
    if head[257:262] == b"ustar":
        raise FormatError(
            str(path), expected="an n-best list or a graph", found="a tar archive", fix="unpack it and name its files"
        )
    if b"\0" in head:
        kinds = {b"PAR1": "a table in Parquet", b"ARRO": "a store, which is imported already, or a table in Feather"}
        found = kinds.get(head[:4], "a binary file")
        raise FormatError(str(path), expected="an n-best list", found=found, fix=f"name the list the decoder wrote{TABLES}")
    text = _text(head)
    for name, is_format in SNIFFERS.items():
        if is_format(text):
            return name
    found = clip(text.strip().split("\n", 1)[0].rstrip())
    is_table = {".csv", ".tsv"} & {*Path(path).suffixes} or text.lstrip()[:2] in ('{"', "[{")
    by_name = f"name it by --format (references: -r{TABLES}); formats: " + ", ".join(READERS)
    fix = "a table needs --group COLUMN and --text COLUMN; name them" if is_table else by_name
    raise FormatError(str(path), expected="an n-best list in a known format", found=found, fix=fix)


def _head(path: str | Path) -> bytes:
    """Return the first lines of a file, which has some."""
    head = read_head(path, whole_line=True)
    if not head.strip():
        raise FormatError(str(path), expected="an n-best list", found="an empty file", fix="check what wrote it")
    return head


def _text(head: bytes) -> str:
    return head.removeprefix(BOM_UTF8).decode("utf-8", "replace")


def read(path: str | Path, options: ReadOptions, *, format: str = "auto") -> NBest:
    """One file of n-best lists or graphs, without references; see build.attach."""
    name = detect(path) if format == "auto" else format
    if format != "auto" and not Path(path).is_dir():
        head, richer = _text(_head(path)), {"moses": "moses-enriched", "cdec": "cdec-forest"}.get(name, name)
        name = richer if richer != name and SNIFFERS[richer](head) else name
        if name in ("marian", *LAYOUTS) and SNIFFERS["moses-enriched"](head):
            found, fix = "Moses' phrases with scores", "leave --format out"
            raise FormatError(str(path), expected=f"a list in the format {name}", found=found, fix=fix)
    if name in GRAPHS:
        nbest = _graph_lists([path], options, name)
    elif name in LAYOUTS:
        nbest = read_labelled(path, options, layout=LAYOUTS[name])
    else:
        reader: Callable[[str | Path, ReadOptions], NBest] = getattr(
            reader_module(name), READERS[name].partition(":")[2] or "read"
        )
        nbest = reader(path, options)
    if not len(nbest) and options.first is None:
        raise FormatError(str(path), expected="an n-best list", found="no sentences", fix="check what wrote it")
    return with_precision(nbest)


def _graph_lists(paths: Sequence[str | Path], options: ReadOptions, format: str) -> NBest:
    """Read the k-best lists of graphs, by the package above this one."""
    lists: NBest = importlib.import_module("..search.graphs.rescoring", __name__).read_lists(paths, options, format=format)
    return lists


def read_all(paths: Sequence[str | Path], options: ReadOptions, *, format: str = "auto") -> NBest:
    """Several files of one corpus; a folder stands for its files in the order of their names (part2 before part10).

    Files whose sentences follow each other are parts of one list. Else lists of the same sentence are accumulated, duplicates
    removed.
    """
    paths = [part for path in paths for part in files_of(path)]
    if len(paths) > 1 and all((detect(path) if format == "auto" else format) in COUNTED for path in paths):
        return _graph_lists(paths, options, format)
    if format == "table":
        return with_precision(read_table(paths, options))
    lists = [read(path, options, format=format) for path in paths]
    if len(lists) == 1:
        return lists[0]
    if options.first is not None:  # of parts that follow the sentences that are wanted nothing was read
        kept = [k for k, own in enumerate(lists) if len(own)] or [0]
        paths, lists = [paths[k] for k in kept], [lists[k] for k in kept]
    for line in check_agreement(dict(zip(map(str, paths), lists, strict=True)), allow_missing=True):
        options.warn(f"warning: {line}")
    follow = all(a.ids[-1] < b.ids[0] for a, b in pairwise(lists) if len(a) and len(b)) and all(map(len, lists))
    return stack(lists) if follow else merge(lists)


def files_of(path: str | Path) -> list[str | Path]:
    """The files of a folder, unless it is a list itself; any other path as it is."""
    if not Path(path).is_dir() or is_folder(path):
        return [path]
    files = [p for p in Path(path).iterdir() if p.is_file() and not p.name.startswith(".")]
    found: list[str | Path] = [*sorted(files, key=lambda file: by_numbers(file.name))]
    if not found:
        raise FormatError(str(path), expected="a folder of n-best lists", found="no files in it", fix="name the lists")
    return found


def left_out(nbest: NBest, *, format: str) -> list[str]:
    """Name what a list holds and a format has no place for. What would read back as something else is refused by ``write``."""
    module = _module(WRITERS, format)
    notes = ["keys of your own"] if nbest.notes and format != "jsonl" else []
    return [*(module.left_out(nbest) if hasattr(module, "left_out") else ()), *notes]


def write(nbest: NBest, stream: IO[bytes], *, format: str) -> None:
    _module(WRITERS, format).write(nbest, stream)
