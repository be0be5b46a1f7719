"""Templates for word units: values by hand, a naive twin of the slots, and sets that use what the list allows."""

from __future__ import annotations

from collections import defaultdict
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import build, quick

from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, Resources, featurize
from boostfeat.features.resources import Posterior
from boostfeat.lists.build import HypRecord, UnitRecord, attach
from boostfeat.lists.nbest import NBest

ALIKE = Resources(posterior=Posterior(scale=1.0))


def words(lists: list[list[str]], *, source: list[str] | None = None) -> NBest:
    """Lists of texts whose words are units; all hypotheses have the score 0."""
    hyps = []
    for s, texts in enumerate(lists):
        for k, text in enumerate(texts):
            units = [UnitRecord({"one": 1.0}, tgt=(j, j + 1), tgt_text=w) for j, w in enumerate(text.split())]
            hyps.append(HypRecord(s, text, f"list:{s}.{k}", 0.0, units=units))
    return attach(build(hyps), source=source, refs=[["a b"] * len(lists)], name="list")


def columns(nbest: NBest, template: str) -> dict[str, np.ndarray]:
    """[R] the values of a template's columns for each occurrence."""
    out, _ = featurize(nbest, FeaturePlan.of(template, TEMPLATES), resources=ALIKE)
    return {name: out.X[out.unit_idx, j] for j, name in enumerate(out.unit_names) if name != "one"}


def test_marks_of_words() -> None:
    found = columns(words([["NATO in 1949 , well-known o'clock ж"]]), "word")
    expected = {
        "word.letters": [4, 2, 4, 1, 10, 7, 1],
        "word.upper": [1, 0, 1, 0, 0, 0, 0],
        "word.title": [1, 0, 0, 0, 0, 0, 0],
        "word.digit": [0, 0, 1, 0, 0, 0, 0],
        "word.punct": [0, 0, 0, 1, 0, 0, 0],
        "word.hyphen": [0, 0, 0, 0, 1, 0, 0],
        "word.apostrophe": [0, 0, 0, 0, 0, 1, 0],
        "word.foreign": [0, 0, 0, 0, 0, 0, 1],
    }
    for name, values in expected.items():
        assert found[name].tolist() == values, name


def test_frequencies_are_of_first_hypotheses_and_references_of_the_dev_list() -> None:
    dev = words([["a a b", "z z z z"], ["a c", "q"]])  # the references are a b, twice
    _, vocab = featurize(dev, FeaturePlan.of("frequency", TEMPLATES))
    assert dict(vocab.entries[0].options["frequencies"]) == {"a": 5, "b": 3, "c": 1}
    other, _ = featurize(words([["b z"]]), vocab)
    row = {name: other.X[other.unit_idx, j].tolist() for j, name in enumerate(other.unit_names)}
    assert row["freq.log"] == pytest.approx([log(4), 0.0])
    assert row["freq.unknown"] == [0, 1]
    assert row["freq.top10"] == [1, 0]


def test_places_and_repeats() -> None:
    nbest = words([["a b a b b"]])
    place, repeat = columns(nbest, "place"), columns(nbest, "repeat")
    assert place["place.first"].tolist() == [1, 0, 0, 0, 0]
    assert place["place.last"].tolist() == [0, 0, 0, 0, 1]
    assert place["place.fifth3"].tolist() == [0, 0, 1, 0, 0]
    assert repeat["repeat.at_once"].tolist() == [0, 0, 0, 0, 1]
    assert repeat["repeat.before"].tolist() == [0, 0, 1, 1, 1]
    assert repeat["repeat.bigram"].tolist() == [0, 0, 0, 1, 0]
    assert repeat["repeat.times"].tolist() == [0, 0, 1, 1, 2]


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
@given(st.lists(texts, min_size=1, max_size=5).filter(any))
def test_posteriors_of_slots_by_a_naive_twin(hyps: list[str]) -> None:
    nbest = words([hyps])
    found = columns(nbest, "slot").get("slot.p", np.zeros(0))
    slots: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    placed = []
    for text in hyps:
        for place, word in naive_alignment(hyps[0].split(), text.split()):
            slots[place][word] += 1 / len(hyps)
            placed.append((place, word))
    expected = [round(64 * min(1.0, slots[place][word])) / 64 for place, word in placed]
    assert found.tolist() == pytest.approx(expected)


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


def test_a_set_uses_what_the_list_allows_and_says_what_it_left_out() -> None:
    said: list[str] = []
    out, vocab = featurize(words([["a b", "a c"]]), FeaturePlan.of("words", TEMPLATES), resources=ALIKE, left_out=said.append)
    kept = [entry.name for entry in vocab.entries]
    assert "slot" in kept
    assert "source_words" not in kept
    assert any("'source_words' is left out: it needs source sentences; import with -s SOURCE" in line for line in said)
    assert len(out.unit_names) >= 40
    with pytest.raises(InputError, match="'source_words' needs source sentences"):  # asked for by name
        featurize(words([["a b"]]), FeaturePlan.of("source_words", TEMPLATES))
