"""Inputs of templates beside the list: word clusters, phrase counts, a bitext, a language model, a model's probabilities; and
the files that they are read from, declared once for every command that computes features."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ..core.arrays import F64
from ..core.files import digest
from ..core.options import option

if TYPE_CHECKING:
    from .language_model import LanguageModel
    from .lexicon import Bitext


@dataclass(frozen=True)
class Clusters:
    """A hard clustering of the words of both languages."""

    src: Mapping[str, str] = field(default_factory=dict)  # word -> name of its cluster
    tgt: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Posterior:
    """p = softmax(scale · score) over each list."""

    scale: float | None = None  # None: the dev list chooses it
    model: Mapping[str, Any] | None = None  # as in its file; None: the decoder's own scores


@dataclass(frozen=True)
class Resources:
    """Given or learned once, shared by all templates."""

    clusters: Clusters = field(default_factory=Clusters)
    phrase_counts: Mapping[tuple[str, str], float] | None = None  # (source, target) -> joint count
    bitext: Bitext | None = None
    lm: LanguageModel | None = None
    posterior: Posterior = field(default_factory=Posterior)
    scales: F64 | None = None  # [S] of the posterior, where the list itself teaches it: each sentence by what others teach

    def has(self, what: str) -> bool:
        return {"phrase table": self.phrase_counts, "bitext": self.bitext, "language model": self.lm}[what] is not None

    def given(self, argument: str) -> Any:
        """Return what a template's function has as an argument that is the same for all units."""
        match argument:
            case "clusters":
                return self.clusters
            case "phrase_counts":
                return self.phrase_counts or {}
            case "lexicon":
                return self.bitext and self.bitext.lexicon
        return self.lm


# -- files --------------------------------------------------------------------------------------------------------------

FEATURES = "Features"


@dataclass(frozen=True)
class TemplateFiles:
    """Paths of files that a decoder does not have itself; None where nothing is given."""

    bitext: tuple[str, str] | None = option(None, "Parallel text, for Model 1 and lexical weights", group=FEATURES)
    clusters_src: str | None = option(None, "File with source word clusters of mkcls or Brown", group=FEATURES, rare=True)
    clusters_tgt: str | None = option(None, "File with target word clusters of mkcls or Brown", group=FEATURES, rare=True)
    plugin: list[str] | None = option(None, "Your templates, in Python, which is run; repeatable", metavar="FILE", group=FEATURES)

    def digests(self) -> dict[str, str]:
        """Digests of the files that are given."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        paths = {name: [value] if isinstance(value, str) else value for name, value in given.items()}
        return {name: " ".join(map(digest, of)) for name, of in paths.items()}


@dataclass(frozen=True)
class ResourceFiles(TemplateFiles):
    """All of them."""

    phrase_table: str | None = option(None, "Moses' phrase table, for joint phrase counts", metavar="FILE", group=FEATURES)
    lm: str | None = option(None, "Language model (ARPA), for scores of words", metavar="FILE", group=FEATURES)

    def absolute(self) -> ResourceFiles:
        """Return the paths by which a process with another working folder opens them."""
        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        whole: dict[str, Any] = {
            name: os.path.abspath(path) if isinstance(path, str) else type(path)(map(os.path.abspath, path))
            for name, path in given.items()
        }
        return replace(self, **whole)
