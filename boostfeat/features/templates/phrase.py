"""Templates of the phrase pair: [TA13 2.2]'s large set, and the sparse rules and words of [G13 4.1], [E12 3.3], [EMR13 4.2].

A source word without a link is deleted, a target word without one is inserted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from math import log, log1p
from typing import TYPE_CHECKING

from ..registry import Dense, Names, template
from ..teach import frequent
from .helpers import UNKNOWN_CLUSTER, Links, Words, as_sets, classes, counts, has_digit, has_letter, is_punctuation, unlinked

if TYPE_CHECKING:
    from ..lexicon import Lexicon, TranslationTable
    from ..resources import Clusters

# -- sizes ------------------------------------------------------------------------------------------------------------


@template("length", columns=("len.src", "len.tgt", "len.diff", "len.absdiff", "len.ratio"))
def length(source: Words, target: Words) -> Dense:
    """Source and target word counts, their difference and ratio."""
    n, m = float(len(source)), float(len(target))
    return {"len.src": n, "len.tgt": m, "len.diff": m - n, "len.absdiff": abs(m - n), "len.ratio": m / n if n else 0.0}


@template("size", columns=tuple(f"size.{i}x{j}" for i in (1, 2, 3) for j in (1, 2, 3)))
def size(source: Words, target: Words) -> Dense:
    """Indicators of 1, 2, 3 or more source words by 1, 2, 3 or more target words."""
    return {f"size.{min(len(source), 3)}x{min(len(target), 3)}": 1.0} if source and target else {}


@template("characters", columns=("chars.src", "chars.tgt", "chars.ratio"))
def characters(source: Words, target: Words) -> Dense:
    """Characters of both phrases without blanks, and their ratio."""
    n, m = float(sum(map(len, source))), float(sum(map(len, target)))
    return {"chars.src": n, "chars.tgt": m, "chars.ratio": m / n if n else 0.0}


# -- alignment --------------------------------------------------------------------------------------------------------


@template("unaligned", columns=tuple(f"un.{side}{where}" for side in ("src", "tgt") for where in ("", ".first", ".last")))
def unaligned(source: Words, target: Words, links: Links) -> Dense:
    """Unaligned words of both sides, in all and at the phrases' edges."""
    out: Dense = {}
    for side, words, linked in (("src", source, {i for i, _ in links}), ("tgt", target, {j for _, j in links})):
        if len(words) > len(linked):
            out[f"un.{side}"] = float(len(words) - len(linked))
            out[f"un.{side}.first"] = float(0 not in linked)
            out[f"un.{side}.last"] = float(len(words) - 1 not in linked)
    return out


@template("links", columns=("al.links", "al.cross", "al.most.src", "al.most.tgt"))
def crossing_links(source: Words, target: Words, links: Links) -> Dense:
    """Links, their crossings, and the largest number of links of one word."""
    if len(links) < 2:
        return dict.fromkeys(("al.links", "al.most.src", "al.most.tgt"), 1.0) if links else {}
    sources, targets = [i for i, _ in links], [j for _, j in links]
    return {
        "al.links": float(len(links)),
        "al.cross": float(sum(i < k and j > m for i, j in links for k, m in links)),
        "al.most.src": float(max(map(sources.count, sources))),
        "al.most.tgt": float(max(map(targets.count, targets))),
    }


# -- agreement --------------------------------------------------------------------------------------------------------


@template("punctuation", columns=tuple(f"punct.{what}" for what in ("src", "tgt", "diff", "lost", "added")))
def punctuation(source: Words, target: Words) -> Dense:
    """Punctuation of both sides, and how much they disagree."""
    src, tgt = list(filter(is_punctuation, source)), list(filter(is_punctuation, target))
    if not src and not tgt:
        return {}
    return {
        "punct.src": float(len(src)),
        "punct.tgt": float(len(tgt)),
        "punct.diff": float(abs(len(tgt) - len(src))),
        "punct.lost": float(sum(word not in target for word in src)),
        "punct.added": float(sum(word not in source for word in tgt)),
    }


@template("numbers", columns=("num.src", "num.tgt", "num.lost", "num.added"))
def numbers(source: Words, target: Words) -> Dense:
    """Words with digits, and those that the other side lacks."""
    src, tgt = list(filter(has_digit, source)), list(filter(has_digit, target))
    if not src and not tgt:
        return {}
    return {
        "num.src": float(len(src)),
        "num.tgt": float(len(tgt)),
        "num.lost": float(sum(word not in target for word in src)),
        "num.added": float(sum(word not in source for word in tgt)),
    }


@template("copies", columns=("copy.words", "copy.phrase"))
def copies(source: Words, target: Words) -> Dense:
    """Words with letters that both sides have, and whether the whole phrase is copied."""
    same = [word for word in source if word in target]
    whole = len(same) == len(source) and all(word in source for word in target) and any(map(has_letter, source))
    return {"copy.words": float(sum(map(has_letter, same))), "copy.phrase": float(whole)} if same else {}


# -- words and their clusters -----------------------------------------------------------------------------------------


@template(
    "deleted_words",
    learn=frequent(15, lambda source: {"words": source}, "words"),
    columns=lambda *, words: [f"del.{word}" for word in words],
    ready=as_sets,
)
def deleted_words(source: Words, target: Words, links: Links, *, words: Set[str]) -> Dense:
    """For each of the most frequent source words, how often it is there without a link."""
    return counts("del.", [word for word in unlinked(source, links, 0) if word in words])


@template(
    "inserted_words",
    learn=frequent(15, lambda target: {"words": target}, "words"),
    columns=lambda *, words: [f"ins.{word}" for word in words],
    ready=as_sets,
)
def inserted_words(source: Words, target: Words, links: Links, *, words: Set[str]) -> Dense:
    """For each of the most frequent target words, how often it is there without a link."""
    return counts("ins.", [word for word in unlinked(target, links, 1) if word in words])


def cluster_names(clusters: Mapping[str, str]) -> list[str]:
    """Names of clusters, the unknown one first, numbers in order of size."""
    found = set(clusters.values()) - {UNKNOWN_CLUSTER}
    return [UNKNOWN_CLUSTER, *sorted(found, key=lambda name: (len(name), name))]


@template("deleted_clusters", columns=lambda clusters: [f"del.c{name}" for name in cluster_names(clusters.src)])
def deleted_clusters(source: Words, target: Words, links: Links, clusters: Clusters) -> Dense:
    """For each cluster of source words, how many are there without a link."""
    return counts("del.c", classes(unlinked(source, links, 0), clusters.src))


@template("inserted_clusters", columns=lambda clusters: [f"ins.c{name}" for name in cluster_names(clusters.tgt)])
def inserted_clusters(source: Words, target: Words, links: Links, clusters: Clusters) -> Dense:
    """For each cluster of target words, how many are there without a link."""
    return counts("ins.c", classes(unlinked(target, links, 1), clusters.tgt))


def signature(source: Words, target: Words, clusters: Clusters) -> str:
    """Give the clusters of the source words, a bar, and those of the target words: ``12 3|7``."""
    return f"{' '.join(classes(source, clusters.src))}|{' '.join(classes(target, clusters.tgt))}"


@template(
    "cluster_signature",
    learn=frequent(55, lambda source, target, clusters: {"signatures": [signature(source, target, clusters)]}, "signatures"),
    columns=lambda *, signatures: [f"cl.{name}" for name in signatures],
    ready=as_sets,
)
def cluster_signature(source: Words, target: Words, clusters: Clusters, *, signatures: Set[str]) -> Dense:
    """Indicators of the most frequent cluster signatures of phrase pairs."""
    name = signature(source, target, clusters)
    return {f"cl.{name}": 1.0} if name in signatures else {}


# -- what the user gives ----------------------------------------------------------------------------------------------


@template("phrase_count", columns=("count.log", "count.0", "count.1"))
def phrase_count(source: Words, target: Words, phrase_counts: Mapping[tuple[str, str], float]) -> Dense:
    """Joint count of the phrase pair in the given phrase table: its logarithm, and whether it is 0 or 1."""
    return count_features(phrase_counts.get((" ".join(source), " ".join(target)), 0.0))


def count_features(n: float) -> Dense:
    """Give the features of a joint count, wherever it comes from."""
    return {"count.log": log1p(n), "count.0": float(n == 0), "count.1": float(n == 1)}


@template("lexical_weight", columns=("lex.tgt|src", "lex.src|tgt"))
def lexical_weight(source: Words, target: Words, lexicon: Lexicon) -> Dense:
    """Model 1 log-probability of each phrase given the other, from the given parallel text."""
    return {
        "lex.tgt|src": _phrase_weight(lexicon.tgt_given_src, source, target),
        "lex.src|tgt": _phrase_weight(lexicon.src_given_tgt, target, source),
    }


FLOOR = 1e-7  # probability of a word that the parallel text does not explain


def _phrase_weight(table: TranslationTable, given: Words, words: Words) -> float:
    """log Π_j 1/(l+1) Σ_{i=0..l} t(e_j|f_i): Model 1 itself, so that no alignment is needed."""
    total = 0.0
    for word in words:
        p = 0.0
        for other in given:
            p += table.t(word, other)
        total += log(max((p + table.t(word, "")) / (len(given) + 1), FLOOR))
    return total


# -- rules [G13] PT, [EMR13] rule id and shape ------------------------------------------------------------------------


@template("pt")
def pt(source: Words, target: Words) -> Names:
    """The phrase pair: ``pt:talo|house`` [G13 PT]."""
    return [f"{' '.join(source)}|{' '.join(target)}"]


@template("id")
def rule_id(source: Words, target: Words, links: Links) -> Names:
    """The rule with its alignment, which tells apart rules of the same words: ``id:talo|a house|0-1`` [EMR13]."""
    return [f"{' '.join(source)}|{' '.join(target)}|{' '.join([f'{i}-{j}' for i, j in sorted(links)])}"]


@template("shape")
def shape(source: Words, target: Words) -> Names:
    """Runs of words and gaps of both sides, ``shape:2|3``, or ``shape:1 X 2|X 1`` for a hierarchical rule [EMR13]."""
    return [f"{_runs(source)}|{_runs(target)}"]


_GAP = re.compile(r"\[[^\[\]]+\]")


def _runs(words: Words) -> str:
    """``2`` for two words, ``1 X 2`` for a word, a nonterminal, two words."""
    if not any(word[0] == "[" for word in words):
        return str(len(words)) if words else ""
    runs, n = [], 0
    for word in words:
        if _GAP.fullmatch(word):
            runs += [*([str(n)] if n else []), "X"]
            n = 0
        else:
            n += 1
    return " ".join([*runs, *([str(n)] if n else [])])


# -- words inside the phrase pair [G13] AL, [E12] ---------------------------------------------------------------------


@template("al")
def al(source: Words, target: Words, links: Links) -> Names:
    """Linked words: ``al:talo|house`` [G13 AL]."""
    return [f"{source[i]}|{target[j]}" for i, j in links]


@template("del")
def deletion(source: Words, target: Words, links: Links) -> Names:
    """Deleted source words: ``del:ja`` [G13 AL]."""
    return unlinked(source, links, 0)


@template("wp")
def word_pair(source: Words, target: Words) -> Names:
    """Every source word with every target word of the phrase pair, linked or not: ``wp:talo|house`` [E12]."""
    return [f"{one}|{other}" for other in target for one in source]


@template("ins")
def insertion(source: Words, target: Words, links: Links) -> Names:
    """An inserted target word with every source word of the phrase pair: ``ins:talo|the`` [E12]."""
    return [f"{one}|{other}" for other in unlinked(target, links, 1) for one in source]


def _unlinked_words(source: Words, target: Words, links: Links) -> Mapping[str, Sequence[str]]:
    return {"inserted": unlinked(target, links, 1), "deleted": unlinked(source, links, 0)}


@template("un", learn=frequent(150, _unlinked_words, "inserted", "deleted"), ready=as_sets)
def un(source: Words, target: Words, links: Links, *, inserted: Set[str], deleted: Set[str]) -> Names:
    """The words that are unaligned most often, where they are: ``un:+the`` inserted, ``un:-ja`` deleted [EMR13]."""
    added = [f"+{word}" for word in unlinked(target, links, 1) if word in inserted]
    return added + [f"-{word}" for word in unlinked(source, links, 0) if word in deleted]
