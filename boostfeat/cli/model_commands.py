"""Commands on models: augment, show, export."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ..boosting.selection.waterfall import lines as waterfall_lines
from ..core.errors import InputError, counted
from ..core.options import REQUIRED, argument, option, same
from ..export import Check, Context, ExportOptions, exporter
from ..export import export as write_export
from ..features.feature_maker import plan_of
from ..features.resources import ResourceFiles
from ..lists.store import read_store, write_store
from ..model.describe import describe
from ..model.model import Model
from ..model.tree_columns import augment as add_trees
from ..model.tree_columns import leaf_names
from .checked_inputs import LIST, ListFlags, ModelFlags, OutputFlags, check_model, refuse_files, with_features
from .console import FILES, file, model_file, output_file, table


@dataclass(frozen=True, kw_only=True)
class AugmentFlags(ModelFlags, OutputFlags):
    """Flags of ``augment``."""

    store: str = argument(*LIST)
    model: str = model_file("Model with trees", default=REQUIRED)
    output: str = output_file("Store to write")
    each_leaf: bool = option(False, "Write a feature for every leaf instead of every tree")


def augment(o: AugmentFlags) -> None:
    """Write a list with a model's trees as named features, which any tuner can weigh.

    \b
    Example:
      boostfeat augment dev.nbest -m model.json -o dev+trees.nbest
      boostfeat tune dev+trees.nbest --method pro --init model.json \\
        -o retuned.json
    """
    loaded = Model.load(o.model)
    nbest = with_features(o, read_store(o.store), loaded, o.files, where=o.store)
    check_model(o, replace(loaded, weights={}), nbest, o.store)  # its trees are applied
    if not loaded.trees:
        o.warn(f"{o.model} has no trees: the list gets no features")
    nbest = add_trees(nbest, loaded, leaves=o.each_leaf)
    write_store(nbest, o.output)
    names = list(leaf_names(loaded)) if o.each_leaf else [tree.name for tree in loaded.trees]
    o.finish(f"{counted(len(names), 'leaf' if o.each_leaf else 'tree')} as features", o.output, features=names)


@dataclass(frozen=True, kw_only=True)
class ShowFlags(ModelFlags):
    """Flags of ``show``."""

    model: str = argument("MODEL.json", "Model file")
    on: str | None = file("List to count leaves and effects on; default: the training lists", "LIST")
    top: int = option(20, "Maximum sparse features to show, by effect (by weight without --on)", least=0)
    trees: int = option(25, "Maximum trees to show, by effect; 0: all", least=0)


def show(o: ShowFlags) -> None:
    """Print a model as a person reads it: features by effect, what its parts are worth, trees as rules, how often leaves fire.

    The effect of a feature or tree is the standard deviation within lists of what it adds to the score.

    \b
    Example:
      boostfeat show model.json
    """
    loaded = Model.load(o.model)
    nbest = None
    if o.on:
        nbest = with_features(o, read_store(o.on), loaded, o.files, where=o.on)
        check_model(o, loaded, nbest, o.on)
    else:
        refuse_files(o.files, "--on LIST")
    what = describe(loaded, nbest)
    o.emit(what, described_text(what, top=o.top, most_trees=o.trees))


def described_text(what: dict[str, Any], *, top: int, most_trees: int) -> str:
    """Return a description for a terminal, with ``top`` sparse weights and so many trees of the largest effect (0: all)."""
    lines = [what["signature"], *([what["decides"]] if what["decides"] else []), ""]
    many = [f for f in what["features"] if f["weight"] and (f["sparse"] or f["effect"] is None)]
    few = [f for f in what["features"] if (f["effect"] is not None and not f["sparse"]) or f["weight"] is None]
    rows = [[f["name"], _short(f["weight"]), _short(f["total_effect"])] for f in few]
    rows += [[f["name"], _short(f["weight"]), _short(f["effect"] and f["total_effect"])] for f in many[:top]]
    has_effects = any(row[2] for row in rows)  # a tuner's model has none before it is seen on a list
    header = ["feature", "weight", "total effect"][: 2 + has_effects]
    lines.append(table([row[: len(header)] for row in rows], header=header))
    if len(many) > top:
        lines.append(f"... and {len(many) - top} more (--top N)")
    if what.get("waterfall"):
        about = what["waterfall"]
        lines += ["", table(waterfall_lines(what), header=[f"{about['metric']} by {about['by']}", "score", "gain"])]
    largest = sorted(what["trees"], key=lambda tree: -(tree["effect"] or 0.0))[: most_trees or None]
    for tree in (tree for tree in what["trees"] if any(tree is one for one in largest)):
        effect = f"  (effect {_short(tree['effect'])})" if tree["effect"] is not None else ""
        lines += ["", f"{tree['name']}{effect}", *("  " + line for line in tree["rules"].split("\n"))]
    if len(largest) < len(what["trees"]):
        lines += ["", f"... and {len(what['trees']) - len(largest)} trees of smaller effect (--trees 0 shows all)"]
    return "\n".join(lines)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


@dataclass(frozen=True, kw_only=True)
class ExportFlags(OutputFlags, ListFlags):
    """Flags of ``export``."""

    model: str = argument("MODEL.json", "Model file")
    to: str = option(REQUIRED, "Target: c, moses, json, onnx, treelite, python, cdec or nbest", group=FILES)
    output: str = output_file("File to write; a folder for moses")
    verify: str | None = file("List to score both ways; must give equal scores", "LIST")
    of_list: str | None = file("nbest: list to write; others: list that declares kinds of features", "LIST", flag="list")
    no_verify: bool = option(False, "Do not score the list both ways", group=FILES, needs="list", without="verify")
    allow_missing: bool = same(ListFlags, "allow_missing", needs=("verify", "list"))
    allow_edited: bool = same(ModelFlags, "allow_edited", needs=())
    options: ExportOptions = field(default_factory=ExportOptions)


def export(o: ExportFlags) -> None:
    """Write a model for other programs, and check that it scores the same there.

    With a list, every distinct unit is scored both ways; the largest difference is printed, relative for scores beyond 1. Above
    1e-6 it is an error and nothing is left.

    \b
    Example:
      boostfeat export model.json --to c -o model.h --verify test.nbest
      boostfeat export model.json --to moses --phrase-table phrase-table.gz \\
        --ini moses.ini -o moses/ --verify test.nbest
    """
    exporter(o.to)  # an unknown target is an error before anything is read
    if o.verify and o.of_list and o.verify != o.of_list:
        raise InputError("--list: expected the list of --verify or none, found another; give one of them")
    loaded = Model.load(o.model)
    name = o.verify or o.of_list
    nbest = read_store(name) if name else None
    if nbest is not None and name:
        files = ResourceFiles(phrase_table=o.options.phrase_table if loaded.plan else None)
        nbest = with_features(o, nbest, loaded, files, where=name, must_read=False)  # the target reads the table, too
        check_model(o, loaded, nbest, name)
    with o.progress(f"export to {o.to}") as bar:
        talk: dict[str, Any] = {"on_progress": bar.update, "warn": o.warn, "tell": o.say}
        context = Context(nbest, o.options, plan_of(loaded), **talk, force=o.force)
        files_written, check = write_export(loaded, o.to, o.output, context, verify=not o.no_verify)
    if o.output == "-":
        o.say(_verified(check))
        return
    result = {"target": o.to, "files": files_written, "signature": loaded.signature, "verified": vars(check) if check else None}
    o.emit(result, "\n".join([*files_written, _verified(check)]))
    o.say_written(f"{loaded.signature.partition('|sha')[0]} for {o.to}", o.output)


def _verified(check: Check | None) -> str:
    if check is None:
        return "not verified (--verify LIST.nbest does)"
    near = f"{check.near:,} of them as near to a threshold as the list's rounding"
    notes = "".join(f"\n  {note}" for note in (near, *check.note.split("; ")) if note)
    return f"verified on {check.rows:,} {check.what}: largest difference {check.difference:.3g}{notes}"
