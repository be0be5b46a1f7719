"""The vectorised exponential."""

from __future__ import annotations

import numpy as np
import pytest

from boostfeat.losses.fast_exp import exp_nonpositive, log1p_unit

pytestmark = pytest.mark.quick


def test_exp_nonpositive_is_exact_to_the_last_place():
    """Against numpy's, over all magnitudes; below -700 it stays tiny and finite."""
    x = -np.concatenate(
        [[0.0, 700.0], np.logspace(-320, np.log10(699), 20_000), np.random.default_rng(0).uniform(0, 700, 50_000)]
    )
    expected = np.exp(x)
    assert (np.abs(exp_of(x) - expected) <= np.spacing(expected)).all()
    assert (exp_of(np.array([-701.0, -1e308, -np.inf])) == np.exp(-700.0)).all()
    assert len(exp_of(np.zeros(0))) == 0


def exp_of(x):
    out = x.copy()
    exp_nonpositive(out, np.empty(len(x)))
    return out


def test_log1p_of_what_an_exponential_can_be():
    """Against numpy's, to three units in the last place, from 1 down to the smallest numbers."""
    x = np.concatenate([[0.0, 1.0, 1e-308], np.logspace(-300, 0, 20_000), np.random.default_rng(0).uniform(0, 1, 50_000)])
    out = np.empty(len(x))
    log1p_unit(x, out)
    expected = np.log1p(x)
    assert (np.abs(out - expected) <= 3 * np.spacing(expected)).all()
