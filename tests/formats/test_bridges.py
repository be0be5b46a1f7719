"""Objects of transformers, CTranslate2 and vLLM as lists. Where these are installed, their own models and classes make them."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace as Object
from typing import Any

import numpy as np
import pytest

import boostfeat
from boostfeat import from_ctranslate2, from_transformers, from_vllm
from boostfeat.core.errors import InputError
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.nbest import NBest

END, PAD = 0, 1


class Tokenizer:
    """Ids that divide by three are pieces that continue a word."""

    eos_token_id, all_special_ids = END, (END, PAD)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return ["</s>" if i == END else "<pad>" if i == PAD else f"▁w{i}" if i % 3 else f"p{i}" for i in ids]

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(self.convert_ids_to_tokens([i for i in ids if i not in self.all_special_ids])).replace("▁", " ").strip()


def texts_of_units(nbest: NBest) -> list[str]:
    return nbest.units.tgt.take(nbest.unit_idx).to_pylist()


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def test_beams_of_recorded_arrays() -> None:
    """A prompt of one token; the first sequence is cut off with a forced end, the second ends by itself and is padded."""
    rng = np.random.default_rng(0)
    scores = [log_softmax(rng.normal(size=(2, 8))) for _ in range(4)]
    scores[3][:] = -np.inf
    scores[3][:, END] = 0.0
    sequences = np.array([[PAD, 4, 3, 5, END], [PAD, 7, END, PAD, PAD]])
    beams = np.array([[0, 1, 1, 0], [0, 0, -1, -1]])
    values = [[scores[0][0, 4], scores[1][1, 3], scores[2][1, 5]], [scores[0][0, 7], scores[1][0, END]]]
    output = Object(
        sequences=sequences,
        scores=scores,
        beam_indices=beams,
        sequences_scores=np.array([sum(values[0]) / 4, sum(values[1]) / 2]),
    )
    nbest = from_transformers(output, Tokenizer(), n=2, sources=["x"], refs=["w4p3 w5"])
    assert nbest.text.to_pylist() == ["w4p3 w5", "w7"]
    assert texts_of_units(nbest) == ["w4p3", "w5", "w7", "</s>"]
    np.testing.assert_allclose(nbest.global_column("logprob"), [sum(v) for v in values], atol=1e-12)
    assert nbest.score.tolist() == nbest.global_column("DecoderScore").tolist() == [sum(values[0]) / 4, sum(values[1]) / 2]
    assert (nbest.source.to_pylist(), nbest.has_stats) == (["x"], True)
    sizes = [np.diff(from_transformers(output, Tokenizer(), sources=s).hyp_ptr).tolist() for s in (["x"], ["x", "y"], None)]
    assert sizes == [[2], [1, 1], [2]]  # as many of each source as there are
    with pytest.raises(InputError, match="sources: expected one for each of 2 lists, found 3; align them"):
        from_transformers(output, Tokenizer(), sources=["x", "y", "z"])


def test_samples_of_recorded_arrays() -> None:
    """Scores of sampling are logits; what follows the end is padding."""
    logits = [np.random.default_rng(k).normal(size=(2, 8)) for k in range(3)]
    sequences = np.array([[4, 5, END], [7, END, PAD]])
    nbest = from_transformers(Object(sequences=sequences, scores=logits), Tokenizer(), n=1)
    logs = [log_softmax(step) for step in logits]
    expected = [logs[0][0, 4] + logs[1][0, 5] + logs[2][0, END], logs[0][1, 7] + logs[1][1, END]]
    np.testing.assert_allclose(nbest.global_column("logprob"), expected, atol=1e-12)
    assert nbest.score.tolist() == pytest.approx(expected)
    assert texts_of_units(nbest) == ["w4", "w5", "</s>", "w7", "</s>"]
    p = np.exp(logs[0][0])
    first = dict(zip(nbest.unit_names, nbest.X[nbest.unit_idx[0]].tolist(), strict=True))
    assert first["logprob.entropy"] == pytest.approx(-(p * np.log(p)).sum())
    assert first["logprob.margin"] == pytest.approx(logs[0][0, 4] - np.delete(logs[0][0], 4).max())
    with pytest.raises(InputError, match="expected a multiple of 3 sequences, found 2"):
        from_transformers(Object(sequences=sequences, scores=logits), Tokenizer(), n=3)


SEARCHES = {
    "beams": {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.6},
    "beams, early end": {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 1.0, "early_stopping": True},
    "sampled beams": {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.0, "do_sample": True},
    "samples": {"num_return_sequences": 3, "do_sample": True},
    "greedy": {"num_return_sequences": 1},
}


def marian(transformers: Any) -> tuple[Any, Any]:
    config = transformers.MarianConfig(
        vocab_size=60, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, pad_token_id=PAD, eos_token_id=END, bos_token_id=2, decoder_start_token_id=PAD,
        forced_eos_token_id=END, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.MarianMTModel(config), {}


def gpt2(transformers: Any) -> tuple[Any, Any]:
    config = transformers.GPT2Config(
        vocab_size=60, n_embd=16, n_layer=1, n_head=2, eos_token_id=END, bos_token_id=END, pad_token_id=PAD
    )
    return transformers.GPT2LMHeadModel(config), {"pad_token_id": PAD}


def whisper(transformers: Any) -> tuple[Any, Any]:
    config = transformers.WhisperConfig(
        vocab_size=60, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, num_mel_bins=8, max_source_positions=20, max_target_positions=40, pad_token_id=PAD,
        eos_token_id=END, bos_token_id=2, decoder_start_token_id=2, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config), {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("make", [marian, gpt2, whisper])
def test_models_of_transformers(make: Any, search: str) -> None:
    """Σ log p = Σ of compute_transition_scores, and over length^penalty = sequences_scores, both to 1e-4."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    torch.manual_seed(1)
    model, more = make(transformers)
    given = torch.randn(2, 8, 40) if make is whisper else torch.randint(3, 60, (2, 7))
    settings = SEARCHES[search]
    with torch.no_grad():
        output = transformers.GenerationMixin.generate(
            model.eval(), given, max_new_tokens=12, output_scores=True, return_dict_in_generate=True, **settings, **more
        )
    nbest = from_transformers(output, Tokenizer(), n=settings["num_return_sequences"], sources=["a", "b"])
    assert len(nbest) == 2
    beams = getattr(output, "beam_indices", None)
    parts = model.compute_transition_scores(output.sequences, output.scores, beams, normalize_logits=beams is None).numpy()
    generated = output.sequences[:, -len(output.scores) :].numpy()
    ended = np.cumsum(generated == END, axis=1) - (generated == END)  # ends before each token
    used = np.where(ended == 0, parts, 0.0) if beams is None else np.where(beams[:, : parts.shape[1]].numpy() >= 0, parts, 0.0)
    sums = nbest.global_column("logprob")
    np.testing.assert_allclose(sums, used.sum(axis=1), atol=1e-4)
    if beams is not None:
        length = (beams >= 0).sum(dim=1).numpy()
        np.testing.assert_allclose(sums / length ** settings["length_penalty"], output.sequences_scores.numpy(), atol=1e-4)
    assert nbest.global_column("Pieces").tolist() == ((used != 0).sum(axis=1)).tolist()  # no padding, no forced end
    assert not any("<pad>" in text for text in texts_of_units(nbest))


def test_scores_of_other_beams() -> None:
    """As Whisper's own generate returns: one row of scores a sequence, with the beams of more."""
    scores = [log_softmax(np.random.default_rng(k).normal(size=(2, 8))) for k in range(3)]
    output = Object(sequences=np.array([[4, 5, END], [7, 4, 5]]), scores=scores, beam_indices=np.array([[0, 3, 3], [4, 4, 4]]))
    with pytest.raises(InputError, match="scores: expected a row for each of 5 beams, found 2"):
        from_transformers(output, Tokenizer(), n=2)
    output.beam_indices, output.sequences_scores = np.zeros((2, 3), int), np.array([-1.5, -0.1])
    said: list[str] = []
    from_transformers(output, Tokenizer(), n=2, options=ReadOptions(warn=said.append))
    assert "scores of tokens may be of other beams" in said[0]


def test_ctranslate2() -> None:
    results = [
        Object(hypotheses=[["▁the", "▁ho", "use"], ["▁a"]], scores=[-0.5, -0.75], attention=[[[0.9, 0.1], [0.2, 0.8], [0.2, 0.8]], [[1.0, 0.0]]]),
        Object(hypotheses=[["▁yes", "</s>"]], scores=[-0.25], attention=[]),
    ]  # fmt: skip
    scores = [
        Object(tokens=[], log_probs=[-1.0, -2, -3, -4]),
        Object(tokens=[], log_probs=[-1.0, -2]),
        Object(tokens=[], log_probs=[-5.0, -6]),
    ]
    nbest = from_ctranslate2(results, scores=scores)
    assert nbest.text.to_pylist() == ["the house", "a", "yes"]
    assert texts_of_units(nbest) == ["the", "house", "</s>", "a", "</s>", "yes", "</s>"]
    np.testing.assert_allclose(nbest.global_column("logprob"), [sum(s.log_probs) for s in scores], atol=1e-4)
    assert nbest.global_column("DecoderScore").tolist() == [-0.5, -0.75, -0.25]
    assert nbest.src_start.tolist() == [0, 1, -1, 0, -1, -1, -1]
    assert from_ctranslate2(results).unit_names == ("Alignment.max", "Alignment.entropy", "Pieces", "Words")
    with pytest.raises(InputError, match="expected 3 scoring results, one a hypothesis, found 2"):
        from_ctranslate2(results, scores=scores[:2])
    with pytest.raises(InputError, match="expected 3 scoring results, one a hypothesis, found 4"):
        from_ctranslate2(results, scores=[*scores, scores[0]])


def translator(folder: Any) -> Any:
    """A model of CTranslate2 of one layer, with random weights."""
    ct2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    specs = pytest.importorskip("ctranslate2.specs", reason="ctranslate2's converters do not work here")
    rng, d, words = np.random.default_rng(0), 8, ["<blank>", "<unk>", "<s>", "</s>", *(f"▁w{i}" for i in range(8)), *"abcdefgh"]

    def random(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    def layer(part: Any, *sizes: int) -> None:
        part.weight, part.bias = random(*sizes), random(sizes[0])

    def norm(part: Any) -> None:
        part.gamma, part.beta = np.ones(d, np.float32), np.zeros(d, np.float32)

    spec = specs.TransformerSpec.from_config((1, 1), 2)
    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if side is spec.encoder else side.embeddings
        embeddings.weight, side.position_encodings.encodings = random(len(words), d), random(64, d)
        norm(side.layer_norm)
        own = side.layer[0]
        for attention, outputs in ((own.self_attention, (3 * d, d)), (getattr(own, "attention", None), (d, 2 * d, d))):
            if attention is not None:
                norm(attention.layer_norm)
                for part, n in zip(attention.linear, outputs, strict=True):
                    layer(part, n, d)
        norm(own.ffn.layer_norm)
        layer(own.ffn.linear_0, 16, d)
        layer(own.ffn.linear_1, d, 16)
    layer(spec.decoder.projection, len(words), d)
    spec.decoder.projection.bias[1:4] = -20, -20, 6  # no unknown words or beginnings, and ends
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    return ct2.Translator(str(folder))


def test_a_model_of_ctranslate2(tmp_path: Any) -> None:
    """Σ log p over the number of tokens, its length penalty of 1, is the score that it gives."""
    model, sources = translator(tmp_path), [["▁w1", "a"], ["▁w3"]]
    how = {"beam_size": 4, "num_hypotheses": 3, "return_scores": True, "return_attention": True}
    how |= {"min_decoding_length": 0, "max_decoding_length": 20}  # the end is possible at once, as it is to score_batch
    results = model.translate_batch(sources, **how, length_penalty=1.0)
    pairs = [(source, own) for source, result in zip(sources, results, strict=True) for own in result.hypotheses]
    scores = model.score_batch([source for source, _ in pairs], [own for _, own in pairs])
    nbest = from_ctranslate2(results, scores=scores, sources=["w1a", "w3"], quality=range(6))
    assert np.diff(nbest.hyp_ptr).tolist() == [3, 3]
    assert nbest.text.to_pylist() == ["".join(own).replace("▁", " ").strip() for _, own in pairs]
    sums = nbest.global_column("logprob")
    np.testing.assert_allclose(sums, [sum(one.log_probs) for one in scores], atol=1e-4)
    ended = [k for k, (_, own) in enumerate(pairs) if len(own) < 20]
    assert ended
    penalised = [sums[k] / (len(pairs[k][1]) + 1) for k in ended]
    np.testing.assert_allclose(nbest.global_column("DecoderScore")[ended], penalised, atol=1e-4)


VLLM = ("recorded", "vllm", "vllm, flat")


def vllm_classes(of: str) -> tuple[Any, Any, Any, Any]:
    """Make a token's log-probability, those of a sample, a sample, and a request, by vLLM's own classes where it is installed."""
    if of == "recorded":
        return Object, list, Object, Object
    own, outputs = (
        pytest.importorskip(f"vllm.{module}", reason="the package vllm cannot be imported", exc_type=ImportError)
        for module in ("logprobs", "outputs")
    )

    def flat(steps: list[Any]) -> Any:
        found = own.FlatLogprobs()
        for step in steps:
            found.append(step)
        return found

    def request(**known: Any) -> Any:
        return outputs.RequestOutput("id", prompt_token_ids=[], prompt_logprobs=None, finished=True, **known)

    return own.Logprob, flat if "flat" in of else list, outputs.CompletionOutput, request


@pytest.mark.parametrize("of", VLLM)
def test_vllm(of: str) -> None:
    token_class, steps_class, sample_class, request_class = vllm_classes(of)

    def step(token: int, text: str, value: float, *others: float) -> dict[int, Any]:
        return {
            token: token_class(logprob=value, rank=1, decoded_token=text),
            **{99 + k: token_class(logprob=v, rank=2, decoded_token="x") for k, v in enumerate(others)},
        }

    ended = sample_class(
        index=0, text=" the house", token_ids=[5, 6, 7, 2], cumulative_logprob=-1.75, finish_reason="stop",
        logprobs=steps_class([step(5, " the", -0.25, -2.0), step(6, " ho", -0.5, -1.0), step(7, "use", -0.5, -3.0),
                              step(2, "<|im_end|>", -0.5, -1.5)]),
    )  # fmt: skip
    last = steps_class([step(8, " a", -1.0, -0.5)])
    cut = sample_class(index=1, text=" a", token_ids=[8], cumulative_logprob=-1.0, finish_reason="length", logprobs=last)
    nbest = from_vllm([request_class(prompt="p", outputs=[ended, cut])], refs=[["the house", "a house"]])
    assert nbest.text.to_pylist() == ["the house", "a"]
    assert texts_of_units(nbest) == ["the", "house", "</s>", "a"]
    np.testing.assert_allclose(nbest.global_column("logprob"), [-1.75, -1.0], atol=1e-4)
    assert nbest.score.tolist() == [-1.75, -1.0]
    assert nbest.global_column("Cut").tolist() == [0, 1]
    assert nbest.X[nbest.unit_idx[0], nbest.unit_names.index("logprob.margin")] == 1.75
    with pytest.raises(InputError, match="refs: expected one for each of 1 list, found 2"):
        from_vllm([request_class(prompt="p", outputs=[ended])], refs=["a", "b"])


def test_scores_of_other_tokens_are_refused() -> None:
    result = Object(hypotheses=[["a", "b"]], scores=[1.0], attention=[])
    with pytest.raises(InputError, match=r"expected 2 log-probabilities \(and one for the end\), found 1; score these texts"):
        from_ctranslate2([result], scores=[Object(tokens=["a", "b"], log_probs=[-1.0])])
    sample = Object(text="a b", token_ids=[1, 2], logprobs=[{1: None}], cumulative_logprob=-1.0, finish_reason="stop")
    with pytest.raises(InputError, match="expected log-probabilities of 2 tokens, found 1; ask for logprobs=1"):
        from_vllm([Object(outputs=[sample])])


def test_bridges_import_none_of_these_packages() -> None:
    code = "import sys, boostfeat; boostfeat.from_vllm; print([m for m in ('torch', 'transformers', 'vllm', 'ctranslate2') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(next(iter(boostfeat.__path__))) + "/..", "PATH": ""},
    )
    assert done.stdout.strip() == "[]"
