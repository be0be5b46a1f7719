"""``boostfeat doctor``: what it finds, and that it notices what is broken."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numba import config
from numba.core import caching

from boostfeat.cli import self_test as doctor
from boostfeat.core import arrays, warming
from boostfeat.core.kernels import Kernel
from boostfeat.losses.pairwise import PairwiseLogLoss
from boostfeat.trees.tree import Tree


def test_a_sound_installation(boostfeat):
    code, out, err = boostfeat("doctor", "--json")
    found = json.loads(out)
    assert (code, err, found["ok"]) == (0, "", True)
    assert len(found["checks"]) == 4
    assert all(check["ok"] for check in found["checks"])
    assert None not in found["versions"].values()
    assert found["numba_cache"]["loaded"] + found["numba_cache"]["compiled"] > 0
    assert found["machine"]["usable_cores"] >= 1


@pytest.mark.parametrize(
    ("owner", "name", "broken", "check", "what"),
    [
        (PairwiseLogLoss, "gradient", lambda self, scores: 1.01 * scores, 1, "expected the differences of the loss"),
        (
            Tree,
            "predict",
            lambda self, table: 0.0 * table.column("count"),
            2,
            "expected BLEU-SBP 100 with trees and less without",
        ),
        (doctor, "_middle_lists", lambda n, seed: None, 3, "AttributeError"),
    ],
)
def test_what_is_broken_is_found(monkeypatch, owner, name, broken, check, what):
    monkeypatch.setattr(owner, name, broken)
    found = list(doctor.self_test())[check]
    assert not found["ok"]
    assert what in found["found"]


def test_what_is_broken_is_shown(boostfeat, monkeypatch):
    monkeypatch.setattr(doctor, "self_test", lambda: [{"check": "trees", "ok": False, "found": "none", "seconds": 0.0}])
    monkeypatch.setitem(doctor.OPTIONAL, "no-such-package", "wishes")
    code, out, _ = boostfeat("doctor")
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert code == 1
    assert ["trees", "BROKEN: none (0.0 s)"] in lines
    assert ["no-such-package", "not found; needed for: wishes"] in lines


def test_a_missing_requirement(boostfeat, monkeypatch):
    monkeypatch.setattr(doctor, "REQUIRED", (*doctor.REQUIRED, "no-such-package"))
    code, out, _ = boostfeat("doctor")
    assert code == 1
    assert "missing: install it with pip" in out


def test_warm_compiles_what_the_file_names(boostfeat, monkeypatch):
    """Two kernels of the file; the second has a variant that cannot be compiled, as after a change of its arguments."""
    wanted = [
        (arrays._count, [["array uint32 1 C", "array float64 1 C"]]),
        (arrays._mix, [["uint64", "uint64"], ["none", "none"]]),
    ]
    monkeypatch.setattr(warming, "kernels_to_warm", lambda: wanted)
    code, out, _ = boostfeat("doctor", "--warm")
    assert code == 0
    assert "numba cache" in out
    assert all(kernel.compiled().signatures for kernel, _ in wanted)


def test_kernels_of_a_read_only_installation(tmp_path, monkeypatch, recwarn):
    """Compiled code goes to the user's cache where the package's folder cannot be written, nowhere where that cannot be; no word."""

    def refuse(self):
        raise PermissionError("read only")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(caching.InTreeCacheLocator, "ensure_cache_path", refuse)
    idx, out = np.array([0, 0, 1], np.uint32), np.zeros(2)
    for can_write in (True, False):
        if not can_write:
            monkeypatch.setattr(caching.UserWideCacheLocator, "ensure_cache_path", refuse)
        fresh = Kernel(arrays._count.py_func, None, {})
        fresh(idx, out)
        assert str(fresh.compiled().stats.cache_path or "").startswith(str(tmp_path)) is can_write
    assert out.tolist() == [4.0, 2.0]
    assert not recwarn
    monkeypatch.setattr(arrays, "_mix", fresh)
    assert doctor.numba_cache() == {"path": "nowhere", "writable": False, "kernels": 0}
