"""Candidates of a program as lists, by the code that ``import`` uses; and lists as candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import nan
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..formats.bridges import from_openai, from_vllm
from ..lists.build import ReadOptions
from ..lists.nbest import NBest, SparseRows
from ..lists.tokens import DECODER_SCORE, FIRST, PIECES, RANK, WORDS, TokenBuilder, TokenHyp
from .plain import check_several, checked_candidate, decoder_score, words_of_text

SCORES = (DECODER_SCORE, "score")  # features that readers make of the decoder's score
COMPUTED = {RANK, FIRST, WORDS, PIECES, *SCORES}  # features that readers make of texts and their order


def list_of_objects(candidates: Any, source: str) -> NBest | None:
    """Return the list of an answer of a server, or of vLLM's outputs; None for anything else."""
    sources = [source] if source else None
    if isinstance(candidates, Sequence) and len(candidates) == 1 and hasattr(candidates[0], "outputs"):
        candidates = candidates[0]  # as generate() of one prompt gives it
    if hasattr(candidates, "choices") or (isinstance(candidates, Mapping) and {"choices", "response"} & candidates.keys()):
        return from_openai([candidates], sources=sources)
    if hasattr(candidates, "outputs"):
        return from_vllm([candidates], sources=sources)
    if isinstance(candidates, Sequence) and candidates and all(hasattr(each, "token_ids") for each in candidates):
        return from_vllm([SimpleNamespace(outputs=candidates)], sources=sources)
    return None


def as_dictionaries(candidates: Sequence[Any]) -> list[dict[str, Any]]:
    """Return candidates as dictionaries: texts, (text, score) and (text, features) are some too."""
    check_several(candidates)
    return [dict(checked_candidate(_named(each), f"candidates[{k}]")) for k, each in enumerate(candidates)]


def _named(candidate: Any) -> Any:
    if isinstance(candidate, tuple | list) and len(candidate) == 2:
        text, other = candidate
        return {"text": text, ("features" if isinstance(other, Mapping) else "score"): other}
    return candidate


def dictionaries_of_texts(candidates: Sequence[Mapping[str, Any]], source: str, needed: Set[str]) -> list[dict[str, Any]]:
    """Return texts with what ``import`` makes of them: words as units; ranks and scores as features where they are needed."""
    given = {name for each in candidates for name in each.get("features") or ()}
    builder = TokenBuilder(ReadOptions(), ranked=bool(needed & {RANK, FIRST}) and not given & {RANK, FIRST})
    for k, each in enumerate(candidates):
        score = decoder_score(each)
        features = {} if score is None else dict.fromkeys(needed & {*SCORES}, score)
        features |= {name: float(value) for name, value in (each.get("features") or {}).items()}
        text = " ".join(words_of_text(each["text"]))
        builder.add(TokenHyp(0, text, f"candidates[{k}]", nan if score is None else score, features))
    nbest = builder.finish()
    rows = [row for _, own in lists_of_candidates(nbest, set(), set(nbest.unit_names)) for row in own]
    for row, each in zip(rows, candidates, strict=True):
        absent = given - (each.get("features") or {}).keys()
        row["features"] = {name: value for name, value in row["features"].items() if name not in absent}
    return rows


def lists_of_candidates(nbest: NBest, made: Set[str], needed: Set[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield (source, candidates) of each list, as a program would give them to a model.

    It computes the features ``made`` itself; those ``needed`` that a candidate does not have are 0.
    """
    units, names = nbest.units, nbest.unit_names
    zeros, zeros_beside_units = dict.fromkeys(needed, 0.0), dict.fromkeys(needed - set(names), 0.0)
    texts = list(zip(units.src.to_pylist(), units.tgt.to_pylist(), units.align.to_pylist(), strict=True))
    sparse_names, score = nbest.sparse_names.to_pylist(), nbest.score.tolist()
    lengths = np.stack([units.src_len, units.tgt_len], axis=1).tolist()

    def sparse(rows: SparseRows, k: int) -> dict[str, float]:
        own = slice(rows.ptr[k], rows.ptr[k + 1])
        entries = zip((sparse_names[i] for i in rows.idx[own].tolist()), rows.val[own].tolist(), strict=True)
        return {name: value for name, value in entries if name not in made}

    def unit(r: int) -> dict[str, Any]:
        u = int(nbest.unit_idx[r])
        (src, tgt, align), (n_src, n_tgt) = texts[u], lengths[u]
        start, tgt_start = int(nbest.src_start[r]), int(nbest.tgt_start[r])
        features = {name: x for name, x in zip(names, nbest.X[u].tolist(), strict=True) if name not in made}
        features |= sparse(units.sparse, u)
        out = {"features": features, "src_text": src, "tgt_text": tgt, "align": align}
        out |= {"src": [start, start + n_src]} if start >= 0 and n_src >= 0 else {}
        return out | ({"tgt": [tgt_start, tgt_start + n_tgt]} if tgt_start >= 0 and n_tgt >= 0 else {})

    def candidate(h: int, text: str) -> dict[str, Any]:
        own = {name: x for name, x in zip(nbest.extra_names, nbest.extra[h].tolist(), strict=True) if name not in made}
        parts = [unit(r) for r in range(nbest.unit_ptr[h], nbest.unit_ptr[h + 1])]
        return {
            "text": text,
            "score": None if score[h] != score[h] else score[h],
            "features": (zeros_beside_units if parts else zeros) | own | sparse(nbest.extra_sparse, h),
            "units": parts,
        }

    for s, source in enumerate(nbest.source.to_pylist()):
        hyps = range(int(nbest.hyp_ptr[s]), int(nbest.hyp_ptr[s + 1]))
        yield source, [candidate(h, nbest.text[h].as_py()) for h in hyps]
