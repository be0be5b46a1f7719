"""Scores with intervals, drawn to scale."""

from __future__ import annotations

import pytest

from boostfeat.compare.drawing import GREY, colours, intervals, intervals_html

pytestmark = pytest.mark.quick

ROWS = [
    {"name": n, "test": {"bleu-sbp": s}, "confidence": i} for n, s, i in (("a", 25.0, [24.0, 26.0]), ("b", 26.0, [25.5, 28.0]))
]


def test_intervals_are_to_scale():
    found = intervals(ROWS, "b", "bleu-sbp")
    assert [(t["label"], t["at"]) for t in found["ticks"]] == [("24", 0), ("25", 25), ("26", 50), ("27", 75), ("28", 100)]
    assert [(r["left"], r["dot"], r["left"] + r["width"]) for r in found["rows"]] == [(0, 25, 50), (37.5, 50, 100)]
    assert found["base"] == 50


def test_what_is_not_known_is_left_out():
    assert intervals([{"name": "a", "test": {}, "confidence": None}], "a", "bleu") == {"rows": [], "ticks": [], "base": None}
    found = intervals([{"name": "a", "select": {"bleu": 20.0}, "confidence": None}], "b", "bleu", on="select")
    assert [(r["dot"], r["width"]) for r in found["rows"]] == [(0, 0)]
    assert found["base"] is None


@pytest.mark.parametrize(
    ("low", "high", "labels"), [(20.0, 20.03, ["20.00", "20.03"]), (20.0, 21.0, ["20.0", "21.0"]), (0.0, 90.0, ["0", "100"])]
)
def test_ticks_have_the_digits_of_their_step(low, high, labels):
    ticks = intervals([{"name": "a", "test": {"bleu": low}, "confidence": [low, high]}], "a", "bleu")["ticks"]
    assert len(ticks) <= 9
    assert [ticks[0]["label"], ticks[-1]["label"]] == labels


def test_a_system_has_one_colour_and_the_decoder_is_grey():
    names = [f"s{k}" for k in range(12)]
    found = colours(["decoder", *names])
    assert found["decoder"] == found["oracle"] == GREY
    assert len({found[name] for name in names}) == 10  # then they begin again
    assert found["s0"] == found["s10"]


def test_the_drawing_has_a_point_a_system_and_a_line_at_the_baseline():
    html = intervals_html(ROWS, "b", "bleu-sbp", label="BLEU")
    assert html.count('class="point"') == html.count('class="whisker"') == html.count('class="base" style="left:50.0%"') == 2
    assert 'title="25.00 [24.00, 26.00]"' in html
    assert 'style="left:37.5%;width:62.5%;' in html
    assert 'class="base"' not in intervals_html(ROWS, "c", "bleu-sbp", label="BLEU")
    below = [{"name": "a", "test": {"x": -1.5}, "confidence": [-2.0, -1.0]}]
    assert 'title="−1.50 [−2.00, −1.00]"' in intervals_html(below, "a", "x", label="x")
