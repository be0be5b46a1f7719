"""The templates, each one plain function of what its arguments name (features.registry.ARGUMENTS), and sets that have a name.

The modules import no more of the package than the decorator and what teaches a template: the functions can stand elsewhere.
"""

from __future__ import annotations

from ..registry import Template
from . import candidates, phrase, place, word

TEMPLATES: dict[str, Template] = {
    found.name: found
    for module in (phrase, place, word, candidates)
    for found in vars(module).values()
    if isinstance(found, Template) and found.compute.__module__ == module.__name__
}

# For lists of words: those that were measured (examples/trials.md)
_BASIC = (
    *("word", "frequency", "place", "repeat", "slot", "source_words", "agreement", "mbr", "hypothesis"),
    *("model1", "model1_bitext", "model1_inverse", "expected_length", "un", "bi"),
)

_SPARSE = ("pt", "id", "shape", "al", "del", "wp", "ins", "un", "bi", "lo", "cx")
_CLASSES = ("cb", "co", "cc")  # of word classes

SETS: dict[str, tuple[str, ...]] = {
    "base": (),
    "large": (
        *("length", "size", "characters", "lm_per_word", "position", "jump", "orientation", "unaligned", "links"),
        *("punctuation", "numbers", "copies", "deleted_words", "inserted_words", "deleted_clusters", "inserted_clusters"),
        *("cluster_signature", "phrase_count", "lexical_weight", "morpheme_weight"),
    ),
    "sparse": _SPARSE,
    "sparse-static": _SPARSE[:8],  # of the phrase pair: a table can hold them
    "classes": ("al", "bi", "cx", *_CLASSES),  # a third of the features of sparse
    "phrases": (*_SPARSE, *_CLASSES, "model1", "model1_bitext"),
    "neighbours": ("previous", "following", "neighbour_sizes"),
    "consensus": ("agreement", "support", "mbr"),
    "words-basic": _BASIC,
    "words": (*_BASIC, "around", "lm", "w", "ws"),
    "e12": ("wp", "ins", "bi"),  # [E12 3.3]
    "g13": ("pt", "al", "del", "ro"),  # [G13 4.1]: PT, AL, LO
    "emr13": ("id", "shape", "un", "cu"),  # [EMR13 4.2]
}
BY_ITSELF = ("phrases", "words-basic")  # sets that induce takes by itself
N_CLASSES = dict.fromkeys(_CLASSES, 32)  # word classes of templates; others have 16
ON_REQUEST = ("phrase table", "bitext")  # a set leaves out templates that read these where they are not given
