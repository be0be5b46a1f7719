"""Features of a model in commands: learnt with it, kept in its file, computed wherever it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..features.options import ResourceFiles, TemplateFiles
from .common import LEARNING, progress, say

if TYPE_CHECKING:
    from ..features import FeaturePlan
    from ..features.carried import FeatureMaker
    from ..lists.nbest import NBest
    from ..model.model import Model

Templates = Annotated[
    str | None,
    typer.Option(
        "--templates",
        metavar="NAMES",
        help="Sets or templates, or FILE.toml; the model keeps them",
        rich_help_panel=LEARNING,
    ),
]
CARRYING = "a model that carries templates"


@contextlib.contextmanager
def feature_maker(files: ResourceFiles, *, quiet: bool, **how: Any) -> Iterator[FeatureMaker]:
    """Computes templates with the files that were given, beside a progress bar; ``how`` are seed and threads."""
    from ..features.carried import FeatureMaker

    with progress("featurizing", quiet=quiet) as bar:
        yield FeatureMaker(
            files, **how, report=lambda name, k, n: bar.update(k, n, name), say=lambda line: say(line, quiet=quiet)
        )


def decoder_maker(files: TemplateFiles, phrase_table: str | None, *, seed: int, threads: int, quiet: bool) -> FeatureMaker:
    """Computes templates where a decoder's phrase table is at hand."""
    from ..features.carried import FeatureMaker

    given = {f.name: getattr(files, f.name) for f in fields(files)}
    every = ResourceFiles(**given, phrase_table=phrase_table)
    return FeatureMaker(every, seed=seed, threads=threads, say=lambda line: say(line, quiet=quiet))


def learn_features(
    dev: NBest,
    select: NBest | None,
    templates: str | None,
    start: Model | None,
    files: ResourceFiles,
    *,
    gain: str,
    seed: int,
    threads: int,
    quiet: bool,
) -> tuple[NBest, NBest | None, FeaturePlan | None]:
    """Both lists with the features of templates, which dev teaches, or of the model to start from; and their plan."""
    from functools import partial

    from ..boosting.first_gradient import first_gradient
    from ..core.errors import InputError
    from ..features.carried import carried

    plan = carried(start) if start is not None else None
    wanted = None if templates in (None, "none") else templates
    if wanted is None and plan is None:
        refuse_files(files, "--templates that use it")
        return dev, select, None
    if wanted is not None and plan is not None:
        raise InputError(f"--templates {wanted}: expected none with an --init that carries its own, found both; leave one out")
    with feature_maker(files, seed=seed, threads=threads, quiet=quiet) as maker:
        if plan is not None and start is not None:
            say_unused(maker, plan, quiet=quiet)
            if name := maker.taught(plan):
                say(
                    f"warning: references taught {name!r} of --init: by it, the list that they are of looks too good", quiet=quiet
                )
            return maker.for_model(dev, start), None if select is None else maker.for_model(select, start), plan
        gradient = partial(first_gradient, gain=gain, seed=seed, threads=threads)
        plan = maker.plan(str(wanted))
        say_unused(maker, plan, quiet=quiet)
        dev, plan = maker.learn(dev, plan, gradient_of=gradient)
        return dev, None if select is None else maker.apply(select, plan), plan


def with_features(nbest: NBest, model: Model, files: ResourceFiles, *, where: str, quiet: bool) -> NBest:
    """The list with the features that a model carries."""
    from ..features.carried import carried

    plan = carried(model)
    if plan is None:
        refuse_files(files, CARRYING)
        return nbest
    with feature_maker(files, quiet=quiet) as maker:
        say_unused(maker, plan, quiet=quiet)
        return maker.for_model(nbest, model, where=where)


def say_unused(maker: FeatureMaker, plan: FeaturePlan, *, quiet: bool) -> None:
    """Say which of the files that were given change nothing."""
    for flag in maker.unused(plan):
        say(f"warning: {flag} is not used: none of the templates reads it", quiet=quiet)


def refuse_files(files: TemplateFiles, expected: str) -> None:
    """Raise for a file that nothing would read."""
    from ..core.errors import InputError

    if given := next((f.name for f in fields(files) if getattr(files, f.name)), None):
        raise InputError(f"--{given.replace('_', '-')}: expected {expected}, found none; leave it out")
