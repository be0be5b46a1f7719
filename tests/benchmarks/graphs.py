"""Search graphs: parsing, rescoring with trees, k-best lists, oracle paths."""

from __future__ import annotations

import lzma

import numpy as np
from harness import REAL, cpu, report

from boostfeat.lists.build import ReadOptions
from boostfeat.model.model import Model
from boostfeat.search.graphs.graph_files import read_graphs
from boostfeat.search.graphs.oracle_path import oracle_paths
from boostfeat.search.graphs.rescoring import EdgeScorer, kbest_lists
from boostfeat.trees.tree import LEAF_KINDS, Tree

OSGX = REAL / "fi-en" / "sg.devtrain500.osgx.xz"
TREES = 25


def main() -> None:
    if not OSGX.is_file():
        report("search graphs", "no real data", "-")
        return
    graphs = list(read_graphs([OSGX]))
    bench_parsing(sum(item.graph.n_edges for item in graphs))
    bench_rescoring(graphs)


def bench_parsing(n_edges: int) -> None:
    def decompress() -> None:
        with lzma.open(OSGX) as stream:
            while stream.read(1 << 22):
                pass

    raw = cpu(decompress)
    ours = cpu(lambda: sum(1 for _ in read_graphs([OSGX])))
    report("osgx: parsing with decompression", f"{n_edges / ours:,.0f} edges/s/core", "100,000", n_edges / ours >= 100_000)
    report("  against raw decompression", f"{ours / raw:.1f} x", "-")


def bench_rescoring(graphs) -> None:  # type: ignore[no-untyped-def]
    n_edges = sum(item.graph.n_edges for item in graphs)
    for what, trees in (("weights alone", 0), (f"{TREES} two-leaf trees", TREES)):
        scorer = EdgeScorer(_model(graphs[0].graph.names, trees))
        seconds = cpu(lambda scorer=scorer: [item.graph.best(scorer(item)) for item in graphs])
        rate = n_edges / seconds
        report(f"rescoring: edge scores and best paths, {what}", f"{rate / 1e6:.2f} million edges/s/core", "1", rate >= 1e6)
    scorer = EdgeScorer(_model(graphs[0].graph.names, TREES))
    seconds = cpu(lambda: kbest_lists(graphs, scorer, ReadOptions(size=100)), tries=1)
    report("  exact 100-best lists", f"{len(graphs) / seconds:,.0f} sentences/s/core", "-")
    some = graphs[:50]
    refs = [(REAL / "fi-en" / "devtrain.en").read_text(encoding="utf-8").splitlines()[: len(some)]]
    seconds = cpu(lambda: oracle_paths(some, EdgeScorer(None), refs), tries=1)
    report("  oracle paths", f"{len(some) / seconds:,.0f} sentences/s/core", "-")


def _model(names: tuple[str, ...], n_trees: int) -> Model:
    """Weights and stumps of all kinds of leaves, with thresholds inside the features' ranges."""
    rng = np.random.default_rng(0)

    def stump(m: int) -> Tree:
        leaf = LEAF_KINDS[m % len(LEAF_KINDS)]
        return Tree(
            name=f"tree.{m:03}",
            weight=0.1,
            leaf=leaf,
            on=None if leaf == "constant" else str(rng.choice(names)),
            feature=(str(rng.choice(names)), "", ""),
            threshold=np.array([-3 * rng.random(), 0.0, 0.0]),
            left=np.array([1, -1, -1], np.int32),
            right=np.array([2, -1, -1], np.int32),
            value=np.array([0.0, *rng.normal(size=2)]),
            intercept=np.array([0.0, *rng.normal(size=2)]) * (leaf == "affine"),
        )

    return Model({name: float(rng.normal()) for name in names}, tuple(stump(m) for m in range(n_trees)))


if __name__ == "__main__":
    main()
