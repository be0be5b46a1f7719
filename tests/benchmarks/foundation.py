"""Import, BLEU statistics, opening a store."""

from __future__ import annotations

import json
import logging
import lzma
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from harness import REAL, cpu, in_process, report
from sacrebleu.metrics import BLEU
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.formats import write
from boostfeat.lists.build import with_stats
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store

FI_EN = REAL / "fi-en"
NEURAL = REAL / "nmt-de-en" / "devtrain.12.marian.xz"  # with scores of pieces
LIST = FI_EN / "devtrain.200.enriched.xz"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "dev.nbest"
        if FI_EN.is_dir():
            bench_import(store)
        if NEURAL.exists():
            bench_neural(Path(folder))
        bench_bleu(read_store(store) if store.exists() else synthetic_nbest(SyntheticOptions(sentences=500, hyps=200)))
        bench_open(Path(folder) / "million.nbest")


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


def decompress(path: Path) -> tuple[float, float]:
    """CPU and wall seconds of decompressing the same list and nothing else: into the file that is read next."""
    started, wall = time.process_time(), time.monotonic()
    with lzma.open(LIST) as stream, path.open("wb") as out:
        while block := stream.read(1 << 22):
            out.write(block)
    return time.process_time() - started, time.monotonic() - wall


def bench_import(store: Path) -> None:
    plain = store.with_name("devtrain.enriched")
    raw, raw_wall = decompress(plain)
    import_run(LIST, store)  # the first fills numba's cache
    found = import_run(LIST, store)
    rate = found["hyps"] / found["import_cpu"]
    size = os.path.getsize(store) / 1e6
    report("import of fi-en devtrain, with decompression and writing", f"{rate:,.0f} hyps/s/core", "50,000", rate >= 50_000)
    report("  against raw decompression", f"{found['import_cpu'] / raw:.2f} x", "-")
    report("  wall clock", f"{found['wall']:.1f} s", "-")
    report(
        "  peak memory", f"{found['peak']:.0f} MB", f"2 x store + 300 = {2 * size + 300:.0f} MB", found["peak"] <= 2 * size + 300
    )
    runs = [[import_run(plain, store, threads=threads) for threads in (1, 2)] for _ in range(3)]  # alternating
    rate = max(one["hyps"] / one["import_cpu"] for one, _ in runs)
    report("import of the same list, uncompressed", f"{rate:,.0f} hyps/s/core", "100,000", rate >= 100_000)
    one, two = (min(run[k]["wall"] for run in runs) for k in (0, 1))
    report("  two threads against one, wall clock", f"{one / two:.2f} x", "1.6 x", one / two >= 1.6)
    both = found["wall"] / (one + raw_wall)
    report("  from .xz against decompressing before, wall clock", f"{both:.2f} of the time", "-")
    bench_formats(read_store(store), store.with_name("part.nbest"))
    plain.unlink()


def bench_formats(nbest: NBest, store: Path) -> None:
    """A part of the list in other formats; a second run of twice its sentences shows what loading kernels takes."""
    for format in ("moses", "jsonl"):
        path, found = store.with_suffix(f".{format}"), []
        for n in (500, 1000):
            with path.open("wb") as stream:
                write(nbest[:n], stream, format=format)
            import_run(path, store, with_lines=False)
            found.append(import_run(path, store, with_lines=False))
        rates = [run["hyps"] / run["import_cpu"] for run in found]
        more = (found[1]["hyps"] - found[0]["hyps"]) / (found[1]["import_cpu"] - found[0]["import_cpu"])
        report(
            f"import of {found[1]['hyps']:,.0f} hypotheses, {format}",
            f"{rates[1]:,.0f} hyps/s/core",
            "60,000",
            rates[1] >= 60_000,
        )
        report("  each further one", f"{more:,.0f} hyps/s/core", "-")


def bench_neural(folder: Path) -> None:
    """The same lists as Marian, fairseq and a server print them; a second run has what the first compiled."""
    lines = [line.rstrip("\n").split(" ||| ") for line in lzma.open(NEURAL, "rt", encoding="utf-8")]
    texts = {"marian": (" ||| ".join(line) for line in lines), "fairseq": _fairseq(lines), "openai": _openai(lines)}
    for name, rows in texts.items():
        path = folder / f"neural.{name}"
        path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        import_run(path, folder / "neural.nbest", with_lines=False)
        found = import_run(path, folder / "neural.nbest", with_lines=False)
        rate = found["hyps"] / found["import_cpu"]
        report(f"import of {found['hyps']:,.0f} hypotheses, {name}", f"{rate:,.0f} hyps/s/core", "60,000", rate >= 60_000)
        path.unlink()


def _fairseq(lines: list[list[str]]) -> Iterator[str]:
    for sent, tokens, scores, _, total in lines:
        yield f"H-{sent}\t{total}\t{tokens}"
        yield f"P-{sent}\t{scores.removeprefix('WordScores= ')}"


def _openai(lines: list[list[str]]) -> Iterator[str]:
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
