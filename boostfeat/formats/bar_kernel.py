"""Kernels over the bytes of lists whose fields are separated by ``|||``: lines, fields, words, numbers, labelled features.

They understand what decoders write. A row that has something else in it (a number whose last bit is not certain, a sign where
none should be) is marked as odd; the reader of its format reads that line again in Python, or says there what is wrong.
"""

from __future__ import annotations

from collections import namedtuple
from fractions import Fraction

import numpy as np

from ..core.arrays import FACTOR, Array, mix
from ..core.kernels import kernel
from ..lists.build import ROUNDING

_TOTAL, _LINKS = (np.frombuffer(word, np.uint8) for word in (b"total=", b"wa="))
NONE = np.int64(-1)  # a number or a place that there is not
_1, _8, _16 = np.uint64(1), np.uint64(8), np.uint64(16)  # positions are unsigned: numba need not look for negative ones
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)  # of eight bytes
_BARS, _ENDS = _ONES * np.uint64(124), _ONES * np.uint64(10)
_TENS = np.array([10.0**k for k in range(23)])  # all exact
_MOST = 100  # the largest power of ten in the tables
_POWERS = [Fraction(10) ** k for k in range(-_MOST, _MOST + 1)]
_HIGH = np.array([float(p) for p in _POWERS])
_LOW = np.array([float(p - Fraction(float(p))) for p in _POWERS])  # what _HIGH misses


@kernel
def is_digit(c):  # type: ignore[no-untyped-def]
    return 48 <= c <= 57


@kernel
def is_blank(c):  # type: ignore[no-untyped-def]
    """A space or a tab."""
    return c == 32 or c == 9


@kernel
def read_number(buf, begin, end):  # type: ignore[no-untyped-def]
    """(value, position after it) of a decimal number; position -1 where its last bit is not certain (or it is none)."""
    i, stop = np.uint64(begin), np.uint64(end)
    negative = False
    if i < stop and (buf[i] == 45 or buf[i] == 43):
        negative = buf[i] == 45
        i += _1
    first = i
    mantissa, i = _more_digits(buf, i, stop, np.int64(0))
    digits, scale = i - first, np.int64(0)
    if i < stop and buf[i] == 46 and mantissa >= 0:
        i += _1
        first = i
        mantissa, i = _more_digits(buf, i, stop, mantissa)
        digits += i - first
        scale = -np.int64(i - first)
    if digits == 0 or mantissa < 0:
        return 0.0, NONE
    if i < stop and (buf[i] == 101 or buf[i] == 69):
        i += _1
        below = False
        if i < stop and (buf[i] == 45 or buf[i] == 43):
            below = buf[i] == 45
            i += _1
        if i >= stop or not is_digit(buf[i]):
            return 0.0, NONE
        exponent = np.int64(0)
        while i < stop and is_digit(buf[i]):
            exponent = min(exponent * 10 + np.int64(buf[i]) - 48, np.int64(9999))
            i += _1
        scale += -exponent if below else exponent
    if mantissa == 0:
        return 0.0, np.int64(i)
    value, certain = _scaled(mantissa, scale)
    return (-value if negative else value), (np.int64(i) if certain else NONE)


@kernel
def _more_digits(buf, i, stop, value):  # type: ignore[no-untyped-def]
    """(whole number that continues ``value``, position after its digits); -1 where it, or the nearest float, has over 63 bits."""
    while i < stop and is_digit(buf[i]):
        if value > 922_337_203_685_477_528:
            return NONE, i
        value = value * 10 + np.int64(buf[i]) - 48
        i += _1
    return value, i


@kernel
def _scaled(mantissa, scale):  # type: ignore[no-untyped-def]
    """(mantissa * 10**scale rounded once, whether that is certain)."""
    if mantissa < 1 << 53 and -22 <= scale <= 22:  # both exact: one rounding
        return (mantissa / _TENS[-scale] if scale < 0 else mantissa * _TENS[scale]), True
    if scale < -_MOST or scale > _MOST:
        return 0.0, False
    # in twice the precision, to 2**-100 of the value; certain where the nearest number does not change within that
    a = np.float64(mantissa)
    rest = np.float64(mantissa - np.int64(a))
    high, low = _HIGH[scale + _MOST], _LOW[scale + _MOST]
    product, error = _product(a, high)
    error += a * low + rest * high
    slack = product * 2.0**-100
    return product + error, product + (error - slack) == product + (error + slack)


@kernel
def _product(a, b):  # type: ignore[no-untyped-def]
    """a * b as a sum of two numbers, exactly (Dekker)."""
    p = a * b
    x, y = a * 134_217_729.0, b * 134_217_729.0  # 2**27 + 1: halves of 26 bits
    a1, b1 = x - (x - a), y - (y - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@kernel
def starts_with(buf, begin, end, word):  # type: ignore[no-untyped-def]
    return begin + len(word) <= end and same_bytes(buf, begin, word, 0, len(word))


@kernel
def same_bytes(a, i, b, j, n):  # type: ignore[no-untyped-def]
    """Whether a[i:i+n] and b[j:j+n] are equal."""
    k, other, stop = np.uint64(i), np.uint64(j), np.uint64(i + n)
    while k + _8 <= stop:
        if _word(a, k) != _word(b, other):
            return False
        k += _8
        other += _8
    while k < stop:
        if a[k] != b[other]:
            return False
        k += _1
        other += _1
    return True


@kernel
def read_digits(buf, begin, end, most=9):  # type: ignore[no-untyped-def]
    """(whole number, position after it); position -1 if there is none of up to so many digits."""
    value, first, stop = np.int64(0), np.uint64(begin), np.uint64(min(end, begin + most))
    i = first
    while i < stop and is_digit(buf[i]):
        value = value * 10 + np.int64(buf[i]) - 48
        i += _1
    return value, (np.int64(i) if i > first else NONE)


@kernel
def _word(buf, i):  # type: ignore[no-untyped-def]
    """Eight bytes from i as one number: LLVM makes them one load."""
    word = np.uint64(buf[i]) | np.uint64(buf[i + _1]) << np.uint64(8)
    word |= np.uint64(buf[i + np.uint64(2)]) << np.uint64(16) | np.uint64(buf[i + np.uint64(3)]) << np.uint64(24)
    word |= np.uint64(buf[i + np.uint64(4)]) << np.uint64(32) | np.uint64(buf[i + np.uint64(5)]) << np.uint64(40)
    return word | np.uint64(buf[i + np.uint64(6)]) << np.uint64(48) | np.uint64(buf[i + np.uint64(7)]) << np.uint64(56)


@kernel
def hash_bytes(buf, begin, end, h):  # type: ignore[no-untyped-def]
    """A hash of buf[begin:end] and its length, continued from h. Two chains, of every other eight bytes, run side by side."""
    i, stop = np.uint64(begin), np.uint64(end)
    one, two = mix(h, stop - i, FACTOR), h
    while i + _16 <= stop:
        one, two = mix(one, _word(buf, i), FACTOR), mix(two, _word(buf, i + _8), FACTOR)
        i += _16
    if i + _8 <= stop:
        one = mix(one, _word(buf, i), FACTOR)
        i += _8
    word = np.uint64(0)
    while i < stop:
        word = (word << _8) | np.uint64(buf[i])
        i += _1
    return mix(mix(two, word, FACTOR), one, FACTOR)


@kernel
def put_bytes(buf, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copy buf[begin:end] to OUT out[at:]; returns the position after it."""
    i, stop, to = np.uint64(begin), np.uint64(end), np.uint64(at)
    while i < stop:
        out[to] = buf[i]
        i += _1
        to += _1
    return np.int64(to)


@kernel
def put_words(buf, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copy the words of buf[begin:end] to OUT out[at:] with single spaces; (position after them, number of words).

    Words as in core.text: between blanks and tabs.
    """
    n, i, stop, to = 0, np.uint64(begin), np.uint64(end), np.uint64(at)
    while i < stop:
        if is_blank(buf[i]):
            i += _1
            continue
        if n:
            out[to] = 32
            to += _1
        while i < stop and not is_blank(buf[i]):
            out[to] = buf[i]
            to += _1
            i += _1
        n += 1
    return np.int64(to), n


@kernel
def skip_blanks(buf, begin, end):  # type: ignore[no-untyped-def]
    """Return where buf[begin:end] has its first byte that is no space or tab."""
    i, stop = np.uint64(begin), np.uint64(end)
    while i < stop and is_blank(buf[i]):
        i += _1
    return np.int64(i)


class Room:
    """Arrays for one block at a time, which the next one uses again: new memory costs page faults."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def array(self, name: str, n: int, dtype: type = np.int64) -> Array:
        """[n] with whatever the last block left there."""
        if len(self._arrays.get(name, ())) < max(n, 1):
            self._arrays[name] = np.empty(n + n // 4 + 1, dtype)
        return self._arrays[name][:n]

    def arrays(self, name: str, k: int, n: int, dtype: type = np.int64) -> list[Array]:
        return [self.array(f"{name} {i}", n, dtype) for i in range(k)]


# ---------------------------------------------------------------------------------------------------------------------
# Fields
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def _zeros(word):  # type: ignore[no-untyped-def]
    """A number that has some of the highest bits of eight bytes if, and only if, one of them is 0."""
    return (word - _ONES) & ~word


@kernel
def find_marks(buf, ends, bars):  # type: ignore[no-untyped-def]
    """OUT where lines end, and where bars are, as far as there are any: (lines, bars, whether all is ASCII, or has a NUL)."""
    n_ends, n_bars, every, nul = 0, 0, np.uint64(0), np.uint64(0)
    i, stop = np.uint64(0), np.uint64(len(buf))
    while i < stop:
        last = min(i + _8, stop)
        if i + _8 == last:
            word = _word(buf, i)
            every |= word
            nul |= _zeros(word)
            if not (_zeros(word ^ _BARS) | _zeros(word ^ _ENDS)) & _HIGHS:
                i = last
                continue
        while i < last:
            every |= np.uint64(buf[i])
            if buf[i] == 124:
                bars[n_bars] = i
                n_bars += 1
            elif buf[i] == 10:
                ends[n_ends] = i
                n_ends += 1
            elif buf[i] == 0:
                nul = _HIGHS
            i += _1
    return n_ends, n_bars, every & _HIGHS == 0, nul & _HIGHS != 0


@kernel
def find_fields(buf, start, ends, bars, ptr, begin, end, first_bar):  # type: ignore[no-untyped-def]
    """Fields between ``|||`` of the lines that end at ``ends``, the first line from ``start``.

    OUT ptr[lines + 1]; begin, end of the contents without blanks around them; first_bar: of the bars, the first from there on.
    """
    n, bar, pos = 0, 0, start
    ptr[0] = 0
    for line in range(len(ends)):
        stop = ends[line]
        if stop > pos and buf[stop - 1] == 13:  # what Windows adds
            stop -= 1
        i, first_bar[n] = pos, bar
        while bar < len(bars) and bars[bar] < stop:
            if bar + 2 < len(bars) and bars[bar + 2] == bars[bar] + 2:
                begin[n], end[n] = _trimmed(buf, i, bars[bar])
                n += 1
                i = bars[bar] + 3
                bar += 3
                first_bar[n] = bar
            else:
                bar += 1
        begin[n], end[n] = _trimmed(buf, i, stop)
        n += 1
        ptr[line + 1] = n
        pos = ends[line] + 1


@kernel
def _trimmed(buf, i, stop):  # type: ignore[no-untyped-def]
    i = skip_blanks(buf, i, stop)
    while stop > i and is_blank(buf[stop - 1]):
        stop -= 1
    return i, stop


@kernel
def read_ids(buf, begin, end, out, odd):  # type: ignore[no-untyped-def]
    """OUT out[n]: whole numbers of up to 18 digits, which slices consist of."""
    for r in range(len(begin)):
        out[r], i = read_digits(buf, begin[r], end[r], 18)
        odd[r] |= i != end[r]


@kernel
def read_numbers(buf, begin, end, out, odd):  # type: ignore[no-untyped-def]
    """OUT out[n]: the numbers that slices consist of, NaN where they are empty."""
    for r in range(len(begin)):
        out[r] = np.nan
        if begin[r] < end[r]:
            out[r], i = read_number(buf, begin[r], end[r])
            odd[r] |= i != end[r]


@kernel
def copy_words(buf, begin, end, out, ptr, n_words):  # type: ignore[no-untyped-def]
    """OUT out[ptr[r]:ptr[r + 1]] the words of slices with single spaces between them, n_words[r] how many."""
    ptr[0] = 0
    for r in range(len(begin)):
        ptr[r + 1], n_words[r] = put_words(buf, begin[r], end[r], out, ptr[r])


@kernel
def copy_slices(buf, begin, end, out, ptr):  # type: ignore[no-untyped-def]
    """OUT out[ptr[r]:ptr[r + 1]] the bytes of slices."""
    ptr[0] = 0
    for r in range(len(begin)):
        ptr[r + 1] = put_bytes(buf, begin[r], end[r], out, ptr[r])


# ---------------------------------------------------------------------------------------------------------------------
# Labelled features: ``d= 0 -1.5 lm= -3``, ``d: 0 -1.5``, ``d=0 lm=-3``
# ---------------------------------------------------------------------------------------------------------------------

# Labels are slices [begin, end) of the bytes and found by a table of hashes. A label with one value is a name, with several as
# many: name k is value ``place[k]`` (-1: the only one) of label ``label[k]``. Names of a label with several values follow each
# other from ``run`` on. ``n`` counts labels, names and values; ``idx`` and ``val`` are the names and values of all rows.
LabelTable = namedtuple("LabelTable", "table begin end single run n_run label place n idx val")
LABELS, NAMES, VALUES = range(3)
MOST_LABELS = 1 << 15


def room_for_features(room: Room, n_bytes: int) -> LabelTable:
    """Place for the numbers that so many bytes can hold, with up to MOST_LABELS labels."""
    most, table = n_bytes // 2 + 2, room.array("labels", 2 * MOST_LABELS, np.int32)
    table[:] = -1
    labels, names = room.arrays("label", 5, MOST_LABELS), room.arrays("name", 2, 2 * most, np.int32)
    values = room.array("value names", most, np.int32), room.array("values", most, np.float64)
    return LabelTable._make([table, *labels, *names, np.zeros(3, np.int64), *values])


@kernel
def _label(buf, i, stop, table, begin, end, single, n_run, n):  # type: ignore[no-untyped-def]
    """The number of the label buf[i:stop], a new one if need be; -1 where there are too many."""
    h = hash_bytes(buf, i, stop, np.uint64(0))
    mask = np.uint64(len(table) - 1)
    slot = h & mask
    while table[slot] >= 0:
        k = table[slot]
        if end[k] - begin[k] == stop - i and same_bytes(buf, begin[k], buf, i, stop - i):
            return np.int64(k)
        slot = (slot + _1) & mask
    k = n[LABELS]
    if k == len(begin):
        return NONE
    table[slot] = k
    begin[k], end[k], single[k], n_run[k] = i, stop, -1, 0
    n[LABELS] += 1
    return np.int64(k)


@kernel
def _is_label(buf, i, stop, begin, end):  # type: ignore[no-untyped-def]
    """Whether the label buf[begin:end] stands at i, with the sign that it has there."""
    n = end - begin + 1
    if i + n > stop or not same_bytes(buf, i, buf, begin, n):
        return False
    return buf[end] == 61 or i + n == stop or is_blank(buf[i + n])  # a colon ends a word


@kernel
def _end_of_label(buf, i, stop):  # type: ignore[no-untyped-def]
    """The position after the sign of a label that begins at i, -1 where none does."""
    first = i
    while i < stop and buf[i] != 61 and not is_blank(buf[i]):
        i += 1
    if i < stop and buf[i] == 61:
        i += 1
    return i if i > first + 1 and (buf[i - 1] == 61 or buf[i - 1] == 58) else NONE


@kernel
def read_rows_of_features(buf, begin, end, f, counts, odd):  # type: ignore[no-untyped-def]
    """The labelled numbers of slices into OUT f, counts[r] of each; odd[r] where anything else stands there."""
    # tuples of arrays are slow to pass on: numba counts references to each of them
    labels, ends, single, run, n_run, label_of, place = f.begin, f.end, f.single, f.run, f.n_run, f.label, f.place
    table, n_of, idx, val = f.table, f.n, f.idx, f.val
    n, n_names = 0, 0
    for r in range(len(begin)):
        stop, before, fine, guess = end[r], n, True, np.int64(0)  # labels often follow each other as they did at first
        i = skip_blanks(buf, begin[r], stop)
        while fine and i < stop:
            if guess < n_of[LABELS] and _is_label(buf, i, stop, labels[guess], ends[guess]):
                label, after = guess, i + ends[guess] - labels[guess] + 1
            else:
                after = _end_of_label(buf, i, stop)
                label = _label(buf, i, after - 1, table, labels, ends, single, n_run, n_of) if after >= 0 else NONE
            if label < 0:
                fine = False
                break
            guess, first, i = label + 1, n, after
            while i < stop:  # its values; the first one may follow at once
                start = i
                while start < stop and is_blank(buf[start]):
                    start += 1
                value, number_end = read_number(buf, start, stop) if start < stop and buf[start] < 58 else (0.0, NONE)
                if number_end < 0 or (number_end < stop and not is_blank(buf[number_end])):
                    fine = start > after or start == stop
                    i = start
                    break
                val[n] = value
                n += 1
                i = number_end
            size = n - first
            if size == 0 or n_names + size > len(label_of):
                fine = False
            elif size == 1:
                if single[label] < 0:
                    single[label], label_of[n_names], place[n_names] = n_names, label, -1
                    n_names += 1
                idx[first] = single[label]
            else:
                if size > n_run[label]:
                    run[label], n_run[label] = n_names, size
                    for k in range(size):
                        label_of[n_names], place[n_names] = label, k
                        n_names += 1
                start = run[label]
                for k in range(size):
                    idx[first + k] = start + k
        if not fine:
            n, odd[r] = before, True
        counts[r] = n - before
    n_of[NAMES], n_of[VALUES] = n_names, n


@kernel
def find_repeats(counts, idx, n_names, odd):  # type: ignore[no-untyped-def]
    """OUT odd[r]: rows that give a name twice; row r has ``counts[r]`` of the names idx."""
    last, i = np.full(n_names, -1, np.int64), 0
    for r in range(len(counts)):
        for _ in range(counts[r]):
            odd[r] |= last[idx[i]] == r
            last[idx[i]] = r
            i += 1


# ---------------------------------------------------------------------------------------------------------------------
# Units
# ---------------------------------------------------------------------------------------------------------------------

# Distinct units of a block in order of their first use, found by a hash of what tells them apart. parts[BEGIN, u] to
# parts[END, u] are the target words of unit u, likewise its source words and its links; lengths are in words.
UnitTable = namedtuple("UnitTable", "table parts score")
BEGIN, END, SRC, SRC_END, LINKS, LINKS_END, N_SRC, N_TGT, START, FEATURES, FEATURES_END, SENT = range(12)

# Source sentences: token t of sentence s is text[start[t]:end[t]] for t in ptr[s]:ptr[s + 1].
SourceTokens = namedtuple("SourceTokens", "text ptr start end")


def room_for_units(room: Room, most: int) -> UnitTable:
    """Place for so many units."""
    table, parts = room.array("units", 1 << max(14, (2 * most - 1).bit_length()), np.int32), room.array("parts", 12 * most)
    table[:] = -1
    return UnitTable(table, parts.reshape(12, most), room.array("unit score", most, np.float64))


@kernel
def source_slice(ptr, start, end, sent, first, last):  # type: ignore[no-untyped-def]
    """(begin, end) of words first to last - 1 of a source sentence, (0, 0) where it is not known; -1 beyond its end."""
    if sent >= len(ptr) - 1 or ptr[sent] == ptr[sent + 1]:
        return np.int64(0), np.int64(0)
    if ptr[sent] + last > ptr[sent + 1]:
        return NONE, NONE
    return start[ptr[sent] + first], end[ptr[sent] + last - 1]


# ---------------------------------------------------------------------------------------------------------------------
# Units of Moses' enriched lists: phrases and their blocks
# ---------------------------------------------------------------------------------------------------------------------


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
def read_blocks(  # type: ignore[no-untyped-def]
    buf, bars, sent, begin, end, first_bar, source, units, n_units, text_ptr, text, unit, src_start, tgt_start, odd,
):  # fmt: skip
    """Phrases and their blocks. OUT units; n_units and text of lines; unit, src_start, tgt_start of occurrences.

    What was seen before, in the same sentence if its words are known, is not parsed again. Returns the numbers of occurrences
    and of units.
    """
    # tuples of arrays are slow to pass on: numba counts references to each of them
    table, parts, score, mask = units.table, units.parts, units.score, np.uint64(len(units.table) - 1)
    src_ptr, word_start, word_end = source.ptr, source.start, source.end
    text_ptr[0], n_occ, n_distinct, has_source = 0, 0, 0, len(word_start) > 0
    for r in range(len(sent)):
        at = text_ptr[r]
        i, k, n, n_tokens, fine = begin[r], first_bar[r], 0, 0, not odd[r]
        n_units[r] = 0
        while fine and bars[k] < end[r]:  # phrase, block, phrase, block, ...
            if bars[k + 1] >= end[r]:
                fine = False
                break
            phrase, phrase_end, block_end = skip_blanks(buf, i, bars[k]), bars[k], bars[k + 1]
            size, word_at = block_end - phrase, at + 1 if n_tokens else at
            stop, n_tgt = put_words(buf, phrase, phrase_end, text, word_at)
            slot = hash_bytes(buf, phrase, block_end, np.uint64(sent[r] if has_source else 0)) & mask
            while table[slot] >= 0:
                u = table[slot]
                fits = parts[FEATURES_END, u] - parts[BEGIN, u] == size and (parts[SENT, u] == sent[r] or not has_source)
                if fits and same_bytes(buf, parts[BEGIN, u], buf, phrase, size):
                    break
                slot = (slot + _1) & mask
            u = np.int64(table[slot])
            if u < 0:
                u = np.int64(n_distinct)
                first, last, links, links_end, total, features = _block_parts(buf, phrase_end + 1, block_end)
                n_src = last - first + 1
                src, src_end = source_slice(src_ptr, word_start, word_end, sent[r], first, last + 1)
                if n_tgt == 0:
                    links = links_end  # of a word that it drops Moses says 0-0: links to nothing are left out
                fine = features >= 0 and src >= 0 and _are_links(buf, links, links_end, n_src, n_tgt)
                if not fine:
                    break
                parts[BEGIN, u], parts[END, u], parts[SRC, u], parts[SRC_END, u] = phrase, phrase_end, src, src_end
                parts[LINKS, u], parts[LINKS_END, u], parts[N_SRC, u], parts[N_TGT, u] = links, links_end, n_src, n_tgt
                parts[START, u], parts[FEATURES, u], parts[FEATURES_END, u], parts[SENT, u] = first, features, block_end, sent[r]
                table[slot], score[u] = u, total
                n_distinct += 1
            if n_tokens and n_tgt:
                text[at] = 32
            at = stop if n_tgt else at
            unit[n_occ + n], src_start[n_occ + n], tgt_start[n_occ + n] = u, parts[START, u], n_tokens
            n_tokens += n_tgt
            n += 1
            i = block_end + 1
            k += 2
        if fine and skip_blanks(buf, i, end[r]) == end[r]:
            n_units[r], text_ptr[r + 1] = n, at
            n_occ += n
        else:
            odd[r], text_ptr[r + 1] = True, text_ptr[r]
    return n_occ, n_distinct


@kernel
def check_totals(ptr, idx, val, n_units, unit_idx, n_names, odd_units, kept, odd):  # type: ignore[no-untyped-def]
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
# Units of Moses' plain lists: segments and links
# ---------------------------------------------------------------------------------------------------------------------


@kernel
def _read_span(buf, i, end):  # type: ignore[no-untyped-def]
    """(first, last, position after it) of ``2`` or ``2-3``; position -1 if it is none."""
    first, i = read_digits(buf, i, end)
    if i < 0 or i >= end or buf[i] != 45:
        return first, first, i
    last, i = read_digits(buf, i + 1, end)
    return first, last, (i if last >= first else NONE)


@kernel
def _read_segments(buf, i, end, n_words, spans):  # type: ignore[no-untyped-def]
    """The segments ``0-1=0 2=1-2`` of buf[i:end] into OUT spans[k] = (source start, end, target start, end).

    Returns their number, -1 where one is irregular. A phrase without words is printed like one with one word, which the next
    one takes.
    """
    n = 0
    while True:
        i = skip_blanks(buf, i, end)
        if i == end:
            break
        a, b, i = _read_span(buf, i, end)
        if i < 0 or i >= end or buf[i] != 61:
            return NONE
        c, d, i = _read_span(buf, i + 1, end)
        if i < 0 or (i < end and buf[i] != 32):
            return NONE
        spans[n, 0], spans[n, 1], spans[n, 2], spans[n, 3] = a, b + 1, c, d + 1
        n += 1
    for k in range(n):
        following = spans[k + 1, 2] if k + 1 < n else n_words
        if spans[k, 2] == following and spans[k, 3] == following + 1:
            spans[k, 3] = following
        if spans[k, 3] > n_words:
            return NONE
    return n


@kernel
def _read_points(buf, i, end, spans, n_units, n_words, unit_at, points):  # type: ignore[no-untyped-def]
    """The alignment points ``0-1`` of buf[i:end] into OUT points[k] = (unit, source, target), places within the unit.

    Returns their number, -1 where one is irregular or outside of its segment.
    """
    unit_at[:n_words] = -1
    for u in range(n_units):
        unit_at[spans[u, 2] : spans[u, 3]] = u
    n = 0
    while True:
        i = skip_blanks(buf, i, end)
        if i == end:
            return n
        s, i = read_digits(buf, i, end)
        if i < 0 or i >= end or buf[i] != 45:
            return NONE
        t, i = read_digits(buf, i + 1, end)
        if i < 0 or (i < end and buf[i] != 32):
            return NONE
        if n_units:
            u = unit_at[t] if t < n_words else -1
            if u < 0 or not spans[u, 0] <= s < spans[u, 1]:
                return NONE
            points[n, 0], points[n, 1], points[n, 2] = u, s - spans[u, 0], t - spans[u, 2]
            n += 1


@kernel
def _put_digits(value, out, at):  # type: ignore[no-untyped-def]
    size = 1
    while value >= 10**size:
        size += 1
    for k in range(size):
        out[at + size - 1 - k] = 48 + value % 10
        value //= 10
    return at + size


@kernel
def _put_links(points, n_points, u, out, at):  # type: ignore[no-untyped-def]
    """The links of unit u, ``0-0 1-1``, to OUT out[at:]; returns the position after them."""
    first = at
    for k in range(n_points):
        if points[k, 0] == u:
            if at > first:
                out[at] = 32
                at += 1
            at = _put_digits(points[k, 1], out, at)
            out[at] = 45
            at = _put_digits(points[k, 2], out, at + 1)
    return at


@kernel
def _are_same(a, i, end, b, j, other_end):  # type: ignore[no-untyped-def]
    return end - i == other_end - j and same_bytes(a, i, b, j, end - i)


@kernel
def read_units(  # type: ignore[no-untyped-def]
    buf, n_fields, sent, seg_begin, seg_end, al_begin, al_end, text, text_ptr, n_words, source, units, links, n_units, unit,
    src_start, tgt_start, odd,
):  # fmt: skip
    """Units of segments and links of lines. OUT units, whose links are in OUT links; n_units of each line; unit, src_start,
    tgt_start of occurrences.

    Returns the numbers of occurrences and of units.
    """
    most = 2
    for r in range(len(sent)):
        most = max(most, seg_end[r] - seg_begin[r], al_end[r] - al_begin[r], text_ptr[r + 1] - text_ptr[r])
    most = most // 2 + 2
    starts, unit_at = np.empty(most + 1, np.int64), np.empty(most, np.int64)
    spans, points = np.empty((most, 4), np.int64), np.empty((most, 3), np.int64)
    table, parts, score, mask = units.table, units.parts, units.score, np.uint64(len(units.table) - 1)
    src_text, src_ptr, word_start, word_end = source.text, source.ptr, source.start, source.end
    n_occ, n_distinct, links_at = 0, 0, np.int64(0)
    for r in range(len(sent)):
        n_units[r] = 0
        if odd[r] or n_fields[r] < 5:
            continue
        has_segments = n_fields[r] == 6
        for j in range(seg_begin[r], seg_end[r]):
            has_segments = has_segments or buf[j] == 61
        n = _read_segments(buf, seg_begin[r], seg_end[r], n_words[r], spans) if has_segments else 0
        a, b = (al_begin[r], al_end[r]) if n_fields[r] == 6 else (seg_begin[r], seg_end[r])
        n_points = 0
        if n >= 0 and (n_fields[r] == 6 or not has_segments):
            n_points = _read_points(buf, a, b, spans, n, n_words[r], unit_at, points)
        if n < 0 or n_points < 0:
            odd[r] = True
            continue
        k = 0
        if n_words[r]:
            starts[0], k = text_ptr[r], 1
        for j in range(text_ptr[r], text_ptr[r + 1] if n else text_ptr[r]):
            if text[j] == 32:
                starts[k] = j + 1
                k += 1
        starts[k] = text_ptr[r + 1] + 1
        for i in range(n):
            first, last, tgt, tgt_end = spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3]
            n_src, n_tgt = last - first, tgt_end - tgt
            src, src_end = source_slice(src_ptr, word_start, word_end, sent[r], first, last)
            if src < 0:
                odd[r] = True
                break
            links_end = _put_links(points, n_points, i, links, links_at)
            begin, end = (starts[tgt], starts[tgt_end] - 1) if n_tgt > 0 else (np.int64(0), np.int64(0))
            h = hash_bytes(text, begin, end, np.uint64(n_src))
            slot = hash_bytes(src_text, src, src_end, hash_bytes(links, links_at, links_end, h)) & mask
            while table[slot] >= 0:
                u = table[slot]
                fits = parts[N_SRC, u] == n_src and parts[N_TGT, u] == n_tgt
                fits = fits and _are_same(src_text, parts[SRC, u], parts[SRC_END, u], src_text, src, src_end)
                fits = fits and _are_same(links, parts[LINKS, u], parts[LINKS_END, u], links, links_at, links_end)
                if fits and _are_same(text, parts[BEGIN, u], parts[END, u], text, begin, end):
                    break
                slot = (slot + _1) & mask
            if table[slot] < 0:
                u = n_distinct
                parts[BEGIN, u], parts[END, u], parts[SRC, u], parts[SRC_END, u] = begin, end, src, src_end
                parts[LINKS, u], parts[LINKS_END, u], parts[N_SRC, u], parts[N_TGT, u] = links_at, links_end, n_src, n_tgt
                table[slot], score[u] = u, np.nan
                links_at = links_end
                n_distinct += 1
            unit[n_occ + i], src_start[n_occ + i], tgt_start[n_occ + i] = table[slot], first, tgt
        if not odd[r]:
            n_units[r] = n
            n_occ += n
    return n_occ, n_distinct
