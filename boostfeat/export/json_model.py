"""The model file itself, and beside it the JSON Schema that says what it may hold."""

from __future__ import annotations

from pathlib import Path

from ..model.model import Model
from .target import Check, Context, Exporter
from .verify import difference, expected_scores

SCHEMA = Path(__file__).with_name("model.schema.json")


def write(model: Model, out: Path, context: Context) -> list[Path]:
    model.save(out)
    if context.target is None:
        return [out]
    beside = out.with_name("boostfeat-" + SCHEMA.name)
    beside.write_bytes(SCHEMA.read_bytes())
    return [out, beside]


def verify(model: Model, written: list[Path], context: Context) -> Check:
    expected, what = expected_scores(model, context.rows)
    found, _ = expected_scores(Model.load(written[0]), context.rows)
    return Check(len(expected), what, difference(found, expected))


def carries(model: Model, context: Context) -> str:
    return "has all of the model: nothing is left out"


EXPORTER = Exporter(write, verify, carries, whole=True)
