"""The papers' experiments as data: rows, settings, tables, and what differs here. ``boostfeat replicate`` runs them.

A row is a system of ``compare`` by name, under a label of the paper. A table says of which rows it is, and which columns it has
(see ``paper_page``). Nothing here is code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import unknown_name
from .comparison_options import CompareOptions


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper, by the rows and columns it has."""

    title: str
    finding: str  # what the paper says that it shows
    kind: str = "systems"  # of paper_page.KINDS
    rows: tuple[str, ...] = ()  # labels; () is all
    columns: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()  # settings of it that are not the paper's
    searched: tuple[str, ...] = ()  # settings that --quick replaces


@dataclass(frozen=True)
class Paper:
    """What ``boostfeat replicate`` runs and shows."""

    title: str
    rows: Mapping[str, str]  # a label of the paper -> the name of a system
    options: Mapping[str, Any]  # of CompareOptions
    tables: tuple[Table, ...]
    differs: tuple[str, ...]  # settings of all tables that are not the paper's
    bitext: tuple[str, ...] = ()  # rows that are tuned on lists of bitext, too, where some are given
    quick: Mapping[str, str] = field(default_factory=dict)  # what --quick appends to rows, by their method


_LISTS = "All rows rerank the lists given; where the paper decodes with the weights of every epoch, these stay as they are."
_LAST = "Weights are those of the last epoch, mixed over 20 learners and not averaged over time (preset mira:paper)."
_COSTS = (
    "Costs after the first epoch are BLEU in the context of the 1-bests times the lists of a learner: the "
    "paper does not say "
    "its scale. Learners start from the decoder's weights, found in its scores."
)
_QUICK = {"mert": ":restarts=3", "mira": ":epochs=5", "rm": ":epochs=5", "adagrad": ":epochs=5", "rampion": ":epochs=3"}
_SPARSE_RM = ("RM, sparse", "MIRA, sparse", "PRO, sparse", "RAMPION, sparse")
_SMALL_RM = ("RM", "MERT", "MIRA", "PRO", "RAMPION")
_LO = "AL's deletions are a template of their own (del); LO is ro, four classes each way with the phrase pair."

PAPERS: dict[str, Paper] = {
    "ta13": Paper(
        "Toutanova and Ahn 2013, Learning Non-linear Features for Machine Translation Using Gradient Boosting Machines",
        {
            "decoder": "decoder",
            "base, MERT": "base-MERT:paper",
            "base, PRO": "base-PRO",
            "large, PRO": "large/pro",
            "boost-global": "large/boost-global:paper",
            "boost-local": "large/boost-local:paper",
        },
        {"metric": "bleu-sbp", "baseline": "base-PRO", "search": "folds"},
        (
            Table(
                "Table 2: BLEU-SBP of weight tuning and feature sets",
                "PRO is a little below MERT on dev and above it on test; the large set is about a quarter "
                "of a point above the base "
                "set; boost-local is at or a little above boost-global, 25 and 24 trees, and both gains are "
                "small.",
                columns=("features", "dev", "test", "p"),
                differs=(
                    "The lists were decoded with weights of their own (row decoder), which in the paper are MERT's: its MERT "
                    "row is nearer to that one.",
                    "The large set has about 170 features; joint counts need a phrase table (--phrase-table), lexical weights "
                    "parallel text (--bitext), of words and not of morphemes. Features without their file are left out.",
                ),
                searched=(
                    "base, MERT is tuned on the list, from the decoder's weights and 20 random ones, the best on dev.",
                    "α, K and the L2 penalty (1, 100) are chosen by three folds of dev, by PRO's models; the paper says "
                    "cross-validation of α and K.",
                ),
            ),
            Table(
                "Figure 1: local and global values of a hypothesis",
                "Global values are the sums of local ones, those of trees too.",
                kind="units",
                rows=("boost-local",),
                differs=("A hypothesis of few phrases from the test list, and the two trees of largest effect.",),
            ),
            Table(
                "Figure 2: induced features",
                "A tree boosts the lexical weight of phrase pairs with a low joint count.",
                kind="trees",
                rows=("boost-local",),
                differs=(
                    "Trees have full steps and no floor of leaves, until select has not risen for 25 rounds. For speed, "
                    "thresholds lie between 255 bins, and linear leaves are on the best 4 features of a search.",
                ),
                searched=("Trees have 2, 4 or 8 leaves, constant or linear.",),
            ),
        ),
        ("All rows rerank the lists given.",),
        quick={"mert": ":restarts=3", "boost-local": ":constant:max_leaves=2", "boost-global": ":constant:max_leaves=2"},
    ),
    "e12": Paper(
        "Eidelman 2012, Optimization Strategies for Online Large-Margin Learning in Machine Translation",
        {
            "MERT": "base-MERT:paper",
            **{
                f"{o}/{p}": f"base/mira:paper:{oracle}-{prediction}"
                for o, oracle in (("LU", "lu"), ("M-C", "hope"))
                for p, prediction in (("PB", "pb"), ("MC", "mc"), ("M+C", "fear"))
            },
            "max-BLEU/MC": "base/mira:paper:max-bleu-mc",
            "LU/MC, extended": "e12/mira:paper:lu-mc",
            "M-C/M+C, extended": "e12/mira:paper:hope-fear",
        },
        {"metric": "bleu", "baseline": "base-MERT:paper"},
        (
            Table(
                "Table 2: oracle BLEU on dev by the size of the list",
                "From the 1-best to 50,000 the oracle gains 12 to 14 points; from there on little.",
                kind="sizes",
                differs=("Sizes end with the longest list; the paper's are k-bests of its hypergraphs.",),
            ),
            Table(
                "Tables 3 and 4: strategies on test",
                "LU with MC and M-C with M+C are the best and near MERT; LU works with no other prediction, M-C also with PB.",
                kind="strategies",
                differs=(
                    _LAST,
                    "One list serves both k = 500 of LU and the 50,000 of max-BLEU: where none is longer they are one run.",
                    "MERT is on lists, not on hypergraphs.",
                ),
                searched=("MERT starts from the decoder's weights and 20 random ones, the best on dev.",),
            ),
            Table(
                "Table 5: the two best strategies with sparse features",
                "The extended set does not change the scores much.",
                rows=("LU/MC", "M-C/M+C", "LU/MC, extended", "M-C/M+C, extended"),
                columns=("features", "dev", "test"),
                differs=("Sparse features need two sentences of dev (--min-count).",),
            ),
            Table(
                "Figures 1 to 6: dev BLEU by epoch (prediction to oracle)",
                "M-C/M+C is smooth, and oracle and prediction are within about 2 points; LU/MC swings, with "
                "a range of 10 points; "
                "with M-C all are stable, with LU only MC shows some stability. PB has no bars going down.",
                kind="curves",
                differs=(_COSTS, "dev, oracle and prediction are of one weight vector, that of the epoch's end."),
            ),
        ),
        (_LISTS,),
        quick=_QUICK,
    ),
    "g13": Paper(
        "Green, Wang, Cer and Manning 2013, Fast and Adaptive Online Training of Feature-Rich Translation Models",
        {
            "Dense, MERT": "base-MERT:paper",
            "Dense, this paper": "base/adagrad:paper",
            "+PT, kb-MIRA": "pt/kbmira:paper",
            "+PT, PRO": "pt/pro:hm11",
            "+PT, this paper": "pt/adagrad:paper",
            "+PT+AL+LO, PRO": "g13/pro:hm11",
            "+PT+AL+LO, this paper": "g13/adagrad:paper",
        },
        {"metric": "bleu", "baseline": "base-MERT:paper", "min_count": 1},
        (
            Table(
                "Tables 2 and 3: BLEU of models and algorithms",
                "AdaGrad with PT is above kb-MIRA and about PRO; all features gain with a larger tuning "
                "set; L1 keeps few features.",
                columns=("features", "dev", "test", "p"),
                differs=(
                    "The paper starts dense weights from a uniform point, here from 0; dense features are those that the decoder "
                    "wrote, the paper has 19.",
                    _LO,
                ),
            ),
            Table(
                "Tables 4 and 5: tuning on bitext",
                "Models that are tuned on bitext are the best on a test set of bitext, and worse on the evaluation sets.",
                kind="bitext",
                rows=("Dense, MERT", "+PT, this paper", "+PT+AL+LO, this paper"),
                columns=("features", "dev", "test"),
                differs=("The rows tuned on bitext are of the lists given by --tune-on: decoded parts of the bitext.",),
            ),
            Table(
                "Table 6: overlap of phrase table features",
                "Few features that a test set would use get a weight on the tuning set; more overlap goes with better transfer.",
                kind="overlap",
                rows=("+PT, this paper",),
                differs=("Features count that have a weight after tuning on each list alone.",),
            ),
            Table(
                "Table 7: rules of a word",
                "The models learn the words of their tuning set: programme of bitext, program of NIST's.",
                kind="rules",
                rows=("+PT, this paper",),
                differs=("Words are those whose share differs most between two tuning sets.",),
            ),
            Table(
                "Table 8: epochs, and seconds an epoch",
                "The online method takes less time an epoch than all others, and few epochs.",
                columns=("epochs", "seconds"),
                differs=("Epochs are passes over fixed lists, and seconds have no decoding in them.",),
            ),
        ),
        (_LISTS,),
        bitext=("+PT, this paper", "+PT+AL+LO, this paper"),
        quick={**_QUICK, "kbmira": ":epochs=10", "pro": ":l2=1"},
    ),
    "emr13": Paper(
        "Eidelman, Marton and Resnik 2013, Online Relative Margin Maximization for Statistical Machine Translation",
        {
            "MERT": "base-MERT:paper",
            "MIRA": "base/mira:paper:shards=15:pick=train",
            "PRO": "base/pro:hm11",
            "RAMPION": "base/rampion:paper",
            "RM": "base/rm:paper",
            "MIRA, sparse": "emr13/mira:paper:shards=15:pick=train",
            "PRO, sparse": "emr13/pro:hm11",
            "RAMPION, sparse": "emr13/rampion:paper",
            "RM, sparse": "emr13/rm:paper",
        },
        {"metric": "bleu", "metrics": "ter", "baseline": "base-MERT:paper", "runs": 3, "min_count": 1},
        (
            Table(
                "Table 2: active features by template",
                "The number of active features does not go with performance.",
                kind="active",
                rows=_SPARSE_RM,
                differs=(
                    "Frequencies of word pairs are those of the dev lists, or of the training corpus where a phrase table with "
                    "counts is given (--phrase-table); those of unaligned words are of the lists. There is no structural "
                    "distortion, which needs hierarchical rules.",
                ),
            ),
            Table(
                "Tables 3 and 4: BLEU and TER, small and large feature set",
                "RM is the best by nearly all measures; its tuning scores are the lowest; its precision is "
                "higher and it pays more "
                "brevity penalty; TER-BLEU is always the best.",
                columns=("dev", "test", "ter", "ter-bleu", "precision", "brevity", "p"),
                differs=(
                    "MIRA and RM have 15 learners, C 0.01, B 1. Of their epochs the best on dev is kept, as the paper's decoder "
                    "would.",
                    "MERT is on lists, not on hypergraphs.",
                ),
                searched=("D is 0.01 or 0.1 as select says, and there are 20 epochs.",),
            ),
            Table(
                "Table 5: RM's gain over the others, mean over test sets",
                "0.4 to 1.4 BLEU and 1.6 to 3.0 TER with the small set, 1.2 to 2.0 BLEU and 1.7 to 4.3 TER with the large one.",
                kind="gains",
                differs=("Means are over the test lists given.",),
            ),
            Table(
                "Section 6: spread of the scores, mean and standard deviation of the chosen epoch",
                "RM's is below 1 and stays there with sparse features, MIRA's is 6 to 14.",
                kind="spreads",
                rows=("RM", "MIRA", "RM, sparse", "MIRA, sparse"),
                differs=(_COSTS,),
            ),
        ),
        (_LISTS,),
        quick={**_QUICK, "pro": ":l2=1", "rm": ":epochs=5:d=0.01"},
    ),
}


def paper_of(name: str, *, quick: bool = False) -> Paper:
    """A paper's experiment; quick: with less to try, said in the names of its rows, and one run."""
    if name not in PAPERS:
        raise unknown_name("paper", name, PAPERS)
    paper = PAPERS[name]
    if not quick:
        return paper
    rows = {label: system + paper.quick.get(method_of(system), "") for label, system in paper.rows.items()}
    renamed = {paper.rows[label]: rows[label] for label in rows}
    options = {**paper.options, "baseline": renamed[paper.options["baseline"]], "runs": 1, "search": "none"}
    said = f"Quick: nothing is searched, one run, and rows have {', '.join(sorted(set(paper.quick.values())))}."
    tables = tuple(replace(table, searched=()) for table in paper.tables)
    return replace(paper, rows=rows, options=options, tables=tables, differs=(said, *paper.differs), quick={})


def bitext_options(paper: Paper, options: CompareOptions) -> CompareOptions:
    """The same comparison of the rows that are tuned on bitext."""
    systems = [paper.rows[label] for label in paper.bitext]
    return replace(options, systems=",".join(["decoder", *systems]), baseline=CompareOptions.baseline)


def method_of(system: str) -> str:
    """The method in a system's name."""
    head = system.partition(":")[0].rpartition("/")[2]
    return {"base-MERT": "mert", "base-PRO": "pro"}.get(head, head)


def paper_options(paper: Paper, **changes: Any) -> CompareOptions:
    """The options of the comparison that runs a paper's experiment."""
    return CompareOptions(**{"systems": ",".join(paper.rows.values()), **paper.options, **changes})
