"""Contexts that trees can tell apart have numbers of their own inside search: what is kept of one is not taken for another."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from toy_systems import stump

from boostfeat.search.decoder.search_trees import FAR, context_number, known_number, move_columns, pack
from boostfeat.search.decoder.setup import WINDOW
from boostfeat.search.decoder.system import EDGE

pytestmark = pytest.mark.quick

AHEAD = np.array([[-0.1, -0.2, -0.3], [-0.5, -0.2, -0.7]])
TREES = (
    stump("LM0", -2.0, value=(0.1, 0.2)),
    stump("LM0", -1.0, value=(0.1, 0.2)),
    stump("lm.word.LM0", -0.5, value=(0.1, 0.2)),
    stump("Distortion0", -1.5, value=(0.1, 0.2)),
    stump("jump.signed", 0.5, value=(0.1, 0.2)),
    stump("LexicalReordering0_3", -0.3, value=(0.1, 0.2)),
    stump("LM0", -2.0, value=(0.1, 0.2), on="LexicalReordering0_5"),
)


def seen(jump: int, forward: int, orientation: int) -> tuple[object, ...]:
    """What the trees can see of a context: which side of each threshold it is on, and a factor itself."""
    ahead = 0.0 if forward < 0 else AHEAD[forward, orientation]
    first = orientation == 0 and ahead <= -0.3
    return -abs(jump) <= -1.5, jump <= 0.5, orientation, first, ahead if orientation == 2 else None


def test_numbers_are_those_of_what_trees_see() -> None:
    trees = pack(TREES, EDGE, ("len.src",), AHEAD, quantiles=(-0.25,))
    assert trees.lm_cuts.tolist() == [-2.0, -1.0]
    assert trees.word_cuts.tolist() == [-0.5, np.nextafter(-0.25, -1)]  # below a quantile, strictly
    numbers: dict[int, object] = {}
    kinds: dict[object, int] = {}
    for place, orientation, jump, forward in product(range(4), range(3), (-WINDOW, -3, -2, -1, 0, 1, 2, WINDOW), (-1, 0, 1)):
        number = int(context_number(trees, forward, jump, place, orientation))
        what = (place, *seen(jump, forward, orientation))
        assert kinds.setdefault(what, number) == number
        assert numbers.setdefault(number, what) == what
    known: set[int] = set(numbers)
    for number in numbers:
        for (i, lm), (j, per_word) in product(enumerate((-3.0, -1.5, 0.0)), enumerate((-1.0, -0.3, -0.25))):
            found = int(known_number(number, trees.lm_cuts, trees.word_cuts, lm, per_word))
            assert found == number + 1 + i + 3 * j
            assert found not in known
            known.add(found)
        on_cuts = int(known_number(number, trees.lm_cuts, trees.word_cuts, -2.0, -0.5))
        assert on_cuts == number + 1  # a value at a threshold goes to the left


def test_columns_of_moves() -> None:
    jump = np.array([-FAR - 1, -FAR, -1, 0, 1, FAR, FAR + 1])
    found = {name: column.tolist() for name, column in move_columns(jump).items()}
    assert found == {
        "Distortion0": [-6.0, -5.0, -1.0, 0.0, -1.0, -5.0, -6.0],
        "jump.signed": [-6.0, -5.0, -1.0, 0.0, 1.0, 5.0, 6.0],
        "jump.log": np.log1p([6, 5, 1, 0, 1, 5, 6]).tolist(),
        "jump.left": [6.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        "jump.far": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        "ori.<right": [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        "ori.<left": [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
    }
