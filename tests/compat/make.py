"""Write files of every kind with the installed boostfeat, and what they must give, to a folder that the tests then read.

    python tests/compat/make.py tests/compat/VERSION

Once for each released version, with that version: files stay as they are, and later versions must read them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).parents[2] / "data"
INDUCE = ["induce", "list.nbest", "--recipe", "paper", "--rounds", 2, "--max-leaves", 3, "--pairs", 30, "--min-occurrences", 5]
COMMANDS = [
    ["featurize", "list.nbest", "--templates", "length,pt,bi", "--min-count", 4, "-o", "more.nbest"],
    ["convert", "list.nbest", "--format", "jsonl", "-o", "list.jsonl.gz"],
    [*INDUCE, "-o", "constant.json"],
    [*INDUCE, "--leaves", "linear", "-o", "linear.json"],
    [*INDUCE, "--leaves", "affine", "-o", "affine.json"],
    [*INDUCE, "--level", "global", "-o", "global.json"],
    [*INDUCE, "--templates", "phrases", "-o", "carried.json"],
    ["tune", "list.nbest", "--method", "kbmira", "--epochs", 3, "-o", "tuned.json"],
    ["tune", "more.nbest", "--method", "adagrad", "--epochs", 2, "-o", "sparse.json"],
    ["compare", "list.nbest", "--select", "list.nbest", "--test", "list.nbest", "--systems", "decoder,kbmira", "--search", "none", "--force",
     "--trials", 20, "-o", "run"],
    ["loop", "few.src", "-r", "few.ref", "--ini", DATA / "system" / "moses.ini", "--method", "kbmira", "--set", "epochs=2",
     "--nbest", 5, "--set", "stack=10", "--max-iterations", 1, "-o", "loop"],
]  # fmt: skip
MODELS = ("constant", "linear", "affine", "global", "carried", "tuned", "sparse")


def main(target: Path) -> None:
    from boostfeat.features.feature_maker import FeatureMaker
    from boostfeat.formats import read
    from boostfeat.lists.build import ReadOptions, attach
    from boostfeat.lists.store import read_store, write_store
    from boostfeat.model.model import Model

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        lines = {kind: (DATA / f"dev.{kind}").read_text().splitlines() for kind in ("src", "ref")}
        for kind, texts in lines.items():
            (folder / f"few.{kind}").write_text("".join(line + "\n" for line in texts[:3]))
        nbest = read(DATA / "dev.nbest.xz", ReadOptions(source=lines["src"], size=6))
        write_store(attach(nbest, source=lines["src"], refs=[lines["ref"]], name="dev").take(range(15)), folder / "list.nbest")
        for words in COMMANDS:
            subprocess.run([sys.executable, "-m", "boostfeat", *map(str, words), "-q"], cwd=folder, check=True)
        lists = {name: read_store(folder / f"{name}.nbest") for name in ("list", "more")}
        expected, maker = {}, FeatureMaker()
        for name in MODELS:
            model, on = Model.load(folder / f"{name}.json"), "more" if name == "sparse" else "list"
            expected[name] = {
                "on": on,
                "signature": model.signature,
                "scores": model.decision_function(maker.for_model(lists[on], model)).tolist(),
            }
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        for path in folder.rglob("*.json"):  # no places of the machine that this ran on
            path.write_text(path.read_text().replace(str(folder), "/somewhere").replace(str(DATA), "data"))
        shutil.copytree(folder, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
