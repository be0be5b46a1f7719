"""The model: named weights plus trees, one JSON file. A tuner's result is a model with no trees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import filterfalse
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import F64, I64
from ..core.errors import FormatError, InputError, clip, clip_json, counted, refuse_newer, repeated
from ..core.feature_table import FeatureTable
from ..core.files import decode, open_output, read_chunks
from ..core.html import cell, remark, table, title
from ..core.overwriting import HEAD, LIST, kind_of
from ..core.strict_json import indented, parse_json, typed
from ..core.text import is_whole
from ..lists.choices import best_choice
from ..lists.nbest import NBest
from ..trees.tree import Remembered, Tree, TreeInput
from .decision import decisive, ranks
from .effects import remembered_effects, total_effects
from .model_file import LEVELS, Level, ModelRecord, Plan, pack, signature, unpack

VERSION = 3  # 2: models that carry the plan of their features; 3: the signature is of what decides beside the score, too
LARGEST, DRAWN = 20, 3  # features and trees that a notebook shows
ENORMOUS = 1e100  # numbers that no training gives
_FIX = "correct it, or write the model again with 'boostfeat induce' or 'boostfeat tune'"

accept_edited: ContextVar[bool] = ContextVar("accept_edited", default=False)  # whether models that somebody has edited are read


class _Finite(dict[str, float]):
    """Weights that were looked at: the models of a run's rounds share hundreds of thousands of them."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        super().__init__(weights)
        if not np.isfinite(np.fromiter(self.values(), np.float64, len(self))).all():
            name, weight = next((name, weight) for name, weight in self.items() if not isfinite(weight))
            raise ValueError(f"weight of {name}: expected a finite number, found {weight}")


@dataclass(frozen=True)
class Model:
    """score(h) = Σ_l λ_l f_l(h) + Σ_m ρ_m Σ_{u in h} h_m(x_u); for level global, h_m is applied to the hypothesis' features."""

    weights: Mapping[str, float]
    trees: tuple[Tree, ...] = ()
    level: Level = "local"
    config: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    plan: Plan | None = None  # how its features are computed on a raw list (features.feature_maker); None: lists have them

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level: expected one of {', '.join(LEVELS)}, found {self.level!r}")
        if not isinstance(self.weights, _Finite):
            object.__setattr__(self, "weights", _Finite(self.weights))

    @cached_property
    def signature(self) -> str:
        """A short hash of what the model computes and takes, after the level and the sizes."""
        return self._signature(f"model/{VERSION}")

    def _signature(self, kind: str) -> str:
        """Return the signature of a file of this kind: until model/3 it was not of what decides beside the score."""
        decides = {} if kind in ("model/1", "model/2") else decisive(self.config)
        return signature(self.level, self.weights, [tree.to_json() for tree in self.trees], self.plan, decides)

    def __repr__(self) -> str:
        carried = "" if self.plan is None else ", carries its features"
        return f"Model({self.level}, {counted(len(self.weights), 'weight')}, {counted(len(self.trees), 'tree')}{carried})"

    # -- scoring -----------------------------------------------------------------------------------------------------

    def decision_function(self, nbest: NBest) -> F64:
        """[H] the model's score of every hypothesis."""
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in one line
            scores = self._scores(nbest)
        if not np.isfinite(scores).all():
            h = int(np.flatnonzero(~np.isfinite(scores))[0])
            who = "model has weights or leaves" if self._largest() > ENORMOUS else "list has features"
            raise InputError(
                f"sentence {nbest.ids[nbest.sent_of_hyp[h]]}: expected scores that are finite, found {scores[h]}; "
                f"the {who} of enormous values: leave them out"
            )
        return scores

    def _largest(self) -> float:
        """The largest number that the model multiplies or adds."""
        leaves = (float(np.abs([tree.value, tree.intercept]).max()) * max(1.0, abs(tree.weight)) for tree in self.trees)
        return max((*map(abs, self.weights.values()), *leaves), default=0.0)

    def _scores(self, nbest: NBest) -> F64:
        unit_scores, own = nbest.weigh(self.weights)
        if not self.trees:
            return nbest.sum_units(unit_scores, own)
        if self.level == "global":
            return nbest.sum_units(unit_scores, own) + tree_scores(self.trees, hypothesis_table(nbest))
        check_units(nbest)
        return nbest.sum_units(unit_scores + tree_scores(self.trees, unit_table(nbest, self._tested)), own)

    def predict(self, nbest: NBest, *, threads: int = 1) -> I64:
        """[S] what the model takes of each list: the highest score, or as its config says (see decision); -1 of an empty one."""
        return best_choice(nbest, ranks(self.config, nbest, self.decision_function(nbest), threads=threads))

    @cached_property
    def _tested(self) -> set[str]:
        """The features that trees look at."""
        return set().union(*(tree.features() for tree in self.trees))

    def missing_features(self, nbest: NBest, made: Set[str] = frozenset()) -> list[str]:
        """Features the model weighs or tests that neither the list has nor is made of it (they count as 0)."""
        known = set(nbest.global_names) | set(nbest.sparse_names.to_pylist())
        lacking = {name for name in filterfalse(made.__contains__, self.weights) if name not in known and self.weights[name]}
        return sorted(lacking | (self._tested - known - made))

    def explain(self, nbest: NBest, *, sentence: int | None = None, **how: Any) -> Any:
        """Say why the model chose as it did, as BoostReranker.explain does; features that lists lack count as 0."""
        return import_module("boostfeat.rerank.explanation").explain_lists(self, nbest, sentence, **how)

    @cached_property
    def effects(self) -> dict[str, float]:
        """Effects of features, how much each moved the ranking of the lists learned from (``total_effects``), largest first."""
        return total_effects(self.weights, self.trees, *remembered_effects(self.trees, self.history))

    def _repr_html_(self) -> str:
        """For notebooks: the features that matter most, on the list it was learned on, and the first trees, drawn."""
        _, of_trees = remembered_effects(self.trees, self.history)
        total = self.effects
        known = any(total.values())
        rows = [
            [name, f"{self.weights.get(name, 0.0):.6g}", *([f"{total[name]:.4g}"] if known else [])]
            for name in list(total)[:LARGEST]
        ]
        more = f"the first {len(rows)} of {len(total):,} features" if len(total) > LARGEST else ""
        trees = [_card(tree, *of_trees[tree.name]) for tree in self.trees[:DRAWN]]
        rest = f"and {len(self.trees) - DRAWN:,} more trees" if len(self.trees) > DRAWN else ""
        header = ["feature", "weight", *(["total effect"] if known else [])]
        return cell(title("Model", self.signature), table(header, rows), remark(more), *trees, remark(rest))

    # -- the file ----------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the object of a model file."""
        return {
            "boostfeat": f"model/{VERSION}",
            "signature": self.signature,
            "level": self.level,
            "weights": dict(self.weights),
            "trees": [tree.to_json() for tree in self.trees],
            **({} if self.plan is None else {"features": pack(self.plan)}),
            "config": dict(self.config),
            "history": [dict(row) for row in self.history],
        }

    def save(self, path: str | Path) -> None:
        """Write atomically; two models with the same content are the same bytes."""
        with open_output(path) as stream:
            stream.write(indented(self.to_json()).encode() + b"\n")

    @classmethod
    def from_json(cls, obj: Any, where: str, *, allow_edited: bool = False) -> Model:
        """Return the model of a parsed file; one whose content is not what was signed is refused, unless ``allow_edited``."""
        kind, _, version = str(obj.get("boostfeat", "") if isinstance(obj, dict) else "").partition("/")
        if kind != "model" or not is_whole(version, digits=9):
            raise FormatError(
                where, expected='a model file ("boostfeat": "model/1")', found="another kind of JSON", fix="name a model"
            )
        refuse_newer(where, obj["boostfeat"], "model", VERSION)
        record = typed(obj, ModelRecord, where, fix=_FIX)
        try:
            json.dumps([record.config, record.history], allow_nan=False)
            model = cls(
                weights=record.weights,
                trees=tuple(Tree.from_record(tree, f"{where}: trees[{m}]") for m, tree in enumerate(record.trees)),
                level=record.level,
                config=record.config,
                history=tuple(record.history),
                plan=None if record.features is None else unpack(record.features, f"{where}: features"),
            )
        except InputError:
            raise
        except ValueError as error:
            raise FormatError(where, expected="a valid model", found=str(error), fix="make it again") from None
        if twice := repeated(tree.name for tree in model.trees):
            raise FormatError(
                f"{where}: trees", expected="distinct names", found=f"{clip(twice)} twice", fix="rename one of them"
            )
        if record.signature is not None and not (allow_edited or accept_edited.get()):
            model._check_signature(record, where)
        return model

    def _check_signature(self, record: ModelRecord, where: str) -> None:
        expected, found = self._signature(record.boostfeat), record.signature
        if found != expected:
            raise FormatError(
                where,
                expected=f"the signature of its content, {expected.rpartition('|')[2]}",
                found=clip(found.rpartition("|")[2] if isinstance(found, str) else clip_json(found)),
                fix="it was edited or damaged: make it again, or accept it as it is with --allow-edited",
            )

    @classmethod
    def load(cls, path: str | Path, *, allow_edited: bool = False) -> Model:
        """Read a model file. One whose content is not what it was written with is refused, unless ``allow_edited``."""
        data = b"".join(read_chunks(path))
        text = decode(data, str(path))
        try:
            obj = parse_json(text)
        except ValueError as error:
            kind = kind_of(data[:HEAD])
            found = str(error)[:200] if text.lstrip("\ufeff \t\r\n").startswith("{") and kind != LIST else kind
            raise FormatError(str(path), expected="a model file in JSON", found=found, fix="name a model") from None
        return cls.from_json(obj, str(path), allow_edited=allow_edited)

    def truncated(self, n_trees: int) -> Model:
        """The model after its first n_trees trees."""
        return replace(self, trees=self.trees[:n_trees])


def _card(tree: Tree, effect: float | None, fires: list[int] | None) -> str:
    """A tree in HTML; ``fires`` are how often its leaves fire."""
    total = max(1, sum(fires or []))
    shares = {int(node): k / total for node, k in zip(tree.leaves, fires or [], strict=False)}
    return tree.card(shares, "" if effect is None else f" · effect {effect:.3g}")


def check_units(nbest: NBest) -> None:
    """Raise for a list that trees of level local see nothing of."""
    if nbest.n_hyps and not nbest.n_occurrences:
        needs = "expected a list with units (phrases) for trees of level local, found none"
        raise InputError(f"{needs}; import one that has them, or use level global")


def unit_table(nbest: NBest, tested: Set[str] | None = None) -> FeatureTable:
    """The units' features by name: what local trees see. Without the sparse ones where none of them is tested."""
    names = _sparse_names(nbest)
    if not names or (tested is not None and tested.isdisjoint(names)):
        return FeatureTable(nbest.unit_names, nbest.X)
    return FeatureTable(nbest.unit_names, nbest.X, nbest.X_sparse, names)


def hypothesis_table(nbest: NBest) -> FeatureTable:
    """The hypotheses' features by name: what global trees see."""
    sparse = (_SummedSparse(nbest), _sparse_names(nbest)) if len(nbest.sparse_names) else ()
    return FeatureTable(nbest.global_names, nbest.global_features, *sparse)


class _SummedSparse:
    """A X + E [H, N] of sparse features, for a FeatureTable: the columns that trees test are summed when they are asked for.

    All of them at once are many times the entries of A and X: 18 million for 600 lists of fi-en.
    """

    def __init__(self, nbest: NBest) -> None:
        self._nbest, self.shape = nbest, (nbest.n_hyps, len(nbest.sparse_names))

    def tocsc(self) -> _SummedSparse:
        return self

    def __getitem__(self, at: tuple[slice, Any]) -> Any:
        x, own = self._by_column
        return (self._nbest.A @ x[at] + own[at]).tocsr()

    @cached_property
    def _by_column(self) -> tuple[Any, Any]:
        return self._nbest.X_sparse.tocsc(), self._nbest.extra_sparse.matrix(self.shape[1]).tocsc()


def _sparse_names(nbest: NBest) -> tuple[str, ...]:
    return nbest.feature_names[len(nbest.global_names) :]  # the same strings: there may be a million


def tree_scores(trees: tuple[Tree, ...], table: TreeInput) -> F64:
    """Σ_m ρ_m h_m(x) of every row."""
    total, table = np.zeros(len(table)), Remembered(table)
    for tree in trees:
        total += tree.weight * tree.predict(table)
    return total
