"""HyPoradise's lists of speech recognisers: ``[{"input": [texts], "output": reference, "am_score": [numbers]}, ...]``.

Every key with a number for each text is a feature; am_score, else score, is the decoder's. The texts are best first: Rank and
First. Sentences are numbered in the order of the file; ``id`` is not kept. Words are units.
"""

from __future__ import annotations

from itertools import islice
from math import nan
from pathlib import Path
from typing import Any

from ..core.text import normal
from ..lists.build import ReadOptions, with_own_lines
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenList
from .json_objects import Keys, are_numbers, get, numbers_of, objects, texts_of

SCORES = ("am_score", "score")  # the decoder's own, the first that is there


def read(path: str | Path, options: ReadOptions) -> NBest:
    builder, refs = TokenBuilder(options, ranked=True), []
    keys = Keys(options, ("id", "input", "output"))
    for sent, (where, row) in enumerate(islice(objects(path), options.first)):
        texts = texts_of(get(row, "input", list, where), where, "'input'")
        columns = {key: numbers_of(value, where, f"{key!r}") for key, value in row.items() if is_column(value, len(texts))}
        keys.see({key: value for key, value in row.items() if key not in columns})
        scores = next((columns[name] for name in SCORES if name in columns), [nan] * len(texts))
        builder.sentence(sent, where)
        if texts:
            builder.add_list(TokenList(sent, [where] * len(texts), [normal(text) for text in texts], scores, columns))
        refs.append([get(row, "output", str, where)] if "output" in row else [])
    keys.tell(path)
    nbest = builder.finish()
    return with_own_lines(nbest, source=[""] * len(nbest), refs=refs, threads=options.threads)


def is_column(value: Any, n: int) -> bool:
    """Whether a value is a list of numbers, one for each of n texts."""
    return isinstance(value, list) and len(value) == n > 0 and are_numbers(value)
