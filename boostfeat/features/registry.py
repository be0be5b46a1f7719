"""Templates: a template is a named function whose arguments say what it reads, and so where its features can live."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal

from ..core.errors import InputError
from ..core.text import has_text
from ..lists.nbest import NBest
from .resources import Resources

Kind = Literal["static", "contextual", "global", "list"]
KINDS = ("static", "contextual", "global", "list")  # of the phrase pair; of a unit in context; of a hypothesis; of a whole list

# What a template's function may have as arguments, by name, and what of a list each is made of
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "source": ("source phrase",),  # its words
    "target": ("target phrase",),  # its words
    "links": ("alignment",),  # pairs (i, j) of linked words, in the order in which they were written
    "unit_features": ("features",),  # what the list has already, by name
    "span": ("span",),  # (start, end, words of the source sentence)
    "previous": ("previous unit",),  # (source words, target words), None where there is none
    "following": ("following unit",),
    "words_before": ("previous unit",),  # the last two words of the previous unit's target, None where there is none
    "is_last": ("following unit",),  # whether no unit follows
    "previous_features": ("previous features",),  # as unit_features; None where there is no previous unit
    "following_features": ("following features",),
    "jump": ("previous span",),  # words between the end of the previous unit in the source and this one
    "turn_before": ("previous span",),  # the move from the previous unit in the source: mono, swap, right or left
    "turn_after": ("following span",),  # the move to the following unit
    "place": ("target span", "words around"),  # (start, end, words of the hypothesis)
    "sentence": ("source sentence",),  # its words
    "clusters": ("clusters",),  # names of word classes by word, .src and .tgt
    "phrase_counts": ("phrase table",),  # joint counts by (source, target)
    "lexicon": ("bitext",),
    "language_model": ("language model",),
    "text": ("target span", "words before"),  # words of the hypothesis; gives a value for each of its units
    "units": (),  # with text: (start, end) of its units
    "hypothesis": ("hypothesis",),  # its words
    "candidates": ("list",),  # templates.candidates.Candidates; gives a value for each unit, or each hypothesis
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
BEYOND_SEARCH = ("words before", "words around", "hypothesis", "list")  # what a decoder does not know while it searches
STATIC = {"source phrase", "target phrase", "alignment", "clusters", "phrase table", "bitext"}
GIVEN = {"phrase table": "--phrase-table FILE", "bitext": "--bitext SOURCE TARGET", "language model": "--lm FILE.arpa"}
_IN_TEXT = ("words before", "words around")  # of an occurrence in its hypothesis

PLUGIN = "boostfeat_plugin_"  # begins the names of modules that are users' files

Dense = dict[str, float]  # features that are not 0, by name
Names = list[str]  # of sparse features, without the template's own name, which is put before; repeats count
Columns = Mapping[str, Any]  # sequences: a value for each unit of a text, or each unit or hypothesis of a list
Options = Mapping[str, Any]
Tally = Counter[Any]  # of names or of numbers


@dataclass(frozen=True)
class Counted:
    """Learning from what a list has, however long it is.

    ``count(arguments, **options)`` has arguments as a template and gives names or numbers by tally; they are added up over all
    units. ``choose(nbest, resources, tallies, **options)`` gives the options of the template.
    """

    count: Callable[..., Mapping[str, Sequence[Any]]]
    choose: Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class FromPairs:
    """Learning from references, which the features of the list that teaches must not know by heart, or from a bitext.

    ``learn(bitext, **options)``, from (source, reference) of sentences, gives the options of the template. The list that teaches
    has the features of every block of neighbouring sentences by what the other blocks teach. A given bitext, which is without
    the list's own sentences, teaches beside them, or alone; sets have such a template only with one.
    """

    learn: Callable[..., dict[str, Any]]
    references: bool = True
    bitext: bool = False


from_bitext = partial(FromPairs, references=False, bitext=True)
Learn = Callable[..., dict[str, Any]] | Counted | FromPairs  # a function of (nbest, resources, **options), or these


@dataclass(frozen=True)
class Template:
    """A function of a phrase pair, a unit in its place, a hypothesis or a list. Its keyword-only arguments are its options.

    It gives a dict of numbers, or a list of names for sparse features. ``columns(**options)`` are the names of dense features in
    their order; without it they stand in the order of the alphabet. ``ready(**options)`` makes of the options of a plan those of
    a call, once for many calls. ``many`` computes a template of lists on many of them, by a kernel, where the function takes
    long. ``needs(names, options)`` says what it lacks to learn beside the list's features, which have these names, or None.
    """

    name: str
    compute: Callable[..., Any]
    reads: tuple[str, ...]
    learn: Learn | None = None
    columns: tuple[str, ...] | Callable[..., Sequence[str]] | None = None
    ready: Callable[..., dict[str, Any]] | None = None
    many: Callable[..., Columns] | None = None
    needs: Callable[[Sequence[str], Options], str | None] = lambda names, options: None

    def __post_init__(self) -> None:
        where = f"{self.place}template {self.name!r}"
        for argument in self.arguments:
            if argument not in ARGUMENTS:
                raise InputError(f"{where}: unknown argument {argument!r}; a template reads any of {', '.join(ARGUMENTS)}")
        if not self.arguments:
            raise InputError(f"{where}: its function has no argument; a template reads any of {', '.join(ARGUMENTS)}")

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names of what the function is called with, in order."""
        return arguments_of(self.compute)

    @cached_property
    def kind(self) -> Kind:
        """The place where its features can live: the phrase pair, a unit in its context, a hypothesis or a whole list."""
        if "list" in self.reads:
            return "list"
        if "hypothesis" in self.reads:
            return "global"
        return "static" if set(self.reads) <= STATIC else "contextual"

    @property
    def state(self) -> tuple[str, ...]:
        """Keys of STATES that a decoder must keep to compute it while it searches; none for what the unit alone tells."""
        return tuple(what for what in self.reads if what in STATES)

    @property
    def beyond_search(self) -> str | None:
        """Say what it needs beside a unit, its neighbours and the source, so that search cannot compute it; None: nothing."""
        return next((STATES[what] for what in reversed(BEYOND_SEARCH) if what in self.reads), None)

    @property
    def of(self) -> Literal["unit", "occurrence", "hypothesis"]:
        """The thing that has the features."""
        if "hypothesis" in self.reads:
            return "hypothesis"
        return "unit" if self.kind == "static" else "occurrence"

    @property
    def of_text(self) -> bool:
        """Whether it gives a value for each unit of a hypothesis at once."""
        return "text" in self.arguments

    @property
    def sorts_names(self) -> bool:
        """Whether its dense features stand in the order of the alphabet: nothing says which there are."""
        return self.columns is None and not self.of_text and self.kind != "list"

    @property
    def options(self) -> Mapping[str, Any]:
        """Defaults by name; those without one must be given or learned."""
        return keywords(self.compute)

    @property
    def learn_options(self) -> Mapping[str, Any]:
        learn = self.learn
        if isinstance(learn, Counted):
            return {**keywords(learn.count), **keywords(learn.choose)}
        return keywords(learn.learn if isinstance(learn, FromPairs) else learn) if learn else {}

    @property
    def learnt(self) -> tuple[str, ...]:
        """Options that must be given or learned: those without a default."""
        return tuple(name for name, default in self.options.items() if default is inspect.Parameter.empty)

    @property
    def is_ours(self) -> bool:
        return self.compute.__module__.startswith("boostfeat.")

    @property
    def place(self) -> str:
        """``file:line: `` of a user's own function, "" of ours."""
        code = self.compute.__code__ if self.compute.__module__.startswith(PLUGIN) else None
        return f"{code.co_filename}:{code.co_firstlineno}: " if code else ""

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.compute) or "").split("\n")[0]

    @property
    def crossed(self) -> bool:
        """Whether references teach it: the list that they are of has too good scores by it."""
        return isinstance(self.learn, FromPairs) and self.learn.references

    @property
    def bitext_teaches(self) -> bool:
        """Whether a bitext teaches it, alone or beside references."""
        return isinstance(self.learn, FromPairs) and self.learn.bitext

    def bound(self, options: Options) -> Callable[..., Any]:
        """The function with the options of a plan."""
        with self.blamed():
            taken = own_options(self.compute, options)
            if self.ready is not None:
                taken = self.ready(**taken)
            return partial(self.compute, **taken) if taken else self.compute

    def caller(self, options: Options, shared: Options) -> Callable[[Options], Any]:
        """Return the function, with the options of a plan, of arguments by name, of which some are ``shared`` by all calls."""
        function = self.bound(options)

        def call(given: Options) -> Any:
            try:
                return function(*[shared[name] if name in shared else given[name] for name in self.arguments])
            except Exception as error:  # of a user's own function, or by a plan that no list taught
                raise self.failure(error) from error

        return call

    def shared_arguments(self, resources: Resources) -> dict[str, Any]:
        """Return its arguments that are the same for all units of a phrase table; raise where a file is missing."""
        if lacking := next(filter(None, (not_given(what, resources) for what in self.reads)), None):
            raise InputError(f"template {self.name!r} needs {lacking}")
        shared = ("clusters", "phrase_counts", "lexicon")
        return {name: resources.given(name) for name in self.arguments if name in shared}

    def names(self, options: Options, resources: Resources) -> tuple[str, ...] | None:
        """Names of its dense features in order, where they do not depend on what there is."""
        if self.columns is None or not callable(self.columns):
            return self.columns
        given = (resources.clusters,) if arguments_of(self.columns) else ()
        with self.blamed():
            return tuple(self.columns(*given, **own_options(self.columns, options)))

    def is_taught(self, options: Options) -> bool:
        """Whether they have all that a list could teach."""
        return set(self.learnt) <= set(options)

    def lacks(self, nbest: NBest, resources: Resources, options: Options | None = None) -> str | None:
        """Tell what the template reads and the list does not carry, or None; with options not taught yet, what teaches, too."""
        if options is None or self.is_taught(options):
            options = None
        elif self.crossed and not len(nbest.refs):
            return "references to learn from" + ("" if nbest.quality.names else "; import with -r REFERENCES")
        elif self.bitext_teaches and not self.crossed and not resources.has("bitext"):
            return not_given("bitext", resources)
        found = next((found for what in self.reads if (found := missing(what, nbest, resources))), None)
        return found if found or options is None or not nbest.n_hyps else self.needs(nbest.unit_names, options)

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Say in one line what goes wrong in a template, which may be the user's own or have been given wrong options."""
        try:
            yield
        except (Exception, SystemExit) as error:
            raise self.failure(error) from error

    def failure(self, error: BaseException) -> BaseException:
        """Give the error to raise for one that came out of the template."""
        if isinstance(error, InputError | MemoryError):
            return error
        where = place_in(self.compute.__code__.co_filename, error) if self.place else ""
        return InputError(
            f"{where}template {self.name!r}: expected to run, found {described(error)}; check its options or function"
        )


@cache
def arguments_of(function: Callable[..., Any]) -> tuple[str, ...]:
    found = inspect.signature(function).parameters.values()
    return tuple(p.name for p in found if p.kind is not inspect.Parameter.KEYWORD_ONLY)


@cache
def keywords(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Keyword-only arguments and their defaults: the options of a template's function."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


def own_options(function: Callable[..., Any], options: Options) -> dict[str, Any]:
    """Return the options that a function takes."""
    known = keywords(function)
    return {name: value for name, value in options.items() if name in known}


def template(
    name: str,
    *,
    learn: Learn | None = None,
    columns: Sequence[str] | Callable[..., Sequence[str]] | None = None,
    ready: Callable[..., dict[str, Any]] | None = None,
    reads: tuple[str, ...] | None = None,
    many: Callable[..., Columns] | None = None,
    needs: Callable[[Sequence[str], Options], str | None] = lambda names, options: None,
) -> Callable[[Callable[..., Any]], Template]:
    """Make a function a template. It has what its arguments name (ARGUMENTS); those after * are its options.

    @template("caps")
    def caps(target):
        return {"caps.tgt": sum(word[0].isupper() for word in target)}
    """

    def decorate(compute: Callable[..., Any]) -> Template:
        read = (what for argument in arguments_of(compute) for what in ARGUMENTS.get(argument, ()))
        names = columns if columns is None or callable(columns) else tuple(columns)
        return Template(name, compute, reads or tuple(dict.fromkeys(read)), learn, names, ready, many, needs)

    return decorate


def not_given(what: str, resources: Resources) -> str | None:
    """Tell that a template reads a file which is not given, and what to do; None where it is, or where it reads no file."""
    return None if what not in GIVEN or resources.has(what) else f"a {what}, and none is given; add {GIVEN[what]}"


def missing(what: str, nbest: NBest, resources: Resources) -> str | None:
    """Tell what a list lacks of what a template reads, and what to do; None if it has it."""
    units = nbest.units
    if not nbest.n_hyps or what in ("hypothesis", "list", *GIVEN):
        return not_given(what, resources)
    if what == "source sentence":
        return None if has_text(nbest.source) else "source sentences; import with -s SOURCE"
    if not nbest.n_occurrences:
        return "units (phrases); import a list that has them"
    fix = "have the decoder write which words a unit translates" if has_text(nbest.source) else "import with -s SOURCE"
    texts = {
        "source phrase": (units.src, f"source phrases; {fix}"),
        "target phrase": (units.tgt, "target phrases; import a list that has them"),
        "alignment": (units.align, "word alignments; have the decoder write them"),
    }
    if what in texts:
        return None if has_text(texts[what][0]) else texts[what][1]
    if what == "target span" or what in _IN_TEXT:
        unknown = (nbest.tgt_start < 0).any() or (units.tgt_len < 0).any()
        return "target spans of all units; import a list that has them" if unknown else None
    if "span" in what and ((nbest.src_start < 0).any() or (units.src_len < 0).any()):
        return "source spans of all units; have the decoder write the segmentation"
    return None


def place_in(path: str, error: BaseException) -> str:
    """``file:line: `` of the innermost call of a file that an error came through, "" where it came through none."""
    there = os.path.abspath(path)  # as Python names it
    calls = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if os.path.abspath(frame.filename) == there]
    return f"{path}:{calls[-1]}: " if calls else ""


def described(error: BaseException) -> str:
    """The error in one line; sys.exit() is one too where a plugin has no business to end the program."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def load_plugin(path: str | Path) -> dict[str, Template]:
    """Load the templates of a user's Python file. The file is run: only one that the user names."""
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
        raise InputError(f"{path}: expected a function decorated with @template(...), found none; write @template(name) above it")
    return found
