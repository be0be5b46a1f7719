"""Computing templates on a list: each on its distinct keys only, then new distinct units of (unit, new features)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.arrays import F64, I32, I64, offsets, unique_rows
from ..core.errors import InputError, clip, unknown_name
from ..core.lazy import sparse
from ..core.memory import give_back
from ..core.strings import Strings
from ..lists.nbest import NBest, SparseRows, strings, take_strings
from ..lists.precision import with_derived
from ..lists.words import concat, positions, tokenise
from .clusters import learn_clusters
from .consensus import learn_posterior
from .context import Corpus, Rows
from .dense import derived_precision
from .products import Gradient, add_products, choose_products
from .registry import KINDS, Dense, Sparse, Template, described, place_in
from .resources import Clusters, Resources
from .sets import TEMPLATES
from .vocab import Entry, FeaturePlan, full_name, product_name

PartOf = Literal["unit", "occurrence", "hypothesis"]


@dataclass(frozen=True)
class _Keys:
    """The distinct rows of some context, and which one each unit [V], occurrence [R] or hypothesis [H] has."""

    rows: Rows
    row_of: I64
    row_of_occurrence: I64  # [R]; for hypotheses the rows themselves
    sent_of_occurrence: I64

    @cached_property
    def counts(self) -> I64:
        """[n] occurrences of each row."""
        return np.bincount(self.row_of_occurrence, minlength=len(self.rows))

    @cached_property
    def by_sentence(self) -> sparse.csr_matrix:
        """[S, n] which rows a sentence's lists have."""
        n, s = max(len(self.rows), 1), int(self.sent_of_occurrence.max(initial=-1)) + 1
        keys = np.unique(self.sent_of_occurrence * n + self.row_of_occurrence)
        ptr = offsets(np.bincount(keys // n, minlength=s))
        return sparse.csr_matrix((np.ones(len(keys)), keys % n, ptr), shape=(s, len(self.rows)))


@dataclass(frozen=True)
class _Part:
    """The features of one template: distinct rows, dense or sparse, and which one each unit, occurrence or hypothesis has."""

    of: PartOf
    names: tuple[str, ...]
    values: F64 | SparseRows
    row_of: I64 | I32  # 32 bits for occurrences: there are many, and a number of each for every template

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.values, SparseRows)


ROUNDED = 1e-4  # lists have four decimals
CROSSED = 6  # blocks of sentences, of which five teach the sixth
_PART_OF: dict[str, PartOf] = {
    "pairs": "unit",
    "contexts": "occurrence",
    "occurrences": "occurrence",
    "hypotheses": "hypothesis",
}


@dataclass
class _Engine:
    corpus: Corpus
    present: bool = False  # of a frozen plan's sparse features, those that occur
    _keys: dict[object, _Keys] = field(default_factory=dict)

    def keys_of(self, template: Template) -> _Keys:
        """Rows that a template sees; templates that read the same share them."""
        corpus, nb = self.corpus, self.corpus.nbest
        what, key = template.rows_are, _kind_of_rows(template)
        if key not in self._keys:
            if what == "hypotheses":
                rows, row_of = corpus.hyp_rows()
                self._keys[key] = _Keys(rows, row_of, row_of, nb.sent_of_hyp)
            elif what == "pairs":
                rows, row_of = corpus.pair_rows()
                self._keys[key] = _Keys(rows, row_of, row_of[nb.unit_idx], corpus.sent_of_occurrence)
            else:
                rows, row_of = corpus.all_rows() if what == "occurrences" else corpus.occurrence_rows(template.columns)
                self._keys[key] = _Keys(rows, row_of, row_of, corpus.sent_of_occurrence)
        return self._keys[key]

    def forget(self, template: Template, later: Iterable[Template]) -> None:
        """Let go of the rows that the template saw, unless one of those to come sees them, too."""
        if _kind_of_rows(template) not in map(_kind_of_rows, later):
            self._keys.pop(_kind_of_rows(template), None)

    def learn(self, template: Template, entry: Entry) -> Entry:
        """The entry with the options that this list teaches."""
        if _is_taught(template, entry):
            return entry
        if template.learn is None:
            lacking = [name for name in template.learnt if name not in entry.options]
            raise InputError(f"template {template.name!r}: expected option {lacking[0]!r}, found none; give it in a TOML file")
        keys = self.keys_of(template)
        own = {name: value for name, value in entry.options.items() if name in template.learn_options}
        with _blamed(template):
            taught = template.learn(keys.rows, keys.counts, **own)
        return replace(entry, options={**entry.options, **taught})

    def crossed(self, template: Template, entry: Entry) -> Dense:
        """Columns of a template that learns from references: sentences of each block of neighbours by what all others teach."""
        nbest, rows = self.corpus.nbest, self.keys_of(template).rows
        own = {name: value for name, value in entry.options.items() if name in template.learn_options}
        out: Dense = {}
        for others, block in nbest.blocks_of_sentences(max(1, min(CROSSED, len(nbest)))):
            seen, at = rows.of_sentences(others)[0], rows.of_sentences(block)
            with _blamed(template):
                assert template.learn is not None
                found = template.compute(at[0], **template.learn(seen, np.ones(len(seen), np.int64), **own))
            assert isinstance(found, dict)
            for name, column in found.items():
                out.setdefault(name, np.zeros(len(rows)))[at[1]] = column
        return out

    def compute(self, template: Template, entry: Entry, result: Dense | Sparse | None = None) -> tuple[_Part, Entry]:
        """Features of the template, unless they are given; names are learnt where the entry has none."""
        keys = self.keys_of(template)
        used = {name: value for name, value in entry.options.items() if name in template.compute_options}
        values: F64 | SparseRows
        with _blamed(template):
            result = template.compute(keys.rows, **used) if result is None else result
            if isinstance(result, Sparse):
                names, matrix = self._sparse(template, entry, keys, result)
                values = SparseRows.from_matrix(matrix)
            else:
                names, values = self._dense(template, entry, keys, result)
        row_of: I64 | I32 = keys.row_of
        of = _PART_OF[template.rows_are]
        if of == "occurrence":  # contexts with the same features must not tell units apart
            first, inverse = unique_rows(*_words(values))
            values = values.take(first) if isinstance(values, SparseRows) else values[first]
            row_of = inverse.astype(np.int32)[row_of]
        return _Part(of, names, values, row_of), replace(entry, features=names)

    def _dense(self, template: Template, entry: Entry, keys: _Keys, result: Dense) -> tuple[tuple[str, ...], F64]:
        where = f"{template.place}template {template.name!r}"
        if not isinstance(result, dict):
            raise InputError(
                f"{where}: expected a dict of columns or Sparse, found {type(result).__name__}; correct the function"
            )
        names = tuple(result) if entry.features is None else entry.features
        x = np.zeros((len(keys.rows), len(names)))
        for k, name in enumerate(names):
            if name in result:
                column = _numbers(result[name], f"{where}: {name}")
                if column.shape != (len(keys.rows),):
                    raise InputError(
                        f"{where}: {name}: expected {len(keys.rows)} values, found {column.shape}; correct the function"
                    )
                x[:, k] = column
        if not np.isfinite(x).all():
            name = names[int(np.argmin(np.isfinite(x).all(axis=0)))]
            raise InputError(f"{where}: {name}: expected finite numbers, found NaN or infinity; correct the function or the list")
        x += 0.0  # -0.0 becomes 0.0
        return names, x

    def _sparse(self, template: Template, entry: Entry, keys: _Keys, result: Sparse) -> tuple[tuple[str, ...], sparse.csr_matrix]:
        """Names with the template's before them, equal ones merged; those of the vocab, or frequent enough on this list."""
        names = full_names(template.name, result.names, entry.hash_bits).dictionary_encode()
        which = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        known = names.dictionary
        column = which[result.idx]
        if entry.features is None:
            everything = _counts_matrix(result.row, column, (len(keys.rows), len(known)))
            n_sentences = np.bincount((keys.by_sentence @ everything).indices, minlength=len(known))
            ranked = pc.array_sort_indices(known).to_numpy(zero_copy_only=False).astype(np.int64)
            kept = ranked[n_sentences[ranked] >= entry.min_count]
            place = np.full(len(known), -1)
            place[kept] = np.arange(len(kept))
            features = tuple(known.take(pa.array(kept)).to_pylist())
        elif self.present:
            found = [(entry.places[name], k) for k, name in enumerate(known.to_pylist()) if name in entry.places]
            place = np.full(len(known), -1)
            place[[k for _, k in sorted(found)]] = np.arange(len(found))
            features = tuple(entry.features[j] for j, _ in sorted(found))
        else:
            place, features = positions(known, strings(entry.features)), entry.features
        at = place[column]
        return features, _counts_matrix(result.row[at >= 0], at[at >= 0], (len(keys.rows), len(features)))


def _is_taught(template: Template, entry: Entry) -> bool:
    """Whether the entry has all that a list could teach it."""
    return all(name in entry.options for name in template.learnt)


def _kind_of_rows(template: Template) -> object:
    """Templates of one kind see the same rows."""
    return template.columns if template.rows_are == "contexts" else template.rows_are


def _numbers(column: object, where: str) -> F64:
    try:
        return np.asarray(column, np.float64)
    except (ValueError, TypeError):
        raise InputError(f"{where}: expected a column of numbers, found {clip(repr(column))}; correct the function") from None


@contextlib.contextmanager
def _blamed(template: Template) -> Iterator[None]:
    """An error in a template, which may be the user's own or have been given wrong options, as one line."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        where = place_in(template.compute.__code__.co_filename, error) if template.place else ""
        raise InputError(
            f"{where}template {template.name!r}: expected to run, found {described(error)}; check its options or function"
        ) from error


def _counts_matrix(row: I64, column: I64, shape: tuple[int, int]) -> sparse.csr_matrix:
    return sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=shape)


def full_names(template: str, names: Strings, hash_bits: int) -> Strings:
    """Names of sparse features with the template's before them, or as one of 2^bits numbers."""
    if hash_bits:
        return strings([full_name(template, name, hash_bits) for name in names.to_pylist()])
    return concat(f"{template}:", names)


def _words(values: F64 | SparseRows) -> tuple[F64, I64]:
    """Rows as 8-byte words, to be compared bit by bit."""
    if not isinstance(values, SparseRows):
        return values, np.zeros((len(values), 0), np.int64)
    words = np.stack([values.idx.astype(np.int64), values.val.view(np.int64)], axis=1)
    column = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(values.ptr * words.itemsize * 2), pa.py_buffer(words)]
    )
    codes = column.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.zeros((len(values), 0)), codes.reshape(-1, 1)


def featurize(
    nbest: NBest,
    vocab: FeaturePlan,
    *,
    registry: Mapping[str, Template] = TEMPLATES,
    resources: Resources | None = None,
    seed: int = 0,
    threads: int = 1,
    report: Callable[[str, int, int], None] | None = None,
    gradient_of: Gradient | None = None,
    left_out: Callable[[str], None] = lambda line: None,
    present: bool = False,
) -> tuple[NBest, FeaturePlan]:
    """The list with the features of the vocab's templates after its own, and the vocab with all that this list taught.

    A frozen vocab teaches nothing: lists featurized with it have the same columns in the same order. Products of features are
    chosen by the gradient that ``gradient_of`` gives (boosting.first_gradient). Of a set, templates that read what the list does
    not carry are left out, and ``left_out`` gets a line for each. With ``present``, the list is to be scored and forgotten: it
    has those sparse features of a frozen vocab that occur, in their order, and no record of how they were made.
    """
    needed = {"nbest": (nbest, NBest, "read_store(path)"), "vocab": (vocab, FeaturePlan, "FeaturePlan.of(names)")}
    for name, (value, kind, fix) in needed.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name}: expected a {kind.__name__}, found {type(value).__name__}; {fix} gives one")
    resources = resources or Resources()
    if vocab.posterior is not None:
        resources = replace(resources, posterior=vocab.posterior)
    vocab = _without_lacking(nbest, vocab, registry, resources, left_out)
    _check(nbest, vocab, registry, resources)
    if vocab.posterior is None and any("list" in registry[e.name].reads for e in vocab.entries):
        vocab = replace(vocab, posterior=learn_posterior(nbest, resources.posterior, threads=threads))
        resources = replace(resources, posterior=vocab.posterior or resources.posterior)
    clusters = vocab.clusters
    if any("clusters" in registry[e.name].reads for e in vocab.entries):
        clusters = _clusters(nbest, vocab, resources, seed)
        resources = replace(resources, clusters=clusters)
    engine = _Engine(Corpus(nbest, resources), present)
    parts: list[_Part] = []
    for k, entry in enumerate(vocab.entries):
        if report:
            report(entry.name, k, len(vocab.entries))
        template = registry[entry.name]
        is_new = entry.features is None
        values = engine.crossed(template, entry) if is_new and template.crossed and not _is_taught(template, entry) else None
        part, learnt = engine.compute(template, engine.learn(template, entry) if is_new else entry, values)
        parts.append(part)
        if not present:
            vocab = vocab.with_entry(learnt)
            engine.forget(template, (registry[e.name] for e in vocab.entries[k + 1 :]))
            give_back()
    del engine
    out = _with_parts(nbest, parts)
    products = vocab.products
    if products is None:
        products = ()
        if vocab.n_products:
            if gradient_of is None:
                raise InputError("products: expected a gradient to choose them by, found none; give gradient_of")
            products = choose_products(out, vocab.n_products, gradient_of)
    out = add_products(out, products)
    if present:
        return out, vocab
    vocab = replace(vocab, clusters=clusters or Clusters(), products=products, n_products=len(products))
    out = replace(out, meta=_meta(out, vocab, parts, registry))
    del parts
    give_back()
    return out, vocab


def occurrence_features(
    nbest: NBest, entries: Iterable[Entry], *, registry: Mapping[str, Template], resources: Resources
) -> Iterator[tuple[tuple[str, ...], F64 | SparseRows]]:
    """(names, values [R, ...]) of each template at all occurrences of units: featurize without a list around it."""
    plan = FeaturePlan(tuple(entries))
    _check(nbest, plan, registry, resources)
    engine = _Engine(Corpus(nbest, resources))
    for entry in plan.entries:
        part, _ = engine.compute(registry[entry.name], entry)
        row = part.row_of if part.of == "occurrence" else part.row_of[nbest.unit_idx]
        yield part.names, part.values.take(row) if isinstance(part.values, SparseRows) else part.values[row]


def _without_lacking(
    nbest: NBest, vocab: FeaturePlan, registry: Mapping[str, Template], resources: Resources, left_out: Callable[[str], None]
) -> FeaturePlan:
    """The plan without those members of sets that the list cannot have; at least one is left, else the error names the first."""
    lacking = {
        e.name: found
        for e in vocab.entries
        if e.optional
        and e.features is None
        and e.name in registry
        and (found := registry[e.name].lacks(nbest, resources, is_taught=_is_taught(registry[e.name], e)))
    }
    if len(lacking) == len(vocab.entries):
        return vocab
    for name, what in lacking.items():
        left_out(f"template {name!r} is left out: it needs {what}")
    return replace(vocab, entries=tuple(e for e in vocab.entries if e.name not in lacking))


def _check(nbest: NBest, vocab: FeaturePlan, registry: Mapping[str, Template], resources: Resources) -> None:
    """Raise before any work for a template that is unknown or reads what the list does not carry."""
    for entry in vocab.entries:
        if entry.name not in registry:
            error = unknown_name("template", entry.name, registry)
            raise InputError(f"{error}; a template of a user's file needs --plugin FILE.py")
        if lacking := registry[entry.name].lacks(nbest, resources, is_taught=_is_taught(registry[entry.name], entry)):
            works = [name for name, t in registry.items() if not t.lacks(nbest, resources, is_taught=False)]
            raise InputError(
                f"template {entry.name!r} needs {lacking}; templates that work on this list: {', '.join(works) or 'none'}"
            )


def _clusters(nbest: NBest, vocab: FeaturePlan, resources: Resources, seed: int) -> Clusters:
    """Frozen ones, those of files, or learnt from the list's own text."""
    if vocab.clusters is not None:
        return vocab.clusters
    given = resources.clusters
    first = take_strings(nbest.text, nbest.hyp_ptr[:-1][np.diff(nbest.hyp_ptr) > 0])  # all 200 of a list say hardly more
    texts = nbest.source, pa.concat_arrays([nbest.refs.cast(pa.large_string()), first.cast(pa.large_string())])
    src, tgt = (tokenise(column)[0] for column in texts)
    return Clusters(
        given.src or learn_clusters(src, size=vocab.cluster_size, seed=seed),
        given.tgt or learn_clusters(tgt, size=vocab.cluster_size, seed=seed),
    )


def _with_parts(nbest: NBest, parts: list[_Part]) -> NBest:
    """New distinct units: an old one with the contextual features it has in its place. Numbered by first use."""
    parts = [_without_own(nbest, part) for part in parts]
    _check_names(nbest, parts)
    in_context = [part for part in parts if part.of == "occurrence"]
    first, unit_idx = _distinct([nbest.unit_idx, *(part.row_of for part in in_context)])
    old = nbest.unit_idx[first]

    def rows_of(part: _Part) -> I64 | I32:
        return part.row_of[first if part.of == "occurrence" else old]

    unit_parts = [part for part in parts if part.of != "hypothesis"]
    dense = [part for part in unit_parts if not part.is_sparse]
    x = np.empty((len(old), len(nbest.unit_names) + sum(len(part.names) for part in dense)))
    at = len(nbest.unit_names)
    x[:, :at] = nbest.X[old]
    for part in dense:  # the only array of this size
        x[:, at : at + len(part.names)] = part.values[rows_of(part)]  # type: ignore[index]
        at += len(part.names)
    names = [name for part in parts if part.is_sparse for name in part.names]
    shift = len(nbest.sparse_names)
    unit_rows: list[_Taken] = [(nbest.units.sparse, old, 0)]
    hyp_rows: list[_Taken] = [(nbest.extra_sparse, np.arange(nbest.n_hyps), 0)]
    for part in parts:
        if isinstance(part.values, SparseRows):
            rows = rows_of(part) if part.of != "hypothesis" else part.row_of
            (hyp_rows if part.of == "hypothesis" else unit_rows).append((part.values, rows, shift))
            shift += len(part.names)
    extras = [part for part in parts if part.of == "hypothesis" and not part.is_sparse]
    units = nbest.units.take(old)
    return replace(
        nbest,
        unit_idx=unit_idx,
        units=replace(units, x=x, sparse=_side_by_side(unit_rows)),
        unit_names=(*nbest.unit_names, *(name for part in dense for name in part.names)),
        extra=np.hstack([nbest.extra, *(np.asarray(part.values) for part in extras)]),
        extra_names=(*nbest.extra_names, *(name for part in extras for name in part.names)),
        extra_sparse=_side_by_side(hyp_rows) if len(hyp_rows) > 1 else nbest.extra_sparse,
        sparse_names=pa.concat_arrays([nbest.sparse_names, strings(names)]) if names else nbest.sparse_names,
    )


def _distinct(columns: list[Any]) -> tuple[I64, I32]:
    """The first place of each distinct row of some columns [R] of 32 bits, and which of them each row is."""
    words = np.zeros((len(columns[0]), (len(columns) + 1) // 2), np.int64)
    halves = words.view(np.int32)
    for k, column in enumerate(columns):
        halves[:, k] = column
    first, inverse = unique_rows(words, np.zeros((len(words), 0), np.int64))
    return first.copy(), inverse.astype(np.int32)  # first is a view of as many numbers as there are rows


_Taken = tuple[SparseRows, Any, int]  # rows, which of them are taken, and what is added to their indices


def _side_by_side(parts: list[_Taken]) -> SparseRows:
    """Rows with the entries of all parts; indices of later parts are higher."""
    counts = [rows.ptr[1:][taken] - rows.ptr[:-1][taken] for rows, taken, _ in parts]
    ptr = offsets(np.sum(counts, axis=0))
    idx, val = np.empty(ptr[-1], np.int32), np.empty(ptr[-1])
    start = ptr[:-1].copy()
    for (rows, taken, shift), n in zip(parts, counts, strict=True):
        own = rows.take(taken)
        at = np.arange(len(own.idx)) + np.repeat(start - own.ptr[:-1], n)
        idx[at], val[at] = own.idx + np.int32(shift), own.val
        start += n
    return SparseRows(ptr, idx, val)


def _without_own(nbest: NBest, part: _Part) -> _Part:
    """The part without features that came with the list, of the same name and, but for rounding, with the same values."""
    twice = set(part.names) & set(nbest.unit_names)
    if not twice or part.of != "unit" or part.is_sparse:
        return part
    values = np.asarray(part.values)[part.row_of]
    made = {name for group in json.loads(nbest.meta.get("templates", "[]")) for name in group.get("features", ())}
    same = [
        name in twice - made and np.allclose(values[:, j], nbest.X[:, nbest.unit_names.index(name)], rtol=0, atol=ROUNDED)
        for j, name in enumerate(part.names)
    ]
    kept = np.flatnonzero(~np.array(same))
    return replace(part, names=tuple(part.names[j] for j in kept), values=np.asarray(part.values)[:, kept])


def _check_names(nbest: NBest, parts: list[_Part]) -> None:
    known = set(nbest.feature_names)
    for part in parts:
        for name in part.names:
            if name in known:
                raise InputError(
                    f"feature {name!r}: expected a list without it, found it twice; "
                    "featurize the imported list, and give plugins names of their own"
                )
            known.add(name)


def _meta(nbest: NBest, vocab: FeaturePlan, parts: list[_Part], registry: Mapping[str, Template]) -> dict[str, str]:
    """Which template made which features, and of what kind they are: exporters and ``info`` read it."""
    groups: list[dict[str, Any]] = json.loads(nbest.meta.get("templates", "[]"))
    for entry, part in zip(vocab.entries, parts, strict=True):
        template = registry[entry.name]
        own = {"prefix": f"{entry.name}:"} if part.is_sparse else {"features": list(part.names)}
        groups.append(
            {
                "template": entry.name,
                "kind": template.kind,
                "reads": list(template.reads),
                "state": list(template.state),
                **own,
            }
        )
    made = {name: group for group in groups for name in group.get("features", ())}
    by_need: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for product in vocab.products or ():  # a product can live where both its factors can; decoders' features are contextual
        factors = [made.get(name, {"kind": "contextual"}) for name in product]
        kind = max((f["kind"] for f in factors), key=KINDS.index)
        state = tuple(dict.fromkeys(what for f in factors for what in f.get("state", ())))
        by_need.setdefault((kind, state), []).append(product_name(product))
    for (kind, state), names in by_need.items():
        groups.append({"template": "products", "kind": kind, "reads": ["features"], "state": list(state), "features": names})
    known = with_derived(nbest, derived_precision(nbest, made))
    return {**known, "templates": json.dumps(groups, ensure_ascii=False), "vocab": vocab.signature}
