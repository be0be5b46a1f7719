"""The sentence browser's data: what each system chose, and what each unit of it contributed to the score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays import F64, I64, offsets, unique_rows
from ..lists.nbest import NBest
from ..model.explain import ChangedChoices, with_length
from ..model.model import hypothesis_table, tree_scores, unit_table
from .overview import rounded
from .run_folder import FinishedRun, FinishedSystem

REASONS = 8  # features and trees that are named for a choice; the others are summed


def sentences(run: FinishedRun) -> dict[str, Any]:
    """Sentences with every hypothesis that some system, the decoder or the oracle chose, each once.

    A sentence's units are a table [source, target, linear parts, tree parts] with a part for every system that has a model (a
    unit that some model scores by its context has several rows); a hypothesis has its units as [row, first word, words] (-1
    where unknown). ``why`` has what features and trees add to our choice over the decoder's, the largest first: they sum to the
    difference in score.
    """
    nb = run.test
    scorers = [s for s in run.systems if s.model is not None]
    choices = np.stack([*(s.chosen for s in run.systems), run.decoder, run.oracle])  # [C, S]
    shown = np.unique(choices[choices >= 0])
    counts = np.bincount(nb.sent_of_hyp[shown], minlength=len(nb))
    part = nb.take_hyps(shown, offsets(counts))  # only what is shown: small
    gains = run.hyp_gains[shown]
    linear, trees, own = _contributions(scorers, part, shown)
    why = _reasons(run.ours, run.decoder)
    position = {int(h): k for k, h in enumerate(shown)}
    ranks = run.rank[shown]
    out = []
    for s in range(len(nb)):
        hyps = range(int(part.hyp_ptr[s]), int(part.hyp_ptr[s + 1]))
        first = hyps.start
        at = slice(int(part.unit_ptr[hyps.start]), int(part.unit_ptr[hyps.stop]))
        rows, row_of = unique_rows(np.hstack([linear[at], trees[at]]), part.unit_idx[at, None].astype(np.int64))
        out.append({
            "id": int(nb.ids[s]),
            "source": nb.source[s].as_py(),
            "refs": nb.refs.slice(nb.ref_ptr[s], nb.ref_ptr[s + 1] - nb.ref_ptr[s]).to_pylist(),
            "size": int(nb.hyp_ptr[s + 1] - nb.hyp_ptr[s]),
            "hyps": [
                {
                    "text": part.text[h].as_py(),
                    "gain": round(float(gains[h]), 1),
                    "rank": int(ranks[h]),
                    "units": _spans(part, h, row_of[part.unit_ptr[h] - at.start :]),
                    "own": rounded(own[h], 4) if own[h].any() else [],
                }
                for h in hyps
            ],
            "units": [[*_phrases(part, int(k)), rounded(linear[k], 3), rounded(trees[k], 3)] for k in at.start + rows],
            "why": why.get(s, []),
            "chosen": [position[int(h)] - first if h >= 0 else -1 for h in choices[:, s]],
        })  # fmt: skip
    return {
        "systems": [s.name for s in run.systems],
        "scorers": [s.name for s in scorers],
        "gain": run.gain_name,
        "ours": run.ours.name,
        "linear": run.linear.name,
        "sentences": out,
    }


def _reasons(system: FinishedSystem, decoder: I64) -> dict[int, list[list[Any]]]:
    """[name, part] by sentence, of those where the system does not choose what the decoder does."""
    if system.model is None:
        return {}
    found = ChangedChoices.of(*with_length(system.model, system.nbest), system.chosen, decoder)
    out: dict[int, list[list[Any]]] = {}
    for k, s in enumerate(found.sentences.tolist()):
        parts = found.features(k)
        rest = parts[REASONS:]
        out[s] = [[name, round(part, 4)] for name, part in parts[:REASONS]]
        out[s] += [[f"{len(rest)} more", round(sum(part for _, part in rest), 4)]] if rest else []
    return out


def _contributions(scorers: Sequence[FinishedSystem], part: NBest, shown: I64) -> tuple[F64, F64, F64]:
    """Return what occurrences of units add to the score by weights [R, M] and by trees [R, M], and what only whole
    hypotheses do [H, M]. Every system is scored on the list with its own features.
    """
    linear, trees = np.zeros((2, part.n_occurrences, len(scorers)))
    own = np.zeros((part.n_hyps, len(scorers)))
    for m, system in enumerate(scorers):
        assert system.model is not None
        model, nbest = system.model, system.nbest.take_hyps(shown, part.hyp_ptr).compact()
        by_weights, own[:, m] = nbest.weigh(dict(model.weights))
        linear[:, m] = by_weights[nbest.unit_idx]
        if model.trees and model.level == "global":
            own[:, m] += tree_scores(model.trees, hypothesis_table(nbest))
        elif model.trees:
            trees[:, m] = tree_scores(model.trees, unit_table(nbest))[nbest.unit_idx]
    return linear, trees, own


def _phrases(part: NBest, occurrence: int) -> list[str]:
    unit = int(part.unit_idx[occurrence])
    return [part.units.src[unit].as_py(), part.units.tgt[unit].as_py()]


def _spans(part: NBest, h: int, rows: I64) -> list[list[int]]:
    at = slice(int(part.unit_ptr[h]), int(part.unit_ptr[h + 1]))
    lengths = part.units.tgt_len[part.unit_idx[at]]
    return [list(map(int, span)) for span in zip(rows, part.tgt_start[at], lengths, strict=False)]
