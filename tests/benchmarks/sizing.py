"""Write the tables of examples/sizing.md anew, for an idle machine: growth, threads and the cluster, in about ten minutes.

    python sizing.py [--quick] [--only threads]

Threads: wall and CPU seconds of commands on a generated list at 1 thread and at all; what they write is the same, byte by byte.
The ratios to other tools are those of report.py, which needs real lists.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generate import Sizes, generate
from harness import measured_now, put_block

HERE, PAGE = Path(__file__).parent, Path(__file__).parents[2] / "examples" / "sizing.md"
LIST = Sizes(sentences=2000, hyps=100, features=16)
COMMANDS = {
    "import": "import list.txt -s list.src -r list.ref -o {out}",
    "featurize": "featurize list.nbest --templates base -o {out}",
    "induce, 25 rounds": "induce list.nbest --recipe paper --rounds 25 -o {out}",
    "MERT": "tune list.nbest --method mert -o {out}",
}


def threads(folder: Path, sizes: Sizes) -> str:
    """The table of commands by threads."""
    write_list(folder, sizes)
    rows = [f"| command | 1 thread | all {os.cpu_count()} | times as fast |", "|---|---|---|---|"]
    for name, command in COMMANDS.items():
        found, written = [], set()
        for n in (1, os.cpu_count() or 1):
            words = command.format(out="out").split()
            (folder / "out").unlink(missing_ok=True)  # another kind of file is not overwritten
            run(words, folder, n)  # compiles, and reads the files
            found.append(run(words, folder, n))
            written.add((folder / "out").read_bytes())
        assert len(written) == 1, f"{name}: other bytes with more threads"
        (one, one_cpu), (more, more_cpu) = found
        rows.append(f"| {name} | {one:.1f} s (CPU {one_cpu:.1f}) | {more:.1f} s (CPU {more_cpu:.1f}) | {one / more:.2f} |")
    return "\n".join(rows)


def write_list(folder: Path, sizes: Sizes) -> None:
    """A generated list as a store, and as the text that import reads."""
    from boostfeat.lists.store import read_store

    generate(folder / "list.nbest", sizes, seed=0)
    nbest = read_store(folder / "list.nbest")
    for name, lines in (("src", nbest.source), ("ref", nbest.refs)):
        (folder / f"list.{name}").write_text("".join(f"{line}\n" for line in lines.to_pylist()))
    run(["convert", "list.nbest", "--format", "moses-enriched", "-o", "list.txt"], folder)


def run(words: list[str], folder: Path, n: int = 1) -> tuple[float, float]:
    """Wall and CPU seconds of a command."""
    flags = ["-q"] if words[0] == "convert" else ["-q", "--threads", str(n)]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "boostfeat", *words, *flags], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("growth", "threads", "cluster"))
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run? The page is written all the same")
    options = parser.parse_args()
    sizes = Sizes(sentences=200, hyps=50, features=16) if options.quick else LIST
    commands = {
        "growth": ["growth.py", "--svg", str(PAGE.with_suffix(".svg")), "--into", str(PAGE)],
        "cluster": ["cluster.py", "--sentences", "1000", "--hyps", "200", "--rounds", "40", "--into", str(PAGE)],
    }
    if options.quick:
        commands["growth"].append("--quick")
        commands["cluster"][1:7] = ["--sentences", "200", "--hyps", "40", "--rounds", "5"]
    for name in ("threads", "cluster", "growth"):
        started = time.perf_counter()
        if options.only not in (None, name):
            continue
        if name == "threads":
            with tempfile.TemporaryDirectory() as folder:
                put_block(PAGE, "threads", measured_now() + threads(Path(folder), sizes))
        else:
            subprocess.run([sys.executable, *commands[name]], cwd=HERE, check=True)
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
