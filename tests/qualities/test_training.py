"""From parallel text to a system: naive twins of every step, Moses' own tables, and language models that sum to 1."""

from __future__ import annotations

import io
import math
import sys
from collections import Counter, defaultdict
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
    make_phrase_table,
    read_bitext,
    train_system,
    write_arpa,
)
from training.align import symmetrise
from training.extract import LONGEST, extract
from training.phrase_table import _phrases_of, link_text

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


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),  # worked out by hand
    [
        ([0, 1, 2], [0, 1, 2], "0-0 1-1 2-2"),  # both agree
        ([0, 0, 2], [0, 2, 2], "0-0 0-1 1-2 2-2"),  # grows along both directions: 0-1 beside 0-0, 1-2 beside 2-2
        ([0, -1, -1, 2], [0, -1, 1], "0-0 2-3"),  # final: 2-3 is far from any link and both its words are free; 2-1 then is not
        ([0, 0], [1], "0-0 0-1"),  # the intersection is 0-1; 0-0 is beside it
        ([-1], [-1], ""),
    ],
)
def test_symmetrisation_by_hand(forward, backward, expected):
    assert symmetrise([np.array(forward)], [np.array(backward)]) == [expected]


# -- extraction and scores ----------------------------------------------------------------------------------------------


@st.composite
def bitexts(draw):
    n = draw(st.integers(1, 5))
    source, target, links = [], [], []
    for _ in range(n):
        src, tgt = (draw(st.lists(st.sampled_from("abcd"), min_size=0, max_size=6)) for _ in range(2))
        points = [(i, j) for i in range(len(src)) for j in range(len(tgt))]
        chosen = sorted(draw(st.sets(st.sampled_from(points), max_size=6))) if points else []
        source.append(" ".join(src))
        target.append(" ".join(tgt).upper())
        links.append(" ".join(f"{i}-{j}" for i, j in chosen))
    return source, target, links


def parse(line):
    return {tuple(map(int, link.split("-"))) for link in line.split()}


def naive_occurrences(src, tgt, links, max_length):
    """Every pair of spans, by the definition."""
    n_src, n_tgt = len(src), len(tgt)

    def linked(i, j):
        return (i, j) in links | {(-1, -1), (n_src, n_tgt)}

    def orientation(mono, swap):
        return 0 if mono and not swap else 1 if swap and not mono else 2

    for a, c in product(range(n_src), range(n_tgt)):
        for b, d in product(range(a + 1, min(a + max_length, n_src) + 1), range(c + 1, min(c + max_length, n_tgt) + 1)):
            inside = {(i, j) for i, j in links if a <= i < b and c <= j < d}
            crossing = any((a <= i < b) != (c <= j < d) for i, j in links)
            if inside and not crossing:
                before = orientation(linked(a - 1, c - 1), linked(b, c - 1))
                after = orientation(linked(b, d), linked(a - 1, d))
                yield (a, b), (c, d), sorted(((i - a, j - c) for i, j in inside), key=lambda link: link[::-1]), before, after


@settings(max_examples=200, deadline=None)
@given(bitexts(), st.integers(1, 5))
def test_extraction_equals_its_naive_twin(texts, max_length):
    found = extract(make_bitext(*texts), max_length=max_length)
    rows = zip(found.sentence, found.src, found.tgt, found.links, found.before, found.after, strict=True)
    got = [(n, tuple(s), tuple(t), link_text(int(m)), b, a) for n, s, t, m, b, a in rows]
    expected = [
        (n, s, t, " ".join(f"{i}-{j}" for i, j in inside), b, a)
        for n, (src, tgt, links) in enumerate(zip(*texts, strict=True))
        for s, t, inside, b, a in naive_occurrences(src.split(), tgt.split(), parse(links), max_length)
    ]
    assert sorted(got) == sorted(expected)


def test_phrases_of_a_sentence():
    expected = {0: "", 1: "a/b/c", 2: "a/a b/b/b c/c", 3: "a/a b/a b c/b/b c/c", 4: "a/a b/a b c/b/b c/c"}
    assert {n: "/".join(_phrases_of(["a", "b", "c"], n)) for n in expected} == expected


def naive_table(source, target, alignments, max_length):
    """(source, target) -> scores, alignment, counts, orientation, with dictionaries and the formulas as Moses documents them."""
    w, n_s, n_t = Counter(), Counter(), Counter()
    joint, align_of, orient = Counter(), defaultdict(Counter), defaultdict(lambda: [0.5] * 6)
    for src, tgt, line in zip(source, target, alignments, strict=True):
        src, tgt, links = src.split(), tgt.split(), parse(line)
        pairs = [(src[i], tgt[j]) for i, j in links]
        pairs += [(s, "NULL") for i, s in enumerate(src) if all(a != i for a, _ in links)]
        pairs += [("NULL", t) for j, t in enumerate(tgt) if all(b != j for _, b in links)]
        w.update(pairs)
        n_s.update(s for s, _ in pairs)
        n_t.update(t for _, t in pairs)
        for (a, b), (c, d), inside, before, after in naive_occurrences(src, tgt, links, max_length):
            key = " ".join(src[a:b]), " ".join(tgt[c:d])
            joint[key] += 1
            align_of[key][tuple(inside)] += 1
            orient[key][before] += 1
            orient[key][3 + after] += 1
    totals = [Counter(), Counter()]
    for key, n in joint.items():
        for side in (0, 1):
            totals[side][key[side]] += n
    out = {}
    for key, n in joint.items():
        src, tgt = key[0].split(), key[1].split()
        most = max(align_of[key].values())
        links = min((a for a, m in align_of[key].items() if m == most), key=lambda a: sum(1 << (LONGEST * j + i) for i, j in a))
        lex_t = math.prod(
            np.mean([w[src[i], t] / n_s[src[i]] for i, b in links if b == j] or [w["NULL", t] / n_s["NULL"]])
            for j, t in enumerate(tgt)
        )
        lex_s = math.prod(
            np.mean([w[s, tgt[j]] / n_t[tgt[j]] for a, j in links if a == i] or [w[s, "NULL"] / n_t["NULL"]])
            for i, s in enumerate(src)
        )
        n_src, n_tgt = totals[0][key[0]], totals[1][key[1]]
        scores = [n / n_tgt, lex_s, n / n_src, lex_t]
        out[key] = (scores, " ".join(f"{i}-{j}" for i, j in links), [n_tgt, n_src, n], [v / (n + 1.5) for v in orient[key]])
    return out


@settings(max_examples=100, deadline=None)
@given(bitexts())
def test_scores_equal_their_naive_twin(texts):
    table, expected = make_phrase_table(make_bitext(*texts), max_length=4), naive_table(*texts, 4)
    keys = list(zip(table.src, table.tgt, strict=True))
    assert keys == sorted(expected, key=lambda k: f"{k[0]} ||| {k[1]} |||")
    for n, key in enumerate(keys):
        scores, links, counts, orientation = expected[key]
        np.testing.assert_allclose(table.scores[n], scores, rtol=1e-12)
        assert link_text(int(table.links[n])) == links
        assert table.counts[n].tolist() == counts
        np.testing.assert_allclose(table.orientation[n], orientation, rtol=1e-12)


def test_the_other_direction_has_the_same_scores_in_another_order():
    texts = (["a b c", "b a"], ["C B A", "A B"], ["0-2 1-1 2-0", "0-1 1-0"])
    back_links = ["0-2 1-1 2-0", "0-1 1-0"]
    there, back = make_phrase_table(make_bitext(*texts)), make_phrase_table(make_bitext(texts[1], texts[0], back_links))
    scores = {(s, t): row.tolist() for s, t, row in zip(there.src, there.tgt, there.scores, strict=True)}
    for s, t, row in zip(back.src, back.tgt, back.scores, strict=True):
        assert row.tolist() == scores[t, s][2:] + scores[t, s][:2]


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


def naive_kneser_ney(lines, order):
    """p(w | words before) by recursion over dictionaries of counts; gives the function and the vocabulary."""
    counts = [Counter() for _ in range(order + 1)]
    for line in lines:
        words = ["<s>", *line.split(), "</s>"]
        for n in range(1, order + 1):
            counts[n].update(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    adjusted = [Counter() for _ in range(order + 1)]
    for n in range(1, order + 1):
        for gram, c in counts[n].items():
            if gram == ("<s>",):
                continue
            left = len({longer[0] for longer in counts[n + 1] if longer[1:] == gram}) if n < order else 0
            adjusted[n][gram] = c if n == order or gram[0] == "<s>" else left
    vocabulary = {gram[0] for gram in counts[1]} - {"<s>"} | {"<unk>", "</s>"}

    def discount(n, a):
        m = Counter(adjusted[n].values())
        if not all(m[k] for k in (1, 2, 3, 4)):
            found = [0.5, 1.0, 1.5]
        else:
            y = m[1] / (m[1] + 2 * m[2])
            found = [k - (k + 1) * y * m[k + 1] / m[k] for k in (1, 2, 3)]
            if not all(0 < d <= k for k, d in zip((1, 2, 3), found, strict=True)):
                found = [0.5, 1.0, 1.5]
        return found[min(a, 3) - 1] if a else 0.0

    def prob(word, context):
        n = len(context) + 1
        following = {gram: a for gram, a in adjusted[n].items() if gram[:-1] == context}
        lower = prob(word, context[1:]) if context else 1 / len(vocabulary)
        total = sum(following.values())
        if not total:
            return lower
        a = following.get((*context, word), 0)
        gamma = sum(discount(n, c) for c in following.values()) / total
        return (a - discount(n, a)) / total + gamma * lower

    return prob, vocabulary


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
def test_language_model_equals_its_naive_twin_and_sums_to_one(lines, order):
    grams = read_arpa(arpa_of(lines, order))
    prob, vocabulary = naive_kneser_ney(lines, order)
    contexts = {gram for gram in grams if len(gram) < order and gram[-1] != "</s>"} | {(), ("e", "d"), ("<unk>",)}
    for context in contexts:
        context = context[-(order - 1) :] if order > 1 else ()
        assert sum(query(grams, word, context) for word in vocabulary) == pytest.approx(1, abs=2e-5)  # six digits are written
        if context in grams or not context:
            for word in vocabulary:
                assert query(grams, word, context) == pytest.approx(prob(word, context), rel=4e-5)  # six digits


def test_language_model_with_estimated_discounts():
    """A text long enough for counts of counts of every size: no fallback, still equal to the twin, and every context sums to 1."""
    rng = np.random.default_rng(5)
    lines = [" ".join(f"w{int(x)}" for x in rng.zipf(1.6, 6) if x < 60) for _ in range(150)]
    grams = read_arpa(arpa_of(lines, 2))
    prob, vocabulary = naive_kneser_ney(lines, 2)
    for context in [(), *((word,) for word in sorted(vocabulary - {"</s>", "<unk>"})[:25]), ("<s>",)]:
        assert sum(query(grams, word, context) for word in vocabulary) == pytest.approx(1, abs=1e-5)
        for word in vocabulary:
            assert query(grams, word, context) == pytest.approx(prob(word, context), rel=4e-5)  # six digits


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


def test_without_thot_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "thot", None)
    monkeypatch.setitem(sys.modules, "thot.alignment", None)
    with pytest.raises(InputError, match=r"pip install 'boostfeat\[train\]'"):
        align(["a"], ["b"])


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
