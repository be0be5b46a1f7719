"""Metrics as objects: what each declares, its rows and gains, and names that stand for several."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import sacrebleu
from metric_lists import columns, four_refs
from sacrebleu.metrics.bleu import BLEU as BLEU_CLASS
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat import __version__
from boostfeat.core.errors import InputError
from boostfeat.lists.nbest import NBest, Qualities
from boostfeat.metrics.bleu import bleu_stats, sentence_bleu
from boostfeat.metrics.chrf import chrf_stats
from boostfeat.metrics.edits import edit_stats
from boostfeat.metrics.metric import METRICS, Bleu, Combination, SentenceBleu, metric_of, metrics_of, shown, tokenizer
from boostfeat.metrics.significance import HeldOutRows
from boostfeat.metrics.sums import BLEU, CHRF, EDITS, RATIO, STRICT, TER
from boostfeat.metrics.ter import ter_stats

pytestmark = pytest.mark.quick

OURS = f"version:boostfeat-{__version__}"
THEIRS = f"version:{sacrebleu.__version__}"
# kind, columns, the one that weighs, lower is better, counted on texts, title, signature (of 2 references)
DECLARED = {
    "bleu": (BLEU, 11, 9, False, False, "BLEU", f"case:mixed|eff:no|tok:none|smooth:exp|{THEIRS}"),
    "bleu-sbp": (STRICT, 11, 9, False, False, "BLEU-SBP", f"case:mixed|eff:no|tok:none|smooth:exp|bp:strict|{OURS}"),
    "chrf": (CHRF, 18, 1, False, True, "chrF", f"case:mixed|eff:yes|nc:6|nw:0|space:no|{THEIRS}"),
    "chrf++": (CHRF, 24, 1, False, True, "chrF++", f"case:mixed|eff:yes|nc:6|nw:2|space:no|{THEIRS}"),
    "ter": (TER, 2, 1, True, True, "TER", f"case:lc|tok:tercom|norm:no|punct:yes|asian:no|{THEIRS}"),
    "wer": (EDITS, 2, 1, True, True, "WER", f"case:mixed|tok:none|{OURS}"),
    "cer": (EDITS, 2, 1, True, True, "CER", f"case:mixed|tok:char|{OURS}"),
    "bleu+1": (RATIO, 2, 1, False, False, "bleu+1", f"case:mixed|tok:none|smooth:add[1]|orders:2-4|{OURS}"),
    "bleu+alpha": (RATIO, 2, 1, False, False, "bleu+alpha", f"case:mixed|tok:none|smooth:add[1]|orders:2-4|{OURS}"),
}
NAMES = [*DECLARED, "bleu+0.25", "comet", "metricx", "bleu-ter", "0.3*chrf+0.1*metricx-wer"]


@pytest.fixture(scope="module")
def lists() -> NBest:
    """Six sentences, the second without hypotheses, the last without references; columns of both directions."""
    nbest = synthetic_nbest(SyntheticOptions(sentences=6, hyps=4, features=2), seed=3)
    keep = np.flatnonzero(nbest.sent_of_hyp != 1)
    hyp_ptr = np.array([0, 4, 4, 8, 12, 16, 20])
    n_refs = np.append(np.diff(nbest.ref_ptr)[:-1], 0)
    rng = np.random.default_rng(0)
    columns = Qualities().with_column("comet", rng.normal(size=20), np.ones(20), hyp_ptr=hyp_ptr)
    size = rng.integers(1, 9, 20).astype(float)
    columns = columns.with_column("metricx", 9 * size * rng.random(20), size, hyp_ptr=hyp_ptr, lower=True)
    stats = nbest.stats[keep].copy()
    stats[16:, :4], stats[16:, 5] = 0, 0
    ref_ptr = np.concatenate([[0], np.cumsum(n_refs)])
    return SimpleNamespace(hyp_ptr=hyp_ptr, text=nbest.text.take(keep), ref_ptr=ref_ptr, refs=nbest.refs[: ref_ptr[-1]], stats=stats,
                           has_stats=True, quality=columns, tokenizer="none")  # type: ignore[return-value]  # fmt: skip


@pytest.mark.parametrize("name", DECLARED)
def test_what_a_metric_declares(name):
    kind, width, size, lower, counted, title, signature = DECLARED[name]
    metric = METRICS[name]
    found = (metric.name, metric.kind, metric.width, metric.size, metric.lower_is_better, metric.counted, shown(name))
    assert found == (name, kind, width, size, lower, counted, title)
    assert (metric.sign, metric.needs_references) == (-1.0 if lower else 1.0, True)
    assert metric.signature(2) == "nrefs:2|" + signature
    assert list(METRICS) == list(DECLARED)


@pytest.mark.parametrize(
    ("metric", "signature"),
    [
        (Bleu("bleu"), f"nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|{THEIRS}"),
        (Bleu("bleu-sbp", strict=True), f"nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|bp:strict|{OURS}"),
        (SentenceBleu("b", 0.25), f"nrefs:var|case:mixed|tok:13a|smooth:add[0.25]|orders:2-4|{OURS}"),
        (metric_of("cer-2*bleu+1"), f"-2 * bleu+1|nrefs:var|case:mixed|tok:13a|smooth:add[1]|orders:2-4|{OURS}"),
    ],
)
def test_signatures_name_the_tokeniser(metric, signature):
    assert metric.signature("var", "13a").rpartition("; ")[2] == signature


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_some_are_those_of_all(lists, name):
    """In any order, also twice; and each is that of its hypothesis alone."""
    metric = metric_of(name, lists)
    rows = metric.rows(lists)
    assert rows.shape == (20, metric.width)
    some = np.array([17, 3, 3, 0, 12, 19])
    np.testing.assert_array_equal(metric.rows(lists, some), rows[some])
    np.testing.assert_array_equal(metric.rows(lists, some[:0]), rows[:0])
    first = metric.score(rows)
    assert metric.higher(first) == pytest.approx(metric.sign * first, abs=0)
    assert metric.context_gain(rows[0], rows[1]) == metric.higher(metric.score(rows[0] + rows[1]))


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("comet", "metricx") and "metricx" not in n])
def test_an_empty_line_is_a_hypothesis_without_words(lists, name):
    """Of texts: the row that an empty text has; of BLEU: no matches, none of its words, and the length of the shortest reference."""
    metric = metric_of(name, lists)
    blank = SimpleNamespace(**{**vars(lists), "text": pa.array([""] * 20, pa.large_string())})
    lengths = [
        [len(ref.split()) for ref in lists.refs[a:b].to_pylist()] for a, b in zip(lists.ref_ptr, lists.ref_ptr[1:], strict=False)
    ]
    blank.stats = np.zeros_like(lists.stats)
    blank.stats[:, 5] = np.repeat([min(own, default=0) for own in lengths], np.diff(lists.hyp_ptr))
    rows = metric.rows(blank)
    for s in (0, 2, 5):
        np.testing.assert_array_equal(metric.empty_row(lists, s), rows[lists.hyp_ptr[s]])
        assert len(metric.empty_row(lists, s)) == metric.width


def test_an_empty_line_is_the_worst_of_a_column(lists):
    for name, pick in (("comet", np.argmin), ("metricx", np.argmax)):
        metric = metric_of(name, lists)
        rows = metric.rows(lists)
        assert metric.empty_row(lists, 1).tolist() == rows[pick(rows[:, 0] / rows[:, 1])].tolist()
    nothing = SimpleNamespace(quality=replace(lists.quality, value=np.zeros((0, 2)), weight=np.zeros((0, 2))))
    assert metric.empty_row(nothing, 0).tolist() == [0.0, 0.0]


def test_gains(lists):
    """BLEU's is smoothed, by what the learner asks for or as its name says; a column's is in units of ten standard deviations within lists."""
    for name, alpha in (("bleu", 0.5), ("bleu-sbp", 0.5), ("bleu+alpha", 0.5), ("bleu+1", 1.0), ("bleu+0.25", 0.25)):
        expected = sentence_bleu(lists.stats, alpha=alpha)
        np.testing.assert_array_equal(metric_of(name, lists).gain(lists, alpha=0.5), expected)
    for name in ("bleu", "bleu+alpha"):
        np.testing.assert_array_equal(metric_of(name, lists).gain(lists), sentence_bleu(lists.stats, alpha=1.0))
    np.testing.assert_array_equal(metric_of("bleu+alpha").rows(lists)[:, 0], sentence_bleu(lists.stats, alpha=1.0))
    metric = metric_of("metricx", lists)
    value = lists.quality.value[:, 1] / lists.quality.weight[:, 1]
    apart = [x - x.mean() for x in np.split(value, lists.hyp_ptr[1:-1]) if len(x)]
    assert metric.unit(lists) == pytest.approx(10 * np.concatenate(apart).std())
    assert metric.gain(lists) == pytest.approx(-value / metric.unit(lists))
    assert metric_of("ter").gain(lists).tolist() == (-metric_of("ter").score(metric_of("ter").rows(lists))).tolist()
    both = metric_of("0.5*bleu - 2*metricx + 1*ter", lists)
    expected = 0.5 * sentence_bleu(lists.stats, alpha=0.5) - 2 * value + metric_of("ter").score(metric_of("ter").rows(lists))
    assert both.gain(lists, alpha=0.5) == pytest.approx(expected)
    assert both.parts(lists) == [(0.5, BLEU, 11), (-2.0, RATIO, 2), (1.0, TER, 2)]
    assert (both.size, both.width, both.counted, both.needs_references) == (9, 15, True, True)
    columns = metric_of("comet-metricx", lists)
    assert (columns.size, columns.counted, columns.needs_references) == (1, False, False)
    sums = both.rows(lists).sum(axis=0)
    parts = [
        metric_of(n, lists).score(part) for n, part in zip(("bleu", "metricx", "ter"), np.split(sums, [11, 13]), strict=True)
    ]
    assert both.score(sums) == pytest.approx(0.5 * parts[0] - 2 * parts[1] + parts[2])


def test_the_alpha_of_a_learner_becomes_that_of_the_metric():
    assert metric_of("bleu+alpha").fixed(0.5) == SentenceBleu("bleu+0.5", 0.5)
    assert metric_of("bleu+1").fixed(0.5) is METRICS["bleu+1"]
    assert metric_of("bleu").fixed(0.5) is METRICS["bleu"]
    both = metric_of("bleu+alpha-ter").fixed(0.5)
    assert both == Combination("bleu+alpha-ter", ((0.5, SentenceBleu("bleu+0.5", 0.5)), (-0.5, METRICS["ter"])))


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("bleu-ter", [(0.5, "bleu"), (-0.5, "ter")]),
        (" + bleu + 2 * chrf++ - 0.25*ter ", [(1 / 3, "bleu"), (2, "chrf++"), (-0.25, "ter")]),
        ("-comet+bleu-sbp", [(-0.5, "comet"), (0.5, "bleu-sbp")]),
        ("chrf+chrf", [(0.5, "chrf"), (0.5, "chrf")]),
        ("1*bleu+10*metricx", [(1, "bleu"), (10, "metricx")]),
    ],
)
def test_combinations_by_name(lists, name, terms):
    """The longest name is taken; equal weights where none are written."""
    found = metric_of(name, lists)
    assert [(w, term.name) for w, term in found.terms] == [(pytest.approx(w), n) for w, n in terms]
    assert found.name == name


@pytest.mark.parametrize(
    "name", ["", "x", "2*bleu", "-bleu", "bleu ter", "bleu--ter", "bleu-", "bleu*2-ter", "bleu-2ter", "bleu+x", "bleu-ter x"]
)
def test_names_that_are_none(lists, name):
    for given, known in ((None, ()), (lists, ("comet", "metricx"))):
        with pytest.raises(InputError) as error:
            metric_of(name, given)
        assert str(error.value) == f"unknown metric {name!r}: expected one of {', '.join([*METRICS, *known])}"


def test_names_of_numbers():
    for text, alpha in (("bleu+1", 1.0), ("bleu+0.5", 0.5), ("bleu+.5", 0.5), ("bleu+12", 12.0)):
        assert metric_of(text) == SentenceBleu(text, alpha)
    assert (
        [m.name for m in metrics_of(" bleu, ,bleu-ter")]
        == [m.name for m in metrics_of(["bleu", "bleu-ter "])]
        == ["bleu", "bleu-ter"]
    )
    for nothing in ("", " ,", []):
        with pytest.raises(InputError) as error:
            metrics_of(nothing)
        assert str(error.value) == f"expected metric names separated by commas, found none; choose from {', '.join(METRICS)}"


STATISTICS = {
    "bleu": bleu_stats,
    "chrf++": partial(chrf_stats, word_order=2),
    "ter": ter_stats,
    "wer": edit_stats,
    "cer": partial(edit_stats, characters=True),
}


@pytest.mark.parametrize("count", STATISTICS.values(), ids=STATISTICS)
def test_statistics_do_not_depend_on_threads_and_take_references(count):
    lists = columns(four_refs(sentences=40, size=5) * 4)  # 160 sentences are 2 blocks
    np.testing.assert_array_equal(count(lists), count(lists, threads=3))
    with pytest.raises(ValueError, match="sentence 1: expected at least one reference, found none"):
        count(columns([(["a"], ["a"]), (["a"], [])]))


def test_lists_that_lack_what_a_metric_needs(lists):
    """References, a column, or a column that tells hypotheses apart."""
    bare = SimpleNamespace(**{**vars(lists), "has_stats": False})
    bleu = "bleu: expected a list with references, found one without; import it with -r"
    same = "comet: expected a quality column that tells hypotheses of a list apart, found the same number for all of each; check the file it came from"
    flat = Qualities().with_column("comet", np.repeat([1.0, 2, 3, 4, 5], 4), np.ones(20), hyp_ptr=lists.hyp_ptr)
    metricx, comet = metric_of("metricx", lists), metric_of("comet", lists)
    for metric, given, message in (
        (METRICS["bleu"], bare, f"{bleu}, or take its quality column (comet, metricx) as --gain and --metric"),
        (METRICS["bleu"], SimpleNamespace(**{**vars(bare), "quality": Qualities()}), bleu),
        (metric_of("bleu-metricx", lists), bare, f"{bleu}, or take its quality column (comet, metricx) as --gain and --metric"),
        (
            metricx,
            SimpleNamespace(**{**vars(lists), "quality": flat}),
            f"unknown metric 'metricx': expected one of {', '.join(METRICS)}, comet",
        ),
    ):
        for check in (metric.check, metric.check_learnable, metric.learnable_gain):
            with pytest.raises(InputError) as error:
                check(given)
            assert str(error.value) == message
    constant = SimpleNamespace(**{**vars(lists), "quality": flat})
    comet.check(constant)
    both = metric_of("bleu-comet", constant)
    for check in (comet.check_learnable, comet.learnable_gain, both.check_learnable):
        with pytest.raises(InputError) as error:
            check(constant)
        assert str(error.value) == same
    for metric in (comet, metricx, METRICS["bleu"]):
        np.testing.assert_array_equal(metric.learnable_gain(lists, alpha=0.5), metric.gain(lists, alpha=0.5))
    empty = SimpleNamespace(hyp_ptr=np.zeros(2, np.int64), quality=replace(flat, value=np.zeros((0, 1)), weight=np.zeros((0, 1))))
    comet.check_learnable(empty)  # nothing is wrong with a list of nothing


@pytest.mark.parametrize("kind", [ImportError, OSError, RuntimeError])
@pytest.mark.parametrize(("said", "fix"), [("no MeCab\n\npip install it \n", "pip install it"), ("", "install it")])
def test_tokenisers_that_lack_something(monkeypatch, kind, said, fix):
    """The last line of what sacrebleu says is what to do."""

    class Missing:
        TOKENIZERS = BLEU_CLASS.TOKENIZERS

        def __init__(self, **_: object) -> None:
            raise kind(said)

    monkeypatch.setattr("sacrebleu.BLEU", Missing)
    with pytest.raises(InputError) as error:
        tokenizer("ja-mecab")
    assert str(error.value) == f"--tokenize ja-mecab: expected what this tokenizer needs, found it missing; {fix}"
    assert tokenizer("none")("a,b") == "a,b"


def test_the_slope_of_bleu_is_its_derivative():
    """By the formula: ∂BLEU/∂c_n = BLEU / (4 c_n), ∂BLEU/∂t_n = -BLEU / (4 t_n), and with a brevity penalty ∂/∂ref = -BLEU / len."""
    total = np.array([6000, 4000, 3000, 2000, 10000, 9000, 8000, 7000, 10000, 11000, 9500], np.float64)
    for name, length in (("bleu", 8), ("bleu-sbp", 10)):
        bleu = float(METRICS[name].score(total))
        want = np.zeros(11)
        want[:4], want[4:8] = bleu / 4 / total[:4], -bleu / 4 / total[4:8]
        want[9], want[length] = -bleu / total[length], bleu * total[9] / total[length] ** 2
        np.testing.assert_allclose(METRICS[name].slope(total), want, rtol=1e-6, atol=1e-12)
    small = METRICS["bleu"].slope(total / 1e4)  # steps of 1 at least, below 0 even
    assert np.isfinite(small).all()


# -- candidates on sentences that none was trained on ---------------------------------------------------------------------


def test_errors_of_differences_by_hand():
    """WER with 4, 6, 8 edits of 20 words in four sentences; -1/20 a sentence that differs by an edit, the others 0."""
    words = np.full(4, 5)
    edits = ([1, 1, 1, 1], [1, 1, 1, 3], [2, 2, 2, 2])
    held = HeldOutRows(METRICS["wer"], [np.stack([own, words], axis=1) for own in edits])
    assert held.totals.tolist() == [[4, 20], [6, 20], [8, 20]]
    assert held.scores.tolist() == [20.0, 30.0, 40.0]
    assert held.gains.tolist() == [-20.0, -30.0, -40.0]
    differences = np.array([0, 0, 0, -2]) / 20
    assert [held.error(0, 1), held.error(1, 0)] == pytest.approx([200 * differences.std()] * 2)
    assert held.error(0, 2) == 0  # all sentences differ alike
