"""n-best stores of any size with the redundancy of real ones, written in parts: a store may be larger than memory.

    python generate.py OUT.nbest --sentences 12000 --hyps 500 --features 190      # the Finnish job of [TA13]
    python generate.py OUT.nbest --sentences 15000 --hyps 500 --distinct          # every occurrence a row of its own
    python generate.py OUT.nbest --sentences 2500 --compare fi-en.nbest           # beside the statistics of a real list

A sentence has slots (source phrases), each with options (phrase pairs) in the order in which an untuned decoder likes them. A
hypothesis departs from the favourites in a few slots; no two of a list are equal, the best by the decoder's score come first. A
unit is an option in the context of the option before it; those of the last slot come from a pool that all sentences share.
An option's worth is known (synthetic.worth: linear, but for rare pairs): the reference takes the option worth most
among the first few of each slot, and BLEU is computed from the words. Sentences come in blocks with a seed each: a smaller store is the beginning
of a larger one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from synthetic import NAMES, features, worth

from boostfeat.core.arrays import F64, I32, I64, Array, offsets, owners, segment_argmax, segment_positions
from boostfeat.core.kernels import kernel
from boostfeat.core.text import Strings
from boostfeat.lists.build import with_stats
from boostfeat.lists.choices import Scorer
from boostfeat.lists.nbest import NBest, SparseRows, Units, strings, take_strings
from boostfeat.lists.precision import KEY, with_precision
from boostfeat.lists.store import StoreWriter, read_store
from boostfeat.metrics.bleu import sentence_bleu

BLOCK = 50  # sentences made at a time
OPTIONS = 24  # of a slot
DEPARTURES = 1.1  # slots, on average, in which a hypothesis departs from the decoder's favourites (lists of distinct ones: more)
DEPTH = 0.42  # of the geometric distribution of how far down the options
POOL, CONTEXTS = 200, 8  # kinds of last slots, and contexts that tell their units apart
NEAR = 4  # the reference takes the best of the decoder's favourites
COMMON = 0.75  # share of an option's words that its slot's others have, too
MISSED = 0.17  # share of the reference's words that no option has
VOCABULARY = 50_000
CONTEXT = ("LM0", "LexicalReordering0_0", "LexicalReordering0_1", "LexicalReordering0_2", "Distortion0")


@dataclass(frozen=True)
class Sizes:
    sentences: int = 500
    hyps: int = 200  # a sentence; short sentences have fewer
    features: int = 14  # dense, at least four
    sparse: int = 0  # names of sparse features, of Zipf's frequencies
    per_unit: int = 4  # sparse features of a unit
    distinct: bool = False  # every occurrence is a unit of its own

    def names(self) -> tuple[str, ...]:
        known = (*NAMES, *CONTEXT[1:], "WordPenalty0", "PhrasePenalty0")
        return (*known, *(f"Template_{k}" for k in range(self.features - len(known))))[: self.features]


@dataclass(frozen=True)
class Options:
    """Phrase pairs [n]: what is known of them outside their context."""

    x: F64  # [n, D]
    sparse: SparseRows
    word_ptr: I64
    words: I64
    liking: F64  # what an untuned decoder's weights give
    worth: F64

    @classmethod
    def draw(cls, rng: np.random.Generator, n_slots: int, sizes: Sizes) -> Options:
        n = n_slots * OPTIONS
        x = np.empty((n, sizes.features))
        x[:, :4] = features(rng, n, 4)
        length = 1 + rng.binomial(3, 0.32, n)
        better = worth(x) + 0.25 * rng.standard_normal(n)
        for j, name in enumerate(sizes.names()[4:], 4):
            if name == "WordPenalty0":
                x[:, j] = -length
            elif name == "PhrasePenalty0":
                x[:, j] = 1.0
            elif name in CONTEXT:
                x[:, j] = 0.0
            elif j % 4 == 0:  # another score
                x[:, j] = np.round(-rng.gamma(2.0, 1.0, n), 4)
                better += 0.1 * x[:, j]
            else:  # counts and indicators of words and clusters: mostly 0
                x[:, j] = rng.binomial(1 + j % 3, 0.3 / (1 + j % 16), n)
                better += 0.3 * (-1) ** j * x[:, j]
        sparse = _indicators(rng, n, sizes)
        weight = np.where(sparse.idx.astype(np.uint32) * np.uint32(2654435761) >> np.uint32(31), 0.3, -0.3)
        better += np.bincount(owners(sparse.ptr), weight, minlength=n)
        words = _zipf(rng, n * 4, VOCABULARY).reshape(n_slots, OPTIONS, 4)
        core = rng.random(words.shape) < COMMON  # options of a slot have words in common
        words = np.where(core, words[:, :1], words).reshape(n, 4)
        liking = np.round(x[:, :4] @ np.array([0.2, 0.3, 0.01, 0.5]), 5)
        return cls(x, sparse, offsets(length), words[np.arange(4) < length[:, None]], liking, better)

    def __add__(self, other: Options) -> Options:
        def ptr(a: I64, b: I64) -> I64:
            return np.concatenate([a, a[-1] + b[1:]])

        both = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        a, b = both.pop("sparse")
        rows = SparseRows(ptr(a.ptr, b.ptr), np.concatenate([a.idx, b.idx]), np.concatenate([a.val, b.val]))
        word_ptr = ptr(*both.pop("word_ptr"))
        return Options(sparse=rows, word_ptr=word_ptr, **{name: np.concatenate(pair) for name, pair in both.items()})

    def text(self, rows: Array) -> Strings:
        return _lines(np.diff(self.word_ptr)[rows], self.words[segment_positions(self.word_ptr, rows)], "w")


def _indicators(rng: np.random.Generator, n: int, sizes: Sizes) -> SparseRows:
    if not sizes.sparse:
        return SparseRows.empty(n)
    idx = np.sort(_zipf(rng, n * sizes.per_unit, sizes.sparse).reshape(n, -1), axis=1).astype(np.int32)
    fresh = np.ones(idx.shape, np.bool_)
    fresh[:, 1:] = idx[:, 1:] != idx[:, :-1]
    return SparseRows(offsets(fresh.sum(axis=1)), idx[fresh], np.ones(int(fresh.sum())))


def _zipf(rng: np.random.Generator, n: int, size: int) -> I64:
    """Ranks from 0 with frequencies like 1 / (rank + 1)."""
    return np.minimum((float(size) ** rng.random(n)).astype(np.int64) - 1, size - 1)


@kernel
def _draw(slot_ptr, hyps, seeds, taken, counts):  # type: ignore[no-untyped-def]
    """IN slot_ptr[S+1], seeds[S]; OUT taken[S, hyps, P] (ranks of options, no two rows of a list equal), counts[S]."""
    size = 8
    while size < 4 * hyps:
        size *= 2
    for s in range(len(counts)):
        n_slots = slot_ptr[s + 1] - slot_ptr[s]
        often = min(0.8, DEPARTURES / n_slots)
        seen = np.zeros(size, np.uint64)
        state = seeds[s]
        n = 0
        for trial in range(20 * hyps):
            key = np.uint64(1)
            for p in range(n_slots):
                state += np.uint64(0x9E3779B97F4A7C15)
                z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                u = ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 2.0**53
                rank = 0
                if trial and u < often:
                    rank = min(OPTIONS - 1, 1 + int(np.log((u + 1e-12) / often) / np.log(1 - DEPTH)))
                taken[s, n, p] = rank
                key = (key ^ np.uint64(rank + 1)) * np.uint64(0xBF58476D1CE4E5B9)
                key ^= key >> np.uint64(29)
            at = key & np.uint64(size - 1)
            while seen[at] != 0 and seen[at] != key:
                at = (at + np.uint64(1)) & np.uint64(size - 1)
            if seen[at] == 0:
                seen[at] = key
                n += 1
                if n == hyps:
                    break
        counts[s] = n


@kernel
def _number(slot_ptr, hyp_ptr, row, taken, common, start, distinct, unit_idx, row_of):  # type: ignore[no-untyped-def]
    """IN row[slots, OPTIONS], taken[H, P]; IN/OUT common; OUT unit_idx[R] from ``start`` on, row_of[new units]. Returns their number."""
    n = i = 0
    for s in range(len(hyp_ptr) - 1):
        n_slots = slot_ptr[s + 1] - slot_ptr[s]
        own = np.full((n_slots, OPTIONS, OPTIONS), -1, np.int32)
        for h in range(hyp_ptr[s], hyp_ptr[s + 1]):
            before = 0
            for p in range(n_slots):
                k = taken[h, p]
                r = row[slot_ptr[s] + p, k]
                if distinct:
                    unit = -1
                elif p == n_slots - 1:
                    unit = common[r * CONTEXTS + before % CONTEXTS]
                else:
                    unit = own[p, before, k]
                if unit < 0:
                    unit = start + n
                    row_of[n] = r
                    n += 1
                    own[p, before, k] = unit
                    if p == n_slots - 1:
                        common[r * CONTEXTS + before % CONTEXTS] = unit
                unit_idx[i] = unit
                i += 1
                before = k
    return n


@kernel
def _spell(word_ptr, words, prefix, text, text_ptr):  # type: ignore[no-untyped-def]
    """OUT text, text_ptr[n+1]: lines of words ``<prefix><number>`` with spaces between them. Returns the bytes used."""
    at = 0
    for i in range(len(word_ptr) - 1):
        for k in range(word_ptr[i], word_ptr[i + 1]):
            if k > word_ptr[i]:
                text[at] = 32
                at += 1
            text[at] = prefix
            at += 1
            digits, rest = 1, words[k] // 10
            while rest:
                digits, rest = digits + 1, rest // 10
            rest = words[k]
            for d in range(digits - 1, -1, -1):
                text[at + d] = 48 + rest % 10
                rest //= 10
            at += digits
        text_ptr[i + 1] = at
    return at


def _lines(lengths: Array, words: I64, prefix: str) -> Strings:
    """Lines [n] of so many words each, by number."""
    text, ptr = np.empty(8 * len(words) + 1, np.uint8), np.zeros(len(lengths) + 1, np.int64)
    used = _spell(offsets(lengths), words, ord(prefix), text, ptr)
    return pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(ptr), pa.py_buffer(text[:used].copy()))


class Generator:
    """Blocks of sentences, one after the other; ``common`` remembers the numbers of the pool's units."""

    def __init__(self, sizes: Sizes, *, seed: int = 0) -> None:
        if sizes.features < len(NAMES):
            raise ValueError(f"features: expected at least {len(NAMES)}, found {sizes.features}")
        self.sizes, self.seed, self.names = sizes, seed, sizes.names()
        self.sparse_names = _lines(np.ones(sizes.sparse, np.int64), np.arange(sizes.sparse), "f")
        self.pool = Options.draw(np.random.default_rng([seed, 1 << 40]), POOL, sizes)
        self.common = np.full(POOL * OPTIONS * CONTEXTS, -1, np.int32)
        self.n_units = 0

    def parts(self) -> Iterator[tuple[NBest, I32]]:
        """Parts for StoreWriter, with the indices of their occurrences among all units so far."""
        for first in range(0, self.sizes.sentences, BLOCK):
            yield self._part(np.random.default_rng([self.seed, first]), first, min(BLOCK, self.sizes.sentences - first))

    def _part(self, rng: np.random.Generator, first: int, n: int) -> tuple[NBest, I32]:
        slots = np.clip(np.round(np.exp(rng.normal(np.log(6.8), 0.51, n))), 2, 40).astype(np.int64)
        slot_ptr = offsets(slots)
        options = self.pool + Options.draw(rng, int(slot_ptr[-1]), self.sizes)
        start = (POOL + np.arange(slot_ptr[-1])) * OPTIONS
        start[slot_ptr[1:] - 1] = _zipf(rng, n, POOL) * OPTIONS
        row = start[:, None] + np.arange(OPTIONS)  # [slots, OPTIONS] the options by rank
        row = np.take_along_axis(row, np.argsort(-options.liking[row], axis=1, kind="stable"), axis=1)
        best = np.take_along_axis(row, options.worth[row[:, :NEAR]].argmax(axis=1)[:, None], axis=1)[:, 0]

        taken, counts = np.zeros((n, self.sizes.hyps, int(slots.max())), np.uint8), np.zeros(n, np.int64)
        _draw(slot_ptr, self.sizes.hyps, rng.integers(1 << 63, size=n).astype(np.uint64), taken, counts)
        hyp_ptr = offsets(counts)
        taken, sent = taken[np.arange(self.sizes.hyps) < counts[:, None]], owners(hyp_ptr)
        unit_ptr = offsets(slots[sent])
        used = np.arange(taken.shape[1]) < slots[sent][:, None]
        slot = (slot_ptr[sent][:, None] + np.arange(taken.shape[1]))[used]
        score = np.round(np.add.reduceat(options.liking[row[slot, taken[used]]], unit_ptr[:-1]), 5)
        taken = taken[np.lexsort((-score, sent))]
        score = score[np.lexsort((-score, sent))]

        unit_idx, row_of = np.empty(unit_ptr[-1], np.int32), np.empty(unit_ptr[-1], np.int64)
        n_new = _number(slot_ptr, hyp_ptr, row, taken, self.common, self.n_units, self.sizes.distinct, unit_idx, row_of)
        units = self._units(rng, options, row_of[:n_new].copy())
        self.n_units += n_new

        option = row[slot, taken[used]]  # [R]
        length = np.diff(options.word_ptr)[option]
        tgt = offsets(length)
        ref_words = options.words[segment_positions(options.word_ptr, best)]
        missed = rng.random(len(ref_words)) < MISSED
        ref_words = np.where(missed, _zipf(rng, len(ref_words), VOCABULARY), ref_words)
        ref_lengths = np.add.reduceat(np.diff(options.word_ptr)[best], slot_ptr[:-1])
        part = NBest(
            ids=np.arange(first, first + n),
            source=_lines(slots, _zipf(rng, int(slot_ptr[-1]), VOCABULARY), "s"),
            ref_ptr=np.arange(n + 1),
            refs=_lines(ref_lengths, ref_words, "w"),
            hyp_ptr=hyp_ptr,
            text=_lines(np.diff(tgt[unit_ptr]), options.words[segment_positions(options.word_ptr, option)], "w"),
            score=score,
            stats=np.zeros((0, 6), np.int32),
            unit_ptr=unit_ptr,
            unit_idx=np.zeros(len(unit_idx), np.int32),
            src_start=(slot - slot_ptr[sent][owners(unit_ptr)]).astype(np.int32),
            tgt_start=(tgt[:-1] - np.repeat(tgt[unit_ptr[:-1]], np.diff(unit_ptr))).astype(np.int32),
            units=units,
            unit_names=self.names,
            extra=np.zeros((len(score), 0)),
            extra_names=(),
            extra_sparse=SparseRows.empty(len(score)),
            sparse_names=self.sparse_names,
            meta={"generated": f"{self.sizes}, seed {self.seed}"},
        )
        return with_stats(part), unit_idx

    def _units(self, rng: np.random.Generator, options: Options, rows: I64) -> Units:
        """The options of these rows in contexts of their own."""
        n = len(rows)
        x = options.x[rows]
        for j, name in enumerate(self.names):
            if name == "LM0":
                x[:, j] = np.round(x[:, j] - rng.gamma(1.0, 0.5, n), 7)
            elif name == "Distortion0":
                x[:, j] = -np.minimum(rng.geometric(0.8, n) - 1, 6)
            elif name in CONTEXT:
                x[:, j] = np.round(np.log(rng.beta(2.0, 2.0, n)), 3)
        return Units(
            x=x,
            sparse=options.sparse.take(rows),
            src=_lines(np.ones(n, np.int64), rows // OPTIONS % VOCABULARY, "s"),
            tgt=options.text(rows),
            align=take_strings(strings(["0-0"]), np.zeros(n, np.int64)),
            src_len=np.ones(n, np.int32),
            tgt_len=np.diff(options.word_ptr)[rows].astype(np.int32),
            score=np.full(n, np.nan),
        )


def generate(path: str | Path, sizes: Sizes, *, seed: int = 0) -> None:
    precision: dict[str, str] = {}
    with StoreWriter(path) as writer:
        for part, unit_idx in Generator(sizes, seed=seed).parts():
            precision = precision or with_precision(part).meta
            writer.append(replace(part, meta={**part.meta, KEY: precision[KEY]}), unit_idx)


def statistics(nbest: NBest) -> dict[str, float]:
    """What makes a list like another one: sizes, redundancy, what there is to learn."""
    sent_of_unit = np.unique(nbest.sent_of_hyp[owners(nbest.unit_ptr)] * nbest.n_units + nbest.unit_idx)
    in_sentences = np.bincount(sent_of_unit % nbest.n_units)
    gains, sizes = sentence_bleu(nbest.stats), np.diff(nbest.hyp_ptr)
    mean = np.add.reduceat(gains, nbest.hyp_ptr[:-1]) / sizes
    spread = np.sqrt(np.add.reduceat((gains - np.repeat(mean, sizes)) ** 2, nbest.hyp_ptr[:-1]) / sizes)
    scorer = Scorer(nbest)
    first, oracle = nbest.hyp_ptr[:-1], segment_argmax(nbest.hyp_ptr, gains)
    units = np.diff(nbest.unit_ptr)
    return {
        "sentences": len(nbest),
        "hypotheses a sentence": nbest.n_hyps / len(nbest),
        "words a hypothesis": nbest.stats[:, 4].mean(),
        "units a hypothesis": units.mean(),
        "  standard deviation": units.std(),
        "occurrences a distinct unit": nbest.n_occurrences / nbest.n_units,
        "distinct units a sentence": len(sent_of_unit) / len(nbest),
        "units in several sentences, %": 100 * (in_sentences > 1).mean(),
        "sentence BLEU+1, mean": mean.mean(),
        "  standard deviation within a list": spread.mean(),
        "BLEU of the first": scorer.score(first, "bleu").score,
        "BLEU of the best by BLEU+1": scorer.score(oracle, "bleu").score,
    }


def compare(stores: Mapping[str, NBest]) -> None:
    found = {name: statistics(nbest) for name, nbest in stores.items()}
    print(f"{'':<38}" + "".join(f"{name:>16}" for name in found))
    for row in next(iter(found.values())):
        print(f"{row:<38}" + "".join(f"{about[row]:>16,.3f}" for about in found.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for f in fields(Sizes):
        if f.type == "bool":
            parser.add_argument(f"--{f.name}", action="store_true")
        else:
            parser.add_argument("--" + f.name.replace("_", "-"), type=int, default=f.default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", type=Path, metavar="STORE", help="print its statistics beside those of another store")
    args = vars(parser.parse_args())
    out, seed, other = args.pop("out"), args.pop("seed"), args.pop("compare")
    started = time.monotonic()
    generate(out, Sizes(**args), seed=seed)
    print(f"{out}: {out.stat().st_size / 1e9:.2f} GB in {time.monotonic() - started:.0f} s", file=sys.stderr)
    if other:
        compare({"generated": read_store(out), other.stem: read_store(other)})


if __name__ == "__main__":
    main()
