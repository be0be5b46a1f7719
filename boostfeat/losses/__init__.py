"""Losses: preference pairs and how they are drawn, the log-loss of their margins [HM11], [TA13], its line search.

Imports core, metrics, lists. K pairs, H hypotheses; z = P scores are the margins.
"""
