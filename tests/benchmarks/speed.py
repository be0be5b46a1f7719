"""Seconds, CPU, memory and ratios of whole commands: by threads, beside other tools, beside an earlier commit.

    python speed.py [--only threads,others,before] [--into PAGE] [--mbrs PYTHON] [--before FOLDER] [--sentences N]

For idle cores: a quarter of an hour on fi-en's lists (on generated ones, where these are not there). Every run is a process of
its own, after one on few lists that is not counted and compiles. Memory is that of the largest process of a run (ru_maxrss: what
is resident, pages of mapped stores included). FOLDER is a checkout of the earlier commit with its environment in .venv, PYTHON
one that has mbrs; what is not there is left out and named.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from harness import REAL, measured_now, put_block

HERE = Path(__file__).resolve().parent
PAPER, TEST, OF_MBRS = "--recipe paper --rounds 25", 400, 10  # lists that minimum Bayes risk and compare are tried on; and mbrs
METHODS = ("pro", "kbmira", "mira", "rm", "adagrad", "rampion", "arow", "mert")
THREADS = (1, 2, 4)  # the last for the logic, and of two commands alone: there may be fewer cores
IMPORT, FEATURIZE, INDUCE = "import, uncompressed", "featurize --templates phrases", "induce"
INDUCE_PAPER, INDUCE_ONCE = "induce --recipe paper, 25 rounds", "induce, one fit"
COMMANDS = {
    IMPORT: "import dev.txt -s dev.src -r dev.ref -o out.nbest",
    FEATURIZE: "featurize dev.nbest --templates phrases -o out.nbest",
    INDUCE: "induce dev.nbest -o out.json",
    INDUCE_PAPER: f"induce dev.nbest {PAPER} -o out.json",
    **{f"tune --method {name}": f"tune dev.nbest --method {name} -o out.json" for name in METHODS},
    "compare": "compare few.nbest --select select.nbest --test test.nbest --systems base-PRO,base-MERT,boost-local --search none"
    " -o out",
    INDUCE_ONCE: "induce dev.nbest --templates phrases --set sparse_l2=10000 --set rule=all --set decide=score -o out.json",
}
GOALS = {  # of two threads
    IMPORT: "1.6",
    INDUCE: "1.7 (32, 50, 1,500)",
    INDUCE_PAPER: "1.3",
    "tune --method mert": "1.7",
    "compare": "1.8",
}
OUTPUTS = ("out", "out.json", "out.nbest")
OVERSUBSCRIBED = (INDUCE, "tune --method mert")


class Cost(NamedTuple):
    """Of a process and those it has started."""

    wall: float  # seconds
    cpu: float
    peak: float  # MB, of the largest process

    def __str__(self) -> str:
        return f"{self.wall:.1f}, {self.cpu:.1f}, {self.peak:,.0f}"


def cost(words: list[str], folder: Path, env: dict[str, str] | None = None) -> Cost:
    """Run a command, whose output is in ``log``."""
    for path in (folder / out for out in OUTPUTS):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    started = time.perf_counter()
    with open(folder / "log", "wb") as log:
        to_log = [(os.POSIX_SPAWN_DUP2, log.fileno(), n) for n in (1, 2)]
        keep = {"PYTHONDONTWRITEBYTECODE": ""}  # modules are compiled once, as where a package is installed
        pid = os.posix_spawn(words[0], words, {**os.environ, **keep, **(env or {})}, file_actions=to_log)
        _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)}: it failed:\n{(folder / 'log').read_text()}")
    return Cost(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class Bench:
    """Commands on the lists of a folder; the cost of one that was run before is known."""

    def __init__(self, folder: Path, mbrs: str | None, earlier: Path | None) -> None:
        self.folder, self.mbrs, self.earlier = folder, mbrs, earlier
        self._costs: dict[tuple[str, int, str], Cost] = {}
        self._models: dict[str, bytes] = {}  # of one thread

    def cost(self, line: str, threads: int = 1, python: str = sys.executable) -> Cost:
        """Return the cost of a command of boostfeat, once compiled."""
        key = (line, threads, python)
        if key not in self._costs:
            if not any((line, other, python) in self._costs for other in THREADS):
                cost(boostfeat(line.replace(" dev.", " few."), threads, python), self.folder)  # compiles
            self._costs[key] = cost(boostfeat(line, threads, python), self.folder)
            model = self.folder / "out.json"
            if threads == 1 and python == sys.executable and model.exists():
                self._models[line] = model.read_bytes()
        return self._costs[key]

    def held_out(self, line: str) -> str:
        """Return BLEU-SBP, on lists that nobody learned from, of what a command has learned with one thread."""
        self.cost(line)
        (self.folder / "out.json").write_bytes(self._models[line])
        return run(self.folder, "held-out")

    @cached_property
    def hyps(self) -> int:
        """The hypotheses of the few lists."""
        return sum(map(len, json.loads((self.folder / "few.json").read_text())))


def digest(path: Path) -> str:
    """Return the digest of a file without holding it: children take over the peak memory of this process."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def boostfeat(line: str, threads: int = 1, python: str = sys.executable) -> list[str]:
    own = [] if python == sys.executable else ["-E"]  # another has another package, whatever PYTHONPATH says
    return [python, *own, "-m", "boostfeat", *line.split(), "-q", "--threads", str(threads)]


# -- threads ----------------------------------------------------------------------------------------------------------


def threads(bench: Bench) -> Iterator[str]:
    """Yield rows: each command with numbers of threads. What they write is the same, byte by byte."""
    yield "| command: s, CPU s, MB | 1 thread | 2 threads | times as fast | goal | 4 threads |\n|---|---|---|---|---|---|"
    for name, line in COMMANDS.items():
        costs, written = [], set()
        for n in () if name == INDUCE_ONCE else THREADS if name in OVERSUBSCRIBED else THREADS[:2]:
            costs.append(bench.cost(line, n))
            written |= {digest(path) for path in (bench.folder / "out.json", bench.folder / "out.nbest") if path.exists()}
        assert len(written) < 2, f"{name}: other bytes with more threads"
        if costs:
            one, two, *more = costs
            of_four = "".join(f"{four.wall:.1f} s, {one.wall / four.wall:.2f}" for four in more)
            row = f"| {name} | {one} | {two} | {one.wall / two.wall:.2f} | {GOALS.get(name, '')} | {of_four} |"
            yield row.rstrip("| ") + " |"  # empty cells may be left out
    times = bench.cost(COMMANDS[INDUCE]).cpu / bench.cost(COMMANDS[INDUCE_ONCE]).cpu
    yield f"\nBy CPU seconds, `induce` with all that it chooses takes {times:.2f} times one fit of its features and trees (goal: 2)."


# -- other tools ------------------------------------------------------------------------------------------------------


def others(bench: Bench) -> Iterator[str]:
    """Yield rows: our command and another tool, each with one thread; BLEU-SBP on lists that nobody learned from."""
    yield "| what | s, CPU s, MB | BLEU-SBP, held out |\n|---|---|---|"
    for name in (INDUCE, INDUCE_PAPER, *(f"tune --method {name}" for name in ("pro", "kbmira", "mert"))):
        yield f"| `{name}` | {bench.cost(COMMANDS[name])} | {bench.held_out(COMMANDS[name])} |"
    folder = bench.folder
    for name, what in (("LGBMRanker", "lambdarank on the same features"), ("LogisticRegression", "on the pairs of PRO")):
        spent = cost(contender(name, folder), folder)
        yield f"| {name}, {what} | {spent} | {(folder / 'log').read_text().split()[-1]} |"
    if (REAL / "moses-bin").is_dir():
        yield from moses(folder)
    else:
        yield "| Moses' kbmira and mert: no binaries here | | |"
    risk, bleu = "minimum Bayes risk", f"sentence BLEU, {TEST} lists"
    rows = {"boostfeat": f"boostfeat: {risk}, {TEST} lists", "mbrs": f"mbrs: {risk}, {OF_MBRS} lists"}
    rows |= {"statistics": f"boostfeat: {bleu}", "sacrebleu": f"sacrebleu: {bleu}"}
    for name, what in rows.items():
        python, few = (bench.mbrs, [str(OF_MBRS)]) if name == "mbrs" else (sys.executable, [])
        if name in ("boostfeat", "statistics"):
            cost(contender(name, folder), folder)  # compiles
        spent = cost([*contender(name, folder, python), *few], folder) if python else "not installed: --mbrs PYTHON"
        yield f"| {what} | {spent} | |"


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
        if subprocess.run(["ldd", f"./{name}"], capture_output=True, text=True).stdout.count("not found"):
            yield f"| Moses' {name} does not start: libraries of Boost are not installed | | |"
            return
        spent = cost([f"./{name}", *flags.split()], folder)
        yield f"| Moses' {name} | {spent} | {run(folder, f'moses-{name}') if name != 'extractor' else ''} |"


# -- an earlier commit ------------------------------------------------------------------------------------------------


def before(bench: Bench) -> Iterator[str]:
    """Yield rows of CPU seconds beside those of an earlier commit, with one thread, and the limits of ours."""
    folder = bench.folder
    yield "| command: s, CPU s, MB | then | now | now over then, CPU | goal |\n|---|---|---|---|---|"
    if bench.earlier is None:
        yield "| no checkout of an earlier commit: --before FOLDER | | | | |"
    for name, most in {IMPORT: 1.11, FEATURIZE: 2.5, INDUCE: 1.0}.items() if bench.earlier else ():
        then, now = (bench.cost(COMMANDS[name], 1, python) for python in (f"{bench.earlier}/.venv/bin/python", sys.executable))
        yield f"| {name} | {then} | {now} | {now.cpu / then.cpu:.2f} | at most {most} |"
    start = bench.cost("info few.nbest")
    json_lines = bench.cost("import few.jsonl -s few.src -r few.ref -o out.nbest")
    rate = bench.hyps / max(json_lines.cpu - start.cpu, 1e-9) / 1000
    yield f"| import of {bench.hyps:,} hypotheses in JSON lines | | {json_lines} | {rate:.0f} thousand a second | at least 50 |"
    yield f"| info, a short command | | {start} | | CPU 1.2 s |"
    cost(boostfeat(f"induce few.nbest {PAPER} -o out.json"), folder)
    (folder / "out.json").rename(folder / "paper.json")
    words = [sys.executable, "-m", "boostfeat", "rerank", "few.nbest", "-m", "paper.json"]
    compiling = cost(words, folder, {"NUMBA_CACHE_DIR": str(folder / "numba")})
    says = "says so" if "compil" in (folder / "log").read_text() else "does not say so"
    yield f"| rerank, everything compiled | | {compiling} | {says} | CPU 12 s |"
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
    tables: dict[str, Callable[[Bench], Iterator[str]]] = {"threads": threads, "others": others, "before": before}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([*contender("lists", folder), str(args.sentences or 0), str(TEST)], check=True)
        os.chdir(folder)
        bench = Bench(folder, args.mbrs, args.before and args.before.resolve())
        for what in args.only.split(","):
            rows = []
            for row in tables[what](bench):
                print(row, flush=True)
                rows.append(row)
            if args.into:
                put_block(page, what, measured_now() + "\n".join(rows))


if __name__ == "__main__":
    main()
