"""``boostfeat doctor``: what it finds, and that it notices what is broken."""

from __future__ import annotations

import json

import pytest

from boostfeat.cli import installation_commands as doctor
from boostfeat.cli.console import laid_out
from boostfeat.trees.tree import Tree


def test_a_sound_installation(boostfeat):
    code, out, err = boostfeat("doctor", "--json")
    found = json.loads(out)
    assert (code, err, found["ok"]) == (0, "", True)
    assert all(check["ok"] for check in found["checks"])
    assert None not in found["versions"].values()
    assert found["numba_cache"]["kernels"] > 0
    assert found["machine"]["usable_cores"] >= 1


@pytest.mark.parametrize(
    ("owner", "name", "broken", "what"),
    [
        (Tree, "predict", lambda self, table: 0.0 * table.column("count"), "expected BLEU-SBP 100 with trees and less without"),
        (doctor, "_middle_lists", lambda n, seed: None, "AttributeError"),
    ],
)
def test_what_is_broken_is_found(monkeypatch, owner, name, broken, what):
    monkeypatch.setattr(owner, name, broken)
    found = doctor.self_test()
    assert not found["ok"]
    assert what in found["found"]


def test_words_stay_whole_on_a_terminal():
    """80 columns; what is piped has a line each."""
    told = "not found; needed for: " + "checks of the language model " * 3
    path = "/" + "long-folder/" * 8  # it has no place to be broken at
    lines = [["a store is read as it was written", "ok"], ["kenlm", told], ["numba cache", path]]
    shown = laid_out(lines, 80).splitlines()
    assert [line.split() for line in laid_out(lines, None).splitlines()] == [f"{name} {found}".split() for name, found in lines]
    assert shown[0] == "a store is read as it was written    ok"
    assert [line.strip() for line in shown[-1:]] == [f"numba cache{' ' * 26}{path}"]
    assert len(shown) == 5
    assert max(map(len, shown[:-1])) <= 80
    assert " ".join(line[37:] for line in shown[1:-1]) == told.strip()
    narrow = ["name" + " " * 4 + "a", " " * 8 + "b"]
    assert [laid_out([["name", "a b"]], width).splitlines() for width in (1, 8, 10, 11)] == [
        narrow,
        narrow,
        narrow,
        ["name    a b"],
    ]


def test_warm_runs_a_small_job(boostfeat):
    code, out, err = boostfeat("doctor", "--warm", "-q")
    assert (code, err) == (0, "")
    assert "compiled kernels" in out


MACHINE = {
    "usable_cores": 2,
    "cores": 8,
    "limits": {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"},
    "memory_mb": 16000,
    "memory_free_mb": 8123,
    "disk_free_mb": {"/tmp": 1234567},
}
SHOWN = """\
python                  3.11.2
numpy                   2.0
onnx                    not found; needed for: {onnx}
cc                      12.2
threads                 2 of 8 cores, OMP_NUM_THREADS=1, NUMBA_NUM_THREADS=2
memory                  8,123 of 16,000 MB free
disk                    1,234,567 MB free in /tmp
numba cache             /cache{not_writable}
                        7 compiled kernels
trees                   {ok}: 100 (1.2 s)
"""


@pytest.mark.parametrize(("writable", "ok"), [(True, True), (True, False), (False, True)])
def test_what_a_person_reads(boostfeat, monkeypatch, writable, ok):
    check = {"check": "trees", "ok": ok, "found": "100", "seconds": 1.24}
    cache = {"path": "/cache", "writable": writable, "kernels": 7}
    needed, parts = {"python": "3.11.2", "numpy": "2.0"}, {"onnx": None, "cc": "12.2"}
    found = {"versions": needed, "optional_parts": parts, "machine": MACHINE, "numba_cache": cache}
    for name, value in {**found, "self_test": check}.items():
        monkeypatch.setattr(doctor, name, lambda value=value: value)
    words = {
        "onnx": doctor.OPTIONAL["onnx"],
        "not_writable": "" if writable else " (not writable: set NUMBA_CACHE_DIR to a folder that is)",
        "ok": "ok" if ok else "BROKEN",
    }
    width = max(len(line.split("  ")[0]) for line in SHOWN.splitlines())
    code, out, err = boostfeat("doctor")
    lines = [line.format(**words) for line in SHOWN.splitlines()]
    assert (code, err) == (0 if ok else 1, "")
    assert out.splitlines() == [line[:24].rstrip().ljust(width) + "    " + line[24:] for line in lines]
    result = {"ok": ok, "versions": needed, "optional": parts, "machine": MACHINE, "numba_cache": cache, "checks": [check]}
    assert json.loads(boostfeat("doctor", "--json")[1]) == result
