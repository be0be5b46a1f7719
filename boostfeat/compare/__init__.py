"""Systems side by side: what they are, how they are trained and chosen, and their table with significance."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """This package, which is ``boostfeat.compare``: to call it is to call runner.compare."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return import_module(".runner", __name__).compare(*arguments, **named)


sys.modules[__name__].__class__ = CallablePackage
