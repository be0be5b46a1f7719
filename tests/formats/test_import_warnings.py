"""Lists and references that can be read, and are a mistake all the same: import says so. None of it is said of real lists."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.formats.importing import FEW, shared_words
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, attach
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store

WORDS = [f"w{k}" for k in range(400)]
ORDER, EMPTY, SOURCE = (
    "in the same order, case and tokenisation?",
    "references without words: 3 of 30",
    "are the source sentences",
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of 30 sentences whose texts have seven of the eight words of their references."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    refs = [" ".join(rng.choice(WORDS, 8)) for _ in range(30)]
    lines = [f"{s} ||| {ref.rpartition(' ')[0]} ||| lm= 1 ||| 1" for s, ref in enumerate(refs)]
    Path("list").write_text("\n".join(lines) + "\n")
    return refs


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda refs: refs, None),
        (lambda refs: [ref.upper() for ref in refs], ORDER),
        (lambda refs: [ref.replace(" ", ",") for ref in refs], ORDER),
        (lambda refs: refs[7:] + refs[:7], ORDER),
        (lambda refs: refs[::-1], ORDER),
        (lambda refs: ["", " ", "\t", *refs[3:]], EMPTY),
    ],
    ids=["right", "case", "tokenisation", "shifted", "reversed", "empty"],
)
def test_references_that_are_others(files: list[str], boostfeat, change, said: str | None) -> None:
    Path("ref").write_text("".join(f"{line}\n" for line in change(files)))
    code, _, err = boostfeat("import", "list", "-r", "ref", "-o", "x.nbest")
    assert (code, err.count("warning: ")) == (0, said is not None)
    assert said is None or said in err


@pytest.mark.parametrize(("texts", "refs", "lost"), [("NFC", "NFD", 2), ("NFD", "NFC", 2), ("NFC", "NFC", 0), ("NFD", "NFD", 0)])
def test_accents_in_letters_and_behind_them(tmp_path: Path, boostfeat, texts: str, refs: str, lost: int) -> None:
    """Two words that look the same, whichever side has them how; one sentence is enough to tell."""
    text, ref = unicodedata.normalize(texts, "un café très noir"), unicodedata.normalize(refs, "un café très fort")
    (tmp_path / "list").write_text(f"0 ||| {text} ||| lm= 1 ||| 1\n")
    (tmp_path / "ref").write_text(f"{ref}\n")
    code, _, err = boostfeat("import", tmp_path / "list", "-r", tmp_path / "ref", "-o", tmp_path / "x.nbest")
    assert (code, err.count("warning: ")) == (0, lost > 0)
    assert not lost or f"{lost} words of the first texts and their references are the same in print" in err


def test_the_source_for_references(files: list[str], boostfeat) -> None:
    Path("ref").write_text("".join(f"{line}\n" for line in files))
    code, _, err = boostfeat("import", "list", "-r", "ref", "-s", "ref", "-o", "x.nbest")
    assert (code, SOURCE in err) == (0, True)


def test_sentences_without_references_among_others(tmp_path: Path, boostfeat) -> None:
    """One is enough for a list that no metric can score: import tells, not only the command after it."""
    rows = [{"input": ["a b", "a"], "output": "a b"}, {"input": ["c"], "output": "c"}, {"input": ["d"]}]
    (tmp_path / "list").write_text(json.dumps(rows))
    code, _, err = boostfeat("import", tmp_path / "list", "-o", tmp_path / "x.nbest")
    assert (code, err.count("warning: ")) == (0, 1)
    assert "sentences without references: 1 of 3; " in err


def test_no_sentence_among_the_first(files: list[str], boostfeat) -> None:
    """An empty store would look like a list that was read."""
    Path("late").write_text("7 ||| a ||| lm= 1 ||| 1\n8 ||| b ||| lm= 1 ||| 1\n")
    code, _, err = boostfeat("import", "late", "--first", 7, "-o", "x.nbest")
    assert (code, err.count("\n")) == (2, 1)
    assert "--first 7: expected sentences with ids below 7, found none" in err
    assert not Path("x.nbest").exists()
    assert boostfeat("import", "late", "--first", 8, "-o", "x.nbest", "-q")[0] == 0
    assert len(read_store("x.nbest")) == 1


def test_few_sentences_tell_nothing(files: list[str], boostfeat) -> None:
    Path("ref").write_text("".join(f"{line}\n" for line in files[::-1]))
    code, _, err = boostfeat("import", "list", "-r", "ref", "--first", 19, "-o", "x.nbest")
    assert (code, "warning" in err) == (0, False)


def test_a_feature_with_one_value_here_and_two_there(files: list[str], boostfeat) -> None:
    Path("list").write_text("0 ||| a ||| lm= 1 tm= 2 ||| 1\n0 ||| b ||| lm= 1 2 tm= 3 ||| 1\n")
    code, _, err = boostfeat("import", "list", "-o", "x.nbest")
    assert (code, "warning: lm has one value in some hypotheses, more in others (lm_0, ...)" in err) == (0, True)


def test_data_is_far_from_doubtful(data_stores: Path) -> None:
    own, other = shared_words(read_store(data_stores / "dev.nbest")) or (0.0, 0.0)
    assert own > 2 * other


def list_of(first: list[str], refs: list[str], **more: object) -> NBest:
    """Two hypotheses a sentence, the second always the same."""
    builder = Builder(ReadOptions())
    for s, text in enumerate(first):
        for k, own in enumerate((text, "z")):
            builder.add(HypRecord(sent=s, text=own, where=f"list:{2 * s + k + 1}"))
    return replace(attach(builder.finish(), source=[""] * len(first), refs=[refs], name="list"), **more)


def test_what_tells_nothing_of_references() -> None:
    """By hand: of 2 n words n are in the own reference, none in the next one's. Empty texts, few, alike, or of a tokeniser: None."""
    words = [f"w{k}" for k in range(FEW)]
    texts = [f"{word} x" for word in words]
    assert shared_words(list_of(texts, words)) == (0.5, 0.0)
    assert shared_words(list_of(texts[1:], words[1:])) is None
    assert shared_words(list_of([""] * FEW, words)) is None
    assert shared_words(list_of(texts, words, meta={"tokenize": "13a"})) is None
    half = (FEW + 1) // 2  # so many different texts are enough
    assert shared_words(list_of([*texts[:half], *texts[: FEW - half]], words)) is not None
    assert shared_words(list_of([*texts[: half - 1], *texts[:1] * (FEW - half + 1)], words)) is None
