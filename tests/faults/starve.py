"""Every command where it cannot write or read: one clear line, the right exit code, nothing half-done, nothing left behind.

    python tests/faults/starve.py [--faults full,half,...] [--work FOLDER] [COMMAND...]

As root: it mounts small file systems, seen by nobody else, and gives up root's rights to read and write everything.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runs import DATA, check_whole, clear, commands, done, ended, files, fork, import_all, make_inputs, start, temporaries, warm

PAGE = os.sysconf("SC_PAGE_SIZE")
# What these leave is whole, for --resume or a rerun to find.
KEEPS = ("featurize", "induce", "compare", "loop", "loop-command", "loop-online", "demo", "report-figures")


def nothing() -> None:
    pass


def as_a_user() -> None:
    """Permissions count from now on, for root too: its rights to read and write everything are given up."""
    libc, header, rights = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, rights)
    rights[0] &= ~0b110  # of the effective ones CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, rights) == 0


class Starved:
    """A command, and what it does where all is well."""

    def __init__(self, name: str, work: Path) -> None:
        self.name, self.out, self.log, self.err = name, work / name, work / f"{name}.log", work / f"{name}.err"
        self.inputs, printed = work / "inputs", work / f"{name}.printed"
        self.words = commands(self.inputs, self.out)[name]
        clear(self.out)
        warm(self.words, self.log)
        clear(self.out)
        printed.unlink(missing_ok=True)
        done(start(self.words, self.out, self.log, stdout=printed), self.log)
        self.prints = printed.stat().st_size > 0
        self.size = sum(-(-p.stat().st_size // PAGE) * PAGE for p in self.out.rglob("*") if p.is_file())

    def fails(
        self, words: list[Any], says: str = "", *, code: int = 2, first: Callable[[], Any] = nothing, keeps: bool = False
    ) -> None:
        """A run that ends with one line (none where a signal ends it), and leaves nothing that is not whole."""
        self.err.write_text("")
        found = ended(start(words, self.out, self.err, stdout=self.log, first=first))
        said = self.err.read_text()
        assert found == code, f"exit code {found}: {said}"
        assert said.count("\n") == (code == 2), f"expected one line, found: {said}"
        assert code != 2 or (said.startswith("boostfeat: ") and says in said), f"expected {says!r}, found: {said}"
        assert not (left := temporaries(self.out)), f"leaves {left}"
        done(fork(lambda: check_whole(self.out), self.log), self.log)
        left = list(files(self.out))
        assert not left or keeps or self.name in KEEPS, f"leaves {left}: {said}"

    @contextmanager
    def mounted(self, *options: str) -> Iterator[None]:
        clear(self.out)
        subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(("mode=755", *options)), "none", self.out], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", self.out], check=True)

    def others(self) -> Iterator[tuple[Path, list[Any]]]:
        """(path, words): each input in turn is another file, which is not there yet."""
        for k, word in enumerate(self.words):
            if isinstance(word, Path) and (self.inputs in word.parents or DATA in word.parents) and word.is_file():
                clear(self.out)
                other = self.inputs / f"other{''.join(word.suffixes)}"
                yield other, [*self.words[:k], other, *self.words[k + 1 :]]


# -- the faults -----------------------------------------------------------------------------------------------------------


def full(run: Starved) -> None:
    """No room at all: a file without a name has it."""
    if run.size:
        with run.mounted("size=64k"), tempfile.TemporaryFile(dir=run.out) as filler:
            filler.write(bytes(64 << 10))
            filler.flush()
            run.fails(run.words, "cannot write: No space left on device; free some space or choose another output")


def half(run: Starved) -> None:
    """Room for half of what it writes."""
    if run.size > PAGE:
        with run.mounted(f"size={run.size // 2 // PAGE * PAGE}"):
            run.fails(run.words, "cannot write: No space left on device; free some space or choose another output")


def readonly(run: Starved) -> None:
    if run.size:
        with run.mounted("ro"):
            run.fails(run.words)


def denied(run: Starved) -> None:
    """A folder that this user may not write."""
    if run.size:
        clear(run.out)
        run.out.chmod(0o555)
        run.fails(run.words, first=as_a_user)


def folder(run: Starved) -> None:
    for other, words in run.others():
        other.mkdir()
        run.fails(words, f"{other}: ")
        other.rmdir()


def link(run: Starved) -> None:
    """A link to itself."""
    for other, words in run.others():
        other.symlink_to(other)
        run.fails(words, f"{other}: ")
        other.unlink()


def unreadable(run: Starved) -> None:
    for other, words in run.others():
        other.touch(0o000)
        run.fails(words, f"{other}: expected a readable file, found: Permission denied", first=as_a_user)
        other.unlink()


def closed(run: Starved) -> None:
    """Nobody reads any more, as with ``| head``: ended by SIGPIPE, without a word."""
    if run.prints:
        clear(run.out)
        ours, theirs = os.pipe()
        os.close(ours)
        run.fails(run.words, code=-signal.SIGPIPE, first=lambda: os.dup2(theirs, 1), keeps=True)  # results are said last
        os.close(theirs)


def stdout(run: Starved) -> None:
    """Standard output is a device without room."""
    if run.prints:
        clear(run.out)
        device = os.open("/dev/full", os.O_WRONLY)
        run.fails(run.words, "cannot write: No space left on device", first=lambda: os.dup2(device, 1), keeps=True)
        os.close(device)


FAULTS = {fault.__name__: fault for fault in (full, half, readonly, denied, folder, link, unreadable, closed, stdout)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="default: all")
    parser.add_argument("--faults", default=",".join(FAULTS), help="with commas between them; default: all")
    parser.add_argument("--work", type=Path, help="kept; default: a temporary folder")
    arguments = parser.parse_args()
    if "BOOSTFEAT_MOUNTS" not in os.environ:  # a view of file systems of our own
        os.environ["BOOSTFEAT_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])
    import_all()
    work = (arguments.work or Path(tempfile.mkdtemp(prefix="boostfeat-starve."))).resolve()
    make_inputs(work)
    wrong = 0
    for name in arguments.commands or commands(work, work):
        run = Starved(name, work)
        for fault in arguments.faults.split(","):
            try:
                FAULTS[fault](run)
            except AssertionError as error:
                wrong += 1
                print(f"{name}: {fault}: {error}", flush=True)
                for other in run.inputs.glob("other*"):
                    other.rmdir() if other.is_dir() and not other.is_symlink() else other.unlink()
        print(f"{name}: done", flush=True)
    if not arguments.work:
        shutil.rmtree(work)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
