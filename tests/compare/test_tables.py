"""Tables of rows by hand, whole: text of 80 columns, Markdown, LaTeX, and the drawing of a notebook."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from boostfeat.cli.console import table
from boostfeat.compare.table import Results, fitting, latex_table, markdown_table, reported_lists, table_rows
from boostfeat.core.errors import InputError


def row(name: str, score: float, *, tests: bool = False, runs: int = 1, **more: Any) -> dict[str, Any]:
    scores = {
        "bleu": score,
        "ter": 60.0 - score / 10,
        "chrf": 50.125,
        "length_ratio": 0.98765,
        "oracle_gap": score / 100,
        "brevity": 1.0,
    }
    found = {
        "name": name, "metric": "bleu", "features": 12, "trees": 0, "dev": {"bleu": score + 1}, "select": {"bleu": score - 1},
        "test": scores, "reported": "test", "confidence": [score - 1.25, score + 1.26], "p_value": 0.01234,
        "against": {"decoder": 0.01234, "base_PRO": None, "global": None}, "p_bootstrap": 0.5,
        "p_stratified": 0.25, "seconds": 1.26, "search_seconds": 100.06, "peak_mb": 210.6, "sd": {"bleu": 0.126} if runs > 1 else None,
        "runs": [{}] * runs, **more,
    }  # fmt: skip
    several = {"tests": {"test": scores, "test2": {"bleu": score / 2, "p_value": 0.5}}, "mean": {"bleu": 0.75 * score}}
    return {**found, **(several if tests else {})}


ROWS = [
    row("base_PRO", 20.0, p_value=None, p_bootstrap=None, against={"decoder": None, "base_PRO": None, "global": None}),
    row("boost|local", 21.005, trees=5, same_as="base_PRO"),
]


def test_a_table_of_80_columns():
    header, rows = table_rows(ROWS)
    assert header == ["system", "features", "dev", "select", "BLEU", "95%", "TER", "chrF", "length", "oracle gap", "p decoder", "p (boot)",
                      "seconds", "search", "MB"]  # fmt: skip
    assert rows[1] == ["boost|local", "7+5", "22.00", "20.00", "21.00", "19.8-22.3", "57.90", "50.12", "0.988", "21.0%", "0.0123",
                       "0.5000", "1.3", "100.1", "211"]  # fmt: skip
    assert rows[0][10:12] == ["", ""]
    header, rows, left_out = fitting(header, rows, width=80)
    assert left_out == ["MB", "search", "p (boot)", "oracle gap", "length", "chrF", "dev"]
    assert table(rows, header=header).splitlines() == [
        "system       features  select   BLEU        95%    TER  p decoder  seconds",
        "base_PRO           12   19.00  20.00  18.8-21.3  58.00                 1.3",
        "boost|local       7+5   20.00  21.00  19.8-22.3  57.90     0.0123      1.3",
    ]


def test_columns_go_one_by_one():
    """Width of the whole: 2 between columns. At its own width nothing goes, at one less the first does."""
    header, rows = table_rows(ROWS)
    whole = len(table(rows, header=header).splitlines()[0])
    assert fitting(header, rows, width=whole)[2] == []
    assert fitting(header, rows, width=whole - 1)[2] == ["MB"]
    assert fitting(header, rows, width=1)[2] == [
        *("MB", "search", "p (boot)", "oracle gap", "length", "chrF", "dev", "seconds", "95%", "TER"),
    ]


def test_several_runs_and_test_lists():
    header, rows = table_rows([row("a", 20.0, tests=True, runs=2)])
    assert header == ["system", "features", "dev", "select", "BLEU", "sd", "95%", "TER", "chrF", "length", "oracle gap", "p decoder", "p (boot)",
                      "p (strat)", "test2", "test2 p", "mean", "seconds", "search", "MB"]  # fmt: skip
    assert rows == [["a", "12", "21.00", "19.00", "20.00", "0.13", "18.8-21.3", "58.00", "50.12", "0.988", "20.0%", "0.0123", "0.5000",
                     "0.2500", "10.00", "0.5000", "15.00", "1.3", "100.1", "211"]]  # fmt: skip


def test_without_a_test_list_select_is_reported():
    on_select = row("a", 20.0, reported="select", test=None)
    on_select["select"] = {**ROWS[0]["test"], "bleu": 19.0}
    header, rows = table_rows([on_select])
    assert header[:5] == ["system", "features", "dev", "select BLEU", "95%"]
    assert rows[0][:5] == ["a", "12", "21.00", "19.00", "18.8-21.3"]
    assert reported_lists(["dev", "select"]) == ["select"]
    assert reported_lists(["dev", "select", "test", "test2"]) == ["test", "test2"]


def test_markdown_and_latex():
    lines = markdown_table([*ROWS], {"bleu": "nrefs:1"}).splitlines()
    assert lines[1] == "| --- |" + " ---: |" * 14
    assert lines[3].startswith("| boost\\|local | 7+5 | 22.00 |")
    assert lines[4:] == ["", "- boost|local and base_PRO are one run", "- BLEU: `nrefs:1`"]
    assert markdown_table(ROWS[:1]).count("\n") == 3


def test_a_table_for_latex():
    """Of BLEU 20 and 21 and TER 58 the best is bold, of TER the lowest; boost|local has p = 0.0123 against the decoder alone."""
    signatures = {"bleu": "nrefs:1", "ter": "nrefs:1", "chrf": "nrefs:1"}
    rows = [{**row, "against": {"decoder": None, "base_PRO": row["p_value"]}} for row in ROWS]
    tex = latex_table(rows, signatures=signatures, name="main")
    lines = tex.splitlines()
    assert lines[3:6] == ["\\begin{tabular}{lrrrrr}", "\\toprule", "system & features & select & BLEU & TER & chrF \\\\"]
    assert lines[7].startswith("base\\_PRO & 12 & 19.00 & 20.00 & ")
    assert lines[8].startswith("boost\\textbar{}local & 7+5 & \\textbf{20.00} & \\textbf{21.00}$^{*}$ & ")
    assert "against base\\_PRO" in tex
    assert "\\label{tab:main}" in tex
    chosen = latex_table(rows, ["system", "95%"], signatures=signatures).splitlines()
    assert chosen[5] == "system & 95\\% \\\\"
    with pytest.raises(InputError, match="found 'foo'"):
        latex_table(rows, ["foo"], signatures=signatures)


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex: apt-get install texlive-latex-recommended")
def test_the_table_for_latex_compiles(tmp_path):
    """With names that have signs which mean something to TeX."""
    rows = [{**row, "name": f"{row['name']} $50% #1 & {{~^}}\\ <µ|é>"} for row in ROWS]
    tex = latex_table(rows, signatures={"bleu": "nrefs:1", "ter": "nrefs:1"})
    text = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}{tex}\\end{{document}}"
    (tmp_path / "x.tex").write_text(text)
    subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "x.tex"], cwd=tmp_path, check=True)
    assert (tmp_path / "x.pdf").stat().st_size


def test_what_a_notebook_shows():
    """The whisker of 18.75 to 21.26 in ticks from 18 to 23, by hand: (18.75 - 18) / 5 and (21.26 - 18.75) / 5 of the width."""
    html = Results(ROWS)._repr_html_()
    assert 'aria-label="BLEU on test"' in html
    assert "left:15.0%;width:50.2%" in html
    assert 'title="20.00 [18.75, 21.26]"' in html
    assert [html.count(f">{k}</span>") for k in range(17, 25)] == [0, 1, 1, 1, 1, 1, 1, 0]
    assert html.count('<i class="base" style="left:40.0%"></i>') == 2  # of base_PRO, the only one without a p-value
    assert "<h3>A comparison" in Results()._repr_html_()
