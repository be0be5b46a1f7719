"""Choices of a model from lists and from whole search graphs. Imports core, metrics, lists, model, formats, features."""
