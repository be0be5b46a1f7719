"""The words of the two languages, and the concepts they stand for.

Tarvi is agglutinative with vowel harmony (*metu*, *metuka*, *metulaka*); Selon has genders, articles and short endings. A concept
has one to three words in each language; some words stand for two concepts of different topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from .dice import Dice

N_TOPICS = 8  # topic 0 is general
Sounds = tuple[tuple[str, ...], tuple[str, ...]]  # consonants, those that do not begin a word last; vowels
TARVI: Sounds = (("p", "t", "k", "s", "h", "m", "n", "l", "r", "v", "j", "kk", "ll", "st"), tuple("aeiouyäö"))
SELON: Sounds = (("b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "br", "pl", "tr"), tuple("aeioué"))


@dataclass(frozen=True)
class LexiconSize:
    """How many concepts of each kind there are, and how the languages blur them."""

    nouns: int = 600
    verbs: int = 180
    adjectives: int = 120
    adverbs: int = 50
    names: int = 60
    synonyms: float = 0.3  # share of concepts with a second word, in each language; a third of these has a third one
    homonyms: float = 0.12  # share of Tarvi words that stand for two concepts
    idioms: float = 0.3  # share of transitive verbs that make an idiom with their favourite object
    compounds: float = 0.1  # share of nouns that are one word in Tarvi and "X de Y" in Selon
    particles: float = 0.25  # share of Selon verbs that have a particle


@dataclass(frozen=True)
class Word:
    """A dictionary form, and what grammar has to know of it."""

    stem: str
    feminine: bool = False  # a Selon noun
    in_front: bool = False  # a Selon adjective that stands before its noun
    at: bool = False  # a Selon noun that takes the second preposition of place
    tail: tuple[str, ...] = ()  # fixed words after it: a verb's particle, the rest of an idiom


@dataclass(frozen=True)
class Concept:
    topic: int
    tarvi: tuple[Word, ...]
    selon: tuple[Word, ...]
    frame: str = ""  # of a verb: i(ntransitive), t(ransitive), d(itransitive)
    favourites: tuple[Concept, ...] = ()  # nouns a verb likes as its object
    idiom: Word | None = None  # what Selon says for the verb with its first favourite


@dataclass(frozen=True)
class Lexicon:
    """Concepts by kind, the frequent ones first."""

    nouns: tuple[Concept, ...]
    verbs: tuple[Concept, ...]
    adjectives: tuple[Concept, ...]
    adverbs: tuple[Concept, ...]
    names: tuple[Concept, ...]


def new_words(dice: Dice, sounds: Sounds, *, ending: str) -> Iterator[str]:
    """Ever new stems: one syllable at first, more later."""
    consonants, vowels = sounds
    seen = set()
    for n in count():
        while True:
            syllables = 1 + (n > 60) + (n > 600 and dice.chance(0.5))
            stem = "".join(dice.pick(consonants[:11] if s == 0 else consonants) + dice.pick(vowels) for s in range(syllables))
            stem += dice.pick(consonants[:11]) if ending == "consonant" else ""
            if stem not in seen and len(stem) > 1:
                break
        seen.add(stem)
        yield stem


def make_lexicon(dice: Dice, size: LexiconSize) -> Lexicon:
    tarvi = new_words(dice, TARVI, ending="vowel")
    selon = new_words(dice, SELON, ending="consonant")
    nouns = _concepts(dice, size, size.nouns, tarvi, selon)
    for n in range(len(nouns)):
        if n > 20 and dice.chance(size.compounds):
            nouns[n] = _compound(nouns[n], nouns[dice.below(n)], nouns[dice.below(n)])
    verbs = [_verb(dice, size, verb, nouns, selon) for verb in _concepts(dice, size, size.verbs, tarvi, selon)]
    adverbs = [_adverb(dice, adverb, tarvi, selon) for adverb in _concepts(dice, size, size.adverbs, tarvi, selon)]
    names = []
    for _ in range(size.names):
        name = Word(next(tarvi), feminine=dice.chance(0.5))
        names.append(Concept(0, (name,), (name,)))
    adjectives = _concepts(dice, size, size.adjectives, tarvi, selon)
    return Lexicon(tuple(nouns), tuple(verbs), tuple(adjectives), tuple(adverbs), tuple(names))


def _concepts(dice: Dice, size: LexiconSize, n: int, tarvi: Iterator[str], selon: Iterator[str]) -> list[Concept]:
    """Concepts of one kind; a homonym takes the Tarvi word of an earlier concept of another topic."""
    made: list[Concept] = []
    for _ in range(n):
        topic = 0 if dice.chance(0.3) else 1 + dice.below(N_TOPICS - 1)
        own = [Word(next(tarvi)) for _ in range(_how_many(dice, size))]
        other = dice.pick(made) if made and dice.chance(size.homonyms) else None
        if other is not None and other.topic != topic:
            own[0] = other.tarvi[0]
        words = tuple(
            Word(next(selon), feminine=dice.chance(0.5), in_front=dice.chance(0.2), at=dice.chance(0.4))
            for _ in range(_how_many(dice, size))
        )
        made.append(Concept(topic, tuple(own), words))
    return made


def _how_many(dice: Dice, size: LexiconSize) -> int:
    return 1 + dice.chance(size.synonyms) + dice.chance(size.synonyms / 3)


def _compound(noun: Concept, first: Concept, second: Concept) -> Concept:
    """One word in Tarvi, the second noun "de" the first in Selon."""
    head, modifier = second.selon[0], first.selon[0]
    selon = Word(head.stem, feminine=head.feminine, at=head.at, tail=("de", modifier.stem, *modifier.tail))
    return Concept(noun.topic, (Word(first.tarvi[0].stem + second.tarvi[0].stem),), (selon, *noun.selon[1:2]))


PARTICLES = ("su", "bas", "for", "tra", "contro", "via")


def _verb(dice: Dice, size: LexiconSize, verb: Concept, nouns: list[Concept], selon: Iterator[str]) -> Concept:
    frame = dice.pick("itttd")
    same_topic = [noun for noun in nouns if noun.topic == verb.topic]
    favourites = tuple(dice.pick(same_topic) for _ in range(5))
    words = tuple(Word(word.stem, tail=(dice.pick(PARTICLES),) if dice.chance(size.particles) else ()) for word in verb.selon)
    idiom = None
    if frame != "i" and dice.chance(size.idioms):
        light = dice.pick(("fac", "pren", "don"))
        idiom = Word(light, tail=(next(selon),) if dice.chance(0.5) else (dice.pick(PARTICLES), next(selon)))
    return Concept(verb.topic, verb.tarvi, words, frame, favourites, idiom)


def _adverb(dice: Dice, adverb: Concept, tarvi: Iterator[str], selon: Iterator[str]) -> Concept:
    """Some adverbs are phrases of several words, in one language or both."""

    def longer(words: tuple[Word, ...], more: Iterator[str]) -> tuple[Word, ...]:
        tail = tuple(next(more) for _ in range(1 + dice.below(2))) if dice.chance(0.3) else ()
        return (Word(words[0].stem, tail=tail), *words[1:])

    return Concept(adverb.topic, longer(adverb.tarvi, tarvi), longer(adverb.selon, selon))
