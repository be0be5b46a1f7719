"""Write boostfeat/core/signatures.json, for which ``doctor --warm`` compiles kernels, from a cache of numba's.

export NUMBA_CACHE_DIR=$(mktemp -d) BOOSTFEAT_TWINS=0
python tests/qualities/digests.py /dev/null          # fills it: every command on data/
python tests/signatures.py $NUMBA_CACHE_DIR
"""

from __future__ import annotations

import importlib
import json
import pickle
import pkgutil
import sys
from pathlib import Path
from typing import Any

import boostfeat
from boostfeat.core.kernels import KERNELS, Kernel
from boostfeat.core.warming import FILE, encode


def signatures(index: Path) -> list[list[Any]]:
    """The types of arguments that a kernel was compiled for, of an index of numba's cache."""
    with index.open("rb") as stream:
        pickle.load(stream)  # the version
        try:
            _, overloads = pickle.loads(stream.read())
        except (AttributeError, ImportError):  # of an older commit: it names what is gone
            return []
    found = []
    for key in overloads:
        try:
            found.append([encode(kind) for kind in key[0]])
        except ValueError:  # a literal, or a function: compiled with what calls it
            continue
    return sorted(found, key=json.dumps)


def kernel_of(index: Path) -> tuple[str, str]:
    """(folder/module, name) of a kernel, whose index lies beside its module, or in a folder of NUMBA_CACHE_DIR."""
    folder = index.parent.parent.name if index.parent.name == "__pycache__" else index.parent.name.rpartition("_")[0]
    module, _, name = index.name.rsplit(".py", 1)[0].rpartition("-")[0].partition(".")
    return f"{folder}/{module}", name


def main(*caches: Path) -> None:
    for module in pkgutil.walk_packages(boostfeat.__path__, "boostfeat."):
        if module.name != "boostfeat.__main__":
            importlib.import_module(module.name)
    kernels = {("/".join(Path(k.py_func.__code__.co_filename).with_suffix("").parts[-2:]), k.__name__): k for k in KERNELS}
    found: dict[str, list[list[Any]]] = {}
    for index in (index for cache in caches for index in cache.rglob("*.nbi")):
        kernel: Kernel | None = kernels.get(kernel_of(index))
        if kernel is not None:
            own = found.setdefault(f"{kernel.__module__}:{kernel.__name__}", [])
            n = kernel.py_func.__code__.co_argcount
            own += [types for types in signatures(index) if types not in own and len(types) == n]
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found) if found[name])
    FILE.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(found)} kernels, {sum(map(len, found.values()))} variants; {len(KERNELS) - len(found)} kernels were not called")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
