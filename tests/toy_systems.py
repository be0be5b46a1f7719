"""Small random translation systems for tests of the decoder, and the definitions that it is compared with."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np

from boostfeat.model.model import Model
from boostfeat.search.decoder import search
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.lattice import Derivation, Lattice
from boostfeat.trees.tree import Tree

SOURCE = ["a", "b", "c", "d", "e"]
TARGET = ["x", "y", "z", "w"]

Ngrams = dict[tuple[str, ...], tuple[float, float]]  # log10 p and backoff
Pairs = dict[tuple[str, ...], dict[tuple[str, ...], tuple[list[float], int, list[float]]]]  # scores, joint count, msd


def random_ngrams(rng: np.random.Generator, order: int) -> Ngrams:
    """Every n-gram's history is in the model, its last words need not be, as in pruned models. </s> is last, <s> first."""
    words = ["<unk>", "<s>", "</s>", *TARGET]
    out: Ngrams = {(w,): (-float(rng.uniform(0.2, 3)), -float(rng.uniform(0, 1)) * (rng.random() < 0.7)) for w in words}
    for n in range(2, order + 1):
        for history in [h for h in out if len(h) == n - 1 and h[-1] != "</s>"]:
            for w in words[2:]:
                if rng.random() < 0.5:
                    backoff = 0.0 if n == order else -float(rng.uniform(0, 1)) * (rng.random() < 0.7)
                    out[(*history, w)] = (-float(rng.uniform(0.1, 2)), backoff)
    return out


def arpa(ngrams: Ngrams) -> str:
    order = max(map(len, ngrams))
    by_order = [[g for g in ngrams if len(g) == n] for n in range(1, order + 1)]
    head = "".join(f"ngram {n}={len(group)}\n" for n, group in enumerate(by_order, 1))
    lines = ["\\data\\\n" + head]
    for n, group in enumerate(by_order, 1):
        rows = (f"{p!r}\t{' '.join(g)}" + (f"\t{b!r}" if b else "") for g in group for p, b in [ngrams[g]])
        lines.append(f"\\{n}-grams:\n" + "\n".join(rows) + "\n")
    return "\n".join([*lines, "\\end\\\n"])


def naive_lm(ngrams: Ngrams, history: tuple[str, ...], word: str) -> float:
    """ln p(word | history) straight from the definition of a backoff model."""
    gram = (*history, word)
    if gram in ngrams:
        return ngrams[gram][0] * math.log(10)
    return ngrams.get(history, (0, 0.0))[1] * math.log(10) + naive_lm(ngrams, history[1:], word)


def random_pairs(rng: np.random.Generator, *, per_phrase: int) -> Pairs:
    """Phrases of one or two words; the last source word has no translation of its own."""
    out: Pairs = {}
    for src in [*((w,) for w in SOURCE[:-1]), *pairwise(SOURCE)]:
        for _ in range(per_phrase):
            tgt = tuple(rng.choice(TARGET, size=rng.integers(1, 3)).tolist())
            msd = rng.dirichlet(np.ones(3), size=2).round(3).clip(0.01).ravel().tolist()
            if rng.random() < 0.4 and out:
                msd = [*msd[:3], 0.5, 0.25, 0.25]  # equal forward scores are recombined
            out.setdefault(src, {})[tgt] = (rng.uniform(0.01, 1, 4).round(4).tolist(), int(rng.integers(1, 4)), msd)
    return out


def write_system(folder: Path, pairs: Pairs, ngrams: Ngrams) -> dict[str, Path]:
    table, reordering, lm = folder / "pt.gz", folder / "rt", folder / "lm.arpa"
    rows = [(" ".join(s), " ".join(t), *values) for s, by_tgt in pairs.items() for t, values in by_tgt.items()]
    lines = [f"{s} ||| {t} ||| {' '.join(map(str, p))} ||| 0-0 ||| 9 8 {n} ||| |||\n" for s, t, p, n, _ in rows]
    table.write_bytes(gzip.compress("".join(lines[::-1]).encode()))  # unsorted
    reordering.write_text("".join(f"{s} ||| {t} ||| {' '.join(map(str, msd))}\n" for s, t, _, _, msd in rows))
    lm.write_text(arpa(ngrams))
    return {"phrase_table": table, "reordering_table": reordering, "lm": lm}


def stump(name: str, threshold: float, *, value: tuple[float, float], on: str | None = None) -> Tree:
    leaf = {"leaf": "constant"} if on is None else {"leaf": "linear", "on": on}
    nodes = [{"feature": name, "threshold": threshold, "left": 1, "right": 2}, {"value": value[0]}, {"value": value[1]}]
    return Tree.from_json({"name": f"t.{name}", "weight": 0.7, **leaf, "nodes": nodes}, "test")


STATIC_TREES = (stump("count.log", 1.0, value=(-0.4, 0.2)), stump("len.diff", 0.5, value=(0.1, 0.05), on="TranslationModel0_2"))
DEEP = [
    {"feature": "len.tgt", "threshold": 1.5, "left": 1, "right": 2},
    {"feature": "LM0", "threshold": -2.0, "left": 3, "right": 4},
    {"value": 0.2, "intercept": -0.1},
    {"value": -0.3, "intercept": 0.2},
    {"feature": "Distortion0", "threshold": -0.5, "left": 5, "right": 6},
    {"value": 0.1, "intercept": 0.3},
    {"value": 0.4, "intercept": -0.2},
]
CONTEXT_TREES = (
    Tree.from_json({"name": "deep", "weight": -0.6, "leaf": "affine", "on": "Distortion0", "nodes": DEEP}, "test"),
    stump("LM0", -4.0, value=(-0.3, 0.4)),
    stump("Distortion0", -1.5, value=(0.2, -0.1), on="LM0"),
    stump("count.1", 0.5, value=(0.2, 0.1), on="LM0"),
)
REORDERING_TREES = (
    stump("LexicalReordering0_1", -0.5, value=(0.5, -0.2)),
    stump("count.log", 1.0, value=(0.5, -0.2), on="LexicalReordering0_0"),
    stump("LexicalReordering0_3", -0.3, value=(-0.6, 0.3)),
    stump("Distortion0", -0.5, value=(-0.2, 0.3)),
    stump("Distortion0", -0.5, value=(-0.2, 0.3), on="LexicalReordering0_2"),
    stump("Distortion0", -1.5, value=(0.3, -0.4), on="LexicalReordering0_4"),
)


def random_model(rng: np.random.Generator, names: tuple[str, ...], trees: tuple[Tree, ...] = ()) -> Model:
    return Model({name: float(rng.uniform(0.05, 0.5)) for name in names}, trees)


# ---------------------------------------------------------------------------------------------------------------------
# A system whose best translations are known
# ---------------------------------------------------------------------------------------------------------------------

WORDS = 12
# good translations have a high first score and a poor second one; these weights believe the second
START = Model({"TranslationModel0_0": 0.05, "TranslationModel0_1": 0.6, "LM0": 0.05, "WordPenalty0": -0.1, "Distortion0": 0.3})


def write_known_system(folder: Path) -> Path:
    """12 source words with 3 translations each, a unigram model, and 12 + 6 sentences; option 0 is what references have."""
    rng = np.random.default_rng(3)
    lines = []
    for s, o in product(range(WORDS), range(3)):
        good, bad = rng.uniform(0.5, 0.9), rng.uniform(0.05, 0.4)
        scores = (good, bad) if o == 0 else (bad, rng.uniform(0.05, 0.9))
        lines.append(f"s{s:02d} ||| t{s}{'abc'[o]} ||| {scores[0]:.4f} {scores[1]:.4f} ||| 0-0 ||| 5 5 {1 + o} ||| |||\n")
    (folder / "pt").write_text("".join(lines))
    words = [f"t{s}{o}" for s in range(WORDS) for o in "abc"]
    grams = "".join(f"{-1.5 - 0.01 * k:.2f}\t{w}\n" for k, w in enumerate(["<unk>", "</s>", *words]))
    (folder / "lm.arpa").write_text(f"\\data\\\nngram 1={len(words) + 3}\n\n\\1-grams:\n-99\t<s>\n{grams}\n\\end\\\n")
    for name, n in (("dev", 12), ("select", 6), ("test", 6)):
        sentences = rng.integers(0, WORDS, (n, 6))
        (folder / f"{name}.src").write_text("".join(" ".join(f"s{w:02d}" for w in line) + "\n" for line in sentences))
        (folder / f"{name}.ref").write_text("".join(" ".join(f"t{w}a" for w in line) + "\n" for line in sentences))
    START.save(folder / "start.json")
    return folder


def forced(decoder: Decoder, sentence: str, phrases: Sequence[tuple[int, int, str]]) -> Derivation:
    """The derivation that translates these source spans (start, end, target phrase) in this order, feature by feature."""
    lattice = Lattice.of(decoder.system, decoder.scorer, sentence.split())
    spans = list(zip(lattice.start.tolist(), lattice.end.tolist(), map(lattice.text, range(len(lattice.row))), strict=True))
    hyps, chosen = np.full((len(phrases) + 1, search.N_COLUMNS), -1), np.array([spans.index(one) for one in phrases], np.int64)
    hyps[0, [search.STATE, search.END, search.COVERED, search.LATE]] = decoder.system.lm.start, 0, 0, 0
    for k, (start, end, _) in enumerate(phrases):
        _, state = search.phrase_lm(decoder.system.lm.automaton, hyps[k, search.STATE], lattice.options, chosen[k], -1)
        hyps[k + 1, [search.STATE, search.FORWARD]] = state, lattice.options.forward[chosen[k]]
        if len(lattice.moves.late):
            hyps[k + 1, search.LATE] = lattice.moves.late[chosen[k]]
        hyps[k + 1, [search.START, search.END, search.COVERED]] = start, end, hyps[k, search.COVERED] + end - start
    return lattice.derivation(chosen, *lattice.edges(hyps, np.arange(len(phrases)), chosen))
