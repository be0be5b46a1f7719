"""Binary phrase tables, made by Moses' own tools: CompactPT for Moses, ProbingPT for Moses and Moses 2."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import InputError, clip, unknown_name


@dataclass(frozen=True)
class BinaryTable:
    """A kind of table: the program that makes it, and what an ini calls it."""

    program: str
    feature: str  # the feature function that reads it
    file: str  # or folder, beside the text
    command: Callable[[str, str, int], list[str]]  # of the text, the binary table and the number of scores


def _compact(text: str, table: str, n_scores: int) -> list[str]:
    return ["-in", text, "-out", table.removesuffix(".minphr"), "-nscores", str(n_scores)]


def _probing(text: str, table: str, n_scores: int) -> list[str]:
    return ["--input-pt", text, "--output-dir", table, "--num-scores", str(n_scores), "--log-prob"]


BINARY: dict[str, BinaryTable] = {
    "compact": BinaryTable("processPhraseTableMin", "PhraseDictionaryCompact", "phrase-table.minphr", _compact),
    "probing": BinaryTable("CreateProbingPT", "ProbingPT", "phrase-table.probing", _probing),
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
