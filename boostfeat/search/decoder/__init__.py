"""A compact phrase-based decoder whose model may have trees: Moses' tables, an ARPA model, beam search."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# What others use, imported when first asked for: the command line reads ``search_options`` and must not wait for numba.
_EXPORTS = {
    "Decoded": "decoder",
    "Decoder": "decoder",
    "Derivation": "lattice",
    "Setup": "setup",
    "LanguageModel": "system",
    "SearchOptions": "search_options",
    "System": "system",
    "Unit": "lattice",
    "check_bars": "output",
    "collect": "output",
    "graph_names": "output",
    "read_setup": "setup",
    "write_nbest": "output",
    "write_search_graph": "output",
}


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
