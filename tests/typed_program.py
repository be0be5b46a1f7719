"""A user's program, which ``mypy --strict`` takes: what the package tells type checkers is what its objects are.

Where a type were lost (Any), a comment that ignores an error would be one too many, and mypy says so.
"""

from __future__ import annotations

import sys
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from boostfeat import BoostReranker, FormatError, InputError, Model, NBest, SentenceKFold, Tree, read_store, write_store


def trees_of(model: Model) -> list[str]:
    return [tree.rules() for tree in model.trees]


def refused(lists: NBest, model: Model, reranker: BoostReranker, tree: Tree) -> None:
    """Never called."""
    lists.no_such_column  # type: ignore[attr-defined]  # noqa: B018
    model.decision_function(3)  # type: ignore[arg-type]
    reranker.fit("lists")  # type: ignore[arg-type]
    tree.rules(3)  # type: ignore[arg-type]
    read_store(3)  # type: ignore[arg-type]
    write_store("lists", "file")  # type: ignore[arg-type]


def main(store: str, folder: str) -> float:
    try:
        lists = read_store(store)
    except FormatError as error:
        raise SystemExit(f"{error.where}: {error.fix}") from error
    except InputError as error:
        raise SystemExit(str(error)) from error
    assert_type(lists, NBest)
    for train, held_out in SentenceKFold(2).split(lists):
        assert_type(lists.take(train), NBest)
        assert_type(held_out, NDArray[np.int64])
    reranker = BoostReranker(rounds=2, recipe="fast").fit(lists, select=lists)
    assert_type(reranker.score(lists), float)
    model: Model = reranker.model_
    model.save(f"{folder}/model.json")
    again = Model.load(f"{folder}/model.json")
    assert_type(again.trees, tuple[Tree, ...])
    assert_type(again.decision_function(lists), NDArray[np.float64])
    print(*trees_of(again), sep="\n")
    write_store(lists, f"{folder}/again.nbest")
    return reranker.score(lists)


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
