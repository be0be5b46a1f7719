"""`induce` with sparse templates beside one fit, and beside `induce` without them plus `featurize`: CPU seconds and memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

from generate import Sizes, generate
from harness import REAL, fi_en, in_process, report

MOST_FITS, MOST_PLAIN, MOST_MB = 3, 2, 1500
RUNS = {
    "induce": "induce {dev} --select {select} --templates sparse -o {folder}/whole.json",
    "one fit": "induce {dev} --select {select} --templates sparse --rule best --set sparse_l2=1000 -o {folder}/one.json",
    "induce --templates none": "induce {dev} --select {select} --templates none -o {folder}/plain.json",
    "featurize": "featurize {dev} --templates sparse -o {folder}/sparse.nbest --force",
}


def commands(dev: Path, select: Path, folder: Path) -> dict[str, dict[str, float]]:
    """CPU seconds and peak memory of each run, one after the other, each in a process of its own."""
    found = {}
    for name, line in RUNS.items():
        words = line.format(dev=dev, select=select, folder=folder).split()
        found[name] = in_process(
            f"from boostfeat.cli import app\napp({[*words, '-q', '--threads', '1']!r}, standalone_mode=False)\n"
        )
    return found


def lists(folder: Path, *, sentences: int = 2500) -> tuple[Path, Path]:
    """Real lists where they are, else generated ones, to learn from and to select by."""
    if (REAL / "fi-en").is_dir():
        return fi_en(folder), fi_en(folder, "devselect")
    for name, n in (("dev", sentences), ("select", sentences // 2)):
        generate(folder / f"{name}.nbest", Sizes(sentences=n))
    return folder / "dev.nbest", folder / "select.nbest"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = commands(*lists(Path(folder)), Path(folder))
    for name, run in found.items():
        report(name, f"{run['cpu']:.1f} s, {run['peak']:.0f} MB", "-")
    whole, one = found["induce"], found["one fit"]
    apart = found["induce --templates none"]["cpu"] + found["featurize"]["cpu"]
    report(
        "induce against one fit", f"{whole['cpu'] / one['cpu']:.2f} x", f"{MOST_FITS} x", whole["cpu"] <= MOST_FITS * one["cpu"]
    )
    report(
        "induce against --templates none plus featurize",
        f"{whole['cpu'] / apart:.2f} x",
        f"{MOST_PLAIN} x",
        whole["cpu"] <= MOST_PLAIN * apart,
    )
    report("peak memory of induce", f"{whole['peak']:.0f} MB", f"{MOST_MB} MB", whole["peak"] <= MOST_MB)


if __name__ == "__main__":
    main()
