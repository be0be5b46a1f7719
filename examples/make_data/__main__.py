"""How is data/ made?  python examples/make_data [FOLDER]      (about ten minutes; word alignment needs sil-thot)

A bilingual world is generated (world/), a system trained on its bitext (training/), its weights tuned on
sentences of their own, and the lists decoded (boostfeat/search/decoder). Of FOLDER, alignment.xz and weights.json are used again.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from training import TrainOptions, align, train_system, write_ini
from world import World

from boostfeat.core.files import open_output, read_bytes
from boostfeat.formats import write
from boostfeat.lists.build import attach
from boostfeat.lists.merging import merge
from boostfeat.lists.nbest import NBest
from boostfeat.model.model import Model
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.output import collect
from boostfeat.search.decoder.setup import SearchOptions, read_setup
from boostfeat.search.decoder.system import PhraseSystem
from boostfeat.tuners.base import Run
from boostfeat.tuners.kbmira import Kbmira

WORLD, TRAIN_LINES, TRAIN_SEED = World(), 20_000, 2
OPTIONS = TrainOptions(compression=".xz")
PREFIX = "data/system/"  # of the files in moses.ini: Moses is run in the folder that holds data/
SIZE, TUNE_ROUNDS = 100, 3  # hypotheses a list; rounds of decoding and kb-MIRA on the accumulated lists
EXTRA = ("count.log",)  # how often a phrase pair was seen: in the lists, with no weight
DIGITS, SCORE_DIGITS = 4, 6  # decimals of features and scores in the lists


@dataclass(frozen=True)
class Pair:
    """A direction of translation with its lists."""

    folder: str
    source: str
    target: str
    references: int
    parts: dict[str, tuple[int, int]]  # sentences, seed

    @cached_property
    def texts(self) -> dict[str, tuple[list[str], list[list[str]]]]:
        """Sources and references of each part."""
        languages = {"source": self.source, "target": self.target, "references": self.references}
        return {name: WORLD.sentences(n, **languages, seed=seed) for name, (n, seed) in self.parts.items()}

    @property
    def sources(self) -> list[str]:
        return [line for source, _ in self.texts.values() for line in source]


MAIN = Pair("", "tarvi", "selon", 1, {"tune": (300, 7), "dev": (600, 3), "select": (200, 4), "test": (300, 5)})
FOUR = Pair("four-refs", "selon", "tarvi", 4, {"tune": (200, 17), "dev": (200, 13), "select": (100, 14), "test": (100, 15)})


@cache
def bitext() -> tuple[list[str], list[str]]:
    return WORLD.bitext(TRAIN_LINES, source="tarvi", target="selon", seed=TRAIN_SEED)


def train(pair: Pair, folder: Path, alignments: list[str]) -> Path:
    """The pair's system, its tables filtered to its sentences; the moses.ini."""
    sides = bitext()
    if pair.source == "selon":
        sides = sides[::-1]
        alignments = [" ".join("-".join(link.split("-")[::-1]) for link in line.split()) for line in alignments]
    return train_system(*sides, folder, OPTIONS, alignments=alignments, only=pair.sources)


def load_decoder(ini: Path, extra: tuple[str, ...] = EXTRA) -> Decoder:
    given = read_setup(ini)
    system = PhraseSystem.load(phrase_table=given.phrase_table, lm=given.lm, reordering_table=given.reordering_table, only=None)
    options = SearchOptions(distortion_limit=given.distortion_limit)
    return Decoder(system, Model(given.weights), options, extra, unknown_weight=1.0)


def tune(decoder: Decoder, source: list[str], refs: list[list[str]]) -> Model:
    """Weights whose sizes sum to 1, after some rounds from Moses' start values."""
    model, lists = decoder.model, []
    for _ in range(TUNE_ROUNDS):
        found = collect(decoder.with_model(model).decode_all(source, threads=2), SIZE)
        lists.append(attach(found, source=source, refs=refs, name="tune"))
        learnt = Kbmira().fit(lists[0] if len(lists) == 1 else merge(lists), None, Run()).weights
        total = sum(map(abs, learnt.values()))
        model = Model({name: round(weight / total, 4) for name, weight in learnt.items()})
    return model


def decode(decoder: Decoder, source: list[str]) -> NBest:
    """The lists, rounded for print."""
    found = collect(decoder.decode_all(source, threads=2), SIZE)
    units = replace(found.units, x=np.round(found.units.x, DIGITS) + 0.0, score=np.round(found.units.score, SCORE_DIGITS) + 0.0)
    return replace(found, units=units, score=np.round(found.score, SCORE_DIGITS))


def make(pair: Pair, folder: Path, system: Path, alignments: list[str]) -> None:
    """The texts, system, weights and lists of a pair."""
    own = folder / pair.folder
    own.mkdir(parents=True, exist_ok=True)
    for name, (source, refs) in pair.texts.items():
        names = [f"{name}.src", *([f"{name}.ref"] if len(refs) == 1 else [f"{name}.ref{k}" for k in range(len(refs))])]
        for file, lines in zip(names, (source, *refs), strict=True):
            (own / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    ini = train(pair, system, alignments)
    if not (own / "weights.json").exists():
        tune(load_decoder(ini, ()), *pair.texts["tune"]).save(own / "weights.json")
    model = Model.load(own / "weights.json")
    write_ini(system, OPTIONS, model.weights)
    decoder = load_decoder(ini)
    for name in ("dev", "select", "test"):
        with open_output(own / f"{name}.nbest.xz") as stream:
            write(decode(decoder, pair.texts[name][0]), stream, format="moses-enriched")


def main(folder: Path) -> None:
    stored = folder / "system" / "alignment.xz"
    stored.parent.mkdir(parents=True, exist_ok=True)
    if not stored.exists():
        with open_output(stored) as stream:
            stream.write("".join(f"{line}\n" for line in align(*bitext())).encode())
    alignments = read_bytes(stored).decode().split("\n")[:-1]
    make(MAIN, folder, stored.parent, alignments)
    write_ini(stored.parent, OPTIONS, Model.load(folder / "weights.json").weights, prefix=PREFIX)
    with tempfile.TemporaryDirectory() as system:
        make(FOUR, folder, Path(system), alignments)
    for path in sorted(folder.rglob("*.xz")):
        path.write_bytes(lzma.compress(read_bytes(path), preset=9 | lzma.PRESET_EXTREME))
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("SHA256SUMS", "README.md"))
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files)
    (folder / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "data")
