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
``quality_units`` say how far columns spread within lists, where this file is a part.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain
from math import isfinite, isnan, nan
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Raw, UnsetType

from ..core.arrays import I64, offsets
from ..core.errors import FormatError, InputError, counted, refuse_newer, repeated
from ..core.files import decode, read_lines
from ..core.strict_json import in_words, parsed
from ..core.text import Strings, normal, split_words
from ..lists.absent import is_absent
from ..lists.build import Builder, ListRecord, ReadOptions, UnitRecord, with_stats
from ..lists.merging import at_columns, names_given
from ..lists.nbest import NBest, Notes, Qualities, SparseRows, strings
from ..lists.quality import check_name
from .fields import check_links, twice

VERSION = "nbest/1"
FIX = "repair or remove this line"
HEADER_FIX = f'the first line is a header, such as {{"boostfeat": "{VERSION}"}}; put it before the lists'
Place = Annotated[int, Meta(ge=0, lt=1 << 31)]
Quality = dict[str, float | tuple[float, Annotated[float, Meta(ge=0)]]]
T = TypeVar("T")


class _Header(msgspec.Struct):
    boostfeat: str
    unit_features: list[str] = []
    hyp_features: list[str] | None = None
    sparse_features: list[str] | UnsetType = UNSET
    lower_is_better: list[str] | UnsetType = UNSET
    quality_units: dict[str, Annotated[float, Meta(gt=0)]] | UnsetType = UNSET
    meta: dict[str, str] | UnsetType = UNSET


class _JsonUnit(msgspec.Struct, gc=False):
    src: tuple[Place, Place] | UnsetType | None = UNSET
    src_text: str | UnsetType | None = UNSET
    tgt: tuple[Place, Place] | UnsetType | None = UNSET
    tgt_text: str | UnsetType | None = UNSET
    x: list[float] | UnsetType | None = UNSET
    sparse: dict[str, float] | UnsetType = UNSET
    align: str | UnsetType = UNSET
    score: float | UnsetType | None = UNSET


class _JsonHyp(msgspec.Struct, gc=False):
    text: str
    score: float | UnsetType | None = UNSET
    features: dict[str, float] | UnsetType = UNSET
    units: list[Raw] | UnsetType = UNSET  # decoded once for each distinct text in a list
    quality: Quality | UnsetType = UNSET


class _JsonList(msgspec.Struct):
    id: Annotated[int, Meta(ge=0, lt=1 << 62)]
    source: str | UnsetType = UNSET
    refs: list[str] | UnsetType = UNSET
    hyps: list[_JsonHyp] | UnsetType = UNSET


_header, _list, _unit = msgspec.json.Decoder(_Header), msgspec.json.Decoder(_JsonList), msgspec.json.Decoder(_JsonUnit)
_units, _encode = msgspec.json.Decoder(list[_JsonUnit]), msgspec.json.Encoder().encode


# ---------------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------------


def read(path: str | Path, options: ReadOptions) -> NBest:
    lists: _ListReader | None = None
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if not line or line.isspace():
            continue
        if lists is None:
            lists = _ListReader(line, where, options)
        elif not lists.add(line, where):
            break
    if lists is None:
        raise FormatError(str(path), expected="JSON lines", found="an empty file", fix="check what wrote it")
    return lists.finish(str(path))


def stream(lines: Iterable[bytes], options: ReadOptions, *, name: str = "stdin") -> Iterator[NBest]:
    """Yield a container of one sentence for every line after the header, as soon as the line is there."""
    header: str | None = None
    answered = False
    for number, raw in enumerate(lines, 1):
        where = f"{name}:{number}"
        line = decode(raw, where).strip()
        if not line:
            continue
        one = _ListReader(header or line, where if header is None else f"{name}:1", options)
        if header is None:
            header = line
            continue
        one.add(line, where)
        yield one.finish(where)
        answered = True
    if not answered:
        found = "no lines" if header is None else "no sentences"
        raise FormatError(name, expected="a header and a list a line", found=found, fix="check what wrote it")


class _ListReader:
    """Reads sentences after a header, in the order of their lines."""

    def __init__(self, header: str, where: str, options: ReadOptions) -> None:
        self.options = options
        self._unknown: dict[str, None] = {}  # keys of the header and of units that have no place here
        self.header = self._read_header(header, where)
        self._builder = Builder(options, declared_dense=tuple(self.header.unit_features))
        self._links: set[tuple[str, int, int]] = set()  # alignments that are fine, with the words of both sides
        self._last = -1
        self._sources: list[str] = []
        self._refs: list[list[str]] = []
        self._notes: tuple[list[str], list[str]] = ([], [])  # other keys of each sentence and hypothesis, in JSON
        self._columns: tuple[str, ...] | None = None  # names of the qualities
        self._quality = array("d")  # numerator and denominator of each, hypothesis by hypothesis

    def _read_header(self, line: str, where: str) -> _Header:
        header, _ = _decoded(_header, line, where, fix=HEADER_FIX)
        self._note_unknown(parsed(line, where, fix=FIX), _Header, "header.")
        refuse_newer(where, header.boostfeat, "nbest", 1)
        if header.boostfeat != VERSION:
            found, fix = repr(header.boostfeat), "is this an n-best list?"
            raise FormatError(f"{where}: boostfeat", expected=repr(VERSION), found=found, fix=fix)
        dense = {*header.unit_features, *(header.hyp_features or ())}
        declared = (header.unit_features, header.hyp_features or [], [*dense, *(header.sparse_features or ())])
        for key, names in zip(_Header.__struct_fields__[1:], declared, strict=False):
            if name := repeated(names):
                raise twice(name, f"{where}: {key}")
        return header

    def add(self, line: str, where: str) -> bool:
        """Append a sentence; False for one that is not wanted, like those after it."""
        sentence, keys = _decoded(_list, line, where)
        if sentence.id <= self._last:
            expected = f"a whole number above {self._last}, that of the line before"
            raise FormatError(f"{where}: id", expected=expected, found=str(sentence.id), fix="sort sentences by id")
        if self.options.first is not None and sentence.id >= self.options.first:
            return False
        hyps = (sentence.hyps or [])[: self.options.size]
        self._last = sentence.id
        self._builder.sentence(sentence.id, where)
        self._add_hyps(sentence, hyps, where)
        self._sources.append(normal(sentence.source or ""))
        self._refs.append([normal(ref) for ref in sentence.refs or ()])
        self._add_qualities(hyps, where)
        self._notes[0].append(_others(keys, _JsonList))
        others = [_others(hyp, _JsonHyp) for hyp in keys.get("hyps", ())]
        self._notes[1].extend(others[: len(hyps)] or [""] * len(hyps))
        return True

    def _add_hyps(self, sentence: _JsonList, hyps: Sequence[_JsonHyp], where: str) -> None:
        """Append hypotheses, whose units are looked at once a distinct text (and once for each phrase that they stand for)."""
        source = split_words(normal(sentence.source or ""))
        seen: dict[bytes, tuple[UnitRecord, str | None, int, int, dict[str, int]]] = {}
        units, unit_idx, counts = list[UnitRecord](), array("i"), array("q")
        texts, rows = [normal(hyp.text) for hyp in hyps], [[*map(bytes, hyp.units or ())] for hyp in hyps]
        decoded = self._decoded_units(rows, where)
        for h, hyp in enumerate(hyps):
            words = split_words(texts[h]) if hyp.units else []
            n_words = len(words)
            for raw in rows[h]:
                if raw not in seen:
                    unit = self._unit(decoded[raw], source, f"{where}: hyps[{h}].units[{rows[h].index(raw)}]")
                    seen[raw] = unit, unit.tgt_text, *(unit.tgt or (0, 0)), {}
                unit, text, begin, end, numbers = seen[raw]
                if end > n_words:
                    place = f"{where}: hyps[{h}].units[{rows[h].index(raw)}].tgt"
                    expected = f"a span [start, end) of {counted(n_words, 'word')}"
                    raise FormatError(place, expected=expected, found=str([begin, end]), fix=FIX)
                phrase = " ".join(words[begin:end]) if text is None else text
                if phrase not in numbers:
                    numbers[phrase] = len(units)
                    units.append(unit if text is phrase else UnitRecord(*unit[:4], phrase, *unit[5:]))
                unit_idx.append(numbers[phrase])
            counts.append(len(rows[h]))
        idx, ptr = np.array(unit_idx, np.int32), offsets(np.array(counts, np.int64))
        start = np.array([unit.tgt[0] if unit.tgt else -1 for unit in units], np.int32)
        score = np.array([hyp.score if isinstance(hyp.score, float) else nan for hyp in hyps], np.float64)
        features = [hyp.features or {} for hyp in hyps]
        self._builder.add_list(ListRecord(sentence.id, where, texts, score, units, ptr, idx, start[idx], features))

    def _decoded_units(self, rows: Sequence[Sequence[bytes]], where: str) -> dict[bytes, _JsonUnit]:
        """Return the distinct units of hypotheses by their texts: in one go, or one by one where something is wrong with any."""
        texts = [*dict.fromkeys(chain.from_iterable(rows))]
        whole = f"[{b','.join(texts).decode()}]"
        with suppress(msgspec.MsgspecError):
            if _is_all(whole, units := _units.decode(whole)):
                return dict(zip(texts, units, strict=True))
        out: dict[bytes, _JsonUnit] = {}
        for h, u, raw in ((h, u, raw) for h, row in enumerate(rows) for u, raw in enumerate(row) if raw not in out):
            out[raw], keys = _decoded(_unit, raw.decode(), f"{where}: hyps[{h}].units[{u}]")
            self._note_unknown(keys, _JsonUnit, "hyps.units.")
        return out

    def _unit(self, unit: _JsonUnit, source: list[str], where: str) -> UnitRecord:
        """Return a unit; without a text of its own (None) it stands for the words of its target span."""
        names, src, tgt = self.header.unit_features, unit.src or None, unit.tgt or None
        values = unit.x if isinstance(unit.x, list) else [0.0] * len(names)
        if len(values) != len(names):
            expected = f"{counted(len(names), 'value')}, as unit_features has"
            raise FormatError(f"{where}.x", expected=expected, found=str(len(values)), fix=FIX)
        features = dict(zip(names, values, strict=True))
        if unit.sparse:
            if both := next((name for name in unit.sparse if name in features), None):
                raise twice(both, f"{where}.sparse")  # x has it
            features |= unit.sparse
        if (src and src[0] > src[1]) or (tgt and tgt[0] > tgt[1]):
            key, span = ("src", src) if src and src[0] > src[1] else ("tgt", tgt)
            raise FormatError(f"{where}.{key}", expected="a span [start, end)", found=str([*(span or ())]), fix=FIX)
        if source and src and src[1] > len(source):
            expected = f"a span [start, end) of {counted(len(source), 'word')}"
            raise FormatError(f"{where}.src", expected=expected, found=str([*src]), fix=FIX)
        src_text = unit.src_text if isinstance(unit.src_text, str) else " ".join(source[slice(*src)]) if src else ""
        tgt_text = unit.tgt_text if isinstance(unit.tgt_text, str) else None
        n_src, n_tgt = src[1] - src[0] if src else -1, tgt[1] - tgt[0] if tgt else -1
        if unit.align and (unit.align, n_src, n_tgt) not in self._links:
            check_links(unit.align, f"{where}.align", n_src=n_src, n_tgt=n_tgt)
            self._links.add((unit.align, n_src, n_tgt))
        score = unit.score if isinstance(unit.score, float) else nan
        return UnitRecord(features, src, tgt, src_text, tgt_text, unit.align or "", score)

    def _add_qualities(self, hyps: Sequence[_JsonHyp], where: str) -> None:
        for h, hyp in enumerate(hyps):
            quality = hyp.quality or {}
            if self._columns is None:
                self._columns = tuple(quality)
                for name in quality:
                    check_name(name)
            if quality.keys() != set(self._columns):
                expected, found = (", ".join(names) or "none" for names in (self._columns, quality))
                fix = "give every hypothesis the same columns"
                raise FormatError(f"{where}: hyps[{h}].quality", expected=expected, found=found, fix=fix)
            for name in self._columns:
                self._quality.extend(value if isinstance(value := quality[name], tuple) else (value, 1.0))

    def _note_unknown(self, keys: dict[str, Any], kind: type[msgspec.Struct], at: str) -> None:
        self._unknown |= {at + key: None for key in keys if key not in kind.__struct_fields__}

    def finish(self, name: str) -> NBest:
        if self._unknown:
            names = [repr(key) for key in self._unknown]
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            self.options.warn(f"{name}: keys that a list has no place for are not kept: {', '.join(names[:5])}{more}")
        refs, built = self._refs, _as_declared(self._builder.finish(), self.header)
        nbest = replace(
            built,
            source=strings(self._sources),
            ref_ptr=offsets(np.array([len(r) for r in refs], np.int64)),
            refs=strings([ref for own in refs for ref in own]),
            quality=self._qualities(name, built.hyp_ptr),
            notes=Notes(*(strings(own if any(own) else []) for own in self._notes)),
            meta=self.header.meta or {},
        )
        return with_stats(nbest, threads=self.options.threads) if refs and all(refs) else nbest

    def _qualities(self, path: str, hyp_ptr: I64) -> Qualities:
        names, lower, units = self._columns or (), self.header.lower_is_better or [], self.header.quality_units or {}
        unknown = next((name for name in (*lower, *units) if name not in names), None)
        if self._columns is not None and unknown is not None:
            fix = "no hypothesis has it: remove it"
            raise FormatError(f"{path}: header", expected="names of quality columns", found=repr(unknown), fix=fix)
        out, both = Qualities(), np.array(self._quality).reshape(-1, max(1, len(names)), 2)
        for k, name in enumerate(names):
            out = out.with_column(name, both[:, k, 0], both[:, k, 1], hyp_ptr=hyp_ptr, lower=name in lower)
            if not isfinite(out.unit[-1]):
                place = f"{path}: quality.{name}"
                raise FormatError(place, expected="finite ratios", found="an infinite one", fix="repair the column")
        return replace(out, unit=tuple(units.get(name, u) for name, u in zip(out.names, out.unit, strict=True)))


def _decoded(decoder: msgspec.json.Decoder[T], text: str, where: str, fix: str = FIX) -> tuple[T, dict[str, Any]]:
    """Return the struct of a text; and all its keys, where there are others than the struct has, else {}."""
    try:
        found = decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        parsed(text, where, fix=FIX)  # raises for what is no JSON
        place, expected, what = in_words(error) if isinstance(error, msgspec.MsgspecError) else ("", "a list", str(error))
        where = where + (f".{place}" if place and "units[" in where else f": {place}" if place else "")
        raise FormatError(where, expected=expected, found=what, fix=fix) from None
    return found, {} if _is_all(text, found) else parsed(text, where, fix=FIX)


def _is_all(text: str, found: Any) -> bool:
    """Tell whether structs are all that a text says: objects that have only the keys of their structs, each once, have as many
    quotation marks as these have when they are written again.
    """
    return _quotes(text) == _quotes(_encode(found).decode()) and not ("\\" in text and "\\u0000" in text)


def _quotes(text: str) -> int:
    """Count the quotation marks that begin or end a string. (After an escaped backslash one too few, in both texts.)"""
    return text.count('"') - (text.count('\\"') if "\\" in text else 0)


def _others(keys: dict[str, Any], kind: type[msgspec.Struct]) -> str:
    own = {key: value for key, value in keys.items() if key not in kind.__struct_fields__}
    return _encode(own).decode() if own else ""


def _as_declared(nbest: NBest, header: _Header) -> NBest:
    """Features dense or sparse as the header says, where the builder went by how many rows give them.

    A name is dense for units and hypotheses alike or for neither; where the header names only one of them, that one decides.
    """
    found = nbest.sparse_names.to_pylist()
    by_units, by_hyps = names_given(nbest)
    unit_names, extra_names, sparse = tuple(header.unit_features), tuple(header.hyp_features or ()), header.sparse_features or ()
    if header.hyp_features is None:
        extra_names = tuple(n for n in nbest.extra_names if n not in by_units and n not in sparse)
    unit_names = tuple(dict.fromkeys([*unit_names, *(n for n in extra_names if n in by_units)]))
    extra_names = tuple(dict.fromkeys([*extra_names, *(n for n in unit_names if n in by_hyps)]))
    dense = {*unit_names, *extra_names}
    columns = ((nbest.unit_names, nbest.units.x), (nbest.extra_names, nbest.extra))
    demoted = [name for names, x in columns for name, some in zip(names, (x != 0).any(axis=0).tolist(), strict=True) if some]
    sparse_names = [name for name in dict.fromkeys([*sparse, *found, *demoted]) if name not in dense]
    return at_columns(nbest, unit_names, extra_names, strings(sparse_names))


# ---------------------------------------------------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------------------------------------------------


def write(nbest: NBest, stream: IO[bytes]) -> None:
    """Write everything in the container; numbers are the shortest that read back exactly."""
    sparse_names, qualities = nbest.sparse_names.to_pylist(), nbest.quality
    lower = [name for name, low in zip(qualities.names, qualities.lower, strict=True) if low]
    spread = dict(zip(qualities.names, qualities.unit, strict=True))
    names = list(nbest.unit_names), list(nbest.extra_names), sparse_names or UNSET
    header = _Header(VERSION, *names, lower or UNSET, spread or UNSET, dict(nbest.meta) or UNSET)
    stream.write(_encode(header) + b"\n")
    units_of = _unit_writer(nbest, sparse_names)
    texts, sources, refs = nbest.text.to_pylist(), nbest.source.to_pylist(), nbest.refs.to_pylist()
    absent = is_absent(nbest.extra)
    of_lists, of_hyps = (_objects(notes) for notes in (nbest.notes.sentences, nbest.notes.hyps))
    for s, ident in enumerate(nbest.ids.tolist()):
        source = split_words(sources[s])
        hyps = []
        for h in range(nbest.hyp_ptr[s], nbest.hyp_ptr[s + 1]):
            hyp: dict[str, Any] = {**(of_hyps[h] if of_hyps else {}), "text": texts[h]}
            if not isnan(nbest.score[h]):
                hyp["score"] = float(nbest.score[h])
            values = zip(nbest.extra_names, nbest.extra[h].tolist(), absent[h].tolist(), strict=True)
            features = {name: value for name, value, lacks in values if not lacks}
            if features := features | _row(nbest.extra_sparse, h, sparse_names):
                hyp["features"] = features
            if nbest.unit_ptr[h] < nbest.unit_ptr[h + 1]:
                hyp["units"] = units_of(h, source, split_words(texts[h]))
            if qualities.names:
                pairs = zip(qualities.names, qualities.value[h].tolist(), qualities.weight[h].tolist(), strict=True)
                hyp["quality"] = {name: value if weight == 1 else (value, weight) for name, value, weight in pairs}
            hyps.append(hyp)
        own_refs = refs[nbest.ref_ptr[s] : nbest.ref_ptr[s + 1]]
        others = of_lists[s] if of_lists else {}
        stream.write(_encode({**others, "id": ident, "source": sources[s], "refs": own_refs, "hyps": hyps}) + b"\n")


def _objects(notes: Strings) -> list[dict[str, Any]]:
    """Return notes as they are written beside our own keys."""
    try:
        return [msgspec.json.decode(note, type=dict[str, Any]) if note else {} for note in notes.to_pylist()]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"notes of the list: expected objects in JSON, found others ({error}); import it again") from None


def _unit_writer(nb: NBest, sparse_names: list[str]) -> Callable[[int, list[str], list[str]], list[dict[str, Any]]]:
    """Return a function that gives the units of a hypothesis as JSON, by the words of both sides."""
    units = nb.units
    src, tgt, align = (column.to_pylist() for column in (units.src, units.tgt, units.align))

    @cache
    def tail(u: int) -> dict[str, Any]:
        """Make what does not depend on the place, once for each distinct unit."""
        found = {
            "x": Raw(_encode(units.x[u].tolist())) if nb.unit_names else None,
            "sparse": _row(units.sparse, u, sparse_names),
            "align": align[u],
            "score": None if isnan(units.score[u]) else float(units.score[u]),
        }
        return {key: value for key, value in found.items() if value or value == 0}

    def units_of(h: int, source: list[str], target: list[str]) -> list[dict[str, Any]]:
        at, out = slice(nb.unit_ptr[h], nb.unit_ptr[h + 1]), []
        idx = nb.unit_idx[at]
        columns = (idx, nb.src_start[at], units.src_len[idx], nb.tgt_start[at], units.tgt_len[idx])
        for u, s, n_src, t, n_tgt in zip(*(column.tolist() for column in columns), strict=True):
            unit: dict[str, Any] = {}
            sides = ("src", source, s, n_src, src[u]), ("tgt", target, t, n_tgt, tgt[u])
            for key, words, start, length, text in sides:
                has_place = start >= 0 and length >= 0
                if has_place:
                    unit[key] = (start, start + length)
                if text != (" ".join(words[start : start + length]) if has_place else ""):
                    unit[f"{key}_text"] = text
            out.append(unit | tail(u))
        return out

    return units_of


def _row(rows: SparseRows, r: int, names: list[str]) -> dict[str, float]:
    own = slice(rows.ptr[r], rows.ptr[r + 1])
    return {names[j]: value for j, value in zip(rows.idx[own].tolist(), rows.val[own].tolist(), strict=True)}
