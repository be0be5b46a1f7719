"""JSON lines: a header, then a sentence a line. The interchange format; nothing in a container is lost in it.

    {"boostfeat": "nbest/1", "unit_features": ["tm0", "lm"]}
    {"id": 0, "source": "das haus", "refs": ["the house"], "hyps": [
      {"text": "the house", "score": -4.4, "features": {"extra": 1.0},
       "units": [{"src": [0, 1], "tgt": [0, 1], "x": [-0.3, -1.2], "sparse": {"pt:das|the": 1}}, ...]}]}

Spans are half-open token offsets. A unit may also have ``src_text`` and ``tgt_text`` (else the words of its spans), ``align``
and ``score``. ``x`` is dense and ``sparse`` is sparse, whatever the number of units that give it. The header may also list
``hyp_features`` (those of ``features`` that are dense; else the frequent ones are), ``sparse_features`` (their order) and
``meta`` (how the list came about). Keys of other names travel along
with sentences and hypotheses; those of the header and of units do not, and the reader says so.

A hypothesis may have ``"quality": {"comet": 0.83, "edits": [3, 20]}``: how good it is, a number or a numerator and a
denominator; if any has a column, all have. The header says which are better when lower: ``"lower_is_better": ["edits"]``;
``quality_units`` are the largest numbers of whole columns, where this file is a part.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from math import isfinite, isnan, nan
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from scipy import sparse

from ..core.arrays import F64, offsets
from ..core.errors import FormatError, InputError, counted, refuse_newer
from ..core.files import Block, decode, read_blocks, read_lines
from ..core.strict_json import find_nul
from ..core.strings import Strings
from ..core.text import normal, split_words
from ..lists.build import Builder, HypRecord, ReadOptions, UnitRecord, with_stats
from ..lists.nbest import NBest, Notes, Qualities, SparseRows, largest_ratio, strings
from ..lists.quality import check_name
from .columns import BLOCK_BYTES
from .fields import check_links
from .json_objects import most_objects
from .jsonl_fast import FastReader
from .jsonl_faults import HEADER, SENTENCE, check_keys, distinct, explain

VERSION = "nbest/1"
_NO_FEATURES = msgspec.Raw(b"{}")
Span = tuple[int, int]


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    boostfeat: str
    unit_features: list[str] = []
    hyp_features: list[str] | None = None
    sparse_features: list[str] = []
    lower_is_better: list[str] = []
    quality_units: dict[str, float] = {}
    meta: dict[str, str] = {}


class _Unit(msgspec.Struct, forbid_unknown_fields=True):
    src: Span | None = None
    tgt: Span | None = None
    x: list[float] | None = None
    sparse: msgspec.Raw = _NO_FEATURES  # decoded later, where a name given twice can be seen
    src_text: str | None = None
    tgt_text: str | None = None
    align: str = ""
    score: float | None = None


class _Hyp(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    score: float | None = None
    features: msgspec.Raw = _NO_FEATURES
    units: list[msgspec.Raw] = []  # decoded once for each distinct text in a list
    quality: dict[str, float | tuple[float, float]] = {}


class _Sentence(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    source: str = ""
    refs: list[str] = []
    hyps: list[_Hyp] = []


# The same with any other keys beside
class _OpenHeader(_Header, forbid_unknown_fields=False): ...


class _OpenUnit(_Unit, forbid_unknown_fields=False): ...


class _OpenHyp(_Hyp, forbid_unknown_fields=False): ...


class _OpenSentence(_Sentence, forbid_unknown_fields=False):
    hyps: list[_OpenHyp] = []  # type: ignore[assignment]


class _Keys:
    """Decodes, and takes down the keys that have no place. Most lines have none: those are decoded once."""

    def __init__(self) -> None:
        self.unknown: dict[str, None] = {}
        self.sentences: list[str] = []  # other keys of each sentence, in JSON
        self.hyps: list[str] = []

    def header(self, line: str) -> _Header:
        return self._decode(_header, _open_header, line, _Header, "header.")

    def sentence(self, line: str, size: int | None) -> _Sentence:
        """A sentence, whose other keys, and those of its first hypotheses, are kept."""
        try:
            value: _Sentence = _sentence.decode(line)
            parsed: dict[str, Any] = {}
        except msgspec.ValidationError:
            value, parsed = _open_sentence.decode(line), msgspec.json.decode(line)
        self.sentences.append(self._others(parsed, _Sentence))
        hyps = value.hyps[:size]
        self.hyps += [self._others(hyp, _Hyp) for hyp in parsed["hyps"][:size]] if parsed.get("hyps") else [""] * len(hyps)
        return value

    def notes(self) -> Notes:
        return Notes(*(strings(own if any(own) else []) for own in (self.sentences, self.hyps)))

    def _others(self, found: dict[str, Any], kind: type[msgspec.Struct]) -> str:
        own = {key: value for key, value in found.items() if key not in kind.__struct_fields__}
        return msgspec.json.encode(own).decode() if own else ""

    def unit(self, raw: msgspec.Raw) -> _Unit:
        return self._decode(_unit, _open_unit, raw, _Unit, "hyps.units.")

    def _decode(self, strict: Any, lenient: Any, raw: Any, kind: type[msgspec.Struct], at: str) -> Any:
        try:
            return strict.decode(raw)
        except msgspec.ValidationError:
            value = lenient.decode(raw)  # raises again where anything else is wrong
        self.unknown |= {at + key: None for key in msgspec.json.decode(raw) if key not in kind.__struct_fields__}
        return value

    def tell(self, path: str | Path, warn: Callable[[str], None]) -> None:
        if self.unknown:
            names = [repr(name) for name in self.unknown]
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            warn(f"{path}: keys that a list has no place for are not kept: {', '.join(names[:5])}{more}")


_header, _open_header = msgspec.json.Decoder(_Header), msgspec.json.Decoder(_OpenHeader)
_sentence, _open_sentence = msgspec.json.Decoder(_Sentence), msgspec.json.Decoder(_OpenSentence)
_unit, _open_unit = msgspec.json.Decoder(_Unit), msgspec.json.Decoder(_OpenUnit)
_features = msgspec.json.Decoder(dict[str, float])


def sniff(head: str) -> bool:
    """By the keys of its objects; a model and a vocab have the first of these too, and no lists."""
    is_list = '"nbest/' in head or '"hyps"' in head
    return is_list and most_objects(head, lambda keys: "boostfeat" in keys or "hyps" in keys)


# ---------------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------------


def read(path: str | Path, options: ReadOptions) -> NBest:
    return _read_fast(path, options) or _read_plain(path, options)


def _read_fast(path: str | Path, options: ReadOptions) -> NBest | None:
    """A large file by the kernel; None where it does not understand all of it."""
    if not os.path.isfile(path) or options.source is not None or (options.size is not None and options.size < 1):
        return None
    spare: list[bytearray] = []
    blocks = read_blocks(path, BLOCK_BYTES, spare=spare)
    head = list(islice(blocks, 1))
    if not head:
        return None
    lines = head[0].text().split(b"\n", 2)
    try:
        header, names = _header.decode(lines[0]), _sentence.decode(lines[1]).hyps[0].features
        if header.lower_is_better or header.quality_units:
            return None
        extra_names = _features.decode(names) if header.hyp_features is None else header.hyp_features
    except (msgspec.MsgspecError, RecursionError, IndexError, UnicodeDecodeError):
        return None
    _read_header(_checked(lines[0].decode(), f"{path}:1"), f"{path}:1", _Keys())
    fast = FastReader(header.unit_features, list(extra_names), options)
    at = len(lines[0]) + 1
    first = Block(head[0].data[at:], head[0].end - at)
    for block, part in fast.parse(chain([first], head[1:], blocks)):
        if not part or (fast.take(part) < block.end and not part.is_last):
            fast.has_stopped = True
            return None
        if part.is_last:
            break
        spare.append(block.data)
    nbest = replace(_as_declared(fast.finish(), header), meta=header.meta)
    return with_stats(nbest, threads=options.threads) if len(nbest) and np.diff(nbest.ref_ptr).all() else nbest


def _read_plain(path: str | Path, options: ReadOptions) -> NBest:
    lists: _Lists | None = None
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if not line or line.isspace():
            continue
        if lists is None:
            lists = _Lists(_checked(line, where), where, options)
        elif not lists.add(_checked(line, where), where):
            break
    if lists is None:
        raise FormatError(str(path), expected="JSON lines", found="an empty file", fix="check what wrote it")
    lists.keys.tell(path, options.warn)
    return lists.finish(str(path))


def stream(lines: Iterable[bytes], options: ReadOptions, *, name: str = "stdin") -> Iterator[NBest]:
    """A container of one sentence for every line after the header, as soon as the line is there."""
    header: str | None = None
    answered = False
    for number, raw in enumerate(lines, 1):
        where = f"{name}:{number}"
        line = _checked(decode(raw, where), where).strip()
        if not line:
            continue
        if header is None:
            header = line
            _Lists(header, where, options)  # raises for one that is none
            continue
        one = _Lists(header, f"{name}:1", options)
        one.add(line, where)
        one.keys.tell(where, options.warn)
        yield one.finish(where)
        answered = True
    if not answered:
        found = "no lines" if header is None else "no sentences"
        raise FormatError(name, expected="a header and a list a line", found=found, fix="check what wrote it")


def _checked(line: str, where: str) -> str:
    if (nul := find_nul(line)) >= 0:
        fix = "looks like a binary file: repair or remove this line"
        raise FormatError(where, expected="text", found=f"\\u0000 at column {nul + 1}", fix=fix)
    return line


class _Lists:
    """Sentences after a header, in the order of their lines."""

    def __init__(self, header: str, where: str, options: ReadOptions) -> None:
        self.options, self.keys = options, _Keys()
        self.header = _read_header(header, where, self.keys)
        self._builder = Builder(options, declared_dense=tuple(self.header.unit_features))
        self._ids: list[int] = []
        self._sources: list[str] = []
        self._refs: list[list[str]] = []
        self._counts: list[int] = []
        self._qualities = _Qualities()

    def add(self, line: str, where: str) -> bool:
        """Append a sentence; False for one that is not wanted, like those after it."""
        size = self.options.size
        try:
            sentence = self.keys.sentence(line, size)
            check_keys(line, where)
            records = _hyp_records(sentence, size, self.header.unit_features, where, self.keys, line)
        except (msgspec.MsgspecError, RecursionError) as error:
            explain(error, line, where, SENTENCE)
        if not (self._ids[-1] if self._ids else -1) < sentence.id < 2**62:
            raise FormatError(
                f"{where}: id",
                expected="a whole number above that of the line before",
                found=str(sentence.id),
                fix="sort sentences by id",
            )
        if self.options.first is not None and sentence.id >= self.options.first:
            return False
        self._ids.append(sentence.id)
        self._sources.append(normal(sentence.source))
        self._refs.append([normal(ref) for ref in sentence.refs])
        self._counts.append(len(records))
        for record in records:
            self._builder.add(record)
        self._qualities.add(sentence.hyps[:size], where)
        return True

    def finish(self, name: str) -> NBest:
        refs = self._refs
        nbest = replace(
            _as_declared(self._builder.finish(), self.header),
            ids=np.array(self._ids, np.int64),
            hyp_ptr=offsets(np.array(self._counts, np.int64)),
            source=strings(self._sources),
            ref_ptr=offsets(np.array([len(r) for r in refs], np.int64)),
            refs=strings([ref for own in refs for ref in own]),
            quality=self._qualities.finish(self.header, name),
            notes=self.keys.notes(),
            meta=self.header.meta,
        )
        return with_stats(nbest, threads=self.options.threads) if refs and all(refs) else nbest


class _Qualities:
    """Quality columns as they come, a row a hypothesis."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] | None = None
        self.values = array("d")  # numerator and denominator of each column

    def add(self, hyps: Sequence[_Hyp], where: str) -> None:
        for h, hyp in enumerate(hyps):
            if self.names is None:
                self.names = tuple(hyp.quality)
                for name in self.names:
                    check_name(name)
            if hyp.quality.keys() != set(self.names):
                raise FormatError(
                    f"{where}: hyps[{h}].quality",
                    expected=", ".join(self.names) or "none, as before",
                    found=", ".join(hyp.quality) or "none",
                    fix="give every hypothesis the same columns",
                )
            for name in self.names:
                value = hyp.quality[name]
                pair = (value, 1.0) if isinstance(value, float) else value
                if pair[1] < 0 or not (isfinite(pair[0]) and isfinite(pair[1])):
                    raise FormatError(
                        f"{where}: hyps[{h}].quality.{name}",
                        expected="a finite number, or one with a denominator from 0",
                        found=str(value),
                        fix="repair or remove this line",
                    )
                self.values.extend(pair)

    def finish(self, header: _Header, path: str) -> Qualities:
        names = self.names or ()
        for name in (*header.lower_is_better, *header.quality_units):
            if self.names is not None and name not in names:
                raise FormatError(
                    f"{path}: header",
                    expected="names of quality columns",
                    found=repr(name),
                    fix="no hypothesis has it: remove it",
                )
        out, both = Qualities(), np.array(self.values).reshape(-1, max(1, len(names)), 2)
        for k, name in enumerate(names):
            if not isfinite(largest_ratio(both[:, k, 0], both[:, k, 1])):
                fix = "repair the column"
                raise FormatError(f"{path}: quality.{name}", expected="ratios that are finite", found="an infinite one", fix=fix)
        for k, name in enumerate(names):
            out = out.with_column(name, both[:, k, 0], both[:, k, 1], lower=name in header.lower_is_better)
        unit = tuple(max(u, header.quality_units.get(name, 1.0)) for name, u in zip(out.names, out.unit, strict=True))
        return replace(out, unit=unit)


def _read_header(line: str, where: str, keys: _Keys) -> _Header:
    try:
        header = keys.header(line)
        check_keys(line, where)
    except (msgspec.MsgspecError, RecursionError) as error:
        explain(error, line, where, HEADER)
    refuse_newer(where, header.boostfeat, "nbest", 1)
    if header.boostfeat != VERSION:
        raise FormatError(
            f"{where}: boostfeat", expected=repr(VERSION), found=repr(header.boostfeat), fix="is this an n-best list?"
        )
    for key in ("unit_features", "hyp_features", "sparse_features"):
        names = getattr(header, key) or []
        if len(set(names)) != len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise FormatError(
                f"{where}: {key}", expected="distinct feature names", found=f"{twice!r} twice", fix="rename one of them"
            )
    dense = {*header.unit_features, *(header.hyp_features or ())}
    if both := next((name for name in header.sparse_features or () if name in dense), None):
        raise FormatError(
            f"{where}: sparse_features", expected="names that are not dense as well", found=repr(both), fix="leave it out there"
        )
    return header


def _hyp_records(sentence: _Sentence, size: int | None, names: list[str], where: str, keys: _Keys, line: str) -> list[HypRecord]:
    source = split_words(normal(sentence.source))
    known: dict[bytes, UnitRecord] = {}  # hypotheses of a list share most of their units
    records = []
    for h, hyp in enumerate(sentence.hyps[:size]):
        at = f"{where}: hyps[{h}]"
        hyp_text = normal(hyp.text)
        n_words = len(split_words(hyp_text)) if hyp.units else 0
        units = []
        for u, raw in enumerate(hyp.units):
            unit = known.get(text := bytes(raw))
            if unit is None:
                unit = known[text] = _unit_record(keys.unit(raw), source, names, f"{at}.units[{u}]")
            if unit.tgt and unit.tgt[1] > n_words:
                raise _bad_span(f"{at}.units[{u}].tgt", unit.tgt, f" of {counted(n_words, 'word')}")
            units.append(unit)
        features = _feature_map(hyp.features, f"{at}.features")
        records.append(HypRecord(sentence.id, hyp_text, where, nan if hyp.score is None else hyp.score, features, units))
    distinct(list(known), line, where)
    return records


def _unit_record(unit: _Unit, source: list[str], names: list[str], at: str) -> UnitRecord:
    values = [0.0] * len(names) if unit.x is None else unit.x
    if len(values) != len(names):
        raise FormatError(
            f"{at}.x",
            expected=f"{counted(len(names), 'value')}, as unit_features has",
            found=str(len(values)),
            fix="repair or remove this line",
        )
    features = dict(zip(names, values, strict=True))
    for name, value in _feature_map(unit.sparse, f"{at}.sparse").items():
        if name in features:
            raise FormatError(
                f"{at}.sparse", expected="distinct feature names", found=f"{name!r}, which x holds", fix="rename it"
            )
        features[name] = value
    for key, span in (("src", unit.src), ("tgt", unit.tgt)):
        if span and not 0 <= span[0] <= span[1] < 2**31:
            raise _bad_span(f"{at}.{key}", span)
    if source and unit.src and unit.src[1] > len(source):
        raise _bad_span(f"{at}.src", unit.src, f" of {counted(len(source), 'word')}")
    src_text = unit.src_text
    if src_text is None and unit.src and source:
        src_text = " ".join(source[slice(*unit.src)])
    n_src, n_tgt = (span[1] - span[0] if span else -1 for span in (unit.src, unit.tgt))
    check_links(unit.align, f"{at}.align", n_src=n_src, n_tgt=n_tgt)
    score = nan if unit.score is None else unit.score
    return UnitRecord(features, unit.src, unit.tgt, src_text, unit.tgt_text, unit.align, score)


def _bad_span(where: str, span: Span, of: str = "") -> FormatError:
    return FormatError(where, expected=f"a span [start, end){of}", found=str(list(span)), fix="repair or remove this line")


def _feature_map(raw: msgspec.Raw, where: str) -> dict[str, float]:
    """Names and numbers; parsers keep the last of two equal names, so count the quotes: two a name, more if it has some."""
    features = _features.decode(raw)
    text = bytes(raw)
    if text.count(b'"') != 2 * len(features):
        seen: set[str] = set()
        for name, _ in json.loads(text, object_pairs_hook=list):
            if name in seen:
                raise FormatError(where, expected="distinct feature names", found=f"{name!r} twice", fix="rename one of them")
            seen.add(name)
    return features


def _as_declared(nbest: NBest, header: _Header) -> NBest:
    """Features dense or sparse as the header says, where the builder went by how many rows give them.

    A name is dense for units and hypotheses alike or for neither; where the header names only one of them, that one decides.
    """
    found = nbest.sparse_names.to_pylist()
    by_units = {*nbest.unit_names, *(found[j] for j in np.unique(nbest.units.sparse.idx))}
    by_hyps = {*nbest.extra_names, *(found[j] for j in np.unique(nbest.extra_sparse.idx))}
    unit_names, extra_names = tuple(header.unit_features), tuple(header.hyp_features or ())
    if header.hyp_features is None:
        extra_names = tuple(n for n in nbest.extra_names if n not in by_units and n not in header.sparse_features)
    unit_names = tuple(dict.fromkeys([*unit_names, *(n for n in extra_names if n in by_units)]))
    extra_names = tuple(dict.fromkeys([*extra_names, *(n for n in unit_names if n in by_hyps)]))
    demoted = [
        n for names, kept in ((nbest.unit_names, unit_names), (nbest.extra_names, extra_names)) for n in names if n not in kept
    ]
    sparse_names = tuple(dict.fromkeys([*header.sparse_features, *found, *demoted]))
    if (unit_names, extra_names, list(sparse_names)) == (nbest.unit_names, nbest.extra_names, found):
        return nbest
    x, unit_sparse = _rearranged(nbest.units.x, nbest.unit_names, nbest.units.sparse, found, unit_names, sparse_names)
    extra, extra_sparse = _rearranged(nbest.extra, nbest.extra_names, nbest.extra_sparse, found, extra_names, sparse_names)
    used = np.zeros(len(sparse_names), bool)
    used[: len(header.sparse_features)] = True
    used[unit_sparse.idx] = True
    used[extra_sparse.idx] = True
    number = np.cumsum(used, dtype=np.int32) - 1
    return replace(
        nbest,
        units=replace(nbest.units, x=x, sparse=replace(unit_sparse, idx=number[unit_sparse.idx])),
        unit_names=unit_names,
        extra=extra,
        extra_names=extra_names,
        extra_sparse=replace(extra_sparse, idx=number[extra_sparse.idx]),
        sparse_names=strings([name for name, keep in zip(sparse_names, used, strict=True) if keep]),
    )


def _rearranged(
    dense: F64, names: Sequence[str], rows: SparseRows, sparse_names: list[str], to_dense: Sequence[str], to_sparse: Sequence[str]
) -> tuple[F64, SparseRows]:
    """Dense and sparse columns moved by name; a name in ``to_dense`` goes there, not among the sparse ones."""
    goes = {name: len(to_dense) + j for j, name in enumerate(to_sparse)} | {name: j for j, name in enumerate(to_dense)}
    columns = [goes[name] for name in (*names, *sparse_names)]
    move = sparse.csr_matrix(
        (np.ones(len(columns)), (np.arange(len(columns)), columns)), shape=(len(columns), len(to_dense) + len(to_sparse))
    )
    moved = sparse.csc_matrix(sparse.hstack([sparse.csr_matrix(dense), rows.matrix(len(sparse_names))], format="csr") @ move)
    return moved[:, : len(to_dense)].toarray(), SparseRows.from_matrix(moved[:, len(to_dense) :])


# ---------------------------------------------------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------------------------------------------------


def write(nbest: NBest, stream: IO[bytes]) -> None:
    """Everything in the container; numbers are the shortest that read back exactly."""
    encode = msgspec.json.Encoder().encode
    sparse_names = nbest.sparse_names.to_pylist()
    header: dict[str, Any] = {"boostfeat": VERSION, "unit_features": nbest.unit_names, "hyp_features": nbest.extra_names}
    if sparse_names:
        header["sparse_features"] = sparse_names
    qualities = nbest.quality
    if any(qualities.lower):
        header["lower_is_better"] = [name for name, low in zip(qualities.names, qualities.lower, strict=True) if low]
    if any(unit > 1 for unit in qualities.unit):
        header["quality_units"] = {name: unit for name, unit in zip(qualities.names, qualities.unit, strict=True) if unit > 1}
    if nbest.meta:
        header["meta"] = nbest.meta
    stream.write(encode(header) + b"\n")
    units = _UnitWriter(nbest, sparse_names)
    texts, sources, refs = nbest.text.to_pylist(), nbest.source.to_pylist(), nbest.refs.to_pylist()
    of_sentences, of_hyps = (_objects(notes) for notes in (nbest.notes.sentences, nbest.notes.hyps))
    for s, ident in enumerate(nbest.ids.tolist()):
        source = split_words(sources[s])
        hyps = []
        for h in range(nbest.hyp_ptr[s], nbest.hyp_ptr[s + 1]):
            hyp: dict[str, Any] = {**(of_hyps[h] if of_hyps else {}), "text": texts[h]}
            if not isnan(nbest.score[h]):
                hyp["score"] = float(nbest.score[h])
            features = dict(zip(nbest.extra_names, nbest.extra[h].tolist(), strict=True)) | _row(
                nbest.extra_sparse, h, sparse_names
            )
            if features:
                hyp["features"] = features
            if nbest.unit_ptr[h] < nbest.unit_ptr[h + 1]:
                hyp["units"] = units.of_hyp(h, source, split_words(texts[h]))
            if qualities.names:
                pairs = zip(qualities.names, qualities.value[h].tolist(), qualities.weight[h].tolist(), strict=True)
                hyp["quality"] = {name: value if weight == 1 else (value, weight) for name, value, weight in pairs}
            hyps.append(hyp)
        own_refs = refs[nbest.ref_ptr[s] : nbest.ref_ptr[s + 1]]
        others = of_sentences[s] if of_sentences else {}
        stream.write(encode({**others, "id": ident, "source": sources[s], "refs": own_refs, "hyps": hyps}) + b"\n")


def _objects(notes: Strings) -> list[dict[str, Any]]:
    """Notes as they are written beside our own keys."""
    try:
        return [msgspec.json.decode(note, type=dict[str, Any]) if note else {} for note in notes.to_pylist()]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"notes of the list: expected objects in JSON, found others ({error}); import it again") from None


class _UnitWriter:
    """Units as JSON; what does not depend on the place is encoded once for each distinct unit."""

    def __init__(self, nbest: NBest, sparse_names: list[str]) -> None:
        self.nbest, self.sparse_names = nbest, sparse_names
        self.encode = msgspec.json.Encoder().encode
        self.encoded: dict[int, bytes] = {}
        self.src, self.tgt, self.align = (_pylist(c) for c in (nbest.units.src, nbest.units.tgt, nbest.units.align))

    def of_hyp(self, h: int, source: list[str], target: list[str]) -> list[msgspec.Raw]:
        nb, out = self.nbest, []
        at = slice(nb.unit_ptr[h], nb.unit_ptr[h + 1])
        idx = nb.unit_idx[at]
        columns = (idx, nb.src_start[at], nb.units.src_len[idx], nb.tgt_start[at], nb.units.tgt_len[idx])
        for u, s, n_src, t, n_tgt in zip(*(column.tolist() for column in columns), strict=True):
            place: dict[str, Any] = {}
            for key, words, start, length, text in (
                ("src", source, s, n_src, self.src[u]),
                ("tgt", target, t, n_tgt, self.tgt[u]),
            ):
                known = start >= 0 and length >= 0
                if known:
                    place[key] = (start, start + length)
                if text != (" ".join(words[start : start + length]) if known else ""):
                    place[f"{key}_text"] = text
            head, rest = self.encode(place)[1:-1], self._unit(u)
            out.append(msgspec.Raw(b"{" + head + (b"," if head and rest else b"") + rest + b"}"))
        return out

    def _unit(self, u: int) -> bytes:
        if u not in self.encoded:
            units = self.nbest.units
            out: dict[str, Any] = {}
            if self.nbest.unit_names:
                out["x"] = units.x[u].tolist()
            if row := _row(units.sparse, u, self.sparse_names):
                out["sparse"] = row
            if self.align[u]:
                out["align"] = self.align[u]
            if not isnan(units.score[u]):
                out["score"] = float(units.score[u])
            self.encoded[u] = self.encode(out)[1:-1]
        return self.encoded[u]


def _row(rows: SparseRows, r: int, names: list[str]) -> dict[str, float]:
    own = slice(rows.ptr[r], rows.ptr[r + 1])
    return {names[j]: value for j, value in zip(rows.idx[own].tolist(), rows.val[own].tolist(), strict=True)}


def _pylist(column: Strings) -> list[str]:
    texts: list[str] = column.to_pylist()
    return texts
