"""Templates have one Python function, wherever they are computed, and a C text where they have one: the same numbers everywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_export import needs_cc
from test_export_moses import decoded, stump

import boostfeat
from boostfeat.core.errors import InputError
from boostfeat.export import Context, ExportOptions, c, compiling, export
from boostfeat.export.c import C_TEMPLATES
from boostfeat.export.target import filled
from boostfeat.export.unit_text import CONTEXT_TEMPLATES, DENSE_TEMPLATES, PAIR_TEMPLATES, TEXT, HashTable, c_text, name_key
from boostfeat.export.verify import feature_rows
from boostfeat.features import TEMPLATES, FeaturePlan, Posterior, Resources, featurize
from boostfeat.features.feature_maker import FeatureMaker, plan_of, with_plan
from boostfeat.features.lexicon import Bitext
from boostfeat.lists.nbest import NBest, strings
from boostfeat.model.model import Model

PACKAGE = Path(boostfeat.__file__).parent
WORDS = (
    *("talo", "1", "3 000", "[X]", "[", "]", "[a]b]", "ä€😀", "|", "a|b", "-", "x1y", "$", "?", "&quot;"),
    *("Ääni", "USA", "a-b", "it's"),
)
OF_LISTS = ("agreement", "support", "mbr", "slot")  # C does not have them
WITH_KERNELS = {"mbr", "agreement"}  # for many lists, 34 s and 4.5 s of Python for 1,000 lists of 200 hypotheses
FILES = ("phrase_count", "lexical_weight", "lm")  # read a file that no export has


# -- one definition -----------------------------------------------------------------------------------------------------------


def test_every_template_has_one_python_function_and_c_text_where_it_can() -> None:
    """The functions stand in features/templates; besides, two templates have kernels, and search has columns of moves."""
    c_source = (PACKAGE / "export" / "model.c.in").read_text()
    assert {t.name for t in TEMPLATES.values() if t.many} == WITH_KERNELS
    assert set(C_TEMPLATES) == set(TEMPLATES) - {*OF_LISTS, *FILES}
    functions = [template.compute for template in TEMPLATES.values()]
    assert len({function.__code__ for function in functions}) == len(TEMPLATES)
    for name, template in TEMPLATES.items():
        assert template.compute.__module__.startswith("boostfeat.features.templates."), name
        if name in C_TEMPLATES and name not in (*PAIR_TEMPLATES, *DENSE_TEMPLATES):
            assert c_source.count(f"static inline double t_{name}(") == 1, name
    assert {name for template in DENSE_TEMPLATES for name in TEMPLATES[template].columns or ()} == set(TEXT)
    assert all(f"$$_{name.upper()} = " in c_text() for name in (*PAIR_TEMPLATES, *CONTEXT_TEMPLATES))


def test_no_other_module_makes_a_templates_features() -> None:
    """Names of dense features are written where they are made: nowhere else, but in C texts and where search has columns."""
    names = {name for t in TEMPLATES.values() for name in (t.columns if isinstance(t.columns, tuple) else ())}
    elsewhere = {
        "export/unit_text.py": "C text",
        "export/c.py": "C text",
        "export/moses/feature_function.py": "C text",
        "search/decoder/system.py": "columns of moves, which a kernel fills: a tree asks for them at every edge of search",
        "search/decoder/search_trees.py": "the same",
        "search/decoder/decoder_features.py": "columns of a phrase table",
        "search/graphs/edge_features.py": "edges of graphs",
        "features/feature_maker.py": "lm.unknown is counted for a warning",
    }
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        quoted = set(re.findall(r'"([a-z0-9]+\.[^"{}\s]+)"', path.read_text())) & names
        if quoted and not where.startswith("features/templates/"):
            found[where] = sorted(quoted)[:3]
    assert set(found) <= set(elsewhere), found


# -- the same numbers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lists() -> NBest:
    """Decoded lists of odd words with links of all kinds, and a unit that drops its word."""
    nbest = decoded(seed=3, sentences=9)
    rng = np.random.default_rng(3)
    odd = [w for word in WORDS for w in word.split()]

    def renamed(text: str) -> str:
        return " ".join(odd[sum(map(ord, word)) % len(odd)] for word in text.split())

    units = nbest.units
    links = [
        " ".join(f"{i}-{j}" for i in reversed(range(len(s.split()))) for j in range(len(t.split())) if rng.random() < 0.4)
        for s, t in zip(units.src.to_pylist(), units.tgt.to_pylist(), strict=True)
    ]
    src, tgt = ([renamed(text) for text in column.to_pylist()] for column in (units.src, units.tgt))
    units = replace(units, src=strings(src), tgt=strings(tgt), align=strings(links))
    source, text = (strings([renamed(t) for t in column.to_pylist()]) for column in (nbest.source, nbest.text))
    refs = text.take(nbest.hyp_ptr[:-1])
    return replace(nbest, units=units, source=source, text=text, refs=refs, ref_ptr=np.arange(len(nbest) + 1))


def weighed(lists: NBest, names: str, seed: int = 0) -> tuple[NBest, Model]:
    """The list with these templates, and a model with random weights of all features and trees over some."""
    bitext = Bitext(list(zip(lists.source.to_pylist(), lists.refs.to_pylist()[::-1], strict=True)))
    resources = Resources(posterior=Posterior(0.7), bitext=bitext)
    _, plan = featurize(lists, FeaturePlan.of(names, min_count=1), resources=resources)
    rng = np.random.default_rng(seed)
    made = sorted(plan.features)
    weights = {name: float(rng.standard_normal()) for name in (*lists.feature_names, *made)}
    trees = [stump(k, name, 0.5, *rng.standard_normal(2), on=lists.unit_names[0]) for k, name in enumerate(made[:60:9])]
    decision = {"by": "mbr", "scale": 0.3, "length": {"shared": (1.0, 0.9, 0.01), "stems": {"talo": 0.5}, "weight": 0.2}}
    return featurize(lists, plan)[0], with_plan(Model(weights, tuple(trees), config={"decision": decision}), plan)


@needs_cc
@pytest.mark.parametrize("name", ["+".join(C_TEMPLATES), "sparse", "large", "neighbours+words-basic-c"])
def test_c_scores_and_chooses_as_the_library(name: str, lists: NBest, tmp_path: Path) -> None:
    name = name.replace(
        "words-basic-c",
        "word+frequency+place+repeat+source_words+hypothesis+model1+model1_bitext+model1_inverse+morpheme_weight+expected_length+bi+w+ws+around",
    )
    listed, model = weighed(lists, name)
    _, check = export(model, "c", tmp_path / "m.h", Context(listed, plan=plan_of(model)))
    assert check is not None
    assert check.difference < 1e-9
    assert check.note == f"{len(lists)} of {len(lists)} choices as rerank's"


@pytest.mark.parametrize("name", ["+".join(t for t in TEMPLATES if t not in FILES), "words-basic", "phrases"])
def test_python_scores_and_chooses_as_the_library(name: str, lists: NBest, tmp_path: Path) -> None:
    listed, model = weighed(lists, name)
    _, check = export(model, "python", tmp_path / "m.py", Context(listed, plan=plan_of(model)))
    assert check is not None
    assert check.difference < 1e-12
    assert check.note == f"{len(lists)} of {len(lists)} choices as rerank's"


@needs_cc
@pytest.mark.parametrize("target", ["onnx", "treelite"])
def test_runtimes_score_the_units_of_templates(target: str, lists: NBest, tmp_path: Path) -> None:
    pytest.importorskip(target)
    """The file says how each of its inputs is computed."""
    listed, model = weighed(lists, "length+punctuation+sparse")
    written, check = export(model, target, tmp_path / "m.out", Context(listed, plan=plan_of(model)))
    assert check is not None
    assert check.difference < 1e-9
    if target == "onnx":
        import onnx

        note = {prop.key: prop.value for prop in onnx.load(written[0]).metadata_props}
        note |= {key: json.loads(note[key]) for key in ("features", "inputs")}
    else:
        note = json.loads(Path(written[1]).read_text())
    assert list(note["inputs"]) == note["features"]
    assert note["inputs"]["len.src"] == "template length, as 'boostfeat featurize' computes it"
    assert note["inputs"][lists.unit_names[0]] == "the decoder's"
    assert note["inputs"]["sparse.sum"].startswith("the sum of ")
    assert note["row"] == "a unit (a phrase, or a word) of a hypothesis"


def test_kernels_for_many_lists_are_the_functions(lists: NBest) -> None:
    """Templates of lists by kernels, and by their functions called for each list."""
    plan = FeaturePlan.of("mbr+agreement")
    how = {"resources": Resources(posterior=Posterior(0.7))}
    plain = {name: replace(TEMPLATES[name], many=None) for name in WITH_KERNELS}
    (fast, _), (slow, _) = featurize(lists, plan, **how), featurize(lists, plan, registry=plain, **how)
    assert fast.feature_names == slow.feature_names
    np.testing.assert_allclose(fast.global_features, slow.global_features, atol=1e-12)


@needs_cc
@pytest.mark.skipif(sys.platform != "linux", reason="sanitizers of gcc")
def test_sanitizers_find_nothing_in_c(lists: NBest, tmp_path: Path) -> None:
    """All templates of C on lists whose texts end where the memory does, under the sanitizers of addresses and of behaviour."""
    _, model = weighed(lists, "+".join(C_TEMPLATES))
    context = Context(plan=plan_of(model))
    export(model, "c", tmp_path / "m.h", context)
    code = (tmp_path / "m.c").read_text() + filled("run_lists.c.in", {}, "boostfeat") + MAIN
    (tmp_path / "all.c").write_text(code)
    command = [
        *("gcc", "-std=c99", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"),
        "-fno-sanitize-recover=all",
    ]
    done = subprocess.run([*command, "all.c", "-lm", "-o", "all"], cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode and "asan" in done.stderr:
        pytest.skip("no sanitizers")
    assert done.returncode == 0, done.stderr[-500:]
    write_arrays(lists, c.CSource.of(model, context).inputs, tmp_path / "arrays")
    done = subprocess.run([tmp_path / "all", tmp_path / "arrays"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    expected = model.decision_function(FeatureMaker().for_model(lists, model))
    np.testing.assert_allclose(list(map(float, done.stdout.split())), expected, rtol=1e-9, atol=1e-9)


MAIN = """
#include <stdio.h>
static void *next(FILE *file) {
    int64_t n;
    void *out;
    if (fread(&n, sizeof n, 1, file) != 1 || (out = malloc((size_t)n + 1)) == NULL || fread(out, 1, (size_t)n, file) != (size_t)n) exit(3);
    return out;
}
int main(int argc, char **argv) {
    FILE *file = fopen(argc > 1 ? argv[1] : "", "rb");
    void *a[17];
    double *scores;
    int64_t *choices, *sizes, h;
    int k;
    if (!file) return 2;
    for (k = 0; k < 16; k++) a[k] = next(file);
    fclose(file);
    sizes = a[6];
    scores = malloc(sizeof *scores * (size_t)sizes[1]);
    choices = malloc(sizeof *choices * (size_t)sizes[0]);
    if (run(a[0], a[1], a[2], a[3], a[4], a[5], sizes[0], sizes[1], sizes[2], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], scores, choices)) return 4;
    for (h = 0; h < sizes[1]; h++) printf("%.17g\\n", scores[h]);
    for (k = 0; k < 16; k++) free(a[k]);
    free(scores);
    free(choices);
    return 0;
}
"""


def write_arrays(nbest: NBest, names: tuple[str, ...], path: Path) -> None:
    texts = compiling.UnitArrays.of(nbest.units, nbest.source, nbest.text)
    nb, units = nbest, nbest.units
    columns = [nb.hyp_ptr, nb.unit_ptr, nb.unit_idx, nb.src_start, units.src_len, nb.tgt_start, units.tgt_len]
    features = [feature_rows(nb, names, of_units=of_units) for of_units in (True, False)]
    sizes = np.array([len(nb), nb.n_hyps, nb.n_units])
    whole = [texts.texts, texts.at, texts.ptr, texts.words, texts.link_ptr, texts.links, sizes]
    with open(path, "wb") as file:
        for array in (*whole, *(np.ascontiguousarray(column, np.int64) for column in columns), *features):
            file.write(np.int64(array.nbytes).tobytes() + np.ascontiguousarray(array).tobytes())


# -- what is refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ("length+slot", "--to c: template 'slot' looks at whole lists, which C does not have"),
        ("mbr", "--to c: template 'mbr' looks at whole lists"),
    ],
)
def test_templates_of_lists_are_refused_in_c_before_anything_is_written(lists, tmp_path, templates, message) -> None:
    _, model = weighed(lists, templates)
    with pytest.raises(InputError, match=message):
        export(model, "c", tmp_path / "m.h", Context(plan=plan_of(model)))
    assert not list(tmp_path.iterdir())


def test_hashed_names_are_refused_in_c_and_found_in_python(lists: NBest, tmp_path: Path) -> None:
    out, plan = featurize(lists, FeaturePlan.of("pt+bi", min_count=1, hash_bits=6))
    model = with_plan(Model({name: 0.1 + k for k, name in enumerate(sorted(plan.features))}), plan)
    with pytest.raises(InputError, match="--to c: template 'pt' has hashed names; learn without --hash"):
        export(model, "c", tmp_path / "m.h", Context(plan=plan))
    _, check = export(model, "python", tmp_path / "m.py", Context(out, plan=plan))
    assert check is not None
    assert check.difference < 1e-12


def test_a_users_template_leaves_in_python(lists: NBest, tmp_path: Path) -> None:
    """Its function, what that uses of its file and of Python; another package stays behind, by name."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import re\nfrom boostfeat.features import template\nVOWEL = re.compile('[aeiou]')\n\n\n"
        "def begins(word):\n    return VOWEL.match(word) is not None\n\n\n"
        '@template("vowels")\ndef vowels(target, *, most=9):\n'
        '    return {"vowels.tgt": float(min(sum(map(begins, target)), most))}\n'
    )
    maker = FeatureMaker(replace(FeatureMaker().files, plugin=[str(plugin)]))
    out, plan = maker.learn(lists, maker.plan("vowels"))
    model = with_plan(Model({"vowels.tgt": 1.5}), plan)
    options = ExportOptions(plugin=(str(plugin),))
    _, check = export(model, "python", tmp_path / "m.py", Context(out, options, plan))
    assert check is not None
    assert check.difference < 1e-12
    with pytest.raises(InputError, match="template 'vowels' of the model: it is not known; give its --plugin"):
        export(model, "python", tmp_path / "n.py", Context(plan=plan))
    with pytest.raises(InputError, match="--to c: template 'vowels' has no C text; use --to python"):
        export(model, "c", tmp_path / "n.h", Context(options=options, plan=plan))
    plugin.write_text(
        "import numpy as np\nfrom boostfeat.features import template\n"
        '@template("vowels")\ndef vowels(target):\n    return {"vowels.tgt": float(np.sum([1.0]))}\n'
    )
    with pytest.raises(InputError, match="template 'vowels': it uses 'np', which only its program has"):
        export(model, "python", tmp_path / "n.py", Context(options=options, plan=plan))
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".pyc" and path.is_file()) == ["m.py", "mine.py"]


# -- the hash -------------------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=12), st.floats(-9, 9), min_size=1, max_size=60))
def test_a_name_is_found_by_its_hash(weights: dict[str, float]) -> None:
    table = HashTable.of(weights, {})
    assert len(table.first) == (1 << table.bits) + 1
    for name, weight in weights.items():
        key = name_key(name)
        begin, end = table.first[key >> (64 - table.bits)], table.first[(key >> (64 - table.bits)) + 1]
        (k,) = [k for k in range(begin, end) if int(table.keys[k]) == key]
        assert table.weights[k] == weight


def test_names_of_one_hash_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boostfeat.export.unit_text.name_key", lambda name: 7)
    with pytest.raises(InputError, match="expected names with different hashes"):
        HashTable.of({"a": 1.0, "b": 1.0}, {})
