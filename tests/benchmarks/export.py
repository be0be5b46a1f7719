"""Rows scored a second by the C header, beside treelite's compiler and interpreter, ONNX, Python and this library; one thread each.

The model is the paper's best: 25 trees of 2 leaves over the list's features, with a linear part, and larger trees for comparison.
Rows are the distinct units of fi-en's held-out lists where they are there, and random ones: tests nobody can predict.
"""

from __future__ import annotations

import ctypes
import json
import runpy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import REAL, cpu, report

from boostfeat.core.arrays import F64
from boostfeat.core.feature_table import FeatureTable
from boostfeat.export import Context, c, compiling, exporter
from boostfeat.export.inputs import inputs_of
from boostfeat.export.treelite import combined
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions
from boostfeat.model.model import Model, tree_scores
from boostfeat.trees.tree import Tree

GOAL = 20e6  # units a second and core, for 25 two-leaf trees
NAMES = tuple(f"f{j:02d}" for j in range(14))


def main() -> None:
    rng = np.random.default_rng(0)
    inputs = {"random rows": rng.normal(size=(100_000, len(NAMES)))}
    if (REAL / "fi-en").is_dir():
        source = (REAL / "fi-en" / "devselect.fi").read_text().splitlines()
        units = read(REAL / "fi-en" / "devselect.200.enriched.xz", ReadOptions(source=source)).X
        inputs["units of fi-en devselect"] = np.ascontiguousarray(units[rng.permutation(len(units))])
    for what, x in inputs.items():
        for n_leaves, leaf in ((2, "constant"), (2, "linear"), (8, "constant")):
            model = Model(
                dict(zip(NAMES, rng.normal(size=len(NAMES)).tolist(), strict=True)), tuple(trees(rng, x, n_leaves, leaf))
            )
            print(f"\n{what}, {len(x):,}: 25 trees of {n_leaves} {leaf} leaves and {len(NAMES)} weights")
            with tempfile.TemporaryDirectory() as folder:
                bench(model, x, Path(folder), goal=GOAL if n_leaves == 2 and leaf == "constant" else None)


def trees(rng: np.random.Generator, x: F64, n_leaves: int, leaf: str) -> Iterator[Tree]:
    """25 trees with thresholds at values of x, so that both sides of a test occur."""
    for m in range(25):
        nodes: list[dict[str, object]] = [{}]
        ends = [0]
        while len(ends) < n_leaves:
            at, j = ends.pop(int(rng.integers(len(ends)))), int(rng.integers(x.shape[1]))
            nodes[at] = {
                "feature": NAMES[j],
                "threshold": float(rng.choice(x[:, j])),
                "left": len(nodes),
                "right": len(nodes) + 1,
            }
            ends += [len(nodes), len(nodes) + 1]
            nodes += [{}, {}]
        for at in ends:
            nodes[at] = {"value": float(rng.normal())}
        on = {} if leaf == "constant" else {"on": NAMES[int(rng.integers(len(NAMES)))]}
        yield Tree.from_json({"name": f"tree.{m:03d}", "weight": 0.5, "leaf": leaf, **on, "nodes": nodes}, "tree")


def bench(model: Model, x: F64, folder: Path, *, goal: float | None) -> None:
    """Every contender's scores are checked before it is timed: a fast wrong answer is no figure."""
    weights = np.array([model.weights[name] for name in NAMES])
    linear, table = x @ weights, FeatureTable(NAMES, x)
    expected = linear + tree_scores(model.trees, table)
    alone = replace(model, weights={})
    own = np.ascontiguousarray(x[:, [NAMES.index(name) for name in inputs_of(alone, "c")]])
    show("C header", in_c(model, folder, x, NAMES), expected, goal)
    show("C header, trees alone", in_c(alone, folder, own, inputs_of(alone, "c")), expected - linear)
    treelite_alone(alone, own, expected - linear, folder)
    onnx_runtime(model, x, expected, folder)
    show("this library", lambda: x @ weights + tree_scores(model.trees, table), expected)
    (path,) = exporter("python").write(model, folder / "model.py", Context())
    module = runpy.run_path(str(path), run_name="exported")
    units = [{"features": dict(zip(NAMES, row, strict=True))} for row in x[:5000].tolist()]
    rows = [{"text": "", "units": [unit]} for unit in units]
    show("Python module", lambda: np.array(module["scores"](rows)), expected[:5000])


ROWS = """
void rows(const double *x, long n, double *out) {
    boostfeat_unit unit;
    long i;
    memset(&unit, 0, sizeof unit);
    for (i = 0; i < n; i++) {
        unit.x = x + i * BOOSTFEAT_N_FEATURES;
        out[i] = boostfeat_unit_score(NULL, 0, NULL, &unit, NULL);
    }
}
"""


def in_c(model: Model, folder: Path, x: F64, names: Sequence[str]) -> Callable[[], F64]:
    """What scores rows of units with these features by the C header."""
    place = Path(tempfile.mkdtemp(dir=folder))
    exporter("c").write(model, place / "model.h", Context())
    code = (place / "model.c").read_text() + ROWS
    library = compiling.compiled(code, place, compiling.C, target="c", what="source", flags=("-lm",))
    inputs = c.CSource.of(model, Context()).inputs
    ordered, out = np.ascontiguousarray(x[:, [list(names).index(name) for name in inputs]]), np.zeros(len(x))

    def score() -> F64:
        library.rows(*compiling.pointers(ordered), ctypes.c_long(len(x)), *compiling.pointers(out))
        return out

    return score


def treelite_alone(model: Model, x: F64, expected: F64, folder: Path) -> None:
    """treelite's matrix is made beforehand, and the dot product of linear leaves is not timed: both in its favour."""
    try:
        import tl2cgen  # noqa: F401
        import treelite
    except ImportError as error:
        print(f"no treelite: {error}")
        return
    predict, finish = treelite_compiled(model, x, folder)
    show("treelite, compiled (tl2cgen), trees alone", predict, expected, finish=finish)
    forest = treelite.Model.deserialize(str(folder / "model.tl"))
    show(
        "treelite, interpreted (GTIL), trees alone", lambda: treelite.gtil.predict(forest, x, nthread=1), expected, finish=finish
    )


def treelite_compiled(model: Model, x: F64, folder: Path) -> tuple[Callable[[], F64], Callable[[F64], F64]]:
    """What tl2cgen's library predicts for rows x, and how the model's scores follow from it."""
    import tl2cgen
    import treelite

    checkpoint, beside = exporter("treelite").write(model, folder / "model.tl", Context())
    forest, note = treelite.Model.deserialize(str(checkpoint)), json.loads(beside.read_text())
    tl2cgen.export_lib(forest, toolchain="gcc", libpath=str(folder / "treelite.so"), params={}, verbose=False)
    predictor, matrix = tl2cgen.Predictor(str(folder / "treelite.so"), nthread=1), tl2cgen.DMatrix(x, dtype="float64")
    return lambda: predictor.predict(matrix), lambda out: combined(out, x, note)


def onnx_runtime(model: Model, x: F64, expected: F64, folder: Path) -> None:
    try:
        import onnxruntime
    except ImportError as error:
        print(f"no onnxruntime: {error}")
        return
    (path,) = exporter("onnx").write(model, folder / "model.onnx", Context())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    show("ONNX runtime", lambda: session.run(None, {"x": x})[0], expected)


def show(
    name: str,
    work: Callable[[], F64],
    expected: F64,
    goal: float | None = None,
    *,
    finish: Callable[[F64], F64] = lambda out: out,
) -> None:
    """Check the scores (``finish`` makes them of what ``work`` gives), then time the work."""
    np.testing.assert_allclose(finish(work()), expected, rtol=1e-9, atol=1e-9)
    rate = len(expected) / cpu(work, tries=7)
    aim = f"{goal / 1e6:.0f} million/s" if goal else "-"
    report(name, f"{rate / 1e6:.2f} million/s", aim, None if goal is None else rate >= goal)


if __name__ == "__main__":
    main()
