"""A Moses binary in the loop: trees are one more score of its phrase table, or a feature function that Moses was built with.

Its lists show neither.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.files import digest
from ...export import Context, ExportOptions, export
from ...export.c import PREFIX
from ...export.moses.feature_function import class_name
from ...export.moses.writing import MosesJob, table_name
from ...features.feature_maker import plan_of
from ...formats.fields import component
from ...formats.moses.ini import MEMORY, Ini
from ...lists.nbest import NBest
from ...model.model import Model
from .decoders import CommandDecoder, write_ini
from .graph_lists import only_features

_LIST = "-f {ini} -i {input} -n-best-list {nbest} {size} distinct -report-segmentation-enriched true"


@dataclass(frozen=True)
class MosesDecoder(CommandDecoder):
    """Moses with its ini. A model of its own features is weights.

    Others come in a table, of trees over phrase pairs, or by the feature function that ``export --to moses`` writes.
    """

    phrase_table: str = ""  # the text that the ini's table was made from; "": models go through the feature function
    has_function: bool = False
    static_only: bool = True  # trees look at phrase pairs alone

    @classmethod
    def of(
        cls,
        moses: str | None,
        ini: str | None,
        phrase_table: str | None,
        *,
        size: int,
        threads: int,
        timeout: float | None,
        static_only: bool = True,
    ) -> MosesDecoder:
        """All that can be missing is looked for now, not after the first decoding."""
        program = shutil.which(moses or "moses")
        if program is None:
            raise InputError(f"--set moses: expected the program, found none at {moses or 'moses'}; give its path")
        if ini is None:
            raise InputError("--decoder moses: expected --ini FILE of the system, found none; give it")
        read = Ini.read(ini).require("feature", "weight")
        words = [os.path.abspath(program), *(["-threads", str(threads)] if threads > 1 else [])]
        command = shlex.join(word.replace("{", "{{").replace("}", "}}") for word in words) + f" {_LIST}"
        with_function = has_function(program)
        if with_function and not static_only:
            return cls(command, size, ini=ini, timeout=timeout, has_function=True, static_only=False)
        table = read.features()[table_name(Model({}), read, phrase_table or "")]
        path = phrase_table or (read.locate(table.arguments.get("path", "")) if table.kind == MEMORY else "")
        path = path if os.path.exists(path) else f"{path}.gz"  # as Moses does
        if not os.path.exists(path):
            raise InputError(
                f"{ini}: expected a phrase table that is a text file, found {table.kind} {table.arguments.get('path', '')}; "
                "give the text with --phrase-table"
            )
        place = os.path.abspath(path)
        return cls(
            command, size, ini=ini, timeout=timeout, phrase_table=place, has_function=with_function, static_only=static_only
        )

    def made_from(self) -> dict[str, Any]:
        by = {"phrase_table": digest(self.phrase_table)} if self.phrase_table else {"function": class_name(PREFIX)}
        return {**super().made_from(), "command": "moses", **by}

    def check_trees(self, level: str) -> None:
        if level == "global":
            raise InputError("--decoder moses: expected trees of level local, found global; rerank lists with them")
        if not self.static_only:
            self._need_function("trees over more than phrase pairs", "give --set static-only=yes for a stock Moses, or ")

    def check_templates(self) -> None:
        self._need_function("features of templates", "")

    def _need_function(self, what: str, instead: str) -> None:
        if not self.has_function:
            raise InputError(
                f"--decoder moses: expected a Moses with the feature function {class_name(PREFIX)} for {what}, found none; "
                f"{instead}build it in as the README of 'boostfeat export --to moses' says"
            )

    def write_weights(self, model: Model, folder: Path) -> None:
        """The ini of this model; its paths hold wherever Moses runs."""
        given = folder / "given.ini"
        Ini.read(str(self.ini)).located().write(given)
        options = ExportOptions(phrase_table=self.phrase_table or None, ini=str(given), columns="sum", hidden=True)
        context = Context(options=options, plan=plan_of(model))
        if not model.trees and (model.plan is None or MosesJob(model, context).is_plain):
            write_ini(model.weights, folder / "moses.ini", given)
            return
        export(model, "moses", folder / "moses", context)
        shutil.copyfile(folder / "moses" / "moses.ini", folder / "moses.ini")


def has_function(program: str) -> bool:
    """Whether a Moses was built with the feature function: without arguments it lists what it has."""
    try:
        said = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return class_name(PREFIX) in (said.stdout + said.stderr).split()


def without_trees(nbest: NBest, model: Model, first: NBest) -> NBest:
    """A list without what the model itself made: more values of a feature function than ``first`` has, trees by their names.

    They are functions of the other features: learned again, they would be counted twice, and equal hypotheses would differ.
    """
    sizes: dict[str, int] = {}
    for name in first.global_names:
        producer, k = component(name)
        sizes[producer] = max(sizes.get(producer, 0), k + 1)
    names = {tree.name for tree in model.trees}

    def is_made(name: str) -> bool:
        producer, k = component(name)
        rest = name.partition("_")[2]
        return name in names or producer.endswith("Trees0") or k >= sizes.get(producer, k + 1) or rest.rpartition(".")[0] in names

    dense = (*nbest.unit_names, *nbest.extra_names)
    kept = {name for name in dense if not is_made(name)}
    return nbest if len(kept) == len(set(dense)) else only_features(nbest, kept.union(nbest.sparse_names.to_pylist()))
