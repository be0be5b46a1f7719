"""Lines that no reader takes, format by format: where, what was expected, what was found."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from boostfeat import formats
from boostfeat.core.errors import FormatError, InputError
from boostfeat.formats.bridges import from_ctranslate2, from_vllm
from boostfeat.formats.join_files import read_tokens
from boostfeat.formats.moses.ini import Ini
from boostfeat.formats.systems import read_systems
from boostfeat.lists.build import ReadOptions

SLF = "VERSION=1.0\nbase=0\nN=2 L=1\nI=0\nI=1 W=a\nJ=0 S=0 E=1 a=0.5\n"


def a_list(**quality: Any) -> str:
    """JSON lines with these columns of quality in the second hypothesis; the first has q alone."""
    hyps = [{"text": "a", "quality": {"q": 1.0}}, {"text": "b", "quality": quality}]
    return "\n".join(map(json.dumps, ({"boostfeat": "nbest/1"}, {"id": 0, "hyps": hyps})))


CASES = {
    "no lattice": ("htk-slf", "# nothing\n", ": expected a lattice, found none"),
    "a sub-lattice": ("htk-slf", SLF.replace("W=a", "L=other"), ":5: expected a node of a word, found a sub-lattice"),
    "a probability below 0": ("htk-slf", SLF.replace("a=0.5", "a=-0.5"), ":6: expected a probability a=, as base=0 says, found '-0.5'"),
    "another column of quality": ("jsonl", a_list(r=1.0), r"hyps\[1\].quality: expected q, found r; give every hypothesis the same"),
    "a denominator below 0": ("jsonl", a_list(q=[1.0, -2.0]), r"hyps\[1\].quality.q: expected a finite number, or one with a denom"),
    "a quality of three": ("jsonl", a_list(q=[1.0, 2.0, 3.0]), r":2: hyps\[1\].quality"),
    "a decoder's score twice": ("marian", "0 ||| a ||| DecoderScore= 1 ||| 2\n", ":1: expected distinct feature names, found 'DecoderScore'"),
    "scores of words twice": (
        "marian", "0 ||| a ||| WordScores= 1 WordScores= 2 ||| F0= 1 X= 1 ||| 2\n", ":1: expected one WordScores a model, found .* twice",
    ),
    "a weight above 1": ("marian", "0 ||| a ||| 1.5,0.5 0.2,0.8 ||| F0= 1 ||| 2\n", ":1: expected weights from 0 to 1, found 1.5"),
    "log-probabilities that are no object": (
        "openai", '{"choices": [{"text": "a", "logprobs": [1]}]}\n', "expected an object for 'logprobs', found",
    ),
    "a span that runs back": ("moses-enriched", "0 ||| a |1-0,wa=,total=1, LM0= 1|  ||| LM0= 1 ||| 1\n", ":1: expected a source span like 0-1"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_line_is_named(tmp_path: Path, case: str) -> None:
    format, text, message = CASES[case]
    (tmp_path / "list").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=f"list.*{message}"):
        formats.read(tmp_path / "list", ReadOptions(), format=format)


def test_a_folder_of_another_kind_is_no_espnet_output(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected a folder with 1best_recog/text, found none"):
        formats.read(tmp_path, ReadOptions(), format="espnet")


def test_columns_of_scores_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a\nb\n")
    (tmp_path / "x").write_text("1\n2\n")
    scores = [f"s={tmp_path / 'x'}"] * 2
    with pytest.raises(InputError, match="--scores: expected distinct names, found 's' twice"):
        formats.read(tmp_path / "list", ReadOptions(n=1, scores=scores), format="lines")


def test_a_system_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--system =out: expected NAME=FILE, found no name"):
        read_systems(["=out"], ReadOptions())


def test_a_weight_of_two_names(tmp_path: Path) -> None:
    """TM0= 1 2 has TM0_0 and TM0_1."""
    (tmp_path / "ini").write_text("[weight]\nTM0= 1 2\nTM0_1= 3\n")
    with pytest.raises(FormatError, match="ini: expected each weight once, found 'TM0_1' again"):
        Ini.read(tmp_path / "ini").named_weights()


def test_a_number_for_each_token(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text('{"tokens": ["a", "b"], "logprobs": [1]}\n')
    with pytest.raises(FormatError, match="expected a number for each of 2 tokens, found 1"):
        read_tokens(str(tmp_path / "tokens"))


def test_objects_of_libraries_that_do_not_fit() -> None:
    hyp = SimpleNamespace(hypotheses=[["a", "b"]], scores=[1.0], attention=[])
    with pytest.raises(InputError, match=r"expected 2 log-probabilities \(and one for the end\), found 1; score these texts"):
        from_ctranslate2([hyp], scores=[SimpleNamespace(tokens=["a", "b"], log_probs=[-1.0])])
    sample = SimpleNamespace(text="a b", token_ids=[1, 2], logprobs=[{1: None}], cumulative_logprob=-1.0, finish_reason="stop")
    with pytest.raises(InputError, match="expected log-probabilities of 2 tokens, found 1; ask for logprobs=1"):
        from_vllm([SimpleNamespace(outputs=[sample])])
