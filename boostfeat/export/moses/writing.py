"""Moses: a phrase table with the trees in it for a stock decoder, or the source of a feature function.

A table holds functions of the phrase pair only, so it takes trees over static features. Trees that look at language model or
reordering scores, or at a phrase's place, become a feature function that Moses is built with. A model that only weighs features
that Moses has is an ini.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

import numpy as np

from ...core.arrays import F64
from ...core.errors import InputError, unknown_name
from ...features import FeaturePlan
from ...formats.moses.ini import MEMORY, Ini, weight_line
from ...formats.moses.labels import component
from ...formats.moses.phrase_table import count_scores
from ...formats.moses.weights import weight_lines
from ...model.model import Model, tree_scores
from ...trees.tree import Table
from .. import Context
from ..c import PREFIX
from ..kinds import Known, not_static, tested_features
from .columns import Columns, EntryFeatures, Leaves, Scores, Value, augment_table
from .feature_function import class_name, sources
from .weights import MosesWeights

COLUMNS = ("trees", "sum", "leaves")
TABLE, WEIGHTS, README = "phrase-table.gz", "weights.sparse", "README.txt"
FAST = 1  # of gzip's levels: most of the time goes into compression, and scores of ten digits hardly shrink


def write(model: Model, out: Path, context: Context) -> list[Path]:
    if model.level == "global" and model.trees:
        raise InputError(
            "--to moses: expected trees over phrases, found a model of level global, whose trees see whole hypotheses; "
            "learn with --level local, or rerank Moses' lists"
        )
    for tree in model.trees:
        if not re.fullmatch(r"[^\s|=]+", tree.name):
            raise InputError(
                f"--to moses: tree {tree.name!r}: expected a name without blanks, '|' and '='; rename it in the model"
            )
    table, columns = context.options.phrase_table, context.options.columns
    if columns and not table:
        raise InputError("--columns: expected --phrase-table FILE with it, found none; give the table to augment")
    if is_plain(model, context):
        if table:
            raise InputError(
                "--phrase-table: expected trees or weights of templates to put into it, found weights that go into the ini; "
                "leave it out"
            )
        return _write_weights(model, out, context)
    return _write_table(model, out, context) if table else _write_feature(model, out, context)


def is_plain(model: Model, context: Context) -> bool:
    """Whether Moses has all features of the model itself."""
    return not model.trees and not MosesWeights.of(model, known_features(context)).other


def given_ini(context: Context) -> Ini | None:
    """The user's ini, if any."""
    if not context.options.ini:
        return None
    return Ini.read(context.options.ini).require("feature", "weight")


def known_features(context: Context) -> Known:
    vocab = FeaturePlan.load(context.options.vocab) if context.options.vocab else context.plan
    ini = given_ini(context)
    functions = frozenset(ini.features()) | frozenset(ini.weights()) if ini else frozenset[str]()
    return Known(context.nbest, vocab, context.options.static, functions)


# ---------------------------------------------------------------------------------------------------------------------
# A table
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TablePlan:
    """What a model puts into a phrase table, and the weights that go with it."""

    producer: str  # the feature function of the table, as TranslationModel0
    n_scores: int  # that the table has
    features: EntryFeatures
    columns: Columns
    dense: dict[str, list[float]]  # weights by feature function, the new scores' included
    sparse: dict[str, float]

    @classmethod
    def of(cls, model: Model, context: Context, ini: Ini | None) -> TablePlan:
        known, path = known_features(context), str(context.options.phrase_table)
        weights = MosesWeights.of(model, known)
        _check_static(model, weights.other, known)
        producer, n_scores = table_name(model, ini, path), count_scores(path)
        columns, added = table_columns(model, weights.other, context.options.columns or "trees")
        sparse = dict(weights.sparse)
        if isinstance(columns, Leaves):
            sparse |= {f"{producer}_{name}": weight for name, weight in columns.weights().items()}
        dense = weights.dense if ini is None else weights.as_in(ini)
        own = dense.get(producer, [])
        if len(own) > n_scores or (ini is not None and producer in dense and len(own) != n_scores):
            raise InputError(f"{path}: expected {len(own)} scores of {producer}, found {n_scores}; give the table of the decoder")
        dense = {**dense, producer: [*own, *[0.0] * (n_scores - len(own)), *added]}
        features = EntryFeatures.of((*tested_features(model), *weights.other), producer, n_scores, known.vocab)
        return cls(producer, n_scores, features, columns, dense, sparse)


def table_columns(model: Model, other: dict[str, float], style: str) -> tuple[Columns, list[float]]:
    """What is added to a table, and the weights of new scores: one for each tree and one for the linear part, or for the sum."""
    linear = linear_value(other) if other else None
    parts: list[tuple[str, Value, float]] = [(tree.name, tree.predict, tree.weight) for tree in model.trees]
    if linear is not None:
        parts.append(("linear", linear, 1.0))
    if style == "leaves":
        return Leaves(model.trees, linear), []
    if style == "sum":

        def total(table: Table) -> F64:
            return tree_scores(model.trees, table) + (0.0 if linear is None else linear(table))

        parts = [("sum", total, 1.0)]
    elif style != "trees":
        raise unknown_name("--columns", style, COLUMNS)
    names, values, weights = zip(*parts, strict=True)
    return Scores(names, values), list(weights)


def linear_value(weights: dict[str, float]) -> Value:
    """Σ λ_l f_l of features that Moses does not have."""

    def value(table: Table) -> F64:
        total = np.zeros(len(table))
        for name, weight in weights.items():
            total += weight * table.column(name)
        return total

    return value


def _check_static(model: Model, other: Iterable[str], known: Known) -> None:
    other = sorted(other)
    kinds = known.kinds([*tested_features(model), *other])
    if wrong := not_static(model.trees, kinds):
        shown = [f"{tree} ({', '.join(f'{name}: {kinds[name]}' for name in names)})" for tree, names in wrong.items()]
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        raise InputError(
            f"--phrase-table: expected trees over static features only, found {', '.join(shown[:3])}{more}; learn with "
            "'induce --static-only', or export without --phrase-table for a feature function"
        )
    if wrong_weights := [name for name in other if kinds[name] != "static"]:
        raise InputError(
            f"--phrase-table: expected weights of Moses' own and of static features only, found {', '.join(wrong_weights[:3])} "
            f"({len(wrong_weights)} in all); tune without them, or export without --phrase-table for a feature function"
        )


def table_name(model: Model, ini: Ini | None, path: str) -> str:
    """The feature function whose scores a table holds: by the ini, else by the model's features, else Moses' first."""
    if ini is not None:
        tables = {name: f for name, f in ini.features().items() if f.kind.startswith("PhraseDictionary")}
        files = {name: os.path.basename(f.arguments.get("path", "")) for name, f in tables.items()}
        same = [name for name, file in files.items() if file.startswith(os.path.basename(path))]
        if len(tables) == 1 or len(same) == 1:
            return same[0] if len(same) == 1 else next(iter(tables))
        found = ", ".join(tables) or "none"
        raise InputError(
            f"{ini.where}: expected one phrase table, or one whose path ends in the given name, found {found}; name it"
        )
    named = {component(name)[0] for name in (*model.weights, *tested_features(model))}
    found_tables = sorted(name for name in named if re.fullmatch(r"(TranslationModel|PhraseDictionary\w*?)\d+", name))
    if len(found_tables) > 1:
        raise InputError(f"--phrase-table: expected one table, found features of {', '.join(found_tables)}; give --ini as well")
    return found_tables[0] if found_tables else "TranslationModel0"


def _write_table(model: Model, out: Path, context: Context) -> list[Path]:
    options = context.options
    ini = given_ini(context)
    plan = TablePlan.of(model, context, ini)

    def report(n: int) -> None:
        context.on_progress(n, None, f"{n:,} entries")

    with open(out / TABLE, "wb") as raw, gzip.GzipFile("", "wb", FAST, raw, 0) as stream:
        n_entries = augment_table(str(options.phrase_table), stream, plan.features, plan.columns, report)
    n_total, path = len(plan.dense[plan.producer]), str((context.target or out) / TABLE)
    if ini is None:
        line = f"{MEMORY} name={plan.producer} num-features={n_total} path={path} input-factor=0 output-factor=0"
        if options.hidden:
            line += " tuneable-components=" + ",".join("1" * plan.n_scores + "0" * (n_total - plan.n_scores))
        new = ini_lines(line, plan.dense)
    else:
        hidden = n_total - plan.n_scores if options.hidden else 0
        new = ini.with_table(plan.producer, n_scores=n_total, path=path, hidden=hidden).with_weights(plan.dense)
    says = {
        "signature": model.signature,
        "table": os.path.basename(str(options.phrase_table)),
        "entries": f"{n_entries:,}",
        "producer": plan.producer,
        "n_scores": plan.n_scores,
        "n_total": n_total,
        "names": "\n".join(f"  {name}" for name in plan.columns.names),
        "what": plan.columns.what,
        "kept": _kept(ini, plan.dense),
    }
    files = _ini_files(new, plan.sparse, context.target or out, is_whole=ini is not None)
    return [out / TABLE, *_write_texts(out, files, "moses_table.readme.in", says)]


def _kept(ini: Ini | None, dense: dict[str, list[float]]) -> str:
    kept = [name for name in ini.weights() if name not in dense] if ini else []
    return f"\nWeights that the model does not have stay as they were: {', '.join(kept)}.\n" if kept else ""


def ini_lines(feature: str | None, weights: Mapping[str, list[float]]) -> Ini:
    """Only the lines that a model says something about, for the user's own ini."""
    lines = [weight_line(name, values) for name, values in weights.items()]
    return Ini.of({**({} if feature is None else {"feature": [feature]}), "weight": lines})


def _ini_files(ini: Ini, sparse: dict[str, float], folder: Path, *, is_whole: bool) -> dict[str, str]:
    """The ini, or only lines of it, and the weights of sparse features, if any, in a file of their own."""
    name = "moses.ini" if is_whole else "moses.ini.lines"
    if not sparse:
        return {name: ini.text}
    weights = "".join(f"{line}\n" for line in weight_lines(sparse, WEIGHTS))
    return {name: ini.with_weight_file(str(folder / WEIGHTS)).text, WEIGHTS: weights}


def _write_texts(out: Path, files: dict[str, str], readme: str, says: Mapping[str, object]) -> list[Path]:
    """These files, and what to do with them."""
    listed = "\n".join(f"  {name}: {_WHAT[name]}" for name in files if name in _WHAT)
    use = "Use the moses.ini here" if "moses.ini" in files else "Put the lines of moses.ini.lines into your moses.ini"
    text = Template(Path(__file__).with_name(readme).read_text()).substitute(says, files=listed, use=use)
    for name, content in (files | {README: text}).items():
        (out / name).write_text(content)
    return [out / name for name in (*files, README)]


_WHAT = {
    "moses.ini": "the given ini with this model",
    "moses.ini.lines": "lines for your moses.ini; those of the same name there go",
    WEIGHTS: "weights of sparse features, for [weight-file]",
}


# ---------------------------------------------------------------------------------------------------------------------
# Weights alone
# ---------------------------------------------------------------------------------------------------------------------


def _write_weights(model: Model, out: Path, context: Context) -> list[Path]:
    weights, ini = MosesWeights.of(model, known_features(context)), given_ini(context)
    dense = weights.dense if ini is None else weights.as_in(ini)
    new = ini_lines(None, dense) if ini is None else ini.with_weights(dense)
    says = {"signature": model.signature, "kept": _kept(ini, dense)}
    files = _ini_files(new, weights.sparse, context.target or out, is_whole=ini is not None)
    return _write_texts(out, files, "moses_weights.readme.in", says)


# ---------------------------------------------------------------------------------------------------------------------
# A feature function
# ---------------------------------------------------------------------------------------------------------------------


def beside_trees(model: Model, known: Known) -> Model:
    """The model without the weights of Moses' own features: what the feature function computes."""
    return replace(model, weights=MosesWeights.of(model, known).other)


def _write_feature(model: Model, out: Path, context: Context) -> list[Path]:
    options, known = context.options, known_features(context)
    prefix = options.prefix or PREFIX
    name, inner = class_name(prefix), beside_trees(model, known)
    texts = sources(inner, known, prefix=prefix, signature=model.signature)
    weights, ini = MosesWeights.of(model, known), given_ini(context)
    own = [*(tree.weight for tree in model.trees), *[1.0] * bool(inner.weights)]
    dense = {**(weights.dense if ini is None else weights.as_in(ini)), f"{name}0": own}
    line = f"{name} name={name}0 num-features={len(own)}" + (" tuneable=false" if options.hidden else "")
    new = ini_lines(line, dense) if ini is None else ini.with_feature(line).with_weights(dense)
    last = ["linear weights of features that Moses does not have"] if inner.weights else []
    says = {
        "signature": model.signature,
        "name": name,
        "header": f"{prefix}.h",
        "values": "\n".join(f"  {what}" for what in (*(tree.name for tree in model.trees), *last)),
        "base": "stateful" if "StatefulFeatureFunction" in texts[f"{name}.h"] else "stateless",
        "kept": _kept(ini, dense),
    }
    files = _ini_files(new, weights.sparse, context.target or out, is_whole=ini is not None)
    return _write_texts(out, {**texts, **files}, "moses_feature.readme.in", says)
