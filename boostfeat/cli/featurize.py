"""The command that computes features offline."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import counted
from ..core.machine import seconds_since
from ..core.options import same
from ..core.overwriting import VOCAB
from ..core.text_table import laid_out, table, terminal_width
from ..features.options import ResourceFiles
from .carried import feature_maker, say_unused
from .common import AllowMissing, Force, Store, check_model, emit, say
from .flags import add
from .lists import group_table
from .outputs import check_kind

if TYPE_CHECKING:
    from ..features import FeaturePlan, Posterior
    from ..features.carried import FeatureMaker
    from ..lists.nbest import NBest


def register(app: typer.Typer) -> None:
    add(app, featurize)
    add(app, templates)


@dataclass(frozen=True)
class _Files(ResourceFiles):
    """All shown: this is the command that people look for them in."""

    phrase_table: str | None = same(ResourceFiles, "phrase_table", rare=False)
    bitext: tuple[str, str] | None = same(ResourceFiles, "bitext", rare=False)
    lm: str | None = same(ResourceFiles, "lm", rare=False)
    clusters_src: str | None = same(ResourceFiles, "clusters_src", rare=False)
    clusters_tgt: str | None = same(ResourceFiles, "clusters_tgt", rare=False)
    plugin: list[str] | None = same(ResourceFiles, "plugin", rare=False)


def featurize(
    store: Store,
    output: Annotated[str, typer.Option("-o", "--output", help="The store to write.", show_default=False)],
    templates: Annotated[
        str | None,
        typer.Option(
            "--templates",
            help="base, large, sparse, neighbours, consensus, words or names of templates, joined by + or commas; or FILE.toml. "
            "'boostfeat templates' lists them.",
        ),
    ] = None,
    vocab: Annotated[
        str | None,
        typer.Option("--vocab", help="What the dev list taught: gives this list the same columns. Without it, it is learnt."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="Model that consensus is under (default: the decoder's scores).")
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option("--scale", help="Of its scores in the softmax (default: the dev list's references choose it)."),
    ] = None,
    products: Annotated[
        str | None, typer.Option("--products", help="top:K adds the K best products of two dense features.")
    ] = None,
    min_count: Annotated[
        int | None, typer.Option("--min-count", min=1, help="Sentences that must have a sparse feature (default 2).")
    ] = None,
    hash_bits: Annotated[
        int, typer.Option("--hash", min=0, max=30, help="Hash each template's sparse names to 2^N; 0: keep them.")
    ] = 0,
    allow_missing: AllowMissing = False,
    force: Force = False,
    *,
    files: _Files,
    seed: int,
    threads: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Add features computed from what the list carries: phrases, alignments, spans, neighbours.

    On a dev list, what was learnt is written beside the output (OUT.vocab.json); give it with --vocab for select and test.

    \b
    Example:
      boostfeat featurize dev.nbest --templates large -o dev.large.nbest
      boostfeat featurize test.nbest --vocab dev.large.vocab.json \\
        -o test.large.nbest
      boostfeat featurize dev.nbest --templates large+consensus \\
        --model pro.json -o dev.cons.nbest
    """
    from ..boosting.first_gradient import first_gradient
    from ..core.errors import InputError
    from ..core.files import is_special, is_writable_target
    from ..features import feature_groups
    from ..features.vocab import parse_products
    from ..lists.store import read_store
    from ..model.model import Model

    started = time.monotonic()
    if output == "-":
        raise InputError("-o: expected a file name, found '-'; name a store to write")
    is_writable_target(output)
    learning = {
        "--products": products,
        "--min-count": min_count,
        "--hash": hash_bits or None,
        "--clusters-src": files.clusters_src,
        "--clusters-tgt": files.clusters_tgt,
        "--model": model,
        "--scale": scale,
    }
    with feature_maker(files, seed=seed, threads=threads, quiet=quiet) as maker:
        frozen = _frozen(vocab, learning) if vocab else None
        nbest = read_store(store)
        if frozen and templates:
            _check_repeated(templates, frozen, str(vocab), maker, nbest)
        if model:
            check_model(Model.load(model), nbest, store, allow_missing=allow_missing, quiet=quiet)
        vocab_out = None if frozen or is_special(output) else str(Path(output).with_suffix("")) + ".vocab.json"
        if frozen:
            say_unused(maker, frozen, quiet=quiet)
            out = maker.apply(nbest, frozen, to=output)
        else:
            if vocab_out:
                is_writable_target(vocab_out)
            if vocab_out and not force:
                check_kind(vocab_out, VOCAB)
            k = parse_products(products) if products else 0
            plan = maker.plan(templates or "large", min_count=min_count, hash_bits=hash_bits, products=k)
            say_unused(maker, plan, quiet=quiet)
            gradient = partial(first_gradient, seed=seed, threads=threads)

            def keep(learnt: FeaturePlan) -> None:  # as the store appears: both are there, or none
                if vocab_out:
                    learnt.save(vocab_out)

            posterior = _posterior(model, scale)
            out, _ = maker.learn(nbest, plan, posterior=posterior, gradient_of=gradient, to=output, keep=keep)
    seconds = seconds_since(started)
    groups = feature_groups(out)
    result: dict[str, Any] = {
        "unit_features": len(out.unit_names),
        "hypothesis_features": len(out.extra_names),
        "sparse_features": len(out.sparse_names),
        "distinct_units": out.n_units,
        "groups": [vars(g) for g in groups],
        "vocab": vocab or vocab_out,
        "output": output,
        "seconds": seconds,
    }
    emit(result, group_table(groups), as_json=as_json)
    say(
        f"{nbest.n_units:,} -> {counted(out.n_units, 'distinct unit')}, {len(out.global_names)} dense and "
        f"{len(out.sparse_names):,} "
        f"sparse features -> {output} in {seconds:.1f} s" + (f"; learnt: {vocab_out}" if vocab_out else ""),
        quiet=quiet,
    )


def _frozen(vocab: str, learning: dict[str, Any]) -> FeaturePlan:
    """The frozen vocab, which has all that the options of learning would say."""
    from ..core.errors import InputError
    from ..features import FeaturePlan

    for flag, value in learning.items():
        if value is not None:
            raise InputError(f"{flag}: expected none with --vocab, which fixes it, found {value!r}; leave one of them out")
    return FeaturePlan.load(vocab)


def _check_repeated(templates: str, frozen: FeaturePlan, vocab: str, maker: FeatureMaker, nbest: NBest) -> None:
    """--templates may repeat what the vocab holds: of a set, what the list allows."""
    from ..core.errors import InputError
    from ..features import FeaturePlan
    from ..features.registry import GIVEN

    registry, resources = maker.registry, maker.resources(nbest)

    def names(plan: FeaturePlan) -> set[str]:
        known = [e for e in plan.entries if e.name in registry and not set(registry[e.name].reads) & set(GIVEN)]
        taught = {e.name: None if registry[e.name].crossed else e.options for e in known}  # references are not needed again
        return {e.name for e in known if not (e.optional and registry[e.name].lacks(nbest, resources, taught[e.name]))}

    if names(FeaturePlan.of(templates, registry)) != names(frozen):
        has = ", ".join(e.name for e in frozen.entries) or "none"
        raise InputError(f"--templates {templates}: expected those of {vocab} ({has}), found others; leave it out")


def _posterior(model: str | None, scale: float | None) -> Posterior:
    """What consensus is under: of a model only what it computes, for the vocab to keep."""
    from math import isfinite

    from ..core.errors import InputError
    from ..features import Posterior
    from ..model.model import Model

    if scale is not None and not (isfinite(scale) and scale > 0):
        raise InputError(f"--scale: expected a number above 0, found {scale}")
    return Posterior(scale, replace(Model.load(model), config={}, history=()).to_json() if model else None)


def templates(*, as_json: bool) -> None:
    """List the feature templates: their sets, kind, and what a decoder must keep to compute them while it searches.

    \b
    Example:
      boostfeat templates
    """
    from ..features import SETS, TEMPLATES
    from ..features.registry import STATES

    found: list[dict[str, Any]] = [
        {
            "template": t.name,
            "sets": [name for name, members in SETS.items() if t.name in members],
            "kind": t.kind,
            "state": list(t.state),
            "reads": list(t.reads),
            "summary": t.summary,
        }
        for t in TEMPLATES.values()
    ]
    rows = [[t["template"], ", ".join(t["sets"]), t["kind"], ", ".join(t["state"]), t["summary"]] for t in found]
    text = table(rows, header=["template", "set", "kind", "state", "what"], right=())
    if (width := terminal_width()) and width < max(map(len, text.split("\n"))):
        kinds = ["; ".join(filter(None, (kind, sets, f"state: {state}" * bool(state)))) for _, sets, kind, state, _ in rows]
        text = laid_out([[row[0], f"{row[-1]} ({of})"] for row, of in zip(rows, kinds, strict=True)], width)
    text += "\n\n" + laid_out([["state", "a decoder must keep"], *([what, meaning] for what, meaning in STATES.items())], width)
    emit({"templates": found, "states": STATES}, text, as_json=as_json)
