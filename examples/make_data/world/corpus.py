"""Texts of the world: parallel ones with the faults that found text has, and sentences with several references."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from .dice import Dice
from .languages import LANGUAGES, Tokens
from .lexicon import Lexicon, LexiconSize, make_lexicon
from .meaning import Meaning, Speaker

Lines = list[str]


@dataclass(frozen=True)
class WorldOptions:
    """What the world is like."""

    seed: int = 1
    size: LexiconSize = field(default_factory=LexiconSize)
    looseness: float = 0.03  # of a translator: the chance that a word is left out, a noun or a tense changed
    typos: float = 0.003  # a token
    strays: float = 0.02  # lines of parallel text whose other side belongs to another sentence


@dataclass(frozen=True)
class World:
    options: WorldOptions = field(default_factory=WorldOptions)

    @cached_property
    def lexicon(self) -> Lexicon:
        return make_lexicon(Dice(self.options.seed), self.options.size)

    @cached_property
    def _speaker(self) -> Speaker:
        return Speaker(self.lexicon)

    def bitext(self, n: int, *, source: str = "tarvi", target: str = "selon", seed: int) -> tuple[Lines, Lines]:
        """n lines of parallel text to train on: free translations, typing errors, and some lines that do not belong together."""
        dice, sides = Dice(seed), ([], [])  # type: tuple[Dice, tuple[Lines, Lines]]
        for _ in range(n):
            meaning = self._speaker.meaning(dice)
            said = [self._say(meaning, source, dice), self._say(meaning, target, dice, loosely=True)]
            if dice.chance(self.options.strays):
                said[1] = self._say(self._speaker.meaning(dice), target, dice)
            for side, tokens in zip(sides, said, strict=True):
                side.append(" ".join(self._mistyped(tokens, dice)))
        return sides

    def sentences(self, n: int, *, source: str, target: str, references: int = 1, seed: int) -> tuple[Lines, list[Lines]]:
        """n sentences to translate, and the translations of so many translators, who are as free but type with care."""
        dice = Dice(seed)
        sources: Lines = []
        refs: list[Lines] = [[] for _ in range(references)]
        for _ in range(n):
            meaning = self._speaker.meaning(dice)
            sources.append(" ".join(self._mistyped(self._say(meaning, source, dice), dice)))
            for ref in refs:
                ref.append(" ".join(self._say(meaning, target, dice, loosely=True)))
        return sources, refs

    def _say(self, meaning: Meaning, language: str, dice: Dice, *, loosely: bool = False) -> Tokens:
        if loosely:
            meaning = self._speaker.loosely(dice, meaning, looseness=self.options.looseness)
        return LANGUAGES[language](meaning, dice)

    def _mistyped(self, tokens: Tokens, dice: Dice) -> Tokens:
        """Some words of four letters or more with two neighbours in the wrong order."""
        out = []
        for token in tokens:
            if len(token) > 3 and dice.chance(self.options.typos):
                at = dice.below(len(token) - 1)
                token = token[:at] + token[at + 1] + token[at] + token[at + 2 :]
            out.append(token)
        return out
