"""boostfeat: rerank n-best lists with gradient-boosted local features, beside the classic tuners."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# What the library offers at its top, imported when first used: `boostfeat --help` must not wait for numba or pyarrow.
_EXPORTS = {
    "NBest": "nbest",
    "read_store": "store",
    "write_store": "store",
    "Model": "model",
    "Tree": "tree",
    "BoostReranker": "estimator",
    "SentenceKFold": "estimator",
    "FormatError": "errors",
    "InputError": "errors",
}


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_EXPORTS]
