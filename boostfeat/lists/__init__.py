"""N-best lists and graphs as columns, their store, and choices from them. Imports core, metrics.

S sentences, H hypotheses, R unit occurrences, V distinct units, D unit features.
"""
