"""Templates: values by hand, a naive twin, the decoder's own numbers, and invariances."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sklearn.decomposition
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.local import first_gradient
from boostfeat.core.errors import InputError
from boostfeat.features import (
    SETS,
    TEMPLATES,
    Clusters,
    FeaturePlan,
    Resources,
    clusters,
    feature_kinds,
    featurize,
    template,
)
from boostfeat.features.clusters import learn_clusters, read_clusters
from boostfeat.features.expected_length import fitted
from boostfeat.features.lexicon import Bitext
from boostfeat.features.registry import missing
from boostfeat.formats import read_all
from boostfeat.formats.moses.table_files import read_phrase_counts
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest, SparseRows, strings
from boostfeat.lists.words import words_of

SOURCE = ["se on iso talo .", "talo 7 !"]


def unit(src: tuple[int, int], tgt: tuple[int, int], align: str, lm: float = -1.0) -> UnitRecord:
    return UnitRecord({"LM0": lm, "tm": -0.5}, src, tgt, align=align)


HYPS = [
    HypRecord(
        0,
        "it is a big house .",
        "h0",
        units=[
            unit((0, 1), (0, 1), "0-0", -2),
            unit((1, 2), (1, 2), "0-0", -1),
            unit((2, 4), (2, 5), "0-1 1-2", -6),
            unit((4, 5), (5, 6), "0-0", -0.5),
        ],
    ),
    HypRecord(
        0,
        "house big is .",
        "h1",
        units=[unit((2, 4), (0, 2), "0-1 1-0", -8), unit((0, 2), (2, 3), "1-0", -3), unit((4, 5), (3, 4), "0-0", -0.5)],
    ),
    HypRecord(1, "house 7", "h2", units=[unit((0, 1), (0, 1), "0-0"), unit((1, 3), (1, 2), "0-0")]),
]


def build(hyps: list[HypRecord], source: list[str] | None = SOURCE, n_sentences: int = 2) -> NBest:
    builder = Builder(ReadOptions(source=source), declared_dense=("LM0", "tm"))
    for hyp in hyps:
        builder.add(hyp)
    return attach(builder.finish(), source=source, refs=[["it is a big house ."] * n_sentences], name="test")


def made(nbest: NBest, what: str, **options: object) -> NBest:
    return featurize(nbest, FeaturePlan.of(what, TEMPLATES, **options))[0]  # type: ignore[arg-type]


def of_unit(nb: NBest, hyp: int, place: int) -> dict[str, float]:
    """All features of one occurrence that are not 0."""
    v = nb.unit_idx[nb.unit_ptr[hyp] + place]
    rows = nb.units.sparse
    out = dict(zip(nb.unit_names, nb.X[v].tolist(), strict=True))
    names = nb.sparse_names.to_pylist()
    out |= {names[rows.idx[k]]: float(rows.val[k]) for k in range(rows.ptr[v], rows.ptr[v + 1])}
    return {name: value for name, value in out.items() if value}


# Values computed by hand. Occurrences are (hypothesis, place): (0, 2) is 'iso talo' -> 'a big house' with links 0-1 1-2.
GOLDEN = [
    ("length", 0, 2, {"len.src": 2, "len.tgt": 3, "len.diff": 1, "len.absdiff": 1, "len.ratio": 1.5}),
    ("length", 1, 1, {"len.src": 2, "len.tgt": 1, "len.diff": -1, "len.absdiff": 1, "len.ratio": 0.5}),
    ("size", 0, 2, {"size.2x3": 1}),
    ("characters", 0, 2, {"chars.src": 7, "chars.tgt": 9, "chars.ratio": 9 / 7}),
    # LM per word by falling value: -0.5 (two of nine), -1 (three), -2, -2, -3, -4; the 10% quantile is -4, the 25% one is -3
    ("lm_per_word", 1, 0, {"lm.word.LM0": -4, "lm.word.LM0<q25": 1, "lm.word.LM0<q75": 1, "lm.word.LM0<q90": 1}),
    ("position", 0, 2, {"pos.tenth": 0.6, "span.len": 2}),
    ("position", 0, 3, {"pos.tenth": 0.9, "span.len": 1, "pos.last": 1}),
    ("jump", 1, 0, {"jump.signed": 2, "jump.log": math.log(3)}),
    ("jump", 1, 1, {"jump.signed": -4, "jump.log": math.log(5), "jump.left": 4}),
    ("orientation", 0, 1, {"ori.<mono": 1, "ori.>mono": 1}),
    ("orientation", 1, 0, {"ori.<right": 1, "ori.>swap": 1}),
    ("orientation", 1, 1, {"ori.<swap": 1, "ori.>right": 1}),
    ("orientation", 1, 2, {"ori.<right": 1, "ori.>mono": 1}),
    ("unaligned", 0, 2, {"un.tgt": 1, "un.tgt.first": 1}),
    ("unaligned", 1, 1, {"un.src": 1, "un.src.first": 1}),
    ("links", 1, 0, {"al.links": 2, "al.cross": 1, "al.most.src": 1, "al.most.tgt": 1}),
    ("punctuation", 0, 3, {"punct.src": 1, "punct.tgt": 1}),
    ("punctuation", 2, 1, {"punct.src": 1, "punct.diff": 1, "punct.lost": 1}),
    ("numbers", 2, 1, {"num.src": 1, "num.tgt": 1}),
    ("copies", 0, 3, {}),
    ("deleted_words", 1, 1, {"del.se": 1}),
    ("inserted_words", 0, 2, {"ins.a": 1}),
    ("pt", 0, 2, {"pt:iso talo|a big house": 1}),
    ("id", 0, 2, {"id:iso talo|a big house|0-1 1-2": 1}),
    ("shape", 0, 2, {"shape:2|3": 1}),
    ("al", 0, 2, {"al:iso|big": 1, "al:talo|house": 1}),
    ("del", 1, 1, {"del:se": 1}),
    ("wp", 1, 1, {"wp:se|is": 1, "wp:on|is": 1}),
    ("ins", 0, 2, {"ins:iso|a": 1, "ins:talo|a": 1}),
    ("un", 0, 2, {"un:+a": 1}),
    ("un", 1, 1, {"un:-se": 1}),
    ("bi", 0, 0, {"bi:<s>|it": 1}),
    ("bi", 0, 2, {"bi:is|a": 1, "bi:a|big": 1, "bi:big|house": 1}),
    ("bi", 0, 3, {"bi:house|.": 1, "bi:.|</s>": 1}),
    ("cx", 0, 2, {"cx:iso|big|-on": 1, "cx:iso|big|+talo": 1, "cx:talo|house|-iso": 1, "cx:talo|house|+.": 1}),
    ("cx", 2, 0, {"cx:talo|house|-<s>": 1, "cx:talo|house|+7": 1}),
    ("cu", 2, 0, {"cu:talo|house|-<s>": 1, "cu:talo|house|+7": 1}),
    ("ro", 1, 1, {f"ro:{c}|se on|is": 1 for c in ("<swap", "<nonmono", ">disc", ">nonmono")}),
    ("ro", 0, 1, {"ro:<mono|on|is": 1, "ro:>mono|on|is": 1}),
    (
        "lo",
        1,
        1,
        {
            f"lo:{c}|{e}": 1
            for c in ("<swap", ">disc", "nonmono")
            for e in ("src.first=se", "src.last=on", "tgt.first=is", "tgt.last=is")
        },
    ),
]


@pytest.mark.parametrize(("name", "hyp", "place", "expected"), GOLDEN, ids=lambda v: v if isinstance(v, str) else "")
def test_values_by_hand(name, hyp, place, expected):
    nbest = build(HYPS)
    found = of_unit(made(nbest, name, min_count=1), hyp, place)
    assert {k: v for k, v in found.items() if k not in ("LM0", "tm")} == pytest.approx(expected)


def test_rare_pairs_and_words_of_the_context_are_one():
    """[EMR13 4.2]: what is not among the frequent ones falls into the bin unk."""
    plan = FeaturePlan.of("cu", TEMPLATES, min_count=1)
    plan = replace(plan, entries=(replace(plan.entries[0], options={"pairs": ["talo|house"]}),))
    found = of_unit(featurize(build(HYPS), plan)[0], 0, 2)
    assert {name: value for name, value in found.items() if name.startswith("cu:")} == {
        "cu:unk|-unk": 1, "cu:unk|+talo": 1, "cu:talo|house|-unk": 1, "cu:talo|house|+unk": 1,
    }  # fmt: skip


def test_frequent_pairs_of_the_training_corpus_come_from_a_phrase_table():
    counts = {("talo", "house"): 5.0, (".", "."): 9.0, ("iso talo", "a big house"): 20.0}
    plan = FeaturePlan.of("cu", TEMPLATES, min_count=1)
    _, learnt = featurize(build(HYPS), plan, resources=Resources(phrase_counts=counts))
    assert learnt.entries[0].options["pairs"] == [".|.", "talo|house"]


def test_a_hypothesis_own_features_by_hand():
    out = made(build([HypRecord(0, "( ( a a a )", "h"), HypRecord(1, "b", "h")]), "hypothesis")
    expected = [[math.log(6 / 5), 3, 1], [math.log(3), 0, 0]]
    np.testing.assert_allclose(out.extra, expected)
    assert out.extra_names == ("hyp.length", "hyp.repeats", "hyp.brackets")
    assert feature_kinds(out)["hyp.repeats"] == ("hypothesis", "global")


# -- a naive twin: every occurrence by itself, in plain Python --------------------------------------------------------


def random_list(seed: int, n_sentences: int = 6) -> tuple[NBest, list[HypRecord], list[str]]:
    """Lists of random segmentations, orders, words and alignments; some phrases have no words, some no links."""
    rng = np.random.default_rng(seed)
    source = [" ".join(rng.choice(list("abcd."), rng.integers(1, 9))) for _ in range(n_sentences)]
    hyps = []
    for s, line in enumerate(source):
        n = len(line.split())
        for _ in range(3):
            cuts = sorted({0, n, *rng.integers(0, n + 1, 3).tolist()})
            spans = list(pairwise(cuts))
            rng.shuffle(spans)
            units, words = [], []
            for a, b in map(tuple, spans):
                new = rng.choice(list("abxyz."), rng.integers(0, 4)).tolist()
                links = [f"{i}-{j}" for i in range(b - a) for j in range(len(new)) if rng.random() < 0.4]
                units.append(unit((a, b), (len(words), len(words) + len(new)), " ".join(links), float(rng.integers(-9, 0))))
                words += new
            hyps.append(HypRecord(s, " ".join(words), f"h{s}", units=units))
    return build(hyps, source, n_sentences), hyps, source


def naive(hyp: HypRecord, k: int, source: list[str]) -> dict[str, float]:
    """Some of the features of the k-th unit of a hypothesis."""
    u, f, e = hyp.units[k], source[hyp.sent].split(), hyp.text.split()
    (a, b), (c, d) = u.src, u.tgt
    src, tgt = f[a:b], e[c:d]
    links = [tuple(map(int, link.split("-"))) for link in u.align.split()]
    before = hyp.units[k - 1].src if k else (0, 0)
    out: Counter[str] = Counter()
    out["len.diff"] = len(tgt) - len(src)
    out["un.src"] = sum(all(i != x for x, _ in links) for i in range(len(src)))
    out["un.tgt"] = sum(all(j != y for _, y in links) for j in range(len(tgt)))
    out["al.cross"] = sum(i < x and j > y for i, j in links for x, y in links)
    out["al.most.src"] = max((sum(x == i for x, _ in links) for i in range(len(src))), default=0)
    out["punct.lost"] = sum(w == "." and w not in tgt for w in src)
    out["copy.words"] = sum(w != "." and w in tgt for w in src)
    out["jump.signed"] = a - before[1]
    out["pos.first"], out["pos.last"] = a == 0, b == len(f)
    kind = "mono" if a == before[1] else "swap" if k and b == before[0] else "disc"
    out[f"ori.<{kind if kind != 'disc' else 'right' if a > before[1] else 'left'}"] = 1
    for i, j in links:
        out[f"al:{src[i]}|{tgt[j]}"] += 1
        at = a + i
        out[f"cx:{src[i]}|{tgt[j]}|-{f[at - 1] if at else '<s>'}"] += 1
        out[f"cx:{src[i]}|{tgt[j]}|+{f[at + 1] if at + 1 < len(f) else '</s>'}"] += 1
    for s in src:
        for t in tgt:
            out[f"wp:{s}|{t}"] += 1
    text = ["<s>", *e, "</s>"]
    last = k + 1 == len(hyp.units)
    first_is_known = not k or hyp.units[k - 1].tgt[0] < hyp.units[k - 1].tgt[1]
    for j in range(c, d + last):  # bigrams end at this unit's words; the one over the boundary needs a word before it
        if j > c or (d > c and first_is_known):
            out[f"bi:{text[j]}|{text[j + 1]}"] += 1
    for edge, words in (("src.first", src[:1]), ("src.last", src[-1:]), ("tgt.first", tgt[:1]), ("tgt.last", tgt[-1:])):
        for word in words:
            out[f"lo:<{kind}|{edge}={word}"] += 1
    return {name: float(value) for name, value in out.items() if value}


@pytest.mark.parametrize("seed", range(5))
def test_naive_twin(seed):
    nbest, hyps, source = random_list(seed)
    out = made(nbest, "length,unaligned,links,punctuation,copies,jump,position,orientation,al,cx,wp,bi,lo", min_count=1)
    checked = ("len.diff", "un.src", "un.tgt", "al.cross", "al.most.src", "punct.lost", "copy.words", "jump.signed", "pos.first")
    for h, hyp in enumerate(hyps):
        for k in range(len(hyp.units)):
            found = {
                name: value
                for name, value in of_unit(out, h, k).items()
                if name in (*checked, "pos.last") or name.startswith(("ori.<", "al:", "cx:", "wp:", "bi:", "lo:<"))
            }
            assert found == naive(hyp, k, source), (h, k)
    assert len(np.unique(np.hstack([out.X, _unit_words(out)]), axis=0)) == out.n_units  # no two units are equal


def _unit_words(nb: NBest) -> np.ndarray:
    texts = [nb.units.src, nb.units.tgt, nb.units.align]
    codes = [column.dictionary_encode().indices.to_numpy(zero_copy_only=False) for column in texts]
    return np.hstack([np.stack(codes, axis=1), nb.X_sparse.toarray()])


# -- Moses' own numbers as oracle -------------------------------------------------------------------------------------


def test_features_agree_with_what_the_decoder_wrote(real):
    """Word penalty, distortion and reordering values of Moses, which knows order and lengths, against ours of every unit."""
    source = (real / "fi-en" / "sg.test300.fi").read_text().splitlines()
    nbest = read_all([str(real / "fi-en" / "sg.test300.nbest100.enriched.xz")], ReadOptions(source=source, size=10))
    nbest = attach(nbest, source=source, refs=[], name="sg")
    out = made(nbest, "length,jump,orientation")
    column = {name: out.X[:, k] for k, name in enumerate(out.unit_names)}
    assert (column["len.tgt"] == -column["WordPenalty0"]).all()
    assert (np.abs(column["jump.signed"]) == -column["Distortion0"]).all()
    # value 0 scores monotone phrases, 1 swaps, 2 discontinuous ones: all are log-probabilities, 0 where they do not apply
    for k, names in enumerate((("mono",), ("swap",), ("left", "right"))):
        ours = sum(column[f"ori.<{name}"] for name in names)
        assert (column[f"LexicalReordering0_{k}"][ours == 0] == 0).all()
        assert (column[f"LexicalReordering0_{k}"][ours == 1] != 0).mean() > 0.8  # unknown words have no values


# -- invariances ------------------------------------------------------------------------------------------------------

EVERYTHING = "large,sparse,hypothesis"


def learnt(nbest: NBest, what: str = EVERYTHING, **options: object) -> tuple[NBest, FeaturePlan]:
    return featurize(nbest, FeaturePlan.of(what, TEMPLATES, **options), gradient_of=partial(first_gradient, seed=0))  # type: ignore[arg-type]


def test_base_changes_nothing():
    nbest = random_list(0)[0]
    assert made(nbest, "base").differences(nbest) == []


def test_what_came_with_the_list_stays():
    nbest = synthetic_nbest(SyntheticOptions(sentences=8, hyps=6))
    nbest = replace(
        nbest,
        units=replace(nbest.units, sparse=SparseRows.from_matrix(np.eye(nbest.n_units, 3))),
        sparse_names=strings(["r0", "r1", "r2"]),
    )
    out, _ = learnt(nbest, min_count=1)
    d = len(nbest.unit_names)
    assert out.unit_names[:d] == nbest.unit_names
    np.testing.assert_array_equal(out.X[out.unit_idx, :d], nbest.X[nbest.unit_idx])
    np.testing.assert_array_equal(out.global_sparse[:, :3].toarray(), nbest.global_sparse.toarray())
    assert out.text.equals(nbest.text)
    np.testing.assert_array_equal(out.stats, nbest.stats)


def test_the_order_of_sentences_does_not_matter():
    nbest = random_list(1, 12)[0]
    order = np.random.default_rng(0).permutation(len(nbest))
    out, vocab = learnt(nbest)
    other, same = learnt(nbest.take(order))
    assert same.to_json() == vocab.to_json()
    assert other.differences(out.take(order)) == []


@pytest.mark.parametrize(("a", "b"), [(0, 5), (3, 4), (4, 12), (0, 0)])
def test_slices(a, b):
    nbest = random_list(2, 12)[0]
    out, vocab = learnt(nbest)
    part, again = featurize(nbest[a:b], vocab)
    assert part.differences(out[a:b]) == []
    assert again == vocab


def test_a_new_list_gets_the_same_columns():
    out, vocab = learnt(random_list(3, 10)[0], products=4)
    other, _ = featurize(random_list(4, 10)[0], vocab)
    assert other.unit_names == out.unit_names
    assert other.extra_names == out.extra_names
    assert other.sparse_names.equals(out.sparse_names)
    assert other.meta == out.meta


def test_vocab_file(tmp_path):
    _, vocab = learnt(random_list(3, 10)[0], products=3)
    vocab.save(tmp_path / "v.json")
    again = FeaturePlan.load(tmp_path / "v.json")
    assert again.to_json() == vocab.to_json()
    assert again.products is not None
    again.save(tmp_path / "w.json")
    assert (tmp_path / "w.json").read_bytes() == (tmp_path / "v.json").read_bytes()


def test_min_count_is_in_sentences_and_hashing_bounds_names():
    nbest, hyps, _ = random_list(5, 12)
    sentences = defaultdict(set)
    for hyp in hyps:
        for u in hyp.units:
            words = hyp.text.split()[slice(*u.tgt)]
            sentences["pt:" + " ".join(nbest.source[hyp.sent].as_py().split()[slice(*u.src)]) + "|" + " ".join(words)].add(
                hyp.sent
            )
    for least in (1, 2, 3):
        expected = {name for name, of in sentences.items() if len(of) >= least}
        assert set(made(nbest, "pt", min_count=least).sparse_names.to_pylist()) == expected
    hashed = made(nbest, "pt", min_count=1, hash_bits=3)
    assert 1 < len(hashed.sparse_names) <= 8
    assert hashed.global_sparse.sum() == nbest.n_occurrences


# -- what is given beside the list ------------------------------------------------------------------------------------


def naive_model1(pairs, iterations=5):
    """t(e|f) with the empty word, in dictionaries."""
    t = {(e, f): 1.0 for es, fs in pairs for e in es for f in [None, *fs]}
    for _ in range(iterations):
        count, total = Counter(), Counter()
        for es, fs in pairs:
            for e in es:
                z = sum(t[e, f] for f in [None, *fs])
                for f in [None, *fs]:
                    count[e, f] += t[e, f] / z
                    total[f] += t[e, f] / z
        t = {key: count[key] / total[key[1]] for key in count}
    return t


def test_lexical_weight_is_model_1():
    source = ["das haus", "das buch", "ein buch", "das das haus", ""]
    target = ["the house", "the book", "a book", "house the", "nothing"]
    lexicon = Bitext(list(zip(source, target, strict=True))).lexicon
    t = naive_model1([(e.split(), f.split()) for f, e in zip(source, target, strict=True)])

    def expected(f: list[str], e: list[str]) -> float:
        return sum(math.log(max(sum(t.get((w, g), 0) for g in [None, *f]) / (len(f) + 1), 1e-7)) for w in e)

    rows = [(["das", "haus"], ["the", "house"]), (["ein"], ["the", "book"]), ([], ["a"]), (["was"], ["the"])]
    found = [TEMPLATES["lexical_weight"].compute(*row, lexicon)["lex.tgt|src"] for row in rows]
    np.testing.assert_allclose(found, [expected(*row) for row in rows], rtol=1e-12)
    nbest = build(HYPS)
    out, vocab = featurize(
        nbest,
        FeaturePlan.of("lexical_weight", TEMPLATES),
        resources=Resources(bitext=Bitext(list(zip(SOURCE, SOURCE, strict=True)))),
    )
    assert out.unit_names[2:] == ("lex.tgt|src", "lex.src|tgt")
    with pytest.raises(InputError, match="--bitext"):
        featurize(nbest, vocab)


def test_phrase_counts(tmp_path):
    table = tmp_path / "table"
    table.write_text(
        "iso talo ||| a big house ||| .1 .2 .3 .4 ||| 0-1 1-2 ||| 5 6 4 ||| |||\n"
        "talo ||| house ||| .1 .2 .3 .4 ||| 0-0 ||| 9 9 1 ||| |||\n"
        "talo ||| houses ||| broken, but not needed\n"
    )
    nbest = build(HYPS)
    counts = read_phrase_counts(table, nbest.units)
    assert counts == {("iso talo", "a big house"): 4.0, ("talo", "house"): 1.0}
    out, _ = featurize(nbest, FeaturePlan.of("phrase_count", TEMPLATES), resources=Resources(phrase_counts=counts))
    found = {k: v for k, v in of_unit(out, 0, 2).items() if k.startswith("count")}
    assert found == pytest.approx({"count.log": math.log(5)})
    assert of_unit(out, 2, 0)["count.1"] == of_unit(out, 0, 3)["count.0"] == 1
    for bad in ("no bars\n", "talo ||| house ||| .1\n", "talo ||| house ||| .1 ||| 0-0 ||| 1 2\n"):
        table.write_text(bad)
        with pytest.raises(InputError, match="table:1: expected 'source"):
            read_phrase_counts(table, nbest.units)


def test_sets_leave_out_what_is_not_given():
    assert "phrase_count" not in [e.name for e in FeaturePlan.of("large", TEMPLATES).entries]
    given = Resources(phrase_counts={})
    assert "phrase_count" in [e.name for e in FeaturePlan.of("large", TEMPLATES, given).entries]


def test_clusters_recover_planted_classes():
    """Nouns follow determiners, verbs follow nouns: neighbours tell the three classes apart."""
    rng = np.random.default_rng(0)
    classes = {c: [f"{c}{k}" for k in range(6)] for c in "dnv"}
    lines = [" ".join(rng.choice(classes[c]) for c in "dnvdn") for _ in range(300)]
    found = learn_clusters(words_of(strings([*lines, "once"])), size=4, seed=0)
    assert "once" not in found  # a rare word is in cluster 0
    assert {c: len({found[w] for w in words}) for c, words in classes.items()} == {"d": 1, "n": 1, "v": 1}
    assert set(found.values()) == {"1", "2", "3"}
    assert found["v0"] == "3"  # the least frequent class
    shuffled = learn_clusters(words_of(strings([*lines[::-1], "once"])), size=4, seed=0)
    assert shuffled == found


@pytest.mark.parametrize(("dimensions", "width"), [(50, 2), (1, 1)])
def test_vectors_of_words_have_as_many_dimensions_as_wanted_or_as_there_can_be(monkeypatch, dimensions, width):
    """Three words have vectors of eight numbers, and so a truncated SVD of two."""
    asked = []

    class Asked(sklearn.decomposition.TruncatedSVD):
        def fit_transform(self, x: Any) -> Any:
            asked.append((self.n_components, x.shape))
            return super().fit_transform(x)

    monkeypatch.setattr(sklearn.decomposition, "TruncatedSVD", Asked)
    monkeypatch.setattr(clusters, "DIMENSIONS", dimensions)
    learn_clusters(words_of(strings(["a b c", "b a", "c c"] * 3)), size=3, seed=0)
    assert asked == [(width, (3, 8))]


def test_words_with_the_same_neighbours_are_one_cluster():
    """Each is a text alone. Warnings are errors here (pyproject.toml)."""
    assert learn_clusters(words_of(strings(["a", "b", "c"] * 3)), size=4, seed=0) == dict.fromkeys("abc", "1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("talo 2\nhouse 17\n", {"talo": "2", "house": "17"}),
        ("0110\ttalo\t5\n111\thouse\t2\n", {"talo": "0110", "house": "111"}),
        ("talo\n", "clusters:1: expected 'word class'"),
        ("talo x\n", "clusters:1: expected 'word class'"),
        ("talo ²\n", "clusters:1: expected 'word class'"),
        ("0110 talo ٣\n", "clusters:1: expected 'word class'"),
        ("", "an empty file"),
        ("talo 2\ntalo 2\n", {"talo": "2"}),
        ("talo 2\n\ntalo 3\n", "clusters:3: expected 'talo' in one cluster, found '3' after '2'; keep one of the lines"),
    ],
)
def test_cluster_files(tmp_path, text, expected):
    path = tmp_path / "clusters"
    path.write_text(text)
    if isinstance(expected, dict):
        assert read_clusters(path) == expected
    else:
        with pytest.raises(InputError, match=expected):
            read_clusters(path)


# -- products ---------------------------------------------------------------------------------------------------------


def test_a_product_can_live_where_its_factors_can():
    nbest = random_list(3, 6)[0]
    vocab = replace(
        FeaturePlan.of("length,jump", TEMPLATES), products=(("len.src", "len.tgt"), ("len.src", "jump.log"), ("LM0", "tm"))
    )
    kinds = feature_kinds(featurize(nbest, vocab)[0])
    assert [kinds[n][1] for n in ("len.src*len.tgt", "len.src*jump.log", "LM0*tm")] == ["static", "contextual", "contextual"]


# -- bad input --------------------------------------------------------------------------------------------------------


def without(nbest: NBest, *columns: str) -> NBest:
    empty = {name: strings([""] * nbest.n_units) for name in columns if name in ("src", "tgt", "align")}
    out = replace(nbest, units=replace(nbest.units, **empty))
    if "source" in columns:
        out = replace(out, source=strings([""] * len(nbest)))
    return replace(out, src_start=np.full(nbest.n_occurrences, -1, np.int32)) if "span" in columns else out


@pytest.mark.parametrize(
    ("lacking", "name", "needs", "works"),
    [
        (("align",), "unaligned", "word alignments", "length"),
        (("src", "source"), "length", "source phrases; import with -s", "bi"),
        (("src",), "length", "source phrases; have the decoder write which words", "bi"),
        (("span",), "jump", "source spans", "pt"),
        (("source",), "cx", "source sentences; import with -s", "position"),
        (("tgt",), "bi", "target phrases", "jump"),
    ],
)
def test_a_template_says_what_it_lacks(lacking, name, needs, works):
    nbest = without(build(HYPS), *lacking)
    with pytest.raises(
        InputError, match=rf"template '{name}' needs {needs}.*templates that work on this list: .*\b{works}\b"
    ) as e:
        made(nbest, name)
    working = str(e.value).partition("this list: ")[2].split(", ")
    assert name not in working
    works_all = ",".join(n for n in working if n not in ("phrase_count", "lexical_weight"))
    assert made(nbest, works_all, min_count=1).n_occurrences == nbest.n_occurrences


def test_spans_of_no_words_are_spans():
    """Of a phrase that is inserted: it has a place, and no word; one without a place has no span."""

    def lists(**more):
        builder = Builder()
        builder.add(HypRecord(0, "a b", "h", units=[UnitRecord({"lm": 1.0}, (0, 1), (0, 1)), UnitRecord({"lm": 2.0}, **more)]))
        return builder.finish()

    for what, side in (("span", "src"), ("target span", "tgt")):
        other = {"src": (1, 2), "tgt": (1, 2)}
        assert missing(what, lists(**other), Resources()) is None
        assert missing(what, lists(**{**other, side: (1, 1)}), Resources()) is None
        said = missing(what, lists(**{**other, side: None}), Resources())
        assert said is not None
        assert said.startswith(("source" if side == "src" else "target") + " spans of all units; ")


def test_a_list_without_units():
    nbest = build([HypRecord(0, "a b", "h"), HypRecord(1, "c", "h")])
    with pytest.raises(InputError, match=r"needs units.*this list: hypothesis, expected_length, model1_inverse, mbr$"):
        made(nbest, "large")
    assert made(nbest, "hypothesis").extra.shape == (2, 3)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('include = ["soup"]', "unknown set of templates 'soup': expected one of base"),
        ("[templates]\nlength = 3", "expected an object, found a whole number"),
        ("[templates.soup]", "unknown template 'soup'"),
    ],
)
def test_bad_files_of_templates(tmp_path, toml, message):
    (tmp_path / "t.toml").write_text(toml)
    with pytest.raises(InputError, match=message):
        FeaturePlan.of(str(tmp_path / "t.toml"), TEMPLATES)


def test_a_feature_that_came_with_the_list_is_there_once():
    """Of the same name and, but for four decimals, the same values; other values are refused."""
    nbest = build(HYPS)
    lengths = made(nbest, "length")
    column = lengths.X[:, lengths.unit_names.index("len.src")]
    for change, fine in ((4e-5, True), (1e-2, False)):
        x = np.column_stack([nbest.units.x, column + change])
        own = replace(nbest, units=replace(nbest.units, x=x), unit_names=(*nbest.unit_names, "len.src"))
        if fine:
            again = made(own, "length")
            assert sorted(again.unit_names) == sorted(lengths.unit_names)
            np.testing.assert_array_equal(again.X[:, again.unit_names.index("len.src")], x[:, -1])
        else:
            with pytest.raises(InputError, match=r"feature 'len\.src': expected a list without it, found it twice"):
                made(own, "length")


def test_other_bad_input():
    nbest = build(HYPS)
    own = replace(nbest, unit_names=("LM0", "jump.signed"))  # of a context, no unit has the values that a template gives
    with pytest.raises(InputError, match=r"feature 'jump\.signed': expected a list without it, found it twice"):
        made(own, "jump")
    with pytest.raises(InputError, match=r"feature 'len\.src': expected a list without it, found it twice"):
        made(made(nbest, "length"), "length")
    with pytest.raises(InputError, match=r"'lm_per_word' needs a language model among the list's features \(x, y\); name it"):
        made(replace(nbest, unit_names=("x", "y")), "lm_per_word")
    outside = replace(nbest, units=replace(nbest.units, align=strings(["7-0"] * nbest.n_units)))
    with pytest.raises(InputError, match=r"alignment '7-0' of 'se' and 'it': expected links inside the phrases"):
        made(outside, "links")
    broken = replace(nbest, units=replace(nbest.units, align=strings(["x"] * nbest.n_units)))
    with pytest.raises(InputError, match=r"alignment 'x': expected links like"):
        made(broken, "links")


def test_user_templates():
    @template("first")
    def first(target, previous, *, scale=1.0):
        """Whether the unit comes first."""
        return {"first": scale * (previous is None)}

    @template("last")
    def last(hypothesis):
        return hypothesis[-1:]

    @template("broken")
    def broken(target):
        return {"x": math.nan}

    @template("fails")
    def fails(target):
        raise KeyError("oops")

    @template("short")
    def short(text, units):
        return {"x": [0.0]}

    @template("bare")
    def bare(target):
        return 0.0

    @template("texts")
    def texts(target):
        return {"x": "1.0"}

    @template("numbers")
    def numbers(target):
        return [1.0]

    registry = {**TEMPLATES, **{t.name: t for t in (first, last, broken, fails, short, bare, texts)}, "some": numbers}
    out, _ = featurize(build(HYPS), FeaturePlan.of("first,last", registry, min_count=1), registry=registry)
    assert [of_unit(out, h, k).get("first", 0) for h, k in ((0, 0), (0, 1), (1, 0), (2, 1))] == [1, 0, 1, 0]
    assert out.sparse_names.to_pylist() == ["last:.", "last:7"]
    assert out.global_sparse.toarray().tolist() == [[1, 0], [1, 0], [0, 1]]
    assert feature_kinds(out)["first"] == ("first", "contextual")
    assert (first.kind, last.kind, short.state) == ("contextual", "global", ("words before",))
    for name, message in (
        ("broken", "x: expected finite numbers"),
        ("fails", "KeyError: 'oops'"),
        ("short", r"'short': x: expected 9 values, found 3"),
        ("bare", "'bare': .*expected a dict of numbers for all or a list of names for all, found float"),
        ("texts", "'texts': .*expected numbers, found str"),
        ("some", "'numbers': .*expected a list of names, found '1.0'"),
    ):
        with pytest.raises(InputError, match=message):
            featurize(build(HYPS), FeaturePlan.of(name, registry), registry=registry)
    with pytest.raises(
        InputError, match="template 'bad': unknown argument 'moon'; a template reads any of source, target, links"
    ):
        template("bad")(lambda target, moon: {})
    with pytest.raises(InputError, match="template 'bad': its function has no argument"):
        template("bad")(lambda *, moon: {})


def test_the_sets_are_in_the_registry():
    assert {name for names in SETS.values() for name in names} <= set(TEMPLATES)
    assert all(t.name == name and t.summary for name, t in TEMPLATES.items())


def test_word_classes_by_hand() -> None:
    """n-grams, reordering and links of classes; words that no cluster has are of class 0."""
    units = [unit((0, 1), (0, 2), "0-1"), unit((1, 2), (2, 3), "0-0")]
    raw = build([HypRecord(0, "the house stands", "h", units=units)], ["talo seisoo"], 1)
    clusters = Clusters({"talo": "1", "seisoo": "2"}, {"the": "5", "house": "6"})
    made, _ = featurize(raw, replace(FeaturePlan.of("cb,co,cc", min_count=1), clusters=clusters))
    found = dict(zip(made.sparse_names.to_pylist(), made.global_sparse.toarray()[0].tolist(), strict=True))
    assert {name for name in found if name.startswith("cb:")} == {
        *("cb:<s>|5", "cb:5|6", "cb:6|0", "cb:0|</s>"),
        *("cb:<s>|5|6", "cb:5|6|0"),  # not 6|0|</s>: the last unit's own word is 0 alone
    }
    units.append(unit((2, 3), (3, 3), ""))  # a phrase that is left out joins nothing
    raw = build([HypRecord(0, "the house stands", "h", units=units)], ["talo seisoo nyt"], 1)
    silent, _ = featurize(raw, replace(FeaturePlan.of("cb", min_count=1), clusters=clusters))
    assert set(silent.sparse_names.to_pylist()) == {"cb:<s>|5", "cb:5|6", "cb:6|0", "cb:<s>|5|6", "cb:5|6|0"}
    assert {name for name in found if name.startswith("cc:")} == {"cc:1|6|-<s>", "cc:1|6|+2", "cc:2|0|-1", "cc:2|0|+</s>"}
    edges = {"src.first=1", "src.last=1", "tgt.first=5", "tgt.last=6", "src.first=2", "src.last=2", "tgt.first=0", "tgt.last=0"}
    assert {name for name in found if name.startswith("co:")} == {f"co:{side}mono|{edge}" for side in "<>" for edge in edges}
    assert set(found.values()) == {1.0}


# -- what references teach ----------------------------------------------------------------------------------------------


def taught_lists(n: int, *, other: int = -1) -> NBest:
    """n sentences of two hypotheses; the reference of sentence ``other`` is another."""
    words = np.random.default_rng(5).integers(0, 6, (n, 3)).tolist()
    sources = [" ".join(f"sana{k}{'n' * (s % 2)}" for k in words[s]) for s in range(n)]
    refs = [" ".join(f"word{k}" for k in words[s]) if s != other else "quite another text" for s in range(n)]
    builder = Builder(ReadOptions(source=sources), declared_dense=("LM0", "tm"))
    for s in range(n):
        for text in (refs[s], "word0 word1 word2"):
            builder.add(HypRecord(s, text, f"{s}", units=[unit((k, k + 1), (k, k + 1), "0-0") for k in range(3)]))
    return attach(builder.finish(), source=sources, refs=[refs], name="taught")


def test_model_1_of_references_by_hand_of_its_table() -> None:
    """Σ_j log max(1/(l+1) Σ_i t(e_j|f_i), 1e-4), i from the empty word on; and the source given the hypothesis."""
    raw = build(HYPS)
    forward = {"": {"is": 0.5}, "ta": {"house": 0.75, "is": 0.25}, "is": {"big": 1.0}}
    back = {"house": {"ta": 0.5}, "big": {"is": 0.25, "ta": 0.125}, "": {".": 0.0625}}
    plan = FeaturePlan.of("model1,model1_inverse")
    tables = {"model1": forward, "model1_inverse": back}
    entries = tuple(replace(e, options={"cut": 2, "table": tables[e.name]}) for e in plan.entries)
    out, _ = featurize(raw, replace(plan, entries=entries))
    low = math.log(1e-4)
    # it is a big house . / house big is . given "se on iso talo .", stems se on is ta . ; house 7 given ta 7 !
    is_, big, house = math.log((0.5 + 0.25) / 6), math.log(1 / 6), math.log(0.75 / 6)
    expected = [3 * low + is_ + big + house, low + is_ + big + house, math.log(0.75 / 4) + low]
    np.testing.assert_allclose(out.global_column("m1.tgt"), expected, rtol=1e-12)
    # se and on are explained by nothing, is by big, ta by big and house, the full stop by the empty word; n + 1 is 7, 5 and 3
    first, second = (2 * low + math.log(0.25 / n) + math.log(0.625 / n) + math.log(0.0625 / n) for n in (7, 5))
    np.testing.assert_allclose(out.global_column("m1.src"), [first, second, math.log(0.5 / 3) + 2 * low], rtol=1e-12)


def test_the_table_is_model_1_of_stems() -> None:
    """Against the naive twin: t(word | first five letters), without what is improbable, to four digits."""
    raw = taught_lists(8)
    _, plan = featurize(raw, FeaturePlan.of("model1,model1_inverse"))
    pairs = [
        (ref.split(), [w[:5] for w in src.split()]) for src, ref in zip(raw.source.to_pylist(), raw.refs.to_pylist(), strict=True)
    ]
    for entry, t in zip(plan.entries, (naive_model1(pairs), naive_model1([(f, e) for e, f in pairs])), strict=True):
        found = {(word, given or None): p for given, row in entry.options["table"].items() for word, p in row.items()}
        expected = {key: p for key, p in t.items() if p >= 0.001}
        assert found.keys() == expected.keys()
        np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), rtol=1e-3)
    assert entry.options["cut"] == 5


def test_a_bitext_teaches_columns_of_its_own_and_its_copies_of_the_list_do_not() -> None:
    """The table is the naive twin's of the bitext, lengths are of references and bitext; lines of the list change nothing."""
    raw, plan = taught_lists(12), FeaturePlan.of("model1,model1_bitext,expected_length")
    own = list(zip(raw.source.to_pylist(), raw.refs.to_pylist(), strict=True))
    more = [("sana0 sana7n", "word0 word7"), ("sana7", "word7")]
    alone, with_more, with_copies = (
        featurize(raw, plan, resources=Resources(bitext=Bitext(text))) for text in (more[:1], more, more + own[:5])
    )
    assert with_more[1] == with_copies[1]
    for name, is_taught in (("m1.tgt", False), ("m1.bitext", True)):
        x, y, z = (out.global_column(name) for out, _ in (alone, with_more, with_copies))
        assert np.array_equal(y, z)
        assert (x != y).any() == is_taught
    t = naive_model1([(e.split(), [w[:5] for w in f.split()]) for f, e in more])
    table = with_more[1].entries[1].options["table"]
    found = {(word, given or None): p for given, row in table.items() for word, p in row.items()}
    expected = {key: p for key, p in t.items() if p >= 0.001}
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), rtol=1e-3)
    q, options = fitted(own + more), with_more[1].entries[2].options
    assert (tuple(options["shared"]), options["of_stems"]) == (q.shared, q.stems)
    with pytest.raises(InputError, match="'model1_bitext' needs a bitext, and none is given; add --bitext SOURCE TARGET"):
        featurize(raw, plan)


def test_morphemes_are_stems_and_suffixes() -> None:
    """By the naive twin's tables of a bitext; probabilities are kept to four digits from 0.001 on."""
    bitext = [("talossani kuningas", "houses king"), ("talossasi", "houses"), ("kuningatar on", "queenly is"), ("on", "is")]
    pieces = {"talossani": "talos +sani", "kuningas": "kunin +gas", "talossasi": "talos +sasi", "kuningatar": "kunin +gatar"}
    pieces |= {"houses": "house +s", "queenly": "queen +ly"}
    cut = [[[m for w in side.split() for m in pieces.get(w, w).split()] for side in pair] for pair in bitext]
    nbest = build([HypRecord(0, "queenly king", "h", units=[unit((0, 2), (0, 2), "0-0")])], ["talossani on"], 1)
    out, plan = featurize(nbest, FeaturePlan.of("morpheme_weight"), resources=Resources(bitext=Bitext(bitext)))
    src, tgt = ["talos", "+sani", "on"], ["queen", "+ly", "king"]
    for name, e, f, pairs in (
        ("morph.tgt|src", tgt, src, [(e, f) for f, e in cut]),
        ("morph.src|tgt", src, tgt, [(f, e) for f, e in cut]),
    ):
        t = {key: p for key, p in naive_model1(pairs).items() if p >= 0.001}
        expected = sum(math.log(max(sum(t.get((w, g), 0.0) for g in [None, *f]) / (len(f) + 1), 1e-4)) for w in e)
        assert out.global_column(name)[0] == pytest.approx(expected, rel=1e-3)
    again = featurize(nbest, FeaturePlan.from_json(plan.to_json(), "plan"))[0]  # without the text
    assert np.array_equal(again.X, out.X)


def test_without_references_there_is_nothing_to_teach() -> None:
    raw = replace(taught_lists(4), refs=strings([]), ref_ptr=np.zeros(5, np.int64), stats=np.zeros((0, 6), np.int32))
    with pytest.raises(InputError, match="'model1' needs references to learn from; import with -r REFERENCES"):
        featurize(raw, FeaturePlan.of("model1"))
    _, learnt = featurize(taught_lists(4), FeaturePlan.of("model1"))
    assert featurize(raw, learnt)[0].unit_names[-1] == "m1.tgt"
