"""The page of a comparison: what it says, that it is one file, and that text from data stays text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.core.errors import FormatError
from boostfeat.core.files import digest
from boostfeat.features import TEMPLATES, FeaturePlan, featurize
from boostfeat.features.feature_maker import with_plan
from boostfeat.lists.choices import Scorer, first_choice, oracle_choice
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.store import write_store
from boostfeat.metrics.bleu import corpus_bleu
from boostfeat.model.model import Model
from boostfeat.model.units import UnitSpace
from boostfeat.report import gather, load_run, write_report
from boostfeat.report.model_panels import response_curves, told_share, tree_panels, used_together
from boostfeat.report.overview import bucket_of, duels, levels
from boostfeat.report.page import packed, render, script_json
from boostfeat.trees.growing import TreeOptions
from boostfeat.trees.tree import Tree

NASTY = "<script>alert(1)</script>"
SETS = ("dev", "select", "test")


def row_of(name: str, model: Model | None, scores: dict) -> dict:
    test = scores["test"]["bleu-sbp"]
    return {
        "name": name, "method": "boost" if name.startswith("boost") else name, "feature_set": "base",
        "level": model.level if model and model.trees else None, "features": 4, "trees": len(model.trees) if model else 0,
        "dev": {}, **scores, "metric": "bleu-sbp", "against": {"decoder": None, "base-PRO": None if name == "base-PRO" else 0.0314},
        "p_bootstrap": 0.04, "p_stratified": None, "confidence": [test - 1.2, test + 1.1], "seconds": 1.5, "search_seconds": 2.5,
        "peak_mb": 210.0, "chosen": {"l2": 1.0, "leaves": "linear"}, "tried": [{"params": {"l2": 1.0}, "select": 31.5}],
        "runs": [{"seed": 0, **scores}], "sd": None,
    }  # fmt: skip


def config_of(inputs: dict) -> dict:
    command = "boostfeat compare dev.nbest --select select.nbest --test test.nbest -o run/"
    return {
        "boostfeat": "compare/1", "version": "0.1.0", "command": command, "options": {}, "seeds": [0], "inputs": inputs,
        "signatures": {"bleu": "nrefs:1|case:mixed"}, "versions": {"numpy": np.__version__}, "grid": {}, "trials": 10000,
    }  # fmt: skip


def make_run(folder: Path, lists: dict[str, NBest], *, rounds: int = 6, max_leaves: int = 3) -> Path:
    """RUN/ as compare writes it: decoder, a linear model, boost-global and boost-local."""
    folder.mkdir()
    (folder / "models").mkdir()
    (folder / "choices").mkdir()
    models: dict[str, Model | None] = {"decoder": None}
    for level, leaves in (("global", "constant"), ("local", "linear")):
        options = BoostOptions(
            level=level, rounds=rounds, tree=TreeOptions(leaves=leaves, max_leaves=max_leaves, min_occurrences=20)
        )
        model = boost(lists["dev"], lists["select"], options)
        full = replace(model, trees=model.trees or boost(lists["dev"], None, options).trees[:2])
        epochs = [{"epoch": e, "dev": 30.0 + e, "select": 29.0 + e, "oracle": 40.0, "prediction": 10.0 + e} for e in (1, 2, 3)]
        spreads = [{**row, "spread_mean": 1.0, "spread_sd": 2.0} for row in epochs]
        models.setdefault("base-PRO", Model(full.weights, history=tuple(spreads)))
        models[f"boost-{level}"] = full
    inputs, rows = {}, []
    for which in SETS:
        path = folder / f"{which}.nbest"
        write_store(lists[which], path)
        inputs[which] = {
            "path": str(path),
            "sha256": digest(path),
            "sentences": len(lists[which]),
            "hypotheses": lists[which].n_hyps,
        }
    for name, model in models.items():
        chosen = {w: nb and (first_choice(nb) if model is None else model.predict(nb)) for w, nb in lists.items()}
        within = {w: np.where(c < 0, -1, c - lists[w].hyp_ptr[:-1]).tolist() for w, c in chosen.items()}
        (folder / "choices" / f"{name}.json").write_text(json.dumps(within))
        if model:
            model.save(folder / "models" / f"{name}.json")
        row = {w: _scores(lists[w], chosen[w]) for w in SETS}
        rows.append(
            {**row_of(name, model, row), "model": f"models/{name}.json" if model else None, "choice": f"choices/{name}.json"}
        )
    (folder / "results.json").write_text(json.dumps(rows))
    (folder / "config.json").write_text(json.dumps(config_of(inputs)))
    return folder


def _scores(nbest: NBest, chosen) -> dict[str, float]:
    sums = {name: Scorer(nbest).rows(c, "bleu").sum(axis=0) for name, c in
            (("it", chosen), ("first", first_choice(nbest)), ("oracle", oracle_choice(nbest)))}  # fmt: skip
    sbp = {name: 100 * float(corpus_bleu(s, strict=True)) for name, s in sums.items()}
    return {"bleu": 100 * float(corpus_bleu(sums["it"])), "bleu-sbp": sbp["it"], "chrf": 50.0, "ter": 60.0,
            "length_ratio": float(sums["it"][8] / sums["it"][9]),
            "oracle_gap": (sbp["it"] - sbp["first"]) / (sbp["oracle"] - sbp["first"])}  # fmt: skip


def nasty(nbest: NBest) -> NBest:
    """The list with markup where a decoder would have words: in every kind of text the page shows."""

    def swap(column):
        return strings([f"{t} {NASTY} </script> & \"'" if k % 5 == 0 else t for k, t in enumerate(column.to_pylist())])

    units = replace(nbest.units, src=swap(nbest.units.src), tgt=swap(nbest.units.tgt))
    names = tuple(f"{n}<b>x</b>" if k == 1 else n for k, n in enumerate(nbest.unit_names))
    return replace(nbest, text=swap(nbest.text), source=swap(nbest.source), refs=swap(nbest.refs), units=units, unit_names=names)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    sizes = SyntheticOptions(sentences=60, hyps=20)
    return make_run(
        tmp_path_factory.mktemp("report") / "run", {w: nasty(synthetic_nbest(sizes, seed=k)) for k, w in enumerate(SETS)}
    )


@pytest.fixture(scope="session")
def page(run_folder) -> str:
    write_report(run_folder, run_folder / "report.html")
    return (run_folder / "report.html").read_text()


@pytest.fixture(scope="session")
def data(run_folder):
    return gather(load_run(run_folder))


class Page(HTMLParser):
    """Elements with their attributes, and what stands in scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        tag, attributes = self.elements[-1] if self.elements else ("", {})
        if tag == "script":
            self.scripts.setdefault(attributes.get("id") or "script", data)
        self.text.append(data)


# -- one file, nothing else ----------------------------------------------------------------------------------------------


def test_page_loads_nothing(page):
    parsed = Page(page)
    loading = ("src", "href", "srcset", "action", "data", "poster", "background", "xlink:href")
    assert [(t, a) for t, a in parsed.elements if any(k in a for k in loading)] == []
    assert not re.search(r"url\(|@import", page[: page.index("</style>")])
    assert "http://" not in page
    assert "https://" not in page  # plotly's own are inside its compressed text
    assert {t for t, _ in parsed.elements} & {"link", "iframe", "img", "object", "embed", "base"} == set()


def test_policy_allows_exactly_the_two_scripts(page):
    parsed = Page(page)
    policy = next(a["content"] for t, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    directives = {d.split()[0]: d.split()[1:] for d in policy.split(";")}
    assert directives["default-src"] == ["'none'"]
    plotly = gzip.decompress(base64.b64decode(parsed.scripts["data-plotly"]))
    scripts = [parsed.scripts["script"].encode(), plotly]
    assert directives["script-src"] == [f"'sha256-{base64.b64encode(hashlib.sha256(s).digest()).decode()}'" for s in scripts]
    assert "connect-src" not in directives  # so default-src holds
    assert [a for _, a in parsed.elements if any(k.startswith("on") for k in a)] == []


def test_text_from_data_stays_text(page, data):
    parsed = Page(page)
    assert NASTY not in page
    assert sum(t == "script" for t, _ in parsed.elements) == 5  # the page's own, two blobs, two of JSON
    labels = set(re.findall(r"LexWeight[^\"]*", json.dumps(json.loads(parsed.scripts["data-figures"]))))
    assert labels == {"LexWeight&lt;b&gt;x&lt;/b&gt;"}  # plotly has markup of its own
    sentences = json.loads(gzip.decompress(base64.b64decode(parsed.scripts["data-sentences"])))
    assert sentences == json.loads(json.dumps(data["sentences"]))
    assert any(NASTY in h["text"] for s in sentences["sentences"] for h in s["hyps"])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page  # of the examples in tree cards


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "a & b", "\u2028\u2029", "\ud7ff\U0001f600"])
def test_json_in_a_script_cannot_end_it(text):
    written = script_json({"t": text})
    assert json.loads(written) == {"t": text}
    assert not set("<>&\u2028\u2029") & set(written)


def test_same_run_same_page(run_folder, page, tmp_path):
    assert write_report(run_folder, tmp_path / "again.html") == len(page.encode())
    assert (tmp_path / "again.html").read_text() == page
    assert packed(b"x" * 1000) == packed(b"x" * 1000)


# -- what it says --------------------------------------------------------------------------------------------------------


def test_every_section_is_there(page):
    parsed = Page(page)
    tabs = [a["aria-controls"] for _, a in parsed.elements if a.get("role") == "tab"]
    panels = [a["id"] for _, a in parsed.elements if a.get("role") == "tabpanel"]
    assert tabs == panels
    assert tabs == [
        *("results", "curves", "trees", "features", "duels", "buckets", "lengths", "sentences"),
        *("experiments", "reproduce"),
    ]
    figures = json.loads(parsed.scripts["data-figures"])
    drawn = [a["data-figure"] for _, a in parsed.elements if "data-figure" in a]
    assert sorted(drawn) == sorted(figures)  # each figure has a place, each place a figure
    assert "boostfeat compare dev.nbest --select select.nbest --test test.nbest -o run/" in page


def test_figures_are_plotly_figures(page):
    import plotly.graph_objects as go

    figures = json.loads(Page(page).scripts["data-figures"])
    assert figures
    for name, figure in figures.items():
        drawn = go.Figure(figure).data  # raises on what plotly does not know
        assert drawn or name == "shifts", name  # generated hypotheses are all equally long: none shifts


def check_sentences(run, found):
    for m, name in enumerate(found["scorers"]):
        system, column = run.system(name), found["systems"].index(name)
        scores = system.model.decision_function(system.nbest)
        for s, sentence in enumerate(found["sentences"]):
            hyp = sentence["hyps"][sentence["chosen"][column]]
            total = sum(sentence["units"][u][part][m] for u, _, _ in hyp["units"] for part in (2, 3)) + (hyp["own"] or [0] * 9)[m]
            chosen = int(system.chosen[s])
            assert hyp["text"] == run.test.text[chosen].as_py()
            assert [n for *_, n in hyp["units"]] == run.test.units.tgt_len[
                run.test.unit_idx[slice(*run.test.unit_ptr[chosen : chosen + 2])]
            ].tolist()
            assert total == pytest.approx(scores[chosen], abs=0.02)  # parts are rounded to 3 digits, 16 of them


def test_sentences_agree_with_the_models(run_folder, data):
    """Units' and hypotheses' own parts add up to the model's score, and the browser's choices are the systems'."""
    run, found = load_run(run_folder), data["sentences"]
    check_sentences(run, found)
    oracle = [s["hyps"][s["chosen"][-1]]["gain"] for s in found["sentences"]]
    assert oracle == pytest.approx(run.gains(run.oracle), abs=0.051)


def test_reasons_add_up_to_the_difference_in_score(run_folder, data):
    """Over the decoder's choice, of the system that people come for; a sentence where both are one needs none."""
    run = load_run(run_folder)
    scores = run.ours.model.decision_function(run.ours.nbest)
    apart = 0
    for s, shown in enumerate(data["sentences"]["sentences"]):
        ours, theirs = int(run.ours.chosen[s]), int(run.decoder[s])
        if ours == theirs or min(ours, theirs) < 0:
            assert shown["why"] == []
            continue
        apart += 1
        assert sum(part for _, part in shown["why"]) == pytest.approx(scores[ours] - scores[theirs], abs=1e-3)  # printed parts
    assert apart > 0


def test_what_sums_say_of_trees():
    """Values that are a linear function of the columns within each list are told whole; noise is not, and lists may shift them."""
    rng = np.random.default_rng(0)
    ptr, columns = np.arange(0, 2001, 10), rng.standard_normal((2000, 3))
    sums = columns @ [1.0, -2.0, 0.5] + np.repeat(rng.standard_normal(200), 10)
    noise = rng.standard_normal(2000)
    assert told_share(ptr, sums, columns) == pytest.approx(1.0)
    assert told_share(ptr, noise, columns) < 0.02
    assert told_share(ptr, noise, np.column_stack([columns, noise])) == pytest.approx(1.0)
    assert told_share(ptr, sums, columns[:, :0]) == 0.0
    assert told_share(ptr, np.zeros(2000), columns) == 1.0


FOLDED = {"rule": "the last; none, where", "folds": 3, "trees": [0, 5, 10], "bleu-sbp": [25.0, 25.25, 24.0],
          "gain": 0.0, "gain_error": 0.0, "best": 5, "best_gain": 0.25, "best_error": 0.5}  # fmt: skip


@pytest.mark.parametrize(
    ("local", "whole", "said"),
    [
        # neither has trees; of one folds said that five are best, of the other that none are
        (
            {},
            {"bleu-sbp": [25.0, 24.5, 24.0], "best": 0},
            [
                "boost-local and boost-global choose the same hypothesis in 60 of 60 sentences of the test list. Neither has trees.",
                "boost-local has no trees: on folds of its training list 5 trees do best, 25.25 BLEU-SBP, and without trees it is "
                "25.00: +0.25 ± 0.50, which is not more than a standard error.",
                "boost-global has no trees: on folds of its training list no number of trees up to 10 does better than none "
                "(25.00 BLEU-SBP).",
                "Folds keep the last; none, where. Each",
            ],
        ),
        (
            {"trees": [0, 1, 10], "best": 1, "chosen_by": "select"},
            None,
            ["1 tree does best, 25.25", "Kept is the last; none, where. The select"],
        ),
        ({"trees": [0], "bleu-sbp": [25.0], "best": 0}, None, []),  # none were wanted, as of linear
        # of WER fewer is better
        (
            {"wer": [25.0, 25.25, 24.0], "best": 10, "best_gain": 1.0},
            None,
            ["10 trees do best, 24.00 WER, and without trees it is 25.00: +1.00 ± 0.50"],
        ),
        # one has trees
        (
            {"gain": 0.125, "gain_error": 0.0625, "keeps": True},
            {},
            [
                "boost-global has no trees: what it knows are weighted sums of features, and what trees over phrases know, "
                "boost-local alone knows.",
                "they gain +0.12 ± 0.06 BLEU-SBP (25.12; without trees 25.00; 5 trees do best, 25.25).",
                "% is what only trees over phrases know.",
            ],
        ),
    ],
)
def test_the_page_says_why_systems_have_trees_or_none(run_folder, data, local, whole, said):
    """In the numbers of the models' own records, which are made up here."""
    run = load_run(run_folder)

    def recorded(system, change):
        if change is None:
            return system
        keeps, change = "keeps" in change, {key: value for key, value in change.items() if key != "keeps"}
        metric = "wer" if "wer" in change else "bleu-sbp"
        config = {"metric": metric, "chosen_by": change.get("chosen_by"), "tree_count": {**FOLDED, **change}}
        model = replace(system.model, config=config, trees=system.model.trees if keeps else ())
        chosen = system.chosen if keeps else run.linear.chosen
        return replace(system, model=model, chosen=chosen)

    changes = {"boost-local": local, "boost-global": whole}
    run = replace(run, systems=tuple(recorded(s, changes.get(s.name)) for s in run.systems))
    told = {"levels": levels(run), "duels": duels(run), "trees": tree_panels(run)}
    page = render({**data, **told}).partition('<section id="trees"')[2].partition("</section>")[0]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page)).replace("&#39;", "'")
    for sentence in said:
        assert sentence in text
    assert "No system of this run has trees" not in text
    assert "number of trees up to 0" not in text


def test_a_system_is_shown_with_its_own_features(run_folder, tmp_path):
    """sparse/boost-local reads a list that compare made: its words in context count on every page, as they did in the table."""
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    plain = load_run(folder).test
    rich, plan = featurize(plain, FeaturePlan.of("pt,cx", TEMPLATES))
    names = rich.sparse_names.to_pylist()
    model = Model({"LM0": 1.0, **{name: (-1.0) ** k for k, name in enumerate(names)}}, (replace(STUMP, feature=("LM0", "", "")),))
    assert set(names) <= set(model.missing_features(plain))
    model.save(folder / "models/rich.json")
    listed = folder / "features/x/test.nbest"
    listed.parent.mkdir(parents=True)
    write_store(rich, listed)
    (folder / "choices/rich.json").write_text(json.dumps({"test": (model.predict(rich) - rich.hyp_ptr[:-1]).tolist()}))
    rows = json.loads((folder / "results.json").read_text())
    rows.insert(1, {**rows[1], "name": "x/rich", "feature_set": "x", "model": "models/rich.json", "choice": "choices/rich.json"})
    (folder / "results.json").write_text(json.dumps(rows))
    run, found = load_run(folder), gather(load_run(folder))
    assert next(p for p in found["features"] if p["system"] == "x/rich")["missing"] == []
    check_sentences(run, found["sentences"])
    shown = Page(render(found)).elements
    pressed = [a["data-shows"] for tag, a in shown if a.get("aria-pressed") == "true"]
    assert pressed[:2] == ["trees-2", "features-3"]  # boost-local's, wherever it stands

    write_store(rich.take(np.arange(5)), listed)
    with pytest.raises(FormatError, match="expected the test list of the run, found another"):
        load_run(folder)
    listed.unlink()
    assert set(names) <= set(next(p for p in gather(load_run(folder))["features"] if p["system"] == "x/rich")["missing"])
    with_plan(model, plan).save(folder / "models/rich.json")  # which computes them on the raw list
    again = gather(load_run(folder))
    assert next(p for p in again["features"] if p["system"] == "x/rich")["missing"] == []
    assert again["sentences"] == found["sentences"]


@pytest.mark.quick
def test_small_buckets_join_a_neighbour():
    values = np.repeat([3, 7, 12, 50], [1, 60, 38, 1])  # a fiftieth of 100 is 2
    assert np.unique(bucket_of(values, (1, 6, 11, 41)), return_counts=True)[1].tolist() == [61, 39]
    assert (bucket_of(np.array([5]), (1, 6)) == 0).all()


def test_brevity_times_precision_is_bleu(run_folder, data):
    run = load_run(run_folder)
    for row in data["lengths"]["systems"]:
        chosen = run.oracle if row["system"] == "oracle" else run.system(row["system"]).chosen
        found = _scores(run.test, chosen)
        assert row["bp"] * row["precision"] == pytest.approx(found["bleu"], abs=1e-9)
        assert row["strict_bp"] * row["precision"] == pytest.approx(found["bleu-sbp"], abs=1e-9)


# -- trees and features ----------------------------------------------------------------------------------------------------

STUMP = Tree("t", 2.0, "constant", None, ("f", "", ""), np.array([0.5, 0, 0]), np.array([1, -1, -1], np.int32),
             np.array([2, -1, -1], np.int32), np.array([0.0, 1.0, -3.0]))  # fmt: skip


def test_leaves_fire_as_often_as_they_say_and_on_their_examples(run_folder, data):
    run = load_run(run_folder)
    pairs = list(zip(run.test.units.src.to_pylist(), run.test.units.tgt.to_pylist(), strict=True))
    for panel in data["trees"]:
        model = run.system(panel["system"]).model
        space = UnitSpace.of(run.test, model.level)
        for tree, card in zip(model.trees, panel["cards"], strict=True):
            of_unit = tree.leaf_of(space.table)
            leaf_of = of_unit[space.unit_idx]  # a naive count over occurrences
            assert {leaf["node"]: leaf["fires"] for leaf in card["leaves"]} == {n: int((leaf_of == n).sum()) for n in tree.leaves}
            assert all(1 <= len(leaf["examples"]) <= 3 for leaf in card["leaves"] if leaf["fires"])
            for leaf in card["leaves"] if panel["level"] == "local" else ():
                there = {pairs[v] for v in np.flatnonzero(of_unit == leaf["node"])}
                assert {(x["src"], x["tgt"]) for x in leaf["examples"]} <= there


@pytest.mark.quick
def test_response_is_weight_plus_steps():
    """On f: slope 2 and a step of 2 · (-3 - 1) at 0.5, by hand; g, which no tree tests, is a line."""
    nb = synthetic_nbest(SyntheticOptions(sentences=20, hyps=10, features=4))
    f, g = nb.unit_names[3], nb.unit_names[1]
    at = float(np.median(nb.X[:, 3]))
    model = Model({f: 2.0, g: -1.0}, (replace(STUMP, feature=(f, "", ""), threshold=np.array([at, 0, 0])),))
    on_f, on_g = response_curves(model, UnitSpace.of(nb, "local"), [f, g])
    x, y = np.array(on_f["x"]), np.array(on_f["total"])
    expected = 2.0 * x + np.where(x <= at, 2.0, -6.0)
    assert np.ptp(y - expected) == pytest.approx(0, abs=1e-4)
    assert np.allclose(np.diff(on_g["total"]), -np.diff(on_g["x"]), atol=1e-4)
    assert on_f["trees"] == 1
    assert on_g["trees"] == 0


@pytest.mark.quick
def test_pairs_used_together():
    two = replace(STUMP, leaf="linear", on="g")
    found = used_together(Model({}, (two, two, STUMP)))
    assert found == {"names": ["f", "g"], "matrix": [[3, 2], [2, 2]], "any": True}
    assert not used_together(Model({}, (STUMP,)))["any"]


# -- odd runs, and errors --------------------------------------------------------------------------------------------------


def test_lists_without_units_source_or_scores(tmp_path):
    """Decoders that print no phrases: no local system, no coloured words, still a page."""
    lists = {}
    for k, which in enumerate(SETS):
        nb = synthetic_nbest(SyntheticOptions(sentences=12, hyps=6, features=4), seed=k)
        flat = replace(nb, unit_ptr=np.zeros(nb.n_hyps + 1, np.int64), unit_idx=nb.unit_idx[:0], src_start=nb.src_start[:0],
                       tgt_start=nb.tgt_start[:0], extra=nb.global_features, extra_names=nb.unit_names, unit_names=(),
                       units=replace(nb.units.take(np.arange(0)), x=np.zeros((0, 0))),
                       source=strings([""] * len(nb)), score=np.full(nb.n_hyps, np.nan))  # fmt: skip
        lists[which] = flat
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "c").mkdir()
    model = Model({"LM0": 1.0}, (replace(STUMP, feature=("LexWeight", "", "")),), "global")
    model.save(folder / "m.json")
    write_store(lists["test"], folder / "test.nbest")
    nb = lists["test"]
    row = row_of("only", model, {"test": _scores(nb, model.predict(nb))})
    (folder / "c/only.json").write_text(json.dumps({"test": (model.predict(nb) - nb.hyp_ptr[:-1]).tolist()}))
    (folder / "results.json").write_text(json.dumps([{**row, "model": "m.json", "choice": "c/only.json"}]))
    (folder / "config.json").write_text(json.dumps(config_of({"test": {"path": "test.nbest"}})))
    assert write_report(folder, tmp_path / "r.html") > 0
    found = gather(load_run(folder))
    assert found["duels"] == []
    assert found["trees"][0]["cards"][0]["leaves"][0]["examples"][0]["tgt"]
    assert found["sentences"]["sentences"][0]["hyps"][0]["units"] == []


def test_command(boostfeat, run_folder, tmp_path):
    code, out, err = boostfeat("report", run_folder, "-o", tmp_path / "r.html", "--json")
    assert code == 0, err
    assert json.loads(out) == {"output": str(tmp_path / "r.html"), "bytes": (tmp_path / "r.html").stat().st_size}


def test_moved_or_other_test_list(boostfeat, run_folder, tmp_path):
    run = shutil.copytree(run_folder, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["inputs"]["test"]["path"] = "gone/test.nbest"
    (run / "config.json").write_text(json.dumps(config))
    code, _, err = boostfeat("report", run, "-o", tmp_path / "r.html")
    assert code == 2
    assert "gone/test.nbest: expected the test list of" in err
    assert "--test" in err
    assert boostfeat("report", run, "-o", tmp_path / "r.html", "--test", run / "test.nbest")[0] == 0
    code, _, err = boostfeat("report", run, "-o", tmp_path / "other.html", "--test", run / "dev.nbest")
    assert code == 2
    assert "found another" in err
    assert not (tmp_path / "other.html").exists()
    code, _, err = boostfeat("report", tmp_path, "-o", tmp_path / "other.html")
    told = "expected the folder of a comparison, found another folder; make it with 'boostfeat compare'"
    assert (code, err) == (2, f"boostfeat: {tmp_path}: {told}\n")


def test_no_folder_and_no_packages(boostfeat, run_folder, tmp_path, monkeypatch):
    code, _, err = boostfeat("report", tmp_path / "none", "-o", tmp_path / "r.html")
    assert (code, err.count("\n")) == (2, 1)
    assert "boostfeat compare" in err
    monkeypatch.setattr("boostfeat.report.page.find_spec", lambda name: None)
    code, _, err = boostfeat("report", run_folder, "-o", tmp_path / "r.html")
    assert code == 2
    assert "pip install 'boostfeat[report]'" in err
