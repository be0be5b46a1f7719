"""From parallel text to a phrase-based system: word alignment, phrase tables, reordering, language model, as Moses reads them."""

from .align import align
from .bitext import Bitext, make_bitext, read_bitext
from .kneser_ney import estimate, write_arpa
from .phrase_table import PhraseTable, make_phrase_table
from .system import TrainOptions, train_system, write_ini

__all__ = [
    "Bitext",
    "PhraseTable",
    "TrainOptions",
    "align",
    "estimate",
    "make_bitext",
    "make_phrase_table",
    "read_bitext",
    "train_system",
    "write_arpa",
    "write_ini",
]
