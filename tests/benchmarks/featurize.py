"""Memory of `featurize` by sentences: what a process has of its own, and pages of stores that it has mapped.

    python featurize.py [--sentences 12500,25000,50000,100000] [--into PAGE]

Lists of 20 hypotheses and 14 features. The store that is written with 100,000 sentences has 6.6 GB with ``large``, and while it is
put together the folder needs as much again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generate import Sizes, generate
from harness import put_block, report

LIMIT = 1.5  # GB
KINDS = ("VmHWM", "RssAnon", "RssFile")


def measured(words: list[str], *, every: float = 0.02) -> dict[str, float]:
    """CPU seconds of a command of one thread, and the largest GB of each kind of memory meanwhile."""
    command = [sys.executable, "-m", "boostfeat", *words, "-q", "--threads", "1"]
    before, peak = os.times(), dict.fromkeys(KINDS, 0.0)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        text = Path(f"/proc/{process.pid}/status").read_text()
        for kind in KINDS:
            found = re.search(rf"{kind}:\s+(\d+)", text)  # none of a process that has just ended
            peak[kind] = max(peak[kind], int(found[1]) * 1024 / 1e9 if found else 0.0)
        time.sleep(every)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    after = os.times()
    return {**peak, "cpu": after.children_user + after.children_system - before.children_user - before.children_system}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", default="12500,25000,50000,100000")
    parser.add_argument("--folder", help="where to make the stores; default: a temporary one")
    parser.add_argument("--into", type=Path)
    args = parser.parse_args()
    rows = ["| templates | sentences | store | CPU | peak (VmHWM) | its own (RssAnon) |", "|---|---|---|---|---|---|"]
    for what in ("large", "sparse"):
        for n in map(int, args.sentences.split(",")):
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                dev, out = Path(folder) / "dev.nbest", Path(folder) / "out.nbest"
                generate(dev, Sizes(sentences=n, hyps=20))
                found = measured(["featurize", str(dev), "--templates", what, "-o", str(out)])
                size = out.stat().st_size / 1e9
            peak, own = found["VmHWM"], found["RssAnon"]
            report(f"{what}, {n:,} sentences: peak memory", f"{peak:.2f} GB, {own:.2f} its own", f"{LIMIT} GB", peak <= LIMIT)
            rows.append(f"| {what} | {n:,} | {size:.2f} GB | {found['cpu']:.0f} s | {peak:.2f} GB | {own:.2f} GB |")
    if args.into:
        put_block(args.into, "featurize", "\n".join(rows))


if __name__ == "__main__":
    main()
