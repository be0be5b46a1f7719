"""The whole job on the data that ships with the tool."""

from __future__ import annotations

import re
import sys
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import wrap

from ..core.errors import InputError
from ..core.options import option
from ..report.page import check_packages
from . import call
from .console import FILES, Common
from .inputs import OutputFlags

WIDTH = 80  # columns of a printed line, at most
EXCERPT = {"info": ((0, 4), (8, 11)), "show": ((2, 5), (-10, -2))}  # ranges of the lines of long outputs that are printed
JOBS = (  # of the lists' 100 hypotheses 30, so that it takes about a minute
    *(f"import $DATA/{n}.nbest.xz -s $DATA/{n}.src -r $DATA/{n}.ref --size 30 -o {n}.nbest" for n in ("dev", "select", "test")),
    "info dev.nbest",
    "compare dev.nbest --select select.nbest --test test.nbest --force -o run",
    "show run/models/base_boost-local.json --trees 1",
    "report run -o report.html",
)


@dataclass(frozen=True, kw_only=True)
class Demo(OutputFlags):
    """Flags of ``demo``."""

    output: str = option("boostfeat-demo", "For what the commands write", short="o", metavar="FOLDER", group=FILES)


def demo(o: Demo) -> None:
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
                print(*([] if name == "import" else [""]), *shell_lines(f"$ boostfeat {job}"), sep="\n", flush=True)
            # bars move on a terminal while systems are compared; other messages would only fill the screen
            hush = [] if name == "compare" and sys.stderr.isatty() and not o.quiet else ["-q"]
            run([word.replace("$DATA", str(data)) for word in job.split()] + common + hush, whole=o.as_json)
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


def shell_lines(command: str) -> list[str]:
    """Return a command in lines of at most WIDTH columns that a shell reads as one; a flag and its value stay together."""
    bound = re.sub(r" (-\S+) (?!-)", " \\1\0", command)
    lines = wrap(bound, WIDTH - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") + " \\" * (line is not lines[-1]) for line in lines]


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
