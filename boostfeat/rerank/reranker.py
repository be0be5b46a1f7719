"""A model called from a program: candidates in, the choice of the command line out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import filterfalse
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip, counted, unknown_name
from ..features.feature_maker import FeatureMaker, has_features, plan_of
from ..features.plan import FeaturePlan
from ..features.resources import Clusters
from ..lists.absent import WAYS, with_absent
from ..lists.nbest import NBest
from ..model.decision import CALIBRATION, Calibration, Decision, ranks
from ..model.model import Model
from .candidate_lists import COMPUTED, as_dictionaries, dictionaries_of_texts, list_of_objects, lists_of_candidates
from .drift import Drift
from .plain import CandidateError, Decided, MissingFeatureError, PlainModel, PlainTemplate

Candidates = Any  # see Reranker


def needed_features(model: Model, made: set[str]) -> set[str]:
    """Name the features that a model weighs or tests and does not compute."""
    used = {name for name in filterfalse(made.__contains__, model.weights) if model.weights[name]}
    return used.union(*(tree.features() for tree in model.trees)) - made


def plain_data(model: Model, plan: FeaturePlan | None) -> dict[str, Any]:
    """Return what a PlainModel holds, as JSON would have it; ``plan`` has the templates that it computes itself."""
    decision, posterior = Decision.of(model.config), plan and plan.posterior
    of_list = posterior and posterior.model and Model.from_json(posterior.model, "model of the consensus")
    read = {name for entry in (plan.entries if plan else ()) for name in entry.options.get("features", ())}  # of a decoder
    clusters = (plan and plan.clusters) or Clusters()
    known = Calibration.of(model.config).chance if CALIBRATION in model.config else None
    return {
        "signature": model.signature,
        "level": model.level,
        "inputs": sorted(needed_features(model, plan.features if plan else set()) | read),
        "weights": dict(model.weights),
        "trees": [tree.to_json() for tree in model.trees],
        "clusters": {"src": dict(clusters.src), "tgt": dict(clusters.tgt)},
        "products": [list(pair) for pair in (plan and plan.products) or ()],
        "posterior": posterior and {"scale": posterior.scale, "model": of_list and plain_data(of_list, None)},
        "decision": {"scale": decision.scale, "length": decision.length and asdict(decision.length)},
        "chance": known and asdict(known),
    }


@dataclass(frozen=True)
class Reranker:
    """Chooses among candidates by a model, whose features it computes.

    Candidates are texts, (text, score) or (text, features) each; an answer of an OpenAI-style server; vLLM's outputs for one
    prompt; a list that a bridge made; or dictionaries {"text", "score", "features": {name: value}, "units": [...]}, all but the
    text optional. A unit is {"features": {name: value}, "src": [i, j], "tgt": [i, j], "align": "0-0"}, spans half-open. Of those
    without units the words are units, and ranks and counts are features, as ``import`` makes them.

    A feature that some candidates of a list lack counts as 0, which is told once; ``missing`` may say "refuse", "zero", or
    "worst" (the lowest value of the list).

    >>> reranker = Reranker.load("model.json")                                        # doctest: +SKIP
    >>> reranker.choose([("a b", {"lm": -3.2}), ("b", {"lm": -4.0})])                 # doctest: +SKIP
    0
    """

    model: Model
    features: FeatureMaker = field(default_factory=FeatureMaker)  # computes templates on lists
    missing: str | None = None
    name: str = ""  # of the model's file

    def __post_init__(self) -> None:
        if self.missing not in (None, *WAYS):
            raise unknown_name("missing", str(self.missing), WAYS)
        if not isinstance(self.model, Model):
            raise InputError(f"Reranker: expected a model, found {clip(str(self.model))}; Reranker.load(PATH) reads a file")

    @classmethod
    def load(cls, path: str | Path) -> Reranker:
        """Read a model file, ready to choose."""
        reranker = cls(Model.load(path), name=Path(path).name)
        _ = reranker._made  # a plan that is none is said now
        return reranker

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
            if entry.name not in self.features.registry:
                raise InputError(f"template {entry.name!r} of the model: it is not known; give its --plugin FILE.py")
            if "phrase table" in self.features.registry[entry.name].reads:
                raise InputError(f"template {entry.name!r} of the model reads a phrase table; rerank a list with it")
        shared = self.features.shared
        files = {"lexicon": shared.given("lexicon"), "language_model": shared.lm}
        data = plain_data(self.model, self._plan)
        data["signature"] = f"{self.name} {self.model.signature}".strip()
        known = [(entry, self.features.registry[entry.name]) for entry in (self._plan.entries if self._plan else ())]
        templates = [PlainTemplate(e.name, t.bound(e.options), t.arguments, t.reads, e.hash_bits) for e, t in known]
        return PlainModel(data, templates, files, self.missing)

    @cached_property
    def _reads_words(self) -> bool:
        """Whether the model reads what import makes of texts."""
        local_trees = bool(self.model.trees) and self.model.level == "local"
        return local_trees or bool(self.plain.templates) or bool(self.plain.inputs & COMPUTED)

    def _dictionaries(self, candidates: Candidates, source: str) -> tuple[list[dict[str, Any]], str]:
        """Return candidates of any kind as dictionaries, and their source."""
        nbest = candidates if isinstance(candidates, NBest) else list_of_objects(candidates, source)
        if nbest is None:
            rows = as_dictionaries(candidates)
            if not self._reads_words or any("units" in row for row in rows):
                return rows, source
            return dictionaries_of_texts(rows, source, self.plain.inputs), source
        if len(nbest) != 1:
            raise InputError(f"candidates: expected one list, found {len(nbest)}; choose_many takes several")
        nbest = with_absent(nbest, self.missing, "candidates", self._tell_once)
        ((own_source, found),) = lists_of_candidates(nbest, self._made, set(nbest.unit_names))
        return found, own_source or source

    def scores(self, candidates: Candidates, source: str = "") -> F64:
        """[K] the model's score of each candidate; higher is better."""
        if not isinstance(candidates, NBest):
            with _in_one_line():
                return np.array(self.plain.scores(*self._dictionaries(candidates, source)))
        candidates = with_absent(candidates, self.missing, "candidates", self._tell_once)
        if self._plan and not has_features(candidates, self._made, "candidates"):
            candidates = self.features.apply(candidates, self._plan, present=True)
        if missing := sorted(needed_features(self.model, self._made) - set(candidates.feature_names)):
            raise InputError(str(MissingFeatureError(missing)))
        return self.model.decision_function(candidates)

    def _tell_once(self, message: str) -> None:
        if not self.plain.was_told:
            self.plain.was_told = True
            warn(message.removeprefix("warning: "), stacklevel=4)

    def choose(self, candidates: Candidates, source: str = "") -> int:
        """Return the position of the best candidate; of equal ones, the first."""
        return self.decide(candidates, source).index

    def choose_many(self, lists: Iterable[Candidates] | NBest, sources: Iterable[str] = ()) -> list[int]:
        """Return the position of the best candidate of each list; sources are in the same order, or left out."""
        lists = [lists[s : s + 1] for s in range(len(lists))] if isinstance(lists, NBest) else [*lists]
        given = [sources] if isinstance(sources, str) else [*sources]
        if given and len(given) != len(lists):
            raise InputError(f"sources: expected one for each of {counted(len(lists), 'list')}, found {len(given)}; align them")
        return [*map(self.choose, lists, given or [""] * len(lists))]

    def decide(self, candidates: Candidates, source: str = "") -> Decided:
        """Return the choice, how probable it is that it is the best, and its margin over the decoder's."""
        with _in_one_line():
            rows, source = self._dictionaries(candidates, source)
            try:
                choice = self.plain.decide(rows, source)
            except MissingFeatureError as error:
                self._drift.miss(error.features)
                raise
        self._drift.meet_candidates(rows, source, choice)
        return choice

    @cached_property
    def _drift(self) -> Drift:
        return Drift(self.model, self.name)

    def report(self) -> dict[str, Any]:
        """Return what decisions met so far beside training: kept choices, margins, probabilities, features, words."""
        return self._drift.report()

    def ranks(self, nbest: NBest, scores: F64) -> F64:
        """[K] what the model ranks one list by: its scores, less what lengths cost, or expected BLEU+1 (model.decision)."""
        return ranks(self.model.config, nbest, scores)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except CandidateError as error:
        raise InputError(str(error)) from None
