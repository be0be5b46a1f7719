"""Which kernels are compiled ahead, and for which types."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numba import types
from numba.core.errors import NumbaError

from boostfeat.core import warming
from boostfeat.core.kernels import Kernel
from boostfeat.formats.columns import Labels

TYPES = {
    "int64": types.int64,
    "none": types.none,
    "array float64 1 C": types.Array(types.float64, 1, "C"),
    "array uint8 2 A r": types.Array(types.uint8, 2, "A", readonly=True),
}


def test_types_are_written_as_text_and_read_again():
    for text, kind in TYPES.items():
        assert warming.encode(kind) == text
        assert warming.decode(text) == kind
    inside = [types.Array(types.uint8, 1, "C"), types.int64, types.int64]
    named = types.NamedTuple(inside, Labels)
    written = ["boostfeat.formats.columns:Labels", "array uint8 1 C", "int64", "int64"]
    assert (warming.encode(named), warming.decode(written)) == (written, named)
    for tuple_of in (types.Tuple(inside), types.UniTuple(types.int64, 2)):
        assert warming.encode(tuple_of)[0] == ""
        assert warming.decode(warming.encode(tuple_of)) == tuple_of
    with pytest.raises(ValueError, match="no plain type"):
        warming.encode(types.literal(1))


def test_the_file_names_kernels_and_types():
    """Most kernels, with as many arguments as they have, of types that are read as they were written."""
    found = warming.kernels_to_warm()
    assert len(found) > 150
    for kernel, signatures in found:
        for signature in signatures:
            assert len(signature) == kernel.py_func.__code__.co_argcount
            assert [warming.encode(warming.decode(kind)) for kind in signature] == signature


def test_each_kernel_tells_how_many_variants_it_had_to_compile(monkeypatch):
    """One of three signatures is in numba's cache, another is of older code and is passed over."""

    def compile(signature):
        if signature == (types.none,):
            raise NumbaError("older")
        asked.append(signature)
        misses[signature] = int(signature != (types.int64,))

    asked, misses = [], {"before": 2}
    compiled = SimpleNamespace(stats=SimpleNamespace(cache_misses=misses), compile=compile)
    function = SimpleNamespace(py_func=np.sort, compiled=lambda: compiled)
    monkeypatch.setattr(warming, "kernels_to_warm", lambda: [(function, [["int64"], ["none"], ["uint8"], ["float64"]])])
    assert list(warming.warm()) == [("sort", 2)]
    assert asked == [(types.int64,), (types.uint8,), (types.float64,)]
    assert isinstance(warming._find("boostfeat.core.arrays:_count"), Kernel)
