"""Do lists that are used together, or a list and a model, agree: in features, tokenisation and references?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.errors import InputError
from .nbest import NBest

_REMEDY = "featurize it as the other was (--vocab), or give --allow-missing: they count as 0 then"


def check_agreement(lists: Mapping[str, NBest], *, allow_missing: bool = False) -> list[str]:
    """Raise where a list lacks features of the first, or was tokenised otherwise. Gives warnings of what else differs.

    Dense features are columns that all lists of a kind have. Sparse ones come with the words of a list, so some are always
    missing; a list that has none of them was not featurized as the first was.
    """
    (first, base), *others = lists.items()
    warnings = []
    for name, nbest in others:
        if nbest.tokenizer != base.tokenizer:
            raise InputError(
                f"{name}: expected BLEU statistics by --tokenize {base.tokenizer}, as {first} has them, "
                f"found {nbest.tokenizer}; import it again"
            )
        sparse = base.sparse_names.to_pylist()
        known = set(nbest.feature_names)
        missing = [feature for feature in base.global_names if feature not in known]
        if sparse and not known.intersection(sparse):
            missing += sparse
        if missing and not allow_missing:
            raise InputError(f"{name}: expected the features of {first}, found none of {shown(missing)}; {_REMEDY}")
        counts = [len(one.refs) / max(1, len(one)) for one in (base, nbest)]
        if base.has_stats and nbest.has_stats and counts[0] != counts[1]:
            warnings.append(f"{first} has {counts[0]:g} references a sentence, {name} has {counts[1]:g}")
    return warnings


def shared_sentences(lists: Mapping[str, NBest]) -> list[str]:
    """A line for every two lists that have sentences in common, by source and references, with their number and share."""
    keys = {name: _sentences(nbest) for name, nbest in lists.items()}
    names = list(keys)
    lines = []
    for k, a in enumerate(names):
        for b in names[k + 1 :]:
            seen = set(keys[a])
            both = sum(key in seen for key in keys[b])
            if both:
                lines.append(f"{a} and {b} share {both:,} sentences ({100 * both / len(keys[b]):.0f}% of {b})")
    return lines


def _sentences(nbest: NBest) -> list[tuple[str, ...]]:
    """What tells sentences apart: source and references; nothing where a list has neither."""
    refs, ptr = nbest.refs.to_pylist(), nbest.ref_ptr.tolist()
    found = [(source, *refs[a:b]) for source, a, b in zip(nbest.source.to_pylist(), ptr[:-1], ptr[1:], strict=True)]
    return [key for key in found if any(key)]


def shown(names: Sequence[str], most: int = 5) -> str:
    """The first few of many names."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
