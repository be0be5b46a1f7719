"""Limits and precisions that what is read, shown and searched depends on. Who changes one means to."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest
from toy_graphs import build

from boostfeat.core import blocks, compression, errors, files, html, precision, strict_json, text
from boostfeat.core import options as core_options
from boostfeat.features import FeaturePlan
from boostfeat.lm import arpa, automaton
from boostfeat.rerank import edit_oracle, few, neighbours, oracle_path, reranker, rescore

pytestmark = pytest.mark.quick

LIMITS = {
    blocks: {"MOST": 64, "_SENTENCES": 64},
    compression: {"MAX_EXPANSION": 250, "FREE_BYTES": 2**28},
    errors: {"LONGEST": 300},
    files: {"LONGEST_LINE": 2**28},
    html: {"LONGEST": 300},
    precision: {"FEW": 100, "DIGITS": (5, 8), "DECIMALS": (2, 7)},
    core_options: {"MOST": 2**31 - 1},
    arpa: {"MAX_LOG10": 1e30},
    automaton: {"UNKNOWN_LOG10": -100.0},
    edit_oracle: {"FAR": 2**30},
    few: {"MOST_PAIRS": 20_000},
    neighbours: {"MOST": 3_000_000, "_MOVES": ((0, 1), (-1, 0), (1, 1), (-1, 1)), "START": (-1, 0, (), (0.0, 0.0, 0.0, 0.0), 0.0)},
    oracle_path: {"MAX_YIELDS": 50_000_000, "SWEEPS": 10},
    reranker: {"_DENSE_SHARE": 0.1, "_MOST_NAMES": 4096, "_STRANGE": -2, "_NO_SPAN": (-1, -1)},
}  # fmt: skip


DEFAULTS: dict[Callable[..., Any], dict[str, Any]] = {  # of numbers; threads change nothing
    oracle_path.OracleOptions: {"size": 100, "beam": 8, "rounds": 3},
    rescore.RescoreOptions: {"size": 1, "distinct": True},
    rescore.rescored_lists: {"whole": True},
    rescore.kbest_nbest: {"size": 100, "distinct": True, "whole": True},
    errors.plain: {"limit": 2**20},
    errors.clip: {"limit": 60},
    files.read_head: {"size": 2**16, "whole_line": False},
    files.Block.text: {"start": 0},
    core_options.option: {"rare": False},
    precision.Precision: {"step": 0.0, "digits": 0},
    strict_json.indented: {"level": 0},
    text.is_whole: {"digits": 18},
}


def defaults() -> dict[Callable[..., Any], dict[str, Any]]:
    found = {}
    for function in DEFAULTS:
        given = {name: p.default for name, p in signature(function).parameters.items() if name != "threads"}
        found[function] = {name: value for name, value in given.items() if isinstance(value, int | float)}
    return found


def found() -> object:
    return {module: {name: getattr(module, name) for name in names} for module, names in LIMITS.items()}


def test_whole_limits_of_files_and_texts() -> None:
    assert errors.clip("a") == "'a'"
    assert html.shown("a") == "a"
    assert blocks.block_ptr(65 * 64).tolist() == [65 * k for k in range(65)]
    assert precision.EXACT.near(np.zeros(1)).tolist() == [0.0]
    assert files.decode(b"a", "here") == "a"
    assert compression._max_expansion() == 250
    assert core_options.comma_list("a,b") == ("a", "b")
    assert arpa._number("1") == 1.0
    assert strict_json.indented({}) == "{}"
    assert text.is_whole("12")
    assert (found(), defaults()) == (LIMITS, DEFAULTS)


def test_whole_limits_of_searches() -> None:
    graph, _ = build([(0, [], ["a"], 0.0)])
    assert edit_oracle.nearest_path(graph, ["a"]) == (0, ["a"])
    assert oracle_path.segment_heads(np.array([0, 1]), np.array([1])).tolist() == [0]
    assert rescore._numbers(["F_0", "F_1"]) == {"F": [0, 1]}
    assert reranker._is_unknown(None)
    assert few._sum([1.0, 2.0]) == 3.0
    assert neighbours.between(FeaturePlan(), ()) == ([], set())
    assert (found(), defaults()) == (LIMITS, DEFAULTS)
