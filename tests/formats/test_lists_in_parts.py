"""Lists in parts: a folder of stores is the list of all its files, for every command."""

from __future__ import annotations

import json
import lzma
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from boostfeat import read_store
from boostfeat.lists.store import write_store

DATA = Path(__file__).parents[2] / "data"
LINES = "-s", DATA / "dev.src", "-r", DATA / "dev.ref"


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """Three files of the list of data/, cut between sentences; in a shell's order the second would be the last."""
    folder = tmp_path_factory.mktemp("lists")
    lines = lzma.decompress((DATA / "dev.nbest.xz").read_bytes()).splitlines(keepends=True)
    for name, (first, last) in zip(("p9", "p10", "p11"), pairwise((0, 200, 410, 600)), strict=True):
        own = [line for line in lines if first <= int(line.partition(b" ")[0]) < last]
        (folder / f"{name}.xz").write_bytes(lzma.compress(b"".join(own), preset=0))
    return [folder / f"{name}.xz" for name in ("p10", "p11", "p9")]


@pytest.fixture(scope="module")
def both(lists, tmp_path_factory):
    """The list as one file, and in parts."""
    from boostfeat.cli import call

    folder = tmp_path_factory.mktemp("parts")
    call(["import", str(DATA / "dev.nbest.xz"), *map(str, LINES), "--size", "20", "-o", f"{folder}/whole.nbest", "-q"])
    call(["import", *map(str, [*lists, *LINES]), "--size", "20", "-o", f"{folder}/parts.nbest/", "-q"])
    return folder / "whole.nbest", folder / "parts.nbest"


def test_a_folder_of_parts_is_the_list_of_one_file(both):
    whole, parts = map(read_store, both)
    assert whole.differences(parts) == []
    assert whole.meta == parts.meta
    assert sorted(path.name for path in both[1].iterdir()) == [f"part-0000{k}-of-00003.nbest" for k in (1, 2, 3)]


@pytest.mark.parametrize(
    "command",
    [
        "induce LIST --recipe paper --rounds 2 -o OUT",
        "tune LIST --method pro --epochs 1 -o OUT",
        "featurize LIST --templates phrases -o OUT",
        "rerank LIST -o OUT",
        "convert LIST -o OUT",
        "score LIST --json",
        "info LIST --json",
        "import LIST -o OUT",
    ],
)
def test_commands_take_a_folder_as_they_take_a_file(both, boostfeat, tmp_path, command):
    found = []
    for path in both:
        out = tmp_path / "out.nbest"
        code, said, err = boostfeat(*[{"LIST": path, "OUT": out}.get(word, word) for word in command.split()])
        found.append(
            (code, said.replace(str(path), "LIST"), out.read_bytes() if out.exists() else err.replace(str(path), "LIST"))
        )
    assert found[0] == found[1] or (command.startswith("import") and {code for code, *_ in found} == {2})
    assert found[0][0] == (2 if command.startswith("import") else 0)


def test_featurize_computes_a_plan_part_by_part(both, boostfeat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert boostfeat("featurize", both[0], "--templates", "large+sparse", "-o", "learned.nbest")[0] == 0
    for path, out in zip(both, ("whole.nbest", "parts/"), strict=True):
        code, _, err = boostfeat("featurize", path, "--plan", "learned.plan.json", "-o", out, "--threads", 2)
        assert code == 0, err
    assert "3 parts, " in err
    whole, parts = read_store("whole.nbest"), read_store("parts")
    assert whole.differences(parts) == []
    assert whole.meta == parts.meta
    for words in ((both[1], "--templates", "base"), (both[0], "--plan", "learned.plan.json")):
        code, _, err = boostfeat("featurize", *words, "-o", "new/")
        assert (code, err.count("\n")) == (2, 1)
        assert "-o new/: parts are made one by one from those of a folder, with --plan FILE" in err


def test_import_says_what_is_in_the_parts(lists, boostfeat, tmp_path):
    code, out, _ = boostfeat("import", *lists, *LINES, "-o", f"{tmp_path}/d/", "--json", "--first", 250)
    told = json.loads(out)
    assert (code, told["parts"], told["sentences"]) == (0, 2, 250)
    first = read_store(tmp_path / "d")
    assert first.ids.tolist() == list(range(250))
    assert first.has_stats


def test_sentences_between_two_parts_have_their_lines(lists, boostfeat, tmp_path):
    """As in one file: a sentence without a list keeps its reference."""
    lines = [line for line in lzma.decompress(lists[0].read_bytes()).splitlines(keepends=True) if not line.startswith(b"200 ")]
    (tmp_path / "p10.xz").write_bytes(lzma.compress(b"".join(lines)))
    files = [lists[2], tmp_path / "p10.xz", lists[1]]
    for output in ("one.nbest", "parts/"):
        code, _, err = boostfeat("import", *files, *LINES, "-o", f"{tmp_path}/{output}")
        assert code == 0, err
    assert "no file has sentence 200, before those of" in err
    assert read_store(tmp_path / "one.nbest").differences(read_store(tmp_path / "parts")) == []


def test_what_is_no_list_in_parts_is_one_line(both, lists, boostfeat, tmp_path):
    def refused(*words: object) -> str:
        code, out, err = boostfeat(*words, "-q")
        assert (code, out, err.count("\n")) == (2, "", 1), err
        return err

    def to(*files: object, options: tuple[object, ...] = LINES, name: str = "new") -> str:
        line = refused("import", *files, *options, "-o", f"{tmp_path}/{name}/")
        assert [path.name for path in tmp_path.iterdir() if path.name == "new" or ".tmp" in path.name] == []
        return line

    assert "expected sentences after 599, the last of" in to(*lists, lists[1])
    assert "found ids up to 409" in to(lists[0], lists[2])
    assert "--quality q=x: it is of all parts" in to(*lists, options=(*LINES, "--quality", "q=x"))
    assert "--missing worst looks at all lists" in to(*lists, options=(*LINES, "--missing", "worst"))
    assert "a part for each file, and no --system or '-'" in to("-", options=LINES)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    assert "expected a new folder, found one with files in it" in to(*lists, name="full")
    shutil.copytree(both[1], tmp_path / "part.nbest")
    (tmp_path / "part.nbest" / "part-00002-of-00003.nbest").unlink()
    assert "expected 3 parts, as their names say, found 2" in refused("info", tmp_path / "part.nbest")
    for file, new in (("1", "1.nbest"), ("3", "2.nbest")):
        (tmp_path / "part.nbest" / f"part-0000{file}-of-00003.nbest").rename(tmp_path / "part.nbest" / new)
    shutil.copy(tmp_path / "part.nbest" / "1.nbest", tmp_path / "part.nbest" / "3.nbest")
    assert "expected sentences after 599, the last of 2.nbest, found 0" in refused("score", tmp_path / "part.nbest")
    part = read_store(tmp_path / "part.nbest" / "2.nbest")
    write_store(part.without_references(), tmp_path / "part.nbest" / "2.nbest")
    (tmp_path / "part.nbest" / "3.nbest").unlink()
    assert "expected references, as 1.nbest has them, found none" in refused("score", tmp_path / "part.nbest")
