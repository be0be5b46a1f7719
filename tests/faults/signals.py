"""Ctrl-C and SIGTERM at random moments of every command: one line, the right exit code, nothing half-done, nobody left behind.

    python tests/faults/signals.py [--trials 10] [--seed 0] [--work FOLDER] [COMMAND...]

The signal goes to the whole group, as a terminal or timeout(1) sends it, or to the process alone. Then the exit code is 130 or
143 (0 where the command was through), the last line on standard error says what is kept, each file is whole, there is no
temporary file, and no process of the run is alive: neither the workers of ``compare`` nor the decoder of ``loop``.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from runs import check_whole, clear, commands, done, ended, fork, import_all, make_inputs, orphans, start, temporaries, warm

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Trials:
    def __init__(self, name: str, work: Path, seed: int) -> None:
        self.name, self.out, self.log, self.err = name, work / name, work / f"{name}.log", work / f"{name}.err"
        self.words = commands(work / "inputs", self.out)[name]
        self.dice = random.Random(f"{name} {seed}")
        self.ended_before = 0
        clear(self.out)
        warm(self.words, self.log)
        clear(self.out)
        began = time.monotonic()
        done(start(self.words, self.out, self.log), self.log)
        self.seconds = time.monotonic() - began

    def trial(self, number: int) -> None:
        clear(self.out)
        self.err.write_text("")
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the command handles them
        process = start(self.words, self.out, self.err, stdout=self.log)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        time.sleep(0.02 + self.dice.uniform(0, self.seconds))
        (os.killpg if self.dice.random() < 0.5 else os.kill)(process, number)
        code, said = ended(process), self.err.read_text()
        self.ended_before += code == 0
        assert code in (0, 128 + number, -number), f"{self.name}: exit code {code} on signal {number}:\n{said}"
        if code > 0:
            lines = said.splitlines()
            assert lines[-1:], f"{self.name}: no line on signal {number}"
            assert lines[-1].startswith("boostfeat: interrupted: "), f"{self.name}:\n{said}"
            assert "Traceback" not in said, f"{self.name}:\n{said}"
        assert not (left := temporaries(self.out)), f"{self.name}: signal {number} leaves {left}:\n{said}"
        assert not (alive := orphans(process)), f"{self.name}: signal {number} leaves processes {alive}"
        done(fork(lambda: check_whole(self.out), self.log), self.log)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="default: all")
    parser.add_argument("--trials", type=int, default=10, help="of each signal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="kept; default: a temporary folder")
    arguments = parser.parse_args()
    import_all()
    work = (arguments.work or Path(tempfile.mkdtemp(prefix="boostfeat-signals."))).resolve()
    make_inputs(work)
    for name in arguments.commands or commands(work, work):
        trials = Trials(name, work, arguments.seed)
        for _ in range(arguments.trials):
            for number in SIGNALS:
                trials.trial(number)
        n = len(SIGNALS) * arguments.trials
        print(f"{name}: {n} signals, {trials.ended_before} too late; {trials.seconds:.1f} s", flush=True)
    if not arguments.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
