"""cdec's weights file: ``name value`` a line.

cdec has no trees: what is written are the weights of features that lists must carry, as ``augment`` and ``export --to nbest``
make them.
"""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InputError, clip, repeated
from ..formats.moses.weights import read_weights, weight_lines, write_lines
from ..model.model import Model
from ..model.tree_columns import augment, augmented_weights
from . import Check, Context, Exporter
from .verify import difference


def write(model: Model, out: Path, context: Context) -> list[Path]:
    weights = augmented_weights(model)
    if len(weights) < len(model.weights) + len(model.trees):
        name = repeated([*model.weights, *(tree.name for tree in model.trees)])
        raise InputError(
            f"--to cdec: expected distinct names of features and trees, found {name!r} twice; rename one in the model"
        )
    for name in weights:
        if not _fits(name):
            raise InputError(
                f"--to cdec: feature {clip(name)}: expected a name without blanks, '=' and ';' that does not begin with '#', "
                "found another; rename it in the lists, or use --to json"
            )
    note = [f"# {model.signature}"]
    if model.trees:
        note.append(
            f"# {model.trees[0].name} ... {model.trees[-1].name} ({len(model.trees)}) are trees: cdec cannot compute them."
        )
        note.append("# Their values come with the lists that `boostfeat augment` and `boostfeat export --to nbest` write.")
    write_lines([*note, *weight_lines(weights, out.name)], out)
    return [out]


def _fits(name: str) -> bool:
    return name.split() == [name] and not name.startswith("#") and not set("=;") & set(name)


def verify(model: Model, written: list[Path], context: Context) -> Check:
    """The scores of hypotheses whose lists carry the trees' values."""
    augmented = augment(context.rows, model)
    found = augmented.sum_units(*augmented.weigh(read_weights(written)))
    worst = difference(found, model.decision_function(context.rows))
    return Check(augmented.n_hyps, "hypotheses", worst, 1e-6, "of lists that carry the trees' values" if model.trees else "")


EXPORTER = Exporter(write, verify)
