"""What notebooks show: objects draw themselves, nothing of their data becomes markup, and the example's outputs are current."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from notebooks import code_cells, run
from synthetic import SyntheticOptions, synthetic_nbest
from toy_trees import stump

from boostfeat.compare.table import Results
from boostfeat.lists.nbest import NBest, strings
from boostfeat.model.model import Model
from boostfeat.trees.tree import Tree

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tour.ipynb"
EVIL = "</title></text></svg><script>alert('x')</script><img src=x onerror=alert(1)>\x1b\""
ALONE = {"path", "rect", "img", "br"}  # elements that have no end


class Page(HTMLParser):
    """The elements of a piece of HTML, and its texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ALONE:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += "" if self.open and self.open[-1] == "style" else data


def a_list(name: str) -> NBest:
    nbest = synthetic_nbest(SyntheticOptions(sentences=3, hyps=7))
    said = strings([name] * 3)
    return replace(nbest, text=strings([name] * nbest.n_hyps), source=said, refs=said, unit_names=(name, *nbest.unit_names[1:]))


def a_tree(name: str) -> Tree:
    return replace(stump(on=name, feature=name), name=name)


def a_model(name: str) -> Model:
    trees = tuple(replace(a_tree(name), name=f"{name}{k}") for k in range(5))
    fires = {"tree": f"{name}0", "effect": 0.25, "fires": [1, 3]}
    return Model({name: 1.0, **{f"f{k}": k / 7 for k in range(30)}}, trees, history=({"effects": {name: 0.5}}, fires))


def a_comparison(name: str) -> Results:
    scores = {"bleu-sbp": 30.0, name: 1.0, "length_ratio": 1.0, "oracle_gap": None}
    row = {"method": "pro", "features": 3, "trees": 0, "metric": "bleu-sbp", "dev": scores, "select": scores, "test": scores,
           "reported": "test", "p_value": None, "against": {"base-PRO": None}, "p_bootstrap": None, "p_stratified": None, "confidence": [29.0, 31.0],
           "seconds": 1.0, "peak_mb": 2.0, "runs": [{}], "sd": None}  # fmt: skip
    return Results([{**row, "name": name}, {**row, "name": "b", "p_value": 0.04, "against": {"base-PRO": 0.04}}])


SHOWN: dict[str, Callable[[str], Any]] = {"list": a_list, "tree": a_tree, "model": a_model, "comparison": a_comparison}


@pytest.mark.quick
@pytest.mark.parametrize("kind", SHOWN)
def test_nothing_of_the_data_becomes_markup(kind):
    plain, evil = (Page(SHOWN[kind](name)._repr_html_()) for name in ("name", EVIL))
    assert evil.tags == plain.tags
    assert [name for name, _ in evil.attributes] == [name for name, _ in plain.attributes]
    assert not {"script", "img", "iframe", "link", "object"} & set(plain.tags)
    assert not [name for name, _ in plain.attributes if name.startswith("on") or name in ("src", "href")]
    assert not plain.open
    assert "alert(" in evil.text
    assert "\x1b" not in evil.text


@pytest.mark.quick
def test_a_list_shows_its_sizes_and_the_head_of_the_first_sentence():
    nbest = synthetic_nbest(SyntheticOptions(sentences=3, hyps=7))
    page = Page(nbest._repr_html_())
    assert "5 of 7 hypotheses" in page.text
    assert f"{nbest.n_occurrences:,}" in page.text
    for h in range(5):
        assert nbest.text[h].as_py() in page.text
    assert nbest.refs[0].as_py() in page.text
    empty = Page(nbest.take(slice(0, 0))._repr_html_())
    assert "h3" in empty.tags
    assert empty.tags.count("table") == 1


@pytest.mark.quick
def test_a_tree_is_drawn():
    page = Page(stump()._repr_html_())
    assert page.tags.count("rect") == 3
    assert [word for word in ("yes", "no") if word in page.text] == ["yes", "no"]


@pytest.mark.quick
def test_a_model_shows_what_matters_most_and_its_first_trees():
    """Effects are those of the history: 0.5 of the weight and 0.25 of the one tree that it tells of, which tests only this."""
    page = Page(a_model("name")._repr_html_())
    assert page.tags.count("svg") == 3
    assert "and 2 more trees" in page.text
    assert "the first 20 of 31 features" in page.text
    assert re.search(r"name\s*1\s*0\.75", page.text)
    assert "25.0%" in page.text
    assert "75.0%" in page.text
    assert "total effect" in page.text
    linear = Page(Model({"f": 2.0})._repr_html_())
    assert "total effect" not in linear.text
    assert "more" not in linear.text


def shape(outputs: list[dict[str, Any]]) -> list[Any]:
    """What a change of the code would change: kinds of outputs, elements of HTML and names of columns, not numbers."""
    found = []
    for output in outputs:
        html = "".join(output.get("data", {}).get("text/html", []))
        columns = re.findall(r'<th scope="col">(.*?)</th>', html)
        found.append([output["output_type"], sorted(output.get("data", {})), sorted(set(Page(html).tags)), columns])
    return found


@pytest.fixture(scope="module")
def notebook() -> dict[str, Any]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


@pytest.mark.quick
def test_the_notebook_is_one_that_was_run(notebook):
    cells = code_cells(notebook)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert all(cell["outputs"] for cell in cells)
    assert not [o for cell in cells for o in cell["outputs"] if o["output_type"] == "error"]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


def test_the_notebook_runs_and_its_outputs_are_current(notebook, monkeypatch, tmp_path):
    """``python tests/notebooks.py examples/tour.ipynb`` stores them anew."""
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where its files go
    for cell, outputs in zip(code_cells(notebook), run(NOTEBOOK), strict=True):
        assert shape(outputs) == shape(cell["outputs"]), "".join(cell["source"])
