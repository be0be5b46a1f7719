"""Lists of today's tools that have no format of their own field: JSON dialects, plain text, folders, one file a system.

Layouts are as the tools' sources write them; all texts are made up but those of the real files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostfeat import formats
from boostfeat.core.errors import InputError
from boostfeat.formats.importing import Corpus, import_corpus
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.choices import Scorer, first_choice, oracle_choice
from boostfeat.lists.nbest import NBest

REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[3] / "shared" / "real"))
needs_real = pytest.mark.skipif(not (REAL / "asr").is_dir(), reason="needs the real lists: set BOOSTFEAT_REAL_DATA")

HYPORADISE = [
    {
        "id": "u1",
        "input": ["a flight to dallas", "a fight to dallas"],
        "output": "a flight to dallas",
        "am_score": [-0.5, -0.75],
        "lm": [1, 2],
    },
    {"id": "u2", "input": ["yes"], "output": "yes please", "am_score": [-0.25], "lm": [3]},
]
MLM = {
    "utt-1": {
        "hyp_2": {"score": -2.5, "text": "a fight"},
        "hyp_1": {"score": -1.5, "text": "a flight", "lm": -3},
        "ref": "a flight",
    },
    "utt-2": {"hyp_1": {"score": -1, "text": "yes", "lm": -4}, "ref": "yes"},
}
SOCKEYE = [
    {"sentence_id": 1, "translation": "the house", "score": 0.5, "translations": ["the house", "a house"], "scores": [[0.5], [0.75]], "text": "das haus", "reference": "the house"},
    {"sentence_id": 2, "translation": "yes", "score": 0.25, "translations": ["yes", "yeah"], "scores": [[0.25], [1.5]], "text": "ja", "reference": "yes"},
]  # fmt: skip
VOSK = [{"alternatives": [{"confidence": 297.05, "text": "one two", "result": [{"start": 0.0, "end": 0.5, "word": "one"}, {"start": 0.5, "end": 0.75, "word": "two"}]}, {"confidence": 296.5, "text": "one too"}]}]  # fmt: skip
OPENAI = [
    {"id": "x", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "The naïve house"}, "logprobs": {"content": [
            {"token": "The", "logprob": -0.5, "bytes": [84, 104, 101], "top_logprobs": [{"token": "The", "logprob": -0.5}, {"token": "A", "logprob": -1.5}]},
            {"token": " na", "logprob": -0.25, "bytes": [32, 110, 97], "top_logprobs": [{"token": " a", "logprob": -0.125}]},
            {"token": "\\xc3", "logprob": -9999.0, "bytes": [195], "top_logprobs": [{"token": " a", "logprob": -0.125}]},
            {"token": "\\xafve", "logprob": -0.25, "bytes": [175, 118, 101], "top_logprobs": [{"token": " a", "logprob": -0.125}]},
            {"token": " house", "logprob": -1, "bytes": [32, 104, 111, 117, 115, 101], "top_logprobs": [{"token": " a", "logprob": -0.125}]},
        ]}},
        {"index": 1, "finish_reason": "length", "message": {"role": "assistant", "content": "A"}, "logprobs": {"content": [{"token": "A", "logprob": -0.5, "bytes": [65], "top_logprobs": [{"token": "A", "logprob": -0.5}]}]}},
    ]},
]  # fmt: skip


def refuse(message: str) -> None:
    raise AssertionError(message)


def read(tmp_path: Path, text: str, *, format: str = "auto", warn: Callable[[str], None] = refuse, **options: Any) -> NBest:
    (tmp_path / "list").write_text(text)
    return formats.read(tmp_path / "list", ReadOptions(warn=warn, **options), format=format)


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def of(nbest: NBest, h: int) -> dict[str, float]:
    return dict(zip(nbest.global_names, nbest.global_features[h].tolist(), strict=True))


@pytest.mark.parametrize("text", [json.dumps(HYPORADISE), json.dumps(HYPORADISE, indent=2), lines(HYPORADISE)])
def test_hyporadise(tmp_path: Path, text: str) -> None:
    nbest = read(tmp_path, text)
    assert formats.detect(tmp_path / "list") == "hyporadise"
    assert nbest.text.to_pylist() == ["a flight to dallas", "a fight to dallas", "yes"]
    assert nbest.refs.to_pylist() == ["a flight to dallas", "yes please"]
    assert nbest.score.tolist() == [-0.5, -0.75, -0.25]
    assert of(nbest, 1) == {"Words": 4, "am_score": -0.75, "lm": 2, "Rank": 1, "First": 0}
    assert nbest.units.tgt.take(nbest.unit_idx).to_pylist() == [
        *("a", "flight", "to", "dallas", "a", "fight", "to", "dallas", "yes"),
    ]
    assert nbest.has_stats


def test_keys_that_are_not_read_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    read(tmp_path, json.dumps([{**row, "note": "x", "odd": [1]} for row in HYPORADISE[:1]]), warn=said.append)
    assert said == [f"{tmp_path}/list: keys that are not read: 'note' of 1, 'odd' of 1 objects"]


@needs_real
def test_real_hyporadise() -> None:
    nbest = import_corpus(Corpus([str(REAL / "asr" / "train_atis.json.xz")]), ReadOptions(warn=refuse))
    assert (len(nbest), nbest.n_hyps, nbest.extra_names) == (3964, 19820, ("am_score", "Rank", "First"))
    assert nbest.score.tolist() == nbest.global_column("am_score").tolist()
    texts, refs = nbest.text.to_pylist(), nbest.refs.to_pylist()
    wer = [100 * sum(edits(texts[h].split(), refs[s].split()) for s, h in enumerate(choice)) / sum(len(r.split()) for r in refs)
           for choice in (first_choice(nbest),)]  # fmt: skip
    assert wer == pytest.approx([7.66], abs=0.005)  # the README of the real data
    assert Scorer(nbest).score(oracle_choice(nbest), "bleu").score > Scorer(nbest).score(first_choice(nbest), "bleu").score
    said: list[str] = []
    swbd = import_corpus(Corpus([str(REAL / "asr" / "test_swbd.json.xz")]), ReadOptions(warn=said.append))
    assert (len(swbd), swbd.has_scores, swbd.extra_names) == (2000, False, ("Rank", "First"))
    assert "'input1' of 2,000, 'input2' of 2,000" in said[0]


def edits(a: list[str], b: list[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@pytest.mark.parametrize("text", [json.dumps(MLM), json.dumps(MLM, indent=1)])
def test_mlm_scoring(tmp_path: Path, text: str) -> None:
    nbest = read(tmp_path, text)
    assert formats.detect(tmp_path / "list") == "mlm-scoring"
    assert (nbest.text.to_pylist(), nbest.refs.to_pylist()) == (["a flight", "a fight", "yes"], ["a flight", "yes"])
    assert of(nbest, 0) == {"Words": 2, "score": -1.5, "lm": -3, "Rank": 0, "First": 1}
    assert nbest.score.tolist() == [-1.5, -2.5, -1]


def test_sockeye(tmp_path: Path) -> None:
    nbest = read(tmp_path, lines(SOCKEYE))
    assert formats.detect(tmp_path / "list") == "sockeye"
    assert nbest.text.to_pylist() == ["the house", "a house", "yes", "yeah"]
    assert (nbest.source.to_pylist(), nbest.refs.to_pylist()) == (["das haus", "ja"], ["the house", "yes"])
    assert nbest.score.tolist() == nbest.global_column("score").tolist() == [-0.5, -0.75, -0.25, -1.5]
    one = read(tmp_path, lines([{k: row[k] for k in ("sentence_id", "translation", "score")} for row in SOCKEYE]))
    assert formats.detect(tmp_path / "list") == "sockeye"
    assert one.score.tolist() == [-0.5, -0.25]


@pytest.mark.parametrize("text", [lines(VOSK), json.dumps(VOSK[0], indent=2) + "\n" + json.dumps(VOSK[0], indent=2)])
def test_vosk(tmp_path: Path, text: str) -> None:
    nbest = read(tmp_path, text)
    assert formats.detect(tmp_path / "list") == "vosk"
    assert nbest.text.to_pylist()[:2] == ["one two", "one too"]
    assert nbest.score.tolist()[:2] == [297.05, 296.5]
    assert of(nbest, 0) == {"seconds": 0.75, "Words": 2, "confidence": 297.05, "Rank": 0, "First": 1}


def test_openai(tmp_path: Path) -> None:
    said: list[str] = []
    nbest = read(tmp_path, lines(OPENAI), warn=said.append)
    assert formats.detect(tmp_path / "list") == "openai"
    assert nbest.text.to_pylist() == ["The naïve house", "A"]
    assert nbest.units.tgt.take(nbest.unit_idx).to_pylist() == ["The", "naïve", "house", "A"]
    assert said == [f"{tmp_path}/list: 1 log-probabilities below -100 (servers' -9999 for 'not listed') count as -100"]
    assert nbest.score.tolist() == nbest.global_column("logprob").tolist() == [-102, -0.5]
    first = dict(zip(nbest.unit_names, nbest.X[nbest.unit_idx[0]].tolist(), strict=True))
    assert (first["logprob"], first["logprob.margin"], first["Pieces"]) == (-0.5, 1.0, 1)
    assert nbest.global_column("Cut").tolist() == [0, 1]


def test_completions_of_a_batch(tmp_path: Path) -> None:
    row = {
        "custom_id": "a",
        "response": {
            "body": {
                "choices": [
                    {"text": "a b", "logprobs": {"tokens": ["a", " b"], "token_logprobs": [None, -1]}},
                    {"text": " c", "logprobs": None},
                ]
            }
        },
    }
    said: list[str] = []
    nbest = read(tmp_path, lines([row]), warn=said.append)
    assert nbest.text.to_pylist() == ["a b", "c"]
    assert said == ["1 of 2 hypotheses have no scores of tokens, which count as 0"]


LISTS = {  # --format lines
    "-n": ("the house\na house\nyes\n\n", {"n": 2}, ["the house", "a house", "yes", ""], [2, 2]),
    "NC=": ("NC=1\nthe house\nNC=2\nyes\nno\n", {}, ["the house", "yes", "no"], [1, 2]),
    "scores after a tab": ("the house\t-1\na house\t-2\n", {"n": 2}, ["the house", "a house"], [2]),
    "scores before a tab": ("-1\tthe house\n-2\ta house\n", {"n": 2}, ["the house", "a house"], [2]),
    "pieces": ("▁the ▁ho use\n▁yes\n", {"n": 1}, ["the house", "yes"], [1, 1]),
}


@pytest.mark.parametrize("case", LISTS)
def test_lines(tmp_path: Path, case: str) -> None:
    text, options, texts, counts = LISTS[case]
    nbest = read(tmp_path, text, format="lines", **options)
    assert (nbest.text.to_pylist(), np.diff(nbest.hyp_ptr).tolist()) == (texts, counts)
    assert nbest.has_scores == ("tab" in case)
    if "tab" in case:
        assert nbest.score.tolist() == nbest.global_column("score").tolist() == [-1, -2]


def test_scores_beside_lines(tmp_path: Path) -> None:
    (tmp_path / "counts").write_text("1\n0\n2\n")
    (tmp_path / "scores").write_text("-1\n-2\n-3\n")
    nbest = read(
        tmp_path,
        "a\nb\nc\n",
        format="opennmt",
        counts=f"{tmp_path}/counts",
        scores=(f"{tmp_path}/scores", f"lm={tmp_path}/scores"),
    )
    assert np.diff(nbest.hyp_ptr).tolist() == [1, 0, 2]
    assert of(nbest, 1) == {"Words": 1, "score": -2, "lm": -2}


BAD_LINES = [
    ("a\nb\nc\n", {"n": 2}, r"expected a multiple of 2 lines \(-n\), found 3"),
    ("a\n", {}, "expected how many lines a source has"),
    ("NC=2\na\n", {}, "list:1: expected 2 lines after NC=2, found 1 line after it"),
    ("NC=1\na\nb\n", {}, "list:3: expected a line like NC=3, found 'b'"),
    ("a\nb\n", {"n": 1, "scores": ("SCORES",)}, "expected 2 numbers, one for each hypothesis of"),
    ("a\nb\n", {"counts": "SCORES"}, r"expected 6 lines, the sum of \S+, found 2;"),
    ("a\n" * 7, {"counts": "SCORES"}, r"expected 6 lines, the sum of \S+, found 7;"),
]


@pytest.mark.parametrize(("text", "options", "message"), BAD_LINES)
def test_bad_lines(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    (tmp_path / "scores").write_text("1\n2\n3\n")
    real = {
        k: v if isinstance(v, int) else f"{tmp_path}/scores" if isinstance(v, str) else (f"{tmp_path}/scores",)
        for k, v in options.items()
    }
    with pytest.raises(InputError, match=message):
        read(tmp_path, text, format="lines", **real)


def test_espnet(tmp_path: Path) -> None:
    for n, texts, scores in (
        (1, "u1 a flight\nu2 yes\n", "u1 tensor(-1.5)\nu2 -2\n"),
        (2, "u1 a fight\n", "u1 tensor(-2.5, device='cuda:0')\n"),
    ):
        (tmp_path / f"{n}best_recog").mkdir()
        (tmp_path / f"{n}best_recog" / "text").write_text(texts)
        (tmp_path / f"{n}best_recog" / "score").write_text(scores)
    assert formats.detect(tmp_path) == "espnet"
    nbest = formats.read(tmp_path, ReadOptions(warn=refuse))
    assert (nbest.text.to_pylist(), nbest.hyp_ptr.tolist()) == (["a flight", "a fight", "yes"], [0, 2, 3])
    assert of(nbest, 1) == {"Words": 2, "score": -2.5, "Rank": 1, "First": 0}


def test_systems(tmp_path: Path) -> None:
    for name, text in (("A", "the big house\nyes\n"), ("B", "the big house\nno\n"), ("C", "a house\n\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "ref").write_text("the house\nyes\n")
    corpus = Corpus([], [str(tmp_path / "ref")], systems=[str(tmp_path / "A"), f"b={tmp_path / 'B'}", f"c={tmp_path / 'C'}"])
    nbest = import_corpus(corpus, ReadOptions(warn=refuse))
    assert nbest.text.to_pylist() == ["the big house", "the big house", "a house", "yes", "no", ""]
    assert [nbest.global_column(f"sys:{name}").tolist() for name in "Abc"] == [[1, 0, 0] * 2, [0, 1, 0] * 2, [0, 0, 1] * 2]
    assert nbest.global_column("same").tolist() == [1, 1, 0, 0, 0, 0]
    assert nbest.global_column("agree:A")[:2].tolist() == [0, 1]
    np.testing.assert_allclose(nbest.global_column("agreement"), sum(nbest.global_column(f"agree:{n}") for n in "Abc") / 2)
    (tmp_path / "a=b").write_text("yes\nno\n")  # a file of that name, and no file b of a system a
    nbest = import_corpus(Corpus([], systems=[str(tmp_path / "a=b"), str(tmp_path / "A")]), ReadOptions(warn=refuse))
    assert [name for name in nbest.global_names if name.startswith("sys:")] == ["sys:a=b", "sys:A"]
    with pytest.raises(InputError, match=f"^{tmp_path / 'none'}: "):
        import_corpus(Corpus([], systems=[str(tmp_path / "none")]), ReadOptions())
    with pytest.raises(InputError, match="expected distinct names, found 'A' twice"):
        import_corpus(Corpus([], systems=[f"A={tmp_path / 'A'}"] * 2), ReadOptions())
    (tmp_path / "C").write_text("a house\n")
    with pytest.raises(InputError, match="expected files with the same number of lines"):
        import_corpus(corpus, ReadOptions())
    with pytest.raises(InputError, match="expected lists, or --system files, found both or none"):
        import_corpus(Corpus([]), ReadOptions())


@pytest.mark.parametrize(("n", "more"), [(5, ""), (6, " and 1 more"), (8, " and 3 more")])
def test_keys_of_json_lists_that_are_left_out_are_counted(tmp_path, n, more):
    """Those of units, which have no place for them: five are named."""
    keys = ", ".join(f'"k{k}": {k}' for k in range(n))
    lines = ['{"boostfeat": "nbest/1"}', f'{{"id": 0, "hyps": [{{"text": "a", "units": [{{"tgt": [0, 1], {keys}}}]}}]}}']
    (tmp_path / "list").write_text("\n".join(lines))
    said: list[str] = []
    formats.read(tmp_path / "list", ReadOptions(warn=said.append), format="jsonl")
    names = ", ".join(f"'hyps.units.k{k}'" for k in range(5))
    assert said == [f"{tmp_path / 'list'}: keys that a list has no place for are not kept: {names}{more}"]


@pytest.mark.parametrize(
    ("line", "is_said"),
    [("the end\tx", True), ("the end\tnan", True), ("the end\t", True), ("the end", True), ("", True), ("the end\t1\t2", True), ("the end\t-3", False)],
)  # fmt: skip
def test_one_line_does_not_make_words_of_all_scores(tmp_path, line, is_said):
    """Text and a number by a tab: where one line has none, it is named; the numbers of the others stay numbers."""
    lines = [f"text {k}\t-{k}.5" for k in range(5)]
    (tmp_path / "list").write_text("\n".join([*lines, line]) + "\n")
    for text, place in ((lines, 6), ([line, *lines], 1)):
        (tmp_path / "list").write_text("\n".join(text if place == 1 else [*text, line]) + "\n")
        if not is_said:
            assert sorted(formats.read(tmp_path / "list", ReadOptions(n=6), format="lines").score)[:2] == [-4.5, -3.5]
            continue
        with pytest.raises(InputError) as error:
            formats.read(tmp_path / "list", ReadOptions(n=6), format="lines")
        expected = (
            f"{tmp_path / 'list'}:{place}: expected 1 number beside the text and a tab, as most lines have, found {line!r}; "
        )
        assert str(error.value) == f"{expected}repair this line"


def test_texts_with_tabs_here_and_there_are_texts(tmp_path):
    """In half of the lines or fewer they are blanks; also before the text numbers are scores."""
    (tmp_path / "list").write_text("a\t1\nb\nc\t2\nd\n")
    found = formats.read(tmp_path / "list", ReadOptions(n=2), format="lines")
    assert (found.text.to_pylist(), found.has_scores) == (["a 1", "b", "c 2", "d"], False)
    (tmp_path / "list").write_text("1\t-2\ta b\n3\t4\tc\n")
    found = formats.read(tmp_path / "list", ReadOptions(n=1), format="lines")
    assert (found.text.to_pylist(), found.score.tolist(), found.extra.tolist()) == (
        ["a b", "c"],
        [1.0, 3.0],
        [[1.0, -2.0], [3.0, 4.0]],
    )


@pytest.mark.parametrize(
    ("scores", "said"),
    [("u1 -1\nu2 -2\n", []), ("u1 -1\n", ["1 hypothesis without a score, which counts as 0, 'u2' the first"]), (None, [])],
)
def test_utterances_of_espnet_without_a_score_are_said(tmp_path, scores, said):
    folder = tmp_path / "1best_recog"
    folder.mkdir()
    (folder / "text").write_text("u1 one two\nu2 yes\n")
    if scores:
        (folder / "score").write_text(scores)
    found: list[str] = []
    formats.read(tmp_path, ReadOptions(warn=found.append), format="espnet")
    assert [line for line in found if "score" in line] == [f"{tmp_path}: {line}" for line in said]
