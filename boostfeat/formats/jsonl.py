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

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from json import JSONDecodeError
from math import isfinite, isnan, nan
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from ..core.arrays import I64, offsets
from ..core.errors import FormatError, InputError, clip, counted, refuse_newer
from ..core.files import decode, read_lines
from ..core.strict_json import parse_json
from ..core.text import Strings, normal, split_words
from ..lists.build import Builder, ListRecord, ReadOptions, UnitRecord, with_stats
from ..lists.merging import at_columns
from ..lists.nbest import NBest, Notes, Qualities, SparseRows, quality_unit, strings
from ..lists.quality import check_name
from .fields import check_links

VERSION = "nbest/1"
FIX = "repair or remove this line"
Span = tuple[int, int]


class _Header(msgspec.Struct):
    boostfeat: str
    unit_features: list[str] = []
    hyp_features: list[str] | None = None
    sparse_features: list[str] = []
    lower_is_better: list[str] = []
    quality_units: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    meta: dict[str, str] = {}


class _Unit(msgspec.Struct, gc=False):
    src: Span | UnsetType | None = UNSET
    tgt: Span | UnsetType | None = UNSET
    x: list[float] | UnsetType | None = UNSET
    sparse: dict[str, float] | UnsetType = UNSET
    src_text: str | UnsetType | None = UNSET
    tgt_text: str | UnsetType | None = UNSET
    align: str | UnsetType = UNSET
    score: float | UnsetType | None = UNSET


class _Hyp(msgspec.Struct, gc=False):
    text: str
    score: float | UnsetType | None = UNSET
    features: dict[str, float] | UnsetType = UNSET
    units: list[msgspec.Raw] | UnsetType = UNSET  # decoded once for each distinct text in a list
    quality: dict[str, float | tuple[float, float]] | UnsetType = UNSET


class _Sentence(msgspec.Struct):
    id: int
    source: str | UnsetType = UNSET
    refs: list[str] | UnsetType = UNSET
    hyps: list[_Hyp] | UnsetType = UNSET


_header, _sentence, _unit = (msgspec.json.Decoder(kind) for kind in (_Header, _Sentence, _Unit))


# ---------------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------------


def read(path: str | Path, options: ReadOptions) -> NBest:
    lists: _Lists | None = None
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if not line or line.isspace():
            continue
        if lists is None:
            lists = _Lists(line, where, options)
        elif not lists.add(line, where):
            break
    if lists is None:
        raise FormatError(str(path), expected="JSON lines", found="an empty file", fix="check what wrote it")
    lists.warn_of_keys(path)
    return lists.finish(str(path))


def stream(lines: Iterable[bytes], options: ReadOptions, *, name: str = "stdin") -> Iterator[NBest]:
    """A container of one sentence for every line after the header, as soon as the line is there."""
    header: str | None = None
    answered = False
    for number, raw in enumerate(lines, 1):
        where = f"{name}:{number}"
        line = decode(raw, where).strip()
        if not line:
            continue
        if header is None:
            header = line
            _Lists(header, where, options)  # raises for one that is none
            continue
        one = _Lists(header, f"{name}:1", options)
        one.add(line, where)
        one.warn_of_keys(where)
        yield one.finish(where)
        answered = True
    if not answered:
        found = "no lines" if header is None else "no sentences"
        raise FormatError(name, expected="a header and a list a line", found=found, fix="check what wrote it")


_NONE = slice(0, 0)


class _Placed(NamedTuple):
    """A unit as its JSON gives it, place and all."""

    record: UnitRecord
    words: slice  # of the hypothesis, which are its text; none where it says its text itself
    n_quotes: int
    numbers: dict[str, int]  # by these words: of the distinct units of a list


class _Lists:
    """Sentences after a header, in the order of their lines."""

    def __init__(self, header: str, where: str, options: ReadOptions) -> None:
        self.options = options
        self.unknown: dict[str, None] = {}  # keys of the header and of units that have no place here
        self.header = self._read_header(header, where)
        self._builder = Builder(options, declared_dense=tuple(self.header.unit_features))
        self._links: set[tuple[str, int, int]] = set()  # alignments that are fine, with the words of both sides
        self._last = -1
        self._sources: list[str] = []
        self._refs: list[list[str]] = []
        self._notes: tuple[list[str], list[str]] = ([], [])  # other keys of each sentence and hypothesis, in JSON
        self._qualities = _Qualities()

    def _read_header(self, line: str, where: str) -> _Header:
        header: _Header = _decoded(_header, line, where)
        self._note_unknown(_parsed(line, where), _Header, "header.")
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
        if both := next((name for name in header.sparse_features if name in dense), None):
            raise FormatError(
                f"{where}: sparse_features",
                expected="names that are not dense as well",
                found=repr(both),
                fix="leave it out there",
            )
        return header

    def add(self, line: str, where: str) -> bool:
        """Append a sentence; False for one that is not wanted, like those after it."""
        sentence: _Sentence = _decoded(_sentence, line, where)
        if not self._last < sentence.id < 2**62:
            raise FormatError(
                f"{where}: id",
                expected="a whole number above that of the line before",
                found=str(sentence.id),
                fix="sort sentences by id",
            )
        if self.options.first is not None and sentence.id >= self.options.first:
            return False
        every = sentence.hyps or []
        hyps = every[: self.options.size]
        self._last = sentence.id
        self._builder.sentence(sentence.id, where)
        n_quotes = _quotes(sentence) + 2 * len(sentence.refs or ()) + sum(map(_quotes, every))
        n_quotes += self._add_hyps(sentence, hyps, where)
        n_quotes += sum(_count_quotes(bytes(raw)) for hyp in every[len(hyps) :] for raw in hyp.units or ())
        self._sources.append(normal(sentence.source or ""))
        self._refs.append([normal(ref) for ref in sentence.refs or ()])
        self._qualities.add(hyps, where)
        # an unknown key, or one that is there twice, has quotation marks of its own
        found = _parsed(line, where) if _count_quotes(line.encode()) != n_quotes or "\\u0000" in line else {}
        self._notes[0].append(_others(found, _Sentence))
        noted = found.get("hyps", ()) if found else ()
        self._notes[1].extend([_others(hyp, _Hyp) for hyp in noted[: len(hyps)]] or [""] * len(hyps))
        return True

    def _add_hyps(self, sentence: _Sentence, hyps: Sequence[_Hyp], where: str) -> int:
        """Append hypotheses, whose units are looked at once a distinct text; returns how many quotation marks units have."""
        source = split_words(normal(sentence.source or ""))
        seen: dict[bytes, _Placed] = {}
        placed, units = list[_Placed](), list[UnitRecord]()  # of the distinct units
        texts, unit_idx, counts, n_words = list[str](), array("i"), array("q"), array("q")
        for h, hyp in enumerate(hyps):
            texts.append(text := normal(hyp.text))
            words = split_words(text) if hyp.units else []
            own = [*map(bytes, hyp.units or ())]
            for u, raw in enumerate(own):
                if (unit := seen.get(raw)) is None:
                    unit = seen[raw] = self._unit(raw, source, f"{where}: hyps[{h}].units[{u}]")
                phrase = " ".join(words[unit.words])
                if (k := unit.numbers.get(phrase)) is None:
                    k = unit.numbers[phrase] = len(units)
                    placed.append(unit)
                    units.append(unit.record._replace(tgt_text=phrase) if unit.words != _NONE else unit.record)
                unit_idx.append(k)
            counts.append(len(own))
            n_words.append(len(words))
        idx, ptr = np.array(unit_idx, np.int32), offsets(np.array(counts, np.int64))
        span = np.array([unit.tgt or (-1, -1) for unit in units], np.int32).reshape(-1, 2)
        beyond = span[idx, 1] > np.repeat(np.array(n_words, np.int64), np.diff(ptr))
        if beyond.any():
            r = int(np.argmax(beyond))
            h = int(np.searchsorted(ptr, r, side="right")) - 1
            place = f"{where}: hyps[{h}].units[{r - ptr[h]}].tgt"
            raise _bad_span(place, span[idx[r]].tolist(), f" of {counted(n_words[h], 'word')}")
        score = np.array([nan if hyp.score is None or hyp.score is UNSET else hyp.score for hyp in hyps], np.float64)
        features = [hyp.features or {} for hyp in hyps]
        self._builder.add_list(ListRecord(sentence.id, where, texts, score, units, ptr, idx, span[idx, 0], features))
        return int(np.array([unit.n_quotes for unit in placed], np.int64)[idx].sum())

    def _unit(self, raw: bytes, source: list[str], where: str) -> _Placed:
        unit: _Unit = _decoded(_unit, raw, where)
        n_quotes = _count_quotes(raw)
        if n_quotes != _quotes(unit):
            self._note_unknown(_parsed(raw, where), _Unit, "hyps.units.")
        names = self.header.unit_features
        values = unit.x if unit.x is not None and unit.x is not UNSET else [0.0] * len(names)
        if len(values) != len(names):
            expected = f"{counted(len(names), 'value')}, as unit_features has"
            raise FormatError(f"{where}.x", expected=expected, found=str(len(values)), fix=FIX)
        features = dict(zip(names, values, strict=True))
        if unit.sparse:
            features.update(unit.sparse)
        if unit.sparse and len(features) < len(names) + len(unit.sparse):
            both = next(name for name in unit.sparse if name in names)
            raise FormatError(
                f"{where}.sparse", expected="distinct feature names", found=f"{both!r}, which x holds", fix="rename it"
            )
        src, tgt = unit.src or None, unit.tgt or None
        if src and not 0 <= src[0] <= src[1] < 2**31:
            raise _bad_span(f"{where}.src", src)
        if tgt and not 0 <= tgt[0] <= tgt[1] < 2**31:
            raise _bad_span(f"{where}.tgt", tgt)
        if source and src and src[1] > len(source):
            raise _bad_span(f"{where}.src", src, f" of {counted(len(source), 'word')}")
        src_text = unit.src_text if isinstance(unit.src_text, str) else " ".join(source[slice(*src)]) if src else ""
        if unit.align:
            n_src, n_tgt = src[1] - src[0] if src else -1, tgt[1] - tgt[0] if tgt else -1
            if (links := (unit.align, n_src, n_tgt)) not in self._links:
                check_links(unit.align, f"{where}.align", n_src=n_src, n_tgt=n_tgt)
                self._links.add(links)
        score = nan if unit.score is None or unit.score is UNSET else unit.score
        words = slice(*tgt) if tgt and not isinstance(unit.tgt_text, str) else _NONE
        record = UnitRecord(features, src, tgt, src_text, unit.tgt_text or "", unit.align or "", score)
        return _Placed(record, words, n_quotes, {})

    def _note_unknown(self, found: dict[str, Any], kind: type[msgspec.Struct], at: str) -> None:
        self.unknown |= {at + key: None for key in found if key not in kind.__struct_fields__}

    def warn_of_keys(self, path: str | Path) -> None:
        """Say which keys were not kept."""
        if self.unknown:
            names = [repr(name) for name in self.unknown]
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            self.options.warn(f"{path}: keys that a list has no place for are not kept: {', '.join(names[:5])}{more}")

    def finish(self, name: str) -> NBest:
        refs, built = self._refs, _as_declared(self._builder.finish(), self.header)
        nbest = replace(
            built,
            source=strings(self._sources),
            ref_ptr=offsets(np.array([len(r) for r in refs], np.int64)),
            refs=strings([ref for own in refs for ref in own]),
            quality=self._qualities.finish(self.header, built.hyp_ptr, name),
            notes=Notes(*(strings(own if any(own) else []) for own in self._notes)),
            meta=self.header.meta,
        )
        return with_stats(nbest, threads=self.options.threads) if refs and all(refs) else nbest


def _decoded(decoder: msgspec.json.Decoder[Any], text: str | bytes, where: str) -> Any:
    """The typed value of a text; the error says which part of it is wrong."""
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        _parsed(text, where)  # raises for what is no JSON
        what, _, at = str(error).partition(" - at `$")
        at, place = at.removesuffix("`"), where
        if at:
            place = where + at if "units[" in where else f"{where}: {at.removeprefix('.')}"
        raise FormatError(place, **_in_words(what), fix=FIX) from None


_OTHER_KIND = re.compile(r"Expected `([^`]*)`( of length [0-9]+)?(?:, got `?([^`]*)`?)?")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_KINDS = {"str": "a string", "int": "a whole number", "float": "a finite number", "object": "an object", "array": "a list"}


def _in_words(message: str) -> dict[str, str]:
    """Return what was expected and found in a message of msgspec."""
    if missing := _MISSING.fullmatch(message):
        return {"expected": f"the key {missing[1]!r}", "found": "none"}
    if other := _OTHER_KIND.fullmatch(message):
        kinds = [_KINDS[kind] for kind in other[1].split(" | ") if kind in _KINDS]
        return {"expected": " or ".join(kinds) + (other[2] or ""), "found": _KINDS.get(other[3], other[3] or "another")}
    return {"expected": f"a line of {VERSION}", "found": message}


def _parsed(text: str | bytes, where: str) -> dict[str, Any]:
    """Any object; keys that are there twice, and what else no JSON has, are refused."""
    try:
        value = parse_json(text)
    except ValueError as error:
        found = f"{error.msg} at column {error.colno}" if isinstance(error, JSONDecodeError) else str(error)
        raise FormatError(where, expected="JSON", found=found, fix=FIX) from None
    if not isinstance(value, dict):
        raise FormatError(where, expected="an object", found=clip(text), fix=FIX)
    return value


def _count_quotes(text: bytes) -> int:
    """Quotation marks of a JSON text that begin or end a string. (After an escaped backslash one too few: it is looked at.)"""
    return text.count(b'"') - (text.count(b'\\"') if b"\\" in text else 0)


def _quotes(found: msgspec.Struct) -> int:
    """Quotation marks of an object that has each of its keys once and no others, without those of what its lists hold."""
    values = msgspec.structs.astuple(found)
    kinds = [*map(type, values)]
    total = 2 * (len(kinds) - kinds.count(UnsetType) + kinds.count(str))
    return total + 2 * sum(map(len, (v for v in values if type(v) is dict))) if dict in kinds else total


def _others(found: dict[str, Any], kind: type[msgspec.Struct]) -> str:
    own = {key: value for key, value in found.items() if key not in kind.__struct_fields__}
    return msgspec.json.encode(own).decode() if own else ""


class _Qualities:
    """Quality columns as they come, a row a hypothesis."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] | None = None
        self.values = array("d")  # numerator and denominator of each column

    def add(self, hyps: Sequence[_Hyp], where: str) -> None:
        for h, hyp in enumerate(hyps):
            quality = hyp.quality or {}
            if self.names is None:
                self.names = tuple(quality)
                for name in self.names:
                    check_name(name)
            if quality.keys() != set(self.names):
                raise FormatError(
                    f"{where}: hyps[{h}].quality",
                    expected=", ".join(self.names) or "none, as before",
                    found=", ".join(quality) or "none",
                    fix="give every hypothesis the same columns",
                )
            for name in self.names:
                value = quality[name]
                pair = (value, 1.0) if isinstance(value, float) else value
                if pair[1] < 0 or not (isfinite(pair[0]) and isfinite(pair[1])):
                    raise FormatError(
                        f"{where}: hyps[{h}].quality.{name}",
                        expected="a finite number, or one with a denominator from 0",
                        found=str(value),
                        fix="repair or remove this line",
                    )
                self.values.extend(pair)

    def finish(self, header: _Header, hyp_ptr: I64, path: str) -> Qualities:
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
            if not isfinite(quality_unit(both[:, k, 0], both[:, k, 1], hyp_ptr)):
                fix = "repair the column"
                raise FormatError(f"{path}: quality.{name}", expected="ratios that are finite", found="an infinite one", fix=fix)
            lower = name in header.lower_is_better
            out = out.with_column(name, both[:, k, 0], both[:, k, 1], hyp_ptr=hyp_ptr, lower=lower)
        return replace(out, unit=tuple(header.quality_units.get(name, u) for name, u in zip(out.names, out.unit, strict=True)))


def _bad_span(where: str, span: Sequence[int], of: str = "") -> FormatError:
    return FormatError(where, expected=f"a span [start, end){of}", found=str(list(span)), fix="repair or remove this line")


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
    dense = {*unit_names, *extra_names}
    columns = ((nbest.unit_names, nbest.units.x), (nbest.extra_names, nbest.extra))
    demoted = [name for names, x in columns for name, some in zip(names, (x != 0).any(axis=0).tolist(), strict=True) if some]
    sparse_names = [name for name in dict.fromkeys([*header.sparse_features, *found, *demoted]) if name not in dense]
    return at_columns(nbest, unit_names, extra_names, strings(sparse_names))


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
    if qualities.names:
        header["quality_units"] = dict(zip(qualities.names, qualities.unit, strict=True))
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
