"""The features that a model carries: the plan that made them, so that any raw list gets the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..core.errors import InputError, counted
from ..core.files import digest
from ..core.text import split_words
from ..formats.moses.table_files import read_phrase_counts
from ..lists.agreement import known_sentences
from ..lists.choices import first_choice, texts
from ..lists.nbest import NBest
from ..model.model import Model
from .clusters import read_clusters
from .expected_length import pairs_of
from .featurizing import MOST_LINES, TemplateWorkers, featurize, featurize_runs, featurize_to, runs_of
from .known_words import MOST, doubts_about
from .language_model import LanguageModel
from .lexicon import Bitext
from .plan import FeaturePlan
from .registry import Template, load_plugin
from .resources import Clusters, Posterior, ResourceFiles, Resources
from .templates import TEMPLATES

MOST_TAUGHT = 0.5  # share of sentences that a template may know from its references without a word; boilerplate recurs
MOST_UNKNOWN = 0.3  # share of words that a language model may not know without a word

READ_BY = {  # the files that templates read, and what templates call them
    "phrase_table": "phrase table",
    "bitext": "bitext",
    "clusters_src": "clusters",
    "clusters_tgt": "clusters",
}  # a language model is told of in _with_unknown


@dataclass(frozen=True)
class FeatureMaker:
    """Computes templates on lists with the files that were given; what is read once is kept for the next list."""

    files: ResourceFiles = field(default_factory=ResourceFiles)
    seed: int = 0
    threads: int = 1
    report: Callable[[str, int, int], None] | None = None  # template, done, of how many
    say: Callable[[str], None] = lambda line: None
    cluster: TemplateWorkers | None = None  # that computes lists that its workers open

    def __getstate__(self) -> dict[str, object]:
        """Another process says nothing, and reads its own files."""
        return {name: getattr(self, name) for name in ("files", "seed", "threads")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(FeatureMaker().__dict__, **state)

    @cached_property
    def registry(self) -> Mapping[str, Template]:
        """The templates of the program and of the user's files."""
        found = dict(TEMPLATES)
        for path, templates in self._plugins.items():
            for name, own in templates.items():
                if name in found:
                    raise InputError(f"{path}: template {name!r}: expected a name of its own, found a known one; rename it")
                found[name] = own
        return found

    @cached_property
    def _plugins(self) -> Mapping[str, Mapping[str, Template]]:
        return {path: load_plugin(path) for path in self.files.plugin or ()}

    @cached_property
    def _bitext(self) -> Bitext | None:
        return Bitext.read(*self.files.bitext) if self.files.bitext else None

    @cached_property
    def _lm(self) -> LanguageModel | None:
        return LanguageModel.load(self.files.lm) if self.files.lm else None

    @cached_property
    def _clusters(self) -> Clusters:
        src, tgt = (read_clusters(path) if path else {} for path in (self.files.clusters_src, self.files.clusters_tgt))
        return Clusters(src, tgt)

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests of the files that the plan does not hold."""
        out = {"phrase table": digest(self.files.phrase_table)} if self.files.phrase_table else {}
        return out | ({"bitext": " ".join(map(digest, self.files.bitext))} if self.files.bitext else {})

    @property
    def shared(self) -> Resources:
        """Resources of templates beside any list."""
        return Resources(self._clusters, None, self._bitext, self._lm)

    def resources(self, nbest: NBest, posterior: Posterior | None = None) -> Resources:
        """Return the resources of templates beside this list."""
        table = self.files.phrase_table
        counts = read_phrase_counts(table, nbest.units) if table else None
        return replace(self.shared, phrase_counts=counts, posterior=posterior or Posterior())

    def plan(self, what: str, *, min_count: int | None = None, hash_bits: int = 0, products: int = 0) -> FeaturePlan:
        """Return the plan that ``what`` names (sets, templates, or a TOML file), with those that read a file that is given."""
        given = Resources(phrase_counts={} if self.files.phrase_table else None, bitext=self._bitext)
        how: dict[str, Any] = {"min_count": min_count, "hash_bits": hash_bits, "products": products, "say": self.say}
        return FeaturePlan.of(what, self.registry, given, **how)

    def learn(
        self, nbest: NBest, plan: FeaturePlan, *, posterior: Posterior | None = None, to: str | Path | None = None, **how: Any
    ) -> tuple[NBest, FeaturePlan]:
        """Return the list with the plan's features, and the plan with what it taught.

        ``to`` names a store to write, which is mapped; ``how`` is that of featurize and featurize_to.
        """
        if not plan.is_frozen:
            plan = replace(plan, resources=self.digests)
            self._say_own_lines(nbest, plan)
        return self._featurize(nbest, plan, posterior, to, **how)

    def grow(self, nbest: NBest, plan: FeaturePlan) -> tuple[NBest, FeaturePlan]:
        """The list with the features of a learned plan and the sparse ones that are new, and the plan with these.

        What else lists have taught (words, quantiles, clusters) stays; a feature that this list lacks stays, too.
        """
        opened = tuple(replace(e, features=None) if e.is_sparse else e for e in plan.entries)
        out, learnt = self._featurize(nbest, replace(plan, entries=opened))
        both = [(e, {*(e.features or ()), *(new.features or ())}) for e, new in zip(plan.entries, learnt.entries, strict=True)]
        grown = tuple(replace(e, features=tuple(sorted(names))) if e.is_sparse else e for e, names in both)
        plan = replace(plan, entries=grown)
        if grown != learnt.entries:
            return self._featurize(nbest, plan)
        return replace(out, meta={**out.meta, "vocab": plan.signature}), plan

    def taught(self, plan: FeaturePlan | None) -> str | None:
        """A template of the plan that references or a bitext taught, if there is one: their lists have too good scores by it."""
        return self._first(plan, lambda template: template.crossed or template.bitext_teaches)

    def _first(self, plan: FeaturePlan | None, fits: Callable[[Template], bool]) -> str | None:
        """Name the first template of a plan that fits."""
        names = (e.name for e in (plan.entries if plan else ()))
        return next((name for name in names if name in self.registry and fits(self.registry[name])), None)

    def _say_own_lines(self, nbest: NBest, plan: FeaturePlan) -> None:
        """Say how many lines of the bitext are sentences of the list that learns, and what comes of it."""
        taught = self._first(plan, lambda template: template.bitext_teaches)
        if self._bitext is not None and taught and len(self._bitext.pairs) > MOST_LINES:
            self.say(
                f"--bitext: the model cannot tell test sentences that are in it: of over {MOST_LINES:,} lines it keeps no trace"
            )
        if (name := taught or self._bitext_reader(plan)) and (lines := self._own_lines(nbest, "the list")):
            self.say(f"{lines}: template {name!r} learns without them")

    def _own_lines(self, nbest: NBest, where: str) -> str:
        """Say how many lines of the bitext are sentences of a list; "" where none is."""
        n = len(self._bitext.pairs) - len(self._bitext.without(set(pairs_of(nbest))).pairs) if self._bitext else 0
        of_it = f"{counted(n, 'line')} of it {'is a sentence' if n == 1 else 'are sentences'} of {where}"
        return f"warning: --bitext: {of_it}" if n else ""

    def _bitext_reader(self, plan: FeaturePlan) -> str | None:
        """Name a template of the plan that reads the bitext whenever it computes features."""
        return self._first(plan, lambda template: "bitext" in template.reads)

    def _say_too_good(self, nbest: NBest, plan: FeaturePlan, where: str) -> None:
        """Say where the references of most of a list have taught a template, or are in the bitext that one reads.

        And which files are not those that the plan was learned with.
        """
        self.check(plan)
        if (name := self.taught(plan)) and plan.taught_by:
            met = known_sentences(nbest, set(plan.taught_by))
            if sum(met) > MOST_TAUGHT * len(met):
                share = f"the references of {sum(met):,} of its {counted(len(met), 'sentence')} taught template {name!r}"
                self.say(f"warning: {where}: {share}: the model's scores look too good there")
        if (reader := self._bitext_reader(plan)) and (lines := self._own_lines(nbest, where)):
            self.say(f"{lines}: by template {reader!r} the model's scores look too good there")

    def apply(
        self, nbest: NBest, plan: FeaturePlan, *, present: bool = False, to: str | Path | None = None, where: str = "list"
    ) -> NBest:
        """The list with the features of a frozen plan; with ``present``, of the sparse ones those that occur (see featurize)."""
        self._say_too_good(nbest, plan, where)
        return self._featurize(nbest, plan, None, to, **({"present": True} if present else {}))[0]

    def check(self, plan: FeaturePlan) -> None:
        """Say which files are not those that the plan was learned with."""
        for what, sha in plan.resources.items():
            if what in self.digests and self.digests[what] != sha:
                self.say(f"warning: --{what.replace(' ', '-')}: expected the file that the model was trained with, found another")

    def _how(self, nbest: NBest, posterior: Posterior | None = None) -> dict[str, Any]:
        return {"registry": self.registry, "resources": self.resources(nbest, posterior), "report": self.report}

    def _featurize(
        self, nbest: NBest, plan: FeaturePlan, posterior: Posterior | None = None, to: str | Path | None = None, **how: Any
    ) -> tuple[NBest, FeaturePlan]:
        how |= {**self._how(nbest, posterior), "seed": self.seed, "threads": self.threads, "left_out": self.say}
        how["cluster"] = None if how.get("present") else self.cluster
        out, learnt = featurize(nbest, plan, **how) if to is None else featurize_to(to, nbest, plan, **how)
        for _ in self._with_unknown(runs_of(out)) if self.files.lm else ():
            pass
        return out, learnt

    def unused(self, plan: FeaturePlan, *, teaches: bool = False) -> list[str]:
        """Name the files that were given and that no template of the plan reads: they change nothing.

        A bitext changes a plan that is not learned yet, or was learned with it (``teaches``).
        """
        names = {entry.name for entry in plan.entries}
        reads = {what for name in names & self.registry.keys() for what in self.registry[name].reads}
        if (teaches or not plan.is_frozen) and self._first(plan, lambda template: template.bitext_teaches):
            reads.add("bitext")
        given = {flag: what for flag, what in READ_BY.items() if getattr(self.files, flag)}
        plugins = [f"--plugin {path}" for path, own in self._plugins.items() if names.isdisjoint(own)]
        return [f"--{flag.replace('_', '-')}" for flag, what in given.items() if what not in reads] + plugins

    def runs_for_model(self, nbest: NBest, model: Model, *, where: str = "list", run: int | None = None) -> Iterator[NBest]:
        """The list as runs of sentences with the features that the model carries, to be scored and forgotten.

        A list that has them all already is one run.
        """
        plan = self._lacking(nbest, model, where)
        if plan is None:
            return iter([nbest])
        self._say_too_good(nbest, plan, where)
        return self._with_unknown(featurize_runs(nbest, plan, run=run, **self._how(nbest)))

    def _with_unknown(self, lists: Iterable[NBest]) -> Iterator[NBest]:
        """Pass lists on, and say where the language model does not know their words: its numbers mean little there."""
        unknown, words, used = 0.0, 0, False
        for part in lists:
            if self.files.lm and "lm.unknown" in part.unit_names:
                unknown, used = unknown + float(part.global_column("lm.unknown").sum()), True
                words += sum(len(split_words(text)) for text in part.text.to_pylist())
            yield part
        if self.files.lm and not used:
            self.say("--lm is not used: name the template lm, or the set words, with --templates")
        elif unknown > MOST_UNKNOWN * max(1, words):
            share = f"{100 * unknown / words:.0f}% of the words"
            self.say(f"{self.files.lm} does not know {share}: is it of the same language, case and tokenisation?")

    def for_model(self, nbest: NBest, model: Model, *, where: str = "list") -> NBest:
        """The list with the features that the model carries; a list that has them all already is as it was."""
        plan = self._lacking(nbest, model, where)
        return nbest if plan is None else self.apply(nbest, plan, where=where)

    def _lacking(self, nbest: NBest, model: Model, where: str) -> FeaturePlan | None:
        """The plan of the features that the model carries, unless the list has them all."""
        if (plan := plan_of(model)) is None:
            return None
        # where a list has hardly any words of the lists that taught the plan; its beginning tells
        source, target = nbest.source[:MOST].to_pylist(), texts(nbest, first_choice(nbest)[:MOST])
        for doubt in doubts_about(plan, source=source, target=target):
            self.say(f"warning: {where}: {doubt}")
        is_made = nbest.meta.get("vocab") == plan.signature or has_features(nbest, plan.features, where)
        return None if is_made else plan


def has_features(nbest: NBest, made: Set[str], where: str) -> bool:
    """Whether a list has all features of a plan already; some of them are an error."""
    known = set(nbest.feature_names)
    if made <= known:
        return True
    if both := sorted(made & known):
        raise InputError(
            f"{where}: expected a raw list or one with all features that the model carries, found only some of them "
            f"({both[0]}); give the imported list"
        )
    return False


def with_plan(model: Model, plan: FeaturePlan | None) -> Model:
    """The model with the plan of its features, if they have one."""
    return model if plan is None else replace(model, plan=plan.to_json())


def plan_of(model: Model) -> FeaturePlan | None:
    """The plan that a model carries; it is read once."""
    if model.plan is None:
        return None
    if "read_plan" not in vars(model):
        vars(model)["read_plan"] = FeaturePlan.from_json(model.plan, "features of the model")
    return vars(model)["read_plan"]
