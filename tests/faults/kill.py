"""kill -9 at random moments of the commands that write, again and again; then the same command (with --resume) to its end.

    python tests/faults/kill.py [--trials 100] [--seed 0] [--work FOLDER] [--json OUT] [COMMAND...]

A trial kills a run and all its processes: at a random time, or at a random file operation (which finds the moments between
two of them). In a third of the trials the run that goes on is killed too, and so on. After every kill, each file under its own
name must be whole: stores and models open, JSON parses. After the run that is let go, the folder must hold exactly what an
uninterrupted run leaves, byte for byte (seconds and memory aside): nothing missing, nothing besides.

What a killed run may leave: ``.NAME.xxxxxxxx.tmp*``, hidden and never taken for a result; the next run that writes NAME removes
those that no living process holds. And ``NAME.partial`` of ``induce``, which --resume goes on from.

Runs are forked from a process that has imported all and loaded the kernels, so that a trial takes a second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from runs import (
    RESUME,
    check_whole,
    clear,
    commands,
    done,
    ended,
    files,
    fork,
    import_all,
    kill_group,
    make_inputs,
    start,
    temporaries,
    warm,
)

COMMANDS = ("import", "featurize", "tune", "induce", "compare", "loop", "export-moses")


class Trials:
    def __init__(self, name: str, work: Path, seed: int) -> None:
        self.name, self.out, self.log = name, work / name, work / f"{name}.log"
        self.words = commands(work / "inputs", self.out)[name]
        self.dice = random.Random(f"{name} {seed}")
        self.kills = self.left = 0
        clear(self.out)
        warm(self.words, self.log)
        clear(self.out)
        began = time.monotonic()
        done(start(self.words, self.out, self.log, counted=work / "events"), self.log)
        self.seconds = time.monotonic() - began
        self.n_events = int((work / "events").read_text())
        self.whole = files(self.out)

    def kill_once(self, words: list[Any]) -> bool:
        """Start a run and kill it; False where it had ended before."""
        if self.dice.random() < 0.5:
            n, after = self.dice.randint(1, self.n_events), self.dice.choice([0.0, 0.0, 0.0005, 0.002, 0.01])
            process = start(words, self.out, self.log, at_event=n, then=lambda: os.killpg(0, signal.SIGKILL), after=after)
        else:
            process = start(words, self.out, self.log)
            time.sleep(self.dice.uniform(0, self.seconds))
            kill_group(process)
        code = ended(process)
        assert code in (0, -signal.SIGKILL), f"{self.name}: exit code {code}, see {self.log}"
        return code != 0

    def trial(self) -> None:
        clear(self.out)
        words = self.words
        while True:
            self.kills += self.kill_once(words)
            self.left += len(temporaries(self.out))
            done(fork(lambda: check_whole(self.out), self.log), self.log)
            words = [*self.words, *RESUME.get(self.name, [])]
            if self.dice.random() > 1 / 3:
                break
        done(start(words, self.out, self.log), self.log)
        found = files(self.out)
        different = [path for path in sorted({*found, *self.whole}) if found.get(path) != self.whole.get(path)]
        assert not different, f"{self.name}: not as an uninterrupted run leaves them: {different}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"default: {' '.join(COMMANDS)}")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="kept; default: a temporary folder")
    parser.add_argument("--json", type=Path, help="write the figures here as they come")
    arguments = parser.parse_args()
    import_all()
    work = (arguments.work or Path(tempfile.mkdtemp(prefix="boostfeat-kill."))).resolve()
    make_inputs(work)
    results = {}
    for name in arguments.commands or COMMANDS:
        trials = Trials(name, work, arguments.seed)
        for n in range(arguments.trials):
            trials.trial()
            results[name] = {"trials": n + 1, "kills": trials.kills, "temporary files left": trials.left}
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{name}: {results[name]}, {trials.n_events} file operations in {trials.seconds:.1f} s", flush=True)
    if not arguments.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
