"""Seconds, CPU, memory and ratios of whole commands: with one thread and two, beside other tools, beside an earlier commit.

    python speed.py [--only threads,others,before] [--into PAGE] [--mbrs PYTHON] [--before FOLDER]

For idle cores: a quarter of an hour on fi-en's lists (on generated ones, where these are not there). Every run is a process of
its own, after one that is not counted. Memory is that of the largest process of a run. FOLDER is a checkout of the earlier commit
with its environment in .venv, PYTHON one that has mbrs; what is not there is left out and named.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from harness import REAL, measured_now, put_block

HERE = Path(__file__).resolve().parent
PAPER, TEST = "--recipe paper --rounds 25", 400  # lists that minimum Bayes risk and compare are tried on
METHODS = ("pro", "kbmira", "mira", "rm", "adagrad", "mert")
COMMANDS = {
    "import, uncompressed": "import dev.txt -s dev.src -r dev.ref -o out.nbest --force",
    "featurize --templates phrases": "featurize dev.nbest --templates phrases -o out.nbest --force",
    "induce": "induce dev.nbest -o out.json --force",
    "induce, one fit": "induce dev.nbest --templates phrases --set sparse_l2=10000 --set rule=all --set decide=score -o out.json",
    "induce --recipe paper, 25 rounds": f"induce dev.nbest {PAPER} -o out.json",
    **{f"tune --method {name}": f"tune dev.nbest --method {name} -o out.json" for name in METHODS},
    "compare": "compare few.nbest --select select.nbest --test test.nbest --systems base-PRO,base-MERT,boost-local --search none"
    " -o out",
}
GOALS = {
    "induce": 1.7,
    "induce --recipe paper, 25 rounds": 1.3,
    "import, uncompressed": 1.6,
    "tune --method mert": 1.7,
    "compare": 1.8,
}


class Cost(NamedTuple):
    """Of a process and those it has started."""

    wall: float  # seconds
    cpu: float
    peak: float  # MB, of the largest process

    def __str__(self) -> str:
        return f"{self.wall:.1f} s (CPU {self.cpu:.1f}, {self.peak:,.0f} MB)"


def cost(words: list[str], folder: Path, *, warm: bool = True) -> Cost:
    """Run a command twice, and return the costs of the second run."""
    if warm:
        cost(words, folder, warm=False)
    for out in ("out", "out.json", "out.nbest"):
        shutil.rmtree(folder / out, ignore_errors=True) if (folder / out).is_dir() else (folder / out).unlink(missing_ok=True)
    started = time.perf_counter()
    with open(folder / "log", "wb") as log:
        pid = os.posix_spawn(words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, log.fileno(), n) for n in (1, 2)])
        _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)}: it failed:\n{(folder / 'log').read_text()}")
    return Cost(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def boostfeat(line: str, threads: int, python: str = sys.executable) -> list[str]:
    return [python, "-m", "boostfeat", *line.split(), "-q", "--threads", str(threads)]


# -- threads ----------------------------------------------------------------------------------------------------------


def threads(folder: Path) -> Iterator[str]:
    """Yield rows: each command with one thread and two. What they write is the same, byte by byte."""
    yield "| command | 1 thread | 2 threads | times as fast | goal |\n|---|---|---|---|---|"
    by_name = {}
    for name, line in COMMANDS.items():
        costs, written = [], set()
        for n in (1, 2):
            costs.append(cost(boostfeat(line, n), folder))
            written |= {path.read_bytes() for path in (folder / "out.json", folder / "out.nbest") if path.exists()}
        assert len(written) < 2, f"{name}: other bytes with two threads"
        one, two = by_name[name] = costs
        yield f"| {name} | {one} | {two} | {one.wall / two.wall:.2f} | {GOALS.get(name, '')} |"
    whole, one = by_name["induce"][0].cpu, by_name["induce, one fit"][0].cpu
    yield f"\nBy CPU seconds, `induce` with all that it chooses takes {whole / one:.2f} times one fit of its features and trees (goal: 2)."


# -- other tools ------------------------------------------------------------------------------------------------------


def others(folder: Path, mbrs: str | None) -> Iterator[str]:
    """Yield rows: our command and another tool, each with one thread; BLEU-SBP on lists that nobody learned from."""
    yield "| what | seconds, memory | BLEU-SBP, held out |\n|---|---|---|"
    ours = {"induce": "induce dev.nbest -o out.json", "induce --recipe paper": f"induce dev.nbest {PAPER} -o out.json"}
    ours |= {f"tune --method {name}": f"tune dev.nbest --method {name} -o out.json" for name in ("pro", "kbmira", "mert")}
    for name, line in ours.items():
        spent = cost(boostfeat(line, 1), folder)
        yield f"| `{name}` | {spent} | {run(folder, 'held-out')} |"
    for name in ("LGBMRanker", "LogisticRegression on the pairs of PRO"):
        spent = cost(contender(name.split()[0], folder), folder)
        yield f"| {name} | {spent} | {(folder / 'log').read_text().split()[-1]} |"
    if (REAL / "moses-bin").is_dir():
        yield from moses(folder)
    else:
        yield "| Moses' kbmira and mert: no binaries here | | |"
    risk, bleu = f"minimum Bayes risk, {TEST} lists", f"sentence BLEU, {TEST} lists"
    for name, what in (("boostfeat", risk), ("mbrs", risk), ("statistics", f"boostfeat: {bleu}"), ("sacrebleu", bleu)):
        python = mbrs if name == "mbrs" else sys.executable
        spent = cost(contender(name, folder, python), folder, warm=name != "mbrs") if python else "not installed: --mbrs PYTHON"
        yield f"| {what if name == 'statistics' else f'{name}: {what}'} | {spent} | |"


def contender(name: str, folder: Path, python: str = sys.executable) -> list[str]:
    return [python, str(HERE / "contenders.py"), name, str(folder)]


def run(folder: Path, name: str) -> str:
    """Return what a contender prints."""
    return subprocess.run(contender(name, folder), capture_output=True, text=True, check=True).stdout.strip()


def moses(folder: Path) -> Iterator[str]:
    """Yield rows of Moses' tuners, from equal weights, on what its extractor makes of the list."""
    run(folder, "moses-start")
    n = len((folder / "init.opt").read_text().split("\n")[0].split())
    runs = {
        "extractor": "-n plain.txt -r dev.ref -F features -S scores",
        "kbmira": "-F features -S scores -d init.opt -o kbmira.out",
        "mert": f"-F features -S scores -d {n} -n 5 -r 1",
    }
    for name, flags in runs.items():
        (folder / name).write_bytes(lzma.decompress((REAL / "moses-bin" / f"{name}.xz").read_bytes()))
        (folder / name).chmod(0o755)
        spent = cost([f"./{name}", *flags.split()], folder, warm=False)
        yield f"| Moses' {name} | {spent} | {run(folder, f'moses-{name}') if name != 'extractor' else ''} |"


# -- an earlier commit ------------------------------------------------------------------------------------------------


def before(folder: Path, earlier: Path | None) -> Iterator[str]:
    """Yield rows of CPU seconds beside those of an earlier commit, with one thread, and the limits of ours."""
    if earlier is None:
        yield "No checkout of an earlier commit: --before FOLDER."
        return
    yield "| command | then | now | now over then | goal |\n|---|---|---|---|---|"
    limits = {"import, uncompressed": 1.11, "featurize --templates phrases": 2.5, "induce": 1.0}
    old = str(earlier / ".venv" / "bin" / "python")
    for name, most in limits.items():
        then, now = (cost(boostfeat(COMMANDS[name], 1, python), folder) for python in (old, sys.executable))
        yield f"| {name} | {then} | {now} | {now.cpu / then.cpu:.2f} | at most {most} |"
    lines = len((folder / "few.jsonl").read_bytes().splitlines())
    json_lines = cost(boostfeat("import few.jsonl -s few.src -r few.ref -o out.nbest", 1), folder)
    start = cost([sys.executable, "-m", "boostfeat", "info", "few.nbest"], folder)
    hyps = sum(map(len, json.loads((folder / "few.json").read_text())))
    rate = hyps / max(json_lines.cpu - start.cpu, 1e-9) / 1000
    yield f"| import of JSON lines ({lines:,} lines) | | {json_lines} | {rate:.0f} thousand hypotheses a second | at least 50 |"
    yield f"| info, a short command | | {start} | | CPU 1.2 s |"
    cost(boostfeat(f"induce few.nbest {PAPER} -o out.json", 1), folder)
    cache = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba")}
    words = [sys.executable, "-m", "boostfeat", "rerank", "few.nbest", "-m", "out.json"]
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=folder, env=cache, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    yield f"| rerank, everything compiled | | CPU {seconds:.1f} s | says so: {'compil' in done.stderr} | 12 s |"
    choose = subprocess.run([sys.executable, str(HERE / "reranker.py")], capture_output=True, text=True, check=True)
    yield "\nReranker.choose, ten candidates (goal: 5 ms):\n\n" + "\n".join(f"    {line}" for line in choose.stdout.splitlines())


# -- lists ------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="threads,others,before")
    parser.add_argument("--into", type=Path, help="a page whose blocks of these names are replaced")
    parser.add_argument("--mbrs")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--sentences", type=int, help="of each list; default: all")
    args = parser.parse_args()
    page = args.into and args.into.resolve()
    tables: dict[str, Callable[[Path], Iterator[str]]] = {
        "threads": threads,
        "others": lambda folder: others(folder, args.mbrs),
        "before": lambda folder: before(folder, args.before),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([*contender("lists", folder), str(args.sentences or 0), str(TEST)], check=True)
        os.chdir(folder)
        for what in args.only.split(","):
            rows = []
            for row in tables[what](folder):
                print(row, flush=True)
                rows.append(row)
            if args.into:
                put_block(page, what, measured_now() + "\n".join(rows))


if __name__ == "__main__":
    main()
