"""Learning on real lists of a speech recogniser and of a neural system, by the default recipe, on sentences it has not seen."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import recipe
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.formats.importing import Corpus, import_corpus
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.choices import Scorer, first_choice
from boostfeat.lists.nbest import NBest
from boostfeat.model.model import Model
from boostfeat.tuners.base import Run
from boostfeat.tuners.pro import Pro

pytestmark = pytest.mark.slow


def split(nbest: NBest, n_held_out: int) -> tuple[NBest, NBest]:
    order = np.random.default_rng(1).permutation(len(nbest))
    return nbest.take(np.sort(order[n_held_out:])), nbest.take(np.sort(order[:n_held_out]))


def scored(nbest: NBest, model: Model | None, metric: str) -> float:
    return Scorer(nbest).score(first_choice(nbest) if model is None else model.predict(nbest), metric).score


def test_speech_works_out_of_the_box(real: Path) -> None:
    """At least 1.7 points of WER below the first hypothesis, and not above PRO with the same features."""
    lists = import_corpus(Corpus((str(real / "asr/train_atis.json.xz"),)), ReadOptions())
    train, held_out = split(lists, 800)
    train, plan = featurize(train, FeaturePlan.of("words-basic", TEMPLATES))
    held_out = featurize(held_out, plan)[0]
    model = boost(train, None, recipe("default", gain="wer"))
    pro = Pro().fit(train, None, Run(gain="wer"))
    first, learnt, linear = (scored(held_out, m, "wer") for m in (None, model, pro))
    assert model.config["sparse_l2"] <= 100  # far below what phrases need
    assert learnt <= first - 1.7
    assert learnt <= linear


def test_neural_translation_is_not_below_the_first_hypothesis(real: Path, tmp_path: Path) -> None:
    """The raw list of Marian: its normalised score and its length are features."""
    folder = real / "nmt-de-en"
    for name in ("de", "en", "12.marian"):
        with lzma.open(folder / f"devtrain.{name}.xz", "rt", encoding="utf-8") as lines:
            part = [line for _, line in zip(range(12 * 1500 if name == "12.marian" else 1500), lines, strict=False)]
        (tmp_path / name).write_text("".join(part), encoding="utf-8")
    corpus = Corpus((str(tmp_path / "12.marian"),), (str(tmp_path / "en"),), str(tmp_path / "de"), tokenize="13a")
    train, held_out = split(import_corpus(corpus, ReadOptions()), 500)
    model = boost(train, None, recipe("fast"))
    for metric in ("bleu", "chrf"):
        assert scored(held_out, model, metric) > scored(held_out, None, metric)
