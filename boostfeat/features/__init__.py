"""Feature templates: named functions that compute features of units offline, from what an imported list carries."""

from .featurizing import featurize
from .groups import Group, feature_groups, feature_kinds
from .plan import FeaturePlan
from .registry import Counted, Template, load_plugin, template
from .resources import Clusters, Posterior, Resources
from .templates import SETS, TEMPLATES

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
    "featurize",
    "load_plugin",
    "template",
]
