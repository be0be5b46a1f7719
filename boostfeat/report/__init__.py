"""The page of a comparison: RUN/ -> plain dicts -> figures -> one HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core.files import is_writable_target, open_output
from ..features.feature_maker import FeatureMaker
from .feature_panels import feature_panels
from .overview import buckets, curves, duels, experiments, headline, lengths, levels, metric, reproduction, results, waterfalls
from .page import check_packages, render
from .run_folder import Run, load_run
from .sentence_browser import sentences
from .tree_cards import tree_panels

__all__ = ["Run", "gather", "load_run", "write_report"]

PARTS = {
    "metric": metric,
    "headline": headline,
    "results": results,
    "waterfalls": waterfalls,
    "curves": curves,
    "levels": levels,
    "trees": tree_panels,
    "features": feature_panels,
    "duels": duels,
    "buckets": buckets,
    "lengths": lengths,
    "sentences": sentences,
    "experiments": experiments,
    "reproduction": reproduction,
}


def gather(run: Run) -> dict[str, Any]:
    """Return everything the page shows, as plain dicts and lists."""
    return {**{name: part(run) for name, part in PARTS.items()}, "paper": run.paper}


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
