"""Quality columns: from files and JSON lines into a list, and out again."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from boostfeat import formats
from boostfeat.core.errors import FormatError, InputError
from boostfeat.lists.build import ReadOptions
from boostfeat.lists.choices import Scorer, first_choice
from boostfeat.lists.merging import concat, merge
from boostfeat.lists.nbest import NBest
from boostfeat.lists.quality import join_qualities
from boostfeat.lists.store import read_store, write_store
from boostfeat.metrics.metric import metric_of, tokenizer

LINES = """{"boostfeat": "nbest/1", "lower_is_better": ["edits"]}
{"id": 0, "refs": ["a b"], "hyps": [{"text": "a b", "quality": {"comet": 0.9, "edits": [0, 2]}},
 {"text": "a", "quality": {"edits": [1, 2], "comet": 0.5}}]}
{"id": 2, "refs": ["c"], "hyps": [{"text": "c", "quality": {"comet": -3, "edits": [5, 1]}}]}
""".replace(",\n ", ", ")


@pytest.fixture
def nbest(tmp_path: Path) -> NBest:
    (tmp_path / "list").write_text(LINES)
    return formats.read(tmp_path / "list", ReadOptions())


def test_json_lines(nbest: NBest, tmp_path: Path) -> None:
    own = nbest.quality
    assert (own.names, own.lower, own.unit) == (("comet", "edits"), (False, True), own.unit)
    assert own.unit == pytest.approx((10 * np.sqrt(0.08 / 3), 10 * np.sqrt(0.125 / 3)))  # apart from their means by 0.2, 0.25, 0
    np.testing.assert_array_equal(own.value, [[0.9, 0], [0.5, 1], [-3, 5]])
    np.testing.assert_array_equal(own.weight, [[1, 2], [1, 2], [1, 1]])
    part = nbest[:1]
    assert part.quality.unit == own.unit  # of the whole: a part is learned from as the whole is
    for some in (nbest, part):
        stream = io.BytesIO()
        formats.write(some, stream, format="jsonl")
        (tmp_path / "again").write_bytes(stream.getvalue())
        again = formats.read(tmp_path / "again", ReadOptions())
        assert again == some
        assert again.quality.unit == own.unit


def test_stores_and_merging_keep_columns(nbest: NBest, tmp_path: Path) -> None:
    write_store(nbest, tmp_path / "store")
    again = read_store(tmp_path / "store")
    assert again == nbest
    assert again.quality.unit == nbest.quality.unit
    both = concat([nbest, nbest[:1]])
    assert both.quality.value[:, 0].tolist() == [0.9, 0.5, -3, 0.9, 0.5]
    assert merge([nbest, nbest]).quality.value.tolist() == nbest.quality.value.tolist()
    other = nbest.with_quality("comet", np.zeros(3), lower_is_better=True)
    with pytest.raises(InputError, match="quality columns: expected comet, edits in all lists, found edits, comet in another"):
        merge([nbest, other])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "x"}', r"hyps\[0\].quality: expected comet, edits, found none; give every hypothesis the same columns"),
        ('{"text": "x", "quality": {"comet": 1}}', r"expected comet, edits, found comet;"),
        (
            '{"text": "x", "quality": {"comet": 1, "edits": [1, -2]}}',
            r"quality\[...\]\[1\]: expected a number >= 0.0, found another",
        ),
        ('{"text": "x", "quality": {"comet": NaN, "edits": [1, 2]}}', r"expected JSON, found NaN where"),
        ('{"text": "x", "quality": {"comet": "good", "edits": [1, 2]}}', r"expected a number or a list, found a string"),
        ('{"text": "x", "quality": {"comet": 1, "edits": [1, 2, 3]}}', r"expected a list of length 2, found"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "list").write_text(LINES + '{"id": 3, "hyps": [' + line + "]}\n")
    with pytest.raises(FormatError, match=message):
        formats.read(tmp_path / "list", ReadOptions())


def comet(**more: float) -> str:
    """What ``comet-score -s SRC -t HYP -r REF --to_json FILE`` writes, with ``--mc_dropout`` a variance too."""
    rows = [{"src": "x", "mt": text, "ref": "a b", "COMET": c, **more} for text, c in (("a b", 0.9), ("a", 0.5), ("c", 0.1))]
    return json.dumps({"out/dev.txt": rows}, indent=4)


COMET = comet()
FILES = {  # content, column, values, weights
    "text": ("0.9\n0.5\n0.1\n", "", [0.9, 0.5, 0.1], [1, 1, 1]),
    "no end of line": ("0.9\n0.5\n1e-1", "", [0.9, 0.5, 0.1], [1, 1, 1]),
    "lines of Windows": ("0.9\r\n0.5\r\n0.1\r\n", "", [0.9, 0.5, 0.1], [1, 1, 1]),
    "two a line": ("1 2\n3 4\n5 6\n", "", [1, 3, 5], [2, 4, 6]),
    "two with a tab": ("1\t2\n3\t4\n5\t6\n", "", [1, 3, 5], [2, 4, 6]),
    "TSV": ("text\tda\nx\t70\ny\t80\nz\t90\n", ":da", [70, 80, 90], [1, 1, 1]),
    "TSV with one column of numbers": ("text\tda\nx\t70\ny\t80\nz\t90\n", "", [70, 80, 90], [1, 1, 1]),
    "TSV with lengths": ("edits\tlen\n1\t2\n3\t4\n5\t6\n", ":edits,len", [1, 3, 5], [2, 4, 6]),
    "JSON": ("[0.9, 0.5, 0.1]", "", [0.9, 0.5, 0.1], [1, 1, 1]),
    "JSON of objects": ('[{"q": {"da": 1}}, {"q": {"da": 2}}, {"q": {"da": 3}}]', ":q.da", [1, 2, 3], [1, 1, 1]),
    "JSON lines": ('{"e": 1, "n": 2}\n{"e": 3, "n": 4}\n{"e": 5, "n": 6}\n', ":e,n", [1, 3, 5], [2, 4, 6]),
    "COMET": (COMET, "", [0.9, 0.5, 0.1], [1, 1, 1]),
    "COMET with variances": (comet(variance=0.01), ":COMET", [0.9, 0.5, 0.1], [1, 1, 1]),
}
PACKERS = {"": bytes, "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstandard.compress}


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("case", FILES)
def test_files(nbest: NBest, tmp_path: Path, case: str, packed: str) -> None:
    content, column, values, weights = FILES[case]
    path = tmp_path / f"numbers.{packed}"
    path.write_bytes(PACKERS[packed](content.encode()))
    found = join_qualities(nbest, [f"new={path}{column}"], ["new"]).quality
    assert found.names == ("comet", "edits", "new")
    assert found.lower == (False, True, True)
    assert found.value[:, 2].tolist() == values
    assert found.weight[:, 2].tolist() == weights


BAD_FILES = [  # content, what is asked for, columns that are better when lower, message
    ("1\n2\n", "new={}", (), "numbers: expected 3 numbers, one for each hypothesis in the order of the list, found 2"),
    ("1\nnan\n3\n", "new={}", (), "numbers: row 2: expected a finite number, found 'nan'"),
    ("1\n2\n3\n", "bleu={}", (), "quality column 'bleu': expected a name that is no metric"),
    ("1\n2\n3\n", "bleu+0.5={}", (), "expected a name that is no metric"),
    ("1\n2\n3\n", "a,b={}", (), "expected a name that is no metric, without blanks"),
    ("1\n2\n3\n", "new", (), "--quality new: expected NAME=FILE, found no name or no file"),
    ("1\n2\n3\n", "new={}", ("old",), "--lower-is-better old: expected a quality column (new), found none"),
    (comet(variance=0.01), "new={}", (), "expected one column of numbers, found 2 among"),
    (COMET.replace('"mt": "a b"', '"mt": "b"'), "new={}", (), "expected the texts of the list, found others in 1 of 3 rows"),
]


@pytest.mark.parametrize(("content", "spec", "lower", "message"), BAD_FILES)
def test_bad_files_are_one_line(boostfeat, tmp_path: Path, content: str, spec: str, lower: tuple[str, ...], message: str) -> None:
    (tmp_path / "list").write_text("0 ||| a b ||| lm= 1 ||| -1\n0 ||| a ||| lm= 2 ||| -2\n1 ||| c ||| lm= 3 ||| -3\n")
    (tmp_path / "numbers").write_text(content)
    flags = [word for name in lower for word in ("--lower-is-better", name)]
    store = tmp_path / "a.nbest"
    code, out, err = boostfeat(
        "import", tmp_path / "list", "--quality", spec.format(tmp_path / "numbers"), *flags, "-o", store, "-q"
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not store.exists()


def test_import_convert_and_join(boostfeat, tmp_path: Path) -> None:
    """Through the commands: a column survives JSON lines, and its loss in another format is said."""
    (tmp_path / "list").write_text("0 ||| a b ||| lm= 1 ||| -1\n0 ||| a ||| lm= 2 ||| -2\n1 ||| c ||| lm= 3 ||| -3\n")
    (tmp_path / "ref").write_text("a b\nd\n")
    (tmp_path / "comet").write_text("0.9\n0.5\n0.1\n")
    store, lines, joined = tmp_path / "a.nbest", tmp_path / "a.jsonl", tmp_path / "b.nbest"
    made = ("import", tmp_path / "list", "-r", tmp_path / "ref", "-q")
    assert boostfeat(*made, "--quality", f"comet={tmp_path / 'comet'}", "-o", store)[0] == 0
    assert boostfeat("convert", store, "-o", lines)[0] == 0
    assert boostfeat("import", lines, "-o", joined, "-q")[0] == 0
    assert read_store(joined) == read_store(store)
    code, _, err = boostfeat("convert", store, "--format", "moses", "-o", tmp_path / "moses")
    assert code == 0
    assert "warning: quality columns are not written (comet): moses has no place for them, jsonl has" in err
    assert boostfeat(*made, "-o", joined)[0] == 0
    how = ("--quality", f"comet={tmp_path / 'comet'}", "--lower-is-better", "comet", "-o", store, "-q")
    assert boostfeat("join", joined, *how)[0] == 0
    assert read_store(store).quality.lower == (True,)
    code, _, err = boostfeat(*made, "--lower-is-better", "comet", "-o", store)
    assert code == 2
    assert "--lower-is-better does nothing without --quality; leave it out" in err
    assert boostfeat(*made, "--tokenize", "klingon", "-o", store)[0] == 2


def test_scores_are_ratios_of_sums(nbest: NBest) -> None:
    """A list without hypotheses counts as the worst one of the corpus."""
    metric = metric_of("edits", nbest)
    rows = metric.rows(nbest)
    assert metric.score(rows[[1, 2]].sum(axis=0)) == 6 / 3
    assert metric.gain(nbest) == pytest.approx(np.array([0, -0.5, -5]) / metric.unit(nbest))
    assert metric.empty_row(nbest, 1).tolist() == [5, 1]


# -- tokenisers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["none", "13a", "intl", "zh", "char"])
def test_tokenisers_are_sacrebleus(boostfeat, tmp_path: Path, name: str) -> None:
    import sacrebleu

    hyps, refs = (
        ["Don't panic, it's only 3.5% (more).", "我喜欢 tea-time!"],
        ["Do not panic: it's 3.5 % more.", "我爱 tea time !"],
    )
    (tmp_path / "list").write_text("".join(f"{k} ||| {h} ||| lm= 1 ||| -1\n" for k, h in enumerate(hyps)))
    (tmp_path / "ref").write_text("\n".join(refs) + "\n")
    flags = ("-r", tmp_path / "ref", "--tokenize", name, "-o", tmp_path / "a.nbest", "-q")
    assert boostfeat("import", tmp_path / "list", *flags)[0] == 0
    oracle = sacrebleu.BLEU(tokenize=name, force=True)
    expected = oracle.corpus_score(hyps, [refs]).score
    found = json.loads(boostfeat("score", tmp_path / "a.nbest", "--metric", "bleu", "--json")[1])["metrics"]["bleu"]
    assert found["score"] == pytest.approx(expected, rel=1e-12)
    assert found["signature"] == str(oracle.get_signature())
    assert read_store(tmp_path / "a.nbest").tokenizer == name


def test_unknown_tokenisers_list_the_known() -> None:
    with pytest.raises(InputError, match=r"unknown tokenizer 'klingon': expected one of 13a, .*none"):
        tokenizer("klingon")


def test_a_tokeniser_without_its_package_says_what_to_install(boostfeat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    code, _, err = boostfeat("import", tmp_path / "list", "--tokenize", "ja-mecab", "-o", tmp_path / "a.nbest")
    assert (code, err.count("\n")) == (2, 1)
    assert "--tokenize ja-mecab: expected what this tokenizer needs, found it missing; pip install sacrebleu[ja]" in err


def test_a_system_of_wmt23(boostfeat, real: Path, tmp_path: Path) -> None:
    """sacrebleu's 47.37 for ONLINE-W, uk-en (13a)."""
    with tarfile.open(real / "wmt-pools" / "wmt23.uk-en.tar.xz") as pool:
        for kind, name in (("references", "ref.refA"), ("system-outputs", "hyp.ONLINE-W")):
            file = pool.extractfile(f"{kind}/generaltest2023.uk-en.{name}.en")
            assert file is not None
            (tmp_path / kind).write_bytes(file.read())
    store = tmp_path / "w.nbest"
    made = ("--system", f"ONLINE-W={tmp_path / 'system-outputs'}", "-r", tmp_path / "references", "--tokenize", "13a")
    assert boostfeat("import", *made, "-o", store, "-q")[0] == 0
    for command, score in (("info", lambda out: out["first"]), ("score", lambda out: out["metrics"]["bleu"]["score"])):
        code, out, _ = boostfeat(command, store, "--json")
        assert code == 0
        assert round(score(json.loads(out)), 2) == 47.37


def test_the_output_of_one_system_needs_no_model(boostfeat, tmp_path: Path) -> None:
    """Where every list has one hypothesis there is nothing to choose; with two, something has to."""
    for name, lines in (("one", "a b c d\nx\n"), ("two", "a b c\ny\n"), ("ref", "a b c d\nz\n")):
        (tmp_path / name).write_text(lines)
    systems = [f"{name}={tmp_path / name}" for name in ("one", "two")]
    made = ("-r", tmp_path / "ref", "-o", tmp_path / "a.nbest", "-q")
    assert boostfeat("import", "--system", systems[0], *made)[0] == 0
    code, out, _ = boostfeat("score", tmp_path / "a.nbest", "--metric", "wer", "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["wer"]["score"] == 100 * 1 / 5
    assert boostfeat("import", "--system", systems[0], "--system", systems[1], *made)[0] == 0
    code, _, err = boostfeat("score", tmp_path / "a.nbest")
    assert (code, err.count("\n")) == (2, 1)
    assert "expected hypotheses with a decoder score, found none; give a model with -m ('boostfeat info' scores the first" in err


def test_stores_of_before_have_words_as_they_stand() -> None:
    old = read_store(Path(__file__).parents[1] / "compat" / "0.1.0" / "list.nbest")
    assert old.tokenizer == "none"
    assert "|tok:none|" in Scorer(old).score(first_choice(old), "bleu").signature


@pytest.mark.parametrize(
    ("name", "first", "best"), [("train_atis", 7.66, 5.06), ("test_ls_other", 3.67, 2.27), ("test_swbd", 15.86, 12.57)]
)
def test_error_rates_of_real_speech_lists(boostfeat, real: Path, tmp_path: Path, name: str, first: float, best: float) -> None:
    """HyPoradise, words as they stand."""
    assert boostfeat("import", real / "asr" / f"{name}.json.xz", "-o", tmp_path / "a.nbest", "-q")[0] == 0
    found = json.loads(boostfeat("info", tmp_path / "a.nbest", "--metric", "wer", "--json")[1])
    assert (round(found["first"], 2), round(found["oracle"], 2)) == (first, best)
    assert "; --metric wer, ter, chrf, ... has others)" in boostfeat("info", tmp_path / "a.nbest")[1]


@pytest.mark.parametrize("name", ["WER", "Bleu", "BLEU+1"])
def test_a_column_is_called_like_no_metric_in_any_case(nbest: NBest, tmp_path: Path, name: str) -> None:
    (tmp_path / "numbers").write_text("1\n2\n3\n")
    with pytest.raises(InputError, match="expected a name that is no metric"):
        join_qualities(nbest, [f"{name}={tmp_path / 'numbers'}"])
    with pytest.raises(InputError, match="--quality Da: expected each name once"):
        join_qualities(nbest, [f"da={tmp_path / 'numbers'}", f"Da={tmp_path / 'numbers'}"])


@pytest.mark.parametrize("name", ["loss", "Val_Loss", "my-wer", "ter2", "edit_distance"])
def test_a_column_that_sounds_like_a_loss_asks_for_its_direction(nbest: NBest, tmp_path: Path, name: str) -> None:
    (tmp_path / "numbers").write_text("1\n2\n3\n")
    with pytest.raises(InputError, match=f"sounds as if lower were better; give --lower-is-better {name}, or another name"):
        join_qualities(nbest, [f"{name}={tmp_path / 'numbers'}"])
    assert join_qualities(nbest, [f"{name}={tmp_path / 'numbers'}"], [name]).quality.lower[-1]
    assert not join_qualities(nbest, [f"closer={tmp_path / 'numbers'}"]).quality.lower[-1]
