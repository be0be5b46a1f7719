"""Functions that several templates call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from unicodedata import category

Words = Sequence[str]
Links = Sequence[tuple[int, int]]

START, END, UNKNOWN = "<s>", "</s>", "unk"
UNKNOWN_CLUSTER = "0"  # of words that no cluster has: rare ones, and those first seen after learning
STEP = 1 / 64  # what probabilities are rounded to: nearly equal ones must not tell units apart

_ESCAPES = re.compile("&(?:quot|apos|amp|lt|gt|#[0-9]+);")  # of Moses' tokeniser
_DIGIT = re.compile("[0-9]")


def split(text: str) -> tuple[str, ...]:
    """Split a text of a list, which has single blanks."""
    return tuple([word for word in text.split(" ") if word])


def parsed_links(align: str) -> tuple[tuple[int, int], ...]:
    """Parse the links of an alignment like '0-0 1-2'."""
    return tuple([(int(i), int(j)) for i, j in (link.split("-") for link in align.split())])


@lru_cache(100_000)
def is_punctuation(word: str) -> bool:
    """Whether it is made of punctuation marks and symbols only."""
    return word != "" and all(category(sign)[0] in "PS" for sign in _ESCAPES.sub("!", word))


def has_letter(word: str) -> bool:
    return any(sign.isalpha() for sign in word)


def has_digit(word: str) -> bool:
    return _DIGIT.search(word) is not None


def unlinked(words: Words, links: Links, side: int) -> list[str]:
    """Give the words of one side that have no link."""
    linked = {link[side] for link in links}
    return [word for i, word in enumerate(words) if i not in linked]


def counts(prefix: str, names: Iterable[str]) -> dict[str, float]:
    """Count names, each with a prefix."""
    out: dict[str, float] = {}
    for name in names:
        out[prefix + name] = out.get(prefix + name, 0.0) + 1.0
    return out


def classes(words: Words, clusters: Mapping[str, str]) -> list[str]:
    """Give the cluster of each word."""
    return [clusters.get(word, UNKNOWN_CLUSTER) for word in words]


def rounded(p: float) -> float:
    return round(p / STEP) * STEP


def as_sets(**options: list[str]) -> dict[str, frozenset[str]]:
    """Make sets of options that are lists of distinct words, which are only looked up."""
    for name, words in options.items():
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or len({*words}) < len(words):
            raise TypeError(f"{name}: expected a list of distinct words")
    return {name: frozenset(words) for name, words in options.items()}
