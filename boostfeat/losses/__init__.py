"""Losses by name."""

from __future__ import annotations

from ..core.arrays import F64, HUGE, I32, I64
from ..core.errors import InputError, unknown_name
from .expected import ExpectedBleu, ExpectedGain
from .loss import Loss
from .pairs import Pairs
from .pairwise import LambdaLoss, PairwiseLogLoss

__all__ = ["HUGE", "LOSSES", "OF_LISTS", "ExpectedBleu", "ExpectedGain", "LambdaLoss", "Loss", "PairwiseLogLoss", "make_loss"]

LOSSES = {"log": PairwiseLogLoss, "lambda": LambdaLoss, "expected-gain": ExpectedGain, "expected-bleu": ExpectedBleu}
OF_LISTS = ("expected-gain", "expected-bleu")  # these compare all hypotheses of a list, the others those in some pair


def make_loss(
    name: str,
    *,
    pairs: Pairs | None,
    hyp_ptr: I64,
    gains: F64,
    scale: float = 1.0,
    weight: F64 | None = None,
    stats: I32 | None = None,
    strict: bool = True,
    cuts: I64 | None = None,
) -> Loss:
    """The loss of this name of pairs, their weights [K] and blocks, lists [S+1], gains [H], statistics [H, 6]."""
    if name == "log" and pairs is not None:
        return PairwiseLogLoss(pairs, len(gains), weight, cuts=cuts)
    if name == "lambda" and pairs is not None:
        return LambdaLoss(pairs, len(gains), weight, cuts=cuts)
    if name == "expected-gain":
        return ExpectedGain(hyp_ptr, gains, scale)
    if name == "expected-bleu" and stats is not None:
        return ExpectedBleu(hyp_ptr, stats, scale, strict=strict)
    if name in LOSSES:
        what = "statistics" if name in OF_LISTS else "pairs"
        raise InputError(f"loss {name}: expected the {what} of lists with references, found none; import them with -r REF")
    raise unknown_name("loss", name, LOSSES)
