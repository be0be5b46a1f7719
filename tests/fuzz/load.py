"""Lists of unusual shape through the commands: each is done (time and memory are printed) or refused with the limit named.

python tests/fuzz/load.py                    # the sizes of the table below; takes a while and some GB
python tests/fuzz/load.py --scale 0.01 --shapes sentences,features
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from boostfeat.tuners import TUNERS

WORDS = [f"w{i}" for i in range(500)]


class Shape(NamedTuple):
    """A list as its decoder would write it: lines of n-best, of the source and of each reference."""

    sentences: int = 3
    hyps: int = 5
    tokens: int = 6
    units: int = 0  # phrases of a hypothesis, with features of their own; 0: a plain list
    features: int = 4
    sparse: int = 0  # distinct sparse features of the whole list
    refs: int = 1

    def scaled(self, factor: float) -> Shape:
        return self._replace(
            **{name: max(min(value, 20), round(value * factor)) for name, value in self._asdict().items() if value}
        )


SHAPES = {
    "one hypothesis": Shape(sentences=50, hyps=1, units=3),
    "10,000 hypotheses": Shape(hyps=10_000, units=4),
    "100,000 hypotheses": Shape(hyps=100_000, units=4),
    "one sentence": Shape(sentences=1, hyps=100, units=3),
    "100,000 sentences": Shape(sentences=100_000, hyps=5, units=3),
    "no features": Shape(sentences=20, features=0),
    "one feature": Shape(sentences=20, features=1, units=3),
    "a million features": Shape(sentences=100, hyps=100, sparse=1_000_000),
    "5 million features": Shape(sentences=100, hyps=500, sparse=5_000_000),
    "1,000 tokens in 500 units": Shape(sentences=10, hyps=50, tokens=1000, units=500),
    "100 references": Shape(sentences=50, hyps=20, units=3, refs=100),
}


def sentence(shape: Shape, s: int) -> np.ndarray:
    """Words that hypotheses and references of a sentence share."""
    return (s * 7919 + 31 * np.arange(shape.tokens)) % len(WORDS)


def changed(words: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(words)) < share, rng.integers(len(WORDS), size=len(words)), words)


def nbest_lines(shape: Shape, rng: np.random.Generator) -> Iterator[str]:
    per_hyp = shape.sparse // (shape.sentences * shape.hyps) if shape.sparse else 0
    sizes = np.full(max(1, shape.units), shape.tokens // max(1, shape.units))
    sizes[: shape.tokens - sizes.sum()] += 1
    n = 0
    for s in range(shape.sentences):
        base = sentence(shape, s)
        pool = rng.normal(size=(8 * max(1, shape.units), shape.features)).round(3)  # hypotheses share most of their phrases
        for _ in range(shape.hyps):
            words = changed(base, 0.4, rng)
            at = rng.integers(8, size=max(1, shape.units)) + 8 * np.arange(max(1, shape.units))
            total = pool[at].sum(axis=0).round(6)  # no 1e-17 for 0
            sparse = "".join(f" s{i}= 1" for i in range(n, n + per_hyp))
            n += per_hyp
            features = " ".join(f"LM{j}= {value:.6g}" for j, value in enumerate(total)) + sparse
            text, a = [], 0
            for u, size in enumerate(sizes):
                text.append(" ".join(WORDS[w] for w in words[a : a + size]))
                if shape.units:
                    own = " ".join(f"LM{j}= {value:g}" for j, value in enumerate(pool[at[u]]))
                    text.append(f"|{u}-{u},wa=0-0 ,total=0, {own}|")
                a += size
            yield f"{s} ||| {' '.join(text)} ||| {features} ||| {total.sum():.6g}\n"


def write_shape(shape: Shape, folder: Path, seed: int = 0) -> dict[str, list[str]]:
    """The files of a list, and the arguments of the commands that are run on it, in order."""
    rng = np.random.default_rng(seed)
    with open(folder / "list", "w") as file:
        file.writelines(nbest_lines(shape, rng))
    (folder / "src").write_text("".join(" ".join(["q"] * max(1, shape.units)) + "\n" for _ in range(shape.sentences)))
    refs = []
    for r in range(shape.refs):
        drawn = [changed(sentence(shape, s), 0.1, rng) for s in range(shape.sentences)]
        (folder / f"ref{r}").write_text("".join(" ".join(WORDS[w] for w in row) + "\n" for row in drawn))
        refs += ["-r", str(folder / f"ref{r}")]
    store, more, trees = (str(folder / name) for name in ("dev.nbest", "more.nbest", "trees.json"))
    level = "local" if shape.units else "global"
    return {
        "import": ["import", str(folder / "list"), *refs, "-s", str(folder / "src"), "-o", store],
        "info": ["info", store],
        "featurize": ["featurize", store, "--templates", "large+sparse" if shape.units else "hypothesis+mbr", "-o", more],
        **{f"tune {name}": ["tune", store, "--method", name, "-o", str(folder / f"{name}.json")] for name in TUNERS},
        "induce": [
            *("induce", store, "--select", store, "--level", level, "--recipe", "fast"),
            *("--templates", "none", "--rounds", "3", "-o", trees),
        ],
        "rerank": ["rerank", store, "-m", trees, "-o", str(folder / "out")],
        "score": ["score", store, "-m", trees],
        "augment": ["augment", store, "-m", trees, "-o", str(folder / "with trees.nbest")],
        "show": ["show", trees],
        "export json": ["export", trees, "--to", "json", "--verify", store, "-o", str(folder / "json")],
        "export cdec": ["export", str(folder / "kbmira.json"), "--to", "cdec", "--verify", store, "-o", str(folder / "cdec")],
    }


class Done(NamedTuple):
    seconds: float  # of CPU time
    megabytes: float
    code: int
    line: str  # the last one on standard error


def run_command(arguments: list[str], timeout: float) -> Done:
    started = time.monotonic()
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "boostfeat", *arguments, "--threads", "1"], stdout=subprocess.DEVNULL, stderr=err
        )
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - started > timeout:
                process.kill()
            time.sleep(0.05)
        err.seek(0)
        lines = err.read().decode("utf-8", "replace").strip().splitlines()
    code = os.waitstatus_to_exitcode(status)
    return Done(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, code, lines[-1] if lines else "")


def check_shape(
    shape: Shape, folder: Path, run: Callable[[list[str]], Done], report: Callable[[str, Done], None] = lambda *_: None
) -> list[str]:
    """Run all commands; those that neither finish nor say in one line what they cannot do. One that needs what failed is left out."""
    wrong = []
    for name, arguments in write_shape(shape, folder).items():
        needed = [a for before, a in pairwise(arguments) if a.endswith((".nbest", ".json")) and before != "-o"]
        if not all(os.path.exists(path) for path in needed):
            continue
        done = run(arguments)
        report(name, done)
        if done.code not in (0, 2) or (done.code == 2 and (not done.line.startswith("boostfeat") or "Traceback" in done.line)):
            wrong.append(f"{name}: exit code {done.code}: {done.line[:300]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--shapes", default="", help="those whose names have one of these words, with commas between them")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds of a command")
    options = parser.parse_args()
    failed = 0
    for name, shape in SHAPES.items():
        if options.shapes and not any(word in name for word in options.shapes.split(",")):
            continue
        with tempfile.TemporaryDirectory() as folder:

            def report(command: str, done: Done, name: str = name) -> None:
                what = "" if done.code == 0 else f"  exit {done.code}: {done.line[:160]}"
                print(f"{name:26} {command:12} {done.seconds:8.1f} s {done.megabytes:8.0f} MB{what}", flush=True)

            wrong = check_shape(shape.scaled(options.scale), Path(folder), lambda a: run_command(a, options.timeout), report)
            failed += len(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
