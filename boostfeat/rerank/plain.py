"""A model in plain Python: what ``Reranker`` calls for candidates, and what ``export --to python`` writes.

Only the standard library and the templates' own functions are used, so that the source of this file can stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import exp, log
from operator import itemgetter, not_
from typing import Any, NamedTuple
from warnings import warn
from zlib import crc32

from ..core.text import split_words
from ..features.resources import Clusters
from ..features.templates.candidates import Candidates, expected_gains
from ..features.templates.helpers import parsed_links, split
from ..features.templates.place import turn
from ..model.decision import expected_words

LARGEST = 1.7976931348623157e308
CANDIDATE_KEYS = ("features", "score", "text", "units")
UNIT_KEYS = ("align", "features", "score", "src", "src_text", "tgt", "tgt_text")
NEEDED_KEYS = {  # by what a template reads, the keys of a unit of which one is needed
    "source phrase": ("src", "src_text"),
    "target phrase": ("tgt", "tgt_text"),
    "alignment": ("align",),
    "span": ("src",),
    "previous span": ("src",),
    "following span": ("src",),
    "target span": ("tgt",),
}
VALUES = ("unit_features", "previous_features", "following_features")  # arguments that are dictionaries


class CandidateError(ValueError):
    """Candidates that cannot be scored."""


class MissingFeatureError(CandidateError):
    """Candidates that lack features of the model."""

    def __init__(self, features: Sequence[str]) -> None:
        names = ", ".join(map(repr, features[:9])) + (f" and {len(features) - 9} more" if features[9:] else "")
        super().__init__(f"candidates: expected numbers for {names}, which the model reads, found none; give them to all")
        self.features = features


class PlainTemplate(NamedTuple):
    """A template of a plan, ready to be called."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[str, ...]
    reads: tuple[str, ...]
    bits: int = 0  # of hashed names


@dataclass(frozen=True)
class Decided:
    """A choice among candidates."""

    index: int
    probability: float | None  # that it is the best of its list; None: the model did not learn that
    margin: float  # over the decoder's choice
    kept_first: bool  # whether it is the decoder's choice
    model: str


class Unit:
    """A unit of a candidate: what templates read of it, the tested features, and its score so far."""

    def __init__(self, arguments: dict[str, Any], tgt: tuple[int, ...]) -> None:
        self.arguments, self.tgt = arguments, tgt
        self.tested: dict[str, float] = {}
        self.score = 0.0


class Hypothesis:
    """A candidate: its words, units, features that no unit carries, and score so far."""

    def __init__(self, words: list[str], units: list[Unit], own: Mapping[str, float], decoder_score: float | None) -> None:
        self.words, self.units, self.own, self.decoder_score = words, units, own, decoder_score
        self.tested: dict[str, float] = {}
        self.score = 0.0


class PlainModel:
    """Scores candidates and chooses among them.

    ``data`` has the weights, trees and level of a model, the clusters, products and posterior of its plan, and its decision;
    ``files`` what templates read beside lists, by argument. A feature that some candidates lack counts as 0, which is told once;
    ``missing`` may say refuse, zero, or worst: the lowest of the others.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        templates: Sequence[PlainTemplate],
        files: Mapping[str, Any] | None = None,
        missing: str | None = None,
    ) -> None:
        self.data, self.templates, self.inputs = data, templates, set(data["inputs"])
        self.missing, self.was_told = missing, False
        self.shared = {**(files or {}), "clusters": Clusters(**data["clusters"])}  # arguments that are the same for all
        names = {template.name for template in templates}
        self.dense: dict[str, float] = {}
        self.sparse: dict[str, dict[str, float]] = {name: {} for name in names}
        for name, weight in data["weights"].items():
            prefix, _, short = name.partition(":")
            if weight and prefix in names:
                self.sparse[prefix][short] = weight
            elif weight:
                self.dense[name] = weight
        self.tested = {node["feature"] for tree in data["trees"] for node in tree["nodes"] if "feature" in node}
        self.tested |= {tree["on"] for tree in data["trees"] if tree.get("on") is not None}
        self.products = {f"{a}*{b}": (a, b) for a, b in data["products"]}
        self.kept = self.tested.union(*self.products.values()) if self.products else self.tested
        self.reads_links = any("links" in template.arguments for template in templates)
        self.keys = {NEEDED_KEYS[what]: t.name for t in templates for what in t.reads if what in NEEDED_KEYS}
        posterior = data["posterior"]
        self.list_model = PlainModel(posterior["model"], ()) if posterior and posterior["model"] else None

    # -- what templates read -------------------------------------------------------------------------------------------

    def hypotheses(self, candidates: Sequence[Any], sentence: tuple[str, ...]) -> list[Hypothesis]:
        """Check candidates, and prepare what templates read of them."""
        if not sentence and (reader := next((t.name for t in self.templates if "sentence" in t.arguments), None)):
            raise CandidateError(f"source: template {reader!r} of the model reads the source sentence; give it")
        check_several(candidates)
        given = [checked_candidate(candidate, f"candidates[{k}]") for k, candidate in enumerate(candidates)]
        if self.data["trees"] and self.data["level"] == "local" and not all("units" in each for each in given):
            raise CandidateError("candidates: the trees of the model look at units (phrases, or words); give them")
        names = dict.fromkeys(name for each in given for unit in each.get("units") or () for name in unit.get("features") or ())
        zeros = dict.fromkeys(names, 0.0)
        spans = (unit["src"] for each in given for unit in each.get("units") or () if unit.get("src"))
        n_source = len(sentence) or max((int(end) for _, end in spans), default=0)
        out = []
        for k, candidate in enumerate(given):
            words = words_of_text(candidate["text"])
            units = [
                self._unit(unit, words, sentence, zeros, f"candidates[{k}].units[{u}]")
                for u, unit in enumerate(candidate.get("units") or ())
            ]
            place_units(units, len(words), n_source)
            out.append(Hypothesis(words, units, candidate.get("features") or {}, decoder_score(candidate)))
        return out

    def _unit(self, unit: Mapping[str, Any], words: Sequence[str], sentence: Sequence[str], zeros: Any, where: str) -> Unit:
        for keys, reader in self.keys.items():
            if all(unit.get(key) is None for key in keys):
                raise CandidateError(f"{where}: template {reader!r} of the model reads {' or '.join(keys)}; give it")
        src, tgt = (tuple(map(int, unit[side])) if unit.get(side) is not None else None for side in ("src", "tgt"))
        if self.keys and src and sentence and src[1] > len(sentence):
            raise CandidateError(f"{where}: expected a source span within the sentence's {len(sentence)} words, found {src}")
        source, target = unit.get("src_text"), unit.get("tgt_text")
        source = tuple(sentence[slice(*src)] if src else ()) if source is None else split(source)
        target = tuple(words[slice(*tgt)] if tgt else ()) if target is None else split(target)
        return Unit(
            {
                "source": source,
                "target": target,
                "links": checked_links(unit.get("align") or "", (len(source), len(target)), where) if self.reads_links else (),
                "unit_features": {**zeros, **(unit.get("features") or {})},
                "span": src or (-1, -2),
                "sentence": sentence,
                **self.shared,
            },
            tgt or (-1, -2),
        )

    # -- scores --------------------------------------------------------------------------------------------------------

    def scores(self, candidates: Sequence[Any], source: str = "") -> list[float]:
        """Score each candidate; higher is better."""
        sentence = tuple(words_of_text(source))
        hyps = self.hypotheses(candidates, sentence)
        self.check_features(hyps)
        for template in self.templates:
            if "candidates" in template.arguments:
                self._add_columns(template, template.call(self._list(hyps)), hyps)
            elif "text" in template.arguments:
                for hyp in hyps:
                    self._add_columns(template, template.call(hyp.words, [unit.tgt for unit in hyp.units]), [hyp])
            elif "hypothesis" in template.reads:
                for hyp in hyps:
                    values = {"hypothesis": hyp.words, "sentence": sentence, **self.shared}
                    self._add(hyp, self._weighed(template, template.call(*[values[a] for a in template.arguments])))
            else:
                self._add_units(template, hyps)
        return [self._total(hyp) for hyp in hyps]

    def check_features(self, hyps: Sequence[Hypothesis]) -> None:
        """Refuse candidates that lack a feature which the model weighs or tests and does not compute; see ``missing``."""
        there = [{*hyp.own, *(hyp.units[0].arguments["unit_features"] if hyp.units else ())} for hyp in hyps]
        some, every = set().union(*there), set(there[0]).intersection(*there) if there else set()
        if lacking := sorted(self.inputs - some):
            raise MissingFeatureError(lacking)
        for name in sorted(name for name in self.inputs - every if ":" not in name and "~" not in name):  # not sparse ones
            self._treat_absent(name, hyps, [name in names for names in there])

    def _treat_absent(self, name: str, hyps: Sequence[Hypothesis], has: Sequence[bool]) -> None:
        lacking = [k for k, is_there in enumerate(has) if not is_there]
        line = f"candidates: {len(lacking)} of {len(hyps)} without the model's feature {name!r}, first candidates[{lacking[0]}]"
        if self.missing == "refuse":
            raise CandidateError(f"{line}; give it to all of them")
        if self.missing == "worst":
            lowest = min(self._sum_of(name, hyp) for hyp, is_there in zip(hyps, has, strict=True) if is_there)
            for k in lacking:
                hyps[k].own = {**hyps[k].own, name: lowest}
        elif self.missing is None and not self.was_told:
            self.was_told = True
            warn(f"{line}; it counts as 0, which may be the best value: missing='worst' takes the lowest", stacklevel=2)

    def _sum_of(self, name: str, hyp: Hypothesis) -> float:
        return hyp.own.get(name, 0.0) + sum(unit.arguments["unit_features"].get(name, 0.0) for unit in hyp.units)

    def _list(self, hyps: Sequence[Hypothesis]) -> Candidates:
        scale = self.data["posterior"]["scale"] if self.data["posterior"] else 1.0
        model = self.list_model
        scores = known_scores([hyp.decoder_score for hyp in hyps]) if model is None else [model.own_score(hyp) for hyp in hyps]
        phrases = []
        for hyp in hyps:
            units = [unit.arguments for unit in hyp.units]
            phrases.append([(*u["span"][:2], (u["source"], u["target"], u["links"])) for u in units])
        return Candidates(
            [hyp.words for hyp in hyps],
            softmax([scale * min(max(score, -1e150), 1e150) for score in scores]),
            [[unit.tgt for unit in hyp.units] for hyp in hyps],
            phrases,
        )

    def own_score(self, hyp: Hypothesis) -> float:
        """Score the features that a candidate came with."""
        units = [Unit(unit.arguments, unit.tgt) for unit in hyp.units]
        return self._total(Hypothesis(hyp.words, units, hyp.own, None))

    def _add_units(self, template: PlainTemplate, hyps: Sequence[Hypothesis]) -> None:
        """Add the features of a template of units, which is called once for equal arguments."""
        keys = [name for name in template.arguments if name != "sentence" and name not in self.shared]
        plain = None if set(VALUES) & set(keys) or not keys else itemgetter(*keys)
        memo: dict[Hashable, tuple[float, dict[str, float]]] = {}
        for hyp in hyps:
            for unit in hyp.units:
                values = unit.arguments
                key = plain(values) if plain else tuple([id(values[name]) if name in VALUES else values[name] for name in keys])
                found = memo.get(key)
                if found is None:
                    found = memo[key] = self._weighed(template, template.call(*[values[name] for name in template.arguments]))
                self._add(unit, found)

    def _add_columns(self, template: PlainTemplate, columns: Mapping[str, Sequence[float]], hyps: Sequence[Hypothesis]) -> None:
        """Add the columns of a template of texts or lists: a value for each unit, or for each hypothesis."""
        rows: Sequence[Any] = hyps if "hypothesis" in template.reads else [unit for hyp in hyps for unit in hyp.units]
        totals = [0.0] * len(rows)
        for name, column in columns.items():
            if name in self.dense:
                weight = self.dense[name]
                totals = [total + weight * value for total, value in zip(totals, column, strict=True)]
            if name in self.kept:
                for row, value in zip(rows, column, strict=True):
                    row.tested[name] = value
        for row, total in zip(rows, totals, strict=True):
            row.score += total

    def _weighed(self, template: PlainTemplate, found: Any) -> tuple[float, dict[str, float]]:
        """Give what the features of a template add to the score, and those of them that trees or products look at."""
        total = 0.0
        if isinstance(found, dict):
            for name, value in found.items():
                if name in self.dense:
                    total += self.dense[name] * value
            return total, {name: value for name, value in found.items() if name in self.kept}
        weights, tested = self.sparse[template.name], dict[str, float]()
        for name in found:
            short = f"#{crc32(name.encode()) & (1 << min(template.bits, 32)) - 1:x}" if template.bits else name
            total += weights.get(short, 0.0)
            if self.kept and (whole := f"{template.name}:{short}") in self.kept:
                tested[whole] = tested.get(whole, 0.0) + 1.0
        return total, tested

    def _add(self, row: Unit | Hypothesis, found: tuple[float, dict[str, float]]) -> None:
        row.score += found[0]
        if found[1]:
            row.tested.update(found[1])

    def _total(self, hyp: Hypothesis) -> float:
        """Add up a hypothesis: its own features, its units, and trees."""
        total, sums = hyp.score + self._linear(hyp.own), dict(hyp.tested)
        for name, value in hyp.own.items():
            sums[name] = sums.get(name, 0.0) + value
        for unit in hyp.units:
            features = unit.arguments["unit_features"]
            total += unit.score + self._linear(features)
            if not (self.kept or self.data["trees"]):
                continue
            x = {**features, **unit.tested}
            for name, (a, b) in self.products.items():
                x[name] = x.get(a, 0.0) * x.get(b, 0.0)
                total += self.dense.get(name, 0.0) * x[name]
            if self.data["level"] == "local":
                total += self._trees(x)
            else:
                for name in self.tested & x.keys():
                    sums[name] = sums.get(name, 0.0) + x[name]
        return total + self._trees(sums) if self.data["level"] == "global" else total

    def _linear(self, features: Mapping[str, float]) -> float:
        total = 0.0
        for name, value in features.items():
            if name in self.dense:
                total += self.dense[name] * value
        return total

    def _trees(self, x: Mapping[str, float]) -> float:
        total = 0.0
        for tree in self.data["trees"]:
            nodes = tree["nodes"]
            node = nodes[0]
            while "feature" in node:
                node = nodes[node["left"] if x.get(node["feature"], 0.0) <= node["threshold"] else node["right"]]
            value = node["value"]
            if tree["leaf"] != "constant":
                value = node.get("intercept", 0.0) + value * x.get(tree["on"], 0.0)
            total += tree["weight"] * value
        return total

    # -- decisions -----------------------------------------------------------------------------------------------------

    def ranks(self, candidates: Sequence[Any], scores: Sequence[float], source: str = "") -> list[float]:
        """Give what candidates are ranked by: scores, less what their lengths cost, or expected BLEU+1."""
        texts = [words_of_text(each if isinstance(each, str) else each["text"]) for each in candidates]
        scores, length, scale = list(scores), self.data["decision"]["length"], self.data["decision"]["scale"]
        if length is not None:
            words = words_of_text(source)
            if not words:
                raise CandidateError("source: the model knows how long a translation is; give the source sentence")
            expected = expected_words(words, length["shared"], length["stems"])
            costs = [length["weight"] * (len(text) - expected) ** 2 / expected for text in texts]
            scores = [score - cost for score, cost in zip(scores, costs, strict=True)]
        return scores if scale is None else expected_gains(texts, softmax([scale * score for score in scores]))

    def decide(self, candidates: Sequence[Any], source: str = "", *, least_margin: float = 0.0) -> Decided:
        """Choose a candidate; the decoder's own choice where the margin over it is below ``least_margin``."""
        if not len(candidates):
            raise CandidateError("candidates: expected at least one, found none")
        ranks = self.ranks(candidates, self.scores(candidates, source), source)
        own = known_scores(list(map(decoder_score, candidates)))
        first, chosen = own.index(max(own)), ranks.index(max(ranks))
        margin = ranks[chosen] - ranks[first]
        if margin < least_margin:
            chosen, margin = first, 0.0
        texts = [each if isinstance(each, str) else each["text"] for each in candidates]
        return Decided(chosen, self.probability(texts, ranks, chosen), margin, chosen == first, self.data["signature"])

    def probability(self, texts: Sequence[str], ranks: Sequence[float], chosen: int) -> float | None:
        """Give the probability that a candidate is the best of its list; equal texts are as good as each other."""
        curve = self.data["chance"]
        if curve is None:
            return None
        p, top = softmax([curve["scale"] * min(max(rank, -1e150), 1e150) for rank in ranks]), ranks.index(max(ranks))
        is_top = [k == top or (text == texts[top] != "") for k, text in enumerate(texts)]
        own, others = sum(compress(p, is_top)), sum(compress(p, map(not_, is_top)))
        sure = 1.0
        if others > 0:
            sure = 1 / (1 + exp(-curve["intercept"] - curve["slope"] * min(log(own) - log(others), 30.0)))
        if is_top[chosen]:
            return sure
        mine = sum(each for k, each in enumerate(p) if k == chosen or (texts[k] == texts[chosen] != ""))
        return (1 - sure) * mine / (others or 1.0)


def place_units(units: Sequence[Unit], n_words: int, n_source: int) -> None:
    """Complete what templates read of units by their neighbours."""
    for k, unit in enumerate(units):
        start, end = unit.arguments["span"]
        before, after = units[k - 1].arguments if k else None, units[k + 1].arguments if k + 1 < len(units) else None
        before_start, before_end = before["span"][:2] if before else (0, 0)
        after_start, after_end = after["span"][:2] if after else (n_source, n_source + 1)
        unit.arguments |= {
            "span": (start, end, n_source),
            "place": (*unit.tgt, n_words),
            "previous": (before["source"], before["target"]) if before else None,
            "following": (after["source"], after["target"]) if after else None,
            "words_before": before["target"][-2:] if before else None,
            "is_last": after is None,
            "previous_features": before["unit_features"] if before else None,
            "following_features": after["unit_features"] if after else None,
            "jump": start - before_end,
            "turn_before": turn(start - before_end, before_start - end),
            "turn_after": turn(after_start - end, start - after_end),
        }


def decoder_score(candidate: Any) -> float | None:
    """Give the decoder's own score of a candidate; None where it is not known."""
    score = None if isinstance(candidate, str) else candidate.get("score")
    return None if score is None or score != score else float(score)


def known_scores(scores: Sequence[float | None]) -> list[float]:
    """Give scores as they are, or 0 for all where one is not known."""
    return [0.0 if None in scores or score is None else score for score in scores]


def softmax(scores: Sequence[float]) -> list[float]:
    """Give probabilities in proportion to exp(score)."""
    most = max(scores)
    odds = [exp(score - most) for score in scores]
    total = 0.0
    for each in odds:
        total += each
    return [each / total for each in odds]


def words_of_text(text: str) -> list[str]:
    """Split a text at blanks, tabs and ends of lines."""
    words: list[str] = split_words(text.replace("\r\n", " ").replace("\n", " "))
    return words


# -- checks -----------------------------------------------------------------------------------------------------------


def check_several(candidates: Any) -> None:
    """Refuse one candidate in place of a list: its characters or keys would be taken for candidates."""
    if isinstance(candidates, str | bytes | Mapping) or not isinstance(candidates, Iterable):
        raise CandidateError(f"candidates: expected a list of them, found {candidates!r:.60}; put them into a list")


def checked_candidate(candidate: Any, where: str) -> Mapping[str, Any]:
    """Give a candidate as a dictionary whose values are of the right kinds."""
    candidate = {"text": candidate} if isinstance(candidate, str) else candidate
    check_keys(candidate, CANDIDATE_KEYS, where)
    if not isinstance(candidate.get("text"), str):
        raise CandidateError(f"{where}: expected a text, found {candidate.get('text')!r:.60}")
    check_numbers(candidate, where)
    for u, unit in enumerate(candidate.get("units") or ()):
        check_keys(unit, UNIT_KEYS, f"{where}.units[{u}]")
        check_numbers(unit, f"{where}.units[{u}]")
        for side in ("src", "tgt"):
            check_span(unit.get(side), f"{where}.units[{u}].{side}")
    checked: Mapping[str, Any] = candidate
    return checked


def check_keys(given: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(given, Mapping):
        raise CandidateError(f"{where}: expected a dictionary, found {given!r:.60}")
    if unknown := sorted(str(key) for key in given if key not in known):
        raise CandidateError(f"{where}: expected the keys {', '.join(known)}, found {unknown[0]!r:.60}")


def check_numbers(given: Mapping[str, Any], where: str) -> None:
    features = given.get("features") or {}
    if not all(map(is_finite, features.values())):
        name, value = next((name, value) for name, value in features.items() if not is_finite(value))
        raise CandidateError(f"{where}: feature {name!r:.60}: expected a finite number, found {value!r:.60}")
    score = given.get("score")
    if score is not None and score == score and not is_finite(score):
        raise CandidateError(f"{where}.score: expected a finite number, found {score!r:.60}")


def is_finite(value: Any) -> bool:
    """Tell whether a value is a finite number, of Python or of numpy."""
    if type(value) is float:
        return -LARGEST <= value <= LARGEST
    try:
        return not isinstance(value, bool | str) and abs(float(value)) <= LARGEST
    except (TypeError, ValueError, OverflowError):
        return False


def check_span(span: Any, where: str) -> None:
    if span is None:
        return
    try:
        start, end = map(int, span)
    except (TypeError, ValueError):
        start, end = 1, 0
    if not 0 <= start <= end < 2**31:
        raise CandidateError(f"{where}: expected [start, end] in words, half-open, found {span!r:.60}")


def checked_links(align: str, sizes: tuple[int, int], where: str) -> tuple[tuple[int, int], ...]:
    """Parse links, which are inside phrases of these sizes."""
    try:
        links = parsed_links(align)
    except ValueError:
        links = ((-1, -1),)
    if any(not (0 <= i < sizes[0] and 0 <= j < sizes[1]) for i, j in links):
        raise CandidateError(f"{where}.align: expected links inside the phrases, like '0-0 1-2', found {align!r:.60}")
    return links
