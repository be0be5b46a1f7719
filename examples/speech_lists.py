"""Lists of a speech recogniser: word error rates before and after. Usage: speech_lists.py TRAIN.json TEST.json"""

import sys

import numpy as np

from boostfeat import BoostReranker, import_lists


def main(train: str, test: str) -> tuple[float, float]:
    dev, held_out = import_lists(train), import_lists(test)  # HyPoradise, Vosk, ESPnet, mlm-scoring and more
    reranker = BoostReranker(gain="wer", metric="wer").fit(dev)
    first = held_out.take_hyps(held_out.hyp_ptr[:-1], np.arange(len(held_out) + 1))  # lists of their first hypothesis
    before, after = -reranker.score(first), -reranker.score(held_out)
    print(f"word error rate: {before:.2f} -> {after:.2f}")
    return before, after


if __name__ == "__main__":
    main(*sys.argv[1:])
