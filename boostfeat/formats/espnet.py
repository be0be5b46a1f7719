"""A folder that ESPnet's recognition wrote: ``1best_recog/{text,score,...}``, ``2best_recog/...``, with ``utt value`` lines.

Sentences are the utterances in the order of ``1best_recog/text``; hypotheses are best first: Rank and First. ``score`` (often
``tensor(-3.2)``) is a feature and the decoder's score. Words of ``text`` are units.
"""

from __future__ import annotations

import re
from math import nan
from pathlib import Path

from ..core.errors import FormatError, counted
from ..core.text import normal
from ..lists.build import ReadOptions
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from .json_objects import as_number, key_values

_FOLDER = re.compile(r"([0-9]{1,6})best_recog")


def is_folder(path: str | Path) -> bool:
    return (Path(path) / "1best_recog" / "text").is_file()


def read(path: str | Path, options: ReadOptions) -> NBest:
    folders = sorted((int(m[1]), f) for f in Path(path).glob("*best_recog") if (m := _FOLDER.fullmatch(f.name)))
    if not is_folder(path):
        raise FormatError(str(path), expected="a folder with 1best_recog/text", found="none", fix="name ESPnet's output folder")
    texts = [key_values(folder / "text") for _, folder in folders]
    scores = [key_values(folder / "score") if (folder / "score").is_file() else {} for _, folder in folders]
    unknown = sorted({utt for own in texts for utt in own} - texts[0].keys())
    if unknown:
        options.warn(f"{path}: {len(unknown)} utterances that 1best_recog/text lacks are not read, {unknown[0]!r} the first")
    unscored = [utt for own, score in zip(texts, scores, strict=True) for utt in own if utt in texts[0] and utt not in score]
    if unscored and any(scores):
        options.warn(
            f"{path}: {counted(len(unscored), 'hypothesis')} without a score, which counts as 0, {unscored[0]!r} the first"
        )
    builder = TokenBuilder(options, ranked=True)
    places = [(f"{folder / 'text'}: ", f"{folder / 'score'}: ") for _, folder in folders]  # paths take longer to join than lines
    for sent, utt in enumerate(texts[0]):
        for (in_text, in_score), own, score in zip(places, texts, scores, strict=True):
            if utt in own:
                value = as_number(score[utt], in_score + utt, "the score") if utt in score else nan
                features = {"score": value} if value == value else {}
                builder.add(TokenHyp(sent, normal(own[utt]), in_text + utt, value, features))
    return builder.finish()
