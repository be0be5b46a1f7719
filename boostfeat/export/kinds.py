"""Kinds of features: of the phrase pair alone (static), of the phrase in its context, or of the whole hypothesis.

What a decoder can carry follows from it: a phrase table holds static features only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..core.errors import InputError
from ..features import TEMPLATES, FeaturePlan, feature_kinds
from ..features.groups import DECODER
from ..formats.fields import component
from ..lists.nbest import NBest
from ..model.model import Model
from .phrase_pairs import template_kinds

# Moses' features that are functions of the phrase pair, as its n-best lists name them: TranslationModel0_2, WordPenalty0.
# Those of a language model, reordering or distortion are contextual; so is any name that is not known to be static.
STATIC_NAMES = re.compile(
    r"(TranslationModel|PhraseDictionary\w*?|PhraseCount|WordPenalty|PhrasePenalty|UnknownWordPenalty)\d*(_\d+)?"
)


@dataclass(frozen=True)
class Known:
    """Knowledge about features by name: from a list, from the plan of its templates, from the user, from the ini."""

    nbest: NBest | None = None
    plan: FeaturePlan | None = None
    static: tuple[str, ...] = ()
    functions: frozenset[str] = frozenset()  # the feature functions that the decoder's ini names

    def kinds(self, names: Iterable[str]) -> dict[str, str]:
        """Return the kind of each feature: static, contextual or global.

        What the templates declare that made it, else what the user says (``static``), else by well-known names of decoders.
        """
        names, declared = list(names), {name: kind for name, (_, kind) in self._listed.items() if kind != DECODER}
        # a list that came with count.log or len.src does not declare them: their names do
        if any(name not in declared and (name not in self._listed or "." in name) for name in (*names, *self.static)):
            declared = {**template_kinds(), **self._learnt, **declared}  # which takes a moment
        for name in self.static:
            if declared.get(name, "static") != "static":
                raise InputError(
                    f"--static {name}: expected a feature of unknown kind, found a {declared[name]} one; leave it out"
                )
        no_unit_has = set(self.nbest.global_names) - set(self.nbest.unit_names) if self.nbest else set()
        return {name: declared.get(name) or ("global" if name in no_unit_has else self._by_name(name)) for name in names}

    def _by_name(self, name: str) -> str:
        prefix, colon, _ = name.partition(":")
        if colon and prefix in TEMPLATES:
            return TEMPLATES[prefix].kind
        return "static" if name in self.static or STATIC_NAMES.fullmatch(name) else "contextual"

    def is_made(self, name: str) -> bool:
        """Whether a template or a resource made the feature: the decoder does not have it.

        That a list holds a feature does not make it the decoder's: lists of ours come with count.log.
        """
        if self._listed.get(name, ("", DECODER))[1] != DECODER:
            return True
        if component(name)[0] in self.functions:
            return False
        is_sparse = ":" in name and name.partition(":")[0] in TEMPLATES
        return is_sparse or "." in name or name in self._learnt

    @cached_property
    def _listed(self) -> dict[str, tuple[str, str]]:
        return feature_kinds(self.nbest) if self.nbest else {}

    @cached_property
    def _learnt(self) -> dict[str, str]:
        return template_kinds(self.plan) if self.plan else {}


def static_features(nbest: NBest) -> tuple[str, ...]:
    """The unit features, dense and sparse, that are known to be static: what ``induce --set static-only=yes`` may test."""
    kinds = Known(nbest).kinds((*nbest.unit_names, *nbest.sparse_names.to_pylist()))
    return tuple(name for name, kind in kinds.items() if kind == "static")


def tested_features(model: Model) -> tuple[str, ...]:
    """Names of the features that some tree looks at, sorted."""
    return tuple(sorted(set().union(*(tree.features() for tree in model.trees))))
