"""A model called from a program: candidates in, the choice of the command line out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import filterfalse
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip, unknown_name
from ..features.feature_maker import FeatureMaker, has_features, plan_of
from ..features.plan import FeaturePlan
from ..features.registry import Template
from ..features.resources import Clusters
from ..lists.absent import WAYS, with_absent
from ..lists.nbest import NBest
from ..model.decision import CALIBRATION, CUT, Calibration, Decision, ranks_of_few
from ..model.model import Model
from .plain import CandidateError, Decided, PlainModel, PlainTemplate

Candidate = Mapping[str, Any] | str


def needed_features(model: Model, made: set[str]) -> set[str]:
    """Name the features that a model weighs or tests and does not compute."""
    used = {name for name in filterfalse(made.__contains__, model.weights) if model.weights[name]}
    return used.union(*(tree.features() for tree in model.trees)) - made


def plain_data(model: Model, plan: FeaturePlan | None) -> dict[str, Any]:
    """Return what a PlainModel holds, as JSON would have it; ``plan`` has the templates that it computes itself."""
    decision, posterior = Decision.of(model.config), plan and plan.posterior
    read = {name for entry in (plan.entries if plan else ()) for name in entry.options.get("features", ())}  # of a decoder
    length = decision.length and {**decision.length.to_json(), "cut": CUT}
    clusters = (plan and plan.clusters) or Clusters()
    return {
        "signature": model.signature,
        "level": model.level,
        "inputs": sorted(needed_features(model, plan.features if plan else set()) | read),
        "weights": dict(model.weights),
        "trees": [tree.to_json() for tree in model.trees],
        "clusters": {"src": dict(clusters.src), "tgt": dict(clusters.tgt)},
        "products": [list(pair) for pair in (plan and plan.products) or ()],
        "posterior": posterior and {"scale": posterior.scale, "model": posterior.model and _of_list(posterior.model)},
        "decision": {"scale": decision.scale, "length": length},
        "calibration": asdict(Calibration.of(model.config)) if CALIBRATION in model.config else None,
    }


def _of_list(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model by which probabilities of a list are computed."""
    return plain_data(Model.from_json(model, "model of the consensus"), None)


def plain_templates(plan: FeaturePlan | None, registry: Mapping[str, Template]) -> list[PlainTemplate]:
    """Return the templates of a plan, ready to be called."""
    known = [(entry, registry[entry.name]) for entry in (plan.entries if plan else ())]
    return [PlainTemplate(e.name, t.bound(e.options), t.arguments, t.reads, e.hash_bits) for e, t in known]


@dataclass(frozen=True)
class Reranker:
    """Chooses among candidates by a model, whose features it computes.

    A feature that some candidates of a list lack counts as 0, which is told once; ``missing`` may say "refuse", "zero", or
    "worst" (the lowest value of the list).

    >>> reranker = Reranker.load("model.json")                                        # doctest: +SKIP
    >>> reranker.choose([{"text": "a b", "features": {"lm": -3.2}}, {"text": "b", "features": {"lm": -4.0}}])  # doctest: +SKIP
    0
    """

    model: Model
    features: FeatureMaker | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        if self.missing not in (None, *WAYS):
            raise unknown_name("missing", str(self.missing), WAYS)
        if not isinstance(self.model, Model):
            raise InputError(f"Reranker: expected a model, found {clip(str(self.model))}; Reranker.load(PATH) reads a file")

    @classmethod
    def load(cls, path: str | Path) -> Reranker:
        """The model of a file, ready to choose."""
        found = cls(Model.load(path))
        _ = found._made  # a plan that is none is said now
        return found

    @cached_property
    def maker(self) -> FeatureMaker:
        """Computes templates on lists."""
        return self.features or FeatureMaker()

    @cached_property
    def _plan(self) -> FeaturePlan | None:
        return plan_of(self.model)

    @cached_property
    def _made(self) -> set[str]:
        """Names of the features that the model computes."""
        return self._plan.features if self._plan else set()

    @cached_property
    def plain(self) -> PlainModel:
        """The model in plain Python."""
        for entry in self._plan.entries if self._plan else ():
            if entry.name not in self.maker.registry:
                raise InputError(f"template {entry.name!r} of the model: it is not known; give its --plugin FILE.py")
            if "phrase table" in self.maker.registry[entry.name].reads:
                raise InputError(f"template {entry.name!r} of the model reads a phrase table; rerank a list with it")
        shared = self.maker.shared
        files = {"lexicon": shared.given("lexicon"), "language_model": shared.lm}
        return PlainModel(
            plain_data(self.model, self._plan), plain_templates(self._plan, self.maker.registry), files, self.missing
        )

    def scores(self, candidates: Sequence[Candidate] | NBest, *, source: str = "") -> F64:
        """[K] the model's score of each candidate; higher is better.

        A candidate is {"text", "score", "features": {name: value}, "units": [...]}, all but the text optional; a unit is
        {"features": {name: value}, "src": [i, j], "tgt": [i, j], "align": "0-0"}, spans half-open. Or a list that a bridge made.
        """
        if not isinstance(candidates, NBest):
            with _in_one_line():
                return np.array(self.plain.scores(candidates, source))
        candidates = with_absent(candidates, self.missing, "candidates", self._tell_once)
        if self._plan and not has_features(candidates, self._made, "candidates"):
            candidates = self.maker.apply(candidates, self._plan, present=True)
        if missing := sorted(needed_features(self.model, self._made) - set(candidates.feature_names)):
            more = f" and {len(missing) - 1} more" if missing[1:] else ""
            raise InputError(f"candidates: expected the model's feature {missing[0]!r}{more}, found none; give it to all of them")
        return self.model.decision_function(candidates)

    def _tell_once(self, message: str) -> None:
        if not self.plain.was_told:
            self.plain.was_told = True
            warn(message.removeprefix("warning: "), stacklevel=4)

    def choose(self, candidates: Sequence[Candidate] | NBest, *, source: str = "") -> int:
        """Return the position of the best candidate; of equal ones, the first."""
        if not isinstance(candidates, NBest):
            return self.decide(candidates, source=source).index
        if len(candidates) != 1:
            raise InputError(f"candidates: expected one list, found {len(candidates)}; use scores() or Model.predict")
        if not candidates.n_hyps:
            raise InputError("candidates: expected at least one, found none")
        return int(np.argmax(self.ranks(candidates, self.scores(candidates))))

    def decide(self, candidates: Sequence[Candidate], *, source: str = "") -> Decided:
        """Return the choice with its margin over the decoder's, and how probable it is that it is better."""
        with _in_one_line():
            return self.plain.decide(candidates, source)

    def ranks(self, nbest: NBest, scores: F64) -> F64:
        """[K] what the model ranks one list by: its scores, less what lengths cost, or expected BLEU+1 (model.decision)."""
        return ranks_of_few(self.model.config, "".join(nbest.source.to_pylist()), nbest.text.to_pylist(), scores)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except CandidateError as error:
        raise InputError(str(error)) from None
