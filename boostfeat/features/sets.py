"""The registry of templates, and the sets that have a name."""

from __future__ import annotations

from .registry import Template
from .templates import candidates, phrase, place, word

TEMPLATES: dict[str, Template] = {
    "length": phrase.length,
    "size": phrase.size,
    "characters": phrase.characters,
    "lm_per_word": place.lm_per_word,
    "position": place.position,
    "jump": place.distance,
    "orientation": place.orientation,
    "unaligned": phrase.unaligned,
    "links": phrase.crossing_links,
    "punctuation": phrase.punctuation,
    "numbers": phrase.numbers,
    "copies": phrase.copies,
    "deleted_words": phrase.deleted_words,
    "inserted_words": phrase.inserted_words,
    "deleted_clusters": phrase.deleted_clusters,
    "inserted_clusters": phrase.inserted_clusters,
    "cluster_signature": phrase.cluster_signature,
    "phrase_count": phrase.phrase_count,
    "lexical_weight": phrase.lexical_weight,
    "hypothesis": candidates.whole_hypothesis,
    "model1": place.model1,
    "model1_inverse": candidates.model1_inverse,
    "previous": place.previous,
    "following": place.following,
    "neighbour_sizes": place.neighbour_sizes,
    "agreement": candidates.agreement,
    "support": candidates.support,
    "mbr": candidates.mbr,
    "word": word.word,
    "frequency": word.frequency,
    "place": word.place_in_text,
    "repeat": word.repeat,
    "slot": candidates.slot,
    "around": place.around,
    "lm": word.language_model,
    "source_words": place.source_words,
    "w": word.identity,
    "ws": word.word_shape,
    "pt": phrase.pt,
    "id": phrase.rule_id,
    "shape": phrase.shape,
    "al": phrase.al,
    "del": phrase.deletion,
    "wp": phrase.word_pair,
    "ins": phrase.insertion,
    "un": phrase.un,
    "bi": place.bigram,
    "lo": place.reordering,
    "cx": place.context,
    "ro": place.phrase_reordering,
    "cu": place.context_with_unknown,
    "cb": place.class_ngrams,
    "co": place.class_reordering,
    "cc": place.class_context,
}

# What induce takes by itself for lists of words: those that were measured (examples/trials.md)
_BASIC = (
    *("word", "frequency", "place", "repeat", "slot", "source_words", "agreement", "mbr", "hypothesis"),
    *("model1", "model1_inverse", "un", "bi"),
)

_SPARSE = ("pt", "id", "shape", "al", "del", "wp", "ins", "un", "bi", "lo", "cx")
_CLASSES = ("cb", "co", "cc")  # of word classes

SETS: dict[str, tuple[str, ...]] = {
    "base": (),
    "large": (
        "length",
        "size",
        "characters",
        "lm_per_word",
        "position",
        "jump",
        "orientation",
        "unaligned",
        "links",
        "punctuation",
        "numbers",
        "copies",
        "deleted_words",
        "inserted_words",
        "deleted_clusters",
        "inserted_clusters",
        "cluster_signature",
        "phrase_count",
        "lexical_weight",
    ),
    "sparse": _SPARSE,
    "sparse-static": _SPARSE[:8],  # of the phrase pair: a table can hold them
    "classes": ("al", "bi", "cx", *_CLASSES),  # a third of the features of sparse
    "phrases": (*_SPARSE, *_CLASSES, "model1"),  # what induce takes by itself for lists of phrases
    "neighbours": ("previous", "following", "neighbour_sizes"),
    "consensus": ("agreement", "support", "mbr"),
    "words-basic": _BASIC,
    "words": (*_BASIC, "around", "lm", "w", "ws"),
    "e12": ("wp", "ins", "bi"),  # [E12 3.3]
    "g13": ("pt", "al", "del", "ro"),  # [G13 4.1]: PT, AL, LO
    "emr13": ("id", "shape", "un", "cu"),  # [EMR13 4.2]
}
N_CLASSES = dict.fromkeys(_CLASSES, 32)  # word classes of templates; others have 16
ON_REQUEST = ("phrase table", "bitext")  # a set leaves out templates that read these where they are not given, without a word
