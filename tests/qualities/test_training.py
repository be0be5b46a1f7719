"""From parallel text to a system: naive twins, Moses' own tables, and language models that sum to 1.

Scores and probabilities are those of the tables in data/, which test_data makes again, byte by byte.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training import (
    PhraseTable,
    TrainOptions,
    align,
    estimate,
    make_bitext,
    read_bitext,
    train_system,
    write_arpa,
)
from training.align import symmetrise
from training.extract import LONGEST

from boostfeat.core.errors import FormatError, InputError
from boostfeat.core.files import read_bytes, read_lines

# -- symmetrisation -----------------------------------------------------------------------------------------------------


def naive_symmetrise(forward, backward):
    """grow-diag-final-and on sets of points (target, source), as in the published pseudo-code."""
    e2f = {(j, i) for j, i in enumerate(forward) if i >= 0}
    f2e = {(j, i) for i, j in enumerate(backward) if j >= 0}
    union, links = e2f | f2e, e2f & f2e

    def free_target(j):
        return all(b != j for b, _ in links)

    def free_source(i):
        return all(a != i for _, a in links)

    while True:
        before = len(links)
        for j, i in product(range(len(forward)), range(len(backward))):
            if (j, i) in links:
                for dj, di in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                    new = (j + dj, i + di)
                    if new in union and (free_target(new[0]) or free_source(new[1])):
                        links.add(new)
        if len(links) == before:
            break
    for points in (e2f, f2e):
        for j, i in sorted(points) if points is e2f else sorted(points, key=lambda p: p[::-1]):
            if free_target(j) and free_source(i):
                links.add((j, i))
    return " ".join(f"{i}-{j}" for i, j in sorted((i, j) for j, i in links))


@st.composite
def one_to_many(draw):
    n_src, n_tgt = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    forward = draw(st.lists(st.integers(-1, n_src - 1), min_size=n_tgt, max_size=n_tgt))
    backward = draw(st.lists(st.integers(-1, n_tgt - 1), min_size=n_src, max_size=n_src))
    return forward, backward


@settings(max_examples=300, deadline=None)
@given(one_to_many())
def test_symmetrisation_equals_its_naive_twin(both):
    forward, backward = both
    assert symmetrise([np.array(forward)], [np.array(backward)]) == [naive_symmetrise(forward, backward)]


# -- extraction and scores ----------------------------------------------------------------------------------------------


def parse(line):
    return {tuple(map(int, link.split("-"))) for link in line.split()}


def test_tables_are_written_as_moses_writes_them(real):
    """Moses' own tables, read into ours and written again, are the same bytes: order of lines, fields, digits."""
    system = real / "fi-en" / "system"
    lines, orders = (
        [line for _, line in islice(read_lines(system / f"{name}.test.xz"), 40_000)]
        for name in ("phrase-table", "reordering-table")
    )
    fields = [[f.strip() for f in line.split("|||")] for line in lines]
    table = PhraseTable(
        [f[0] for f in fields],
        [f[1] for f in fields],
        np.array([f[2].split() for f in fields], np.float64),
        np.array([sum(1 << (LONGEST * j + i) for i, j in parse(f[3])) for f in fields], np.uint64),
        np.array([f[4].split() for f in fields], np.int64),
        np.array([line.split(" ||| ")[2].split() for line in orders], np.float64),
    )
    # what the columns mean: p(s|t) = n(s,t) / n(t), p(t|s) = n(s,t) / n(s); orientations are smoothed with 0.5
    n_tgt, n_src, n = table.counts.T
    np.testing.assert_allclose(table.scores[:, 0], n / n_tgt, rtol=1e-5)
    np.testing.assert_allclose(table.scores[:, 2], n / n_src, rtol=1e-5)
    seen = table.orientation * (n[:, None] + 1.5) - 0.5
    np.testing.assert_allclose(seen, seen.round(), atol=1e-5 * n.max())
    for write, expected in ((table.write, lines), (table.write_orientation, orders)):
        stream = io.BytesIO()
        write(stream)
        assert stream.getvalue().decode().splitlines() == [line.rstrip() for line in expected]
    keys = [f"{s} ||| {t} |||".encode() for s, t in zip(table.src, table.tgt, strict=True)]
    assert keys == sorted(keys)


# -- the language model -------------------------------------------------------------------------------------------------


def read_arpa(text):
    """{n-gram: (log10 p, log10 back-off)} of a file, whose counts are checked."""
    grams, declared, found, n = {}, {}, Counter(), 0
    for line in text.splitlines():
        if line.startswith("ngram "):
            order, number = line[6:].split("=")
            declared[int(order)] = int(number)
        elif line.endswith("-grams:"):
            n = int(line[1 : line.index("-")])
        elif "\t" in line:
            p, gram, *backoff = line.split("\t")
            assert len(gram.split()) == n
            found[n] += 1
            grams[tuple(gram.split())] = (float(p), float(backoff[0]) if backoff else 0.0)
    assert {n: m for n, m in declared.items() if m} == dict(found)  # a text of short lines has no long n-grams
    assert text.endswith("\n\\end\\\n")
    return grams


def query(grams, word, context):
    """p(w | context) by back-off."""
    if (*context, word) in grams:
        return 10 ** grams[(*context, word)][0]
    assert context, f"{word} has no unigram"
    return 10 ** grams.get(context, (0, 0.0))[1] * query(grams, word, context[1:])


def arpa_of(lines, order):
    stream = io.BytesIO()
    write_arpa(estimate(lines, order=order), stream)
    return stream.getvalue().decode()


sentences = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=8).map(" ".join), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(sentences, st.integers(1, 4))
def test_probabilities_of_a_language_model_sum_to_one(lines, order):
    """That they are those of Kneser and Ney, the tables of data/ hold: test_data makes them again, byte by byte."""
    grams = read_arpa(arpa_of(lines, order))
    vocabulary = {gram[0] for gram in grams if len(gram) == 1} - {"<s>"}
    contexts = {gram for gram in grams if len(gram) < order and gram[-1] != "</s>"} | {(), ("e", "d"), ("<unk>",)}
    for context in contexts:
        context = context[-(order - 1) :] if order > 1 else ()
        assert sum(query(grams, word, context) for word in vocabulary) == pytest.approx(1, abs=2e-5)  # six digits are written


def test_kenlm_reads_the_model(tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")
    lines = ["a b c", "a b", "b c a a", "c"] * 3
    (tmp_path / "lm.arpa").write_text(arpa_of(lines, 3))
    grams, model = read_arpa(arpa_of(lines, 3)), kenlm.Model(str(tmp_path / "lm.arpa"))
    for line in ("a b c", "c c b", ""):
        words = ["<s>", *line.split(), "</s>"]
        expected = sum(math.log10(query(grams, w, tuple(words[max(0, i - 2) : i]))) for i, w in enumerate(words) if i)
        assert model.score(line) == pytest.approx(expected, abs=1e-4)


# -- the whole ----------------------------------------------------------------------------------------------------------

SOURCE = ["la casa", "la casa roja", "una casa", "un gato rojo", "el gato", "", "la roca roja"]
TARGET = ["the house", "the red house", "a house", "a red cat", "the cat", "", "the red rock"]
LINKS = ["0-0 1-1", "0-0 1-2 2-1", "0-0 1-1", "0-0 1-2 2-1", "0-0 1-1", "", "0-0 1-2 2-1"]


def test_a_system_of_given_alignments(tmp_path):
    ini = train_system(SOURCE, TARGET, tmp_path / "sys", TrainOptions(order=2), alignments=LINKS, only=["la casa roja"])
    table = read_bytes(ini.parent / "phrase-table.gz").decode().splitlines()
    # lex(s|t): three of four "the" are linked to la, two of three "red" to roja, all "house" to casa: 3/4 * 2/3 * 1
    assert "la casa roja ||| the red house ||| 1 0.5 1 1 ||| 0-0 2-1 1-2 ||| 1 1 1 ||| |||" in table
    assert "casa ||| house ||| 1 1 1 1 ||| 0-0 ||| 3 3 3 ||| |||" in table
    assert not any("gato" in line for line in table)
    order = read_bytes(ini.parent / "reordering-table.gz").decode().splitlines()
    assert [line.split(" ||| ")[:2] for line in order] == [line.split(" ||| ")[:2] for line in table]
    # casa: after la (monotone), after una (monotone), and once in front of roja, whose translation comes first
    assert "casa ||| house ||| 0.555556 0.333333 0.111111 0.555556 0.111111 0.333333" in order
    for name in ("phrase-table.gz", "reordering-table.gz", "lm.arpa.gz"):
        assert f"path={name}" in ini.read_text()
    again = train_system(SOURCE, TARGET, tmp_path / "again", TrainOptions(order=2), alignments=LINKS, only=["la casa roja"])
    for path in ini.parent.iterdir():
        assert path.read_bytes() == (again.parent / path.name).read_bytes()


def test_word_alignment_finds_a_planted_dictionary():
    """Reversed word order and a one-to-one dictionary: nearly every link is the planted one; the same text gives the same links."""
    pytest.importorskip("thot", reason="sil-thot is not installed")
    rng = np.random.default_rng(3)
    text = [[f"w{int(x)}" for x in rng.integers(0, 40, rng.integers(2, 7))] for _ in range(400)]
    source, target = (
        [" ".join(words) for words in text] + [""],
        [" ".join(w.upper() for w in words[::-1]) for words in text] + [""],
    )
    found = align(source, target)
    planted = [{(i, len(words) - 1 - i) for i in range(len(words))} for words in text]
    right = sum(len(parse(line) & links) for line, links in zip(found, planted, strict=False))
    assert right > 0.97 * sum(map(len, planted))
    assert sum(len(parse(line)) for line in found) < 1.05 * sum(map(len, planted))
    assert found[-1] == ""
    assert align(source, target) == found


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n", "a\n", "found 2 and 1 line"),
        ("a\na | b\n", "a\nb\n", "src:2: expected words without '|'"),
        ("a\n", "<s> a\n", "tgt:1: expected words without"),
    ],
)
def test_unusable_text_is_named(tmp_path: Path, source, target, message):
    (tmp_path / "src").write_text(source)
    (tmp_path / "tgt").write_text(target)
    with pytest.raises(InputError) as error:
        read_bitext(tmp_path / "src", tmp_path / "tgt")
    assert message in str(error.value)


def test_alignments_of_another_text_are_refused():
    with pytest.raises(FormatError, match="line 2: expected links between 1 and 1 word, found '0-1'"):
        make_bitext(["a b", "a"], ["a b", "a"], ["0-0", "0-1"])
    with pytest.raises(InputError, match="found 1, 1 and 2"):
        make_bitext(["a"], ["a"], ["0-0", ""])
