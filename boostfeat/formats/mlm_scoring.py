"""Lists as mlm-scoring and HypR have them: ``{"utt": {"hyp_1": {"score": -1.2, "text": "..."}, ..., "ref": "..."}, ...}``.

Every number beside a text is a feature; ``score`` is the decoder's. Hypotheses are in the order of their numbers, best
first: Rank and First. Sentences are numbered in the order of the file. Words are units.
"""

from __future__ import annotations

import re
from math import nan
from pathlib import Path

from ..core.errors import FormatError, clip_json
from ..core.text import normal
from ..lists.build import ReadOptions, with_own_lines
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from .json_objects import Keys, as_number, get, objects

_HYP = re.compile(r"hyp_([0-9]{1,9})")


def read(path: str | Path, options: ReadOptions) -> NBest:
    builder, refs = TokenBuilder(options, ranked=True), []
    keys = Keys(options, ("text", "ref"))
    utterances = [(f"{where}: {utt}", utt, found) for where, row in objects(path) for utt, found in row.items()]
    for sent, (where, utt, _) in enumerate(utterances):
        own = get({utt: utterances[sent][2]}, utt, dict, where)
        named = sorted((int(match[1]), key) for key in own if (match := _HYP.fullmatch(key)))
        keys.see({key: value for key, value in own.items() if not _HYP.fullmatch(key)})
        builder.sentence(sent, where)
        for _, key in named:
            hyp = get(own, key, dict, where)
            numbers = {k: v for k, v in hyp.items() if isinstance(v, int | float) and not isinstance(v, bool)}
            keys.see({k: v for k, v in hyp.items() if k not in numbers})
            features = {k: as_number(v, where, f"{key}.{k}") for k, v in numbers.items()}
            text = get(hyp, "text", str, f"{where}: {key}")
            builder.add(TokenHyp(sent, normal(text), where, features.get("score", nan), features))
        refs.append([get(own, "ref", str, where)] if "ref" in own else [])
    if not any(_HYP.fullmatch(key) for _, _, own in utterances if isinstance(own, dict) for key in own):
        found = clip_json([utt for _, utt, _ in utterances])
        raise FormatError(str(path), expected='utterances with "hyp_1", "hyp_2", ...', found=found, fix="check what wrote it")
    keys.tell(path)
    nbest = builder.finish()
    return with_own_lines(nbest, source=[""] * len(nbest), refs=refs, threads=options.threads)
