"""What a template is: a named function that declares what it reads and where its features can live."""

from __future__ import annotations

import importlib.util
import inspect
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc

from ..core.arrays import F64, I64
from ..core.errors import InputError
from ..core.strings import Strings
from ..lists.nbest import NBest
from ..lists.words import distinct
from .resources import Resources

Kind = Literal["static", "contextual", "global", "list"]
KINDS = ("static", "contextual", "global", "list")  # of the phrase pair; of a unit in context; of a hypothesis; of a whole list

# What templates may read: the context columns that rows are keyed on
READS: dict[str, tuple[str, ...]] = {
    "source phrase": ("pair",),
    "target phrase": ("pair",),
    "alignment": ("pair",),
    "features": ("unit",),  # those that the list has already
    "span": ("start", "end", "n_src"),
    "previous unit": ("prev",),
    "following unit": ("next",),
    "previous features": ("prev_unit",),  # those that the list has already, of the previous unit
    "following features": ("next_unit",),
    "previous span": ("back", "back_swap"),  # where the previous unit's source lies, seen from this one
    "following span": ("ahead", "ahead_swap"),
    "target span": (),
    "words before": (),  # of the hypothesis: all that stand before a unit
    "words around": (),  # all the words of the hypothesis, and where a unit stands among them
    "source sentence": ("sent",),
    "clusters": (),
    "phrase table": (),
    "bitext": (),
    "language model": (),
    "hypothesis": (),
    "list": (),  # all hypotheses of the sentence
}
# What a decoder must keep to compute a feature while it searches, beyond the unit at hand and the source sentence
STATES: dict[str, str] = {
    "previous unit": "the previous unit",
    "following unit": "the following unit (scored one unit late)",
    "previous features": "the previous unit's feature values",
    "following features": "the following unit's feature values (scored one unit late)",
    "previous span": "the previous unit's span",
    "following span": "the following unit's span (scored one unit late)",
    "words before": "the words so far (for a language model as many as its order asks for)",
    "words around": "all words of the hypothesis",
    "hypothesis": "the whole hypothesis",
    "list": "the whole list",
}
STATIC = {"source phrase", "target phrase", "alignment", "clusters", "phrase table", "bitext"}
GIVEN = {"phrase table": "--phrase-table FILE", "bitext": "--bitext SOURCE TARGET", "language model": "--lm FILE.arpa"}
_IN_TEXT = ("words before", "words around")  # of an occurrence in its hypothesis


_REFERENCES = {"refs", "ref_ptr", "stats", "quality"}  # columns of lists that templates are not shown
PLUGIN = "boostfeat_plugin_"  # begins the names of modules that are users' files


class Sparse(NamedTuple):
    """Sparse features of rows: entry k says that row[k] has the feature names[idx[k]], once. Repeats count."""

    row: I64
    names: Strings  # without the template's own name, which is put before
    idx: I64


Dense = dict[str, F64]  # columns [n] by name
Compute = Callable[..., Dense | Sparse]
Learn = Callable[..., dict[str, Any]]
Tally = tuple[Any, I64]  # names (Strings) or numbers (F64), and how often each was met


@dataclass(frozen=True)
class Counted:
    """Learning from a list of any size: what runs of its sentences have is counted and added up.

    ``count(rows, counts, **options)`` gives tallies by name of a run; ``choose(corpus, tallies, **options)``, from those of all
    runs, the options of the template. Rows are phrase pairs, or what the template sees if it reads features.
    ``lacks(names, options)`` says what it needs beside the list's features, which have these names, or None.
    """

    count: Callable[..., dict[str, Tally]]
    choose: Learn
    lacks: Callable[[Sequence[str], Mapping[str, Any]], str | None] = lambda names, options: None


@dataclass(frozen=True)
class Crossed:
    """Learning from references, which the features of the list that teaches must not know by heart.

    ``learn(bitext, **options)``, from (source, reference) of sentences, gives the options of the template. The list that teaches
    has the features of every block of neighbouring sentences by what the other blocks teach.
    """

    learn: Learn


def added_up(tallies: Sequence[Tally]) -> Tally:
    """Every name or number once, with all its counts; numbers in their order."""
    keys, n = [keys for keys, _ in tallies], np.concatenate([counts for _, counts in tallies])
    if isinstance(keys[0], np.ndarray):
        found, which = np.unique(np.concatenate(keys), return_inverse=True)
    else:
        found, which = distinct(keys)
    return found, np.bincount(which, n, minlength=len(found)).astype(np.int64)


@dataclass(frozen=True)
class Template:
    """``compute(rows, **options)`` gives features of rows; ``learn(rows, counts, **options)`` the options a dev list teaches.

    Such a function sees the rows of the whole list at once; one that is Counted sees it run by run, one that is Crossed sees
    sources and references.
    """

    name: str
    kind: Kind
    reads: tuple[str, ...]
    compute: Compute
    learn: Learn | Counted | Crossed | None = None

    def __post_init__(self) -> None:
        where = f"template {self.name!r}"
        if self.kind not in KINDS:
            raise InputError(f"{where}: expected a kind among {', '.join(KINDS)}, found {self.kind!r}")
        for what in self.reads:
            if what not in READS:
                raise InputError(f"{where}: expected to read any of {', '.join(READS)}, found {what!r}")
            if (
                (self.kind == "static" and what not in STATIC)
                or (self.kind == "contextual" and what in ("hypothesis", "list"))
                or (self.kind == "global" and what == "list")
            ):
                raise InputError(f"{where}: a {self.kind} template cannot read {what!r}; declare another kind")
        if self.kind == "list" and "list" not in self.reads:
            raise InputError(f"{where}: expected a list template to read 'list', found {', '.join(self.reads)}; add it")

    @property
    def state(self) -> tuple[str, ...]:
        """What a decoder must keep to compute it while it searches: keys of STATES; none for what the unit alone tells."""
        return tuple(what for what in self.reads if what in STATES)

    @property
    def rows_are(self) -> Literal["pairs", "occurrences", "contexts", "hypotheses"]:
        """What it computes features of; contexts are the distinct values of the columns that it reads."""
        if self.kind == "global" or "hypothesis" in self.reads:
            return "hypotheses"
        if self.kind == "list" or any(what in self.reads for what in _IN_TEXT):
            return "occurrences"
        return "pairs" if self.kind == "static" else "contexts"

    @property
    def columns(self) -> tuple[str, ...]:
        """Context columns that its rows are keyed on."""
        return tuple(dict.fromkeys(column for what in self.reads for column in READS[what])) or ("pair",)

    @property
    def compute_options(self) -> dict[str, Any]:
        return keywords(self.compute)

    @property
    def learn_options(self) -> dict[str, Any]:
        learn = self.learn
        learners: tuple[Callable[..., Any], ...] = (learn,) if callable(learn) else ()
        if isinstance(learn, Counted):
            learners = learn.count, learn.choose
        elif isinstance(learn, Crossed):
            learners = (learn.learn,)
        return {name: default for learner in learners for name, default in keywords(learner).items()}

    @property
    def learnt(self) -> tuple[str, ...]:
        """Options that must be given or learnt: those without a default."""
        return tuple(name for name, default in self.compute_options.items() if default is inspect.Parameter.empty)

    @property
    def is_ours(self) -> bool:
        return self.compute.__module__.startswith("boostfeat.")

    @property
    def place(self) -> str:
        """``file:line: `` of a user's own function, "" of ours."""
        code = self.compute.__code__ if self.compute.__module__.startswith(PLUGIN) else None
        return f"{code.co_filename}:{code.co_firstlineno}: " if code else ""

    @property
    def looks_at_references(self) -> bool:
        """Whether its function asks the list for what only those who teach may see; it would find nothing there."""
        return not self.is_ours and bool(_REFERENCES & names_in(self.compute.__code__))

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.compute) or "").split("\n")[0]

    @property
    def crossed(self) -> bool:
        """Whether references teach it: the list that they are of has too good scores by it."""
        return isinstance(self.learn, Crossed)

    def is_taught(self, options: Mapping[str, Any]) -> bool:
        """Whether they have all that a list could teach."""
        return set(self.learnt) <= set(options)

    def lacks(self, nbest: NBest, resources: Resources, options: Mapping[str, Any] | None = None) -> str | None:
        """What the template reads and the list does not carry, or None; with options not taught yet, what teaches, too."""
        if options is None or self.is_taught(options):
            options = None
        elif self.crossed and not len(nbest.refs):
            return "references to learn from; import with -r REFERENCES"
        found = next((found for what in self.reads if (found := missing(what, nbest, resources))), None)
        if found or options is None or not isinstance(self.learn, Counted) or not nbest.n_hyps:
            return found
        return self.learn.lacks(nbest.unit_names, options)


def names_in(code: CodeType) -> set[str]:
    """Return the names of attributes and globals that a function uses, also in functions inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """Keyword-only arguments and their defaults: the options of a template's function."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


def template(
    name: str, *, kind: Kind, reads: tuple[str, ...], learn: Learn | Counted | Crossed | None = None
) -> Callable[[Compute], Template]:
    """Make a function a template. Its keyword-only arguments are its options.

    @template("caps", kind="static", reads=("target phrase",))
    def caps(rows):
        return {"caps.tgt": rows.tgt.per_row(rows.tgt.matches("^[A-Z]"))}
    """

    def decorate(compute: Compute) -> Template:
        return Template(name, kind, tuple(reads), compute, learn)

    return decorate


def missing(what: str, nbest: NBest, resources: Resources) -> str | None:
    """What a list lacks of what a template reads, and what to do; None if it has it."""
    units = nbest.units
    if what in GIVEN:
        return None if resources.has(what) else f"a {what}, and none is given; add {GIVEN[what]}"
    if not nbest.n_hyps or what in ("hypothesis", "list"):
        return None
    if what == "source sentence":
        return "source sentences; import with -s SOURCE" if _all_empty(nbest.source) else None
    if not nbest.n_occurrences:
        return "units (phrases); import a list that has them"
    fix = "import with -s SOURCE" if _all_empty(nbest.source) else "have the decoder write which words a unit translates"
    texts = {
        "source phrase": (units.src, f"source phrases; {fix}"),
        "target phrase": (units.tgt, "target phrases; import a list that has them"),
        "alignment": (units.align, "word alignments; have the decoder write them"),
    }
    if what in texts:
        return texts[what][1] if _all_empty(texts[what][0]) else None
    if what == "target span" or what in _IN_TEXT:
        unknown = (nbest.tgt_start < 0).any() or (units.tgt_len < 0).any()
        return "target spans of all units; import a list that has them" if unknown else None
    if "span" in what and ((nbest.src_start < 0).any() or (units.src_len < 0).any()):
        return "source spans of all units; have the decoder write the segmentation"
    return None


def _all_empty(column: Strings) -> bool:
    return not pc.max(pc.binary_length(column)).as_py()


def place_in(path: str, error: BaseException) -> str:
    """``file:line: `` of the innermost call of a file that an error came through, "" where it came through none."""
    there = os.path.abspath(path)  # as Python names it
    calls = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if os.path.abspath(frame.filename) == there]
    return f"{path}:{calls[-1]}: " if calls else ""


def described(error: BaseException) -> str:
    """The error in one line; sys.exit() is one too where a plugin has no business to end the program."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def load_plugin(path: str | Path) -> dict[str, Template]:
    """The templates of a user's Python file. The file is run: only one that the user names."""
    if not Path(path).is_file():
        raise InputError(f"{path}: expected a Python file, found none; check the path")
    spec = importlib.util.spec_from_file_location(f"{PLUGIN}{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: expected a Python file (.py), found another; name a .py file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        where = place_in(str(path), error) or f"{path}: "
        raise InputError(f"{where}expected a Python file that runs, found {described(error)}; correct it") from None
    found = {value.name: value for value in vars(module).values() if isinstance(value, Template)}
    if not found:
        raise InputError(
            f"{path}: expected a function decorated with @template(...), found none; "
            "write @template(name, kind=..., reads=(...)) above it"
        )
    return found
