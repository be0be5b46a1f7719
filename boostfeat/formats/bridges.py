"""Lists from the objects of libraries that generate text. None of these is imported: what is used of an object is said below.

    from_transformers  outputs of generate(..., return_dict_in_generate=True, output_scores=True): sequences, scores and, of beam
                       search, sequences_scores and beam_indices; a tokenizer with convert_ids_to_tokens and decode
    from_ctranslate2   results of translate_batch or generate_batch: hypotheses (or sequences), scores, attention;
                       and, for scores of tokens, results of score_batch: tokens, log_probs
    from_vllm          request outputs: outputs[].text, token_ids, logprobs, cumulative_logprob, finish_reason
    from_openai        responses of OpenAI-style servers: dictionaries as in JSON, or objects with model_dump

Log-probabilities of tokens are units named ``logprob``, words where tokens are pieces, see lists.tokens; the library's own score
is the decoder's and the feature DecoderScore. What is known of the other tokens gives ``logprob.margin`` and ``logprob.entropy``.
Padding and ends that were forced (of probability 1) are never units. ``quality`` is how good hypotheses are: numbers [H] in order
or a sequence for each list, which make the column ``quality``; or several such columns by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import numpy as np
from scipy.special import log_softmax

from ..core.arrays import Array
from ..core.errors import InputError, counted
from ..core.text import ascii_words
from ..lists.build import ReadOptions, with_own_lines
from ..lists.nbest import NBest
from ..lists.quality import QUALITY, check_name, quality_values
from ..lists.tokens import DECODER_SCORE, END_OF_SENTENCE, TokenBuilder, TokenHyp, attention
from .neural_lists import CUT, ENTROPY, LOWEST, MARGIN, NAME, as_piece, read_openai, signals_of

Sources = Sequence[str] | None
References = Sequence[str | Sequence[str]] | None
GivenQuality = Mapping[str, Any] | Sequence[Any] | Array | None


def from_transformers(
    outputs: Any,
    tokenizer: Any,
    *,
    n: int | None = None,
    sources: Sources = None,
    refs: References = None,
    eos: int | Sequence[int] | None = None,
    quality: GivenQuality = None,
    options: ReadOptions | None = None,
) -> NBest:
    """Lists of what ``model.generate`` returned, one output or several batches; ``n`` sequences are of one source.

    ``eos`` are the ids that end a sequence, by default the tokenizer's. Scores of beam search are log-probabilities, those of
    sampling are made so: log softmax. Whisper's own ``generate`` keeps one row of scores a sequence, not those of beams:
    call ``GenerationMixin.generate(model, ...)``.
    """
    batches = outputs if isinstance(outputs, list | tuple) and not hasattr(outputs, "sequences") else [outputs]
    ends = _ends(tokenizer, eos)
    options = options or ReadOptions()
    rows = [row for batch in batches for row in _transformer_rows(batch, ends)]
    _warn_of_other_beams(rows, options)
    n = n or (max(1, len(rows) // len(sources)) if sources else len(rows))
    if not rows or len(rows) % n:
        raise InputError(
            f"from_transformers: expected a multiple of {n} sequences, found {len(rows)}; give n=num_return_sequences"
        )
    special = set(getattr(tokenizer, "all_special_ids", ()))
    builder = TokenBuilder(options)
    for k, row in enumerate(rows):
        builder.add(_transformer_hyp(k // n, f"sequence {k}", row, tokenizer, special, ends))
    return _finished(builder.finish(), sources, refs, quality)


def from_ctranslate2(
    results: Iterable[Any],
    *,
    scores: Iterable[Any] | None = None,
    sources: Sources = None,
    refs: References = None,
    quality: GivenQuality = None,
    options: ReadOptions | None = None,
) -> NBest:
    """Lists of results of ``translate_batch``; ``scores`` are results of ``score_batch``, one for each hypothesis in order."""
    answers = [(result, result.hypotheses if hasattr(result, "hypotheses") else result.sequences) for result in results]
    n = sum(len(hypotheses) for _, hypotheses in answers)
    scored = [None] * n if scores is None else list(scores)
    if len(scored) != n:
        raise InputError(f"from_ctranslate2: expected {n} scoring results, one a hypothesis, found {len(scored)}; score these")
    builder, places = TokenBuilder(options or ReadOptions()), enumerate(scored)
    for sent, (result, hypotheses) in enumerate(answers):
        attentions = getattr(result, "attention", None) or [None] * len(hypotheses)
        own = result.scores or [nan] * len(hypotheses)
        builder.sentence(sent, f"result {sent}")
        for tokens, score, weights, (k, one) in zip(hypotheses, own, attentions, places, strict=False):
            values = None if one is None else _scored(tokens, one, f"hypothesis {k}")
            builder.add(_ctranslate2_hyp(sent, f"hypothesis {k}", tokens, float(score), values, weights))
    return _finished(builder.finish(), sources, refs, quality)


def from_vllm(
    request_outputs: Iterable[Any],
    *,
    sources: Sources = None,
    refs: References = None,
    quality: GivenQuality = None,
    options: ReadOptions | None = None,
) -> NBest:
    """Lists of vLLM's request outputs, the samples of one prompt each."""
    builder = TokenBuilder(replace(options or ReadOptions(), subwords="spm"))
    for sent, request in enumerate(request_outputs):
        builder.sentence(sent, f"request {sent}")
        for sample in request.outputs:
            builder.add(_vllm_hyp(sent, f"request {sent}, sample {getattr(sample, 'index', '')}", sample))
    return _finished(builder.finish(), sources, refs, quality)


def from_openai(
    responses: Iterable[Any],
    *,
    sources: Sources = None,
    refs: References = None,
    quality: GivenQuality = None,
    options: ReadOptions | None = None,
) -> NBest:
    """Lists of responses of OpenAI-style servers, the choices for one prompt each."""
    rows = ((f"response {k}", one.model_dump() if hasattr(one, "model_dump") else one) for k, one in enumerate(responses))
    return _finished(read_openai("responses", options or ReadOptions(), rows=rows), sources, refs, quality)


def _finished(nbest: NBest, sources: Sources, refs: References, quality: GivenQuality) -> NBest:
    for what, lines in (("sources", sources), ("refs", refs)):
        if lines is not None and len(lines) != len(nbest):
            raise InputError(f"{what}: expected one for each of {counted(len(nbest), 'list')}, found {len(lines)}; align them")
    own = [[ref] if isinstance(ref, str) else list(ref) for ref in refs] if refs is not None else [[] for _ in range(len(nbest))]
    columns = {} if quality is None else quality if isinstance(quality, Mapping) else {QUALITY: quality}
    for name, values in columns.items():
        check_name(name)
        nbest = nbest.with_quality(name, quality_values(values, nbest, "quality"))
    return with_own_lines(nbest, source=sources or [""] * len(nbest), refs=own)


# ---------------------------------------------------------------------------------------------------------------------
# transformers
# ---------------------------------------------------------------------------------------------------------------------

Row = tuple[list[int], list[float], dict[str, list[float]], float]  # ids, log-probabilities, signals, score


def _ends(tokenizer: Any, eos: int | Sequence[int] | None) -> set[int]:
    found = eos if eos is not None else getattr(tokenizer, "eos_token_id", None)
    return set() if found is None else {found} if isinstance(found, int) else set(found)


def _transformer_rows(output: Any, ends: set[int]) -> list[Row]:
    """The generated tokens of each sequence, up to its end; what comes after is padding."""
    sequences, scores = _array(output.sequences), [_array(step) for step in output.scores]
    beams = getattr(output, "beam_indices", None)
    beam_of = None if beams is None else _array(beams)
    own = getattr(output, "sequences_scores", None)
    totals = None if own is None else _array(own)
    # after the prompt; a search may go on for longer than the sequences that it returns
    begin = sequences.shape[1] - (len(scores) if beam_of is None else int((beam_of >= 0).sum(axis=1).max()))
    if beam_of is not None and scores and beam_of.max() >= len(scores[0]):
        raise InputError(
            f"scores: expected a row for each of {beam_of.max() + 1} beams, found {len(scores[0])}; "
            "a Whisper model has them from GenerationMixin.generate(model, ...)"
        )
    rows = []
    for i, sequence in enumerate(sequences):
        ids = sequence[begin:].tolist()
        length = _length(ids, None if beam_of is None else beam_of[i], ends)
        logs = [scores[t][i if beam_of is None else beam_of[i][t]] for t in range(length)]
        logs = [log_softmax(step.astype(np.float64)) for step in logs] if beam_of is None else logs
        values = [float(step[token]) for step, token in zip(logs, ids, strict=False)]
        rows.append((ids[:length], values, _known_others(logs, ids), nan if totals is None else float(totals[i])))
    return rows


def _warn_of_other_beams(rows: Sequence[Row], options: ReadOptions) -> None:
    """Say so where sums are not the scores times length^penalty for any one penalty: scores of other beams."""
    known = [(sum(values), score, len(values)) for _, values, _, score in rows if score < 0 and len(values) > 1]
    penalties = [np.log(total / score) / np.log(n) for total, score, n in known if total < 0 and isfinite(total)]
    if penalties and max(penalties) - min(penalties) > 0.05:
        options.warn(
            f"{len(known)} sequences: Σ log p is length^penalty times sequences_scores for penalties from {min(penalties):.2f} "
            f"to {max(penalties):.2f}, which should be one: scores of tokens may be of other beams"
        )


def _length(ids: list[int], beams: Array | None, ends: set[int]) -> int:
    """Generated tokens, the end included; the beam of padding is -1."""
    if beams is not None:
        padding = np.flatnonzero(np.asarray(beams) < 0)
        return min(len(ids), int(padding[0]) if len(padding) else len(beams))
    return next((t + 1 for t, token in enumerate(ids) if token in ends), len(ids))


def _array(tensor: Any) -> Array:
    for step in ("detach", "cpu", "float" if str(getattr(tensor, "dtype", "")) == "torch.bfloat16" else "cpu"):
        tensor = getattr(tensor, step)() if hasattr(tensor, step) else tensor
    return tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor)


def _known_others(logs: Sequence[Array], ids: Sequence[int]) -> dict[str, list[float]]:
    margins, entropies = [], []
    for step, token in zip(logs, ids, strict=False):
        x = log_softmax(step.astype(np.float64))
        p = np.exp(x)
        entropies.append(float(-(p[p > 0] * x[p > 0]).sum()))
        others = np.delete(x, token).max(initial=-np.inf) if len(x) > 1 else -np.inf
        margins.append(float(np.clip(x[token] - others, LOWEST, -LOWEST)))
    return {MARGIN: margins, ENTROPY: entropies}


def _transformer_hyp(sent: int, where: str, row: Row, tokenizer: Any, special: set[int], ends: set[int]) -> TokenHyp:
    """Special tokens have no text: the end's score is that of </s>, others' belong to the next word; forced ones are left out."""
    ids, values, signals, score = row
    kept = [t for t, (token, v) in enumerate(zip(ids, values, strict=True)) if v != 0.0 or token not in special | ends]
    if any(not isfinite(values[t]) for t in kept):
        raise InputError(f"{where}: expected finite scores of its tokens, found others; is it of this output?")
    ended = bool(kept) and ids[kept[-1]] in ends
    names = tokenizer.convert_ids_to_tokens([ids[t] for t in kept])
    pieces = ["▁" if ids[t] in special else as_piece(name) for t, name in zip(kept, names, strict=True)]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    features = {DECODER_SCORE: score} if isfinite(score) else {}
    total, scores = score if isfinite(score) else sum(values), {NAME: [values[t] for t in kept]}
    signals = {name: [column[t] for t in kept] for name, column in signals.items()}
    return TokenHyp(sent, " ".join(pieces[:-1] if ended else pieces), where, total, features, scores, signals, text=text)


# ---------------------------------------------------------------------------------------------------------------------
# CTranslate2
# ---------------------------------------------------------------------------------------------------------------------


def _scored(tokens: Sequence[str], result: Any, where: str) -> list[float]:
    values = [float(v) for v in result.log_probs]
    if len(values) not in (len(tokens), len(tokens) + 1):
        raise InputError(
            f"{where}: expected {len(tokens)} log-probabilities (and one for the end), found {len(values)}; score these texts"
        )
    return values


def _ctranslate2_hyp(
    sent: int, where: str, tokens: Sequence[str], score: float, values: list[float] | None, weights: Any
) -> TokenHyp:
    tokens = list(tokens)
    if tokens and tokens[-1] == END_OF_SENTENCE:
        tokens = tokens[:-1]
    links, signals, coverage = attention(weights) if weights is not None and len(weights) else (None, {}, {})
    features = {**({DECODER_SCORE: score} if isfinite(score) else {}), **coverage}
    scores = {NAME: values} if values is not None else {}
    return TokenHyp(sent, " ".join(map(as_piece, tokens)), where, score, features, scores, signals, links)


# ---------------------------------------------------------------------------------------------------------------------
# vLLM
# ---------------------------------------------------------------------------------------------------------------------


def _vllm_hyp(sent: int, where: str, sample: Any) -> TokenHyp:
    features = {CUT: float(getattr(sample, "finish_reason", None) == "length")}
    total = getattr(sample, "cumulative_logprob", None)
    score = nan if total is None else float(total)
    steps: Sequence[Mapping[int, Any]] = sample.logprobs or ()
    if not steps:
        return TokenHyp(sent, as_piece(" " + " ".join(ascii_words(sample.text))), where, score, features)
    if len(steps) != len(sample.token_ids):
        raise InputError(
            f"{where}: expected log-probabilities of {counted(len(sample.token_ids), 'token')}, found {len(steps)}; ask for "
            "logprobs=1"
        )
    chosen = [step[token] for step, token in zip(steps, sample.token_ids, strict=True)]
    values = [max(float(one.logprob), LOWEST) for one in chosen]
    texts = [one.decoded_token or "" for one in chosen]
    whole, without_last, plain = ("".join(text.split()) for text in ("".join(texts), "".join(texts[:-1]), sample.text))
    ended = whole != plain and without_last == plain  # by a token that is no part of the text
    listed = [[float(one.logprob) for one in step.values()] for step in steps]
    signals = signals_of(values, listed) if min(map(len, listed)) > 1 else {}
    pieces = " ".join(as_piece(text) or "▁" for text in (texts[:-1] if ended else texts))
    return TokenHyp(sent, pieces, where, score, features, {NAME: values}, signals, text=sample.text)
