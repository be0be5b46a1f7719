"""Vosk's results, one an utterance: ``{"alternatives": [{"confidence": 297.05, "text": "..", "result": [...]}]}``.

``confidence`` is a feature and the decoder's score; alternatives are best first: Rank and First. Words are units with the
numbers that ``result`` (``[{"start", "end", "word"}]``) gives them: ``conf`` where there is one, and ``seconds``. A result
without alternatives is a list of one.
"""

from __future__ import annotations

from itertools import islice
from math import nan
from pathlib import Path
from typing import Any

from ..core.text import normal, split_words
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from .json_objects import Keys, as_number, get, objects


def read(path: str | Path, options: ReadOptions) -> NBest:
    builder = TokenBuilder(options, ranked=True)
    keys = Keys(options, ("alternatives", "text", "result", "confidence", "word", "start", "end", "conf"))
    for sent, (where, row) in enumerate(islice(objects(path), options.first)):
        keys.see(row)
        builder.sentence(sent, where)
        for hyp in get(row, "alternatives", list, where) if "alternatives" in row else [row]:
            hyp = get({"alternative": hyp}, "alternative", dict, where)
            keys.see(hyp)
            text = normal(get(hyp, "text", str, where))
            score = as_number(hyp["confidence"], where, "'confidence'") if "confidence" in hyp else nan
            features = {"confidence": score} if score == score else {}
            words = [get({"word": w}, "word", dict, where) for w in get(hyp, "result", list, where)] if "result" in hyp else []
            for word in words:
                keys.see(word)
            builder.add(TokenHyp(sent, text, where, score, features, signals=_signals(words, text, where)))
    keys.tell(path)
    return builder.finish()


def _signals(words: list[dict[str, Any]], text: str, where: str) -> dict[str, list[float]]:
    if [word.get("word") for word in words] != split_words(text):
        return {}
    out = {}
    if all("conf" in word for word in words):
        out["conf"] = [as_number(word["conf"], where, "'conf'") for word in words]
    if all("start" in word and "end" in word for word in words):
        out["seconds"] = [as_number(w["end"], where, "'end'") - as_number(w["start"], where, "'start'") for w in words]
    return out
