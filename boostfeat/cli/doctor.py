"""The command that looks at the installation."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core.text_table import laid_out, terminal_width
from .common import emit, progress
from .flags import add


def register(app: typer.Typer) -> None:
    add(app, doctor)


def doctor(
    warm: Annotated[bool, typer.Option("--warm", help="Compile all kernels ahead, for all commands to come.")] = False,
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
    from .self_test import OPTIONAL, PROGRAMS, kernels_used, machine, numba_cache, optional_parts, self_test, versions

    needed, parts, here = versions(), optional_parts(), machine()
    missing = [name for name, found in needed.items() if found is None]
    if warm and not missing:
        _warm(quiet=quiet)
    cache = numba_cache() if not missing else {}
    checks = list(self_test()) if not missing else []
    used = kernels_used() if not missing else {}
    ok = not missing and all(check["ok"] for check in checks)
    kernels = {**cache, **used}
    result = {"ok": ok, "versions": needed, "optional": parts, "machine": here, "numba_cache": kernels, "checks": checks}

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
        now = f"{cache['kernels']} files; now {used['loaded']} loaded, {used['compiled']} compiled"
        kept = used["compiled"] and cache["writable"]
        lines += [["numba cache", where], ["", now + (": the next run starts faster" if kept else "")]]
    for check in checks:
        lines.append([check["check"], f"{'ok' if check['ok'] else 'BROKEN'}: {check['found']} ({check['seconds']:.1f} s)"])
    emit(result, laid_out(lines, terminal_width()), as_json=as_json)
    return 0 if ok else 1


def _warm(*, quiet: bool) -> None:
    """Compile the kernels that are not in numba's cache."""
    from ..core.warming import kernels_to_warm, warm

    n = len(kernels_to_warm())
    with progress("compiling", quiet=quiet) as bar:
        for done, (name, _) in enumerate(warm(), 1):
            bar.update(done, n, note=f"{done} of {n}: {name}")
