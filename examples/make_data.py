"""How are the lists in data/ made?  python examples/make_data.py [FOLDER]

They are generated (see boostfeat/synthetic.py): phrase pairs with a channel score, a lexical weight, a joint count and a
language model score, of which hypotheses are put together as a decoder does, and references that take the phrases a rare
pair's lexical weight speaks for twice as loudly ([TA13] Figure 2). The same seed gives the same bytes.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from boostfeat.files import open_output
from boostfeat.formats import write
from boostfeat.synthetic import SyntheticOptions, synthetic_nbest

SIZES = {"dev": 250, "select": 100, "test": 150}


def main(folder: Path) -> None:
    sums = []
    for seed, (name, n) in enumerate(SIZES.items()):
        nbest = synthetic_nbest(SyntheticOptions(sentences=n, hyps=50, features=6, noise=0.6), seed=seed)
        with open_output(folder / f"{name}.nbest.xz") as stream:
            write(nbest, stream, format="moses-enriched")
        (folder / f"{name}.src").write_text("".join(line + "\n" for line in nbest.source.to_pylist()))
        (folder / f"{name}.ref").write_text("".join(line + "\n" for line in nbest.refs.to_pylist()))
        sums += [
            f"{hashlib.sha256((folder / f'{name}.{x}').read_bytes()).hexdigest()}  {name}.{x}" for x in ("nbest.xz", "src", "ref")
        ]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "data")
