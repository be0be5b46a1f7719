"""Kills, signals, full disks, closed pipes, permissions: one clear line, the right exit code, nothing half-done or left behind."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from synthetic import SyntheticOptions, write_lists

from boostfeat import cli
from boostfeat.core.files import atomic_path, temporary_folder
from boostfeat.export import EXPORTERS
from boostfeat.lists import store
from boostfeat.model.model import Model

FAULTS = Path(__file__).parents[1] / "faults"
COMMAND = [sys.executable, "-m", "boostfeat"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_lists(folder, SyntheticOptions(sentences=20, hyps=12))
    Model({"LM0": 2 / 3, "LexWeight": 1 / 3}).save(folder / "model.json")
    return folder


def writing(inputs: Path, out: Path) -> dict[str, list[object]]:
    """Commands that write; each opens its output in another way."""
    dev, model = inputs / "dev.nbest", inputs / "model.json"
    three = [dev, "--select", inputs / "select.nbest", "--test", inputs / "test.nbest"]
    return {
        "store": ["augment", dev, "-m", model, "-o", out / "more.nbest"],
        "compressed store": ["augment", dev, "-m", model, "-o", out / "more.nbest.zst"],
        "text": ["convert", dev, "-o", out / "list.jsonl"],
        "compressed text": ["convert", dev, "-o", out / "list.jsonl.gz"],
        "featurize": ["featurize", dev, "-o", out / "large.nbest"],
        "tune": ["tune", dev, "--method", "mira", "--epochs", 30, "-o", out / "tuned.json"],
        "induce": ["induce", dev, "--recipe", "paper", "--rounds", 1, "-o", out / "learned.json"],
        "export": ["export", model, "--to", "nbest", "--list", dev, "-o", out / "list.moses"],
        "compare": ["compare", *three, "--systems", "decoder", "--trials", 5, "-o", out],
        "rerank": ["rerank", dev, "-m", model, "-o", out / "best"],
        **{f"export {to}": ["export", model, "--to", to, "-o", out / f"model.{to}"] for to in EXPORTERS if to != "nbest"},
    }


KINDS = list(writing(Path(), Path()))


# -- no room, no permission -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_file_above(n_bytes: int):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiled, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python would keep the beginning of a module
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = compiled


@pytest.mark.parametrize("kind", KINDS)
def test_no_room_for_the_output(boostfeat, inputs, tmp_path, kind):
    with no_file_above(40):  # less than any output, more than a semaphore
        code, _, err = boostfeat(*writing(inputs, tmp_path)[kind], "-q")
    assert (code, err.count("\n")) == (2, 1), err
    assert "cannot write: File too large; free some space or choose another output" in err
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_no_room_for_a_treelite_checkpoint(boostfeat, inputs, tmp_path):
    """A byte less than it needs: treelite itself says nothing."""
    words = writing(inputs, tmp_path)["export treelite"]
    assert boostfeat(*words)[0] == 0
    checkpoint = (tmp_path / "model.treelite").stat().st_size
    with no_file_above(checkpoint - 1):
        assert boostfeat(*words)[0] == 2
    assert (tmp_path / "model.treelite").stat().st_size == checkpoint


may_mount = pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0,
    reason="no right to mount a small file system",
)


@may_mount
def test_a_full_disk(inputs, tmp_path):
    """A file system of 8 kB that only this command sees."""
    inside = 'mount -t tmpfs -o size=8k none "$0" && { "$@"; code=$?; ls -A "$0"; exit $code; }'
    words = [*COMMAND, *map(str, writing(inputs, tmp_path)["store"]), "-q"]
    done = subprocess.run(["unshare", "-m", "sh", "-c", inside, tmp_path, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("more.nbest: cannot write: No space left on device; free some space or choose another output\n")


# root may read and write everything: the capabilities for that are dropped, then the program is run
AS_A_USER = """
import ctypes, os, sys
for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(("mode", "expected"), [("read-only", "expected a writable folder, found one that is not"), ("unreadable", "expected a readable file, found: Permission denied")])  # fmt: skip
def test_permissions(inputs, tmp_path, mode, expected):
    out, dev = tmp_path / "out", tmp_path / "dev.nbest"
    out.mkdir()
    shutil.copy(inputs / "dev.nbest", dev)
    os.chmod(*((out, 0o555) if mode == "read-only" else (dev, 0o000)))
    words = [*COMMAND, "augment", str(dev), "-m", str(inputs / "model.json"), "-o", str(out / "more.nbest"), "-q"]
    done = subprocess.run([sys.executable, "-c", AS_A_USER, *words], capture_output=True, text=True)
    os.chmod(out, 0o755)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert expected in done.stderr
    assert not list(out.iterdir())


# -- lists that change while they are read --------------------------------------------------------------------------------

WHEN_READ = """
import os, sys
from boostfeat.cli import checked_inputs, learning_commands, main, model_commands
how, path = sys.argv[1:3]
before = checked_inputs.check_agreement if sys.argv[3] != "augment" else model_commands.write_store
def change(*args, **kwargs):
    if how == "cut":
        os.truncate(path, 5000)
    elif how == "garbled":
        with open(path, "r+b") as file:
            file.write(os.urandom(os.path.getsize(path)))
    else:
        os.replace(path + ".other", path)
    return before(*args, **kwargs)
checked_inputs.check_agreement = model_commands.write_store = change
sys.argv[1:] = sys.argv[3:]
main()
"""


@pytest.mark.parametrize("how", ["cut", "garbled", "replaced"])
@pytest.mark.parametrize("kind", ["store", "induce"])
def test_a_list_that_changes_while_it_is_read(inputs, tmp_path, how, kind):
    """Written to in place, it ends the command, and nothing is written; replaced by another file, it stays as it was."""
    shutil.copy(inputs / "dev.nbest", tmp_path / "dev.nbest")
    shutil.copy(inputs / "test.nbest", tmp_path / "dev.nbest.other")
    words = [str(word).replace(str(inputs / "dev"), str(tmp_path / "dev")) for word in writing(inputs, tmp_path)[kind]]
    run = [sys.executable, "-c", WHEN_READ, how, tmp_path / "dev.nbest", *words, "-q", "--threads", "1"]
    done = subprocess.run(run, capture_output=True, text=True)
    output = Path(words[-1])
    if how == "replaced":
        assert (done.returncode, done.stderr, output.exists()) == (0, "", True)
        return
    assert (done.returncode, done.stdout, output.exists()) == (2, "", False), done.stderr
    assert done.stderr.endswith("found that it was changed while it was read; run the command again\n")
    assert done.stderr.count("\n") == 1


# -- nobody reads -----------------------------------------------------------------------------------------------------------


def test_standard_output_that_nobody_reads(inputs, tmp_path):
    """As ``| head -1``: it ends quietly by SIGPIPE, and what it was writing beside goes too."""
    script = f"{' '.join(COMMAND)} convert {inputs / 'dev.nbest'} -q | head -1 | wc -l; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"1\n{128 + signal.SIGPIPE}\n", "")


@pytest.mark.parametrize(("where", "expected"), [("> /dev/full", "cannot write: No space left on device"), (">&-", "standard output: expected an open file")])  # fmt: skip
def test_standard_output_that_cannot_be_written(where, expected):
    done = subprocess.run(f"{' '.join(COMMAND)} templates {where}", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert expected in done.stderr


# -- signals ------------------------------------------------------------------------------------------------------------------


def test_interrupted_again_before_anything_is_learnt(boostfeat, inputs, tmp_path, monkeypatch):
    """What the first run kept is still there, and said."""

    def interrupted(*args, **kwargs):
        cli._stop(signal.SIGINT, None)

    command = (*writing(inputs, tmp_path)["induce"], "-q")
    assert boostfeat(*command)[0] == 0
    Model.load(tmp_path / "learned.json").save(tmp_path / "learned.json.partial")
    kept = (tmp_path / "learned.json.partial").read_bytes()
    monkeypatch.setattr(cli, "_signals", [])
    monkeypatch.setattr("boostfeat.boosting.induce.induce_on", interrupted)
    code, _, err = boostfeat(*command, "--resume")
    assert (code, "holds the best so far; go on with --resume" in err) == (130, True), err
    assert (tmp_path / "learned.json.partial").read_bytes() == kept
    for path in tmp_path.iterdir():
        path.unlink()
    monkeypatch.setattr(cli, "_signals", [])
    code, _, err = boostfeat(*command)
    assert (code, "what was not finished is not kept" in err) == (130, True), err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("kind", ["store", "featurize", "induce"])
def test_interrupted_while_it_writes(boostfeat, inputs, tmp_path, monkeypatch, kind, number, code):
    def interrupted(*args, **kwargs):
        cli._stop(number, None)

    monkeypatch.setattr(cli, "_signals", [])
    if kind == "induce":  # as soon as it has kept a round: the model so far is the output, and --resume finds where to go on
        save = Model.save
        monkeypatch.setattr(
            Model,
            "save",
            lambda self, path: (save(self, path), str(path).endswith(".partial") and not cli._signals and interrupted()),
        )
    else:
        monkeypatch.setattr(store.pa.ipc, "new_file", interrupted)
    found, _, err = boostfeat(*writing(inputs, tmp_path)[kind], "-q")
    assert (found, err.count("\n")) == (code, 1), err
    left = sorted(p.name for p in tmp_path.iterdir())
    if kind == "induce":
        assert left == ["learned.json", "learned.json.partial"]
        assert f"interrupted: after round 0, {tmp_path / 'learned.json'} holds the best so far; go on with --resume" in err
    else:
        assert left == []
        assert "interrupted: what was not finished is not kept; the same command starts anew" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_while_arguments_are_read(boostfeat, monkeypatch, number, code):
    """Typer has an end of its own for it, without a line."""
    monkeypatch.setattr(cli, "_signals", [])
    monkeypatch.setattr(cli._Commands, "parse_args", lambda *_: cli._stop(number, None))
    found, _, err = boostfeat("templates")
    assert (found, err[:23]) == (code, "boostfeat: interrupted:")


def test_an_interrupted_import_of_a_module_is_an_interruption(boostfeat, inputs, monkeypatch):
    """What comes out of it may be any error."""

    def broken(*args):
        with contextlib.suppress(KeyboardInterrupt):
            cli._stop(signal.SIGINT, None)
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr(cli, "_signals", [])
    monkeypatch.setattr("boostfeat.cli.list_commands.read_store", broken)
    code, _, err = boostfeat("info", inputs / "dev.nbest")
    assert (code, err[:23]) == (130, "boostfeat: interrupted:")


# -- what killed runs leave -------------------------------------------------------------------------------------------------


def test_what_a_killed_run_left_goes_with_the_next(tmp_path):
    """Temporary files and folders of the same output that nobody holds; those of a run at work, and others, stay."""
    target, inside, leave = tmp_path / "model.json", threading.Event(), threading.Event()
    stale, folder, other = (tmp_path / f".model.json{end}" for end in (".abcdefgh.tmp.json", ".ijklmnop.tmp.json", ".tmp.json"))
    folder.mkdir()
    for path in (stale, folder / "half", other):
        path.write_text("half a mod")
    os.mkfifo(tmp_path / ".model.json.qrstuvwx.tmp.json")

    def at_work():
        with temporary_folder(target) as ours, atomic_path(target) as temporary:
            Path(temporary).write_text("slow")
            inside.set()
            leave.wait(30)
            assert ours.is_dir()

    thread = threading.Thread(target=at_work)
    thread.start()
    assert inside.wait(30)
    assert not stale.exists()
    assert not folder.exists()
    with atomic_path(target) as temporary:
        Path(temporary).write_text("quick")
    assert target.read_text() == "quick"
    leave.set()
    thread.join()
    assert target.read_text() == "slow"
    assert sorted(p.name for p in tmp_path.iterdir()) == [other.name, target.name]


def test_an_export_after_one_that_was_killed(boostfeat, inputs, tmp_path):
    script = (
        "import os, boostfeat.export as e; from boostfeat.cli import main; e._put = lambda *_: os.kill(os.getpid(), 9); main()"
    )
    words = [str(word) for word in writing(inputs, tmp_path)["export"]]
    assert subprocess.run([sys.executable, "-c", script, *words]).returncode == -signal.SIGKILL
    assert len([p for p in tmp_path.iterdir() if p.name.startswith(".list.moses.")]) == 1
    assert boostfeat(*words)[0] == 0
    assert [p.name for p in tmp_path.iterdir()] == ["list.moses"]


def run_script(name: str, work: Path, *arguments: object) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # Python 3.12 warns of any fork where there may be threads
    command = [sys.executable, FAULTS / name, "--work", work, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("faults")


def test_killed_at_random_moments(work):
    """``tests/faults/kill.py`` with a few of its trials."""
    run_script("kill.py", work, "--trials", 2, "import", "induce")


def test_interrupted_at_random_moments(work):
    """``tests/faults/signals.py`` with one of its trials of each signal."""
    run_script("signals.py", work, "--trials", 1, "featurize", "loop-command")


@may_mount
def test_starved(work):
    """``tests/faults/starve.py`` with two of its commands."""
    run_script("starve.py", work, "import", "export-json")


@pytest.mark.slow
def test_kills_and_signals_of_every_command(work):
    run_script("kill.py", work, "--trials", 5)
    run_script("signals.py", work, "--trials", 2)


@may_mount
@pytest.mark.slow
def test_starved_of_every_command(work):
    run_script("starve.py", work)
