"""Candidates of every kind are decided as the lists that import makes of them."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace as Object
from typing import Any

import numpy as np
import pytest

from boostfeat import BoostReranker, InputError, Model, NBest, Reranker, from_openai, from_vllm, read_store

WORDS = ["the", "a", "of", "to", "house", "cat", "dog", "on", "in", "red", "blue", "big", "small", "one", "two"]
Import = Callable[..., NBest]


def samples(seed: int, n: int = 60) -> list[list[tuple[str, list[float]]]]:
    """Lists of texts, with a log-probability for each word."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, (n, 5))
    return [[(" ".join(rng.choice(WORDS, k)), (-rng.random(k)).tolist()) for k in own] for own in sizes]


def reward(text: str) -> float:
    return text.count("cat") - text.count("dog") + 0.01 * len(text)


def rewards(lists: list[list[tuple[str, list[float]]]]) -> list[float]:
    return [reward(text) for own in lists for text, _ in own]


def answer(own: list[tuple[str, list[float]]]) -> dict[str, Any]:
    choices = []
    for text, values in own:
        words = [word if k == 0 else f" {word}" for k, word in enumerate(text.split())]
        tokens = [{"token": word, "logprob": value} for word, value in zip(words, values, strict=True)]
        choices.append({"message": {"content": text}, "logprobs": {"content": tokens}, "finish_reason": "stop"})
    return {"choices": choices}


def request(own: list[tuple[str, list[float]]]) -> Object:
    outputs = []
    for k, (text, values) in enumerate(own):
        words = [word if i == 0 else f" {word}" for i, word in enumerate(text.split())]
        steps = [{7: Object(logprob=value, decoded_token=word)} for word, value in zip(words, values, strict=True)]
        outputs.append(
            Object(
                index=k,
                text=text,
                token_ids=[7] * len(words),
                logprobs=steps,
                cumulative_logprob=sum(values),
                finish_reason="stop",
            )
        )
    return Object(outputs=outputs)


KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Path], tuple[str, ...]]]] = {}  # candidates; what import reads


def kind(candidates: Callable[[Any], Any]) -> Callable[[Callable[[Any, Path], tuple[str, ...]]], None]:
    def note(write: Callable[[Any, Path], tuple[str, ...]]) -> None:
        KINDS[write.__name__] = (candidates, write)

    return note


@kind(lambda own: [(text, sum(values)) for text, values in own])
def texts_with_scores(lists: Any, path: Path) -> tuple[str, ...]:
    path.write_text("".join(f"{sum(values)!r}\t{text}\n" for own in lists for text, values in own))
    return "--format", "lines", "-n", "5"


@kind(lambda own: [(text, {"lp": sum(values)}) for text, values in own])
def texts_with_features(lists: Any, path: Path) -> tuple[str, ...]:
    rows = [{"q": s, "t": text, "lp": sum(values)} for s, own in enumerate(lists) for text, values in own]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "--group", "q", "--text", "t", "--features", "lp"


@kind(lambda own: [{"text": text, "features": {"am_score": sum(values)}, "score": sum(values)} for text, values in own])
def dictionaries_in_order(lists: Any, path: Path) -> tuple[str, ...]:
    path.write_text(
        json.dumps([{"input": [t for t, _ in own], "am_score": [sum(v) for _, v in own], "output": "x"} for own in lists])
    )
    return ()


@kind(answer)
def answers_of_a_server(lists: Any, path: Path) -> tuple[str, ...]:
    path.write_text("".join(json.dumps(answer(own)) + "\n" for own in lists))
    return ()


KINDS["objects_of_a_server"] = (lambda own: Object(choices=[], model_dump=lambda: answer(own)), KINDS["answers_of_a_server"][1])


def imported(boostfeat: Any, kind: str, lists: Any, folder: Path) -> NBest:
    flags = KINDS[kind][1](lists, folder / "lists")
    (folder / "rewards").write_text("".join(f"{value}\n" for value in rewards(lists)))
    store = folder / "x.nbest"
    assert boostfeat("import", folder / "lists", *flags, "--quality", f"r={folder / 'rewards'}", "-o", store)[0] == 0
    return read_store(store)


def learnt(nbest: NBest) -> BoostReranker:
    return BoostReranker("fast", "words-basic", gain="r", metric="r", rounds=3).fit(nbest)


VLLM = {"outputs_of_vllm": lambda own: own, "samples_of_vllm": lambda own: own.outputs, "generate_of_vllm": lambda own: [own]}


@pytest.mark.parametrize("name", [*KINDS, *VLLM])
def test_programs_decide_as_the_command_line(name: str, boostfeat: Any, tmp_path: Path) -> None:
    dev, test = samples(1), samples(2, 20)
    if name in VLLM:
        nbest, lists = (from_vllm(map(request, own), quality={"r": rewards(own)}) for own in (dev, test))
        candidates = [VLLM[name](request(own)) for own in test]
    else:
        nbest, lists = (imported(boostfeat, name, own, tmp_path) for own in (dev, test))
        candidates = [KINDS[name][0](own) for own in test]
    estimator = learnt(nbest)
    estimator.model_.save(tmp_path / "m.json")
    reranker = Reranker.load(tmp_path / "m.json")
    expected = estimator.decision_function(lists)
    found = [reranker.scores(own) for own in candidates]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-9)
    assert reranker.choose_many(candidates) == estimator.predict(lists).tolist() == reranker.choose_many(lists)
    assert len(set(reranker.choose_many(candidates))) > 1


def test_decisions(boostfeat: Any, tmp_path: Path) -> None:
    """A decision has the probability and the margin that rerank --confidence goes by, and says whose it is."""
    model = learnt(imported(boostfeat, "texts_with_scores", samples(1), tmp_path)).model_
    model.save(tmp_path / "m.json")
    test = samples(3, 30)
    lists = imported(boostfeat, "texts_with_scores", test, tmp_path)
    _, printed, _ = boostfeat("rerank", tmp_path / "x.nbest", "-m", tmp_path / "m.json", "--confidence")
    decoder = [int(np.argmax(lists.score[a:b])) for a, b in zip(lists.hyp_ptr, lists.hyp_ptr[1:], strict=False)]
    reranker = Reranker.load(tmp_path / "m.json")
    for own, line, first in zip(test, printed.splitlines(), decoder, strict=True):
        choice = reranker.decide([(text, sum(values)) for text, values in own])
        share, text = line.split("\t")
        assert (f"{choice.probability:.4f}", own[choice.index][0]) == (share, text)
        assert choice.kept_first == (choice.index == first) == (choice.margin == 0)
        assert choice.model == f"m.json {model.signature}"


def test_reports_of_drift(boostfeat: Any, tmp_path: Path) -> None:
    """Programs and the command line report the same; lists of other words and without a feature are seen."""
    learnt(imported(boostfeat, "texts_with_scores", samples(1), tmp_path)).model_.save(tmp_path / "m.json")
    test = samples(3, 30)
    imported(boostfeat, "texts_with_scores", test, tmp_path)
    assert boostfeat("rerank", tmp_path / "x.nbest", "-m", tmp_path / "m.json", "--monitor", tmp_path / "seen.json")[0] == 0
    reranker = Reranker.load(tmp_path / "m.json")
    assert reranker.report()["kept_first"] is None
    kept = [reranker.decide([(text, sum(values)) for text, values in own]).kept_first for own in test]
    report = json.loads((tmp_path / "seen.json").read_text())
    own_report = reranker.report()
    for name in ("margin", "probability"):
        assert report.pop(name) == pytest.approx(quantiles := own_report.pop(name), abs=1e-9)
        assert [*quantiles] == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    assert report == own_report
    assert (report["lists"], report["kept_first"], report["missing_features"]) == (30, np.mean(kept), {})
    training = report["training"]
    assert (training["lists"], [*training["margin"]], [*training["probability"]]) == (60, [*quantiles], [*quantiles])
    low, high = reranker.model.config["ranges"]["score"]
    outside = [any(not low <= sum(values) <= high for _, values in own) for own in test]
    assert report["features_out_of_range"].get("score", 0) == sum(outside)
    reranker.decide([("a cat", low), ("a dog", high)])
    assert reranker.report()["features_out_of_range"].get("score", 0) == sum(outside)
    reranker.decide([("a cat", low - 1), ("a dog", high)])
    assert reranker.report()["features_out_of_range"]["score"] == sum(outside) + 1
    with pytest.raises(InputError, match="'score'"):
        reranker.decide(["a", "b"])
    assert reranker.report()["missing_features"] == {"score": 1}
    before = reranker.report()["unknown_words"]["target"]
    reranker.decide([("ein ganz anderes", 1.0), ("fremdes wort", 1.0)])
    assert reranker.report()["unknown_words"]["target"] > before


def test_what_is_missing_is_named() -> None:
    reranker = Reranker(Model({"lp": 1.0, "Rank": -0.1}))
    with pytest.raises(InputError, match="expected numbers for 'lp', which the model reads, found none"):
        reranker.decide(["a b", "b"])
    assert reranker.decide([("a b", {"lp": 0.0}), ("b", {"lp": 0.05})]).index == 0
    assert reranker.decide([("a b", {"lp": 0.0}), ("b", {"lp": 0.2})]).index == 1


def test_answers_of_the_openai_package() -> None:
    chat = pytest.importorskip("openai.types.chat", reason="the openai package is not installed")
    own = samples(4, 1)[0]
    whole = {"id": "x", "created": 1, "model": "m", "object": "chat.completion", **answer(own)}
    for k, choice in enumerate(whole["choices"]):
        choice |= {"index": k, "message": {**choice["message"], "role": "assistant"}}
        for token in choice["logprobs"]["content"]:
            token |= {"bytes": list(token["token"].encode()), "top_logprobs": []}
    response = chat.ChatCompletion.model_validate(whole)
    assert from_openai([response], quality=rewards([own])) == from_openai([answer(own)], quality=[rewards([own])])


@pytest.fixture(scope="module")
def reranker() -> Reranker:
    rows = [{"q": s, "t": text, "lp": sum(values), "r": reward(text)} for s, own in enumerate(samples(1)) for text, values in own]
    return Reranker(learnt(NBest.from_records(rows, group="q", text="t", features="lp", quality="r")).model_)


def calls(n: int, n_lists: int = 50) -> list[Any]:
    lists = [[(text, {"lp": sum(values)}) for text, values in own] for own in samples(5, n_lists)]
    return [lists[k % n_lists] for k in range(n)]


@pytest.mark.slow
def test_threads_answer_as_one_does(reranker: Reranker) -> None:
    expected = [reranker.decide(own) for own in calls(50)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(reranker.decide, calls(10_000)))
    assert found == [expected[k % 50] for k in range(10_000)]


@pytest.mark.slow
def test_calls_hold_no_memory(reranker: Reranker) -> None:
    for own in calls(20_000):
        reranker.decide(own)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for own in calls(80_000):
        reranker.decide(own)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4 << 10  # KB
