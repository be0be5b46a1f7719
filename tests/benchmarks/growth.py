"""Time and memory of the main stages at 1, 2, 4 and 8 times the sentences, the list length and the features.

Of sparse features there are 10³ to 10⁵, or 1 to 8 of a unit; what is measured there is what learns their weights.

    python growth.py [--quick] [--json growth.json] [--svg growth.svg] [--into PAGE] [--stages PRO,binning]

Every point is a process of its own: what is timed is CPU seconds of one thread after a first run on a small list (compilation,
imports), the median of at least three runs; of what grows faster than the list, the time outside the system (which hands out
pages) is shown as well. Memory is the peak resident size above that of the process when it has done the small list. Pages of the
store that are touched count, though the system may take them back. Lists are those of generate.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from math import log, prod
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fits import GOAL, Curve, Growth, fit, svg
from generate import Sizes, generate
from harness import in_process, measured_now, put_block

BASES = {  # each axis from its own smallest list
    "sentences": Sizes(sentences=500, hyps=50, features=16),
    "list length": Sizes(sentences=500, hyps=50, features=16),
    "features": Sizes(sentences=1000, hyps=50, features=16),
}
SPARSE = {  # lists with sparse features: more names for the same occurrences, and more of them in every unit
    "sparse features": Sizes(sentences=1000, hyps=50, features=16, sparse=1000),
    "sparse of a unit": Sizes(sentences=1000, hyps=50, features=16, sparse=20_000, per_unit=1),
}
FIELDS = {"sentences": "sentences", "list length": "hyps", "features": "features"}
SPARSE_FIELDS = {"sparse features": "sparse", "sparse of a unit": "per_unit"}
FACTORS = (1, 2, 4, 8)
NAMES = (1, 5, 20, 100)  # factors of sparse features
SMALL = Sizes(sentences=50, hyps=20, features=16)
JOBS = {  # what estimates are printed for; a sentence of 500 hypotheses has about 3,870 occurrences
    "12,000 x 500 x 190": [12_000, 500, 190],
    "10⁹ occurrences x 20": [258_000, 500, 20],
    "10⁹ occurrences x 190": [258_000, 500, 190],
}
TEXT_SHARE = 4  # a quarter of the sentences is written as text, for import
ITERATIONS = 20  # of PRO's L-BFGS, so that convergence is not measured
EPOCHS = 4


# -- the stages: what is prepared, and what is timed ------------------------------------------------------------------


def opening(path: Path) -> Callable[[], Any]:
    from boostfeat.lists.store import read_store

    return lambda: read_store(path)


def importing(path: Path) -> Callable[[], Any]:
    """Phrase scores inline, as Moses writes them; with BLEU statistics."""
    from boostfeat.formats import read
    from boostfeat.lists.build import ReadOptions, attach
    from boostfeat.lists.store import read_store

    about = read_store(path.with_suffix(".part"))
    source, refs = about.source.to_pylist(), about.refs.to_pylist()
    return lambda: attach(read(path.with_suffix(".txt"), ReadOptions(source=source)), source=source, refs=[refs], name="list")


def featurizing(path: Path) -> Callable[[], Any]:
    from boostfeat.features import TEMPLATES, FeaturePlan, featurize
    from boostfeat.lists.store import read_store

    nbest = read_store(path)
    return lambda: featurize(nbest, FeaturePlan.of("large", TEMPLATES))


def drawing_pairs(path: Path) -> Callable[[], Any]:
    from boostfeat.lists.store import read_store
    from boostfeat.losses.pairs import PairOptions, pairs_for

    nbest = read_store(path)
    return lambda: pairs_for(nbest, PairOptions(), seed=0)


def pro(path: Path) -> Callable[[], Any]:
    from boostfeat.lists.store import read_store
    from boostfeat.losses.pairs import PairOptions, pairs_for
    from boostfeat.tuners.linear import linear_problem

    nbest = read_store(path)
    pairs = pairs_for(nbest, PairOptions(), seed=0)
    return lambda: linear_problem(nbest, pairs).fit(max_iter=ITERATIONS, tol=0.0)


def binning(path: Path) -> Callable[[], Any]:
    from boostfeat.lists.store import read_store
    from boostfeat.model.units import UnitSpace
    from boostfeat.trees.growing import Grower, TreeOptions

    space = UnitSpace.of(read_store(path), "local")
    return lambda: Grower(space.table, space.counts(), TreeOptions())


def one_round(leaves: str) -> Callable[[Path], Callable[[], Any]]:
    def prepare(path: Path) -> Callable[[], Any]:
        import numpy as np
        from report import rounds

        from boostfeat.lists.store import read_store
        from boostfeat.losses.pairs import PairOptions, pairs_for

        nbest = read_store(path)
        scores = nbest.sum_units(np.ascontiguousarray(nbest.X[:, 0]))
        return rounds(nbest, pairs_for(nbest, PairOptions(), seed=0), scores)(leaves)

    return prepare


def tuning(method: str) -> Callable[[Path], Callable[[], Any]]:
    def prepare(path: Path) -> Callable[[], Any]:
        from boostfeat.lists.store import read_store
        from boostfeat.tuners import tuner_class
        from boostfeat.tuners.base import Run

        nbest, tuner = read_store(path), tuner_class(method)(epochs=EPOCHS)
        start = {name: 0.1 for name in nbest.unit_names[:4]}
        return lambda: tuner.fit(nbest, None, Run(init=start))

    return prepare


STAGES: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "open": opening,
    "import": importing,
    "featurize": featurizing,
    "pairs": drawing_pairs,
    f"PRO, {ITERATIONS} iterations": pro,
    "binning": binning,
    "constant round": one_round("constant"),
    "linear round": one_round("linear"),
    f"kb-MIRA, {EPOCHS} epochs": tuning("kbmira"),
    f"MIRA, {EPOCHS} epochs": tuning("mira"),
    (SPARSE_FIT := f"sparse fit, {ITERATIONS} iterations"): pro,
}
ON_SPARSE = ("open", SPARSE_FIT, f"kb-MIRA, {EPOCHS} epochs", f"MIRA, {EPOCHS} epochs")


def stages_on(axis: str) -> list[str]:
    """The stages that are measured along an axis."""
    return [stage for stage in STAGES if (stage in ON_SPARSE if axis in SPARSE else stage != SPARSE_FIT)]


# -- one point, in its own process ------------------------------------------------------------------------------------


def resident(key: str) -> float:
    """MB: VmRSS now, or VmHWM at most since ``forget_peak``."""
    return int(re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measure(stage: str, path: Path, small: Path, least: float) -> None:
    """Print seconds (the median of runs that take ``least`` seconds in all, three or more), those outside the system, and memory.

    Never of one run only, however long it takes: the first one is given its pages by the system, later ones have them.
    """
    STAGES[stage](small)()
    forget_peak()
    before = resident("VmRSS")  # in this order: what is freed between the two lowers both
    work, times, own = STAGES[stage](path), [], []
    while len(times) < 3 or sum(times) < least:
        started, user = time.process_time(), os.times().user
        work()
        times.append(time.process_time() - started)
        own.append(os.times().user - user)
    print(f"seconds={median(times)}")
    print(f"user={sum(own) / len(own)}")  # the clock of this one is coarse
    print(f"memory={max(0.0, resident('VmHWM') - before)}")  # the kernel's counters are some pages apart


def point(stage: str, path: Path, small: Path, least: float) -> dict[str, float]:
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r})\nfrom pathlib import Path\nfrom growth import measure\n"
    return in_process(code + f"measure({stage!r}, Path({str(path)!r}), Path({str(small)!r}), {least})")


# -- all of them ------------------------------------------------------------------------------------------------------


def lists(folder: Path, *, shrink: int, text: bool) -> Iterator[tuple[str, int, list[int], Path]]:
    """(axis, size, all sizes, store) of every point; beside a store, a part of it as text."""
    known: dict[Sizes, Path] = {}
    for axis, base in {**BASES, **SPARSE}.items():
        field = {**FIELDS, **SPARSE_FIELDS}[axis]
        for factor in NAMES if field == "sparse" else FACTORS:
            values = {**vars(base), "sentences": base.sentences // shrink}
            values[field] *= factor
            sizes = Sizes(**values)
            if sizes not in known:
                known[sizes] = written(folder / f"{len(known)}.nbest", sizes, text=text and axis in BASES)
            yield axis, values[field], [values[name] for name in FIELDS.values()], known[sizes]


def written(path: Path, sizes: Sizes, *, text: bool) -> Path:
    from boostfeat.formats.moses import enriched as moses_enriched
    from boostfeat.lists.store import read_store, write_store

    generate(path, sizes)
    if text:
        part = read_store(path)[: max(1, sizes.sentences // TEXT_SHARE)]
        write_store(part, path.with_suffix(".part"))
        with open(path.with_suffix(".txt"), "wb") as stream:
            moses_enriched.write(part, stream)
    return path


def run(stages: list[str], *, quick: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    known: dict[tuple[str, Path], dict[str, float]] = {}  # two axes may begin with the same list
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), "import" in stages
        small = written(folder / "small.nbest", SMALL, text=text)
        for axis, size, sizes, path in lists(folder, shrink=5 if quick else 1, text=text):
            for stage in (stage for stage in stages_on(axis) if stage in stages):
                if (stage, path) not in known:
                    known[stage, path] = point(stage, path, small, 0.1 if quick else 0.3)
                found = known[stage, path]
                rows.append(
                    {"axis": axis, "size": size, "sizes": sizes, "stage": stage, "store": os.path.getsize(path) / 1e6, **found}
                )
                print(f"{axis} {size}: {stage}: {found['seconds']:.3f} s, {found['memory']:.0f} MB", file=sys.stderr)
    return rows


COSTS = {"seconds": "CPU seconds", "memory": "peak memory, MB"}


def curves(rows: list[dict[str, Any]], cost: str) -> dict[str, dict[str, Curve]]:
    """(size, cost) by axis and stage."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        out.setdefault(row["axis"], {}).setdefault(row["stage"], []).append((row["size"], max(row[cost], 1e-4)))
    return out


def exponents(rows: list[dict[str, Any]], cost: str) -> dict[str, dict[str, Growth]]:
    """Fitted growth by stage and axis."""
    out: dict[str, dict[str, Growth]] = {}
    for axis, by_stage in curves(rows, cost).items():
        for stage, curve in by_stage.items():
            out.setdefault(stage, {})[axis] = fit(*zip(*curve, strict=True))
    return out


def table(rows: list[dict[str, Any]], axes: Collection[str] = tuple(BASES)) -> str:
    """Markdown: exponents with standard errors, and the cost of the largest list of each axis."""
    lines = ["| stage | " + " | ".join(f"{cost}: {axis}" for cost in ("time", "memory") for axis in axes) + " |"]
    lines.append("|---" * (1 + 2 * len(axes)) + "|")
    rows = [row for row in rows if row["axis"] in axes]
    found = {cost: exponents(rows, cost) for cost in (*COSTS, "user")}
    for stage in found["seconds"]:
        cells = [
            _cell(found[cost][stage][axis], curves(rows, cost)[axis][stage][-1][1], found["user"][stage][axis], cost)
            for cost in COSTS
            for axis in axes
        ]
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(growth: Growth, largest: float, user: Growth, cost: str) -> str:
    shown = f"{largest:.3g} s" if cost == "seconds" else f"{largest:.0f} MB"
    mark = ""
    if growth.exponent - 2 * growth.error > GOAL:
        mark = " **!**" + (f" outside the system {user.exponent:.2f} ± {user.error:.2f}" if cost == "seconds" else "")
    return f"{growth.exponent:.2f} ± {growth.error:.2f} ({shown}){mark}"


def estimates(rows: list[dict[str, Any]], sizes: list[int]) -> dict[str, float]:
    """CPU seconds of each stage on a list of these sizes: sentences, list length, features.

    From the measured point of the nearest number of features, by the fitted exponents; those of sentences and features count as
    1 where they are less: small lists have costs that do not grow, large ones hide them. (Longer lists do repeat their units.)
    """
    rows, out = [row for row in rows if row["axis"] in BASES], {}
    for stage, powers in exponents(rows, "seconds").items():
        points = {tuple(row["sizes"]): row["seconds"] for row in rows if row["stage"] == stage}
        near = min(points, key=lambda point: (abs(log(point[2] / sizes[2])), -point[0]))
        grown = (
            (n / m) ** (growth.exponent if axis == "list length" else max(1.0, growth.exponent))
            for n, m, (axis, growth) in zip(sizes, near, powers.items(), strict=True)
        )
        out[stage] = points[near] * prod(grown) * (TEXT_SHARE if stage == "import" else 1)
    return out


def estimate_table(rows: list[dict[str, Any]]) -> str:
    """Markdown: what larger jobs would take by stage, and 25 rounds of ``induce`` in all, which need three times PRO's iterations."""
    found = {name: estimates(rows, sizes) for name, sizes in JOBS.items()}
    lines = ["| stage | " + " | ".join(JOBS) + " |", "|---" * (1 + len(JOBS)) + "|"]
    for stage in next(iter(found.values())):
        cells = [f"{found[name][stage]:,.1f} s" for name in JOBS]
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    parts = {"open": 1, "pairs": 1, f"PRO, {ITERATIONS} iterations": 3, "binning": 1}
    for kind in ("constant round", "linear round"):
        needed = {**parts, kind: 25}
        if needed.keys() <= found[next(iter(JOBS))].keys():
            totals = [f"{sum(n * found[name][stage] for stage, n in needed.items()) / 60:,.0f} minutes" for name in JOBS]
            lines.append(f"| **induce, 25 times {kind}** | " + " | ".join(totals) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the sentences: does it run?")
    parser.add_argument("--stages", help=f"some of: {'; '.join(STAGES)} (their beginnings, by commas)")
    parser.add_argument("--from-json", type=Path, help="measured before: tables and plots only")
    for kind in ("json", "svg", "into"):
        parser.add_argument(f"--{kind}", type=Path)
    args = parser.parse_args()
    wanted = [s for s in STAGES if not args.stages or any(s.startswith(w) for w in args.stages.split(","))]
    rows = json.loads(args.from_json.read_text()) if args.from_json else run(wanted, quick=args.quick)
    print(table(rows), table(rows, SPARSE), estimate_table(rows), sep="\n")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    if args.into:
        put_block(args.into, "growth", measured_now() + table(rows, ["sentences"]))  # the curves show all
        put_block(args.into, "sparse", measured_now() + table(rows, SPARSE))
        put_block(args.into, "estimates", estimate_table(rows))
    if args.svg:
        args.svg.write_text(svg({title: curves(rows, cost) for cost, title in COSTS.items()}))


if __name__ == "__main__":
    main()
