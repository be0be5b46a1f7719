"""Run a notebook's code in this process, without Jupyter, and keep what its cells show.

    python tests/notebooks.py examples/tour.ipynb        # runs it and stores its outputs in the file

A cell shows what it prints and the value of its last line, as Jupyter does: HTML where the value has it, and its text.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(path: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, run in turn in the notebook's folder."""
    names: dict[str, Any] = {"__name__": "__notebook__"}
    cells = code_cells(json.loads(path.read_text(encoding="utf-8")))
    here = os.getcwd()
    try:
        os.chdir(path.parent)
        return [_outputs("".join(cell["source"]), names, k + 1) for k, cell in enumerate(cells)]
    finally:
        os.chdir(here)


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree, value, printed = ast.parse(source), None, io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    out: list[dict[str, Any]] = []
    if printed.getvalue():
        out.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        html = {"text/html": value._repr_html_().splitlines(keepends=True)} if hasattr(value, "_repr_html_") else {}
        data = {**html, "text/plain": repr(value)[:500].splitlines(keepends=True)}
        out.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return out


def main(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for count, (cell, outputs) in enumerate(zip(code_cells(notebook), run(path), strict=True), 1):
        cell |= {"execution_count": count, "outputs": outputs}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
