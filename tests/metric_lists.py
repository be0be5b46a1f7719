"""Lists of hypotheses and references as plain Python, and as the columns that metrics take."""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from boostfeat.core.arrays import Array
from boostfeat.metrics.metric import Metric
from boostfeat.metrics.significance import bootstrap_p, bootstrap_sums
from boostfeat.metrics.symbols import Texts

List = tuple[list[str], list[str]]  # hypotheses, references of a sentence
DATA = Path(__file__).parents[1] / "data"
quick = settings(max_examples=80, deadline=None)

SPACES = list("   \t\n\x1c\x85\u00a0\u1680\u2003\u2028\u202f\u205f\u3000")
# Characters that share bytes with white space in UTF-8, or look like it, and are none; punctuation; odd lowercase.
LETTERS = list("aabbc.,!(-'ABäÄßΣİ€😀\u200b\u2010\u3001\ufeff\u0301")
texts = st.lists(st.sampled_from([*LETTERS, *SPACES]), max_size=40).map("".join)


def lists_of(text: st.SearchStrategy[str], *, most_refs: int = 4) -> st.SearchStrategy[list[List]]:
    """A few sentences of a few hypotheses and 1 to 4 references."""
    sentence = st.tuples(st.lists(text, max_size=4), st.lists(text, min_size=1, max_size=most_refs))
    return st.lists(sentence, min_size=1, max_size=3)


def columns(lists: Sequence[List]) -> Texts:
    """The texts as metrics take them."""
    return Texts(
        np.cumsum([0, *(len(hyps) for hyps, _ in lists)]),
        pa.array([h for hyps, _ in lists for h in hyps], pa.large_string()),
        np.cumsum([0, *(len(refs) for _, refs in lists)]),
        pa.array([r for _, refs in lists for r in refs], pa.large_string()),
    )


def each(lists: Sequence[List]) -> list[tuple[str, list[str]]]:
    """Hypotheses, each with its references."""
    return [(h, refs) for hyps, refs in lists for h in hyps]


def sacrebleu_rows(oracle: Any, lists: Sequence[List]) -> np.ndarray:
    """[H, ...] what sacrebleu's metric counts."""
    rows = (oracle._extract_corpus_statistics([h], [[r] for r in refs])[0] for h, refs in each(lists))
    return np.array(list(rows))


def read_lists(path: Path, ref_paths: Sequence[Path], *, sentences: int, size: int) -> list[List]:
    """The first ``size`` hypotheses of the first sentences of an enriched Moses list."""
    refs = [file.read_text(encoding="utf-8").splitlines() for file in ref_paths]
    lists: list[List] = [([], [file[s] for file in refs]) for s in range(sentences)]
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in islice(lines, 200 * sentences):
            number, text, _ = line.split(" ||| ", 2)
            if int(number) >= sentences:
                break
            if len(lists[int(number)][0]) < size:
                lists[int(number)][0].append(" ".join(re.sub(r"\|[^|]*\|", " ", text).split()))
    return lists


def four_refs(*, sentences: int, size: int) -> list[List]:
    """Lists of the repository's own data with four references."""
    folder = DATA / "four-refs"
    refs = [folder / f"test.ref{k}" for k in range(4)]
    return read_lists(folder / "test.nbest.xz", refs, sentences=sentences, size=size)


def fi_en(real: Path, *, sentences: int, size: int) -> list[List]:
    """Real lists of a phrase-based system, one reference."""
    folder = real / "fi-en"
    return read_lists(folder / "test.200.enriched.xz", [folder / "test.en"], sentences=sentences, size=size)


def paired_bootstrap(a: Array, b: Array, *, metric: str | Metric = "bleu-sbp", trials: int = 10_000) -> float:
    """The p-value of two systems, each on the same resamples."""
    return bootstrap_p(*(bootstrap_sums(rows, trials=trials) for rows in (a, b)), a=a, b=b, metric=metric)
