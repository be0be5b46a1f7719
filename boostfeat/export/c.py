"""A C99 header that scores as the library does: no allocation, no dependency, also C++.

The numbers are the same, bit by bit, where the compiler keeps IEEE arithmetic in doubles: sums run in the model file's order, and
17 digits name a double exactly (hexadecimal literals would, too, but C++ before 17 has none).
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from ..core.arrays import F64
from ..core.errors import InputError, clip
from ..core.files import open_output, read_bytes
from ..lists.nbest import NBest
from ..model.model import Model
from ..trees.tree import Tree
from . import compiling
from .compiling import UnitArrays, pointers
from .inputs import Inputs
from .target import Check, Context, Exporter
from .unit_text import TEXT_NUMBER, HashTable, TextFeatures, c_text

PREFIX = "boostfeat"


def write(model: Model, out: Path, context: Context) -> list[Path]:
    inputs = Inputs.beside_texts(model, context, "c")
    text = header(inputs, context.kinds(inputs.names), prefix=context.options.prefix or PREFIX)
    with open_output(out) as stream:
        stream.write(text.encode("ascii"))
    return [out]


def verify(model: Model, written: list[Path], context: Context) -> Check:
    prefix = context.options.prefix or PREFIX
    inputs = Inputs.beside_texts(model, context, "c")
    texts = inputs.texts
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(read_bytes(written[0]).decode("ascii"), Path(folder), [prefix], with_texts=texts.are_any)
        places = texts.places(inputs.names)
        score = unit_scorer(library, prefix, context.rows, places) if texts.are_any else scorer(library, prefix)
        return inputs.compare(context, score)


def carries(model: Model, context: Context) -> str:
    return Inputs.beside_texts(model, context, "c").describe()


EXPORTER = Exporter(write, verify, carries, uses=("prefix", "static"))


# -- the text ---------------------------------------------------------------------------------------------------------------

# In all text below, $ stands for the prefix and $$ for its capitals; names from outside have their $ escaped.
_ROWS = {
    "local": "x holds the features of a unit (a phrase in context). A hypothesis scores the sum over its units,\n"
    " * plus $_linear of the features that no unit carries.",
    "global": "x holds the features of a whole hypothesis.",
}
_KIND = "kind of x[i]: a static feature depends on the phrase pair alone, a contextual one on its neighbours, too"
_PICK = """
/* left where test is 1, right where it is 0: no branch, since tests on features are hard to predict */
static inline int $_pick(int test, int left, int right) { return (-test & left) | ((test - 1) & right); }
"""


def header(inputs: Inputs, kinds: Mapping[str, str], *, prefix: str = PREFIX) -> str:
    """Return the header's text, ASCII only. ``prefix`` begins every name in it, so that headers of several models coexist."""
    check_prefix(prefix)
    model, names = inputs.model, inputs.names
    for name in (*names, *(tree.name for tree in model.trees)):
        if "\0" in name:
            raise InputError(f"--to c: a C string cannot hold the name {clip(name)}; rename it in the model")
    slot = {name: j for j, name in enumerate(names)}
    static = [all(kinds[name] == "static" for name in tree.features()) for tree in model.trees]
    own = {name: weight for name, weight in model.weights.items() if weight and name not in inputs.texts.sparse}
    tables = [
        _table("const char *", "feature_name", "name of x[i]", map(_string, names)),
        _table("const char *", "feature_kind", _KIND, (_string(kinds[n]) for n in names)),
        _table("const char *", "tree_name", "name of tree i", (_string(tree.name) for tree in model.trees)),
        _table("double ", "tree_weight", "weight of tree i in the score", (number(tree.weight) for tree in model.trees)),
        _table("int ", "tree_is_static", "1 where all features that tree i looks at are static", (str(int(s)) for s in static)),
    ]
    linear = [f"    sum += {number(own[name])} * x[{j}];" for j, name in enumerate(names) if name in own]
    values = [f"    out[{m}] = $_tree_{m}(x);" for m in range(len(model.trees))]
    parts = {
        "ROWS": _ROWS[model.level],
        "SIGNATURE": _string(inputs.whole.signature),
        "LEVEL": _string(model.level),
        "N_FEATURES": len(names),
        "N_TREES": len(model.trees),
        "PLACES": _places(names),
        "TABLES": "".join(tables),
        "PICK": _PICK if any(tree.n_leaves > 1 for tree in model.trees) else "",
        "TREES": "".join(_tree(tree, m, slot) for m, tree in enumerate(model.trees)),
        "LINEAR": "\n".join(linear or ["    (void)x;"]),
        "VALUES": "\n".join(values or ["    (void)x;", "    (void)out;"]),
        "SUM": "".join(f"    sum += {number(tree.weight)} * $_tree_{m}(x);\n" for m, tree in enumerate(model.trees)),
        "TEXTS": _text_scores(names, inputs.texts) if inputs.texts.are_any else "",
    }
    return prefixed(filled("model.h.in", parts), prefix)


def filled(template: str, parts: Mapping[str, object]) -> str:
    """Return the text of a file of this package with its @NAMES@ replaced; the last newline is no part of it."""
    text = Path(__file__).with_name(template).read_text()
    return re.sub("@([A-Z_]+)@", lambda m: str(parts[m[1]]), text)


def prefixed(text: str, prefix: str) -> str:
    return text.replace("$$", prefix.upper()).replace("$", prefix)


def check_prefix(prefix: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", prefix):
        raise InputError(f"--prefix: expected small letters, digits and '_' after a letter, found {clip(prefix)}; choose another")


def _places(names: tuple[str, ...]) -> str:
    wide = max(map(len, idents := identifiers(names)), default=0)
    places = ",\n".join(f"    {ident:<{wide}} = {j}" for j, ident in enumerate(idents))
    return f"\nenum {{  /* where each feature stands in x */\n{places}\n}};\n" if names else ""


def _table(kind: str, name: str, what: str, values: Iterable[str]) -> str:
    """Return a function that looks a constant up: unlike an array in a header, it may stay unused without a warning."""
    rows = ",\n        ".join(values)
    constant = "const char *const " if kind.endswith("*") else f"const {kind}"
    if not rows:
        return ""
    return f"""
/* {what} */
static inline {kind}$_{name}(int i) {{
    static {constant}values[] = {{
        {rows}
    }};
    return values[i];
}}
"""


def _tree(tree: Tree, m: int, slot: Mapping[str, int]) -> str:
    """Return a function: the leaf of x, then the tree's value there. Tests run from the leaves up, without nesting."""
    rank = {int(node): k for k, node in enumerate(tree.leaves)}
    at = [str(rank[i]) if i in rank else f"n{i}" for i in range(len(tree.feature))]
    picks = {
        i: f"$_pick(x[{slot[tree.feature[i]]}] <= {number(tree.threshold[i])}, {at[tree.left[i]]}, {at[tree.right[i]]})"
        for i in range(len(at))
        if i not in rank
    }
    x = f"x[{slot[tree.on]}]" if tree.on is not None else ""
    value = {"constant": "b[leaf]", "linear": f"b[leaf] * {x}", "affine": f"a[leaf] + b[leaf] * {x}"}[tree.leaf]
    rule = tree.rules() if tree.n_leaves <= 2 else f"{tree.n_leaves} {tree.leaf} leaves"
    affine = f"    static const double a[] = {{{numbers(tree.intercept[tree.leaves])}}};\n" if tree.leaf == "affine" else ""
    unused = "" if picks or x else "    (void)x;\n"
    inner = "".join(f"    const int n{i} = {picks[i]};\n" for i in reversed(picks) if i > 0)
    return f"""
/* {_comment(f"{tree.name}: {rule}")} */
static inline double $_tree_{m}(const double *x) {{
{affine}    static const double b[] = {{{numbers(tree.value[tree.leaves])}}};
{inner}    const int leaf = {picks.get(0, 0)};
{unused}    return {value};
}}
"""


def _text_scores(names: tuple[str, ...], texts: TextFeatures) -> str:
    """Return what the texts of a unit tell, and the score that needs no more than the rest of x."""
    table = HashTable.of(texts.sparse, texts.slots)
    arrays = {
        "int first": map(str, table.first.tolist()),
        "uint64_t keys": (f"UINT64_C({key})" for key in table.keys.tolist()),
        "double weights": map(number, table.weights.tolist()),
        "int slots": map(str, table.slots.tolist()),
    }
    constants = "\n".join(f"    static const {name}[] = {{\n{_wrapped(values)}\n    }};" for name, values in arrays.items())
    at = {name: j for j, name in enumerate(names)}
    clear = "".join(f"    x[{j}] = 0.0;\n" for j in texts.slots.values())
    dense = (f"    x[{at[name]}] = $_text_feature({TEXT_NUMBER[name]}, u); /* {name} */\n" for name in sorted(texts.dense))
    parts = {
        "UNIT_TEXT": c_text().rstrip("\n"),
        "CONSTANTS": constants if texts.sparse else "    static const int first[3] = {0, 0, 0};",
        "SHIFT": 64 - table.bits if texts.sparse else 63,
        "COLUMNS": "keys, weights, slots" if texts.sparse else "NULL, NULL, NULL",
        "N_SPARSE": len(texts.sparse),
        "FILL": clear + "".join(dense),
        "WHICH": texts.which,
    }
    return filled("texts.h.in", parts)


def _wrapped(values: Iterable[str]) -> str:
    """Return the lines of an initialiser, five values each."""
    every = list(values)
    return "\n".join(f"        {', '.join(every[k : k + 5])}," for k in range(0, len(every), 5))


def number(x: float) -> str:
    text = f"{x:.17g}"
    return text if any(c in text for c in ".e") else text + ".0"


def numbers(values: Iterable[float]) -> str:
    return ", ".join(map(number, values))


def _string(text: str) -> str:
    """A C string literal of the UTF-8 bytes: octal where not plain, always three digits; ? would make trigraphs."""
    plain = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\?$')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode("utf-8", "surrogatepass")) + '"'


def _comment(text: str) -> str:
    """Text that neither ends a comment nor begins one, on one ASCII line without the signs that C treats specially."""
    return re.sub(r"[^ -~]|[\\?$]|(?<=/)\*|(?<=\*)/", "_", text)


def identifiers(names: tuple[str, ...]) -> list[str]:
    """A name for each feature's place in x: distinct, and short enough for every compiler."""
    out: dict[str, None] = {}
    for j, name in enumerate(names):
        ident = "$$_X_" + re.sub("[^A-Za-z0-9]", "_", name)[:40]
        while ident in out:
            ident += f"_{j}"
        out[ident] = None
    return list(out)


# -- verification -----------------------------------------------------------------------------------------------------------


def compiled(text: str, folder: Path, prefixes: Iterable[str], *, with_texts: bool = False) -> ctypes.CDLL:
    """Return a library with score_many and trees of headers (their text joined), built in ``folder`` by $CC, cc, gcc or clang."""
    functions = filled("verify.c.in", {}) + (filled("verify_texts.c.in", {}) if with_texts else "")
    code = text + "".join(prefixed(functions, p) for p in prefixes)
    return compiling.compiled(code, folder, compiling.C, target="c", what="header")


def unit_scorer(library: ctypes.CDLL, prefix: str, nbest: NBest, written: list[int]) -> Callable[[F64, int], F64]:
    """score_unit of a compiled header; the columns of x that it writes are spoilt before."""
    texts = UnitArrays.of(nbest.units)
    call = library[f"units_{prefix}"]
    call.restype = None

    def score(x: F64, start: int) -> F64:
        x, out = np.array(x, np.float64, order="C"), np.empty(len(x))
        x[:, written] = 1e9
        sizes = map(ctypes.c_int64, (nbest.n_units, start, len(x)))
        call(*texts.pointers, *sizes, *pointers(x), ctypes.c_size_t(x.shape[1]), *pointers(out))
        return out

    return score


def scorer(library: ctypes.CDLL, prefix: str) -> Callable[[F64, int], F64]:
    """score_many of a compiled header as a function of x [n, d]."""
    many = library[f"many_{prefix}"]
    many.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    many.restype = None

    def score(x: F64, start: int = 0) -> F64:
        x, out = np.ascontiguousarray(x, np.float64), np.empty(len(x))
        many(x.ctypes.data, len(x), x.shape[1], out.ctypes.data)
        return out

    return score
