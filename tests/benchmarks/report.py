"""One report of ratios in one run: parts of this library beside the same part of other tools (whole commands: speed.py).

    python report.py [--quick] [--only import,bleu,pro,round,c] [--json OUT] [--markdown OUT] [--into PAGE]

A ratio is how many times as fast as the other we are: below 1 we are slower. Runs alternate, CPU seconds of one thread; shown
are the median and the range of the ratios of neighbouring runs. Moses' times are recorded ones (see harness.REAL's README).
Without real lists, generated ones stand in and what needs the real ones is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from generate import Sizes, generate
from harness import REAL, alternating, fi_en, measured_now, put_block, timed

from boostfeat.lists.build import with_stats
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.losses.pairs import PairOptions, pairs_for
from boostfeat.model.model import Model
from boostfeat.tuners.linear import linear_problem

EXTRACTOR = 10.0  # recorded user seconds of Moses' extractor on fi-en devtrain, from plain text


@dataclass(frozen=True)
class Ratio:
    """``ours`` and ``theirs`` are seconds, medians."""

    what: str
    against: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    note: str = ""

    @classmethod
    def of(cls, what: str, against: str, ours: list[float], theirs: list[float], note: str = "", factor: float = 1.0) -> Ratio:
        """``factor`` is how much more work theirs was."""
        ratios = [b / a / factor for a, b in zip(ours, theirs, strict=True)]
        return cls(what, against, median(ours), median(theirs) / factor, median(ratios), min(ratios), max(ratios), note)

    def __str__(self) -> str:
        return (
            f"{self.what:<44} {self.against:<34} {self.ratio:>8.2f} x  ({self.low:.2f} to {self.high:.2f})"
            f"   {self.ours:.4g} s, {self.theirs:.4g} s   {self.note}"
        )


class Bench:
    """The lists, and how often runs are repeated."""

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self.folder, self.quick, self.tries = folder, quick, 3 if quick else 5
        self.real = (REAL / "fi-en").is_dir()
        if self.real:
            self.name, self.dev = "fi-en devtrain", read_store(fi_en(folder))
        else:
            self.name = "generated 2,500 x 200 x 14"
            generate(folder / "dev.nbest", Sizes(sentences=2500))
            self.dev = read_store(folder / "dev.nbest")
        if quick:
            self.name, self.dev = f"{self.name}, 300 sentences", self.dev[:300]

    def large(self) -> NBest:
        """More features than a decoder has."""
        generate(self.folder / "large.nbest", Sizes(sentences=200 if self.quick else 1000, hyps=200, features=100))
        return read_store(self.folder / "large.nbest")


def bench_import(b: Bench) -> Iterator[Ratio]:
    from foundation import LIST, decompress, import_run

    if not b.real or b.quick:
        return
    store, plain = b.folder / "imported.nbest", b.folder / "devtrain.enriched"
    import_run(LIST, store)  # fills numba's cache
    tries = 3
    ours, raw = alternating(lambda: import_run(LIST, store)["import_cpu"], lambda: decompress(plain)[0], tries=tries)
    yield Ratio.of("import of an .xz list", "decompressing it", ours, raw, "with BLEU statistics and writing")
    times = [import_run(plain, store)["import_cpu"] for _ in range(tries)]
    yield Ratio.of("import of an uncompressed list", "Moses' extractor, recorded", times, [EXTRACTOR] * tries)
    plain.unlink()


def bench_bleu(b: Bench) -> Iterator[Ratio]:
    from foundation import sacrebleu_runs

    part = b.dev[: max(1, len(b.dev) // 50)]
    loop, prepared = sacrebleu_runs(part)
    with_stats(part)
    share = part.n_hyps / b.dev.n_hyps
    for against, theirs in (("sacrebleu's loop", loop), ("sacrebleu, references prepared", prepared)):
        times = alternating(timed(lambda: with_stats(b.dev)), timed(theirs), tries=b.tries)
        yield Ratio.of("BLEU statistics", against, *times, f"theirs on {part.n_hyps:,} hypotheses, scaled", factor=share)


def bench_pro(b: Bench) -> Iterator[Ratio]:
    from boosting import logistic_regression

    for name, nbest in ((b.name, b.dev), ("generated, 100 features", b.large())):
        pairs = pairs_for(nbest, PairOptions(), seed=0)
        theirs = logistic_regression(nbest, pairs)
        losses = linear_problem(nbest, pairs).fit().loss, theirs()
        times = alternating(timed(lambda n=nbest, p=pairs: linear_problem(n, p).fit()), timed(theirs), tries=b.tries)  # type: ignore[misc]
        note = f"{len(pairs):,} pairs; mean loss {losses[0]:.5f} and {losses[1]:.5f}"
        yield Ratio.of(f"PRO, {name}", "LogisticRegression, same pairs", *times, note)


def bench_round(b: Bench) -> Iterator[Ratio]:
    from boosting import lightgbm_part, lightgbm_tree, rounds

    for name, nbest in ((b.name, b.dev), ("generated, 100 features", b.large())):
        pairs = pairs_for(nbest, PairOptions(), seed=0)
        scores = Model(linear_problem(nbest, pairs).fit().weights).decision_function(nbest)
        for leaves in (2, 8):
            ours, theirs = rounds(nbest, pairs, scores, leaves)("constant"), lightgbm_tree(nbest, pairs, scores, leaves)
            ours(), theirs()
            times = alternating(timed(ours), timed(theirs), tries=3 * b.tries)
            yield Ratio.of(f"round of {leaves} leaves, {name}", "LightGBM's own tree", *times, f"{nbest.n_units:,} rows")
            floor = lightgbm_part(nbest, pairs, scores, leaves)
            times = alternating(timed(ours), timed(floor), tries=3 * b.tries)
            yield Ratio.of(f"round of {leaves} leaves, {name}", "its floor: what LightGBM does of it", *times)
            both = rounds(nbest, pairs, scores, leaves, threads=2)("constant")
            both()
            clocks = [timed(work, clock=time.perf_counter) for work in (both, ours)]
            times = alternating(*clocks, tries=3 * b.tries)
            yield Ratio.of(f"round of {leaves} leaves, {name}, 2 threads", "1 thread, both by the clock", *times)
        linear, constant = (rounds(nbest, pairs, scores)(kind) for kind in ("linear", "constant"))
        linear(), constant()
        times = alternating(timed(linear), timed(constant), tries=b.tries)
        yield Ratio.of(f"linear-leaf round, {name}", "our constant-leaf round", *times)


def bench_c(b: Bench) -> Iterator[Ratio]:
    from export import NAMES, in_c, inputs_of, treelite_compiled, trees

    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000 if b.quick else 100_000, len(NAMES)))
    for n_leaves in (2, 8):
        model = Model({}, tuple(trees(rng, x, n_leaves, "constant")))
        own = np.ascontiguousarray(x[:, [NAMES.index(name) for name in inputs_of(model, "c")]])
        with tempfile.TemporaryDirectory(dir=b.folder) as folder:
            score = in_c(model, Path(folder), own, inputs_of(model, "c"))
            predict, finish = treelite_compiled(model, own, Path(folder))
            np.testing.assert_allclose(finish(predict()), score(), rtol=1e-9, atol=1e-9)
            times = alternating(timed(score), timed(predict), tries=3 * b.tries)
            rate = len(x) / median(times[0]) / 1e6
            yield Ratio.of(f"C header, 25 trees of {n_leaves} leaves", "tl2cgen", *times, f"{rate:.0f} million rows/s")


BENCHES: dict[str, Callable[[Bench], Iterator[Ratio]]] = {
    "import": bench_import,
    "bleu": bench_bleu,
    "pro": bench_pro,
    "round": bench_round,
    "c": bench_c,
}


def markdown(rows: list[Ratio]) -> str:
    lines = ["| ours | against | times as fast | range | seconds | |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {r.what} | {r.against} | {r.ratio:.2f} | {r.low:.2f} to {r.high:.2f} | {r.ours:.3g}, {r.theirs:.3g} | {r.note} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small lists, no recorded times: does it run?")
    parser.add_argument("--only", default=",".join(BENCHES))
    for kind in ("json", "markdown", "into"):
        parser.add_argument(f"--{kind}", type=Path)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), quick=args.quick)
        for name in args.only.split(","):
            started = time.monotonic()
            for row in BENCHES[name](bench):
                print(row, flush=True)
                rows.append(row)
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if args.markdown:
        args.markdown.write_text(markdown(rows))
    if args.into:
        put_block(args.into, "ratios", measured_now() + markdown(rows))


if __name__ == "__main__":
    main()
