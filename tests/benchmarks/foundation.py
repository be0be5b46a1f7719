"""Import, BLEU statistics, opening a store."""

from __future__ import annotations

import logging
import lzma
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import REAL, cpu, in_process, report
from sacrebleu.metrics import BLEU
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.build import with_stats
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store

FI_EN = REAL / "fi-en"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "dev.nbest"
        if FI_EN.is_dir():
            bench_import(store)
        bench_bleu(read_store(store) if store.exists() else synthetic_nbest(SyntheticOptions(sentences=500, hyps=200)))
        bench_open(Path(folder) / "million.nbest")


def import_run(store: Path) -> dict[str, float]:
    """fi-en devtrain from its compressed list to a store, in a process of its own."""
    return in_process(f"""
import time
from pathlib import Path
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.formats import read
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store
fi_en = Path({str(FI_EN)!r})
source, refs = ((fi_en / f"devtrain.{{x}}").read_text().splitlines() for x in ("fi", "en"))
started, wall = time.process_time(), time.monotonic()
nbest = read(fi_en / "devtrain.200.enriched.xz", ReadOptions(source=source))
nbest = attach(nbest, source=source, refs=[refs], name="devtrain")
write_store(nbest, {str(store)!r})
print(f"import_cpu={{time.process_time() - started}}")
print(f"wall={{time.monotonic() - wall}}")
print(f"hyps={{nbest.n_hyps}}")
""")


def decompress() -> float:
    """CPU seconds of decompressing the same list and nothing else."""
    started = time.process_time()
    with lzma.open(FI_EN / "devtrain.200.enriched.xz") as stream:
        while stream.read(1 << 22):
            pass
    return time.process_time() - started


def bench_import(store: Path) -> None:
    import_run(store)  # the first fills numba's cache
    found, raw = import_run(store), decompress()
    rate = found["hyps"] / found["import_cpu"]
    parse = found["hyps"] / (found["import_cpu"] - raw)
    size = os.path.getsize(store) / 1e6
    report("import of fi-en devtrain, with decompression and writing", f"{rate:,.0f} hyps/s/core", "50,000", rate >= 50_000)
    report("  the same without xz", f"{parse:,.0f} hyps/s/core", "(Moses' extractor: 49,000)")
    report("  against raw decompression", f"{found['import_cpu'] / raw:.2f} x", "-")
    report("  wall clock", f"{found['wall']:.1f} s", "-")
    report(
        "  peak memory", f"{found['peak']:.0f} MB", f"2 x store + 300 = {2 * size + 300:.0f} MB", found["peak"] <= 2 * size + 300
    )


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


def bench_bleu(nbest: NBest) -> None:
    part = nbest[: max(1, len(nbest) // 50)]
    ours = cpu(lambda: with_stats(nbest)) / nbest.n_hyps
    theirs, cached = (cpu(run, tries=1) / part.n_hyps for run in sacrebleu_runs(part))
    report("BLEU statistics against sacrebleu's loop", f"{theirs / ours:.0f} x", "50 x", theirs / ours >= 50)
    report("  against sacrebleu with references prepared once", f"{cached / ours:.0f} x", "-")


def bench_open(path: Path) -> None:
    write_store(synthetic_nbest(SyntheticOptions(sentences=5000, hyps=200, features=14)), path)
    best = min(_seconds(path) for _ in range(5))
    report("opening a store of 1,000,000 hypotheses", f"{best:.3f} s", "0.2 s", best < 0.2)


def _seconds(path: Path) -> float:
    started = time.monotonic()
    read_store(path)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
