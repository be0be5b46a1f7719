"""How the two languages say a meaning. What they leave open (synonyms, order, optional words) the dice decide.

Tarvi   verb last, cases, no articles, adjectives agree in number and case     loren metulaka kupar salu .
Selon   verb second, articles, gender, adjectives mostly after the noun        lo lorin supe en las maries cupas .
"""

from __future__ import annotations

from .dice import Dice
from .lexicon import Concept, Word
from .meaning import Clause, Meaning, NounPhrase

Tokens = list[str]


def choose(dice: Dice, words: tuple[Word, ...], topic: int) -> Word:
    """One of a concept's words: mostly the one that is usual for the topic, at times any."""
    return dice.pick(words) if dice.chance(0.3) else words[topic % len(words)]


# -- Tarvi ------------------------------------------------------------------------------------------------------------

CASES = {
    "subject": ("", "t"),
    "object": ("n", "nu"),
    "owner": ("s", "las"),
    "receiver": ("lle", "lalle"),
    "in": ("ka", "laka"),
    "to": ("to", "lato"),
    "from": ("mi", "lami"),
    "with": ("ro", "laro"),
}
POSTPOSITIONS = {"behind": "taka", "because": "vuoksi", "during": "aijan", "without": "illa"}  # after a noun in the owner's case
TARVI_TENSES = ("", "i", "sa")
TARVI_PERSONS = (("n", "t", "u"), ("mme", "tte", "vat"))  # singular, plural
TARVI_PRONOUNS = (("mi", "ti", "so"), ("mei", "tei", "soi"))
TARVI_CONJUNCTIONS = {"and": "jo", "but": "vaan", "because": "koska", "when": "kun", "if": "jos"}
HARMONY = str.maketrans("aou", "äöy")
SOFT = {"k": "g", "p": "b", "t": "d"}


def inflect(stem: str, suffix: str) -> str:
    """Suffixes follow the stem's last vowel, whose consonant softens before them: *jepä* + ka = *jebäkä*."""
    if not suffix:
        return stem
    if stem[-1] in "äöyei":
        suffix = suffix.translate(HARMONY)
    if len(stem) > 3 and stem[-2] in SOFT and stem[-3] not in SOFT:
        stem = stem[:-2] + SOFT[stem[-2]] + stem[-1]
    return stem + suffix


def tarvi(meaning: Meaning, dice: Dice) -> Tokens:
    if meaning.title is not None:
        return _tarvi_phrase(meaning.title, "subject", meaning.topic, dice)
    said = [_tarvi_clause(clause, meaning.topic, dice) for clause in meaning.clauses]
    if not meaning.conjunction:
        return [*said[0], *(["ko", "?"] if meaning.question else ["."])]
    word = TARVI_CONJUNCTIONS[meaning.conjunction]
    if meaning.conjunction in ("when", "if") and dice.chance(0.5):
        return [word, *said[1], ",", *said[0], "."]
    return [*said[0], ",", word, *said[1], "."]


def _tarvi_clause(clause: Clause, topic: int, dice: Dice) -> Tokens:
    subject = _tarvi_phrase(clause.subject, "subject", topic, dice)
    if clause.subject.noun is None and dice.chance(0.6):
        subject = []  # the verb says it
    patient = _tarvi_phrase(clause.object, "object", topic, dice) if clause.object else []
    receiver = _tarvi_phrase(clause.receiver, "receiver", topic, dice) if clause.receiver else []
    place = _tarvi_phrase(clause.place[1], clause.place[0], topic, dice) if clause.place else []
    adverb = _said(choose(dice, clause.adverb.tarvi, topic)) if clause.adverb else []
    number, person = int(clause.subject.plural), clause.subject.person - 1
    verb = inflect(choose(dice, clause.verb.tarvi, topic).stem, TARVI_TENSES[clause.tense] + TARVI_PERSONS[number][person])
    middle = [patient, receiver] if dice.chance(0.15) else [receiver, patient]
    front = [adverb, subject, place] if dice.chance(0.35) else [subject, place, adverb]
    if place and dice.chance(0.2):
        front = [place, *(part for part in front if part is not place)]
    words = [word for part in (*front, *middle) for word in part]
    return [*words, *(["ei"] if clause.negative else []), verb]


def _tarvi_phrase(phrase: NounPhrase, role: str, topic: int, dice: Dice) -> Tokens:
    case = "owner" if role in POSTPOSITIONS else role
    after = [POSTPOSITIONS[role]] if role in POSTPOSITIONS else []
    suffix = CASES[case][phrase.plural and phrase.number is None]  # after a number Tarvi has the singular
    if phrase.noun is None:
        return [inflect(TARVI_PRONOUNS[phrase.plural][phrase.person - 1], CASES[case][0]), *after]
    owner = _tarvi_phrase(phrase.owner, "owner", topic, dice) if phrase.owner else []
    number = [str(phrase.number)] if phrase.number is not None else []
    adjectives = [inflect(choose(dice, a.tarvi, topic).stem, suffix) for a in phrase.adjectives]
    return [*owner, *number, *adjectives, inflect(choose(dice, phrase.noun.tarvi, topic).stem, suffix), *after]


# -- Selon ------------------------------------------------------------------------------------------------------------

ARTICLES = {  # definite, plural: masculine, feminine
    (True, False): ("lo", "la"),
    (True, True): ("los", "las"),
    (False, False): ("un", "una"),
    (False, True): ("des", "des"),
}
PREPOSITIONS = {
    "in": ("en", "a"),
    "to": ("a", "vers"),
    "from": ("de", "de"),
    "with": ("con", "con"),
    "behind": ("post", "post"),
    "because": ("per", "per"),
    "during": ("en", "durante"),
    "without": ("sin", "sin"),
}
SELON_ENDINGS = ((("o", "es", "e"), ("emos", "ez", "en")), (("i", "isti", "io"), ("imos", "iste", "ieron")))  # present, past
SELON_FUTURE = (("vo", "vas", "va"), ("vamos", "vaz", "van"))
SELON_PRONOUNS = (("jo", "tu", "el"), ("nos", "vos", "eles"))
SELON_OBLIQUE = (("me", "te", "lui"), ("nos", "vos", "lor"))
SELON_CONJUNCTIONS = {"and": "e", "but": "mas", "because": "porque", "when": "cuan", "if": "si"}


def selon(meaning: Meaning, dice: Dice) -> Tokens:
    if meaning.title is not None:
        return _selon_phrase(meaning.title, meaning.topic, dice)
    said = [_selon_clause(clause, meaning.topic, dice) for clause in meaning.clauses]
    if meaning.conjunction:
        comma = [","] if meaning.conjunction in ("and", "but") and dice.chance(0.5) else []
        return [*said[0], *comma, SELON_CONJUNCTIONS[meaning.conjunction], *said[1], "."]
    return ["es", "che", *said[0], "?"] if meaning.question else [*said[0], "."]


def _selon_clause(clause: Clause, topic: int, dice: Dice) -> Tokens:
    verb = choose(dice, clause.verb.selon, topic)
    subject = _selon_phrase(clause.subject, topic, dice)
    patient = _selon_phrase(clause.object, topic, dice) if clause.object else []
    if clause.object and _is_idiom(clause.verb, clause.object):
        verb, patient = clause.verb.idiom or verb, []
    negative = ["no"] if clause.negative else []
    agent = clause.subject
    if patient and clause.object and agent.noun is not None and dice.chance(0.07):  # passive
        be = ("son" if clause.object.plural else "es") if clause.tense == 0 else ("foron" if clause.object.plural else "fo")
        core = [*patient, *negative, be, verb.stem + "ado", *verb.tail, "par", *subject]
    else:
        core = [*subject, *negative, *_conjugate(verb.stem, agent, clause.tense)]
        if verb.tail and 0 < len(patient) <= 2 and dice.chance(0.4):
            core += [*patient, *verb.tail]
        else:
            core += [*verb.tail, *patient]
    receiver = ["a", *_selon_phrase(clause.receiver, topic, dice, oblique=True)] if clause.receiver else []
    adverb = _said(choose(dice, clause.adverb.selon, topic)) if clause.adverb else []
    place = _place(*clause.place, topic, dice) if clause.place else []
    if adverb and dice.chance(0.3):
        return [*adverb, *core, *receiver, *place]
    if place and dice.chance(0.15):
        return [*place, *core, *receiver, *adverb]
    return [*core, *receiver, *adverb, *place] if dice.chance(0.5) else [*core, *receiver, *place, *adverb]


def _is_idiom(verb: Concept, patient: NounPhrase) -> bool:
    """Only the bare noun makes the idiom: no adjective, no owner."""
    return verb.idiom is not None and patient.noun is verb.favourites[0] and not patient.adjectives and not patient.owner


def _conjugate(stem: str, subject: NounPhrase, tense: int) -> Tokens:
    number, person = int(subject.plural), subject.person - 1
    if tense == 2:
        return [SELON_FUTURE[number][person], stem + "er"]
    return [stem + SELON_ENDINGS[tense][number][person]]


def _place(relation: str, phrase: NounPhrase, topic: int, dice: Dice) -> Tokens:
    at = phrase.noun is not None and phrase.noun.selon[0].at
    return [PREPOSITIONS[relation][at], *_selon_phrase(phrase, topic, dice, oblique=True)]


def _selon_phrase(phrase: NounPhrase, topic: int, dice: Dice, *, oblique: bool = False) -> Tokens:
    if phrase.noun is None:
        return [(SELON_OBLIQUE if oblique else SELON_PRONOUNS)[phrase.plural][phrase.person - 1]]
    if phrase.is_name:
        return [phrase.noun.selon[0].stem]
    noun = choose(dice, phrase.noun.selon, topic)
    gender, plural = int(noun.feminine), "s" if phrase.plural else ""
    front, after = [], []  # type: tuple[Tokens, Tokens]
    for concept in phrase.adjectives:
        word = choose(dice, concept.selon, topic)
        (front if word.in_front else after).append(word.stem + "oa"[gender] + plural)
    if phrase.number is not None:
        first = [str(phrase.number)]
    else:
        first = [ARTICLES[phrase.definite, phrase.plural][gender]]
        if first == ["des"] and dice.chance(0.5):
            first = []  # optional
    owner = ["de", *_selon_phrase(phrase.owner, topic, dice, oblique=True)] if phrase.owner else []
    return [*first, *front, noun.stem + ("es" if plural else ""), *noun.tail, *after, *owner]


def _said(word: Word) -> Tokens:
    return [word.stem, *word.tail]


LANGUAGES = {"tarvi": tarvi, "selon": selon}
