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
from . import Check, Context, Exporter, compiling
from .sparse_sum import checked, summed_beside, tell_of_sum
from .unit_arrays import UnitArrays, pointers
from .unit_text import NO_TEXTS, TEXT_NUMBER, HashTable, TextFeatures, c_text, text_features, text_names
from .verify import compare_scores, inputs_of

PREFIX = "boostfeat"


def write(model: Model, out: Path, context: Context) -> list[Path]:
    changed, names, texts = inputs_and_texts(model, context, "c")
    tell_of_sum(context, model, changed)
    with open_output(out) as stream:
        prefix = context.options.prefix or PREFIX
        text = header(changed, context.kinds(names), prefix=prefix, names=names, texts=texts, signature=model.signature)
        stream.write(text.encode("ascii"))
    return [out]


def verify(model: Model, written: list[Path], context: Context) -> Check:
    prefix = context.options.prefix or PREFIX
    changed, names, texts = inputs_and_texts(model, context, "c")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(read_bytes(written[0]).decode("ascii"), Path(folder), [prefix], with_texts=texts.are_any)
        score = unit_scorer(library, prefix, context.rows, texts.places(names)) if texts.are_any else scorer(library, prefix)
        return compare_scores(changed, checked(context, model, changed), score, names, tolerance=1e-6)


EXPORTER = Exporter(write, verify, uses=("prefix", "static"))


# -- the text ---------------------------------------------------------------------------------------------------------------


def header(
    model: Model,
    kinds: Mapping[str, str],
    *,
    prefix: str = PREFIX,
    names: tuple[str, ...] | None = None,
    texts: TextFeatures = NO_TEXTS,
    signature: str | None = None,
) -> str:
    """The header's text, ASCII only. ``prefix`` begins every name in it, so that headers of several models coexist."""
    check_prefix(prefix)
    names = inputs_of(model, "c") if names is None else names
    for name in (*names, *(tree.name for tree in model.trees)):
        if "\0" in name:
            raise InputError(f"--to c: expected names that a C string can hold, found {clip(name)}; rename it in the model")
    slot = {name: j for j, name in enumerate(names)}
    trees = [line for m, tree in enumerate(model.trees) for line in _tree(tree, m, slot)]
    static = [all(kinds[name] == "static" for name in tree.features()) for tree in model.trees]
    lines = [
        *_preamble(model, names, signature or model.signature),
        *_table("const char *", "feature_name", "name of x[i]", map(_string, names)),
        *_table(
            "const char *",
            "feature_kind",
            "kind of x[i]: a static feature depends on the phrase pair alone, a contextual one on its neighbours, too",
            (_string(kinds[n]) for n in names),
        ),
        *_table("const char *", "tree_name", "name of tree i", (_string(tree.name) for tree in model.trees)),
        *_table("double ", "tree_weight", "weight of tree i in the score", (number(tree.weight) for tree in model.trees)),
        *_table("int ", "tree_is_static", "1 where all features that tree i looks at are static", (str(int(s)) for s in static)),
        *([_PICK] if any(tree.n_leaves > 1 for tree in model.trees) else []),
        *trees,
        *_scores(model, names, texts),
        *(_text_scores(names, texts) if texts.are_any else []),
        "#endif",
    ]
    return "\n".join(lines).replace("$$", prefix.upper()).replace("$", prefix) + "\n"


def check_prefix(prefix: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", prefix):
        raise InputError(f"--prefix: expected small letters, digits and '_' after a letter, found {clip(prefix)}; choose another")


# In all text below, $ stands for the prefix and $$ for its capitals; names from outside have their $ escaped.
_PICK = """
/* left where test is 1, right where it is 0: no branch, since tests on features are hard to predict */
static inline int $_pick(int test, int left, int right) { return (-test & left) | ((test - 1) & right); }"""


def _preamble(model: Model, names: tuple[str, ...], signature: str) -> list[str]:
    rows = {
        "local": "x holds the features of a unit (a phrase in context). A hypothesis scores the sum over its units,\n"
        " * plus $_linear of the features that no unit carries.",
        "global": "x holds the features of a whole hypothesis.",
    }[model.level]
    wide = max(map(len, idents := identifiers(names)), default=0)
    places = [f"    {ident:<{wide}} = {j}," for j, ident in enumerate(idents)]
    return [
        "/* A boostfeat model as C99 or C++, made by 'boostfeat export --to c'. Not meant to be edited.",
        " *",
        f" * {rows}",
        " * The score is the sum of weights times features plus the sum of weights times trees, in the model file's order.",
        " * Numbers equal boostfeat's bit by bit if the compiler keeps to IEEE doubles: no -ffast-math, no x87, no fused",
        " * multiply-adds (-ffp-contract=off where the processor has them). x <= threshold goes left; NaN goes right.",
        " */",
        "#ifndef $$_SCORE_H",
        "#define $$_SCORE_H",
        "",
        "#include <stddef.h>",
        "",
        "#ifdef __clang__",
        "#pragma STDC FP_CONTRACT OFF",
        "#endif",
        "",
        f"#define $$_SIGNATURE {_string(signature)}",
        f"#define $$_LEVEL {_string(model.level)}",
        f"#define $$_N_FEATURES {len(names)}",
        f"#define $$_N_TREES {len(model.trees)}",
        *(["", "enum {  /* where each feature stands in x */", *places[:-1], places[-1].rstrip(","), "};"] if names else []),
    ]


def _table(kind: str, name: str, what: str, values: Iterable[str]) -> list[str]:
    """A function that looks a constant up: unlike an array in a header, it may stay unused without a warning."""
    rows = ",\n        ".join(values)
    if not rows:
        return []
    constant = "const char *const " if kind.endswith("*") else f"const {kind}"
    return [
        "",
        f"/* {what} */",
        f"static inline {kind}$_{name}(int i) {{",
        f"    static {constant}values[] = {{",
        f"        {rows}",
        "    };",
        "    return values[i];",
        "}",
    ]


def _tree(tree: Tree, m: int, slot: Mapping[str, int]) -> list[str]:
    """The leaf of x, then the tree's value there. Tests run from the leaves up: no nesting, whatever the depth."""
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
    return [
        "",
        f"/* {_comment(f'{tree.name}: {rule}')} */",
        f"static inline double $_tree_{m}(const double *x) {{",
        *([f"    static const double a[] = {{{numbers(tree.intercept[tree.leaves])}}};"] if tree.leaf == "affine" else []),
        f"    static const double b[] = {{{numbers(tree.value[tree.leaves])}}};",
        *(f"    const int n{i} = {picks[i]};" for i in reversed(picks) if i > 0),
        f"    const int leaf = {picks.get(0, 0)};",
        *([] if picks or x else ["    (void)x;"]),
        f"    return {value};",
        "}",
    ]


def _scores(model: Model, names: tuple[str, ...], texts: TextFeatures) -> list[str]:
    own = {name: weight for name, weight in model.weights.items() if weight and name not in texts.sparse}
    weights = [(j, own[name]) for j, name in enumerate(names) if name in own]
    return [
        "",
        "/* the linear part: weights times features */",
        "static inline double $_linear(const double *x) {",
        "    double sum = 0.0;",
        *(f"    sum += {number(weight)} * x[{j}];" for j, weight in weights),
        *([] if weights else ["    (void)x;"]),
        "    return sum;",
        "}",
        "",
        "/* the values of all trees, without their weights: out[0] ... out[$$_N_TREES - 1] */",
        "static inline void $_trees(const double *x, double *out) {",
        *(f"    out[{m}] = $_tree_{m}(x);" for m in range(len(model.trees))),
        *([] if model.trees else ["    (void)x;", "    (void)out;"]),
        "}",
        "",
        "/* the model's score of x[0] ... x[$$_N_FEATURES - 1] */",
        "static inline double $_score(const double *x) {",
        "    double sum = 0.0;",
        *(f"    sum += {number(tree.weight)} * $_tree_{m}(x);" for m, tree in enumerate(model.trees)),
        "    return $_linear(x) + sum;",
        "}",
        "",
        "/* the scores out[0] ... out[n - 1] of n rows; row i begins at x[i * stride] */",
        "static inline void $_score_many(const double *x, size_t n, size_t stride, double *out) {",
        "    size_t i;",
        "    for (i = 0; i < n; i++) out[i] = $_score(x + i * stride);",
        "}",
        "",
    ]


def _text_scores(names: tuple[str, ...], texts: TextFeatures) -> list[str]:
    """What the texts of a unit tell, and the score that needs no more than the rest of x."""
    table = HashTable.of(texts.sparse, texts.slots)
    arrays = {
        "int first": map(str, table.first.tolist()),
        "uint64_t keys": (f"UINT64_C({key})" for key in table.keys.tolist()),
        "double weights": map(number, table.weights.tolist()),
        "int slots": map(str, table.slots.tolist()),
    }
    constants = [
        line for name, values in arrays.items() for line in (f"    static const {name}[] = {{", *_wrapped(values), "    };")
    ]
    at = {name: j for j, name in enumerate(names)}
    clear = [f"    x[{j}] = 0.0;" for j in texts.slots.values()]
    return [
        "#include <stdint.h>",
        "",
        *c_text().splitlines(),
        "",
        "static inline const $_table *$_sparse_table(void) {",
        *(constants if texts.sparse else ["    static const int first[3] = {0, 0, 0};"]),
        f"    static const $_table table = {{{64 - table.bits if texts.sparse else 63}, first, "
        + ("keys, weights, slots};" if texts.sparse else "NULL, NULL, NULL};"),
        "    return &table;",
        "}",
        "",
        "/* Writes those features into x that the texts of a unit tell, and gives the sum of the weights of its sparse features,",
        f" * which are not in x: {len(texts.sparse)} have a weight. Links are sorted by source word, then target word. */",
        "static inline double $_fill(const $_unit *u, double *x) {",
        *clear,
        *(f"    x[{at[name]}] = $_text_feature({TEXT_NUMBER[name]}, u); /* {name} */" for name in sorted(texts.dense)),
        "    (void)x;",
        f"    return $_pair_weights($_sparse_table(), {texts.which}, u, x);",
        "}",
        "",
        "/* the model's score of a unit; x has the features that texts do not tell, the others are written */",
        "static inline double $_score_unit(const $_unit *u, double *x) {",
        "    const double sum = $_fill(u, x);",
        "    return $_score(x) + sum;",
        "}",
        "",
    ]


def _wrapped(values: Iterable[str]) -> list[str]:
    """Lines of an initialiser, five values each."""
    every = list(values)
    return [f"        {', '.join(every[k : k + 5])}," for k in range(0, len(every), 5)]


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


_UNITS = """
#include <stdlib.h>
void units_$(const char *texts, const int64_t *at, const int64_t *ptr, const int64_t *words, const int64_t *link_ptr,
             const int *links, int64_t n_units, int64_t start, int64_t n, double *x, size_t stride, double *out) {
    const int64_t all = ptr[2 * n_units];
    $_word *of = malloc((size_t)(all + 1) * sizeof *of);
    int64_t i;
    for (i = 0; i < all; i++) {
        of[i].at = texts + at[words[i]];
        of[i].n = (size_t)(at[words[i] + 1] - at[words[i]]);
    }
    for (i = 0; i < n; i++) {
        const int64_t u = start + i, t = n_units + u;
        const $_unit unit = {of + ptr[u], of + ptr[t], (int)(ptr[u + 1] - ptr[u]), (int)(ptr[t + 1] - ptr[t]),
                             links + 2 * link_ptr[u], (int)(link_ptr[u + 1] - link_ptr[u])};
        out[i] = $_score_unit(&unit, x + (size_t)i * stride);
    }
    free(of);
}
"""


def compiled(text: str, folder: Path, prefixes: Iterable[str], *, with_texts: bool = False) -> ctypes.CDLL:
    """A library with score_many, score and trees of headers (their text joined), built in ``folder`` by $CC, cc, gcc or clang."""
    functions = [
        f"void many_{p}(const double *x, size_t n, size_t stride, double *out) {{ {p}_score_many(x, n, stride, out); }}\n"
        f"void trees_{p}(const double *x, size_t n, size_t stride, double *out) {{\n"
        f"    size_t i;\n    for (i = 0; i < n; i++) {p}_trees(x + i * stride, out + i * {p.upper()}_N_TREES);\n}}\n"
        + (_UNITS.replace("$", p) if with_texts else "")
        for p in prefixes
    ]
    return compiling.compiled(text + "".join(functions), folder, compiling.C, target="c", what="header")


def inputs_and_texts(model: Model, context: Context, target: str) -> tuple[Model, tuple[str, ...], TextFeatures]:
    """What an export has, its inputs, and what it computes from the texts of units: what the model's templates say it can.

    Sparse weights that no text tells are one input, where they are too many.
    """
    plan = context.plan if model.level == "local" else None
    told = text_names(model, plan)[1]
    model = summed_beside(model, told)
    names = inputs_of(model, target, told)
    return model, names, text_features(model, plan, names)


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
