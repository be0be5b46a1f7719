"""Models that induce learned leave whole: exports choose as rerank does, on lists of data/ and on all real lists."""

from __future__ import annotations

import json
import subprocess
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from test_export import imported, needs_cc

from boostfeat import BoostReranker
from boostfeat.features.feature_maker import plan_of
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.rerank.candidate_lists import lists_of_candidates

QUICK = ("--set", "rounds=5", "--set", "draws=200", "--min-occurrences", 20, "-q")
DECODER = ("--for-decoder", "--templates")
DATA = Path(__file__).parents[2] / "data"
BITEXT = ("--bitext", DATA / "tune.src", DATA / "tune.ref")


@pytest.fixture(scope="module")
def stores(data_stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for name, n in (("dev", 80), ("test", 40)):
        write_store(read_store(data_stores / f"{name}.nbest")[:n], folder / f"{name}.nbest")
    return folder


def exported(boostfeat: Any, model: Path, target: str, lists: Path) -> dict[str, Any]:
    """What verification on all lists found."""
    out = model.with_name(f"{model.stem}.{'h' if target == 'c' else 'py'}")
    code, said, err = boostfeat("export", model, "--to", target, "-o", out, "--force", "--verify", lists, "--json")
    assert code == 0, err
    return dict(json.loads(said)["verified"])


def check_choices(boostfeat: Any, model: Path, target: str, lists: Path) -> None:
    """Scores differ by rounding alone, and every list's choice is rerank's."""
    found, n = exported(boostfeat, model, target, lists), len(read_store(lists))
    assert found["difference"] <= (1e-12 if target == "python" else 1e-9)
    assert found["note"] == f"{n:,} of {n:,} choices as rerank's"


@needs_cc
@pytest.mark.parametrize(
    "how",
    [("--templates", "phrases+expected_length", *BITEXT), (*DECODER, "large+neighbours+source_words")],
    ids=["bitext", "decoder"],
)
def test_models_of_phrases_leave_whole(boostfeat, stores: Path, tmp_path: Path, how: tuple[str, ...]) -> None:
    model = tmp_path / "model.json"
    assert boostfeat("induce", stores / "dev.nbest", *how, *QUICK, "-o", model)[0] == 0
    learned = {"m1.tgt", "m1.bitext", "length.over", "length.under"} & Model.load(model).weights.keys()
    assert len(learned) == 4 * ("--bitext" in how)
    for target in ("python", "c"):
        check_choices(boostfeat, model, target, stores / "test.nbest")


def test_a_model_for_a_decoder_decides_by_scores_and_has_what_search_can_compute(boostfeat, stores: Path, tmp_path: Path) -> None:
    """One word, the same in Python; members of sets that search cannot use are left out by name, named ones are refused."""
    model, dev = tmp_path / "model.json", stores / "dev.nbest"
    quick = [word for word in QUICK if word != "-q"]
    code, _, err = boostfeat("induce", dev, *DECODER, "words-basic", *quick, "-o", model)
    assert code == 0
    assert "templates left out, which search cannot use: place (it needs all words of the hypothesis), repeat (" in err
    learned = Model.load(model)
    assert [entry["name"] for entry in learned.plan["templates"]] == [
        *("word", "frequency", "source_words", "model1", "un", "bi")
    ]
    assert (learned.config["for_decoder"], "decision" in learned.config) == (True, False)
    same = BoostReranker(for_decoder=True, templates="words-basic", rounds=5, draws=200, min_occurrences=20).fit(read_store(dev))
    assert same.model_.signature == learned.signature
    assert boostfeat("export", model, "--to", "c", "-o", tmp_path / "m.h")[0] == 0
    assert "boostfeat_unit_score(" in (tmp_path / "m.h").read_text()
    for words, message in (
        (("--templates", "mbr"), "template 'mbr': search cannot use it, because it needs the whole list; learn without it"),
        (("--level", "global"), "for-decoder: level global sees whole hypotheses, which search does not have"),
        (("--set", "decide=auto"), "for-decoder: decide auto ranks whole lists, which search does not have"),
    ):
        code, _, err = boostfeat("induce", dev, "--for-decoder", *words, *QUICK, "-o", tmp_path / "n.json")
        assert (code, err.count("\n")) == (2, 1)
        assert message in err


def test_a_model_that_was_not_learned_for_a_decoder_is_told_so(boostfeat, stores: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    assert boostfeat("induce", stores / "dev.nbest", "--templates", "length+place", *QUICK, "-o", model)[0] == 0
    code, _, err = boostfeat("export", model, "--to", "c", "-o", tmp_path / "m.h")
    assert code == 0
    why = "no boostfeat_unit_score for search, because templates see whole hypotheses: place"
    assert f"{why} ('induce --for-decoder' learns a model without that)" in err


EXAMPLE = Path(__file__).parents[2] / "examples" / "beam_search.c"


@needs_cc
def test_the_beam_search_of_the_examples_has_the_models_scores(boostfeat, stores: Path, tmp_path: Path) -> None:
    """Its translation has the score that Python gives it, and no hypothesis of the list, made of the same phrases, has more."""
    model = tmp_path / "model.json"
    how = (*DECODER, "phrases+large+neighbours", *QUICK)
    assert boostfeat("induce", stores / "dev.nbest", *how, "-o", model)[0] == 0
    for target, name in (("c", "model.h"), ("python", "model.py")):
        assert boostfeat("export", model, "--to", target, "-o", tmp_path / name, "-q")[0] == 0
    strict = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    words = ["gcc", *strict, EXAMPLE, tmp_path / "model.c", f"-I{tmp_path}", "-lm", "-o", tmp_path / "search"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and "asan" in done.stderr:
        pytest.skip("no sanitizers")
    assert (done.returncode, done.stderr) == (0, "")
    module, lists = imported(tmp_path / "model.py"), read_store(stores / "test.nbest")
    names, made = sorted(module.DATA["inputs"]), plan_of(Model.load(model)).features
    for source, candidates in islice(lists_of_candidates(lists, made, {*names}), 3):
        options = {json.dumps(unit | {"tgt": None}): unit for each in candidates for unit in each["units"]}
        phrases = list(options.values())
        lines = [source, *(option_line(unit, names) for unit in phrases)]
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run([tmp_path / "search"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        score, *path = done.stdout.split()
        found = derivation([phrases[int(k)] for k in path])
        assert module.score(found, source) == pytest.approx(float(score), rel=1e-9)
        assert float(score) >= max(module.scores(candidates, source)) - 1e-9


def option_line(unit: dict[str, Any], names: list[str]) -> str:
    values = " ".join(repr(unit["features"].get(name, 0.0)) for name in names)
    return f"{unit['src'][0]} {unit['src'][1]} ||| {unit['tgt_text']} ||| {unit['align']} ||| {values}"


def derivation(phrases: list[dict[str, Any]]) -> dict[str, Any]:
    """The candidate of these phrases."""
    ends = [0, *accumulate(len(unit["tgt_text"].split()) for unit in phrases)]
    units = [unit | {"tgt": span} for unit, span in zip(phrases, pairwise(ends), strict=True)]
    return {"text": " ".join(unit["tgt_text"] for unit in phrases), "units": units, "features": {}}


REAL = {  # lists to learn from, how, and all lists
    "fi-en": (("devtrain", "devselect", "test"), "{}.200.enriched.xz", "{}.fi", "{}.en", ("--first", 300, "--size", 60)),
    "asr": (("train_atis",), "{}.json.xz", None, None, ("--first", 1200)),
    "nmt-de-en": (("devtrain", "select", "test"), "{}.12.marian.xz", "{}.de.xz", "{}.en.xz", ("--first", 1200)),
}


@pytest.mark.slow  # 20 minutes, of which fi-en takes 15: Python scores a million hypotheses there
@pytest.mark.parametrize("name", REAL)
def test_default_models_choose_as_rerank_on_every_real_list(boostfeat, real: Path, tmp_path: Path, name: str) -> None:
    lists, nbest, source, reference, short = REAL[name]

    def stored(part: str, *more: object) -> Path:
        files = [(flag, real / name / file.format(part)) for flag, file in (("-s", source), ("-r", reference)) if file]
        texts = [word for flag, path in files if path.exists() for word in (flag, path)]
        out = tmp_path / f"{part}{len(more)}.nbest"
        assert boostfeat("import", real / name / nbest.format(part), *texts, *more, "-o", out, "-q")[0] == 0
        return out

    model, gain = tmp_path / "model.json", ("--gain", "wer") if name == "asr" else ()
    assert boostfeat("induce", stored(lists[0], *short), *gain, "--set", "rounds=40", "-q", "-o", model)[0] == 0
    for part in lists:
        for target in ("python", "c") if name == "fi-en" else ("python",):  # others look at whole lists, which C has not
            check_choices(boostfeat, model, target, stored(part))
