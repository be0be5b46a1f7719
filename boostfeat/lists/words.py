"""Words of texts as numbers into a dictionary, columns of names, and the links of a word alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import F64, I64, Array, Bool, offsets, owners, segment_positions
from ..core.errors import InputError, clip
from ..core.text import Strings
from .nbest import strings


@dataclass(frozen=True)
class Words:
    """Rows of words, as numbers into a dictionary."""

    ptr: I64  # [n+1]
    ids: I64  # [tokens] into names
    names: Strings

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @cached_property
    def counts(self) -> I64:
        """[n] words of each row."""
        return np.diff(self.ptr)

    @cached_property
    def owner(self) -> I64:
        """[tokens] the row of each word."""
        return owners(self.ptr)

    def take(self, rows: Array) -> Words:
        return Words(offsets(self.counts[rows]), self.ids[segment_positions(self.ptr, rows)], self.names)

    def matches(self, pattern: str) -> Bool:
        """[tokens] whether a regular expression matches each token."""
        return flags(pc.match_substring_regex(self.names, pattern))[self.ids]

    def per_row(self, tokens: Bool) -> F64:
        """[n] how many tokens of each row are marked. Sums of integers: exact."""
        return np.diff(offsets(tokens)[self.ptr]).astype(np.float64)


def flags(column: Strings) -> Bool:
    return np.asarray(column).astype(bool)


def positions(names: Strings, among: Strings) -> I64:
    """Return where each name stands among others, NONE if it does not."""
    return np.asarray(pc.index_in(names, value_set=among).fill_null(NONE)).astype(np.int64)


def distinct(columns: Sequence[Strings]) -> tuple[Strings, I64]:
    """All names of some columns, each once, and which one each place of the columns, one after the other, has."""
    chunks = pa.chunked_array(columns, pa.large_string()).dictionary_encode().chunks  # none of a column without names
    which = [np.zeros(0, np.int64), *(np.asarray(chunk.indices) for chunk in chunks)]
    return (chunks[0].dictionary if chunks else strings([])), np.concatenate(which)


def concat(*parts: Strings | str) -> Strings:
    """Strings made of parts, element by element; a part may be one string for all."""
    columns = (pa.scalar(p, pa.large_string()) if isinstance(p, str) else p for p in parts)
    return pc.binary_join_element_wise(*columns, EMPTY)


def words_of(texts: Strings) -> Words:
    """Texts as rows of words."""
    lists = pc.split_pattern(texts, " ")
    tokens = lists.flatten()
    row = owners(offsets(np.asarray(lists.value_lengths())))
    is_word = pc.not_equal(tokens, EMPTY)  # an empty text is split into one empty word
    encoded = tokens.filter(is_word).dictionary_encode()
    ids = np.asarray(encoded.indices).astype(np.int64)
    return Words(offsets(np.bincount(row[flags(is_word)], minlength=len(lists))), ids, encoded.dictionary)


def checked_links(align: str) -> tuple[tuple[int, int], ...]:
    """Parse the links of an alignment like '0-0 1-2'."""
    try:
        links = tuple([(int(i), int(j)) for i, j in (link.split("-") for link in align.split())])
        if all(i < 2**31 and j < 2**31 for i, j in links):
            return links
    except ValueError:
        pass
    raise InputError(f"alignment {clip(align)}: expected links like '0-0 1-2', found others; import the list again")


EMPTY = pa.scalar("", pa.large_string())  # compared with a str, arrow looks for pandas on disk at every call


NONE = -1  # no such unit or word: before the first one, after the last one, not in a dictionary
