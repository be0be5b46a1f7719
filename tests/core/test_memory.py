"""Memory of a stage goes back to the system."""

from __future__ import annotations

import ctypes

import pytest

from boostfeat.core import memory
from boostfeat.core.memory import give_back

pytestmark = pytest.mark.quick


def test_the_c_library_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: type("Library", (), {"malloc_trim": asked.append}))
    give_back()
    assert asked == [0]


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    give_back()


def test_the_pages_of_mapped_columns_go_too(monkeypatch):
    gone = []
    monkeypatch.setattr(memory, "Pages", lambda column: type("Pages", (), {"let_go": lambda self: gone.append(column)})())
    give_back("one", "other")
    assert gone == ["one", "other"]
