"""A metric as an object: it knows its statistics, its corpus score, its gain of a hypothesis, its direction and its signature.

    text -> a row of statistics per hypothesis -> the sum over the chosen ones -> score

Rows add up, so corpus scores, bootstrap, randomisation, MERT's line search and gains in the context of a corpus all work on
the same rows. No code asks for a metric by comparing names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import sacrebleu

from .. import __version__
from ..core.arrays import F64, I32, I64, Array, offsets
from ..core.errors import InputError, unknown_name
from .bleu import corpus_bleu, corpus_rows, sentence_bleu
from .chrf import chrf, chrf_stats
from .edits import edit_stats, error_rate
from .sums import BLEU, CHRF, EDITS, RATIO, STRICT, TER, Recipe
from .symbols import Texts
from .ter import ter, ter_stats


class Lists(Protocol):
    """N-best lists as a metric sees them: texts, references, BLEU statistics and quality columns. NBest has all of it."""

    @property
    def hyp_ptr(self) -> I64: ...
    @property
    def text(self) -> Any: ...
    @property
    def ref_ptr(self) -> I64: ...
    @property
    def refs(self) -> Any: ...
    @property
    def stats(self) -> I32: ...
    @property
    def has_stats(self) -> bool: ...
    @property
    def quality(self) -> Any: ...  # lists.nbest.Qualities
    @property
    def tokenizer(self) -> str: ...


class Metric:
    """The interface of all metrics. S sentences, H hypotheses, n statistics."""

    name: str
    lower_is_better = False
    needs_references = True
    width: int  # n
    size: int  # the statistic that says how much a row weighs in the corpus: its length, or 1
    kind: int  # what the score is of sums of statistics, see metrics.sums
    counted = False  # are rows counted on the texts, which takes time, so that they are worth keeping?
    points = 100.0  # factor of scores that people read: metrics are shares, quality columns have units of their own

    def rows(self, lists: Lists, hyps: I64 | None = None) -> Array:
        """Statistics [len(hyps), n] of some hypotheses; without them, of all [H, n]."""
        raise NotImplementedError

    def empty_row(self, lists: Lists, s: int) -> Array:
        """Statistics [n] of an empty line for a sentence."""
        raise NotImplementedError

    def score(self, sums: Array) -> F64:
        """The metric itself [...] of sums of statistics [..., n]; times ``points`` it is what people read."""
        raise NotImplementedError

    def gain(self, lists: Lists, *, alpha: float = 1.0) -> F64:
        """[H] how good each hypothesis is on its own, higher is better. ``alpha`` smooths BLEU and nothing else."""
        return self.higher(self.score(self.rows(lists)))

    def signature(self, n_refs: int | str, tokenizer: str = "none") -> str:
        """Tell what a number of this metric means."""
        return f"nrefs:{n_refs}|version:boostfeat-{__version__}"

    @property
    def sign(self) -> float:
        """The factor that makes scores better when higher."""
        return -1.0 if self.lower_is_better else 1.0

    def higher(self, scores: F64) -> F64:
        """Return the scores, turned so that higher is better."""
        return self.sign * scores

    def parts(self, lists: Lists) -> list[tuple[float, int, int]]:
        """(weight, kind, number of columns) of what adds up to the gain of sums of statistics; see metrics.sums."""
        return [(self.sign / self.unit(lists), self.kind, self.width)]

    def unit(self, lists: Lists) -> float:
        """Return what scores are divided by to be gains."""
        return 1.0

    def recipe(self, lists: Lists) -> Recipe:
        """The gain of sums of statistics as compiled loops take it, in units of ``gain``."""
        return Recipe.of(self.parts(lists), self.size)

    def fixed(self, alpha: float) -> Metric:
        """The metric with this α, where it is one that smooths by what the learner asks for."""
        return self

    def context_gain(self, rows: Array, rest: Array) -> F64:
        """[...] the corpus score, better when higher, of rows [..., n] each added to statistics [..., n] of all others."""
        return self.higher(self.score(rows + rest))

    def slope(self, total: F64) -> F64:
        """[n] derivatives of the score in corpus statistics, by differences: exact enough for a standard error."""
        step = np.maximum(1.0, 1e-4 * np.abs(total))
        up, down = (self.score(total + sign * np.diag(step)) for sign in (1, -1))
        return np.asarray((up - down) / (2 * step))

    def learnable_gain(self, lists: Lists, *, alpha: float = 1.0) -> F64:
        """The gain [H] for a learner: raises where there is nothing to learn from."""
        self.check_learnable(lists)
        return self.gain(lists, alpha=alpha)

    def check_learnable(self, lists: Lists) -> None:
        """Raise where there is nothing to learn from."""
        self.check(lists)

    def check(self, lists: Lists) -> None:
        """Raise where the lists lack what this metric is computed from."""
        if self.needs_references and not lists.has_stats:
            columns = ", ".join(lists.quality.names)
            instead = f", or take its quality column ({columns}) as --gain and --metric" if columns else ""
            raise InputError(f"{self.name}: expected a list with references, found one without; import it with -r{instead}")


@dataclass(frozen=True)
class Bleu(Metric):
    """Corpus BLEU as sacrebleu's, or with the strict brevity penalty of [C08]; its gain is BLEU+α [LO04]."""

    name: str
    strict: bool = False
    width = 11
    size = 9  # reference length

    @property
    def kind(self) -> int:  # type: ignore[override]
        return STRICT if self.strict else BLEU

    def rows(self, lists: Lists, hyps: I64 | None = None) -> Array:
        return corpus_rows(lists.stats if hyps is None else lists.stats[hyps])

    def empty_row(self, lists: Lists, s: int) -> Array:
        refs = lists.refs.slice(lists.ref_ptr[s], lists.ref_ptr[s + 1] - lists.ref_ptr[s]).to_pylist()
        split = tokenizer(lists.tokenizer)
        shortest = min((len(split(ref).split()) for ref in refs), default=0)
        return corpus_rows(np.array([0, 0, 0, 0, 0, shortest], np.int32))

    def score(self, sums: Array) -> F64:
        return corpus_bleu(sums, strict=self.strict)

    def gain(self, lists: Lists, *, alpha: float = 1.0) -> F64:
        return self.gain_of(lists.stats, alpha=alpha)

    def gain_of(self, stats: Array, *, alpha: float = 1.0) -> F64:
        """BLEU+α [...] of statistics [..., 6]."""
        return sentence_bleu(stats, alpha=alpha)

    def signature(self, n_refs: int | str, tokenizer: str = "none") -> str:
        if not self.strict:
            return _sacrebleu_signature("BLEU", n_refs, tokenize=tokenizer, force=True)
        return f"nrefs:{n_refs}|case:mixed|eff:no|tok:{tokenizer}|smooth:exp|bp:strict|version:boostfeat-{__version__}"


@dataclass(frozen=True)
class SentenceBleu(Metric):
    """The mean of smoothed sentence BLEU over sentences [LO04]; with ``alpha`` None, α is what the learner asks for."""

    name: str
    alpha: float | None = None
    width = 2
    size = 1
    kind = RATIO

    def rows(self, lists: Lists, hyps: I64 | None = None) -> Array:
        value = sentence_bleu(lists.stats if hyps is None else lists.stats[hyps], alpha=1.0 if self.alpha is None else self.alpha)
        return np.stack([value, np.ones(len(value))], axis=1)

    def empty_row(self, lists: Lists, s: int) -> Array:
        return np.array([0.0, 1.0])

    def score(self, sums: Array) -> F64:
        return _ratio(sums)

    def gain(self, lists: Lists, *, alpha: float = 1.0) -> F64:
        return sentence_bleu(lists.stats, alpha=alpha if self.alpha is None else self.alpha)

    def fixed(self, alpha: float) -> Metric:
        return self if self.alpha is not None else SentenceBleu(f"bleu+{alpha:g}", alpha)

    def signature(self, n_refs: int | str, tokenizer: str = "none") -> str:
        how = f"smooth:add[{1.0 if self.alpha is None else self.alpha:g}]|orders:2-4"
        return f"nrefs:{n_refs}|case:mixed|tok:{tokenizer}|{how}|version:boostfeat-{__version__}"


@dataclass(frozen=True)
class TextMetric(Metric):
    """A metric whose rows are counted on the texts: chrF, TER, WER, CER."""

    name: str
    count: Callable[[Texts], Array]  # rows
    of_sums: Callable[[Array], F64]
    signed: Callable[[int | str], str]
    width: int
    kind: int
    lower_is_better: bool = False
    counted = True
    size = 1  # of chrF the characters of the reference, of the others its length

    def rows(self, lists: Lists, hyps: I64 | None = None) -> Array:
        sents = np.arange(len(lists.hyp_ptr) - 1)
        counts, text = np.diff(lists.hyp_ptr), lists.text
        if hyps is not None:
            order = np.argsort(hyps, kind="stable")
            owner = np.searchsorted(lists.hyp_ptr, hyps[order], side="right") - 1
            counts, text = np.bincount(owner, minlength=len(sents)), lists.text.take(hyps[order])
        rows = self._count(lists, sents, offsets(counts), text)
        if hyps is None:
            return rows
        out = np.empty_like(rows)
        out[order] = rows
        return out

    def empty_row(self, lists: Lists, s: int) -> Array:
        return self._count(lists, np.array([s]), np.array([0, 1]), pa.array([""], pa.large_string()))[0]

    def _count(self, lists: Lists, sents: I64, hyp_ptr: I64, text: Any) -> Array:
        """Rows of texts of these sentences. A sentence without any reference is one whose reference is empty, as for BLEU."""
        ref_ptr, refs = lists.ref_ptr, lists.refs
        if len(sents) < len(ref_ptr) - 1 or (np.diff(ref_ptr) < 1).any():
            own = [refs.slice(ref_ptr[s], ref_ptr[s + 1] - ref_ptr[s]).to_pylist() or [""] for s in sents.tolist()]
            ref_ptr, refs = offsets(np.array([*map(len, own)])), pa.array([*chain.from_iterable(own)], pa.large_string())
        return self.count(Texts(hyp_ptr, text, ref_ptr, refs))

    def score(self, sums: Array) -> F64:
        return self.of_sums(sums)

    def signature(self, n_refs: int | str, tokenizer: str = "none") -> str:
        return self.signed(n_refs)


@dataclass(frozen=True)
class Column(Metric):
    """A quality column: Σ value / Σ weight of the chosen hypotheses."""

    name: str
    lower_is_better: bool = False
    needs_references = False
    width = 2
    size = 1
    kind = RATIO
    points = 1.0

    def rows(self, lists: Lists, hyps: I64 | None = None) -> Array:
        columns, k = lists.quality, lists.quality.names.index(self.name)
        pick = slice(None) if hyps is None else hyps
        return np.stack([columns.value[pick, k], columns.weight[pick, k]], axis=1)

    def empty_row(self, lists: Lists, s: int) -> Array:
        """An empty list counts as the worst hypothesis of the corpus: nobody scored an empty line."""
        rows = self.rows(lists)
        return rows[np.argmin(self.higher(_ratio(rows)))] if len(rows) else np.zeros(2)

    def score(self, sums: Array) -> F64:
        return _ratio(sums)

    def gain(self, lists: Lists, *, alpha: float = 1.0) -> F64:
        """Return gains in units in which the column spreads within lists as BLEU does: thresholds mean what they mean there."""
        return self.higher(_ratio(self.rows(lists)) / self.unit(lists))

    def unit(self, lists: Lists) -> float:
        return lists.quality.unit[lists.quality.names.index(self.name)]

    def signature(self, n_refs: int | str, tokenizer: str = "none") -> str:
        return f"column:{self.name}|{'lower' if self.lower_is_better else 'higher'}-is-better|version:boostfeat-{__version__}"

    def check_learnable(self, lists: Lists) -> None:
        self.check(lists)
        gains = self.gain(lists)
        first = gains[lists.hyp_ptr[:-1].repeat(np.diff(lists.hyp_ptr))]
        if len(gains) and (gains == first).all():
            raise InputError(
                f"{self.name}: expected a quality column that tells hypotheses of a list apart, found the same number for all "
                "of each; check the file it came from"
            )

    def check(self, lists: Lists) -> None:
        if self.name not in lists.quality.names:
            raise unknown_name("metric", self.name, [*METRICS, *lists.quality.names])


@dataclass(init=False)
class Combination(Metric):
    """A weighted sum of metrics, such as (BLEU - TER) / 2."""

    name: str
    terms: tuple[tuple[float, Metric], ...]

    def __init__(self, name: str, terms: tuple[tuple[float, Metric], ...]) -> None:
        parts = [part for _, part in terms]
        self.name, self.terms, self.size = name, terms, parts[0].size
        self.needs_references = any(part.needs_references for part in parts)
        self.counted = any(part.counted for part in parts)
        self.points = min(part.points for part in parts)
        self.width = sum(part.width for part in parts)

    def rows(self, lists: Lists, hyps: I64 | None = None) -> Array:
        return np.concatenate([part.rows(lists, hyps).astype(np.float64) for _, part in self.terms], axis=1)

    def empty_row(self, lists: Lists, s: int) -> Array:
        return np.concatenate([part.empty_row(lists, s).astype(np.float64) for _, part in self.terms])

    def score(self, sums: Array) -> F64:
        cuts = np.cumsum([part.width for _, part in self.terms])[:-1]
        split = np.split(np.asarray(sums, np.float64), cuts, axis=-1)
        return np.sum([w * part.score(s) for (w, part), s in zip(self.terms, split, strict=True)], axis=0)

    def gain(self, lists: Lists, *, alpha: float = 1.0) -> F64:
        """The weights are of scores: what a gain has turned round or divided is taken back."""
        scores = [w * term.unit(lists) * term.higher(term.gain(lists, alpha=alpha)) for w, term in self.terms]
        return np.asarray(np.sum(scores, axis=0))

    def parts(self, lists: Lists) -> list[tuple[float, int, int]]:
        """Return the parts of the terms, in units of scores as in ``gain``."""
        return [(w, kind, width) for w, term in self.terms for _, kind, width in term.parts(lists)]

    def fixed(self, alpha: float) -> Metric:
        return Combination(self.name, tuple((w, term.fixed(alpha)) for w, term in self.terms))

    def signature(self, n_refs: int | str, tokenizer: str = "none") -> str:
        return "; ".join(f"{w:+g} * {part.name}|{part.signature(n_refs, tokenizer)}" for w, part in self.terms)

    def check(self, lists: Lists) -> None:
        for _, part in self.terms:
            part.check(lists)

    def check_learnable(self, lists: Lists) -> None:
        for _, part in self.terms:
            part.check_learnable(lists)


def _ratio(sums: Array) -> F64:
    """Σ value / Σ weight [...] of sums [..., 2]; 0 where nothing weighs."""
    sums = np.asarray(sums, np.float64)
    return np.divide(sums[..., 0], sums[..., 1], out=np.zeros(sums.shape[:-1]), where=sums[..., 1] != 0)


def _sacrebleu_signature(kind: str, n_refs: int | str, **how: Any) -> str:
    scorer = getattr(sacrebleu, kind)(**how)
    scorer.num_refs = n_refs
    return str(scorer.get_signature())


def tokenizer(name: str) -> Callable[[str], str]:
    """A tokeniser of sacrebleu by its name; ``none`` leaves the text as it is."""
    if name == "none":
        return str
    if name not in sacrebleu.BLEU.TOKENIZERS:
        raise unknown_name("tokenizer", name, sorted(n for n in sacrebleu.BLEU.TOKENIZERS if n))
    try:
        return sacrebleu.BLEU(tokenize=name, force=True).tokenizer
    except (ImportError, OSError, RuntimeError) as error:
        said = [line.strip() for line in str(error).splitlines() if line.strip()]  # its last line is what to do
        fix = said[-1] if said else "install it"
        raise InputError(f"--tokenize {name}: expected what this tokenizer needs, found it missing; {fix}") from None


def _edits(name: str, unit: str, *, characters: bool) -> TextMetric:
    signed = f"nrefs:{{}}|case:mixed|tok:{unit}|version:boostfeat-{__version__}".format
    return TextMetric(name, partial(edit_stats, characters=characters), error_rate, signed, 2, EDITS, True)


def _chrf(name: str, word_order: int) -> TextMetric:
    signed = partial(_sacrebleu_signature, "CHRF", word_order=word_order)
    return TextMetric(name, partial(chrf_stats, word_order=word_order), chrf, signed, 18 + 3 * word_order, CHRF)


METRICS: dict[str, Metric] = {
    "bleu": Bleu("bleu"),
    "bleu-sbp": Bleu("bleu-sbp", strict=True),
    "chrf": _chrf("chrf", 0),
    "chrf++": _chrf("chrf++", 2),
    "ter": TextMetric("ter", ter_stats, ter, partial(_sacrebleu_signature, "TER"), 2, TER, True),
    "wer": _edits("wer", "none", characters=False),
    "cer": _edits("cer", "char", characters=True),
    "bleu+1": SentenceBleu("bleu+1", 1.0),
    "bleu+alpha": SentenceBleu("bleu+alpha"),
}


_SHOWN = {"bleu": "BLEU", "bleu-sbp": "BLEU-SBP", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER", "wer": "WER", "cer": "CER"}


def shown(name: str) -> str:
    """The name of a metric as people write it."""
    return _SHOWN.get(name, name)


def figure(metric: str, value: float | None, sign: str = "") -> str:
    """Write a score or a difference: two decimals of a metric's points, four digits of a column's own unit; sign "+" shows it."""
    decimals = ".2f" if re.split("[-+]", metric)[0] in METRICS else ".4g"  # bleu+1 and bleu-ter have points too
    return f"{value:{sign}{decimals}}"


def metric_of(name: str, lists: Lists | None = None) -> Metric:
    """The metric of this name: built in, a quality column of the lists, or a combination such as ``bleu-ter``."""
    columns = (
        {} if lists is None else {c: Column(c, low) for c, low in zip(lists.quality.names, lists.quality.lower, strict=True)}
    )
    known: dict[str, Metric] = {**METRICS, **columns}
    if name in known:
        return known[name]
    if smoothed := re.fullmatch(r"bleu\+(\d*\.?\d+)", name):
        return SentenceBleu(name, float(smoothed[1]))
    if parts := _parts(name, known):
        return Combination(name, parts)
    error = unknown_name("metric", name, known)
    raise error if lists is None or columns else InputError(f"{error}; the list has no quality column")


def _parts(name: str, known: dict[str, Metric]) -> tuple[tuple[float, Metric], ...]:
    """(weight, metric) of the terms of a combination; equal weights where none are written. () where it is none."""
    names = "|".join(re.escape(n) for n in sorted(known, key=len, reverse=True))
    term = re.compile(rf"\s*([+-]?)\s*(?:(\d+(?:\.\d+)?)\s*\*\s*)?({names})\s*(?=[+-]|$)")
    found: list[tuple[float, float | None, Metric]] = []
    at = 0
    while at < len(name):
        match = term.match(name, at)
        if match is None or (found and not match[1]):
            return ()
        found.append((-1.0 if match[1] == "-" else 1.0, float(match[2]) if match[2] else None, known[match[3]]))
        at = match.end()
    if len(found) < 2:
        return ()
    return tuple((sign * (1 / len(found) if weight is None else weight), metric) for sign, weight, metric in found)


def metrics_of(text: str | Sequence[str], lists: Lists | None = None) -> list[Metric]:
    """The metrics of names separated by commas."""
    names = [name.strip() for name in (text.split(",") if isinstance(text, str) else text) if name.strip()]
    if not names:
        raise InputError(f"expected metric names separated by commas, found none; choose from {', '.join(METRICS)}")
    return [metric_of(name, lists) for name in names]
