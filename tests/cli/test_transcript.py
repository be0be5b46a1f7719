"""Commands on a small list, whole: what they print, say and return. transcript.txt reads as a session in a terminal does;
the lines that begin with ! are of standard error, those with ~ what a progress bar is told first and last.

Its numbers come from the list of small_list.py, whose counts are done by hand in tests/report; metrics, tuners and trees have tests of
their own. A clock that stands at 2.0 s when a command begins, and 5.12345 s later whenever it is asked again, makes durations what they are.
After a change that is meant: BOOSTFEAT_GOLDEN=write pytest tests/cli/test_transcript.py, and look at what it changes in the file.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_list import REFS, SOURCE, stump, the_list
from toy_graphs import OSGX
from toy_systems import write_known_system

import boostfeat.cli as commands
from boostfeat.cli.console import Bar
from boostfeat.model.chance import Chance
from boostfeat.model.decision import Calibration
from boostfeat.model.model import Model

TRANSCRIPT = Path(__file__).parent / "transcript.txt"
GOOD = "import list -s src -r ref -o good.nbest --quality good=scores.tsv:good --quality len=scores.tsv:len --lower-is-better len"
SCORES = "sentence\tlen\tgood\n" + "".join(f"{k}\t{k % 4}\t{(k * 7) % 15 / 10}\n" for k in range(15))


@pytest.fixture
def session(boostfeat, tmp_path, monkeypatch):
    """Runs a line as a terminal would show it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    the_list(tmp_path)
    for name, lines in (("src", SOURCE), ("ref", REFS)):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    Path("graph").write_text(OSGX)
    Path("some").write_text("".join(line for line in OSGX.replace("00)", "00,1)").splitlines(keepends=True) if line[0] == "4"))
    Path("scores.tsv").write_text(SCORES)
    Path("ref2").write_text("that house\n" * 8)
    Path("short.txt").write_text("1\n2\n")
    Path("groups.toml").write_text("[[group]]\nmatch = 'L*'\nfreeze = true\n")
    for n in (40, 41):  # features: more than 40 are told by group
        Path(f"wide{n}").write_text(f"0 ||| a ||| {' '.join(f'f{k}= {k}' for k in range(n))} ||| 1\n")
    Path("weights").write_text("LM0= 1\nTM0= 0.25 0\n")
    prepared = "import list -s src -r ref -o list.nbest -q", f"{GOOD} -q"
    assert [boostfeat(*line.split()) for line in prepared] == [(0, "", "")] * 2
    trees = (stump("LM0", -1.5, 2.0, -1.0), stump("TM0_0", -1.0, 0.5, 1.5, "u", on="LM0"))
    Model({"LM0": 0.5, "TM0_0": -0.25}, trees, config={"metric": "bleu"}).save("local.json")
    curve = Chance(scale=1.5, intercept=0.25, slope=0.5)
    sure = Calibration(keep_first=1.0, gain=0.5, error=0.25, lists=6, changed=4, chance=curve)
    Model({"LM0": 0.5, "TM0_0": -0.25}, trees, config={"metric": "bleu", "calibration": asdict(sure)}).save("sure.json")
    Model({"LM0": 0.5, "TM0_0": -0.25}, trees, config={"decision": {"by": "mbr", "scale": 0.75}}).save("risk.json")
    Model({"LM0": 1.0, "Other": 2.0}, (stump("LM0", -4.0, -1.0, 2.0),), "global").save("global.json")
    Model({"LM0": 0.0}).save("nothing.json")
    Path("system").mkdir()
    write_known_system(Path("system"))
    Path("three").write_text("".join(Path("system/dev.src").read_text().splitlines(keepends=True)[:3]))
    Path("three.ref").write_text("".join(Path("system/dev.ref").read_text().splitlines(keepends=True)[:3]))
    clock = {"calls": 0}
    bars: dict[str, list[str]] = {}

    def update(bar: Bar, done: float, total: float | None, note: str = "") -> None:
        if bar.what == "featurizing" or re.search(r": \d+ of \d+$", note):  # forks report in no certain order
            return
        of = "" if total is None else f" {done:g} of {total}"
        bars.setdefault(bar.what, []).append(f"~ {bar.what}:{of} {note}".rstrip() + "\n")

    monkeypatch.setattr(Bar, "update", update)

    def monotonic() -> float:
        clock["calls"] += 1
        return 2.0 + 5.12345 * (clock["calls"] - 1)

    names = [f"boostfeat.cli.{module.name}" for module in pkgutil.iter_modules(commands.__path__)]
    for here in map(importlib.import_module, [*names, "boostfeat.search.loop.driver", "boostfeat.core.processes"]):
        if hasattr(here, "time"):
            monkeypatch.setattr(here, "time", SimpleNamespace(monotonic=monotonic))

    def run(line: str) -> str:
        clock["calls"] = 0
        bars.clear()
        code, out, err = boostfeat(*shlex.split(line)[1:])
        said = "".join(f"! {line}\n" for line in err.splitlines())
        said += "".join("".join(dict.fromkeys((told[0], told[-1]))) for told in bars.values())
        out, said = (_short(text.replace(str(tmp_path), "")) for text in (out, said))
        out = re.sub(r"^Usage: .*\n( {10,}.*\n)*", "", out)  # which releases of typer write in different ways
        return f"$ {line}\n{out}{said}" + (f"exit code {code}\n" if code else "") + "\n"

    return run


def _short(text: str) -> str:
    """Numbers in full precision to six digits: the last ones may differ on another machine. Hashes and random names are not shown."""
    text = re.sub(r"-?\d+\.\d{6,}(e-?\d+)?", lambda number: f"{float(number[0]):.6g}", text)
    text = re.sub(r"\w+\.attempt", "X.attempt", text)
    text = re.sub(r"a page of \d+\.\d MB", "a page of X MB", text)  # most of it is of plotly
    return re.sub(r"version:(boostfeat-)?[\d.]+", "version:X", re.sub(r"[0-9a-f]{12,64}", "HASH", text))


def sections() -> dict[str, str]:
    """What stands under each heading."""
    parts = re.split(r"^# (.*)\n", TRANSCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("command", sections())
def test_transcript(session, command):
    expected = sections()[command]
    found = "\n" + "".join(session(line[2:]) for line in expected.splitlines() if line.startswith("$ "))
    if os.environ.get("BOOSTFEAT_GOLDEN") == "write":
        TRANSCRIPT.write_text("".join(f"# {k}\n{v}" for k, v in {**sections(), command: found}.items()), encoding="utf-8")
        return
    assert found.split("\n$ ") == expected.split("\n$ ")
