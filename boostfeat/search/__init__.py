"""Search graphs, the reference decoder, and the loop of learning and decoding. Only commands import it."""
