"""Numbers that features, and so models, depend on. Who changes one means to, and says so in examples/changes.md."""

from __future__ import annotations

from functools import partial

import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.first_gradient import first_gradient
from boostfeat.features import (
    TEMPLATES,
    FeaturePlan,
    Resources,
    clusters,
    feature_maker,
    featurize,
    featurizing,
    known_words,
    lexicon,
    posterior,
    products,
    sets,
    teach,
)
from boostfeat.features import (
    plan as plans,
)
from boostfeat.features.lexicon import Bitext
from boostfeat.features.templates import candidates, helpers, phrase, place, word

pytestmark = pytest.mark.quick

SETTINGS = {
    feature_maker: {"MOST_TAUGHT": 0.5, "MOST_UNKNOWN": 0.3},
    clusters: {"CONTEXTS": 400, "DIMENSIONS": 40, "RARE": 3},
    candidates: {"LONGEST": 2_000},
    featurizing: {"ROUNDED": 1e-4, "CROSSED": 6, "MOST_LINES": 50_000},
    known_words: {"ENOUGH": 100, "MOST": 2_000, "FEW": 200, "LEAST_KNOWN": 0.02},
    helpers: {"STEP": 1 / 64},
    lexicon: {"ITERATIONS": 5},
    phrase: {"FLOOR": 1e-7},
    place: {"FLOOR": 1e-4},
    posterior: {"SCALES": tuple(2.0**k for k in range(-2, 6))},
    products: {"ALIKE": 0.99, "SUPPORT": 200},
    sets: {"N_CLASSES": dict.fromkeys(("cb", "co", "cc"), 32)},
    teach: {
        "CUT": 5,
        "MOST_WORDS": 20_000,
        "PROBABLE": 0.001,
        "QUANTILES": {"q10": 0.1, "q25": 0.25, "q75": 0.75, "q90": 0.9},
    },
    plans: {"VERSION": 1, "MIN_COUNT": 2},
    word: {"RANKS": (10, 100, 1000, 10_000), "MOST_RUNS": 8},
}


def test_whole_settings_of_features() -> None:
    """By templates of all kinds, word classes and a bitext's lexicon among them; products, and what a plan knows of words."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=12, hyps=4, features=2), seed=1)
    plan = FeaturePlan.of("length,lm_per_word,inserted_clusters,lexical_weight,mbr,model1,frequency,w", TEMPLATES, products=1)
    bitext = Bitext([("a b", "x y"), ("b", "y")])
    gradient = partial(first_gradient, seed=0)
    made, learnt = featurize(nbest, plan, resources=Resources(bitext=bitext), gradient_of=gradient)
    assert {"len.src", "lex.tgt|src"} & set(made.unit_names)
    assert feature_maker.FeatureMaker().plan("length").entries == FeaturePlan.of("length").entries
    assert known_words.doubts_about(learnt, source=nbest.source.to_pylist()) == []
    found = {module: {name: getattr(module, name) for name in names} for module, names in SETTINGS.items()}
    assert found == SETTINGS
