"""Moses n-best lists with -report-segmentation-enriched: the scores of every phrase inline.

    0 ||| a |0-0,wa=0-0 ,total=-0.4, LM0= -7.2 TM0= -0.8 -2.7| house |1-1,...|  ||| LM0= ... ||| -0.8 ||| 0=0 1=1 ||| 0-0 1-1

A kernel reads what decoders write, equal blocks only once; a line that it does not understand is read by ``parse_line``.
"""

from __future__ import annotations

from functools import partial
from math import nan
from pathlib import Path
from typing import IO

import numpy as np

from ...core.arrays import I32, I64, offsets
from ...core.errors import FormatError, InputError, clip
from ...core.text import BLANKS, is_whole, split_words
from ...lists.build import HypColumns, HypRecord, ReadOptions, UnitRecord
from ...lists.nbest import NBest, string_column
from .. import bar_kernel as kernels
from .. import fields
from ..bar_lines import BarLines, NamedValues, read_bar_list, source_tokens
from .plain_lists import check_writable, labelled_rows, lines_left_out

LAYOUT = "id ||| phrase |span,wa=..,total=.., scores| ... ||| features ||| score"


def read(path: str | Path, options: ReadOptions) -> NBest:
    columns_of = partial(_columns, source=source_tokens(options.source))
    return read_bar_list(path, options, columns_of, partial(parse_line, cache={}))


# ---------------------------------------------------------------------------------------------------------------------
# Blocks of lines
# ---------------------------------------------------------------------------------------------------------------------


def _columns(lines: BarLines, sent: I64, source: kernels.SourceTokens) -> HypColumns:
    lines.odd |= lines.n_fields < 3
    most, n, room = len(lines.bars) // 2 + 1, len(lines), lines.room
    units, places = kernels.room_for_units(room, most), room.arrays("place", 3, most, np.int32)
    n_units, text_ptr, text = np.empty(n, np.int64), room.array("text ptr", n + 1), room.array("text", lines.block.end, np.uint8)
    given = (lines.bars, sent, *lines.field(1), lines.first_bars(1), source)
    n_occ, n_distinct = kernels.read_blocks(lines.buf, *given, units, n_units, text_ptr, text, *places, lines.odd)
    unit_idx, *starts = (own[:n_occ] for own in places)  # and starts in source and target
    texts, score = string_column(text_ptr, text), lines.numbers(lines.field(3))
    of_units, totals = _features(lines, units.parts[kernels.FEATURES : kernels.SENT, :n_distinct], n_units, unit_idx)
    columns = lines.units(units, n_distinct, of_units, source.text, text=lines.buf, links=lines.buf)
    return HypColumns._make([sent, texts, score, *totals, n_units, unit_idx, *starts, columns])


def _features(lines: BarLines, of_units: I64, n_units: I64, unit_idx: I32) -> tuple[NamedValues, NamedValues]:
    """Features of the units, and of the lines those that no unit carries; lines whose totals are not the units' sums are odd."""
    v, n = len(of_units[0]), len(lines)
    both = [np.append(own, totals) for own, totals in zip(of_units, lines.field(2), strict=True)]
    odd = np.zeros(v + n, bool)
    names, counts, idx, val = lines.features((both[0], both[1]), odd)
    lines.odd |= odd[v:]
    ptr, kept = offsets(counts), np.ones(len(idx), bool)
    kernels.check_totals(ptr, idx, val, n_units, unit_idx, len(names), odd, kept, lines.odd)
    end = ptr[v]
    n_kept = np.diff(offsets(kept[end:])[ptr[v:] - end])
    totals = NamedValues(names, n_kept, idx[end:][kept[end:]], val[end:][kept[end:]])
    return NamedValues(names, counts[:v], idx[:end], val[:end]), totals


# ---------------------------------------------------------------------------------------------------------------------
# One line
# ---------------------------------------------------------------------------------------------------------------------


def parse_line(line: str, where: str, cache: dict[str, UnitRecord]) -> HypRecord:
    """Read one hypothesis. Blocks already in ``cache`` (by their text) are not parsed again."""
    parts = fields.split_fields(line, where, least=3, layout=LAYOUT)
    sent, pieces = fields.sentence_id(parts[0], where), parts[1].split("|")
    if len(pieces) % 2 == 0 or split_words(pieces[-1]):
        found = clip(pieces[-1].strip(BLANKS) or parts[1])
        raise FormatError(where, expected="a block |span,...| after every phrase", found=found, fix="was the line cut?")
    units, tokens = list[UnitRecord](), list[str]()
    for phrase, block in zip(pieces[:-1:2], pieces[1::2], strict=True):
        words = split_words(phrase)
        if block not in cache:
            cache[block] = _parse_block(block, where)
        unit, start = cache[block], len(tokens)
        if words and unit.align and unit.src:
            fields.check_links(unit.align, where, n_src=unit.src[1] - unit.src[0], n_tgt=len(words))
        # of a word that it drops Moses says 0-0: links to nothing are left out
        units.append(unit._replace(tgt=(start, start + len(words)), align=unit.align if words else ""))
        tokens += words
    score = fields.number(split_words(parts[3])[0], where, "the score") if len(parts) > 3 and parts[3] else nan
    return HypRecord(sent, " ".join(tokens), where, score, units=units, totals=fields.read_features(parts[2], where))


def _parse_block(block: str, where: str) -> UnitRecord:
    span, align, total, rest = fields.block_fields(block)
    first, dash, last = span.partition("-")
    if not (dash and is_whole(first) and is_whole(last) and int(first) <= int(last) < 2**31 - 1):
        raise FormatError(where, expected="a source span like 0-1 in a block", found=clip(span))
    features, score = fields.read_features(rest, where), fields.number(total, where, "total") if total else nan
    return UnitRecord(features, (int(first), int(last) + 1), align=" ".join(split_words(align)), score=score)


# ---------------------------------------------------------------------------------------------------------------------
# The writer
# ---------------------------------------------------------------------------------------------------------------------


def write(nbest: NBest, stream: IO[bytes]) -> None:
    """Write a list whose units have spans and, one after the other, spell the texts; ``left_out`` has no place."""
    _check_units(nbest)
    units, texts, tails = nbest.units, nbest.text.to_pylist(), _block_tails(nbest)
    phrases, n_src = units.tgt.to_pylist(), units.src_len.tolist()
    # totals of what units carry only repeat their sums: ten digits spare the reader the noise of the last ones
    totals = nbest.global_features.copy()
    for j in [j for j, name in enumerate(nbest.global_names) if name not in nbest.extra_names]:
        totals[:, j] = [float(f"{value:.10g}") for value in totals[:, j].tolist()]
    for h, (sent, features, score) in enumerate(labelled_rows(nbest, totals)):
        at = slice(nbest.unit_ptr[h], nbest.unit_ptr[h + 1])
        own, starts = nbest.unit_idx[at].tolist(), nbest.src_start[at].tolist()
        if " ".join(phrases[u] for u in own if phrases[u]) != texts[h]:
            found = "units that spell something else" if own else "no units"
            raise InputError(
                f"sentence {sent}: expected units that spell the text {clip(texts[h])} to write Moses' blocks, "
                f"found {found}; write moses or jsonl instead"
            )
        blocks = [f"{phrases[u]} |{s}-{s + n_src[u] - 1},{tails[u]}| ".lstrip(" ") for u, s in zip(own, starts, strict=True)]
        stream.write(f"{sent} ||| {''.join(blocks)} ||| {features} ||| {score}\n".encode())


left_out = lines_left_out


def _check_units(nbest: NBest) -> None:
    """Raise for what a block cannot hold: it would read back as something else."""
    units = nbest.units
    check_writable(nbest, "|")

    def refuse(expected: str, found: str) -> None:
        raise InputError(f"expected {expected} to write Moses' blocks, found {found}; write jsonl instead")

    if nbest.n_occurrences and (nbest.src_start.min() < 0 or units.src_len.min() < 1 or units.tgt_len.min() < 0):
        refuse("units with source and target spans", "some without")
    for what, column, signs in (("phrases", units.tgt, "|"), ("alignments", units.align, "|,")):
        for text in column.dictionary_encode().dictionary.to_pylist():
            if any(sign in text for sign in signs):
                refuse(f"{what} without {' and '.join(signs)}", clip(text))
    if "total" in (*nbest.unit_names, *nbest.sparse_names.to_pylist()):
        refuse("features of another name than 'total', which is a block's score,", "one")


def _block_tails(nbest: NBest) -> list[str]:
    """Return what follows the span in the block of each distinct unit."""
    units, rows, groups = nbest.units, nbest.units.sparse, fields.group_names(nbest.unit_names)
    names, tails = nbest.sparse_names.to_pylist(), []
    for u, align in enumerate(units.align.to_pylist()):
        total = "" if np.isnan(units.score[u]) else f"total={fields.format_number(units.score[u])}, "
        at = range(rows.ptr[u], rows.ptr[u + 1])
        sparse = "".join(f" {names[rows.idx[i]]}= {fields.format_number(rows.val[i])}" for i in at)
        tails.append(f"wa={align} ,{total}{fields.format_features(groups, units.x[u])}{sparse}")
    return tails
