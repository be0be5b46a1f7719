"""The gradient that boosting begins with, for whoever chooses features by it."""

from __future__ import annotations

from ..core.arrays import F64
from ..lists.nbest import NBest
from ..lists.quality import default_metric
from ..losses.pairs import pairs_for
from ..model.model import Model
from ..model.units import UnitSpace
from ..tuners.linear import linear_problem
from .boost_options import BoostOptions
from .round_loss import RoundLoss


def first_gradient(nbest: NBest, *, gain: str | None = None, seed: int, threads: int = 1) -> tuple[F64, F64]:
    """g = A' P' σ(-z) [V] at the PRO solution, and the occurrences c [V]; by BLEU, or what else the list has."""
    options = BoostOptions()
    pairs = pairs_for(nbest, options.pairs, gain=gain or default_metric(nbest), seed=seed, threads=threads)
    space = UnitSpace.of(nbest, "local")
    loss = RoundLoss.of(space, nbest.hyp_ptr, pairs)
    scores = Model(linear_problem(nbest, pairs).fit(l2=options.l2).weights).decision_function(nbest)
    return loss.target(loss.at(scores)), space.counts()
