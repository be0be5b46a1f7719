"""Gradient boosting of tree features [TA13 Figure 3]: options and recipes, the loss of a round, the loop, when to stop.

Imports core, metrics, lists, losses, trees, model, tuners.
"""
