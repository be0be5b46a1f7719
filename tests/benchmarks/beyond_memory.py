"""Boosting on a store that is larger than the memory it may take.

    python beyond_memory.py --rows 60000000 --limit 8

generates a list whose units are all distinct, and boosts on it in a process whose own memory (heap, stacks and private pages:
RLIMIT_DATA) is limited. The mapped store is not the process's own: the system drops its pages when it needs them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import report

CHILD = """
import json, sys
sys.path.insert(0, {here!r})
from beyond_memory import limited
print(json.dumps(limited({store!r}, **json.loads({how!r}))))
"""


def own_memory() -> dict[str, int]:
    """Bytes: resident pages of the process's own and of mapped files, and what RLIMIT_DATA counts."""
    text = Path("/proc/self/status").read_text()
    return {k: 1024 * int(re.search(rf"{k}:\s+(\d+)", text)[1]) for k in ("RssAnon", "RssFile", "VmData")}  # type: ignore[index]


def watched(work: Callable[[], Any], *, every: float = 0.02) -> tuple[Any, dict[str, int]]:
    """What the work gives, and the largest of each kind of memory meanwhile."""
    peak, done = own_memory(), threading.Event()

    def watch() -> None:
        while not done.wait(every):
            for kind, size in own_memory().items():
                peak[kind] = max(peak[kind], size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return work(), peak
    finally:
        done.set()
        watcher.join()


def limited(store: str, *, rounds: int, threads: int, limit: int = 0) -> dict[str, Any]:
    """Boost under a limit of the process's own memory in bytes; 0: none."""
    import resource

    from synthetic import SyntheticOptions, synthetic_nbest

    from boostfeat.boosting.boost import boost
    from boostfeat.boosting.boost_options import recipe
    from boostfeat.lists.store import read_store

    options = recipe("paper", rounds=rounds)
    boost(synthetic_nbest(SyntheticOptions(sentences=200)), None, options, threads=threads)  # loads code, starts threads
    start = own_memory()
    # libraries reserve a GB and more that they never touch
    most = start["VmData"] + limit - start["RssAnon"] if limit else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    started = time.time(), time.process_time()
    dev = read_store(store)
    model, peak = watched(lambda: boost(dev, None, options, threads=threads))
    return {
        "signature": model.signature,
        "rows": dev.n_units,
        "features": dev.X.nbytes,
        "history": model.history,
        "seconds": time.time() - started[0],
        "cpu": time.process_time() - started[1],
        **peak,
    }


def in_limited_process(store: str | Path, **how: Any) -> dict[str, Any]:
    """The same in a process of its own; MemoryError where it dies of the limit."""
    code = CHILD.format(here=str(Path(__file__).parent), store=str(store), how=json.dumps(how))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise MemoryError(done.stderr.strip()[-400:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="distinct units, about")
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--limit", type=float, default=0, help="GB of the process's own memory; 0: none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", help="where to make the store; default: a temporary one")
    parser.add_argument("--store", help="a store that is there already")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        store = given.store or made(Path(folder) / "distinct.nbest", given.rows, given.features)
        found = in_limited_process(store, rounds=given.rounds, threads=given.threads, limit=int(given.limit * 1e9))
        size = Path(store).stat().st_size
    gb = {kind: found[kind] / 1e9 for kind in ("RssAnon", "RssFile", "features")}
    print(f"{found['rows']:,} rows of {gb['features']:.2f} GB, store {size / 1e9:.2f} GB: {found['signature']}")
    print(f"{given.rounds} rounds in {found['seconds']:.0f} s, {found['cpu']:.0f} CPU s")
    goal = f"{given.limit:g} GB" if given.limit else "-"
    fine = gb["RssAnon"] <= given.limit if given.limit else None
    report("peak of its own memory (RssAnon)", f"{gb['RssAnon']:.2f} GB", goal, fine)
    report("  beside it, pages of the mapped store (RssFile)", f"{gb['RssFile']:.2f} GB", "-")


def made(path: Path, rows: int, features: int) -> Path:
    from generate import Sizes, generate

    sentences = max(50, round(rows / (500 * 7.75) / 50) * 50)
    generate(path, Sizes(sentences=sentences, hyps=500, features=features, distinct=True))
    return path


if __name__ == "__main__":
    main()
