"""Templates of a plan called on one unit after the other: what search needs of them, without a list around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import InputError
from ..features.plan import Entry
from ..features.registry import GIVEN, Template
from ..features.resources import Resources


def caller(entry: Entry, template: Template, shared: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Return the template's function of arguments by name, of which some are ``shared`` by all calls."""
    function = template.bound(entry.options)

    def call(given: Mapping[str, Any]) -> Any:
        try:
            return function(*[shared[name] if name in shared else given[name] for name in template.arguments])
        except Exception as error:  # of a user's own function, or by a plan that no list taught
            raise template.failure(error) from error

    return call


def shared_arguments(template: Template, resources: Resources) -> dict[str, Any]:
    """Return the arguments of a template that are the same for all units; raise where a file is missing."""
    for what in GIVEN:
        if what in template.reads and not resources.has(what):
            raise InputError(f"template {template.name!r} needs a {what}, and none is given; add {GIVEN[what]}")
    bitext = resources.bitext if "lexicon" in template.arguments else None
    known = {"clusters": resources.clusters, "phrase_counts": resources.phrase_counts, "lexicon": bitext and bitext.lexicon}
    return {name: value for name, value in known.items() if name in template.arguments}
