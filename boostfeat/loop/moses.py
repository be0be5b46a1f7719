"""A Moses binary in the loop: trees over phrase pairs are one more score of its phrase table, which its lists do not show."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.digests import digest
from ..core.errors import InputError
from ..export import Context, ExportOptions, export
from ..export.moses.writing import table_name
from ..formats.moses.ini import MEMORY, Ini
from ..formats.moses.labels import component
from ..lists.build import assemble
from ..lists.nbest import NBest
from ..model.model import Model
from .decoders import CommandDecoder
from .weights import write_ini

_LIST = "-f {ini} -i {input} -n-best-list {nbest} {size} distinct -report-segmentation-enriched true"


@dataclass(frozen=True)
class MosesDecoder(CommandDecoder):
    """A stock Moses with its ini. A model without trees is weights; trees come in a table of their own."""

    phrase_table: str = ""  # the text that the ini's table was made from

    @classmethod
    def of(
        cls, moses: str | None, ini: str | None, phrase_table: str | None, *, size: int, threads: int, timeout: float | None
    ) -> MosesDecoder:
        """All that can be missing is looked for now, not after the first decoding."""
        program = shutil.which(moses or "moses")
        if program is None:
            raise InputError(f"--moses: expected the program, found none at {moses or 'moses'}; give its path")
        if ini is None:
            raise InputError("--decoder moses: expected --ini FILE of the system, found none; give it")
        read = Ini.read(ini).require("feature", "weight")
        table = read.features()[table_name(Model({}), read, phrase_table or "")]
        path = phrase_table or (read.locate(table.arguments.get("path", "")) if table.kind == MEMORY else "")
        path = path if os.path.exists(path) else f"{path}.gz"  # as Moses does
        if not os.path.exists(path):
            raise InputError(
                f"{ini}: expected a phrase table that is a text file, found {table.kind} {table.arguments.get('path', '')}; "
                "give the text with --phrase-table"
            )
        words = [os.path.abspath(program), *(["-threads", str(threads)] if threads > 1 else [])]
        command = shlex.join(word.replace("{", "{{").replace("}", "}}") for word in words) + f" {_LIST}"
        return cls(command, size, ini=ini, timeout=timeout, phrase_table=os.path.abspath(path))

    def made_from(self) -> dict[str, Any]:
        return {**super().made_from(), "command": "moses", "phrase_table": digest(self.phrase_table)}

    def check_trees(self, level: str) -> None:
        if level == "global":
            raise InputError("--decoder moses: expected trees of level local, found global; rerank lists with them")

    def write_weights(self, model: Model, folder: Path) -> None:
        """The ini of this model; its paths hold wherever Moses runs."""
        given = folder / "given.ini"
        Ini.read(str(self.ini)).located().write(given)
        if not model.trees:
            write_ini(model.weights, folder / "moses.ini", given)
            return
        options = ExportOptions(phrase_table=self.phrase_table, ini=str(given), columns="sum", hidden=True)
        export(model, "moses", folder / "moses", Context(options=options))
        shutil.copyfile(folder / "moses" / "moses.ini", folder / "moses.ini")


def without_trees(nbest: NBest, model: Model, first: NBest) -> NBest:
    """A list without what the model itself made: more values of a feature function than ``first`` has, trees by their names.

    They are functions of the other features: learnt again, they would be counted twice, and equal hypotheses would differ.
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

    kept = [k for k, name in enumerate(nbest.unit_names) if not is_made(name)]
    extra = [k for k, name in enumerate(nbest.extra_names) if not is_made(name)]
    if len(kept) == len(nbest.unit_names) and len(extra) == len(nbest.extra_names):
        return nbest
    return assemble(
        replace(
            nbest,
            units=replace(nbest.units, x=nbest.X[:, kept]),
            unit_names=tuple(nbest.unit_names[k] for k in kept),
            extra=nbest.extra[:, extra],
            extra_names=tuple(nbest.extra_names[k] for k in extra),
        )
    )
