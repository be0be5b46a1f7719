"""Inside a real Moses, where there is one: trees and sparse weights in its phrase table are what this library computes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from boostfeat import formats
from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.export import Context, ExportOptions, export
from boostfeat.export.kinds import static_features
from boostfeat.export.moses.writing import MosesJob
from boostfeat.features import TEMPLATES, FeaturePlan, Resources, featurize
from boostfeat.features.feature_maker import plan_of, with_plan
from boostfeat.formats.moses.ini import Ini
from boostfeat.formats.moses.table_files import SOURCE, TARGET, read_entries
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.choices import best_choice
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.model.model import tree_scores, unit_table
from boostfeat.model.tree_columns import augment

ROOT = Path(__file__).parents[2]
SYSTEM = ROOT / "data" / "system"
N = 40  # sentences
PLAN = "pt,shape,al,wp"


def counts_of_the_table() -> Resources:
    counts = {}
    for entries in read_entries(SYSTEM / "phrase-table.xz"):
        pairs = zip(entries.texts(SOURCE).to_pylist(), entries.texts(TARGET).to_pylist(), strict=True)
        counts |= dict(zip(pairs, entries.joint_counts().tolist(), strict=True))
    return Resources(phrase_counts=counts)


def decoded(moses: Path, ini: Path, folder: Path) -> NBest:
    """Moses' own list of the first sentences, with the counts that it does not show."""
    lines = (ROOT / "data" / "test.src").read_text().splitlines()[:N]
    (folder / "in").write_text("".join(f"{line}\n" for line in lines))
    what = ("-n-best-list", folder / "list", "50", "distinct", "-report-segmentation-enriched", "true")
    done = subprocess.run([moses, "-f", ini, "-i", folder / "in", *what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    nbest = attach(formats.read(folder / "list", ReadOptions(source=lines)), source=lines, refs=[], name="list")
    return featurize(nbest, FeaturePlan.of("phrase_count", TEMPLATES), resources=counts_of_the_table())[0]


@pytest.mark.slow
def test_trees_and_sparse_weights_are_the_same_numbers_in_moses(moses: Path, data_stores: Path, tmp_path: Path) -> None:
    """No unit is on another side of a threshold, all sparse weights are one column, and Moses' 1-best is that of ``rerank``."""
    dev = read_store(data_stores / "dev.nbest")[:200].compact()
    dev, vocab = featurize(dev, FeaturePlan.of(PLAN, TEMPLATES))
    vocab.save(tmp_path / "vocab.json")
    static = [name for name in static_features(dev) if name in dev.unit_names]
    options = recipe("fast", rounds=8, min_occurrences=300, sparse_l2=100.0, tree_features=tuple(static))
    model = boost(dev, None, options, seed=0)
    assert len(model.trees) == 8
    assert sum(":" in name for name in model.weights) > 500
    given = tmp_path / "given.ini"
    Ini.read(SYSTEM / "moses.ini").located().write(given)
    table = ExportOptions(phrase_table=str(SYSTEM / "phrase-table.xz"), ini=str(given), plan=str(tmp_path / "vocab.json"))
    export(model, "moses", tmp_path / "out", Context(options=table))
    nbest = featurize(decoded(moses, tmp_path / "out" / "moses.ini", tmp_path), vocab)[0]
    columns = nbest.X[:, [nbest.unit_names.index(f"TranslationModel0_{4 + k}") for k in range(len(model.trees) + 1)]]
    known = np.abs(columns).sum(axis=1) > 0
    assert known.mean() > 0.9
    trees = augment(nbest, model).X[:, -len(model.trees) :]
    np.testing.assert_allclose(columns[known, :-1], trees[known], rtol=1e-5, atol=2e-6)
    made = {name: weight for name, weight in model.weights.items() if ":" in name or "." in name}
    np.testing.assert_allclose(columns[known, -1], nbest.weigh(made)[0][known], atol=1e-4)  # printed with six digits
    chosen, first = (
        [nbest.text[int(h)].as_py() for h in best] for best in (model.predict(nbest), best_choice(nbest, nbest.score))
    )
    assert chosen == first


@pytest.mark.slow
def test_contextual_weights_and_trees_are_the_same_numbers_in_moses(
    moses_with_function: Path, data_stores: Path, tmp_path: Path
) -> None:
    """What ``induce`` takes by itself: static parts in the table; n-grams and order of words and classes, source context,
    Model 1 and trees over scores in the feature function."""
    dev, plan = featurize(read_store(data_stores / "dev.nbest")[:150].compact(), FeaturePlan.of("phrases", TEMPLATES))
    model = with_plan(boost(dev, None, recipe("fast", rounds=6, min_occurrences=300, sparse_l2=100.0), seed=0), plan)
    given = tmp_path / "given.ini"
    Ini.read(SYSTEM / "moses.ini").located().write(given)
    options = ExportOptions(phrase_table=str(SYSTEM / "phrase-table.xz"), ini=str(given), columns="sum")
    context = Context(options=options, plan=plan_of(model))
    export(model, "moses", tmp_path / "out", context)
    nbest = decoded(moses_with_function, tmp_path / "out" / "moses.ini", tmp_path)
    inner = MosesJob(model, context).parts.function
    assert inner is not None
    assert {"bi", "lo", "cx", "cb", "co", "cc", "m1.tgt"} <= {name.partition(":")[0] for name in inner.weights}
    assert inner.trees
    made = featurize(nbest, plan)[0]
    expected = made.sum_units(made.weigh(dict(inner.weights))[0] + tree_scores(inner.trees, unit_table(made)))
    found = nbest.sum_units(nbest.X[:, nbest.unit_names.index("BoostfeatTrees0")])
    np.testing.assert_allclose(found, expected, atol=5e-5)  # phrases are printed with six digits
    chosen, first = (
        [nbest.text[int(h)].as_py() for h in best] for best in (model.predict(made), best_choice(nbest, nbest.score))
    )
    assert chosen == first
