"""The tuners, one file each, in a registry."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.errors import unknown_name

TUNERS: dict[str, str] = {
    "pro": "pro:Pro",
    "mert": "mert:Mert",
    "mira": "mira:Mira",
    "kbmira": "kbmira:Kbmira",
    "rm": "mira:RelativeMargin",
    "adagrad": "adaptive:Adagrad",
    "rampion": "rampion:Rampion",
    "arow": "arow:Arow",
}


def tuner_class(name: str) -> Any:
    """The dataclass of a method's options; its instances have ``fit``."""
    if name not in TUNERS:
        raise unknown_name("method", name, TUNERS)
    module, _, attribute = TUNERS[name].partition(":")
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
