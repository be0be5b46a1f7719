"""Files beside lists with a line twice, a character less or a number that is none: whole error lines, or that they are read.

The files in damaged/ were made by the program; what was read was looked through. After a change that is meant: see tests/golden.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fuzz.readers import READERS, samples_of
from golden import check_golden, damages

from boostfeat.core.errors import InputError

FILES = (
    *(
        *("numbers", "numbers-column", "numbers-of-tokens", "quality", "join-column", "join-tokens"),
        *("join-list", "espnet", "espnet-scores"),
    ),
    *("templates-toml", "groups-toml", "start", "weights", "setup", "ini", "loop-ini", "export-ini", "graph-names", "arpa"),
    *("phrase-table", "table-entries", "reordering-table", "phrase-counts", "clusters", "lexicon", "links"),
    *("references", "model", "plan", "vocab", "run-results", "run-config"),
)


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(tmp_path, name):
    reader, results = READERS[name], {}
    for k, sample in enumerate(samples_of(name, real=False)):
        for what, text in damages(sample.decode(), lambda n: (0, n // 3, 2 * n // 3, n - 1), ("x", "1e999", "-7")):
            path = tmp_path / reader.name
            path.write_text(text)
            try:
                reader.check(reader.read(str(path)))
                results[f"{k}: {what}"] = "read"
            except InputError as error:
                told = str(error).replace(f"{path}", "FILE").replace(f"{tmp_path}/", "")
                told = told.replace("JSON compliant: inf", "JSON compliant")  # since Python 3.12
                results[f"{k}: {what}"] = re.sub("(JSON|TOML), found [^;]*", r"\1, found none", told)
    golden = Path(__file__).parent / "damaged" / f"{name}.json"
    check_golden(json.loads(json.dumps(results)), golden)
