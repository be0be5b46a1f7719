"""What an online run keeps between epochs, and what stands in its history: small arrays by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import copysign, sqrt

import numpy as np
import pytest

from boostfeat.core.errors import FormatError
from boostfeat.metrics.bleu import corpus_rows
from boostfeat.metrics.metric import metric_of
from boostfeat.search.loop.online import (
    Gradient,
    Seen,
    State,
    adagrad_epoch,
    seen_in,
)
from boostfeat.tuners.adaptive import Adagrad
from boostfeat.tuners.base import Groups


def columns_of(state: State) -> dict[str, object]:
    return {f.name: (a := getattr(state, f.name)).dtype.str + str(a.tolist()) for f in fields(state)}


def kept(tmp_path, **changes) -> dict[str, np.ndarray]:
    """The columns of a run of 2 dense features, 1 sparse one and 3 sentences, as save writes them."""
    state = State.new(np.arange(3.0), 3)
    state.keep_names(["pt:a|ä"])
    columns = {f.name: getattr(state, f.name) for f in fields(state)} | changes
    np.savez(tmp_path / "state.npz", **{name: column for name, column in columns.items() if column is not None})
    return columns


def test_a_state_is_read_as_it_was_saved(tmp_path):
    new = State.new(np.zeros(2), 3)
    for changes in ({}, {"unit": np.full(3, 0.5)}):
        given = kept(tmp_path, **changes)
        found = State.load(tmp_path / "state.npz", new)
        assert columns_of(found) == columns_of(State(**given))
        assert found.sparse_names() == ["pt:a|ä"]
        found.save(tmp_path / "again.npz")
        assert columns_of(State.load(tmp_path / "again.npz", new)) == columns_of(found)
    assert State.load(tmp_path / "state.npz", State.new(np.zeros(7), 3), 2).w.tolist() == [0, 1, 2]  # what is new has names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": np.frombuffer(b'["a", "a"]', np.uint8)}, "ValueError: a name twice"),
        ({"names": np.frombuffer(b'{"a": 1}', np.uint8)}, "ValidationError: Expected"),
        ({"names": np.frombuffer(b"[1]", np.uint8)}, "ValidationError: Expected"),
        ({"names": np.frombuffer(b"[", np.uint8)}, "DecodeError"),
        ({"names": np.frombuffer(b'["a"]', np.int8)}, "names of int8"),
        ({"w": np.zeros(4)}, r"w of float64 \(4,\)"),
        ({"w": np.zeros(0)}, r"w of float64 \(0,\)"),
        ({"last": np.zeros(3)}, r"last of float64 \(3,\)"),
        ({"last": np.zeros(4, np.int64)}, r"last of int64 \(4,\)"),
        ({"unit": np.zeros(2)}, r"unit of float64 \(2,\)"),
        ({"rows": np.zeros((3, 10))}, r"rows of float64 \(3, 10\)"),
        ({"rows": np.zeros((2, 6))}, r"rows of float64 \(2, 6\)"),
        ({"seen": np.zeros(2, np.int64)}, r"seen of int64 \(2,\)"),
        ({"t": np.zeros(1, np.int64)}, r"t of int64 \(1,\)"),
        ({"squares": None}, "KeyError"),
    ],
)
def test_damaged_states_are_refused(tmp_path, changes, message):
    kept(tmp_path, **changes)
    with pytest.raises(
        FormatError, match=f"expected the state of this run, found {message}.*; it is damaged: start again with --force"
    ):
        State.load(tmp_path / "state.npz", State.new(np.zeros(2), 3))


class Pickled:
    """Whoever unpickles it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_in_a_state_is_run(tmp_path):
    kept(tmp_path, w=np.array([Pickled(tmp_path / "made")], object))
    with pytest.raises(FormatError, match="expected the state of this run, found ValueError: Object arrays cannot be loaded"):
        State.load(tmp_path / "state.npz", State.new(np.zeros(2), 3))
    assert not (tmp_path / "made").exists()


def test_curves_of_what_was_seen():
    """Sums of both parts, and the spread of lists that have one: of none it is 0."""
    metric = metric_of("bleu")
    seen = Seen.nothing(metric.width)
    assert seen.row(metric) == {"dev": 0.0, "oracle": 0.0, "prediction": 0.0, "spread_mean": 0.0, "spread_sd": 0.0}
    stats = np.array([[4, 3, 2, 1, 5, 5], [2, 1, 0, 0, 4, 4]])
    rows = corpus_rows(stats).astype(np.float64)
    seen.add(np.array([rows[0], rows[0], rows[1]]), [1.0, np.nan])
    seen.add(np.array([rows[1], rows[0], rows[1]]), [4.0])
    found = seen.row(metric)
    expected = (rows[0] + rows[1], 2 * rows[0], 2 * rows[1])
    assert [found[name] for name in ("dev", "oracle", "prediction")] == [100 * float(metric.score(sums)) for sums in expected]
    assert (found["spread_mean"], found["spread_sd"], seen.spread) == (2.5, 1.5, [1.0, 4.0])


def test_lists_without_hypotheses_are_not_seen(dev):
    """The second of three is empty, the last has one hypothesis."""
    a, b = int(dev.hyp_ptr[1]), int(dev.hyp_ptr[2])
    some = dev[:3].take_hyps(np.append(np.arange(a), b), np.array([0, a, a, a + 1]))
    metric, scores = metric_of("bleu"), np.arange(a + 1.0)
    seen = seen_in(some, scores, -scores, metric)
    assert seen.spread == [0.0]  # the oracle is the lowest of the first list
    best, lowest = np.array([a - 1, -1, a]), np.array([0, -1, a])
    for sums, at in zip(seen.sums, (best, lowest, best), strict=True):
        assert (sums == sum(metric.rows(some, np.where(np.arange(3) == s, at, -1))[s] for s in (0, 2))).all()


# -- an epoch of AdaGrad -------------------------------------------------------------------------------------------------

DENSE = ("a", "b", "c")
GROUPS = Groups((("b", {"freeze": True}), ("x:1", {"l1": 3.0}), ("x:4", {"c": 0.5})))


@dataclass
class Names:
    """The features of fresh lists, without a decoder."""

    dense: tuple[str, ...] = DENSE
    ids: dict[str, int] = field(default_factory=lambda: {"x:9": 0})
    templates: object = None

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.dense, *self.ids)


def gradient_of(batch: int, weights: dict[str, float]) -> dict[str, float]:
    """Of some features, among them new ones in another order in each batch."""
    names = ["a", "b", *(["c"] if batch % 2 else []), *(f"x:{(5 * batch + 2 * k) % 7}" for k in range(4)), "x:9"]
    return {name: 0.07 + 0.3 * ((3 * ord(name[-1]) + batch) % 5 - 2) + 0.1 * weights.get(name, 0.0) for name in names}


@dataclass
class Worker:
    asked: list[tuple[object, ...]]

    def __call__(self, w, unit, sentences, seed, names):
        columns = [*DENSE, *names]
        assert len(w) == len(unit) == len(columns)
        assert unit.tolist() == [0.5, 2.0, 4.0, *[1.0] * len(names)]
        self.asked.append((sentences.tolist(), seed, names))
        found = gradient_of(seed[2], dict(zip(columns, w.tolist(), strict=True)))
        new = tuple(name for name in found if name not in columns)
        view = [*columns, *new]
        active = sorted(view.index(name) for name in found)
        values = np.array([found[view[k]] for k in active])
        seen = Seen(np.full((3, 11), 1.0 + seed[2]), [float(seed[2])])
        return Gradient(np.array(active), values, 0.5 + seed[2], 1 + seed[2], seen, new)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_epochs_of_adagrad_are_the_naive_ones(n):
    """By names in place of columns: the gradient of batch t at the weights of step t - n, all weights shrunk after every step.
    Seven sentences are four batches, of which the last has one; six workers are more than there are batches.
    """
    tuner, fresh = Adagrad(batch=2, eta=0.1, dense_eta=0.3, l1=0.02, workers=n), Names()
    state = State.new(np.array([1.0, -2.0, 0.5, 0.25]), 7)
    state.unit = np.array([0.5, 2.0, 4.0, 1.0])
    unit = dict(zip(fresh.names, state.unit.tolist(), strict=True))
    w = {name: v * unit[name] for name, v in zip(fresh.names, state.w.tolist(), strict=True)}
    squares = dict.fromkeys(w, 0.0)
    for epoch in (1, 2):
        asked, ticks = list[tuple[object, ...]](), list[tuple[int, int]]()
        order = np.random.default_rng([5, epoch]).permutation(7).tolist()
        batches, expected, at, known = [order[:2], order[2:4], order[4:6], order[6:]], [], {}, {}

        def apply(t, at=at, known=known):
            gradient = gradient_of(t, at[t])
            for name in (name for name in gradient if name not in known[t]):
                w.setdefault(name, 0.0), squares.setdefault(name, 0.0), unit.setdefault(name, 1.0)
            for name, g in gradient.items():
                squares[name] += g * g
                w[name] -= rate(name) * g / sqrt(squares[name])
            for name in w:
                if squares[name]:
                    less = rate(name) * 0.02 * (3.0 if name == "x:1" else 1.0) / sqrt(squares[name])
                    w[name] = copysign(max(0.0, abs(w[name]) - less), w[name])

        def rate(name):
            return {"b": 0.0, "x:4": 0.05}.get(name, 0.3 if name in DENSE else 0.1)

        for t, sentences in enumerate(batches):
            if t >= n:
                apply(t - n)
            at[t], known[t] = {name: w[name] / unit[name] for name in w}, set(w)
            expected.append((sentences, (5, epoch, t), tuple(name for name in w if name not in DENSE)))
        for t in range(max(0, 4 - n), 4):
            apply(t)
        how = {"epoch": epoch, "seed": 5, "tick": lambda *tick, ticks=ticks: ticks.append(tick), "groups": GROUPS}
        row = adagrad_epoch(tuner, fresh, Worker(asked), state, **how)
        assert sorted(asked, key=lambda call: call[1]) == expected
        assert ticks == [(t, 4) for t in range(4)]
        assert fresh.names == tuple(w)
        assert state.w.tolist() == pytest.approx([w[name] / unit[name] for name in w], abs=1e-12)
        assert state.squares.tolist() == pytest.approx([*squares.values()], abs=1e-12)
        assert (int(state.t), state.unit.tolist()) == (4 * epoch, [*unit.values()])
        assert (row["loss"], row["pairs"], row["spread_mean"], row["spread_sd"]) == (0.8, 10, 1.5, sqrt(1.25))
        assert len(state.total) == len(state.last) == len(w)
