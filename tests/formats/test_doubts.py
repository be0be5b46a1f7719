"""Lists and references that can be read, and are a mistake all the same: import says so. None of it is said of real lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boostfeat.formats.doubts import shared_words
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


def test_the_source_for_references(files: list[str], boostfeat) -> None:
    Path("ref").write_text("".join(f"{line}\n" for line in files))
    code, _, err = boostfeat("import", "list", "-r", "ref", "-s", "ref", "-o", "x.nbest")
    assert (code, SOURCE in err) == (0, True)


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
