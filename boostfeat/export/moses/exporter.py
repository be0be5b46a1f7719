"""The target moses: writes tables, feature functions or weights, and verifies what it wrote."""

from __future__ import annotations

from pathlib import Path

from ...model.model import Model
from .. import Check, Context, Exporter
from .check import check_source, check_table, check_weights
from .writing import is_plain, write


def verify(model: Model, written: list[Path], context: Context) -> Check:
    if is_plain(model, context):
        return check_weights(model, written, context)
    check = check_table if context.options.phrase_table else check_source
    return check(model, written, context)


EXPORTER = Exporter(write, verify, uses=("prefix", "static", "phrase_table", "ini", "columns", "hidden", "vocab"), folder=True)
