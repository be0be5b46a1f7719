"""Commands on features: featurize computes them offline, templates lists them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..boosting.first_gradient import first_gradient
from ..core.errors import InputError, counted
from ..core.files import is_special, is_writable_target
from ..core.options import REQUIRED, argument, option
from ..core.overwriting import VOCAB
from ..features import SETS, TEMPLATES, FeaturePlan, Posterior, feature_groups
from ..features.feature_maker import FeatureMaker
from ..features.options import ResourceFiles
from ..features.plan import parse_products
from ..features.registry import GIVEN, STATES
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..model.model import Model
from .console import FILES, Common, laid_out, table, terminal_width
from .inputs import LIST, ListFlags, OutputFlags, check_model, feature_maker, refuse_unused
from .lists import group_table
from .outputs import check_kind

TAUGHT = ("clusters_src", "clusters_tgt")  # files that a vocab holds


@dataclass(frozen=True, kw_only=True)
class Featurize(ListFlags, OutputFlags):
    """Flags of ``featurize``."""

    store: str = argument(*LIST)
    output: str = option(REQUIRED, "The store to write", short="o", metavar="FILE", group=FILES)
    templates: str | None = option(
        None,
        "base, large, sparse, neighbours, consensus, words or names of templates, joined by + or commas; or FILE.toml. "
        "'boostfeat templates' lists them",
        metavar="NAMES",
    )
    vocab: str | None = option(
        None, "What the dev list taught: gives this list the same columns. Without it, it is learnt", metavar="FILE", group=FILES
    )
    model: str | None = option(
        None,
        "Model that consensus is under (default: the decoder's scores)",
        short="m",
        metavar="MODEL",
        group=FILES,
        without="vocab",
    )
    scale: float | None = option(
        None, "Of its scores in the softmax (default: the dev list's references choose it)", above=0, without="vocab"
    )
    products: str | None = option(None, "top:K adds the K best products of dense features", metavar="top:K", without="vocab")
    min_count: int | None = option(None, "Sentences that must have a sparse feature (default 2)", least=1, without="vocab")
    hash_bits: int | None = option(
        None, "Hash each template's sparse names to 2^N (default: keep them)", least=1, most=30, flag="hash", without="vocab"
    )
    allow_missing: bool = option(False, "Features of the model that the list lacks count as 0", group=FILES, needs="model")
    files: ResourceFiles = field(default_factory=ResourceFiles)


def featurize(o: Featurize) -> None:
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
    if o.output == "-":
        raise InputError("-o: expected a file name, found '-'; name a store to write")
    is_writable_target(o.output)
    with feature_maker(o, o.files, seed=o.seed, threads=o.threads) as maker:
        frozen = _frozen(o) if o.vocab else None
        nbest = read_store(o.store)
        if frozen and o.templates:
            _check_repeated(o.templates, frozen, str(o.vocab), maker, nbest)
        if o.model:
            check_model(o, Model.load(o.model), nbest, o.store)
        vocab = None if frozen or is_special(o.output) else str(Path(o.output).with_suffix("")) + ".vocab.json"
        if frozen:
            refuse_unused(maker, frozen)
            out = maker.apply(nbest, frozen, to=o.output)
        else:
            out = _learn(o, nbest, maker, vocab)
    groups = feature_groups(out)
    result: dict[str, Any] = {
        "unit_features": len(out.unit_names),
        "hypothesis_features": len(out.extra_names),
        "sparse_features": len(out.sparse_names),
        "distinct_units": out.n_units,
        "groups": [vars(g) for g in groups],
        "vocab": o.vocab or vocab,
        "output": o.output,
        "seconds": o.seconds,
    }
    o.emit(result, group_table(groups))
    o.say(
        f"{nbest.n_units:,} -> {counted(out.n_units, 'distinct unit')}, {len(out.global_names)} dense and "
        f"{len(out.sparse_names):,} "
        f"sparse features -> {o.output} in {o.seconds:.1f} s" + (f"; learnt: {vocab}" if vocab else "")
    )


def _learn(o: Featurize, nbest: NBest, maker: FeatureMaker, vocab: str | None) -> NBest:
    """Return the list with features that it teaches itself; what it taught is written to ``vocab``."""
    if vocab:
        is_writable_target(vocab)
        if not o.force:
            check_kind(vocab, VOCAB)
    k = parse_products(o.products) if o.products else 0
    plan = maker.plan(o.templates or "large", min_count=o.min_count, hash_bits=o.hash_bits or 0, products=k)
    refuse_unused(maker, plan)
    gradient = partial(first_gradient, seed=o.seed, threads=o.threads)

    def keep(learnt: FeaturePlan) -> None:  # as the store appears: both are there, or none
        if vocab:
            learnt.save(vocab)

    # of a model only what it computes, for the vocab to keep
    model = replace(Model.load(o.model), config={}, history=()).to_json() if o.model else None
    return maker.learn(nbest, plan, posterior=Posterior(o.scale, model), gradient_of=gradient, to=o.output, keep=keep)[0]


def _frozen(o: Featurize) -> FeaturePlan:
    """Return the frozen vocab, which has the clusters that it was learnt with."""
    for name in (name for name in TAUGHT if getattr(o.files, name)):
        raise InputError(f"--set {name.replace('_', '-')}: --vocab holds them; leave one of them out")
    return FeaturePlan.load(str(o.vocab))


def _check_repeated(templates: str, frozen: FeaturePlan, vocab: str, maker: FeatureMaker, nbest: NBest) -> None:
    """--templates may repeat what the vocab holds: of a set, what the list allows."""
    registry, resources = maker.registry, maker.resources(nbest)

    def names(plan: FeaturePlan) -> set[str]:
        known = [e for e in plan.entries if e.name in registry and not set(registry[e.name].reads) & set(GIVEN)]
        taught = {e.name: None if registry[e.name].crossed else e.options for e in known}  # references are not needed again
        return {e.name for e in known if not (e.optional and registry[e.name].lacks(nbest, resources, taught[e.name]))}

    if names(FeaturePlan.of(templates, registry)) != names(frozen):
        has = ", ".join(e.name for e in frozen.entries) or "none"
        raise InputError(f"--templates {templates}: expected those of {vocab} ({has}), found others; leave it out")


@dataclass(frozen=True, kw_only=True)
class Templates(Common):
    """Flags of ``templates``."""


def templates(o: Templates) -> None:
    """List the feature templates: their sets, kind, and what a decoder must keep to compute them while it searches.

    \b
    Example:
      boostfeat templates
    """
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
    o.emit({"templates": found, "states": STATES}, text)
