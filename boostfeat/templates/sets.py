"""The registry of templates, and the sets that have a name."""

from __future__ import annotations

from . import dense, lexical, sparse
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
}

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
    "sparse": ("pt", "id", "shape", "al", "del", "wp", "ins", "un", "bi", "lo", "cx"),
}
ON_REQUEST = ("phrase table", "bitext")  # a set leaves out templates that read these where they are not given
