"""Joint counts of phrase pairs from a phrase table in Moses' format."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..formats.moses.table_files import SOURCE, TARGET, read_entries
from ..lists.nbest import Units

Counts = dict[tuple[str, str], float]


def read_phrase_counts(path: str | Path, units: Units) -> Counts:
    """Counts of the phrase pairs that occur in a list: ``source ||| target ||| scores ||| alignment ||| n(t) n(s) n(s,t) |||``.

    The table is streamed; only lines of pairs that occur are parsed.
    """
    units_of = zip(units.src.to_pylist(), units.tgt.to_pylist(), strict=True)
    wanted = {(src.encode(), tgt.encode()): (src, tgt) for src, tgt in units_of}
    out: Counts = {}
    for entries in read_entries(path):
        pairs = list(zip(entries.contents(SOURCE).to_pylist(), entries.contents(TARGET).to_pylist(), strict=True))
        rows = [row for row, pair in enumerate(pairs) if pair in wanted]
        counts = entries.take(np.array(rows, np.int64)).joint_counts()
        out |= {wanted[pairs[row]]: count for row, count in zip(rows, counts.tolist(), strict=True)}
    return out
