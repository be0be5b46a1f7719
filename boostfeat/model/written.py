"""A model file whose bytes are as this program writes them: its weights and its plan are read by a faster parser, and the
signature is that of the very bytes, so that nothing is written again to compare it. Any other file is for ``Model.load``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ..core.strict_json import no_constant, no_repeats, parse_json
from .carried import Plan, expanded
from .deciding import decisive

_BEGIN = b'{\n "boostfeat": '
_WEIGHTS = b'\n "weights": {\n  ', b"\n },\n"
_PLAN = b'\n "features": "', b'",\n'
_BETWEEN = b",\n  "  # two weights
_AT_A_TIME = 1 << 13  # weights whose text is made
_NUL = b"\\u0000"  # which no text has
_EARLIER = {"model/1", "model/2"}  # their signature is not of what decides beside the score


class Written(NamedTuple):
    """What a file holds, and that it is what was signed."""

    obj: dict[str, Any]  # without the weights and the plan
    weights: dict[str, float]
    plan: Plan | None


def read_written(data: bytes) -> Written | None:
    """The content of a model file, None where a byte is not as this program writes it, or the signature is of another content."""
    if not data.startswith(_BEGIN):
        return None
    from msgspec import MsgspecError
    from msgspec.json import Decoder, decode

    try:
        rest, weights_text = _cut(data, *_WEIGHTS)
        rest, plan_text = _cut(rest, *_PLAN) if _PLAN[0] in rest else (rest, None)
        obj = parse_json(rest.decode(), parse_constant=no_constant, object_pairs_hook=no_repeats)
        weights = Decoder(dict[str, float]).decode(b"{" + weights_text + b"}")
        plan_bytes = None if plan_text is None else expanded(plan_text)
        digest = None if plan_bytes is None else hashlib.sha256(plan_bytes).hexdigest()[:12]
        decides = decided(obj["boostfeat"], obj["config"])
        told = signature(obj["level"], len(weights), _signed(weights, weights_text), obj["trees"], digest, decides)
        if obj["signature"] != told or obj["weights"] != {} or _NUL in weights_text or _NUL in (plan_bytes or b""):
            return None
        return Written(obj, weights, None if plan_bytes is None else decode(plan_bytes))
    except (ValueError, KeyError, TypeError, AttributeError, MsgspecError, RecursionError):  # the plain reader says what is wrong
        return None


def _cut(data: bytes, begin: bytes, end: bytes) -> tuple[bytes, bytes]:
    """(the bytes without what stands between two marks, this); ValueError unless the first mark is there once."""
    at = data.index(begin) + len(begin)
    if data.find(begin, at) >= 0:
        raise ValueError("twice")
    stop = data.index(end, at)
    return data[:at] + data[stop:], data[at:stop]


def _signed(weights: Mapping[str, float], text: bytes) -> Iterator[bytes]:
    """The text of the weights as it is signed, in parts: by name, and in ASCII. Of rare names it is another one."""
    items, names = text.split(_BETWEEN), list(weights)
    if len(items) != len(names):
        raise ValueError("a name twice")
    order = iter(sorted(range(len(names)), key=names.__getitem__))
    while some := [items[k] for k in islice(order, _AT_A_TIME)]:  # not a copy of all of it
        part = b"], [".join(some).replace(b'": ', b'", ')
        yield part if part.isascii() else part.decode().encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00")


def decided(kind: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What decides beside the score, as the signature of a file of this kind has it."""
    return {} if kind in _EARLIER else decisive(config)


def signature(
    level: str, n_weights: int, weights: Iterable[bytes], trees: list[Any], plan: str | None, decides: Mapping[str, Any]
) -> str:
    """A short hash of what a model computes and takes, after the level and the sizes.

    IN the weights as text, in parts, the digest of the plan, and what decides beside the score. The hash is of the JSON of all,
    without a plan and without what decides where there is none.
    """
    digest = hashlib.sha256(f"[{json.dumps(level)}, [".encode())
    for k, part in enumerate(weights if n_weights else ()):
        digest.update((b"], [" if k else b"[") + part)
    rest = [json.dumps(trees), *(() if plan is None else (json.dumps(plan),))]
    rest += [json.dumps(decides, sort_keys=True)] if decides else []
    digest.update(f"{']' if n_weights else ''}], {', '.join(rest)}]".encode())
    return f"boostfeat|level:{level}|weights:{n_weights}|trees:{len(trees)}|sha256:{digest.hexdigest()[:12]}"
