"""A compact phrase-based decoder whose model may have trees: Moses' tables, an ARPA model, beam search."""

from __future__ import annotations

from .decoder import Decoded, Decoder, SearchOptions
from .lattice import Derivation, Unit
from .lm import LanguageModel
from .output import check_bars, collect, graph_names, write_nbest, write_search_graph
from .setup import Setup, read_setup
from .system import System

__all__ = [
    "Decoded",
    "Decoder",
    "Derivation",
    "LanguageModel",
    "SearchOptions",
    "Setup",
    "System",
    "Unit",
    "check_bars",
    "collect",
    "graph_names",
    "read_setup",
    "write_nbest",
    "write_search_graph",
]
