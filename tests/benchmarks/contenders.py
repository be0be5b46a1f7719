"""Contenders of speed.py, each in a process of its own (python contenders.py NAME FOLDER), and the lists that they share."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

LEVELS = 16  # of relevance: a list's range of sentence BLEU in equal steps
METRIC = "bleu-sbp"


def lists(folder: Path, sentences: int, few: int) -> None:
    """Write dev, held-out and few lists in the forms that contenders read."""
    from generate import Sizes, generate
    from harness import REAL, fi_en

    from boostfeat.formats import write
    from boostfeat.lists.store import read_store, write_store

    for seed, (name, source) in enumerate({"dev": "devtrain", "held": "devselect"}.items()):
        path = folder / f"{source}.nbest"
        if (REAL / "fi-en").is_dir():
            fi_en(folder, source)
        else:
            generate(path, Sizes(sentences=2500 if name == "dev" else 1000), seed=seed)
        write_store(read_store(path)[: sentences or None], folder / f"{name}.nbest")
    dev = read_store(folder / "dev.nbest")
    held = read_store(folder / "held.nbest")
    few = min(few, len(held))
    for name, nbest in (("few", dev[:few]), ("select", held[: few // 2]), ("test", held[few // 2 : few])):
        write_store(nbest, folder / f"{name}.nbest")
    for name, nbest in (("dev", dev), ("few", dev[:few])):
        for kind, lines in (("src", nbest.source), ("ref", nbest.refs)):
            (folder / f"{name}.{kind}").write_text("".join(f"{line}\n" for line in lines.to_pylist()))
    forms = {"dev.txt": (dev, "moses-enriched"), "few.txt": (dev[:few], "moses-enriched"), "plain.txt": (dev, "moses")}
    for name, (nbest, form) in {**forms, "few.jsonl": (dev[:few], "jsonl")}.items():
        with open(folder / name, "wb") as stream:
            write(nbest, stream, format=form)
    text, ptr = dev.text.to_pylist(), dev.hyp_ptr.tolist()
    (folder / "few.json").write_text(json.dumps([text[a:b] for a, b in pairwise(ptr[: few + 1])]))


def score(folder: Path, weights: dict[str, float] | None = None) -> float:
    """BLEU-SBP of weights, or of the model out.json, on the held-out lists."""
    from boostfeat.features.feature_maker import FeatureMaker
    from boostfeat.lists.choices import Scorer, best_choice
    from boostfeat.lists.store import read_store
    from boostfeat.model.decision import ranks
    from boostfeat.model.model import Model

    nbest = read_store(folder / "held.nbest")
    model = Model.load(folder / "out.json") if weights is None else Model(weights)
    nbest = FeatureMaker().for_model(nbest, model)
    return Scorer(nbest).score(best_choice(nbest, ranks(model.config, nbest, model.decision_function(nbest))), METRIC).score


def ranked(folder: Path) -> float:
    """Learn by LGBMRanker's objective with its defaults, on one thread; return BLEU-SBP on the held-out lists."""
    import lightgbm as lgb
    import numpy as np

    from boostfeat.lists.choices import Scorer, best_choice
    from boostfeat.lists.store import read_store
    from boostfeat.metrics.bleu import sentence_bleu

    dev, held = (read_store(folder / f"{name}.nbest") for name in ("dev", "held"))
    gains, size = sentence_bleu(dev.stats), np.diff(dev.hyp_ptr)
    low, high = (np.repeat(f.reduceat(gains, dev.hyp_ptr[:-1]), size) for f in (np.minimum, np.maximum))
    relevance = np.floor((gains - low) / np.maximum(high - low, 1e-9) * (LEVELS - 1e-6)).astype(int)
    # relevance as it is: its default, 2^relevance, cares for the best alone
    ranker = lgb.LGBMRanker(n_jobs=1, verbosity=-1, deterministic=True, label_gain=list(range(LEVELS)))
    ranker.fit(dev.global_features, relevance, group=size)
    return Scorer(held).score(best_choice(held, ranker.predict(held.global_features)), METRIC).score


def pair_examples(nbest: Any, pairs: Any) -> tuple[Any, Any, Any]:
    """Return differences of pairs, standardised as PRO does, their classes, and the scale of features.

    Every other pair is turned round, since scikit-learn wants two classes: the loss is the same.
    """
    import numpy as np

    diff = nbest.global_features[pairs.better] - nbest.global_features[pairs.worse]
    scale = np.sqrt((diff**2).sum(axis=0) / np.maximum((diff != 0).sum(axis=0), 1))
    scale[scale == 0] = 1.0
    label = np.arange(len(diff)) % 2
    return diff / scale * (2 * label - 1)[:, None], label, scale


def logistic_regression() -> Any:
    """Return scikit-learn's model with the penalty and the tolerance of PRO."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1.0, fit_intercept=False, tol=1e-6, max_iter=1000)


def regressed(folder: Path) -> float:
    """Fit scikit-learn's LogisticRegression to PRO's pairs; return BLEU-SBP."""
    from boostfeat.lists.store import read_store
    from boostfeat.losses.pairs import PairOptions, pairs_for

    dev = read_store(folder / "dev.nbest")
    x, label, scale = pair_examples(dev, pairs_for(dev, PairOptions(), seed=0))
    model = logistic_regression().fit(x, label)
    return score(folder, dict(zip(dev.global_names, (model.coef_[0] / scale).tolist(), strict=True)))


def minimum_bayes_risk(folder: Path) -> None:
    import numpy as np

    from boostfeat.lists.mbr import mbr_choice
    from boostfeat.lists.store import read_store

    nbest = read_store(folder / "few.nbest")
    mbr_choice(nbest, np.zeros(nbest.n_hyps))


def texts(folder: Path) -> list[list[str]]:
    return list(json.loads((folder / "few.json").read_text(encoding="utf-8")))


def by_mbrs(folder: Path, lists: int) -> None:
    """Choose from some lists by mbrs: every hypothesis is a reference."""
    from mbrs.decoders import DecoderMBR
    from mbrs.metrics import MetricBLEU

    decoder = DecoderMBR(DecoderMBR.Config(), MetricBLEU(MetricBLEU.Config(num_workers=1)))
    for hyps in texts(folder)[:lists]:
        decoder.decode(hyps, hyps)


def by_sacrebleu(folder: Path) -> None:
    """Compute the sentence BLEU of every hypothesis by sacrebleu."""
    from sacrebleu.metrics import BLEU

    bleu, refs = BLEU(effective_order=True), (folder / "few.ref").read_text().splitlines()
    for hyps, ref in zip(texts(folder), refs, strict=True):
        for text in hyps:
            bleu.sentence_score(text, [ref])


def by_statistics(folder: Path) -> None:
    from boostfeat.lists.build import with_stats
    from boostfeat.lists.store import read_store

    with_stats(read_store(folder / "few.nbest"))


def moses_names(folder: Path) -> list[str]:
    """Names of the features in the order of Moses' extractor: those of the list, a label's values one after the other."""
    from boostfeat.lists.store import read_store

    return list(read_store(folder / "dev.nbest").global_names)


def moses_start(folder: Path) -> None:
    """Write weights of 0.1 to start from, as mert and kbmira read them."""
    names = moses_names(folder)
    lines = [" ".join([value] * len(names)) for value in ("0.1", "-1", "1")]
    (folder / "init.opt").write_text("\n".join(lines) + "\n")
    (folder / "init.dense").write_text((folder / "init.opt").read_text())


def moses_score(folder: Path, name: str) -> float:
    """BLEU-SBP of the weights that Moses' tuner has written."""
    if name == "mert":
        found = [float(x) for x in (folder / "weights.txt").read_text().split()]
    else:
        found = [float(line.split()[1]) for line in (folder / "kbmira.out").read_text().splitlines() if line.startswith("F")]
    return score(folder, dict(zip(moses_names(folder), found, strict=True)))


CONTENDERS: dict[str, Any] = {
    "held-out": score,
    "LGBMRanker": ranked,
    "LogisticRegression": regressed,
    "boostfeat": minimum_bayes_risk,
    "mbrs": by_mbrs,
    "statistics": by_statistics,
    "sacrebleu": by_sacrebleu,
    "moses-start": moses_start,
    "moses-kbmira": lambda folder: moses_score(folder, "kbmira"),
    "moses-mert": lambda folder: moses_score(folder, "mert"),
}

if __name__ == "__main__":
    name, folder, *more = sys.argv[1:]
    if name == "lists":
        lists(Path(folder), *map(int, more))
    elif (found := CONTENDERS[name](Path(folder), *map(int, more))) is not None:
        print(f"{found:.2f}")
