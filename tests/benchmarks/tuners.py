"""Tuners beside the times of the C++ tools on this kind of machine, as recorded in shared/real/README.md."""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import REAL, fi_en, report
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.nbest import NBest, SparseRows, strings
from boostfeat.lists.store import read_store
from boostfeat.tuners import tuner_class
from boostfeat.tuners.base import Run


def main() -> None:
    if (REAL / "fi-en").is_dir():
        with tempfile.TemporaryDirectory() as folder:
            bench_dense(read_store(fi_en(Path(folder))))
    bench_sparse()


def decoder_weights() -> dict[str, float]:
    """Of moses.ini: ``LM0= 0.1``, ``TranslationModel0= 0.1 0.2 ...``."""
    out = {}
    for name, values in re.findall(r"^(\w+)= (.*)$", (REAL / "fi-en" / "moses.ini").read_text(), re.MULTILINE):
        numbers = values.split()
        for i, value in enumerate(numbers):
            out[name if len(numbers) == 1 else f"{name}_{i}"] = float(value)
    return {n: w for n, w in out.items() if n != "UnknownWordPenalty0"}


@dataclass(frozen=True)
class Recorded:
    """A C++ tool's user seconds and BLEU on fi-en devtrain."""

    options: dict[str, int]
    goal: float
    seconds: tuple[float, float]
    bleu: float


MOSES = {"kbmira": Recorded({}, 4.0, (20, 20), 30.41), "mert": Recorded({"restarts": 5}, 30.0, (66, 107), 30.57)}


def tune(method: str, nbest: NBest) -> tuple[float, float]:
    """CPU seconds of our tuner from the decoder's weights, and the BLEU it found on the list."""
    tuner = tuner_class(method)(**MOSES[method].options)
    started = time.process_time()
    model = tuner.fit(nbest, None, Run(init=decoder_weights()))
    seconds = time.process_time() - started
    return seconds, next(row["dev"] for row in model.history if row["epoch"] == model.config["epoch"])


def bench_dense(nbest: NBest) -> None:
    for method, moses in MOSES.items():
        tune(method, nbest[:20])  # compiles
        seconds, best = tune(method, nbest)
        theirs = f"{' to '.join(f'{s:.0f}' for s in sorted(set(moses.seconds)))} s, BLEU {moses.bleu}"
        report(
            f"{method} on fi-en devtrain (Moses: {theirs})",
            f"{seconds:.1f} s, BLEU {best:.2f}",
            f"{moses.goal:.0f} s",
            seconds < moses.goal,
        )


def bench_sparse(n_names: int = 1_000_000, per_hyp: int = 30) -> None:
    """1,000 sentences x 100 hypotheses with a million indicator features."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=1000, hyps=100))
    rng = np.random.default_rng(0)
    idx = np.sort((rng.random((nbest.n_hyps, per_hyp)) ** 3 * n_names).astype(np.int32), axis=1)
    rows = SparseRows(np.arange(nbest.n_hyps + 1) * per_hyp, idx.reshape(-1), np.ones(idx.size))
    names = strings([f"f:{i}" for i in range(n_names)])
    nbest = NBest(**{**{f: getattr(nbest, f) for f in nbest.__dataclass_fields__}, "extra_sparse": rows, "sparse_names": names})
    for method in ("adagrad", "mira"):
        kind = tuner_class(method)
        kind(epochs=1).fit(nbest[:20], None, Run())
        seconds = []
        for epochs in (1, 3):
            started = time.process_time()
            kind(epochs=epochs).fit(nbest, None, Run())
            seconds.append(time.process_time() - started)
        epoch = (seconds[1] - seconds[0]) / 2
        report(f"an epoch of {method}, 1,000,000 sparse features", f"{epoch:.2f} s", "5 s", epoch < 5)


if __name__ == "__main__":
    main()
