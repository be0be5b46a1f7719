"""Qualities of hypotheses: text -> a row of statistics -> score, with signatures and significance. Imports core."""
