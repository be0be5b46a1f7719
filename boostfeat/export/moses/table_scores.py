"""Scores that trees add to a phrase table, as text or as a binary table made by Moses' own tools.

The loader of Moses takes the logarithm of every score, in single precision, and floors it at -100: what is to come out as v is
written as exp(v). Sparse features of entries are no way: Moses reads their weights after its tables, so that they are missing in
its future costs and in the order of options (TargetPhrase::EvaluateInIsolation), and search goes astray.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import IO

import numpy as np

from ...core.arrays import F64
from ...core.errors import InputError, clip, unknown_name
from ...core.feature_table import FeatureTable
from ...core.text import Strings
from ...features import FeaturePlan
from ...features.templates.phrase import count_features
from ...formats.fields import score_names
from ...formats.moses.table_files import ALIGNMENT, SOURCE, TARGET, Entries, read_entries, spliced
from ...lists.nbest import strings
from ...model.model import unit_table
from ..phrase_pairs import PairFeatures, factors

DIGITS = 10  # nine tell all single-precision numbers apart; one more keeps sums over many trees within 1e-6
LEAST, MOST = -87.3, 88.7  # exp(v) is a normal number in single precision; others lose digits, or become 0 or infinite
COUNT_NAMES = frozenset(count_features(0.0))  # entries bring their counts: no lookup by phrases, as for lists
_PENALTY = re.compile(r"(WordPenalty|PhrasePenalty|UnknownWordPenalty)\d*")

Value = Callable[[FeatureTable], F64]


@dataclass(frozen=True)
class EntryFeatures:
    """Features that trees look at, from a line of the table: its scores, Moses' penalties, and static templates."""

    pairs: PairFeatures
    n_scores: int  # that the features are computed from; a table may have more

    @classmethod
    def of(cls, names: Collection[str], producer: str, n_scores: int, plan: FeaturePlan | None = None) -> EntryFeatures:
        """For these names; ``producer`` is the feature function whose scores the table holds, as TranslationModel0."""
        asked = {*names, *factors(names, plan)}
        own = sorted(name for name in asked if _PENALTY.fullmatch(name) or name in COUNT_NAMES)
        return cls(PairFeatures.of(names, (*score_names(producer, n_scores), *own), plan), n_scores)

    def table(self, entries: Entries) -> FeatureTable:
        """Rows of features; one row more than there are entries, see PairFeatures.compute."""
        own = self.pairs.own[self.n_scores :]
        x = np.empty((len(entries), len(self.pairs.own)))
        x[:, : self.n_scores] = entries.logs(np.float32)[:, : self.n_scores]
        counts, row = np.unique(entries.joint_counts(), return_inverse=True) if COUNT_NAMES & set(own) else (np.zeros(0), 0)
        made = list(map(count_features, counts.tolist()))
        for k, name in enumerate(own, self.n_scores):
            is_count = name in COUNT_NAMES
            x[:, k] = np.array([found[name] for found in made])[row] if is_count else _penalty(name, entries)
        nothing = strings([""] * len(entries))
        src, tgt, align = (entries.texts(f) if self.pairs.plan.entries else nothing for f in (SOURCE, TARGET, ALIGNMENT))
        return unit_table(self.pairs.compute(x, src=src, tgt=tgt, align=align))


def _penalty(name: str, entries: Entries) -> F64 | float:
    """Moses' penalties of an entry: minus its target words, 1 a phrase, and 0, since what a table has is not unknown."""
    if name.startswith("WordPenalty"):
        return -np.diff(entries.words(TARGET)[0]).astype(np.float64)
    return 1.0 if name.startswith("PhrasePenalty") else 0.0


@dataclass(frozen=True)
class Scores:
    """Named scores, each a function of the features, written as exp(v)."""

    names: tuple[str, ...]
    values: tuple[Value, ...]

    def texts(self, table: FeatureTable, place: Callable[[int], str]) -> Strings:
        """[n] what is added to each row; ``place`` names a row in errors."""
        values = np.stack([value(table) for value in self.values])  # [k, n]
        outside = ~((values >= LEAST) & (values <= MOST))
        if outside.any():
            row, k = np.argwhere(outside.T)[0]
            raise InputError(
                f"{place(int(row))}: {self.names[k]}: expected a value from {LEAST} to {MOST}, whose exponential Moses can read, "
                f"found {values[k, row]:.6g}; export it as a feature function, without --phrase-table"
            )
        form = " ".join([f"%.{DIGITS}g"] * len(values))
        return strings([form % tuple(row) for row in np.exp(values).T.tolist()])


def augment_table(
    path: str | Path,
    stream: IO[bytes] | GzipFile,
    features: EntryFeatures,
    columns: Scores,
    report: Callable[[int], None] = lambda n: None,
) -> int:
    """Write a table with more scores; all else stays as it is. Gives the number of entries."""
    n = 0
    written: Future[int] | None = None
    with ThreadPoolExecutor(1) as writer:  # compression releases the GIL: it overlaps with the next chunk
        for entries in read_entries(path):
            texts = columns.texts(features.table(entries), entries.place)[: len(entries)]
            lines = spliced(entries, texts)
            if written is not None:
                written.result()
            written = writer.submit(stream.write, lines)
            n += len(entries)
            report(n)
        if written is not None:
            written.result()
    return n


@dataclass(frozen=True)
class BinaryTable:
    """A kind of table: the program that makes it, and what an ini calls it."""

    program: str
    feature: str  # the feature function that reads it
    file: str  # or folder, beside the text
    words: str  # of the command, with the text, the table and the number of scores in braces

    def command(self, text: str, table: str, n_scores: int) -> list[str]:
        return [word.format(text=text, table=table.removesuffix(".minphr"), n=n_scores) for word in self.words.split()]


BINARY: dict[str, BinaryTable] = {
    "compact": BinaryTable(
        "processPhraseTableMin", "PhraseDictionaryCompact", "phrase-table.minphr", "-in {text} -out {table} -nscores {n}"
    ),
    "probing": BinaryTable(
        "CreateProbingPT",
        "ProbingPT",
        "phrase-table.probing",
        "--input-pt {text} --output-dir {table} --num-scores {n} --log-prob",
    ),
}


def binary_table(kind: str) -> BinaryTable:
    if kind not in BINARY:
        raise unknown_name("--binary", kind, BINARY)
    return BINARY[kind]


def make_binary(kind: str, text: Path, n_scores: int) -> list[Path]:
    """The binary table of a text beside it, as files; none where its program is not found."""
    made = binary_table(kind)
    program = shutil.which(made.program)
    if program is None:
        return []
    place = text.with_name(made.file)
    done = subprocess.run([program, *made.command(str(text), str(place), n_scores)], capture_output=True, text=True, check=False)
    files = sorted(place.rglob("*")) if place.is_dir() else [place] if place.exists() else []
    if done.returncode or not files:
        said = clip((done.stderr or done.stdout).strip()[-300:], 300)
        raise InputError(f"--binary: expected {made.program} to make {made.file}, found exit code {done.returncode}: {said}")
    return [file for file in files if file.is_file()]
