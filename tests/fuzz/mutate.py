"""Damaged input by number: input n of a reader is the same bytes on every machine.

Random numbers of a block of inputs are drawn at once; what is done with them is slicing of bytes, a few microseconds each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

BLOCK = 256  # inputs whose random numbers are drawn together
DRAWS = 32  # random numbers of an input
LONGEST = 20_000  # bytes

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[^\s,\"|={}\[\]():]+")
DELIMITERS = (b" ||| ", b"|||", b"\t", b" ", b",", b"=", b":", b'"', b"|", b"\n", b"-", b"[", b"]", b"{", b"}", b"(", b")")
NUMBERS = (
    *(b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"1e309", b"-1e309", b"1e308", b"-1.7976931348623157e308", b"5e-324", b"-0"),
    *(b"0", b"1", b"-1", b"2", b"3", b"7", b"999", b"65536", b"2147483647", b"2147483648", b"-2147483649", b"4294967296"),
    *(b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"1" * 400, b"0" * 400 + b"1", b"1_0", b"0x10"),
    *(b"1e400000000", b"1e-400", b".", b"-", b"+", b"+1", b"1.", b".5", b"1e", b"null", b"true", b"", b"\xd9\xa1", b"\xc2\xb2"),
)
HOSTILE = (
    *(b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x80\xa8", b"\xc2\x85"),
    *(
        *(b"\xc2\xa0", b"\xe3\x80\x80", b"\r", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"\x1b[31m"),
        *(b"\xf0\x9f\x98\x80", b"\\", b"\\u0000"),
    ),
    *(
        *(b"|||", b" ||| ||| ", b"||||", b"\n\n\n", b'"', b"[" * 3000, b'{"a":' * 2000, b"#", b"%s%n"),
        *(b"../../x", b"<script>", b"''"),
    ),
)
ESCAPES = (
    *(rb"\ud800", rb"\udc80", rb"\udfff", rb"\ud83d\ude00", rb"\u0000", rb"\u001b[31m", rb"\u2028", rb"\u202e", rb"\n", rb"\\"),
    *(rb"\"", rb"\x", rb"\u12", rb"\/", rb"\u007c\u007c\u007c", rb"\u0020", rb"\ufeff"),
)
VALUES = (
    *(b"null", b"true", b"0", b"1", b"-1", b"7", b"1.5", b"-0.0", b"1e308", b"1e-320", b"2147483648", b"9223372036854775808"),
    *(b"1" * 30, b'""', b'"x"', b'"LM0"', b'"0"', b'"../x"', b'"<b>"', b"[]", b"[[]]", b"[1]", b'["a"]', b"[null]", b"[1, 2]"),
    *(
        *(b"{}", b'{"a": 1}', b'{"": ""}', b'{"x": [1, {}]}', b'{"nodes": []}', b'"' + b"a" * 400 + b'"'),
        b"[" + b"0, " * 300 + b"0]",
    ),
)
WHOLE = (0, 1, 2, 3, 7, 8, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)

Draw = Callable[[int], int]  # the next random number below n
Mutation = Callable[[bytes, Draw, Sequence[bytes]], bytes]


def _cut(data: bytes, draw: Draw) -> tuple[int, int]:
    """A short piece, now and then a long one."""
    a = draw(len(data) + 1)
    return a, min(len(data), a + draw(1 << (1 + draw(8))))


def _pieces(data: bytes, draw: Draw) -> tuple[bytes, list[bytes]]:
    """The data in lines, fields or words, and what stands between them."""
    by = (b"\n", b"\n", b" ||| ", b"\t", b" ", b",")[draw(6)]
    return by, data.split(by)


def flip(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(1 + draw(3)):
        if out:
            out[draw(len(out))] ^= 1 << draw(8)
    return bytes(out)


def put_byte(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    a = draw(len(data) + 1)
    return data[:a] + bytes([draw(256)]) + data[a + draw(2) :]


def truncate(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    return data[: draw(len(data) + 1)]


def remove(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    a, b = _cut(data, draw)
    return data[:a] + data[b:]


def repeat(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    a, b = _cut(data, draw)
    return data[:b] + data[a:b] * (1 + draw(3)) + data[b:]


def number(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    at = found[draw(len(found))]
    return data[: at.start()] + NUMBERS[draw(len(NUMBERS))] + data[at.end() :]


def lose_delimiter(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    """One of them goes, or becomes another."""
    one = DELIMITERS[draw(len(DELIMITERS))]
    n = data.count(one)
    if not n:
        return data
    a = -1
    for _ in range(1 + draw(min(n, 64))):
        a = data.find(one, a + 1)
    return data[:a] + (DELIMITERS[draw(len(DELIMITERS))] if draw(2) else b"") + data[a + len(one) :]


def hostile(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    a = draw(len(data) + 1)
    return data[:a] + HOSTILE[draw(len(HOSTILE))] + data[a:]


def escape(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    """One of JSON's at the end of a word, of which most are strings."""
    found = list(WORD.finditer(data))
    if not found:
        return data
    a = found[draw(len(found))].end()
    return data[:a] + ESCAPES[draw(len(ESCAPES))] + data[a:]


def value(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    """A part of a JSON value becomes another one or is lost; of JSON lines, in one of them."""
    lines = data.split(b"\n") if data.startswith(b'{"boostfeat": "nbest') else [data]
    k = draw(len(lines))
    try:
        whole = json.loads(lines[k])
    except (ValueError, RecursionError):
        return data
    parts: list[tuple[Any, Any]] = []
    todo = [whole]
    for part in todo:
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        parts += [(part, key) for key in keys]
        todo += [part[key] for key in keys]
    if not parts:
        return data
    (parent, key), what = parts[draw(len(parts))], draw(8)
    if what == 0:
        del parent[key]
    elif what == 1:
        other, there = parts[draw(len(parts))]
        parent[key] = json.loads(json.dumps(other[there]))
    else:
        parent[key] = json.loads(VALUES[draw(len(VALUES))])
    lines[k] = json.dumps(whole, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def long_word(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    found = list(WORD.finditer(data))
    if not found:
        return data
    at = found[draw(len(found))]
    return data[: at.end()] + at[0] * (1 + draw(LONGEST // 4) // max(1, len(at[0]))) + data[at.end() :]


def shuffle_pieces(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    """A line, field or word is lost, given twice, or changes places with another."""
    by, pieces = _pieces(data, draw)
    i, j, what = draw(len(pieces)), draw(len(pieces)), draw(3)
    if what == 0:
        del pieces[i]
    elif what == 1:
        pieces.insert(j, pieces[i])
    else:
        pieces[i], pieces[j] = pieces[j], pieces[i]
    return by.join(pieces)


def splice(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    other = samples[draw(len(samples))]
    return data[: draw(len(data) + 1)] + other[draw(len(other) + 1) :]


def borrow_word(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    own, others = list(WORD.finditer(data)), WORD.findall(samples[draw(len(samples))])
    if not own or not others:
        return data
    at = own[draw(len(own))]
    return data[: at.start()] + others[draw(len(others))] + data[at.end() :]


def whole_number(data: bytes, draw: Draw, samples: Sequence[bytes]) -> bytes:
    """For binary files: an aligned integer of 1, 2, 4 or 8 bytes becomes another."""
    size = (1, 2, 4, 4, 8, 8)[draw(6)]
    n = len(data) // size
    if not n:
        return data
    a, value = size * draw(n), WHOLE[draw(len(WHOLE))]
    if not draw(3):
        value = int.from_bytes(data[a : a + size], "little") + (1, -1, 8, -8, 64)[draw(5)]
    return data[:a] + (value % 256**size).to_bytes(size, "little") + data[a + size :]


TEXT: tuple[Mutation, ...] = (
    *(flip, put_byte, truncate, remove, repeat, number, number, number, lose_delimiter, lose_delimiter, hostile),
    *(long_word, shuffle_pieces, shuffle_pieces, splice, borrow_word, borrow_word),
)
JSON: tuple[Mutation, ...] = (*TEXT, escape, escape, escape)
VALUE: tuple[Mutation, ...] = (*JSON, *(value,) * 8)
BINARY: tuple[Mutation, ...] = (flip, flip, put_byte, truncate, remove, repeat, whole_number, whole_number, whole_number, splice)


@lru_cache(maxsize=2)
def _drawn(name: str, block: int) -> list[list[int]]:
    rng = np.random.Generator(np.random.Philox(key=[crc32(name.encode()), block]))
    return rng.integers(0, 1 << 32, size=(BLOCK, DRAWS), dtype=np.uint64).tolist()


def damaged(name: str, n: int, samples: Sequence[bytes], mutations: Sequence[Mutation]) -> bytes:
    """Input n of a reader: one of its samples after one to four mutations."""
    row, at = _drawn(name, n // BLOCK)[n % BLOCK], 0

    def draw(below: int) -> int:
        nonlocal at
        at += 1
        # the numbers of a row go round, changed each time
        return (row[at % DRAWS] * (2 * (at // DRAWS) + 1) & 0xFFFFFFFF) * below >> 32

    data = samples[draw(len(samples))]
    for _ in range(1 + (draw(4) if draw(2) else 0)):
        data = mutations[draw(len(mutations))](data, draw, samples)[:LONGEST]
    return data
