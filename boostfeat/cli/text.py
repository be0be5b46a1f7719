"""Descriptions of models for a terminal."""

from __future__ import annotations

from typing import Any


def described_text(what: dict[str, Any], *, top: int, most_trees: int) -> str:
    """The description for a terminal: sparse weights up to ``top``, and so many trees, those of the largest effect (0: all)."""
    from ..core.text_table import table

    lines = [what["signature"], *([what["decides"]] if what["decides"] else []), ""]
    many = [f for f in what["features"] if f["weight"] and (f["sparse"] or f["effect"] is None)]
    few = [f for f in what["features"] if (f["effect"] is not None and not f["sparse"]) or f["weight"] is None]
    rows = [[f["name"], _short(f["weight"]), _short(f["total_effect"])] for f in few]
    rows += [[f["name"], _short(f["weight"]), _short(f["effect"] and f["total_effect"])] for f in many[:top]]
    known = any(row[2] for row in rows)  # a tuner's model has no effects before it is seen on a list
    header = ["feature", "weight", "total effect"][: 2 + known]
    lines.append(table([row[: len(header)] for row in rows], header=header))
    if len(many) > top:
        lines.append(f"... and {len(many) - top} more (--top N)")
    largest = sorted(what["trees"], key=lambda tree: -(tree["effect"] or 0.0))[: most_trees or None]
    for tree in (tree for tree in what["trees"] if any(tree is one for one in largest)):
        effect = f"  (effect {_short(tree['effect'])})" if tree["effect"] is not None else ""
        lines += ["", f"{tree['name']}{effect}", *("  " + line for line in tree["rules"].split("\n"))]
    if len(largest) < len(what["trees"]):
        lines += ["", f"... and {len(what['trees']) - len(largest)} trees of smaller effect (--trees 0 shows all)"]
    return "\n".join(lines)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
