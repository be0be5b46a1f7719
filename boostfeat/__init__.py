"""boostfeat: choose better from n-best lists with gradient-boosted local features, beside the classic tuners.

Notation: S sentences, H hypotheses, R unit occurrences, V distinct units, D dense and N sparse features, K preference pairs.

    X [V, D]  local features of each distinct unit: a phrase pair in context, a word, an edge of a search graph
    A [H, V]  how often each unit occurs in each hypothesis; A X are the hypotheses' features
    P [K, H]  +1 for the better, -1 for the worse hypothesis of each pair, always of one sentence
    F [V]     the score of each unit; A F scores hypotheses, z = P A F are the margins of the pairs

    Ψ(F) = Σ_k log(1 + exp(-z_k))        the pairwise log-loss [HM11], [TA13 section 2.3]
    -dΨ/dF = A' P' σ(-z)                 its negative gradient [TA13 appendix A]

Boosting [TA13 Figure 3]: 1. F = X λ with λ = argmin Ψ + l2/2 |λ|²; then, for m = 1..M: 2. y = -dΨ/dF; 3. h = a small tree
fitted to y by least squares; 4. ρ = argmin Ψ(F + ρ h) + l2/2 (s ρ)²; 5. F += ρ h. Level local has phrases as units; level global
is the same code with whole hypotheses as units (A = I). The result is one linear model over features and named trees.

Packages, in the order of the pipeline (each imports only from those above it, see tests/qualities/test_layers.py):

    core      arrays, files, errors, options    metrics   text -> a row of statistics -> score
    lists     n-best lists and choices          trees     regression trees and how they grow
    model     weights and trees in one file     formats   readers and writers of other tools' files
    features  templates of more features        rerank    a model in a program, and why it chose
    losses    pairs, the log-loss, line search  tuners    PRO, MERT, MIRA and the others
    boosting  Figure 3, and what chooses        export    C, Moses, ONNX and more
    distributed  the same learning on Dask      compare   tables with significance
    search    graphs, decoder, loop             report    one page to look at, and plots
    cli       the commands

examples/method.md has the method, a table from equations to functions, and the papers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see of _EXPORTS
    from .boosting.estimator import BoostReranker as BoostReranker
    from .boosting.estimator import SentenceKFold as SentenceKFold
    from .boosting.induce import induce as induce
    from .compare.comparison_options import CompareOptions as CompareOptions
    from .compare.runner import compare as compare
    from .core.errors import FormatError as FormatError
    from .core.errors import InputError as InputError
    from .features import FeaturePlan as FeaturePlan
    from .features import featurize as featurize
    from .features import template as template
    from .formats.bridges import from_ctranslate2 as from_ctranslate2
    from .formats.bridges import from_openai as from_openai
    from .formats.bridges import from_transformers as from_transformers
    from .formats.bridges import from_vllm as from_vllm
    from .formats.importing import import_lists as import_lists
    from .lists.nbest import NBest as NBest
    from .lists.store import read_store as read_store
    from .lists.store import write_store as write_store
    from .model.model import Model as Model
    from .report import write_report as write_report
    from .report.plots import plot_compare as plot_compare
    from .report.plots import plot_importance as plot_importance
    from .report.plots import plot_learning as plot_learning
    from .report.plots import plot_tree as plot_tree
    from .rerank.reranker import Reranker as Reranker
    from .trees.tree import Tree as Tree

__version__ = "0.3.0"  # the wheel has it from here; CITATION.cff and examples/changes.md follow, and a test looks

# What the library offers at its top, imported when first used: `boostfeat --help` must not wait for numba or pyarrow.
_EXPORTS = {
    "NBest": "lists.nbest",
    "import_lists": "formats.importing",
    "read_store": "lists.store",
    "write_store": "lists.store",
    "Model": "model.model",
    "Tree": "trees.tree",
    "BoostReranker": "boosting.estimator",
    "SentenceKFold": "boosting.estimator",
    "induce": "boosting.induce",
    "Reranker": "rerank.reranker",
    "FeaturePlan": "features",
    "featurize": "features",
    "template": "features",
    "from_transformers": "formats.bridges",
    "from_ctranslate2": "formats.bridges",
    "from_vllm": "formats.bridges",
    "from_openai": "formats.bridges",
    "compare": "compare.runner",
    "CompareOptions": "compare.comparison_options",
    "write_report": "report",
    "plot_learning": "report.plots",
    "plot_importance": "report.plots",
    "plot_tree": "report.plots",
    "plot_compare": "report.plots",
    "FormatError": "core.errors",
    "InputError": "core.errors",
}


__all__ = ["__version__", *_EXPORTS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
