"""The short version of tests/fuzz/run.py, and inputs that once were read wrongly or ended in a traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from fuzz import readers, run, samples
from fuzz.mutate import damaged
from fuzz.readers import READERS, named_features, samples_of
from fuzz.samples import ENRICHED, FOREST, JSONL, OSGX

from boostfeat import formats
from boostfeat.core.compression import COMPRESSORS
from boostfeat.core.errors import InputError
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.nbest import NBest
from boostfeat.search.graphs.graph_files import GRAPHS
from boostfeat.search.loop.online import State

INPUTS = 50  # to each reader, of a million


@pytest.mark.parametrize("name", READERS)
def test_damaged_input_is_refused_or_read(name: str, tmp_path: Path) -> None:
    whole, found = samples_of(name, real=False), []
    assert [run.outcome(name, sample, str(tmp_path)) for sample in whole] == ["read"] * len(whole)
    for n in range(INPUTS):
        outcome = run.outcome(name, damaged(name, n, whole, READERS[name].mutations), str(tmp_path))
        found += [(n, outcome)] if outcome not in run.KINDS else []
    assert not found


def test_every_format_is_fuzzed() -> None:
    tables = {"table"}  # libraries parse them, and tests of frames hold what comes of their columns
    assert {*formats.READERS, *GRAPHS, *(suffix[1:] for suffix in COMPRESSORS)} - tables <= set(READERS)


@pytest.mark.parametrize("name", READERS)
def test_what_is_written_is_known_by_its_content(name: str, tmp_path: Path) -> None:
    """A list of Marian in Moses' format was taken for one of Marian, and its words were counted twice."""
    for sample in samples_of(name, real=False):
        (tmp_path / READERS[name].name).write_bytes(sample)
        nbest = READERS[name].read(str(tmp_path / READERS[name].name))
        for format in formats.WRITERS if isinstance(nbest, NBest) and nbest.n_hyps else ():
            stream = io.BytesIO()
            try:
                formats.write(nbest, stream, format=format)
            except InputError:  # what it cannot express
                continue
            (tmp_path / "copy").write_bytes(stream.getvalue())
            assert formats.detect(tmp_path / "copy") == format
            again = formats.read(tmp_path / "copy", ReadOptions(allow_mismatch=True, warn=lambda message: None))
            assert again.text.equals(nbest.text)
            assert named_features(again) == named_features(nbest)


def text_for_a_mean(bins: dict[str, list[Any]]) -> None:
    bins["means"][0] = str(bins["means"][0])


def a_mean_beyond_64_bits(bins: dict[str, list[Any]]) -> None:
    bins["means"][0] = 10**30


def a_cut_that_goes_back(bins: dict[str, list[Any]]) -> None:
    """Whoever looks a value up would find another one's mean: searchsorted, bisect and a chain of trees differ."""
    bins["cuts"][1] = bins["cuts"][0] - 1


def no_list_of_cuts(bins: dict[str, list[Any]]) -> None:
    """As long as a list of none, and yet none."""
    bins["cuts"], bins["means"] = "", bins["means"][:1]  # type: ignore[assignment]


@pytest.mark.parametrize("damage", [text_for_a_mean, a_mean_beyond_64_bits, a_cut_that_goes_back, no_list_of_cuts])
@pytest.mark.parametrize("name", ["searched-plan", "reranked-plan"])
def test_damaged_bins_are_refused(name: str, damage: Callable[[dict[str, list[Any]]], None], tmp_path: Path) -> None:
    plans = (json.loads(data) for data in samples_of(name))
    plan, options = next((p, t["options"]) for p in plans for t in p["templates"] if "quantiles" in t["options"])
    damage(next(bins for bins in options["quantiles"].values() if len(bins["cuts"]) > 1))
    assert run.outcome(name, json.dumps(plan).encode(), str(tmp_path)) == "refused"


def test_classes_that_no_text_has_are_searched_without(tmp_path: Path) -> None:
    plan = next(p for p in map(json.loads, samples_of("searched-plan")) if any(t["name"] == "cb" for t in p["templates"]))
    next(t for t in plan["templates"] if t["name"] == "cb")["features"][:2] = ["cb:<s>|0|1|2", "cb:0"]
    assert run.outcome("searched-plan", json.dumps(plan).encode(), str(tmp_path)) == "read"


def test_a_plan_without_the_scale_of_posteriors_is_refused(tmp_path: Path) -> None:
    """The list that is ranked would teach it, by its references."""
    plan = next(p for p in map(json.loads, readers.reranked_plan()) if "posterior" in p)
    del plan["posterior"]
    assert run.outcome("reranked-plan", json.dumps(plan).encode(), str(tmp_path)) == "refused"


def test_an_intact_fit_is_found(tmp_path: Path) -> None:
    """A reader that takes everything for damaged would be fuzzed in vain."""
    path = tmp_path / "input"
    path.write_bytes(samples_of("kept-fit")[0])
    assert readers.kept_fit(str(path)) is not None
    path.write_bytes(samples_of("kept-fit")[0].replace(b"0.25", b"null"))
    assert readers.kept_fit(str(path)) is None


def state_of_bytes() -> bytes:
    """An archive of files that are no arrays: numpy hands them out as they are."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for f in fields(State):
            archive.writestr(f"{f.name}.npy", b"text")
    return stream.getvalue()


FOUND = {
    "a label without a space before it": ("moses-enriched", ENRICHED.replace(" TM0= -0.5", "TM0= -0.5").encode(), "refused"),
    "another word than total=": ("moses-enriched", ENRICHED.replace("total=-0.5", "topal=-0.5").encode(), "refused"),
    "four bars after a block": ("moses-enriched", ENRICHED.replace("|  |||", "||||").encode(), "refused"),
    "four bars in the second line": ("moses-enriched", "||||".join(ENRICHED.rsplit("|  |||", 1)).encode(), "refused"),
    "a core that does not end": ("moses-osgx", OSGX.replace("(0,1,2) ", "( ").encode(), "refused"),
    "not UTF-8 in what is skipped": ("moses-osgx", OSGX.encode().replace(b"fscore=-1.2", b"fscore=-1\xd0"), "refused"),
    "white space that bytes do not know": ("auto", "\u2028\u3000".encode(), "refused"),
    "a whole number beyond all floats": ("jsonl", JSONL.replace("-4.4", "1" * 400).encode(), "refused"),
    "counts beyond all floats": ("lines-counts", b"1e308\n1e308\n", "refused"),
    "scores beyond all floats": ("sockeye", samples.SOCKEYE.replace("0.5", "0.5, " + "1" * 400, 1).encode(), "refused"),
    "scores whose sum is beyond": ("sockeye", samples.SOCKEYE.replace("0.5", f"{10**298}, " * 20 + "0.5", 1).encode(), "read"),
    "an escape sequence in a name": ("moses", b"0 ||| a ||| \x1b[31mlm= x\n", "refused"),
    "a name of many characters": ("travatar", b"0 ||| a ||| 1 ||| " + b"lm" * 5000 + b"=x", "refused"),
    "a version that is no decimal": ("model", b'{"boostfeat": "model/\xc2\xb2"}', "refused"),
    "a version of many digits": ("model", b'{"boostfeat": "model/' + b"1" * 5000 + b'"}', "refused"),
    "an infinity in a record": ("model", b'{"boostfeat": "model/1", "weights": {}, "config": {"x": 1e999}}', "refused"),
    "nested too deeply": ("vocab", b"[" * 5000, "refused"),
    "a table nested too deeply": ("templates-toml", b"x = " + b"[" * 5000, "refused"),
    "a dotted key of many parts": ("groups-toml", b'[[group]]\nmatch = "a"\nl1' + b".a" * 3000 + b" = 1", "refused"),
    "a NUL that is escaped": ("cdec-forest", FOREST.replace("the", "\\u0000").encode(), "refused"),
    "a ratio beyond all floats": ("quality", b"1 2\n3 5e-324\n0 1\n", "refused"),
    "a ratio of JSON beyond all floats": ("jsonl", JSONL.replace('"score": -4.4', '"quality": {"q": [3, 5e-324]}').replace('"a \\u00e4"', '"a", "quality": {"q": 1}').encode(), "refused"),
    "plain text of no lines": ("lines-list", b"NC=0\n", "read"),
    "an option with many parts": ("templates-toml", b"[templates.pt]\nhash" + b".a" * 3000 + b" = 1", "refused"),
    "a NUL in a version": ("jsonl", samples.JSONL_DENSE.replace("nbest/1", "nbest/1\\u0000").encode(), "refused"),
    "a NUL in a declared name": ("jsonl", samples.JSONL_DENSE.replace('"tm0"', '"tm0\\u0000"').encode(), "refused"),
    "a name both dense and sparse": ("jsonl", JSONL.replace('"pt:das|the"]', '"n"]').encode(), "refused"),
    "a blank in a key": ("jsonl", samples.JSONL_DENSE.replace('"id": 3', '" id": 3').encode(), "refused"),
    "the end of a line in a key": ("jsonl", samples.JSONL_DENSE.replace('"id": 3', '"\rid": 3').encode(), "refused"),
    "a frequent feature that is declared sparse": ("jsonl", samples.JSONL_DENSE.replace('"hyp_features"', '"sparse_features"').encode(), "read"),
    "too many digits": ("groups-toml", b'[[group]]\nmatch = "a"\nl1 = ' + b"1" * 5000, "refused"),
    "a factor beyond all floats": ("groups-toml", b'[[group]]\nmatch = "a"\nl1 = ' + b"1" * 400, "refused"),
    "a count that is no decimal": ("templates-toml", 'products = "top:²"'.encode(), "refused"),
    "n-grams beyond number": ("arpa", b"\\data\\\nngram 1=" + b"1" * 5000, "refused"),
    "a probability of 10^-1e308": ("arpa", samples.ARPA.replace("-0.75", "-1e308").encode(), "refused"),
    "a path that is too long": ("setup", samples.INI.replace("phrase-table", "x" * 5000).encode(), "read"),
    "a tail beyond int64": ("cdec-forest", samples.FOREST.replace('"tail":[0]', '"tail":[99999999999999999999]').encode(), "refused"),
    "a link beyond int64": ("links", b"0-99999999999999999999\n\n\n", "refused"),
    "a choice beyond int64": ("run-choices", b'{"test": [0, 99999999999999999999]}', "refused"),
    "a model that is no name": ("run-results", b'[{"name": "x", "model": {"a": 1}, "choice": "choices.json"}]', "refused"),
    "inputs that are no object": ("run-config", b'{"inputs": {"test": "test.nbest"}}', "refused"),
    "a weight that is no number": ("weights", b"Glue nan\n", "refused"),
    "an infinity in a vocab": ("vocab", samples_of("vocab")[0].replace(b"3", b"1e999"), "refused"),
    "half a character in a name": ("model", b'{"boostfeat": "model/1", "weights": {"\\ud800": 1}}', "refused"),
    "its other half first": ("cdec-forest", samples.FOREST.replace('"X"', r'"\ude00\ud83d"').encode(), "refused"),
    "both halves": ("cdec-forest", samples.FOREST.replace('"X"', r'"\ud83d\ude00"').encode(), "read"),
    "no half character after all": ("model", b'{"boostfeat": "model/1", "weights": {"\\\\ud800": 1}}', "read"),
    "half a character in a file's name": ("run-results", b'[{"name": "x", "choice": "\\udc80"}]', "refused"),
    "half a character in a set of features": ("run-results", b'[{"name": "x", "choice": "choices.json", "feature_set": "\\ud800"}]', "refused"),
    "a skipped field nested too deeply": ("jsonl", JSONL.replace('"source"', '"x": ' + "[" * 5000 + ', "source"').encode(), "refused"),
    "a resumed run nested too deeply": ("resume-json", b"[" * 5000, "read"),
    "a resumed run that is no object": ("resume-json", b"[1]", "read"),
    "a comparison made from a list": ("kept-system", b'{"made_from": [1]}', "refused"),
    "a comparison that took for ever": ("kept-system", b'{"made_from": {"seed": 1}, "seconds": 1e999}', "read"),
    "a loop made from a list": ("kept-loop", b'{"boostfeat": "loop/1", "made_from": [1]}', "refused"),
    "a state of bytes": ("online-state", state_of_bytes(), "refused"),
    "a state of objects": ("online-state", b"\x93NUMPY\x01\x00", "refused"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_found_by_fuzzing(case: str, tmp_path: Path) -> None:
    name, data, expected = FOUND[case]
    assert run.outcome(name, data, str(tmp_path)) == expected


def test_a_reader_that_dies_or_hangs_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def die(path: str) -> None:
        data = Path(path).read_bytes()
        if len(data) % 3 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(data) % 3 == 1:
            raise KeyError("not for users")
        while len(data) % 9 == 2:
            pass

    monkeypatch.setattr(run, "SECONDS", 0.2)
    monkeypatch.setitem(READERS, "lines", readers.Reader(lambda: [b"a" * 5], die))
    counts, findings = run.fuzz("lines", 0, 30)
    assert {f.what.split(" at ")[0] for f in findings} == {"died: SIGKILL", "KeyError: 'not for users'", "too slow"}
    assert counts["read"] + counts["again"] + len(findings) == 30
    assert counts["again"] > 0  # a word of five letters has few neighbours
