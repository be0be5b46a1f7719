"""A model: named weights and trees, what it adds to hypotheses, and what a person reads of it.

Imports core, metrics, lists, trees.
"""
