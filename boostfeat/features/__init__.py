"""Feature templates: named functions that compute features of units offline, from what an imported list carries."""

from __future__ import annotations

from ..lists.words import Words
from .context import Rows
from .engine import featurize
from .groups import Group, feature_groups, feature_kinds, feature_states
from .registry import Sparse, Template, load_plugin, template
from .resources import Clusters, Posterior, Resources
from .sets import SETS, TEMPLATES
from .vocab import FeaturePlan

__all__ = [
    "SETS",
    "TEMPLATES",
    "Clusters",
    "FeaturePlan",
    "Group",
    "Posterior",
    "Resources",
    "Rows",
    "Sparse",
    "Template",
    "Words",
    "feature_groups",
    "feature_kinds",
    "feature_states",
    "featurize",
    "load_plugin",
    "template",
]
