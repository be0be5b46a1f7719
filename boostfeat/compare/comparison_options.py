"""Options of a comparison. Standard library only: the command line reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from ..core.options import Checked, check, option, options_of
from ..tuners.tuner_options import ORACLES, PREDICTIONS

DECODE = "Systems that decode for themselves"  # heading of --help
SEARCHES = ("grid", "halving", "folds", "none")
T = TypeVar("T")


def numbered(name: str, given: Iterable[T]) -> dict[str, T]:
    """NAME, NAME2, NAME3, ...: what several lists of a kind are called."""
    return {f"{name}{k + 1 if k else ''}": one for k, one in enumerate(given)}


def as_words(options: Any) -> list[str]:
    """Return options as the command line takes them: those that are not the default."""
    kind: Any = type(options)
    words: list[str] = []
    for o in options_of(kind):
        value = getattr(options, o.field)
        for one in (value if isinstance(value, list) else [value]) if value not in (o.default, None) else []:
            typed = [o.typed_name] if one is True else [o.typed_name, *(one if isinstance(one, tuple) else [str(one)])]
            words += ["--set", f"{o.name.replace('_', '-')}={one}"] if o.rare else typed
    return words


@dataclass(frozen=True)
class CompareOptions:
    """Rows of a comparison, and how they are trained and tested."""

    systems: str | None = option(
        None,
        "Rows [decoder,base-MERT,base-PRO,base/boost-global,base/boost-local,linear,boost-global,boost-local]; the last three "
        "are 'induce', base/ has the list's features alone. Others: kbmira, mbr, large/pro, boost-local:fast, "
        "sparse/rm:paper:d=0.1 ([features/]method[:recipe, leaves, preset or NAME=VALUE]...); those with features, "
        "given alone, are added to all",
    )
    runs: int = option(1, "Runs with different seeds: mean, sd and the stratified test", least=1)
    search: str = option("grid", "Search for hyper-parameters: grid, halving, folds (of pairs), none", choices=SEARCHES)
    gain: str = option("bleu", "Metric to learn: bleu, chrf, ter, wer or a quality column")
    metric: str = option("", "Metric that chooses and is tested (bleu-sbp, or that of --gain), and others to report")
    rounds: int | None = option(None, "Maximum number of trees (default: the preset's)", least=0)
    trials: int = option(10_000, "Trials of the significance tests", least=1)
    baseline: str = option("base-PRO", "System that p-values compare with, besides the decoder (ablation: boost-local)")
    seed: int = option(0, "Seed of all random choices", least=0, most=inf, group="Common")
    min_count: int | None = option(None, "Minimum number of dev sentences with a sparse feature [2]", least=1)
    ablation: bool = option(False, "Rows of the default preset, each with one ingredient changed (on --select, without --test)")

    def __post_init__(self) -> None:
        first, comma, others = self.metric.partition(",")
        first = first or ("bleu-sbp" if self.gain == "bleu" else self.gain)
        object.__setattr__(self, "metric", first + comma + others)
        check(self)

    @property
    def main_metric(self) -> str:
        """The metric that systems are chosen and tested by."""
        return self.metric.partition(",")[0]


def _of_decoding(default: Any, help: str, **declared: Any) -> Any:
    return option(default, help, group=DECODE, needs="decode", **declared)


@dataclass(frozen=True)
class DecodedFiles(Checked):
    """Files and limits of --decode, besides sentences and an ini."""

    ref: list[str] | None = _of_decoding(None, "References of LIST; repeatable", short="r", metavar="FILE")
    select_ref: list[str] | None = _of_decoding(None, "References of --select; repeatable", metavar="FILE")
    test_ref: list[str] | None = _of_decoding(None, "References of all --test; repeatable", metavar="FILE")
    decoder: str | None = _of_decoding(None, "Any decoder, as 'boostfeat loop' takes it", metavar="COMMAND")
    nbest: int = _of_decoding(100, "Hypotheses per sentence", least=1)
    max_iterations: int = _of_decoding(10, "Maximum number of iterations of every loop", least=1)


@dataclass(frozen=True)
class RowOptions(Checked):
    """Settings of a row's training beside the options of its method."""

    pick: str = option("auto", "Epoch to keep: auto (by select), train (by dev) or last", choices=("auto", "train", "last"))
    init: str = option("zero", "Start: zero, or the decoder's weights, found in its scores", choices=("zero", "decoder"))
    online: bool = option(False, "With --decode: learn from each sentence as it is decoded")
    graphs: str = option("", "mert, of 'replicate --graphs': digest of the search graphs that it climbs on")


# Settings of a row by name (NAME of base/METHOD:NAME): those of the papers, and the strategies of [E12].
_STRATEGIES = {f"{o}-{p}": {"oracle": o, "prediction": p} for o in ORACLES for p in PREDICTIONS}
_MIXED = {"average": False, "context_scale": "shard", "init": "decoder", "c": 0.01}  # of learners that hand on their weights
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    # [Och03], [G13]: from the decoder's weights and 20 random ones, the best on dev
    "mert": {"paper": {"restarts": 20, "rounds": 1, "pick": "train", "init": "decoder"}},
    "pro": {"hm11": {"sampler": "hm11", "keep": 50, "alpha": 1.0}},
    "mira": {"paper": {**_MIXED, "shards": 20, "pick": "last"}, **_STRATEGIES},  # [E12]
    "rm": {"paper": {**_MIXED, "shards": 15, "b": 1.0, "pick": "train"}, **_STRATEGIES},  # [EMR13]; D: 0.01, sparse 0.1
    "kbmira": {"paper": {"c": 0.01}},
    "rampion": {"paper": {"eta": 1e-4}},
    "adagrad": {"paper": {"eta": 0.02, "dense_eta": 0.02, "standardise": False, "l1": 0.1}},  # [G13]
}
for _method in ("mira", "rm", "adagrad"):
    PRESETS[_method]["online"] = {"online": True}  # of decoded comparisons
