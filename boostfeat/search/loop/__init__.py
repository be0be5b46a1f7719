"""A decoder in the loop: tune or induce, decode with the new model, accumulate the lists, and again."""
