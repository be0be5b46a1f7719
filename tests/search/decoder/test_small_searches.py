"""Searches of four words, kernels run as Python, against a plain search: every path of the graph, and what pruning leaves of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from interpreting import interpreted
from toy_systems import CONTEXT_TREES, REORDERING_TREES, TARGET, arpa, random_ngrams, stump

from boostfeat.core.arrays import offsets
from boostfeat.features.language_model import LanguageModel, extend, extend_all
from boostfeat.search.decoder import search
from boostfeat.search.decoder.search_templates import no_moves
from boostfeat.search.decoder.search_trees import pack
from boostfeat.search.decoder.system import EDGE
from boostfeat.trees.tree import Tree

pytestmark = pytest.mark.quick

N, LONGEST = 4, 2
STATIC = ("len.tgt", "count.log", "count.1")
WORD_TREES = (
    stump("lm.word.LM0", -1.0, value=(0.3, -0.2)),
    stump("lm.word.LM0<q25", 0.5, value=(0.1, 0.4), on="lm.word.LM0"),
    stump("prev.none", 0.5, value=(-0.2, 0.5), on="lm.word.LM0<q75"),
    stump("ori.<swap", 0.5, value=(0.2, -0.6), on="jump.log"),
)
KINDS = ("plain", "reordering", "trees", "templates")


class Case(NamedTuple):
    task: search.SearchTask
    trees: tuple[Tree, ...]
    span: list[tuple[int, int]]  # of each option


def a_case(kind: str, seed: int, folder: Path, **limits: Any) -> Case:
    """Random options, one to three a span (some have none), and all that a model can say about edges of this kind."""
    rng = np.random.default_rng(seed)
    (folder / "lm").write_text(arpa(random_ngrams(rng, 3)))
    lm = LanguageModel.load(folder / "lm")
    counts = np.array([[1 + rng.integers(0, 2), rng.integers(0, 3) * (start + 1 < N)] for start in range(N)]).ravel()
    span = [(k // LONGEST, k // LONGEST + k % LONGEST + 1) for k in range(N * LONGEST) for _ in range(counts[k])]
    words = [rng.choice(TARGET, size=rng.integers(0, 3)).tolist() for _ in span]
    n, has_table = len(span), kind != "plain"
    ahead = np.array([[-0.1, -0.9, -0.3], [-0.5, -0.2, -0.7]])
    options = search.Options(
        span_ptr=offsets(counts),
        score=rng.uniform(-2, 0, n),
        x=np.stack([[float(len(w)) for w in words], rng.uniform(0, 2, n), rng.integers(0, 2, n)], axis=1),
        word_ptr=offsets(np.array([len(w) for w in words])),
        words=lm.ids([word for own in words for word in own]),
        backward=rng.uniform(-1, 0, (n, 3)) if has_table else np.zeros((n, 3)),
        forward=rng.integers(0, 2, n).astype(np.int32) if has_table else np.full(n, -1, np.int32),
        ahead=ahead,
    )
    weights = rng.uniform(0.05, 0.5, len(EDGE))
    moves, quantiles = no_moves(), np.zeros(0)
    trees = {"trees": CONTEXT_TREES + REORDERING_TREES, "templates": CONTEXT_TREES + WORD_TREES}.get(kind, ())
    if kind == "templates":
        quantiles = np.array([-3.0, -1.5, -0.8, -0.4])
        weights = rng.uniform(-0.5, 0.5, len(EDGE))
        moves = search.Moves(
            back=rng.normal(size=(n, 4)),
            late=rng.integers(1, 4, n).astype(np.int32),
            ahead=rng.normal(size=(4, 4)),
            last=rng.integers(0, 2, 4).astype(np.int32),
            first=rng.integers(0, 3, n).astype(np.int32),
            bigrams=rng.normal(size=(2, 3)),
            initial=rng.normal(size=n),
            final=rng.normal(size=n),
        )
    else:
        weights[8:] = 0.0
    future = np.empty((N + 1, N + 1))
    search.future_scores(N, LONGEST, options.span_ptr, options.score - 1.0, future)
    task = search.SearchTask(
        n=N,
        options=options,
        future=future,
        lm=lm.automaton,
        start_state=lm.start,
        end_word=lm.end,
        weights=weights,
        trees=pack(trees, EDGE, STATIC, ahead, quantiles.tolist()),
        moves=moves,
        quantiles=quantiles,
        keeps_span=kind == "templates",
        limits=search.SearchLimits(LONGEST, limits.get("stack", 0), limits.get("beam", math.inf), limits.get("distortion", -1)),
    )
    return Case(task, trees, span)


class Hyp(NamedTuple):
    """What tells hypotheses apart."""

    covered: frozenset[int]
    state: int
    start: int
    end: int
    forward: int
    late: int


def edge(case: Case, hyp: Hyp, o: int) -> tuple[float, Hyp]:
    """The score of an option after a hypothesis, from the definitions of the features, and the hypothesis that it leads to."""
    task, (start, end) = case.task, case.span[o]
    options, moves = task.options, task.moves
    covered = hyp.covered | set(range(start, end))
    is_first, is_last, jump = not hyp.covered, len(covered) == N, start - hyp.end
    orientation = 0 if jump == 0 else 1 if end == hyp.start else 2
    move = ("mono", "swap", "right" if jump > 0 else "left")[orientation]
    words = options.words[options.word_ptr[o] : options.word_ptr[o + 1]]
    lm, state = extend_all(task.lm, hyp.state, words)
    if is_last:
        lm, state = lm + extend(task.lm, state, task.end_word)[0], 0
    x = dict.fromkeys(EDGE, 0.0) | dict(zip(STATIC, options.x[o].tolist(), strict=True))
    x[f"LexicalReordering0_{orientation}"] = options.backward[o, orientation]
    if hyp.forward >= 0:
        x[f"LexicalReordering0_{3 + orientation}"] = options.ahead[hyp.forward, orientation]
    x |= {"Distortion0": -abs(jump), "LM0": lm, "jump.signed": jump, "jump.log": math.log(1 + abs(jump))}
    x |= {"jump.left": max(-jump, 0), "jump.far": float(abs(jump) > 5), f"ori.<{move}": 1.0}
    x |= {"prev.none": float(is_first), "next.none": float(is_last)}
    if len(task.quantiles):
        x["lm.word.LM0"] = lm / len(words) if len(words) else 0.0
        for name, q in zip(("q10", "q25", "q75", "q90"), task.quantiles, strict=True):
            x[f"lm.word.LM0<{name}"] = float(x["lm.word.LM0"] < q)
    score = float(options.score[o]) + sum(w * x[name] for name, w in zip(EDGE, task.weights.tolist(), strict=True))
    score += sum(tree_value(tree, x) for tree in case.trees)
    if len(moves.back):
        k = ("mono", "swap", "right", "left").index(move)
        score += moves.back[o, k] + moves.ahead[hyp.late, k] + moves.bigrams[moves.last[hyp.late], moves.first[o]]
        score += moves.initial[o] * is_first + moves.final[o] * is_last
    if is_last:
        return score, Hyp(frozenset(covered), 0, -1, N, -1, 0)
    keeps = task.keeps_span or options.forward[o] >= 0
    late = int(moves.late[o]) if len(moves.back) else 0
    return score, Hyp(frozenset(covered), int(state), start if keeps else -1, end, int(options.forward[o]), late)


def tree_value(tree: Tree, x: dict[str, float]) -> float:
    node = 0
    while tree.left[node] >= 0:
        node = int(tree.left[node] if x[tree.feature[node]] <= tree.threshold[node] else tree.right[node])
    if tree.on is None:
        return tree.weight * float(tree.value[node])
    return tree.weight * float(tree.intercept[node] + tree.value[node] * x[tree.on])


def follow(case: Case, hyp: Hyp) -> Iterator[int]:
    """The options that may come next: Moses' distortion limit is of jumps, and of the way back to the first gap."""
    limit, free = case.task.limits.distortion, set(range(N)) - hyp.covered
    for o, (start, end) in enumerate(case.span):
        if set(range(start, end)) <= free:
            is_far = abs(start - hyp.end) > limit or (start != min(free) and end - min(free) > limit)
            if limit < 0 or not is_far:
                yield o


def first_hyp(case: Case) -> Hyp:
    return Hyp(frozenset(), case.task.start_state, -1, 0, -1, 0)


def pruned(case: Case) -> tuple[dict[Hyp, float], float]:
    """A plain beam search: the hypotheses that it goes on from, with their scores, and the score of the best translation."""
    task, limits = case.task, case.task.limits
    stacks: list[dict[Hyp, float]] = [{} for _ in range(N + 1)]
    stacks[0][first_hyp(case)] = 0.0
    kept: dict[Hyp, float] = {}

    def total(hyp: Hyp, score: float) -> float:
        rest = [i for i in range(N) if i not in hyp.covered]
        runs = [(i, next(j for j in range(i, N + 1) if j == N or j in hyp.covered)) for i in rest if i - 1 not in rest]
        return score + sum(float(task.future[a, b]) for a, b in runs)

    for stack in stacks[:N]:
        ranked = sorted(stack.items(), key=lambda one: -total(*one))
        if limits.stack:
            ranked = ranked[: limits.stack]
        for hyp, score in ranked:
            if total(hyp, score) >= total(*ranked[0]) - limits.beam:
                kept[hyp] = score
                for o in follow(case, hyp):
                    added, after = edge(case, hyp, o)
                    own = stacks[len(after.covered)]
                    own[after] = max(own.get(after, -math.inf), score + added)
    return kept, max(stacks[N].values())


@pytest.mark.parametrize("limits", [{"stack": 1}, {"stack": 3}, {"beam": 0.4}, {"beam": 1.5, "stack": 4}], ids=str)
@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_pruning_leaves_what_a_plain_search_leaves(kind: str, seed: int, limits: dict[str, Any], tmp_path: Path) -> None:
    with interpreted():
        case = a_case(kind, seed, tmp_path, **limits)
        found = search.Searched(*search.search(case.task))
        kept, best = pruned(case)
    assert found.scores[found.goal, search.SCORE] == pytest.approx(best)
    names = [
        Hyp(
            frozenset({*range(h[search.GAP]), *(h[search.GAP] + 1 + i for i in range(N) if h[search.BITS] >> i & 1)}),
            *h[[search.STATE, search.START, search.END, search.FORWARD, search.LATE]].tolist(),
        )
        for h in found.hyps
    ]
    assert len(set(names)) == len(names)
    tails = set(found.arcs[:, 1].tolist())
    assert {names[t] for t in tails} <= set(kept)
    assert [found.scores[t, search.SCORE] for t in tails] == pytest.approx([kept[names[t]] for t in tails])
    assert {names[h].covered for h in tails} == {hyp.covered for hyp in kept if hyp in {names[t] for t in tails}}
    scores = {names[h]: float(found.scores[h, search.SCORE]) for h in range(len(names))}
    assert all(scores[hyp] == pytest.approx(score) for hyp, score in kept.items())
