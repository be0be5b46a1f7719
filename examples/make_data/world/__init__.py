"""A small bilingual world, made by rule and dice: the text that the system in data/ is trained on.

A lexicon with Zipf's frequencies, ambiguous words and synonyms; two grammars with cases, genders, agreement and different word
order; idioms, compounds, particles; free translations, typing errors and stray lines. One seed, the same bytes everywhere.
"""

from .corpus import World, WorldOptions
from .lexicon import LexiconSize

__all__ = ["LexiconSize", "World", "WorldOptions"]
