"""A compact phrase-based decoder whose model may have trees: Moses' tables, an ARPA model, beam search."""
