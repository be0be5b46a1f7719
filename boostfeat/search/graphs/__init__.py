"""Search graphs: readers of their formats, exact search in them, and learning and rescoring with them."""
