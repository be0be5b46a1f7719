"""Exports whole: every text that is written for a small model, beside the one in whole/.

That programs made of them compute the model's scores is tested elsewhere (test_export.py, test_export_moses.py); here, that nothing
else changes. After a change that is meant: BOOSTFEAT_GOLDEN=write pytest tests/export/test_whole_exports.py, and look at what it changes.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest
from test_export_moses import INI, STATIC, WEIGHTS, decoded, entries_of, stump, write_lines

from boostfeat.export import Context, ExportOptions, export
from boostfeat.model.model import Model

WHOLE = Path(__file__).parent / "whole"
CONTEXTUAL = (stump(5, "LM0", -3.0, 0.5, -0.5), stump(6, "jump", 1.5, 0.25, 0.75, on="LM0"))
PLAIN = Model({"LM0": 0.5, "zero": 0.0, 'odd "name"': -1.25}, (*STATIC[:3], CONTEXTUAL[0]))
SPARSE = {"sparse_a~b": 0.125, "sparse_c": -0.5}
CASES: dict[str, tuple[str, Model, dict[str, object]]] = {
    "c": ("c", PLAIN, {"prefix": "mine"}),
    "python": ("python", PLAIN, {}),
    "cdec": ("cdec", PLAIN, {}),
    "moses_weights": ("moses", Model({**WEIGHTS, **SPARSE}), {}),
    "moses_weights_in_an_ini": ("moses", Model({"LM0": 0.75, **SPARSE}), {"ini": "moses.ini"}),
    "moses_table": ("moses", Model(WEIGHTS, STATIC), {"phrase_table": "pt.gz"}),
    "moses_hidden_sum": ("moses", Model(WEIGHTS, STATIC[:2]), {"phrase_table": "pt.gz", "columns": "sum", "hidden": True, "ini": "moses.ini"}),
    "moses_function": ("moses", Model({**WEIGHTS, "jump": 0.5}, CONTEXTUAL), {}),
    "moses_function_hidden": ("moses", Model(WEIGHTS, CONTEXTUAL), {"columns": "sum", "hidden": True, "ini": "moses.ini"}),
    "moses_both": ("moses", Model({**WEIGHTS, **SPARSE, "len.diff": 1.5}, (*STATIC[:3], *CONTEXTUAL)), {"phrase_table": "pt.gz", "ini": "moses.ini"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_whole_exports(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target, model, options = CASES[case]
    Path("moses.ini").write_text(INI)
    _, lines = entries_of(decoded(seed=5, sentences=1, hyps=2))
    write_lines(Path("pt.gz"), lines)
    said: list[str] = []
    context = Context(options=ExportOptions(**options), warn=said.append)  # type: ignore[arg-type]
    files, check = export(model, target, tmp_path / "out", context)
    assert check is None
    parts = [f"warning: {line}\n" for line in said]
    for path in map(Path, files):
        if target == "moses" and path.suffix in (".h", ".cpp"):  # the same for all models
            parts.append(f"==> {path.name}\n")
            continue
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        parts.append(f"==> {path.name}\n{text}")
    found = re.sub(r"sha256:[0-9a-f]+", "sha256:HASH", "".join(parts).replace(str(tmp_path), ""))
    # exp() of another machine may differ in the last bit
    found = re.sub(r"\d\.\d{12,}(e-\d+)?", lambda number: f"{float(number[0]):.9g}", found)
    golden = WHOLE / f"{case}.txt"
    if os.environ.get("BOOSTFEAT_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found, encoding="utf-8")
    assert found.split("\n") == golden.read_text(encoding="utf-8").split("\n")
