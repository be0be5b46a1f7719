"""data/ is what its README says, and can be made again: a part here, word alignment and the second pair with -m slow."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from boostfeat.core.files import read_bytes, read_chunks, read_lines
from boostfeat.formats import read, write
from boostfeat.lists.build import ReadOptions, attach
from boostfeat.lists.choices import Scorer, first_choice, oracle_choice

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
LISTS = [("", 600, 200, 300, 1), ("four-refs", 200, 100, 100, 4)]


@pytest.fixture(scope="module")
def make_data() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_data", ROOT / "examples" / "make_data" / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


def alignments() -> list[str]:
    return [line for _, line in read_lines(DATA / "system" / "alignment.xz")]


def test_every_file_has_its_sum_and_all_are_small():
    sums = dict(line.split()[::-1] for line in (DATA / "SHA256SUMS").read_text().splitlines())
    files = {path.relative_to(DATA).as_posix(): path.read_bytes() for path in DATA.rglob("*") if path.is_file()}
    assert set(sums) == set(files) - {"README.md", "SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256(files[name]).hexdigest() == digest, name
    assert sum(map(len, files.values())) < 10e6


@pytest.mark.parametrize("which", ["MAIN", "FOUR"])
def test_texts_are_made_again(make_data, which):
    pair = getattr(make_data, which)
    for name, (source, refs) in pair.texts.items():
        files = [DATA / pair.folder / f"{name}.src", *sorted((DATA / pair.folder).glob(f"{name}.ref*"))]
        assert len(files) == 1 + pair.references
        for path, lines in zip(files, (source, *refs), strict=True):
            assert path.read_text(encoding="utf-8").splitlines() == lines


def test_the_system_is_made_again_from_its_alignments(make_data, tmp_path):
    """Phrase table, reordering table and language model, every byte; Python's and numpy's arithmetic alone decide them."""
    make_data.train(make_data.MAIN, tmp_path, alignments())
    for name in ("phrase-table.xz", "reordering-table.gz", "lm.arpa.xz"):
        assert read_bytes(tmp_path / name) == read_bytes(DATA / "system" / name), name


def test_the_ini_is_made_again(make_data, tmp_path):
    """With paths for Moses in the folder that holds data/; the decoder finds the files from anywhere."""
    weights = make_data.Model.load(DATA / "weights.json").weights
    path = make_data.write_ini(tmp_path, make_data.OPTIONS, weights, prefix=make_data.PREFIX)
    assert path.read_bytes() == (DATA / "system" / "moses.ini").read_bytes()


@pytest.mark.parametrize("folder", [ROOT, DATA, DATA / "system", ROOT.parent])
def test_the_inis_files_are_found_from_any_folder(make_data, folder, monkeypatch):
    monkeypatch.chdir(folder)
    setup = make_data.read_setup(DATA / "system" / "moses.ini")
    for file in (setup.phrase_table, setup.reordering_table, setup.lm):
        assert Path(file).resolve().parent == (DATA / "system").resolve()


def check_lists(make_data, pair, ini, n):
    """The first n sentences of every list, decoded again."""
    decoder = make_data.load_decoder(ini)
    for name in ("dev", "select", "test"):
        stream = io.BytesIO()
        write(make_data.decode(decoder, pair.texts[name][0][:n]), stream, format="moses-enriched")
        expected = next(read_chunks(DATA / pair.folder / f"{name}.nbest.xz", len(stream.getvalue())))
        assert stream.getvalue().count(b"\n") > 50 * n
        assert stream.getvalue() == expected[: len(stream.getvalue())], name


def test_lists_are_decoded_again_from_the_system(make_data):
    check_lists(make_data, make_data.MAIN, DATA / "system" / "moses.ini", 4)


@pytest.mark.slow
def test_the_second_pair_is_made_again(make_data, tmp_path):
    from boostfeat.model.model import Model

    ini = make_data.train(make_data.FOUR, tmp_path, alignments())
    make_data.write_ini(tmp_path, make_data.OPTIONS, Model.load(DATA / "four-refs" / "weights.json").weights)
    check_lists(make_data, make_data.FOUR, ini, 4)


@pytest.mark.slow
def test_word_alignments_are_made_again(make_data):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    assert make_data.align(*make_data.bitext()) == alignments()


@pytest.mark.parametrize(("folder", "dev", "select", "test", "n_refs"), LISTS)
def test_lists_are_a_realistic_task(folder, dev, select, test, n_refs):
    """Sizes, distinct translations, a first choice that is neither hopeless nor perfect, and much better ones in the lists."""
    for name, n in (("dev", dev), ("select", select), ("test", test)):
        base = DATA / folder / name
        nbest = read(f"{base}.nbest.xz", ReadOptions())
        refs = [path.read_text(encoding="utf-8").splitlines() for path in sorted(base.parent.glob(f"{name}.ref*"))]
        nbest = attach(nbest, source=base.with_suffix(".src").read_text(encoding="utf-8").splitlines(), refs=refs, name=name)
        assert (len(nbest), len(refs)) == (n, n_refs)
        counts = np.diff(nbest.hyp_ptr)
        assert counts.max() == 100
        assert counts.mean() > 90
        for a, b in zip(nbest.hyp_ptr, nbest.hyp_ptr[1:], strict=False):
            assert len(set(nbest.text[int(a) : int(b)].to_pylist())) == b - a
            assert (np.diff(nbest.score[a:b]) <= 1e-9).all()
        assert "count.log" in nbest.unit_names
        first, oracle = (Scorer(nbest).score(choice(nbest), "bleu").score for choice in (first_choice, oracle_choice))
        assert 25 < first < 50
        assert oracle > first + 15
