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
from . import app
from .console import FILES, Common
from .inputs import OutputFlags

SIZE = ("--size", "30")  # of the lists' 100 hypotheses, so that it takes about a minute
WIDTH = 80  # columns of a printed line, at most
EXCERPT = {"info": ((0, 4), (8, 11)), "show": ((2, 5), (-10, -2))}  # ranges of the lines of long outputs that are printed


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
        for job in jobs(page=page):
            if not o.quiet:
                sys.stderr.flush()
                gap = [] if job[0] == "import" else [""]
                print(*gap, *shell_lines(f"$ boostfeat {' '.join(job)}"), sep="\n", flush=True)
            # a bar moves on a terminal while systems are compared; other messages would only fill the screen
            hush = [] if job[0] == "compare" and sys.stderr.isatty() and not o.quiet else ["-q"]
            run([word.replace("$DATA", str(data)) for word in job] + common + hush, whole=o.as_json)
    if page and not o.quiet:
        print(f"Open {out / 'report.html'} in any browser.")


def jobs(*, page: bool) -> list[list[str]]:
    """The commands, as they are printed; they run in the folder of the output."""
    lists = ("dev", "select", "test")
    return [
        *(
            ["import", f"$DATA/{n}.nbest.xz", "-s", f"$DATA/{n}.src", "-r", f"$DATA/{n}.ref", *SIZE, "-o", f"{n}.nbest"]
            for n in lists
        ),
        ["info", "dev.nbest"],
        ["compare", "dev.nbest", "--select", "select.nbest", "--test", "test.nbest", "--force", "-o", "run"],
        ["show", "run/models/base_boost-local.json", "--trees", "1"],
        *([["report", "run", "-o", "report.html"]] if page else []),
    ]


def run(job: list[str], *, whole: bool) -> None:
    """Run a command, and print what it prints, an excerpt of long outputs."""
    if whole or job[0] not in EXCERPT:
        app(job, standalone_mode=False)
        return
    with redirect_stdout(StringIO()) as printed:
        app(job, standalone_mode=False)
    print(*excerpt(printed.getvalue().splitlines(), EXCERPT[job[0]]), sep="\n", flush=True)


def excerpt(lines: list[str], ranges: tuple[tuple[int, int], ...]) -> list[str]:
    """The lines of some ranges, with dots for what is left out between and after them."""
    return [line for start, end in ranges for line in (*lines[start:end], "...")]


def shell_lines(command: str) -> list[str]:
    """A command in lines of at most WIDTH columns that a shell reads as one; a flag and its value stay together."""
    bound = re.sub(r" (-\S+) (?!-)", " \\1\0", command)
    lines = wrap(bound, WIDTH - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") + " \\" * (line is not lines[-1]) for line in lines]


def can_report(o: Common) -> bool:
    """Whether the page can be made; if not, what to install is said before the work and not after it."""
    try:
        check_packages()
    except InputError as error:
        o.say(f"{error}; the demo goes on without its page")
        return False
    return True


def data_folder() -> Path:
    """data/ as installed with the package, or of the checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "data", package.parent / "data"):
        if (folder / "dev.nbest.xz").exists():
            return folder
    raise InputError("data/: expected the demo's lists beside the package, found none; install boostfeat again")
