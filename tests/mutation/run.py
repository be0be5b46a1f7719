"""Mutation testing: how many small faults the tests notice.

    pip install -e '.[test,mutation]'
    python tests/mutation/run.py                         # 80 mutants of each package, drawn with seed 0
    python tests/mutation/run.py --sample 40 --seed 25 core lists formats   # 40 of each of these packages
    python tests/mutation/run.py --sample 0 losses/pairwise     # all mutants of boostfeat/losses/pairwise.py
    python tests/mutation/run.py --out rows.jsonl        # goes on from the rows of an earlier run: what was killed is not tried again

Mutants are cosmic-ray's (see mutants.py), drawn at random within each package, of every module in proportion. The suite runs once
traced (reach.py; what it found is kept in --reach), which tells which tests reach which function and how long they take. A mutant
then meets the tests that reach its function, quickest first, until one fails or takes far longer than it did (killed) or all pass
(survived). A test that fails where the code is not mutated kills nothing.

Nothing is written into the tree: each mutant is a fork of a process that has collected the tests, and exchanges the code of its
function (exchange.py), or a fork that imports the mutated module in place of the file, where more than a function changes.
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
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT), str(ROOT / "tests")]

from exchange import Exchange, module_name  # noqa: E402
from mutants import Mutant, mutants_of  # noqa: E402
from reach import Reach, function_at, known_reach  # noqa: E402
from session import Session, Tell, Test, child, prepare, run_pytest  # noqa: E402

# distributed is left out: what its workers do is done in processes of their own, which no mutant reaches;
# cli/self_test too: it is tests itself, and how many lists it draws changes no result;
# core/arrays: kernels everywhere call it, and hardly any test is quick enough where all of them are Python
LEFT_OUT = ("distributed/", "cli/self_test", "core/arrays")
MODULES = [
    module
    for path in sorted((ROOT / "boostfeat").glob("*/**/*.py"))
    if not (module := path.relative_to(ROOT / "boostfeat").with_suffix("").as_posix()).startswith(LEFT_OUT)
    and path.name != "__init__.py"
]
PACKAGES = {name: [m for m in MODULES if m.startswith(f"{name}/")] for name in dict.fromkeys(m.split("/")[0] for m in MODULES)}
LONG = 60.0  # CPU seconds of tests that a mutant meets at most, where interpreted kernels make them longer than they were
PLENTY = 12  # tests that fail without the mutant, too: a mutant that meets so many is taken to have survived
IMPORT = "collection of the tests"
REACH = Path(tempfile.gettempdir()) / "boostfeat-reach.json"
LEAST = 4  # mutants of a module, where the sample is of several and large enough

Report = Callable[[Mutant, dict[str, Any]], None]


def limit(seconds: float) -> float:
    """CPU seconds after which a test that took so many is late."""
    return 4 + 5 * seconds


def killer(tests: Sequence[Test], attack: Callable[[Sequence[Test]], str | None], is_sound: Callable[[Test], bool]) -> str | None:
    """The first test that fails on a mutant and passes without it; None if the mutant survives."""
    left = list(tests)
    for _ in range(PLENTY):
        by = attack(left) if left else None
        if by in (None, IMPORT):
            return by
        at = [node for node, _ in left].index(str(by))
        if is_sound(left[at]):
            return by
        left = left[at + 1 :]
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Functions exchanged in forks
# ---------------------------------------------------------------------------------------------------------------------


class Attacks:
    """Mutants against tests of a session; whether a test passes without a mutant is looked at when it first fails with one."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.sound: dict[tuple[str, ...], bool] = {}

    def on(self, exchange: Exchange, tests: Sequence[Test]) -> str | None:
        """The test that kills a mutant, or None."""
        kernels = exchange.kernels()

        def is_sound(test: Test) -> bool:
            key = (test[0], *kernels)
            if key not in self.sound:
                self.sound[key] = self.first_failure(exchange.interpret, [test]) is None
            return self.sound[key]

        left = [t for t in tests if t[0] in self.session.items and self.sound.get((t[0], *kernels), True)]
        return killer(left, lambda left: self.first_failure(exchange.put, left), is_sound)

    def first_failure(self, change: Callable[[], None], tests: Sequence[Test]) -> str | None:
        """The first of these tests that fails, or takes too long, after a change in a child."""
        usual, reached = dict(tests), [""]

        def job(folder: Path, tell: Tell) -> None:
            change()
            began = time.process_time()
            for node in self.session.run(list(usual), folder, lambda node: limit(usual[node])):
                if self.session.failed or time.process_time() - began > LONG:
                    break
                tell(node)
            tell("" if not self.session.failed else self.session.failed[0])

        ended = child(job, reached.append)
        return reached[-1] or (tests[0][0] if ended else None)


def exchanged(todo: Sequence[tuple[Mutant, Exchange, list[Test]]], jobs: int, report: Report) -> list[tuple[Mutant, list[Test]]]:
    """Attack mutants of functions: so many processes collect the tests, each for its part of the mutants. Those that cannot be
    exchanged are returned.
    """
    left = {mutant.key: (mutant, tests) for mutant, _, tests in todo}
    unfit: list[tuple[Mutant, list[Test]]] = []

    def work(part: Sequence[tuple[Mutant, Exchange, list[Test]]], tell: Tell) -> None:
        def use(session: Session) -> None:
            attacks = Attacks(session)
            for mutant, exchange, tests in part:
                began = time.monotonic()
                by = attacks.on(exchange, tests) if (fits := exchange.fits()) else None
                tell([mutant.key, fits, by, time.monotonic() - began])

        run_pytest(sorted({node.split("::")[0] for *_, tests in part for node, _ in tests}), Session(use))

    def heard(found: Any) -> None:
        key, fits, by, seconds = found
        pair = left.pop(tuple(key))
        if fits:
            report(pair[0], result(by, seconds))
        else:
            unfit.append(pair)

    with ThreadPoolExecutor(jobs) as pool:
        parts = [part for k in range(jobs) if (part := todo[k::jobs])]
        list(pool.map(lambda part: child(lambda folder, tell: work(part, tell), heard, inf), parts))
    if left:
        raise SystemExit(f"{len(left)} mutants could not be tried: do the tests run?")
    return unfit


def result(by: str | None, seconds: float) -> dict[str, Any]:
    return {"outcome": "survived" if by is None else "killed", "by": by, "seconds": round(seconds, 1)}


# ---------------------------------------------------------------------------------------------------------------------
# Modules imported in place of their files
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
    """Finds modules of the package: one may be mutated; it is plain, as are those with kernels that call its own."""

    def __init__(self, module: str, source: str | None) -> None:
        self.mutated, self.source = module_name(module), source
        self.plain = {module_name(m) for m in with_callers(module)}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.partition(".")[0] == "boostfeat" else None
        if spec is not None and spec.origin is not None:
            source = self.source if name == self.mutated else None
            spec.loader = Loader(name, spec.origin, plain=name in self.plain, source=source)
        return spec


def with_callers(module: str) -> set[str]:
    """A module, and all with kernels that may call its own: a compiled kernel cannot call a plain one."""
    sources = {
        p.relative_to(ROOT / "boostfeat").with_suffix("").as_posix(): p.read_text() for p in (ROOT / "boostfeat").rglob("*.py")
    }
    kernels = {m: source for m, source in sources.items() if "import kernel" in source}
    plain, todo = {module}, [module] if module in kernels else []
    while todo:
        called = todo.pop().rpartition("/")[2]
        new = {m for m, source in kernels.items() if re.search(rf"^from \.[\w.]*\b{called} import", source, re.MULTILINE)} - plain
        plain, todo = plain | new, [*todo, *new]
    return plain


class Imports:
    """Mutants of what is outside functions, each against tests that are collected anew."""

    def __init__(self) -> None:
        self.sound: dict[tuple[str, str], bool] = {}

    def on(self, mutant: Mutant, tests: Sequence[Test]) -> str | None:
        """The test that kills a mutant, or None."""
        module = mutant.module
        source = mutant.source((ROOT / f"boostfeat/{module}.py").read_text())

        def is_sound(test: Test) -> bool:
            if (module, test[0]) not in self.sound:
                self.sound[module, test[0]] = self.first_failure(module, None, [test]) is None
            return self.sound[module, test[0]]

        left = [t for t in tests if self.sound.get((module, t[0]), True)]
        return killer(left, lambda left: self.first_failure(module, source, left), is_sound)

    def first_failure(self, module: str, source: str | None, tests: Sequence[Test]) -> str | None:
        """The first of these tests that fails or takes too long, or IMPORT if they cannot even be collected."""
        usual, reached = dict(tests), [IMPORT]

        def job(folder: Path, tell: Tell) -> None:
            sys.meta_path.insert(0, Finder(module, source))

            def use(session: Session) -> None:
                nodes = [node for node in usual if node in session.items]
                for node in session.run(nodes, folder, lambda node: limit(usual[node])):
                    if session.failed:
                        break
                    tell(node)
                tell(session.failed[0] if session.failed else "")

            run_pytest(list(dict.fromkeys(node.split("::")[0] for node in usual)), Session(use))

        child(job, reached.append)
        return reached[-1] or None


def imported(todo: Sequence[tuple[Mutant, list[Test]]], jobs: int, report: Report) -> None:
    """Attack mutants of modules."""
    imports = Imports()

    def one(pair: tuple[Mutant, list[Test]]) -> None:
        began = time.monotonic()
        report(pair[0], result(imports.on(*pair), time.monotonic() - began))

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, todo))


# ---------------------------------------------------------------------------------------------------------------------
# The run
# ---------------------------------------------------------------------------------------------------------------------


def run(mutants: Sequence[Mutant], reach: Reach, jobs: int, report: Report) -> None:
    """Attack every mutant, so many at once; ``report`` gets each as it is known."""
    functions: list[tuple[Mutant, Exchange, list[Test]]] = []
    modules: list[tuple[Mutant, list[Test]]] = []
    for mutant in mutants:
        tests = reach.tests_for(mutant.module, mutant.line)
        source = (ROOT / f"boostfeat/{mutant.module}.py").read_text()
        exchange = Exchange.of(mutant.module, source, mutant.source(source))
        if not tests:
            report(mutant, {"outcome": "survived", "by": "no test reaches it", "seconds": 0.0})
        elif exchange is None:
            modules.append((mutant, tests))
        else:
            functions.append((mutant, exchange, tests))
    for name in sorted(reach.packages):  # what tests import, but nothing of the package: forks then start at once
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    tests_of = {mutant.key: tests for mutant, _, tests in functions}

    def once_more(mutant: Mutant, found: dict[str, Any]) -> None:
        """What survived in a function that runs when modules or tests are imported has to be there by then."""
        if found["outcome"] == "survived" and (mutant.module, function_at(mutant.module, mutant.line)) in reach.at_import:
            modules.append((mutant, tests_of[mutant.key]))
        else:
            report(mutant, found)

    modules += exchanged(functions, jobs, once_more)
    imported(modules, jobs, report)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"a package, or a module of one: {', '.join(PACKAGES)}")
    parser.add_argument("--sample", type=int, default=80, help="mutants of each package, or of the modules named; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--out", type=Path, help="a row of JSON for every mutant; only those that survived in it are tried again")
    parser.add_argument(
        "--reach", type=Path, default=REACH, help="what is known of the tests, and is kept (default: %(default)s)"
    )
    args = parser.parse_args()
    for name in args.modules:
        if name not in PACKAGES and name not in MODULES:
            parser.error(f"unknown module {name!r}: expected one of {', '.join([*PACKAGES, *MODULES])}")

    rng, same, chosen, total = random.Random(args.seed), known_equivalents(), [], Counter[str]()
    parts = [PACKAGES[name] for name in args.modules or PACKAGES if name in PACKAGES]
    if single := [name for name in args.modules if name not in PACKAGES]:
        parts.append(single)
    for part in parts:
        mutants, counts = draw(part, args.sample, rng)
        mutants = [m for m in mutants if m.compiles((ROOT / f"boostfeat/{m.module}.py").read_text())]
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

    prepare()
    for mutant in chosen:
        if row := known.get(mutant.key):
            report(mutant, {name: row[name] for name in ("outcome", "by", "seconds")})
    run([m for m in chosen if m.key not in known], known_reach(args.reach, args.jobs), args.jobs, report)

    print(f"\n{'module':<20}{'mutants':>9}{'tried':>7}{'killed':>8}{'equivalent':>12}{'survived':>10}{'score':>8}")
    packages = [(f"= {name}", [m for m in tally if m in members]) for name, members in PACKAGES.items()]
    for name, members in [*((m, [m]) for m in tally), *packages, ("= all", [*tally])]:
        sums: Counter[str] = sum((tally[m] for m in members), Counter())
        tried = sums.total() - sums["equivalent"]
        if tried:
            counts = f"{sums.total():>7}{sums['killed']:>8}{sums['equivalent']:>12}{sums['survived']:>10}"
            print(f"{name:<20}{sum(total[m] for m in members):>9}{counts}{sums['killed'] / tried:>8.1%}")


if __name__ == "__main__":
    main()
