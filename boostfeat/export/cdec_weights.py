"""cdec's and Joshua's weights file: ``name value`` a line.

They have no trees: what is written are the weights of features that lists must carry, as ``augment`` and ``export --to nbest``
make them. What a line cannot hold in a name is escaped as cdec escapes it: a blank is ``+``, others ``%3D``.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote_plus

from ..core.errors import InputError, counted, repeated
from ..formats.moses.ini import read_weights, weight_lines, write_lines
from ..model.model import Model
from ..model.tree_columns import augment, augmented_weights
from .target import Check, Context, Exporter
from .verify import difference


def write(model: Model, out: Path, context: Context) -> list[Path]:
    weights = augmented_weights(model)
    if len(weights) < len(model.weights) + len(model.trees):
        name = repeated([*model.weights, *(tree.name for tree in model.trees)])
        raise InputError(
            f"--to cdec: expected distinct names of features and trees, found {name!r} twice; rename one in the model"
        )
    note = [f"# {model.signature}"]
    if trees := model.trees:
        note.append(f"# {trees[0].name} ... {trees[-1].name} ({len(trees)}) are trees: cdec cannot compute them.")
        note.append("# Their values come with the lists that `boostfeat augment` and `boostfeat export --to nbest` write.")
    if any(escaped(name) != name for name in weights):
        note.append("# Of names, blanks are written as +, and signs that a line cannot hold as %3D.")
    write_lines([*note, *weight_lines({escaped(name): weight for name, weight in weights.items()}, out.name)], out)
    return [out]


def escaped(name: str) -> str:
    """A name as cdec's UrlDecode reads it back; most stay as they are."""
    if not name:
        raise InputError("--to cdec: expected features with names, found one without; rename it in the model")
    body = "".join("+" if c == " " else f"%{ord(c):02X}" if c in "=;%+" or ord(c) < 32 else c for c in name)
    return f"%{ord(body[0]):02X}{body[1:]}" if body[0] in "#/" else body  # comments begin so


def verify(model: Model, written: list[Path], context: Context) -> Check:
    """The scores of hypotheses whose lists carry the trees' values."""
    augmented = augment(context.rows, model)
    read = {unquote_plus(name): weight for name, weight in read_weights(written).items()}
    found = augmented.sum_units(*augmented.weigh(read))
    worst = difference(found, model.decision_function(context.rows))
    return Check(augmented.n_hyps, "hypotheses", worst, note="of lists that carry the trees' values" if model.trees else "")


def carries(model: Model, context: Context) -> str:
    made = sum(1 for name in model.weights if name in context.made_by)
    parts = [*[counted(made, "feature") + " of templates"] * bool(made), *[counted(len(model.trees), "tree")] * bool(model.trees)]
    carried = f"; the lists have to carry the values of {' and '.join(parts)}, which cdec cannot compute" if parts else ""
    return f"has {counted(len(model.weights) + len(model.trees), 'weight')}{carried}"


EXPORTER = Exporter(write, verify, carries)
