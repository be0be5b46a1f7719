"""Other models' numbers beside a list: features of hypotheses, or of units from numbers of tokens.

Numbers of tokens go to units by place where there are as many as units, words or pieces, else by characters: a token belongs
to the unit in which its first character is. A unit gets, over its tokens, NAME = Σ, and NAME.min, NAME.first and NAME.mean
where some have several or the list is of pieces. What no unit can take (the end of a sentence in a list without that unit) is
a feature of the hypothesis of the same name: totals stay right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import F64, HUGE, I64, Array, first_use_order, offsets, owners, segment_positions, unique_rows
from ..core.errors import InputError, clip, counted
from ..core.text import Strings, split_words
from .nbest import NBest, strings, take_strings
from .pieces import join_pieces, scheme_of, words_at
from .tables import Numbers
from .tokens import END_OF_SENTENCE, PIECES, WORDS
from .words import EMPTY, flags, words_of

_BLANKS = r"\s+"
KINDS = ("", ".min", ".first", ".mean")  # of the numbers of a unit's tokens: the sum, ...


# ---------------------------------------------------------------------------------------------------------------------
# Features of hypotheses
# ---------------------------------------------------------------------------------------------------------------------


def with_features(nbest: NBest, columns: Mapping[str, F64]) -> NBest:
    """The list with more dense features of hypotheses [H]."""
    _refuse_known(nbest, columns)
    extra = np.column_stack([nbest.extra, *(column + 0.0 for column in columns.values())])
    return replace(nbest, extra=extra, extra_names=(*nbest.extra_names, *columns))


def _refuse_known(nbest: NBest, names: Mapping[str, object]) -> None:
    known = {*nbest.global_names, *nbest.sparse_names.to_pylist()}
    if twice := next((name for name in names if name in known), None):
        raise InputError(f"{twice}: expected a name that the list does not have, found it there; choose another NAME")


def join_column(nbest: NBest, name: str, numbers: Numbers, path: str) -> NBest:
    """The list with a number a hypothesis, in its order. A file that shows its texts must show these."""
    if numbers.denominators is not None:
        raise InputError(f"{path}: expected one number a hypothesis, found two; name a column with FILE:COLUMN")
    check_numbers(nbest, numbers, path)
    return with_features(nbest, {name: numbers.values})


def check_numbers(nbest: NBest, numbers: Numbers, path: str) -> None:
    """Raise unless there is a number for each hypothesis, of the same text where the file shows texts."""
    _refuse_other_size(nbest, len(numbers), "number", path)
    if numbers.texts is not None:
        _refuse_other_texts(nbest, numbers.texts, "the texts of the list", path)


def _refuse_other_size(nbest: NBest, n: int, what: str, path: str) -> None:
    if n != nbest.n_hyps:
        raise InputError(
            f"{path}: expected {counted(nbest.n_hyps, what)}, one for each hypothesis in the order of the list, found "
            f"{n}; give the file of this very list"
        )


def _refuse_other_texts(nbest: NBest, texts: Strings, what: str, path: str) -> None:
    differ = flags(pc.not_equal(squeezed(texts), squeezed(nbest.text)))
    if differ.any():
        k = int(np.argmax(differ))  # the first
        raise InputError(
            f"{path}: expected {what}, found others in {differ.sum()} of {len(differ)} rows (row {k + 1}: "
            f"{clip(texts[k].as_py())}, hypothesis: {clip(nbest.text[k].as_py())}); give the file of this very list"
        )


def squeezed(texts: Strings) -> Strings:
    """Texts without blanks."""
    return pc.replace_substring_regex(texts, _BLANKS, "")


# ---------------------------------------------------------------------------------------------------------------------
# Features of units
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenNumbers:
    """Numbers of the tokens of hypotheses, which may come with the tokens' texts."""

    ptr: I64  # [H+1]
    values: F64  # [T]
    texts: Strings | None = None  # [T] plain, without marks of pieces; "" or </s> for the end of the sentence


def join_tokens(nbest: NBest, name: str, tokens: TokenNumbers, path: str, *, kind: str | None = None) -> NBest:
    """The list with numbers of tokens as unit features: sum, minimum, first and mean, or one of them, of KINDS."""
    _refuse_other_size(nbest, len(tokens.ptr) - 1, "line", path)
    if not nbest.n_occurrences:
        raise InputError(f"{name}: expected a list with units to put numbers of tokens on, found none; import it with units")
    if len(tokens.values) and not (np.abs(tokens.values) < HUGE).all():
        raise InputError(
            f"{path}: expected log-probabilities, found {tokens.values[np.abs(tokens.values) >= HUGE][0]}; repair the file"
        )
    return _with_unit_sums(nbest, name, tokens, places_of(nbest, tokens, path), kind)


def places_of(nbest: NBest, tokens: TokenNumbers, path: str) -> I64:
    """[T] the unit occurrence of each token; -1 for the end of a sentence that has no unit."""
    if tokens.texts is not None:
        return _by_characters(nbest, tokens, path)
    counts, n_units = np.diff(tokens.ptr), np.diff(nbest.unit_ptr)
    pieces = [nbest.X[:, k].astype(np.int64) for k, known in enumerate(nbest.unit_names) if known == PIECES]
    words = np.where(nbest.units.tgt_len >= 0, nbest.units.tgt_len, 1).astype(np.int64)
    is_end = _is_end(nbest)[nbest.unit_idx]
    for size in (np.ones(nbest.n_units, np.int64), *pieces, words):
        own = size[nbest.unit_idx]
        total = np.diff(offsets(own)[nbest.unit_ptr])
        ends = np.diff(offsets(is_end & (own > 0))[nbest.unit_ptr])
        surplus = counts - total
        if (surplus == 0).all():
            return np.repeat(np.arange(nbest.n_occurrences), own)
        if (surplus == 1).all() and not ends.any():  # numbers of ends, of which the list has no units, or none that count
            return np.insert(np.repeat(np.arange(nbest.n_occurrences), own), offsets(own)[nbest.unit_ptr[1:]], _end_units(nbest))
        if (surplus == -ends).all():  # ends of the list only
            return np.repeat(np.arange(nbest.n_occurrences), np.where(is_end, 0, own))
    h = int(np.argmax(counts != n_units))
    n_words = len(split_words(nbest.text[h].as_py()))
    here = nbest.unit_idx[nbest.unit_ptr[h] : nbest.unit_ptr[h + 1]]
    raise InputError(
        f"{path}:{h + 1}: expected a number for each of {counted(n_units[h], 'unit')}, {counted(n_words, 'word')}"
        + "".join(f" or {size[here].sum()} pieces" for size in pieces)
        + f", found {counts[h]}; give numbers of these tokens, or JSON lines with tokens and logprobs"
    )


def _end_units(nbest: NBest) -> I64:
    """[H] the unit occurrence that is the end of each hypothesis, -1 where there is none."""
    out, ends = np.full(nbest.n_hyps, -1, np.int64), np.flatnonzero(_is_end(nbest)[nbest.unit_idx])
    out[owners(nbest.unit_ptr)[ends]] = ends
    return out


def _is_end(nbest: NBest) -> Array:
    """[V] whether a unit is the end of a sentence."""
    return flags(pc.equal(nbest.units.tgt, END_OF_SENTENCE)) & (nbest.units.tgt_len <= 0)


def _by_characters(nbest: NBest, tokens: TokenNumbers, path: str) -> I64:
    """Return places by the characters before each token and unit, blanks not counted."""
    is_end = pc.equal(tokens.texts, END_OF_SENTENCE)
    theirs = squeezed(pc.if_else(is_end, EMPTY, tokens.texts))
    _refuse_other_texts(nbest, _joined(theirs, tokens.ptr), "tokens that make the texts of the list", path)
    parts, texts = theirs.to_pylist(), squeezed(_texts_of_units(nbest)).to_pylist()
    units, unit_ptr, ends = np.array([bool(text) for text in texts]), nbest.unit_ptr.tolist(), _end_units(nbest).tolist()
    out: list[int] = []
    for (a, b), (first, last), end in zip(pairwise(tokens.ptr.tolist()), pairwise(unit_ptr), ends, strict=True):
        n = b - a
        while n and not parts[a + n - 1]:  # at the end of the text
            n -= 1
        own = first + np.flatnonzero(units[first:last])
        places = words_at(parts[a : a + n], [texts[u] for u in own])
        out += [int(own[k]) if len(own) else -1 for k in places] + [end] * (b - a - n)
    return np.array(out, np.int64)


def _texts_of_units(nbest: NBest) -> Strings:
    """[R] the texts of units; that of an end is empty."""
    return take_strings(pc.if_else(pa.array(_is_end(nbest)), EMPTY, nbest.units.tgt), nbest.unit_idx)


def _joined(parts: Strings, ptr: I64) -> Strings:
    return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(ptr), parts), EMPTY)


def _with_unit_sums(nbest: NBest, name: str, tokens: TokenNumbers, unit: I64, kind: str | None = None) -> NBest:
    """Sums and so on (or one kind of these) of the numbers at each unit occurrence; those at -1 go to the hypothesis."""
    r, at = nbest.n_occurrences, np.flatnonzero(unit >= 0)
    own, values = unit[at], tokens.values[at]
    n = np.bincount(own, minlength=r)
    total = np.bincount(own, weights=values, minlength=r)
    columns: dict[str, F64] = {"": total.astype(np.float64)}
    if kind or (n > 1).any() or PIECES in nbest.unit_names:  # the same columns for every list of one decoder
        least, first = np.full(r, np.inf), np.zeros(r)
        np.minimum.at(least, own, values)
        first[own[::-1]] = values[::-1]  # the first stays
        columns |= {".min": np.where(n > 0, least, 0.0), ".first": first, ".mean": total / np.maximum(n, 1)}
    columns = {name: columns[kind]} if kind is not None else {name + suffix: column for suffix, column in columns.items()}
    out = with_unit_features(nbest, columns)
    rest = np.flatnonzero(unit < 0)
    if len(rest):
        out = _with_more(out, name, np.bincount(owners(tokens.ptr)[rest], weights=tokens.values[rest], minlength=nbest.n_hyps))
    return out


def _with_more(nbest: NBest, name: str, column: Array) -> NBest:
    """The list with so much more [H] of a feature that units may have: a feature of the hypotheses of the same name."""
    if name not in nbest.extra_names:
        return replace(nbest, extra=np.column_stack([nbest.extra, column]), extra_names=(*nbest.extra_names, name))
    return replace(nbest, extra=nbest.extra + np.outer(column, [n == name for n in nbest.extra_names]))


def with_unit_features(nbest: NBest, columns: Mapping[str, F64]) -> NBest:
    """The list with more dense features of unit occurrences [R]; units that differ in them are divided."""
    _refuse_known(nbest, columns)
    values = np.column_stack(list(columns.values())) + 0.0
    first, inverse = unique_rows(values, nbest.unit_idx.astype(np.int64)[:, None])
    order, unit_idx = first_use_order(inverse)
    kept = first[order]
    units = nbest.units.take(nbest.unit_idx[kept])
    x = np.ascontiguousarray(np.column_stack([units.x, values[kept]]))
    return replace(nbest, units=replace(units, x=x), unit_idx=unit_idx, unit_names=(*nbest.unit_names, *columns))


# ---------------------------------------------------------------------------------------------------------------------
# Another list of the same texts
# ---------------------------------------------------------------------------------------------------------------------


def join_list(nbest: NBest, name: str, other: NBest, path: str) -> NBest:
    """The list with the features of another, matched by sentence and text (blanks not counted): NAME is its score.

    Its other features are NAME.feature, its unit features too; those of the same text k times are taken in order.
    """
    hyps = match_texts(nbest, other, path)
    extra = {feature: other.extra[hyps, j] for j, feature in enumerate(other.extra_names) if feature not in (WORDS, PIECES)}
    own = {f"{name}.{feature}": column for feature, column in extra.items() if feature not in other.unit_names}
    if other.has_scores:
        own = {name: other.score[hyps], **own}
    if len(other.sparse_names):
        raise InputError(
            f"{path}: expected dense features, found {counted(len(other.sparse_names), 'sparse one')}; leave them out"
        )
    out = with_features(nbest, own)
    unit_names = [n for n in other.unit_names if n not in (WORDS, PIECES)]
    if not unit_names or not nbest.n_occurrences:
        return with_features(out, {f"{name}.{n}": other.global_column(n)[hyps] for n in unit_names})
    at = segment_positions(other.unit_ptr, hyps)
    ptr, idx = offsets(np.diff(other.unit_ptr)[hyps]), other.unit_idx[at]
    texts = take_strings(_texts_of_units(other), at)
    for n in unit_names:
        values = np.ascontiguousarray(other.X[idx, other.unit_names.index(n)])
        numbers = TokenNumbers(ptr, values, texts)
        if flags(pc.equal(_joined(squeezed(texts), ptr), "")).all() and len(values):  # scores without words
            out = with_features(out, {f"{name}.{n}": other.global_column(n)[hyps]})
        else:
            kind = next((k for k in KINDS if k and n.endswith(k) and n.removesuffix(k) in other.unit_names), "")
            out = join_tokens(out, f"{name}.{n}", numbers, path, kind=kind)
            if n in extra:  # what no unit of the other list has
                out = _with_more(out, f"{name}.{n}", extra[n])
    return out


def match_texts(nbest: NBest, other: NBest, path: str) -> I64:
    """[H] the hypothesis of the other list with the sentence and text of each; the k-th of equal ones is the k-th there.

    Texts are matched as they stand; where not all of them are found so, without blanks: "web page" may be another "webpage".
    """
    for form in (lambda texts: texts, squeezed):
        places: dict[tuple[int, str], list[int]] = {}
        for h, key in enumerate(_keys(other, form)):
            places.setdefault(key, []).append(h)
        wanted = _keys(nbest, form)
        unmatched = [h for h, key in enumerate(wanted) if key not in places]
        if not unmatched:
            break
    if unmatched:
        h = unmatched[0]
        raise InputError(
            f"{path}: expected the texts of {counted(nbest.n_hyps, 'hypothesis')}, found {nbest.n_hyps - len(unmatched)}, "
            f"{len(unmatched)} unmatched (first: sentence {wanted[h][0]}, {clip(nbest.text[h].as_py())}); score this very list"
        )
    counts = Counter(wanted)
    if odd := [key for key, n in counts.items() if len(places[key]) not in (1, n)]:
        raise InputError(
            f"{path}: expected each text as often as in the list, found {len(odd)} doubled texts in other numbers "
            f"({len(places[odd[0]])} times, in the list {counts[odd[0]]}: {clip(odd[0][1])}); remove the doubled lines"
        )
    in_order = {key: iter(own) if len(own) > 1 else repeat(own[0]) for key, own in places.items()}
    return np.array([next(in_order[key]) for key in wanted], np.int64)


def _keys(nbest: NBest, form: Callable[[Strings], Strings]) -> list[tuple[int, str]]:
    """[H] sentence and text, in some form."""
    return list(zip(nbest.ids[nbest.sent_of_hyp].tolist(), form(nbest.text).to_pylist(), strict=True))


def plain_tokens(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Tokens without the marks of pieces, whichever they are in."""
    words = words_of(strings([" ".join(t.replace(" ", "▁") for t in row) for row in rows]))
    scheme = scheme_of(words)
    if scheme == "none":
        return [[t.strip(" \t\n\r") for t in row] for row in rows]
    joined = {name: join_pieces(words_of(strings([name])), scheme).text.to_pylist() for name in words.names.to_pylist()}
    return [["".join(joined.get(t.replace(" ", "▁"), [t])) for t in row] for row in rows]
