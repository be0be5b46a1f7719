"""Generated n-best lists of any size with the redundancy of real ones: for benchmarks, tests and the self-test.

Each sentence has slots (source phrases), each slot some options (phrase pairs); a hypothesis takes one option per slot, as a
decoder's n-best list does. An option's worth is a known function of its features, the reference takes the best option of
every slot, and BLEU is computed from the words: what can be learned is known, what is scored is real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from boostfeat.core.arrays import F64, Array
from boostfeat.core.text import Strings
from boostfeat.lists.build import assemble, with_stats
from boostfeat.lists.nbest import NBest, SparseRows, Units, strings
from boostfeat.lists.store import write_store

# [TA13] Figure 1: a channel score, a lexical weight, the joint count of the phrase pair, a language model score
NAMES = ("RelFreq", "LexWeight", "PhraseCount", "LM0")


@dataclass(frozen=True)
class SyntheticOptions:
    """Sizes of a generated list."""

    sentences: int = 100
    hyps: int = 50  # a sentence
    features: int = 8  # the four of NAMES, then noise
    slots: int = 8  # phrases of a hypothesis
    choices: int = 5  # options of a slot
    noise: float = 0.3  # of an option's worth, beside what its features tell


def worth(x: F64) -> F64:
    """[V] what an option is worth: [TA13] Figure 2's tree (a rare pair's lexical weight counts twice) plus its LM score."""
    lex, count, lm = x[..., 1], x[..., 2], x[..., 3]
    return np.where(count <= 2, 2.0, 1.0) * lex + 0.5 * lm


def synthetic_nbest(options: SyntheticOptions, *, seed: int = 0) -> NBest:
    """A list with references and statistics. Every option occurs in one sentence only, as phrases in context mostly do."""
    rng = np.random.default_rng(seed)
    s, h, p, o = options.sentences, options.hyps, options.slots, options.choices
    n_units = s * p * o
    x = features(rng, n_units, options.features)
    score = (worth(x) + options.noise * rng.standard_normal(n_units)).reshape(s, p, o)
    best = score.argmax(axis=2)  # [S, P] what the reference takes
    # like a decoder: hypotheses mostly take options that an untuned model likes, the first one its favourites
    liking = x[:, :4].reshape(s, p, o, 4) @ np.array([0.2, 0.3, 0.01, 0.5])
    order = np.argsort(-liking, axis=2)
    rank = np.minimum(rng.geometric(0.55, (s, h, p)) - 1, o - 1)
    rank[:, 0] = 0
    taken = order[np.arange(s)[:, None, None], np.arange(p), rank]  # [S, H, P]
    slot = np.arange(s * p).reshape(s, 1, p) * o
    unit_idx = (slot + taken).reshape(-1)
    words = _words(rng, n_units)
    # units in order of first use; what no hypothesis takes is dropped
    used, first = np.unique(unit_idx, return_index=True)
    kept = used[np.argsort(first, kind="stable")]
    number = np.full(n_units, -1, np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    units = Units(
        x=x[kept],
        sparse=SparseRows.empty(len(kept)),
        src=_numbered("s", kept // o % 9973),
        tgt=words.take(pa.array(kept)),
        align=strings(["0-0"] * len(kept)),
        src_len=np.ones(len(kept), np.int32),
        tgt_len=np.ones(len(kept), np.int32),
        score=np.full(len(kept), np.nan),
    )
    starts = np.tile(np.arange(p, dtype=np.int32), s * h)
    draft = NBest(
        ids=np.arange(s),
        source=_join(_numbered("s", np.arange(s * p) % 9973), np.arange(s * p).reshape(s, p)),
        ref_ptr=np.arange(s + 1),
        refs=_join(words, slot[:, 0] + best),
        hyp_ptr=np.arange(s + 1) * h,
        text=_join(words, unit_idx.reshape(s * h, p)),
        score=np.round(liking.reshape(-1)[unit_idx].reshape(s * h, p).sum(axis=1), 5),
        stats=np.zeros((0, 6), np.int32),
        unit_ptr=np.arange(s * h + 1) * p,
        unit_idx=number[unit_idx],
        src_start=starts,
        tgt_start=starts,
        units=units,
        unit_names=(*NAMES, *(f"Noise_{k}" for k in range(options.features - len(NAMES)))),
        extra=np.zeros((s * h, 0)),
        extra_names=(),
        extra_sparse=SparseRows.empty(s * h),
        sparse_names=strings([]),
        meta={"synthetic": f"{options}, seed {seed}"},
    )
    return with_stats(assemble(draft))


def write_lists(folder: Path, options: SyntheticOptions, names: Sequence[str] = ("dev", "select", "test")) -> dict[str, str]:
    """Stores NAME.nbest of lists of these sizes, seeds 0, 1, ...; their paths by name."""
    paths = {name: str(folder / f"{name}.nbest") for name in names}
    for seed, path in enumerate(paths.values()):
        write_store(synthetic_nbest(options, seed=seed), path)
    return paths


def features(rng: np.random.Generator, n: int, width: int) -> F64:
    x = np.empty((n, max(width, len(NAMES))))
    count = np.minimum(rng.zipf(1.7, n), 100)  # one scale with the other features: MIRA takes them raw
    x[:, 1] = -rng.gamma(2.0, 1.0, n)
    x[:, 0] = 0.5 * x[:, 1] - rng.gamma(1.0, 1.0, n) / np.sqrt(count)  # a noisy copy: relative frequencies
    x[:, 2] = count
    x[:, 3] = -rng.gamma(3.0, 1.0, n)
    x[:, 4:] = rng.standard_normal((n, x.shape[1] - 4))
    return np.round(x, 5)  # decoders print few digits


def _words(rng: np.random.Generator, n: int) -> Strings:
    """One target word per option; common words come up in many slots."""
    numbers = np.minimum(rng.zipf(1.3, n), 50_000)
    return _numbered("w", numbers)


def _numbered(prefix: str, numbers: Array) -> Strings:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "").cast(pa.large_string())


def _join(words: Strings, idx: Array) -> Strings:
    """Lines [n] of words by index [n, P]."""
    flat = words.take(pa.array(idx.reshape(-1)))
    lists = pa.LargeListArray.from_arrays(pa.array(np.arange(len(idx) + 1) * idx.shape[1]), flat)
    return pc.binary_join(lists, pa.scalar(" ", pa.large_string()))
