"""Kernels and their twins give the same bits; short lists are imported, scored and reranked without numba."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostfeat
from boostfeat.core import arrays
from boostfeat.core.kernels import KERNELS, SMALL, Kernel, Twins, is_compiled, kernel
from boostfeat.features import parts, references
from boostfeat.features.carried import FeatureMaker, carrying
from boostfeat.lists.store import read_store
from boostfeat.metrics import bleu
from boostfeat.model.model import Model
from boostfeat.trees import tree
from boostfeat.trees.tree import Tree

RNG = np.random.default_rng(0)
DATA = Path(__file__).parents[2] / "data"


def segments(n: int, total: int, first: int = 0) -> np.ndarray:
    """Offsets of n segments, some of them empty."""
    return np.concatenate([[first], first + np.sort(RNG.integers(0, total + 1, n - 1)), [first + total]]).astype(np.int64)


def texts(lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [line.encode() for line in lines]
    return np.cumsum([0, *map(len, data)]), np.frombuffer(b"".join(data), np.uint8)


def sentences(n: int) -> list[str]:
    """Lines of few words, so that n-grams repeat; white space of all kinds, and empty lines."""
    words = ["a", "b", "the", "é", "語"]
    return ["", " ", "a\u2003b\u00a0b\x1ca", *(" ".join(RNG.choice(words, RNG.integers(0, 12))) for _ in range(n - 3))]


def rows(n: int, columns: int) -> np.ndarray:
    return RNG.integers(0, 2, (n, columns)).astype(np.uint64)


VALUES = RNG.normal(size=50) * 10.0 ** RNG.integers(-8, 8, 50)  # sums depend on their order
IDX = RNG.integers(0, 50, 300).astype(np.uint32)
NODES = np.array([0, 1, 0, 0, 0]), np.array([0.0, 0.5, 0, 0, 0]), np.array([1, 3, -1, -1, -1], np.int32), np.array([2, 4, -1, -1, -1], np.int32)  # fmt: skip
DEEP = np.zeros(41, np.int64), np.linspace(2, -2, 41), *(np.array([k + side if k % 2 == 0 and k < 40 else -1 for k in range(41)], np.int32) for side in (2, 1))  # fmt: skip
COLUMNS = np.vstack([RNG.normal(size=(1, 40)), np.where(RNG.random(40) < 0.1, np.nan, RNG.normal(size=40))[None]])
LEAVES = RNG.integers(2, 5, 40).astype(np.int32)
# source words of five sentences (-1: unknown, the second has none), and t(e|f) of six f with rising e
SRC_PTR, ROW_PTR = np.array([0, 4, 4, 9, 10, 12]), np.array([0, 12, 14, 14, 20, 26, 30])
E = np.concatenate([np.sort(RNG.permutation(20)[:n]) for n in np.diff(ROW_PTR)])
TABLE = (SRC_PTR, RNG.integers(-1, 6, 12), ROW_PTR, E, RNG.random(30))
HYP_PTR, REF_PTR = np.array([0, 7, 7, 30]), np.array([0, 2, 3, 6])

# arguments by kernel; those that it writes to are filled with what tells them apart from results
CASES: list[tuple[Kernel, tuple[Any, ...]]] = [
    (arrays._segment_sum, (segments(30, 300), IDX, VALUES, RNG.normal(size=30))),
    (arrays._segment_sum, (segments(30, 200, first=50), IDX, VALUES, np.zeros(30))),
    (arrays._segment_sum, (np.zeros(1, np.int64), IDX, VALUES, np.zeros(0))),
    (arrays._segment_rows, (segments(30, 300), IDX, RNG.normal(size=(50, 3)) * 1e9, RNG.normal(size=(30, 5)))),
    (arrays._segment_rows, (segments(30, 200, first=50), IDX, RNG.normal(size=(50, 3)), np.zeros((30, 3)))),
    (arrays._count, (IDX, np.zeros(50))),
    (arrays._segment_argmax, (segments(9, 50), np.round(VALUES, 1), np.full(9, 7))),
    (arrays._segment_argmax, (np.array([0, 3, 6]), np.array([np.nan, 1, 2, 1, np.nan, 3]), np.full(2, 7))),
    (arrays._unique_rows, (rows(60, 3), rows(60, 2), np.full(60, -1), np.full(60, -1))),
    (arrays._unique_rows, (rows(60, 0), rows(60, 1), np.full(60, -1), np.full(60, -1))),
    (arrays._unique_rows, (rows(4, 0), rows(4, 0), np.full(4, -1), np.full(4, -1))),
    (arrays._number_by_first_use, (IDX[:40].astype(np.int32), np.full(50, -1, np.int32), np.full(50, -1))),
    (bleu._fill_stats, (HYP_PTR, *texts(sentences(30)), REF_PTR, *texts(sentences(6)), 0, 3, np.full((30, 6), 9, np.int32))),
    (bleu._fill_stats, (HYP_PTR, *texts(sentences(30)), REF_PTR, *texts(sentences(6)), 1, 2, np.full((30, 6), 9, np.int32))),
    (
        parts._put_rows,
        (
            segments(20, 50),
            IDX[:50].view(np.int32),
            VALUES,
            np.array([3, 3, 0, 19]),
            7,
            np.array([0, 60, 120, 180]),
            np.full(240, -1, np.int32),
            np.zeros(240),
        ),
    ),
    (
        references._words_explained,
        (segments(30, 80), RNG.integers(-1, 20, 80), RNG.integers(0, 5, 30), *TABLE, 1e-7, VALUES[:30].copy()),
    ),
    (references._words_explained, (np.array([0, 0, 2]), np.array([-1, 3]), np.array([1, 0]), *TABLE, 1e-7, np.zeros(2))),
    (tree._descend, (COLUMNS, *NODES, np.full(40, 9, np.int32))),
    (tree._descend, (COLUMNS, *DEEP, np.full(40, 9, np.int32))),  # row by row
    (tree._descend, (COLUMNS, *(column[2:3] for column in NODES), np.full(40, 9, np.int32))),
    (tree._constant_outputs, (LEAVES, VALUES[:5], np.full(40, 9.0))),
    (tree._slope_outputs, (LEAVES, VALUES[:5], VALUES[5:10], VALUES[:40], np.full(40, 9.0))),
]


@pytest.mark.parametrize(("compiled", "arguments"), CASES, ids=lambda value: value.__name__ if isinstance(value, Kernel) else "")
def test_a_twin_gives_the_same_bits(compiled: Kernel, arguments: tuple[Any, ...]) -> None:
    """So does the kernel as Python: numbers wrap around and divide alike."""
    mine, theirs, third = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(3))
    assert compiled.twin is not None
    assert compiled.twin(*mine) == compiled.compiled()(*theirs) == compiled.interpreted()(*third)
    for a, b, c in zip(mine, theirs, third, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes() == np.asarray(c).tobytes()


def test_too_many_reference_words_are_found_by_both() -> None:
    many = texts([" ".join(map(str, range(bleu.MAX_REF_TYPES + 1)))])
    arguments = (np.array([0, 1]), *texts(["a"]), np.array([0, 1]), *many, 0, 1, np.zeros((1, 6), np.int32))
    assert bleu._fill_stats.twin(*arguments) == bleu._fill_stats.compiled()(*arguments) == 0


def test_every_twin_has_a_case() -> None:
    for module in pkgutil.walk_packages(boostfeat.__path__, "boostfeat."):
        if module.name != "boostfeat.__main__":
            importlib.import_module(module.name)
    assert {k.__name__ for k in KERNELS if k.twin and k.__module__.startswith("boostfeat")} == {k.__name__ for k, _ in CASES}


# ---------------------------------------------------------------------------------------------------------------------
# When twins work
# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins work as at the start of a command."""
    monkeypatch.setattr(Twins, "numba_is_loaded", False)
    monkeypatch.setattr(Twins, "seconds", 1.0)


def _doubled_twin(x: np.ndarray) -> str:
    return "twin"


@kernel(twin=_doubled_twin)
def _doubled(x):  # type: ignore[no-untyped-def]
    return _once(x) * 2.0


@kernel(inline="always")
def _once(x):  # type: ignore[no-untyped-def]
    return x[0]


def fresh() -> Kernel:
    """The kernel as if it had not been called before."""
    return Kernel(_doubled.py_func, _doubled.twin, {})


@pytest.mark.usefixtures("plain")
def test_small_work_is_for_twins() -> None:
    x = np.array([3.0])
    assert fresh()(x) == "twin"
    assert fresh()(np.full(SMALL, 3.0)) == "twin"
    assert fresh()(np.full(SMALL + 1, 3.0)) == 6.0  # too large
    assert is_compiled(x)  # and from now on numba is loaded
    assert fresh()(x) == 6.0


@pytest.mark.usefixtures("plain")
def test_the_patience_with_twins_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    function = fresh()
    assert function(np.ones(1)) == "twin"
    assert 0.5 < Twins.seconds < 1.0  # what the call took is gone
    monkeypatch.setattr(Twins, "seconds", 0.0)
    assert function(np.ones(1)) == 2.0


def test_compiled_kernels_run_without_the_lock_of_the_interpreter() -> None:
    assert arrays._count.compiled().targetoptions["nogil"] is True


def test_kernels_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(arrays._count)) is arrays._count


LOADED = """
import sys, numpy as np
from boostfeat.core.arrays import _unique_rows
rows, first, inverse = np.array([[3], [4], [3]], np.uint64), np.zeros(3, np.int64), np.zeros(3, np.int64)
found = _unique_rows.compiled()(rows, rows, first, inverse), first[:2].tolist(), inverse.tolist()
print(found, _unique_rows.compiled().stats.cache_misses.total(), *sorted({"scipy.linalg", "numba.np.arraymath"} & {*sys.modules}))
"""


def test_machine_code_is_loaded_without_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process compiles a kernel that makes an array of its own, the second one finds it and gives the same."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first, second = (subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True) for _ in range(2))
    assert first.stdout == "(2, [0, 1], [0, 1, 0]) 1 numba.np.arraymath scipy.linalg\n"
    assert second.stdout == "(2, [0, 1], [0, 1, 0]) 0\n"


def test_without_jit_a_kernel_is_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    def function(x: float) -> float:
        return x

    assert kernel(function) is function


# ---------------------------------------------------------------------------------------------------------------------
# Commands on short lists
# ---------------------------------------------------------------------------------------------------------------------

IMPORTED = "import sys; sys.argv[0] = 'boostfeat'; from boostfeat.cli import run; code = run(); print('modules', *sorted(sys.modules), file=sys.stderr); sys.exit(code)"  # fmt: skip
HEAVY = {"numba", "scipy", "sklearn", "sacrebleu", "lightgbm", "pandas", "pydantic", "rich", "dask"}


@pytest.fixture(scope="module")
def short_list(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The first ten sentences of a list of data/."""
    folder = tmp_path_factory.mktemp("short")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        from boostfeat.core.files import read_lines

        head = [line for _, line in read_lines(DATA / "dev.nbest.xz") if int(line.split(" ", 1)[0]) < 10]
        Path("list").write_text("".join(f"{line}\n" for line in head))
        for name in ("src", "ref"):
            Path(name).write_text("".join((DATA / f"dev.{name}").read_text().splitlines(keepends=True)[:10]))
        yield folder


def imported(folder: Path, *words: str) -> set[str]:
    """The packages that a command imports."""
    done = subprocess.run([sys.executable, "-c", IMPORTED, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.rpartition("modules")[2].split()}


def test_commands_on_short_lists_import_nothing_heavy(short_list: Path) -> None:
    assert not HEAVY & imported(short_list, "import", "list", "-s", "src", "-r", "ref", "-o", "list.nbest")
    for command in ("score", "rerank", "info"):
        assert not HEAVY & imported(short_list, command, "list.nbest")


def test_a_model_that_carries_its_features_imports_nothing_heavy_either(
    short_list: Path, boostfeat: Callable[..., tuple[int, str, str]]
) -> None:
    """Sparse and dense templates, trees, and minimum Bayes risk: what ``induce`` makes of raw lists of phrases."""
    assert (
        boostfeat(
            "import", short_list / "list", "-s", short_list / "src", "-r", short_list / "ref", "-o", short_list / "m.nbest"
        )[0]
        == 0
    )
    nbest, maker = read_store(short_list / "m.nbest"), FeatureMaker()
    made, plan = maker.learn(nbest, maker.plan("phrases"))
    weights = dict(zip(made.feature_names, np.random.default_rng(0).normal(size=len(made.feature_names)).tolist(), strict=True))
    on = made.unit_names[0]
    stump = Tree("tree.000", 0.5, "constant", None, (on, "", ""), np.zeros(3), np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([0, 1.0, -1]))  # fmt: skip
    model = carrying(Model(weights, (stump,), config={"decision": {"by": "mbr", "scale": 1.0}}), plan)
    model.save(short_list / "model.json")
    for command in ("score", "rerank"):
        assert not HEAVY & imported(short_list, command, "m.nbest", "-m", "model.json")
    code, out, _ = boostfeat("rerank", short_list / "m.nbest", "-m", short_list / "model.json", "--format", "moses")  # by kernels
    done = subprocess.run(
        [sys.executable, "-m", "boostfeat", "rerank", "m.nbest", "-m", "model.json", "--format", "moses"],
        cwd=short_list,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (code, out) == (0, done.stdout)  # scores to the last bit


def test_a_store_has_the_same_bytes_with_and_without_numba(
    short_list: Path, boostfeat: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(short_list)
    for is_loaded in (True, False):
        monkeypatch.setattr(Twins, "numba_is_loaded", is_loaded)
        name = f"{is_loaded}.nbest"
        assert boostfeat("import", "list", "-s", "src", "-r", "ref", "-o", name)[0] == 0
    assert Path("True.nbest").read_bytes() == Path("False.nbest").read_bytes()
