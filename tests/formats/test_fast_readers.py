"""Compiled readers of lists against the plain ones, blocks and threads, several files, reading no more than is wanted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import formats
from boostfeat.core.errors import FormatError
from boostfeat.formats import columns, fairseq, marian, marian_fast, openai
from boostfeat.formats.byte_kernels import find_marks, hash_bytes, put_bytes, same_bytes
from boostfeat.formats.importing import Corpus, import_corpus
from boostfeat.formats.moses import enriched, nbest
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store

WRITTEN = ("moses", "moses-enriched", "jsonl")  # by us
FORMATS = (*WRITTEN, "marian", "marian without scores of tokens")
COMPRESS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few sentences."""
    monkeypatch.setattr(columns, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(marian_fast, "BLOCK_BYTES", 4000)


def some_lists() -> NBest:
    nb = synthetic_nbest(SyntheticOptions(sentences=12, hyps=8, features=3), seed=5)
    return replace(nb, meta={})


def text_of(nb: NBest, format: str) -> bytes:
    if format.startswith("marian"):
        return marian_text(nb, with_scores=format == "marian")
    out = io.BytesIO()
    formats.write(nb, out, format=format)
    return out.getvalue()


def marian_text(nb: NBest, *, with_scores: bool) -> bytes:
    """The texts as Marian prints them, with numbers that begin like those of ``CHANGES``."""
    rng, lines = np.random.default_rng(1), []
    for s, text, score in zip(nb.sent_of_hyp, nb.text.to_pylist(), nb.score, strict=True):
        own = " ".join(f"{v:.5f}" for v in -rng.exponential(1.0, len(text.split()) + 1))
        tokens = f"WordScores= {own} ||| " if with_scores else ""
        lines.append(f"{nb.ids[s]} ||| {text} ||| {tokens}F0= {-1 - rng.random():.6g} LM= {rng.random():.6g} ||| {score:g}\n")
    return "".join(lines).encode()


def read(path: Path, format: str, **options: object) -> NBest:
    return formats.read(path, ReadOptions(**options), format=format.split()[0])


def read_plainly(path: Path, format: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> NBest:
    with monkeypatch.context() as patch:
        for reader in (enriched.FastReader, nbest.FastReader):
            patch.setattr(reader, "for_list", lambda *_: None)
        patch.setattr(marian, "_fast_for", lambda *_: None)
        return read(path, format, **options)


# ---------------------------------------------------------------------------------------------------------------------
# Kernels over bytes
# ---------------------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([10, 124, 32, 65, 0, 200, 11, 125, 123, 2]), max_size=60))
def test_marks_are_found(raw):
    """Against numpy. Neighbours of the marks (11, 123, 125) and bytes from 80 on are what tricks with words go wrong on."""
    buf = np.array(raw, np.uint8)
    ends, bars = np.empty(len(buf), np.int64), np.empty(len(buf), np.int64)
    n_ends, n_bars, nul, is_ascii = find_marks(buf, buf[: len(buf) // 8 * 8].view(np.uint64), ends, bars)
    assert ends[:n_ends].tolist() == np.flatnonzero(buf == 10).tolist()
    assert bars[:n_bars].tolist() == np.flatnonzero(buf == 124).tolist()
    assert (nul, bool(is_ascii)) == (next(iter(np.flatnonzero(buf == 0)), -1), bool((buf < 128).all()))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=30), st.binary(max_size=30), st.integers(0, 5))
def test_bytes_are_compared_hashed_and_copied(a, b, shift):
    one, two = (np.frombuffer(bytes(shift) + raw + b"tail", np.uint8) for raw in (a, b))
    hashes = [hash_bytes(own, shift, shift + len(raw), np.uint64(1), np.uint64(2)) for own, raw in ((one, a), (two, b))]
    assert (hashes[0] == hashes[1]) == (a == b)
    if len(a) == len(b):
        assert same_bytes(one, shift, two, shift, len(a)) == (a == b)
    out = np.zeros(40, np.uint8)
    assert put_bytes(one, shift, shift + len(a), out, 3) == 3 + len(a)
    assert out.tobytes()[3 : 3 + len(a)] == a


# ---------------------------------------------------------------------------------------------------------------------
# The same as plain readers
# ---------------------------------------------------------------------------------------------------------------------

CHANGES = {
    "as written": lambda text: text,
    "ends of lines of Windows": lambda text: text.replace(b"\n", b"\r\n"),
    "blank lines": lambda text: text.replace(b"\n", b"\n\n"),
    "other alphabets": lambda text: text.replace(b"a", "\u00e4".encode()).replace("\u00e4".encode(), b"a", 1),
    "no end of the last line": lambda text: text.removesuffix(b"\n"),
    "a number that is left to Python": lambda text: text.replace(b"-1.", b"-0001.", 1),
    "a mark of four bars": lambda text: text.replace(b"|||", b"||||", 1),
    "no UTF-8": lambda text: text[: len(text) // 2] + b"\xff" + text[len(text) // 2 :],
    "NUL": lambda text: text[: len(text) // 2] + b"\0" + text[len(text) // 2 :],
    "a line that is cut": lambda text: text[: len(text) // 2],
}


@pytest.mark.parametrize(("first", "n"), [(10, 1), (10, 2), (13, 1), (13, 2), (1, 1)])
def test_what_is_dense_depends_on_the_whole_list(tmp_path, monkeypatch, first, n):
    """The kernel stops where a line has other features than the first one; what is left must not decide by itself."""
    path = tmp_path / "list"
    lines = [f"0 ||| w{h} ||| A= {h}" + " B= 1" * (first <= h < first + n) for h in range(15)]
    path.write_text("".join(f"{line} ||| -1\n" for line in lines))
    assert read(path, "moses").differences(read_plainly(path, "moses", monkeypatch)) == []


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_the_plain_reader_makes_of_it(tmp_path, monkeypatch, change, format, size):
    """The same lists, or the same error."""
    path = tmp_path / "list"
    path.write_bytes(CHANGES[change](text_of(some_lists(), format)))
    try:
        expected = read_plainly(path, format, monkeypatch, size=size)
    except FormatError as error:
        for threads in (1, 3):
            with pytest.raises(FormatError) as found:
                read(path, format, size=size, threads=threads)
            assert str(found.value) == str(error)
        return
    for threads in (1, 3):
        found = read(path, format, size=size, threads=threads)
        assert found.differences(expected) == []
        assert change != "as written" or found.n_hyps == 12 * (size or 8)


@pytest.mark.parametrize("format", FORMATS)
def test_minus_zero_is_zero_for_both(tmp_path, monkeypatch, format):
    """Scores of hypotheses and of units: equal numbers are equal bytes of a store, whoever read them."""
    nb, path = some_lists(), tmp_path / "list"
    units = replace(nb.units, score=np.full(nb.n_units, -0.0))
    path.write_bytes(text_of(replace(nb, score=np.full(nb.n_hyps, -0.0), units=units), format))
    assert b"-0" in path.read_bytes()
    for found in (read_plainly(path, format, monkeypatch), read(path, format)):
        assert (found.score == 0).all()
        assert not np.signbit(found.score).any()
        assert not np.signbit(found.units.score[~np.isnan(found.units.score)]).any()


@pytest.mark.parametrize("format", FORMATS)
def test_threads_give_the_same_bytes(tmp_path, format):
    path = tmp_path / "list"
    path.write_bytes(text_of(some_lists(), format))
    for threads in (1, 2, 5):
        write_store(read(path, format, threads=threads), tmp_path / f"{threads}.nbest")
    stores = {(tmp_path / f"{threads}.nbest").read_bytes() for threads in (1, 2, 5)}
    assert len(stores) == 1


PLAIN = "{} ||| a b ||| lm= -1 tm= 2 3 ||| -4 ||| 0=0 1-2=1 ||| 0-0 2-1\n"


@pytest.mark.parametrize(
    "line",
    [
        PLAIN,
        PLAIN.replace("1-2=1", "1-2=2"),  # beyond the text
        PLAIN.replace("2-1", "0-1"),  # a point outside of its segment
        PLAIN.replace("0=0 1-2=1", "0=0 1=0 2=1"),  # a phrase without words
        PLAIN.replace(" ||| 0-0 2-1", ""),
        PLAIN.replace(" ||| 0=0 1-2=1 ||| 0-0 2-1", " ||| 0-0 2-1"),
        PLAIN.replace("0=0 1-2=1", ""),
        PLAIN.replace(" ||| -4 ||| 0=0 1-2=1 ||| 0-0 2-1", ""),
        PLAIN.replace("-4", ""),
        PLAIN.replace("-4", "-4 5"),
        PLAIN.replace("a b", "a\tb  "),
        PLAIN.replace("a b", "a |0-0| b |1-2|").replace(" ||| 0=0 1-2=1 ||| 0-0 2-1", ""),
        PLAIN.replace("tm= 2 3", "tm= 2 3 sparse_x= 1"),
        PLAIN.replace("2-1", "2-1 2-1").replace("0-0", "0-0\t"),
    ],
)
def test_plain_lines(tmp_path, monkeypatch, line):
    """A line in the middle of a list of regular ones, and before them."""
    regular = "".join(PLAIN.format(k // 4) for k in range(200))
    for text in (regular + line.format(50) + PLAIN.format(51), line.format(0) + regular):
        (tmp_path / "list").write_text(text)
        try:
            expected: object = read_plainly(tmp_path / "list", "moses", monkeypatch, source=["x y z"] * 60)
        except FormatError as error:
            expected = str(error)
        try:
            found: object = formats.read(tmp_path / "list", ReadOptions(source=["x y z"] * 60), format="moses")
        except FormatError as error:
            found = str(error)
        assert found == expected


MARIAN = "{} ||| ▁a b ▁c ||| WordScores= -0.5 -1 -2.25 -0.125 ||| F0= -3.875 ||| -1.25\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("▁a b ▁c", "▁a b ▁c"),
        ("▁a b ▁c", "  ▁a\tb  ▁c\t"),
        (" -0.5 -1", "  -0.5   -1"),
        (" -0.5 -1", " -0.5\t-1"),
        (" -0.5 -1", " -0.5 x"),
        (" -0.5 -1", " -0.5 1e999"),
        (" -0.5 -1", " -0.5"),  # a score too few: of the end, none; of a word, an error
        (" -0.5 -1 -2.25 -0.125", " -0.5 -1 -2.25"),
        (" -0.5 -1 -2.25 -0.125", ""),
        ("WordScores= -0.5", "WordScores=-0.5"),
        ("WordScores= -0.5", "Words= 1 WordScores= -0.5"),
        ("WordScores= -0.5 -1 -2.25 -0.125 ||| ", ""),
        ("||| WordScores", "||| 0-0 1-1 ||| WordScores"),
        ("F0= -3.875", "F0= -3.875 F1= 2"),
        ("F0= -3.875", "F0= -3.875 -1"),
        ("F0= -3.875", "F0=-3.875"),
        ("F0= -3.875", "DecoderScore= -3.875"),
        ("F0= -3.875", "F0= -3.875 Other= 1"),  # the scores of tokens are that model's
        ("-1.25\n", "\n"),
        ("-1.25\n", "-1.25 2\n"),
        ("-1.25\n", "-1.25 |||\n"),
        (" ||| ▁a", "||||▁a"),
        ("{}", "x"),
        ("{}", "{}\t"),
        ("{}", "3"),
    ],
)
def test_lines_of_marian(tmp_path, monkeypatch, old, new):
    """A line in the middle of a list of regular ones, and before them: the same lists, warnings and errors."""
    assert old in MARIAN
    regular, line = "".join(MARIAN.format(k // 4) for k in range(200)), MARIAN.replace(old, new)

    def attempt(read):
        said: list[str] = []
        try:
            return read(tmp_path / "list", "marian", warn=said.append), said
        except FormatError as error:
            return str(error), said

    for text in (regular + line.format(50) + MARIAN.format(51), line.format(0) + regular):
        (tmp_path / "list").write_text(text)
        expected = attempt(lambda path, format, **options: read_plainly(path, format, monkeypatch, **options))
        assert attempt(read) == expected


def test_regular_lines_of_marian_are_the_kernels(tmp_path, monkeypatch):
    """The plain reader gets the one line that is not, and those after it."""
    left: list[str] = []
    plain = marian_fast.plain_lines
    monkeypatch.setattr(marian_fast, "plain_lines", lambda *lines: (left.append(x[0]) or x for x in plain(*lines)))
    text = "".join(MARIAN.format(k // 4) for k in range(200))
    (tmp_path / "list").write_text(text + MARIAN.format(50).replace("F0= ", "F0=") + MARIAN.format(51))
    assert read(tmp_path / "list", "marian").n_hyps == 202
    assert left == [f"{tmp_path / 'list'}:201", f"{tmp_path / 'list'}:202"]
    (tmp_path / "list").write_text(text + "what is this?\n")
    assert read(tmp_path / "list", "marian", first=3).ids.tolist() == [0, 1, 2]
    assert len(left) == 2


# ---------------------------------------------------------------------------------------------------------------------
# Several files, and no more than is wanted
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", *COMPRESS])
@pytest.mark.parametrize("format", WRITTEN)
def test_first_stops_reading(tmp_path, format, ending):
    """What follows the first sentences is damaged, and not met."""
    whole = text_of(some_lists(), format)
    lines = whole.splitlines(keepends=True)
    kept = 1 + 4 if format == "jsonl" else 8 * 4
    text = b"".join(lines[:kept]) + b"".join(lines[kept:]) + b"what is this?\n" * 3000
    (tmp_path / "list").write_bytes(COMPRESS[ending](text) if ending else text)
    if ending:
        with pytest.raises(FormatError, match="list:"):
            read(tmp_path / "list", format)
    found = read(tmp_path / "list", format, first=3)
    (tmp_path / "whole").write_bytes(whole)
    expected = read(tmp_path / "whole", format)[:3]
    assert found.differences(replace(expected.compact(), meta=found.meta)) == []


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("marian", "".join(f"{s} ||| a b ||| F0= -1 ||| -1\n" for s in range(5))),
        ("cdec", "".join(f"{s} ||| a b ||| lm=-1 ||| -1\n" for s in range(5))),
        ("hyporadise", "".join('{"input": ["a"], "output": "a"}\n' for _ in range(5))),
    ],
)
def test_first_stops_reading_of_other_formats(tmp_path, format, text):
    (tmp_path / "list").write_text(text + "what is this?\n")
    with pytest.raises(FormatError, match="list:6"):
        formats.read(tmp_path / "list", ReadOptions(), format=format)
    assert formats.read(tmp_path / "list", ReadOptions(first=3), format=format).ids.tolist() == [0, 1, 2]


def test_import_of_the_first_sentences_of_parts(tmp_path):
    """Parts after the first sentences are looked at only; references are cut as well."""
    lines = text_of(some_lists(), "moses").splitlines(keepends=True)
    for k in range(3):
        (tmp_path / f"part{k}").write_bytes(b"".join(lines[32 * k : 32 * k + 32]) + (b"what is this?\n" if k else b""))
    (tmp_path / "ref").write_text("a\n" * 12)
    corpus = Corpus([str(tmp_path / f"part{k}") for k in range(3)], [str(tmp_path / "ref")], first=3)
    assert len(import_corpus(corpus, ReadOptions())) == 3
    with pytest.raises(FormatError, match="part1:33"):
        import_corpus(replace(corpus, first=None), ReadOptions())


def test_files_of_a_folder_come_in_the_order_of_their_numbers(tmp_path):
    """part2 before part10: as one list, not accumulated; errors name the part and its line."""
    nb = some_lists()
    whole = text_of(nb, "moses-enriched")
    lines = whole.splitlines(keepends=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(12):
        (folder / f"part{k}.xz").write_bytes(lzma.compress(b"".join(lines[8 * k : 8 * k + 8])))
    (tmp_path / "whole").write_bytes(whole)
    expected = formats.read(tmp_path / "whole", ReadOptions())
    found = formats.read_all([folder], ReadOptions())
    assert found.ids.tolist() == list(range(12))
    assert found.differences(replace(expected, meta=found.meta)) == []
    (folder / "part10.xz").write_bytes(lzma.compress(b"".join(lines[80:88]) + b"10 ||| x\n"))
    with pytest.raises(FormatError, match=r"part10\.xz:9: "):
        formats.read_all([folder], ReadOptions())


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("format", FORMATS)
def test_compressed_lists_that_were_cut_are_refused(tmp_path, format, ending):
    path = tmp_path / f"list.{ending}"
    data = COMPRESS[ending](text_of(some_lists(), format))
    path.write_bytes(data)
    assert read(path, format).n_hyps == 96
    path.write_bytes(data[:-20])
    for threads in (1, 2):
        with pytest.raises(FormatError, match="expected intact compressed data") as found:
            read(path, format, threads=threads)
        assert "\n" not in str(found.value)


# ---------------------------------------------------------------------------------------------------------------------
# fairseq: columns where hypotheses have the same lines, else line by line
# ---------------------------------------------------------------------------------------------------------------------


def fairseq_text(order: str, *, pieces: bool) -> str:
    """Nine hypotheses of three sentences, which come in any order, with these lines each."""
    rng, lines = np.random.default_rng(3), ["a line of a log"]
    for sent in (4, 0, 2):
        lines.append(f"S-{sent}\tquelle")
        for k in range(3):
            tokens = [*(f"▁w{w}" if pieces else f"w{w}" for w in rng.integers(0, 9, 1 + k)), "s"]
            numbers = " ".join(f"{v:.4f}" for v in -rng.exponential(1.0, len(tokens) + 1))
            joined = " ".join(tokens).replace(" s", "s").replace("▁", "") if pieces else " ".join(tokens)
            own = {"H": f"{-k - 0.5:.3f}\t{' '.join(tokens)}", "D": f"{-k - 0.5:.3f}\t{joined}", "P": numbers}
            lines += [f"{tag}-{sent}\t{own[tag]}" for tag in order]
    return "".join(f"{line}\n" for line in lines)


def fairseq_both(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> list[NBest | str]:
    """What is read with columns and without: a list, or a message."""
    (tmp_path / "list").write_text(text, newline="")
    columns_of, found = fairseq._in_columns, list[NBest | str]()
    for reader in (columns_of, lambda *given: None):
        monkeypatch.setattr(fairseq, "_in_columns", reader)
        try:
            found.append(fairseq.read(tmp_path / "list", ReadOptions(warn=lambda line: None, **options)))
        except FormatError as error:
            found.append(str(error))
    monkeypatch.setattr(fairseq, "_in_columns", columns_of)
    return found


@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize("pieces", [True, False])
@pytest.mark.parametrize("order", ["H", "HP", "HD", "HDP", "HPD", "HPA"])
def test_lines_of_fairseq_in_columns(tmp_path, monkeypatch, order, pieces, size):
    text = fairseq_text(order.replace("A", ""), pieces=pieces)
    if "A" in order:  # for the plain reader
        text = text.replace("\nS-0", "\nA-4\t0-0\nS-0")
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line[1:2] == "-" and line[0] in "HDPA"]
    assert (fairseq._in_columns(lines, "list", ReadOptions()) is None) is ("A" in order)
    found, expected = fairseq_both(text, tmp_path, monkeypatch, size=size)
    assert isinstance(found, NBest)
    assert found == expected
    assert found.ids.tolist() == [0, 2, 4]
    assert found.n_hyps == 3 * (size or 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("P-4\t-", "P-4\t +"),  # what Python's float takes
        ("P-4\t-", "P-4\t- "),
        ("P-4\t-", "P-4\t1_0 -"),
        ("P-4\t-", "P-4\tnan -"),
        ("P-4\t-", "P-4\t1e999 -"),
        ("P-4\t-", "P-4\t0x1p3 -"),
        ("P-4\t-", "P-4\t\u00a01 -"),
        ("P-4\t-", "P-4\t-1.5e-300 -"),
        ("P-4\t", "P-4 "),
        ("P-4\t", "P-5\t"),
        ("P-4\t", "P-004\t"),
        ("P-4\t", "P-\u0664\t"),  # a digit, and no ASCII
        ("H-4\t-0.500\t", "H-4\t-0.0 00\t"),
        ("H-4\t-0.500\t", "H-4\t\t"),
        ("H-4\t-0.500\t", "H-4\t-0.500 "),
        ("H-4\t-0.500\t", "H-4\t-0.500\t\t"),
        ("H-4\t-0.500\t", "H-4\tinf\t"),
        ("H-4\t", "H-9999999999999999999\t"),
        ("D-0\t-0.500\t", "D-0\tx\t"),
        ("D-0\t-0.500\t", "D-0\t-0.500 1\t"),
        ("H-2\t", "D-day\n\nH-2\t"),
        ("H-2\t-1.500", "P-2\t-1\nH-2\t-1.500"),
        ("\n", "\r\n"),
    ],
)
def test_odd_lines_of_fairseq_are_the_plain_readers(tmp_path, monkeypatch, old, new):
    text = fairseq_text("HDP", pieces=True)
    assert old in text
    found, expected = fairseq_both(text.replace(old, new, 1 if old != "\n" else -1), tmp_path, monkeypatch)
    assert found == expected


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        *[([195, 164], "ä"), ([195], "<0xC3>"), ([65, 195], "A<0xC3>"), ([True], "\x01")],
        *(([odd], "t") for odd in (256, -1, 1.5, "a", 10**30)),
        *((odd, "t") for odd in (None, [], "ab", {"a": 1})),
    ],
)
def test_bytes_of_openai_tokens(raw, text):
    assert openai._token({"token": "t", "bytes": raw}, "w") == text
