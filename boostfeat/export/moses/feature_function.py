"""The source of a Moses feature function: trees whose features Moses knows at the moment it adds a phrase to a hypothesis.

Values of other feature functions are read from the scores of the phrase that is being added; word counts, the phrase's place and
the previous phrase's come from the hypothesis. What depends on later phrases cannot be computed there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from ...core.errors import InputError
from ...features.products import product_name
from ...formats.moses.labels import component
from ...model.model import Model
from ..c import header
from ..kinds import Known
from ..verify import inputs_of

# Template features in C++, as boostfeat.features.dense defines them. `back` is words between the previous phrase and this one.
FROM_PHRASE: dict[str, str] = {
    "len.src": "src",
    "len.tgt": "tgt",
    "len.diff": "tgt - src",
    "len.absdiff": "std::fabs(tgt - src)",
    "len.ratio": "src != 0 ? tgt / src : 0.0",
    **{f"size.{s}x{t}": f"std::min(src, 3.0) == {s} && std::min(tgt, 3.0) == {t}" for s in (1, 2, 3) for t in (1, 2, 3)},
    "pos.tenth": "std::min(5 * (start + end) / std::max(n_words, 1L), 9L) / 10.0",
    "pos.first": "start == 0",
    "pos.last": "end == n_words",
    "span.len": "src",
}
FROM_PREVIOUS: dict[str, str] = {
    "jump.signed": "back",
    "jump.log": "std::log1p(std::fabs(back))",
    "jump.left": "back < 0 ? -back : 0.0",
    "jump.far": "std::fabs(back) > 5",
    "ori.<mono": "back == 0",
    "ori.<swap": "back != 0 && swap",
    "ori.<right": "back > 0 && !swap",
    "ori.<left": "back < 0 && !swap",
}
_PRODUCER = re.compile(r"[A-Za-z0-9.:+-][A-Za-z0-9.:+_-]*")
_PER_WORD = re.compile(r"lm\.word\.(.+?)(?:<(q\d+))?")

_STATEFUL = """\
FFState* $name::EvaluateWhenApplied(const Hypothesis& hypo, const FFState* prev, ScoreComponentCollection* accumulator) const
{
  accumulator->PlusEquals(this, Values(hypo, prev, *accumulator));
  return new State($next);
}

FFState* $name::EvaluateWhenApplied(const ChartHypothesis&, int, ScoreComponentCollection*) const
{
  UTIL_THROW2("$name: phrase-based decoding only");
}

const FFState* $name::EmptyHypothesisState(const InputType&) const
{
  return new State($first);
}
"""
_STATELESS = """\
void $name::EvaluateWhenApplied(const Hypothesis& hypo, ScoreComponentCollection* accumulator) const
{
  accumulator->PlusEquals(this, Values(hypo, NULL, *accumulator));
}

void $name::EvaluateWhenApplied(const ChartHypothesis&, ScoreComponentCollection*) const
{
  UTIL_THROW2("$name: phrase-based decoding only");
}
"""
_DECLARATIONS = {
    "StatefulFeatureFunction": """\
  FFState* EvaluateWhenApplied(const Hypothesis& hypo, const FFState* prev, ScoreComponentCollection* accumulator) const;
  FFState* EvaluateWhenApplied(const ChartHypothesis&, int, ScoreComponentCollection*) const;
  const FFState* EmptyHypothesisState(const InputType&) const;""",
    "StatelessFeatureFunction": """\
  void EvaluateWhenApplied(const Hypothesis& hypo, ScoreComponentCollection* accumulator) const;
  void EvaluateWhenApplied(const ChartHypothesis&, ScoreComponentCollection*) const;""",
}
# Hypotheses may only be recombined where what follows scores the same: where the previous phrase matters, its source words do.
_STATES = {
    "previous": """\
struct State : public FFState { // the source words of a phrase
  const long start, end;
  State(long s, long e) : start(s), end(e) {}
  size_t hash() const {
    return static_cast<size_t>(start) * 8191 + static_cast<size_t>(end);
  }
  bool operator==(const FFState& other) const {
    const State& that = static_cast<const State&>(other);
    return start == that.start && end == that.end;
  }
};
""",
    "none": """\
struct State : public FFState { // nothing of its own: all that matters is in the states of others
  size_t hash() const {
    return 0;
  }
  bool operator==(const FFState&) const {
    return true;
  }
};
""",
    "stateless": "",
}
_PREVIOUS = """\
  const State& before = static_cast<const State&>(*prev);
  const double back = start - before.end;
  const bool swap = before.start == end;
  (void)back, (void)swap;"""


@dataclass
class _Inputs:
    """C++ expressions of features, and the feature functions they read."""

    known: Known
    places: Mapping[str, str] = field(default_factory=dict)  # of static features, the scores of the table that they are
    producers: dict[str, int] = field(default_factory=dict)  # feature function -> values that it must have
    needs_previous: bool = False  # phrase
    needs_stateful: bool = False  # feature functions, which Moses asks after the stateless ones

    def expression(self, name: str) -> str:
        if name in FROM_PHRASE:
            return FROM_PHRASE[name]
        if name in FROM_PREVIOUS:
            self.needs_previous = True
            return FROM_PREVIOUS[name]
        if name in self.places or not self.known.is_made(name):
            return self._score(self.places.get(name, name))
        if found := _PER_WORD.fullmatch(name):
            value = f"(tgt != 0 ? ({self.expression(found[1])}) / tgt : 0.0)"
            return f"{value} < {self._quantile(found[1], found[2])!r}" if found[2] else value
        vocab = self.known.vocab
        if factors := next((pair for pair in (vocab and vocab.products) or () if product_name(pair) == name), None):
            return " * ".join(f"double({self.expression(factor)})" for factor in factors)
        raise InputError(
            f"feature {name!r}: expected one that Moses knows when it adds a phrase (its own, len.*, size.*, pos.*, span.len, "
            "jump.*, ori.<*, lm.word.*), found another; export with --phrase-table if it is one of the phrase pair, as "
            "count.log, else learn without its template"
        )

    def _score(self, name: str) -> str:
        producer, k = component(name)
        if not _PRODUCER.fullmatch(producer) or "_" in producer:
            raise InputError(
                f"feature {name!r}: expected a dense feature of Moses, found a sparse one or another name; learn trees without it"
            )
        self.needs_stateful |= self.known.kinds([name])[name] != "static"
        self.producers[producer] = max(self.producers.get(producer, 0), k + 1)
        return f"p{list(self.producers).index(producer)}[{k}]"

    def _quantile(self, model: str, quantile: str) -> float:
        for entry in self.known.vocab.entries if self.known.vocab else ():
            if entry.name == "lm_per_word":
                return float(entry.options["thresholds"][model][quantile])
        raise InputError(
            f"feature 'lm.word.{model}<{quantile}': expected the quantiles of the dev list, found none; give --vocab"
        )


def sources(
    model: Model, known: Known, *, prefix: str, signature: str, places: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Texts of the files by name: the class in two files, and the C header. The model has only weights that Moses cannot have."""
    name = class_name(prefix)
    inputs, names = _Inputs(known, places or {}), inputs_of(model, "moses")
    code = [f"  x[{j}] = {inputs.expression(feature)}; // {feature!a}" for j, feature in enumerate(names)]
    code[:0] = [
        f"  const std::vector<float> p{k} = scores.GetScoresForProducer(m_producers[{k}]); // {producer}"
        for k, producer in enumerate(inputs.producers)
    ]
    state = "previous" if inputs.needs_previous else "none" if inputs.needs_stateful else "stateless"
    base = "StatelessFeatureFunction" if state == "stateless" else "StatefulFeatureFunction"
    values = {
        "name": name,
        "base": base,
        "signature": signature,
        "header": f"{prefix}.h",
        "prefix": prefix,
        "macro": prefix.upper(),
        "n_values": len(model.trees) + bool(model.weights),
        "n_producers": len(inputs.producers),
        "producer_names": ", ".join(f'"{producer}"' for producer in inputs.producers) or "NULL",
        "producer_sizes": ", ".join(map(str, inputs.producers.values())) or "0",
        "linear_note": ", and one for linear weights of features that Moses does not have" if model.weights else "",
        "state": _STATES[state],
        "previous": _PREVIOUS if inputs.needs_previous else "",
        "inputs": "\n".join(code),
        "linear": f"  trees[kValues - 1] = {prefix}_linear(x);\n" if model.weights else "",
    }
    nothing = {"next": "", "first": ""}
    spans = {
        "next": "hypo.GetCurrSourceWordsRange().GetStartPos(), hypo.GetCurrSourceWordsRange().GetEndPos() + 1",
        "first": "0, 0",
    }
    body = Template(_STATELESS if state == "stateless" else _STATEFUL).substitute(
        name=name, **(spans if inputs.needs_previous else nothing)
    )
    return {
        f"{name}.h": _filled("moses_feature.h.in", {**values, "evaluate": _DECLARATIONS[base]}),
        f"{name}.cpp": _filled("moses_feature.cpp.in", {**values, "evaluate": body}),
        f"{prefix}.h": header(model, known.kinds(names), prefix=prefix),
    }


def class_name(prefix: str) -> str:
    return "".join(part.capitalize() for part in prefix.split("_")) + "Trees"


def _filled(template: str, values: Mapping[str, object]) -> str:
    return Template(Path(__file__).with_name(template).read_text()).substitute(values)
