"""The language model against its definition and KenLM."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from toy_systems import TARGET, arpa, naive_lm, random_ngrams

from boostfeat.core.arrays import offsets
from boostfeat.core.errors import FormatError
from boostfeat.lm.automaton import LanguageModel, isolated_scores


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
        assert lm.score(" ".join(words)) == pytest.approx(expected, abs=1e-9)


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


def test_text_before_the_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lm").write_text("a comment\n\\data\\\nngram 1=3\n\n\\1-grams:\n-1 a\n-99 <s>\n-0.5 </s>\n\n\\end\\\n")
    with pytest.raises(FormatError, match=r"lm:1: expected .data. at the start, found 'a comment'"):
        LanguageModel.load(tmp_path / "lm")


def test_language_model_without_unk(tmp_path: Path) -> None:
    """KenLM's value for unknown words of a model that has none: log10 p = -100."""
    (tmp_path / "lm").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 a\n-99 <s>\n-0.5 </s>\n\n\\end\\\n")
    assert LanguageModel.load(tmp_path / "lm").score("new") == pytest.approx(-100.5 * math.log(10))


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("ngram 1=3", "ngram 2=3", 2, "ngram 1=COUNT, found 'ngram 2=3'"),
        ("ngram 1=3", "ngram 1=x", 2, "ngram 1=COUNT, found 'ngram 1=x'"),
        ("</s>", "</s> 0 0", 7, "log10 of a probability, 1 word and perhaps a backoff, found '-0.5 </s> 0 0'"),
        ("-0.5", "-0,5", 7, "log10 of a probability, 1 word and perhaps a backoff, found '-0,5 </s>'"),
    ],
)
def test_damaged_language_models_name_the_line(tmp_path: Path, old: str, new: str, line: int, expected: str) -> None:
    (tmp_path / "lm").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 a\n-99 <s>\n-0.5 </s>\n\n\\end\\\n".replace(old, new))
    with pytest.raises(FormatError, match=re.escape(f"lm:{line}: expected {expected}")):
        LanguageModel.load(tmp_path / "lm")


def test_an_ngram_that_is_given_twice_is_named(tmp_path: Path) -> None:
    lines = "\\data\\\nngram 1=3\nngram 2=3\n\n\\1-grams:\n-1 a\n-99 <s>\n-0.5 </s>\n\n\\2-grams:\n-1 <s> a\n-1 a </s>\n-2 a </s>\n\n\\end\\\n"
    (tmp_path / "lm").write_text(lines)
    with pytest.raises(FormatError, match=r"lm: 2-gram 3: expected an n-gram given once.*found .*a </s>"):
        LanguageModel.load(tmp_path / "lm")


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
        assert ours.score(sentence) == pytest.approx(theirs.score(sentence) * math.log(10), abs=1e-4)  # KenLM has floats
