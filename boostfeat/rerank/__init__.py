"""What a model chooses: from lists, and from whole search graphs. Imports core, metrics, lists, model, formats, features."""
