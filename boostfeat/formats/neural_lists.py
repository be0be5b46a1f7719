"""Lists of speech recognisers and of sockeye, each in the way of its tool. Words are units."""

from __future__ import annotations

import re
from itertools import islice
from math import nan
from pathlib import Path
from typing import Any

from ..core.errors import FormatError, clip_json, counted
from ..core.text import normal, split_words
from ..lists.build import ReadOptions, with_own_lines
from ..lists.nbest import NBest
from ..lists.tokens import TokenBuilder, TokenHyp
from .json_objects import Keys, are_numbers, as_number, get, key_values, numbers_of, objects, texts_of

# ---------------------------------------------------------------------------------------------------------------------
# HyPoradise
# ---------------------------------------------------------------------------------------------------------------------

SCORES = ("am_score", "score")  # the decoder's own, the first that is there


def read_hyporadise(path: str | Path, options: ReadOptions) -> NBest:
    """HyPoradise's lists of speech recognisers: ``[{"input": [texts], "output": reference, "am_score": [numbers]}, ...]``.

    Every key with a number for each text is a feature; am_score, else score, is the decoder's. The texts are best first: Rank and
    First. Sentences are numbered in the order of the file; ``id`` is not kept. Words are units.
    """
    builder, refs = TokenBuilder(options, ranked=True), []
    keys = Keys(options, ("id", "input", "output"))
    for sent, (where, row) in enumerate(islice(objects(path), options.first)):
        texts = texts_of(get(row, "input", list, where), where, "'input'")
        columns = {key: numbers_of(value, where, f"{key!r}") for key, value in row.items() if is_column(value, len(texts))}
        keys.see({key: value for key, value in row.items() if key not in columns})
        scores = next((columns[name] for name in SCORES if name in columns), [nan] * len(texts))
        builder.sentence(sent, where)
        for k, text in enumerate(texts):
            features = {name: column[k] for name, column in columns.items()}
            builder.add(TokenHyp(sent, normal(text), where, scores[k], features))
        refs.append([get(row, "output", str, where)] if "output" in row else [])
    keys.tell(path)
    nbest = builder.finish()
    return with_own_lines(nbest, source=[""] * len(nbest), refs=refs, threads=options.threads)


def is_column(value: Any, n: int) -> bool:
    """Whether a value is a list of numbers, one for each of n texts."""
    return isinstance(value, list) and len(value) == n > 0 and are_numbers(value)


# ---------------------------------------------------------------------------------------------------------------------
# mlm-scoring and HypR
# ---------------------------------------------------------------------------------------------------------------------

_HYP = re.compile(r"hyp_([0-9]{1,9})")


def read_mlm_scoring(path: str | Path, options: ReadOptions) -> NBest:
    """Lists as mlm-scoring and HypR have them: ``{"utt": {"hyp_1": {"score": -1.2, "text": "..."}, ..., "ref": "..."}, ...}``.

    Every number beside a text is a feature; ``score`` is the decoder's. Hypotheses are in the order of their numbers, best
    first: Rank and First. Sentences are numbered in the order of the file. Words are units.
    """
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


# ---------------------------------------------------------------------------------------------------------------------
# Vosk
# ---------------------------------------------------------------------------------------------------------------------


def read_vosk(path: str | Path, options: ReadOptions) -> NBest:
    """Vosk's results, one an utterance: ``{"alternatives": [{"confidence": 297.05, "text": "..", "result": [...]}]}``.

    ``confidence`` is a feature and the decoder's score; alternatives are best first: Rank and First. Words are units with the
    numbers that ``result`` (``[{"start", "end", "word"}]``) gives them: ``conf`` where there is one, and ``seconds``. A result
    without alternatives is a list of one.
    """
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
            builder.add(TokenHyp(sent, text, where, score, features, signals=_word_numbers(words, text, where)))
    keys.tell(path)
    return builder.finish()


def _word_numbers(words: list[dict[str, Any]], text: str, where: str) -> dict[str, list[float]]:
    if [word.get("word") for word in words] != split_words(text):
        return {}
    out = {}
    if all("conf" in word for word in words):
        out["conf"] = [as_number(word["conf"], where, "'conf'") for word in words]
    if all("start" in word and "end" in word for word in words):
        out["seconds"] = [as_number(w["end"], where, "'end'") - as_number(w["start"], where, "'start'") for w in words]
    return out


# ---------------------------------------------------------------------------------------------------------------------
# ESPnet
# ---------------------------------------------------------------------------------------------------------------------

_FOLDER = re.compile(r"([0-9]{1,6})best_recog")


def is_folder(path: str | Path) -> bool:
    return (Path(path) / "1best_recog" / "text").is_file()


def read_espnet(path: str | Path, options: ReadOptions) -> NBest:
    """A folder that ESPnet's recognition wrote: ``1best_recog/{text,score,...}``, ``2best_recog/...``, with ``utt value`` lines.

    Sentences are the utterances in the order of ``1best_recog/text``; hypotheses are best first: Rank and First. ``score`` (often
    ``tensor(-3.2)``) is a feature and the decoder's score. Words of ``text`` are units.
    """
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


# ---------------------------------------------------------------------------------------------------------------------
# sockeye
# ---------------------------------------------------------------------------------------------------------------------

KNOWN = ("sentence_id", "translation", "translations", "score", "scores", "text", "reference")


def read_sockeye(path: str | Path, options: ReadOptions) -> NBest:
    """sockeye's ``--output-type json``: an object a line with ``sentence_id, translation(s), score(s)`` and what the input had.

    Scores are negative log-probabilities, the lower the better; the feature ``score`` and the decoder's score are their
    negatives, those of target factors score_1, score_2, ... Keys of the input that have a number for each translation are
    features, ``text`` is the source and ``reference`` the reference. A line is a sentence, in the order of the file.
    """
    builder, sources, refs = TokenBuilder(options), [], []
    keys = Keys(options, KNOWN)
    for sent, (where, row) in enumerate(islice(objects(path), options.first)):
        one = "translations" not in row
        texts = [get(row, "translation", str, where)] if one else texts_of(row["translations"], where, "'translations'")
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


def _scores(row: dict[str, Any], n: int, where: str) -> list[list[float]]:
    """A list of scores, one a factor, for each translation."""
    found = row.get("scores", [row["score"]] if "score" in row else None)
    if found is None:
        return [[] for _ in range(n)]
    if not isinstance(found, list) or len(found) != n:
        count = str(len(found)) if isinstance(found, list) else "none"
        raise FormatError(where, expected=f"scores of {n} translations", found=count, fix="repair or remove it")
    return [numbers_of(own, where, "'scores'") if isinstance(own, list) else [as_number(own, where, "'scores'")] for own in found]
