"""Features of neighbouring phrases on whole search graphs: the k best of all paths, with the scores of the written list."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.plan import Entry
from boostfeat.formats.moses.ini import Ini
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.search.graphs import edge_features as neighbours
from boostfeat.search.graphs.graph_files import read_graphs
from boostfeat.search.graphs.rescoring import kbest_nbest

DATA = Path(__file__).parents[3] / "data"
TEMPLATES = "bi,lo,ro,cb,co,orientation,jump,pt,length,model1"
ALL = 30_000  # more than the paths of the small graphs


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """(file of small graphs, their names, source sentences)."""
    folder = tmp_path_factory.mktemp("graphs")
    lines = [line for line in (DATA / "test.src").read_text().splitlines() if 3 <= len(line.split()) <= 6][:6]
    (folder / "src").write_text("".join(line + "\n" for line in lines))
    ini = DATA / "system" / "moses.ini"
    out = folder / "g.osgx"
    limits = ("--stack", 4, "--table-limit", 4)
    command = ["decode", folder / "src", "--ini", ini, "--search-graph", out, *limits, "-o", folder / "text"]
    subprocess.run([sys.executable, "-m", "boostfeat", *map(str, command)], check=True, capture_output=True)
    return out, tuple(Ini.read(ini).score_names()), lines


def lists(graphs, model: Model | None, size: int, **more):
    path, names, source = graphs
    return kbest_nbest([path], model, names=names, size=size, source=source, distinct=False, **more)


@pytest.fixture(scope="module")
def model(graphs):
    """Random weights of all features of all paths."""
    maker = FeatureMaker()
    plain = lists(graphs, None, ALL)
    rng = np.random.default_rng(5)
    words = sorted({word for text in plain.text.to_pylist() for word in text.split()})
    given = ["", *sorted({word[:3] for line in graphs[2] for word in line.split()})]
    table = {f: {word: float(p) for word, p in zip(words, rng.random(len(words)), strict=True)} for f in given[::2]}
    asked = maker.plan(TEMPLATES, min_count=1).with_entry(Entry("model1", {"cut": 3, "table": table}))
    made, plan = maker.learn(plain, asked)
    return with_plan(Model({name: float(rng.normal()) for name in sorted(made.feature_names)}), plan), plan, made


@pytest.mark.parametrize("left_out", [None, 0, 1])
def test_the_best_of_all_paths_are_found(graphs, model, left_out):
    """Where a half of the features has no weight, too."""
    model, plan, every = model
    if left_out is not None:
        model = replace(model, weights={name: w for k, (name, w) in enumerate(model.weights.items()) if k % 2 != left_out})
    sizes = [10 ** item.graph.log10_derivations() for item in read_graphs([graphs[0]], ReadOptions(names=graphs[1]))]
    assert max(sizes) < ALL
    assert every.n_hyps == pytest.approx(sum(sizes))
    wanted = model.decision_function(every)
    found = lists(graphs, model, 20, plan=plan)
    np.testing.assert_allclose(found.score, model.decision_function(found), atol=1e-9)
    for s in range(len(every)):
        best = np.sort(wanted[every.hyp_ptr[s] : every.hyp_ptr[s + 1]])[::-1][:20]
        np.testing.assert_allclose(found.score[found.hyp_ptr[s] : found.hyp_ptr[s + 1]], best, atol=1e-9)


def test_the_command_gives_the_scores_of_rerank(graphs, model, boostfeat, tmp_path):
    path, _, source = graphs
    model[0].save(tmp_path / "m.json")
    (tmp_path / "src").write_text("".join(line + "\n" for line in source))
    common = ("-m", tmp_path / "m.json", "--names", DATA / "system" / "moses.ini", "-s", tmp_path / "src")
    code, _, err = boostfeat("rescore", path, *common, "--nbest", 10, "--format", "jsonl", "-o", tmp_path / "k.jsonl")
    assert code == 0, err
    code, _, err = boostfeat("import", tmp_path / "k.jsonl", "-s", tmp_path / "src", "-o", tmp_path / "k.nbest")
    assert code == 0, err
    written = read_store(tmp_path / "k.nbest")
    scores = model[0].decision_function(FeatureMaker().for_model(written, model[0]))
    np.testing.assert_allclose(scores, written.score, atol=1e-9)
    code, out, err = boostfeat("rescore", path, *common)
    assert (code, out.splitlines()) == (0, [written.text[int(h)].as_py() for h in written.hyp_ptr[:-1]]), err


@pytest.mark.parametrize("command", [("tune", "--method", "pro"), ("induce", "--rounds", 2)])
def test_templates_of_graphs_are_learnt_and_carried(graphs, boostfeat, tmp_path, command):
    """The k best of graphs get the features of the plan that the list taught."""
    path, _, source = graphs
    (tmp_path / "src").write_text("".join(line + "\n" for line in source))
    (tmp_path / "ref").write_text("".join(line + "\n" for line in lists(graphs, None, 40).text.to_pylist()[::40][: len(source)]))
    raw = kbest_nbest([path], None, names=graphs[1], size=3, source=source, refs=[(tmp_path / "ref").read_text().splitlines()])
    write_store(raw, tmp_path / "dev.nbest")
    ini = DATA / "system" / "moses.ini"
    names = ("--set", f"graph-names={ini}")
    flags = ("--graphs", path, *names, "--set", "graph-nbest=20", "--set", "graph-iterations=2", "--templates", "pt,bi,lo", "-q")
    code, _, err = boostfeat(command[0], tmp_path / "dev.nbest", *command[1:], *flags, "-o", tmp_path / "m.json")
    assert code == 0, err
    found = Model.load(tmp_path / "m.json")
    assert any(name.startswith("bi:") for name in found.weights)
    assert found.plan is not None
    code, _, err = boostfeat("rescore", path, "-m", tmp_path / "m.json", "--names", ini, "-s", tmp_path / "src")
    assert code == 0, err


def test_what_graphs_cannot_have_is_refused_by_name(graphs, model, monkeypatch):
    model, plan, _ = model
    monkeypatch.setattr(neighbours, "MOST", 10)
    with pytest.raises(InputError, match="at most 10 edges where nodes know their last phrase"):
        lists(graphs, model, 5, plan=plan)
    linked = Entry("al", features=("al:a|b",))
    fit = r"'al:a\|b' .* reads the alignment.* rerank a list with this model, or learn one with --templates bi,lo,ro,cb,co,orient.*model1"
    with pytest.raises(InputError, match=fit):
        lists(graphs, replace(model, weights={"al:a|b": 1.0}), 5, plan=replace(plan, entries=(*plan.entries, linked)))
    path, names, _ = graphs
    with pytest.raises(InputError, match="template 'model1' needs source sentences"):
        kbest_nbest([path], model, names=names, plan=plan)
