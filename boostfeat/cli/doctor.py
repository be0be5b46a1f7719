"""The command that looks at the installation."""

from __future__ import annotations

import tempfile
from contextlib import chdir, redirect_stdout
from io import StringIO
from typing import Annotated

import typer

from ..core.text_table import laid_out, terminal_width
from .common import emit, progress
from .flags import add


def register(app: typer.Typer) -> None:
    add(app, doctor)


def doctor(
    warm: Annotated[bool, typer.Option("--warm", help="Run a small job first: its kernels are compiled for later.")] = False,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    """Show versions, threads, caches and optional parts, and test in seconds that learning works; exit code 1 if it does not.

    \b
    Example:
      boostfeat doctor
      boostfeat doctor --json > for-the-bug-report.json
      boostfeat doctor --warm
    """
    from .self_test import OPTIONAL, PROGRAMS, machine, numba_cache, optional_parts, self_test, versions

    needed, parts, here = versions(), optional_parts(), machine()
    missing = [name for name, found in needed.items() if found is None]
    if warm and not missing:
        _warm(quiet=quiet)
    checks = list(self_test()) if not missing else []
    cache = numba_cache() if not missing else {}
    ok = not missing and all(check["ok"] for check in checks)
    result = {"ok": ok, "versions": needed, "optional": parts, "machine": here, "numba_cache": cache, "checks": checks}

    lines = [[name, found or "missing: install it with pip"] for name, found in needed.items()]
    for name, found in parts.items():
        lines.append([name, found or f"not found; needed for: {({**OPTIONAL, **PROGRAMS})[name]}"])
    limits = "".join(f", {name}={value}" for name, value in here["limits"].items())
    lines.append(["threads", f"{here['usable_cores']} of {here['cores']} cores{limits}"])
    if here["memory_mb"]:
        lines.append(["memory", f"{here['memory_free_mb']:,} of {here['memory_mb']:,} MB free"])
    lines += [["disk", f"{free:,} MB free in {place}"] for place, free in here["disk_free_mb"].items()]
    if cache:
        where = cache["path"] + ("" if cache["writable"] else " (not writable: set NUMBA_CACHE_DIR to a folder that is)")
        lines += [["numba cache", where], ["", f"{cache['kernels']} compiled kernels"]]
    for check in checks:
        lines.append([check["check"], f"{'ok' if check['ok'] else 'BROKEN'}: {check['found']} ({check['seconds']:.1f} s)"])
    emit(result, laid_out(lines, terminal_width()), as_json=as_json)
    return 0 if ok else 1


WARMING = (
    "import {data}/dev.nbest.xz -s {data}/dev.src -r {data}/dev.ref --size 5 -o dev.nbest",
    "import {data}/select.nbest.xz -s {data}/select.src -r {data}/select.ref --size 5 -o select.nbest",
    "tune dev.nbest --select select.nbest --method mert -o mert.json",
    "induce dev.nbest --select select.nbest --rounds 5 -o model.json",
    "rerank select.nbest -m model.json -o best.txt",
    "score select.nbest -m model.json --metrics bleu,chrf,ter",
)


def _warm(*, quiet: bool) -> None:
    """Run the commands that most people use on a small list: what they compile, numba keeps."""
    from . import make_app
    from .demo import data_folder

    app, data = make_app(), data_folder()
    with (
        tempfile.TemporaryDirectory(prefix="boostfeat-doctor.") as folder,
        progress("compiling", quiet=quiet) as bar,
        chdir(folder),
        redirect_stdout(StringIO()),
    ):
        for done, job in enumerate(WARMING):
            bar.update(done, len(WARMING), note=job.partition(" ")[0])
            app([word.format(data=data) for word in [*job.split(), "-q"]], standalone_mode=False)
