"""A small list of every format, whole: every column that is read from it, and what is said meanwhile.

The files of whole_lists/ were made by the program from the samples of tests/fuzz/samples.py; those of moses and fairseq were worked out
by hand beside them, and the other test files of this folder say where numbers of the others come from.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import samples
from golden import check_golden

from boostfeat import formats
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.nbest import NBest, SparseRows
from boostfeat.search.graphs.graph_files import read_graphs

SOURCE = ["ein altes haus da", "nein", "ja doch"]
LISTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "moses": ("moses", samples.PLAIN, {"source": SOURCE}),
    "moses, with bars": ("moses", samples.INLINE, {}),
    "moses-enriched": ("moses-enriched", samples.ENRICHED, {"source": SOURCE}),
    "cdec": ("cdec", samples.CDEC, {}),
    "joshua": ("joshua", samples.JOSHUA.splitlines()[0] + "\n", {"source": SOURCE}),
    "joshua, numbers alone": ("joshua", samples.JOSHUA.splitlines()[1] + "\n", {}),
    "phrasal": ("phrasal", samples.PHRASAL, {}),
    "travatar": ("travatar", samples.TRAVATAR, {}),
    "marian": ("marian", samples.MARIAN, {"source": SOURCE}),
    "marian, rescored": ("marian", samples.MARIAN_RESCORED, {}),
    "marian, pieces": ("marian", samples.MARIAN_PIECES, {}),
    "marian, pieces as units": ("marian", samples.MARIAN_PIECES, {"units": "token"}),
    "marian, one a line": ("marian", samples.MARIAN_PLAIN, {}),
    "fairseq": ("fairseq", samples.FAIRSEQ, {}),
    "fairseq, the first": ("fairseq", samples.FAIRSEQ, {"size": 1}),
    "hyporadise": ("hyporadise", samples.HYPORADISE, {}),
    "mlm-scoring": ("mlm-scoring", samples.MLM_SCORING, {}),
    "sockeye": ("sockeye", samples.SOCKEYE, {}),
    "vosk": ("vosk", samples.VOSK, {}),
    "openai": ("openai", samples.OPENAI, {}),
    "jsonl": ("jsonl", samples.JSONL, {}),
    "jsonl, dense": ("jsonl", samples.JSONL_DENSE, {}),
    "moses-osgx": ("moses-osgx", samples.OSGX, {}),
    "moses-osgx, derivations": ("moses-osgx", samples.OSGX, {"size": 2, "distinct": False}),
    "moses-hypergraph": ("moses-hypergraph", samples.HYPERGRAPH, {"weights": samples.WEIGHTS}),
    "cdec-forest": ("cdec-forest", samples.FOREST, {"weights": samples.WEIGHTS}),
    "plf": ("plf", samples.PLF, {}),
    "htk-slf": ("htk-slf", samples.SLF, {}),
    "lines, tabs": ("lines", samples.TABBED, {"n": 2}),
    "nemo": ("nemo", samples.TABBED, {"n": 2}),
}


def columns(nbest: NBest) -> dict[str, Any]:
    """Everything that a list holds, in plain Python; what is empty is left out."""
    units = {f"unit {name}": value for name, value in vars(nbest.units).items()}
    found = {name: plain(value) for name, value in (vars(nbest) | units).items() if not name.startswith("_") and name != "units"}
    return {name: value for name, value in found.items() if value not in ([], {}, (), None, "")}


def plain(value: Any) -> Any:
    if isinstance(value, SparseRows):
        return {"ptr": value.ptr.tolist(), "idx": value.idx.tolist(), "val": value.val.tolist()} if len(value.val) else {}
    if is_dataclass(value):
        return {name: v for name, part in vars(value).items() if (v := plain(part)) not in ([], {}, (), None, "")}
    if hasattr(value, "to_pylist"):
        return value.to_pylist()
    if isinstance(value, np.ndarray):
        return [None if v != v else v for v in value.tolist()] if value.ndim == 1 else value.tolist() if value.size else []
    return value if isinstance(value, str | int | float | list | tuple | dict) else str(value)


def file_name(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "_")


@pytest.mark.parametrize("name", LISTS)
def test_whole_lists(tmp_path, name):
    format, text, options = LISTS[name]
    (tmp_path / "list").write_text(text)
    said: list[str] = []
    nbest = formats.read(tmp_path / "list", ReadOptions(warn=said.append, **options), format=format)
    found = {"said": [line.replace(f"{tmp_path}/", "") for line in said], **columns(nbest)}
    check_golden(found, Path(__file__).parent / "whole_lists" / f"{file_name(name)}.json")


GRAPHS = [name for name in LISTS if name in ("moses-osgx", "moses-hypergraph", "cdec-forest", "plf", "htk-slf")]


@pytest.mark.parametrize("name", GRAPHS)
def test_whole_graphs(tmp_path, name):
    """All that a graph holds; of hypergraphs also one whose last node, the goal, has words of its own."""
    text = LISTS[name][1]
    texts = [text, text.replace("[2] </s> |||", "[2] , [1] </s> ||| d=0.5")] if name == "moses-hypergraph" else [text]
    found = []
    for text in texts:
        (tmp_path / "7.graph").write_text(text)
        for sentence in read_graphs([tmp_path / "7.graph"], ReadOptions(warn=lambda line: None), format=name):
            own = {k: str(v).replace(f"{tmp_path}/", "") for k, v in sentence._asdict().items() if isinstance(v, int | str)}
            shape = {k: v.tolist() for k, v in sentence.graph.shape._asdict().items()}
            found.append(own | shape | {k: plain(v) for k, v in vars(sentence.graph).items() if k != "shape"})
    check_golden({str(k): graph for k, graph in enumerate(found)}, Path(__file__).parent / "whole_lists" / f"{name}.graph.json")
