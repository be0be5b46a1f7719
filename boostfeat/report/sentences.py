"""The sentence browser's data: what each system chose, and what each unit of it contributed to the score."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import F64, offsets
from ..bleu import sentence_bleu
from ..model import Model, hypothesis_table, tree_scores, unit_table
from ..nbest import NBest
from .overview import rounded
from .run import Run


def sentences(run: Run) -> dict[str, Any]:
    """Sentences with every hypothesis that some system, the decoder or the oracle chose, each once.

    A sentence's units are a table [source, target, linear parts, tree parts] with a part for every system that has a model; a
    hypothesis has its units as [row, first word, words] (-1 where unknown).
    """
    nb = run.test
    scorers = [s for s in run.systems if s.model is not None]
    choices = np.stack([*(s.chosen for s in run.systems), run.decoder, run.oracle])  # [C, S]
    shown = np.unique(choices[choices >= 0])
    counts = np.bincount(nb.sent_of_hyp[shown], minlength=len(nb))
    part = nb.take_hyps(shown, offsets(counts)).compact()  # only what is shown: small
    gains = 100 * sentence_bleu(part.stats)
    linear, trees, own = _contributions([s.model for s in scorers if s.model], part)
    position = {int(h): k for k, h in enumerate(shown)}
    ranks = run.rank[shown]
    out = []
    for s in range(len(nb)):
        hyps = range(int(part.hyp_ptr[s]), int(part.hyp_ptr[s + 1]))
        first = hyps.start
        units = np.unique(part.unit_idx[part.unit_ptr[hyps.start] : part.unit_ptr[hyps.stop]])
        row_of = {int(v): k for k, v in enumerate(units)}
        out.append(
            {
                "id": int(nb.ids[s]),
                "source": nb.source[s].as_py(),
                "refs": nb.refs.slice(nb.ref_ptr[s], nb.ref_ptr[s + 1] - nb.ref_ptr[s]).to_pylist(),
                "size": int(nb.hyp_ptr[s + 1] - nb.hyp_ptr[s]),
                "hyps": [
                    {
                        "text": part.text[h].as_py(),
                        "gain": round(float(gains[h]), 1),
                        "rank": int(ranks[h]),
                        "units": _spans(part, h, row_of),
                        "own": rounded(own[h], 4) if own[h].any() else [],
                    }
                    for h in hyps
                ],
                "units": [
                    [part.units.src[int(v)].as_py(), part.units.tgt[int(v)].as_py(), rounded(linear[v], 3), rounded(trees[v], 3)]
                    for v in units
                ],
                "chosen": [position[int(h)] - first if h >= 0 else -1 for h in choices[:, s]],
            }
        )
    return {
        "systems": [s.name for s in run.systems],
        "scorers": [s.name for s in scorers],
        "ours": run.ours.name,
        "linear": run.linear.name,
        "sentences": out,
    }


def _contributions(models: list[Model], part: NBest) -> tuple[F64, F64, F64]:
    """What units add to the score by weights [V, M] and by trees [V, M], and what only whole hypotheses do [H, M]."""
    linear, trees = np.zeros((2, part.n_units, len(models)))
    own = np.zeros((part.n_hyps, len(models)))
    for m, model in enumerate(models):
        linear[:, m], own[:, m] = part.weigh(dict(model.weights))
        if model.trees and model.level == "global":
            own[:, m] += tree_scores(model.trees, hypothesis_table(part))
        elif model.trees:
            trees[:, m] = tree_scores(model.trees, unit_table(part))
    return linear, trees, own


def _spans(part: NBest, h: int, row_of: dict[int, int]) -> list[list[int]]:
    at = slice(int(part.unit_ptr[h]), int(part.unit_ptr[h + 1]))
    lengths = part.units.tgt_len[part.unit_idx[at]]
    return [
        [row_of[int(v)], int(start), int(n)] for v, start, n in zip(part.unit_idx[at], part.tgt_start[at], lengths, strict=True)
    ]
