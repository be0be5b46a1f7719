"""Joint counts of phrase pairs from a phrase table in Moses' format."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import FormatError, clip
from ..core.files import decode, read_chunks
from ..lists.nbest import Units

Counts = dict[tuple[str, str], float]


def read_phrase_counts(path: str | Path, units: Units) -> Counts:
    """Counts of the phrase pairs that occur in a list: ``source ||| target ||| scores ||| alignment ||| n(t) n(s) n(s,t) |||``.

    The table is streamed; only lines of pairs that occur are parsed.
    """
    wanted = {
        f"{src} ||| {tgt} ".encode(): (src, tgt) for src, tgt in zip(units.src.to_pylist(), units.tgt.to_pylist(), strict=True)
    }
    out: Counts = {}
    number = 0
    for chunk in read_chunks(path):
        for line in chunk[:-1].split(b"\n"):
            number += 1
            cut = line.find(b"||| ", line.find(b" ||| ") + 5)
            pair = wanted.get(line[:cut])
            if pair is not None:
                out[pair] = _joint_count(decode(line, f"{path}:{number}"), f"{path}:{number}")
            elif cut < 0 and line.strip():
                raise _error(f"{path}:{number}", decode(line, f"{path}:{number}"))
    return out


def _joint_count(line: str, where: str) -> float:
    fields = line.split("|||")
    counts = fields[4].split() if len(fields) > 4 else []
    try:
        return float(counts[2])
    except (IndexError, ValueError):
        raise _error(where, line) from None


def _error(where: str, line: str) -> FormatError:
    return FormatError(
        where,
        expected="'source ||| target ||| scores ||| alignment ||| n(t) n(s) n(s,t)'",
        found=clip(line),
        fix="give a phrase table in Moses' text format, with counts",
    )
