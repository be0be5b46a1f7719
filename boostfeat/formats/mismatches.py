"""References and sources that do not match a list: found by the words that texts share with their own and with other lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import log1p
from unicodedata import normalize

import numpy as np

from ..core.arrays import F64, I64
from ..lists.nbest import NBest
from ..metrics.metric import tokenizer

FEW, MOST = 20, 5_000  # sentences that tell something; beyond these, some of the whole list are looked at
NEARER = 1.1  # times as much shared: not by chance
OTHER, APART = 1.15, 0.05  # times as much, and so much more, where texts are read in another way
FORMS: dict[str, tuple[Callable[[str], str], str]] = {  # by what differs: how to read both alike, and what to do
    "in other case": (str.lower, "bring both into one case"),
    "in another Unicode form": (lambda text: normalize("NFC", text), "bring both into NFC (uconv -x any-nfc)"),
    "tokenised otherwise": (lambda text: " ".join(re.findall(r"\w+", text)), "tokenise both alike, or give --tokenize"),
}

Words = Sequence[set[str]]


def mismatches(nbest: NBest) -> Iterator[str]:
    """Yield a line for what the references of a list look like, other than its own; each of several references is looked at."""
    counts = np.diff(nbest.ref_ptr)
    n_files = int(min(counts, default=0))
    some = np.flatnonzero(np.diff(nbest.hyp_ptr))
    some = some[np.unique(np.linspace(0, len(some) - 1, min(len(some), MOST)).astype(np.int64))]
    texts = [nbest.text[h].as_py() for h in nbest.hyp_ptr[some].tolist()]
    if len(texts) < FEW or 2 * len({*texts}) < len(texts):
        return
    near = {*some.tolist(), *(some - 1).tolist(), *(some + 1).tolist()}
    source = [line if k in near else "" for k, line in enumerate(nbest.source.to_pylist())]
    found: dict[str, list[int]] = {}
    for k in range(n_files):
        lines = [line if s in near else "" for s, line in enumerate(nbest.refs.take(nbest.ref_ptr[:-1] + k).to_pylist())]
        if line := _mismatch(texts, some, lines, source, tokenizer(nbest.tokenizer)):
            found.setdefault(line, []).append(k)
    for line, files in found.items():
        who = "the references" if len(files) == n_files else ", ".join(f"reference {k + 1} of {n_files}" for k in files)
        yield f"{who}: {line}"


def _mismatch(texts: list[str], some: I64, lines: list[str], source: list[str], split: Callable[[str], str]) -> str | None:
    """Say what lines look like, of which ``lines[some]`` should be references of the texts; None: like references."""
    hyps, refs = _words(texts, split), _words(lines, split)
    own = _shares(hyps, refs, some)
    mean = float(own.mean())
    for what, (form, fix) in FORMS.items():
        alike = _shares(_words(map(form, texts), split), _words(map(form, lines), split), some).mean()
        if alike > max(OTHER * mean, mean + APART):
            return f"they look {what}: texts share {mean:.0%} of their words with them, {alike:.0%} read alike; {fix}"
    if any(source) and (nearer := _shares(hyps, _words(source, split), some).mean()) > max(OTHER * mean, mean + APART):
        return f"texts share {mean:.0%} of their words with them, {nearer:.0%} with the source; are -s and -r swapped?"
    for shift, which in ((1, "after"), (-1, "before")):
        moved = _shares(hyps, refs, some + shift)
        first, last = _best_run(moved - own)
        before, after = own[first:last].mean() if last > first else 0.0, moved[first:last].mean() if last > first else 0.0
        if last - first >= FEW and after > max(NEARER * before, before + APART):
            place = f"from line {some[first] + 1} to {some[last - 1] + 1}"
            return (
                f"they look shifted by a line {place}: texts share {before:.0%} of their words with their own, {after:.0%} with "
                f"the line {which}; is one missing or there twice?"
            )
    other = float(_shares(hyps, refs, some[::-1]).mean())
    if mean <= NEARER * other:
        return (
            f"texts share {mean:.0%} of their words with them, and {other:.0%} with those of other sentences; are these of the "
            "same sentences, in the same order and language?"
        )
    return None


def _words(texts: Iterator[str] | Sequence[str], split: Callable[[str], str]) -> Words:
    return [set(split(text).split()) for text in texts]


def _shares(hyps: Words, refs: Words, places: I64) -> F64:
    """[n] the share of each text's words that are in the line at its place, rare words counting for more; 0 beyond the lines."""
    met = Counter(word for line in refs for word in line)
    weight = {word: log1p(len(refs) / (1 + met[word])) for hyp in hyps for word in hyp}
    out = np.zeros(len(hyps))
    for k, (hyp, place) in enumerate(zip(hyps, places.tolist(), strict=True)):
        if hyp and 0 <= place < len(refs):
            out[k] = sum(weight[word] for word in hyp & refs[place]) / sum(weight[word] for word in hyp)
    return out


def _best_run(values: F64) -> tuple[int, int]:
    """Return (first, end) of the run of values with the largest sum (Kadane's algorithm)."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    low = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - low))
    return int(np.argmin(sums[: end + 1])), end
