"""Scores with intervals, drawn to scale."""

from __future__ import annotations

from random import Random

import pytest

from boostfeat.compare.intervals import GREY, STEPS, colours, intervals, intervals_html

pytestmark = pytest.mark.quick

ROWS = [
    {"name": n, "test": {"bleu-sbp": s}, "confidence": i} for n, s, i in (("a", 25.0, [24.0, 26.0]), ("b", 26.0, [25.5, 28.0]))
]


def test_what_is_not_known_is_left_out():
    assert intervals([{"name": "a", "test": {}, "confidence": None}], "a", "bleu") == {"rows": [], "ticks": [], "base": None}
    found = intervals([{"name": "a", "select": {"bleu": 20.0}, "confidence": None}], "b", "bleu", on="select")
    assert [(r["dot"], r["width"]) for r in found["rows"]] == [(0, 0)]
    assert found["base"] is None


def test_a_system_has_one_colour_and_the_decoder_is_grey():
    names = [f"s{k}" for k in range(12)]
    found = colours(["decoder", *names])
    assert found["decoder"] == found["oracle"] == GREY
    assert len({found[name] for name in names}) == 10  # then they begin again
    assert found["s0"] == found["s10"]


@pytest.mark.parametrize("seed", range(8))
def test_places_are_scores_to_scale(seed):
    """From the labels of the first and last tick every place leads back to its score; a finer step would have too many ticks."""
    rng = Random(seed)
    size, middle = 10 ** rng.uniform(-1.5, 1.7), rng.uniform(-20, 60)
    rows = []
    for k in range(3):
        low, score, high = sorted(rng.uniform(middle - size, middle + size) for _ in range(3))
        rows.append({"name": f"s{k}", "test": {"bleu": score}, "confidence": [low, high]})
    rows.append({"name": "none", "test": {"bleu": None}, "confidence": None})
    found = intervals(rows, "s1", "bleu")
    labels = [float(tick["label"]) for tick in found["ticks"]]
    first, last = labels[0], labels[-1]
    step = (last - first) / (len(labels) - 1)
    low, high = (f(r["confidence"][k] for r in rows[:3]) for f, k in ((min, 0), (max, 1)))
    assert first <= low + 1e-9 < first + step
    assert last >= high - 1e-9 > last - step
    assert labels == pytest.approx([first + k * step for k in range(len(labels))])
    assert [tick["at"] for tick in found["ticks"]] == pytest.approx(
        [100 * k / (len(labels) - 1) for k in range(len(labels))], abs=0.01
    )
    finer = [s for s in STEPS if s < step - 1e-9]
    assert (high - low) / step <= 7 + 1e-9
    assert not finer or (high - low) / finer[-1] > 7
    scale = (last - first) / 100
    assert [row["name"] for row in found["rows"]] == ["s0", "s1", "s2"]
    for row, given in zip(found["rows"], rows, strict=False):
        assert (row["score"], row["interval"]) == (given["test"]["bleu"], given["confidence"])
        ends = [first + scale * at for at in (row["left"], row["dot"], row["left"] + row["width"])]
        assert ends == pytest.approx([given["confidence"][0], given["test"]["bleu"], given["confidence"][1]], abs=0.02 * scale)
    assert found["base"] == found["rows"][1]["dot"]


def test_a_drawing_whole():
    """By hand: ticks 0 to 2 in steps of 0.5; the decoder is grey, the first of the others has the first colour."""
    rows = [
        {"name": "decoder", "test": {"x": 0.5}, "confidence": [0.0, 1.0]},
        {"name": "a<b", "test": {"x": 1.5}, "confidence": [1.25, 2.0]},
    ]
    base = '<i class="base" style="left:25.0%"></i>'
    ticks = "".join(f'<span style="left:{at}%">{label}</span>' for at, label in ((0.0, "0.0"), (25.0, "0.5"), (50.0, "1.0"), (75.0, "1.5"), (100.0, "2.0")))  # fmt: skip
    assert intervals_html(rows, "decoder", "x", label="x & y") == (
        '<div class="forest" role="img" aria-label="x &amp; y">'
        f'<div class="name">decoder</div><div class="track">{base}<i class="whisker" style="left:0.0%;width:50.0%;color:#8b93a1"></i>'
        '<i class="point" style="left:25.0%;background:#8b93a1" title="0.50 [0.00, 1.00]"></i></div><div class="score">0.50</div>\n'
        f'<div class="name">a&lt;b</div><div class="track">{base}<i class="whisker" style="left:62.5%;width:37.5%;color:#d08a2e"></i>'
        '<i class="point" style="left:75.0%;background:#d08a2e" title="1.50 [1.25, 2.00]"></i></div><div class="score">1.50</div>\n'
        f'<div></div><div class="axis">{ticks}</div><div></div></div>'
    )
