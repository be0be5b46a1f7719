"""Features run by run: the bytes of a list that is featurized at once, whatever the length of the runs, and nothing half-done."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from toy_trees import stump

from boostfeat.boosting.local import first_gradient
from boostfeat.core.errors import InputError
from boostfeat.features import SETS, TEMPLATES, FeaturePlan, Resources, Template, featurize, template
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.featurizing import featurize_to
from boostfeat.features.registry import GIVEN, load_plugin
from boostfeat.features.resources import Posterior
from boostfeat.lists.merging import concat
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model

IN_SETS = {name for members in SETS.values() for name in members}
ALONE = [name for name, t in TEMPLATES.items() if name not in IN_SETS and not set(t.reads) & set(GIVEN)]
FIXED = Resources(posterior=Posterior(scale=1.0))


@pytest.fixture(scope="module")
def nbest(data_stores: Path, tmp_path_factory: pytest.TempPathFactory) -> NBest:
    """Ten lists of data/, mapped; the last five are the first five with other sentences before and after, so that units recur."""
    path, some = tmp_path_factory.mktemp("short") / "dev.nbest", read_store(data_stores / "dev.nbest")[:5].truncate(6)
    again = some.take_hyps(*reversed_lists(some))
    write_store(concat([some, again]), path)
    return read_store(path)


def reversed_lists(nbest: NBest) -> tuple[np.ndarray, np.ndarray]:
    """Hypotheses of each list from the last to the first: units are first used in another order."""
    order = np.lexsort((-np.arange(nbest.n_hyps), nbest.sent_of_hyp))
    return order, nbest.hyp_ptr


@pytest.mark.parametrize("run", [1, 4])
@pytest.mark.parametrize("what", ["large+sparse+neighbours", *(s for s in SETS if s not in ("base", "neighbours")), *ALONE])
def test_runs_give_the_bytes_of_one(nbest: NBest, tmp_path: Path, what: str, run: int) -> None:
    plan = FeaturePlan.of(what, TEMPLATES)
    _, learnt = featurize(nbest, plan, resources=FIXED)
    kept: list[FeaturePlan] = []
    for start, path in ((plan, tmp_path / "runs.nbest"), (learnt, tmp_path / "frozen.nbest")):
        out, _ = featurize(nbest, start, resources=FIXED)  # the list that teaches from its references has other features
        write_store(out, tmp_path / "whole.nbest")
        found, again = featurize_to(path, nbest, start, run=run, keep=kept.append, resources=FIXED)
        assert out.differences(found) == []
        assert again == kept.pop() == learnt
        assert path.read_bytes() == (tmp_path / "whole.nbest").read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"whole.nbest", "runs.nbest", "frozen.nbest"}


def test_what_runs_cannot_choose_is_chosen_in_memory(nbest: NBest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products need all features at once; those of a frozen plan do not."""
    plan = FeaturePlan.of("length", TEMPLATES, products=2)
    gradient = partial(first_gradient, seed=0)
    out, learnt = featurize(nbest, replace(plan, n_products=0))
    learnt = replace(learnt, products=(("len.src", "len.tgt"),), n_products=1)
    out, _ = featurize(nbest, learnt)
    assert featurize_to(tmp_path / "runs.nbest", nbest, learnt, run=2)[0] == out
    assert out.unit_names[-1] == "len.src*len.tgt"
    whole, chosen = featurize(nbest, plan, gradient_of=gradient)
    assert featurize_to(tmp_path / "all.nbest", nbest, plan, run=2, gradient_of=gradient) == (whole, chosen)
    packed, _ = featurize_to(tmp_path / "small.nbest.gz", nbest, learnt, run=2)
    assert read_store(tmp_path / "small.nbest.gz") == packed == out
    assert (tmp_path / "small.nbest.gz").read_bytes()[:2] == b"\x1f\x8b"
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream))
    assert featurize_to("-", nbest, learnt, run=2)[0] == out  # what is not read again
    assert stream.getvalue() == (tmp_path / "runs.nbest").read_bytes()


# -- what may differ from run to run ----------------------------------------------------------------------------------

PLUGIN = """
from boostfeat.features import Counted, template

@template("first")
def first(target):
    '''A column for each word that begins a phrase: names depend on what there is.'''
    return {f"first.{word}": 1.0 for word in target[:1]}

def longest(nbest, resources, tallies):
    return {"most": max(tallies["words"])}

@template("longest", learn=Counted(lambda target: {"words": [len(target)]}, longest))
def is_longest(target, *, most):
    return {"longest": float(len(target) == most)}
"""


def test_templates_of_the_user(nbest: NBest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    registry = {**TEMPLATES, **load_plugin(tmp_path / "mine.py")}
    plan = FeaturePlan.of("first,longest", registry)
    out, learnt = featurize(nbest, plan, registry=registry)
    found, again = featurize_to(tmp_path / "runs.nbest", nbest, plan, run=1, registry=registry)
    assert again == learnt
    assert list(learnt.entries[0].features) == sorted(learnt.entries[0].features)
    assert found == out


def with_feature(nbest: NBest, name: str, x: np.ndarray) -> NBest:
    units = replace(nbest.units, x=np.column_stack([nbest.X, x]))
    return replace(nbest, units=units, unit_names=(*nbest.unit_names, name))


def test_a_feature_that_the_list_has_is_compared_on_all_runs(nbest: NBest, tmp_path: Path) -> None:
    plan, column = FeaturePlan.of("length", TEMPLATES), featurize(nbest, FeaturePlan.of("length"))[0]
    lengths = column.X[:, column.unit_names.index("len.tgt")]
    same = with_feature(nbest, "len.tgt", lengths)
    found, learnt = featurize_to(tmp_path / "same.nbest", same, plan, run=2)
    assert found == featurize(same, plan)[0]
    assert found.unit_names.count("len.tgt") == 1
    assert featurize_to(tmp_path / "frozen.nbest", same, learnt, run=2)[0] == found
    other = with_feature(nbest, "len.tgt", np.where(np.arange(nbest.n_units) == nbest.n_units - 1, 9.0, lengths))
    with pytest.raises(InputError, match=r"feature 'len.tgt': expected a list without it"):
        featurize_to(tmp_path / "other.nbest", other, plan, run=2)
    assert not (tmp_path / "other.nbest").exists()


def failing(after: int) -> Template:
    """A template that gives up after so many calls."""
    seen = []

    @template("mine")
    def compute(target: tuple[str, ...]) -> dict[str, float]:
        """Fails."""
        seen.append(1)
        if len(seen) > after:
            raise ValueError("no more")
        return {"mine": 1.0}

    return compute


def test_an_error_on_a_later_run_leaves_nothing(nbest: NBest, tmp_path: Path) -> None:
    registry, kept = {**TEMPLATES, "mine": failing(50)}, []
    plan = FeaturePlan.of("length,pt,mine", registry)
    with pytest.raises(InputError, match="template 'mine': expected to run, found ValueError: no more"):
        featurize_to(tmp_path / "out.nbest", nbest, plan, run=2, registry=registry, keep=kept.append)
    assert not kept
    assert not list(tmp_path.iterdir())


# -- scores -----------------------------------------------------------------------------------------------------------


def test_scores_by_runs_are_those_of_the_whole_list(nbest: NBest) -> None:
    maker = FeatureMaker()
    made, plan = maker.learn(nbest, maker.plan("length,orientation,pt,bi"))
    rng = np.random.default_rng(0)
    names = made.feature_names
    weights = dict(zip(names, rng.standard_normal(len(names)).tolist(), strict=True))
    model = with_plan(Model(weights, trees=(stump(on="len.tgt", feature="len.src", threshold=1.5, weight=0.7),)), plan)
    expected = model.decision_function(maker.for_model(nbest, model))
    for run, n in ((1, 10), (3, 4), (None, 1)):
        found = [model.decision_function(part) for part in maker.runs_for_model(nbest, model, run=run)]
        assert len(found) == n
        np.testing.assert_array_equal(np.concatenate(found), expected)
    assert list(maker.runs_for_model(made, model)) == [made]  # a list that has them
