"""The page of a comparison: RUN/ -> plain dicts -> figures -> one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ..compare.table import latex_table
from ..core.files import is_writable_target, open_output
from ..features.feature_maker import FeatureMaker
from .model_panels import feature_panels, tree_panels
from .overview import buckets, curves, duels, experiments, headline, lengths, levels, metric, reproduction, results, waterfalls
from .page import check_packages, render
from .run_folder import FinishedRun, load_run, read_results
from .sentence_browser import sentences

__all__ = ["FinishedRun", "gather", "load_run", "write_figures", "write_report", "write_table"]

PARTS = (metric, headline, results, waterfalls, curves, levels, duels, buckets, lengths, sentences, experiments, reproduction)


def gather(run: FinishedRun) -> dict[str, Any]:
    """Return everything the page shows, as plain dicts and lists."""
    parts: dict[str, Any] = {part.__name__: part(run) for part in PARTS}
    return {**parts, "trees": tree_panels(run), "features": feature_panels(run), "paper": run.paper}


def write_report(
    folder: str | Path, output: str | Path, *, test: str | Path | None = None, maker: FeatureMaker | None = None
) -> int:
    """Write the page of a run and return its size in bytes; ``test`` is where the test list is now, if it was moved.

    ``maker`` has the files that the models' templates read, where the folder no longer holds the lists with their features.
    """
    check_packages()
    is_writable_target(output)
    page = render(gather(load_run(folder, test=test, maker=maker))).encode()
    with open_output(output) as stream:
        stream.write(page)
    return len(page)


def write_figures(
    folder: str | Path, output: str | Path, *, test: str | Path | None = None, maker: FeatureMaker | None = None
) -> int:
    """Write the figures of an article into a folder, as PDF and SVG for one column and for two; return how many there are."""
    plots = import_module(".plots", __name__)  # of the extra [plot]
    run = load_run(folder, test=test, maker=maker)
    return int(plots.save_figures(run, gather(run), Path(output)))


def write_table(folder: str | Path, output: str | Path, columns: Sequence[str] = ()) -> None:
    """Write the results of a run as a LaTeX table; see ``latex_table``."""
    rows, signatures = read_results(Path(folder))
    with open_output(output) as stream:
        stream.write(latex_table(rows, columns, name=Path(output).stem, signatures=signatures).encode())
