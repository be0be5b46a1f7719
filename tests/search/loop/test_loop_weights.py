"""Weights as decoders read them: written, read back, and refused where a format cannot hold them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import quick

from boostfeat.core.errors import InputError
from boostfeat.formats.moses.ini import read_weights
from boostfeat.model.model import Model
from boostfeat.search.loop.decoders import WEIGHT_FORMATS, kept_weights, read_start, write_ini

pytestmark = pytest.mark.quick

INI = """\
# a system
[input-factors]
0

[feature]
WordPenalty
PhraseDictionaryMemory name=TM0 num-features=2 path=pt.gz
SparseThing name=ST

[weight]
# tuned
WordPenalty0= -1
TM0= 0.25 0.5   # two values
UnknownWordPenalty0= 1

[distortion-limit]
6
"""


@pytest.fixture
def ini(tmp_path):
    path = tmp_path / "base.ini"
    path.write_text(INI)
    return path


def test_an_ini_gives_names_as_the_lists_have_them(ini):
    expected = {"WordPenalty0": -1, "TM0_0": 0.25, "TM0_1": 0.5, "UnknownWordPenalty0": 1}
    assert read_start(ini).weights == expected


def test_only_the_weight_section_changes(ini, tmp_path):
    out = tmp_path / "moses.ini"
    write_ini({"WordPenalty0": 0.1, "TM0_1": 1 / 3, "TM0_0": 0.0}, out, ini)
    assert read_start(out).weights == {"WordPenalty0": 0.1, "TM0_0": 0.0, "TM0_1": 1 / 3, "UnknownWordPenalty0": 1}
    before, _, after = INI.partition("[weight]")
    text = out.read_text()
    assert text.startswith(before)
    assert after.partition("\n\n")[2] in text  # what follows the section
    assert "# tuned\nWordPenalty0= 0.1\nTM0= 0 0.3333333333333333  # two values\n" in text  # comments stay


def test_sparse_weights_go_to_a_file_of_their_own(ini, tmp_path):
    out = tmp_path / "moses.ini"
    write_ini({"TM0_leaf7": 0.125, "ST_a_b": -2.0, "TM0_0": 1.0}, out, ini)
    assert "[weight-file]\n" + str(tmp_path / "sparse-weights.txt") in out.read_text()
    assert (tmp_path / "sparse-weights.txt").read_text() == "TM0_leaf7 0.125\nST_a_b -2\n"


@pytest.fixture
def sparse_ini(ini, tmp_path):
    (tmp_path / "sparse").write_text("TM0_leaf7 0.125\nST_a 3\n")
    ini.write_text(INI + "\n[weight-file]\nsparse\n")  # beside it
    return ini


def test_sparse_weights_of_an_ini_are_read_and_stay_unless_named(sparse_ini, tmp_path):
    """What [weight-file] has is part of the start; of an ini to write only what the weights name changes."""
    dense = {"WordPenalty0": -1, "TM0_0": 0.25, "TM0_1": 0.5, "UnknownWordPenalty0": 1}
    assert read_start(sparse_ini).weights == {**dense, "TM0_leaf7": 0.125, "ST_a": 3.0}
    assert kept_weights(Model(dense), sparse_ini) == ["TM0_leaf7", "ST_a"]
    out = tmp_path / "out" / "moses.ini"
    out.parent.mkdir()
    write_ini({"ST_a": 0.0, "ST_b": 2.0, "TM0_0": 1.0}, out, sparse_ini)
    assert read_start(out).weights == {**dense, "TM0_0": 1.0, "TM0_leaf7": 0.125, "ST_b": 2.0}
    assert out.read_text().count("[weight-file]") == 1
    write_ini({"ST_a": 0.0, "TM0_leaf7": 0.0}, out, sparse_ini)
    assert "[weight-file]" not in out.read_text()


def test_a_weight_in_both_places_of_an_ini_is_refused(sparse_ini, tmp_path):
    (tmp_path / "sparse").write_text("TM0_1 0.125\n")
    with pytest.raises(InputError, match="expected each weight once, found 'TM0_1' again; remove it from the file of"):
        read_start(sparse_ini)
    (tmp_path / "sparse").unlink()
    with pytest.raises(InputError, match=r"base.ini:20: expected a file of weights, found none called 'sparse'; correct it"):
        read_start(sparse_ini)


@pytest.mark.parametrize("name", ["Nosuch", "TM0_2", "TM0x_1", "tree.000"])
def test_a_feature_that_the_ini_lacks_is_refused_by_name(ini, tmp_path, name):
    with pytest.raises(InputError, match=f"'{name}'"):
        write_ini({name: 1.0}, tmp_path / "moses.ini", ini)
    write_ini({name: 0.0}, tmp_path / "moses.ini", ini)  # a weight of 0 asks for nothing


names = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1).filter(
    lambda n: n.split() == [n] and not n.startswith("#") and not n.endswith("=")
)


@pytest.mark.parametrize("format", ["cdec", "name-value"])
@quick
@given(weights=st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_lines_of_weights_come_back_to_the_bit(format, weights, tmp_path_factory):
    name, write = WEIGHT_FORMATS[format]
    path = tmp_path_factory.mktemp("w") / name
    write(weights, path, None)
    assert read_weights([path]) == weights


def test_the_start_may_be_a_model_or_lines(tmp_path):
    Model({"a": 1.0}).save(tmp_path / "m.json")
    (tmp_path / "w").write_text("a 1\nb= 2\n")
    assert read_start(tmp_path / "m.json").weights == {"a": 1.0}
    assert read_start(tmp_path / "w").weights == {"a": 1.0, "b": 2.0}
