"""The page of a comparison: RUN/ -> plain dicts -> figures -> one HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..features.carried import FeatureMaker
from .run import Run, load_run

__all__ = ["Run", "gather", "load_run", "write_report"]


def gather(run: Run) -> dict[str, Any]:
    """Everything the page shows, as plain dicts and lists."""
    from .features import feature_panels
    from .levels import levels
    from .overview import buckets, curves, duels, experiments, headline, lengths, metric, reproduction, results
    from .sentences import sentences
    from .trees import tree_panels

    return {
        "metric": metric(run),
        "headline": headline(run),
        "results": results(run),
        "curves": curves(run),
        "levels": levels(run),
        "trees": tree_panels(run),
        "features": feature_panels(run),
        "duels": duels(run),
        "buckets": buckets(run),
        "lengths": lengths(run),
        "sentences": sentences(run),
        "experiments": experiments(run),
        "paper": run.paper,
        "reproduction": reproduction(run),
    }


def write_report(
    folder: str | Path, output: str | Path, *, test: str | Path | None = None, maker: FeatureMaker | None = None
) -> int:
    """Write the page of a run and return its size in bytes; ``test`` is where the test list is now, if it was moved.

    ``maker`` has the files that the models' templates read, where the folder no longer holds the lists with their features.
    """
    from ..core.files import is_writable_target, open_output
    from .page import check_packages, render

    check_packages()
    is_writable_target(output)
    page = render(gather(load_run(folder, test=test, maker=maker))).encode()
    with open_output(output) as stream:
        stream.write(page)
    return len(page)
