"""scikit-learn's own checks of an estimator, for a ranker whose rows are all of one list."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.estimator_checks import check_estimator

from boostfeat import BoostReranker

NOT_OURS = {  # checks that a ranker does not pass, and why
    "check_fit2d_1sample": "a list of one leaves no choice: the error says that, not how many samples there are",
}


class OneList(BoostReranker):
    """The ranker as these checks call it, which know no groups: one list, whose rows it scores."""

    def fit(self, X: Any, y: Any = None, **more: Any) -> OneList:  # noqa: N803
        super().fit(X, y, None if y is None else [np.shape(X)[0]], **more)
        return self

    def predict(self, X: Any, group: Any = None) -> Any:  # noqa: N803
        return self.decision_function(X)

    def score(self, X: Any, y: Any = None, group: Any = None) -> float:  # noqa: N803
        return super().score(X, y, [len(X)])


def test_checks_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(OneList("fast", "none", rounds=1), on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == NOT_OURS.keys()
    assert sum(result["status"] == "passed" for result in results) > 35
