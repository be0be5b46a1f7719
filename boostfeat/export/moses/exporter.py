"""The target moses: writes tables, feature functions or weights, and verifies what it wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...model.model import Model
from .. import Check, Context, Exporter
from .check import check_source, check_table, check_weights
from .writing import Parts, is_plain, write


def verify(model: Model, written: list[Path], context: Context) -> Check:
    if is_plain(model, context):
        return check_weights(model, written, context)
    parts = Parts.of(model, context)
    if parts.table is None:
        return check_source(model, written, context)
    table = check_table(model, written, context)
    if parts.function is None:
        return table
    source = check_source(model, written, context)
    worst = float(np.maximum(table.difference, source.difference))  # NaN stays NaN
    return replace(table, difference=worst, note=f"{table.note}; {source.note}")


USES = ("prefix", "static", "phrase_table", "ini", "columns", "binary", "hidden", "vocab")
EXPORTER = Exporter(write, verify, uses=USES, folder=True)
