"""What readers refuse: each sentence of an error, at its place, for the smallest input that deserves it."""

from __future__ import annotations

import re
from math import log
from pathlib import Path
from typing import Any

import pytest

from boostfeat import formats
from boostfeat.core.errors import FormatError, InputError
from boostfeat.formats.importing import OF_SOME, Corpus, expand, import_corpus
from boostfeat.formats.jsonl import stream
from boostfeat.formats.lines import read_systems
from boostfeat.formats.neural_lists import objects
from boostfeat.lists.build import ReadOptions
from boostfeat.search.graphs.graph_files import read_graphs

pytestmark = pytest.mark.quick


LATTICE = "VERSION=1.0\nbase=0\nN=2 L=1\nI=0 t=0\nI=1 t=1\nJ=0 S=0 E=1 W=a a=0.5\n"
FOREST = '{"rules": [1, "[X] ||| a ||| b"], "features": ["f"], "edges": [{"rule": 1}], "node": {"in_edges": [0]}}'
OPENAI = '{"choices": [{"text": "x", "logprobs": %s}]}'

SLF = {
    "# nothing\n": ": expected a lattice, found none",
    LATTICE.replace("I=1 t=1", "I=1 L=sub"): ":5: expected a node of a word, found a sub-lattice",
    LATTICE.replace("a=0.5", "a=-1"): ":6: expected a probability a=, as base=0 says, found '-1'",
    **{
        LATTICE.replace("E=1", f"E={name}"): f":6: expected the number of a node, found {name!r}"
        for name in ("x", "1" * 19, "1" * 20, "-1", "\u0661")
    },
    "VERSION=1.0\nN=0 L=0\n": ":1: expected nodes (I=) and links (J=), found none",
}
MARIAN = {
    "0 ||| a ||| DecoderScore= 1 ||| 2\n": ":1: expected distinct feature names, found 'DecoderScore' twice",
    "0 ||| a ||| WordScores= 1 WordScores= 2 ||| F0= 1 X= 1 ||| 2\n": ":1: expected one WordScores a model, found 'X.WordScores' twice",
    "0 ||| a ||| WordScores= 1 ||| WordScores= 2 F0= 1 ||| WordScores= 3 F0= 2 ||| 1": ":1: expected distinct feature names, found 'F0' twice",
    "0 ||| a ||| 0.5,1.5 ||| F0= 1 ||| 2": ":1: expected weights from 0 to 1, found 1.5",
    "0 ||| a ||| 0.5,-0.5 ||| F0= 1 ||| 2": ":1: expected weights from 0 to 1, found -0.5",
}
JSON = {
    ("openai", OPENAI % "[1]"): ":1: choices[0].logprobs: expected an object or null, found a list",
    (
        "sockeye",
        '{"sentence_id": 0, "translations": ["x"], "scores": 3}',
    ): ":1: scores: expected a list or null, found a whole number",
    (
        "openai",
        OPENAI % '{"content": [{"token": "t", "logprob": -1, "bytes": [256]}]}',
    ): ":1: choices[0].logprobs.content[0].bytes[0]",
    ("sockeye", '{"translation": "x", "translation": "y"}'): ":1: expected JSON, found key 'translation' twice in one object",
    (
        "sockeye",
        '{"translations": ["x"], "scores": [[0.5, %s]]}' % ("1" * 400),
    ): ":1: expected JSON, found a whole number of 400 digits",
    ("hyporadise", '[{"input": 1, "output": "a"}]'): ": [0]: input: expected a list, found a whole number",
    ("hyporadise", '[{"input": ["x", 1]}]'): ": [0]: input[1]: expected a string, found a whole number",
    ("fairseq", "H-0\t-1\ta\nA-0\t0.5,0.5 x\n"): ":2: expected an alignment like 0-0 1-2, found '0.5,0.5 x'",
    ("sockeye", '{"translations": ["x"], "scores": ["\u0663"]}'): ":1: scores[0]: expected a number or a list, found a string",
    ("fairseq", "H-0\t-1\ta\nA-0\t0:0\n"): ":2: expected an alignment like 0-0 1-2, found '0:0'",
    ("hyporadise", '[{"output": "b"}]'): ": [0]: expected the key 'input', found none",
    ("hyporadise", '[{"input": ["a"], "am_score": [1e999]}]'): ": expected JSON, found 1e999 where a finite number is expected",
    ("hyporadise", "[1]"): ": [0]: expected an object, found a whole number",
    ("hyporadise", "[{]"): ": expected JSON",
    ("mlm-scoring", '{"u": {"ref": "x"}}'): ': expected utterances with "hyp_1"',
    ("mlm-scoring", '{"u": {"hyp_1": {"score": 1}}}'): ":1: u: hyp_1: expected the key 'text', found none",
    ("sockeye", '{"translations": ["a"], "scores": [[1], [2]]}'): ":1: expected scores of 1 translation, found 2",
    ("vosk", '{"alternatives": [{"confidence": 1}]}'): ":1: alternatives[0]: expected the key 'text', found none",
    ("openai", '{"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": []}}]}'): (
        ":1: choices[0]: expected 1 number in 'token_logprobs'"
    ),
    ("openai", '{"choices": [{"message": {}}]}'): ":1: choices[0].message: expected the key 'content', found none",
}
HEADER = '{"boostfeat": "nbest/1", "unit_features": ["a"]%s}\n'
QUALITY = '{"id": 0, "hyps": [{"text": "x", "quality": {"q": %s}}]}\n'
LINES = {
    '{"boostfeat": "model/1", "unit_features": []}\n': ":1: boostfeat: expected 'nbest/1', found 'model/1'; is this an n-best list?",
    HEADER % "": ": expected an n-best list, found no sentences; check what wrote it",
    HEADER % ', "hyp_features": ["b", "b"]': ":1: hyp_features: expected distinct feature names, found 'b' twice",
    HEADER % ', "sparse_features": ["s", "a"]': ":1: sparse_features: expected distinct feature names, found 'a' twice",
    HEADER % ', "lower_is_better": ["r"]'
    + QUALITY % 1: ": header: expected names of quality columns, found 'r'; no hypothesis has it",
    HEADER % "" + QUALITY % "[1e300, 1e-300]": ": quality.q: expected finite ratios, found an infinite one",
    **{
        HEADER % "" + QUALITY % value: ":2: hyps[0].quality[...]"
        for value in ('"x"', "[]", "[1]", "[1, 2, 3]", "[1, -1]", "[1, null]", "true", '[1, "2"]')
    },
    HEADER % "" + '{"id": 0, "hyps": [}\n': ":2: expected JSON, found",
    HEADER % "" + '{"id": "0", "hyps": []}\n': ":2: id: expected",
}
TEXTS = {
    (
        "auto",
        "0" * 257 + "ustar" + "\0" * 9,
    ): ": expected an n-best list or a graph, found a tar archive; unpack it and name its files",
    ("auto", "0 ||| a\0b\n"): ": expected an n-best list, found a binary file; name the list the decoder wrote",
    ("auto", " \n"): ": expected an n-best list, found an empty file; check what wrote it",
    ("plf", ""): ": expected an n-best list, found an empty file",
    ("lines", ""): ": expected an n-best list, found an empty file",
}
CASES = [
    *(("htk-slf", text, line) for text, line in SLF.items()),
    *(("jsonl", text, line) for text, line in LINES.items()),
    *(("marian", text, line) for text, line in MARIAN.items()),
    *((format, text, line) for (format, text), line in {**JSON, **TEXTS}.items()),
]


@pytest.mark.parametrize(("format", "text", "line"), CASES)
def test_refused_with_a_place(tmp_path: Path, format: str, text: str, line: str) -> None:
    (tmp_path / "list").write_text(text)
    options = ReadOptions(n=1, warn=lambda message: None)
    with pytest.raises(FormatError, match="^" + re.escape(f"{tmp_path / 'list'}{line}")):
        formats.read(tmp_path / "list", options, format=format)


def test_objects_of_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text, line in {
        "": "expected an n-best list, found no objects",
        "\n\n": "expected an n-best list, found no objects",
    }.items():
        path.write_text(text)
        with pytest.raises(FormatError, match=f"file: {line}"):
            list(objects(path))
    path.write_text('{\n"a": 1}\n{"b": ]')  # one after another, over lines
    with pytest.raises(FormatError, match="file"):
        list(objects(path))
    path.write_bytes(b'\xef\xbb\xbf [{"a": 1}]')
    assert list(objects(path)) == [(f"{path}: [0]", {"a": 1})]


def test_soft_alignments_of_fairseq_give_signals(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("S-0\ts t\nH-0\t-1\ta b\nP-0\t-1 -1 -1\nA-0\t0.9,0.1 0.2,0.8 0.5,0.5\n")
    nbest = formats.read(tmp_path / "list", ReadOptions(warn=lambda line: None), format="fairseq")
    assert "Alignment.max" in nbest.feature_names
    assert nbest.score.tolist() == [-log(2)]  # fairseq prints log2
    assert nbest.global_column("P").tolist() == pytest.approx([-3 * log(2)])
    assert nbest.src_start.tolist() == [0, 1, -1]  # the end of a sentence is of no word


def test_espnet_folders(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected a folder with 1best_recog/text, found none"):
        formats.read(tmp_path, ReadOptions(), format="espnet")
    for n, text in ((1, "u1 a\n"), (2, "u1 b\nu2 c\n")):
        (tmp_path / f"{n}best_recog").mkdir()
        (tmp_path / f"{n}best_recog/text").write_text(text)
    warned: list[str] = []
    nbest = formats.read(tmp_path, ReadOptions(warn=warned.append), format="espnet")
    assert nbest.text.to_pylist() == ["a", "b"]
    assert any("1 utterances that 1best_recog/text lacks are not read, 'u2' the first" in line for line in warned)
    (tmp_path / "1best_recog/text").write_text("u1 a b\n\n u2\tc \nu1 b\n")
    with pytest.raises(FormatError, match="text:4: expected each utterance once, found 'u1' twice"):
        formats.read(tmp_path, ReadOptions(), format="espnet")


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        (Corpus(["-"], ["-"]), "'-': expected one input from standard input, found more; name files"),
        (Corpus(["-"], [], "-"), "'-': expected one input from standard input, found more; name files"),
        (Corpus(["list"], ["ref.*"]), "ref.*: expected files of this pattern, found none; check the path"),
    ],
)
def test_inputs_of_import(corpus: Corpus, line: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(line)}$"):
        import_corpus(corpus, ReadOptions())


def test_patterns_of_references(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("ref.0", "ref.1", "ref[x]")]
    for name in names:
        name.write_text("a\n")
    assert expand([str(tmp_path / "ref.?"), str(names[2]), "-", "none"]) == [*map(str, names), "-", "none"]


def test_systems_have_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--system =a: expected NAME=FILE, found no name; give one"):
        read_systems(["=a", "b=c"], ReadOptions())


def test_counts_and_scores_beside_lines(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a\nb\n")
    (tmp_path / "scores").write_text("1\n2\n")
    (tmp_path / "counts").write_text("1.5\n0.5\n")
    twice = ReadOptions(n=1, scores=(f"s={tmp_path / 'scores'}", f"s={tmp_path / 'scores'}"))
    with pytest.raises(InputError, match="--scores: expected distinct names, found 's' twice; give NAME=FILE"):
        formats.read(tmp_path / "list", twice, format="lines")
    with pytest.raises(InputError, match="counts: expected whole numbers, found others; one count a source"):
        formats.read(tmp_path / "list", ReadOptions(counts=str(tmp_path / "counts")), format="lines")


def test_a_stream_is_a_list_a_line() -> None:
    lines = [
        b"\n",
        (HEADER % "").encode(),
        b" \n",
        b'{"id": 4, "hyps": [{"text": "x"}]}\n',
        b'{"id": 2, "hyps": [{"text": "y z"}]}\n',
    ]
    found = list(stream(iter(lines), ReadOptions()))
    assert [(one.ids.tolist(), one.text.to_pylist()) for one in found] == [([4], ["x"]), ([2], ["y z"])]
    with pytest.raises(FormatError, match=r"^stdin:1: boostfeat: expected 'nbest/1', found 'nbest/x'"):
        list(stream([b'{"boostfeat": "nbest/x", "unit_features": []}\n'], ReadOptions()))
    with pytest.raises(
        FormatError, match=r"^stdin:1: expected the key 'boostfeat', found none; the first line is a header, such as"
    ):
        list(stream([lines[3]], ReadOptions()))
    with pytest.raises(FormatError, match=r"^in:3: expected an object, found a list"):
        list(stream([lines[1], lines[3], b"[1]\n"], ReadOptions(), name="in"))


def test_graphs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown format of graphs 'moses': expected one of auto, "):
        list(read_graphs([tmp_path], format="moses"))
    with pytest.raises(InputError, match="expected graphs, found an empty folder; name the files"):
        list(read_graphs([tmp_path]))
    (tmp_path / "list").write_text("0 ||| a ||| LM0= 1 ||| 2\n")
    with pytest.raises(FormatError, match=r"list: expected a search graph, found a list \(moses\)"):
        list(read_graphs([tmp_path / "list"]))
    for name in ("10.json", "9.json"):  # cdec's files are of the sentence of their name
        (tmp_path / name).write_text(FOREST)
    assert [found.sent for found in read_graphs([tmp_path / "10.json", tmp_path / "9.json"])] == [9, 10]
    (tmp_path / "1.plf").write_text(
        "((('a',0.5,1),),)\n"
    )  # a lattice has no number: files stay in the order in which they were given
    assert [found.sent for found in read_graphs([tmp_path / "10.json", tmp_path / "1.plf"])] == [10, 11]
    with pytest.raises(
        FormatError, match=r"9.json:1: expected sentence id 10 or higher, found 9; give each sentence once, in order"
    ):
        list(read_graphs([tmp_path / "9.json", tmp_path / "9.json"]))


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"n": 2}, "-n"),
        ({"counts": "counts"}, "--counts"),
        ({"scores": ("scores",)}, "--scores"),
        ({"names": ("a", "b")}, "--names"),
        ({"weights": {"a": 1.0}}, "--weights"),
        ({"distinct": False}, "--derivations"),
        ({"subwords": "bpe"}, "--subwords"),
        ({"units": "token"}, "--units"),
    ],
)
def test_an_option_that_a_format_has_no_use_for_is_refused(tmp_path: Path, options: dict[str, Any], flag: str) -> None:
    path = tmp_path / "list"
    path.write_text("0 ||| x y ||| a= 1 b= 2 ||| -1\n")
    with pytest.raises(InputError, match=f"list: {flag}: expected one of the formats .*, found moses; leave it out"):
        import_corpus(Corpus([str(path)]), ReadOptions(**options))
    assert len(import_corpus(Corpus([str(path)]), ReadOptions(size=1, allow_mismatch=True))) == 1


def test_formats_that_options_are_for_are_formats() -> None:
    assert {name for _, names in OF_SOME.values() for name in names} <= {*formats.READERS, "outputs of systems"}
