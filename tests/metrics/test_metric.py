"""Metrics as objects."""

from __future__ import annotations

import numpy as np
import pytest

from boostfeat.metrics.metric import METRICS

pytestmark = pytest.mark.quick


def test_the_slope_of_bleu_is_its_derivative():
    """By the formula: ∂BLEU/∂c_n = BLEU / (4 c_n), ∂BLEU/∂t_n = -BLEU / (4 t_n), and with a brevity penalty ∂/∂ref = -BLEU / len."""
    total = np.array([6000, 4000, 3000, 2000, 10000, 9000, 8000, 7000, 10000, 11000, 9500], np.float64)
    for name, length in (("bleu", 8), ("bleu-sbp", 10)):
        bleu = float(METRICS[name].score(total))
        want = np.zeros(11)
        want[:4], want[4:8] = bleu / 4 / total[:4], -bleu / 4 / total[4:8]
        want[9], want[length] = -bleu / total[length], bleu * total[9] / total[length] ** 2
        np.testing.assert_allclose(METRICS[name].slope(total), want, rtol=1e-6, atol=1e-12)
    small = METRICS["bleu"].slope(total / 1e4)  # steps of 1 at least, below 0 even
    assert np.isfinite(small).all()
