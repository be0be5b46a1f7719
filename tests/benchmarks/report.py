"""One report of ratios in one run: parts of this library beside the same part of other tools (whole commands: speed.py).

    python report.py [--quick] [--only import,formats,bleu,pro,round,c] [--json OUT] [--markdown OUT] [--into PAGE]

A ratio is how many times as fast as the other we are: below 1 we are slower. Runs alternate, CPU seconds of one thread; shown
are the median and the range of the ratios of neighbouring runs. Moses' times are recorded ones (see harness.REAL's README).
Without real lists, generated ones stand in and what needs the real ones is left out.
"""

from __future__ import annotations

import argparse
import json
import logging
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as the command does, before LightGBM is loaded
import lightgbm as lgb
import numpy as np
from contenders import logistic_regression, pair_examples
from generate import Sizes, generate
from harness import REAL, alternating, cpu, fi_en, in_process, measured_now, put_block, timed
from sacrebleu.metrics import BLEU

from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.boosting.local import Local
from boostfeat.boosting.round_loss import RoundLoss
from boostfeat.core.arrays import scatter_segments
from boostfeat.formats import write
from boostfeat.lists.build import with_stats
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.losses.pairs import PairOptions, Pairs, pairs_for
from boostfeat.losses.pairwise import PairwiseLogLoss
from boostfeat.model.model import Model
from boostfeat.model.units import UnitSpace
from boostfeat.trees.growing import Grower, TreeOptions
from boostfeat.tuners.linear import linear_problem

FI_EN, NEURAL = REAL / "fi-en", REAL / "nmt-de-en" / "devtrain.12.marian.xz"  # the second with scores of pieces
LIST = FI_EN / "devtrain.200.enriched.xz"
RATE, OPENING = 60_000, 0.2  # goals: hypotheses a CPU second of an import, seconds to open a store of 100,000 hypotheses
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
    if not b.real or b.quick:
        return
    store, plain, tries = b.folder / "imported.nbest", b.folder / "devtrain.enriched", 3
    import_run(LIST, store)  # fills numba's cache
    ours, raw = alternating(lambda: import_run(LIST, store)["import_cpu"], lambda: decompress(plain), tries=tries)
    yield Ratio.of("import of an .xz list", "decompressing it", ours, raw, "with BLEU statistics and writing")
    times = [import_run(plain, store)["import_cpu"] for _ in range(tries)]
    yield Ratio.of("import of an uncompressed list", "Moses' extractor, recorded", times, [EXTRACTOR] * tries)
    plain.unlink()


def bench_formats(b: Bench) -> Iterator[Ratio]:
    """Lists as Moses, Marian, fairseq and a server print them, beside a goal; opening a store beside another."""
    paths = {form: b.folder / f"part.{form}" for form in ("moses", "jsonl")}
    for form, path in paths.items():
        with path.open("wb") as stream:
            write(b.dev[:1000], stream, format=form)
    if NEURAL.exists() and not b.quick:
        lines = [line.rstrip("\n").split(" ||| ") for line in lzma.open(NEURAL, "rt", encoding="utf-8")]
        texts = {"marian": (" ||| ".join(line) for line in lines), "fairseq": fairseq(lines), "openai": openai(lines)}
        for form, rows in texts.items():
            paths[form] = b.folder / f"part.{form}"
            paths[form].write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    for form, path in paths.items():
        _, *runs = [import_run(path, b.folder / "part.nbest", with_lines=False) for _ in range(1 + b.tries)]
        hyps, times = int(runs[0]["hyps"]), [run["import_cpu"] for run in runs]
        yield Ratio.of(f"import, {form}", f"{RATE:,} hyps/s", times, [hyps / RATE] * len(times), f"{hyps:,} hypotheses")
    generate(b.folder / "opened.nbest", Sizes(sentences=500))
    times = [timed(lambda: read_store(b.folder / "opened.nbest"), clock=time.perf_counter)() for _ in range(b.tries)]
    yield Ratio.of("opening a store of 100,000 hypotheses", f"{OPENING} s", times, [OPENING] * b.tries)


def bench_bleu(b: Bench) -> Iterator[Ratio]:
    part = b.dev[: max(1, len(b.dev) // 50)]
    loop, prepared = sacrebleu_runs(part)
    with_stats(part)
    share = part.n_hyps / b.dev.n_hyps
    for against, theirs in (("sacrebleu's loop", loop), ("sacrebleu, references prepared", prepared)):
        times = alternating(timed(lambda: with_stats(b.dev)), timed(theirs), tries=b.tries)
        yield Ratio.of("BLEU statistics", against, *times, f"theirs on {part.n_hyps:,} hypotheses, scaled", factor=share)


def bench_pro(b: Bench) -> Iterator[Ratio]:
    for name, nbest in ((b.name, b.dev), ("generated, 100 features", b.large())):
        pairs = pairs_for(nbest, PairOptions(), seed=0)
        theirs = regression(nbest, pairs)
        losses = linear_problem(nbest, pairs).fit().loss, theirs()
        times = alternating(timed(lambda n=nbest, p=pairs: linear_problem(n, p).fit()), timed(theirs), tries=b.tries)  # type: ignore[misc]
        note = f"{len(pairs):,} pairs; mean loss {losses[0]:.5f} and {losses[1]:.5f}"
        yield Ratio.of(f"PRO, {name}", "LogisticRegression, same pairs", *times, note)


def bench_round(b: Bench) -> Iterator[Ratio]:
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
    apart = replace(b.dev, units=b.dev.units.take(b.dev.unit_idx), unit_idx=np.arange(b.dev.n_occurrences, dtype=np.int32))
    pairs = pairs_for(b.dev, PairOptions(), seed=0)
    scores = Model(linear_problem(b.dev, pairs).fit().weights).decision_function(b.dev)
    ours, theirs = (cpu(rounds(nbest, pairs, scores)("constant"), tries=2) for nbest in (b.dev, apart))
    yield Ratio.of("round on distinct units", "a row an occurrence", [ours], [theirs])


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


# -- what is run, and by whom ----------------------------------------------------------------------------------------


def import_run(path: Path, store: Path, *, threads: int = 1, with_lines: bool = True) -> dict[str, float]:
    """From a list (of fi-en devtrain, with its source and references) to a store, in a process of its own.

    The time includes loading numba and the kernels, which takes as long for any list.
    """
    return in_process(f"""
import time
from pathlib import Path
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.formats import read
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
fi_en, with_lines = Path({str(FI_EN)!r}), {with_lines}
source, refs = ((fi_en / f"devtrain.{{x}}").read_text().splitlines() for x in ("fi", "en")) if with_lines else (None, None)
started, wall = time.process_time(), time.monotonic()
nbest = read({str(path)!r}, ReadOptions(source=source, threads={threads}))
nbest = attach(nbest, source=source, refs=[refs] if refs else [], name="devtrain", threads={threads})
write_store(nbest, {str(store)!r})
print(f"import_cpu={{time.process_time() - started}}")
print(f"wall={{time.monotonic() - wall}}")
print(f"hyps={{nbest.n_hyps}}")
""")


def decompress(path: Path) -> float:
    """CPU seconds of decompressing the same list and nothing else: into the file that is read next."""
    started = time.process_time()
    with lzma.open(LIST) as stream, path.open("wb") as out:
        while block := stream.read(1 << 22):
            out.write(block)
    return time.process_time() - started


def fairseq(lines: list[list[str]]) -> Iterator[str]:
    for sent, tokens, scores, _, total in lines:
        yield f"H-{sent}\t{total}\t{tokens}"
        yield f"P-{sent}\t{scores.removeprefix('WordScores= ')}"


def openai(lines: list[list[str]]) -> Iterator[str]:
    for _, hyps in groupby(lines, key=lambda line: line[0]):
        choices = []
        for _, tokens, scores, _, _ in hyps:
            names, numbers = (text.split(" ") for text in (tokens.replace("▁", "_"), scores.removeprefix("WordScores= ")))
            texts = [name.replace("_", " ") for name in names]
            content = [
                {"token": text, "logprob": float(number), "bytes": list(text.encode()), "top_logprobs": []}
                for text, number in zip(texts, numbers, strict=False)  # the last number is that of the end
            ]
            choices.append({"message": {"content": "".join(texts)}, "logprobs": {"content": content}, "finish_reason": "stop"})
        yield json.dumps({"choices": choices})


def sacrebleu_runs(nbest: NBest) -> tuple[Callable[[], object], Callable[[], object]]:
    """sacrebleu's statistics of all hypotheses: as it does a corpus, and with the references prepared once."""
    logging.disable(logging.WARNING)
    hyps, refs = nbest.text.to_pylist(), nbest.refs.to_pylist()
    metric = BLEU(tokenize="none", force=True)
    columns = [[refs[s] for s in nbest.sent_of_hyp]]
    infos = [metric._extract_reference_info([r]) for r in refs]

    def prepared() -> list[object]:
        return [metric._compute_segment_statistics(h, infos[s]) for h, s in zip(hyps, nbest.sent_of_hyp, strict=True)]

    return lambda: metric._extract_corpus_statistics(hyps, columns), prepared


def regression(nbest: NBest, pairs: Pairs) -> Callable[[], float]:
    """scikit-learn's fit of the same pairs and penalty. Their standardised differences are made beforehand, in its favour."""
    x, label, _ = pair_examples(nbest, pairs)
    model = logistic_regression()

    def fit() -> float:
        model.fit(x, label)
        return float(np.logaddexp(0, -(x @ model.coef_[0]) * (2 * label - 1)).mean())

    return fit


def rounds(nbest: NBest, pairs: Pairs, scores: Any, max_leaves: int = 2, *, threads: int = 1) -> Any:
    """A round of boost(), all of it: gradient, tree, line search, scores, effect, loss and the gain of the dev lists."""

    def of(leaves: Any) -> Any:
        options = BoostOptions(tree=TreeOptions(leaves=leaves, max_leaves=max_leaves))
        engine = Local(nbest, options, seed=0, threads=threads)
        engine.scores, engine.loss = scores.copy(), RoundLoss.of(engine.space, nbest.hyp_ptr, pairs)

        def one() -> None:
            assert engine.grow(1) is not None
            engine.move(engine.line_search(), 1)
            engine.row()

        return one

    return of


def lightgbm_tree(nbest: NBest, pairs: Pairs, scores: Any, max_leaves: int) -> Any:
    """LightGBM alone, with its defaults, on the same matrix: one tree of so many leaves from the same gradient."""
    loss = PairwiseLogLoss(pairs, nbest.n_hyps)
    space = UnitSpace.of(nbest, "local")
    params = {"objective": "none", "num_leaves": max_leaves, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1}
    data = lgb.Dataset(space.table.x, params=params).construct()
    grad, hess = scatter_segments(space.unit_ptr, space.unit_idx, loss.at(scores).gradient(), len(space.table)), space.counts()
    booster = lgb.Booster(params, data)
    return lambda: booster.update(fobj=lambda *_: (grad, hess))


def lightgbm_part(nbest: NBest, pairs: Pairs, scores: Any, max_leaves: int) -> Any:
    """What LightGBM does in a round of ours, on our bins: below it no round can come."""
    space = UnitSpace.of(nbest, "local")
    grower = Grower(space.table, space.counts(), TreeOptions(max_leaves=max_leaves))
    gradient = PairwiseLogLoss(pairs, nbest.n_hyps).at(scores).gradient()
    grower.grow(-scatter_segments(space.unit_ptr, space.unit_idx, gradient, len(space.table)))
    (booster,) = grower._boosters.values()
    return lambda: booster.update(fobj=lambda *_: (grower._grad, grower._counts))


BENCHES: dict[str, Callable[[Bench], Iterator[Ratio]]] = {
    "import": bench_import,
    "formats": bench_formats,
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
