"""What a sentence says, before any language: concepts in roles, tense, number."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .dice import Dice, Zipf
from .lexicon import N_TOPICS, Concept, Lexicon

RELATIONS = ("in", "to", "from", "with", "behind", "because", "during", "without")
CONJUNCTIONS = ("and", "but", "because", "when", "if")


@dataclass(frozen=True)
class NounPhrase:
    noun: Concept | None  # None for a pronoun
    person: int = 3
    plural: bool = False
    definite: bool = True
    adjectives: tuple[Concept, ...] = ()
    owner: NounPhrase | None = None
    number: int | None = None
    is_name: bool = False


@dataclass(frozen=True)
class Clause:
    verb: Concept
    subject: NounPhrase
    object: NounPhrase | None = None
    receiver: NounPhrase | None = None
    place: tuple[str, NounPhrase] | None = None
    adverb: Concept | None = None
    tense: int = 0  # present, past, future
    negative: bool = False


@dataclass(frozen=True)
class Meaning:
    topic: int
    clauses: tuple[Clause, ...]  # one, or two that a conjunction joins
    conjunction: str = ""
    question: bool = False
    title: NounPhrase | None = None  # no clause, only a noun phrase


class Speaker:
    """Draws meanings: concepts by Zipf's law, most of them of the sentence's topic, verbs with the objects they like."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.pools: dict[tuple[str, int], tuple[tuple[Concept, ...], Zipf]] = {}
        for kind in ("nouns", "verbs", "adjectives", "adverbs", "names"):
            concepts: tuple[Concept, ...] = getattr(lexicon, kind)
            for topic in range(N_TOPICS):
                pool = tuple(c for c in concepts if c.topic in (0, topic)) if topic else concepts
                self.pools[kind, topic] = (pool, Zipf(len(pool), shift=2.0))

    def concept(self, dice: Dice, kind: str, topic: int) -> Concept:
        pool, ranks = self.pools[kind, topic if dice.chance(0.8) else 0]
        return pool[dice.zipf(ranks)]

    def noun_phrase(self, dice: Dice, topic: int, *, noun: Concept | None = None, depth: int = 0) -> NounPhrase:
        if noun is None and dice.chance(0.08):
            return NounPhrase(self.concept(dice, "names", 0), is_name=True)
        noun = noun or self.concept(dice, "nouns", topic)
        adjectives = tuple(self.concept(dice, "adjectives", topic) for _ in range(dice.chance(0.35) + dice.chance(0.06)))
        owner = self.noun_phrase(dice, topic, depth=1) if depth == 0 and dice.chance(0.12) else None
        plural = dice.chance(0.3)
        number = 2 + dice.below(90) if plural and dice.chance(0.12) else None
        return NounPhrase(noun, 3, plural, dice.chance(0.6), adjectives, owner, number)

    def clause(self, dice: Dice, topic: int) -> Clause:
        verb = self.concept(dice, "verbs", topic)
        if dice.chance(0.35):
            subject = NounPhrase(None, person=1 + dice.below(3), plural=dice.chance(0.4))
        else:
            subject = replace(self.noun_phrase(dice, topic), definite=dice.chance(0.8))
        patient = receiver = None
        if verb.frame != "i":
            liked = verb.favourites[dice.zipf(_FAVOURITES)] if dice.chance(0.5) else None
            patient = self.noun_phrase(dice, topic, noun=liked)
        if verb.frame == "d":
            receiver = self.noun_phrase(dice, topic, depth=1)
        place = None
        if dice.chance(0.45 if verb.frame == "i" else 0.25):
            place = (RELATIONS[dice.zipf(_RELATIONS)], self.noun_phrase(dice, topic, depth=1))
        adverb = self.concept(dice, "adverbs", topic) if dice.chance(0.25) else None
        return Clause(verb, subject, patient, receiver, place, adverb, dice.pick((0, 0, 0, 1, 1, 2)), dice.chance(0.1))

    def meaning(self, dice: Dice) -> Meaning:
        topic = 1 + dice.below(N_TOPICS - 1)
        if dice.chance(0.06):
            return Meaning(topic, (), title=self.noun_phrase(dice, topic))
        first = self.clause(dice, topic)
        if dice.chance(0.18):
            return Meaning(topic, (first, self.clause(dice, topic)), dice.pick(CONJUNCTIONS))
        return Meaning(topic, (first,), question=dice.chance(0.08))

    def loosely(self, dice: Dice, meaning: Meaning, *, looseness: float) -> Meaning:
        """What a free translator makes of it: a word left out, another one chosen, a number or tense changed."""
        clauses = tuple(self._loose_clause(dice, clause, meaning.topic, looseness) for clause in meaning.clauses)
        title = meaning.title and self._loose_phrase(dice, meaning.title, meaning.topic, looseness)
        return replace(meaning, clauses=clauses, title=title)

    def _loose_clause(self, dice: Dice, clause: Clause, topic: int, looseness: float) -> Clause:
        verb = clause.verb
        if dice.chance(looseness):
            other = self.concept(dice, "verbs", topic)
            verb = other if other.frame == verb.frame else verb
        place = clause.place and (clause.place[0], self._loose_phrase(dice, clause.place[1], topic, looseness))
        return replace(
            clause,
            verb=verb,
            subject=self._loose_phrase(dice, clause.subject, topic, looseness),
            object=clause.object and self._loose_phrase(dice, clause.object, topic, looseness),
            place=None if dice.chance(looseness) else place,
            adverb=None if dice.chance(2 * looseness) else clause.adverb,
            tense=dice.below(3) if dice.chance(looseness) else clause.tense,
        )

    def _loose_phrase(self, dice: Dice, phrase: NounPhrase, topic: int, looseness: float) -> NounPhrase:
        if phrase.noun is None or phrase.is_name:
            return phrase
        return replace(
            phrase,
            noun=self.concept(dice, "nouns", topic) if dice.chance(looseness) else phrase.noun,
            adjectives=() if dice.chance(2 * looseness) else phrase.adjectives,
            definite=not phrase.definite if dice.chance(2 * looseness) else phrase.definite,
        )


_FAVOURITES, _RELATIONS = Zipf(5, shift=1.0), Zipf(len(RELATIONS), shift=1.5)
