"""Decoding with sparse weights beside decoding without: ratios of CPU seconds in one run.

    python decoder.py [--sentences 60] [--weights 100000] [--templates pt,al,del,lo sparse] [--limit 1.5]

With the real fi-en system, else that of data/. Weights are small, so that both search about the same graph. The features of
phrase pairs are computed once for all sentences: these seconds are shown beside the ratio, and as part of it. Exit code 1 if a
ratio without them is above the limit.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
from harness import REAL, alternating, timed

from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.plan import FeaturePlan
from boostfeat.lists.build import attach
from boostfeat.model.model import Model
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.output import collect
from boostfeat.search.decoder.search_templates import SearchTemplates
from boostfeat.search.decoder.setup import SearchOptions, read_setup
from boostfeat.search.decoder.system import PhraseSystem

DATA = Path(__file__).parents[2] / "data"


def plain_decoder(n: int) -> tuple[Decoder, list[str]]:
    """The system with its weights, and sentences."""
    folder, source = (REAL / "fi-en", "test.fi") if (REAL / "fi-en").is_dir() else (DATA, "test.src")
    with open(folder / source) as lines:
        sentences = [line.strip() for line in islice(lines, n)]
    if folder == DATA:
        said = read_setup(DATA / "system" / "moses.ini")
        files = {"phrase_table": str(said.phrase_table), "lm": str(said.lm), "reordering_table": said.reordering_table}
    else:
        said = read_setup(folder / "moses.ini")
        names = {"phrase_table": "phrase-table.test", "lm": "lm.arpa", "reordering_table": "reordering-table.test"}
        files = {key: str(folder / "system" / f"{name}.xz") for key, name in names.items()}
    options = SearchOptions(distortion_limit=said.distortion_limit or 6)
    return Decoder(PhraseSystem.load(**files, only=sentences), Model(said.weights), options, unknown_weight=1.0), sentences


def with_weights(plain: Decoder, sentences: list[str], what: str, n: int) -> Decoder:
    """The decoder with so many small weights: of features of its own lists, then of others of the phrase table."""
    maker = FeatureMaker()
    raw = attach(collect(plain.decode_all(sentences), 100), source=sentences, refs=(), name="raw")
    made, plan = maker.learn(raw, maker.plan(what, min_count=1))
    table = SearchTemplates(plain.system, plan)
    _ = table.table
    names = list(dict.fromkeys([*made.sparse_names.to_pylist(), *table.ids]))[:n]
    by: dict[str, list[str]] = {}
    for name in names:
        by.setdefault(name.partition(":")[0], []).append(name)
    entries = tuple(replace(e, features=tuple(by.get(e.name, ()))) for e in plan.entries)
    rng = np.random.default_rng(0)
    weights = dict(zip(names, (1e-4 * rng.normal(size=len(names))).tolist(), strict=True))
    model = with_plan(Model({**plain.model.weights, **weights}), FeaturePlan(entries, clusters=plan.clusters, products=()))
    return replace(plain, model=model)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--weights", type=int, default=100_000)
    parser.add_argument("--templates", nargs="+", default=["pt,al,del,lo", "sparse"])
    parser.add_argument("--limit", type=float, default=1.5)
    parser.add_argument("--tries", type=int, default=5)
    given = parser.parse_args()
    plain, sentences = plain_decoder(given.sentences)
    worst = 0.0
    for what in given.templates:
        decoder = with_weights(plain, sentences, what, given.weights)

        def fresh(model: Decoder = decoder) -> None:
            list(replace(model, templates=None).decode_all(sentences))

        list(decoder.decode_all(sentences)), list(plain.decode_all(sentences))  # compiled, and the table's features are there
        runs = [timed(lambda d=d: list(d.decode_all(sentences))) for d in (decoder, plain)]
        with_it, without, whole = alternating(*runs, timed(fresh), tries=given.tries)
        ratio, all_in_all = (median(a / b for a, b in zip(times, without, strict=True)) for times in (with_it, whole))
        n = sum(":" in name for name in decoder.model.weights)
        print(
            f"{what}: {n:,} sparse weights, {len(sentences)} sentences: {ratio:.2f} times the time without "
            f"({median(with_it):.2f} s, {median(without):.2f} s); with the features of {len(plain.system.table):,} phrase pairs "
            f"{all_in_all:.2f} times",
            flush=True,
        )
        worst = max(worst, ratio)
    return int(worst > given.limit)


if __name__ == "__main__":
    sys.exit(main())
