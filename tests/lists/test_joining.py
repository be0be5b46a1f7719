"""Other models' numbers beside a list."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostfeat import formats
from boostfeat.core.arrays import offsets
from boostfeat.core.errors import InputError
from boostfeat.formats.importing import read_tokens
from boostfeat.lists.build import Builder, HypRecord, ReadOptions, UnitRecord
from boostfeat.lists.joining import (
    TokenNumbers,
    join_column,
    join_list,
    join_tokens,
    match_texts,
    plain_tokens,
    with_features,
    with_unit_features,
)
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.tables import read_numbers, read_rows

REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[3] / "shared" / "real"))
PIECES = """0 ||| ▁the ▁ho use ||| WordScores= -1 -2 -3 -4 ||| F0= -10 ||| -2
0 ||| ▁a ▁house ||| WordScores= -1 -2 -3 ||| F0= -6 ||| -3
1 ||| ▁yes ||| WordScores= -1 -2 ||| F0= -3 ||| -1
"""


@pytest.fixture
def nbest(tmp_path: Path) -> NBest:
    (tmp_path / "list").write_text(PIECES)
    return formats.read(tmp_path / "list", ReadOptions())


def units(nbest: NBest, name: str) -> list[float]:
    """A column by occurrence."""
    return nbest.X[nbest.unit_idx, nbest.unit_names.index(name)].tolist()


def test_wrong_counts_and_texts(tmp_path: Path, nbest: NBest) -> None:
    (tmp_path / "file").write_text("1\n2\n")
    with pytest.raises(InputError, match=r"f: expected 3 numbers, one for each hypothesis .* found 2"):
        join_column(nbest, "new", read_numbers(f"{tmp_path}/file"), "f")
    (tmp_path / "file").write_text('[{"mt": "thehouse", "s": 1}, {"mt": "no", "s": 1}, {"mt": "yes", "s": 2}]')
    with pytest.raises(
        InputError, match=r"f: expected the texts of the list, found others in 1 of 3 rows \(row 2: 'no', hypothesis: 'a house'\)"
    ):
        join_column(nbest, "new", read_numbers(f"{tmp_path}/file"), "f")
    with pytest.raises(InputError, match="F0: expected a name that the list does not have"):
        with_features(nbest, {"F0": np.zeros(3)})


TOKENS = {  # name: lines, sums by unit (the, house, </s>, a, house, </s>, yes, </s>)
    "a number a unit": ("1 2 3\n4 5 6\n7 8\n", [1, 2, 3, 4, 5, 6, 7, 8]),
    "no ends": ("1 2\n4 5\n7\n", [1, 2, 0, 4, 5, 0, 7, 0]),
    "a number a piece": ("1 2 0.5 3\n4 5 6\n7 8\n", [1, 2.5, 3, 4, 5, 6, 7, 8]),
    "other pieces": (
        '{"tokens": ["▁th", "e", "▁", "house"], "logprobs": [1, 2, 3, 4, 5]}\n{"tokens": ["▁a▁ho", "use"], "logprobs": [1, 2, 3]}\n'
        '{"tokens": ["▁yes", "</s>"], "logprobs": [7, 8]}\n', [3, 7, 5, 1, 2, 3, 7, 8],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TOKENS)
def test_tokens(tmp_path: Path, nbest: NBest, case: str) -> None:
    text, sums = TOKENS[case]
    (tmp_path / "file").write_text(text)
    joined = join_tokens(nbest, "lm", read_tokens(f"{tmp_path}/file"), "f")
    assert units(joined, "lm") == sums
    if case == "a number a piece":  # the others have one, so that all four are the same
        for kind, house in {"min": 0.5, "first": 2, "mean": 1.25}.items():
            assert units(joined, f"lm.{kind}") == [1, house, *sums[2:]]
    assert joined.text.equals(nbest.text)
    for name in nbest.unit_names:
        assert units(joined, name) == units(nbest, name)


def test_ends_without_a_unit_are_features_of_the_hypothesis(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a b\nc\n")
    nbest = formats.read(tmp_path / "list", ReadOptions(n=2), format="lines")
    joined = join_tokens(nbest, "lm", TokenNumbers(offsets(np.array([3, 2])), np.array([1.0, 2, 4, 8, 16])), "f")
    assert units(joined, "lm") == [1, 2, 8]
    assert joined.extra[:, joined.extra_names.index("lm")].tolist() == [4, 16]
    assert joined.global_column("lm").tolist() == [7, 24]
    by_text = TokenNumbers(offsets(np.array([4, 1])), np.array([1.0, 2, 4, 8, 16]), strings(["a", "", "b", "</s>", "c"]))
    assert join_tokens(nbest, "lm", by_text, "f").global_column("lm").tolist() == [15, 16]


BAD_TOKENS = [
    ("1 2\n4 5\n", r"f: expected 3 lines, one for each hypothesis in the order of the list, found 2"),
    ("1 2 3\n4 5 6\n7 8 9 9\n", r"f:3: expected a number for each of 2 units, 1 word or 2 pieces, found 4"),
    ("1 2 x\n", r"file:1: expected a finite number, found 'x'"),
    ("1\n\n1 2 nan\n", r"file:3: expected a finite number, found 'nan'"),
    (
        '{"tokens": ["no"], "logprobs": [1]}\n' * 3,
        r"tokens that make the texts .*, found others in 3 of 3 rows \(row 1: 'no', hypothesis: 'the house'\)",
    ),
    ('{"tokens": ["no"], "logprobs": []}\n', r"file:1: expected a number for each of 1 token under one of logprobs, .*, found 0"),
    ('{"tokens": ["no"]}\n', r"file:1: expected a number for each of 1 token under one of logprobs, .*, found 0"),
]


@pytest.mark.parametrize(("text", "message"), BAD_TOKENS)
def test_bad_tokens(tmp_path: Path, nbest: NBest, text: str, message: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match=message):
        join_tokens(nbest, "lm", read_tokens(f"{tmp_path}/file"), "f")


def test_another_list_in_another_order_and_other_pieces(tmp_path: Path, nbest: NBest) -> None:
    other = """0 ||| ▁a ▁hou se ||| WordScores= -5 -6 -7 -8 ||| F0= -26 ||| -9
0 ||| ▁the house ||| WordScores= -1 -2 -3 ||| F0= -6 ||| -4
0 ||| ▁more ||| WordScores= -1 -3 ||| F0= -4 ||| -4
1 ||| ▁yes ||| WordScores= -1 -2 ||| F0= -3 ||| -1
"""
    (tmp_path / "other").write_text(other)
    joined = join_list(nbest, "r2l", formats.read(tmp_path / "other", ReadOptions()), "other")
    assert joined.global_column("r2l").tolist() == [-4, -9, -1]
    assert joined.global_column("r2l.F0").tolist() == [-6, -26, -3]
    assert units(joined, "r2l.WordScores") == [-3, 0, -3, -5, -13, -8, -1, -2]  # 'thehouse' is one word there: it begins in 'the'
    assert joined.global_column("r2l.WordScores").tolist() == [-6, -26, -3]


@pytest.mark.skipif(not (REAL / "marian").is_dir(), reason="needs the real lists: set BOOSTFEAT_REAL_DATA")
def test_real_rescored_list_beside_its_pieces() -> None:
    """The scorer's list has joined text and scores without words: its totals are joined."""
    pieces = formats.read(REAL / "marian" / "pymarian.pieces.txt", ReadOptions())
    rescored = formats.read(REAL / "marian" / "pymarian.rescored.txt", ReadOptions(warn=lambda message: None))
    joined = join_list(pieces, "new", rescored, "rescored")
    assert joined.global_column("new.R2L")[0] == -18.9048
    np.testing.assert_allclose(joined.global_column("new.R2L.WordScores"), rescored.global_column("R2L"), atol=1e-3)


@pytest.mark.slow
def test_half_a_million_hypotheses(tmp_path: Path) -> None:
    """Columns, tokens and another list beside 500,000 hypotheses; CPU time, the machine may be busy."""
    n, rng = 500_000, np.random.default_rng(0)
    words = [f"w{k}" for k in range(50)]
    text = "\n".join(" ".join(words[j] for j in row) for row in rng.integers(0, 50, (n, 8)).tolist())
    (tmp_path / "list").write_text(text + "\n")
    nbest = formats.read(tmp_path / "list", ReadOptions(n=100), format="lines")
    values = rng.normal(size=(n, 8)).round(4)
    np.savetxt(tmp_path / "tokens", values, fmt="%.4f")
    np.savetxt(tmp_path / "lm", values[:, 0], fmt="%.4f")
    begin = time.process_time()
    joined = join_column(nbest, "lm", read_numbers(f"{tmp_path}/lm"), "lm")
    joined = join_tokens(joined, "tokens", TokenNumbers(*read_rows(f"{tmp_path}/tokens")), "tokens")
    seconds = time.process_time() - begin
    np.testing.assert_allclose(joined.global_column("tokens"), values.sum(axis=1), atol=1e-9)
    begin = time.process_time()
    both = join_list(nbest, "other", with_features(nbest, {"lm": values[:, 0]}), "o")
    matched = time.process_time() - begin
    assert both.global_column("other.lm").tolist() == values[:, 0].tolist()
    print(json.dumps({"columns and tokens": seconds, "list": matched}))
    assert seconds < 10
    assert matched < 10


def test_texts_that_differ_in_blanks_alone_are_not_mixed_up() -> None:
    """As they stand, in any order; without blanks only where the other list has its words in other pieces."""

    def lists(texts: list[str]) -> NBest:
        builder = Builder()
        for k, text in enumerate(texts):
            builder.add(HypRecord(0, text, "here", 0.0, {"f": float(k)}))
        return builder.finish()

    ours = lists(["web page", "webpage", "a page"])
    assert match_texts(ours, ours, "x").tolist() == [0, 1, 2]
    assert match_texts(ours, lists(["webpage", "a page", "web page"]), "x").tolist() == [2, 0, 1]
    assert match_texts(lists(["a page", "web"]), lists(["we b", "apage"]), "x").tolist() == [1, 0]


# ---------------------------------------------------------------------------------------------------------------------
# Places of tokens, one after the other in plain Python
# ---------------------------------------------------------------------------------------------------------------------

Unit = tuple[str, int, int]  # its text, its words and its pieces; the end of a sentence has the text </s>
END, NO_WORD = ("</s>", 1, 1), ("</s>", 0, 0)  # the end of a list that says its length, 0, counts neither


def random_units(rng: np.random.Generator, ends: str) -> list[Unit]:
    """Units of up to three words, one in seven of none, each word of one to three characters; a sentence may have no unit."""
    found: list[Unit] = []
    for _ in range(rng.integers(0, 5)):
        words = ["".join(rng.choice(list("abü"), rng.integers(1, 4))) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))]
        found.append((" ".join(words), len(words), sum(rng.integers(1, 4) for _ in words)))
    if ends == "silent":
        return [*found, NO_WORD]
    return [*found, END] if ends == "all" or (ends == "some" and rng.random() < 0.5) else found


def listed(hyps: list[list[Unit]], *, pieces: bool) -> NBest:
    builder = Builder()
    for h, units in enumerate(hyps):
        at, records = 0, []
        for k, (text, words, n) in enumerate(units):
            features = {"f": float(k), **({"Pieces": float(n)} if pieces else {})}
            is_end = text == "</s>" and words == 1
            records.append(UnitRecord(features, tgt=None if is_end else (at, at + words), tgt_text=text))
            at += words
        text = " ".join(text for text, *_ in units if text and text != "</s>")
        builder.add(HypRecord(h // 2, text, "here", 0.0, {"own": float(h)}, records))
    return builder.finish()


def places_of_texts(units: list[Unit], tokens: list[str]) -> list[int]:
    """The unit of each token: the one with its first character (or the next one, if it has none); at the end, the end."""
    owner = [k for k, (text, *_) in enumerate(units) if text != "</s>" for c in text if c != " "]
    ends = [k for k, (text, *_) in enumerate(units) if text == "</s>"]
    at, found = 0, []
    for token in tokens:
        found.append(owner[at] if at < len(owner) else (ends or [-1])[0])
        at += 0 if token == "</s>" else len(token.replace(" ", ""))
    return found


def random_tokens(rng: np.random.Generator, units: list[Unit]) -> list[str]:
    """The characters of a sentence cut at random, some blanks and empty tokens among them, perhaps an end."""
    text = "".join(text for text, *_ in units if text != "</s>")
    found, at = [], 0
    while at < len(text):
        n = int(rng.integers(0, 4))
        found.append(text[at : at + n])
        at += n
    return found + [["</s>"], [""], []][rng.integers(0, 3)]


def check_sums(nbest: NBest, joined: NBest, places: list[list[int]], values: list[list[float]], *, pieces: bool) -> None:
    """All columns of a joined list, from the unit of every number."""
    own = [[[v for v, p in zip(row, at, strict=True) if p == k] for k in range(n)]
           for row, at, n in zip(values, places, np.diff(nbest.unit_ptr).tolist(), strict=True)]  # fmt: skip
    flat = [unit for hyp in own for unit in hyp]
    columns = {"lm": [sum(unit) for unit in flat]}
    if pieces or any(len(unit) > 1 for unit in flat):
        columns["lm.min"] = [min(unit, default=0.0) for unit in flat]
        columns["lm.first"] = [unit[0] if unit else 0.0 for unit in flat]
        columns["lm.mean"] = [sum(unit) / max(len(unit), 1) for unit in flat]
    assert joined.unit_names == (*nbest.unit_names, *columns)
    for name, column in columns.items():
        assert units(joined, name) == column
    for name in nbest.unit_names:
        assert units(joined, name) == units(nbest, name)
    assert joined.units.tgt.take(joined.unit_idx).equals(nbest.units.tgt.take(nbest.unit_idx))
    left = [sum(v for v, p in zip(row, at, strict=True) if p < 0) for row, at in zip(values, places, strict=True)]
    has_rest = any(p < 0 for at in places for p in at)
    assert joined.extra_names == (*nbest.extra_names, *(["lm"] if has_rest else []))
    assert joined.extra[:, 0].tolist() == nbest.extra[:, 0].tolist()
    if has_rest:
        assert joined.extra[:, 1].tolist() == left


@pytest.mark.parametrize("ends", ["all", "some", "none", "silent"])
@pytest.mark.parametrize("pieces", [True, False])
def test_places_by_characters(ends: str, pieces: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(15):
        hyps = [random_units(rng, ends) for _ in range(rng.integers(1, 7))]
        if not any(hyps):
            continue
        nbest = listed(hyps, pieces=pieces)
        tokens = [random_tokens(rng, hyp) for hyp in hyps]
        values = [(rng.integers(-20, 20, len(row)) / 4).tolist() for row in tokens]
        flat = TokenNumbers(
            offsets(np.array([len(row) for row in tokens])),
            np.array([v for row in values for v in row], np.float64),
            strings([token for row in tokens for token in row]),
        )
        joined = join_tokens(nbest, "lm", flat, "f")
        places = [places_of_texts(hyp, row) for hyp, row in zip(hyps, tokens, strict=True)]
        check_sums(nbest, joined, places, values, pieces=pieces)


def places_of_counts(hyps: list[list[Unit]], counts: list[int], *, pieces: bool) -> list[list[int]] | None:
    """By units, pieces or words: the first that fits, with ends on both sides, on the side of the numbers, or of the list."""
    for size in ("units", "pieces", "words"):
        if size == "pieces" and not pieces:
            continue
        full = [
            [k for k, (_, *n) in enumerate(h) for _ in range({"units": 1, "words": n[0], "pieces": n[1]}[size])] for h in hyps
        ]
        bare = [[k for k in row if h[k][0] != "</s>"] for row, h in zip(full, hyps, strict=True)]
        if [len(row) for row in full] == counts:
            return full
        if [len(row) + 1 for row in full] == counts and full == bare:  # no end has a number yet
            ends = [[k for k, u in enumerate(h) if u == NO_WORD] or [-1] for h in hyps]
            return [row + end for row, end in zip(full, ends, strict=True)]
        if [len(row) for row in bare] == counts:
            return bare
    return None


@pytest.mark.parametrize("ends", ["all", "some", "none", "silent"])
@pytest.mark.parametrize("pieces", [True, False])
def test_places_by_counts(ends: str, pieces: bool) -> None:
    rng, kinds = np.random.default_rng(6), set()
    for _ in range(40):
        hyps = [random_units(rng, ends) for _ in range(rng.integers(1, 7))]
        if not any(hyps):
            continue
        nbest = listed(hyps, pieces=pieces)
        size, more, bare = rng.integers(0, 3), rng.choice([0, 0, 1, 1, 2]), rng.integers(0, 2)
        counts = [more + sum([1, u[2], u[1]][size] for u in h if not (bare and u[0] == "</s>")) for h in hyps]
        values = [(rng.integers(-20, 20, n) / 4).tolist() for n in counts]
        flat = TokenNumbers(offsets(np.array(counts)), np.array([v for row in values for v in row], np.float64))
        places = places_of_counts(hyps, counts, pieces=pieces)
        kinds.add(places is None)
        if places is None:
            with pytest.raises(InputError, match=r"f:\d+: expected a number for each of"):
                join_tokens(nbest, "lm", flat, "f")
        else:
            check_sums(nbest, join_tokens(nbest, "lm", flat, "f"), places, values, pieces=pieces)
    assert kinds == {True, False}


def test_what_tokens_cannot_be_joined_to() -> None:
    ones = TokenNumbers(offsets(np.array([2, 1])), np.array([1.0, 2.0, 4.0]))
    bare = listed([[], []], pieces=False)
    with pytest.raises(
        InputError, match="lm: expected a list with units to put numbers of tokens on, found none; import it with u"
    ):
        join_tokens(bare, "lm", ones, "f")
    hyps = [[("a", 1, 2), ("b c", 2, 3)], [("d", 1, 1)]]
    for pieces, kinds in ((True, "2 units, 3 words or 5 pieces, found 2"), (False, "2 units, 3 words, found 2")):
        nbest = listed(hyps, pieces=pieces)
        for values in ([1.0, 1e150, 4.0], [1.0, -1e150, 4.0]):
            with pytest.raises(
                InputError, match=rf"f: expected log-probabilities, found {values[1]}; repair the file".replace("+", r"\+")
            ):
                join_tokens(nbest, "lm", replace(ones, values=np.array(values)), "f")
        assert units(join_tokens(nbest, "lm", replace(ones, values=np.array([1.0, -1e149, 4.0])), "f"), "lm") == [
            1.0,
            -1e149,
            4.0,
        ]
        # the first hypothesis of which there are not as many as units
        swapped = listed(hyps[::-1], pieces=pieces)
        with pytest.raises(
            InputError, match=rf"f:2: expected a number for each of {kinds[:-1]}7; give numbers of these tokens, or"
        ):
            join_tokens(swapped, "lm", TokenNumbers(offsets(np.array([1, 7])), np.ones(8)), "f")


def test_units_are_divided_and_numbered_by_first_use() -> None:
    """One unit thrice, whose numbers differ once: two units, in the order in which the list has them."""
    nbest = listed([[("a", 1, 1)], [("a", 1, 1)], [("b", 1, 1)], [("a", 1, 1)]], pieces=False)
    assert nbest.unit_idx.tolist() == [0, 0, 1, 0]
    joined = with_unit_features(nbest, {"g": np.array([5.0, -0.0, 3.0, 5.0]), "h": np.array([1.0, 1.0, 1.0, 1.0])})
    assert joined.unit_idx.tolist() == [0, 1, 2, 0]
    assert joined.unit_names == ("f", "g", "h")
    assert joined.X.tolist() == [[0.0, 5.0, 1.0], [0.0, 0.0, 1.0], [0.0, 3.0, 1.0]]
    assert not np.signbit(joined.X).any()
    assert joined.units.tgt.to_pylist() == ["a", "a", "b"]
    with pytest.raises(InputError, match="f: expected a name that the list does not have"):
        with_unit_features(nbest, {"f": np.zeros(4)})


def test_all_kinds_of_another_lists_unit_features() -> None:
    """A list joined to itself: each unit feature comes back, its minimum as a minimum and its mean as a mean."""
    hyps = [[("a", 1, 2), ("b c", 2, 3), END], [("d", 1, 1), END]]
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 3.0, 5.0])
    other = join_tokens(listed(hyps, pieces=True), "lm", TokenNumbers(offsets(np.array([6, 2])), values), "f")
    ours = replace(listed(hyps, pieces=False), text=strings(["a b c", "d"]))
    joined = join_list(ours, "x", other, "o")
    assert joined.unit_names == ("f", "x.f", "x.lm", "x.lm.min", "x.lm.first", "x.lm.mean")
    assert joined.extra_names == ("own", "x", "x.own")
    assert joined.extra.tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    expected = {
        "lm": [3, 28, 32, 3, 5],
        "lm.min": [1, 4, 32, 3, 5],
        "lm.first": [1, 4, 32, 3, 5],
        "lm.mean": [1.5, 28 / 3, 32, 3, 5],
    }
    for name, column in expected.items():
        assert units(other, name) == units(joined, f"x.{name}") == column
    # one unit for all words: the least of minima, the first of firsts, and the mean of means
    coarse = join_list(listed([[("a b c", 3, 5), END], [("d", 1, 1), END]], pieces=False), "x", other, "o")
    assert units(coarse, "x.lm") == [31, 32, 3, 5]
    assert units(coarse, "x.lm.min") == units(coarse, "x.lm.first") == [1, 32, 3, 5]
    assert units(coarse, "x.lm.mean") == [(1.5 + 28 / 3) / 2, 32, 3, 5]
    # without units of our own: totals
    bare = replace(listed([[], []], pieces=False), text=other.text)
    assert join_list(bare, "x", other, "o").extra_names == (
        *("own", "x", "x.own", "x.f", "x.lm", "x.lm.min", "x.lm.first", "x.lm.mean"),
    )
    assert join_list(bare, "x", other, "o").global_column("x.lm").tolist() == [63.0, 8.0]
    unscored = replace(other, score=np.full(2, np.nan))
    assert join_list(bare, "x", unscored, "o").extra_names[:2] == ("own", "x.own")
    with pytest.raises(InputError, match="o: expected dense features, found 2 sparse ones; leave them out"):
        join_list(bare, "x", replace(other, sparse_names=strings(["s", "t"])), "o")


def test_a_feature_that_units_and_hypotheses_have_keeps_its_total() -> None:
    """With units of our own, with ends that have none here, and without units."""
    hyps = [[("a", 1, 1), ("b", 1, 1), END], [("b", 1, 1), ("c", 1, 1), END]]  # f: 0, 1 and 2 in each
    other = replace(listed(hyps, pieces=False), extra_names=("g", "f"), extra=np.array([[1.0, 4.0], [2.0, 8.0]]))
    assert other.global_column("f").tolist() == [7.0, 11.0]
    for ours, unit_names, own in (
        (hyps, ("f", "x.f"), [4.0, 8.0]),
        ([hyp[:2] for hyp in hyps], ("f", "x.f"), [6.0, 10.0]),
        ([[], []], (), [7.0, 11.0]),
    ):
        joined = join_list(replace(listed(ours, pieces=False), text=other.text), "x", other, "o")
        assert (joined.unit_names, joined.extra_names) == (unit_names, ("own", "x", "x.g", "x.f"))
        assert joined.extra.T.tolist() == [[0.0, 1.0], [0.0, 0.0], [1.0, 2.0], own]
        assert joined.global_column("x.f").tolist() == [7.0, 11.0]


def test_matches_are_those_of_plain_python() -> None:
    """Texts of three sentences, some several times and some with other blanks, shuffled within and over sentences."""
    rng = np.random.default_rng(8)
    for _ in range(25):
        pool = ["a b", "ab", "c", "d e", "de", "f"]
        texts = [[pool[k] for k in rng.integers(0, 6, rng.integers(1, 7))] for _ in range(3)]
        theirs = [list(rng.permutation(row)) for row in texts]
        for row in theirs:  # more that nobody asks for
            row += ["more"] * int(rng.integers(0, 3))
        ours, other = (replace_texts(rows) for rows in (texts, theirs))
        expected, at = [], 0
        for row, found in zip(texts, theirs, strict=True):
            places = {text: [at + k for k, t in enumerate(found) if t == text] for text in row}
            expected += [places[text].pop(0) for text in row]
            at += len(found)
        assert match_texts(ours, other, "o").tolist() == expected
        assert match_texts(ours, ours, "o").tolist() == list(range(ours.n_hyps))


def replace_texts(rows: list[list[str]]) -> NBest:
    builder = Builder()
    for s, row in enumerate(rows):
        for text in row:
            builder.add(HypRecord(3 * s, text, "here"))
    return builder.finish()


def test_one_line_for_several_and_what_does_not_match() -> None:
    ours = replace_texts([["a b", "a b", "c"], ["c"]])
    assert match_texts(ours, replace_texts([["x", "c", "a b"], ["c"]]), "o").tolist() == [2, 2, 1, 3]
    with pytest.raises(
        InputError, match=r"o: expected the texts of 4 hypotheses, found 3, 1 unmatched \(first: sentence 3, 'c'\)"
    ):
        match_texts(ours, replace_texts([["c", "a b"], ["a b"]]), "o")
    with pytest.raises(InputError, match=r"found 1 doubled texts in other numbers \(3 times, in the list 2: 'a b'\); remove"):
        match_texts(ours, replace_texts([["c", "a b", "a b", "a b"], ["c"]]), "o")


def test_tokens_without_marks() -> None:
    """Of SentencePiece, of BPE and of none; blanks inside of a token stand for the mark of SentencePiece."""
    assert plain_tokens([["▁the", "▁ho", "use"], ["▁"]]) == [["the", "ho", "use"], [""]]
    assert plain_tokens([["the", "ho@@", "use"]]) == [["the", "ho", "use"]]
    assert plain_tokens([[" the", "\thouse\r\n"], []]) == [["the", "house"], []]
