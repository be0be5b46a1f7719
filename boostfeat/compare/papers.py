"""The papers' experiments, which ``papers.toml`` holds: rows, settings, tables, and what differs here."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from ..core.errors import InputError, unknown_name
from .comparison_options import CompareOptions


class Finding(msgspec.Struct, frozen=True):
    """A sentence of a paper that can be tested: a row is above another, or near it, or its curve is calmer."""

    says: str
    of: str  # label of a row
    over: str
    paper: str  # the paper's own differences
    kind: str = "above"  # or near; change, range, spread (of curves: lower), features (fewer)
    on: str = "test"
    metric: str = ""  # another than that of the comparison


class PaperTable(msgspec.Struct, frozen=True):
    """A table or figure of a paper, by the rows and columns it has."""

    title: str
    finding: str  # what the paper says that it shows
    kind: str = "systems"  # of paper_page.KINDS
    rows: tuple[str, ...] = ()  # labels; () is all
    columns: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()  # settings of it that are not the paper's
    searched: tuple[str, ...] = ()  # settings that --quick replaces
    on_lists: tuple[str, ...] = ()  # what differs where no search graphs are given
    paper_columns: tuple[str, ...] = ()
    paper: dict[str, tuple[str, ...]] = {}  # the paper's numbers by the first cell of a row
    panels: tuple[tuple[str, ...], ...] = ()  # rows whose curves are drawn on one axis


class Paper(msgspec.Struct, frozen=True):
    """A paper's experiment: the rows that ``boostfeat replicate`` runs and the tables that it shows."""

    title: str
    question: str
    findings: tuple[Finding, ...]  # the first answers the question
    rows: dict[str, str]  # a label of the paper -> the name of a system
    options: dict[str, Any]  # of CompareOptions
    tables: tuple[PaperTable, ...]
    differs: tuple[str, ...]  # settings of all tables that are not the paper's
    bitext: tuple[str, ...] = ()  # rows that are tuned on lists of bitext, too, where some are given
    quick: dict[str, str] = {}  # what --quick appends to rows, by their method
    on_graphs: str = ""  # label of the row that the paper tunes on hypergraphs


@cache
def papers() -> dict[str, Paper]:
    """Return all papers by name."""
    text = files(__package__).joinpath("papers.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Paper])


def paper_of(name: str, *, quick: bool = False, graphs: str = "") -> Paper:
    """Return a paper's experiment; quick: with less to try, said in the names of its rows, and one run.

    With the digest of search graphs, the row that the paper tunes on hypergraphs is tuned on these.
    """
    if name not in papers():
        raise unknown_name("paper", name, papers())
    paper = papers()[name]
    if graphs:
        if not paper.on_graphs:
            known = " or ".join(other for other, found in papers().items() if found.on_graphs)
            raise InputError(f"--graphs: expected the paper {known} with it, found {name}; leave it out")
        paper = _with_settings(paper, {paper.on_graphs: f":graphs={graphs}"}, on_lists=())
    if not quick:
        return paper
    less = {label: paper.quick.get(method_of(system), "") for label, system in paper.rows.items()}
    paper = _with_settings(paper, less, searched=())
    rows = sorted({method_of(system) + less[label] for label, system in paper.rows.items() if less[label]})
    said = f"Quick: nothing is searched, one run, and in its rows {', '.join(rows)}."
    options = {**paper.options, "runs": 1, "search": "none"}
    return msgspec.structs.replace(paper, options=options, differs=(said, *paper.differs), quick={})


def _with_settings(paper: Paper, more: Mapping[str, str], **of_tables: Any) -> Paper:
    """Return the paper with more in the names of rows, by their labels, and other fields of its tables."""
    rows = {label: system + more.get(label, "") for label, system in paper.rows.items()}
    renamed = {paper.rows[label]: rows[label] for label in rows}
    options = {**paper.options, "baseline": renamed[paper.options["baseline"]]}
    tables = tuple(msgspec.structs.replace(table, **of_tables) for table in paper.tables)
    return msgspec.structs.replace(paper, rows=rows, options=options, tables=tables)


def bitext_options(paper: Paper, options: CompareOptions) -> CompareOptions:
    """Return the same comparison of the rows that are tuned on bitext."""
    systems = [paper.rows[label] for label in paper.bitext]
    return replace(options, systems=",".join(["decoder", *systems]), baseline=CompareOptions.baseline)


def method_of(system: str) -> str:
    """Return the method in a system's name."""
    head = system.partition(":")[0].rpartition("/")[2]
    return {"base-MERT": "mert", "base-PRO": "pro"}.get(head, head)


def paper_options(paper: Paper, **changes: Any) -> CompareOptions:
    """Return the options of the comparison that runs a paper's experiment."""
    return CompareOptions(**{"systems": ",".join(paper.rows.values()), **paper.options, **changes})
