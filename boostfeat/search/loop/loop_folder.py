"""RUN/: config.json (what the run is made from), iteration-NN/ (model, lists, logs, state), results.json and model.json.

Every file is whole or absent, and an iteration's state.json is its last: what is there when a run is killed is not done again.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...core.errors import InputError, clip_json, refuse_newer
from ...core.strict_json import object_of, read_json, write_json
from ...lists.nbest import NBest
from ...lists.store import read_store, write_store
from ...model.model import Model

VERSION = 1


@dataclass(frozen=True)
class LoopFolder:
    path: Path

    def iteration(self, k: int) -> Path:
        return self.path / f"iteration-{k:02d}"

    def open(self, made_from: Mapping[str, Any], *, resume: bool, force: bool) -> None:
        """Make the folder, or check that what is there belongs to the same run; ``force`` removes it."""
        made_from = json.loads(
            json.dumps({**made_from, "version": __version__})
        )  # tuples become lists, as they are when read back
        config = read_json(self.path / "config.json")
        if isinstance(config, dict):
            refuse_newer(str(self.path), config.get("boostfeat"), "loop", VERSION)
        found = self.path.is_dir() and any(self.path.glob("iteration-*"))
        if found and force:
            self._clear(config)
        elif found and not resume:
            raise InputError(f"{self.path}: expected a new folder, found an earlier run; --resume goes on, --force replaces it")
        elif found:
            old = object_of(config, "made_from")
            for name in {**made_from, **old}:
                if old.get(name) != made_from.get(name):
                    was, now = clip_json(old.get(name)), clip_json(made_from.get(name))
                    raise InputError(
                        f"{self.path}: expected the run's own {name} {was}, found {now}; give the same, or choose another -o"
                    )
        write_json(self.path / "config.json", {"boostfeat": f"loop/{VERSION}", "made_from": made_from})

    def _clear(self, config: Mapping[str, Any] | None) -> None:
        if config is None or not str(config.get("boostfeat", "")).startswith("loop/"):
            raise InputError(f"{self.path}: expected an earlier run of 'boostfeat loop' to replace, found another folder")
        for entry in self.path.iterdir():
            if re.fullmatch(r"iteration-\d+", entry.name):
                shutil.rmtree(entry)
        for name in ("results.json", "model.json"):
            (self.path / name).unlink(missing_ok=True)

    # -- an iteration ------------------------------------------------------------------------------------------------

    def state(self, k: int) -> dict[str, Any] | None:
        """What an iteration that is finished has kept."""
        return read_json(self.iteration(k) / "state.json")

    def finish(self, k: int, state: Mapping[str, Any]) -> None:
        write_json(self.iteration(k) / "state.json", state)

    def model(self, k: int) -> Model:
        return Model.load(self.iteration(k) / "model.json")

    def has_model(self, k: int) -> bool:
        return (self.iteration(k) / "model.json").exists()

    def list(self, k: int, name: str) -> NBest:
        return read_store(self.iteration(k) / f"{name}.nbest")

    def has_list(self, k: int, name: str) -> bool:
        return (self.iteration(k) / f"{name}.nbest").exists()

    def keep_list(self, k: int, name: str, nbest: NBest) -> NBest:
        """The list as it is read back, so that an interrupted run goes on with the same bits."""
        write_store(nbest, self.iteration(k) / f"{name}.nbest")
        return self.list(k, name)
