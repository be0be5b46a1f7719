"""Run every command on data/ (and on real lists, where there are some) and write a digest of each output.

    python tests/qualities/digests.py before.json            # at one commit
    python tests/qualities/digests.py after.json --against before.json   # at another: what differs, exit 1 if anything does

Seconds, megabytes and paths are left out of what is digested; nothing else is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).parents[2] / "data"
REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[3] / "shared" / "real"))

IMPORTS = """
import {data}/dev.nbest.xz -s {data}/dev.src -r {data}/dev.ref --size 40 -o dev.nbest
import {data}/select.nbest.xz -s {data}/select.src -r {data}/select.ref --size 40 -o select.nbest
import {data}/test.nbest.xz -s {data}/test.src -r {data}/test.ref --size 40 -o test.nbest
import {data}/four-refs/test.nbest.xz -s {data}/four-refs/test.src -r {data}/four-refs/test.ref0 -r {data}/four-refs/test.ref1 -o four.nbest
"""
LISTS = """
info dev.nbest --json
info four.nbest
convert test.nbest --format jsonl -o test.jsonl
convert test.nbest --format moses -o test.moses
convert test.nbest --format moses-enriched -o test.enriched
import test.jsonl -o again.nbest
featurize dev.nbest --templates base -o dev.base.nbest
featurize dev.nbest --templates large -o dev.large.nbest
featurize dev.nbest --templates sparse -o dev.sparse.nbest
featurize select.nbest --plan dev.sparse.plan.json -o select.sparse.nbest
featurize test.nbest --plan dev.sparse.plan.json -o test.sparse.nbest
"""
LEARNING = """
tune dev.nbest --method pro --select select.nbest -o pro.json
tune dev.nbest --method mert --select select.nbest -o mert.json
tune dev.nbest --method mira --select select.nbest --epochs 3 -o mira.json
tune dev.nbest --method kbmira --select select.nbest --epochs 5 -o kbmira.json
tune dev.nbest --method rm --select select.nbest --epochs 3 -o rm.json
tune dev.nbest --method adagrad --select select.nbest --epochs 3 -o adagrad.json
tune dev.sparse.nbest --method adagrad --select select.sparse.nbest --epochs 2 -o sparse-adagrad.json
tune dev.nbest --method rampion --select select.nbest -o rampion.json
tune dev.nbest --method arow --select select.nbest --epochs 3 -o arow.json
induce dev.nbest --select select.nbest --recipe fast --rounds 12 -o local.json
induce dev.nbest --select select.nbest --recipe fast --rounds 12 --level global -o global.json
induce dev.nbest --select select.nbest --recipe paper --rounds 6 -o paper.json
induce dev.nbest --select select.nbest --recipe paper --rounds 4 --leaves linear --max-leaves 3 -o linear.json
induce dev.nbest --select select.nbest --recipe fast --rounds 3 --leaves affine --init pro.json -o affine.json
induce dev.sparse.nbest --select select.sparse.nbest --recipe fast --rounds 5 -o sparse.json
induce dev.nbest --select select.nbest --set static-only=yes --recipe paper --rounds 6 -o static.json
induce dev.nbest --select select.nbest --recipe paper --rounds 3 --engine dask --set workers=2 -o dask.json
"""
USING = """
rerank test.nbest -m local.json
rerank test.nbest -m local.json --format moses
rerank test.nbest -m local.json --format jsonl
rerank test.sparse.nbest -m sparse.json
score test.nbest -m global.json --metric bleu,bleu-sbp,chrf,ter --json
score four.nbest --metric bleu,bleu-sbp,chrf,ter
show local.json
show sparse.json --json
augment test.nbest -m local.json -o trees.nbest
export local.json --to c -o local.h --verify test.nbest
export local.json --to python -o local_trees.py --verify test.nbest
export local.json --to json -o local.out.json --verify test.nbest
export local.json --to onnx -o local.onnx --verify test.nbest
export local.json --to cdec -o local.cdec --verify test.nbest
export local.json --to nbest -o local.list --list test.nbest
export static.json --to moses --phrase-table {data}/system/phrase-table.xz --ini {data}/system/moses.ini -o moses
export local.json --to moses -o moses-function
decode {data}/test.src --ini {data}/system/moses.ini --nbest 5 --nbest-output decoded.list
decode {data}/test.src --ini {data}/system/moses.ini -m static.json --nbest 5 --nbest-output decoded.trees.list
loop {data}/dev.src -r {data}/dev.ref --ini {data}/system/moses.ini --set extra=count.log --method pro --max-iterations 2 --nbest 20 -o looped
compare dev.nbest --select select.nbest --test test.nbest --systems base-PRO,kbmira,base/boost-local:fast,large/pro --search none --rounds 4 --trials 200 -o run
report run -o report.html
templates
doctor
"""
OF_REAL_LISTS = """
import {real}/fi-en/sg.test300.nbest100.enriched.xz -s {real}/fi-en/sg.test300.fi -o graphs.nbest
import {real}/fi-en/sg.test300.osgx.xz --size 5 -o osgx.nbest
rescore {real}/fi-en/sg.test300.osgx.xz --nbest 3
import {real}/cdec-forests/0.json.gz {real}/cdec-forests/1.json.gz --size 20 -o forests.nbest
import {real}/phrasal/properSample.test -o phrasal.nbest
import {real}/marian/pymarian.despm.txt -s {real}/marian/s4.de -r {real}/marian/s4.en -o marian.nbest
import {real}/moses-tests/mert-moses-new/run1.nbest.gz -o moses.nbest
"""
NOT_COMPARED = ("doctor",)  # it says what machine this is
VOLATILE = re.compile(
    rb"(\"?(?:seconds|megabytes|memory|mb|MB|cpu|wall|started|sentences_per_second|created|host)\"?\s*[:=]\s*)\"?[-0-9.:e+ TZ]+\"?"
)


def digest(path: Path, folder: Path) -> str:
    """The SHA-256 of a file or a folder, without what differs from run to run."""
    if path.is_dir():
        parts = [f"{p.relative_to(path)} {digest(p, folder)}" for p in sorted(path.rglob("*")) if p.is_file()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return of_bytes(path.read_bytes(), folder)


def of_bytes(content: bytes, folder: Path) -> str:
    for name in (str(folder), str(DATA), str(REAL)):
        content = content.replace(name.encode(), b"FOLDER")
    return hashlib.sha256(VOLATILE.sub(rb"\1", content)).hexdigest()


def run(command: str, folder: Path) -> dict[str, str]:
    """Digests of what a command prints and of the files it makes or changes."""
    before = {p: p.stat().st_mtime_ns for p in folder.iterdir()}
    words = shlex.split(command.format(data=DATA, real=REAL))
    done = subprocess.run([sys.executable, "-m", "boostfeat", *words, "-q"], cwd=folder, capture_output=True, check=False)
    found = {"exit": f"{done.returncode} {done.stderr.decode()[:300]}" if done.returncode else "0"}
    if words[0] not in NOT_COMPARED:
        text = re.sub(rb"\d+\.\d+ *\d+\n", b"\n", done.stdout) if words[0] == "compare" else done.stdout  # seconds and MB
        found["stdout"] = of_bytes(text, folder)
    for path in sorted(folder.iterdir()):
        if before.get(path) != path.stat().st_mtime_ns or path.is_dir():
            for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if part.is_file():
                    found[str(part.relative_to(folder))] = digest(part, folder)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--against", type=Path, help="digests made before")
    parser.add_argument("--only", default="", help="commands that hold this text, and all imports")
    options = parser.parse_args()
    commands = [IMPORTS, LISTS, LEARNING, USING, OF_REAL_LISTS if REAL.is_dir() else ""]
    digests: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as name:
        for command in "".join(commands).strip().splitlines():
            if command and (options.only in command or command in IMPORTS):
                digests[command] = run(command, Path(name))
                print(digests[command]["exit"], command, file=sys.stderr, flush=True)
    options.output.write_text(json.dumps(digests, indent=1) + "\n")
    if options.against is None:
        return 0
    wanted = json.loads(options.against.read_text())
    changed = [
        f"{command}\n    {name}"
        for command, found in digests.items()
        for name in sorted({*found, *wanted.get(command, {})})
        if found.get(name) != wanted.get(command, {}).get(name)
    ]
    print("\n".join(changed) or "all the same")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
