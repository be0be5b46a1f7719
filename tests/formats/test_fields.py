"""Pieces of lines that several formats share: what each makes of a text, and the whole line of what is wrong."""

from __future__ import annotations

from math import isnan

import pytest

from boostfeat.core.errors import FormatError
from boostfeat.formats.fields import (
    check_links,
    is_number,
    label_groups,
    name_values,
    number,
    numbers,
    optional_score,
    read_features,
    sentence_id,
    split_fields,
)

pytestmark = pytest.mark.quick
REPAIR = "repair or remove this line"


def refusal(call, *arguments, **more) -> str:
    with pytest.raises(FormatError) as error:
        call(*arguments, **more)
    return str(error.value)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-inf", "1e999", "1_0", "\uff11", "1\t", "0x1"])
def test_what_is_no_number(text):
    assert refusal(number, text, "list:1", "x") == f"list:1: expected a finite number for x, found {text!r}; {REPAIR}"
    assert not is_number(text)


def test_numbers_of_a_line():
    assert [number(text, "", "") for text in ("1", "-2.5", "+.5e3", "1E-3")] == [1.0, -2.5, 500.0, 0.001]
    assert numbers(" 1\t-2.5  1e3 ", "list:1", "x") == [1.0, -2.5, 1000.0]
    assert numbers("1e308 1e308", "list:1", "x") == [1e308, 1e308]  # whose sum is none
    assert numbers("", "list:1", "x") == []
    for text, found in (
        ("1 nan", "nan"),
        ("1 x 2", "x"),
        ("1_0 2", "1_0"),
        ("inf", "inf"),
        ("1 \u00a02", "\u00a02"),
        ("inf -inf", "inf"),
    ):
        assert refusal(numbers, text, "list:1", "x") == f"list:1: expected a finite number for x, found {found!r}; {REPAIR}"
    assert isnan(optional_score("", "list:1"))
    assert optional_score("-1", "list:1") == -1.0
    assert refusal(optional_score, "x", "list:1") == f"list:1: expected a finite number for the score, found 'x'; {REPAIR}"


def test_sentence_ids():
    assert [sentence_id(text, "") for text in ("0", " 7\t", "0012", "9" * 18)] == [0, 7, 12, 10**18 - 1]
    for text in ("", "-1", "1.0", "x", "9" * 19, "\u0661"):
        expected = f"list:1: expected a sentence id (0, 1, ...), found {text!r}; is this an n-best list?"
        assert refusal(sentence_id, text, "list:1") == expected


@pytest.mark.parametrize(
    ("line", "least", "most", "found"),
    [
        ("0 ||| a|||b", 3, None, ["0", "a", "b"]),
        (" 0\t||| ||| b ||| c ", 3, 4, ["0", "", "b", "c"]),
        ("a ||| b", 3, None, "3 fields separated by ' ||| ' (L), found 2"),
        ("a ||| b", 3, 4, "3 fields separated by ' ||| ' (L), found 2"),
        ("a ||| b ||| c", 2, 2, "2 fields separated by ' ||| ' (L), found 3"),
        ("a ||| b ||| c ||| d", 2, 3, "at most 3 fields separated by ' ||| ' (L), found 4"),
        ("a ||| b ||| c", 2, 3, ["a", "b", "c"]),
    ],
)
def test_fields_between_bars(line, least, most, found):
    if isinstance(found, list):
        assert split_fields(line, "list:1", least=least, most=most, layout="L") == found
    else:
        expected = f"list:1: expected {found}; is this an n-best list?"
        assert refusal(split_fields, line, "list:1", least=least, most=most, layout="L") == expected


@pytest.mark.parametrize(
    ("field", "groups"),
    [
        ("", []),
        ("d= 0 -1.5 lm= -3", [("d", ["0", "-1.5"]), ("lm", ["-3"])]),
        ("d: 0 lm: -3", [("d", ["0"]), ("lm", ["-3"])]),
        ("d=0 lm=-3", [("d", ["0"]), ("lm", ["-3"])]),
        ("1 -2\t3", [("f_0", ["1"]), ("f_1", ["-2"]), ("f_2", ["3"])]),
        ("a=b=1 2", [("a=b", ["1", "2"])]),
        ("1 d= 2 3", [("f_0", ["1"]), ("d", ["2", "3"])]),
        ("d=", [("d", [])]),
    ],
)
def test_labels_and_values(field, groups):
    assert label_groups(field, "list:1") == groups
    assert read_features(field, "list:1") == name_values(groups, "list:1") if all(v for _, v in groups) else True


def test_labels_that_are_none():
    fix = "are there bars '|||' in the text? repair or remove this line"
    assert refusal(label_groups, "1 x", "list:1") == f"list:1: expected features like Name= value, found 'x'; {fix}"
    for text in ("=1", "=", ":"):
        assert refusal(label_groups, text, "list:1") == f"list:1: expected a feature's name before '=', found {text!r}; {REPAIR}"
    assert refusal(name_values, [("d", [])], "list:1") == f"list:1: expected a number after 'd', found none; {REPAIR}"
    expected = "list:1: expected distinct feature names, found 'd_1' twice; rename one of them"
    assert refusal(name_values, [("d", ["1", "2"]), ("d_1", ["3"])], "list:1") == expected
    assert (
        refusal(name_values, [("d", ["1", "x"])], "list:1")
        == f"list:1: expected a finite number for feature d_1, found 'x'; {REPAIR}"
    )
    assert name_values([("d", ["1", "2"]), ("e", ["3"])], "") == {"d_0": 1.0, "d_1": 2.0, "e": 3.0}


@pytest.mark.parametrize(
    ("align", "n_src", "n_tgt", "inside"),
    [
        ("", 1, 1, None),
        ("0-0 1-2", 2, 3, None),
        ("2-0", 2, 3, " of 2 source and 3 target words"),
        ("0-3", 2, 3, " of 2 source and 3 target words"),
        ("9-9", 0, -1, None),
        ("9-1", 0, 1, " of 1 target words"),
        ("1-9", 1, 0, " of 1 source words"),
        ("0-0-0", 0, 0, ""),
        ("0:0", 0, 0, ""),
        ("1234567890-0", 0, 0, ""),
    ],
)
def test_links_of_phrases(align, n_src, n_tgt, inside):
    if inside is None:
        check_links(align, "list:1", n_src=n_src, n_tgt=n_tgt)
    else:
        expected = f"list:1: expected an alignment of links like 0-1{inside}, found {align!r}; {REPAIR}"
        assert refusal(check_links, align, "list:1", n_src=n_src, n_tgt=n_tgt) == expected
