"""Whole results kept in files beside their tests. After a change that is meant: BOOSTFEAT_GOLDEN=write pytest THE TEST, and look at
what it changes in the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def check_golden(found: Any, path: Path, *, rel: float = 1e-6) -> None:
    """What a file of JSON holds is what was found: same keys in the same order, same texts, numbers up to ``rel``."""
    plain = _plain(found)
    if os.environ.get("BOOSTFEAT_GOLDEN") == "write":
        path.write_text(_written(plain), encoding="utf-8")
    _compare(plain, json.loads(path.read_text(encoding="utf-8")), "", rel)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _written(value: Any) -> str:
    """A line for each entry of the first two levels: a change is then a line of a diff."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    parts = []
    for key, inner in value.items():
        text = json.dumps(inner, ensure_ascii=False)
        if isinstance(inner, list) and inner and len(text) > 100:
            text = "[\n  " + ",\n  ".join(json.dumps(v, ensure_ascii=False) for v in inner) + "]"
        elif isinstance(inner, dict) and len(text) > 100:
            text = "{\n  " + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in inner.items()) + "}"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _compare(found: Any, expected: Any, at: str, rel: float) -> None:
    if isinstance(expected, dict) and isinstance(found, dict):
        assert [*found] == [*expected], at
        for key in expected:
            _compare(found[key], expected[key], f"{at}.{key}", rel)
    elif isinstance(expected, list) and isinstance(found, list):
        assert len(found) == len(expected), at
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            _compare(a, b, f"{at}[{k}]", rel)
    elif isinstance(expected, float) and isinstance(found, float | int):
        assert found == pytest.approx(expected, rel=rel, abs=1e-9), at
    else:
        assert (type(found), found) == (type(expected), expected), at
