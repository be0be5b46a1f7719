"""Milliseconds of one choice among 10 candidates of 30 words, called from a program: percentiles, one thread; and start-up.

Models of the sets ``sparse``, ``large+sparse`` and ``phrases`` are learned on fi-en's dev list where it is there,
else on data/; candidates are of sentences that the models have not seen. Last, CPU seconds of commands on ten lists of the same
size as those of the dev list.
"""

from __future__ import annotations

import resource
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import REAL, fi_en

from boostfeat import Reranker
from boostfeat.export import Context, export
from boostfeat.features.feature_maker import FeatureMaker, plan_of, with_plan
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.tuners.base import Run
from boostfeat.tuners.pro import Pro

GOAL, EXPORTED, START = 5.0, 10.0, 0.5  # milliseconds at the 95th percentile, here and exported; CPU seconds of import and load
SHORT = 0.7  # CPU seconds of a command on ten lists
Lists = list[tuple[list[dict[str, Any]], str]]
learned, LISTS, SIZE, WORDS = 400, 100, 10, 30


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = read_store(fi_en(Path(folder)) if (REAL / "fi-en").is_dir() else _data(Path(folder)))
        lists = [candidates(whole[s : s + 1]) for s in _long_ones(whole)]
        n_words = np.mean([len(c["text"].split()) for given, _ in lists for c in given])
        print(f"{len(lists)} lists of {np.mean([len(given) for given, _ in lists]):.0f} candidates of {n_words:.0f} words")
        for what in ("sparse", "large+sparse", "phrases"):
            maker = FeatureMaker()
            made, plan = maker.learn(whole[: min(learned, len(whole) // 2)], maker.plan(what))
            path = Path(folder) / "model.json"
            with_plan(Model(Pro().fit(made, None, Run(seed=0)).weights), plan).save(path)
            bench(what, path, lists)
            write_store(whole[-10:], Path(folder) / "ten.nbest")
            bench_commands(what, path, Path(folder) / "ten.nbest")


def _data(folder: Path) -> Path:
    command = [sys.executable, "-m", "boostfeat", "import", "data/dev.nbest.xz", "-r", "data/dev.ref", "-s", "data/dev.src"]
    subprocess.run([*command, "-o", folder / "dev.nbest"], check=True, cwd=Path(__file__).parents[2])
    return folder / "dev.nbest"


def _long_ones(nbest: NBest) -> list[int]:
    """The later lists whose first text is nearest to so many words."""
    later = range(min(learned, len(nbest) // 2), len(nbest))
    length = {s: len(nbest.text[int(nbest.hyp_ptr[s])].as_py().split()) for s in later if nbest.hyp_ptr[s + 1] > nbest.hyp_ptr[s]}
    return sorted(sorted(length, key=lambda s: abs(length[s] - WORDS))[:LISTS])


def candidates(one: NBest) -> tuple[list[dict[str, Any]], str]:
    """The first hypotheses of a list as a program would give them."""
    rows, align = one.X.tolist(), one.units.align.to_pylist()
    out = []
    for h in range(min(SIZE, one.n_hyps)):
        units = []
        for r in range(one.unit_ptr[h], one.unit_ptr[h + 1]):
            u, src, tgt = int(one.unit_idx[r]), int(one.src_start[r]), int(one.tgt_start[r])
            spans = {"src": [src, src + int(one.units.src_len[u])], "tgt": [tgt, tgt + int(one.units.tgt_len[u])]}
            units.append({"features": dict(zip(one.unit_names, rows[u], strict=True)), "align": align[u], **spans})
        features = dict(zip(one.extra_names, one.extra[h].tolist(), strict=True))
        out.append({"text": one.text[h].as_py(), "features": features, "units": units})
    return out, one.source[0].as_py()


def time_choices(what: str, choose: Callable[[list[dict[str, Any]], str], int], lists: Lists, goal: float) -> None:
    """Print how long choices take."""
    for given, source in lists[:3]:  # what is imported when first needed
        choose(given, source)
    times = []
    for given, source in lists:
        started = time.thread_time()
        choose(given, source)
        times.append(1000 * (time.thread_time() - started))
    middle, high, most = np.quantile(times, [0.5, 0.95, 1])
    note = "" if high < goal else f"  above {goal:g}"
    print(f"{what:>22}: median {middle:.2f} ms, 95th percentile {high:.2f}, longest {most:.2f}{note}")


def bench(what: str, path: Path, lists: Lists) -> None:
    reranker, place = Reranker.load(path), path.with_name("exported.py")
    export(reranker.model, "python", place, Context(plan=plan_of(reranker.model)))
    time_choices(what, lambda given, source: reranker.choose(given, source=source), lists, GOAL)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import exported"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, place.parent], check=True)  # it needs nothing but Python
    module = runpy.run_path(str(place), run_name="exported")
    time_choices(f"{what}, export", module["choose"], lists, EXPORTED)
    code = f"import time; from boostfeat import Reranker; Reranker.load({str(path)!r}); print(time.process_time())"
    seconds = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(3))
    weights = len(reranker.model.weights)
    print(f"{'':>14}  import and load of {weights:,} weights: {seconds:.2f} s{'' if seconds < START else f'  above {START:g}'}")


def bench_commands(what: str, model: Path, store: Path) -> None:
    """Choices by minimum Bayes risk, as models of ``induce`` make them."""
    replace(Model.load(model), config={"decision": {"by": "mbr", "scale": 1.0}}).save(model)
    for command in ("rerank", "score"):
        words = [sys.executable, "-m", "boostfeat", command, store, "-m", model, "-q"]
        seconds = min(_cpu(words) for _ in range(3))
        print(f"{what:>14}, {command} of ten lists: {seconds:.2f} s{'' if seconds < SHORT else f'  above {SHORT:g}'}")


def _cpu(words: Sequence[object]) -> float:
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, words)), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
