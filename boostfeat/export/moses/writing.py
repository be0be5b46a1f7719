"""Moses: a phrase table with the trees in it for a stock decoder, the source of a feature function, or both.

A table holds functions of the phrase pair only, so it takes trees and weights over static features. Trees that look at language
model or reordering scores, or at a phrase's place, become a feature function that Moses is built with. A model that only weighs
features that Moses has is an ini.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import methodcaller
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ...core.arrays import F64
from ...core.errors import InputError, counted, unknown_name
from ...core.feature_table import FeatureTable, linear_scores
from ...features import FeaturePlan
from ...formats.fields import component
from ...formats.moses.ini import MEMORY, Ini, weight_line, weight_lines
from ...formats.moses.table_files import count_scores
from ...model.model import Model, tree_scores
from ..c import PREFIX
from ..kinds import Known, tested_features
from ..target import Context, filled
from .feature_function import KNOWN, can_compute, class_name, function_weights, model_text, sources
from .table_scores import BINARY, EntryFeatures, Scores, Value, augment_table, binary_table, make_binary

Readme: TypeAlias = tuple[str, Mapping[str, object]]  # the kind of README.in, and its parts
COLUMNS = ("trees", "sum")
TABLE, WEIGHTS, README = "phrase-table.gz", "weights.sparse", "README.txt"
FAST = 1  # of gzip's levels: most of the time goes into compression, and scores of ten digits hardly shrink


@dataclass(frozen=True)
class MosesWeights:
    """λ of the model's linear part."""

    dense: dict[str, list[float]]  # by feature function, all its values
    sparse: dict[str, float]
    other: dict[str, float]  # of features that templates made

    @classmethod
    def of(cls, model: Model, known: Known) -> MosesWeights:
        listed_sparse = set(known.nbest.sparse_names.to_pylist()) if known.nbest else set()
        listed_dense = set(known.nbest.global_names) if known.nbest else set()
        unweighed = [name for name in known.nbest.unit_names if not known.is_made(name)] if known.nbest else []
        dense: dict[str, dict[int, float]] = {}
        sparse: dict[str, float] = {}
        other: dict[str, float] = {}
        # a decoder's feature that the list has and the model does not weighs 0: an ini must not keep what it had
        for name, weight in {**dict.fromkeys(unweighed, 0.0), **model.weights}.items():
            producer, k = component(name)
            if known.is_made(name):
                if weight:
                    other[name] = weight
            elif name.split() != [name] or "=" in name:
                raise InputError(f"weight {name!r}: expected a name without blanks and '=' for Moses, found one; rename it")
            elif name in listed_sparse or ("_" in producer and name not in listed_dense):
                sparse[name] = weight
            else:
                dense.setdefault(producer, {})[k] = weight
        whole = {name: [values.get(k, 0.0) for k in range(max(values) + 1)] for name, values in dense.items()}
        return cls(whole, sparse, other)

    def in_ini(self, ini: Ini | None) -> dict[str, list[float]]:
        """Return the dense weights with as many values as an ini has; those that it does not have are an error."""
        if ini is None:
            return self.dense
        known = ini.weights()
        dense = {name: values for name, values in self.dense.items() if any(values) or name in known}
        for name, values in dense.items():
            if len(values) > len(known.get(name, [])):
                found = f"{len(known[name])}" if name in known else f"weights of {', '.join(known) or 'none'}"
                raise InputError(
                    f"{ini.where}: {name}: expected {counted(len(values), 'weight')}, found {found}; "
                    "give the ini that the lists were decoded with"
                )
        return {name: [*values, *[0.0] * (len(known[name]) - len(values))] for name, values in dense.items()}


@dataclass(frozen=True)
class Parts:
    """A model in two: what a phrase table holds, functions of the phrase pair, and what a feature function computes."""

    table: Model | None  # with all weights of Moses' own features
    function: Model | None  # trees, and weights of features that Moses does not have
    inputs: tuple[str, ...] = ()  # of the function, that only the table can have: scores of weight 0


@dataclass(frozen=True)
class TablePlan:
    """Scores that a model puts into a phrase table, and the weights that go with it."""

    producer: str  # the feature function of the table, as TranslationModel0
    n_scores: int  # that the table has
    features: EntryFeatures
    columns: Scores
    dense: dict[str, list[float]]  # weights by feature function, the new scores' included


@dataclass(frozen=True)
class MosesJob:
    """A model for Moses, and what is computed of it once: for writing, verifying and telling what it has."""

    model: Model
    context: Context

    @property
    def prefix(self) -> str:
        return self.context.options.prefix or PREFIX

    @property
    def columns(self) -> str:
        return self.context.options.columns or "trees"

    @cached_property
    def ini(self) -> Ini | None:
        """The user's ini, if any."""
        path = self.context.options.ini
        return Ini.read(path).require("feature", "weight") if path else None

    @cached_property
    def known(self) -> Known:
        options, ini = self.context.options, self.ini
        plan = FeaturePlan.load(options.plan) if options.plan else self.context.plan
        functions = frozenset(ini.features()) | frozenset(ini.weights()) if ini else frozenset[str]()
        return Known(self.context.nbest, plan, options.static, functions)

    @cached_property
    def weights(self) -> MosesWeights:
        return MosesWeights.of(self.model, self.known)

    @property
    def is_plain(self) -> bool:
        """Whether Moses has all features of the model itself."""
        return not self.model.trees and not self.weights.other

    @cached_property
    def parts(self) -> Parts:
        """Without a table all is in the function; with one, all that can be is in the table."""
        model, known, other = self.model, self.known, self.weights.other
        if not self.context.options.phrase_table:
            return Parts(None, replace(model, weights=other))
        kinds = known.kinds([*tested_features(model), *other])
        contextual = {tree.name for tree in model.trees if any(kinds[name] != "static" for name in tree.features())}
        moved = {name: weight for name, weight in other.items() if kinds[name] != "static"}
        inside, beside = (tuple(tree for tree in model.trees if (tree.name in contextual) == is_so) for is_so in (False, True))
        kept = {name: weight for name, weight in model.weights.items() if name not in moved}
        table, function = replace(model, trees=inside, weights=kept), replace(model, trees=beside, weights=moved)
        if not contextual and not moved:
            return Parts(table, None)
        tested = (name for name in tested_features(function) if kinds[name] == "static" and known.is_made(name))
        inputs = tuple(name for name in tested if name not in KNOWN and not can_compute(name))
        is_empty = not table.trees and not inputs and len(moved) == len(other)
        return Parts(None if is_empty else table, function, inputs)

    @cached_property
    def table_weights(self) -> MosesWeights:
        """Weights of the part in the table."""
        return MosesWeights.of(self.parts.table or Model({}), self.known)

    @cached_property
    def plan(self) -> TablePlan:
        model, weights, path = self.parts.table or Model({}), self.table_weights, str(self.context.options.phrase_table)
        producer, n_scores = table_name(model, self.ini, path), count_scores(path)
        columns, added = table_columns(model, weights.other, self.columns, self.parts.inputs)
        dense = weights.in_ini(self.ini)
        own = dense.get(producer, [])
        if len(own) > n_scores or (self.ini is not None and producer in dense and len(own) != n_scores):
            raise InputError(
                f"{path}: expected {counted(len(own), 'score')} of {producer}, found {n_scores}; give the table of the decoder"
            )
        dense = {**dense, producer: [*own, *[0.0] * (n_scores - len(own)), *added]}
        names = (*tested_features(model), *weights.other, *self.parts.inputs)
        return TablePlan(producer, n_scores, EntryFeatures.of(names, producer, n_scores, self.known.plan), columns, dense)

    @property
    def places(self) -> dict[str, str]:
        """Scores of the table, as lists name them, by the inputs of the feature function that they are."""
        scores = enumerate(self.plan.columns.names, self.plan.n_scores) if self.parts.inputs else ()
        of_table = {name: f"{self.plan.producer}_{k}" for k, name in scores}
        return {name: of_table[name] for name in self.parts.inputs}


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
    job, table = MosesJob(model, context), context.options.phrase_table
    for flag, value in (("--columns", context.options.columns and job.is_plain), ("--binary", context.options.binary)):
        if value and not table:
            raise InputError(f"{flag}: expected --phrase-table FILE with it, found none; give the table to augment")
    if context.options.binary:
        binary_table(context.options.binary)  # an unknown one is an error before anything is written
    if job.is_plain and table:
        raise InputError(
            "--phrase-table: expected trees or weights of templates to put into it, found weights that go into the ini; "
            "leave it out"
        )
    parts, ini = Parts(None, None) if job.is_plain else job.parts, job.ini
    files: dict[str, str] = {}
    written: list[Path] = []
    readmes: list[Readme] = []
    if job.is_plain:
        dense = job.weights.in_ini(ini)
        readmes = [("weights", {"KEPT": _kept(ini, dense)})]
        ini = ini_lines(None, dense) if ini is None else ini.with_weights(dense)
    if parts.table is not None:
        written, ini, readme = _write_table(job, out)
        readmes = [readme]
    if parts.function is not None:
        files, ini, readme = _feature_files(job, parts.function, out, ini)
        readmes.append(readme)
        if table:
            context.warn(
                f"{named_parts(parts.function)} of more than the phrase pair: Moses has to be built with the feature function "
                f"(see {README}); 'induce --set static-only=yes' learns a model for a stock Moses"
            )
    assert ini is not None  # one of these has made it
    files |= _ini_files(ini, job.weights.sparse, context.target or out, is_whole=bool(context.options.ini))
    build = "" if parts.function is None else f"the feature function {class_name(job.prefix)}"
    return [*written, *_write_texts(out, model, files, readmes, build=build)]


def named_parts(model: Model) -> str:
    """Count the trees and weights of a part, and name its first feature."""
    n, some = len(model.trees), sorted(model.weights)
    found = [*([counted(n, "tree")] if n else []), *([f"{counted(len(some), 'weight')} ({some[0]} ...)"] if some else [])]
    return " and ".join(found)


# ---------------------------------------------------------------------------------------------------------------------
# A table
# ---------------------------------------------------------------------------------------------------------------------


def table_columns(model: Model, other: dict[str, float], style: str, inputs: Iterable[str] = ()) -> tuple[Scores, list[float]]:
    """Return what is added to a table, and its weights: one for each tree and one for the linear part, or for the sum of all.

    Then the inputs of a feature function, which weigh nothing.
    """
    if style not in COLUMNS:
        raise unknown_name("--columns", style, COLUMNS)
    linear = linear_value(other) if other else None
    parts: list[tuple[str, Value, float]] = [(tree.name, tree.predict, tree.weight) for tree in model.trees]
    if linear is not None:
        parts.append(("linear", linear, 1.0))
    if style == "sum" and parts:

        def total(table: FeatureTable) -> F64:
            return tree_scores(model.trees, table) + (0.0 if linear is None else linear(table))

        parts = [("sum", total, 1.0)]
    parts += [(name, methodcaller("column", name), 0.0) for name in inputs]
    names, values, weights = zip(*parts, strict=True)
    return Scores(names, values), list(weights)


def linear_value(weights: dict[str, float]) -> Value:
    """Σ λ_l f_l of features that Moses does not have: thousands of sparse ones, maybe."""

    def value(table: FeatureTable) -> F64:
        dense, sparse = (np.array([weights.get(name, 0.0) for name in names]) for names in (table.names, table.sparse_names))
        return linear_scores(table.x, table.sparse if len(sparse) else None, np.concatenate([dense, sparse]))

    return value


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


def _write_table(job: MosesJob, out: Path) -> tuple[list[Path], Ini, Readme]:
    """Write the table's files; return them, the ini that names it, and what to do with it."""
    context, options, plan, ini = job.context, job.context.options, job.plan, job.ini

    def report(n: int) -> None:
        context.on_progress(n, None, counted(n, "entry"))

    with open(out / TABLE, "wb") as raw, gzip.GzipFile("", "wb", FAST, raw, 0) as stream:
        n_entries = augment_table(str(options.phrase_table), stream, plan.features, plan.columns, report)
    n_total, folder = len(plan.dense[plan.producer]), context.target or out
    made = make_binary(options.binary, out / TABLE, n_total) if options.binary else []
    kind, path = MEMORY, str(folder / TABLE)
    if made and options.binary:
        kind, path = BINARY[options.binary].feature, str(folder / BINARY[options.binary].file)
    elif options.binary:
        context.warn(_by_hand(options.binary, folder, n_total))
    hidden = n_total - plan.n_scores if options.hidden else 0
    if ini is None:
        line = f"{kind} name={plan.producer} num-features={n_total} path={path} input-factor=0 output-factor=0"
        shown = f" tuneable-components={','.join('1' * plan.n_scores + '0' * hidden)}" if hidden else ""
        new = ini_lines(line + shown, plan.dense)
    else:
        new = ini.with_table(plan.producer, n_scores=n_total, path=path, kind=kind, hidden=hidden).with_weights(plan.dense)
    says = {
        "TABLE": os.path.basename(str(options.phrase_table)),
        "ENTRIES": f"{n_entries:,}",
        "PRODUCER": plan.producer,
        "N_SCORES": plan.n_scores,
        "N_TOTAL": n_total,
        "NAMES": "\n".join(f"  {name}" for name in plan.columns.names),
        "KEPT": _kept(ini, plan.dense),
    }
    return [out / TABLE, *made], new, ("table", says)


def _by_hand(kind: str, folder: Path, n_scores: int) -> str:
    """Say what to do where the program of a binary table was not found."""
    table = BINARY[kind]
    command = shlex.join([table.program, *table.command(str(folder / TABLE), str(folder / table.file), n_scores)])
    return (
        f"--binary {kind}: {table.program} was not found, the table is text; run '{command}' and write {table.feature} and "
        f"path={folder / table.file} in the ini"
    )


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


def _write_texts(out: Path, model: Model, files: dict[str, str], readmes: Iterable[Readme], *, build: str = "") -> list[Path]:
    """Write these files, and a README that begins with whether Moses has to be built anew (``build``: with what)."""
    listed = "\n".join(f"  {name}: {_WHAT[name]}" for name in files if name in _WHAT)
    use = "Use the moses.ini here" if "moses.ini" in files else "Put the lines of moses.ini.lines into your moses.ini"
    begin = f"Moses has to be rebuilt, with {build}: see below." if build else "A stock Moses will do: no rebuilding is needed."
    texts = [filled(f"moses/moses_{of}.readme.in", {**says, "FILES": listed, "USE": use}) for of, says in readmes]
    for name, content in (files | {README: "\n\n".join([f"{begin}\n{model.signature}", *texts])}).items():
        (out / name).write_text(content)
    return [out / name for name in (*files, README)]


_WHAT = {
    "moses.ini": "the given ini with this model",
    "moses.ini.lines": "lines for your moses.ini; those of the same name there go",
    WEIGHTS: "weights of sparse features, for [weight-file]",
}


# ---------------------------------------------------------------------------------------------------------------------
# A feature function
# ---------------------------------------------------------------------------------------------------------------------


def _feature_files(job: MosesJob, model: Model, out: Path, ini: Ini | None) -> tuple[dict[str, str], Ini, Readme]:
    """Return the sources by name, the ini with the feature function, and what to do with them.

    Where there is a table, the ini is that of the table and has all weights of Moses' own features.
    """
    prefix, columns = job.prefix, job.columns
    name, model_file = class_name(prefix), f"{prefix}.model"
    text = model_text(model, job.known, signature=job.model.signature, columns=columns, places=job.places)
    texts = sources(prefix) | {model_file: text}
    own = function_weights(model, columns)
    path, tuned = (job.context.target or out) / model_file, " tuneable=false" if job.context.options.hidden else ""
    line = f"{name} name={name}0 num-features={len(own)} path={path}{tuned}"
    dense = {f"{name}0": own}
    if job.parts.table is None:
        dense = {**job.weights.in_ini(ini), **dense}
    new = ini_lines(line, dense) if ini is None else ini.with_feature(line).with_weights(dense)
    last = ["linear weights of features that Moses does not have"] if model.weights else []
    what = ["all trees and weights, summed"] if columns == "sum" else [*(tree.name for tree in model.trees), *last]
    says = {
        "NAME": name,
        "HEADER": f"{prefix}.h",
        "MODEL": model_file,
        "VALUES": "\n".join(f"  {line}" for line in what),
        "KEPT": _kept(ini, dense) if job.parts.table is None else "",
    }
    return texts, new, ("feature", says)
