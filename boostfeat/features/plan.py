"""Plans: the templates to compute, and what a dev list taught them; frozen, so that other lists get the same columns."""

from __future__ import annotations

import hashlib
import json
import tomllib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.json import decode as decode_json
from msgspec.json import encode as encode_json

from ..core.errors import FormatError, InputError, clip_json, refuse_newer, unknown_name
from ..core.files import decode, open_output, read_chunks
from ..core.strict_json import parse_json, typed
from ..core.text import is_whole
from .registry import GIVEN, Template
from .resources import Clusters, Posterior, Resources
from .templates import BY_ITSELF, N_CLASSES, ON_REQUEST, SETS, TEMPLATES

VERSION = 1
MIN_COUNT = 2
_FIX = "name the .plan.json beside the featurized dev list"


@dataclass(frozen=True)
class Entry:
    """One template. Its features are None until a dev list has taught them."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    min_count: int = MIN_COUNT  # sentences whose lists must have a sparse feature
    hash_bits: int = 0  # sparse names become one of 2^bits; 0: they stay readable
    features: tuple[str, ...] | None = None
    optional: bool = False  # one of a set: left out where the list lacks what it reads

    @property
    def is_sparse(self) -> bool:
        """Whether a learned template gives sparse features; one that gives none yet does."""
        return all(name.startswith(f"{self.name}:") for name in self.features or ())

    @cached_property
    def places(self) -> dict[str, int]:
        """Positions of features by name."""
        return dict(zip(self.features or (), count(), strict=False))  # there may be a hundred thousand


class _EntryRecord(Struct):
    name: str
    options: dict[str, Any]
    min_count: Annotated[int, Meta(ge=1)]
    hash: Annotated[int, Meta(ge=0)]
    features: tuple[str, ...]


class PlanRecord(Struct, omit_defaults=True):
    """The object in a .plan.json, or in a model that carries it."""

    boostfeat: str
    templates: list[_EntryRecord]
    clusters: Clusters
    products: tuple[tuple[str, str], ...]
    posterior: Posterior | None = None
    resources: dict[str, str] = {}
    taught_by: tuple[str, ...] = ()


class TemplateTable(Struct, forbid_unknown_fields=True):
    """The TOML file that asks for templates."""

    include: str | list[str] = []
    min_count: Annotated[int, Meta(ge=1)] = MIN_COUNT
    hash: Annotated[int, Meta(ge=0)] = 0
    clusters: Annotated[int, Meta(ge=2)] = 0  # 0: as many as templates ask for
    products: str = "top:0"
    templates: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True)
class FeaturePlan:
    """Templates in order, the clusters and posterior they share, and products of features. Frozen once all is learned."""

    entries: tuple[Entry, ...] = ()
    cluster_size: int = 16
    clusters: Clusters | None = None
    n_products: int = 0
    products: tuple[tuple[str, str], ...] | None = None
    posterior: Posterior | None = None  # of templates that read the list
    resources: Mapping[str, str] = field(default_factory=dict)  # digests of the files that it was learned with
    taught_by: tuple[str, ...] = ()  # digests of the sentences whose references taught a template

    @property
    def is_frozen(self) -> bool:
        return self.products is not None

    @cached_property
    def features(self) -> set[str]:
        """The names of all features that a frozen plan makes."""
        return set(map(product_name, self.products or ())).union(*(entry.features or () for entry in self.entries))

    @property
    def signature(self) -> str:
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:12]

    # -- what the user asks for --------------------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        what: str,
        registry: Mapping[str, Template] | None = None,
        resources: Resources | None = None,
        *,
        min_count: int | None = None,
        hash_bits: int = 0,
        products: int = 0,
        say: Callable[[str], None] = lambda line: None,
    ) -> FeaturePlan:
        """``what``: names of sets or templates with commas or plus signs between them, or a TOML file.

        A set leaves out templates that take a phrase table or a bitext where there is none; ``say`` hears which, but of sets
        that ``induce`` takes by itself.
        """
        registry, resources = TEMPLATES if registry is None else registry, resources or Resources()
        if what.endswith(".toml"):
            asked, where = _read_toml(what), what
        else:
            names = [name.strip() for name in what.replace("+", ",").split(",") if name.strip()]
            asked = TemplateTable([n for n in names if n in SETS], templates={n: {} for n in names if n not in SETS})
            where = "templates"
        common = {"min_count": asked.min_count if min_count is None else min_count, "hash": hash_bits or asked.hash}
        entries: dict[str, Entry] = {}
        for name in [asked.include] if isinstance(asked.include, str) else asked.include:
            if name not in SETS:
                raise unknown_name("set of templates", name, SETS)
            for member in SETS[name]:
                needed = (*registry[member].reads, *(["bitext"] if registry[member].bitext_teaches else []))
                lacking = [GIVEN[what] for what in ON_REQUEST if what in needed and not resources.has(what)]
                if lacking and name not in BY_ITSELF:
                    say(f"{name} is without {member}, which takes {lacking[0]}")
                if lacking:
                    continue
                entries[member] = replace(_entry(member, {}, common, registry, where), optional=True)
        for name, options in asked.templates.items():
            entries[name] = _entry(name, options, common, registry, where)
        size = asked.clusters or max((N_CLASSES.get(name, 16) for name in entries), default=16)
        return cls(tuple(entries.values()), cluster_size=size, n_products=products or parse_products(asked.products))

    # -- the file ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"FeaturePlan({', '.join(entry.name for entry in self.entries) or 'no templates'})"

    def to_json(self) -> dict[str, Any]:
        """Return the object of a .plan.json."""
        entries = [_EntryRecord(e.name, dict(e.options), e.min_count, e.hash_bits, e.features or ()) for e in self.entries]
        clusters, products, digests = self.clusters or Clusters(), self.products or (), dict(self.resources)
        record = PlanRecord(f"vocab/{VERSION}", entries, clusters, products, self.posterior, digests, self.taught_by)
        found: dict[str, Any] = decode_json(encode_json(record))  # lists for tuples
        return found

    def save(self, path: str | Path) -> None:
        """Write atomically; the same plan is the same bytes."""
        with open_output(path) as stream:
            stream.write(json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> FeaturePlan:
        """Read the file of a plan that a list taught."""
        text = decode(b"".join(read_chunks(path)), str(path))
        try:
            obj = parse_json(text)
        except ValueError as error:
            raise _no_plan(str(path), str(error)) from None
        return cls.from_json(obj, str(path))

    @classmethod
    def from_json(cls, obj: Any, where: str) -> FeaturePlan:
        """The frozen plan of a parsed file, or of a model that carries it."""
        kind, _, version = str(obj.get("boostfeat", "") if isinstance(obj, dict) else "").partition("/")
        if kind != "vocab" or not is_whole(version):
            raise _no_plan(where, "another kind of JSON")
        refuse_newer(where, obj["boostfeat"], "vocab", VERSION)
        record = typed(obj, PlanRecord, where, fix=_FIX)
        return cls(
            tuple(Entry(t.name, t.options, t.min_count, t.hash, t.features) for t in record.templates),
            clusters=record.clusters,
            n_products=len(record.products),
            products=record.products,
            posterior=record.posterior,
            resources=record.resources,
            taught_by=record.taught_by,
        )

    def for_search(
        self,
        registry: Mapping[str, Template],
        say: Callable[[str], None],
        why_not: Callable[[Template], str | None] = lambda template: None,
    ) -> FeaturePlan:
        """The plan without templates that search cannot compute: members of sets are left out with a line, others refused."""
        entries, left_out = [], []
        for entry in self.entries:
            template = registry[entry.name]
            needs = template.beyond_search
            why = f"it needs {needs}" if needs else why_not(template)
            if why and not entry.optional:
                raise InputError(f"template {entry.name!r}: search cannot use it, because {why}; learn without it")
            if why:
                left_out.append(f"{entry.name} ({why})")
            else:
                entries.append(entry)
        if left_out:
            say(f"templates left out, which search cannot use: {', '.join(left_out)}")
        return replace(self, entries=tuple(entries))

    def with_entry(self, entry: Entry) -> FeaturePlan:
        """The plan with this template in place of its own of that name."""
        return replace(self, entries=tuple(entry if e.name == entry.name else e for e in self.entries))


def product_name(pair: tuple[str, str]) -> str:
    return "*".join(pair)


def full_name(template: str, name: str, bits: int) -> str:
    """A sparse feature's whole name: with the template's before it, or as one of 2^bits numbers."""
    if not bits:
        return f"{template}:{name}"
    mask = (1 << min(bits, 32)) - 1  # a checksum has no more
    return f"{template}:#{zlib.crc32(name.encode()) & mask:x}"


def _no_plan(where: str, found: str) -> FormatError:
    return FormatError(where, expected='a plan that featurize wrote ("boostfeat": "vocab/1")', found=found[:200], fix=_FIX)


def _entry(
    name: str, options: Mapping[str, Any], common: Mapping[str, Any], registry: Mapping[str, Template], where: str
) -> Entry:
    if name not in registry:
        raise unknown_name("template", name, (*SETS, *registry))
    known = {**registry[name].options, **registry[name].learn_options}
    own = {key: value for key, value in options.items() if key not in ("min_count", "hash")}
    for key in own:
        if key not in known:
            raise InputError(
                f"{where}: template {name!r} has no option {key!r}; it has {', '.join((*known, 'min_count', 'hash'))}"
            )
    if "top" in own:
        _integer(own["top"], 1, f"{where}: {name}.top")
    merged = {**common, **options}
    min_count = _integer(merged["min_count"], 1, f"{where}: min_count")
    return Entry(name, own, min_count, hash_bits=_integer(merged["hash"], 0, f"{where}: hash"))


def _integer(value: Any, least: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{where}: expected a whole number of at least {least}, found {clip_json(value)}")
    return value


def parse_products(text: str) -> int:
    """K of 'top:K'."""
    kind, _, number = str(text).partition(":")
    if kind != "top" or not is_whole(number, digits=9):
        raise InputError(f"products: expected top:K, such as top:20, found {clip_json(text)}")
    return int(number)


def _read_toml(path: str) -> TemplateTable:
    text = decode(b"".join(read_chunks(path)), path)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        fix = 'correct it; a file may be as short as: include = ["large"]'
        raise FormatError(path, expected="TOML", found=str(error), fix=fix) from None
    return typed(table, TemplateTable, path, fix=f"a file has {', '.join(TemplateTable.__struct_fields__)}")
