"""The decoder against enumeration, its scores against Moses' own."""

from __future__ import annotations

import lzma
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from toy_systems import (
    CONTEXT_TREES,
    REORDERING_TREES,
    SOURCE,
    STATIC_TREES,
    Ngrams,
    Pairs,
    forced,
    naive_lm,
    random_model,
    random_ngrams,
    random_pairs,
    stump,
    write_system,
)

from boostfeat.core.errors import InputError
from boostfeat.model.model import Model
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.lattice import Derivation, Lattice
from boostfeat.search.decoder.setup import SearchOptions, read_setup
from boostfeat.search.decoder.system import PhraseSystem
from boostfeat.trees.tree import Tree

UNPRUNED = SearchOptions(stack=0, beam=0, table_limit=0, distortion_limit=-1)

# ---------------------------------------------------------------------------------------------------------------------
# Search against enumeration
# ---------------------------------------------------------------------------------------------------------------------

Step = tuple[int, int, tuple[str, ...]]  # start, end, target words


def enumerate_steps(pairs: Pairs, words: list[str], limit: int) -> Iterator[list[Step]]:
    """The naive twin: every way to cover the words, phrase by phrase, within Moses' distortion limit."""

    def options(start: int, end: int) -> list[tuple[str, ...]]:
        found = list(pairs.get(tuple(words[start:end]), ()))
        return found or ([(words[start],)] if end - start == 1 else [])

    def extend(done: list[Step], free: set[int]) -> Iterator[list[Step]]:
        if not free:
            yield done
            return
        last = done[-1][1] if done else 0
        for start in free:
            for end in range(start + 1, len(words) + 1):
                span = set(range(start, end))
                if not span <= free:
                    break
                is_far = abs(start - last) > limit or (start != min(free) and abs(end - min(free)) > limit)
                if limit < 0 or not is_far:
                    for tgt in options(start, end):
                        yield from extend([*done, (start, end, tgt)], free - span)

    yield from extend([], set(range(len(words))))


def naive_features(
    pairs: Pairs, ngrams: Ngrams, words: list[str], steps: list[Step], *, has_reordering: bool
) -> list[dict[str, float]]:
    """The features of every phrase, from their definitions."""
    rows, history = [], ("<s>",)
    order = max(map(len, ngrams))
    previous: tuple[int, int, list[float]] | None = None
    for k, (start, end, tgt) in enumerate(steps):
        scores, count, msd = pairs.get(tuple(words[start:end]), {}).get(tgt, ([1.0] * 4, 0, [1.0] * 6))
        x = {f"TranslationModel0_{i}": math.log(p) for i, p in enumerate(scores)}
        x |= {"WordPenalty0": -len(tgt), "PhrasePenalty0": 1.0, "Distortion0": -abs(start - (previous[1] if previous else 0))}
        x["LM0"] = 0.0
        for word in (*tgt, *(["</s>"] if k == len(steps) - 1 else [])):
            known = word if (word,) in ngrams else "<unk>"
            x["LM0"] += naive_lm(ngrams, history[1 - order :] if order > 1 else (), known)
            history = (*history, known)
        is_monotone = start == previous[1] if previous else start == 0
        o = 0 if is_monotone else 1 if previous and end == previous[0] else 2
        if has_reordering:
            x |= {f"LexicalReordering0_{i}": 0.0 for i in range(6)}
            x[f"LexicalReordering0_{o}"] = math.log(msd[o])
            if previous:
                x[f"LexicalReordering0_{3 + o}"] = math.log(previous[2][o])
        n, m = end - start, len(tgt)
        x |= {"count.log": math.log(1 + count), "count.0": count == 0, "count.1": count == 1}
        x |= {"len.src": n, "len.tgt": m, "len.diff": m - n, "len.absdiff": abs(m - n), "len.ratio": m / n}
        x["UnknownWordPenalty0"] = -100.0 * (tuple(words[start:end]) not in pairs)
        previous = (start, end, msd[3:])
        rows.append(x)
    return rows


def naive_score(model: Model, rows: list[dict[str, float]]) -> float:
    def tree_value(tree: dict, x: dict[str, float]) -> float:
        node = tree["nodes"][0]
        while "value" not in node:
            node = tree["nodes"][node["left" if x[node["feature"]] <= node["threshold"] else "right"]]
        return tree["weight"] * (node.get("intercept", 0.0) + node["value"] * (x[tree["on"]] if "on" in tree else 1.0))

    linear = sum(model.weights.get(name, 0.0) * value for x in rows for name, value in x.items())
    return linear + sum(tree_value(tree.to_json(), x) for tree in model.trees for x in rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [-1, 0, 2])
@pytest.mark.parametrize(
    ("has_reordering", "trees"), [(True, STATIC_TREES + CONTEXT_TREES + REORDERING_TREES), (False, CONTEXT_TREES), (True, ())]
)
def test_unpruned_search_is_enumeration(
    tmp_path: Path, seed: int, limit: int, has_reordering: bool, trees: tuple[Tree, ...]
) -> None:
    """All derivations with their scores and features, in order; so the best and every k-best are the true ones."""
    rng = np.random.default_rng(seed)
    pairs, ngrams = random_pairs(rng, per_phrase=2), random_ngrams(rng, 3)
    files = write_system(tmp_path, pairs, ngrams)
    if not has_reordering:
        del files["reordering_table"]
    words = rng.choice(SOURCE, size=4).tolist()
    system = PhraseSystem.load(**files, only=[" ".join(words)])
    decoder = Decoder(system, random_model(rng, system.names, trees), replace(UNPRUNED, distortion_limit=limit))
    every: dict[tuple[Step, ...], float] = {}
    for steps in enumerate_steps(pairs, words, limit):
        every[tuple(steps)] = naive_score(
            decoder.model, naive_features(pairs, ngrams, words, steps, has_reordering=has_reordering)
        )
    result = decoder.decode(" ".join(words))
    found = result.nbest(len(every) + 1, distinct=False)
    assert {steps_of(d): d.score for d in found} == pytest.approx(every, abs=1e-9)
    assert len(found) == len(every)
    assert (np.diff([d.score for d in found]) <= 1e-9).all()
    assert result.best.score == pytest.approx(max(every.values()), abs=1e-9)
    by_text: dict[str, float] = {}
    for steps, score in every.items():
        text = " ".join(w for _, _, tgt in steps for w in tgt)
        by_text[text] = max(score, by_text.get(text, score))
    best = sorted(by_text.values(), reverse=True)[:20]
    distinct = result.nbest(20)
    assert [d.score for d in distinct] == pytest.approx(best, abs=1e-9)
    assert all(by_text[d.text] == pytest.approx(d.score, abs=1e-9) for d in distinct)
    for d in distinct:
        rows = naive_features(pairs, ngrams, words, list(steps_of(d)), has_reordering=has_reordering)
        expected = [pytest.approx({n: float(x[n]) for n in result.names}, abs=1e-9) for x in rows]
        assert [u.features for u in d.units] == expected
        again = forced(decoder, " ".join(words), [(*u.src, u.tgt_text) for u in d.units])
        assert again.score == pytest.approx(d.score, abs=1e-9)


def test_words_that_the_table_lacks_are_themselves(tmp_path: Path) -> None:
    """'y' is a word of the language model, 'new' and 'other' are not; in every order they are other strings."""
    rng = np.random.default_rng(2)
    pairs, ngrams = random_pairs(rng, per_phrase=1), random_ngrams(rng, 3)
    system = PhraseSystem.load(**write_system(tmp_path, pairs, ngrams))
    words = ["new", "y", "other", "new"]
    decoder = Decoder(system, random_model(rng, system.names), UNPRUNED)
    best: dict[str, float] = {}
    for steps in enumerate_steps(pairs, words, -1):
        score = naive_score(decoder.model, naive_features(pairs, ngrams, words, steps, has_reordering=True))
        text = " ".join(w for _, _, tgt in steps for w in tgt)
        best[text] = max(score, best.get(text, score))
    assert len(best) == 12
    assert {d.text: d.score for d in decoder.decode(" ".join(words)).nbest(99)} == pytest.approx(best, abs=1e-9)


def steps_of(derivation: Derivation) -> tuple[Step, ...]:
    return tuple((*unit.src, tuple(unit.tgt_text.split())) for unit in derivation.units)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("has_reordering", "trees"), [(True, STATIC_TREES + CONTEXT_TREES + REORDERING_TREES), (False, ())])
def test_estimates_are_those_of_phrases_by_themselves(
    tmp_path: Path, seed: int, has_reordering: bool, trees: tuple[Tree, ...]
) -> None:
    """Every option: no history and no end of the sentence, in monotone order; of reordering only what trees make of it. 'y' is a
    word that the table cannot translate and the language model knows, 'e' and 'new' are new to both."""
    rng = np.random.default_rng(seed)
    pairs, ngrams = random_pairs(rng, per_phrase=3), random_ngrams(rng, 3)
    files = write_system(tmp_path, pairs, ngrams)
    if not has_reordering:
        del files["reordering_table"]
    system = PhraseSystem.load(**files)
    model = random_model(rng, system.names, trees)
    scorer = Decoder(system, model, UNPRUNED).scorer
    linear = Model({name: w for name, w in model.weights.items() if "Reordering" not in name}, model.trees)
    words = ["e", "a", "b", "y", "c", "new", "d", "e", "a"]
    expected: dict[Step, float] = {}
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            own = words[start:end]
            for tgt in pairs.get(tuple(own), {tuple(own): None} if end == start + 1 else {}):
                (x,) = naive_features(pairs, ngrams, own, [(0, len(own), tgt)], has_reordering=has_reordering)
                known = tuple(word if (word,) in ngrams else "<unk>" for word in tgt)
                x["LM0"] = sum(naive_lm(ngrams, known[max(0, i - 2) : i], word) for i, word in enumerate(known))
                expected[start, end, tgt] = naive_score(linear, [x])
    lattice = Lattice.of(system, scorer, words)
    spans = zip(lattice.start.tolist(), lattice.end.tolist(), strict=True)
    found = {(*span, tuple(lattice.text(o).split())): lattice.estimate[o] for o, span in enumerate(spans)}
    assert found == pytest.approx(expected, abs=1e-9)
    of_span: dict[tuple[int, int], list[float]] = {}
    for (start, end, _), value in expected.items():
        of_span.setdefault((start, end), []).append(value)
    for limit in (1, 2):
        few = Lattice.of(system, scorer, words, table_limit=limit)
        best = [value for span in sorted(of_span) for value in sorted(of_span[span], reverse=True)[:limit]]
        assert few.estimate.tolist() == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [SearchOptions(stack=1), SearchOptions(stack=3, beam=0), SearchOptions(stack=0, beam=0.5), SearchOptions(table_limit=1)],
)
def test_pruned_search_finds_derivations_with_their_true_scores(tmp_path: Path, options: SearchOptions) -> None:
    """Pruning loses derivations but never changes a score."""
    rng = np.random.default_rng(5)
    pairs, ngrams = random_pairs(rng, per_phrase=3), random_ngrams(rng, 3)
    system = PhraseSystem.load(**write_system(tmp_path, pairs, ngrams))
    decoder = Decoder(system, random_model(rng, system.names, CONTEXT_TREES), options)
    words = ["a", "b", "e", "c", "d"]
    true = Decoder(system, decoder.model, replace(UNPRUNED, distortion_limit=6)).decode(" ".join(words))
    result = decoder.decode(" ".join(words))
    assert 0 < len(result.found.arcs) < len(true.found.arcs)
    found = result.nbest(50, distinct=False)
    assert found[0].score <= true.best.score + 1e-9
    for d in found:
        rows = naive_features(pairs, ngrams, words, list(steps_of(d)), has_reordering=True)
        assert d.score == pytest.approx(naive_score(decoder.model, rows), abs=1e-9)
    if options.table_limit == 1:
        assert all(
            len({u.tgt_text for d in found for u in d.units if u.src == span}) == 1
            for span in {u.src for d in found for u in d.units}
        )


def test_long_sentences_and_far_jumps(tmp_path: Path) -> None:
    """Coverage is a gap and a window: 150 words decode with a limit; without one, at most a window's words do."""
    rng = np.random.default_rng(1)
    system = PhraseSystem.load(**write_system(tmp_path, random_pairs(rng, per_phrase=2), random_ngrams(rng, 2)))
    decoder = Decoder(system, random_model(rng, system.names), SearchOptions(stack=10))
    sentence = " ".join(rng.choice(SOURCE, 150).tolist())
    for limit in (0, 6, 60):
        best = replace(decoder, options=SearchOptions(stack=10, distortion_limit=limit)).decode(sentence).best
        assert sorted(i for u in best.units for i in range(*u.src)) == list(range(150))
        starts, ends = [u.src[0] for u in best.units], [0, *(u.src[1] for u in best.units)]
        assert max(abs(s - e) for s, e in zip(starts, ends, strict=False)) <= limit
    anywhere = replace(decoder, options=SearchOptions(stack=10, distortion_limit=-1))
    assert len(anywhere.decode(" ".join(SOURCE * 12)).best.units) > 30
    with pytest.raises(InputError, match=r"expected at most 60 words where distortion has no limit, found 61; give a limit"):
        anywhere.decode(" ".join(["a"] * 61))


# ---------------------------------------------------------------------------------------------------------------------
# Moses itself
# ---------------------------------------------------------------------------------------------------------------------

N_REAL = 40


@pytest.fixture(scope="module")
def moses(real: Path) -> tuple[Decoder, list[str], list[tuple[float, list[tuple[int, int, str]], np.ndarray]]]:
    """The fi-en system with its weights, and Moses' best derivations of the first sentences: score, phrases, their features."""
    folder = real / "fi-en"
    with open(folder / "test.fi") as lines:
        sentences = [line.strip() for line in islice(lines, N_REAL)]
    files = {
        key: folder / "system" / f"{name}.xz"
        for key, name in (("phrase_table", "phrase-table.test"), ("lm", "lm.arpa"), ("reordering_table", "reordering-table.test"))
    }
    system = PhraseSystem.load(**files, only=sentences)
    ini = read_setup(folder / "moses.ini")
    derivations = []
    with lzma.open(folder / "test.200.enriched.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            if int(line.split(" ", 1)[0]) != len(derivations):
                continue
            _, text, _, score, *_ = line.split(" ||| ")
            pieces = text.split("|")
            phrases, rows = [], []
            for phrase, block in zip(pieces[:-1:2], pieces[1::2], strict=True):
                span, features = block.split(",", 1)[0], block.split(",", 3)[3]
                start, end = map(int, span.split("-"))
                phrases.append((start, end + 1, " ".join(phrase.split())))
                rows.append([float(v) for v in features.split() if not v.endswith("=")])
            derivations.append((float(score), phrases, np.array(rows)))
            if len(derivations) == N_REAL:
                break
    return (
        Decoder(system, Model(ini.weights), SearchOptions(distortion_limit=ini.distortion_limit or 0), unknown_weight=1.0),
        sentences,
        derivations,
    )


def test_scores_of_moses_derivations(moses: tuple) -> None:
    """Moses printed six digits: per feature and phrase equal to 1e-3 (found: 5e-5)."""
    decoder, sentences, derivations = moses
    for sentence, (score, phrases, rows) in zip(sentences, derivations, strict=True):
        ours = forced(decoder, sentence, phrases)
        np.testing.assert_allclose([[*unit.features.values()] for unit in ours.units], rows, atol=1e-3)
        assert ours.score == pytest.approx(score, abs=1e-3)


def test_search_is_as_good_as_moses(moses: tuple) -> None:
    """The best score found is at least Moses' for nearly all sentences, with the same limits."""
    decoder, sentences, derivations = moses
    best = np.array([result.best.score for result in decoder.decode_all(sentences)])
    assert np.mean(best >= [score - 1e-3 for score, _, _ in derivations]) >= 0.9


def test_language_model_equals_kenlm_on_real_text(moses: tuple, real: Path, tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    (tmp_path / "lm.arpa").write_bytes(lzma.open(real / "fi-en" / "system" / "lm.arpa.xz").read())
    theirs, ours = kenlm.Model(str(tmp_path / "lm.arpa")), moses[0].system.lm
    with open(real / "fi-en" / "test.en") as lines:
        for line in map(str.strip, islice(lines, 300)):
            logp, _, _, _, end = ours.words(line.split())
            assert sum(logp) + end == pytest.approx(theirs.score(line) * math.log(10), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["context", "static", "linear"])
def test_trees_cost_at_most_half_more(moses: tuple, kind: str) -> None:
    """25 two-leaf trees in search against none, by processor time. Small values: both search about the same graph."""
    decoder, sentences, derivations = moses
    x = np.vstack([rows for _, _, rows in derivations])
    rng = np.random.default_rng(0)
    columns = range(8, 14) if kind == "static" else range(8)
    trees = []
    for m in range(25):
        j = int(rng.choice(columns))
        value = tuple((1e-3 * rng.normal(size=2)).tolist())
        tree = stump(
            decoder.names[j],
            float(np.quantile(x[:, j], rng.uniform(0.1, 0.9))),
            value=value,
            on="LM0" if kind == "linear" else None,
        )
        trees.append(replace(tree, name=f"tree.{m}"))
    seconds = {}
    for name, one in (("without", decoder), ("with", decoder.with_model(replace(decoder.model, trees=tuple(trees))))):
        one.decode(sentences[0])
        times = []
        for _ in range(5):
            started = time.process_time()
            for sentence in sentences[:20]:
                one.decode(sentence)
            times.append(time.process_time() - started)
        seconds[name] = min(times)
    assert seconds["with"] <= 1.5 * seconds["without"], seconds
