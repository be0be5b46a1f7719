"""A format is recognised by most of a file's first lines, never by one; and a plain list has no blocks of scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import samples
from test_formats import LINES

from boostfeat.core.errors import FormatError
from boostfeat.formats import detect, read
from boostfeat.formats.sniffers import is_hyporadise, is_marian
from boostfeat.lists.build import ReadOptions

ENRICHED = "{} ||| {} |0-0,wa=0-0 ,total=-0.5, LM0= -0.5| ||| LM0= -0.5 ||| -0.5\n"
EMPTY = "0 |||  ||| LM0= 0 ||| 0\n"


@pytest.mark.parametrize(
    "first",
    [EMPTY, "\ufeff" + ENRICHED.format(0, "a"), *(ENRICHED.format(0, word) for word in ("a\u2028", "a\x85", "a\x0b", "a|b"))],
    ids=["empty", "byte order mark", "U+2028", "NEL", "VT", "bar"],
)
def test_enriched_lists_whose_first_line_is_odd(tmp_path: Path, first: str) -> None:
    path = tmp_path / "list"
    path.write_text(first + "".join(ENRICHED.format(n, "house") for n in (1, 2)), encoding="utf-8", newline="")
    assert detect(path) == "moses-enriched"
    if "a|b" in first:  # a bar is for Moses to escape
        with pytest.raises(FormatError, match=r"list:1: expected a block \|span"):
            read(path, ReadOptions())
        return
    nbest = read(path, ReadOptions())
    assert nbest.n_occurrences == 2 + (first != EMPTY)
    assert not any("|" in text for text in nbest.text.to_pylist())


def test_half_of_the_lines_make_a_list_of_marian() -> None:
    line = "0 ||| a ||| F0= -1 ||| -1\n"
    assert [is_marian(text) for text in ("", "x\n", line, line + "x\n", line + "\nx\n  \n", line + "x\ny\n")] == [
        *(False, False, True, True, True, False)
    ]


def test_a_list_of_marian_that_boostfeat_wrote_is_one_of_moses(tmp_path: Path) -> None:
    """It has counts of words already; whoever insists on Marian is told."""
    lines = ["0 ||| a b ||| Pieces= 3 Words= 2 F0= -1 DecoderScore= -1 ||| -1", "0 ||| WordScores= x ||| WordScores= -1 Words= 1"]
    assert [is_marian(line + "\n") for line in lines] == [False, False]
    (tmp_path / "list").write_text(lines[0] + "\n")
    assert detect(tmp_path / "list") == "moses"
    assert read(tmp_path / "list", ReadOptions()).global_features.tolist() == [[3.0, 2.0, -1.0, -1.0]]
    with pytest.raises(FormatError, match="list:1: expected no feature 'Words', which is counted here, found one in the list"):
        read(tmp_path / "list", ReadOptions(), format="marian")


def test_keys_of_hyporadise() -> None:
    rows = {
        '{"input": ["a"], "output": "b"}': True,
        '{"input": ["a"], "output": "b", "am_score": [1], "id": 3}': True,
        '{"input": ["a"]}': False,
        '{"output": "b"}': False,
        '{"input": ["a"], "output": "b", "choices": []}': False,
        '{"input": ["a"], "output": "b", "translation": ""}': False,
    }
    assert {row: is_hyporadise(f"[{row}]") for row in rows} == rows


SAMPLES = [
    *("PLAIN", "INLINE", "ENRICHED", "CDEC", "JOSHUA", "PHRASAL", "TRAVATAR", "MARIAN", "MARIAN_RESCORED", "MARIAN_PIECES", "MARIAN_PLAIN"),
    *("FAIRSEQ", "HYPORADISE", "MLM_SCORING", "SOCKEYE", "VOSK", "OPENAI"),
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_marks_and_ends_of_lines_of_other_systems_change_nothing(tmp_path: Path, name: str) -> None:
    """A byte order mark, CR before LF, no end of the last line, blank lines after it: what was read before is read."""
    path, text = tmp_path / "list", getattr(samples, name)
    silent = ReadOptions(warn=lambda message: None)

    def found(text: str) -> tuple[object, ...]:
        path.write_text(text, encoding="utf-8", newline="")
        nbest = read(path, silent)
        return (
            nbest.ids.tolist(),
            nbest.text.to_pylist(),
            nbest.refs.to_pylist(),
            nbest.global_names,
            nbest.global_features.tolist(),
        )

    expected, crlf = found(text), text.replace("\n", "\r\n")
    for other in ("\ufeff" + text, crlf, "\ufeff" + crlf, text.rstrip("\n"), text + "\n\n"):
        assert found(other) == expected


def test_a_plain_list_with_blocks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text(EMPTY * 30 + "0 ||| a ||| LM0= 1 ||| 0\n" + ENRICHED.format(1, "house"))
    assert detect(path) == "moses"  # its first lines tell no more
    with pytest.raises(FormatError, match=r"list:32: expected a plain list, found a block of scores, .* --format moses-enriched"):
        read(path, ReadOptions())


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("odd", ["0 ||| the house ||| ||| 1", "0 ||| a ||| b ||| c ||| d ||| e", "some log line"])
def test_one_odd_line_does_not_decide(tmp_path: Path, case: str, odd: str) -> None:
    path, line = tmp_path / "list", LINES[case][0]
    for lines in ([odd, line, line, line], [line, line, odd, line]):
        path.write_text("\n".join(lines) + "\n")
        assert detect(path) == case.split()[0]


def openai(text: str, **more: object) -> dict[str, object]:
    return {**more, "choices": [{"text": text, "finish_reason": "stop"}]}


def sockeye(text: str, **more: object) -> dict[str, object]:
    return {**more, "sentence_id": 0, "translation": text}


def hyporadise(text: str, **more: object) -> dict[str, object]:
    return {**more, "input": [text], "output": text}


VOSK = {"alternatives": [{"confidence": 1.0, "text": "a"}]}
OBJECTS = {  # name: (format, objects), of which one or all have what is another format's
    "openai whose model is called so": ("openai", [openai("a", model="boostfeat"), openai("b")]),
    "openai whose text is a key": ("openai", [openai("hyps"), openai("b")]),
    "openai with the prompt and what is expected": (
        "openai",
        [openai("a", input=["q"], output="z"), openai("b", input=[], output="")],
    ),
    "openai with translations": ("openai", [openai("a", translations=["q"]), openai("b")]),
    "openai after an error": ("openai", [{"error": {"message": "busy"}}, openai("a")]),
    "sockeye with choices": ("sockeye", [sockeye("a", choices=["x"]), sockeye("b")]),
    "sockeye with input and output": ("sockeye", [sockeye("a", input=["x"], output="y"), sockeye("b")]),
    "hyporadise with choices": ("hyporadise", [hyporadise("a", choices=["x"]), hyporadise("b")]),
    "vosk without alternatives": ("vosk", [{"text": ""}, VOSK, VOSK]),
    "jsonl with all of them": (
        "jsonl",
        [{"boostfeat": "nbest/1"}, {"id": 0, "choices": [], "input": [], "output": "", "hyps": []}],
    ),
}


@pytest.mark.parametrize("case", OBJECTS)
@pytest.mark.parametrize("layout", ["lines", "array"])
def test_objects_are_told_by_their_keys_and_not_by_one_of_them(tmp_path: Path, case: str, layout: str) -> None:
    format, rows = OBJECTS[case]
    if (format, layout) == ("jsonl", "array"):
        return
    path, texts = tmp_path / "list", [json.dumps(row) for row in rows]
    path.write_text(f"[{','.join(texts)}]" if layout == "array" else "\n".join(texts))
    assert detect(path) == format


def test_a_first_line_longer_than_the_head(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text(f"0 ||| {'x ' * 100_000}||| Glue=1 LanguageModel=-3 ||| -1\n")
    assert detect(path) == "cdec"
    assert read(path, ReadOptions()).n_hyps == 1
