"""Static features of phrase pairs that come without a list, as those of a phrase table: the templates' own definitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa

from ..core.arrays import F64
from ..core.errors import InputError
from ..core.text import Strings
from ..features import TEMPLATES, FeaturePlan, Resources, featurize
from ..features.plan import Entry, product_name
from ..features.resources import Clusters
from ..lists.nbest import NBest, SparseRows, Units, strings

_EXAMPLE = {"src": strings(["a"]), "tgt": strings(["a"]), "align": strings(["0-0"])}  # a phrase pair that all templates can read


def as_list(x: F64, names: Sequence[str], *, src: Strings, tgt: Strings, align: Strings) -> NBest:
    """Phrase pairs [n] with features x [n, D] as the units of one hypothesis, in order: what templates can read."""
    n = len(src)
    unknown = np.full(n, -1, np.int32)
    return NBest.bare(
        np.array([0, 1]),
        strings([""]),
        unit_ptr=np.array([0, n]),
        unit_idx=np.arange(n, dtype=np.int32),
        src_start=unknown,
        tgt_start=unknown,
        units=Units(x, SparseRows.empty(n), src, tgt, align, src_len=unknown, tgt_len=unknown, score=np.full(n, np.nan)),
        unit_names=tuple(names),
    )


@cache
def standard_plan() -> FeaturePlan:
    """The static templates that a dev list teaches nothing, with the features they give."""
    wanted = (t for t in TEMPLATES.values() if t.kind == "static" and not t.learnt and "clusters" not in t.reads)
    entries = tuple(Entry(t.name) for t in wanted if "bitext" not in t.reads)
    pair = as_list(np.zeros((1, 0)), (), **_EXAMPLE)
    _, learnt = featurize(pair, FeaturePlan(entries, clusters=Clusters()), resources=Resources(phrase_counts={}))
    return replace(learnt, entries=tuple(e for e in learnt.entries if all(":" not in name for name in e.features or ())))


def template_kinds(plan: FeaturePlan | None = None) -> dict[str, str]:
    """The kind of every feature that a plan's templates give; without one, of those that need no learning."""
    known = plan or standard_plan()
    kinds = {name: TEMPLATES[e.name].kind for e in known.entries if e.name in TEMPLATES for name in e.features or ()}
    static = {name for name, kind in kinds.items() if kind == "static"}
    products = {product_name(pair): "static" if static >= set(pair) else "contextual" for pair in known.products or ()}
    return {**kinds, **products}


def factors(names: Collection[str], plan: FeaturePlan | None) -> set[str]:
    """The features that those of these names multiply which are products."""
    products = {product_name(pair): pair for pair in (plan and plan.products) or ()}
    return {factor for name in names for factor in products.get(name, ())}


@dataclass(frozen=True)
class PairFeatures:
    """Named static features of phrase pairs that bring some features of their own."""

    own: tuple[str, ...]  # those that the pairs bring
    plan: FeaturePlan  # restricted to what is asked for

    @classmethod
    def of(cls, names: Collection[str], own: Sequence[str], plan: FeaturePlan | None = None) -> PairFeatures:
        """Raises for names that are neither the pairs' own nor a static template's, and says what each would need."""
        known, kinds = plan or standard_plan(), template_kinds(plan)
        wanted = {name for name in names if name not in own}
        products = tuple(pair for pair in known.products or () if product_name(pair) in wanted)
        wanted |= factors(wanted, plan) - set(own)
        for name in sorted(wanted):
            if kinds.get(name) != "static":
                found = f"a {kinds[name]} one" if name in kinds else "none"
                hint = "choose another route" if name in kinds or plan else "give --plan if a dev list taught it"
                raise InputError(f"feature {name!r}: expected a static feature of phrase pairs, found {found}; {hint}")
        entries = []
        for entry in known.entries:
            if features := tuple(name for name in entry.features or () if name in wanted):
                if "bitext" in TEMPLATES[entry.name].reads:
                    raise InputError(
                        f"feature {features[0]!r}: expected one of the phrase pair itself, found template {entry.name!r}, "
                        "which reads parallel text; leave the template out when learning"
                    )
                entries.append(replace(entry, features=features))
        return cls(tuple(own), replace(known, entries=tuple(entries), products=products, n_products=len(products)))

    def compute(self, x: F64, *, src: Strings, tgt: Strings, align: Strings) -> NBest:
        """Pairs [n] with their own features x [n, len(own)] as units that have all features asked for; the last unit is no pair.

        It is there because templates refuse a list without any alignment, which a few pairs may well lack.
        """
        given = {"src": src, "tgt": tgt, "align": align}
        columns = {name: pa.concat_arrays([column, _EXAMPLE[name]]) for name, column in given.items()}
        pairs = as_list(np.concatenate([x, np.zeros((1, x.shape[1]))]), self.own, **columns)
        if not self.plan.entries and not self.plan.products:
            return pairs
        return featurize(pairs, self.plan)[0]
