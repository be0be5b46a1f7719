"""README and pages: their commands and code run, their links, functions and citations exist, and they keep their size."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from workers_here import DECODED, PATCHED, WorkersHere

from boostfeat.formats import read, write
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.nbest import NBest
from boostfeat.lists.store import write_store

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "examples").glob("*.md")))

# Commands that a page shows and that cannot run here, with the reason
NOT_RUN = {
    "--set scheduler=tcp://head:8786": "needs a cluster at that address",
    "--engine dask -o": "starts processes for half a minute; tests/distributed runs it",
    "--decoder 'moses ": "needs a moses binary",
    "--decoder moses ": "needs a moses binary; tests/search/loop runs it where there is one",
}

# -- commands -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pages name: short lists of data/ as stores and as Moses writes them, their texts, models, a graph."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "data").symlink_to(ROOT / "data")
    for name, n in (("dev", 16), ("select", 10), ("test", 6)):  # few sentences, for decoding takes longest
        texts = {kind: (ROOT / f"data/{name}.{kind}").read_text(encoding="utf-8").splitlines() for kind in ("src", "ref")}
        whole = read(ROOT / f"data/{name}.nbest.xz", ReadOptions(source=texts["src"], size=40 if name == "dev" else 12))
        part = attach(whole, source=texts["src"], refs=[texts["ref"]], name=name)[:n]
        write_store(part, folder / f"{name}.nbest")
        for kind, lines in texts.items():
            (folder / f"{name}.{kind}").write_text("".join(f"{line}\n" for line in lines[:n]), encoding="utf-8")
        with (folder / f"{name}.list.xz").open("wb") as stream:  # by its name compressed, by its content not: both are read
            write(part, stream, format="moses-enriched")
        write_other_tools(part, folder, name)
    return folder


def write_other_tools(part: NBest, folder: Path, name: str) -> None:
    """The same texts as Marian, HyPoradise and OpenAI-style servers write them, with scores of nobody."""
    texts = [part.text[a:b].to_pylist() for a, b in pairwise(part.hyp_ptr.tolist())]
    scores = [[[-0.1 * (1 + (3 * k + i) % 7) for i in range(len(t.split()) + 1)] for k, t in enumerate(own)] for own in texts]
    marian, asr, answers, lm = [], [], [], []
    for s, (own, values) in enumerate(zip(texts, scores, strict=True)):
        for text, v in zip(own, values, strict=True):
            pieces, shown = " ".join(f"▁{word}" for word in text.split()), " ".join(f"{x:.2f}" for x in v)
            marian.append(f"{s} ||| {pieces} ||| WordScores= {shown} ||| F0= {sum(v):.3f} ||| {sum(v) / len(v) ** 0.6:.4f}")
            lm.append(" ".join(f"{-1 - x:.2f}" for x in v))
        asr.append({"input": own, "output": part.refs[s].as_py(), "am_score": [sum(v) for v in values]})
        tokens = [
            [{"token": f" {w}", "logprob": x} for w, x in zip(t.split(), v, strict=False)]
            for t, v in zip(own, values, strict=True)
        ]
        choices = [
            {"message": {"content": t}, "logprobs": {"content": own_tokens}} for t, own_tokens in zip(own, tokens, strict=True)
        ]
        answers.append(json.dumps({"choices": choices}))
    (folder / f"{name}.marian").write_text("".join(f"{line}\n" for line in marian), encoding="utf-8")
    (folder / f"{name}.lm.txt").write_text("".join(f"{line}\n" for line in lm), encoding="utf-8")
    (folder / f"{name}.json").write_text(json.dumps(asr), encoding="utf-8")
    for k, system in enumerate(("one", "two")):
        (folder / f"{name}.{system}").write_text("".join(f"{own[k]}\n" for own in texts), encoding="utf-8")
    kind = {"dev": "answers", "test": "new"}.get(name, name)
    (folder / f"{kind}.jsonl").write_text("".join(f"{line}\n" for line in answers), encoding="utf-8")
    (folder / f"{kind}.judge.txt").write_text("".join(f"{h % 5 / 4}\n" for h in range(part.n_hyps)), encoding="utf-8")


@pytest.fixture(scope="module")
def runner(lists: Path) -> Callable[[Path, str], None]:
    """Runs a command of a page as a shell would, in this process; the models that pages name are made first."""
    from boostfeat.cli import run

    def go(folder: Path, command: str) -> None:
        words = shlex.split(command)
        target = words[words.index(">") + 1] if ">" in words else None
        words = words[: words.index(">")] if target else words
        capture = pytest.MonkeyPatch()
        try:
            capture.chdir(folder)
            for name in (PATCHED, DECODED):
                capture.setattr(name, WorkersHere)
            capture.setattr(sys, "argv", [*words, "--threads", "1", *([] if "-q" in words else ["-q"])])
            with (folder / (target or "printed.txt")).open("w", encoding="utf-8") as stream:
                capture.setattr(sys, "stdout", stream)
                code = run()
        finally:
            capture.undo()
        assert code == 0, command

    for command in (
        "boostfeat tune dev.nbest --method pro --select select.nbest -o pro.json",
        "boostfeat induce dev.nbest --select select.nbest --recipe fast --rounds 3 --min-occurrences 50 -o model.json",
        "boostfeat decode test.src --ini data/system/moses.ini --stack 20 --search-graph test.osgx.gz -o test.out",
    ):
        go(lists, command)
    return go


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def commands(page: Path) -> Iterator[str]:
    """Command lines of a page, those that go on after a backslash joined, without comments. `$ boostfeat` shows an output."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if re.match(r" {4,}boostfeat [a-z]+ ?", line):
            yield re.sub(r"\s+", " ", line.split("  #")[0]).strip()


def reason_not_to_run(command: str) -> str | None:
    return next((reason for part, reason in NOT_RUN.items() if part in command), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, lists: Path, runner: Callable[[Path, str], None], tmp_path: Path) -> None:
    folder = tmp_path / "page"
    shutil.copytree(lists, folder, symlinks=True)
    for name, block in saved_files(page):
        (folder / name).write_text(block, encoding="utf-8")
    for command in commands(page):
        if reason_not_to_run(command) is None:
            runner(folder, command)


def saved_files(page: Path) -> Iterator[tuple[str, str]]:
    """Blocks that the text before them says to save under a name."""
    pattern = r"[Ss]ave this as `([^`]+)`:\n\n```\w+\n(.*?)^```"
    yield from re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.M | re.S)


def test_every_reason_not_to_run_is_needed() -> None:
    shown = [command for page in PAGES for command in commands(page)]
    assert len(NOT_RUN) <= 10
    assert [part for part in NOT_RUN if not any(part in command for command in shown)] == []
    assert len(shown) > 60  # the pattern finds them


def test_commands_of_the_readme_are_all_commands() -> None:
    from boostfeat.cli import COMMANDS

    shown = {command.split()[1] for command in commands(README)}
    assert {*COMMANDS} - shown == {"demo", "templates"}  # the first is in the set-up, the second on the page of features


# -- code ---------------------------------------------------------------------------------------------------------------


def run_python(code: Sequence[str], folder: Path) -> dict[str, object]:
    """Run blocks one after the other in a folder. One that begins with a path in the package becomes that module."""
    patch, names = pytest.MonkeyPatch(), {"__name__": "page"}
    try:
        patch.chdir(folder)
        for block in code:
            path = re.match(r"# boostfeat/([\w/]+)\.py\n", block)
            if path is None:
                exec(compile(block, "page", "exec"), names)
                continue
            module = ModuleType(f"boostfeat.{path[1].replace('/', '.')}")
            module.__package__ = module.__name__.rpartition(".")[0]
            patch.setitem(sys.modules, module.__name__, module)
            exec(compile(block, path[1], "exec"), vars(module))
    finally:
        patch.undo()
    return names


def test_the_readmes_python_runs(lists: Path, tmp_path: Path) -> None:
    (tmp_path / "boostfeat-demo").symlink_to(lists)
    (tour,) = blocks(README, "python")
    assert len(tour.splitlines()) <= 14
    names = run_python([tour], tmp_path)
    assert len(names["chosen"]) == 6  # type: ignore[arg-type]


def test_the_page_on_python_runs_and_has_every_name(tmp_path: Path) -> None:
    import boostfeat

    page = ROOT / "examples" / "api.md"
    (tmp_path / "data").symlink_to(ROOT / "data")
    run_python(["import matplotlib; matplotlib.use('agg')", *blocks(page, "python")], tmp_path)
    text = page.read_text(encoding="utf-8")
    assert [name for name in boostfeat.__all__ if name not in text] == []


def test_the_library_offers_what_it_names() -> None:
    import boostfeat

    assert dir(boostfeat) == sorted(boostfeat.__all__)
    assert {"Model", "NBest", "featurize", "read_store"} <= set(boostfeat.__all__)
    assert all(getattr(boostfeat, name) is not None for name in boostfeat.__all__)


def test_what_contributing_shows_runs(lists: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from boostfeat.features import TEMPLATES
    from boostfeat.formats import READERS
    from boostfeat.metrics.metric import METRICS
    from boostfeat.tuners import TUNERS

    registries = (READERS, METRICS, TEMPLATES, TUNERS)
    before = [dict(registry) for registry in registries]  # type: ignore[call-overload]
    shutil.copytree(lists, tmp_path / "page", symlinks=True)
    code = blocks(ROOT / "examples/contributing.md", "python")
    try:
        run_python(code, tmp_path / "page")
        assert [set(now) - set(was) for now, was in zip(registries, before, strict=True)] == [
            {"tabbed"}, {"exact"}, {"vowels"}, {"random-search"}]  # fmt: skip
    finally:
        for registry, was in zip(registries, before, strict=True):
            registry.clear()
            registry.update(was)  # type: ignore[arg-type]


# -- what pages name ----------------------------------------------------------------------------------------------------


def test_the_readme_is_read_in_five_minutes() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 130
    assert (ROOT / "examples/report.png").stat().st_size < 300_000


WORDS = {
    **{"README.md": 1400, "api.md": 600, "changes.md": 900, "comparing.md": 900, "contributing.md": 950, "export.md": 1300},
    **{"faq.md": 600, "features.md": 1050, "formats.md": 1200, "method.md": 2000, "python.md": 900, "results.md": 1500},
    **{"scikit-learn.md": 500, "search.md": 900, "sizing.md": 1750, "start.md": 900, "trials.md": 1000},
}


@pytest.mark.quick
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= WORDS[page.name]


@pytest.mark.quick
def test_pages_are_short_together() -> None:
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES if page != README) <= 15_000


@pytest.mark.quick
@pytest.mark.parametrize(
    "page",
    [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "tests/README.md", "data/README.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_and_paths_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            found = (page.parent / path) if path else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), target
    for path in re.findall(r"\b(?:tests|examples|boostfeat)/[\w/.-]+\.(?:py|sh|md|json|svg)\b", text):
        assert path in SHOWN_ONLY or (ROOT / path).exists(), path


SHOWN_ONLY = {f"boostfeat/{path}.py" for path in (
    "formats/tabbed", "metrics/exact", "features/templates/vowels", "tuners/random_search")}  # fmt: skip


def anchors(page: Path) -> set[str]:
    """Headings as GitHub links to them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_messages_of_the_faq_are_messages() -> None:
    table = (ROOT / "examples/faq.md").read_text(encoding="utf-8").split("## Messages")[1].split("\n## ")[0]
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "boostfeat").rglob("*.py"))
    messages = re.findall(r"^\| `([^`]+)` \|", table, flags=re.M)
    assert len(messages) > 8
    assert [message for message in messages if message not in source] == []


def test_equations_lead_to_functions() -> None:
    """Every `path: name` of the method page is there; names after the first are of the same file."""
    text = (ROOT / "examples/method.md").read_text(encoding="utf-8")
    table = text.split("## From equation to function")[1].split("\n## ")[0]
    found = 0
    for row in table.splitlines()[4:]:
        module = None
        for quoted in re.findall(r"`([^`]+)`", row.split("|")[2] if row else ""):
            path, colon, name = quoted.rpartition(": ")
            if colon:
                assert (ROOT / path).is_file(), path
                module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            here: object = module
            for part in name.split("."):
                assert hasattr(here, part), f"{module}: {name}"
                here = getattr(here, part)
            found += 1
    assert found > 45


KEY = re.compile(r"\b((?:[A-Z][a-z]+|[A-Z]{1,3})\d\d)\b")
_TYPES = {"F64", "F32", "I64", "I32", "U64", "U32", "I16", "U16"}


def papers() -> set[str]:
    text = (ROOT / "examples/method.md").read_text(encoding="utf-8")
    return set(re.findall(r"^- \[(\w+)\] ", text, flags=re.M))


def cited(text: str) -> set[str]:
    """Keys in brackets; several may share them, with sections, equations and figures between them."""
    return {key for inside in re.findall(r"\[([^\[\]]+)\]", text) for key in KEY.findall(inside)} - _TYPES


def test_citations_lead_to_papers() -> None:
    known = papers()
    folders = (ROOT / name for name in ("boostfeat", "tests", "examples"))
    files = [*(file for folder in folders for file in folder.rglob("*.py")), *PAGES]
    found = {(key, file.name) for file in files for key in cited(file.read_text(encoding="utf-8").split("\n## Papers")[0])}
    assert [where for where in sorted(found) if where[0] not in known] == []
    assert known - {key for key, _ in found} == set()  # a paper that nothing cites
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "boostfeat").rglob("*.py"))
    assert re.findall(r"\bet al\b|METHOD section|see DESIGN|\((?:19|20)\d\d\)|\[\D* (?:19|20)\d\d\b", source) == []
