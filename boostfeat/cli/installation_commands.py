"""Commands that try out the installation: demo runs the whole job on data/, doctor looks whether it computes what it should."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
import time
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import distributions, version
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..boosting.boost import boost
from ..boosting.boost_options import recipe
from ..core.arrays import segment_sum
from ..core.errors import InputError
from ..core.options import option
from ..core.processes import seconds_since, usable_cores
from ..lists.choices import Scorer
from ..lists.nbest import NBest
from ..report.page import check_packages
from . import call
from .checked_inputs import OutputFlags
from .console import Common, laid_out, output_file, terminal_width

EXCERPT = {"info": ((0, 4), (8, 11)), "show": ((2, 5), (-10, -2))}  # ranges of the lines of long outputs that are printed
IMPORT = "import $DATA/{0}.nbest.xz -s $DATA/{0}.src \\\n    -r $DATA/{0}.ref --size 30 -o {0}.nbest"
JOBS = (  # as a shell reads them; of the lists' 100 hypotheses 30, so that it takes about a minute
    *map(IMPORT.format, ("dev", "select", "test")),
    "info dev.nbest",
    "compare dev.nbest --select select.nbest --test test.nbest \\\n    --force -o run",
    "show run/models/base_boost-local.json --trees 1",
    "report run -o report.html",
)


@dataclass(frozen=True, kw_only=True)
class DemoFlags(OutputFlags):
    """Flags of ``demo``."""

    output: str = output_file("For what the commands write", "FOLDER", default="boostfeat-demo")


def demo(o: DemoFlags) -> None:
    """Run the whole job on the lists in data/, printing each command: import, info, compare, show, report.

    \b
    Example:
      boostfeat demo
    """
    data, out = data_folder(), Path(o.output)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: expected a folder to write, found: {error.strerror}; choose another with -o") from None
    page = can_report(o)
    common = ["--seed", str(o.seed), "--threads", str(o.threads), *(["--json"] if o.as_json else [])]
    if not o.quiet:
        print(f"$ cd {o.output}; DATA={data}")
    with chdir(out):
        for job in JOBS if page else JOBS[:-1]:
            name = job.partition(" ")[0]
            if not o.quiet:
                sys.stderr.flush()
                print("" if name == "import" else "\n", f"$ boostfeat {job}", sep="", flush=True)
            # bars move on a terminal while systems are compared; other messages would only fill the screen
            hush = [] if name == "compare" and sys.stderr.isatty() and not o.quiet else ["-q"]
            run([word.replace("$DATA", str(data)) for word in job.replace("\\", "").split()] + common + hush, whole=o.as_json)
    if page and not o.quiet:
        print(f"Open {out / 'report.html'} in any browser.")


def run(job: list[str], *, whole: bool) -> None:
    """Run a command, and print what it prints; of long outputs some lines, with dots for what is left out."""
    if whole or job[0] not in EXCERPT:
        call(job)
        return
    with redirect_stdout(StringIO()) as printed:
        call(job)
    lines = printed.getvalue().splitlines()
    print(*(line for start, end in EXCERPT[job[0]] for line in (*lines[start:end], "...")), sep="\n", flush=True)


def can_report(o: Common) -> bool:
    """Return whether the page can be made; if not, say what to install before the work and not after it."""
    try:
        check_packages()
    except InputError as error:
        o.say(f"{error}; the demo goes on without its page")
        return False
    return True


def data_folder() -> Path:
    """Return data/ as installed with the package, or of the checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "data", package.parent / "data"):
        if (folder / "dev.nbest.xz").exists():
            return folder
    raise InputError("data/: expected the demo's lists beside the package, found none; install boostfeat again")


# ---------------------------------------------------------------------------------------------------------------------
# doctor
# ---------------------------------------------------------------------------------------------------------------------

REQUIRED = (
    *("numpy", "scipy", "scikit-learn", "lightgbm", "sacrebleu", "numba", "pyarrow", "threadpoolctl"),
    *("typer", "rich", "msgspec", "narwhals", "zstandard"),
)
OPTIONAL = {  # distribution: what is not to be had without it
    "jinja2": "report",
    "plotly": "report",
    "treelite": "export --to treelite",
    "onnx": "export --to onnx",
    "onnxruntime": "export --to onnx, verified",
    "dask": "lists on several machines",
    "distributed": "lists on several machines",
    "cc": "export --to c, verified",  # a program
}
WARMING = (
    "import {data}/dev.nbest.xz -s {data}/dev.src -r {data}/dev.ref --size 5 -o dev.nbest",
    "import {data}/select.nbest.xz -s {data}/select.src -r {data}/select.ref --size 5 -o select.nbest",
    "tune dev.nbest --select select.nbest --method mert -o mert.json",
    "induce dev.nbest --select select.nbest --rounds 5 -o model.json",
    "rerank select.nbest -m model.json -o best.txt",
    "score select.nbest -m model.json --metric bleu,chrf,ter",
)


@dataclass(frozen=True, kw_only=True)
class DoctorFlags(Common):
    """Flags of ``doctor``."""

    warm: bool = option(False, "Run a small job first: its kernels are compiled for later")


def doctor(o: DoctorFlags) -> int:
    """Show versions, threads, caches and optional parts, and test in seconds that learning works; exit code 1 if it does not.

    \b
    Example:
      boostfeat doctor
      boostfeat doctor --json > for-the-bug-report.json
      boostfeat doctor --warm
    """
    if o.warm:
        _warm(o)
    needed, parts, here, cache, check = versions(), optional_parts(), machine(), numba_cache(), self_test()
    result = {"ok": check["ok"], "versions": needed, "optional": parts, "machine": here, "numba_cache": cache, "checks": [check]}
    lines = [[name, found] for name, found in needed.items()]
    lines += [[name, found or f"not found; needed for: {OPTIONAL[name]}"] for name, found in parts.items()]
    limits = "".join(f", {name}={value}" for name, value in here["limits"].items())
    lines.append(["threads", f"{here['usable_cores']} of {here['cores']} cores{limits}"])
    if here["memory_mb"]:
        lines.append(["memory", f"{here['memory_free_mb']:,} of {here['memory_mb']:,} MB free"])
    lines += [["disk", f"{free:,} MB free in {place}"] for place, free in here["disk_free_mb"].items()]
    where = cache["path"] + ("" if cache["writable"] else " (not writable: set NUMBA_CACHE_DIR to a folder that is)")
    lines += [["numba cache", where], ["", f"{cache['kernels']} compiled kernels"]]
    lines.append([check["check"], f"{'ok' if check['ok'] else 'BROKEN'}: {check['found']} ({check['seconds']:.1f} s)"])
    o.emit(result, laid_out(lines, terminal_width()))
    return 0 if check["ok"] else 1


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
    packages = {name: next((package.version for package in distributions(name=name)), None) for name in OPTIONAL}
    return {**packages, "cc": shutil.which("cc")}


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
    if (path := segment_sum.stats.cache_path) is None:
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


def self_test() -> dict[str, Any]:
    """Return {"check", "ok", "found", "seconds"} of a small job whose answer is known."""
    began, ok = time.monotonic(), True
    try:
        found = _check_boosting()
    except Exception as error:  # whatever is broken, it is what is being looked for
        ok, found = False, f"{type(error).__name__}: {error}".splitlines()[0]
    return {"check": "trees find what weights cannot", "ok": ok, "found": found, "seconds": seconds_since(began)}


def _check_boosting() -> str:
    """Learn lists whose hypothesis with the middle count is right: trees rank all of them first, linear weights cannot."""
    dev, test = _middle_lists(40, seed=1), _middle_lists(15, seed=2)
    options = recipe("paper", level="global", max_leaves=4, rounds=12, min_occurrences=2, draws=100)
    model = boost(dev, None, options)
    linear, learnt = (Scorer(test).score(m.predict(test), "bleu-sbp").score for m in (model.truncated(0), model))
    if not (linear < 99 and abs(learnt - 100) < 1e-9):
        raise ValueError(f"expected BLEU-SBP 100 with trees and less without, found {learnt:.2f} and {linear:.2f}")
    return f"BLEU-SBP {linear:.1f} -> {learnt:.1f}"


def _middle_lists(n: int, *, seed: int) -> NBest:
    rng, rows = np.random.default_rng(seed), []
    for sent in range(n):
        words = [f"w{k}" for k in rng.integers(0, 30, 6)]
        for count in rng.permutation([1.0, 5.0, 9.0]):
            text = " ".join(words if count == 5 else [*words[:4], f"not{count:.0f}", f"so{count:.0f}"])
            features = {"count": count + rng.uniform(-0.5, 0.5), "noise": rng.standard_normal()}
            rows.append({"list": sent, "text": text, "right": " ".join(words), **features})
    return NBest.from_records(rows, group="list", text="text", features=["count", "noise"], refs="right")
