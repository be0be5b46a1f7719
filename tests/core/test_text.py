"""Words are what stands between blanks and tabs; str.split splits at more."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from boostfeat.core.text import has_text, is_whole, may_be_number, normal, split_words, string_buffers
from boostfeat.formats.bar_kernel import put_words

OTHER_BLANKS = [c for c in map(chr, range(0x110000)) if c.isspace() and c not in " \t\n\r"]  # 25 of them


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t ", []),
        ("a", ["a"]),
        (" a\tb  c ", ["a", "b", "c"]),
        (" a b", ["a", "b"]),
        ("a b ", ["a", "b"]),
        ("x\u00a0y z", ["x\u00a0y", "z"]),
        ("a\u3000", ["a\u3000"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words
    assert normal(text) == " ".join(words)


@pytest.mark.parametrize("blank", OTHER_BLANKS)
def test_no_other_blank_splits_and_kernel_and_python_agree(blank: str) -> None:
    text = f" a{blank}b \t{blank} c{blank}"
    assert split_words(text) == [f"a{blank}b", blank, f"c{blank}"]
    raw = np.frombuffer(text.encode(), np.uint8)
    out = np.zeros(len(raw) + 1, np.uint8)
    end, n = put_words(raw, 0, len(raw), out, 0)
    assert (out[:end].tobytes().decode(), n) == (normal(text), 3)


def test_ends_of_lines_are_blanks_in_texts_from_json() -> None:
    assert normal("a\r\nb\nc\rd") == "a b c\rd"


@pytest.mark.parametrize("text", ["0", "007", "9" * 18])
def test_whole_numbers(text: str) -> None:
    assert is_whole(text)
    assert may_be_number(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1_0", "²", "\u0663", "\uff13", "9" * 19])
def test_what_python_may_take_for_a_whole_number(text: str) -> None:
    """Superscript, Arabic and full-width digits among them."""
    assert not is_whole(text)


@pytest.mark.parametrize(
    ("text", "may_be"),
    [("-1.5e-3", True), ("x", True), ("1_0", False), ("\u0663", False), ("\uff13", False), ("1\t", False), ("1\n", False)],
)
def test_what_may_be_a_number(text: str, may_be: bool) -> None:
    assert may_be_number(text) is may_be


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
