"""Templates that a model carries, inside search: a decoder's scores are those of reranking its list."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_systems import SOURCE, forced, random_model, random_ngrams, random_pairs, stump, write_system

from boostfeat.core.errors import InputError
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.plan import FeaturePlan
from boostfeat.features.resources import Clusters, Posterior, ResourceFiles
from boostfeat.formats import read
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.nbest import NBest
from boostfeat.model.model import Model
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.output import collect, write_nbest
from boostfeat.search.decoder.search_templates import SearchTemplates
from boostfeat.search.decoder.setup import SearchOptions, read_setup
from boostfeat.search.decoder.system import PhraseSystem

UNPRUNED = SearchOptions(stack=0, beam=0, table_limit=0, distortion_limit=-1)
NARROW = SearchOptions(stack=20)
N_SENTENCES = 8

SETS = [
    "pt,al,del,lo,ro",  # [G13] PT, AL, LO
    "sparse",
    "phrases",  # what induce takes by itself
    "large",
    "neighbours,around",
    "bi,jump,position,source_words,word,w,ws",
]
TREES = (
    stump("jump.log", 0.5, value=(0.3, -0.2)),
    stump("ori.<left", 0.5, value=(0.1, 0.4)),
    stump("ori.<right", 0.5, value=(0.1, 0.4), on="len.tgt"),
    stump("lm.word.LM0", -1.5, value=(-0.3, 0.2)),
    stump("lm.word.LM0<q25", 0.5, value=(-0.3, 0.2), on="lm.word.LM0"),
    stump("len.src", 1.5, value=(-0.3, 0.2), on="lm.word.LM0<q75"),
    stump("pos.tenth", 0.35, value=(0.3, -0.2), on="LM0"),
    stump("del.ka", 0.5, value=(0.3, -0.2)),
)


def featurized(raw: NBest, what: str) -> tuple[NBest, FeaturePlan]:
    """With classes of words by their lengths: a few sentences teach none, and words that they lack have one, too."""
    maker = FeatureMaker()
    sides = [
        {word: str(len(word) % 3) for text in texts.to_pylist() for word in text.split()}
        for texts in (raw.units.src, raw.units.tgt)
    ]
    (src, tgt), table = sides, {}
    for k, (f, e) in enumerate(zip(src, tgt, strict=False)):  # what references would teach
        table.setdefault(f[:3], {})[e] = 1 / (k + 2)
    plan = replace(maker.plan(what, min_count=1), clusters=Clusters(src, tgt))
    translations, seen = {"cut": 3, "table": table}, {word: 9 - k % 9 for k, word in enumerate(tgt)}
    taught = dict.fromkeys(("model1", "model1_bitext", "model1_inverse"), translations)
    taught |= {"frequency": {"frequencies": seen}, "expected_length": {"shared": [1.0, 0.9, 0.1], "of_stems": {"t1": 0.5}}}
    entries = [replace(e, options=taught[e.name]) if e.name in taught else e for e in plan.entries]
    return maker.learn(raw, replace(plan, entries=tuple(entries)), posterior=Posterior(scale=1.0))


def random_weights(rng: np.random.Generator, made: NBest, raw: NBest) -> dict[str, float]:
    return {name: float(0.2 * rng.normal()) for name in made.feature_names if name not in raw.feature_names}


def read_back(decoder: Decoder, sentences: list[str], path: Path, *, size: int, distinct: bool = True) -> NBest:
    """The decoder's list as a file of Moses' format has it."""
    with open(path, "wb") as stream:
        write_nbest(stream, decoder.decode_all(sentences), size, distinct=distinct)
    return attach(read(path, ReadOptions(source=sentences)), source=sentences, refs=(), name=str(path))


@pytest.fixture(scope="module")
def data(request: pytest.FixtureRequest) -> Path:
    return request.config.rootpath / "data"


@pytest.fixture(scope="module")
def decoder(data: Path) -> Decoder:
    """That of data/, for a few sentences, one with words that it does not know."""
    said = read_setup(data / "system" / "moses.ini")
    sentences = sentences_of(data)
    assert said.phrase_table is not None
    assert said.lm is not None
    system = PhraseSystem.load(phrase_table=said.phrase_table, lm=said.lm, reordering_table=said.reordering_table, only=sentences)
    return Decoder(system, Model({name: w for name, w in said.weights.items() if name in system.names}), NARROW)


def sentences_of(data: Path) -> list[str]:
    lines = (data / "dev.src").read_text().splitlines()[:N_SENTENCES]
    return [*lines[:-1], f"{lines[-1]} nobody has-seen 1984"]


@pytest.fixture(scope="module")
def raw(decoder: Decoder, data: Path) -> NBest:
    sentences = sentences_of(data)
    return attach(collect(decoder.decode_all(sentences), 20), source=sentences, refs=(), name="raw")


@pytest.mark.parametrize("what", SETS)
def test_scores_are_those_of_reranking(what: str, decoder: Decoder, raw: NBest, data: Path, tmp_path: Path) -> None:
    """Every template that search can have, each feature with a weight of its own: a value that differed would show."""
    made, plan = featurized(raw, what)
    weights = random_weights(np.random.default_rng(0), made, raw)
    model = with_plan(Model({**decoder.model.weights, **weights}), plan)
    mine = decoder.with_model(model)
    found = read_back(mine, sentences_of(data), tmp_path / "nbest", size=20)
    assert found.feature_names == raw.feature_names  # as any list of this decoder: who reads it computes the rest
    again = FeatureMaker().for_model(found, model)
    assert np.abs(model.decision_function(again) - found.score).max() < 1e-9
    assert found.text.to_pylist() != raw.text.to_pylist()


def test_trees_over_template_columns(decoder: Decoder, raw: NBest, data: Path, tmp_path: Path) -> None:
    """Static ones, and those of the move and the language-model score, with constant and linear leaves."""
    made, plan = featurized(raw, "large,pt")
    pair = next(name for name in made.sparse_names.to_pylist() if name.startswith("pt:"))
    trees = (*TREES, replace(stump(pair, 0.5, value=(0.0, 0.3)), name="sparse"))
    trees = tuple(replace(tree, name=f"{k}.{tree.name}") for k, tree in enumerate(trees))
    model = with_plan(Model(decoder.model.weights, tuple(t for t in trees if t.features() <= set(made.feature_names))), plan)
    assert len(model.trees) >= 8
    found = read_back(decoder.with_model(model), sentences_of(data), tmp_path / "nbest", size=20)
    again = FeatureMaker().for_model(found, model)
    assert np.abs(model.decision_function(again) - found.score).max() < 1e-9


@pytest.mark.parametrize("has_reordering", [True, False])
@pytest.mark.parametrize("what", ["sparse", "phrases", "large,neighbours,around"])
def test_no_derivation_is_lost_or_mistaken(what: str, has_reordering: bool, tmp_path: Path) -> None:
    """Without pruning the graph holds every derivation, each at its own score: what is recombined is the same ever after."""
    rng = np.random.default_rng(3)
    files = write_system(tmp_path, random_pairs(rng, per_phrase=2), random_ngrams(rng, 3))
    if not has_reordering:
        del files["reordering_table"]
    sentence = " ".join(rng.choice(SOURCE, size=4).tolist())
    system = PhraseSystem.load(**files, only=[sentence])
    plain = Decoder(system, random_model(rng, system.names), UNPRUNED)
    every = plain.decode(sentence).nbest(10**6, distinct=False)
    raw = attach(collect(plain.decode_all([sentence]), 10**6, distinct=False), source=[sentence], refs=(), name="raw")
    made, plan = featurized(raw, what)
    columns = ("jump.signed", "ori.<swap", "lm.word.LM0", "len.diff") if "large" in what else ()
    trees = tuple(stump(name, 0.1, value=(0.3, -0.4)) for name in columns)
    model = with_plan(Model({**plain.model.weights, **random_weights(rng, made, raw)}, trees), plan)
    decoder = plain.with_model(model)
    found = decoder.decode(sentence).nbest(10**6, distinct=False)
    assert len(found) == len(every) > 100
    listed = read_back(decoder, [sentence], tmp_path / "nbest", size=10**6, distinct=False)
    scores = model.decision_function(FeatureMaker().for_model(listed, model))
    assert scores == pytest.approx(listed.score, abs=1e-9)
    assert listed.score == pytest.approx(sorted((d.score for d in found), reverse=True), abs=1e-9)
    again = forced(decoder, sentence, [(*unit.src, unit.tgt_text) for unit in found[-1].units])
    assert again.score == pytest.approx(found[-1].score, abs=1e-9)


def test_joint_counts_come_from_the_systems_own_table(tmp_path: Path) -> None:
    """The template's values in search are those of the list; a table without counts is refused, for the template and the extra."""
    rng = np.random.default_rng(5)
    files = write_system(tmp_path, random_pairs(rng, per_phrase=2), random_ngrams(rng, 2))
    system = PhraseSystem.load(**files)
    plain, sentences = Decoder(system, random_model(rng, system.names), NARROW), ["a b c", "d new"]
    raw = attach(collect(plain.decode_all(sentences), 9), source=sentences, refs=(), name="raw")
    maker = FeatureMaker(ResourceFiles(phrase_table=str(files["phrase_table"])))
    _, plan = maker.learn(raw, maker.plan("phrase_count"))
    model = with_plan(Model({**plain.model.weights, "count.log": 0.5, "count.1": -0.25}), plan)
    found = read_back(replace(plain, model=model), sentences, tmp_path / "nbest", size=9)
    assert model.decision_function(maker.for_model(found, model)) == pytest.approx(found.score, abs=1e-9)
    lines = gzip.decompress(files["phrase_table"].read_bytes()).decode().splitlines()
    bare = tmp_path / "bare"
    bare.write_text("".join(f"{' ||| '.join(line.split(' ||| ')[:4])}\n" for line in lines))
    without = PhraseSystem.load(**{**files, "phrase_table": bare})
    assert (system.has_counts, without.has_counts) == (True, False)
    needs = "needs joint counts, and the phrase table has none in its fifth field"
    for other, what in ((model, "template 'phrase_count'"), (Model({"count.1": 1.0, "count.0": 1.0}), "the feature 'count.0'")):
        with pytest.raises(InputError) as error:
            Decoder(without, other)
        assert str(error.value) == f"{what} {needs}"


def test_products_of_features(tmp_path: Path) -> None:
    """Of templates' features, placed ones too, and of the decoder's; with weights, and tested by a tree."""
    rng = np.random.default_rng(6)
    system = PhraseSystem.load(**write_system(tmp_path, random_pairs(rng, per_phrase=3), random_ngrams(rng, 2)))
    plain, sentences = Decoder(system, random_model(rng, system.names), NARROW), ["a b c", "d new b a"]
    raw = attach(collect(plain.decode_all(sentences), 9), source=sentences, refs=(), name="raw")
    _, plan = featurized(raw, "length,position,characters")
    products = (
        ("len.src", "len.tgt"),
        ("pos.tenth", "TranslationModel0_1"),
        ("chars.tgt", "chars.tgt"),
        ("len.src", "chars.src"),
    )
    plan = replace(plan, products=products, n_products=len(products))
    weights = {"len.src*len.tgt": 0.3, "pos.tenth*TranslationModel0_1": -0.7, "len.diff": 0.1, "pos.first": -0.2}
    trees = (
        stump("chars.tgt*chars.tgt", 1.5, value=(0.3, -0.2)),
        stump("len.ratio", 0.9, value=(0.4, 0.1), on="len.src*len.tgt"),
    )
    model = with_plan(Model({**plain.model.weights, **weights}, trees), plan)
    found = read_back(plain.with_model(model), sentences, tmp_path / "nbest", size=20)
    again = FeatureMaker().for_model(found, model)
    assert np.abs(model.decision_function(again) - found.score).max() < 1e-9
    assert found.text.to_pylist() != raw.text.to_pylist()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_hypotheses_without_hope_are_not_missed(sign: float, tmp_path: Path) -> None:
    """As without templates (test_decoder_files), also where scores per word and their quantiles have weights of either sign."""
    rng = np.random.default_rng(5)
    system = PhraseSystem.load(**write_system(tmp_path, random_pairs(rng, per_phrase=3), random_ngrams(rng, 3)))
    plain = Decoder(system, random_model(rng, system.names), SearchOptions(stack=30))
    sentences = ["a b e c", "d c new b a"]
    raw = attach(collect(plain.decode_all(sentences), 30), source=sentences, refs=(), name="raw")
    made, plan = featurized(raw, "lm_per_word,jump,orientation,bi,neighbour_sizes")
    weights = {name: sign * abs(w) if "lm.word" in name else w for name, w in random_weights(rng, made, raw).items()}
    model = with_plan(Model({**plain.model.weights, **weights}), plan)
    hope = stump("LM0", 0.0, value=(0.0, 1e9))  # always 0, since LM0 is never above 0, but search does not see that
    for pruned in (SearchOptions(stack=4), SearchOptions(stack=0, beam=0.4)):
        one, other = (replace(plain, model=m, options=pruned) for m in (model, replace(model, trees=(hope,))))
        for sentence in sentences:
            a, b = one.decode(sentence), other.decode(sentence)
            assert [(d.text, d.score) for d in a.nbest(20)] == [(d.text, pytest.approx(d.score)) for d in b.nbest(20)]
            assert a.found is not None
            assert b.found is not None
            assert len(a.found.arcs) == len(b.found.arcs)


def test_future_scores_know_static_weights(decoder: Decoder, raw: NBest, data: Path) -> None:
    made, plan = featurized(raw, "pt")
    best = raw.text[0].as_py()
    sentence = sentences_of(data)[0]
    unit = next(u for d in decoder.decode(sentence).nbest(1) for u in d.units)
    name = f"pt:{' '.join(sentence.split()[slice(*unit.src)])}|{unit.tgt_text}"
    assert name in made.feature_names
    liked = decoder.with_model(with_plan(Model({**decoder.model.weights, name: 5.0}), plan))
    future = [one.decode(sentence).found.scores[0, 1] for one in (decoder, liked)]
    assert future[1] == pytest.approx(future[0] + 5.0)
    assert liked.decode(sentence).best.text == best


def test_units_have_the_features_that_featurize_gives(decoder: Decoder, raw: NBest) -> None:
    """Static features of phrase pairs and unknown words, one by one."""
    made, plan = featurized(raw, "large,sparse")
    names = [name for name in made.feature_names if name not in raw.feature_names]
    table = SearchTemplates(decoder.system, plan, wanted=frozenset(names))
    row_of = {}
    for src, rows in decoder.system.table.rows.items():
        row_of |= {(src, decoder.system.table.tgt[r], decoder.system.table.align[r]): r for r in rows}
    static = [e.name for e, t in table.entries.values() if t.kind == "static"]
    mine = [name for name in names if any(name in (table.option(e).features or ()) for e in static)]
    matrix = table.table["static"].matrix(10**5)
    n_sparse, unknown = 0, 0
    column = {name: k for k, name in enumerate([*made.unit_names, *made.sparse_names.to_pylist()])}
    wide = np.hstack([made.X, made.X_sparse.toarray()])
    for u in range(made.n_units):
        pair = tuple(c[u].as_py() for c in (made.units.src, made.units.tgt, made.units.align))
        if pair in row_of:
            row = matrix[row_of[pair]]
        else:
            row, unknown = table.words([pair[0]])["static"].matrix(10**5)[0], unknown + 1
        own = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        got = {name: own.get(table.ids.get(name, -1), 0.0) for name in mine}
        assert got == pytest.approx({name: wide[u, column[name]] for name in mine}, abs=1e-12)
        n_sparse += len(own)
    assert n_sparse > 1000
    assert unknown


# ---------------------------------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("mbr", "the whole list"),
        ("agreement", "the whole list"),
        ("hypothesis", "the whole hypothesis"),
        ("model1_inverse", "the whole hypothesis"),
        ("expected_length", "the whole hypothesis"),
        ("repeat", "the words so"),
    ],
)
def test_what_needs_more_than_search_has_is_refused_by_name(what: str, why: str, decoder: Decoder, raw: NBest) -> None:
    made, plan = featurized(raw, what)
    name = next(name for name in made.feature_names if name not in raw.feature_names)
    model = with_plan(Model({**decoder.model.weights, name: 0.1}), plan)
    with pytest.raises(InputError, match=rf"{name}.*template '{what}'.*it needs {why}.*rerank the list with this model"):
        decoder.with_model(model)
    unused = with_plan(Model({**decoder.model.weights, name: 0.0}), plan)
    assert decoder.with_model(unused).names == decoder.names
    if what not in ("hypothesis", "model1_inverse", "expected_length"):
        with pytest.raises(InputError, match=f"template '{what}'"):
            decoder.with_model(with_plan(Model(decoder.model.weights, (stump(name, 0.5, value=(0.1, 0.2)),)), plan))


@pytest.mark.parametrize(
    ("what", "name"), [("previous", "prev.LM0"), ("orientation", "ori.>mono"), ("around", "around.prev.punct")]
)
def test_trees_over_neighbours_are_refused(what: str, name: str, decoder: Decoder, raw: NBest) -> None:
    _, plan = featurized(raw, what)
    with pytest.raises(InputError, match=rf"tree 't.{name}'.*template '{what}'.*rerank"):
        decoder.with_model(with_plan(Model(decoder.model.weights, (stump(name, 0.5, value=(0.1, 0.2)),)), plan))


def _damaged(plan: FeaturePlan, template: str, **options: object) -> FeaturePlan:
    entry = next(e for e in plan.entries if e.name == template)
    return plan.with_entry(replace(entry, options={**entry.options, **options}))


def test_damaged_plans_are_one_line(decoder: Decoder, raw: NBest) -> None:
    made, plan = featurized(raw, "large,previous,un,bi")
    weights = {**decoder.model.weights, **random_weights(np.random.default_rng(0), made, raw)}
    plans = [
        _damaged(plan, "lm_per_word", thresholds={"LM0": {"q10": "x"}}),
        _damaged(plan, "lm_per_word", thresholds=[]),
        _damaged(plan, "previous", quantiles={"LM0": {"cuts": [1, 0], "means": [0]}}),
        _damaged(plan, "previous", quantiles={"LM0": 3}),
        _damaged(plan, "previous", features=7),
        _damaged(plan, "un", inserted=3),
        _damaged(plan, "deleted_words", words=7),
        replace(plan, entries=(replace(plan.entries[0], name="nobody's"), *plan.entries[1:])),
        replace(plan, entries=plan.entries[:1]),
        replace(plan, products=(("LM0", "len.src"),)),
        replace(plan, products=(("nothing", "len.src"),)),
    ]
    for k, damaged in enumerate(plans):
        more = {"*".join(pair): 0.1 for pair in damaged.products or ()}
        model = with_plan(Model({**weights, **more}), damaged)
        with pytest.raises(InputError) as error:
            decoder.with_model(model).decode("a b")
        assert "\n" not in str(error.value), k


def test_the_command_reads_what_templates_need(boostfeat, data: Path, raw: NBest, decoder: Decoder, tmp_path: Path) -> None:
    """decode -m with a phrase table's counts and a bitext; its list reranked is as it was."""
    bitext = [tmp_path / "a", tmp_path / "b"]
    for path, name in zip(bitext, ("dev.src", "dev.ref"), strict=True):
        path.write_text("".join((data / name).read_text().splitlines(keepends=True)[:50]))
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in sentences_of(data)[:3]))
    ini, table = data / "system" / "moses.ini", data / "system" / "phrase-table.xz"
    weights = {**decoder.model.weights, "count.log": 0.2, "lex.tgt|src": 0.1}
    files = ResourceFiles(phrase_table=str(table), bitext=(str(bitext[0]), str(bitext[1])))
    maker = FeatureMaker(files)
    _, plan = maker.learn(raw, maker.plan("phrase_count,lexical_weight,pt"))
    with_plan(Model(weights), plan).save(tmp_path / "m.json")
    out = tmp_path / "out.nbest"
    command = ("decode", tmp_path / "in", "--ini", ini, "-m", tmp_path / "m.json", "--nbest-output", out, "--nbest", 5)
    code, _, err = boostfeat(*command, "--json")
    assert (code, "needs a bitext" in err) == (2, True)
    code, text, err = boostfeat(*command, "--bitext", *bitext, "--json")
    assert code == 0, err
    assert "pt:" not in json.dumps(json.loads(text)["features"])
    assert boostfeat("import", out, "-s", tmp_path / "in", "-o", tmp_path / "list", "-q")[0] == 0
    given = ("--bitext", *bitext, "--phrase-table", table)
    code, reranked, err = boostfeat("rerank", tmp_path / "list", "-m", tmp_path / "m.json", *given)
    assert (code, err) == (0, "")
    assert reranked.splitlines() == json.loads(text)["translations"]
    Model(decoder.model.weights).save(tmp_path / "bare.json")
    code, _, err = boostfeat("decode", tmp_path / "in", "--ini", ini, "-m", tmp_path / "bare.json", "--bitext", *bitext)
    assert (code, "--bitext does nothing without a model that carries templates" in err) == (2, True)


def test_threads_change_nothing(decoder: Decoder, raw: NBest, data: Path) -> None:
    made, plan = featurized(raw, "sparse,large")
    weights = random_weights(np.random.default_rng(1), made, raw)
    model = with_plan(Model({**decoder.model.weights, **weights}), plan)
    found = [
        [
            (d.text, d.score)
            for result in decoder.with_model(model).decode_all(sentences_of(data), threads)
            for d in result.nbest(5)
        ]
        for threads in (1, 3)
    ]
    assert found[0] == found[1]
