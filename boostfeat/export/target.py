"""Exporters: its options, what it may look at, and what verification finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path

from ..core.errors import counted
from ..core.options import option
from ..features import FeaturePlan, Template
from ..features.feature_maker import FeatureMaker
from ..features.plan import product_name
from ..features.resources import ResourceFiles
from ..lists.nbest import NBest
from ..model.model import Model

FOR_DECODER = "'induce --for-decoder' learns a model without that"


@dataclass(frozen=True)
class ExportOptions:
    """Options of the command line; each exporter names those it uses, and the others are errors for it."""

    prefix: str | None = option(None, "c, moses: prefix of all C names [boostfeat]")
    static: tuple[str, ...] = option((), "moses: features to treat as static (of the phrase pair alone)")
    phrase_table: str | None = option(None, "moses: phrase table to extend", metavar="FILE")
    ini: str | None = option(None, "moses: moses.ini to rewrite", metavar="FILE")
    columns: str | None = option(None, "moses: a column for each tree (trees), or one for all (sum)")
    binary: str | None = option(None, "moses: also write a binary table, compact or probing, by Moses' own tool")
    hidden: bool = option(False, "moses: leave the new scores out of n-best lists, so that no tuner changes them")
    plan: str | None = option(None, "moses: plan that featurize wrote", metavar="FILE")
    plugin: tuple[str, ...] = option((), "c, python: file with your templates that the model uses, which is run", metavar="FILE")

    def given(self) -> list[str]:
        """The options that are not at their default."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]


@dataclass(frozen=True)
class Context:
    """The list, options and plan that an exporter may look at beside the model."""

    nbest: NBest | None = None  # the list of --verify or --list
    options: ExportOptions = field(default_factory=ExportOptions)
    plan: FeaturePlan | None = None  # of the model's features, if it carries one
    target: Path | None = None  # where the main file will be once verified; None for a stream
    on_progress: Callable[[float, float | None, str], None] = lambda done, total, note: None
    warn: Callable[[str], None] = lambda line: None  # gets what the user has to do besides
    tell: Callable[[str], None] = lambda line: None  # gets what of the model the export has, and what not
    force: bool = False  # files beside the main one may replace those of others

    @property
    def rows(self) -> NBest:
        """The list, for verification: it is there."""
        if self.nbest is None:
            raise ValueError("nbest: expected a list to verify on, found none")
        return self.nbest

    @cached_property
    def made_by(self) -> dict[str, str]:
        """Templates, by the names of the features that they make; products are of none."""
        entries = self.plan.entries if self.plan else ()
        products = dict.fromkeys(map(product_name, (self.plan and self.plan.products) or ()), "products")
        return products | {name: entry.name for entry in entries for name in entry.features or ()}

    @cached_property
    def registry(self) -> Mapping[str, Template]:
        """The templates of the program and of the user's files."""
        return FeatureMaker(ResourceFiles(plugin=list(self.options.plugin))).registry


@dataclass(frozen=True)
class Check:
    """The result of verification: the largest difference between the export's numbers and this library's."""

    rows: int
    what: str  # the rows are: "distinct units", "hypotheses", "entries"
    difference: float
    tolerance: float = 1e-6
    note: str = ""
    near: int = 0  # rows so near to a threshold that the list's rounding may have put them on this side of it

    @property
    def passed(self) -> bool:
        return self.difference <= self.tolerance  # False for NaN


@dataclass(frozen=True)
class Exporter:
    """A target. ``write`` puts files at or beside ``out`` and returns them, the main one first; ``verify`` reads them back."""

    write: Callable[[Model, Path, Context], list[Path]]
    verify: Callable[[Model, list[Path], Context], Check]
    carries: Callable[[Model, Context], str]  # says what of the model the files have
    uses: tuple[str, ...] = ()  # the fields of ExportOptions that mean something here
    needs_list: bool = False
    folder: bool = False  # out is a folder
    whole: bool = False  # it has how the model decides, too, not only its scores


def whole_model(model: Model, plan: FeaturePlan | None) -> str:
    """Say what a target has that computes the templates of this plan and has all else of a model."""
    n_weights, n_templates = sum(1 for weight in model.weights.values() if weight), len(plan.entries) if plan else 0
    parts = ((n_weights, "weight"), (len(model.trees), "tree"), (n_templates, "template"))
    return f"has all of the model ({', '.join(counted(n, what) for n, what in parts)})"


def filled(template: str, parts: Mapping[str, object], prefix: str = "$") -> str:
    """Return the text of a file of this package with its @NAMES@ replaced; then, in C, $ by a prefix and $$ by its capitals.

    Names from outside have their $ escaped.
    """
    text = re.sub("@([A-Z_]+)@", lambda m: str(parts[m[1]]), (Path(__file__).parent / template).read_text())
    return text if prefix == "$" else text.replace("$$", prefix.upper()).replace("$", prefix)
