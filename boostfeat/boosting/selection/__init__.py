"""Choices that the default adds to Figure 3, each in a file of its own; lists that were not learned from make them."""
