"""Digests of files and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from boostfeat.core.errors import InputError
from boostfeat.core.files import digest

pytestmark = pytest.mark.quick


def test_the_digest_of_a_folder_is_of_names_and_contents(tmp_path: Path):
    seen = set()
    for folder, name, text in (("a", "x", "1"), ("b", "x", "1"), ("c", "x", "2"), ("d", "y", "1")):
        (tmp_path / folder / "in").mkdir(parents=True)
        (tmp_path / folder / "in" / name).write_text(text)
        seen.add(digest(tmp_path / folder))
    assert len(seen) == 3
    with pytest.raises(InputError, match="none"):
        digest(tmp_path / "none")
