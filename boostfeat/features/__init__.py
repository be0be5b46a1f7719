"""Feature templates: named functions that compute features of units offline, from what an imported list carries."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .featurizing import featurize
    from .groups import Group, feature_groups, feature_kinds, feature_states
    from .plan import FeaturePlan
    from .registry import Counted, Template, load_plugin, template
    from .resources import Clusters, Posterior, Resources
    from .sets import SETS, TEMPLATES

__all__ = [
    "SETS",
    "TEMPLATES",
    "Clusters",
    "Counted",
    "FeaturePlan",
    "Group",
    "Posterior",
    "Resources",
    "Template",
    "feature_groups",
    "feature_kinds",
    "feature_states",
    "featurize",
    "load_plugin",
    "template",
]

# Imported when first used: commands declare the files of features.options, and their --help must not wait for pyarrow.
_IN = {
    ".featurizing": ("featurize",),
    ".groups": ("Group", "feature_groups", "feature_kinds", "feature_states"),
    ".registry": ("Counted", "Template", "load_plugin", "template"),
    ".resources": ("Clusters", "Posterior", "Resources"),
    ".sets": ("SETS", "TEMPLATES"),
    ".plan": ("FeaturePlan",),
}
_MODULE_OF = {name: module for module, names in _IN.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
