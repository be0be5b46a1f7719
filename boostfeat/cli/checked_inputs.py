"""Lists and models that commands read, checked against each other; features of a model, kept in its file and computed here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import InputError
from ..core.options import option, options_of
from ..features import FeaturePlan
from ..features.feature_maker import FeatureMaker, plan_of
from ..features.resources import ResourceFiles, TemplateFiles
from ..formats import left_out
from ..lists.agreement import check_agreement, lacking, shared_sentences, shown
from ..lists.nbest import NBest
from ..model.decision import ways_to_decide
from ..model.model import Model
from .console import FILES, Common

LIST = "LIST.nbest", "List imported with 'boostfeat import'"
CARRYING = "a model that carries templates"
FEATURIZE = "featurize it as the list that the model learned from (--plan)"


@dataclass(frozen=True, kw_only=True)
class OutputFlags(Common):
    """Flags of commands that write a file."""

    force: bool = option(False, "Replace an existing file that is of another kind", group=FILES)


@dataclass(frozen=True, kw_only=True)
class ListFlags(Common):
    """Flags of commands that use lists together."""

    allow_missing: bool = option(False, "Let features of the model that are missing here count as 0", group=FILES)


@dataclass(frozen=True, kw_only=True)
class ModelFlags(ListFlags):
    """Flags of commands that apply a model to a list."""

    allow_edited: bool = option(False, "Accept a model that was edited", group=FILES, needs=("model", "init", "weights"))
    files: ResourceFiles = field(default_factory=ResourceFiles)


def check_lists(o: ListFlags, lists: Mapping[str, NBest | None]) -> None:
    """Raise where lists that are used together do not go together; say what else differs, and what sentences they share."""
    given = {name: nbest for name, nbest in lists.items() if nbest is not None}
    for line in (*check_agreement(given, allow_missing=o.allow_missing), *shared_sentences(given)):
        o.warn(str(line))


def say_scores_alone(o: Common, model: Model, what: str) -> None:
    """Warn where more than scores decides in a model, and scores are all that ``what`` has."""
    if ways := ways_to_decide(model.config):
        o.warn(f"{ways} in this model: {what} has its scores, and not that choice")


def check_model(o: ListFlags, model: Model, nbest: NBest, path: str, *, made: Set[str] = frozenset()) -> None:
    """Raise where a list lacks features that the model needs; say so where they are sparse, or a person wants it.

    ``made`` are those that are computed where it lacks them.
    """
    missing = model.missing_features(nbest, made)
    check_missing(o, os.path.basename(path), missing, lacking(missing, nbest, seen=made))


def check_missing(o: ListFlags, who: str, missing: Sequence[str], wrong: Sequence[str], *, fix: str = FEATURIZE) -> None:
    """Raise where a list or graph lacks features that it should have; else say what it lacks."""
    if wrong and not o.allow_missing:
        raise InputError(
            f"{who}: expected the features of the model, found none of {shown(wrong)}; {fix}, or give "
            "--allow-missing: they count as 0 then"
        )
    if missing:
        o.say(f"{who} lacks features of the model, which count as 0: {shown(missing)}")


@contextlib.contextmanager
def feature_maker(o: Common, files: ResourceFiles, **how: Any) -> Iterator[FeatureMaker]:
    """Compute templates with the files that were given, beside a progress bar; ``how`` are seed and threads."""
    with o.progress("featurizing") as bar:
        yield FeatureMaker(files, **how, report=lambda name, k, n: bar.update(k, n, name), say=o.say)


def decoder_maker(o: Common, files: TemplateFiles, phrase_table: str | None) -> FeatureMaker:
    """Return what computes templates where a decoder's phrase table is at hand."""
    return FeatureMaker(ResourceFiles(**vars(files), phrase_table=phrase_table), seed=o.seed, threads=o.threads, say=o.say)


def with_features(o: Common, nbest: NBest, model: Model, files: ResourceFiles, *, where: str, must_read: bool = True) -> NBest:
    """Return the list with the features that a model carries. A file that none of them reads is refused (``must_read``)."""
    with feature_maker(o, files) as maker:
        if must_read:
            refuse_unused(maker, plan_of(model))
        return maker.for_model(nbest, model, where=where)


def refuse_unused(maker: FeatureMaker, plan: FeaturePlan | None, *, teaches: bool = False) -> None:
    """Raise for a file that none of the templates reads, if there are any, and that did not teach the plan (``teaches``)."""
    if plan is None:
        refuse_files(maker.files, CARRYING)
    for flag in maker.unused(plan, teaches=teaches) if plan else ():
        raise InputError(f"{flag}: none of the templates reads it; leave it out")


def refuse_files(files: TemplateFiles, expected: str) -> None:
    """Raise for a file that nothing would read."""
    kind: Any = type(files)
    for file in options_of(kind):
        if getattr(files, file.field):
            raise InputError(f"{file.typed_name} does nothing without {expected}; leave it out")


def say_unwritten(o: Common, nbest: NBest, format: str) -> None:
    """Warn of what a format has no place for."""
    if nbest.quality.names and format != "jsonl":
        columns = ", ".join(nbest.quality.names)
        o.warn(f"quality columns are not written ({columns}): {format} has no place for them, jsonl has")
    if nbest.tokenizer != "none" and format != "jsonl":
        o.warn(f"import the list again with --tokenize {nbest.tokenizer}: {format} does not say so")
    if missing := left_out(nbest, format=format):
        o.say(f"--format {format} has no place for: {', '.join(missing)}")
