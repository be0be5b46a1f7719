"""Moses' labelled features, ``LM0= -1.5 TranslationModel0= -0.1 -0.2`` (legacy ``lm: -1.5``), and the blocks that hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...core.text import BLANKS

_NUMBERED = re.compile(r"(.+)_(0|[1-9][0-9]*)")


def block_fields(block: str) -> tuple[str, str, str, str]:
    """The span, alignment, total and features of a block, each as text; alignment and total may be missing."""
    span, _, rest = block.partition(",")
    align = total = ""
    rest = rest.lstrip(BLANKS)
    if rest.startswith("wa="):
        align, _, rest = rest[3:].partition(",")
        rest = rest.lstrip(BLANKS)
    if rest.startswith("total="):
        total, _, rest = rest[6:].partition(",")
    return span, align, total, rest


def group_names(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """(label, positions): runs Name_0, Name_1, ... of at least two go under one label; every other name stands alone."""
    groups: list[tuple[str, list[int]]] = []
    i = 0
    while i < len(names):
        found = _NUMBERED.fullmatch(names[i])
        n = 0
        if found and found[2] == "0":
            while i + n < len(names) and names[i + n] == f"{found[1]}_{n}":
                n += 1
        if found and n >= 2:
            groups.append((found[1], list(range(i, i + n))))
            i += n
        else:
            groups.append((names[i], [i]))
            i += 1
    return groups


def format_features(groups: list[tuple[str, list[int]]], values: Sequence[float]) -> str:
    """The labelled features of one row; numbers are written so that they read back exactly."""
    return " ".join(f"{label}= " + " ".join(format_number(values[i]) for i in at) for label, at in groups)


def format_number(value: float) -> str:
    """The shortest text that reads back as the same number; whole numbers without ``.0``."""
    text = repr(float(value))
    return text.removesuffix(".0")


def component(name: str) -> tuple[str, int]:
    """(feature function, which of its values) of a feature as lists name it: TranslationModel0_2, LM0."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)


def score_names(producer: str, n: int) -> tuple[str, ...]:
    """Name a feature function's values as lists do: one with a single value keeps its name."""
    return (producer,) if n == 1 else tuple(f"{producer}_{i}" for i in range(n))
