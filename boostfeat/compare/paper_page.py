"""A paper's tables and figures from the folder of our runs: paper.md for people, paper.json for the report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np

from ..core.arrays import I64
from ..core.files import open_output
from ..core.strict_json import read_json, write_json
from ..core.text import split_words
from ..features import TEMPLATES, FeaturePlan, featurize
from ..lists.choices import Scorer, oracle_choice
from ..lists.nbest import NBest
from ..lists.store import read_store
from ..metrics.metric import shown
from ..model.effects import within_list_sd
from ..model.model import Model
from ..model.units import UnitSpace
from ..tuners import tuner_class
from ..tuners.base import Run
from .comparison_options import PRESETS
from .findings import Outcome, outcomes
from .papers import Paper, PaperTable
from .runner import Folder
from .table import markdown, same_rows

Row = Mapping[str, Any]
Cells = tuple[list[str], list[list[str]]]  # header, rows
SIZES = (1, 10, 30, 100, 500, 1000, 10_000, 50_000, 100_000)
TREES = 4  # shown of Figure 2
WORDS = 3  # shown of Table 7
FINDINGS = ["finding", "the paper", "here", "test", "verdict"]  # header of their table
FEW_UNITS = (2, 8)  # of the hypothesis of Figure 1; fewer are better


class FindingRecord(msgspec.Struct):
    """Findings of a paper, and what came of them here."""

    says: str
    paper: str
    here: list[Outcome]


class TableRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A table of a paper with our numbers; ``system`` is the row whose trees it shows."""

    title: str
    kind: str
    finding: str
    panels: list[list[str]]
    system: str | None = None
    differs: list[str]
    header: list[str]
    rows: list[list[str]]


class PaperRecord(msgspec.Struct):
    """paper.json: findings, tables, and the systems of a paper's rows by their labels."""

    title: str
    question: str
    findings: list[FindingRecord]
    rows: dict[str, str]
    tables: list[TableRecord]
    differs: list[str]


@dataclass(frozen=True)
class Page:
    """A finished run of a paper's experiment."""

    folder: Folder
    paper: Paper
    results: Sequence[Row]
    config: Mapping[str, Any]
    bitext: Mapping[str, Page] = field(default_factory=dict)  # the same paper's rows, tuned on lists of bitext, by their names

    def row(self, label: str) -> Row:
        name = self.paper.rows[label]
        return next(row for row in self.results if row["name"] == name)

    def rows(self, table: PaperTable) -> dict[str, Row]:
        return {label: self.row(label) for label in table.rows or self.paper.rows}

    def model(self, label: str) -> Model:
        return Model.load(self.folder.path / self.row(label)["model"])

    def list_of(self, label: str, which: str) -> NBest:
        """A list with the features of a row."""
        return read_store(self.folder.list_of(self.row(label)["feature_set"], which, self.config["inputs"]))

    @property
    def metric(self) -> str:
        return str(self.results[0]["metric"])

    @property
    def baseline(self) -> str:
        """The label of the row that p-values are against."""
        name = self.config["options"]["baseline"]
        return next((label for label, system in self.paper.rows.items() if system == name), name)

    @cached_property
    def tests(self) -> list[str]:
        return list(self.results[0].get("tests") or ["test"])


def scores_by_test(row: Row) -> dict[str, Row]:
    """The scores of a row on every test list, with p-values."""
    return dict(row.get("tests") or {"test": {**(row["test"] or {}), "p_value": row["p_value"]}})


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


# ---------------------------------------------------------------------------------------------------------------------
# Columns of tables of systems: (heading, cell) of a row, one for each test list where that makes sense
# ---------------------------------------------------------------------------------------------------------------------

Column = Callable[[Row, str], list[tuple[str, str]]]


def _by_test(head: str, cell: Callable[[Row], str]) -> Column:
    """A column for each test list."""
    return lambda row, metric: [(f"{which} {head}", cell(scores)) for which, scores in scores_by_test(row).items()]


def _features(row: Row, metric: str) -> list[tuple[str, str]]:
    if not row["trees"]:
        return [("features", str(row["features"]))]
    chosen = {**row["options"], **row["chosen"]}
    kind = f" of {chosen.get('max_leaves', '?')} leaves, {chosen.get('leaves', '?')}"
    return [("features", f"{row['features'] - row['trees']} + {row['trees']} trees{kind}")]


def _test(row: Row, metric: str) -> list[tuple[str, str]]:
    means = {"mean": row["mean"]} if "mean" in row else {}
    scores = {**scores_by_test(row), **means}
    return [(f"{which} {shown(metric)}", number(of[metric])) for which, of in scores.items()]


def _seconds(row: Row, metric: str) -> list[tuple[str, str]]:
    an_epoch = number(row["seconds"] / row["epochs"], 3) if row["seconds"] and row["epochs"] else ""
    return [("seconds an epoch", an_epoch), ("seconds in all", number(row["seconds"]))]


COLUMNS: dict[str, Column] = {
    "features": _features,
    "dev": lambda row, metric: [(f"dev {shown(metric)}", number(row["dev"][metric]))],
    "test": _test,
    "ter": _by_test("TER", lambda scores: number(scores.get("ter"))),
    "ter-bleu": _by_test("TER-BLEU", lambda scores: number(scores["ter"] - scores["bleu"])),  # lower is better [EMR13 footnote 7]
    "precision": _by_test("precision", lambda scores: number(scores.get("precision"))),
    "brevity": _by_test("BP", lambda scores: number(scores.get("brevity"), 3)),
    "p": _by_test("p", lambda scores: number(scores.get("p_value"), 4)),
    "epochs": lambda row, metric: [("epochs", str(row["epochs"] or ""))],
    "seconds": _seconds,
}


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of tables
# ---------------------------------------------------------------------------------------------------------------------


def systems(page: Page, table: PaperTable) -> Cells:
    header, rows = ["system"], []
    for label, row in page.rows(table).items():
        cells = [pair for name in table.columns for pair in COLUMNS[name](row, page.metric)]
        header = ["system", *(f"{h} against {page.baseline}" if h.endswith(" p") else h for h, _ in cells)]
        rows.append([label, *(cell for _, cell in cells)])
    return header, rows


def units(page: Page, table: PaperTable) -> Cells:
    """[TA13 Figure 1]: the units of a hypothesis that boost-local chose, with its first two trees and the features they use."""
    model, nbest = page.model(table.rows[0]), page.list_of(table.rows[0], "test")
    chosen = model.predict(nbest)
    sizes = np.diff(nbest.unit_ptr)[np.maximum(chosen, 0)]
    fits = np.flatnonzero((chosen >= 0) & (sizes >= FEW_UNITS[0]) & (sizes <= FEW_UNITS[1]))
    if not len(fits) or not model.trees or model.level != "local":
        return ["value"], []
    space, rows = UnitSpace.of(nbest, "local"), []
    shown_trees = [model.trees[k] for k in _by_effect(model, nbest, space)[0][:2]]
    outputs = [np.asarray(tree.predict(space.table)) for tree in shown_trees]

    def units_of(s: int) -> I64:
        hyp = int(chosen[s])
        return np.asarray(nbest.unit_idx[nbest.unit_ptr[hyp] : nbest.unit_ptr[hyp + 1]])

    at = units_of(max(fits.tolist(), key=lambda s: (sum(len(np.unique(h[units_of(s)])) > 1 for h in outputs), -sizes[s])))
    pairs = [f"{nbest.units.src[int(v)]} → {nbest.units.tgt[int(v)]}" for v in at]
    names = list(dict.fromkeys(name for tree in shown_trees for name in (*tree.feature, tree.on or "") if name))
    columns = [(name, np.asarray(space.table.column(name))) for name in names]
    for name, values in [*columns, *((tree.name, h) for tree, h in zip(shown_trees, outputs, strict=True))]:
        local = values[at]
        rows.append([name, *(f"{value:.4g}" for value in local), f"{local.sum():.4g}"])
    return ["value", *pairs, "global"], rows


def trees(page: Page, table: PaperTable) -> Cells:
    """[TA13 Figure 2]: the trees of largest effect on the first test list, as rules."""
    model, nbest = page.model(table.rows[0]), page.list_of(table.rows[0], "test")
    order, effects = _by_effect(model, nbest, UnitSpace.of(nbest, model.level))
    first = order[:TREES]
    lines = [" ".join(line.strip() for line in model.trees[k].rules().splitlines()) for k in first]
    rows = [[model.trees[k].name, number(effects[k], 4), line] for k, line in zip(first, lines, strict=True)]
    return ["tree", "effect", "rule"], rows


def _by_effect(model: Model, nbest: NBest, space: UnitSpace) -> tuple[list[int], list[float]]:
    """The trees of a model from the largest effect on a list to the smallest, and all effects."""
    effects = [within_list_sd(nbest.hyp_ptr, t.weight * space.sum(t.predict(space.table))) for t in model.trees]
    return sorted(range(len(effects)), key=lambda k: -effects[k]), effects


def sizes(page: Page, table: PaperTable) -> Cells:
    """[E12 Table 2]: BLEU of the oracle among the first k of every list."""
    nbest = read_store(page.config["inputs"]["dev"]["path"])
    longest = int(np.diff(nbest.hyp_ptr).max(initial=1))
    rows = []
    for k in (*(k for k in SIZES if k < longest), longest):
        part = nbest.truncate(k)
        rows.append([str(k), number(Scorer(part).score(oracle_choice(part, page.metric), page.metric).score)])
    return ["k", f"oracle {shown(page.metric)}"], rows


def strategies(page: Page, table: PaperTable) -> Cells:
    """[E12 Tables 3 and 4]: predictions by oracles, for every test list."""
    header = ["prediction", *(f"{which} {oracle}" for which in page.tests for oracle in ("LU", "M-C"))]

    def cells(*labels: str) -> list[str]:
        return [number(scores_by_test(page.row(label))[which][page.metric]) for which in page.tests for label in labels]

    rows = [[p, *cells(f"LU/{p}", f"M-C/{p}")] for p in ("PB", "MC", "M+C")]
    alone = [[label, *(part for cell in cells(label) for part in (cell, ""))] for label in ("max-BLEU/MC", "MERT")]
    return header, [*rows, *alone]


def curves(page: Page, table: PaperTable) -> Cells:
    """[E12 Figures 1 to 6]: dev by epoch, between prediction and oracle, all under the weights of that epoch."""
    labels = [label for label in page.paper.rows if "/" in label and "extended" not in label]
    histories = {label: page.model(label).history for label in labels}
    drawn = ([f"{row['dev']:.1f} ({row['prediction']:.1f} to {row['oracle']:.1f})" for row in h] for h in histories.values())
    rows = [[str(k), *cells] for k, cells in enumerate(zip_longest(*drawn, fillvalue=""), 1)]  # some may stop before others
    changes = [float(np.abs(np.diff([row["dev"] for row in h])).mean()) if h[1:] else 0.0 for h in histories.values()]
    return ["epoch", *labels], [*rows, ["mean change", *(number(change) for change in changes)]]


def active(page: Page, table: PaperTable) -> Cells:
    """[EMR13 Table 2]: weights that are not 0, by template."""
    rows = page.rows(table)
    templates = list(dict.fromkeys(name for row in rows.values() for name in row["active"] or ()))
    return ["system", *templates], [[label, *(str(row["active"].get(t, 0)) for t in templates)] for label, row in rows.items()]


def gains(page: Page, table: PaperTable) -> Cells:
    """[EMR13 Table 5]: how much better RM is than the others by BLEU and by TER, the mean over test lists."""

    def mean(label: str, metric: str) -> float:
        return float(np.mean([scores[metric] for scores in scores_by_test(page.row(label)).values()]))

    rows = []
    for label in ("MERT", "MIRA", "PRO", "RAMPION"):
        cells = []
        for rm, other in (("RM", label), ("RM, sparse", f"{label}, sparse")):
            known = other in page.paper.rows
            cells += [number(mean(rm, "bleu") - mean(other, "bleu")) if known else ""]
            cells += [number(mean(other, "ter") - mean(rm, "ter")) if known else ""]
        rows.append([label, *cells])
    return ["RM over", "small BLEU", "small TER", "large BLEU", "large TER"], rows


def spreads(page: Page, table: PaperTable) -> Cells:
    """[EMR13 section 6]: how far the oracle's score is from the worst of its list."""
    rows = []
    for label in table.rows:
        model = page.model(label)
        kept = next(row for row in model.history if row["epoch"] == model.config["epoch"])
        every = float(np.mean([row["spread_mean"] for row in model.history]))
        rows.append([label, number(kept["spread_mean"]), number(kept["spread_sd"]), number(every)])
    return ["system", "mean", "sd", "mean of all epochs"], rows


def bitext(page: Page, table: PaperTable) -> Cells:
    """[G13 Tables 4 and 5]: rows tuned on dev, and on lists of bitext."""
    header, rows = systems(page, table)
    rows = [[label, "dev", *cells] for label, *cells in rows]
    for name, other in page.bitext.items():
        _, more = systems(other, msgspec.structs.replace(table, rows=page.paper.bitext))
        rows += [[label, name, *cells] for label, *cells in more]
    return [header[0], "tuned on", *header[1:]], rows


def overlap(page: Page, table: PaperTable) -> Cells:
    """[G13 Table 6]: phrase table features with a weight after tuning on list A, on B (dev, or bitext), and on both."""
    label = table.rows[0]
    tuned = {"dev": _pt_weights(page.model(label)), **{name: _pt_weights(own.model(label)) for name, own in page.bitext.items()}}
    rows = []
    for which in _others(page):
        a = set(_tuned(page, which))
        rows += [[which, name, str(len(a)), str(len(b)), str(len(a & b))] for name, b in tuned.items()]
    return ["A", "B", "|A|", "|B|", "|A ∩ B|"], rows


def rules(page: Page, table: PaperTable) -> Cells:
    """[G13 Table 7]: words whose counts differ most between two tuning sets, and phrase table rules that have them."""
    which = next(iter(page.bitext), _others(page)[-1])
    other = page.bitext.get(which)
    of_other = _pt_weights(other.model(table.rows[0])) if other else set(_tuned(page, which))
    tuned = {"dev": _pt_weights(page.model(table.rows[0])), which: of_other}
    inputs = {
        "dev": page.config["inputs"]["dev"],
        which: other.config["inputs"]["dev"] if other else page.config["inputs"][which],
    }
    counts = {name: _reference_words(read_store(given["path"])) for name, given in inputs.items()}
    with_rule = {name: Counter(w for pt in kept for w in set(split_words(pt.rpartition("|")[2]))) for name, kept in tuned.items()}
    total = {name: max(1, sum(found.values())) for name, found in counts.items()}
    words = sorted(
        set(with_rule["dev"]) | set(with_rule[which]),
        key=lambda w: (-abs(counts["dev"][w] / total["dev"] - counts[which][w] / total[which]), w),
    )[:WORDS]
    header = ["word", "tokens in dev", f"tokens in {which}", "rules tuned on dev", f"rules tuned on {which}"]
    return header, [[w, *(str(counts[n][w]) for n in tuned), *(str(with_rule[n][w]) for n in tuned)] for w in words]


KINDS: dict[str, Callable[[Page, PaperTable], Cells]] = {
    kind.__name__: kind
    for kind in (systems, units, trees, sizes, strategies, curves, active, gains, spreads, bitext, overlap, rules)
}


def _others(page: Page) -> list[str]:
    return [which for which in page.config["inputs"] if which != "dev"]


def _pt_weights(model: Model) -> set[str]:
    return {name for name, weight in model.weights.items() if weight and name.startswith("pt:")}


def _reference_words(nbest: NBest) -> Counter[str]:
    return Counter(word for line in nbest.refs.to_pylist() for word in split_words(line))


def _tuned(page: Page, which: str) -> list[str]:
    """Phrase table features that AdaGrad gives a weight when tuned on this list, with features of its own; kept in the folder."""
    source = page.config["inputs"][which]
    file = page.folder.path / "systems" / f"tuned-on-{which}.json"
    seed = int(page.config["options"]["seed"])
    made_from = {"sha256": source["sha256"], "seed": seed, "version": page.config["version"]}
    kept = read_json(file)
    if not isinstance(kept, dict) or kept.get("made_from") != made_from:
        nbest, _ = featurize(read_store(source["path"]), FeaturePlan.of("pt", TEMPLATES, min_count=1), seed=seed)
        model: Model = tuner_class("adagrad")(**PRESETS["adagrad"]["paper"]).fit(nbest, None, Run(seed=seed))
        kept = {"made_from": made_from, "features": sorted(_pt_weights(model))}
        write_json(file, kept)
    found: list[str] = kept["features"]
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The page
# ---------------------------------------------------------------------------------------------------------------------


def write_page(
    folder: Folder, paper: Paper, results: Sequence[Row], bitext: Mapping[str, tuple[Folder, Sequence[Row]]] | None = None
) -> dict[str, Any]:
    """Write paper.json and paper.md of a finished run; return what paper.json holds.

    ``bitext`` are the runs of the paper's rows on other lists, by the names of these.
    """
    more = {name: Page(own, paper, rows, _config(own)) for name, (own, rows) in (bitext or {}).items()}
    page = Page(folder, paper, results, _config(folder), more)
    findings = []
    for finding in paper.findings:
        here = outcomes(finding, page.row(finding.of), page.row(finding.over), folder.path, page.config, page.tests)
        findings.append(FindingRecord(finding.says, finding.paper, here))
    label_of = {page.row(label)["name"]: label for label in paper.rows}
    rows = {label: name for name, label in label_of.items()}
    differs = [*paper.differs, *(f"{label_of[a]} and {label_of[b]} are one run." for a, b in same_rows(results))]
    tables = [_table(page, table) for table in paper.tables]
    data: dict[str, Any] = msgspec.to_builtins(PaperRecord(paper.title, paper.question, findings, rows, tables, differs))
    write_json(folder.path / "paper.json", data)
    with open_output(folder.path / "paper.md") as stream:
        stream.write(page_text(data, page.config["command"]).encode())
    return data


def _table(page: Page, table: PaperTable) -> TableRecord:
    header, rows = with_numbers(table, *KINDS[table.kind](page, table))
    return TableRecord(
        title=table.title,
        kind=table.kind,
        finding=table.finding,
        panels=[list(panel) for panel in table.panels],
        system=table.rows[0] if table.kind == "trees" else None,
        differs=[*table.differs, *table.on_lists, *table.searched],
        header=header,
        rows=rows,
    )


def with_numbers(table: PaperTable, header: list[str], rows: list[list[str]]) -> Cells:
    """Return a table with the paper's numbers in columns of their own; rows that only the paper has come last."""
    if not table.paper:
        return header, rows
    numbers = {**table.paper}
    out = []
    for row in rows:
        key = next((key for key in (" / ".join(row[:2]), row[0]) if key in numbers), "")
        out.append([*row, *(table.paper[key] if key else [""] * len(table.paper_columns))])
        numbers.pop(key, None)
    only = [[*key.split(" / ", 1), *[""] * len(header)][: len(header)] for key in numbers]
    out += [[*row, *values] for row, values in zip(only, numbers.values(), strict=True)]
    return [*header, *(f"paper: {name}" for name in table.paper_columns)], out


def finding_rows(findings: Sequence[Row]) -> list[list[str]]:
    """Return a line for each finding and list: what the paper says, its numbers, ours, the test and the verdict."""
    rows = []
    for says, paper, here in ((f["says"], f["paper"], here) for f in findings for here in f["here"]):
        error = "" if here["error"] is None else f" ± {here['error']:.2f}"
        on = f" ({here['on']})" if here["on"] else ""
        p = "" if here["p"] is None else f", p = {here['p']:.4f}"
        difference = f"{here['difference']:+.{0 if here['test'] == 'counts' else 2}f}{error}{on}"
        rows.append([says, paper, difference, f"{here['test']}{p}", here["verdict"]])
    return rows


def _config(folder: Folder) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder.path / "config.json").read_bytes())
    return config


def page_text(data: Mapping[str, Any], command: str) -> str:
    """The page as Markdown."""
    parts = [
        f"# {data['title']}\n",
        f"{data['question']}\n",
        markdown(FINDINGS, finding_rows(data["findings"])),
        f"    {command}\n",
    ]
    for table in data["tables"]:
        parts += [
            f"## {table['title']}\n",
            f"The paper: {table['finding']}\n",
            "Here:\n",
            markdown(table["header"], table["rows"]),
            "".join(f"- {line}\n" for line in table["differs"]),
        ]
    parts += ["## Settings of all that differ from the paper\n", "".join(f"- {line}\n" for line in data["differs"])]
    parts += ["## Rows\n", markdown(["row", "system"], [[label, f"`{name}`"] for label, name in data["rows"].items()])]
    return "\n".join(parts)
