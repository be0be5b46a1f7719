"""A grid search over leaves and rounds with scikit-learn. Usage: grid_search.py DEV.nbest TEST.nbest"""

import sys

from sklearn.model_selection import GridSearchCV

from boostfeat import BoostReranker, read_store


def main(dev: str, test: str) -> dict[str, int]:
    grid = {"max_leaves": [2, 8], "rounds": [5, 20]}
    search = GridSearchCV(BoostReranker("paper", "none"), grid, cv=3)
    search.fit(read_store(dev))
    print(f"{search.best_params_}: {search.score(read_store(test)):.2f} on held-out lists")
    return search.best_params_


if __name__ == "__main__":
    main(*sys.argv[1:])
