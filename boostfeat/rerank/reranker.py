"""A model called from a program: candidates in, the choice of the command line out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import filterfalse
from math import isfinite, nan
from pathlib import Path
from sys import float_info
from typing import Any

import numpy as np

from ..core.arrays import F64, offsets
from ..core.errors import InputError, clip
from ..core.text import normal
from ..features.feature_maker import FeatureMaker, has_features
from ..features.plan import FeaturePlan
from ..lists.build import Builder, HypRecord, ReadOptions, UnitRecord, ordered_union
from ..lists.nbest import NBest, strings
from ..model.decision import ranks_of_few
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
    features: FeatureMaker | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(f"Reranker: expected a model, found {clip(str(self.model))}; Reranker.load(PATH) reads a file")

    @classmethod
    def load(cls, path: str | Path) -> Reranker:
        """The model of a file, ready to choose."""
        found = cls(Model.load(path))
        _ = found._needed  # a plan that is none is said now, and the first choice does not wait
        return found

    @cached_property
    def maker(self) -> FeatureMaker:
        """Computes templates on lists."""
        return self.features or FeatureMaker()

    @cached_property
    def _plan(self) -> FeaturePlan | None:
        return None if self.model.plan is None else FeaturePlan.from_json(self.model.plan, "features of the model")

    @cached_property
    def _made(self) -> set[str]:
        """What the model computes."""
        return self._plan.features if self._plan else set()

    @cached_property
    def _needed(self) -> set[str]:
        """What the model weighs or tests and does not compute."""
        weights = self.model.weights
        used = {name for name in filterfalse(self._made.__contains__, weights) if weights[name]}
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
            more = f" and {len(missing) - 1} more" if missing[1:] else ""
            raise InputError(f"candidates: expected the model's feature {missing[0]!r}{more}, found none; give it to all of them")
        return self.model.decision_function(nbest)

    def choose(self, candidates: Sequence[Candidate] | NBest, *, source: str = "") -> int:
        """The position of the best candidate; of equal ones, the first."""
        if isinstance(candidates, NBest) and len(candidates) != 1:
            raise InputError(f"candidates: expected one list, found {len(candidates)}; use scores() or Model.predict")
        if not (candidates.n_hyps if isinstance(candidates, NBest) else len(candidates)):
            raise InputError("candidates: expected at least one, found none")
        return int(np.argmax(self.ranks(candidates, self.scores(candidates, source=source), source=source)))

    def ranks(self, candidates: Sequence[Candidate] | NBest, scores: F64, *, source: str = "") -> F64:
        """[K] what the model ranks one list by: its scores, less what lengths cost, or expected BLEU+1 (model.decision)."""
        if isinstance(candidates, NBest):
            texts, source = candidates.text.to_pylist(), "".join(candidates.source.to_pylist())
        else:
            texts = [normal(each["text"]) for each in candidates]
        return ranks_of_few(self.model.config, source, texts, scores)


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


def _are_numbers(features: Any) -> bool:
    """Whether all is a name or a finite number of Python's own."""
    if type(features) is not dict:
        return False
    values = features.values()
    try:
        return set(map(type, values)) <= {float, int} and set(map(type, features)) <= {str} and isfinite(sum(values))
    except OverflowError:  # of a whole number
        return False


def _hypothesis(candidate: Candidate, where: str) -> HypRecord:
    _check_keys(candidate, _KEYS, where)
    if not isinstance(text := candidate.get("text"), str):
        raise InputError(f"{where}: expected a text, found {clip(repr(text))}")
    units = [_unit(unit, f"{where}.units[{u}]") for u, unit in enumerate(candidate.get("units") or ())]
    features = _numbers(candidate.get("features") or {}, where)
    return HypRecord(0, normal(text), where, _score(candidate, where), features, units)


def _unit(unit: Mapping[str, Any], where: str) -> UnitRecord:
    _check_keys(unit, _UNIT_KEYS, where)
    return UnitRecord(
        _numbers(unit.get("features") or {}, where),
        _span(unit.get("src"), f"{where}.src"),
        _span(unit.get("tgt"), f"{where}.tgt"),
        unit.get("src_text"),
        unit.get("tgt_text"),
        unit.get("align") or "",
        _score(unit, where),
    )


def _score(given: Mapping[str, Any], where: str) -> float:
    return nan if _is_unknown(score := given.get("score")) else _number(score, where)


def _is_unknown(score: Any) -> bool:
    return score is None or score != score  # NaN


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
    if not given.keys() <= known:
        unknown = sorted(map(str, given.keys() - known))
        raise InputError(f"{where}: expected the keys {', '.join(sorted(known))}, found {clip(unknown[0])}")


def _numbers(features: Mapping[str, Any], where: str) -> dict[str, float]:
    if _are_numbers(features):
        return features  # type: ignore[return-value]
    return {str(name): _number(value, where, name) for name, value in features.items()}


def _number(value: Any, where: str, feature: Any = None) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not abs(value) <= float_info.max:  # type: ignore[operator]
        where += ".score" if feature is None else f": feature {clip(str(feature))}"
        raise InputError(f"{where}: expected a finite number, found {clip(repr(value))}")
    return float(value)
