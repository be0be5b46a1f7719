"""What stands beside a unit: the features of the previous and the following one.

They decompose over bigrams of units: a decoder that keeps its last unit can compute them (see ``registry.STATES``). Exact values
tell apart units that differ only in their surroundings (2.6 times as many on 200-best lists); binned ones keep most of the
redundancy that makes boosting fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..lists.words import NONE
from .by_unit import Quantiles, check_bins
from .context import Corpus, Rows
from .groups import DECODER, feature_kinds
from .registry import Counted, Dense, Tally, added_up, template


def _learner(column: str) -> Counted:
    """Learning for a template whose rows are keyed on a context column."""

    def count(rows: Rows, counts: I64, *, features: list[str] | None = None, bins: int = 4) -> dict[str, Tally]:
        nbest, unit = rows.corpus.nbest, rows[column]
        kinds = feature_kinds(nbest)
        own = [name for name in nbest.unit_names if kinds[name][0] == DECODER]
        chosen = own if features is None else features
        if unknown := [name for name in chosen if name not in nbest.unit_names]:
            raise InputError(
                f"neighbours: expected features of the list ({', '.join(nbest.unit_names) or 'none'}), found {unknown[0]!r}; "
                "correct features = [...] in the TOML file"
            )
        if not isinstance(bins, int) or bins < 0:
            raise InputError(f"neighbours: expected bins of at least 0 (0: exact values), found {bins!r}; correct the TOML file")
        some = np.flatnonzero(unit != NONE) if bins else np.zeros(0, np.int64)
        return {name: (nbest.X[unit[some], nbest.unit_names.index(name)], counts[some]) for name in chosen}

    def choose(corpus: Corpus, tallies: dict[str, Tally], *, bins: int = 4) -> dict[str, Any]:
        quantiles = {name: quantile_bins(*tally, bins) for name, tally in tallies.items()} if bins else {}
        return {"features": list(tallies), "quantiles": quantiles}

    return Counted(count, choose)


def quantile_bins(x: F64, counts: I64, n: int) -> dict[str, list[float]]:
    """Cuts of x [m] into at most n bins of equally many occurrences, and each bin's mean. Bin k is cut[k-1] < x <= cut[k]."""
    if not len(x):
        return {"cuts": [], "means": [0.0]}
    x, counts = added_up([(x, counts)])  # sums do not depend on the order in which numbers were met
    share = np.cumsum(counts) / counts.sum()
    at = np.minimum(np.searchsorted(share, np.arange(1, n) / n), len(x) - 1)
    cuts = np.unique(x[at])
    cuts = cuts[cuts < x.max()]  # no empty bin above the highest
    bin_of = np.searchsorted(cuts, x)
    means = np.bincount(bin_of, x * counts) / np.bincount(bin_of, counts)
    return {"cuts": cuts.tolist(), "means": means.tolist()}


def _features_of(rows: Rows, column: str, features: list[str], quantiles: Quantiles) -> Dense:
    """Columns of the units that stand there; 0, and marked, where there is none."""
    side, unit, nbest = column[:4], rows[column], rows.corpus.nbest
    some = unit != NONE
    check_bins(quantiles)
    out: Dense = {f"{side}.none": (~some).astype(np.float64)}
    for name in features:
        if name not in nbest.unit_names:
            raise InputError(f"neighbours: expected a list with feature {name!r}, found none; featurize it as the dev list was")
        x = nbest.X[unit[some], nbest.unit_names.index(name)]
        if name in quantiles:
            x = np.array(quantiles[name]["means"])[np.searchsorted(quantiles[name]["cuts"], x)]
        out[f"{side}.{name}"] = np.zeros(len(rows))
        out[f"{side}.{name}"][some] = x
    return out


@template("previous", kind="contextual", reads=("previous features",), learn=_learner("prev_unit"))
def previous(rows: Rows, *, features: list[str], quantiles: Quantiles) -> Dense:
    """The previous unit's decoder features, or those given; each in quarters of the dev list's (bins = 0: exact)."""
    return _features_of(rows, "prev_unit", features, quantiles)


@template("following", kind="contextual", reads=("following features",), learn=_learner("next_unit"))
def following(rows: Rows, *, features: list[str], quantiles: Quantiles) -> Dense:
    """The following unit's decoder features, or those given; each in quarters of the dev list's (bins = 0: exact)."""
    return _features_of(rows, "next_unit", features, quantiles)


@template("neighbour_sizes", kind="contextual", reads=("previous unit", "following unit"))
def neighbour_sizes(rows: Rows) -> Dense:
    """Source and target words of the previous and the following unit, up to 4."""
    out: Dense = {}
    for side in ("prev", "next"):
        pair = rows[side]
        for name, words in (("src", rows.corpus.src), ("tgt", rows.corpus.tgt)):
            column = np.zeros(len(rows))
            column[pair != NONE] = np.minimum(words.counts[pair[pair != NONE]], 4)
            out[f"{side}.len.{name}"] = column
    return out
