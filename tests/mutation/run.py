"""Mutation testing: how many small faults the tests notice.

    pip install -e '.[test,mutation]'
    python tests/mutation/run.py                         # 80 mutants of each group, drawn with seed 0
    python tests/mutation/run.py --sample 16 --seed 25 core lists formats   # 16 of each of these packages
    python tests/mutation/run.py --sample 0 losses/pairwise     # all mutants of boostfeat/losses/pairwise.py
    python tests/mutation/run.py --out rows.jsonl        # goes on from the rows of an earlier run: what was killed is not tried again

Mutants are cosmic-ray's (see mutants.py), drawn at random within each group, of every module in proportion. A group's modules are
imported without numba, so that a mutated kernel needs no compilation and coverage sees into it; the others stay compiled. The tests
of a group run once unmutated, which tells which tests reach which function and how long they take; a mutant then meets the tests
that reach its function, quickest first, until one fails or takes far longer than it did (killed) or all pass (survived). Tests that
fail or are slow without numba are left out, and named.

Nothing is written into the tree: each mutant is a forked process that imports the mutated module in place of the file.
Mutants that change no result are listed in equivalent.toml, each with its reason, and count in neither part of the score.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT), str(ROOT / "tests")]

from cpu_limit import late as skip_test  # noqa: E402
from mutants import Mutant, functions_of, mutants_of  # noqa: E402

GROUPS: dict[str, dict[str, str]] = {  # group: its modules and the tests of each
    "losses": {
        "losses/pairwise": "losses/pairwise losses/line_search",
        "losses/line_search": "losses/line_search",
        "losses/corpus_weights": "losses/corpus_weights",
    },
    "metrics": {"lists/choices": "lists/choices", "metrics/bleu": "metrics/bleu", "metrics/significance": "metrics/significance"},
    "trees": {
        "trees/tree": "trees/tree",
        "boosting/boost": "boosting/boost boosting/record boosting/tree_count",
        "boosting/local": "boosting/boost boosting/record",
        "boosting/record": "boosting/record boosting/boost",
        "boosting/options": "boosting/boost_options",
        "boosting/round_loss": "boosting/boost",
        "boosting/stopping": "boosting/stopping",
    },
    "growing": dict.fromkeys(
        ["trees/growing", "trees/growing_kernels", "trees/slope_search", "trees/binning"], "trees/growing trees/binning"
    ),
    "tuners": {
        "tuners/base": "tuners/tuner_base tuners/pro",
        "tuners/mert": "tuners/mert tuners/tuner_base",
        "tuners/mira": "tuners/mira tuners/relative_margin tuners/tuner_base",
        "tuners/margin": "tuners/mira tuners/relative_margin tuners/kbmira tuners/rampion",
        "tuners/kbmira": "tuners/kbmira tuners/tuner_base",
        "tuners/relative_margin": "tuners/relative_margin tuners/tuner_base",
        "tuners/rampion": "tuners/rampion tuners/tuner_base",
        "tuners/pro": "tuners/pro tuners/tuner_base",
        "tuners/adagrad": "tuners/adagrad",
        "tuners/adaptive": "tuners/adagrad tuners/arow tuners/tuner_base",
        "tuners/arow": "tuners/arow tuners/tuner_base",
    },
}


def package(name: str, *, without: str = "") -> dict[str, str]:
    """The modules of a package that are in no group yet, each with all tests of the package."""
    grouped = {module for modules in GROUPS.values() for module in modules}
    modules = (
        path.relative_to(ROOT / "boostfeat").with_suffix("").as_posix() for path in (ROOT / "boostfeat" / name).rglob("*.py")
    )
    return {m: name for m in sorted(modules) if m not in {*grouped, *without.split()} and not m.endswith("__init__")}


# core/arrays is called by kernels everywhere: without numba hardly any test would be quick enough
GROUPS["core"] = package("core", without="core/arrays")
# distributed is left out: what its workers do is done in processes of their own, which no mutant reaches;
# cli/self_test too: it is tests itself, and how many lists it draws changes no result
for _name in (
    *("metrics", "losses", "lists", "formats", "features", "model", "boosting", "rerank", "export", "compare"),
    *("loop", "decoder", "cli"),
):
    GROUPS[f"{_name}-more" if _name in GROUPS else _name] = package(_name, without="cli/self_test")
GROUPS["lm"] = dict.fromkeys(package("lm"), "lm decoder/decoder_files")
GROUPS["report"] = dict.fromkeys(package("report"), "report/report report/whole_page")  # not in a browser
# tests of other packages that look at results of these too: what is declared, a session of commands, and who calls them most
ELSEWHERE = {
    **dict.fromkeys(
        ("losses", "metrics", "trees", "tuners", "lists", "metrics-more", "boosting", "compare", "loop", "decoder", "export"),
        "cli/transcript",
    ),
    "rerank": "cli/transcript features/by_unit model/deciding",
    "losses-more": "cli/transcript losses/pairwise",
    "formats": "cli/transcript lists/graphs qualities/damaged",
    "features": "cli/transcript rerank/reranker",
    "model": "cli/transcript cli/described_text report/whole_page",
    "lm": "features/word_units",
    "cli": "core/options model/show model/explain model/deciding compare/tables features/carried",
}
for _group, _modules in GROUPS.items():
    for _module in _modules:
        if "twin=" in (ROOT / f"boostfeat/{_module}.py").read_text() and _group != "core":  # twins are run there only
            _modules[_module] += " core/kernels"
    _modules |= {m: f"{names} {ELSEWHERE.get(_group, '')}".rstrip() for m, names in _modules.items()}
    _modules |= {m: f"{names} cli/declared" for m, names in _modules.items() if m.endswith("/options") or m == "compare/systems"}
MODULES = {module: group for group, modules in GROUPS.items() for module in modules}
COLLECT = 15.0  # CPU seconds until the first test begins: files of tests make lists when they are imported
BUDGET = 25.0  # CPU seconds of unmutated tests that a mutant meets at most: one that takes longer is ended and left out
LATE = 75  # exit code of a child whose time was up
ENDED = (LATE, -signal.SIGXCPU, -signal.SIGKILL)
WALL = 40  # times the CPU limit: nothing but a deadlock takes so long
WHOLE = re.compile("test_declared|test_transcript|whole")
LEAST = 4  # mutants of a module, where the sample is of several and large enough

Test = tuple[str, float]  # node id, seconds


# ---------------------------------------------------------------------------------------------------------------------
# Tests in a child
# ---------------------------------------------------------------------------------------------------------------------


class Loader(SourceFileLoader):
    """Loads a module of the package with its kernels compiled or as plain Python, from its file or from mutated source."""

    def __init__(self, name: str, path: str, *, plain: bool, source: str | None) -> None:
        super().__init__(name, path)
        self.plain, self.code = plain, None if source is None else compile(source, path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        before = os.environ.get("NUMBA_DISABLE_JIT", "0")
        os.environ["NUMBA_DISABLE_JIT"] = str(int(self.plain))  # core/kernels.py looks at it for each kernel
        try:
            super().exec_module(module)
        finally:
            os.environ["NUMBA_DISABLE_JIT"] = before

    def get_code(self, fullname: str) -> Any:
        return super().get_code(fullname) if self.code is None else self.code


class Finder:
    """Finds modules of the package for a group's tests: the group's own are plain, all others compiled as ever."""

    def __init__(self, group: str, mutated: dict[str, str]) -> None:
        self.plain = {module_name(m) for m in with_callers(GROUPS[group])}
        self.mutated = mutated

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.partition(".")[0] == "boostfeat" else None
        if spec is not None and spec.origin is not None:
            spec.loader = Loader(name, spec.origin, plain=name in self.plain, source=self.mutated.get(name))
        return spec


def with_callers(modules: Iterable[str]) -> set[str]:
    """These modules, and all with kernels that may call theirs: a compiled kernel cannot call a plain one."""
    sources = {
        p.relative_to(ROOT / "boostfeat").with_suffix("").as_posix(): p.read_text() for p in (ROOT / "boostfeat").rglob("*.py")
    }
    kernels = {m: source for m, source in sources.items() if "import kernel" in source}
    plain, todo = set(modules), [m for m in modules if m in kernels]
    while todo:
        called = todo.pop().rpartition("/")[2]
        new = {m for m, source in kernels.items() if re.search(rf"^from \.[\w.]*\b{called} import", source, re.MULTILINE)} - plain
        plain, todo = plain | new, [*todo, *new]
    return plain


def module_name(module: str) -> str:
    return "boostfeat." + module.replace("/", ".")


class Timed:
    """Runs only the chosen tests, in their order; each has a limit of processor time. Keeps what became of them."""

    def __init__(
        self, chosen: Sequence[str] | None, limit: Callable[[str], float], start: Callable[[str], None] = lambda nodeid: None
    ) -> None:
        self.chosen, self.limit, self.start = chosen, limit, start
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.chosen is not None:
            place = {nodeid: k for k, nodeid in enumerate(self.chosen)}
            items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.start(nodeid)
        self.node = nodeid
        self.began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, self.limit(nodeid))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.seconds[nodeid] = time.process_time() - self.began

    def late(self, number: int, frame: FrameType | None) -> None:
        """Time is up. Unmutated, the test is left out; a mutant is dead, and so is its process: pytest may trip over an exception
        that comes from nowhere.
        """
        if self.chosen is not None:
            os._exit(LATE)
        self.failed.append(self.node)
        skip_test(number, frame)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport  # a mutant that a test file cannot even be imported with


def prepare() -> None:
    """Property tests draw the same examples every time, and a failure is enough: it need not be made small."""
    import hypothesis

    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile(
        "mutation", derandomize=True, database=None, phases=phases, print_blob=False, deadline=None, suppress_health_check=slow
    )
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"


def preload(names: Sequence[str]) -> None:
    """Import what tests import, but nothing of the package: forked children then start at once."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def imported() -> list[str]:
    """Installed modules that are imported by now."""
    files = {name: str(getattr(module, "__file__", "")) for name, module in sys.modules.items()}
    return [name for name, file in files.items() if "site-packages" in file and "boostfeat" not in name]


def run_pytest(files: Sequence[str], plugin: Timed, *more: str) -> int:
    import pytest

    signal.signal(signal.SIGPROF, plugin.late)
    signal.setitimer(signal.ITIMER_PROF, COLLECT)
    # numba wraps around in silence where numpy warns
    options = ["-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    for warning in ("overflow encountered", "Module already imported"):
        options += ["-W", f"ignore:{warning}"]
    return int(pytest.main([*options, *more, *files], plugins=[plugin]))


def fork(job: Callable[[], Any], log: Path) -> int:
    """A child that writes what ``job`` returns, as JSON, to ``log``.out; what it prints goes to ``log``."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.chdir(ROOT)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(out, stream)
        result = job()
        log.with_suffix(".out").write_text(json.dumps(result))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def baseline(files: list[str], modules: list[str]) -> dict[str, Any]:
    """Unmutated, in a child: seconds of each passing test, those that fail, and tests by module and line."""
    import coverage

    sys.meta_path.insert(0, Finder(MODULES[modules[0]], {}))
    cov = coverage.Coverage(data_file=None, include=[str(ROOT / f"boostfeat/{m}.py") for m in modules], config_file=False)
    plugin = Timed(None, lambda nodeid: BUDGET, cov.switch_context)
    with cov.collect():
        run_pytest(files, plugin)
    data, reach = cov.get_data(), {}
    for module in modules:
        lines = data.contexts_by_lineno(str(ROOT / f"boostfeat/{module}.py"))
        reach[module] = {line: [c for c in contexts if c] for line, contexts in lines.items()}
    return {"seconds": plugin.seconds, "failed": plugin.failed, "reach": reach, "imported": imported()}


def tests_for(mutant: Mutant, known: dict[str, Any], functions: dict[int, tuple[int, int]]) -> list[Test]:
    """Tests that reach the mutant's function, quickest first, within the budget.

    Outside functions, and of a function that none seems to reach (coverage does not see into forks): all that reach its module.
    Those that compare whole results have their place in the budget before others, of which all commands reach hundreds.
    """
    first, last = functions.get(mutant.line, (0, sys.maxsize))
    reach, seconds = known["reach"][mutant.module], known["seconds"]
    nodes = {node for line, found in reach.items() if first <= int(line) <= last for node in found}
    nodes = (nodes or {node for found in reach.values() for node in found}) - set(known["failed"])
    out, total = [], 0.0
    for node in sorted(nodes, key=lambda node: (WHOLE.search(node) is None, seconds[node], node)):
        total += seconds[node]
        if total <= BUDGET:
            out.append((node, seconds[node]))
    return sorted(out, key=lambda test: (test[1], test[0]))


def cpu_limit(tests: list[Test]) -> int:
    return 10 + int(5 * sum(seconds for _, seconds in tests))


def attack(mutant: Mutant, tests: list[Test]) -> Any:
    """In a child: the first test that fails on the mutant, or None."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit(tests), cpu_limit(tests) + 1))
    source = mutant.source((ROOT / f"boostfeat/{mutant.module}.py").read_text())
    sys.meta_path.insert(0, Finder(MODULES[mutant.module], {module_name(mutant.module): source}))
    usual = dict(tests)
    plugin = Timed(list(usual), lambda nodeid: 4 + 5 * usual[nodeid])
    code = run_pytest(list(dict.fromkeys(node.split("::")[0] for node in usual)), plugin, "-x")
    if code == 0:
        return None
    return plugin.failed[0] if plugin.failed else f"exit code {code} of pytest"


# ---------------------------------------------------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------------------------------------------------


def draw(modules: Sequence[str], sample: int, rng: random.Random) -> tuple[list[Mutant], Counter[str]]:
    """So many mutants of these modules (0: all), of each in proportion, and the number there are by module."""
    every = {m: mutants_of(m, ROOT / f"boostfeat/{m}.py") for m in modules}
    total = sum(map(len, every.values()))
    if sample and sample < LEAST * len(every):  # few of many modules: of all together
        mutants = [mutant for own in every.values() for mutant in own]
        return rng.sample(mutants, min(sample, total)), Counter({m: len(own) for m, own in every.items()})
    chosen: list[Mutant] = []
    for mutants in every.values():
        n = len(mutants) if not sample else max(LEAST, round(sample * len(mutants) / total))
        chosen += rng.sample(mutants, min(n, len(mutants)))
    return chosen, Counter({m: len(mutants) for m, mutants in every.items()})


def known_equivalents() -> dict[tuple[str, str, str | None], str]:
    """Reasons by module, line and mutated line; None stands for whatever survives of a line."""
    table = tomllib.loads((HERE / "equivalent.toml").read_text())
    for row in table["mutant"]:
        if row["line"] not in map(str.strip, (ROOT / f"boostfeat/{row['module']}.py").read_text().splitlines()):
            raise SystemExit(
                f"equivalent.toml: expected a line of {row['module']}, found {row['line']!r}; it has changed: look at it again"
            )
    return {(row["module"], row["line"], row.get("mutated")): row["reason"] for row in table["mutant"]}


def run(mutants: Sequence[Mutant], *, jobs: int, folder: Path, report: Callable[[Mutant, dict[str, Any]], None]) -> None:
    """Attack every mutant, so many at once; ``report`` gets each as it is known."""
    modules = list(dict.fromkeys(m.module for m in mutants))
    known: dict[str, Any] = {}
    for group in dict.fromkeys(MODULES[m] for m in modules):
        log = folder / "baseline.log"
        began, mine = time.monotonic(), [m for m in modules if MODULES[m] == group]
        names = dict.fromkeys(" ".join(GROUPS[group][m] for m in mine).split())
        files = [f"tests/{name.replace('/', '/test_')}.py" if "/" in name else f"tests/{name}" for name in names]
        os.waitpid(fork(lambda files=files, mine=mine: baseline(files, mine), log), 0)
        if not log.with_suffix(".out").exists():
            raise SystemExit(f"the tests of {', '.join(mine)} do not run:\n{log.read_text()[-3000:]}")
        found = json.loads(log.with_suffix(".out").read_text())
        log.with_suffix(".out").unlink()
        known |= dict.fromkeys(mine, found)
        preload(found["imported"])
        left = f"; left out: {', '.join(sorted(set(found['failed'])))}" if found["failed"] else ""
        print(f"# {' '.join(mine)}: {len(found['seconds'])} tests, {time.monotonic() - began:.0f} s{left}", file=sys.stderr)
    functions = {m: functions_of(ROOT / f"boostfeat/{m}.py") for m in modules}
    todo = [(m, tests_for(m, known[m.module], functions[m.module])) for m in mutants][::-1]
    running: dict[int, tuple[Mutant, float, float, Path]] = {}
    while todo or running:
        while todo and len(running) < jobs:
            mutant, tests = todo.pop()
            if not tests:
                report(mutant, {"outcome": "survived", "by": "no test reaches it", "seconds": 0.0})
                continue
            log = folder / f"{len(todo)}.log"
            pid = fork(lambda mutant=mutant, tests=tests: attack(mutant, tests), log)
            began = time.monotonic()
            running[pid] = mutant, began, began + WALL * cpu_limit(tests), log
        time.sleep(0.05)
        for pid, (mutant, began, deadline, log) in list(running.items()):
            late = time.monotonic() > deadline
            if late:
                os.killpg(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, 0 if late else os.WNOHANG)
            if not done:
                continue
            del running[pid]
            out = log.with_suffix(".out")
            code = os.waitstatus_to_exitcode(status)
            if code == 1:  # pytest did not even begin
                raise SystemExit(f"{mutant.key} could not be tried:\n{log.read_text()[-3000:]}")
            by = json.loads(out.read_text()) if out.exists() else "time" if code in ENDED else f"exit code {code}"
            outcome = "survived" if by is None else "killed"
            report(mutant, {"outcome": outcome, "by": by, "seconds": round(time.monotonic() - began, 1)})
            for file in (log, out):
                with contextlib.suppress(FileNotFoundError):
                    file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"a group, or a module: {', '.join([*GROUPS, *MODULES])}")
    parser.add_argument("--sample", type=int, default=80, help="mutants of each group, or of the modules named; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--out", type=Path, help="a row of JSON for every mutant; only those that survived in it are tried again")
    args = parser.parse_args()
    for name in args.modules:
        if name not in GROUPS and name not in MODULES:
            parser.error(f"unknown module {name!r}: expected one of {', '.join([*GROUPS, *MODULES])}")

    rng, same, chosen, total = random.Random(args.seed), known_equivalents(), [], Counter[str]()
    parts = [list(GROUPS[name]) for name in args.modules or GROUPS if name in GROUPS]
    if single := [name for name in args.modules if name not in GROUPS]:
        parts.append(single)
    for part in parts:
        mutants, counts = draw(part, args.sample, rng)
        rng.shuffle(mutants)  # a run that is stopped has tried a sample of all modules
        chosen, total = [*chosen, *mutants], total + counts

    tally = {m: Counter[str]() for m in total}
    earlier = args.out.read_text().splitlines() if args.out and args.out.exists() else []
    known = {tuple(row["mutant"]): row for row in map(json.loads, earlier) if row["outcome"] != "survived"}
    rows = args.out.open("w") if args.out else None

    def report(mutant: Mutant, result: dict[str, Any]) -> None:
        path = f"boostfeat/{mutant.module}.py"
        before, after = mutant.change((ROOT / path).read_text())
        if result["outcome"] == "survived" and any((mutant.module, before, changed) in same for changed in (after, None)):
            result["outcome"] = "equivalent"
        tally[mutant.module][result["outcome"]] += 1
        if result["outcome"] == "survived":
            print(f"{path}:{mutant.line}: {mutant.operator} survived\n  - {before}\n  + {after}", flush=True)
        if rows:
            rows.write(json.dumps({"mutant": mutant.key, "line": mutant.line, "before": before, "after": after, **result}) + "\n")
            rows.flush()

    with tempfile.TemporaryDirectory() as folder:
        prepare()
        for mutant in chosen:
            if row := known.get(mutant.key):
                report(mutant, {name: row[name] for name in ("outcome", "by", "seconds")})
        run([m for m in chosen if m.key not in known], jobs=args.jobs, folder=Path(folder), report=report)

    print(f"\n{'module':<20}{'mutants':>9}{'tried':>7}{'killed':>8}{'equivalent':>12}{'survived':>10}{'score':>8}")
    groups = [(f"= {g}", [m for m in tally if MODULES[m] == g]) for g in GROUPS]
    for name, members in [*((m, [m]) for m in tally), *groups, ("= all", [*tally])]:
        sums: Counter[str] = sum((tally[m] for m in members), Counter())
        tried = sums.total() - sums["equivalent"]
        if tried:
            counts = f"{sums.total():>7}{sums['killed']:>8}{sums['equivalent']:>12}{sums['survived']:>10}"
            print(f"{name:<20}{sum(total[m] for m in members):>9}{counts}{sums['killed'] / tried:>8.1%}")


if __name__ == "__main__":
    main()
