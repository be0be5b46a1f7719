"""Trees inside Moses: as columns of a phrase table, or as the source of a feature function."""
