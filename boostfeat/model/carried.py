"""The plan of a model's features as text of its file: JSON, compressed, bounded in what it may become.

What a plan holds is known to boostfeat.features; a model only carries it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

from ..core.errors import FormatError, clip
from ..core.strict_json import finite, no_constant, parse_json

Plan = Mapping[str, Any]
_EXPANSION, _FREE = 250, 1 << 20  # a plan may become so many times its size, and a megabyte in any case


def pack(plan: Plan) -> str:
    """The same plan is the same text."""
    return base64.b64encode(zlib.compress(_bytes(plan), 9)).decode("ascii")


def unpack(text: Any, where: str) -> Plan:
    """The plan of a text that pack() made; anything else is one line."""
    expected, fix = "the plan of its features, as 'boostfeat induce --templates' writes it", "make the model again"
    if not isinstance(text, str):
        raise FormatError(where, expected=expected, found=type(text).__name__, fix=fix)
    try:
        plan = parse_json(expanded(text).decode(), parse_constant=no_constant, parse_float=finite)
    except ValueError as error:
        raise FormatError(where, expected=expected, found=clip(str(error)), fix=fix) from None
    if not isinstance(plan, dict):
        raise FormatError(where, expected=expected, found=type(plan).__name__, fix=fix)
    return plan


def expanded(text: str | bytes) -> bytes:
    """The JSON of a text that pack() made; ValueError for anything else."""
    data = base64.b64decode(text, validate=True)
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(data, _EXPANSION * len(data) + _FREE)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError("it is cut off, or far too large")
    return found


def plan_digest(plan: Plan) -> str:
    return hashlib.sha256(_bytes(plan)).hexdigest()[:12]


def _bytes(plan: Plan) -> bytes:
    return json.dumps(plan, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()
