"""The words that a list taught the templates of a model: a list of another language, case or tokenisation has hardly any of them.

Measured: of the words of another Finnish-English list models of 100 sentences know 4% and more on either side, those of 500
sentences 14%; of German, Spanish, capitals or words spelt backwards all know 1.3% at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from ..core.text import split_words
from .plan import FeaturePlan

ENOUGH, MOST = 100, 2_000  # distinct words of a list that tell something, and beyond which no more are looked at
FEW = 200  # words of a plan: one of fewer says nothing of a language
LEAST_KNOWN = 0.02  # share of a list's words that a model has to know to rank them without a word
_TOLD = {  # templates whose features are named by words of a side
    "source": {"pt", "id", "al", "del", "wp", "ins", "lo", "ro", "cx", "cu"},
    "target": {"pt", "id", "al", "wp", "ins", "bi", "lo", "ro", "cx", "cu", "w", "frequency"},
}
_PARTS = re.compile(r"[| =]")  # of a sparse feature's name


class KnownWords:
    """Compares the words of lists, as they come, with those of a plan."""

    def __init__(self, plan: FeaturePlan) -> None:
        self.plan = plan
        named = {entry.name for entry in plan.entries if not entry.hash_bits}
        self._met = {side: set[str]() for side, told in _TOLD.items() if named & told}

    @cached_property
    def _known(self) -> set[str]:
        """All words of the plan, and what else its features' names have."""
        found = {*self.plan.clusters.src, *self.plan.clusters.tgt} if self.plan.clusters else set[str]()
        for entry in self.plan.entries:
            if not entry.hash_bits:
                names = (name.removeprefix(f"{entry.name}:") for name in entry.features or ())
                found.update(part.lstrip("+-") for name in names for part in _PARTS.split(name))
            for words in (entry.options.get(option) for option in ("words", "inserted", "deleted", "frequencies", "table")):
                found.update(word for word in words or () if isinstance(word, str))
        return found

    def meet(self, *, source: Iterable[str], target: Iterable[str]) -> None:
        """Look at some sentences."""
        for side, met in self._met.items():
            for text in source if side == "source" else target:
                if len(met) >= MOST:
                    break
                met.update(word for word in split_words(text) if any(map(str.isalpha, word)))

    def unknown_shares(self) -> dict[str, float]:
        """Return by side the share of the distinct words so far that the plan does not know."""
        return {side: len(met - self._known) / len(met) for side, met in self._met.items() if met}

    def doubts(self) -> list[str]:
        """Return warnings about the words so far; one for a side, when it has enough of them."""
        out = []
        for side, met in list(self._met.items()):
            if len(met) < ENOUGH:
                continue
            del self._met[side]
            known = len(met & self._known)
            if len(self._known) >= FEW and known < LEAST_KNOWN * len(met):
                share = f"of {len(met):,} {side} words the model's templates know {known:,}"
                out.append(f"{share}: is it of their language, case and tokenisation?")
        return out


def doubts_about(plan: FeaturePlan | None, *, source: Iterable[str], target: Iterable[str] = ()) -> list[str]:
    """Return warnings about whole texts under a model that carries a plan."""
    if plan is None:
        return []
    words = KnownWords(plan)
    words.meet(source=source, target=target)
    return words.doubts()
