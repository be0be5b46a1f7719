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
from ...core.kernels import kernel
from ...core.text import BLANKS, is_whole, split_words
from ...lists.build import ROUNDING, HypColumns, HypRecord, ReadOptions, UnitRecord
from ...lists.nbest import NBest
from ..bar_kernel import (
    NONE,
    SourceTokens,
    find_repeats,
    find_unit,
    hash_bytes,
    is_blank,
    put_bytes,
    put_unit,
    put_words,
    read_digits,
    read_number,
    read_rows_of_features,
    skip_blanks,
    source_slice,
    starts_with,
)
from ..bar_lines import BarLines, NamedValues, read_bar_list, source_tokens, string_column, unit_columns
from ..fields import (
    block_fields,
    check_links,
    format_features,
    format_number,
    group_names,
    number,
    read_features,
    sentence_id,
    split_fields,
)
from .plain_lists import check_writable, labelled_rows, lines_left_out

LAYOUT = "id ||| phrase |span,wa=..,total=.., scores| ... ||| features ||| score"
_TOTAL, _LINKS = (np.frombuffer(word, np.uint8) for word in (b"total=", b"wa="))


def read(path: str | Path, options: ReadOptions) -> NBest:
    columns_of = partial(_columns, source=source_tokens(options.source))
    return read_bar_list(path, options, columns_of, partial(parse_line, cache={}))


# ---------------------------------------------------------------------------------------------------------------------
# Blocks of lines
# ---------------------------------------------------------------------------------------------------------------------


def _columns(lines: BarLines, sent: I64, source: SourceTokens) -> HypColumns:
    lines.odd |= lines.n_fields < 3
    most, n, room, size = len(lines.bars) // 2 + 1, len(lines), lines.room, lines.block.end
    units = room.units(most, size, source)
    n_units, text_ptr, text = np.zeros(n, np.int64), np.zeros(n + 1, np.int64), room.array("text", size, np.uint8)
    places = [room.array(f"places.{k}", most, np.int32) for k in range(3)]  # units, starts in source and target
    blocks = [room.array(f"blocks.{k}", most) for k in range(3)]  # source start of units, begin and end of their features
    given = (lines.bars, sent, *lines.field(1), lines.first_bars(1), source)
    n_occ = _read_blocks(lines.buf, *given, units, *blocks, n_units, text_ptr, text, *places, lines.odd)
    unit_idx, *starts = (place[:n_occ].copy() for place in places)
    texts, score = string_column(text_ptr, text[: text_ptr[-1]].copy()), lines.numbers(lines.field(3))
    of_units, totals = _features(lines, [column[: units.n[0]] for column in blocks[1:]], n_units, unit_idx)
    return HypColumns._make([sent, texts, score, *totals, n_units, unit_idx, *starts, unit_columns(units, of_units)])


def _features(lines: BarLines, of_units: list[I64], n_units: I64, unit_idx: I32) -> tuple[NamedValues, NamedValues]:
    """Features of the units, and of the lines those that no unit carries; lines whose totals are not the units' sums are odd."""
    v, n = len(of_units[0]), len(lines)
    both = [np.append(own, totals) for own, totals in zip(of_units, lines.field(2), strict=True)]
    found, counts, odd = lines.room.features(lines.block.end), np.empty(v + n, np.int64), np.zeros(v + n, bool)
    read_rows_of_features(lines.buf, *both, found, counts, odd)
    names, _, idx, val = lines.named(found, counts)
    find_repeats(counts, idx, len(names), odd)
    lines.odd |= odd[v:]
    ptr, kept = offsets(counts), np.ones(len(idx), bool)
    _check_totals(ptr, idx, val, n_units, unit_idx, len(names), odd, kept, lines.odd)
    end = ptr[v]
    n_kept = np.diff(offsets(kept[end:])[ptr[v:] - end])
    totals = NamedValues(names, n_kept, idx[end:][kept[end:]], val[end:][kept[end:]])
    return NamedValues(names, counts[:v], idx[:end], val[:end]), totals


@kernel
def _block_parts(buf, i, end):  # type: ignore[no-untyped-def]
    """(first source token, last, begin and end of the links, total, begin of the features) of a block; the last is -1 where it
    is irregular.
    """
    total = np.nan
    first, i = read_digits(buf, i, end)
    if i < 0 or i >= end or buf[i] != 45:
        return first, first, i, i, total, NONE
    last, i = read_digits(buf, i + 1, end)
    if i < 0 or i >= end or buf[i] != 44 or first > last:
        return first, last, i, i, total, NONE
    i = skip_blanks(buf, i + 1, end)
    links = links_end = i
    if starts_with(buf, i, end, _LINKS):
        links = links_end = i + len(_LINKS)
        while links_end < end and buf[links_end] != 44:
            links_end += 1
        i = skip_blanks(buf, min(links_end + 1, end), end)
    if starts_with(buf, i, end, _TOTAL):
        total, i = read_number(buf, i + len(_TOTAL), end)
        if i < 0 or i >= end or buf[i] != 44:
            return first, last, links, links_end, total, NONE
        i += 1
    return first, last, links, links_end, total, i


@kernel
def _are_links(buf, i, end, n_src, n_tgt):  # type: ignore[no-untyped-def]
    """Whether buf[i:end] is words like 0-1, each a link between n_src source and n_tgt target words."""
    while i < end:
        if is_blank(buf[i]):
            i += 1
            continue
        src, i = read_digits(buf, i, end)
        if i < 0 or i >= end or buf[i] != 45:
            return False
        tgt, i = read_digits(buf, i + 1, end)
        if i < 0 or (i < end and not is_blank(buf[i])) or src >= n_src or tgt >= n_tgt:
            return False
    return True


@kernel
def _add_block(buf, phrase, phrase_end, block_end, sent, source, units, src_start, begin, end):  # type: ignore[no-untyped-def]
    """Put down the unit of a phrase and its block behind the others; False where it is irregular."""
    first, last, links, links_end, total, features = _block_parts(buf, phrase_end + 1, block_end)
    if features < 0:
        return False
    src_a, src_b = source_slice(source, sent, first, last + 1)
    u, n_src = units.n[0], last - first + 1
    if src_a < 0 or units.src_ptr[u] + src_b - src_a > len(units.src):
        return False
    n_tgt = put_unit(units, buf, phrase, phrase_end, source, src_a, src_b, n_src, total)
    if n_tgt == 0:
        links = links_end  # of a word that it drops Moses says 0-0: links to nothing are left out
    if not _are_links(buf, links, links_end, n_src, n_tgt):
        units.n[0] = u
        return False
    units.align_ptr[u + 1], _ = put_words(buf, links, links_end, units.align, units.align_ptr[u])
    src_start[u], begin[u], end[u] = first, features, block_end
    return True


@kernel
def _read_blocks(  # type: ignore[no-untyped-def]
    buf, bars, sent, begin, end, first_bar, source, units, unit_start, features_begin, features_end, n_units, text_ptr, text,
    unit, src_start, tgt_start, odd,
):  # fmt: skip
    """Phrases and their blocks. OUT units, each with its source start and where its features are; n_units and text of lines;
    unit, src_start, tgt_start of occurrences.

    What was seen before, in the same sentence if its words are known, is not parsed again. Returns the number of occurrences.
    """
    table, hash1, hash2, tgt, tgt_ptr, tgt_len = units.table, units.hash, units.hash2, units.tgt, units.tgt_ptr, units.tgt_len
    n_occ, has_source = 0, len(source.start) > 0
    for r in range(len(sent)):
        at = text_ptr[r]
        i, k, n, n_tokens, fine = begin[r], first_bar[r], 0, 0, not odd[r]
        seed = np.uint64(sent[r] + 1 if has_source else 0)
        while fine and bars[k] < end[r]:  # phrase, block, phrase, block, ...
            if bars[k + 1] >= end[r]:
                fine = False
                break
            phrase, phrase_end, block_end = skip_blanks(buf, i, bars[k]), bars[k], bars[k + 1]
            h1, h2 = hash_bytes(buf, phrase, block_end, seed, np.uint64(phrase_end - phrase))
            slot = find_unit(table, hash1, hash2, h1, h2)
            u = np.int64(table[slot])
            if u < 0:
                u = units.n[0]
                given = (unit_start, features_begin, features_end)
                fine = _add_block(buf, phrase, phrase_end, block_end, sent[r], source, units, *given)
                if not fine:
                    break
                table[slot], hash1[u], hash2[u] = u, h1, h2
            if n_tokens and tgt_len[u]:
                text[at] = 32
                at += 1
            at = put_bytes(tgt, tgt_ptr[u], tgt_ptr[u + 1], text, at)
            unit[n_occ + n], src_start[n_occ + n], tgt_start[n_occ + n] = u, unit_start[u], n_tokens
            n_tokens += tgt_len[u]
            n += 1
            i = block_end + 1
            k += 2
        if fine and skip_blanks(buf, i, end[r]) == end[r]:
            n_units[r], text_ptr[r + 1] = n, at
            n_occ += n
        else:
            odd[r], text_ptr[r + 1] = True, text_ptr[r]
    return n_occ


@kernel
def _check_totals(ptr, idx, val, n_units, unit_idx, n_names, odd_units, kept, odd):  # type: ignore[no-untyped-def]
    """Compare the totals of lines with the sums over their units.

    IN features (ptr, idx, val) of the units and, behind them, of the lines. OUT kept: of the totals those that no unit has;
    odd[r]: lines whose totals are others, or that have an odd unit.
    """
    sums, sizes, last = np.zeros(n_names), np.zeros(n_names), np.full(n_names, -1, np.int64)
    n_distinct, u = len(odd_units) - len(odd), 0
    for r in range(len(n_units)):
        for _ in range(n_units[r]):
            odd[r] |= odd_units[unit_idx[u]]
            for j in range(ptr[unit_idx[u]], ptr[unit_idx[u] + 1]):
                k = idx[j]
                if last[k] != r:
                    sums[k], sizes[k], last[k] = 0.0, 0.0, r
                sums[k] += val[j]
                sizes[k] += abs(val[j])
            u += 1
        for i in range(ptr[n_distinct + r], ptr[n_distinct + r + 1]):
            k, total = idx[i], val[i]
            kept[i] = last[k] != r
            if not kept[i] and abs(sums[k] - total) > ROUNDING * (sizes[k] + abs(total)) + 1e-6:
                odd[r] = True


# ---------------------------------------------------------------------------------------------------------------------
# One line
# ---------------------------------------------------------------------------------------------------------------------


def parse_line(line: str, where: str, cache: dict[str, UnitRecord]) -> HypRecord:
    """Read one hypothesis. Blocks already in ``cache`` (by their text) are not parsed again."""
    parts = split_fields(line, where, least=3, layout=LAYOUT)
    sent, pieces = sentence_id(parts[0], where), parts[1].split("|")
    if len(pieces) % 2 == 0 or split_words(pieces[-1]):
        found = clip(pieces[-1].strip(BLANKS) or parts[1])
        raise FormatError(where, expected="a block |span,...| after every phrase", found=found, fix="was the line cut?")
    units, tokens = list[UnitRecord](), list[str]()
    for phrase, block in zip(pieces[:-1:2], pieces[1::2], strict=True):
        words = split_words(phrase)
        if block not in cache:
            cache[block] = _parse_block(block, where)
        units.append(_placed(cache[block], len(tokens), len(words), where))
        tokens += words
    score = number(split_words(parts[3])[0], where, "the score") if len(parts) > 3 and parts[3] else nan
    return HypRecord(sent, " ".join(tokens), where, score, units=units, totals=read_features(parts[2], where))


def _placed(unit: UnitRecord, start: int, n_words: int, where: str) -> UnitRecord:
    """The unit of a block at its place in the text. Of a word that it drops Moses says 0-0: links to nothing are left out."""
    if n_words and unit.align and unit.src:
        check_links(unit.align, where, n_src=unit.src[1] - unit.src[0], n_tgt=n_words)
    return unit._replace(tgt=(start, start + n_words), align=unit.align if n_words else "")


def _parse_block(block: str, where: str) -> UnitRecord:
    span, align, total, rest = block_fields(block)
    first, dash, last = span.partition("-")
    if not (dash and is_whole(first) and is_whole(last) and int(first) <= int(last) < 2**31 - 1):
        raise FormatError(where, expected="a source span like 0-1 in a block", found=clip(span))
    return UnitRecord(
        features=read_features(rest, where),
        src=(int(first), int(last) + 1),
        align=" ".join(split_words(align)),
        score=number(total, where, "total") if total else nan,
    )


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
    units, rows, groups = nbest.units, nbest.units.sparse, group_names(nbest.unit_names)
    names, tails = nbest.sparse_names.to_pylist(), []
    for u, align in enumerate(units.align.to_pylist()):
        total = "" if np.isnan(units.score[u]) else f"total={format_number(units.score[u])}, "
        at = range(rows.ptr[u], rows.ptr[u + 1])
        sparse = "".join(f" {names[rows.idx[i]]}= {format_number(rows.val[i])}" for i in at)
        tails.append(f"wa={align} ,{total}{format_features(groups, units.x[u])}{sparse}")
    return tails
