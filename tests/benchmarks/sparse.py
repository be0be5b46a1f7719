"""`induce` with sparse templates beside one fit, and beside `induce` without them plus `featurize`: CPU seconds and memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

from generate import Sizes, generate
from harness import REAL, fi_en, in_process, report

MOST_FITS, MOST_PLAIN, MOST_MB = 3, 2, 1500
RUNS = {
    "induce": "induce {dev} --templates sparse -o {folder}/whole.json",
    "one fit": "induce {dev} --templates sparse --rule best --set sparse_l2=1000 -o {folder}/one.json",
    "induce --templates none": "induce {dev} --templates none -o {folder}/plain.json",
    "featurize": "featurize {dev} --templates sparse -o {folder}/sparse.nbest --force",
}


def commands(dev: Path, folder: Path) -> dict[str, dict[str, float]]:
    """CPU seconds and peak memory of each run, one after the other, each in a process of its own."""
    found = {}
    for name, line in RUNS.items():
        words = line.format(dev=dev, folder=folder).split()
        found[name] = in_process(
            f"from boostfeat.cli import app\napp({[*words, '-q', '--threads', '1']!r}, standalone_mode=False)\n"
        )
    return found


def dev_list(folder: Path) -> Path:
    """A real list where there is one, else a generated one."""
    if (REAL / "fi-en").is_dir():
        return fi_en(folder)
    generate(folder / "dev.nbest", Sizes(sentences=2500))
    return folder / "dev.nbest"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = commands(dev_list(Path(folder)), Path(folder))
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
