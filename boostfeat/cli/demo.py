"""The whole job on the data that ships with the tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .flags import add

# Of the lists' 100 hypotheses and of compare's systems as much as fits into about a minute
SIZE = ("--size", "30")
SYSTEMS = ("--systems", "decoder,base-MERT,base-PRO,kbmira,boost-local:paper,base/boost-local:fast")


def register(app: typer.Typer) -> None:
    def demo(
        output: Annotated[str, typer.Option("-o", "--output", help="A folder for what the commands write.")] = "boostfeat-demo",
        *,
        seed: int,
        threads: int,
        quiet: bool,
        as_json: bool,
    ) -> None:
        """Run the whole job on the lists in data/, printing each command: import, featurize, compare, show, report.

        \b
        Example:
          boostfeat demo
        """
        from ..core.errors import InputError

        data, out = data_folder(), Path(output)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{out}: expected a folder to write, found: {error.strerror}; choose another with -o") from None
        common = ["--seed", str(seed), "--threads", str(threads)] + (["-q"] if quiet else [])
        lists = {name: f"{out}/{name}.nbest" for name in ("dev", "select", "test")}
        others = ("--select", lists["select"], "--test", lists["test"])
        jobs = [
            *(
                ["import", f"{data}/{n}.nbest.xz", "-s", f"{data}/{n}.src", "-r", f"{data}/{n}.ref", *SIZE, "-o", path]
                for n, path in lists.items()
            ),
            ["info", lists["dev"]],
            ["featurize", lists["dev"], "--templates", "large", "-o", f"{out}/dev.large.nbest"],
            ["compare", lists["dev"], *others, *SYSTEMS, "--force", "-o", f"{out}/run"],
            ["show", f"{out}/run/models/base_boost-local_fast.json"],
            ["report", f"{out}/run", "-o", f"{out}/report.html"],
        ]
        for job in jobs:
            if not quiet:
                sys.stderr.flush()
                print(f"\n$ boostfeat {' '.join(job)}", flush=True)
            app([*job, *common, *(["--json"] if as_json else [])], standalone_mode=False)

    add(app, demo)


def data_folder() -> Path:
    """data/ as installed with the package, or of the checkout."""
    from ..core.errors import InputError

    package = Path(__file__).parents[1]
    for folder in (package / "data", package.parent / "data"):
        if (folder / "dev.nbest.xz").exists():
            return folder
    raise InputError("data/: expected the demo's lists beside the package, found none; install boostfeat again")
