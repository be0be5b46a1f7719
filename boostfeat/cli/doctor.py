"""The command that looks at the installation: what it is made of, and whether it computes what it should."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..boosting.boost import boost
from ..boosting.options import recipe
from ..core.arrays import _mix
from ..core.options import option
from ..core.processes import seconds_since, usable_cores
from ..lists.build import Builder, HypRecord, UnitRecord, attach
from ..lists.choices import Scorer
from ..lists.nbest import NBest
from ..lists.store import read_store, write_store
from . import call
from .console import Common, laid_out, terminal_width
from .demo import data_folder

REQUIRED = (
    *("numpy", "scipy", "scikit-learn", "lightgbm", "sacrebleu", "numba", "pyarrow", "threadpoolctl"),
    *("typer", "rich", "msgspec", "zstandard"),
)
OPTIONAL = {  # distribution: what is not to be had without it
    "jinja2": "report",
    "plotly": "report",
    "treelite": "export --to treelite",
    "tl2cgen": "benchmarks of compiled trees",
    "onnx": "export --to onnx",
    "onnxruntime": "export --to onnx, verified",
    "sil-thot": "training a system: word alignment",
    "kenlm": "checks of the language model",
    "dask": "lists on several machines",
    "distributed": "lists on several machines",
    "polars": "looking into stores",
}
PROGRAMS = {"cc": "export --to c, verified", "chromium": "tests of the report", "chromedriver": "tests of the report"}
WARMING = (
    "import {data}/dev.nbest.xz -s {data}/dev.src -r {data}/dev.ref --size 5 -o dev.nbest",
    "import {data}/select.nbest.xz -s {data}/select.src -r {data}/select.ref --size 5 -o select.nbest",
    "tune dev.nbest --select select.nbest --method mert -o mert.json",
    "induce dev.nbest --select select.nbest --rounds 5 -o model.json",
    "rerank select.nbest -m model.json -o best.txt",
    "score select.nbest -m model.json --metrics bleu,chrf,ter",
)


@dataclass(frozen=True, kw_only=True)
class Doctor(Common):
    """Flags of ``doctor``."""

    warm: bool = option(False, "Run a small job first: its kernels are compiled for later")


def doctor(o: Doctor) -> int:
    """Show versions, threads, caches and optional parts, and test in seconds that learning works; exit code 1 if it does not.

    \b
    Example:
      boostfeat doctor
      boostfeat doctor --json > for-the-bug-report.json
      boostfeat doctor --warm
    """
    if o.warm:
        _warm(o)
    needed, parts, here, cache, checks = versions(), optional_parts(), machine(), numba_cache(), list(self_test())
    ok = all(check["ok"] for check in checks)
    result = {"ok": ok, "versions": needed, "optional": parts, "machine": here, "numba_cache": cache, "checks": checks}
    lines = [[name, found] for name, found in needed.items()]
    lines += [[name, found or f"not found; needed for: {({**OPTIONAL, **PROGRAMS})[name]}"] for name, found in parts.items()]
    limits = "".join(f", {name}={value}" for name, value in here["limits"].items())
    lines.append(["threads", f"{here['usable_cores']} of {here['cores']} cores{limits}"])
    if here["memory_mb"]:
        lines.append(["memory", f"{here['memory_free_mb']:,} of {here['memory_mb']:,} MB free"])
    lines += [["disk", f"{free:,} MB free in {place}"] for place, free in here["disk_free_mb"].items()]
    where = cache["path"] + ("" if cache["writable"] else " (not writable: set NUMBA_CACHE_DIR to a folder that is)")
    lines += [["numba cache", where], ["", f"{cache['kernels']} compiled kernels"]]
    for check in checks:
        lines.append([check["check"], f"{'ok' if check['ok'] else 'BROKEN'}: {check['found']} ({check['seconds']:.1f} s)"])
    o.emit(result, laid_out(lines, terminal_width()))
    return 0 if ok else 1


def _warm(o: Common) -> None:
    """Run the commands that most people use on a small list: what they compile, numba keeps."""
    data = data_folder()
    with (
        tempfile.TemporaryDirectory(prefix="boostfeat-doctor.") as folder,
        o.progress("compiling") as bar,
        chdir(folder),
        redirect_stdout(StringIO()),
    ):
        for done, job in enumerate(WARMING):
            bar.update(done, len(WARMING), note=job.partition(" ")[0])
            call([word.format(data=data) for word in [*job.split(), "-q"]])


def versions() -> dict[str, str]:
    """Return versions of Python, this package and what it needs."""
    return {"boostfeat": __version__, "python": platform.python_version(), **{name: version(name) for name in REQUIRED}}


def optional_parts() -> dict[str, str | None]:
    """Return versions of packages and places of programs that more can be done with; None where there is none."""
    return {**{name: _version(name) for name in OPTIONAL}, **{name: shutil.which(name) for name in PROGRAMS}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Return cores, threads, memory and room on disk (MB)."""
    memory: dict[str, int] = {}
    with contextlib.suppress(OSError), open("/proc/meminfo") as lines:
        memory = {name: int(rest.split()[0]) >> 10 for name, _, rest in (line.partition(":") for line in lines)}
    limits = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "limits": {name: os.environ[name] for name in limits if name in os.environ},
        "memory_mb": memory.get("MemTotal"),
        "memory_free_mb": memory.get("MemAvailable"),
        "disk_free_mb": {place: shutil.disk_usage(place).free >> 20 for place in (os.getcwd(), tempfile.gettempdir())},
    }


def numba_cache() -> dict[str, Any]:
    """Return where compiled kernels are kept, whether they can be, and how many are there."""
    if (path := _mix.stats.cache_path) is None:
        return {"path": "nowhere", "writable": False, "kernels": 0}
    here = Path(path)
    existing = next(place for place in (here, *here.parents) if place.exists())
    package = Path(__file__).parents[1]
    own = package if here.is_relative_to(package) else here.parent  # beside the modules, or where a user may write
    root = Path(os.environ["NUMBA_CACHE_DIR"]) if os.environ.get("NUMBA_CACHE_DIR") else own
    return {"path": str(here), "writable": os.access(existing, os.W_OK), "kernels": sum(1 for _ in root.rglob("*.nbi"))}


# ---------------------------------------------------------------------------------------------------------------------
# The self-test: answers that are known
# ---------------------------------------------------------------------------------------------------------------------


def self_test() -> Iterator[dict[str, Any]]:
    """Yield each check as {"check", "ok", "found", "seconds"}."""
    for name, check in (
        ("trees find what weights cannot", _check_boosting),
        ("a store is read as it was written", _check_store),
    ):
        began, ok = time.monotonic(), True
        try:
            found = check()
        except Exception as error:  # whatever is broken, it is what is being looked for
            ok, found = False, f"{type(error).__name__}: {error}".splitlines()[0]
        yield {"check": name, "ok": ok, "found": found, "seconds": seconds_since(began)}


def _check_boosting() -> str:
    """Learn lists whose hypothesis with the middle count is right: trees rank all of them first, linear weights cannot."""
    dev, test = _middle_lists(40, seed=1), _middle_lists(15, seed=2)
    options = recipe("paper", max_leaves=4, rounds=12, min_occurrences=2, draws=100)
    model = boost(dev, None, options)
    linear, learnt = (Scorer(test).score(m.predict(test), "bleu-sbp").score for m in (model.truncated(0), model))
    if not (linear < 99 and abs(learnt - 100) < 1e-9):
        raise ValueError(f"expected BLEU-SBP 100 with trees and less without, found {learnt:.2f} and {linear:.2f}")
    return f"BLEU-SBP {linear:.1f} -> {learnt:.1f}"


def _check_store() -> str:
    """Write a list, read it, write it again: the bytes are the same."""
    with tempfile.TemporaryDirectory(prefix="boostfeat-doctor.") as folder:
        first, second = Path(folder) / "first.nbest", Path(folder) / "second.nbest"
        write_store(_middle_lists(15, seed=2), first)
        write_store(read_store(first), second)
        if first.read_bytes() != second.read_bytes():
            raise ValueError("expected the same bytes, found others")
        return f"{first.stat().st_size:,} bytes"


def _middle_lists(n: int, *, seed: int) -> NBest:
    rng = np.random.default_rng(seed)
    builder, refs = Builder(), []
    for sent in range(n):
        words = [f"w{k}" for k in rng.integers(0, 30, 6)]
        refs.append(" ".join(words))
        for count in rng.permutation([1.0, 5.0, 9.0]):
            text = refs[-1] if count == 5 else " ".join([*words[:4], f"not{count:.0f}", f"so{count:.0f}"])
            features = {"count": count + rng.uniform(-0.5, 0.5), "noise": rng.standard_normal()}
            unit = UnitRecord(features, None, (0, 6), "", text, "", nan)
            builder.add(HypRecord(sent, text, f"self-test:{sent}", nan, {}, [unit]))
    return attach(builder.finish(), source=None, refs=[refs], name="self-test")
