"""A model called from a program: candidates in, the choice of the command line out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64, offsets
from ..core.errors import InputError, clip
from ..core.text import normal
from ..features.carried import FeatureMaker, carried, has_features, plan_features
from ..features.vocab import FeaturePlan
from ..lists.build import Builder, HypRecord, ReadOptions, UnitRecord, ordered_union
from ..lists.nbest import NBest, strings
from ..model.model import Model

Candidate = Mapping[str, Any]
_KEYS = {"text", "score", "features", "units"}
_UNIT_KEYS = {"features", "src", "tgt", "src_text", "tgt_text", "align", "score"}


@dataclass(frozen=True)
class Reranker:
    """Chooses among candidates by a model, whose features it computes.

    >>> reranker = Reranker.load("model.json")                                        # doctest: +SKIP
    >>> reranker.choose([{"text": "a b", "features": {"lm": -3.2}}, {"text": "b", "features": {"lm": -4.0}}])  # doctest: +SKIP
    0
    """

    model: Model
    maker: FeatureMaker = field(default_factory=FeatureMaker)

    @classmethod
    def load(cls, path: str | Path) -> Reranker:
        return cls(Model.load(path))

    @cached_property
    def _plan(self) -> FeaturePlan | None:
        return carried(self.model)

    @cached_property
    def _made(self) -> set[str]:
        """What the model computes."""
        return plan_features(self._plan) if self._plan else set()

    @cached_property
    def _needed(self) -> set[str]:
        """What the model weighs or tests and does not compute."""
        used = {name for name, weight in self.model.weights.items() if weight}
        return used.union(*(tree.features() for tree in self.model.trees)) - self._made

    def scores(self, candidates: Sequence[Candidate] | NBest, *, source: str = "") -> F64:
        """[K] the model's score of each candidate; higher is better.

        A candidate is {"text", "score", "features": {name: value}, "units": [...]}, all but the text optional; a unit is
        {"features": {name: value}, "src": [i, j], "tgt": [i, j], "align": "0-0"}, spans half-open. Or a list that a bridge made.
        """
        nbest = candidates if isinstance(candidates, NBest) else one_list(candidates, source=source)
        if self._plan and not has_features(nbest, self._made, "candidates"):
            nbest = self.maker.apply(nbest, self._plan, present=True)
        if missing := sorted(self._needed - set(nbest.feature_names)):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(f"candidates: expected the model's feature {missing[0]!r}{more}, found none; give it to all of them")
        return self.model.decision_function(nbest)

    def choose(self, candidates: Sequence[Candidate] | NBest, *, source: str = "") -> int:
        """The position of the best candidate; of equal ones, the first."""
        if isinstance(candidates, NBest) and len(candidates) != 1:
            raise InputError(f"candidates: expected one list, found {len(candidates)}; use scores() or Model.predict")
        if not (candidates.n_hyps if isinstance(candidates, NBest) else len(candidates)):
            raise InputError("candidates: expected at least one, found none")
        return int(np.argmax(self.scores(candidates, source=source)))


def one_list(candidates: Sequence[Candidate], *, source: str = "") -> NBest:
    """The n-best list of these candidates, as an import would make it."""
    records = [_hypothesis(candidate, f"candidates[{k}]") for k, candidate in enumerate(candidates)]
    names = ordered_union(unit.features for record in records for unit in record.units)
    builder = Builder(ReadOptions(source=[normal(source)]), declared_dense=names)
    for record in records:
        builder.add(record)
    nbest = builder.finish()
    return replace(
        nbest,
        ids=np.zeros(1, np.int64),
        hyp_ptr=offsets(np.array([len(records)])),
        source=strings([normal(source)]),
        ref_ptr=np.zeros(2, np.int64),
    )


def _hypothesis(candidate: Candidate, where: str) -> HypRecord:
    _check_keys(candidate, _KEYS, where)
    if not isinstance(text := candidate.get("text"), str):
        raise InputError(f"{where}: expected a text, found {clip(repr(text))}")
    units = [_unit(unit, f"{where}.units[{u}]") for u, unit in enumerate(candidate.get("units") or ())]
    score = candidate.get("score")
    features = _numbers(candidate.get("features") or {}, where)
    return HypRecord(0, normal(text), where, nan if score is None else float(score), features, units)


def _unit(unit: Mapping[str, Any], where: str) -> UnitRecord:
    _check_keys(unit, _UNIT_KEYS, where)
    score = unit.get("score")
    return UnitRecord(
        _numbers(unit.get("features") or {}, where),
        _span(unit.get("src"), f"{where}.src"),
        _span(unit.get("tgt"), f"{where}.tgt"),
        unit.get("src_text"),
        unit.get("tgt_text"),
        unit.get("align") or "",
        nan if score is None else float(score),
    )


def _span(span: Any, where: str) -> tuple[int, int] | None:
    if span is None:
        return None
    try:
        start, end = map(int, span)
    except (TypeError, ValueError):
        start, end = 1, 0
    if not 0 <= start <= end < 2**31:
        raise InputError(f"{where}: expected [start, end] in words, half-open, found {clip(repr(span))}")
    return start, end


def _check_keys(given: Any, known: set[str], where: str) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: expected a dictionary, found {clip(repr(given))}")
    if unknown := sorted(map(str, set(given) - known)):
        raise InputError(f"{where}: expected the keys {', '.join(sorted(known))}, found {clip(unknown[0])}")


def _numbers(features: Mapping[str, Any], where: str) -> dict[str, float]:
    out = {}
    for name, value in features.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not isfinite(value):
            raise InputError(f"{where}: feature {clip(str(name))}: expected a finite number, found {clip(repr(value))}")
        out[str(name)] = float(value)
    return out
