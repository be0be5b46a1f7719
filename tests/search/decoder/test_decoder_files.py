"""What the decoder writes, what it refuses, and the command."""

from __future__ import annotations

import io
import json
import lzma
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_systems import (
    CONTEXT_TREES,
    REORDERING_TREES,
    STATIC_TREES,
    random_model,
    random_ngrams,
    random_pairs,
    stump,
    write_system,
)

from boostfeat.core.errors import FormatError, InputError
from boostfeat.core.feature_table import FeatureTable
from boostfeat.features import TEMPLATES, FeaturePlan, Resources, featurize
from boostfeat.formats import read
from boostfeat.formats.moses import enriched as moses_enriched
from boostfeat.formats.moses.table_files import read_phrase_counts
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.model.model import Model, tree_scores, unit_table
from boostfeat.search.decoder import search_trees as kernel
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.decoder_features import EXTRAS
from boostfeat.search.decoder.output import collect, graph_names, write_nbest, write_search_graph
from boostfeat.search.decoder.setup import SearchOptions, Setup, read_setup
from boostfeat.search.decoder.system import CONTEXT, PhraseSystem

pytestmark = pytest.mark.quick

Run = Callable[..., tuple[int, str, str]]
Small = tuple[Decoder, list[str], dict[str, Path]]

# ---------------------------------------------------------------------------------------------------------------------
# What is written
# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """A decoder with all kinds of trees, and sentences: one is empty, some have unknown words."""
    rng = np.random.default_rng(3)
    files = write_system(tmp_path, random_pairs(rng, per_phrase=3), random_ngrams(rng, 3))
    system = PhraseSystem.load(**files)
    model = random_model(rng, (*system.names, "UnknownWordPenalty0"), STATIC_TREES + CONTEXT_TREES + REORDERING_TREES)
    sentences = ["a b c", "", "e d new c b a", "b b a c d", "new", "d c b a d c b a"]
    return Decoder(system, model, extra=tuple(EXTRAS)), sentences, files


def test_written_list_has_the_models_scores(small: Small, tmp_path: Path) -> None:
    decoder, sentences, files = small
    stream = io.BytesIO()
    write_nbest(stream, decoder.decode_all(sentences), 30)
    (tmp_path / "list").write_bytes(stream.getvalue())
    nbest = moses_enriched.read(tmp_path / "list", ReadOptions(source=sentences))
    assert nbest.unit_names == decoder.names
    assert nbest.ids.tolist() == list(range(len(sentences)))
    assert nbest.score == pytest.approx(decoder.model.decision_function(nbest), abs=1e-9)
    assert decoder.model.predict(nbest).tolist() == nbest.hyp_ptr[:-1].tolist()  # best first
    in_memory = collect(decoder.decode_all(sentences), 30)
    assert in_memory.text.equals(nbest.text)
    assert (in_memory.X[in_memory.unit_idx] == nbest.X[nbest.unit_idx]).all()
    assert in_memory.units.src.equals(nbest.units.src)
    # the templates compute the same features from the list
    plain = tuple(name for name in decoder.names if name not in EXTRAS)
    x = in_memory.X[:, [decoder.names.index(name) for name in plain]]
    base = attach(
        replace(in_memory, units=replace(in_memory.units, x=x), unit_names=plain), source=sentences, refs=[], name="test"
    )
    resources = Resources(phrase_counts=read_phrase_counts(files["phrase_table"], base.units))
    again, _ = featurize(base, FeaturePlan.of("length,phrase_count", TEMPLATES, resources), resources=resources)
    ours, theirs = unit_table(in_memory), unit_table(again)
    for name in EXTRAS:
        np.testing.assert_allclose(
            ours.column(name)[in_memory.unit_idx], theirs.column(name)[again.unit_idx], atol=1e-12, err_msg=name
        )


def test_unknown_words_count_without_being_listed(small: Small) -> None:
    """-100 a word with the weight the decoder is given, no feature (Moses: 1); a model that names the feature weighs and lists it."""
    decoder, _, _ = small
    weights = {n: w for n, w in decoder.model.weights.items() if n != "UnknownWordPenalty0"}
    best = replace(decoder, model=Model(weights), extra=(), unknown_weight=1.0).decode("new").best
    assert best.text == "new"
    assert best.units[0].align == "0-0"
    assert "UnknownWordPenalty0" not in best.units[0].features
    assert best.score == pytest.approx(-100 + sum(weights[n] * v for n, v in best.units[0].features.items()))
    named = replace(decoder, model=Model({**weights, "UnknownWordPenalty0": 0.5}), extra=()).decode("new").best
    assert named.units[0].features["UnknownWordPenalty0"] == -100
    assert named.score == pytest.approx(best.score + 50)
    own = replace(decoder, model=Model(weights), extra=()).decode("new").best
    assert own.score == pytest.approx(best.score + 100)


def test_search_graph_holds_the_list(small: Small, tmp_path: Path) -> None:
    decoder, sentences, _ = small
    with open(tmp_path / "osgx", "wb") as stream:
        for sent, result in enumerate(decoder.decode_all(sentences)):
            write_search_graph(stream, result, sent)
    options = ReadOptions(source=sentences, size=30, names=graph_names(decoder.names))
    nbest = read(tmp_path / "osgx", options, format="moses-osgx")
    ours = collect(decoder.decode_all(sentences), 30)
    assert nbest.text.equals(ours.text)
    assert nbest.score == pytest.approx(ours.score, abs=1e-9)
    assert nbest.score == pytest.approx(decoder.model.decision_function(nbest), abs=1e-9)
    lines = (tmp_path / "osgx").read_text().splitlines()
    start = next(line for line in lines if line.startswith("0 hyp=0 "))
    assert float(start.split("fscore=")[1]) == pytest.approx(ours.score[0])
    assert len({line.split()[1] for line in lines if line.startswith("0 ")}) == sum(line.startswith("0 ") for line in lines)


@pytest.mark.parametrize("batch", [1, 4, 6])
def test_lists_are_written_some_sentences_at_a_time(small: Small, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of sentences go on over batches, from the first that is given; repeated strings are told apart on demand."""
    decoder, sentences, _ = small
    results = list(decoder.decode_all(sentences))
    written = {}
    for distinct in (True, False):
        monkeypatch.setattr("boostfeat.search.decoder.output.BATCH", 64)
        whole, parts = io.BytesIO(), io.BytesIO()
        write_nbest(whole, results, 80, distinct=distinct, first_id=7)
        monkeypatch.setattr("boostfeat.search.decoder.output.BATCH", batch)
        write_nbest(parts, iter(results), 80, distinct=distinct, first_id=7)
        # a unit's own total is kept as it was first met, in a batch: its last digits may be others
        one, other = (re.sub(r",total=[^,]*", "", stream.getvalue().decode()) for stream in (whole, parts))
        assert one == other
        written[distinct] = one.splitlines()
        assert list(dict.fromkeys(int(line.split(" ", 1)[0]) for line in written[distinct])) == [7, 8, 9, 10, 11, 12]
    assert written[True] != written[False]
    assert all(len({d.text for d in result.nbest(80)}) == len(result.nbest(80)) for result in results)
    empty = io.BytesIO()
    write_nbest(empty, [], 9)
    assert empty.getvalue() == b""
    with pytest.raises(InputError, match=r"^sentence 9: expected words without '\|', found 'a\|b'; write it as &#124;"):
        write_nbest(empty, decoder.decode_all(["a", "b", "a|b"]), 9, first_id=7)


@pytest.mark.parametrize(("bonus", "slope"), [(0.0, 0.0), (20.0, 0.0), (0.0, -1.5), (0.0, 1.5)])
def test_hypotheses_without_hope_are_not_missed(small: Small, bonus: float, slope: float) -> None:
    """Search skips language model and trees where even their best values could not help: the result is as without that.

    With a bonus for each phrase, scores of edges are above 0; with a slope below 0, a poor language-model score adds to them.
    """
    decoder, sentences, _ = small
    weights = decoder.model.weights
    weights = {**weights, "PhrasePenalty0": weights["PhrasePenalty0"] + bonus}
    trees = (*decoder.model.trees, stump("WordPenalty0", -1.5, value=(slope, slope / 3), on="LM0"))
    decoder = decoder.with_model(replace(decoder.model, weights=weights, trees=trees if slope else decoder.model.trees))
    hope = stump("LM0", 0.0, value=(0.0, 1e9))  # always 0, since LM0 is never above 0, but search does not see that
    hopeful = decoder.with_model(replace(decoder.model, trees=(*decoder.model.trees, hope)))
    for pruned in (SearchOptions(stack=5), SearchOptions(stack=0, beam=0.5)):
        for sentence in sentences:
            a, b = (replace(one, options=pruned).decode(sentence) for one in (decoder, hopeful))
            assert [(d.text, d.score) for d in a.nbest(20)] == [(d.text, d.score) for d in b.nbest(20)]
            if a.found and b.found:
                assert len(a.found.arcs) == len(b.found.arcs)


def test_terms_of_trees(small: Small) -> None:
    """What trees add to an edge is what the model says."""
    decoder, sentences, _ = small
    trees, names = decoder.scorer.context_trees, decoder.names
    model_trees = [tree for tree in decoder.model.trees if not tree.features().isdisjoint(CONTEXT)]
    assert {tree.on for tree in model_trees} == {None, "LM0", "Distortion0", *(f"LexicalReordering0_{i}" for i in (0, 2, 4))}
    assert (len(trees.fixed), len(trees.free)) == (6, 4)
    for result in decoder.decode_all(sentences):
        for derivation in result.nbest(50, distinct=False):
            x = np.array([[*unit.features.values()] for unit in derivation.units]).reshape(-1, len(names))
            context = np.ascontiguousarray(x[:, [names.index(name) for name in CONTEXT]])
            expected = tree_scores(model_trees, FeatureTable(names, x))
            np.testing.assert_allclose(kernel.tree_scores(trees, context, x), expected, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------------------------------

HUGE = {"weights": {}, "trees": [{**stump("LM0", 0.0, value=(0, 1e308)).to_json(), "weight": 7.0}]}
GLOBAL = {"level": "global", "trees": [stump("LM0", 0.0, value=(0, 1)).to_json()], "weights": {}}


@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        (GLOBAL, (), "expected a model of level local, found one of level global"),
        ({"weights": {"pt:a|x": 1.0}}, (), "the model uses the feature 'pt:a|x', and the decoder has only Lex"),
        ({"weights": {"LM0": 1e308, "WordPenalty0": -1e308}}, (), "LM0: expected a weight of at most 1e+100, found 1e+308"),
        (HUGE, (), "t.LM0: expected a weight of at most 1e+100, found inf; scale the model down"),
        ({"weights": {"TranslationModel0_4": 1.0}}, (), "'TranslationModel0_4', and the phrase table has 4 scores"),
        ({"weights": {"LM0": 1.0}}, ("--extra", "len.src,size.1x1"), "extra feature 'size.1x1': expected any of count.log"),
        (
            {"weights": {"LM0": 1.0}},
            ("--distortion-limit", "61"),
            "--distortion-limit: expected a number from -1 to 60, found 61",
        ),
    ],
)
def test_models_that_cannot_be_searched_with(
    small: Small, tmp_path: Path, boostfeat: Run, model: dict, flags: tuple[str, ...], message: str
) -> None:
    files = small[2]
    (tmp_path / "in").write_text("a b\n")
    (tmp_path / "m.json").write_text(json.dumps({"boostfeat": "model/1", **model}))
    places = [str(x) for key in files for x in (f"--{key.replace('_', '-')}", files[key])]
    code, out, err = boostfeat("decode", tmp_path / "in", "-m", tmp_path / "m.json", *places, *flags)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_reordering_weights_need_the_table(small: Small) -> None:
    decoder, _, files = small
    system = PhraseSystem.load(phrase_table=files["phrase_table"], lm=files["lm"])
    with pytest.raises(InputError, match=r"'LexicalReordering0_0', which needs a reordering table; give --reordering-table"):
        replace(decoder, system=system)


ARPA = "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-1 <unk>\n-1 <s> -1\n-1 </s>\n-1 x -1\n\n\\2-grams:\n-1 <s> x\n\n\\end\\\n"
INI = "[weight]\nTranslationModel0= 1 1\nLM0= 1\n"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("lm", "mmap lm http://kheafield.com/code", ":1: expected \\data\\ at the start, found "),
        ("lm", ARPA.replace("</s>", "end"), "expected a unigram </s>, found none"),
        ("pt", "", "expected a phrase table, found an empty file"),
        ("pt", "a ||| x ||| 1 1\n\nb ||| y ||| 1\n", ":3: expected 2 scores as in the first line, found '1'"),
        ("pt", "a ||| x ||| 1 1 ||| 0:0\n", ":1: expected an alignment like 0-0 1-1 in the fourth field, found '0:0'"),
        (
            "pt",
            "a ||| x ||| 1 1 ||| 0-0 ||| 7 x\n",
            ":1: expected probabilities or counts, none negative, that fit Moses' single precision, found '7 x'",
        ),
        ("rt", "a ||| x ||| 1 1 1\n", ":1: expected 6 probabilities (msd-bidirectional-fe), found '1 1 1'"),
        ("rt", "q ||| x ||| 1 1 1 1 1 1\n", "expected pairs of the phrase table, found none of its 2"),
        ("ini", "[weight]\nTranslationModel0= 1 1 1\nLM0= 1\n", "expected 2 weights for TranslationModel0, found 3"),
        ("ini", "[feature]\nOpSequenceModel name=OSM0\n", ":2: expected the features UnknownWordPenalty0, "),
        ("ini", "LM0= 1\n", ":1: expected a [section] before the first line, found 'LM0= 1'"),
        ("ini", "[weight]\nLM0= 1\nLM0_0= 1\n", "expected the features UnknownWordPenalty0, "),
        ("ini", f"{INI}[weight-file]\nsparse\n", ":5: expected no sparse features, which this decoder does not have"),
        ("ini", f"{INI}[feature]\nKENLM name=LM0 num-features=2\n", ":5: expected num-features=1, as LM0 has weights, found '2'"),
        *(
            ("ini", f"{INI}[distortion-limit]\n{text}\n", f":5: expected a whole number of words from -1 to 60, found {found}")
            for text, found in (
                ("6.5", "'6.5'"),
                ("-2", "'-2'"),
                ("61", "'61'"),
                ("1e400", "'1e400'"),
                ("9" * 30, f"'{'9' * 30}'"),
                ("６", "'６'"),
                ("6\n7", "2 lines"),
            )
        ),
    ],
)
def test_bad_files(tmp_path: Path, boostfeat: Run, file: str, text: str, message: str) -> None:
    files = {"lm": ARPA, "pt": "a ||| x ||| 1 1\nb ||| x ||| 1 0.5 ||| 0-0\n", "rt": "a ||| x ||| 1 1 1 1 1 1\n"}
    files |= {"ini": INI, "in": "a b\n", file: text}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    flags = (
        *("--ini", tmp_path / "ini", "--phrase-table", tmp_path / "pt", "--lm", tmp_path / "lm"),
        *("--reordering-table", tmp_path / "rt"),
    )
    code, out, err = boostfeat("decode", tmp_path / "in", *flags, "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("text", "limit"), [("", None), ("-1", -1), ("0", 0), ("6", 6), ("60", 60)])
def test_what_an_ini_says(tmp_path: Path, text: str, limit: int | None) -> None:
    """Weights, files beside it and elsewhere, and the limit; the usual penalty of unknown words is left out."""
    lines = f"{INI}UnknownWordPenalty0= 1\n" + (f"[distortion-limit]\n{text}\n" if text else "")
    (tmp_path / "ini").write_text(
        f"{lines}[feature]\nKENLM name=LM0 path=/there/lm\nPhraseDictionaryMemory name=TranslationModel0 num-features=2\n"
    )
    found = read_setup(tmp_path / "ini")
    weights = {"TranslationModel0_0": 1.0, "TranslationModel0_1": 1.0, "LM0": 1.0}
    assert found == Setup(weights, None, None, "/there/lm", limit, where=str(tmp_path / "ini"))
    (tmp_path / "ini").write_text(lines.replace("Penalty0= 1", "Penalty0= 2"))
    more = {**weights, "UnknownWordPenalty0": 2.0}
    assert read_setup(tmp_path / "ini") == Setup(more, distortion_limit=limit, where=str(tmp_path / "ini"))
    found.check(["TranslationModel0_0", "TranslationModel0_1", "LM0"], "x")
    for names, message in (
        (["TranslationModel0", "LM0"], "x: expected 1 weights for TranslationModel0, found 2; give the tables that"),
        (["TranslationModel0_0", "TranslationModel0_1"], "x: expected 0 weights for LM0, found 1; give the tables that"),
    ):
        with pytest.raises(FormatError, match=message):
            found.check(names, "x")
    with pytest.raises(FormatError, match="x: expected 6 weights for LexicalReordering0, found 0"):
        found.check([*weights, *(f"LexicalReordering0_{i}" for i in range(6))], "x")


# ---------------------------------------------------------------------------------------------------------------------
# The command
# ---------------------------------------------------------------------------------------------------------------------


def test_command(small: Small, tmp_path: Path, boostfeat: Run) -> None:
    """What the library finds, in files; an ini names the tables beside it, and flags win over it."""
    decoder, sentences, _ = small
    (tmp_path / "in").write_text("".join(s + "\n" for s in sentences))
    weights = "".join(f"{n}= {decoder.model.weights[n]}\n" for n in ("Distortion0", "LM0", "WordPenalty0", "PhrasePenalty0"))
    weights += "TranslationModel0= " + " ".join(str(decoder.model.weights[f"TranslationModel0_{i}"]) for i in range(4)) + "\n"
    features = "PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=pt.gz\nKENLM name=LM0 order=3 path=lm.arpa\nDistortion\n"
    (tmp_path / "moses.ini").write_text(
        f"[distortion-limit]\n1\n[feature]\n{features}[weight]\nUnknownWordPenalty0= 1\n{weights}"
    )
    ini = read_setup(tmp_path / "moses.ini")
    assert ini.distortion_limit == 1
    assert ini.reordering_table is None
    system = PhraseSystem.load(phrase_table=tmp_path / "pt.gz", lm=tmp_path / "lm.arpa")
    expected = Decoder(system, Model(ini.weights), SearchOptions(distortion_limit=1), unknown_weight=1.0)
    code, out, err = boostfeat("decode", tmp_path / "in", "--ini", tmp_path / "moses.ini", "--threads", 2)
    assert code == 0, err
    assert out.splitlines() == [expected.decode(s).best.text for s in sentences]
    other = (tmp_path / "moses.ini").read_text()
    (tmp_path / "short.ini").write_text(other.replace("path=pt.gz", "path=pt"))  # as Moses takes it
    assert boostfeat("decode", tmp_path / "in", "--ini", tmp_path / "short.ini", "--threads", 2)[1] == out
    (tmp_path / "gone.ini").write_text(other.replace("path=pt.gz", "path=model/pt.gz"))
    code, _, err = boostfeat("decode", tmp_path / "in", "--ini", tmp_path / "gone.ini")
    told = "expected a file at model/pt.gz, found none; say where it is with --phrase-table"
    assert (code, err) == (2, f"boostfeat: {tmp_path / 'gone.ini'}: {told}\n")
    found = ("--ini", tmp_path / "gone.ini", "--phrase-table", tmp_path / "pt.gz")
    assert boostfeat("decode", tmp_path / "in", *found, "--threads", 2)[1] == out
    outputs = (
        *("--nbest", 7, "--nbest-output", tmp_path / "list.xz", "--search-graph", tmp_path / "osgx.gz"),
        *("-o", tmp_path / "out"),
    )
    code, out, err = boostfeat(
        "decode", tmp_path / "in", "--ini", tmp_path / "moses.ini", "--distortion-limit", 0, *outputs, "--json", "--derivations"
    )
    assert code == 0, err
    assert json.loads(out)["graph_features"] == list(graph_names(expected.names))
    monotone = replace(expected, options=SearchOptions(distortion_limit=0))
    stream = io.BytesIO()
    write_nbest(stream, monotone.decode_all(sentences), 7, distinct=False)
    assert lzma.open(tmp_path / "list.xz").read() == stream.getvalue()
    assert (tmp_path / "out").read_text().splitlines() == [monotone.decode(s).best.text for s in sentences]
    code, _, err = boostfeat("import", tmp_path / "list.xz", "-s", tmp_path / "in", "-o", tmp_path / "store", "-q")
    assert code == 0, err
    code, _, err = boostfeat("decode", tmp_path / "in", "--ini", tmp_path / "moses.ini", "--nbest-output", "-")
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = boostfeat("decode", tmp_path / "in")
    assert (code, err) == (2, "boostfeat: weights: expected -m MODEL or --ini FILE, found neither; give one\n")


def test_bars_in_words_are_refused_where_formats_have_bars(small: Small) -> None:
    decoder, _, _ = small
    result = decoder.decode("a | b")
    assert "|" in result.best.text
    with pytest.raises(InputError, match=r"sentence 0: expected words without '\|', found '\|'; write it as &#124;"):
        write_nbest(io.BytesIO(), [result], 5)
