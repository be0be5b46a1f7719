"""The model file: what its JSON holds, its signature, and the plan of its features as text.

What a plan holds is known to boostfeat.features; a model only carries it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from ..core.errors import FormatError, clip
from ..core.strict_json import parse_json
from ..trees.tree import TreeRecord

Level = Literal["local", "global"]  # units are phrases in context, or whole hypotheses
LEVELS: tuple[Level, ...] = get_args(Level)
Plan = Mapping[str, Any]
_EXPANSION, _FREE = 250, 1 << 20  # a plan may become so many times its size, and a megabyte in any case


class ModelRecord(msgspec.Struct, forbid_unknown_fields=True):
    """The object in a model file."""

    boostfeat: str
    signature: Any = None  # None: of a file that a person wrote
    level: Level = "local"
    weights: dict[str, float] = {}
    trees: list[TreeRecord] = []
    features: str | None = None  # the plan
    config: dict[str, Any] = {}
    history: list[dict[str, Any]] = []


def signature(
    level: str, weights: Mapping[str, float], trees: Sequence[Any], plan: Plan | None, decides: Mapping[str, Any]
) -> str:
    """Return a short hash of what a model computes and takes, after the level and the sizes.

    The hash is of the JSON of all, without a plan and without what decides beside the score where there is none.
    """
    parts = [json.dumps(level), json.dumps(sorted(weights.items())), json.dumps(trees)]
    parts += [] if plan is None else [json.dumps(plan_digest(plan))]
    parts += [json.dumps(decides, sort_keys=True)] if decides else []
    digest = hashlib.sha256(f"[{', '.join(parts)}]".encode()).hexdigest()[:12]
    return f"boostfeat|level:{level}|weights:{len(weights)}|trees:{len(trees)}|sha256:{digest}"


def pack(plan: Plan) -> str:
    """Return a plan as text; the same plan is the same text."""
    return base64.b64encode(zlib.compress(_bytes(plan), 7)).decode("ascii")


def unpack(text: str, where: str) -> Plan:
    """Return the plan of a text that pack() made; anything else is one line."""
    try:
        plan = parse_json(_expanded(text).decode())
        if not isinstance(plan, dict):
            raise ValueError(type(plan).__name__)
    except ValueError as error:
        expected = "the plan of its features, as 'boostfeat induce --templates' writes it"
        raise FormatError(where, expected=expected, found=clip(str(error)), fix="make the model again") from None
    return plan


def _expanded(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    reader = zlib.decompressobj()
    try:
        out = reader.decompress(data, _EXPANSION * len(data) + _FREE)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError("it is cut off, or far too large")
    return out


def plan_digest(plan: Plan) -> str:
    return hashlib.sha256(_bytes(plan)).hexdigest()[:12]


def _bytes(plan: Plan) -> bytes:
    return json.dumps(plan, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()
