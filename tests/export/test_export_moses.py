"""Trees in a Moses phrase table, and as a Moses feature function: the same numbers as here, or a refusal by name."""

from __future__ import annotations

import gzip
import itertools
import lzma
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostfeat import formats
from boostfeat.core.errors import InputError
from boostfeat.export import Context, ExportOptions, contents, export
from boostfeat.export.kinds import Known, static_features
from boostfeat.features import SETS, TEMPLATES, FeaturePlan, Resources, featurize
from boostfeat.features.plan import Entry
from boostfeat.formats.moses import table_files as table_module
from boostfeat.formats.moses.ini import Ini, weight_line
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord, attach
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.store import read_store
from boostfeat.model.model import Model, tree_scores, unit_table
from boostfeat.model.tree_columns import augment
from boostfeat.trees.tree import Tree

CXX = shutil.which(os.environ.get("CXX", "c++").split()[0])
TM = tuple(f"TranslationModel0_{i}" for i in range(4))


def stump(
    m: int, feature: str, threshold: float, left: float, right: float, *, on: str | None = None, affine: bool = False
) -> Tree:
    leaf = "constant" if on is None else "affine" if affine else "linear"
    children = np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32)
    intercept = np.array([0, 0.25, -0.5]) if affine else np.zeros(0)
    return Tree(f"tree.{m:03d}", 2.0 + m, leaf, on, (feature, "", ""), np.array([threshold, 0, 0], float), *children,
                np.array([0, left, right], float), intercept)  # type: ignore[arg-type]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Kinds
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TranslationModel0_2", "static"),
        ("TranslationModel1", "static"),
        ("PhraseDictionaryMultiModel0_1", "static"),
        ("WordPenalty0", "static"),
        ("PhrasePenalty0", "static"),
        ("UnknownWordPenalty0", "static"),
        ("PhraseCount", "static"),
        ("LM0", "contextual"),
        ("LexicalReordering0_3", "contextual"),
        ("Distortion0", "contextual"),
        ("SomethingNew0", "contextual"),  # not known to be static
        ("Mine", "static"),  # the user says so
        ("len.src", "static"),  # of templates, without a list that declares them
        ("count.log", "static"),
        ("pt:talo|house", "static"),
        ("bi:the|house", "contextual"),
        ("jump.log", "contextual"),
    ],
)
def test_kinds_by_name(name: str, kind: str) -> None:
    assert Known(static=("Mine",)).kinds([name]) == {name: kind}


def test_kinds_are_those_that_the_lists_templates_declare() -> None:
    nbest = decoded(seed=0)
    vocab = FeaturePlan.of("length,jump,hypothesis,pt", TEMPLATES, min_count=1)
    listed, _ = featurize(nbest, vocab)
    found = Known(listed).kinds([*listed.global_names, *listed.sparse_names.to_pylist()])
    assert found["len.tgt"] == "static"
    assert found["jump.far"] == "contextual"
    assert found["hyp.repeats"] == "global"
    assert {found[name] for name in listed.sparse_names.to_pylist()} == {"static"}
    assert set(static_features(listed)) == {name for name, kind in found.items() if kind == "static"}
    with pytest.raises(InputError, match=r"--static jump.far: .* found a contextual one"):
        Known(listed, static=("jump.far",)).kinds(["jump.far"])


# ---------------------------------------------------------------------------------------------------------------------
# Lists as a decoder makes them
# ---------------------------------------------------------------------------------------------------------------------


def decoded(seed: int, *, sentences: int = 5, hyps: int = 6, least: int = 1) -> NBest:
    """Hypotheses that cover their source with phrases in any order, of ``least`` target words or more.

    Numbers are exact in single precision.
    """
    rng = np.random.default_rng(seed)
    source = [" ".join(f"{'ä' * (w % 3)}s{w}" for w in rng.integers(0, 9, rng.integers(3, 9))) for _ in range(sentences)]
    builder = Builder(ReadOptions(source=source))
    for sent, words in enumerate(source):
        n = len(words.split())
        for h in range(hyps):
            cuts = [0, *np.flatnonzero(rng.random(n - 1) < 0.6) + 1, n]
            spans = list(itertools.pairwise(cuts))
            tokens: list[str] = []
            units = []
            for a, b in (spans[k] for k in rng.permutation(len(spans))):
                tgt = [f"t{w}" for w in rng.integers(0, 9, rng.integers(least, 5))]
                x = {name: float(v) / 8 for name, v in zip((*TM, "LM0", "Distortion0"), -rng.integers(0, 99, 6), strict=True)}
                x |= {"WordPenalty0": -float(len(tgt)), "PhrasePenalty0": 1.0}
                units.append(UnitRecord(x, (int(a), int(b)), (len(tokens), len(tokens) + len(tgt)), align="0-0" if tgt else ""))
                tokens += tgt
            builder.add(HypRecord(sent, " ".join(tokens), f"list:{sent}.{h}", 0.0, units=units))
    return attach(builder.finish(), source=source, refs=[], name="list")


def entries_of(nbest: NBest) -> tuple[NBest, list[str]]:
    """A list whose phrase pairs each have one row of scores, and the table it could have been decoded with."""
    units = nbest.units
    pairs: dict[tuple[str, str], int] = {}
    x = nbest.X.copy()
    at = [nbest.unit_names.index(name) for name in TM]
    for u, pair in enumerate(zip(units.src.to_pylist(), units.tgt.to_pylist(), strict=True)):
        x[u, at] = x[pairs.setdefault(pair, u), at]
    lines = []
    for k, ((src, tgt), u) in enumerate(pairs.items()):
        scores = " ".join(repr(math.exp(v)) for v in x[u, at])
        lines.append(f"{src} ||| {tgt} ||| {scores} ||| {units.align[u].as_py()} ||| 7 5 {k % 4} ||| |||")
    return replace(nbest, units=replace(units, x=x)), lines


def write_lines(path: Path, lines: list[str]) -> Path:
    with gzip.open(path, "wt") as stream:
        stream.writelines(line + "\n" for line in lines)
    return path


def to_moses(model: Model, out: Path, nbest: NBest | None = None, **options: object) -> tuple[dict[str, Path], str]:
    files, check = export(model, "moses", out, Context(nbest, ExportOptions(**options)))  # type: ignore[arg-type]
    return {Path(file).name: Path(file) for file in files}, check.note if check else ""


def rows(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt") as stream:
        for line in stream:
            yield [field.strip() for field in line.rstrip("\n").split("|||")]


# ---------------------------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------------------------

STATIC = (
    stump(0, TM[2], -4.0, 0.03, -0.01),
    stump(1, "WordPenalty0", -1.5, -0.5, 0.25, on=TM[0]),
    stump(2, "len.diff", 0.5, 0.125, -0.25, on=TM[3], affine=True),
    stump(3, "count.log", 0.75, 1.0, -1.0),
    stump(4, "un.src", 0.5, 0.75, -0.75),
)
WEIGHTS = {"LM0": 0.5, **dict.fromkeys(TM, 0.25), "WordPenalty0": -1.0}


@pytest.mark.parametrize("columns", ["trees", "sum"])
def test_a_table_adds_what_the_trees_add(columns: str, tmp_path: Path) -> None:
    """Plain Python reads the table back, and sums over derivations. Templates have their values from ``featurize``."""
    nbest, lines = entries_of(decoded(seed=1))
    counts = {(f[0].strip(), f[1].strip()): float(f[4].split()[2]) for f in (line.split("|||") for line in lines)}
    listed, _ = featurize(
        nbest, FeaturePlan.of("length,phrase_count,unaligned", TEMPLATES), resources=Resources(phrase_counts=counts)
    )
    model = Model({**WEIGHTS, "len.src": 0.125, "count.1": -0.5}, STATIC)
    table = write_lines(tmp_path / "pt.gz", lines)
    files, note = to_moses(model, tmp_path / "out", listed, phrase_table=str(table), columns=columns)
    assert note.startswith("0 unknown words to which")
    ini = Ini.read(files["moses.ini.lines"])
    weights = ini.weights()["TranslationModel0"]
    assert f" num-features={len(weights)} " in ini.lines[1]
    assert weights[:4] == [0.25] * 4
    adds: dict[tuple[str, str], list[float]] = {}
    old = {tuple(field.strip() for field in line.split("|||")[:2]): line for line in lines}
    for fields in rows(files["phrase-table.gz"]):
        adds[fields[0], fields[1]] = [math.log(float(s)) for s in fields[2].split()[4:]]
        rest = old[fields[0], fields[1]].split("|||")
        assert fields[2].split()[:4] == rest[2].split()
        assert fields[3:5] == [rest[3].strip(), rest[4].strip()]
    of_pair = {pair: sum(f * v for f, v in zip(weights[4:], values, strict=True)) for pair, values in adds.items()}
    units = zip(listed.units.src.to_pylist(), listed.units.tgt.to_pylist(), strict=True)
    found = listed.sum_units(np.array([of_pair[pair] for pair in units]))
    own = {"len.src": 0.125, "count.1": -0.5}
    np.testing.assert_allclose(found, Model(own, STATIC).decision_function(listed), atol=1e-6)  # ln in single precision
    if columns == "trees":  # each column by itself
        assert [line.strip() for line in files["README.txt"].read_text().splitlines() if line.startswith("  tree.")] == [
            tree.name for tree in STATIC
        ]
        np.testing.assert_allclose(weights[4:], [*(tree.weight for tree in STATIC), 1.0])


def naive_columns(line: str, trees: tuple[Tree, ...]) -> list[float]:
    """The twin in plain Python: trees over the scores and the target words of a line."""
    fields = line.split("|||")
    x = {f"TranslationModel0_{k}": max(math.log(float(s)), -100) if float(s) else -100.0 for k, s in enumerate(fields[2].split())}
    x["WordPenalty0"] = -float(len(fields[1].split()))
    out = []
    for tree in trees:
        leaf = 1 if x[tree.feature[0]] <= tree.threshold[0] else 2
        out.append(tree.intercept[leaf] + tree.value[leaf] * (1.0 if tree.on is None else x[tree.on]))
    return out


phrases = st.lists(st.sampled_from(["a", "ä", "€uro", "|", "x_y", "=", "😀", "[X]"]), min_size=1, max_size=4).map(" ".join)
scores = st.sampled_from(["1", "0", "0.25", "1e-30", "3.2e-07", "0.000123456789012345678", "2.718", ".5", "1.", "7E-3"])
tails = st.sampled_from(
    ["", "|||", "||| 0-0", "||| 0-0 ||| 1 2 3", "||| 0-0 ||| 1 2 3 ||| old 1 ||| {{Count 3}} |||", "||| |||  ||| |||"]
)
blanks = st.sampled_from(["", " ", "  ", "\t"])
lines_of_tables = st.tuples(phrases, phrases, st.lists(scores, min_size=4, max_size=4), tails, blanks, blanks).map(
    lambda t: f"{t[0]}{t[4]} |||{t[5]} {t[1]} |||{t[4]} {t[5].join([' ', ''])}{' '.join(t[2])} {t[3]}"
)


@settings(max_examples=40, deadline=None)
@given(st.lists(lines_of_tables, min_size=1, max_size=12), st.sampled_from([1, 40, 1 << 20]))
def test_tables_of_any_layout_keep_all_else(lines: list[str], chunk: int) -> None:
    """Whatever the blanks, missing fields and notations of numbers: the twin's values, and the old content unchanged."""
    import tempfile

    trees = (stump(0, TM[1], -1.0, 0.5, -0.25), stump(1, "WordPenalty0", -2.5, 0.25, 0.125, on=TM[0], affine=True))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "CHUNK", chunk)
        table = write_lines(Path(folder) / "pt.gz", lines)
        model = Model(dict.fromkeys(TM, 1.0), trees)
        files, _ = to_moses(model, Path(folder) / "out", phrase_table=str(table))
        found = list(rows(files["phrase-table.gz"]))
    assert len(found) == len(lines)
    for line, new in zip(lines, found, strict=True):
        old = [field.strip() for field in line.split("|||")]
        expected = naive_columns(line, trees)
        tokens, kept = new[2].split(), old[2].split()
        assert tokens[: len(kept)] == kept
        assert [f for k, f in enumerate(new) if k != 2 and f] == [f for k, f in enumerate(old) if k != 2 and f]
        added = [math.log(float(token)) for token in tokens[len(kept) :]]
        assert added == pytest.approx(expected, abs=1e-5)  # single precision of inputs as large as 100


def test_what_a_dev_list_taught_comes_from_its_vocab(tmp_path: Path) -> None:
    """Words, clusters and products of features, as featurize learned them; without the plan they are refused by name."""
    nbest, lines = entries_of(decoded(seed=3, sentences=8))
    plan = replace(FeaturePlan.of("length,deleted_words,inserted_clusters,pt", TEMPLATES, min_count=1))
    listed, vocab = featurize(nbest, plan)
    listed, vocab = featurize(nbest, replace(vocab, products=(("len.src", "len.tgt"),), n_products=1))
    vocab.save(tmp_path / "v.json")
    words = [next(n for n in listed.unit_names if n.startswith(p) and listed.global_column(n).any()) for p in ("del.", "ins.c")]
    sparse = listed.sparse_names.to_pylist()[0]
    trees = tuple(stump(m, name, 0.5, 1.0, -1.0) for m, name in enumerate([*words, sparse]))
    trees += (stump(len(trees), "len.src*len.tgt", 4.0, 1.0, -1.0),)
    table = str(write_lines(tmp_path / "pt.gz", lines))
    model = Model(WEIGHTS, trees)
    files, _ = to_moses(model, tmp_path / "out", listed, phrase_table=table, plan=str(tmp_path / "v.json"))
    values = {(f[0], f[1]): np.log([float(s) for s in f[2].split()[4:]]) for f in rows(files["phrase-table.gz"])}
    units = zip(listed.units.src.to_pylist(), listed.units.tgt.to_pylist(), strict=True)
    np.testing.assert_allclose([values[pair] for pair in units], augment(listed, model).X[:, -len(trees) :], atol=1e-9)
    with pytest.raises(InputError, match=r"feature 'del\..*give --plan if a dev list taught it"):
        to_moses(model, tmp_path / "out2", listed, phrase_table=table)


def test_unknown_words_stay_out_and_are_counted(tmp_path: Path) -> None:
    """A copied word is in no table: the note says how many; any other phrase without an entry is an error."""
    nbest, lines = entries_of(decoded(seed=4))
    source = nbest.units.src.to_pylist()
    u = next(k for k, src in enumerate(source) if " " not in src)
    tgt = nbest.units.tgt.to_pylist()
    tgt[u] = source[u]
    changed = replace(nbest, units=replace(nbest.units, tgt=strings(tgt)))
    table = str(write_lines(tmp_path / "pt.gz", lines))
    _, note = to_moses(Model(WEIGHTS, STATIC[:1]), tmp_path / "a", changed, phrase_table=table)
    assert note.startswith("1 unknown word to which")
    assert "matters in 1 of 5 lists" in note
    tgt[u] = "no entry"
    changed = replace(nbest, units=replace(nbest.units, tgt=strings(tgt)))
    with pytest.raises(InputError, match=rf"found no entry '{source[u]} \|\|\| no entry'"):
        to_moses(Model(WEIGHTS, STATIC[:1]), tmp_path / "b", changed, phrase_table=table)
    assert not (tmp_path / "b").exists()


def test_real_derivations_sum_to_the_trees_values(real: Path, tmp_path: Path) -> None:
    """The oracle of issue 8: over each derivation of a real list, the new columns sum to what ``augment`` gives the hypothesis.

    Unknown words (TranslationModel0 all 0) have no entry. A list's numbers have six digits and are differences of sums: thresholds
    stand where no value is near, and slopes may differ by 1e-3 of their value.
    """
    size = 60  # sentences
    path = tmp_path / "list"
    with lzma.open(real / "fi-en" / "test.200.enriched.xz", "rb") as big, open(path, "wb") as small:
        for line in big:
            if int(line[: line.index(b" ")]) == size:
                break
            small.write(line)
    source = (real / "fi-en" / "test.fi").read_text().splitlines()
    nbest = formats.read(path, ReadOptions(source=source))
    trees = (
        stump(0, TM[2], -3.34, 0.03, -0.01),
        stump(1, "WordPenalty0", -1.5, -0.02, 0.05),
        stump(2, TM[0], -1.32, 0.25, -0.125, on=TM[3]),
    )
    near = [np.abs(nbest.X[:, nbest.unit_names.index(t.feature[0])] - t.threshold[0]).min() for t in trees]
    assert min(near) > 1e-4
    model = Model(WEIGHTS, trees)
    sources = set(nbest.units.src.to_pylist())
    with lzma.open(real / "fi-en" / "system" / "phrase-table.test.xz", "rt", encoding="utf-8") as every:
        lines = [line.rstrip("\n") for line in every if line.partition(" ||| ")[0] in sources]
    table = str(write_lines(tmp_path / "pt.gz", lines))
    ini = str(real / "fi-en" / "moses.ini")
    files, note = to_moses(model, tmp_path / "out", nbest, phrase_table=table, ini=ini)
    assert "; 0 units beyond a threshold" in note
    new = Ini.read(files["moses.ini"])
    assert new.weights()["TranslationModel0"] == [0.25] * 4 + [2.0, 3.0, 4.0]
    assert new.weights()["UnknownWordPenalty0"] == [1.0]
    entries = {(f[0], f[1]): [math.log(float(s)) for s in f[2].split()[4:]] for f in rows(files["phrase-table.gz"])}
    units = nbest.units
    known = (nbest.X[:, [nbest.unit_names.index(name) for name in TM]] != 0).any(axis=1)
    pairs = list(zip(units.src.to_pylist(), units.tgt.to_pylist(), strict=True))
    known |= np.array([pair in entries for pair in pairs])  # an entry may have all probabilities 1
    values = np.array([entries[pair] if is_known else [0.0] * 3 for pair, is_known in zip(pairs, known, strict=True)])
    augmented = augment(nbest, model).X[:, -3:] * known[:, None]
    assert nbest.n_hyps > 11_000
    assert 0.01 < 1 - known.mean() < 0.2
    for m, tolerance in ((0, 1e-8), (1, 1e-8), (2, 2e-4)):
        found, expected = (nbest.sum_units(np.ascontiguousarray(v[:, m])) for v in (values, augmented))
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        assert np.ptp(found) > 0.1


# ---------------------------------------------------------------------------------------------------------------------
# The ini
# ---------------------------------------------------------------------------------------------------------------------

INI = """# mine
[feature]
WordPenalty
PhraseDictionaryCompact name=TranslationModel0 num-features=4 path=/m/pt.minphr input-factor=0 output-factor=0
KENLM name=LM0 path=/m/lm order=5

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
TranslationModel0= .1 .2 .3 .4
LM0= 0.5
"""


def test_an_ini_is_rewritten_in_its_place(tmp_path: Path) -> None:
    """Only what the model says changes; a binary table becomes the text one; weights without a model stay and are named."""
    (tmp_path / "moses.ini").write_text(INI)
    _, lines = entries_of(decoded(seed=5))
    table = str(write_lines(tmp_path / "pt.gz", lines))
    model = Model({"LM0": 0.75, "TranslationModel0_1": 0.5}, STATIC[:2])
    files, _ = to_moses(model, tmp_path / "out", phrase_table=table, ini=str(tmp_path / "moses.ini"))
    path = tmp_path / "out" / "phrase-table.gz"
    expected = INI.replace("PhraseDictionaryCompact", "PhraseDictionaryMemory").replace("num-features=4", "num-features=6")
    expected = (
        expected.replace("/m/pt.minphr", str(path)).replace(".1 .2 .3 .4", "0 0.5 0 0 2 3").replace("LM0= 0.5", "LM0= 0.75")
    )
    assert files["moses.ini"].read_text() == expected
    assert "stay as they were: UnknownWordPenalty0, WordPenalty0." in files["README.txt"].read_text()
    assert files["phrase-table.gz"] == path


@pytest.mark.parametrize(
    ("change", "weights", "message"),
    [
        (("LM0= 0.5\n", ""), {"LM0": 1.0}, r"LM0: expected 1 weight, found weights of UnknownWordPenalty0, WordPenalty0"),
        (("LM0= 0.5", "LM0= 0.5"), {"LM0_1": 1.0}, r"LM0: expected 2 weights, found 1; give the ini"),
        ((".1 .2 .3 .4", ".1 .2"), {TM[0]: 1.0}, r"pt.gz: expected 2 scores of TranslationModel0, found 4"),
        (("KENLM name=LM0", "PhraseDictionaryMemory name=T1"), {}, r"expected one phrase table, .* found TranslationModel0, T1"),
        (("[feature]", "[features]"), {}, r"moses.ini: expected a \[feature\] section, found none"),
    ],
)
def test_inis_that_do_not_fit(change: tuple[str, str], weights: dict[str, float], message: str, tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text(INI.replace(*change))
    table = str(write_lines(tmp_path / "pt.gz", ["a ||| b ||| 1 1 1 1"]))
    with pytest.raises(InputError, match=message):
        to_moses(Model(weights, STATIC[:1]), tmp_path / "out", phrase_table=table, ini=str(tmp_path / "moses.ini"))


def test_weights_alone_are_an_ini(tmp_path: Path) -> None:
    """Also of sparse features. What the list has and the model does not weighs 0; what neither has stays and is named."""
    (tmp_path / "moses.ini").write_text(INI)
    model = Model({"LM0": 0.75, "TranslationModel0_1": 0.5, "Pairs0_a": 0.125})
    files, _ = to_moses(model, tmp_path / "a", ini=str(tmp_path / "moses.ini"))
    assert sorted(files) == ["README.txt", "moses.ini", "weights.sparse"]
    expected = INI.replace(".1 .2 .3 .4", "0 0.5 0 0").replace("LM0= 0.5", "LM0= 0.75")
    assert files["moses.ini"].read_text() == f"{expected}\n[weight-file]\n{tmp_path / 'a' / 'weights.sparse'}\n"
    assert files["weights.sparse"].read_text() == "Pairs0_a 0.125\n"
    assert "stay as they were: UnknownWordPenalty0, WordPenalty0." in files["README.txt"].read_text()
    files, _ = to_moses(model, tmp_path / "b", decoded(seed=0), ini=str(tmp_path / "moses.ini"))
    assert Ini.read(files["moses.ini"]).weights()["WordPenalty0"] == [0.0]
    assert "stay as they were: UnknownWordPenalty0." in files["README.txt"].read_text()
    files, _ = to_moses(model, tmp_path / "c")
    assert files["moses.ini.lines"].read_text().splitlines()[:3] == ["[weight]", "LM0= 0.75", "TranslationModel0= 0 0.5"]
    with pytest.raises(InputError, match="--phrase-table: expected trees or weights of templates to put into it"):
        to_moses(model, tmp_path / "d", phrase_table=str(write_lines(tmp_path / "pt.gz", ["a ||| b ||| 1 1 1 1"])))


def test_a_wrong_weight_in_an_ini_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest, lines = entries_of(decoded(seed=5))
    table = str(write_lines(tmp_path / "pt.gz", lines))
    wrong = lambda name, values: weight_line(name, [w + 1e-4 for w in values])  # noqa: E731
    monkeypatch.setattr("boostfeat.export.moses.writing.weight_line", wrong)
    for model, options in ((Model(WEIGHTS), {}), (Model(WEIGHTS, STATIC[:1]), {"phrase_table": table})):
        with pytest.raises(InputError, match=r"expected the same scores within 1e-06, found a difference of 0\.000"):
            to_moses(model, tmp_path / "out", nbest, **options)


# ---------------------------------------------------------------------------------------------------------------------
# Refusals
# ---------------------------------------------------------------------------------------------------------------------

FITS = "a b ||| c ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 4 4 4 ||| |||"


@pytest.mark.parametrize(
    ("trees", "lines", "options", "message"),
    [
        ((stump(0, TM[0], -1, 0, 1), stump(1, "slot.rank", -1, 0, 1)), [FITS], {}, r"feature 'slot.rank': expected one that Moses knows"),
        ((stump(0, "Mine0", -1, 0, 1),), [FITS], {"static": ("Mine0",)}, r"feature 'Mine0': expected a static feature of phrase pairs, found none"),
        ((stump(0, "lex.tgt|src", -1, 0, 1),), [FITS], {"static": ("lex.tgt|src",)}, r"feature 'lex.tgt\|src'"),
        ((stump(0, TM[0], -1, 0, -90.0),), [FITS], {}, r"pt.gz:1: tree.000: expected a value from -87.3 to 88.7.*found -90; export it as a feature function"),
        ((stump(0, TM[0], -1, 0, 200.0, on=TM[1]),), [FITS, FITS], {}, r"pt.gz:1: tree.000: .*found -138"),
        ((stump(0, "count.log", 1, 0, 1),), [FITS, "a ||| b ||| 1 1 1 1 ||| 0-0 ||| 4 4"], {}, r"pt.gz:2: expected '.* n\(t\) n\(s\) n\(s,t\)', found '4 4'"),
        ((stump(0, TM[0], -1, 0, 1),), [FITS, "a ||| b ||| 1 1 1"], {}, r"pt.gz:2: expected 4 scores as in the first line, found '1 1 1'"),
        ((stump(0, TM[0], -1, 0, 1),), [], {}, r"pt.gz: expected a phrase table, found an empty file"),
        ((stump(0, TM[0], -1, 0, 1),), [FITS], {"columns": "rows"}, r"unknown --columns 'rows': expected one of trees, sum"),
        ((stump(0, TM[0], -1, 0, 1),), [FITS], {"columns": "leaves"}, r"unknown --columns 'leaves': expected one of trees, sum"),
        ((), None, {"columns": "sum"}, r"--columns: expected --phrase-table FILE"),
        ((replace(stump(0, TM[0], -1, 0, 1), name="my tree"),), [FITS], {}, r"tree 'my tree': expected a name without blanks"),
        ((stump(0, "agree.mean", 0.5, 0, 1),), None, {}, r"feature 'agree.mean': expected one that Moses knows when it adds a phrase"),
        ((stump(0, "punct.src", 0.5, 0, 1),), None, {}, r"feature 'punct.src': expected one that Moses knows"),
        ((stump(0, "lm.word.LM0<q10", 0.5, 0, 1),), None, {}, r"feature 'lm.word.LM0<q10': expected the quantiles"),
        ((stump(0, "Sparse0_word", 0.5, 0, 1),), None, {}, r"feature 'Sparse0_word': expected a dense feature of Moses"),
    ],
)  # fmt: skip
def test_what_moses_cannot_hold_is_refused(
    trees: tuple[Tree, ...], lines: list[str] | None, options: dict[str, object], message: str, tmp_path: Path
) -> None:
    if lines is not None:
        options = {**options, "phrase_table": str(write_lines(tmp_path / "pt.gz", lines))}
    with pytest.raises(InputError, match=message):
        to_moses(Model({"LM0": 1.0}, trees), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_global_model_and_a_weight_of_the_hypothesis_are_refused(tmp_path: Path) -> None:
    table = str(write_lines(tmp_path / "pt.gz", [FITS]))
    with pytest.raises(InputError, match="whose trees see whole hypotheses"):
        to_moses(Model({}, STATIC[:1], level="global"), tmp_path / "out", phrase_table=table)
    listed, _ = featurize(decoded(seed=0), FeaturePlan.of("hypothesis", TEMPLATES))
    with pytest.raises(InputError, match=r"feature 'hyp.repeats': expected one that Moses knows .* of the whole hypothesis"):
        to_moses(Model({"hyp.repeats": 1.0}, STATIC[:1]), tmp_path / "out", listed, phrase_table=table)
    plan = FeaturePlan((Entry("model1_inverse", {"cut": 5, "table": {}}, features=("m1.src",)),), products=())
    with pytest.raises(InputError, match=r"feature 'm1.src': .* the whole hypothesis; learn without its template, or rerank"):
        export(Model({"m1.src": 1.0}), "moses", tmp_path / "out", Context(plan=plan))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"m1.tgt": 1.0}, r"feature 'm1.tgt': expected the table of Model 1 that was learned, found none; give --plan"),
        ({"cb:7|12": 1.0}, r"feature 'cb:7\|12': expected the word classes of the dev list, found none; give --plan"),
    ],
)
def test_what_a_dev_list_taught_is_asked_for_by_name(weights: dict[str, float], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        to_moses(Model(weights), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_table_does_not_hold_is_said_by_name(tmp_path: Path) -> None:
    said: list[str] = []
    options = ExportOptions(phrase_table=str(write_lines(tmp_path / "pt.gz", [FITS])))
    model = Model({"LM0": 1.0, "bi:a|b": np.float64(0.5)}, STATIC[:1])
    export(model, "moses", tmp_path / "out", Context(options=options, warn=said.append))
    assert said == [
        "1 weight (bi:a|b ...) of more than the phrase pair: Moses has to be built with the feature function (see README.txt); "
        "'induce --set static-only=yes' learns a model for a stock Moses"
    ]
    assert "\n0.5 -1 bi:a|b\n" in (tmp_path / "out" / "boostfeat.model").read_text()


def test_a_table_and_a_feature_function_share_a_model(tmp_path: Path) -> None:
    """Static trees and weights are scores of the table, the others a function that reads what it needs from the table."""
    nbest, lines = entries_of(decoded(seed=7))
    counts = {(f[0].strip(), f[1].strip()): float(f[4].split()[2]) for f in (line.split("|||") for line in lines)}
    plan = FeaturePlan.of("length,phrase_count,jump", TEMPLATES)
    listed, _ = featurize(nbest, plan, resources=Resources(phrase_counts=counts))
    static, mixed = stump(0, TM[2], -4.0, 0.03, -0.01), stump(1, "LM0", -4.0625, 1.0, 0.5, on="count.log")
    model = Model({**WEIGHTS, "len.src": 0.125, "jump.far": -0.5}, (static, mixed))
    table = str(write_lines(tmp_path / "pt.gz", lines))
    files, note = to_moses(model, tmp_path / "out", listed, phrase_table=table)
    assert note.startswith("0 unknown words to which")
    assert note.endswith("phrases in their order, and the ini's weights")
    ini = Ini.read(files["moses.ini.lines"])
    assert ini.weights()["TranslationModel0"] == [0.25] * 4 + [2.0, 1.0, 0.0]  # tree.000, len.src, count.log
    assert ini.weights()["BoostfeatTrees0"] == [3.0, 1.0]  # tree.001, jump.far
    logs = {(f[0], f[1]): math.log(float(f[2].split()[6])) for f in rows(files["phrase-table.gz"])}
    assert logs == pytest.approx({pair: math.log1p(n) for pair, n in counts.items()})
    assert "\nTranslationModel0 6\n" in files["boostfeat.model"].read_text()  # count.log
    readme = files["README.txt"].read_text()
    assert readme.startswith("Moses has to be rebuilt, with the feature function BoostfeatTrees: see below.\n")
    assert ("\nA phrase table with the trees" in readme, "\nA feature function for Moses" in readme) == (True, True)
    table_and_list = Context(nbest=listed, options=ExportOptions(phrase_table=table))
    held = "a phrase table with 1 tree and 1 weight (len.src ...) for a stock Moses and a feature function, which Moses is built"
    assert contents(model, "moses", table_and_list) == f"--to moses has {held} with, of 1 tree and 1 weight (jump.far ...)"


def test_a_table_of_another_system_is_refused(tmp_path: Path) -> None:
    nbest, lines = entries_of(decoded(seed=6))
    src, tgt, _, *rest = lines[0].split(" ||| ")
    lines[0] = " ||| ".join([src, tgt, "0.9 0.9 0.9 0.9", *rest])
    table = str(write_lines(tmp_path / "pt.gz", lines))
    with pytest.raises(
        InputError, match=rf"TranslationModel0_2 of '{src} \|\|\| {tgt}': expected -.* found -0.105361; give the table"
    ):
        to_moses(Model(WEIGHTS, STATIC[:1]), tmp_path / "out", nbest, phrase_table=table)


# ---------------------------------------------------------------------------------------------------------------------
# The feature function
# ---------------------------------------------------------------------------------------------------------------------

HEADERS = ["moses/FF/FFState.h", "moses/FF/StatefulFeatureFunction.h", "moses/AlignmentInfo.h", "moses/Hypothesis.h",
           "moses/InputPath.h", "moses/InputType.h", "moses/ScoreComponentCollection.h", "moses/TargetPhrase.h", "util/exception.hh"]  # fmt: skip
FUNCTIONS = {"TranslationModel0": TM, "LM0": ("LM0",), "Distortion0": ("Distortion0",), "WordPenalty0": ("WordPenalty0",),
             "PhrasePenalty0": ("PhrasePenalty0",)}  # fmt: skip


def compiled(files: dict[str, Path], folder: Path) -> Path:
    """All classes, against the mock of Moses, in one program that runs any of them. Warnings are errors."""
    here = Path(__file__).parent
    for header in HEADERS:
        (folder / "mock" / header).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mock" / header).write_text('#include "moses_mock.h"\n')
    names = [file.removesuffix(".cpp") for file in files if file.endswith(".cpp")]
    every = f"#define EACH(X) {' '.join(f'X({name})' for name in names)}\n"
    (folder / "classes.h").write_text("".join(f'#include "{name}.h"\n' for name in names) + every)
    flags = ["-std=c++11", "-O0", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    places = [f"-I{place}" for place in (folder / "mock", here, folder, *{file.parent for file in files.values()})]
    sources = [files[f"{name}.cpp"] for name in names]
    command = [CXX, *flags, *places, here / "moses_driver.cpp", *sources, "-o", folder / "driver"]
    built = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder / "driver"


def script(nbest: NBest) -> str:
    """The list as the driver reads it."""
    lines = [" ".join([str(len(FUNCTIONS)), *(f"{name} {len(names)}" for name, names in FUNCTIONS.items())])]
    columns = [nbest.unit_names.index(name) for names in FUNCTIONS.values() for name in names]
    source = nbest.source.to_pylist()
    for h in range(nbest.n_hyps):
        at = range(nbest.unit_ptr[h], nbest.unit_ptr[h + 1])
        words = source[nbest.sent_of_hyp[h]]
        lines.append(f"{len(at)} {len(words.split())} {words}")
        for r in at:
            u, start = int(nbest.unit_idx[r]), nbest.src_start[r]
            values = " ".join(repr(float(v)) for v in nbest.X[u, columns])
            links = nbest.units.align[u].as_py().split()
            sizes = f"{start} {start + nbest.units.src_len[u] - 1} {nbest.units.tgt_len[u]} {len(links)}"
            lines.append(f"{sizes} {nbest.units.tgt[u].as_py()} {' '.join(links).replace('-', ' ')} {values}")
    return "\n".join(lines) + "\n"


# features that the trees look at ("cx:": the commonest of the template), and what states of neighbouring phrases are to each other
BASES = {
    "sentence": ((TM[1], "m1.tgt", "len.tgt", "cx:", "m1.tgt*len.src", "cc:", "m1.tgt*LM0"), {"same"}),
    "static": ((*TM[:2], "WordPenalty0", "len.ratio", "len.absdiff", "size.2x3", "pos.tenth", "pos.last", "len.src*len.diff", "un.tgt"), {"same"}),
    "scores": ((TM[3], "LM0", "Distortion0", "lm.word.LM0", "lm.word.LM0<q25", "pos.first", "span.len", "len.tgt"), {"same"}),
    "previous": (("LM0", "jump.signed", "jump.log", "jump.left", "jump.far", "ori.<mono", "ori.<swap", "ori.<right", "ori.<left", "jump.signed*LM0"),
                 {"other"}),
}  # fmt: skip
PLAN = "length,size,position,jump,orientation,lm_per_word,unaligned,links,characters,numbers,neighbours,phrases"


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> tuple[NBest, dict[str, Model], dict[str, Path], Path]:
    """(list, models by name, all exported files but what they share, the program): compiling takes a while."""
    if CXX is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("functions")
    nbest = decoded(seed=7, sentences=9, least=0)
    plan = FeaturePlan.of(PLAN, TEMPLATES)
    table = {"": {"t1": 0.25}, "äs": {"t1": 0.5, "t2": 0.125}, "ää": {"t3": 0.0625}, "s3": {"t1": 0.01}}
    plan = plan.with_entry(Entry("model1", {"cut": 2, "table": table}))
    other = Entry("model1_bitext", {"cut": 3, "table": {"": {"t2": 0.5}, "äsk": {"t1": 0.25}}})
    _, vocab = featurize(nbest, replace(plan, entries=(*plan.entries, other)))
    products = tuple(tuple(name.split("*")) for names, _ in BASES.values() for name in names if "*" in name)
    listed, vocab = featurize(nbest, replace(vocab, products=products, n_products=len(products)))  # type: ignore[arg-type]
    vocab.save(folder / "v.json")
    every: dict[str, Path] = {}
    models = {case: model_over([commonest(listed, name) for name in names], listed) for case, (names, _) in BASES.items()}
    models["all"] = everything(listed)
    for case, model in models.items():
        options = ExportOptions(plan=str(folder / "v.json"), prefix="my", columns="sum" if case == "all" else "trees")
        files, check = export(model, "moses", folder / case, Context(listed, options), verify=case == "all")
        assert check is None or check.rows == listed.n_occurrences
        every |= {path.name if path.suffix in (".h", ".cpp") else f"{case}.{path.name}": path for path in map(Path, files)}
    return listed, models, every, compiled(every, folder)


def everything(listed: NBest) -> Model:
    """A weight for each feature that templates made, and trees over some of them: contextual, late and sparse ones."""
    rng = np.random.default_rng(1)
    made = [name for name in listed.feature_names if ":" in name or "." in name or "*" in name]
    tested = [*(name for name in listed.unit_names if name in made), *made[-1::-7]]
    table = unit_table(listed)
    trees = [
        stump(m, name, float(np.median(np.unique(table.column(name)))), *rng.standard_normal(2)) for m, name in enumerate(tested)
    ]
    return Model(WEIGHTS | {name: float(rng.standard_normal()) for name in made}, tuple(trees))


def phrases_of(driver: Path, model: Path, listed: NBest, *more: str) -> subprocess.CompletedProcess[str]:
    n_values = [line.split()[1] for line in model.read_text().splitlines() if line.startswith("values ")]
    line = f"Trees name=Trees0 path={model} num-features={(n_values or ['1'])[0]}"
    return subprocess.run([driver, "MyTrees", line, *more], input=script(listed), capture_output=True, text=True)


def test_a_feature_function_has_all_templates(functions: tuple[NBest, dict[str, Model], dict[str, Path], Path]) -> None:
    """Whole hypotheses, since what follows a phrase is added with the next one: sparse weights, and trees over them."""
    listed, models, files, driver = functions
    model = models["all"]
    ran = phrases_of(driver, files["all.my.model"], listed)
    assert ran.returncode == 0, ran.stderr
    found = np.add.reduceat([float(line.split()[0]) for line in ran.stdout.splitlines()], listed.unit_ptr[:-1])
    inner = {name: weight for name, weight in model.weights.items() if name not in WEIGHTS}
    expected = listed.sum_units(listed.weigh(inner)[0] + tree_scores(model.trees, unit_table(listed)))
    assert len(inner) > 500
    assert {*SETS["phrases"], "m1.tgt", "m1.bitext"} - {"model1", "model1_bitext"} <= {name.partition(":")[0] for name in inner}
    tested = set.union(*(tree.features() for tree in model.trees))
    assert {"m1.tgt", "cb", "co", "cc"} <= {name.partition(":")[0] for name in tested}
    assert any(name.startswith("co:>") for name in tested)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-5)  # sums in single precision


def commonest(listed: NBest, name: str) -> str:
    """The name, or the sparse feature of a template that most units have."""
    if not name.endswith(":"):
        return name
    table, names = unit_table(listed), [text for text in listed.sparse_names.to_pylist() if text.startswith(name)]
    return max(names, key=lambda text: float(table.column(text).sum()))


def model_over(names: list[str], listed: NBest) -> Model:
    """A stump on each feature, its leaves of all kinds, and weights of features that Moses has and has not."""
    rng = np.random.default_rng(0)
    trees = []
    for m, name in enumerate(names):
        value = unit_table(listed).column(name)
        threshold = float(np.median(value)) if m % 2 else float(rng.choice(value))  # many values lie on it
        trees.append(stump(m, name, threshold, 0.5, -0.25, on=names[m - 1] if m % 3 else None, affine=m % 3 == 2))
    return Model({**WEIGHTS, **{name: 0.5 for name in names if name.startswith(MADE)}}, tuple(trees))


MADE = ("jump.", "len.", "pos.", "m1.")


@pytest.mark.parametrize("case", BASES)
def test_a_feature_function_gives_the_trees_values(
    case: str, functions: tuple[NBest, dict[str, Model], dict[str, Path], Path]
) -> None:
    """Every phrase of every hypothesis in its order, through a mock of Moses' search; expected: ``augment`` on the same list."""
    listed, models, files, driver = functions
    model, (_, states), name = models[case], BASES[case], "MyTrees"
    trees, made = model.trees, {feature: w for feature, w in model.weights.items() if feature.startswith(MADE)}
    path = files[f"{case}.my.model"]
    ran = phrases_of(driver, path, listed)
    assert ran.returncode == 0, ran.stderr
    printed = [line.split() for line in ran.stdout.splitlines()]
    found = np.array([line[:-1] for line in printed], np.float64)
    expected = augment(listed, model).X[listed.unit_idx, -len(trees) :]
    np.testing.assert_allclose(found[:, : len(trees)], expected, rtol=3e-7, atol=1e-7)  # printed in single precision
    linear = listed.weigh(made)[0][listed.unit_idx]
    np.testing.assert_allclose(found[:, -1], linear, rtol=3e-7, atol=4e-6)  # parts of up to 60, added in single precision
    assert found.shape[1] == len(trees) + 1
    assert {line[-1] for line in printed} == states
    ini = Ini.read(files[f"{case}.moses.ini.lines"])
    assert ini.lines[1] == f"{name} name={name}0 num-features={found.shape[1]} path={path}"
    assert ini.weights()[f"{name}0"] == [*(tree.weight for tree in trees), 1.0]
    assert f"MOSES_FNAME({name});" in files[f"{case}.README.txt"].read_text()
    late = phrases_of(driver, path, listed, "late")
    assert late.returncode == 1
    assert "before it in [feature]" in late.stderr
    broken = path.with_name("broken.model")
    for cut, message in (
        (1, "expected a whole model"),
        (200, "expected .* of a model"),
        (len(path.read_text()), "expected a model that"),
    ):
        broken.write_text(path.read_text()[: -3 * cut])
        assert re.search(message, phrases_of(driver, broken, listed).stderr)


@pytest.mark.parametrize(
    ("kind", "program", "feature", "words"),
    [
        ("compact", "processPhraseTableMin", "PhraseDictionaryCompact", "-in {text} -out {folder}/phrase-table -nscores 5"),
        ("probing", "CreateProbingPT", "ProbingPT", "--input-pt {text} --output-dir {table} --num-scores 5 --log-prob"),
    ],
)
def test_a_binary_table_is_made_by_moses_own_tool(
    kind: str, program: str, feature: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the tool keeps how it was called; without it the table is text, and what to run is said."""
    table = str(write_lines(tmp_path / "pt.gz", [FITS]))
    model, told = Model(WEIGHTS, STATIC[:1]), []
    options = ExportOptions(phrase_table=table, binary=kind)
    monkeypatch.setenv("PATH", "")
    files, _ = export(model, "moses", tmp_path / "text", Context(options=options, warn=told.append))
    assert "PhraseDictionaryMemory " in (tmp_path / "text" / "moses.ini.lines").read_text()
    assert f"{program} was not found, the table is text; run '{program} -" in told[0]
    tool = tmp_path / "bin" / program
    tool.parent.mkdir()
    place = 'echo "$@" > "$4.minphr"' if kind == "compact" else '/bin/mkdir "$4"; echo "$@" > "$4/TargetColl.dat"'
    tool.write_text(f"#!/bin/sh\n{place}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    files, _ = export(model, "moses", tmp_path / "out", Context(options=options))
    (made,) = (Path(file) for file in files if "minphr" in file or "probing" in file)
    at = tmp_path / "out" / ("phrase-table.minphr" if kind == "compact" else "phrase-table.probing")
    assert made == at or made.parent == at
    line = Ini.read(tmp_path / "out" / "moses.ini.lines").lines[1]
    assert line.startswith(f"{feature} name=TranslationModel0 num-features=5 path={at} ")
    called = made.read_text().split()
    folder = str(Path(called[1]).parent)
    expected = words.format(text=f"{folder}/phrase-table.gz", folder=folder, table=f"{folder}/phrase-table.probing")
    assert " ".join(called) == expected
    tool.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    with pytest.raises(InputError, match=f"expected {program} to make .*exit code 3: .*broken"):
        export(model, "moses", tmp_path / "bad", Context(options=options))


# ---------------------------------------------------------------------------------------------------------------------
# The shipped system
# ---------------------------------------------------------------------------------------------------------------------

SYSTEM = Path(__file__).parents[2] / "data" / "system"


@pytest.fixture(scope="module")
def shipped(data_stores: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[NBest, str]:
    """Lists of data/, which hold count.log without saying who made it, and what their sources need of its phrase table."""
    nbest = read_store(data_stores / "test.nbest")[:40].compact()
    sources = set(nbest.units.src.to_pylist())
    with lzma.open(SYSTEM / "phrase-table.xz", "rt", encoding="utf-8") as every:
        lines = [line.rstrip("\n") for line in every if line.partition(" ||| ")[0] in sources]
    return nbest, str(write_lines(tmp_path_factory.mktemp("shipped") / "phrase-table.gz", lines))


def test_what_a_resource_made_is_not_the_decoders_because_a_list_holds_it(shipped: tuple[NBest, str], tmp_path: Path) -> None:
    nbest, table = shipped
    weights = {**WEIGHTS, "count.log": 0.0625}
    ini = str(SYSTEM / "moses.ini")
    assert Known(nbest).kinds(["count.log", "LM0"]) == {"count.log": "static", "LM0": "contextual"}
    assert "count.log" in static_features(nbest)
    model = Model(weights, (stump(0, TM[2], -4.00005, 0.5, -0.25), stump(1, "count.log", 0.75, 1.0, -1.0)))
    files, note = to_moses(model, tmp_path / "table", nbest, phrase_table=table, ini=ini)
    assert "; 0 units beyond a threshold" in note
    assert Ini.read(files["moses.ini"]).weights()["TranslationModel0"] == [0.25] * 4 + [2.0, 3.0, 1.0]
    plain = Model(WEIGHTS, (stump(0, "LM0", -4.00005, 0.5, -0.25),))
    files, note = to_moses(plain, tmp_path / "function", nbest, ini=ini)
    assert "BoostfeatTrees.cpp" in files
    with pytest.raises(InputError, match=r"'count.log': expected one that Moses knows .*; export with --phrase-table"):
        to_moses(replace(plain, weights=weights), tmp_path / "refused", nbest, ini=ini)


def test_a_feature_function_of_the_ini_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text("[feature]\nKENLM name=LM.big path=x\n\n[weight]\nLM.big= 0.5\n")
    files, _ = to_moses(Model({"LM.big": 0.75}), tmp_path / "out", ini=str(tmp_path / "moses.ini"))
    assert Ini.read(files["moses.ini"]).weights() == {"LM.big": [0.75]}
