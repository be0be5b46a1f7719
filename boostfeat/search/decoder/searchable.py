"""Features that search can have: what a phrase, its place or its neighbours tell. Others are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...core.errors import InputError
from ...features.plan import FeaturePlan, product_name
from ...features.registry import GIVEN, STATES, STATIC, Template
from .system import EDGE, ENDS, LM, LM_WORD, MOVE, PER_WORD

EDGES = {"jump": MOVE[:4], "orientation": MOVE[4:], "lm_per_word": LM_WORD, "previous": ENDS[:1], "following": ENDS[1:]}
BETWEEN = ("orientation", "lo", "ro", "co", "bi", "cb", "neighbour_sizes", "around", "previous", "following")


def is_placed(template: Template) -> bool:
    return template.kind == "contextual" and set(template.reads) <= {*STATIC, "span", "source sentence"}


@dataclass(frozen=True)
class Searchable:
    """The part of a plan's features that search can have."""

    plan: FeaturePlan
    registry: Mapping[str, Template]

    @cached_property
    def _owner(self) -> dict[str, str]:
        return {name: entry.name for entry in self.plan.entries for name in entry.features or ()}

    def _template(self, name: str) -> str:
        """The template of a feature, "" of none; a plan that still learns names of sparse ones has their prefixes alone."""
        return self._owner.get(name, name.partition(":")[0] if ":" in name else "")

    @cached_property
    def _products(self) -> dict[str, tuple[str, str]]:
        return {product_name(pair): pair for pair in self.plan.products or ()}

    def problem(self, name: str, *, in_tree: bool) -> str | None:
        """Why it cannot have a feature, or test it in a tree."""
        template = self.registry.get(self._template(name))
        if name in self._products:
            beside = [
                f
                for f in self._products[name]
                if f in EDGE or (f in self._owner and not _is_option_level(self.registry.get(self._owner[f])))
            ]
            return f"{beside[0]!r} depends on what stands beside a phrase" if beside else None
        if template is None or _is_option_level(template):
            return None
        if template.name not in BETWEEN and template.name not in EDGES:
            return f"it needs {_needs(template)}"
        if in_tree and name not in EDGES.get(template.name, ()):
            return "a tree would need the phrases beside it"
        if template.name == "lm_per_word" and not name.startswith(PER_WORD):
            return f"{LM} is the only language model"
        return None

    def refuse(self, used: Iterable[str], tested: Mapping[str, str]) -> None:
        """Raise for a feature that search cannot have: one of ``used``, or one that a tree tests ({feature: tree})."""
        few, alike = set(tested), dict[str, str]()
        for name in sorted(used, reverse=True):  # features of one template are alike, but for products and language models
            template = self._template(name)
            alike[name if name in self._products or template == "lm_per_word" else template] = name
        few.update(alike.values())
        for name in sorted(few):
            if why := self.problem(name, in_tree=name in tested):
                tree = f"tree {tested[name]!r}: " if name in tested else ""
                owner = f" (template {self._template(name)!r})" if self._template(name) else ""
                raise InputError(
                    f"{tree}the feature {name!r}{owner}: expected one that search can compute, found that {why}; decode without "
                    "it and rerank the list with this model, or learn a model without it"
                )


def searchable(plan: FeaturePlan, registry: Mapping[str, Template], say: Callable[[str], None]) -> FeaturePlan:
    """A plan that a loop can learn with, which decodes dev again and again: members of sets that search cannot have are left out
    with a line, others are refused by name. So are those that dev's references teach, since they know the next lists too well.
    """

    def why_not(template: Template) -> str | None:
        if template.crossed:
            return "the references that teach it would be those of the next lists"
        is_known = _is_option_level(template) or template.name in BETWEEN or template.name in EDGES
        return None if is_known else f"it needs {_needs(template)}"

    return plan.for_search(registry, say, why_not)


def _needs(template: Template) -> str:
    """Name what it reads that search does not have."""
    state = next((STATES[what] for what in reversed(STATES) if what in template.reads), "")
    return state or next((f"a {what}" for what in template.reads if what in GIVEN), "more than its phrase")


def _is_option_level(template: Template | None) -> bool:
    return template is not None and (template.kind == "static" or is_placed(template))
