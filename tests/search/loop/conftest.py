"""Sentences and the reference decoder on the small system of a module."""

from __future__ import annotations

import pytest

from boostfeat.search.decoder.setup import SearchOptions
from boostfeat.search.loop.decoders import ParallelText, ReferenceDecoder


@pytest.fixture(scope="module")
def corpora(system) -> list[ParallelText]:
    return [ParallelText.read(name, str(system / f"{name}.src"), [str(system / f"{name}.ref")]) for name in ("dev", "select")]


@pytest.fixture(scope="module")
def decoder(system, corpora) -> ReferenceDecoder:
    sentences = tuple(line for corpus in corpora for line in corpus.source)
    search = SearchOptions(distortion_limit=2)
    return ReferenceDecoder(str(system / "pt"), str(system / "lm.arpa"), None, search, sentences, size=20)
