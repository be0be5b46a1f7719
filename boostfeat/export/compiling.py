"""The machine's own compilers, and the texts of a list's units as arrays that compiled code reads."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..core.arrays import I64, Array, offsets
from ..core.errors import InputError, clip
from ..core.text import Strings
from ..lists.nbest import Units
from ..lists.words import checked_links, words_of


class Language(NamedTuple):
    name: str
    variable: str  # of the environment: the compiler that a person wants
    commands: tuple[str, ...]  # else the first of these that is there
    ending: str
    flags: tuple[str, ...]


LIBRARY = ("-fPIC", "-shared", "-ffp-contract=off")  # fused multiply-adds (also by -march) would round once where we round twice
C = Language("C", "CC", ("cc", "gcc", "clang"), ".c", ("-std=c99", "-O2"))
CXX = Language("C++", "CXX", ("c++", "g++", "clang++"), ".cpp", ("-std=c++11", "-O1"))


def compiler_command(language: Language, target: str) -> list[str]:
    """The compiler and its arguments; ``target`` is the export that is to be verified."""
    chosen = os.environ.get(language.variable, "").split()
    found = chosen or [name for name in language.commands if shutil.which(name)][:1]
    if not found or not shutil.which(found[0]):
        what = f"{language.variable}={chosen[0]}" if chosen else "none"
        raise InputError(
            f"--to {target}: expected a {language.name} compiler to verify with, found {what}; set {language.variable}, "
            "or give --no-verify"
        )
    return found


def compiled(code: str, folder: Path, language: Language, *, target: str, what: str, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """The code as a library that is loaded; its files are in ``folder``. ``what`` the export calls it."""
    compiler = compiler_command(language, target)
    source, library = (folder / f"driver{ending}" for ending in (language.ending, ".so"))
    source.write_text(code)
    command = [*compiler, *language.flags, *LIBRARY, str(source), "-o", str(library), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            f"{' '.join(compiler)}: expected it to compile the {what}, found: {clip(done.stderr, 300)}; try another "
            f"{language.variable}"
        )
    return ctypes.CDLL(str(library))


@dataclass(frozen=True)
class UnitArrays:
    """Words of rows: those of ``more`` (source sentences, say), then the units' sources, then their targets."""

    texts: Array  # bytes of the dictionary
    at: I64  # where each word of the dictionary begins, and the end
    ptr: I64  # of rows
    words: I64
    link_ptr: I64  # of units
    links: Array  # int32: source word, target word, ...; by source, then target

    @classmethod
    def of(cls, units: Units, *more: Strings) -> UnitArrays:
        words = words_of(pa.concat_arrays([*more, units.src, units.tgt]))
        names = [name.encode("utf-8", "surrogatepass") for name in words.names.to_pylist()]
        links = list(map(cache(lambda align: sorted(checked_links(align))), units.align.to_pylist()))
        at, link_ptr = (offsets(np.array([*map(len, parts)], np.int64)) for parts in (names, links))
        places = np.array([place for own in links for link in own for place in link], np.int32)
        texts = np.frombuffer(b"".join(names) + b"\0", np.uint8)
        return cls(texts, at, words.ptr, np.append(words.ids, 0), link_ptr, places)

    @property
    def pointers(self) -> list[ctypes.c_void_p]:
        """Arguments of a C function, in the order of the fields; they live as long as this object."""
        return pointers(self.texts, self.at, self.ptr, self.words, self.link_ptr, self.links)


def pointers(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(a.ctypes.data) for a in arrays]
