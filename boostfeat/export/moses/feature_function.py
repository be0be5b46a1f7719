"""A Moses feature function: its source, which is the same for all models, and the model as the file that it reads.

Values of other feature functions are read from the scores of the phrase that is being added; words, links and the phrase's place
come from the hypothesis. What the phrase pair alone tells is computed when it is looked up, and what its sentence adds (source
context, Model 1) when that is translated, so that future costs have both; what the following phrase tells is added when that one
is. Hypotheses are recombined only where what follows scores the same.

A new sparse template of phrase pairs is a name in ``unit_text.PAIR_TEMPLATES`` and some lines of ``_pair_weights`` in C; one of
context, a name in ``CONTEXT_TEMPLATES``, its stage in ``sparse_stage``, and a function of ``moses_model.h.in`` beside Around,
Inside or Edges. A dense feature by a table of word translations is a name in ``TRANSLATED``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...core.errors import InputError
from ...features.plan import Entry, product_name
from ...features.resources import Clusters
from ...features.templates.helpers import UNKNOWN_CLUSTER
from ...features.templates.place import FLOOR
from ...formats.fields import component
from ...model.model import Model
from ...trees.tree import Tree
from .. import unit_text
from ..c import check_prefix, number
from ..kinds import Known
from ..target import filled

# Known with the phrase pair, with its sentence, when a phrase is added, when the next is
STATIC, PLACED, APPLIED, LATE = range(4)
_IN_PLACE = (
    ("P", APPLIED, "pos.tenth pos.first pos.last span.len"),
    ("B", APPLIED, "jump.signed jump.log jump.left jump.far ori.<mono ori.<swap ori.<right ori.<left"),
    ("V", APPLIED, "prev.len.src prev.len.tgt prev.none"),
    ("F", LATE, "ori.>mono ori.>swap ori.>right ori.>left next.len.src next.len.tgt next.none"),
)
# Features by the number that the source knows them by: (operation, stage, number)
KNOWN = {name: ("T", STATIC, k) for name, k in unit_text.TEXT.items()}
KNOWN |= {name: (op, stage, k) for op, stage, names in _IN_PLACE for k, name in enumerate(names.split())}
TRANSLATED = {"m1.tgt": "model1", "m1.bitext": "model1_bitext"}  # features by Model 1, and the templates that hold their tables
_PRODUCER = re.compile(r"[A-Za-z0-9.:+-][A-Za-z0-9.:+_-]*")
_PER_WORD = re.compile(r"lm\.word\.(.+?)(?:<(q\d+))?")
_NEIGHBOUR = {"prev.": ("M", APPLIED, "previous"), "next.": ("N", LATE, "following")}


def can_compute(name: str) -> bool:
    """Whether the source computes a sparse feature of this name itself."""
    return unit_text.template_of(name) in (*unit_text.PAIR_TEMPLATES, *unit_text.CONTEXT_TEMPLATES)


@dataclass
class _TreeInputs:
    """The features that trees and weights look at, as lines of the model file; a product comes after its factors."""

    known: Known
    places: Mapping[str, str] = field(default_factory=dict)  # of static features, the scores of the table that they are
    lines: list[str] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    at: dict[str, int] = field(default_factory=dict)
    scores: dict[tuple[str, int], int] = field(default_factory=dict)  # (feature function, component) -> place
    tables: list[Entry] = field(default_factory=list)  # of Model 1

    def place(self, name: str) -> int:
        if name not in self.at:
            line, stage = self._line(name)
            self.at[name] = len(self.lines)
            self.lines.append(line)
            self.stages.append(stage)
        return self.at[name]

    def stage(self, name: str) -> int:
        return self.stages[self.place(name)]

    def _line(self, name: str) -> tuple[str, int]:
        if name in self.places or not self.known.is_made(name):
            return self._score_line("S", self.places.get(name, name))
        if name in KNOWN:
            op, stage, k = KNOWN[name]
            return f"{op} {stage} {k}", stage
        if can_compute(name):
            stage = sparse_stage(name)
            return f"H {stage} 0", stage
        if name in TRANSLATED:
            self.tables.append(self._learned(TRANSLATED[name], name, "the table of Model 1 that was learned"))
            return f"E {PLACED} {len(self.tables) - 1}", PLACED
        if found := _PER_WORD.fullmatch(name):
            line, stage = self._score_line("L" if found[2] else "W", found[1])
            if found[2]:
                thresholds = self._learned("lm_per_word", name, "the quantiles of the dev list").options["thresholds"]
                line += f" {number(thresholds[found[1]][found[2]])}"
            return line, stage
        if name[:5] in _NEIGHBOUR and (entry := self._entry(_NEIGHBOUR[name[:5]][2])):
            return self._neighbour(name, entry)
        plan = self.known.plan
        if factors := next((pair for pair in (plan and plan.products) or () if product_name(pair) == name), None):
            a, b = map(self.place, factors)
            stage = max(self.stages[a], self.stages[b])
            return f"X {stage} {a} {b}", stage
        raise InputError(
            f"feature {name!r}: expected one that Moses knows when it adds a phrase (its own, of its texts, {_SHOWN}), found "
            f"{_BEYOND.get(self.known.kinds([name])[name], _ANOTHER)}"
        )

    def _score_line(self, op: str, name: str) -> tuple[str, int]:
        stage = STATIC if name in self.places.values() or self.known.kinds([name])[name] == "static" else APPLIED
        return f"{op} {stage} {self._score(name)}", stage

    def _score(self, name: str) -> int:
        producer, k = component(name)
        if not _PRODUCER.fullmatch(producer) or "_" in producer:
            raise InputError(
                f"feature {name!r}: expected a dense feature of Moses, found a sparse one or another name; learn trees without it"
            )
        return self.scores.setdefault((producer, k), len(self.scores))

    def _entry(self, name: str) -> Entry | None:
        return next((entry for entry in (self.known.plan.entries if self.known.plan else ()) if entry.name == name), None)

    def _learned(self, template: str, name: str, what: str) -> Entry:
        """Return the entry of the template that made a feature; raise where no plan has it."""
        if entry := self._entry(template):
            return entry
        raise InputError(f"feature {name!r}: expected {what}, found none; give --plan")

    def _neighbour(self, name: str, entry: Entry) -> tuple[str, int]:
        op, stage, _ = _NEIGHBOUR[name[:5]]
        of = name[5:]
        bins = entry.options["quantiles"].get(of)
        if bins is None or self.known.is_made(of):
            raise InputError(
                f"feature {name!r}: expected a neighbour's decoder feature in bins, found another; learn with bins = 4"
            )
        numbers = " ".join(map(number, (*bins["cuts"], *bins["means"])))
        return f"{op} {stage} 0 {self._score(of)} {len(bins['cuts'])} {numbers}", stage


_SHOWN = "pos.*, span.len, jump.*, ori.*, lm.word.*, m1.tgt, m1.bitext, neighbours"
_ANOTHER = "another; export with --phrase-table if it is one of the phrase pair, as count.log, else learn without its template"
_BEYOND = {
    kind: f"one of the whole {what}; learn without its template, or rerank Moses' lists with this model"
    for kind, what in (("global", "hypothesis"), ("list", "list"))
}


def sparse_stage(name: str) -> int:
    """When a sparse feature is known."""
    template = unit_text.template_of(name)
    if template in unit_text.PAIR_TEMPLATES:
        return STATIC
    if template in ("cx", "cc"):
        return PLACED
    return LATE if name.startswith(("lo:>", "co:>")) else APPLIED


def model_text(
    model: Model, known: Known, *, signature: str, columns: str = "trees", places: Mapping[str, str] | None = None
) -> str:
    """The file that the feature function reads. The model has only weights that Moses cannot have.

    With columns ``sum`` all is one value, with weight 1 in the ini; else each tree is one, and the linear part another.
    """
    inputs = _TreeInputs(known, places or {})
    weights = {name: weight for name, weight in model.weights.items() if weight}
    dense = {name: weight for name, weight in weights.items() if not can_compute(name)}
    is_sum = columns == "sum"
    n_values, last = len(function_weights(model, columns)), 0 if is_sum else len(model.trees)
    trees = [_tree_lines(tree, inputs, 0 if is_sum else m, is_sum) for m, tree in enumerate(model.trees)]
    terms = [f"{inputs.stage(name)} {inputs.place(name)} {number(weight)}" for name, weight in dense.items()]
    tested = [name for name in inputs.at if can_compute(name)]
    sparse = {name: weights.get(name, 0.0) for name in sorted({*tested, *(name for name in weights if can_compute(name))})}
    hashed = {entry.name for entry in (known.plan.entries if known.plan else ()) if entry.hash_bits}
    if found := next((name for name in sparse if unit_text.template_of(name) in hashed), None):
        raise InputError(f"feature {found!r}: expected a name of words, found a hashed one; learn without --hash")
    lines = [
        "boostfeat moses 2",
        signature,
        f"values {n_values} {last if n_values else 0}",
        f"scores {len(inputs.scores)}",
        *(f"{producer} {k}" for producer, k in inputs.scores),
        f"inputs {len(inputs.lines)}",
        *inputs.lines,
        f"trees {len(trees)}",
        *(line for tree in trees for line in tree),
        f"weights {len(terms)}",
        *terms,
        f"sparse {len(sparse)} {unit_text.template_bits(sparse)}",
        *_table_lines(sparse, inputs.at),
        *_class_lines(sparse, known),
        f"translations {len(inputs.tables)}",
        *(line for entry in inputs.tables for line in _translation_lines(entry)),
        "end",
    ]
    return "\n".join(lines) + "\n"


def _table_lines(numbers: Mapping[str, float], slots: Mapping[str, int] | None = None) -> Iterator[str]:
    """Numbers by name, with the places of inputs; names of one hash are refused."""
    unit_text.HashTable.of(numbers, {})
    if bad := next((name for name in numbers if "\n" in name or "\r" in name), None):
        raise InputError(f"{bad!r}: expected a name on one line, found a line break; rename it")
    return (f"{float(value)!r} {(slots or {}).get(name, -1)} {name}" for name, value in numbers.items())


def _class_lines(sparse: Mapping[str, float], known: Known) -> Iterator[str]:
    """The names of word classes, that of unknown words first, and the classes of words by number."""
    classed = next((name for name in sparse if unit_text.template_of(name) in unit_text.CLASS_TEMPLATES), None)
    clusters = (known.plan and known.plan.clusters) or Clusters()
    if classed and not clusters.src and not clusters.tgt:
        raise InputError(f"feature {classed!r}: expected the word classes of the dev list, found none; give --plan")
    sides = {"source": clusters.src, "target": clusters.tgt} if classed else {"source": {}, "target": {}}
    names = list(dict.fromkeys([UNKNOWN_CLUSTER, *(name for side in sides.values() for name in side.values())]))
    number_of = {name: k for k, name in enumerate(names)}
    yield from (f"classes {len(names)}", *names)
    for side, words in sides.items():
        yield f"{side} {len(words)}"
        yield from _table_lines({word: float(number_of[name]) for word, name in words.items()})


def _translation_lines(entry: Entry) -> Iterator[str]:
    """t(e|f) of Model 1 by f, a tab and e."""
    table = {f"{f}\t{e}": float(p) for f, row in entry.options["table"].items() for e, p in row.items()}
    yield f"pairs {len(table)} {entry.options['cut']} {number(FLOOR)}"
    yield from _table_lines(table)


def function_weights(model: Model, columns: str) -> list[float]:
    """λ of the feature function's values."""
    return [1.0] if columns == "sum" else [*(tree.weight for tree in model.trees), *[1.0] * bool(model.weights)]


def _tree_lines(tree: Tree, inputs: _TreeInputs, to: int, is_weighted: bool) -> list[str]:
    stage = max((inputs.stage(name) for name in sorted(tree.features())), default=STATIC)
    nodes = []
    for i, name in enumerate(tree.feature):
        at = inputs.place(name) if tree.left[i] >= 0 else -1
        value, intercept = number(tree.value[i]), number(tree.intercept[i])
        nodes.append(f"{at} {tree.left[i]} {tree.right[i]} {number(tree.threshold[i])} {value} {intercept}")
    on = -1 if tree.on is None else inputs.place(tree.on)
    weight = tree.weight if is_weighted else 1.0
    return [f"{to} {stage} {on} {number(weight)} {len(nodes)}", *nodes]


def sources(prefix: str) -> dict[str, str]:
    """Texts of the files by name: the class in two files, and the header that it includes. They do not depend on the model."""
    check_prefix(prefix)
    name = class_name(prefix)
    return {
        f"{name}.h": filled("moses/moses_feature.h.in", {"NAME": name}, prefix),
        f"{name}.cpp": filled("moses/moses_feature.cpp.in", {"NAME": name}, prefix),
        f"{prefix}.h": filled("moses/moses_model.h.in", {"UNIT_TEXT": unit_text.c_text()}, prefix),
    }


def class_name(prefix: str) -> str:
    """Return the name of the class in C++: ``my_model`` is MyModelTrees."""
    return "".join(part.capitalize() for part in prefix.split("_")) + "Trees"
