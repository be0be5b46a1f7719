"""Commands to be killed, interrupted and starved: small inputs, runs forked from a process that has imported all, checks."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"
TEMPORARY = re.compile(r"\..*\.tmp.{0,16}|\..*\..{8}|.*\.attempt")
LOCK = ".lock"  # of a run's folder: what kill -9 leaves is taken over
FILE_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.chmod", "os.rmdir"}
EXPORTED = ("c", "moses", "json", "onnx", "treelite", "python", "cdec", "nbest")
MARK = "BOOSTFEAT_FAULTS"  # in the environment of all processes of a run


def commands(inputs: Path, out: Path) -> dict[str, list[Any]]:
    """Every command, on small inputs, with its output in a folder."""
    dev, select, test = (inputs / f"{name}.nbest" for name in ("dev", "select", "test"))
    src, ref = inputs / "dev.src", inputs / "dev.ref"
    ini = ["--ini", DATA / "system" / "moses.ini"]
    corpora = [src, "-r", ref, "--select-input", inputs / "select.src", "--select-ref", inputs / "select.ref"]
    texts = ["-s", src, "-r", ref]
    three = [dev, "--select", select, "--test", test]
    loop = ["--method", "kbmira", "--set", "epochs=3", "--nbest", 10, "--max-iterations", 2, "-o", out / "run"]
    model = ["-m", inputs / "model.json"]
    found = {
        "import": ["import", inputs / "dev.list.xz", *texts, "-o", out / "list.nbest"],
        "import-parts": ["import", inputs / "dev.list.xz", *texts, "-o", f"{out}/list.nbest/"],
        "info": ["info", dev],
        "convert": ["convert", dev, "--format", "moses", "-o", out / "list.gz"],
        "rerank": ["rerank", dev, *model, "--format", "jsonl"],
        "score": ["score", test, *model],
        "featurize": ["featurize", dev, "--templates", "large+sparse", "-o", out / "more.nbest"],
        "tune": ["tune", dev, "--method", "mira", "--epochs", 6, "--select", select, "-o", out / "tuned.json"],
        "induce": ["induce", dev, "--select", select, "--recipe", "fast", "--templates", "none", "--rounds", 30, "-o", out / "model.json"],
        "augment": ["augment", dev, *model, "-o", out / "more.nbest"],
        "show": ["show", inputs / "model.json"],
        **{f"export-{to}": ["export", inputs / "model.json", "--to", to, "--list", test, "-o", out / "model"] for to in EXPORTED},
        "export-moses-ini": ["export", inputs / "weights.json", "--to", "moses", *ini, "-o", out / "model"],
        "decode": ["decode", src, *ini, "--nbest", 10, "--nbest-output", out / "list.gz", "-o", out / "best"],
        "rescore": ["rescore", inputs / "dev.osgx", "--nbest", 10, "-o", out / "best"],
        "report": ["report", inputs / "run", "-o", out / "report.html"],
        "report-figures": ["report", inputs / "run", "--figures", out / "figures", "--tex", out / "table.tex"],
        "compare": ["compare", *three, "--systems", "decoder,kbmira,large/pro", "--trials", 50, "--search", "none", "-o", out / "run"],
        "loop": ["loop", *corpora, *ini, "--set", "stack=20", *loop],
        "loop-command": ["loop", *corpora, "--init", inputs / "weights.json", *decoder(inputs), *loop],
        "loop-online": ["loop", *corpora, *ini, "--set", "stack=20", "--online", "mira", *loop[4:]],
        "templates": ["templates"],
        "doctor": ["doctor"],
        "demo": ["demo", "-o", out / "run"],
    }  # fmt: skip
    return {name: [*words, "--threads", 1, "-q"] for name, words in found.items()}


def decoder(inputs: Path) -> list[str]:
    """A command that writes a list made before, and takes its time."""
    script = f"sleep 0.2; case {{input}} in */dev.input) cat {inputs}/dev.list;; *) cat {inputs}/select.list;; esac > {{nbest}}"
    return ["--set", "weights-format=name-value", "--decoder", f"sh -c '{script}' {{weights}}"]


RESUME = {name: ["--resume"] for name in ("induce", "loop", "loop-command", "loop-online")}


def make_inputs(work: Path) -> Path:
    """Small lists, texts, a model, a search graph and a run of compare, made from data/."""
    inputs = work / "inputs"
    if (inputs / "run" / "results.json").exists():  # the last that is made
        return inputs
    inputs.mkdir(parents=True, exist_ok=True)

    def cut() -> None:
        from boostfeat.formats import read
        from boostfeat.lists.build import ReadOptions, attach
        from boostfeat.lists.store import write_store

        for name, n in (("dev", 40), ("select", 20), ("test", 20)):
            lines = {kind: (DATA / f"{name}.{kind}").read_text().splitlines() for kind in ("src", "ref")}
            for kind, texts in lines.items():
                (inputs / f"{name}.{kind}").write_text("".join(line + "\n" for line in texts[: n // 4]))
            nbest = read(DATA / f"{name}.nbest.xz", ReadOptions(source=lines["src"], size=10))
            nbest = attach(nbest, source=lines["src"], refs=[lines["ref"]], name=name)
            write_store(nbest.take(range(n)), inputs / f"{name}.nbest")
            write_store(nbest.take(range(n // 4)), inputs / f"{name}.few.nbest")

    three = [inputs / "dev.nbest", "--select", inputs / "select.nbest", "--test", inputs / "test.nbest"]
    ini = ["--ini", DATA / "system" / "moses.ini"]
    shutil.copy(DATA / "weights.json", inputs / "weights.json")
    done(fork(cut, work / "inputs.log"), work / "inputs.log")
    for words in (
        *(["convert", inputs / f"{name}.few.nbest", "--format", "moses", "-o", inputs / f"{name}.list"] for name in ("dev", "select")),
        ["convert", inputs / "dev.few.nbest", "--format", "moses-enriched", "-o", inputs / "dev.list.xz"],
        ["induce", *three[:3], "--recipe", "fast", "--rounds", 4, "-o", inputs / "model.json"],
        ["decode", inputs / "dev.src", *ini, "--stack", 10, "--search-graph", inputs / "dev.osgx"],
        ["compare", *three, "--systems", "decoder,base-PRO", "--trials", 9, "--search", "none", "-o", inputs / "run"],
    ):  # fmt: skip
        warm([*words, "--threads", 1, "-q"], work / "inputs.log")
    return inputs


# -- runs -----------------------------------------------------------------------------------------------------------------


def import_all() -> None:
    """All modules, which a run would import one by one. Nothing that leaves threads may run here: forks have none."""
    import boostfeat
    from boostfeat.cli import installation_commands as demo
    from boostfeat.core import processes

    processes.START = "fork"  # workers of compare: as warm as their parent
    few = " --systems decoder,base/boost-local --rounds 3 --trials 9 --search none"
    jobs = (job.replace("--size 30", "--size 2") for job in demo.JOBS)
    demo.JOBS = tuple(job + few if job.startswith("compare") else job for job in jobs)
    for module in pkgutil.walk_packages(boostfeat.__path__, "boostfeat."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("lightgbm", "sacrebleu", "sklearn.linear_model", "sklearn.cluster", "scipy.optimize", "plotly.graph_objects"):
        importlib.import_module(name)


def warm(words: list[Any], log: Path) -> None:
    """Run a command here, once, so that forks find its kernels loaded. With one thread none is left to be missed in a fork."""
    from boostfeat.cli import run

    if "treelite" in words:  # its library always starts threads
        return

    kept = [os.dup(standard) for standard in (1, 2)]
    try:
        with open(log, "ab", buffering=0) as stream:
            for standard in (1, 2):
                os.dup2(stream.fileno(), standard)
        sys.argv = ["boostfeat", *map(str, words)]
        assert run() == 0, f"see {log}"
    finally:
        for standard, was in zip((1, 2), kept, strict=True):
            os.dup2(was, standard)
            os.close(was)


def fork(work: Callable[[], Any], log: Path, stdout: Path | None = None) -> int:
    """A process, leader of a session of its own, that does some work, ends with its exit code, and writes to a log."""
    process = os.fork()
    if process:
        return process
    code: Any = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
        with open(log, "ab", buffering=0) as stream, open(stdout or log, "ab", buffering=0) as out:
            os.dup2(out.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        code = work() or 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def start(
    words: list[Any],
    out: Path,
    log: Path,
    *,
    at_event: int = 0,
    then: Callable[[], None] = lambda: None,
    after: float = 0.0,
    stdout: Path | None = None,
    counted: Path | None = None,
    first: Callable[[], Any] = lambda: None,
) -> int:
    """A run of a command. At the n-th file operation under ``out`` it does what ``then`` says, so many seconds ``after``.

    ``first`` is done in its process before all else.
    """

    def work() -> None:
        n = 0
        first()

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal n
            writes = event in FILE_EVENTS or (
                event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if writes and args and isinstance(args[0], str | os.PathLike) and str(args[0]).startswith(str(out)):
                n += 1
                if n == at_event:
                    threading.Timer(after, then).start() if after else then()

        sys.addaudithook(hook)
        os.environ[MARK] = str(os.getpid())
        sys.argv = ["boostfeat", *map(str, words)]
        from boostfeat import cli

        run = cli.run
        cli.run = lambda: (signal.pthread_sigmask(signal.SIG_SETMASK, ()), run())[1]  # signals that were held back come now
        try:
            cli.main()
        finally:
            if counted:
                counted.write_text(str(n))

    return fork(work, log, stdout)


def ended(process: int) -> int:
    """The exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def done(process: int, log: Path) -> None:
    """Wait for a run that must succeed."""
    code = ended(process)
    assert code == 0, f"exit code {code}, see {log}:\n{log.read_text()[-2000:]}"


def kill_group(process: int) -> None:
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:  # it has no session of its own yet
        os.kill(process, signal.SIGKILL)


def orphans(run: int, patience: float = 10.0) -> list[str]:
    """Processes that a run (or what it started) has left behind."""
    end, mark = time.monotonic() + patience, f"{MARK}={run}".encode()
    while True:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


# -- what is there ----------------------------------------------------------------------------------------------------------


def clear(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()


def temporaries(out: Path) -> list[str]:
    return [str(p.relative_to(out)) for p in out.rglob("*") if TEMPORARY.fullmatch(p.name)]


def files(out: Path) -> dict[str, bytes]:
    """All files by name, without what differs from run to run: seconds and memory."""
    return {str(p.relative_to(out)): _without_timings(p) for p in sorted(out.rglob("*")) if p.is_file() and p.name != LOCK}


def _without_timings(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(stripped(json.loads(content))).encode()
    if path.name in ("table.md", "table.tex"):  # their last two columns
        cut = "|" if path.suffix == ".md" else "&"
        return "\n".join(cut.join(line.split(cut)[:-3]) for line in content.decode().splitlines()).encode()
    return content


def stripped(value: Any) -> Any:
    """JSON without timings."""
    if isinstance(value, dict):
        return {k: stripped(v) for k, v in value.items() if k not in ("seconds", "search_seconds", "peak_mb")}
    return [stripped(v) for v in value] if isinstance(value, list) else value


def check_whole(out: Path) -> None:
    """Every file that is not a temporary one opens and is valid."""
    from boostfeat.core.files import read_bytes
    from boostfeat.lists.store import read_store
    from boostfeat.model.model import Model

    for path in (p for p in out.rglob("*") if p.is_file() and not TEMPORARY.search(str(p.relative_to(out)))):
        if path.suffix == ".nbest":
            read_store(path)
        elif path.name.endswith((".json", ".partial")):
            found = json.loads(path.read_bytes())
            if isinstance(found, dict) and str(found.get("boostfeat", "")).startswith("model/"):
                Model.load(path)
        elif path.suffix == ".gz":
            read_bytes(path)
