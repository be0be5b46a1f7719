"""A model of another language, case or tokenisation is told of by every command that ranks, and its own lists are not."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from boostfeat import formats
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.known_words import ENOUGH, FEW, KnownWords, doubts_about
from boostfeat.features.plan import Entry, FeaturePlan
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model

TOLD = "words the model's templates know 0: is it of their language, case and tokenisation?"


def words(n: int, letter: str) -> list[str]:
    return [f"{letter}{k}" for k in range(n)]


def plan(*entries: Entry) -> FeaturePlan:
    return FeaturePlan(entries, products=())


PAIRS = plan(Entry("pt", features=tuple(f"pt:{f}|{e}" for f, e in zip(words(FEW, "f"), words(FEW, "e"), strict=True))))


@pytest.mark.parametrize(
    ("about", "known", "sides"),
    [
        (PAIRS, 0, ["source", "target"]),
        (PAIRS, 1, ["source", "target"]),
        (PAIRS, 2, []),  # of 100
        (plan(Entry("bi", features=tuple(f"bi:{e}|the" for e in words(2 * FEW, "e")))), 0, ["target"]),
        (plan(Entry("pt", hash_bits=10, features=tuple(f"pt:#{k:x}" for k in range(2 * FEW)))), 0, []),
        (plan(Entry("length", features=("len.src", "len.tgt"))), 0, []),
        (plan(Entry("pt", features=("pt:a|b",))), 0, []),  # too few to tell
        (None, 0, []),
    ],
)
def test_doubts(about: FeaturePlan | None, known: int, sides: list[str]) -> None:
    source, target = (" ".join([*words(known, letter), *words(ENOUGH - known, "x"), "12", "."]) for letter in "fe")
    found = doubts_about(about, source=[source], target=[target])
    assert [line.split(" words")[0] for line in found] == [f"of {ENOUGH} {side}" for side in sides]
    assert all(f"know {known}:" in line for line in found)
    assert doubts_about(about, source=[source.replace("x1 ", "")], target=["e0"]) == []  # one word less is not enough


def test_a_stream_is_told_of_once() -> None:
    met, said = KnownWords(PAIRS), []
    for k in range(2 * ENOUGH):
        met.meet(source=[f"x{k}"], target=[f"e{k}"])
        said += [(k, line) for line in met.doubts()]
    assert said == [(ENOUGH - 1, f"of {ENOUGH} source {TOLD}")]


def capitals(nbest: NBest) -> NBest:
    src, tgt, source, text = (
        strings([line.upper() for line in column.to_pylist()])
        for column in (nbest.units.src, nbest.units.tgt, nbest.source, nbest.text)
    )
    return replace(nbest, source=source, text=text, units=replace(nbest.units, src=src, tgt=tgt))


def test_commands_that_rank_say_it(boostfeat, data_stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Capitals stand for another language; the list of the same language is silent."""
    maker, dev = FeatureMaker(), read_store(data_stores / "dev.nbest")[:100]
    _, learnt = maker.learn(dev, maker.plan("pt,bi"))
    model = tmp_path / "m.json"
    with_plan(Model({name: 0.1 for name in learnt.features}), learnt).save(model)
    own = read_store(data_stores / "test.nbest")[:60]
    for name, nbest, told in (("own", own, False), ("capitals", capitals(own), True)):
        path = tmp_path / f"{name}.nbest"
        write_store(nbest, path)
        for command in (("rerank", path, "-o", tmp_path / "out.txt"), ("score", path), ("explain", path)):
            code, _, err = boostfeat(*command, "-m", model)
            assert code == 0, err
            assert [f"{path}: of " in err, f"source {TOLD}" in err, f"target {TOLD}" in err] == [told] * 3, (command, err)
        stream = io.BytesIO()
        formats.write(nbest, stream, format="jsonl")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stream.getvalue())))
        code, out, err = boostfeat("rerank", "-", "--stream", "-m", model)
        assert (code, out.count("\n"), f"source {TOLD}" in err) == (0, 60, told)
