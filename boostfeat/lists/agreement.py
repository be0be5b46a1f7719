"""Do lists that are used together, or a list and a model, agree: in features, tokenisation and references?"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, pairwise

from ..core.errors import InputError, counted
from ..core.text import has_text, is_whole
from .nbest import NBest

FIRST = 3  # texts of a list that tell sentences apart where there are no sources and no references
_REMEDY = "featurize it as the other was (--plan), or give --allow-missing: they count as 0 then"


def check_agreement(lists: Mapping[str, NBest], *, allow_missing: bool = False) -> list[str]:
    """Raise where a list lacks features of the first, or was featurized or tokenised otherwise. Gives lines on what else differs.

    Dense features are columns that all lists of a kind have. Sparse ones come with the words of a list: see ``lacking``.
    """
    (first, base), *others = lists.items()
    lines = []
    for name, nbest in others:
        if nbest.tokenizer != base.tokenizer:
            raise InputError(
                f"{name}: expected BLEU statistics by --tokenize {base.tokenizer}, as {first} has them, "
                f"found {nbest.tokenizer}; import it again"
            )
        problems = []
        if missing := _missing(base, nbest):
            names = shown(missing)
            problems.append((f"the features of {first}, found none of {names}", f"lacks {names} of {first}, which count as 0"))
        plans = [one.meta.get("vocab") for one in (base, nbest)]
        if all(plans) and plans[0] != plans[1]:
            expected = f"templates as {first} has them, by the plan {plans[0]}, found {plans[1]}"
            problems.append((expected, f"was featurized by another plan than {first}"))
        for expected, line in problems:
            if not allow_missing:
                raise InputError(f"{name}: expected {expected}; {_REMEDY}")
            lines.append(f"{name} {line}")
        known = set(base.feature_names)
        if more := [feature for feature in nbest.global_names if feature not in known]:
            lines.append(f"{name} has features that {first} lacks, which are not used: {shown(more)}")
        counts = [len(one.refs) / max(1, len(one)) for one in (base, nbest)]
        if base.has_stats and nbest.has_stats and counts[0] != counts[1]:
            lines.append(f"references a sentence: {first} has {counts[0]:g}, {name} has {counts[1]:g}")
    return lines


def _missing(base: NBest, nbest: NBest) -> list[str]:
    known, sparse = set(nbest.feature_names), base.sparse_names.to_pylist()
    dense = [feature for feature in base.global_names if feature not in known]
    return dense + (sparse if sparse and known.isdisjoint(sparse) else lacking(sparse, nbest))


def lacking(names: Iterable[str], nbest: NBest, *, seen: Iterable[str] = ()) -> list[str]:
    """Return, of features that a model or another list has, those that a list lacks and should have.

    Sparse features come with the words of a list, so that some are always missing. They go by kind: pt: of pt:a|b, pt_ of
    Moses' pt_a~b. Those of a kind that is sparse here, or that the list was featurized with, may be missing; also those of a
    kind ``seen`` elsewhere, as in the graph that the list is from.
    """
    known = set(nbest.feature_names)
    missing = [name for name in names if name not in known]
    if not missing:
        return []
    made = json.loads(nbest.meta.get("templates", "[]"))
    kinds = {_kind(name) for name in nbest.sparse_names.to_pylist()} | {group.get("prefix") for group in made}
    kinds |= {_kind(name) for name in seen} - {""}
    return [name for name in missing if _kind(name) not in kinds]


def _kind(name: str) -> str:
    """Return what the names of a sparse template begin with; "" for a name that stands alone."""
    head, colon, _ = name.partition(":")
    if colon:
        return head + colon
    head, bar, number = name.partition("_")
    return head + bar if bar and not is_whole(number) else ""


@dataclass(frozen=True)
class Shared:
    """Two lists that have sentences in common."""

    a: str
    b: str
    sentences: int
    share: float  # of b
    identical: bool  # all of both

    def __str__(self) -> str:
        shared = f"{self.a} and {self.b} share {counted(self.sentences, 'sentence')} ({100 * self.share:.0f}% of {self.b})"
        return f"{shared}: what is learned or chosen on them looks too good there"


def shared_sentences(lists: Mapping[str, NBest]) -> list[Shared]:
    """Every two lists that have sentences in common, with their number and share.

    They are known by sources and references, by one of these where a list lacks the other, and else by the first texts of lists.
    """
    found = []
    for a, b in combinations(lists, 2):
        told = [(has_text(lists[name].source), has_text(lists[name].refs)) for name in (a, b)]
        kinds = [k for k, both in enumerate(zip(*told, strict=True)) if all(both)]
        own, other = (_keys(lists[name], kinds) for name in (a, b))
        if both := sum(map(set(own).__contains__, other)):
            found.append(Shared(a, b, both, both / len(other), sorted(own) == sorted(other)))
    return found


def _keys(nbest: NBest, kinds: Sequence[int]) -> list[tuple[str, ...]]:
    """Return what tells sentences apart: source (0), references (1), or the first texts of a list where there is no kind."""
    if kinds:
        found = [(sentence[:1], sentence[1:]) for sentence in _sentences(nbest)]
        return [key for both in found if any(key := sum((both[k] for k in kinds), ()))]
    texts = nbest.text.to_pylist()
    first = [tuple(texts[a : min(b, a + FIRST)]) for a, b in pairwise(nbest.hyp_ptr.tolist())]
    return [key for key in first if any(key)]  # lists of numbers alone have no texts to know them by


def _sentences(nbest: NBest) -> list[tuple[str, ...]]:
    """Return what tells sentences apart: source and references; nothing where a list has neither."""
    refs, ptr = nbest.refs.to_pylist(), nbest.ref_ptr.tolist()
    found = [(source, *refs[a:b]) for source, a, b in zip(nbest.source.to_pylist(), ptr[:-1], ptr[1:], strict=True)]
    return [key for key in found if any(key)]


def sentence_digests(nbest: NBest) -> list[str]:
    """Return eight hexadecimal digits for each sentence with a source or references: enough to know a list again."""
    return list(map(sentence_digest, _sentences(nbest)))


def sentence_digest(sentence: tuple[str, ...]) -> str:
    """Return the digest of a source and its references."""
    return f"{zlib.crc32(chr(10).join(sentence).encode()):08x}"


def known_sentences(nbest: NBest, digests: Set[str]) -> list[bool]:
    """Tell for each sentence with a source or references whether a digest is its own, or of its source with one of its
    references: so a line of a bitext has it.
    """

    def is_known(source: str, *refs: str) -> bool:
        return any(sentence_digest(own) in digests for own in ((source, *refs), *((source, ref) for ref in refs)))

    return [is_known(*sentence) for sentence in _sentences(nbest)]


def shown(names: Sequence[str], most: int = 5) -> str:
    """The first few of many names; those with blanks or commas in quotes."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(f"'{name}'" if " " in name or "," in name else name for name in names[:most]) + more
