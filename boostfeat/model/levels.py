"""Levels of a model: its units are phrases in context, or whole hypotheses."""

from __future__ import annotations

from typing import Literal, get_args

Level = Literal["local", "global"]
LEVELS: tuple[Level, ...] = get_args(Level)
