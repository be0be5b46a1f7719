"""Whole searches of a small system: what pruning leaves, the best translations, search graphs line by line; and their parts.

Scores are those of ``test_decoder``'s enumeration; which hypotheses pruning leaves is compared with a file that the search of release
0.2 made (``golden.py`` says how it is made again).
"""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from golden import check_golden
from interpreting import interpreted
from toy_systems import CONTEXT_TREES, REORDERING_TREES, STATIC_TREES, random_model, random_ngrams, random_pairs, write_system

from boostfeat.core.arrays import offsets
from boostfeat.model.model import Model
from boostfeat.search.decoder import search
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.output import graph_names, write_search_graph
from boostfeat.search.decoder.search_options import WINDOW, SearchOptions
from boostfeat.search.decoder.system import System

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
    system = System.load(
        **write_system(tmp_path_factory.mktemp("system"), random_pairs(rng, per_phrase=3), random_ngrams(rng, 3))
    )
    model = random_model(rng, (*system.names, "UnknownWordPenalty0"), STATIC_TREES + CONTEXT_TREES + REORDERING_TREES)
    return Decoder(system, model)


def test_what_pruning_leaves(decoder: Decoder) -> None:
    found = {}
    for name, options in OPTIONS.items():
        for sentence in SENTENCES:
            result = Decoder(decoder.system, decoder.model, options).decode(sentence)
            assert result.found is not None
            counts = {"hypotheses": len(result.found.hyps), "arcs": len(result.found.arcs), "used": [*map(len, result.graph)]}
            found[f"{name}: {sentence}"] = counts | {"best": [[d.text, d.score] for d in result.nbest(3)]}
    check_golden(found, Path(__file__).with_name("whole_searches.json"))


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


@pytest.mark.parametrize(
    ("more", "grows"),
    [(1, ""), (973, ""), (974, "hyps"), (4045, "hyps"), (4046, "hyps chains"), (4056, "hyps chains"), (4057, "all")],
)
def test_a_larger_space_holds_the_same(more: int, grows: str) -> None:
    """51 hypotheses and 40 arcs in room for 1,024 and 4,096; every key is found again, and a new one is new."""
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(-1, 3, (200, search.N_KEYS)), axis=0)[:60]
    with interpreted():
        old = search._start(3, 7, -1.5)
        at = [int(search._find(old, key, k % 4)) for k, key in enumerate(keys[:50])]
        assert at == list(range(1, 51))
        old.arcs[:40], old.arc_scores[:40, 0], old.used[1] = rng.integers(0, 50, (40, 3)), rng.normal(size=40), 40
        before = [column.copy() for column in (old.hyps[:51], old.scores[:51], old.arcs[:40], old.arc_scores[:40])]
        new = search._with_room(old, more)
        own = [c != search.CHAIN for c in range(search.N_COLUMNS)]
        assert np.array_equal(new.hyps[:51, own], before[0][:, own])
        for column, expected in zip((new.scores[:51], new.arcs[:40], new.arc_scores[:40]), before[1:], strict=True):
            assert np.array_equal(column, expected)
        assert min(len(new.hyps), len(new.scores)) >= 51 + more
        assert min(len(new.arcs), len(new.arc_scores)) >= 40 + more
        sizes = [len(new.hyps) > 1024, len(new.chains) > 4096, len(new.arcs) > 4096]
        assert sizes == [grows == "all" or name in grows for name in ("hyps", "chains", "arcs")]
        assert (new is old) == (not grows)
        assert [int(search._find(new, key, 0)) for key in keys[:50]] == at
        assert [int(search._find(new, key, 0)) for key in keys[50:]] == list(range(51, 61))
        assert new.used.tolist() == [61, 40]
        assert (new.first.tolist(), new.size.tolist()) == ([0, -1, -1, -1], [1, 0, 0, 0])


def coverage(covered: set[int], n: int) -> tuple[int, int]:
    """The first gap, and a bit for each word behind it."""
    gap = min(set(range(n + 1)) - covered)
    return gap, sum(1 << (i - gap - 1) for i in covered if i > gap)


def test_coverage_against_sets() -> None:
    """Every way to cover some of seven words, and each span that can be covered next; Σ of the runs that are left."""
    n, rng = 7, np.random.default_rng(0)
    future = np.where(np.triu(np.ones((n + 1, n + 1)), 1) > 0, rng.integers(-99, -1, (n + 1, n + 1)), np.nan)
    with interpreted():
        for number in range(2**n):
            covered = {i for i in range(n) if number >> i & 1}
            gap, bits = coverage(covered, n)
            assert [bool(search._is_covered(gap, bits, i)) for i in range(gap, n)] == [i in covered for i in range(gap, n)]
            cuts = [i for i in range(n + 1) if (i in covered or i == n) != (i - 1 in covered or i == 0)]
            runs = zip(cuts[::2], cuts[1::2], strict=True)
            assert search._remaining(gap, bits, future, n) == sum(future[a, b] for a, b in runs)
            for start in range(gap, n):
                for end in range(start + 1, n + 1):
                    span = set(range(start, end))
                    if span.isdisjoint(covered):
                        assert search._covered(gap, bits, start, end) == coverage(covered | span, n)
        far = 1 << (WINDOW - 1)
        assert [bool(search._is_covered(3, far, 3 + k)) for k in (0, 1, WINDOW - 1, WINDOW, WINDOW + 1)] == [False] * 3 + [
            True,
            False,
        ]


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
