"""Messages: one plain line of bounded length, whatever a file had in it."""

from __future__ import annotations

import errno

import pytest

from boostfeat.core.errors import (
    FormatError,
    InputError,
    clip,
    clip_json,
    counted,
    is_out_of_memory,
    plain,
    plain_lines,
    refuse_newer,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("a\x1b[31mb\nc", 100, "a\\x1b[31mb\\nc"),
        ("0123456789", 10, "0123456789"),
        ("0123456789a", 10, "01234...9a"),
        ("\x1b" * 10, 10, "\\x1b\\...1b"),
    ],
)
def test_plain_text_is_one_line_of_bounded_length(text, limit, expected):
    assert plain(text, limit) == expected


def test_lines_stay_lines():
    assert plain_lines("a\nb\x07") == "a\nb\\x07"


def test_quotes_are_short():
    assert clip("x" * 60) == repr("x" * 60)
    assert clip("x" * 61) == repr("x" * 57 + "...")
    assert clip(b"\xff") == repr("\ufffd")
    assert clip_json({"a": [1]}) == repr('{"a": [1]}')
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert clip_json(deep) == "lists or tables nested too deeply"


def test_a_format_error_says_where_what_and_what_to_do():
    error = FormatError("a.txt:3", expected="x" * 400, found="y\n", fix="do")
    assert str(error).startswith("a.txt:3: expected xxx")
    assert str(error).endswith(", found y\\n; do")
    assert len(str(error)) < 350
    assert isinstance(error, InputError)
    assert len(str(InputError("z" * 10_000))) == 2400


@pytest.mark.parametrize(
    ("tag", "newer"),
    [
        ("store/1", False),
        ("store/2", False),
        ("store/3", True),
        ("store/123456789", True),
        ("store/000000002", False),  # nine digits are a number, ten are not looked at
        ("store/0000000002", True),
        ("other/3", False),
        ("store/x", False),
        ("store", False),
        (None, False),
    ],
)
def test_later_formats_are_refused(tag, newer):
    if newer:
        with pytest.raises(FormatError) as error:
            refuse_newer("f", tag, "store", 2)
        assert str(error.value) == f"f: expected format version 2 or lower, found {tag[6:]}; upgrade boostfeat"
    else:
        refuse_newer("f", tag, "store", 2)


def test_out_of_memory_is_known_by_what_caused_it():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(OSError(errno.ENOMEM, "no"))
    assert is_out_of_memory(ImportError("libx.so: failed to map segment from shared object"))
    assert not is_out_of_memory(OSError(errno.ENOENT, "no"))
    assert not is_out_of_memory(ValueError("cannot allocate memory"))
    assert not is_out_of_memory(None)
    try:
        try:
            raise MemoryError
        except MemoryError as inner:
            raise RuntimeError("outer") from inner
    except RuntimeError as outer:
        assert is_out_of_memory(outer)


@pytest.mark.parametrize(
    ("n", "what", "text"),
    [
        (0, "sentence", "0 sentences"),
        (1, "sentence", "1 sentence"),
        (1000, "hypothesis", "1,000 hypotheses"),
        (1, "hypothesis", "1 hypothesis"),
        (2, "sparse leaf", "2 sparse leaves"),
        (1, "distinct unit", "1 distinct unit"),
        (3, "entry", "3 entries"),
    ],
)
def test_counts_as_people_say_them(n: int, what: str, text: str) -> None:
    assert counted(n, what) == text
