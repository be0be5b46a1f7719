"""A decoder in the loop: tune or induce, decode with the new model, accumulate the lists, and again."""

from __future__ import annotations

from .decoders import CommandDecoder, Corpus, Decoder, DecoderError, GraphDecoder
from .driver import LoopOptions, Result, run_loop
from .learners import Learner, Task, TreeLearner, TunerLearner

__all__ = [
    "CommandDecoder",
    "Corpus",
    "Decoder",
    "DecoderError",
    "GraphDecoder",
    "Learner",
    "LoopOptions",
    "Result",
    "Task",
    "TreeLearner",
    "TunerLearner",
    "run_loop",
]
