"""TER, chrF, chrF++, WER and CER against sacrebleu and jiwer, and minimum Bayes risk: CPU time of one core, side by side in one run.

The slow contender gets a sample of the hypotheses, ours all of them: what is compared is the time a hypothesis takes.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import sacrebleu

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
from conftest import REAL  # noqa: E402
from generate import Sizes, generate  # noqa: E402
from metric_lists import List, columns, each, fi_en, four_refs  # noqa: E402

from boostfeat.lists.mbr import mbr_gains  # noqa: E402
from boostfeat.lists.store import read_store  # noqa: E402
from boostfeat.metrics.chrf import chrf_stats  # noqa: E402
from boostfeat.metrics.edits import edit_stats  # noqa: E402
from boostfeat.metrics.ter import ter_stats  # noqa: E402


def main() -> None:
    minimum_bayes_risk()
    if (REAL / "fi-en").is_dir():
        against_sacrebleu("fi-en, 1 reference", fi_en(REAL, sentences=300, size=200), every=97)
    against_sacrebleu("four-refs, 4 references", four_refs(sentences=100, size=200), every=37)
    if (REAL / "asr").is_dir():
        with lzma.open(REAL / "asr" / "test_ls_other.json.xz", "rt", encoding="utf-8") as file:
            against_jiwer("asr test_ls_other", [(x["input"], [x["output"]]) for x in json.load(file)], every=10)


def minimum_bayes_risk() -> None:
    """CPU seconds of expected BLEU+1 of all hypotheses, every pair of a list compared, and the goals for them."""
    with tempfile.TemporaryDirectory() as folder:
        for n, (sentences, hyps, goal) in enumerate([(20, 20, None), (2000, 100, 5), (200, 1000, 60)]):
            path = Path(folder, f"{n}.nbest")
            generate(path, Sizes(sentences=sentences, hyps=hyps, features=4), seed=0)
            nbest = read_store(path)
            scores = np.random.default_rng(0).normal(size=nbest.n_hyps)
            seconds = cpu(partial(mbr_gains, nbest, scores))
            if goal is not None:  # the first compiles
                print(
                    f"mbr, {sentences} x {hyps}: {seconds:.2f} s (goal {goal}: {'ok' if seconds < goal else 'MISSED'})",
                    flush=True,
                )


def against_sacrebleu(name: str, lists: list[List], *, every: int) -> None:
    some = each(lists)[::every]
    texts, refs = [h for h, _ in some], [list(column) for column in zip(*(r for _, r in some), strict=True)]
    for metric, oracle, stats, goal in (
        ("TER", sacrebleu.TER(), ter_stats, 100),
        ("chrF", sacrebleu.CHRF(), chrf_stats, 30),
        ("chrF++", sacrebleu.CHRF(word_order=2), partial(chrf_stats, word_order=2), 30),
    ):
        theirs = partial(oracle._extract_corpus_statistics, texts, refs)
        compare(f"{name}: {metric}", stats, theirs, lists, every, goal)


def against_jiwer(name: str, lists: list[List], *, every: int) -> None:
    some = each(lists)[::every]
    for metric, measure, characters in (("WER", jiwer.wer, False), ("CER", jiwer.cer, True)):
        theirs = partial(rates, measure, some)
        compare(f"{name}: {metric}", partial(edit_stats, characters=characters), theirs, lists, every, None)


def rates(measure: Callable[[str, str], float], some: list[tuple[str, list[str]]]) -> list[float]:
    return [measure(ref, hyp) for hyp, (ref,) in some]


def compare(
    name: str, stats: Callable[..., Any], theirs: Callable[[], Any], lists: list[List], every: int, goal: int | None
) -> None:
    """Print the seconds a hypothesis of both, and whether the rows are equal (jiwer gives rates)."""
    arguments = columns(lists)
    started = time.process_time()
    stats(**columns(lists[:1]))
    first_call = time.process_time() - started
    times = [(cpu(lambda: stats(**arguments)), cpu(theirs)) for _ in range(3)]
    ours, other = (min(column) for column in zip(*times, strict=True))
    rows, expected = stats(**arguments), np.array(theirs())
    found = rows[::every] if expected.ndim == 2 else rows[::every, 0] / np.maximum(rows[::every, 1], 1)
    ours, other = 1e6 * ours / len(rows), 1e6 * other / len(expected)
    fine = "" if goal is None else f" (goal {goal}: {'ok' if other / ours >= goal else 'MISSED'})"
    print(
        f"{name:<34} {other:8.1f} / {ours:6.2f} us a hypothesis = {other / ours:5.0f} x{fine}; "
        f"{int(np.count_nonzero((found == expected).reshape(len(expected), -1).all(axis=1)))} of {len(expected)} equal; "
        f"first call {first_call:.1f} s",
        flush=True,
    )


def cpu(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
