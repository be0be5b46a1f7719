"""What the default adds to Figure 3: choices that lists make which were not learned from, each in a file of its own."""
