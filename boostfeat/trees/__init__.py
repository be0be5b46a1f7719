"""Regression trees: how they are stored, grown on a gradient, and merged. A tree knows nothing of sentences. Imports core."""
