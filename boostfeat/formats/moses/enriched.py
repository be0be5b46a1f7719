"""Moses n-best lists with -report-segmentation-enriched: the scores of every phrase inline.

    0 ||| a |0-0,wa=0-0 ,total=-0.4, LM0= -7.2 TM0= -0.8 -2.7| house |1-1,...|  ||| LM0= ... ||| -0.8 ||| 0=0 1=1 ||| 0-0 1-1

Two readers of the same language: ``parse_line`` in plain Python, which handles every line and makes every error, and a
numba kernel that reads lines whose blocks all list the same features, parsing equal blocks only once. The kernel stops
at the first line it does not understand and the plain reader takes over from there.
"""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import IO

import numpy as np

from ...core.errors import FormatError, InputError, clip
from ...core.text import BLANKS, is_whole, split_words
from ...lists.build import HypRecord, ReadOptions, UnitRecord
from ...lists.nbest import NBest
from ..columns import read_lines_twice
from ..fields import check_links, most_fields, name_values, number, sentence_id, split_fields
from .enriched_fast import LAYOUT, FastReader
from .labels import block_fields, feature_groups, format_features, format_number, group_names
from .nbest import BLOCK, check_writable, lines_left_out


def sniff(head: str) -> bool:
    return most_fields(head, _is_enriched)


def _is_enriched(fields: list[str]) -> bool | None:
    """A hypothesis without words has no blocks, and tells neither."""
    return BLOCK.search(fields[1]) is not None if fields[1] else None


def read(path: str | Path, options: ReadOptions) -> NBest:
    """Read a list; see the module's docstring for the two ways in."""
    cache: dict[str, UnitRecord] = {}
    return read_lines_twice(path, options, FastReader.for_list, lambda line, where: parse_line(line, where, cache))


# ---------------------------------------------------------------------------------------------------------------------
# The plain reader
# ---------------------------------------------------------------------------------------------------------------------


def parse_line(line: str, where: str, cache: dict[str, UnitRecord]) -> HypRecord:
    """One hypothesis. Blocks already in ``cache`` (by their text) are not parsed again."""
    parts = split_fields(line, where, least=3, layout=LAYOUT)
    sent = sentence_id(parts[0], where)
    pieces = parts[1].split("|")
    if len(pieces) % 2 == 0 or split_words(pieces[-1]):
        raise FormatError(
            where,
            expected="a block |span,...| after every phrase",
            found=clip(pieces[-1].strip(BLANKS) or parts[1]),
            fix="was the line cut?",
        )
    units, tokens = [], []  # type: tuple[list[UnitRecord], list[str]]
    for phrase, block in zip(pieces[:-1:2], pieces[1::2], strict=True):
        own = split_words(phrase)
        unit = cache.get(block)
        if unit is None:
            unit = cache[block] = _parse_block(block, where)
        units.append(_placed(unit, len(tokens), len(own), where))
        tokens += own
    score = number(split_words(parts[3])[0], where, "the score") if len(parts) > 3 and parts[3] else nan
    totals = name_values(feature_groups(parts[2], where), where)
    return HypRecord(sent, " ".join(tokens), where, score, units=units, totals=totals)


def _placed(unit: UnitRecord, start: int, n_words: int, where: str) -> UnitRecord:
    """The unit of a block at its place in the text. Of a word that it drops Moses says 0-0: links to nothing are left out."""
    if n_words and unit.align and unit.src:
        check_links(unit.align, where, n_src=unit.src[1] - unit.src[0], n_tgt=n_words)
    return unit._replace(tgt=(start, start + n_words), align=unit.align if n_words else "")


def _parse_block(block: str, where: str) -> UnitRecord:
    span, align, total, rest = block_fields(block)
    first, dash, last = span.partition("-")
    if not (dash and is_whole(first) and is_whole(last) and int(first) <= int(last) < 2**31 - 1):
        raise FormatError(where, expected="a source span like 0-1 in a block", found=clip(span), fix="repair or remove this line")
    return UnitRecord(
        features=name_values(feature_groups(rest, where), where),
        src=(int(first), int(last) + 1),
        align=" ".join(split_words(align)),
        score=number(total, where, "total") if total else nan,
    )


# ---------------------------------------------------------------------------------------------------------------------
# The writer
# ---------------------------------------------------------------------------------------------------------------------


def write(nbest: NBest, stream: IO[bytes]) -> None:
    """Write a list whose units have spans and, one after the other, spell the texts; ``left_out`` has no place."""
    units = nbest.units
    _check_units(nbest)
    groups, total_groups = group_names(nbest.unit_names), group_names(nbest.global_names)
    sparse_names = nbest.sparse_names.to_pylist()
    own_sparse = nbest.global_sparse
    texts, phrases, tails = nbest.text.to_pylist(), units.tgt.to_pylist(), _block_tails(nbest, groups, sparse_names)
    # totals of what units carry only repeat their sums: ten digits spare the reader the noise of the last ones
    redundant = [name not in nbest.extra_names for name in nbest.global_names]
    totals = nbest.global_features
    buffer = []
    for s, sent in enumerate(nbest.ids):
        for h in range(nbest.hyp_ptr[s], nbest.hyp_ptr[s + 1]):
            pieces = []
            own = nbest.unit_idx[nbest.unit_ptr[h] : nbest.unit_ptr[h + 1]].tolist()
            if " ".join(phrases[u] for u in own if phrases[u]) != texts[h]:
                found = "units that spell something else" if own else "no units"
                raise InputError(
                    f"sentence {sent}: expected units that spell the text {clip(texts[h])} to write Moses' blocks, "
                    f"found {found}; write moses or jsonl instead"
                )
            for r in range(nbest.unit_ptr[h], nbest.unit_ptr[h + 1]):
                u, first = nbest.unit_idx[r], nbest.src_start[r]
                pieces.append(f"{phrases[u]} |{first}-{first + units.src_len[u] - 1},{tails[u]}| ".lstrip(" "))
            row = slice(own_sparse.indptr[h], own_sparse.indptr[h + 1])
            sparse = [
                f"{sparse_names[j]}= {format_number(v)}"
                for j, v in zip(own_sparse.indices[row], own_sparse.data[row], strict=True)
            ]
            row_totals = [float(f"{v:.10g}") if r else v for v, r in zip(totals[h], redundant, strict=True)]
            features = " ".join([format_features(total_groups, row_totals), *sparse]).strip(" ")
            score = "" if np.isnan(nbest.score[h]) else format_number(nbest.score[h])
            buffer.append(f"{sent} ||| {''.join(pieces)} ||| {features} ||| {score}\n")
        stream.write("".join(buffer).encode())
        buffer.clear()


left_out = lines_left_out


def _check_units(nbest: NBest) -> None:
    """Raise for what a block cannot hold: it would read back as something else."""
    units = nbest.units
    check_writable(nbest, "|")
    if nbest.n_occurrences and (nbest.src_start.min() < 0 or units.src_len.min() < 1 or units.tgt_len.min() < 0):
        raise InputError(
            "expected units with source and target spans to write Moses' blocks, found some without; write jsonl instead"
        )
    for what, column, signs in (("phrases", units.tgt, "|"), ("alignments", units.align, "|,")):
        for text in column.dictionary_encode().dictionary.to_pylist():
            if any(sign in text for sign in signs):
                raise InputError(
                    f"expected {what} without {' and '.join(signs)} to write Moses' blocks, found {clip(text)}; "
                    "write jsonl instead"
                )
    if "total" in (*nbest.unit_names, *nbest.sparse_names.to_pylist()):
        raise InputError(
            "expected features of another name than 'total', which is a block's score, found one; write jsonl instead"
        )


def _block_tails(nbest: NBest, groups: list[tuple[str, list[int]]], sparse_names: list[str]) -> list[str]:
    """What follows the span in the block of each distinct unit."""
    units, rows = nbest.units, nbest.units.sparse
    tails = []
    for u, align in enumerate(units.align.to_pylist()):
        total = "" if np.isnan(units.score[u]) else f"total={format_number(units.score[u])}, "
        at = range(rows.ptr[u], rows.ptr[u + 1])
        sparse = "".join(f" {sparse_names[rows.idx[i]]}= {format_number(rows.val[i])}" for i in at)
        tails.append(f"wa={align} ,{total}{format_features(groups, units.x[u])}{sparse}")
    return tails
