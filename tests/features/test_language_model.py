"""The language model against its definition and KenLM."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from toy_systems import TARGET, arpa, naive_lm, random_ngrams

from boostfeat.core.arrays import offsets
from boostfeat.core.errors import FormatError
from boostfeat.core.files import read_chunks
from boostfeat.features.language_model import LanguageModel, isolated_scores, read_arpa


def total(lm: LanguageModel, words: list[str]) -> float:
    """ln p(words </s> | <s>)."""
    logp, _, _, _, end = lm.words(words)
    return sum(logp) + end


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_language_model_equals_its_definition(tmp_path: Path, order: int) -> None:
    rng = np.random.default_rng(order)
    ngrams = random_ngrams(rng, order)
    (tmp_path / "lm").write_text(arpa(ngrams))
    lm = LanguageModel.load(tmp_path / "lm")
    assert lm.order == order
    for _ in range(200):
        words = rng.choice([*TARGET, "new"], size=rng.integers(0, 9)).tolist()
        history: tuple[str, ...] = ("<s>",)
        expected = 0.0
        for word in (*words, "</s>"):
            known = "<unk>" if word == "new" else word
            expected += naive_lm(ngrams, history[1 - order :] if order > 1 else (), known)
            history = (*history, known)
        assert total(lm, words) == pytest.approx(expected, abs=1e-9)


def test_phrases_without_a_history(tmp_path: Path) -> None:
    """Each by itself, whatever stands before and behind it."""
    rng = np.random.default_rng(4)
    ngrams = random_ngrams(rng, 3)
    (tmp_path / "lm").write_text(arpa(ngrams))
    lm = LanguageModel.load(tmp_path / "lm")
    phrases = [rng.choice(TARGET, size=size).tolist() for size in (2, 0, 4, 1, 3)]
    found = np.empty(len(phrases))
    isolated_scores(
        lm.automaton, offsets(list(map(len, phrases))), lm.ids([word for phrase in phrases for word in phrase]), found
    )
    expected = [sum(naive_lm(ngrams, tuple(p[max(0, k - 2) : k]), word) for k, word in enumerate(p)) for p in phrases]
    assert found == pytest.approx(expected, abs=1e-9)


def test_unknown_words_of_a_model_without_unk(tmp_path: Path) -> None:
    """The word comes behind all others, and the numbers of longer n-grams stay theirs."""
    (tmp_path / "lm").write_text(ARPA, encoding="utf-8")
    lm = LanguageModel.load(tmp_path / "lm")
    assert lm.vocab == {"<s>": 0, "</s>": 1, "a": 2, "ü": 3, "<unk>": 4}
    assert lm.automaton.logp == pytest.approx(np.array([0, -1.5, -2, -0.25, -3, -100, -0.5, -1]) * math.log(10))
    assert lm.automaton.backoff == pytest.approx(np.array([0, -0.5, 0, -0.1, 0, 0, 0, 0]) * math.log(10))
    assert lm.first.tolist() == [1, 6]
    assert total(lm, ["a", "new", "ü"]) == pytest.approx((-0.5 - 0.1 - 100 - 3 - 2) * math.log(10))


def test_language_model_equals_kenlm(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    rng = np.random.default_rng(0)
    ngrams = random_ngrams(rng, 4)
    for gram in list(ngrams):  # KenLM wants the shorter ends as well
        for i in range(1, len(gram)):
            ngrams.setdefault(gram[i:], (-1.5, 0.0))
    (tmp_path / "lm.arpa").write_text(arpa({g: ngrams[g] for g in sorted(ngrams, key=len)}))
    ours, theirs = LanguageModel.load(tmp_path / "lm.arpa"), kenlm.Model(str(tmp_path / "lm.arpa"))
    for _ in range(100):
        sentence = " ".join(rng.choice([*TARGET, "new"], size=rng.integers(0, 9)).tolist())
        assert total(ours, sentence.split()) == pytest.approx(theirs.score(sentence) * math.log(10), abs=1e-4)  # KenLM has floats


ARPA = (
    "\n\\data\\\nngram 1=4\nngram  2 = 2\n\n\\1-grams:\n-1.5\t<s>\t-0.5\n-2 </s>\n -0.25  a  -1e-1 \n\n-3 ü 0\n\n"
    "\\2-grams:\n-0.5 <s> a -7\n-1 a ü\n\n\\end\\\nwhat follows\n"
)


@pytest.mark.parametrize("size", [1 << 20, 30, 7])
def test_all_numbers_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """In one piece and in pieces of a line or two."""
    monkeypatch.setattr("boostfeat.features.language_model.read_chunks", lambda path: read_chunks(path, size))
    (tmp_path / "lm").write_text(ARPA, encoding="utf-8")
    vocab: dict[str, int] = {}
    ids, logp, backoff = read_arpa(str(tmp_path / "lm"), vocab)
    assert vocab == {"<s>": 0, "</s>": 1, "a": 2, "ü": 3}
    assert [part.tolist() for part in ids] == [[[0], [1], [2], [3]], [[0, 2], [2, 3]]]
    assert [part.tolist() for part in logp] == [[-1.5, -2.0, -0.25, -3.0], [-0.5, -1.0]]
    assert [part.tolist() for part in backoff] == [[-0.5, 0.0, -0.1, 0.0], [-7.0, 0.0]]


@pytest.mark.parametrize("number", ["0", "-0.0", "-99", "-9.9e29"])
def test_probabilities_up_to_1(tmp_path: Path, number: str) -> None:
    (tmp_path / "lm").write_text(ARPA.replace("-2 </s>", f"{number} </s>"), encoding="utf-8")
    assert read_arpa(str(tmp_path / "lm"), {})[1][0].tolist() == [-1.5, float(number), -0.25, -3.0]


DAMAGED = "the file is cut short or damaged: write or copy it again"


@pytest.mark.parametrize("size", [1 << 20, 7])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n\\data\\", "\nx\n\\data\\", "1: expected \\data\\ at the start, found 'x'; give an ARPA file: KenLM's binary ones cannot be read"),
        ("\\data\\", "\\date\\", f"2: expected \\data\\, found '\\\\date\\\\'; {DAMAGED}"),
        ("ngram  2", "ngram 3", f"4: expected ngram 2=COUNT, found 'ngram 3 = 2'; {DAMAGED}"),
        ("1=4", "1=" + "4" * 20, f"3: expected ngram 1=COUNT, found 'ngram 1={'4' * 20}'; {DAMAGED}"),
        ("\\1-grams:", "\\2-grams:", f"6: expected \\1-grams:, found '\\\\2-grams:'; {DAMAGED}"),
        ("1=4", "1=5", f"13: expected 5 n-grams of order 1, as the head says, found 4; {DAMAGED}"),
        ("2 = 2", "2 = 3", f"17: expected 3 n-grams of order 2, as the head says, found 2; {DAMAGED}"),
        ("\\end\\", "\\3-grams:", f"17: expected \\end\\, found '\\\\3-grams:'; {DAMAGED}"),
        ("-3 ü 0", "-3 ü 0 0", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found '-3 ü 0 0'; {DAMAGED}"),
        ("-3 ü 0", "-3", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found '-3'; {DAMAGED}"),
        ("-3 ü 0", "0.5 ü 0", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found '0.5 ü 0'; {DAMAGED}"),
        ("-3 ü 0", "nan ü 0", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found 'nan ü 0'; {DAMAGED}"),
        ("-3 ü 0", "-0_3 ü 0", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found '-0_3 ü 0'; {DAMAGED}"),
        ("-3 ü 0", "-٣ ü 0", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found '-٣ ü 0'; {DAMAGED}"),
        ("-3 ü 0", "-3 ü 1e30", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found '-3 ü 1e30'; {DAMAGED}"),
        ("-3 ü 0", "-1e30 ü 0", f"11: expected log10 of a probability, 1 word and perhaps a backoff, found '-1e30 ü 0'; {DAMAGED}"),
        ("-3 ü 0", "-3 a 0", f"11: expected each unigram once, found '-3 a 0'; {DAMAGED}"),
        ("-1 a ü", "-1 a u", f"15: expected words that are unigrams of the model, found '-1 a u'; {DAMAGED}"),
        ("-1 a ü", "-1 u a", f"15: expected words that are unigrams of the model, found '-1 u a'; {DAMAGED}"),
        ("-1 a ü", "-1 a", f"15: expected log10 of a probability, 2 words and perhaps a backoff, found '-1 a'; {DAMAGED}"),
        ("ü 0", "\udcff 0", "11: expected UTF-8 text, found byte 0xff at column 4; looks like a binary file or another encoding: convert it with iconv"),
        ("\\end\\\nwhat follows\n", "", f"17: expected \\end\\ after the last n-gram, found the end of the file; {DAMAGED}"),
        (ARPA.strip(), "", f"3: expected \\data\\ at the start, found the end of the file; {DAMAGED}"),
    ],
)  # fmt: skip
def test_whole_lines_of_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str, size: int
) -> None:
    assert old in ARPA
    monkeypatch.setattr("boostfeat.features.language_model.read_chunks", lambda path: read_chunks(path, size))
    (tmp_path / "lm").write_bytes(ARPA.replace(old, new).encode("utf-8", "surrogateescape"))
    with pytest.raises(FormatError) as error:
        read_arpa(str(tmp_path / "lm"), {})
    assert str(error.value) == f"{tmp_path / 'lm'}:{message}"


@pytest.mark.parametrize(
    ("ngrams", "where", "found"),
    [
        ((["a b", "b a", "a b"],), "2-gram 3", "a b"),
        ((["a b"], ["a b a", "b a b"]), "3-gram 2", "b a b"),
        ((["a b", "b a"], ["a b a"], ["a b a b", "b a b a"]), "4-gram 2", "b a b a"),
        ((["a b", "b a"], ["b a b"], ["a b a b"]), "4-gram 1", "a b a b"),
    ],
)
def test_ngrams_given_twice_or_without_their_beginnings_are_refused(
    tmp_path: Path, ngrams: tuple[list[str], ...], where: str, found: str
) -> None:
    """Their place would be that of others."""
    parts = [["<s>", "</s>", "a", "b"], *ngrams]
    head = "".join(f"ngram {k}={len(rows)}\n" for k, rows in enumerate(parts, 1))
    body = "".join(f"\n\\{k}-grams:\n" + "".join(f"-1\t{row}\t-0.5\n" for row in rows) for k, rows in enumerate(parts, 1))
    path = tmp_path / "lm"
    path.write_text(f"\\data\\\n{head}{body}\n\\end\\\n")
    with pytest.raises(FormatError) as error:
        LanguageModel.load(path)
    expected = "expected an n-gram given once, whose words but the last are one too"
    assert str(error.value).startswith(f"{path}: {where}: {expected}, found {found!r}; ")
