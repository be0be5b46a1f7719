"""sockeye's ``--output-type json``: an object a line with ``sentence_id, translation(s), score(s)`` and what the input had.

Scores are negative log-probabilities, the lower the better; the feature ``score`` and the decoder's score are their
negatives, those of target factors score_1, score_2, ... Keys of the input that have a number for each translation are
features, ``text`` is the source and ``reference`` the reference. A line is a sentence, in the order of the file.
"""

from __future__ import annotations

from itertools import islice
from math import nan
from pathlib import Path
from typing import Any

from ..core.errors import FormatError
from ..core.text import normal
from ..lists.build import ReadOptions, with_own_lines
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from .json_objects import Keys, as_number, get, numbers_of, objects, texts_of
from .speech_lists import is_column

KNOWN = ("sentence_id", "translation", "translations", "score", "scores", "text", "reference")


def read(path: str | Path, options: ReadOptions) -> NBest:
    builder, sources, refs = TokenBuilder(options), [], []
    keys = Keys(options, KNOWN)
    for sent, (where, row) in enumerate(islice(objects(path), options.first)):
        texts = texts_of(row["translations"], where, "'translations'") if "translations" in row else _one(row, where)
        columns = {k: numbers_of(v, where, k) for k, v in row.items() if k not in KNOWN and is_column(v, len(texts))}
        keys.see({key: value for key, value in row.items() if key not in columns})
        scores = _scores(row, len(texts), where)
        builder.sentence(sent, where)
        for k, text in enumerate(texts):
            features = {("score" if f == 0 else f"score_{f}"): -v for f, v in enumerate(scores[k])}
            features |= {name: column[k] for name, column in columns.items()}
            builder.add(TokenHyp(sent, normal(text), where, features.get("score", nan), features))
        sources.append(get(row, "text", str, where) if "text" in row else "")
        refs.append([get(row, "reference", str, where)] if "reference" in row else [])
    keys.tell(path)
    return with_own_lines(builder.finish(), source=sources, refs=refs, threads=options.threads)


def _one(row: dict[str, Any], where: str) -> list[str]:
    return [get(row, "translation", str, where)]


def _scores(row: dict[str, Any], n: int, where: str) -> list[list[float]]:
    """A list of scores, one a factor, for each translation."""
    found = row.get("scores", [row["score"]] if "score" in row else None)
    if found is None:
        return [[] for _ in range(n)]
    if not isinstance(found, list) or len(found) != n:
        count = str(len(found)) if isinstance(found, list) else "none"
        raise FormatError(where, expected=f"scores of {n} translations", found=count, fix="repair or remove it")
    return [numbers_of(own, where, "'scores'") if isinstance(own, list) else [as_number(own, where, "'scores'")] for own in found]
