"""A list with trees as more features, in Moses' n-best format, for the tuners of others.

    0 ||| the house ||| LM0= -7.1 TranslationModel0= -0.9 -1.1 tree.000= 0.03 ||| -1.7

Moses' extractor, mert and kbmira tell features by their labels: one with ``_`` is sparse and has one value, all others are dense
and the same in every line.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import InputError, counted
from ..core.files import open_output
from ..formats.fields import group_names
from ..formats.moses import plain_lists as moses
from ..lists.build import ReadOptions
from ..lists.nbest import NBest, SparseRows
from ..model.model import Model
from ..model.tree_columns import augment, augmented_weights
from .inputs import Inputs
from .target import Check, Context, Exporter
from .unit_text import template_of
from .verify import difference


def write(model: Model, out: Path, context: Context) -> list[Path]:
    nbest = without_units(_with_columns(model, context)[1])
    check_labels(nbest)
    with open_output(out) as stream:
        moses.write(nbest, stream)
    return [out]


def _with_columns(model: Model, context: Context) -> tuple[Model, NBest]:
    """The list with trees as columns; sparse features of templates, whose names Moses' tools cannot read, are one: their sum."""
    inputs, rows = Inputs.of(model, context, "nbest"), context.rows
    changed = inputs.model
    if changed is model or not all(map(template_of, rows.sparse_names.to_pylist())):
        return model, augment(rows, model)
    return changed, augment(inputs.with_sums(rows), changed).without_sparse()


def without_units(nbest: NBest) -> NBest:
    """Return the hypotheses with their features and nothing of phrases."""
    return NBest.bare(
        nbest.hyp_ptr,
        nbest.text,
        ids=nbest.ids,
        score=nbest.score,
        extra=nbest.global_features,
        extra_names=nbest.global_names,
        extra_sparse=SparseRows.from_matrix(nbest.global_sparse),
        sparse_names=nbest.sparse_names,
    )


def check_labels(nbest: NBest) -> None:
    """Raise for a feature that Moses' tools would take for another kind, by its label."""
    for label, _ in group_names(nbest.global_names):
        if "_" in label:
            raise InputError(
                f"--to nbest: feature {label!r}: expected a dense feature's label without '_', by which Moses' tools know sparse "
                "ones, found one; rename it in the lists"
            )
    for name in nbest.sparse_names.to_pylist():
        if "_" not in name:
            raise InputError(
                f"--to nbest: sparse feature {name!r}: expected '_' in its name, by which Moses' tools know sparse ones, "
                "found none; rename it, or write JSON lines with 'rerank --format jsonl'"
            )


def verify(model: Model, written: list[Path], context: Context) -> Check:
    """Hypotheses as the list reads back, under the model's weights and under random ones, which tell any feature's change."""
    model, expected = _with_columns(model, context)
    found = moses.read(written[0], ReadOptions())
    if not found.text.equals(expected.text):
        raise InputError(
            f"--to nbest: expected {expected.n_hyps:,} hypotheses with their words, found others; use another format"
        )
    names = expected.feature_names
    random = dict(zip(names, np.random.default_rng(0).standard_normal(len(names)).tolist(), strict=True))
    worst = max(
        difference(found.sum_units(*found.weigh(weights)), expected.sum_units(*expected.weigh(weights)))
        for weights in (augmented_weights(model), random)
    )
    return Check(expected.n_hyps, "hypotheses", worst)


def carries(model: Model, context: Context) -> str:
    changed, nbest = _with_columns(model, context)
    summed = ", the sum of sparse weights among them" if changed is not model else ""
    features = f"{len(nbest.feature_names):,} in all{summed}"
    return f"has the list with {counted(len(model.trees), 'tree')} as features ({features}) and no weights"


EXPORTER = Exporter(write, verify, carries, needs_list=True)
