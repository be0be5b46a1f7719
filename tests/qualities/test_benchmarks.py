"""The generator of benchmark lists: what is measured is what it says it is."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import linregress

from boostfeat.boosting.boost import boost
from boostfeat.boosting.boost_options import BoostOptions
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import read_store
from boostfeat.losses.pairs import PairOptions

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from cluster import paper_curve
from fits import fit, svg
from generate import BLOCK, Sizes, generate, statistics
from growth import BASES, FACTORS, FIELDS, STAGES, estimates, exponents, measure, table
from harness import put_block
from report import Ratio

# -- the generator ----------------------------------------------------------------------------------------------------


def made(folder: Path, sizes: Sizes, *, seed: int = 0) -> NBest:
    path = folder / f"{abs(hash((sizes, seed)))}.nbest"
    generate(path, sizes, seed=seed)
    return read_store(path)


def test_the_generator_is_deterministic_and_a_smaller_store_begins_a_larger_one(tmp_path: Path) -> None:
    small = made(tmp_path, Sizes(sentences=BLOCK, hyps=20, sparse=1000))
    again = made(tmp_path, Sizes(sentences=2 * BLOCK, hyps=20, sparse=1000))
    assert again[:BLOCK] == small[:]
    assert made(tmp_path, Sizes(sentences=BLOCK, hyps=20, sparse=1000), seed=1) != small


def test_generated_lists_are_like_real_ones(tmp_path: Path) -> None:
    """Figures of fi-en devtrain, 2,500 x 200: 7.8 units a hypothesis, 10.6 occurrences a unit, 162 units a sentence; see README."""
    nbest = made(tmp_path, Sizes(sentences=4 * BLOCK))
    about = statistics(nbest)
    assert about["units a hypothesis"] == pytest.approx(7.8, rel=0.15)
    assert about["occurrences a distinct unit"] == pytest.approx(10.6, rel=0.15)
    assert about["distinct units a sentence"] == pytest.approx(162, rel=0.15)
    assert about["units in several sentences, %"] > 0.5
    assert len(np.unique(nbest.X, axis=0)) == nbest.n_units
    for s in range(0, len(nbest), 20):
        texts = nbest[s : s + 1]
        assert (np.diff(texts.score) <= 0).all()
        assert len(np.unique(texts.unit_idx[: texts.n_occurrences].reshape(texts.n_hyps, -1), axis=0)) == texts.n_hyps


def test_generated_trees_have_something_to_learn(tmp_path: Path) -> None:
    options = BoostOptions(rounds=3, shrinkage=0.5, metric="bleu", pairs=PairOptions(draws=1000))
    dev, select = (made(tmp_path, Sizes(sentences=6 * BLOCK, hyps=50), seed=seed) for seed in (0, 1))
    model = boost(dev, select, options)
    gains = [row["select"] for row in model.history]
    assert gains[0] > statistics(select)["BLEU of the first"] + 2
    assert max(gains[1:]) > gains[0]
    assert "PhraseCount" in {tree.feature[0] for tree in model.trees}


def test_distinct_units(tmp_path: Path) -> None:
    nbest = made(tmp_path, Sizes(sentences=3, hyps=10, features=20, distinct=True))
    assert nbest.n_units == nbest.n_occurrences
    assert len(nbest.unit_names) == 20


# -- what is made of measured times -----------------------------------------------------------------------------------


def test_exponents_and_their_errors_are_those_of_linear_regression() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([1.0, 2, 4, 8, 16])
    costs = 3 * sizes**1.3 * np.exp(0.1 * rng.standard_normal(5))
    expected = linregress(np.log(sizes), np.log(costs))
    assert fit(sizes, costs)[:2] == pytest.approx((expected.slope, expected.stderr))
    exact = fit(sizes, 3 * sizes**1.3)
    assert exact == pytest.approx((1.3, 0.0, 3.0), abs=1e-7)
    assert exact.at(32) == pytest.approx(3 * 32**1.3)


def planted(power: float) -> list[dict[str, object]]:
    """Points of one stage whose seconds are sentences ^ power · hyps ^ 0.5 and whose memory is sentences · features."""
    rows = []
    for axis, base in BASES.items():
        for factor in FACTORS:
            sizes = [getattr(base, f) * (factor if f == FIELDS[axis] else 1) for f in FIELDS.values()]
            size = sizes[list(FIELDS).index(axis)]
            cost = {"seconds": 1e-3 * sizes[0] ** power * sizes[1] ** 0.5, "memory": float(sizes[0] * sizes[2]), "user": sizes[0]}
            rows.append({"axis": axis, "size": size, "sizes": sizes, "stage": "open", **cost})
    return rows


def test_growth_of_planted_costs() -> None:
    rows = planted(1.0)
    found = {cost: [exponents(rows, cost)["open"][axis].exponent for axis in BASES] for cost in ("seconds", "memory")}
    assert found["seconds"] == pytest.approx([1.0, 0.5, 0.0], abs=1e-9)
    assert found["memory"] == pytest.approx([1.0, 0.0, 1.0], abs=1e-9)
    assert estimates(rows, [12_000, 500, 128])["open"] == pytest.approx(1e-3 * 12_000 * 500**0.5)
    # what grows slower than sentences or features on small lists counts as linear beyond them
    assert estimates(planted(0.5), [12_000, 500, 256])["open"] == pytest.approx(1e-3 * 12_000 * 1000**-0.5 * 500**0.5 * 2)
    assert "!" not in table(rows)
    assert "1.20 ± 0.00" in table(planted(1.2))
    assert "**!** outside the system 1.00 ± 0.00" in table(planted(1.2))


def test_the_curve_on_paper_is_reckoned_from_measured_calls() -> None:
    """A round of 1 s and 5 calls of 1 ms and 2 ms a worker: 1 / n + 5 (0.001 + 0.002 n), best at √(1 / 0.01) = 10 workers."""
    text = paper_curve(1.0, 5.0, {1: 0.003, 2: 0.005, 4: 0.009})
    assert "| 4 | 250.0 ms | 45.0 ms | 3.4 |" in text  # (1 + 0.015) / (0.25 + 0.045)
    assert "| 64 | 15.6 ms | 645.0 ms | 1.5 |" in text
    assert "1.00 ms and 2.00 ms a worker" in text
    assert text.endswith("the most workers that help are 10.")


def test_numbers_are_put_into_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- /x -->\nb\n")
    put_block(page, "x", "new\nlines")
    assert page.read_text() == "a\n<!-- x -->\nnew\nlines\n<!-- /x -->\nb\n"


def test_the_plot_is_an_image_with_a_line_for_each_stage() -> None:
    image = ElementTree.fromstring(svg({"seconds": {"sentences": {"open": [(1, 0.1), (2, 0.2)], "PRO": [(1, 3), (2, 9)]}}}))
    lines = image.findall(".//{*}polyline[@stroke-width]")
    assert len(lines) == 2
    assert lines[1].get("points") == "0.0,52.3 250.0,4.6"  # 200 (1 - (1 + lg 3) / 2), and 9: decades 0.1 to 10


def test_ratios_are_of_neighbouring_runs() -> None:
    found = Ratio.of("a", "b", [1.0, 2.0, 4.0], [6.0, 6.0, 6.0], factor=0.5)
    assert (found.ours, found.theirs, found.ratio, found.low, found.high) == (2.0, 12.0, 6.0, 3.0, 12.0)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from Linux' /proc")
@pytest.mark.parametrize("stage", [s for s in STAGES if s != "import"])
def test_every_stage_runs(tmp_path: Path, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, Sizes(sentences=20, hyps=10))
    (path,) = tmp_path.iterdir()
    measure(stage, path, path, 0.0)
    found = dict(line.split("=") for line in capsys.readouterr().out.split())
    assert float(found["seconds"]) > 0
    assert float(found["memory"]) >= 0
