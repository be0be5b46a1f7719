"""String columns as offsets and bytes, whatever Arrow made them of."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from boostfeat.core.strings import has_text, string_buffers

pytestmark = pytest.mark.quick

WHOLE = pa.array(["ab", "", "é", "c"], pa.large_string())


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (WHOLE, ["ab", "", "é", "c"]),
        (WHOLE[1:3], ["", "é"]),
        (WHOLE[1:2], [""]),
        (WHOLE[4:], []),
        (pa.array([], pa.large_string()), []),
        (pa.array(["", ""], pa.large_string()), ["", ""]),
        (pa.LargeStringArray.from_buffers(0, None, pa.py_buffer(b"")), []),
    ],
)
def test_strings_are_slices_of_bytes(column, texts):
    ptr, data = string_buffers(column)
    assert len(ptr) == len(texts) + 1
    assert [data[a:b].tobytes().decode() for a, b in pairwise(ptr)] == texts
    assert len(data) > 0  # kernels may look at its first byte
    assert not ptr.flags.writeable
    assert not data.flags.writeable
    assert has_text(column) == any(texts)
