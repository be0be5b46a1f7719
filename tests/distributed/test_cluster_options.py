"""Every option of induce and tune on a cluster: the local file byte by byte, or one line that names the option."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from boostfeat.cli.learning_commands import InduceFlags, TuneFlags
from boostfeat.cli.option_texts import method_options
from boostfeat.core.options import options_of
from boostfeat.lists.store import read_store, write_store
from boostfeat.tuners.tuner_options import TUNER_OPTIONS

DATA = Path(__file__).parents[2] / "data"
CLUSTER = "--engine dask --set scheduler=ADDRESS --set timeout=60 --set workers="
WORKERS = 1, 2, 3, 5
OF_DEFAULT = "--rounds 4 --min-occurrences 20 --set draws=300"
INDUCE = [
    OF_DEFAULT,
    f"{OF_DEFAULT} --recipe fast --select select.nbest --set decide=auto --seed 3 --threads 2 --resume",
    "--recipe paper --rounds 3 --max-leaves 3",
    "--recipe paper --rounds 3 --select select.nbest --set patience=2 --set max-bin=31",
    "--recipe paper --rounds 4 --leaves linear --max-leaves 6 --set rule=all --set decide=score",
    "--recipe paper --rounds 3 --leaves affine --max-leaves 4 --set candidates=2 --set rule=all",
    f"{OF_DEFAULT} --templates sparse --set sparse-l2=100 --set l2=2 --set shrinkage=0.5 --set resample-pairs=2 --set alpha=0.5",
    f"{OF_DEFAULT} --level global --gain chrf --metric ter --set context=no",
    "--rounds 2 --set sampler=hm11 --pairs 10 --set threshold=0.02 --set distinct-pairs=yes --set tree-features=LM0,WordPenalty0 --quiet",
    f"{OF_DEFAULT} --set try-templates=no --set static-only=yes --json",
    f"{OF_DEFAULT} --for-decoder",
    f"{OF_DEFAULT} --init carrying.json --allow-edited",
    f"{OF_DEFAULT} more.nbest --allow-missing --force",
    f"{OF_DEFAULT} --templates phrase_count,model1_bitext,lm,own --phrase-table table.xz --lm lm.arpa --bitext dev.src dev.ref --plugin own.py",
    f"{OF_DEFAULT} --templates deleted_clusters,inserted_clusters --set clusters-src=classes --set clusters-tgt=classes",
]
REFUSED = {
    "--graphs graph": "--graphs does not go with --engine dask",
    "--set graph-iterations=2": "--set graph-iterations does nothing without --graphs",
    "--set graph-nbest=5": "--set graph-nbest does nothing without --graphs",
    "--set graph-names=names": "--set graph-names does nothing without --graphs",
    "--set graph-plan=plan": "--set graph-plan does nothing without --graphs",
}
ADAPTIVE = (
    "--eta 0.05 --set dense-eta=0.5 --l1 0.2 --pairs 10 --set draws=200 --set threshold=0.02 --set batch=5 --epochs 2 "
    "--set loss=hinge --set standardise=no --set under-way=2"
)
MARGIN = (
    "--c 0.02 --set k=5 --set oracle=lu --set prediction=mc --epochs 2 --set average=no --set shards=2 --set context-scale=shard"
)
TUNE = [
    "--method pro --set sampler=hm11 --set draws=300 --set threshold=0.02 --pairs 10 --alpha 0.5 --l2 2 --set max-iter=50 "
    "--set tol=1e-3 --epochs 2 --runs 2 --seed 4",
    "--method mert --set restarts=1 --epochs 1 --set shakes=1 --set directions=2 --set shake=0.1 --set least-gain=0.1 "
    "--set max-features=90 --init zero",
    f"--method mira {MARGIN} --select select.nbest --set pick=dev --gain chrf --metric ter --runs 3",
    "--method kbmira --c 0.02 --set decay=0.9 --epochs 2 --set background=model --set shuffle=no --set groups=groups.toml",
    f"--method rm {MARGIN} --set by-cost=yes --set b=2 --set d=0.1 --set solver=cp --set planes=5 more.nbest --allow-missing",
    f"--method adagrad {ADAPTIVE} --threads 2",
    "--method rampion --epochs 2 --set passes=2 --eta 0.001 --set pull=0.5 --set cost-scale=5 --quiet",
    f"--method arow {ADAPTIVE} --set variant=exact --set variance=2 --c 0.1 --set r=10 --json --force",
    "--templates phrase_count,model1_bitext,lm,own --phrase-table table.xz --lm lm.arpa --bitext dev.src dev.ref --plugin own.py",
    "--templates deleted_clusters,inserted_clusters --set clusters-src=classes --set clusters-tgt=classes",
    *(f"--method {method} --init carrying.json --allow-edited" for method in ("pro", "mira", "rm", "adagrad")),
]


def test_every_declared_option_is_tried():
    given = {"output", "LIST.nbest..."}
    for rows, flags in ((INDUCE, InduceFlags), (TUNE, TuneFlags)):
        tried = given.union(*map(names_in, [*rows, *REFUSED, CLUSTER]))
        wanted = {o.name.replace("_", "-") for o in (*options_of(flags), *method_options(flags)) if not o.is_argument}
        assert wanted - tried == set()
    for method, kind in TUNER_OPTIONS.items():
        row = next(row for row in TUNE if f"--method {method} " in row)
        assert {o.name.replace("_", "-") for o in options_of(kind)} - names_in(row) == set()


def names_in(row: str) -> set[str]:
    return {a or b for a, b in re.findall(r"--set ([a-z0-9-]+)=|--([a-z0-9-]+)", row)}


@pytest.fixture(scope="module")
def folder(data_stores, tmp_path_factory):
    """Small lists, and all files that options name."""
    folder = tmp_path_factory.mktemp("options")
    dev, select = (read_store(data_stores / f"{name}.nbest") for name in ("dev", "select"))
    for name, nbest in {"dev": dev[:140], "more": dev[140:170], "select": select[:40]}.items():
        write_store(nbest.truncate(8), folder / f"{name}.nbest")
    for name in ("dev.src", "dev.ref"):
        (folder / name).write_bytes((DATA / name).read_bytes())
    (folder / "lm.arpa").write_bytes(lzma.decompress((DATA / "system" / "lm.arpa.xz").read_bytes()))
    (folder / "table.xz").write_bytes((DATA / "system" / "phrase-table.xz").read_bytes())
    words = sorted({word for line in (DATA / "dev.ref").read_text(encoding="utf-8").splitlines() for word in line.split()})
    (folder / "classes").write_text("".join(f"{word}\t{k % 20 + 1}\n" for k, word in enumerate(words)), encoding="utf-8")
    (folder / "groups.toml").write_text('[[group]]\nmatch = "LM0"\nfreeze = true\n', encoding="utf-8")
    (folder / "own.py").write_text(PLUGIN, encoding="utf-8")
    return folder


PLUGIN = """
from boostfeat.features import template

@template("own")
def own(target):
    return {"own": sum("a" in word for word in target)}
"""


@pytest.fixture
def both(folder, client, boostfeat, monkeypatch):
    """Run a command here and on workers; gives what is said there, and both files."""
    monkeypatch.chdir(folder)

    def run(command: str, row: str, workers: int) -> None:
        words = f"{command} dev.nbest {row}".split()
        for path in Path().glob("*here.json*"):
            path.unlink()  # rows are independent: there is nothing to go on with
        code, _, err = boostfeat(*words, "-o", "here.json")
        assert code == 0, err
        cluster = CLUSTER.replace("ADDRESS", client.scheduler.address).split()
        code, _, err = boostfeat(*words, *cluster[:-1], f"{cluster[-1]}{workers}", "-o", "there.json")
        assert code == 0, err
        assert "--quiet" in row or "dashboard: http" in err
        assert Path("here.json").read_bytes() == Path("there.json").read_bytes()

    if not Path("carrying.json").exists():
        assert boostfeat("tune", "dev.nbest", "--templates", "phrases", "-o", "carrying.json")[0] == 0
    return run


@pytest.mark.slow
@pytest.mark.parametrize("row", INDUCE)
def test_induce_writes_the_local_file(both, row):
    both("induce", row, WORKERS[INDUCE.index(row) % 4])


@pytest.mark.parametrize("workers", WORKERS)
def test_the_default_is_the_local_file_for_any_number_of_workers(both, workers):
    both("induce", OF_DEFAULT, workers)


@pytest.mark.slow
@pytest.mark.parametrize("row", TUNE)
def test_tune_writes_the_local_file(both, row):
    both("tune", row, WORKERS[TUNE.index(row) % 4])


@pytest.mark.parametrize("command", ["induce", "tune"])
@pytest.mark.parametrize(("row", "line"), REFUSED.items())
def test_what_a_cluster_does_not_take_is_refused_by_name(folder, boostfeat, monkeypatch, command, row, line):
    monkeypatch.chdir(folder)
    code, out, err = boostfeat(command, "dev.nbest", *row.split(), "--engine", "dask", "-o", "m.json")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert line in err


def test_workers_write_the_parts_that_one_machine_writes(client, boostfeat, tmp_path, monkeypatch):
    """Lists, references, a plan and a plugin are read by their paths, wherever workers run."""
    monkeypatch.chdir(tmp_path)
    lines = lzma.decompress((DATA / "dev.nbest.xz").read_bytes()).splitlines(keepends=True)
    for name, start in (("late", 70), ("early", 0)):
        own = [line for line in lines if start <= int(line.partition(b" ")[0]) < start + 70]
        Path(f"{name}.xz").write_bytes(lzma.compress(b"".join(own), preset=0))
    for side in ("src", "ref"):
        Path(side).write_text(
            "".join((DATA / f"dev.{side}").read_text(encoding="utf-8").splitlines(True)[:140]), encoding="utf-8"
        )
    Path("own.py").write_text(PLUGIN, encoding="utf-8")
    cluster = CLUSTER.replace("ADDRESS", client.scheduler.address) + "2"
    made = "import late.xz early.xz -s src -r ref --size 5", "featurize raw/ --plan one.plan.json --plugin own.py"
    for k, (folder, command) in enumerate(zip(("raw", "more"), made, strict=True)):
        for there, flags in ((False, ""), (True, cluster)):
            code, _, err = boostfeat(*command.split(), "-o", f"{folder}-there/" if there else f"{folder}/", *flags.split())
            assert code == 0, err
        parts = sorted(Path(folder).iterdir())
        assert len(parts) == 2
        assert [part.read_bytes() for part in parts] == [(Path(f"{folder}-there") / part.name).read_bytes() for part in parts]
        if not k:
            assert boostfeat("featurize", "raw", "--templates", "phrases,own", "--plugin", "own.py", "-o", "one.nbest")[0] == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("import dev.src -o new.nbest", "--engine dask: workers write parts, and -o new.nbest is one file"),
        ("featurize dev.nbest -o new.nbest", "--engine dask: workers write parts, and -o new.nbest is one file"),
        ("import dev.src -o new/ --scores dev.ref", "--scores does not go with --engine dask"),
        ("import dev.src -o new/ --counts dev.ref", "--counts does not go with --engine dask"),
        ("import dev.nbest -o new/ --set scheduler=ADDRESS", "worker ADDRESS"),
    ],
)
def test_what_workers_cannot_write_is_refused_in_one_line(folder, client, boostfeat, monkeypatch, words, line):
    monkeypatch.chdir(folder)
    words = words.replace("ADDRESS", client.scheduler.address).split()
    code, _, err = boostfeat(*words, "--engine", "dask", "-q")
    assert (code, err.count("\n")) == (2, 1), err
    assert line.partition("ADDRESS")[0] in err
    assert not Path("new").exists()
