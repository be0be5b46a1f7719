"""Write the tables of growth and of the cluster in examples/sizing.md anew, for an idle machine, in about ten minutes.

    python sizing.py [--quick] [--only growth]

Threads and other tools are those of speed.py, ratios of single parts those of report.py; both need real lists.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE, PAGE = Path(__file__).parent, Path(__file__).parents[2] / "examples" / "sizing.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("growth", "cluster"))
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run? The page is written all the same")
    options = parser.parse_args()
    commands = {
        "growth": ["growth.py", "--svg", str(PAGE.with_suffix(".svg")), "--into", str(PAGE)],
        "cluster": ["cluster.py", "--sentences", "4000", "--hyps", "200", "--rounds", "100", "--into", str(PAGE)],
    }
    if options.quick:
        commands["growth"].append("--quick")
        commands["cluster"][1:7] = ["--sentences", "200", "--hyps", "40", "--rounds", "5"]
    for name in ("cluster", "growth"):
        started = time.perf_counter()
        if options.only not in (None, name):
            continue
        subprocess.run([sys.executable, *commands[name]], cwd=HERE, check=True)
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
