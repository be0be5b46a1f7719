"""Large modules of others, imported when first used: a command on a list without sparse features need not wait for them."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Lazy(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    from scipy import sparse as sparse
else:
    sparse = _Lazy("scipy.sparse")
