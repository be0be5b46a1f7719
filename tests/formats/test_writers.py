"""Writers refuse what would read back as something else, by name; what a format has no place for is said."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.formats import left_out, read, write
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest, Notes, Qualities, strings
from boostfeat.lists.store import read_store, write_store


def a_list(text: str = "x y", units: list[UnitRecord] | None = None, **features: float) -> NBest:
    builder = Builder(ReadOptions(source=["a b c"]))
    builder.add(HypRecord(0, text, "here", -1.0, features or {"f": 1.0}, units or []))
    return builder.finish()


def unit(tgt: tuple[int, int], src: tuple[int, int] | None = (0, 1), align: str = "", **features: float) -> UnitRecord:
    return UnitRecord(features, src, tgt, align=align)


REFUSED = {
    "no units": ("moses-enriched", a_list(), "sentence 0: expected units that spell the text 'x y' .* found no units"),
    "units of other words": ("moses-enriched", a_list(units=[unit((0, 1))]), "found units that spell something else"),
    "units of later words": ("moses-enriched", a_list(units=[unit((1, 2))]), "found units that spell something else"),
    "units without source": ("moses-enriched", a_list("x", [unit((0, 1), None)]), "units with source and target spans"),
    "units of no source word": ("moses-enriched", a_list("x", [unit((0, 1), (1, 1))]), "units with source and target spans"),
    "a bar in a phrase": ("moses-enriched", a_list("x|y", [unit((0, 1))]), r"phrases without \| .* found 'x\|y'"),
    "a comma in an alignment": ("moses-enriched", a_list("x", [unit((0, 1), align="0,0")]), "alignments without .* found '0,0'"),
    "a bar in a sparse name": ("moses-enriched", a_list("x", [unit((0, 1), **{"pt:a|b": 1})]), r"feature names .* found 'pt:a\|b'"),
    "a feature called total": ("moses-enriched", a_list("x", [unit((0, 1), total=1)]), "another name than 'total'"),
    "a blank in a name": ("moses", a_list(**{"a b": 1.0}), "feature names without spaces and .* found 'a b'"),
    "bars in a name": ("moses", a_list(**{"a|||b": 1.0}), r"found 'a\|\|\|b'"),
    "an end of a line in a name": ("moses", a_list(**{"a\nb": 1.0}), "feature names without spaces"),
    "bars in a text": ("moses", a_list("x ||| y"), r"sentence 0: expected a text without '\|\|\|'"),
    "a mark in a text": ("moses", a_list("x |0-1| y"), r"marks like \|0-1\|"),
    "a block in a text": ("moses", a_list("x |0-1,wa= y"), r"marks like \|0-1\|"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_format_cannot_express_is_refused(case: str) -> None:
    format, nbest, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        write(nbest, io.BytesIO(), format=format)


def with_quality(nbest: NBest) -> NBest:
    one = {"weight": np.ones(1), "hyp_ptr": nbest.hyp_ptr}
    quality = Qualities().with_column("comet", np.array([0.5]), **one)
    quality = quality.with_column("mqm", np.array([3.0]), **one, lower=True)
    return replace(nbest, quality=quality, meta={"tokenize": "13a"})


def test_json_lines_hold_quality_columns_and_meta(tmp_path: Path) -> None:
    nbest, stream = with_quality(a_list()), io.BytesIO()
    write(nbest, stream, format="jsonl")
    (tmp_path / "list").write_bytes(stream.getvalue())
    again = read(tmp_path / "list", ReadOptions())
    assert again == nbest
    assert again.meta == {**nbest.meta, "precision": "{}"}
    assert again.quality.lower == (False, True)


def test_what_has_no_place_is_said() -> None:
    nbest = attach(a_list(units=[unit((0, 2), None, g=1.0)]), source=["a b c"], refs=[["x"]], name="n")
    assert left_out(nbest, format="jsonl") == []
    expected = ["source sentences", "references", "features of single units (their sums are written)", "units without places"]
    assert left_out(nbest, format="moses") == expected
    assert left_out(replace(nbest, source=strings([""])), format="moses-enriched") == ["references"]
    gap = replace(a_list(), ids=np.array([2]))
    gap = attach(gap, source=["", "", ""], refs=[], name="n")
    assert left_out(gap, format="moses") == ["2 sentences without hypotheses"]


def test_pieces_of_words_are_no_segments(tmp_path: Path) -> None:
    """'house' goes on with the word that '▁the' begins, and is linked to a source word of its own: segments tell whole words."""
    lines = ["0 ||| ▁the house ||| 0-0 1-1 ||| F0= -1.5 ||| -1", "0 ||| ▁the ▁house ||| 0-0 1-1 ||| F0= -1 ||| -1.5"]
    (tmp_path / "list").write_text("".join(f"{line}\n" for line in lines))
    nbest, stream = read(tmp_path / "list", ReadOptions(units="token", source=["das haus"])), io.BytesIO()
    write(nbest, stream, format="moses")
    fields = [line.split(" ||| ") for line in stream.getvalue().decode().splitlines()]
    assert [(row[1], row[4:]) for row in fields] == [("thehouse", []), ("the house", ["0=0 1=1", "0-0 1-1"])]
    assert left_out(nbest, format="moses") == ["features of single units (their sums are written)", "units within words"]
    (tmp_path / "copy").write_bytes(stream.getvalue())
    again = read(tmp_path / "copy", ReadOptions())
    assert (again.text.equals(nbest.text), again.n_occurrences) == (True, 2)


OWN_KEYS = (
    '{"boostfeat": "nbest/1", "made_by": "me"}\n'
    '{"id": 0, "z": 1, "hyps": [{"text": "a", "score": 1, "q": {"r": 2}, "units": [{"u": 1}]}, {"text": "b", "score": 2, "q": 3}]}\n'
    '{"id": 2, "z": 2, "hyps": [{"text": "c", "score": 0}]}\n'
)


def test_keys_of_other_names_travel_along(tmp_path: Path, boostfeat) -> None:
    """F14: metadata of one's own stays with its sentences and hypotheses, whatever is done with the list."""
    (tmp_path / "list").write_text(OWN_KEYS)
    (tmp_path / "other").write_text('{"boostfeat": "nbest/1"}\n{"id": 0, "hyps": [{"text": "d", "score": 9}]}\n')
    (tmp_path / "src").write_text("x\ny\nz\n")
    code, _, err = boostfeat("import", tmp_path / "list", tmp_path / "other", "-s", tmp_path / "src", "-o", tmp_path / "l.nbest")
    assert (code, "not kept: 'header.made_by', 'hyps.units.u'\n" in err) == (0, True)
    code, out, _ = boostfeat("rerank", tmp_path / "l.nbest", "--format", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()[1:]]
    assert [(row["id"], row.get("z")) for row in rows] == [(0, 1), (1, None), (2, 2)]
    assert [[(hyp["text"], hyp.get("q")) for hyp in row["hyps"]] for row in rows] == [
        [("d", None), ("b", 3), ("a", {"r": 2})],
        [],
        [("c", None)],
    ]
    for command in ("convert", "rerank"):
        _, _, err = boostfeat(command, tmp_path / "l.nbest", "--format", "moses", "-o", tmp_path / "moses")
        assert "--format moses has no place for: " in err
        assert "keys of your own" in err


def test_notes_are_part_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(OWN_KEYS)
    nbest = read(tmp_path / "list", ReadOptions(size=1, warn=lambda text: None))
    assert (nbest.notes.sentences.to_pylist(), nbest.notes.hyps.to_pylist()) == (['{"z":1}', '{"z":2}'], ['{"q":{"r":2}}', ""])
    assert nbest[1:].notes.sentences.to_pylist() == ['{"z":2}']
    write_store(nbest, tmp_path / "store")
    assert read_store(tmp_path / "store").differences(nbest) == []
    bare = replace(nbest, notes=Notes())
    assert not bare.notes
    assert bare.differences(nbest) == ["notes.sentences", "notes.hyps"]
    with pytest.raises(ValueError, match=r"length of notes\.hyps: expected 2, found 1"):
        replace(nbest, notes=Notes(hyps=strings(["{}"])))
    with pytest.raises(InputError, match="notes of the list: expected objects in JSON, found others"):
        write(replace(nbest, notes=Notes(hyps=strings(["", "[1]"]))), io.BytesIO(), format="jsonl")


def test_keys_that_have_no_place_are_named_once(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(OWN_KEYS)
    told: list[str] = []
    read(tmp_path / "list", ReadOptions(warn=told.append))
    assert len(told) == 1
    assert told[0].endswith("list: keys that a list has no place for are not kept: 'header.made_by', 'hyps.units.u'")
    with pytest.warns(UserWarning, match="'hyps.units.u'"):  # a library user hears of it too
        read(tmp_path / "list", ReadOptions())


def test_a_wrong_value_beside_an_unknown_key_is_still_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text('{"boostfeat": "nbest/1"}\n{"id": 0, "z": 1, "hyps": [{"text": 1}]}\n')
    with pytest.raises(InputError, match=r"list:2: hyps\[0\].text: expected a string, found a whole number"):
        read(tmp_path / "list", ReadOptions())
