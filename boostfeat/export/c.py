"""A C99 header and source that score and choose as the library does, from words, units and the decoder's features.

The C text of templates is in ``model.c.in`` (t_NAME) and ``unit_text.h.in``; here it is filled with a model's numbers.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import category

import numpy as np

from ..core.arrays import F64, I64, Array
from ..core.errors import InputError, clip, counted
from ..core.files import read_bytes
from ..features import TEMPLATES, Resources
from ..features.plan import Entry, FeaturePlan, product_name
from ..features.templates.helpers import UNKNOWN_CLUSTER
from ..features.templates.place import FLOOR, frequent_sources
from ..features.templates.word import is_foreign
from ..lists.nbest import NBest
from ..model.decision import CUT, Decision, ways_to_decide
from ..model.model import Model
from . import compiling
from .compiling import UnitArrays, pointers
from .python import used_plan
from .target import FOR_DECODER, Check, Context, Exporter, filled, whole_model
from .unit_text import DENSE_TEMPLATES, PAIR_TEMPLATES, TEXT, HashTable, c_text
from .verify import checked_choices, feature_rows

PREFIX = "boostfeat"
# Templates by the kind of their C text. Those of columns have a place in x for each; others are found by names in the hash table.
COLUMNS = (
    *("punctuation", "copies", "word", "frequency", "position", "jump", "orientation", "neighbour_sizes", "around", "place"),
    *("repeat", "source_words", "hypothesis"),
)
NAMES = (
    *("deleted_words", "inserted_words", "deleted_clusters", "inserted_clusters", "cluster_signature"),
    *("w", "ws", "bi", "lo", "ro", "co", "cx", "cc", "cu", "cb"),
)
TRANSLATED = ("model1", "model1_bitext", "model1_inverse", "morpheme_weight")  # by tables of word translations
SPECIAL = ("lm_per_word", "previous", "following", *TRANSLATED, "expected_length")
OF_HYPOTHESIS = ("hypothesis", "model1_inverse", "expected_length")
NO_ROW = "{NULL, NULL, NULL}"  # C knows no empty arrays
C_TEMPLATES = (*PAIR_TEMPLATES, *DENSE_TEMPLATES, *COLUMNS, *NAMES, *SPECIAL)


def write(model: Model, out: Path, context: Context) -> list[Path]:
    files = header_and_source(out)
    for path, text in zip(files, CSource.of(model, context).texts(files[0].name), strict=True):
        path.write_bytes(text.encode("ascii"))
    return [out, next(path for path in files if path != out)]


def header_and_source(out: Path) -> tuple[Path, Path]:
    """Return the two files, of which the user has named one."""
    if out.suffix not in (".h", ".c"):
        raise InputError(f"-o {out.name}: --to c writes a header and a source; give a name that ends in .h or .c")
    return (out.with_suffix(".h"), out) if out.suffix == ".c" else (out, out.with_suffix(".c"))


@dataclass
class CSource:
    """The source of a model: its features by their place in x, and arrays of numbers as text."""

    model: Model
    plan: FeaturePlan | None
    prefix: str
    inputs: tuple[str, ...]  # the decoder's features
    place: dict[str, int] = field(default_factory=dict)  # of all features in x
    data: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, model: Model, context: Context) -> CSource:
        plan, prefix = used_plan(model, context.plan, context.registry), context.options.prefix or PREFIX
        check_prefix(prefix)
        for name, hash_bits in ((e.name, e.hash_bits) for e in (plan.entries if plan else ())):
            if context.registry[name].kind == "list":
                why = "looks at whole lists, which C does not have; use --to python, or learn with --for-decoder"
                raise InputError(f"--to c: template {name!r} {why}")
            if name not in C_TEMPLATES:
                raise InputError(f"--to c: template {name!r} has no C text; use --to python, or learn without it")
            if hash_bits:
                raise InputError(f"--to c: template {name!r} has hashed names; learn without --hash")
        made = plan.features if plan else set()
        weighed = {name for name, weight in model.weights.items() if weight}
        used = weighed.union(*(tree.features() for tree in model.trees))
        read = {name for e in (plan.entries if plan else ()) for name in e.options.get("features", ())}  # of decoders
        used |= read | {factor for pair in (plan and plan.products) or () for factor in pair}
        inputs = tuple(sorted(used - made))
        if bad := next((name for name in inputs if "\0" in name), None):
            raise InputError(f"--to c: a C string cannot hold the name {clip(bad)}; rename it in the model")
        names_only = {name for e in (plan.entries if plan else ()) if by_name(e) for name in e.features or ()}
        tested = set[str]().union(*(tree.features() for tree in model.trees))
        ours = sorted((used & made) - (names_only - tested))
        return cls(model, plan, prefix, inputs, {name: j for j, name in enumerate((*inputs, *ours))})

    def texts(self, header: str) -> tuple[str, str]:
        """Return the header and the source."""
        model, plan = self.model, self.plan
        entries = plan.entries if plan else ()
        rows = self._rows([e for e in entries if e.name not in OF_HYPOTHESIS])
        hyp_rows = self._rows([e for e in entries if e.name in OF_HYPOTHESIS])
        self._tables(entries)
        self._trees()
        self._decision()
        pairs = [pair for pair in (plan and plan.products) or () if product_name(pair) in self.place]
        products = [[*map(self.place.__getitem__, pair), self.place[product_name(pair)]] for pair in pairs]
        self._array("int", "product", [j for row in products for j in row], inner="[3]")
        named = {name for e in entries if by_name(e) for name in e.features or ()}  # their weights are in the hash table
        self._array("double", "weight", [0.0 if name in named else self.model.weights.get(name, 0.0) for name in self.place])
        why = self.beyond_search
        parts = {
            "ABOUT": f"{model.signature}\n * templates: {' '.join(e.name for e in entries) or 'none'}",
            "SIGNATURE": c_string(model.signature),
            "N_FEATURES": len(self.inputs),
            "PLACES": places(self.inputs),
            "RANKS": ways_to_decide(model.config) or "the scores",
            "SEARCH": f"\n/* No $_unit_score for decoders: {why}. */\n" if why else filled("search.h.in", {}),
        }
        body = {
            "HEADER": header,
            "UNIT_TEXT": c_text().partition("} $_unit;\n\n")[2],  # without its types, which are declared here
            "DATA": "\n".join(self.data),
            "N_X": max(1, len(self.place)),
            "N_TREES": len(model.trees),
            "N_PRODUCTS": len(products),
            "IS_GLOBAL": int(model.level == "global"),
            "SIGNS": signs(),
            "UNIT_ROWS": rows or NO_ROW,
            "HYP_ROWS": hyp_rows or NO_ROW,
            "N_UNIT_TEMPLATES": rows.count("{t_"),
            "N_HYP_TEMPLATES": hyp_rows.count("{t_"),
            "FEATURE_NAMES": ", ".join(map(c_string, self.inputs)) or "NULL",
            "SEARCH": "" if why else filled("search.c.in", {}),
        }
        return filled("model.h.in", parts, self.prefix), filled("model.c.in", body, self.prefix)

    @property
    def beyond_search(self) -> str:
        """Say what of the model a decoder cannot have while it searches; empty: it can have all scores."""
        of_text = [e.name for e in (self.plan.entries if self.plan else ()) if TEMPLATES[e.name].beyond_search]
        if of_text:
            return f"templates see whole hypotheses: {', '.join(of_text)}"
        return "trees see whole hypotheses" if self.model.level == "global" and self.model.trees else ""

    def _array(self, kind: str, name: str, values: Iterable[Any], inner: str = "") -> None:
        """Add a constant array; an empty one has one number, since C knows no empty ones."""
        every = [number(v) if kind == "double" else str(v) for v in values] or ["0"]
        lines = ",\n    ".join(", ".join(every[k : k + 8]) for k in range(0, len(every), 8))
        size = f"[{max(1, len(every) // 3)}]{inner}" if inner else "[]"
        self.data.append(f"static const {kind} {name}{size} = {{\n    {lines}\n}};")

    def _table(self, name: str, values: Mapping[str, float], slots: Mapping[str, int] | None = None) -> None:
        """Add numbers by a hash of their names."""
        table = HashTable.of(values, slots or {})
        keys = [f"UINT64_C({key})" for key in table.keys.tolist()]
        first = table.first.tolist() if len(values) else [0, 0, 0]
        weights, own = table.weights.tolist(), table.slots.tolist()
        every = ("int", "first", first), ("uint64_t", "keys", keys), ("double", "weights", weights), ("int", "slots", own)
        for kind, what, column in every:
            self._array(kind, f"{name}_{what}", column)
        columns = ", ".join(f"{name}_{what}" for _, what, _ in every)
        self.data.append(f"static const $_table $_{name} = {{{64 - table.bits if values else 63}, {columns}}};")

    def _rows(self, entries: Sequence[Entry]) -> str:
        """Return the rows of the table of templates, whose arrays are added."""
        rows, pairs = [], [e for e in entries if e.name in PAIR_TEMPLATES]
        if pairs:
            which = sum(1 << PAIR_TEMPLATES.index(e.name) for e in pairs)
            rows.append(self._row("pair", [which]))
        text = [name for e in entries if e.name in DENSE_TEMPLATES for name in e.features or () if name in self.place]
        if text:
            rows.append(self._row("text", [len(text), *(n for name in text for n in (TEXT[name], self.place[name]))]))
        for entry in entries:
            if entry.name in SPECIAL:
                rows.append(self._row(entry.name, *self._special(entry)))
            elif entry.name in COLUMNS:
                rows.append(self._row(entry.name, [self.place.get(name, -1) for name in column_names(entry)]))
            elif entry.name in NAMES:
                rows.append(self._row(entry.name, []))
        return ",\n    ".join(rows)

    def _row(self, name: str, at: Sequence[int], numbers: Sequence[float] = ()) -> str:
        if at:
            self._array("int", f"at_{name}", at)
        if numbers:
            self._array("double", f"number_{name}", numbers)
        return f"{{t_{name}, {f'at_{name}' if at else 'NULL'}, {f'number_{name}' if numbers else 'NULL'}}}"

    def _lm_per_word(self, entry: Entry) -> tuple[list[int], list[float]]:
        at, numbers = [len(entry.options["features"])], []
        for name in entry.options["features"]:
            thresholds = entry.options["thresholds"][name]
            at += [self.place[name], len(thresholds), self.place.get(f"lm.word.{name}", -1)]
            at += [self.place.get(f"lm.word.{name}<{q}", -1) for q in thresholds]
            numbers += thresholds.values()
        return at, numbers

    def _special(self, entry: Entry) -> tuple[list[int], list[float]]:
        """Return the places and numbers of a template that has more than its columns."""
        if entry.name == "lm_per_word":
            return self._lm_per_word(entry)
        if entry.name in ("previous", "following"):
            return self._neighbour(entry, "prev" if entry.name == "previous" else "next")
        at = [self.place.get(name, -1) for name in column_names(entry)]
        if entry.name == "expected_length":
            return at, entry.options["shared"]
        return [*at, entry.options["cut"]], [FLOOR]  # Model 1

    def _neighbour(self, entry: Entry, side: str) -> tuple[list[int], list[float]]:
        names, numbers = entry.options["features"], list[float]()
        at = [self.place.get(f"{side}.none", -1), len(names)]
        for name in names:
            bins = entry.options["quantiles"].get(name)
            at += [self.place[name], self.place.get(f"{side}.{name}", -1), len(bins["cuts"]) if bins else -1]
            numbers += [*bins["cuts"], *bins["means"]] if bins else []
        return at, numbers

    def _tables(self, entries: Sequence[Entry]) -> None:
        options = {e.name: e.options for e in entries}
        names = {name for e in entries if by_name(e) for name in e.features or ()}
        used = {name: float(self.model.weights.get(name, 0.0)) for name in sorted(names)}
        self._table("weights", {n: w for n, w in used.items() if w or n in self.place}, self.place)
        for name, which in (*((name, "table") for name in TRANSLATED), ("morpheme_weight", "inverse")):
            rows = options.get(name, {}).get(which, {})
            pairs = {f"{given}\t{word}": float(p) for given, row in rows.items() for word, p in row.items()}
            self._table(f"{name}_{which}", pairs)
        self._table("expected_stems", options.get("expected_length", {}).get("of_stems", {}))
        counts = options.get("frequency", {}).get("frequencies", {})
        self._table("frequencies", {w: float(n) for w, n in counts.items()}, {w: rank for rank, w in enumerate(counts)})
        frequent = options.get("cu", {}).get("pairs", [])
        self._table("context_pairs", dict.fromkeys(frequent, 1.0))
        self._table("context_words", dict.fromkeys(sorted(frequent_sources(frozenset(frequent))), 1.0))
        classes = (self.plan and self.plan.clusters) or None
        sides = {"src": classes.src if classes else {}, "tgt": classes.tgt if classes else {}}
        found = list(dict.fromkeys([UNKNOWN_CLUSTER, *(name for side in sides.values() for name in side.values())]))
        for side, words in sides.items():
            self._table(f"{side}_classes", {word: float(found.index(name)) for word, name in words.items()})
        self.data.append(f"static const char *const $_class_name[] = {{{', '.join(map(c_string, found))}}};")

    def _trees(self) -> None:
        trees = self.model.trees
        roots = np.cumsum([0, *(len(t.feature) for t in trees)])[:-1].tolist()
        self._array("int", "tree_root", roots)
        self._array("int", "tree_on", [-1 if t.on is None else self.place[t.on] for t in trees])
        self._array("double", "tree_weight", [float(t.weight) for t in trees])
        nodes = [(t, i) for t in trees for i in range(len(t.feature))]
        self._array("int", "node_feature", [self.place[t.feature[i]] if t.left[i] >= 0 else 0 for t, i in nodes])
        pairs = [(root, side) for root, t in zip(roots, trees, strict=True) for side in zip(t.left, t.right, strict=True)]
        self._array("int", "node_child", [root + int(k) if k >= 0 else -1 for root, side in pairs for k in side])
        for name in ("threshold", "value", "intercept"):
            self._array("double", f"node_{name}", [float(getattr(t, name)[i]) for t, i in nodes])

    def _decision(self) -> None:
        decision = Decision.of(self.model.config)
        length = decision.length
        self._table("length_stems", dict(length.stems) if length else {})
        self._array("double", "length_shared", length.shared if length else (0.0, 0.0, 0.0))
        self.data.append(f"static const double length_weight = {number(length.weight if length else 0.0)};")
        self.data.append(f"static const double risk_scale = {number(decision.scale or 0.0)};")
        flags = {"HAS_LENGTH": length is not None, "HAS_RISK": decision.scale is not None, "LENGTH_CUT": CUT}
        self.data.append(f"enum {{ {', '.join(f'{name} = {int(value)}' for name, value in flags.items())} }};")


def by_name(entry: Entry) -> bool:
    """Tell whether C finds the features of a template by their names."""
    return entry.name in (*PAIR_TEMPLATES, *NAMES)


def column_names(entry: Entry) -> tuple[str, ...]:
    """Return all columns that a template has, in its order."""
    return TEMPLATES[entry.name].names(entry.options, Resources()) or ()


@cache
def signs() -> str:
    """Return the signs of Unicode by what templates ask of them, as ranges."""
    kinds: dict[str, Callable[[str], bool]] = {
        "PUNCTUATION": lambda sign: category(sign)[0] in "PS",
        "CAPITAL": lambda sign: category(sign) == "Lu",
        "NUMBER": lambda sign: category(sign)[0] == "N",
        "FOREIGN": is_foreign,
        "ALPHABETIC": str.isalpha,
        "UPPER": str.isupper,
        "DIGIT": str.isdigit,
    }
    every = [chr(k) for k in range(0x110000)]
    out = []
    for name, holds in kinds.items():
        edges = np.flatnonzero(np.diff([0, *map(int, map(holds, every)), 0])).reshape(-1, 2)
        ranges = [f"{{{a}, {b - 1}}}" for a, b in edges.tolist()]
        lines = ",\n    ".join(", ".join(ranges[k : k + 8]) for k in range(0, len(ranges), 8))
        out.append(f"static const uint32_t {name}[][2] = {{\n    {lines}\n}};\n")
    return "".join(out)


# -- text of C ------------------------------------------------------------------------------------------------------------


def check_prefix(prefix: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", prefix):
        raise InputError(f"--prefix: expected small letters, digits and '_' after a letter, found {clip(prefix)}; choose another")


def number(x: float) -> str:
    text = f"{x:.17g}"
    return text if any(c in text for c in ".e") else text + ".0"


def c_string(text: str) -> str:
    """Return a C string literal of the UTF-8 bytes: octal where not plain, always three digits; ? would make trigraphs."""
    plain = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\?$')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode("utf-8", "surrogatepass")) + '"'


def places(names: tuple[str, ...]) -> str:
    """Return an enum of the places of features in x: distinct names, short enough for every compiler."""
    out: dict[str, None] = {}
    for j, name in enumerate(names):
        ident = "$$_X_" + re.sub("[^A-Za-z0-9]", "_", name)[:40]
        while ident in out:
            ident += f"_{j}"
        out[ident] = None
    lines = ",\n".join(f"    {ident} = {j}" for j, ident in enumerate(out))
    return f"\nenum {{\n{lines}\n}};\n" if names else ""


# -- verification -----------------------------------------------------------------------------------------------------------


def verify(model: Model, written: list[Path], context: Context) -> Check:
    """Compile the source, and score and choose by it on every list."""
    source = CSource.of(model, context)
    header, text = header_and_source(written[0])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / header.name).write_bytes(read_bytes(header))
        code = read_bytes(text).decode() + filled("run_lists.c.in", {}, source.prefix)
        library = compiling.compiled(code, place, compiling.C, target="c", what="source", flags=("-lm",))
        scores, choices = run_lists(library, context.rows, source.inputs)
    return checked_choices(model, context.rows, scores, choices.tolist())


def run_lists(library: ctypes.CDLL, nbest: NBest, names: Sequence[str]) -> tuple[F64, I64]:
    """Score hypotheses [H] and choose [S] by a compiled source and its driver."""
    texts = UnitArrays.of(nbest.units, nbest.source, nbest.text)
    units, nb = nbest.units, nbest
    sizes = [len(nb), nb.n_hyps, nb.n_units]
    columns: list[Array] = [nb.hyp_ptr, nb.unit_ptr, nb.unit_idx, nb.src_start, units.src_len, nb.tgt_start, units.tgt_len]
    columns = [np.ascontiguousarray(column, np.int64) for column in columns]
    features = [np.ascontiguousarray(feature_rows(nb, names, of_units=of_units)) for of_units in (True, False)]
    scores, choices = np.zeros(nb.n_hyps), np.zeros(len(nb), np.int64)
    library.run.restype = ctypes.c_int
    if library.run(*texts.pointers, *map(ctypes.c_int64, sizes), *pointers(*columns, *features, scores, choices)):
        raise InputError("--to c: expected memory for the lists, found too little; verify on a smaller list")
    return scores, choices


def carries(model: Model, context: Context) -> str:
    source = CSource.of(model, context)
    gives = f"{whole_model(model, source.plan)}; the decoder gives {counted(len(source.inputs), 'feature')}"
    if why := source.beyond_search:
        return f"{gives}; no {source.prefix}_unit_score for search, because {why} ({FOR_DECODER})"
    ways = ways_to_decide(model.config)
    return f"{gives}; search has the score alone, where in the model {ways} ({FOR_DECODER})" if ways else gives


EXPORTER = Exporter(write, verify, carries, uses=("prefix", "plugin"), whole=True)
