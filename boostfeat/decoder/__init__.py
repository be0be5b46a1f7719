"""A compact phrase-based decoder whose model may have trees: Moses' tables, an ARPA model, beam search."""

from __future__ import annotations

from .decoder import Decoded, Decoder, SearchOptions
from .ini import Ini, read_ini
from .lattice import Derivation, Unit
from .lm import LanguageModel
from .output import check_bars, collect, graph_names, write_nbest, write_search_graph
from .system import System

__all__ = [
    "Decoded",
    "Decoder",
    "Derivation",
    "Ini",
    "LanguageModel",
    "SearchOptions",
    "System",
    "Unit",
    "check_bars",
    "collect",
    "graph_names",
    "read_ini",
    "write_nbest",
    "write_search_graph",
]
