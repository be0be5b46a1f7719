"""The registry of templates, and the sets that have a name."""

from __future__ import annotations

from . import consensus, dense, lexical, neighbours, references, sparse, word_units
from .registry import Template

TEMPLATES: dict[str, Template] = {
    "length": dense.length,
    "size": dense.size,
    "characters": dense.characters,
    "lm_per_word": dense.lm_per_word,
    "position": dense.position,
    "jump": dense.jump,
    "orientation": dense.orientation,
    "unaligned": dense.unaligned,
    "links": dense.links,
    "punctuation": dense.punctuation,
    "numbers": dense.numbers,
    "copies": dense.copies,
    "deleted_words": lexical.deleted_words,
    "inserted_words": lexical.inserted_words,
    "deleted_clusters": lexical.deleted_clusters,
    "inserted_clusters": lexical.inserted_clusters,
    "cluster_signature": lexical.cluster_signature,
    "phrase_count": dense.phrase_count,
    "lexical_weight": dense.lexical_weight,
    "hypothesis": dense.hypothesis,
    "model1": references.model1,
    "model1_inverse": references.model1_inverse,
    "previous": neighbours.previous,
    "following": neighbours.following,
    "neighbour_sizes": neighbours.neighbour_sizes,
    "agreement": consensus.agreement,
    "support": consensus.support,
    "mbr": consensus.mbr,
    "word": word_units.word,
    "frequency": word_units.frequency,
    "place": word_units.place,
    "repeat": word_units.repeat,
    "slot": word_units.slot,
    "around": word_units.around,
    "lm": word_units.language_model,
    "source_words": word_units.source_words,
    "w": word_units.identity,
    "ws": word_units.word_shape,
    "pt": sparse.pt,
    "id": sparse.rule_id,
    "shape": sparse.shape,
    "al": sparse.al,
    "del": sparse.deletion,
    "wp": sparse.word_pair,
    "ins": sparse.insertion,
    "un": sparse.un,
    "bi": sparse.bigram,
    "lo": sparse.reordering,
    "cx": sparse.context,
    "ro": sparse.phrase_reordering,
    "cu": sparse.context_with_unknown,
    "cb": sparse.class_ngrams,
    "co": sparse.class_reordering,
    "cc": sparse.class_context,
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
