"""Names of the decoder's features, as Moses writes them."""

from __future__ import annotations

UNKNOWN = "UnknownWordPenalty0"
UNKNOWN_VALUE = -100.0  # of a word that the table lacks
REORDERING = tuple(f"LexicalReordering0_{i}" for i in range(6))
DISTORTION, LM, WORD_PENALTY, PHRASE_PENALTY = "Distortion0", "LM0", "WordPenalty0", "PhrasePenalty0"
TRANSLATION = "TranslationModel0"
CONTEXT = (*REORDERING, DISTORTION, LM)  # the order of kernels

# Columns of templates (jump, orientation, previous, following, lm_per_word) that the edge itself tells: they follow CONTEXT
MOVE = ("jump.signed", "jump.log", "jump.left", "jump.far", "ori.<mono", "ori.<swap", "ori.<right", "ori.<left")
ENDS = ("prev.none", "next.none")  # whether a phrase is the first, the last
PER_WORD = f"lm.word.{LM}"
QUANTILES = ("q10", "q25", "q75", "q90")
LM_WORD = (PER_WORD, *(f"{PER_WORD}<{q}" for q in QUANTILES))
EDGE = (*CONTEXT, *MOVE, *ENDS, *LM_WORD)


def base_names(n_scores: int, *, has_reordering: bool) -> tuple[str, ...]:
    """Names in the order of Moses' n-best lists."""
    translation = (TRANSLATION,) if n_scores == 1 else tuple(f"{TRANSLATION}_{i}" for i in range(n_scores))
    return (*(REORDERING if has_reordering else ()), DISTORTION, LM, WORD_PENALTY, PHRASE_PENALTY, *translation)
