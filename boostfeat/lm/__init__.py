"""N-gram language models of ARPA files, for the decoder and for features of words. It imports core only."""
