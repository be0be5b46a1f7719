"""Whole searches of a small system: what pruning leaves, the best translations, search graphs line by line; and their parts.

Scores are those of ``test_decoder``'s enumeration; which hypotheses pruning leaves is compared with a file that the search of release
0.2 made (``golden.py`` says how it is made again).
"""

from __future__ import annotations

import io
from collections import defaultdict

import numpy as np
import pytest
from interpreting import interpreted
from toy_systems import CONTEXT_TREES, REORDERING_TREES, STATIC_TREES, random_model, random_ngrams, random_pairs, write_system

from boostfeat.core.arrays import offsets
from boostfeat.model.model import Model
from boostfeat.search.decoder import search
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.output import graph_names, write_search_graph
from boostfeat.search.decoder.setup import SearchOptions
from boostfeat.search.decoder.system import PhraseSystem

pytestmark = pytest.mark.quick

SENTENCES = ["a b c d", "e d new c b a", "d c b a d c b a"]
OPTIONS = {
    "as given": SearchOptions(stack=100),
    "stack 1": SearchOptions(stack=1),
    "stack 2": SearchOptions(stack=2, beam=0),
    "stack 7": SearchOptions(stack=7, beam=0),
    "beam": SearchOptions(stack=0, beam=0.3),
    "table": SearchOptions(stack=20, table_limit=2),
    "monotone": SearchOptions(stack=20, distortion_limit=0),
    "near": SearchOptions(stack=20, distortion_limit=2),
    "anywhere": SearchOptions(stack=20, distortion_limit=-1),
}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """With all kinds of trees."""
    rng = np.random.default_rng(3)
    system = PhraseSystem.load(
        **write_system(tmp_path_factory.mktemp("system"), random_pairs(rng, per_phrase=3), random_ngrams(rng, 3))
    )
    model = random_model(rng, (*system.names, "UnknownWordPenalty0"), STATIC_TREES + CONTEXT_TREES + REORDERING_TREES)
    return Decoder(system, model)


def lines_of(decoder: Decoder, sentence: str) -> list[dict[str, str]]:
    stream = io.BytesIO()
    write_search_graph(stream, decoder.decode(sentence), 7)
    out = []
    for line in stream.getvalue().decode().splitlines():
        head, _, tail = line.partition(' scores="')
        number, *fields = head.split(" ")
        assert number == "7"
        scores, _, said = tail.partition('" out="')
        out.append(dict(field.split("=", 1) for field in fields) | ({"scores": scores, "out": said[:-1]} if tail else {}))
    return out


@pytest.mark.parametrize("options", ["stack 2", "near", "anywhere"])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_lines_of_a_graph(options: str, sentence: str, decoder: Decoder) -> None:
    """Every field follows from those of other lines, and the features of an edge give its score, without trees: what osgx means."""
    searched = Decoder(decoder.system, Model(decoder.model.weights), OPTIONS[options], extra=("count.log", "len.diff"))
    start, *lines = lines_of(searched, sentence)
    words, result = sentence.split(), searched.decode(sentence)
    names, weights = graph_names(searched.names), decoder.model.weights
    assert start["hyp"] == start["stack"] == "0"
    own = [line for line in lines if "recombined" not in line]
    assert [int(line["hyp"]) for line in own] == list(range(1, len(own) + 1))  # numbered one after the other
    extra = [int(line["hyp"]) for line in lines if "recombined" in line]
    assert extra == list(range(len(own) + 1, len(lines) + 1))
    score = {0: 0.0} | {int(line["hyp"]): float(line["score"]) for line in own}
    stack = {0: 0} | {int(line["hyp"]): int(line["stack"]) for line in own}
    onward: dict[int, list[tuple[float, int]]] = defaultdict(list)
    rest = {len(own): 0.0}
    for line in reversed(lines):  # heads before tails
        head, back = int(line.get("recombined", line["hyp"])), int(line["back"])
        assert back < head
        onward[back].append((float(line["transition"]) + rest[head], head))
        rest[back] = max(value for value, _ in onward[back])
    assert float(start["fscore"]) == pytest.approx(rest[0])
    assert float(start["fscore"]) == pytest.approx(result.best.score)
    for line in [start, *lines]:
        head = int(line.get("recombined", line["hyp"]))
        follows = int(line["forward"])
        assert follows == -1 if head == len(own) else (rest[head], follows) == max(onward[head], key=lambda one: one[0])
        if line is start:
            continue
        back, (first, last) = int(line["back"]), map(int, line["covered"].split("-"))
        assert int(line["stack"]) == stack[head] == stack[back] + last - first + 1
        assert float(line["score"]) == pytest.approx(score[back] + float(line["transition"]))
        assert float(line["score"]) <= score[head] + 1e-9
        assert float(line["fscore"]) == pytest.approx(float(line["score"]) + rest[head])
        assert line["out"].partition("|")[0] == " ".join(words[first : last + 1])
        core, _, others = line["scores"].removeprefix("core=(").partition(") ")
        x = dict(zip(names, map(float, core.split(",")), strict=True))
        x |= {name: float(value) for name, value in (one.split("=") for one in others.split())}
        assert set(x) == {*searched.names, "UnknownWordPenalty0"}
        is_unknown = words[first : last + 1] in (["new"], ["e"])
        assert x["UnknownWordPenalty0"] == -100 * is_unknown
        assert x["WordPenalty0"] == -len(line["out"].partition("|")[2].split())
        assert float(line["transition"]) == pytest.approx(sum(weights.get(name, 0.0) * value for name, value in x.items()))
    assert len(own) > len(words)


def test_future_scores_are_the_best_sums() -> None:
    """Over every way to cut a span of five words into phrases of up to three, of which some have no translation."""
    n, longest, rng = 5, 3, np.random.default_rng(1)
    counts = rng.integers(0, 3, n * longest)
    for i in range(n):
        for length in range(1, longest + 1):
            counts[i * longest + length - 1] *= i + length <= n
            if length == 1:
                counts[i * longest] += 1
    ptr, estimate = offsets(counts), rng.normal(size=counts.sum())

    def best(i: int, j: int) -> float:
        own = [estimate[ptr[s] : ptr[s + 1]].max(initial=-np.inf) for s in [i * longest + j - i - 1] if j - i <= longest]
        return max([*own, *(best(i, k) + best(k, j) for k in range(i + 1, j))])

    out = np.empty((n + 1, n + 1))
    with interpreted():
        search.future_scores(n, longest, ptr, estimate, out)
    for i in range(n):
        for j in range(i + 1, n + 1):
            assert out[i, j] == pytest.approx(best(i, j))
    assert (out[np.tril_indices(n + 1)] == -np.inf).all()
