"""A model called from a program: candidates in, the choice of the command line out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import filterfalse, pairwise
from math import isfinite, nan
from pathlib import Path
from sys import float_info
from typing import Any

import numpy as np

from ..core.arrays import F64, offsets
from ..core.errors import InputError, clip
from ..core.text import normal, split_words
from ..features.feature_maker import FeatureMaker, has_features
from ..features.plan import FeaturePlan
from ..lists.build import Builder, HypRecord, ReadOptions, UnitRecord, ordered_union
from ..lists.nbest import NBest, strings
from ..model.decision import ranks_of_few
from ..model.model import Model
from .candidate_scores import CandidateScorer, OneList, Unit

Candidate = Mapping[str, Any]
_KEYS = {"text", "score", "features", "units"}
_UNIT_KEYS = {"features", "src", "tgt", "src_text", "tgt_text", "align", "score"}
_DENSE_SHARE, _MOST_NAMES = 0.1, 4096  # what fewer of many hypotheses have would be sparse in a list (lists.build)


@dataclass(frozen=True)
class Reranker:
    """Chooses among candidates by a model, whose features it computes.

    Most models score candidates as they are (``candidate_scores``), which takes milliseconds. Templates of files need a list.

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
        _ = found._scorer, found._needed  # a plan that is none is said now, and the first choice does not wait
        return found

    @cached_property
    def maker(self) -> FeatureMaker:
        """Computes templates on lists."""
        return self.features or FeatureMaker()

    @cached_property
    def _plan(self) -> FeaturePlan | None:
        return None if self.model.plan is None else FeaturePlan.from_json(self.model.plan, "features of the model")

    @cached_property
    def _scorer(self) -> CandidateScorer | None:
        says_something = self.features is not None and self.features.files.lm is not None
        return None if says_something else CandidateScorer.of(self.model, self._plan, self.maker.registry)

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
        if self._scorer is not None:
            listed = listed_of(candidates) if isinstance(candidates, NBest) else _listed(candidates, source)
            if listed is not None and self._needed.issubset((*listed.names, *listed.own_names)):
                found = self._scorer.scores(listed)
                if found is not None:
                    return found
        return self._by_list(candidates, source)

    def _by_list(self, candidates: Sequence[Candidate] | NBest, source: str) -> F64:
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


def _listed(candidates: Sequence[Candidate], source: str) -> OneList | None:
    """The candidates as they are, their units numbered; None for what has to be looked at with care."""
    words = split_words(normal(source)) if source else []
    names: dict[str, None] = {}  # all, in the order in which a list would number them
    unit_names: dict[str, None] = {}
    number: dict[tuple[Any, ...], int] = {}
    units: list[Unit] = []
    hyps, own, texts = [], [], []
    tgt_start: list[int] = []
    scores: list[float] = []
    last: tuple[str, ...] = ()
    for candidate in candidates:
        if type(candidate) is not dict or not candidate.keys() <= _KEYS or type(text := candidate.get("text")) is not str:
            return None
        features = candidate.get("features") or {}
        score: Any = candidate.get("score")
        if _is_unknown(score):
            score = nan
        elif not _are_numbers({"score": score}):
            return None
        if not _are_numbers(features):
            return None
        target: list[str] | None = None
        hyp: list[tuple[int, int]] = []
        for unit in candidate.get("units") or ():
            if type(unit) is not dict or not unit.keys() <= _UNIT_KEYS or not _are_numbers(x := unit.get("features") or {}):
                return None
            start, end = _NO_SPAN if (span := unit.get("src")) is None else _plain_span(span)
            first, stop = _NO_SPAN if (span := unit.get("tgt")) is None else _plain_span(span)
            src, tgt, align = unit.get("src_text"), unit.get("tgt_text"), unit.get("align") or ""
            if start == _STRANGE or first == _STRANGE or type(align) is not str or (words and end > len(words)):
                return None
            if src is None:
                src = " ".join(words[start:end]) if start >= 0 else ""
            if tgt is None:
                if target is None:
                    target = split_words(normal(text))
                tgt = " ".join(target[first:stop]) if first >= 0 else ""
            if type(src) is not str or type(tgt) is not str:
                return None
            own_names = tuple(x)
            tgt_len = stop - first if first >= 0 else -1
            key = (src, tgt, align, end - start if start >= 0 else -1, tgt_len, own_names, *x.values())
            u = number.setdefault(key, len(units))
            if u == len(units):
                units.append(Unit(src, tgt, align, key[3], tgt_len, x))
                if own_names != last:
                    last = own_names
                    names.update(dict.fromkeys(own_names))
                    unit_names.update(dict.fromkeys(own_names))
            hyp.append((u, start))
            tgt_start.append(first)
        names.update(dict.fromkeys(features))
        hyps.append(hyp)
        own.append(features)
        texts.append(normal(text))
        scores.append(float(score))
    shared = {name: sum(name in features for features in own) for name in names}
    given = [name for name, n in shared.items() if n]
    if len(names) > _MOST_NAMES or any(shared[name] < _DENSE_SHARE * len(own) for name in given if name not in unit_names):
        return None
    values = np.array([[features.get(name, 0.0) for name in given] for features in own], np.float64).reshape(len(own), -1)
    return OneList(words, tuple(unit_names), units, hyps, tgt_start, texts, scores, tuple(given), values + 0.0)


_STRANGE, _NO_SPAN = -2, (-1, -1)


def _plain_span(span: Any) -> tuple[int, int]:
    """A span, or _STRANGE."""
    if type(span) not in (list, tuple) or len(span) != 2:
        return _STRANGE, _STRANGE
    start, end = span
    return (start, end) if type(start) is int and type(end) is int and 0 <= start <= end < 2**31 else (_STRANGE, _STRANGE)


def _are_numbers(features: Any) -> bool:
    """Whether all is a name or a finite number of Python's own."""
    if type(features) is not dict:
        return False
    values = features.values()
    try:
        return set(map(type, values)) <= {float, int} and set(map(type, features)) <= {str} and isfinite(sum(values))
    except OverflowError:  # of a whole number
        return False


def listed_of(nbest: NBest) -> OneList | None:
    """The same of a list of one sentence."""
    if len(nbest) != 1 or len(nbest.sparse_names):
        return None
    texts = (column.to_pylist() for column in (nbest.units.src, nbest.units.tgt, nbest.units.align))
    lengths = (column.tolist() for column in (nbest.units.src_len, nbest.units.tgt_len))
    rows = nbest.X.tolist()
    units = [
        Unit(src, tgt, align, n, m, dict(zip(nbest.unit_names, x, strict=True)))
        for src, tgt, align, n, m, x in zip(*texts, *lengths, rows, strict=True)
    ]
    at = list(zip(nbest.unit_idx.tolist(), nbest.src_start.tolist(), strict=True))
    ptr = nbest.unit_ptr.tolist()
    hyps = [at[a:b] for a, b in pairwise(ptr)]
    return OneList(
        split_words(nbest.source[0].as_py()),
        nbest.unit_names,
        units,
        hyps,
        nbest.tgt_start.tolist(),
        nbest.text.to_pylist(),
        nbest.score.tolist(),
        nbest.extra_names,
        nbest.extra,
    )


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
    return nan if _is_unknown(score := given.get("score")) else _number(score, f"{where}.score")


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
    if unknown := sorted(map(str, set(given) - known)):
        raise InputError(f"{where}: expected the keys {', '.join(sorted(known))}, found {clip(unknown[0])}")


def _numbers(features: Mapping[str, Any], where: str) -> dict[str, float]:
    return {str(name): _number(value, f"{where}: feature {clip(str(name))}") for name, value in features.items()}


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not abs(value) <= float_info.max:  # type: ignore[operator]
        raise InputError(f"{where}: expected a finite number, found {clip(repr(value))}")
    return float(value)
