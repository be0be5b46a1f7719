"""A phrase-based system from parallel text: tables, language model and ini file in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from boostfeat.core.files import open_output
from boostfeat.formats.fields import format_features, group_names
from boostfeat.formats.moses.ini import Ini

from .align import align
from .bitext import make_bitext
from .kneser_ney import estimate, write_arpa
from .phrase_table import make_phrase_table

# Moses' own start values; the decoder's names
START = {
    **{f"LexicalReordering0_{i}": 0.3 for i in range(6)},
    "Distortion0": 0.3,
    "LM0": 0.5,
    "WordPenalty0": -1.0,
    "PhrasePenalty0": 0.2,
    **{f"TranslationModel0_{i}": 0.2 for i in range(4)},
}


@dataclass(frozen=True)
class TrainOptions:
    """Moses' customs, but for the order of the language model: small texts have few long n-grams."""

    max_length: int = 7  # words of a phrase
    order: int = 3  # of the language model
    iterations: int = 5  # of EM, for each word alignment model
    distortion_limit: int = 6
    compression: str = ".gz"  # of phrase table and language model: .gz, .xz, .zst, .bz2 or none

    def files(self) -> dict[str, str]:
        """The names of the system's files; Moses reads a reordering table plain or as .gz, whatever it does with the others."""
        end = self.compression
        names = {"phrase_table": f"phrase-table{end}", "lm": f"lm.arpa{end}"}
        return {**names, "reordering_table": f"reordering-table{'.gz' if end else ''}"}


def train_system(
    source: Sequence[str],
    target: Sequence[str],
    folder: str | Path,
    options: TrainOptions | None = None,
    *,
    alignments: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
) -> Path:
    """Train on parallel lines and write the folder; its moses.ini is returned.

    alignments: links of each line, where they are known; only: sentences whose phrases are all that the tables need to hold.
    """
    options = options or TrainOptions()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if alignments is None:
        alignments = align(source, target, iterations=options.iterations)
    table = make_phrase_table(make_bitext(source, target, alignments), max_length=options.max_length)
    if only is not None:
        table = table.keep(only)
    files = options.files()
    for name, write in (
        ("phrase_table", table.write),
        ("reordering_table", table.write_orientation),
        ("lm", partial(write_arpa, estimate(target, order=options.order))),
    ):
        with open_output(folder / files[name]) as stream:
            write(stream)
    return write_ini(folder, options)


def write_ini(folder: Path, options: TrainOptions, weights: Mapping[str, float] = START, *, prefix: str = "") -> Path:
    """moses.ini of a folder that train_system has written.

    Its paths are relative to the folder. Moses takes paths from where it runs: ``prefix`` is the way from there to the folder.
    """
    path = {name: prefix + file for name, file in options.files().items()}
    features = [
        "UnknownWordPenalty",
        "WordPenalty",
        "PhrasePenalty",
        f"PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={path['phrase_table']} "
        "input-factor=0 output-factor=0",
        "LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff input-factor=0 "
        f"output-factor=0 path={path['reordering_table']}",
        "Distortion",
        f"KENLM name=LM0 factor=0 path={path['lm']} order={options.order}",
    ]
    values = list(weights.values())
    sections = {
        "input-factors": ["0"],
        "mapping": ["0 T 0"],
        "distortion-limit": [str(options.distortion_limit)],
        "feature": features,
        "weight": ["UnknownWordPenalty0= 1", *(format_features([group], values) for group in group_names(list(weights)))],
    }
    Ini.of(sections).write(folder / "moses.ini")
    return folder / "moses.ini"
