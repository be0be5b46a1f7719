"""Lists and references that can be read, and are a mistake all the same: import says so. None of it is said of real lists."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from boostfeat.formats.importing import mismatches
from boostfeat.lists.store import read_store

WORDS = [f"wé{k}" for k in range(400)]
SOURCE = "are the source sentences"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of 60 sentences whose texts have seven of the eight words of their references."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    refs = [" ".join(rng.choice(WORDS, 8)) for _ in range(60)]
    lines = [f"{s} ||| {ref.rpartition(' ')[0]} ||| lm= 1 ||| 1" for s, ref in enumerate(refs)]
    Path("list").write_text("\n".join(lines) + "\n")
    return refs


def shifted(refs: list[str], first: int, last: int) -> list[str]:
    """A line of these is missing, and another is there at the end of them."""
    return [*refs[:first], *refs[first + 1 : last], refs[first], *refs[last:]]


CHANGES = {
    "right": (lambda refs: refs, None),
    "case": (
        lambda refs: [ref.upper() for ref in refs],
        "they look in other case: texts share 0% of their words with them, 100%",
    ),
    "accents": (lambda refs: [unicodedata.normalize("NFD", ref) for ref in refs], "they look in another Unicode form"),
    "off by one": (lambda refs: refs[1:] + refs[:1], "shifted by a line from line 1 to 60: texts share 2% of their words with"),
    "one before": (lambda refs: refs[-1:] + refs[:-1], "shifted by a line from line 1 to 59: "),
    "from the middle": (lambda refs: shifted(refs, 30, 60), "shifted by a line from line 32 to 60: "),
    "in the middle": (lambda refs: shifted(refs, 10, 40), "shifted by a line from line 11 to 40: "),
    "others at the end": (lambda refs: [*refs[:30], *refs[:29:-1]], "% of their words with them from line 31 to 60, and"),
    "reversed": (lambda refs: refs[::-1], "are these of the same sentences, in the same order and language?"),
    "empty": (lambda refs: ["", " ", "\t", *refs[3:]], "3 of 60 references are empty"),
}


@pytest.mark.parametrize("tokenize", ["none", "13a", "intl"])
@pytest.mark.parametrize("change", CHANGES)
def test_references_that_are_others(files: list[str], boostfeat, change: str, tokenize: str) -> None:
    """Over the whole list and for every tokeniser, the message says what they look like."""
    make, said = CHANGES[change]
    Path("ref").write_text("".join(f"{line}\n" for line in make(files)))
    code, _, err = boostfeat("import", "list", "-r", "ref", "--tokenize", tokenize, "-o", "x.nbest")
    assert (code, err.count("warning: ")) == (0, said is not None)
    assert said is None or said in err


def test_one_of_several_references_is_named(files: list[str], boostfeat) -> None:
    Path("ref.0").write_text("".join(f"{line}\n" for line in files))
    Path("ref.1").write_text("".join(f"{line}\n" for line in CHANGES["off by one"][0](files)))
    code, _, err = boostfeat("import", "list", "-r", "ref.*", "-o", "x.nbest")
    assert (code, err.count("warning: ")) == (0, 1)
    assert "reference 2 of 2: they look shifted by a line" in err


def test_other_tokenisation_is_told(files: list[str], boostfeat) -> None:
    Path("ref").write_text("".join(line.replace(" ", ", ") + ".\n" for line in files))
    said = "they look tokenised otherwise: texts share 0% of their words with them, 100% read alike"
    assert said in boostfeat("import", "list", "-r", "ref", "-o", "x.nbest")[2]
    assert said not in boostfeat("import", "list", "-r", "ref", "--tokenize", "13a", "-o", "x.nbest")[2]


def test_source_and_references_that_are_swapped(files: list[str], boostfeat) -> None:
    Path("ref").write_text("".join(f"{line}\n" for line in files))
    Path("src").write_text("".join(line.replace("w", "u") + "\n" for line in files))
    assert "warning" not in boostfeat("import", "list", "-r", "ref", "-s", "src", "-o", "x.nbest")[2]
    code, _, err = boostfeat("import", "list", "-r", "src", "-s", "ref", "-o", "x.nbest")
    assert (code, "100% with the source; are -s and -r swapped?" in err) == (0, True)


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


def test_real_lists_are_not_doubted(data_stores: Path) -> None:
    for name in ("dev", "select", "test"):
        assert list(mismatches(read_store(data_stores / f"{name}.nbest"))) == []


def test_texts_that_are_mostly_the_same_tell_nothing(files: list[str], boostfeat) -> None:
    Path("list").write_text("".join(f"{s} ||| a ||| lm= 1 ||| 1\n" for s in range(60)))
    Path("ref").write_text("".join(f"{line}\n" for line in files))
    assert "warning" not in boostfeat("import", "list", "-r", "ref", "-o", "x.nbest")[2]
