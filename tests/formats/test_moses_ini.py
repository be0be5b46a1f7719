"""Moses' ini: read by Moses' rules, changed line by line, and refused with the line where Moses would die or guess."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from boostfeat.core.errors import FormatError, InputError
from boostfeat.formats.moses.ini import Ini, looks_like_ini

INI = """\
# a system
[input-factors]
0

[feature]   # the order of the n-best list
WordPenalty
PhraseDictionaryMemory name=TM0 num-features=2 path=pt.gz  # text
Distortion
Distortion

[weight]
# tuned
WordPenalty0= -1
TM0= 0.25 0.5   # two values
Distortion1=0.5
#LM0= 3

[distortion-limit]
6
"""


def ini_of(text: str) -> Ini:
    return Ini("base.ini", tuple(text.split("\n")[:-1]))


def says_all(ini: Ini) -> tuple[object, object]:
    return ini.require("weight").features(), ini.named_weights()


def test_what_an_ini_says(tmp_path: Path) -> None:
    """Oracle: Moses' Parameter::ReadConfigFile and FeatureFunction::ParseLine, read; comments run from any '#'."""
    (tmp_path / "moses.ini").write_text(INI)
    ini = Ini.read(tmp_path / "moses.ini")
    assert ini.text == INI
    assert {name: f.arguments.get("path") for name, f in ini.features().items()} == {
        "WordPenalty0": None,
        "TM0": "pt.gz",
        "Distortion0": None,
        "Distortion1": None,
    }
    assert ini.weights() == {"WordPenalty0": [-1.0], "TM0": [0.25, 0.5], "Distortion1": [0.5]}
    assert ini.named_weights() == {"WordPenalty0": -1.0, "TM0_0": 0.25, "TM0_1": 0.5, "Distortion1": 0.5}
    assert ini.score_names() == ["WordPenalty0", "TM0_0", "TM0_1", "Distortion1"]
    assert [ini.says(at) for at in ini.section("distortion-limit")] == ["6"]


def test_changes_leave_all_else_as_it_is() -> None:
    ini = ini_of(INI)
    new = ini.with_weights({"TM0": [1.0, 2.5], "New0": [0.125]}).with_table("TM0", n_scores=3, path="new.gz")
    expected = INI.replace("TM0= 0.25 0.5   # two values", "TM0= 1 2.5  # two values")
    expected = expected.replace("Distortion1=0.5\n", "Distortion1=0.5\nNew0= 0.125\n")
    assert new.text == expected.replace("num-features=2 path=pt.gz", "num-features=3 path=new.gz")
    assert ini.with_feature("New name=New0").features()["New0"].line == 9
    cut = ini.without("weight")
    assert (cut.section("weight"), cut.section("distortion-limit")) == ([], [11])
    assert "# tuned" not in cut.text
    assert cut.with_section("weight", "A= 1").text.endswith("6\n\n[weight]\nA= 1\n")


def test_an_ini_is_made_of_sections_and_written(tmp_path: Path) -> None:
    Ini.of({"feature": ["Distortion"], "weight": ["Distortion0= 1"]}).write(tmp_path / "moses.ini")
    assert (tmp_path / "moses.ini").read_text() == "[feature]\nDistortion\n\n[weight]\nDistortion0= 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[weight]\nTM0 0.3\n", r"ini:2: expected 'Name= value ...', each name once, found 'TM0 0.3'"),
        ("[weight]\nTM0= 1\nTM0= 2\n", r"ini:3: expected 'Name= value ...', each name once, found 'TM0' again"),
        ("[weight]\nX=\n", r"ini:2: .*found 'X='"),
        ("[weight]\nX= # 3\n", r"ini:2: .*found 'X='"),
        ("[weight]\n= 3\n", r"ini:2: .*found '= 3'"),
        ("[weight]\nX Y= 3\n", r"ini:2: .*found 'X Y= 3'"),
        ("[weight]\nX= one\n", r"ini:2: expected a finite number for weight X, found 'one'"),
        ("[weight]\nX= 1 inf\n", r"ini:2: expected a finite number for weight X, found 'inf'"),
        ("[weight]\nX= 1 2\nX_0= 3\n", r"ini: expected each weight once, found 'X_0' again"),
        ("[weight\nX= 1\n", r"ini:1: expected '\[section\]' alone on its line, found '\[weight'"),
        ("[ weight ]\nX= 1\n", r"ini:1: expected '\[section\]' alone on its line"),
        ("[weight] X= 1\n", r"ini:1: expected '\[section\]' alone on its line"),
        ("X= 1\n[weight]\nY= 1\n", r"ini:1: expected a \[section\] before the first line, found 'X= 1'"),
        ("[weight]\n# X= 1\n[other]\nx\n", r"ini: expected a \[weight\] section, found none, or nothing in it"),
        ("[feature]\nKENLM LM0\n[weight]\nX= 1\n", r"ini:2: expected 'Class key=value ...', each key once, found 'KENLM LM0'"),
        ("[feature]\nKENLM =LM0\n[weight]\nX= 1\n", r"ini:2: expected 'Class key=value"),
        ("[feature]\nKENLM path=a path=b\n[weight]\nX= 1\n", r"ini:2: expected 'Class key=value ...', each key once"),
        ("[feature]\nA name=X\nB name=X\n[weight]\nX= 1\n", r"ini:3: expected each feature function once, found 'X' again"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        says_all(ini_of(text))


def test_a_second_weight_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected no \[weight-file\], found one"):
        ini_of(INI + "[weight-file]\nw\n").with_weight_file("other")


@pytest.mark.parametrize(
    ("text", "is_ini"), [("# x\n [weight] # y\n", True), ("[ weight ]\n", True), ("[x] 0.5\n", False), ("LM0= 1\n", False)]
)
def test_inis_are_told_from_lines_of_weights(text: str, is_ini: bool) -> None:
    assert looks_like_ini(text) is is_ini


def test_files_are_found_from_the_working_folder_or_the_inis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Moses does, and then where the ini lies, also by a path from further above; never in somebody else's folder."""
    folder = tmp_path / "data" / "system"
    folder.mkdir(parents=True)
    (folder / "moses.ini").write_text(INI)
    (folder / "lm").touch()
    (tmp_path / "data" / "other").touch()
    ini = Ini(str(folder / "moses.ini"), ())
    monkeypatch.chdir(tmp_path)
    assert ini.locate("data/system/lm") == "data/system/lm"
    assert Ini("data/system/moses.ini", ()).locate("lm") == "data/system/lm"
    for cwd in (folder, tmp_path.parent):
        monkeypatch.chdir(cwd)
        assert os.path.samefile(ini.locate("lm"), folder / "lm")
        assert os.path.samefile(ini.locate("data/system/lm"), folder / "lm")
        assert ini.locate("other") == "other"
    assert ini.locate("no\0file") == "no\0file"
