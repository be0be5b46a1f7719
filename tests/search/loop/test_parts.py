"""Parts of the loop by themselves: what decoders refuse and are made from, what the graphs of a list are, what its folder holds."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest
from boostfeat.model.model import Model
from boostfeat.search.decoder.setup import SearchOptions
from boostfeat.search.loop.decoders import (
    CommandDecoder,
    DecodingPlace,
    GraphDecoder,
    ParallelText,
    ReferenceDecoder,
    _signal_name,
    filled,
)
from boostfeat.search.loop.graph_lists import GraphOptions, graphs_of, grown, only_features
from boostfeat.search.loop.learners import LoopFeatures


def a_list(*sentences: str, name: str = "list") -> NBest:
    """Each word is a hypothesis of one unit, whose features are 0, 1, ... and twice as much."""
    builder = Builder(ReadOptions())
    for s, text in enumerate(sentences):
        for k, word in enumerate(text.split()):
            unit = UnitRecord({"f": float(k), "g": 2.0 * k}, tgt=(0, 1), tgt_text=word)
            builder.add(HypRecord(s, word, f"{name}:{s}.{k}", -float(k), {"h": 1.0}, [unit]))
    return attach(builder.finish(), source=None, refs=[["x"] * len(sentences)], name=name)


# -- decoders -----------------------------------------------------------------------------------------------------------


def test_what_decoders_refuse():
    graphs, reference = GraphDecoder({}), ReferenceDecoder("pt", "lm", None, SearchOptions(), ())
    assert reference.size == 100
    for decoder, message in (
        (graphs, "--graphs: expected trees of level local, found global: an edge has no values of a whole hypothesis"),
        (reference, "expected trees of level local, found global: search cannot score them; rerank lists with them"),
    ):
        with pytest.raises(InputError, match=message):
            decoder.check_trees("global")
        decoder.check_trees("local")
    with pytest.raises(InputError, match="--templates: expected a decoder that computes them, found --graphs"):
        graphs.check_templates()
    reference.check_templates()
    for command, fine in (("d {weights}", False), ("d {model}", True), ("d {ini} {model}", True)):
        decoder = CommandDecoder(command)
        for check, message in (
            (lambda decoder=decoder: decoder.check_trees("global"), "--decoder: expected a place {model}"),
            (decoder.check_templates, "--templates: expected a decoder that computes them, with a place {model}, found another"),
        ):
            if fine:
                check()
                continue
            with pytest.raises(InputError, match=message):
                check()


def test_limits_of_a_command():
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match=f"--timeout: expected seconds above 0, found {seconds}"):
            CommandDecoder("d {weights}", timeout=seconds)
    assert CommandDecoder("d {weights}", timeout=0.5).timeout == 0.5
    with pytest.raises(InputError, match="--decoder: expected a command line, found nothing; see"):
        CommandDecoder("")
    with pytest.raises(InputError, match="unknown weights format 'frob'"):
        CommandDecoder("d {weights}", weights_format="frob")
    assert filled("{{a}} {size} x{seed}", {"size": 3, "seed": 4}) == "{a} 3 x4"
    assert (_signal_name(9), _signal_name(4096)) == ("SIGKILL", "unknown")


def test_a_corpus_is_read_whole(tmp_path):
    for name, lines in (("src", "a\nb\n"), ("ref0", "x\ny\n"), ("ref1", "u\nv\n"), ("short", "x\n"), ("none", "")):
        (tmp_path / name).write_text(lines)
    at = {name: str(tmp_path / name) for name in ("src", "ref0", "ref1", "short", "none")}
    assert ParallelText.read("dev", at["src"], [at["ref0"], at["ref1"]]) == ParallelText(
        "dev", ("a", "b"), (("x", "y"), ("u", "v"))
    )
    for source, refs, message in (
        (at["src"], [], f"{at['src']}: expected at least one reference (-r REF), found none; learning needs them"),
        (at["none"], [at["none"]], f"{at['none']}: expected sentences, one a line, found none; check the file"),
        (at["src"], [at["ref0"], at["short"]], f"{at['short']}: expected 2 lines, as many as {at['src']}, found 1; align them"),
    ):
        with pytest.raises(InputError) as error:
            ParallelText.read("dev", source, refs)
        assert str(error.value) == message


def test_sentences_without_hypotheses_are_counted():
    """Blank ones need none."""
    nbest = a_list("a b", "", "", "c")
    bare = replace(nbest, refs=nbest.refs[:0], ref_ptr=np.zeros(5, np.int64), stats=nbest.stats[:0])
    refs = (("x",) * 4,)
    for source, found in ((("s", " ", "t", "u"), "sentence 2"), (("s", "r", "t", "u"), "sentence 1 and 1 more")):
        with pytest.raises(InputError, match=rf"^here: expected hypotheses of every sentence, found none of {found}$"):
            ParallelText("dev", source, refs).attached(bare, "here")
    whole = ParallelText("dev", ("s", " ", "", "u"), refs).attached(bare, "here")
    assert (len(whole), whole.has_stats) == (4, True)


def test_a_stand_in_for_moses_sees_what_moses_does(tmp_path):
    """A script that writes what it was given: words after the places are filled, sentences, and weights; its list is read."""
    script = tmp_path / "decoder.py"
    script.write_text(
        "import json, sys\n"
        "print('to stderr', file=sys.stderr)\n"
        f"json.dump([sys.argv[1:], sys.stdin.read(), open(sys.argv[1]).read()], open({str(tmp_path / 'seen.json')!r}, 'w'))\n"
        "for s in range(2):\n"
        "    for k in range(4):\n"
        "        print(f'{s} ||| w{k} ||| LM0= {-k} ||| {-k}')\n"
    )
    decoder = CommandDecoder(
        f"{sys.executable} -S {script} {{weights}} {{size}} {{iteration}} {{seed}} {{{{x}}}}", 3, "name-value"
    )
    place, corpus = DecodingPlace(tmp_path / "it", 5, 8, 1), ParallelText("dev", ("a b", "c"), (("w0", "w1"),))
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "dev.old.attempt").mkdir()
    nbest = decoder.decode(Model({"LM0": 2.0}), corpus, place)
    weights = str(tmp_path / "it" / "weights.txt")
    assert json.loads((tmp_path / "seen.json").read_text()) == [[weights, "3", "5", "8", "{x}"], "a b\nc\n", "LM0= 2\n"]
    assert nbest.text.to_pylist() == ["w0", "w1", "w2"] * 2
    assert nbest.source.to_pylist() == ["a b", "c"]
    assert sorted(path.name for path in (tmp_path / "it").iterdir()) == ["dev.input", "dev.stderr", "model.json", "weights.txt"]
    assert (tmp_path / "it" / "dev.stderr").read_text() == "to stderr\n"
    assert Model.load(tmp_path / "it" / "model.json").weights == {"LM0": 2.0}


# -- graphs -------------------------------------------------------------------------------------------------------------


def hypergraph(folder: Path, sent: int, names: tuple[str, ...] = ("f", "g")) -> str:
    """A graph of two edges, one after the other."""
    values = " ".join(f"{name}=1" for name in names)
    lines = ["# target ||| features ||| source-covered", "3 3", "# node 0", "1", " |||  ||| 0"]
    lines += ["# node 1", "1", f"[0] a ||| {values} ||| 1", "# node 2", "1", f"[1] b ||| {values} ||| 2"]
    (folder / f"{sent}.txt").write_text("\n".join(lines) + "\n")
    return str(folder / f"{sent}.txt")


def test_the_graphs_of_a_list(tmp_path):
    """By position in the list; every feature of the list has to be on some edge."""
    nbest = a_list("a b", "c d", "e")
    nbest = only_features(replace(nbest, ids=np.array([4, 7, 9])), {"f", "g"})
    paths = (hypergraph(tmp_path, 9), hypergraph(tmp_path, 4))
    found = graphs_of(nbest, GraphOptions(paths))
    assert sorted(found) == [0, 2]
    assert all(set(graph.names) == {"f", "g"} for graph in found.values())
    with pytest.raises(InputError, match="expected graphs of the list's sentences, found sentence 5; give those of the list"):
        graphs_of(nbest, GraphOptions((*paths, hypergraph(tmp_path, 5))))
    for given, where in (
        ((hypergraph(tmp_path, 4, ("f",)),), "4.txt: "),
        ((paths[1], hypergraph(tmp_path, 9, ("f",))), "4.txt, ...: "),
    ):
        with pytest.raises(InputError, match=f"{where}expected edges with the list's feature 'g', found none"):
            graphs_of(nbest, GraphOptions(given))
    both = (hypergraph(tmp_path, 4, ("f",)), hypergraph(tmp_path, 9, ("g",)))
    assert sorted(graphs_of(nbest, GraphOptions(both))) == [0, 2]


def test_lists_with_quality_columns_do_not_grow():
    nbest = a_list("a b")
    scored = nbest.with_quality("comet", np.ones(2)).with_quality("judge", np.ones(2))
    with pytest.raises(
        InputError, match="--graphs: expected a list without quality columns, found comet, judge; nobody has scored"
    ):
        grown(scored, lambda *how: pytest.fail("fitted"), GraphOptions(("x",)))


# -- the folder, and what a run is made from ------------------------------------------------------------------------------


def test_templates_of_a_loop():
    """By name, or those that the start carries; not both, and none where there are none."""
    maker, plan = FeatureMaker(), FeaturePlan.of("length", TEMPLATES)
    start = with_plan(Model({"LM0": 1.0}), replace(plan, entries=tuple(replace(e, features=("len.src",)) for e in plan.entries)))
    bare = Model({"LM0": 1.0})
    assert LoopFeatures.of(maker, None, bare) is None
    assert LoopFeatures.of(maker, "none", bare) is None
    found = LoopFeatures.of(maker, "length", bare, "chrf")
    assert (found.what, found.gain) == ("length", "chrf")
    assert found.made_from() == {"templates": "length", "plan": found.first.signature}
    of_start = LoopFeatures.of(maker, None, start)
    assert (of_start.what, of_start.made_from()) == (None, {})
    assert LoopFeatures.of(maker, "none", start).what is None
    with pytest.raises(InputError, match="--templates length: expected none with an --init that carries its own, found both"):
        LoopFeatures.of(maker, "length", start)
