"""Templates for word units: values by hand, a naive twin of the slots, and sets that use what the list allows."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreting import interpreted
from strategies import build, quick
from toy_systems import TARGET, arpa, random_ngrams

from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, Resources, featurize
from boostfeat.features.language_model import LanguageModel
from boostfeat.features.resources import Posterior
from boostfeat.features.templates.word import shape_of
from boostfeat.lists.build import HypRecord, UnitRecord, attach
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.store import read_store, write_store

ALIKE = Resources(posterior=Posterior(scale=1.0))


def words(lists: list[list[str]], *, source: list[str] | None = None) -> NBest:
    """Lists of texts whose words are units; all hypotheses have the score 0."""
    hyps = []
    for s, texts in enumerate(lists):
        for k, text in enumerate(texts):
            units = [UnitRecord({"one": 1.0}, tgt=(j, j + 1), tgt_text=w) for j, w in enumerate(text.split())]
            hyps.append(HypRecord(s, text, f"list:{s}.{k}", 0.0, units=units))
    return attach(build(hyps), source=source, refs=[["a b"] * len(lists)], name="list")


def columns(nbest: NBest, template: str, resources: Resources = ALIKE) -> dict[str, np.ndarray]:
    """[R] the values of a template's columns for each occurrence."""
    out, _ = featurize(nbest, FeaturePlan.of(template, TEMPLATES, resources), resources=resources)
    return {name: out.X[out.unit_idx, j] for j, name in enumerate(out.unit_names) if name != "one"}


def test_frequencies_are_of_references() -> None:
    dev = words([["a a b", "z z z z"], ["a c", "q"], ["b", "q"]])  # the references are a b, three times
    _, vocab = featurize(dev, FeaturePlan.of("frequency", TEMPLATES))
    assert dict(vocab.entries[0].options["frequencies"]) == {"a": 3, "b": 3}
    other, _ = featurize(words([["b z"]]), vocab)
    row = {name: other.X[other.unit_idx, j].tolist() for j, name in enumerate(other.unit_names)}
    assert row["freq.log"] == pytest.approx([log(4), 0.0])
    assert row["freq.unknown"] == [0, 1]
    assert row["freq.top10"] == [1, 0]


def test_a_slot_by_hand() -> None:
    """Four equal hypotheses of p = 1/4: the second slot has b twice, x once, and one hypothesis has nothing there."""
    found = columns(words([["a b c", "a b c", "a x c", "a c"]]), "slot")
    a, b, c = 0, 1, 2
    assert found["slot.p"][[a, b, c]].tolist() == [1.0, 0.5, 1.0]
    assert found["slot.p"][7] == 0.25  # x
    assert found["slot.best"][[b, 7]].tolist() == [1, 0]
    assert found["slot.behind"][7] == 0.25
    assert found["slot.alternatives"][[a, b]].tolist() == [1, 2]
    assert found["slot.entropy"][a] == 0
    assert found["slot.entropy"][b] == pytest.approx(0.5 * log(2) + 0.5 * log(4), abs=1 / 64)


texts = st.lists(st.sampled_from("abc"), max_size=5).map(" ".join)


@quick
@given(st.lists(st.tuples(texts, st.integers(1, 3)), min_size=1, max_size=5).filter(lambda hyps: any(text for text, _ in hyps)))
def test_slots_by_a_naive_twin(weighed: list[tuple[str, int]]) -> None:
    """Hypotheses of probability w / Σ w, behind a list of others."""
    hyps, p = [text for text, _ in weighed], np.array([w for _, w in weighed]) / sum(w for _, w in weighed)
    nbest = words([["c a", "b"], hyps])
    nbest = replace(nbest, score=np.array([0.0, 0.0, *(log(w) for _, w in weighed)]))
    found = columns(nbest, "slot")
    slots: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    placed = []
    for text, share in zip(hyps, p.tolist(), strict=True):
        for place, word in naive_alignment(hyps[0].split(), text.split()):
            slots[place][word] += share
            placed.append((place, word))
    expected: dict[str, list[float]] = defaultdict(list)
    for place, word in placed:
        masses = [min(1.0, mass) for mass in slots[place].values()]
        silent = max(0.0, 1.0 - sum(masses))
        own, best = (round(64 * x) / 64 for x in (min(1.0, slots[place][word]), max(*masses, silent)))
        expected["slot.p"].append(own)
        expected["slot.entropy"].append(round(-64 * sum(x * log(x) for x in (*masses, silent) if x > 1e-12)) / 64)
        expected["slot.behind"].append(best - own)
        expected["slot.best"].append(own >= best)
        expected["slot.alternatives"].append(len(masses))
    assert {name: values[3:].tolist() for name, values in found.items()} == expected


def test_slots_beside_empty_lists() -> None:
    """Of sentences without hypotheses, also the last one."""
    nbest = words([["a b", "a c"], ["b"]])
    empty = {"ids": np.arange(5), "source": strings([""] * 5), "refs": strings([]), "ref_ptr": np.zeros(6, np.int64)}
    spread = replace(nbest, hyp_ptr=np.array([0, 0, 2, 2, 3, 3]), stats=np.zeros((0, 6), np.int32), **empty)
    with interpreted():
        found, expected = (columns(lists, "slot") for lists in (spread, nbest))
    assert {name: column.tolist() for name, column in found.items()} == {name: c.tolist() for name, c in expected.items()}


@pytest.mark.parametrize("n", [1, 9, 10, 11])
def test_more_than_ten_alternatives_are_ten(n: int) -> None:
    assert columns(words([[f"w{k}" for k in range(n)]]), "slot")["slot.alternatives"].tolist() == [min(n, 10)] * n


def naive_alignment(a: list[str], b: list[str]) -> list[tuple[tuple[int, int], str]]:
    """Of each word of b its slot: (i, 1) for word i of a, (i, 0) for the gap before it; as _align breaks ties."""
    cost = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if i and j:
                cost[i][j] = min(cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]), cost[i - 1][j] + 1, cost[i][j - 1] + 1)
            else:
                cost[i][j] = i + j
    out, i, j = [], len(a), len(b)
    while j:
        if i and cost[i][j] == cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]):
            i, j = i - 1, j - 1
            out.append(((i, 1), b[j]))
        elif cost[i][j] == cost[i][j - 1] + 1:
            j -= 1
            out.append(((i, 0), b[j]))
        else:
            i -= 1
    return out[::-1]


def test_words_of_the_source() -> None:
    found = columns(words([["Paris has 20 and 30"]], source=["Paris hat 20"]), "source_words")
    assert found["source.copy"].tolist() == [1, 0, 1, 0, 0]
    assert found["source.number"].tolist() == [0, 0, 1, 0, 0]
    assert found["source.new_number"].tolist() == [0, 0, 0, 0, 1]


# ---------------------------------------------------------------------------------------------------------------------
# All dense columns again, in plain Python
# ---------------------------------------------------------------------------------------------------------------------

Ngrams = dict[tuple[str, ...], tuple[float, float]]
SOME = ["a", "b", "A", "Bo", "NATO", "12", "3rd", ".", "-", "x-y", "o'er", "\u0436\u0431", "unabhaengig", "new"]


def is_symbol(c: str) -> bool:
    return unicodedata.category(c)[0] in "PS"


def naive_word(w: str) -> dict[str, float]:
    upper = all(unicodedata.category(c) == "Lu" or unicodedata.category(c)[0] == "N" for c in w) and len(w) > 1
    latin = all("LATIN" in unicodedata.name(c, "") or unicodedata.category(c)[0] in "PSN" for c in w)
    return {
        "word.letters": len(w),
        "word.short": len(w) <= 2,
        "word.long": len(w) >= 9,
        "word.digit": any(c in "0123456789" for c in w),
        "word.punct": all(is_symbol(c) for c in w),
        "word.title": unicodedata.category(w[0]) == "Lu",
        "word.upper": upper,
        "word.hyphen": "-" in w[1:-1],
        "word.apostrophe": "'" in w,
        "word.foreign": not latin,
    }


def naive_beside(w: str | None) -> dict[str, float]:
    if w is None:
        return {"letters": 0, "punct": 0, "digit": 0, "none": 1}
    return {"letters": len(w), "punct": naive_word(w)["word.punct"], "digit": naive_word(w)["word.digit"], "none": 0}


def naive_lm(ngrams: Ngrams, history: list[str], word: str) -> tuple[float, int]:
    """(ln p, order matched), by the definition of backing off."""
    known = {g[0] for g in ngrams if len(g) == 1}
    order = max(map(len, ngrams))
    gram = tuple(w if w in known else "<unk>" for w in [*history, word][-order:])
    total = 0.0
    while gram not in ngrams:
        total += ngrams.get(gram[:-1], (0.0, 0.0))[1] if len(gram) > 1 else -100.0
        if len(gram) == 1:
            return total * log(10), 1
        gram = gram[1:]
    return (total + ngrams[gram][0]) * log(10), len(gram)


def naive_columns(hyps: list[list[str]], source: list[str], seen: Counter[str], ngrams: Ngrams) -> list[dict[str, float]]:
    """Of each word of the hypotheses of one list, all alike: its columns of the set words but slot and agreement."""
    rank = {w: k for k, w in enumerate(sorted(seen, key=lambda w: (-seen[w], w)))}
    known, out = {g[0] for g in ngrams if len(g) == 1}, []
    for hyp in hyps:
        logp = [naive_lm(ngrams, ["<s>", *hyp[:i]], w) for i, w in enumerate(hyp)]
        for i, w in enumerate(hyp):
            fifth = min(5 * i // len(hyp), 4)
            bigrams = [tuple(hyp[j - 1 : j + 1]) for j in range(1, i)]
            row = naive_word(w) | {
                "freq.log": log(1 + seen[w]),
                "freq.unknown": w not in seen,
                **{f"freq.top{most}": rank.get(w, 20_000) < most for most in (10, 100, 1000, 10_000)},
                "place.first": i == 0,
                "place.last": i == len(hyp) - 1,
                "place.start": i < 3,
                "place.end": len(hyp) - i - 1 < 3,
                **{f"place.fifth{k + 1}": fifth == k for k in range(5)},
                "repeat.at_once": i > 0 and hyp[i - 1] == w,
                "repeat.before": w in hyp[:i],
                "repeat.bigram": i > 0 and (hyp[i - 1], w) in bigrams,
                "repeat.times": hyp[:i].count(w),
                **{f"around.prev.{k}": v for k, v in naive_beside(hyp[i - 1] if i else None).items()},
                **{f"around.next.{k}": v for k, v in naive_beside(hyp[i + 1] if i + 1 < len(hyp) else None).items()},
                "source.copy": w in source,
                "source.number": w in source and any(c.isdigit() for c in w),
                "source.new_number": w not in source and any(c.isdigit() for c in w),
                "lm.logp": logp[i][0],
                "lm.unigram": naive_lm(ngrams, [], w)[0],
                "lm.order": logp[i][1],
                "lm.unknown": w not in known,
                "lm.prev": logp[i - 1][0] if i else 0.0,
                "lm.next": logp[i + 1][0] if i + 1 < len(hyp) else 0.0,
                "lm.end": naive_lm(ngrams, ["<s>", *hyp], "</s>")[0] if i == len(hyp) - 1 else 0.0,
            }
            out.append({name: float(value) for name, value in row.items()})
    return out


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageModel, Ngrams]:
    path, ngrams = tmp_path_factory.mktemp("lm") / "lm.arpa", random_ngrams(np.random.default_rng(0), 3)
    renamed = dict(zip(TARGET, SOME, strict=False))
    ngrams = {tuple(renamed.get(w, w) for w in gram): value for gram, value in ngrams.items()}
    path.write_text(arpa({g: ngrams[g] for g in sorted(ngrams, key=len)}))
    return LanguageModel.load(path), ngrams


lists = st.lists(st.lists(st.sampled_from(SOME), min_size=1, max_size=8), min_size=1, max_size=4)


@quick
@given(lists, st.lists(st.sampled_from(SOME), min_size=1, max_size=5))
def test_every_dense_column_by_a_plain_twin(
    model: tuple[LanguageModel, Ngrams], hyps: list[list[str]], source: list[str]
) -> None:
    lm, ngrams = model
    nbest = words([[" ".join(h) for h in hyps]], source=[" ".join(source)])
    found = columns(nbest, "words", Resources(posterior=Posterior(scale=1.0), lm=lm))
    expected = naive_columns(hyps, source, Counter(), ngrams)  # a sentence does not teach itself
    for name in expected[0]:
        assert found[name].tolist() == pytest.approx([row[name] for row in expected], abs=1e-9), name
    rest = {name for name in found if not name.startswith(("slot.", "agree.", "m1."))}  # which have tests of their own
    assert rest == set(expected[0])
    assert len(found) >= 50


def test_a_unit_of_several_words_has_sums_and_the_least_order(model: tuple[LanguageModel, Ngrams]) -> None:
    """All columns, behind a hypothesis of one word; the last unit, without words, is the end that neural models score."""
    lm, ngrams = model
    text, spans = ["b", "a", "new", "a"], [(0, 3), (3, 4), (4, 4)]
    units = [UnitRecord({"one": 1.0}, tgt=(a, b), tgt_text=" ".join(text[a:b])) for a, b in spans]
    before = HypRecord(0, "a", "list:1", 0.0, units=[UnitRecord({"one": 1.0}, tgt=(0, 1), tgt_text="a")])
    made = build([before, HypRecord(0, " ".join(text), "list:2", 0.0, units=units)])
    found = columns(attach(made, source=None, refs=[["a"]], name="list"), "lm", Resources(lm=lm))
    each = [naive_lm(ngrams, ["<s>", *text[:i]], w) for i, w in enumerate(text)]
    p = [logp for logp, _ in each]
    alone = [naive_lm(ngrams, [], w)[0] for w in text]
    known = {g[0] for g in ngrams if len(g) == 1}
    expected = {
        "lm.logp": [sum(p[:3]), p[3], 0],
        "lm.unigram": [sum(alone[:3]), alone[3], 0],
        "lm.order": [min(n for _, n in each[:3]), each[3][1], 0],
        "lm.unknown": [sum(w not in known for w in text[:3]), int(text[3] not in known), 0],
        "lm.prev": [0, p[2], p[3]],
        "lm.next": [p[3], 0, 0],
        "lm.end": [0, 0, naive_lm(ngrams, ["<s>", *text], "</s>")[0]],
    }
    assert {name: values[1:].tolist() for name, values in found.items()} == {k: pytest.approx(v) for k, v in expected.items()}
    assert found["lm.next"][0] == 0
    assert found["lm.end"][0] == pytest.approx(naive_lm(ngrams, ["<s>", "a"], "</s>")[0])


def test_words_of_a_language_model_equal_kenlm(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    ngrams = random_ngrams(np.random.default_rng(1), 4)
    for gram in list(ngrams):  # KenLM wants the shorter ends as well
        for i in range(1, len(gram)):
            ngrams.setdefault(gram[i:], (-1.5, 0.0))
    path = tmp_path / "lm.arpa"
    path.write_text(arpa({g: ngrams[g] for g in sorted(ngrams, key=len)}))
    theirs, rng = kenlm.Model(str(path)), np.random.default_rng(2)
    texts = [" ".join(rng.choice([*TARGET, "new"], size=rng.integers(1, 9)).tolist()) for _ in range(40)]
    found = columns(words([texts]), "lm", Resources(lm=LanguageModel.load(path)))
    scores = [list(theirs.full_scores(text)) for text in texts]
    each = [score for sentence in scores for score in sentence[:-1]]
    assert found["lm.logp"].tolist() == pytest.approx([p * log(10) for p, _, _ in each], abs=1e-4)
    assert found["lm.order"].tolist() == [n for _, n, _ in each]
    assert found["lm.unknown"].tolist() == [unknown for _, _, unknown in each]
    ends = found["lm.end"][found["lm.end"] != 0]
    assert ends.tolist() == pytest.approx([sentence[-1][0] * log(10) for sentence in scores], abs=1e-4)


def test_a_vocab_asks_for_its_language_model(model: tuple[LanguageModel, Ngrams], tmp_path: Path) -> None:
    nbest = words([["a b"]])
    _, vocab = featurize(nbest, FeaturePlan.of("lm", TEMPLATES), resources=Resources(lm=model[0]))
    with pytest.raises(InputError, match=r"template .lm. needs a language model, and none is given; add --lm FILE\.arpa"):
        featurize(nbest, vocab)
    (tmp_path / "other").write_text(arpa({("<s>",): (-9.0, 0.0), ("</s>",): (-1.0, 0.0), ("a",): (-0.5, 0.0)}))
    with pytest.raises(InputError, match="--lm: expected the language model of the plan, found another"):
        featurize(nbest, vocab, resources=Resources(lm=LanguageModel.load(tmp_path / "other")))


def test_words_and_their_shapes_are_sparse_features() -> None:
    out, _ = featurize(words([["NATO has 12-year-olds", "NATO had"]]), FeaturePlan.of("w,ws", TEMPLATES, min_count=1))
    assert {"w:NATO", "w:has", "w:had", "ws:X", "ws:x", "ws:0-x-x"} <= set(out.sparse_names.to_pylist())
    assert [shape_of(w) for w in ("House", "eBay", "3.14", "l'\u00c9t\u00e9", "...")] == ["Xx", "xXx", "0.0", "x'Xx", "."]
    assert len(shape_of("a1" * 50)) == 8


def test_places_and_repeats_need_no_scores() -> None:
    units = [UnitRecord({"one": 1.0}, tgt=(j, j + 1), tgt_text=w) for j, w in enumerate(["a", "a"])]
    nbest = attach(build([HypRecord(0, "a a", "list:1", units=units)]), source=None, refs=[["a"]], name="list")
    assert columns(nbest, "repeat")["repeat.at_once"].tolist() == [0, 1]
    assert columns(nbest, "place")["place.first"].tolist() == [1, 0]


def test_a_set_uses_what_the_list_allows_and_says_what_it_left_out() -> None:
    said: list[str] = []
    out, vocab = featurize(words([["a b", "a c"]]), FeaturePlan.of("words", TEMPLATES), resources=ALIKE, left_out=said.append)
    kept = [entry.name for entry in vocab.entries]
    assert "slot" in kept
    assert "source_words" not in kept
    lacking = "templates source_words, hypothesis, model1, model1_inverse are left out: they need source sentences"
    assert any(line.startswith(f"{lacking}; import with -s SOURCE") for line in said)
    assert any(
        "template 'lm' is left out: it needs a language model, and none is given; add --lm FILE.arpa" in line for line in said
    )
    assert len(out.unit_names) >= 40
    said.clear()
    _, large = featurize(words([["a b", "a c"]]), FeaturePlan.of("large+word", TEMPLATES), resources=ALIKE, left_out=said.append)
    assert [entry.name for entry in large.entries] == ["word"]
    assert any("'lm_per_word' is left out: it needs a language model among the list's features" in line for line in said)
    with pytest.raises(InputError, match="'source_words' needs source sentences"):  # asked for by name
        featurize(words([["a b"]]), FeaturePlan.of("source_words", TEMPLATES))


def test_the_command_with_a_language_model(boostfeat, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for name in ("dev", "test"):
        write_store(words([["a b", "a c"], ["b a", "c"]]), tmp_path / f"{name}.nbest")
    known = {(w,): (-1.0, -0.25) for w in ("<unk>", "<s>", "</s>", "a", "b", "c")}
    (tmp_path / "lm.arpa").write_text(arpa({**known, ("a", "b"): (-0.25, 0.0)}))
    (tmp_path / "other.arpa").write_text(arpa({(w,): (-1.0, 0.0) for w in ("<s>", "</s>", "A")}))
    featurize = ("featurize", tmp_path / "dev.nbest", "--scale", 1, "-o", tmp_path / "out.nbest")
    code, _, err = boostfeat(*featurize, "--templates", "words", "--lm", tmp_path / "lm.arpa")
    assert code == 0
    assert "templates source_words, hypothesis, model1, model1_inverse are left out: they need source sentences" in err
    out = read_store(tmp_path / "out.nbest")
    assert out.X[out.unit_idx[1], out.unit_names.index("lm.logp")] == pytest.approx(-0.25 * log(10))
    frozen = ("featurize", tmp_path / "test.nbest", "--plan", tmp_path / "out.plan.json", "-o", tmp_path / "test.out")
    code, _, err = boostfeat(*frozen, "--templates", "words", "--lm", tmp_path / "lm.arpa")  # what the list allows of the set
    assert code == 0, err
    assert read_store(tmp_path / "test.out").feature_names == out.feature_names
    code, _, err = boostfeat(*frozen, "--lm", tmp_path / "other.arpa")
    assert (code, "expected the language model of the plan" in err) == (2, True)
    code, _, err = boostfeat(*featurize, "--templates", "lm", "--lm", tmp_path / "other.arpa")
    assert (code, "does not know 100% of the words: is it of the same language, case and tokenisation?" in err) == (0, True)
    code, _, err = boostfeat(*featurize, "--templates", "word", "--lm", tmp_path / "lm.arpa")
    assert (code, "--lm is not used" in err) == (0, True)
