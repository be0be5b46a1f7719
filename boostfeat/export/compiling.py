"""The machine's own compilers: what an export wrote is compiled, loaded and compared with what the library computes."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.errors import InputError, clip


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
    command = [*compiler, *language.flags, *LIBRARY, *flags, str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            f"{' '.join(compiler)}: expected it to compile the {what}, found: {clip(done.stderr, 300)}; try another "
            f"{language.variable}"
        )
    return ctypes.CDLL(str(library))
