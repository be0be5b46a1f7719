"""References never teach their own sentence: whatever they teach, the features of their own run of sentences stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from strategies import build

from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce
from boostfeat.boosting.selection.penalty import chosen_penalty
from boostfeat.boosting.selection.template_set import FeaturedLists, taught
from boostfeat.boosting.selection.trials import Trials
from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan, Resources, featurize, load_plugin
from boostfeat.features.feature_maker import FeatureMaker
from boostfeat.features.lexicon import Bitext
from boostfeat.lists.build import HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.metrics.metric import metric_of
from boostfeat.metrics.significance import HeldOutRows
from boostfeat.model.decision import ranks

N, BLOCK = 36, slice(12, 18)  # sentences, and one of six blocks of neighbours


def with_references(nbest: NBest, refs: list[str]) -> NBest:
    return attach(nbest.without_references(), source=None, refs=[refs], name="other references")


def changed(refs: list[str]) -> list[str]:
    """The references of one block become words that nobody else has, beside some that everybody has."""
    return [f"neu{s} {refs[0]} neu{s}" if s in range(*BLOCK.indices(N)) else ref for s, ref in enumerate(refs)]


def phrase_lists(stores: Path) -> NBest:
    nbest = read_store(stores / "dev.nbest")[:N].truncate(6)
    assert len(set(nbest.source.to_pylist())) == N
    return nbest


def word_lists(seed: int = 0, n: int = N) -> tuple[NBest, list[str]]:
    """Lists of words with a score, sources and references that are near one of the hypotheses."""
    rng = np.random.default_rng(seed)
    sources = [" ".join(f"sana{k}" for k in rng.integers(0, 30, 6)) + f" nro{s}" for s in range(n)]
    records, refs = [], []
    for s in range(n):
        texts = [" ".join(f"w{k}" for k in rng.integers(0, 40, rng.integers(4, 8))) for _ in range(5)]
        refs.append(texts[rng.integers(5)] + f" w{rng.integers(40)}")
        for h, text in enumerate(texts):
            units = [UnitRecord({"lp": -1.0}, tgt=(k, k + 1), tgt_text=word) for k, word in enumerate(text.split())]
            records.append(HypRecord(s, text, f"list:{s}", -0.3 * h, units=units))
    nbest = build(records, options=ReadOptions(source=sources))
    return attach(nbest, source=sources, refs=[refs], name="words"), refs


def columns(nbest: NBest) -> np.ndarray:
    """[H, D + N] all features of the hypotheses of the block."""
    own = nbest[BLOCK]
    sparse = own.A @ own.units.sparse.matrix(len(own.sparse_names)) + own.extra_sparse.matrix(len(own.sparse_names))
    return np.hstack([own.global_features, sparse.toarray()])


def check(nbest: NBest, other: NBest, plan: FeaturePlan) -> bool:
    """Compare the features that the block is learned with, beside a bitext that has the list's own sentences, too.

    Returns whether those of other sentences have changed.
    """
    (one, _), (two, _) = (featurize(given, plan, resources=resources_of(given)) for given in (nbest, other))
    assert one.feature_names == two.feature_names
    np.testing.assert_array_equal(columns(one), columns(two))
    return not np.array_equal(one.global_features, two.global_features)


def resources_of(nbest: NBest) -> Resources:
    own = zip(nbest.source.to_pylist(), nbest.refs.to_pylist(), strict=True)
    return Resources(bitext=Bitext([*own, ("sana1 sana2", "w1 w2")]))


NEEDS = {"phrase_count": "phrase table", "lm": "language model"}  # which know nothing of references


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name not in NEEDS])
def test_of_every_template(data_stores: Path, name: str) -> None:
    """Another reference changes features of other blocks by templates that references teach, and never those of its own."""
    done = 0
    for nbest in (word_lists()[0], phrase_lists(data_stores)):
        if TEMPLATES[name].lacks(nbest, resources_of(nbest), {}) is None:
            other = with_references(nbest, changed(nbest.refs.to_pylist()))
            moved = check(nbest, other, FeaturePlan.of(name, TEMPLATES))
            assert moved <= (TEMPLATES[name].crossed or "list" in TEMPLATES[name].reads)
            done += 1
    assert done


def test_of_the_scale_of_posteriors() -> None:
    """Where references of the block change the scale that all teach, the block keeps the one that the others teach."""
    plan, moved = FeaturePlan.of("mbr,slot,agreement", TEMPLATES), 0
    for seed in range(12):
        words, refs = word_lists(seed)
        texts = words.text.to_pylist()
        last = [texts[b - 1] for b in words.hyp_ptr[1:]]  # the least probable: what is right there asks for a flat posterior
        flat = with_references(words, [last[s] if s in range(*BLOCK.indices(N)) else ref for s, ref in enumerate(refs)])
        if featurize(words, plan)[1].posterior != featurize(flat, plan)[1].posterior:
            check(words, flat, plan)
            moved += 1
    assert moved


@pytest.mark.parametrize("templates", ["words-basic", "phrases"])
def test_of_sets(data_stores: Path, templates: str) -> None:
    nbest = word_lists()[0] if templates == "words-basic" else phrase_lists(data_stores)
    check(nbest, with_references(nbest, changed(nbest.refs.to_pylist())), FeaturePlan.of(templates, TEMPLATES))


def test_of_plugins(tmp_path: Path) -> None:
    """A user's template has what its arguments name, and none is a reference."""
    path = tmp_path / "peeking.py"
    path.write_text("from boostfeat import template\n\n\n@template('peeking')\ndef peeking(hypothesis, references): ...\n")
    with pytest.raises(InputError, match=r"peeking.py:4: template 'peeking': unknown argument 'references'; a template reads"):
        load_plugin(path)


@pytest.mark.parametrize("templates", ["words-basic", "phrases"])
def test_of_models_that_did_not_learn_from_them(data_stores: Path, templates: str) -> None:
    """Templates, lengths and weights taught by the other sentences score the block as before, whatever its references say."""
    nbest = word_lists()[0] if templates == "words-basic" else phrase_lists(data_stores)
    others = np.setdiff1d(np.arange(N), np.arange(*BLOCK.indices(N)))
    scores = []
    for lists in (nbest, with_references(nbest, changed(nbest.refs.to_pylist()))):
        model = induce(lists.take(others), None, recipe("default", rounds=3, min_occurrences=5, rule="all"), templates=templates)
        own = FeatureMaker().for_model(lists[BLOCK], model)
        scores.append(ranks(model.config, own, model.decision_function(own)))
    np.testing.assert_array_equal(*scores)


def lists_without_truth(n: int = 60) -> NBest:
    """Lists whose sentences share no word with each other, and whose references are words of the own list at random."""
    rng = np.random.default_rng(1)
    records, refs, sources = [], [], [f"sana{s}a sana{s}b" for s in range(n)]
    for s in range(n):
        words = [f"w{s}.{k}" for k in range(12)]
        refs.append(" ".join(rng.permutation(words)[:6]))
        for h in range(6):
            some = rng.permutation(words)[:6].tolist()
            units = [UnitRecord({"lp": -1.0}, (0, 1), (k, k + 1), f"sana{s}a", word) for k, word in enumerate(some)]
            records.append(HypRecord(s, " ".join(some), f"list:{s}", -0.3 * h, units=units))
    return attach(build(records, options=ReadOptions(source=sources)), source=sources, refs=[refs], name="without truth")


TAUGHT = [name for name, template in TEMPLATES.items() if template.crossed or "list" in template.reads]


@pytest.mark.parametrize("templates", ["words-basic", "phrases", *TAUGHT])
def test_references_of_random_words_teach_nothing(templates: str) -> None:
    """Planted: where references are random words, no template gains by folds, nor does a set of them."""
    nbest, options = lists_without_truth(), recipe("default", gain="wer")
    more = taught(FeaturedLists(nbest, None), templates, options, FeatureMaker())
    rows = [chosen_penalty(Trials(lists), options).rows for lists in (nbest, more.dev)]
    held_out = HeldOutRows(metric_of(options.metric, nbest), rows)
    assert held_out.gains[1] - held_out.gains[0] <= 2 * held_out.error(0, 1)
