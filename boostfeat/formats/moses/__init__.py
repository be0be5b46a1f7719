"""Moses' files: n-best lists plain and enriched, search graphs, hypergraphs, ini, phrase tables."""
