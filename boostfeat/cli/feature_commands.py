"""Commands on features: featurize and templates."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..boosting.local import first_gradient
from ..core.errors import InputError, counted
from ..core.files import is_folder_name, is_special, is_writable_target, new_folder
from ..core.options import argument, option
from ..core.overwriting import PLAN
from ..features import SETS, TEMPLATES, FeaturePlan, Posterior, feature_groups
from ..features.feature_maker import FeatureMaker
from ..features.plan import parse_products
from ..features.registry import GIVEN, STATES
from ..features.resources import ResourceFiles
from ..lists.agreement import check_agreement
from ..lists.forks import in_forks
from ..lists.nbest import NBest
from ..lists.store import check_parts, ends_of, parts_of, read_store
from ..model.model import Model
from .checked_inputs import LIST, ListFlags, OutputFlags, check_model, feature_maker, refuse_unused
from .cluster_flags import ClusterFlags, cluster_of, refuse_cluster
from .console import FILES, Common, file, laid_out, model_file, output_file, terminal_width
from .list_commands import group_table
from .outputs import check_kind

TAUGHT = ("clusters_src", "clusters_tgt")  # files that a plan holds


@dataclass(frozen=True, kw_only=True)
class FeaturizeFlags(ListFlags, OutputFlags, ClusterFlags):
    """Flags of ``featurize``."""

    store: str = argument(*LIST)
    output: str = output_file("Store to write")
    templates: str | None = option(
        None,
        "base, large, sparse, neighbours, consensus, words or names of templates, joined by + or commas; or FILE.toml. "
        "'boostfeat templates' lists them",
        metavar="NAMES",
    )
    plan: str | None = file("Plan of the dev list, for the same columns; without it, the list makes its own")
    model: str | None = model_file("Model whose scores weigh consensus (default: the decoder's scores)", without="plan")
    scale: float | None = option(None, "Their scale in the softmax (default: chosen by the references)", above=0, without="plan")
    products: str | None = option(None, "Add the K best products of dense features", metavar="top:K", without="plan")
    min_count: int | None = option(None, "Minimum number of sentences with a sparse feature [2]", least=1, without="plan")
    hash_bits: int | None = option(
        None, "Hash sparse names of each template into 2^N (default: keep them)", least=1, most=30, flag="hash", without="plan"
    )
    allow_missing: bool = option(False, "Let features of the model that the list lacks count as 0", group=FILES, needs="model")
    files: ResourceFiles = field(default_factory=ResourceFiles)


def featurize(o: FeaturizeFlags) -> None:
    """Add features computed from what the list carries: phrases, alignments, spans, neighbours.

    On a dev list, what was learned is written beside the output (OUT.plan.json); give it with --plan for select and test.

    \b
    Example:
      boostfeat featurize dev.nbest --templates large -o dev.large.nbest
      boostfeat featurize test.nbest --plan dev.large.plan.json \\
        -o test.large.nbest
      boostfeat featurize dev.nbest --templates large+consensus \\
        --model pro.json -o dev.cons.nbest
    """
    if o.output == "-":
        raise InputError("-o: expected a file name, found '-'; name a store to write")
    if is_folder_name(o.output):
        _featurize_parts(o)
        return
    refuse_cluster(o, o.output)
    with feature_maker(o, o.files, seed=o.seed, threads=o.threads) as maker:
        frozen = _frozen(o) if o.plan else None
        nbest = read_store(o.store)
        if frozen and o.templates:
            _check_repeated(o.templates, frozen, str(o.plan), maker, nbest)
        if o.model:
            check_model(o, Model.load(o.model), nbest, o.store)
        plan = None if frozen or is_special(o.output) else str(Path(o.output).with_suffix("")) + ".plan.json"
        if frozen:
            refuse_unused(maker, frozen)
            out = maker.apply(nbest, frozen, to=o.output)
        else:
            out = _learn(o, nbest, maker, plan)
    groups = feature_groups(out)
    result: dict[str, Any] = {
        "unit_features": len(out.unit_names),
        "hypothesis_features": len(out.extra_names),
        "sparse_features": len(out.sparse_names),
        "distinct_units": out.n_units,
        "groups": [vars(g) for g in groups],
        "plan": o.plan or plan,
        "output": o.output,
        "seconds": o.seconds,
    }
    o.emit(result, group_table(groups))
    o.say(
        f"{nbest.n_units:,} -> {counted(out.n_units, 'distinct unit')}, {len(out.global_names)} dense and "
        f"{len(out.sparse_names):,} sparse features -> {o.output} in {o.seconds:.1f} s" + (f"; learned: {plan}" if plan else "")
    )


def _featurize_parts(o: FeaturizeFlags) -> None:
    """Compute the features of a plan on the parts of a list, side by side."""
    files = parts_of(o.store)
    if not files or not o.plan or o.templates:
        raise InputError(f"-o {o.output}: parts are made one by one from those of a folder, with --plan FILE and no --templates")
    _frozen(o)
    with cluster_of(o) as cluster, new_folder(o.output) as place:
        if cluster is None:
            told = in_forks(partial(_featurize_part, o.files, o.seed, o.plan, place), files, o.threads)
        else:
            task = partial(_featurize_part, o.files.absolute(), o.seed, os.path.abspath(o.plan), place)
            told = cluster.side_by_side(task, [file.absolute() for file in files])
        heads = [head for _, head, _ in told]
        check_parts(files, heads)
        lines = [line for _, _, said in told for line in said]
        lines += check_agreement(dict(zip(map(str, files), heads, strict=True)), allow_missing=True)
        for line in dict.fromkeys(lines):
            o.say(line)
    n_hyps = sum(n for n, _, _ in told)
    o.finish(f"{counted(len(told), 'part')}, {counted(n_hyps, 'hypothesis')}", o.output, parts=len(told), hypotheses=n_hyps)


def _featurize_part(files: ResourceFiles, seed: int, plan_file: str, place: Path, part: Path) -> tuple[int, NBest, list[str]]:
    """Write a part with the features of a plan; return its hypotheses, its ends, and what is to be said."""
    said: list[str] = []
    maker, plan = FeatureMaker(files, seed=seed, say=said.append), FeaturePlan.load(plan_file)
    refuse_unused(maker, plan)
    out = maker.apply(read_store(part), plan, to=place / part.name, where=part.name)
    return out.n_hyps, ends_of(out), said


def _learn(o: FeaturizeFlags, nbest: NBest, maker: FeatureMaker, plan_file: str | None) -> NBest:
    """Return the list with features that it teaches itself; what it taught is written to ``plan_file``."""
    if plan_file:
        is_writable_target(plan_file)
        if not o.force:
            check_kind(plan_file, PLAN)
    k = parse_products(o.products) if o.products else 0
    plan = maker.plan(o.templates or "large", min_count=o.min_count, hash_bits=o.hash_bits or 0, products=k)
    refuse_unused(maker, plan)
    gradient = partial(first_gradient, seed=o.seed, threads=o.threads)

    def keep(learnt: FeaturePlan) -> None:  # as the store appears: both are there, or none
        if plan_file:
            learnt.save(plan_file)

    # of a model only what it computes, for the plan to keep
    model = replace(Model.load(o.model), config={}, history=()).to_json() if o.model else None
    return maker.learn(nbest, plan, posterior=Posterior(o.scale, model), gradient_of=gradient, to=o.output, keep=keep)[0]


def _frozen(o: FeaturizeFlags) -> FeaturePlan:
    """Return the frozen plan, which has the clusters that it was learned with."""
    for name in (name for name in TAUGHT if getattr(o.files, name)):
        raise InputError(f"--set {name.replace('_', '-')}: --plan holds them; leave one of them out")
    return FeaturePlan.load(str(o.plan))


def _check_repeated(templates: str, frozen: FeaturePlan, plan_file: str, maker: FeatureMaker, nbest: NBest) -> None:
    """--templates may repeat what the plan holds: of a set, what the list allows."""
    registry, resources = maker.registry, maker.resources(nbest)

    def names(plan: FeaturePlan) -> set[str]:
        found = [e for e in plan.entries if e.name in registry and not set(registry[e.name].reads) & set(GIVEN)]
        known = [e for e in found if not registry[e.name].bitext_teaches]  # sets have these with a bitext only
        taught = {e.name: None if registry[e.name].crossed else e.options for e in known}  # references are not needed again
        return {e.name for e in known if not (e.optional and registry[e.name].lacks(nbest, resources, taught[e.name]))}

    if names(FeaturePlan.of(templates, registry)) != names(frozen):
        has = ", ".join(e.name for e in frozen.entries) or "none"
        raise InputError(f"--templates {templates}: expected those of {plan_file} ({has}), found others; leave it out")


def templates(o: Common) -> None:
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
    about = [(t["summary"], t["kind"], ", ".join(t["sets"]), "state: " * bool(t["state"]) + ", ".join(t["state"])) for t in found]
    lines = [[t["template"], f"{what} ({'; '.join(filter(None, more))})"] for t, (what, *more) in zip(found, about, strict=True)]
    states = [["state", "a decoder must keep"], *([what, meaning] for what, meaning in STATES.items())]
    text = "\n\n".join(laid_out(rows, terminal_width()) for rows in (lines, states))
    o.emit({"templates": found, "states": STATES}, text)
