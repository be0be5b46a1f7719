"""Trainings by what they are made from: each is carried out once, by a worker, and kept in RUN/fits for other runs too."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import InputError
from ..core.files import open_output, read_bytes
from ..core.strict_json import parse_json
from ..model.model import Model
from .systems import Fit, FitOptions, Fitted, boost_options

VERSIONS = ("numpy", "scipy", "lightgbm", "sacrebleu", "numba")
SUFFIX = ".json.gz"


class _Kept(msgspec.Struct):
    """A file of RUN/fits."""

    made_from: dict[str, Any]
    select: float
    seconds: float
    peak_mb: float
    model: dict[str, Any]


@lru_cache
def code_digest() -> str:
    """Of this package and of what its numbers come from: other code is asked anew."""
    package = Path(__file__).parents[1]
    parts = [f"{name} {version(name)}" for name in VERSIONS]
    parts += [f"{p.relative_to(package)} {hashlib.sha256(p.read_bytes()).hexdigest()}" for p in sorted(package.rglob("*.py"))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def fit_made_from(fit: Fit, lists: Mapping[str, Any], options: FitOptions) -> dict[str, Any]:
    """All that a fit depends on; ``lists`` say what dev and select are made from."""
    what = {
        "lists": lists,
        "fit": fit.made_from,
        "boosting": _boosting(fit, options),
        "gain": options.gain,
        "metric": options.metric,
        "code": code_digest(),
    }
    made_from: dict[str, Any] = json.loads(json.dumps(what))  # tuples become lists, as they are when read back
    return made_from


def _boosting(fit: Fit, options: FitOptions) -> str | None:
    return repr(boost_options(fit.system, options, fit.params)) if fit.system.level else None


def key_of(made_from: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class KeptFits:
    """RUN/fits: one file a fit, called after the digest of what it is made from. Those of runs beside this one are taken over."""

    folder: Path
    beside: tuple[Path, ...] = field(default=())

    @classmethod
    def of(cls, run: Path) -> KeptFits:
        own = run / "fits"
        own.mkdir(exist_ok=True)
        return cls(own, tuple(sorted(p for p in run.absolute().parent.glob("*/fits") if p != own.absolute())))

    def path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def find(self, made_from: Mapping[str, Any]) -> Fitted | None:
        """The fit, if it is here, or in a run beside this one; then it is here afterwards."""
        for folder in (self.folder, *self.beside):
            fitted = _read(folder / f"{key_of(made_from)}{SUFFIX}", made_from)
            if fitted is not None:
                if folder != self.folder:
                    self.keep(made_from, fitted)
                return fitted
        return None

    def keep(self, made_from: Mapping[str, Any], fitted: Fitted) -> None:
        parts = {"select": fitted.select, "seconds": fitted.seconds, "peak_mb": fitted.peak_mb, "model": fitted.model.to_json()}
        with open_output(self.path(key_of(made_from))) as stream:
            stream.write(json.dumps({"made_from": made_from, **parts}, ensure_ascii=False).encode())


def _read(path: Path, made_from: Mapping[str, Any]) -> Fitted | None:
    """The fit that is kept there; None where there is none, half of it, or another."""
    try:
        kept = msgspec.convert(parse_json(read_bytes(path)), _Kept) if path.exists() else None
        if kept is None or kept.made_from != made_from:
            return None
        return Fitted(Model.from_json(kept.model, str(path)), kept.select, kept.seconds, kept.peak_mb)
    except (InputError, ValueError):  # msgspec's errors are ValueErrors
        return None
