"""The Dask engine: the models of one machine from any number of workers, and a worker that dies costs nothing but time."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

import dask
import distributed
import psutil
from engines import Told
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.boosting.boost import run_rounds
from boostfeat.boosting.boost_options import recipe
from boostfeat.boosting.induce import induce_on
from boostfeat.boosting.local import Local
from boostfeat.boosting.record import Record
from boostfeat.boosting.selection.template_set import FeaturedLists
from boostfeat.cli import learning_commands
from boostfeat.core.arrays import block_ptr
from boostfeat.core.errors import InputError
from boostfeat.distributed.block_range import BlockRange
from boostfeat.distributed.cluster import ClusterFits, SpreadEngine, WholeEngine, is_spread
from boostfeat.distributed.cluster_tuning import tune_on
from boostfeat.distributed.worker_data import Source, WorkerData, opened
from boostfeat.distributed.workers import Workers
from boostfeat.features import TEMPLATES, FeaturePlan, featurize, template
from boostfeat.features.compute import SentenceRun
from boostfeat.lists.nbest import columns, strings
from boostfeat.lists.precision import with_precision
from boostfeat.lists.store import read_store, write_store
from boostfeat.model.model import Model
from boostfeat.tuners.adaptive import Adagrad
from boostfeat.tuners.base import Run
from boostfeat.tuners.kbmira import Kbmira
from boostfeat.tuners.mert import Mert
from boostfeat.tuners.mira import Mira, RelativeMargin
from boostfeat.tuners.pro import Pro

SMALL = {"draws": 200, "keep": 20, "min_occurrences": 50}
OPTIONS = {
    "paper": recipe("paper", rounds=4, max_leaves=4, **SMALL),
    "global": recipe("paper", rounds=2, level="global", **{**SMALL, "min_occurrences": 20}),
    "fresh pairs": recipe("paper", rounds=3, max_leaves=3, resample_pairs=1, metric="bleu", **SMALL),
    "linear": recipe("paper", rounds=3, max_leaves=4, leaves="linear", **SMALL),
    "affine": recipe("paper", rounds=2, max_leaves=5, leaves="affine", candidates=2, **SMALL),
    "default": recipe("default", rounds=7, **SMALL),
}
ALL_ROUNDS = {"rule": "all", "decide": "score"}  # nothing to choose
RUN = Run(seed=5, init={"LM0": 0.3, "RelFreq": 0.1})


def here(dev, select, options, **how):
    """Learn on this machine."""
    return induce_on(FeaturedLists(dev, select), options, **how)


@pytest.fixture(scope="module")
def lists():
    """Four blocks of sentences, and units that occur in all of them."""
    dev = synthetic_nbest(SyntheticOptions(sentences=256, hyps=15, features=6), seed=1)
    unit_idx = dev.unit_idx.copy()
    unit_idx[::5] = np.arange(len(unit_idx[::5])) % 40
    dev = replace(dev, unit_idx=unit_idx).compact()
    assert len(block_ptr(len(dev))) == 5
    return dev, synthetic_nbest(SyntheticOptions(sentences=60, hyps=15, features=6), seed=2)


@pytest.fixture(scope="module")
def stores(lists, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    paths = [str(folder / name) for name in ("dev.nbest", "select.nbest")]
    for nbest, path in zip(lists, paths, strict=True):
        write_store(nbest, path)
    return paths


def there(workers, dev, select, options, **how):
    """Learn on workers."""
    return induce_on(FeaturedLists(dev, select), options, cluster=ClusterFits(workers), **how)


@pytest.fixture
def fleet(client, lists, stores):
    """Make workers that open the first list themselves; others that they are given are sent."""
    fleets = []

    def of(n: int, **how) -> Workers:
        how = {"timeout": 60, "stores": [(lists[0], Source.of(stores[0], lists[0]))], **how}
        fleets.append(Workers(client, workers=n, **how))
        return fleets[-1]

    yield of
    for one in fleets:
        one.close()


@pytest.mark.parametrize(("name", "workers"), [("paper", (1, 2, 3, 5)), *((name, (2,)) for name in OPTIONS if name != "paper")])
def test_any_number_of_workers_gives_the_model_of_one_machine(lists, fleet, name, workers):
    local = here(*lists, OPTIONS[name], seed=3)
    assert len(local.history) > 1
    for n in workers:
        assert there(fleet(n), *lists, OPTIONS[name], seed=3).to_json() == local.to_json()


@pytest.mark.parametrize("name", ["paper", "default"])
def test_folds_choose_on_workers_as_on_one_machine(lists, fleet, name):
    local, told = here(lists[0], None, OPTIONS[name], seed=3), []
    assert local.config["chosen_by"] == "folds"
    found = there(fleet(3), lists[0], None, OPTIONS[name], seed=3, tell=lambda *row: told.append(row))
    assert found.to_json() == local.to_json()
    rounds = OPTIONS[name].rounds + 1
    assert told == [("number of trees", n * rounds, 3 * rounds) for n in (1, 2, 3)]


@pytest.mark.parametrize("name", ["paper", "default"])
def test_parts_on_workers_give_the_model_of_one_file(lists, fleet, tmp_path, name):
    """Parts end inside blocks, and share units."""
    folder, dev = tmp_path / "dev.nbest", lists[0]
    folder.mkdir()
    for k, (first, last) in enumerate(pairwise((0, 50, 130, 256))):
        write_store(dev[first:last], folder / f"{k}.nbest")
    whole = read_store(folder)
    assert whole == dev
    local = here(dev, lists[1], OPTIONS[name], seed=3)
    for n in (1, 3):
        workers = fleet(n, stores=[(whole, Source.of(str(folder), whole))])
        assert there(workers, whole, lists[1], OPTIONS[name], seed=3).to_json() == local.to_json()


RULED = "--set rule=all --set decide=score"


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("induce", f"dev --recipe paper --rounds 4 {RULED} --set draws=200 --init init.json"),
        ("induce", f"dev more.nbest --level global --recipe paper --rounds 2 {RULED} --set draws=200"),
        ("induce", "dev --recipe paper --rounds 3 --set draws=200 --select select.nbest"),
        ("tune", "dev --method pro --set draws=200"),
    ],
)
def test_one_spread_fit_needs_no_part_here(lists, client, boostfeat, tmp_path, monkeypatch, command, flags):
    """What is learned, written and said is that of one machine, though this process reads no store that is learned from."""
    monkeypatch.chdir(tmp_path)
    dev = with_precision(replace(lists[0], source=strings([f"s {k // 2}" for k in range(len(lists[0]))])))
    dev = replace(dev, units=replace(dev.units, x=dev.X * np.where(np.arange(dev.X.shape[1]) == 3, 1e80, 1.0)))
    Path("dev").mkdir()
    for k, (first, last) in enumerate(pairwise((0, 40, 130, 200))):
        write_store(dev[first:last], f"dev/{k}.nbest")
    write_store(dev[200:], "more.nbest")
    write_store(lists[1], "select.nbest")
    Model({"LM0": 0.5}).save("init.json")
    code, out, err = boostfeat(command, *flags.split(), "-o", "here.json")
    assert code == 0, err
    read = learning_commands.read_store
    monkeypatch.setattr(learning_commands, "read_store", lambda path: read({"select.nbest": path}[path]))
    cluster = "--engine", "dask", "--set", f"scheduler={client.scheduler.address}", "--set"
    for n in (1, 3):
        code, *said = boostfeat(command, *flags.split(), "-o", "there.json", *cluster, f"workers={n}")
        assert code == 0, said
        assert Path("there.json").read_bytes() == Path("here.json").read_bytes()
        assert said[0] == out
        told = [re.sub(r"here|there| in [0-9.]+ s", "", text).splitlines() for text in (err, said[1])]
        assert [line for line in told[1] if "dask dashboard" not in line] == told[0]


def test_templates_are_taught_and_computed_on_workers(data_stores, fleet, tmp_path, monkeypatch):
    """Counts, word classes, Model 1 and the scale of posteriors; workers open the parts that have their sentences."""
    dev, folder, plain = read_store(data_stores / "dev.nbest")[:140].truncate(6), tmp_path / "dev.nbest", SentenceRun.compute
    folder.mkdir()
    for k, (first, last) in enumerate(pairwise((0, 50, 90, 140))):
        write_store(dev[first:last], folder / f"{k}.nbest")

    @template("first")
    def first(target):
        return {f"first.{target[0][0]}": 1.0} if target else {}

    registry, said, whole = {**TEMPLATES, "first": first}, [], read_store(folder)
    plan = FeaturePlan.of("large+phrases+consensus+first", registry)
    local, learnt = featurize(dev, plan, registry=registry)
    again, _ = featurize(dev, learnt, registry=registry)  # not by what other blocks teach
    monkeypatch.setattr(SentenceRun, "count", None)  # here
    monkeypatch.setattr(SentenceRun, "compute", lambda run, t, *how: plain(run, t, *how) if t is first else None)
    for n in (1, 3):
        cluster = ClusterFits(fleet(n, stores=[(whole, Source.of(str(folder), whole))]))
        how = {"registry": registry, "cluster": cluster, "report": lambda *row: said.append(row)}
        for wanted, features in ((plan, local), (learnt, again)):
            out, found = featurize(whole, wanted, **how)
            assert found.to_json() == learnt.to_json()
            assert (out.differences(features), out.meta) == ([], features.meta)
    assert ("computing", 3, 3) in said


def test_three_engines_are_asked_the_same(lists, fleet):
    """One loop: the same lines, in the same order, for rounds from the start and for rounds that go on."""
    options, seen = replace(OPTIONS["fresh pairs"], resample_pairs=2), []
    alone = Local(lists[0], options, seed=3, threads=1)
    whole = run_rounds(alone, Record(options, lists[1], seed=3, callback=lambda row, model: seen.append(model)))
    for so_far in (None, seen[1]):
        engines = [Told(Local(lists[0], options, seed=3, threads=1)),
                   *(Told(kind(fleet(2), lists[0], options, seed=3)) for kind in (SpreadEngine, WholeEngine))]  # fmt: skip
        for engine in engines:
            assert run_rounds(engine, Record(options, lists[1], seed=3, so_far=so_far)).to_json() == whole.to_json()
        assert engines[0].asked == engines[1].asked == engines[2].asked
        assert len(engines[0].asked) > 9
    assert [call for call in engines[0].asked if call[0] in ("train", "add", "grow")] == [
        ("train", 0), ("add",), ("grow", 2), ("train", 2), ("grow", 3)]  # fmt: skip


def test_fits_are_spread_where_that_keeps_every_bit(lists):
    worded = featurize(lists[0].truncate(2), FeaturePlan.of("pt", TEMPLATES, min_count=1))[0]
    bare = replace(worded, units=replace(worded.units, x=worded.X[:, :0]), unit_names=())
    assert [name for name, options in OPTIONS.items() if is_spread(options, lists[0])] == ["paper", "global", "fresh pairs"]
    assert is_spread(recipe("paper", tree_features=("LM0",)), worded)
    assert not is_spread(recipe("paper", tree_features=("LM0", worded.sparse_names[0].as_py())), worded)
    assert not is_spread(recipe("paper"), bare)


def test_lists_that_are_no_store_are_sent_with_their_sparse_features(lists, fleet):
    worded = featurize(lists[0].truncate(6), FeaturePlan.of("pt", TEMPLATES, min_count=1))[0]
    names = tuple(worded.sparse_names.to_pylist()[:3])
    for options in (recipe("default", rounds=2, **SMALL), recipe("paper", rounds=2, tree_features=names, **ALL_ROUNDS, **SMALL)):
        local = here(worded, None, options)
        assert any(name.startswith("pt:") for name in local.weights)
        assert there(fleet(2), worded, None, options).to_json() == local.to_json()


def test_threads_of_workers_do_not_change_a_bit(lists, fleet):
    found = set()
    for threads in ([1], [3], [2, 1]):
        of = fleet(len(threads))
        for worker, n in zip(of.members.values(), threads, strict=True):
            worker["nthreads"] = n
        found.add(json.dumps(there(of, *lists, OPTIONS["paper"], seed=3).to_json()))
    assert len(found) == 1


TUNERS = [Pro(draws=200, keep=20, rounds=2), Mira(epochs=3, shards=2), RelativeMargin(epochs=2), Adagrad(epochs=3),
          Kbmira(epochs=3), Mert(restarts=1)]  # fmt: skip


@pytest.mark.parametrize("tuner", TUNERS, ids=lambda tuner: type(tuner).__name__)
def test_tuners_learn_what_they_do_on_one_machine(lists, fleet, tuner):
    rows = []
    runs = [replace(RUN, seed=seed, callback=rows.append) for seed in (5, 6)]
    plain = [tuner.fit(*lists, run) for run in runs]
    heard, rows[:] = list(rows), []
    for n in (1, 4) if isinstance(tuner, Pro) else (2,):
        found = tune_on(fleet(n), tuner, *lists, runs)
        assert [model.to_json() for model in found] == [model.to_json() for model in plain]
        assert rows == heard
        rows.clear()


def test_resume_goes_on_from_the_last_round(lists, stores, client, boostfeat, tmp_path, monkeypatch):
    out, local, rounds = tmp_path / "m.json", tmp_path / "local.json", []
    options = recipe("paper", rounds=4, draws=200)
    flags = ("induce", stores[0], "--select", stores[1], "--recipe", "paper", "--rounds", 4, "--set", "draws=200")
    assert boostfeat(*flags, "-o", local)[0] == 0
    made_from = Model.load(local).config["made_from"]

    def keep(row, model):
        if row["round"] == 3:
            replace(model, config={**model.config, "made_from": made_from}).save(f"{out}.partial")

    here(*lists, options, callback=keep)
    plain = Workers.together

    def together(self, *calls):
        rounds.extend(call for call in calls if call[:2] == (WorkerData.each, BlockRange.move))
        return plain(self, *calls)

    monkeypatch.setattr(Workers, "together", together)
    cluster = ("--engine", "dask", "--set", f"scheduler={client.scheduler.address}", "--set", "workers=2")
    assert boostfeat(*flags, "--resume", "-o", out, *cluster)[0] == 0
    assert len(rounds) == 1
    assert out.read_bytes() == local.read_bytes()


def test_a_feature_beyond_all_measure_is_left_out_on_workers_too(lists, fleet, tmp_path):
    dev, _ = lists
    huge = replace(dev, units=replace(dev.units, x=dev.X * np.where(np.arange(dev.X.shape[1]) == 4, 1e200, 1.0)))
    write_store(huge, tmp_path / "huge.nbest")
    options = recipe("paper", rounds=1, **ALL_ROUNDS, **SMALL)
    found = there(fleet(2, stores=[(huge, Source.of(str(tmp_path / "huge.nbest"), huge))]), huge, None, options)
    assert found.to_json() == here(huge, None, options).to_json()


def on_two_workers(store, out, *flags):
    """The command as a terminal would start it: the head of a group of its own."""
    command = [sys.executable, "-m", "boostfeat", "induce", store, "-o", out, "--recipe", "paper", *flags]
    cluster = ["--engine", "dask", "--set", "workers=2", "--set", "rule=all", "--set", "decide=score"]
    return subprocess.Popen([*command, *cluster], stderr=subprocess.PIPE, start_new_session=True)


@pytest.mark.slow
def test_ctrl_c_while_workers_start_prints_one_line(stores, tmp_path):
    psutil = pytest.importorskip("psutil")  # which distributed needs
    with on_two_workers(stores[0], tmp_path / "m.json") as running:
        while len(psutil.Process(running.pid).children(recursive=True)) < 3:  # one, its server, and multiprocessing's own
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err.count(b"\n")) == (130, 1)
    assert err.startswith(b"boostfeat: interrupted")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_an_interrupted_round_ends_at_once_and_leaves_no_process(stores, tmp_path, number):
    """Though workers are in the middle of something: here, they are frozen."""
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "m.json"
    with on_two_workers(stores[0], out, "--set", "draws=200", "--rounds", "5000", "-q") as running:
        while not (tmp_path / "m.json.partial").exists():
            assert running.poll() is None
            time.sleep(0.05)
        started = psutil.Process(running.pid).children(recursive=True)
        for process in started:
            if process.ppid() != running.pid:  # a worker: the server that has forked it is the command's child
                process.suspend()
        os.kill(running.pid, number)
        begun = time.monotonic()
        _, err = running.communicate(timeout=60)
    assert time.monotonic() - begun < 5  # about 1 on an idle machine; asking workers to end would take as long as they do
    assert (running.returncode, err.count(b"\n")) == (128 + number, 1), err
    assert b"holds the best so far; go on with --resume" in err
    assert not psutil.wait_procs(started, timeout=3)[1]
    assert Model.load(out).history


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--engine local --set workers=2", "--set workers does nothing without --engine dask; leave it out"),
        (
            "--engine dask --set scheduler=127.0.0.1:1 --set timeout=1",
            "--set scheduler: expected the address of a Dask scheduler",
        ),
    ],
)
def test_refused_before_any_work(stores, boostfeat, tmp_path, flags, line):
    code, out, err = boostfeat("induce", stores[0], "-o", tmp_path / "m.json", *flags.split(), "-q")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert line in err


def test_without_dask_one_line_names_the_extra(stores, boostfeat, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, err = boostfeat("induce", stores[0], "-o", tmp_path / "m.json", "--engine", "dask", "--recipe", "paper", "-q")
    assert (code, err.count("\n")) == (2, 1)
    assert "pip install 'boostfeat[dask]'" in err


@pytest.mark.parametrize(
    ("change", "line"), [({"path": "/no/such/dev.nbest"}, "found no such file"), ({"size": 7}, "expected 7 bytes")]
)
def test_a_store_that_workers_do_not_see(lists, stores, fleet, change, line):
    source = Source.of(stores[0], lists[0])
    store = lists[0], source._replace(files=(source.files[0]._replace(**change),))
    for options in (OPTIONS["paper"], OPTIONS["default"]):
        with pytest.raises(InputError, match=line):
            there(fleet(2, stores=[store]), *lists, options)


GONE = "worker {}: its process or machine is gone; workers start again"


def worker_of(client, fleet, number):
    address = list(fleet.members)[number]
    return address, client.run(os.getpid, workers=[address])[address]


@pytest.mark.parametrize("name", ["paper", "default"])
@pytest.mark.parametrize("at", [pytest.param("round", marks=pytest.mark.slow), "grow"])
def test_a_killed_worker_is_named_and_the_rest_goes_on(lists, client, fleet, at, name, monkeypatch):
    options, said = OPTIONS[name], []
    workers = fleet(2, timeout=120, say=said.append)
    victim, pid = worker_of(client, workers, 0 if name == "default" else 1)  # the first one has a whole fit

    def kill() -> None:
        if not said and victim in workers.members:
            os.kill(pid, signal.SIGKILL)

    plain = Workers.shards

    def shards(self, method, *arguments):
        if at == "grow" and method in (WorkerData.grow, Local.grow):  # the other one now waits in LightGBM for it
            kill()
        return plain(self, method, *arguments)

    monkeypatch.setattr(Workers, "shards", shards)
    callback = {"callback": lambda row, model: kill() if at == "round" and row["round"] == 2 else None}
    found = there(workers, *lists, options, seed=3, **callback)
    assert said == [GONE.format(victim), f"going on after round {2 if at == 'round' else 0} with 1 worker"]
    assert found.to_json() == here(*lists, options, seed=3).to_json()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "default"])
def test_a_frozen_worker_is_named_in_time_and_the_run_goes_on(lists, client, fleet, name):
    options, said, times = OPTIONS[name], [], []

    def freeze(row, model) -> None:
        if row["round"] == 2 and not times:
            os.kill(pid, signal.SIGSTOP)
            times.append(time.monotonic())

    def say(line: str) -> None:
        said.append(line)
        times.append(time.monotonic())

    workers = fleet(2, timeout=5, say=say)
    victim, pid = worker_of(client, workers, 0)
    found = there(workers, *lists, options, seed=3, callback=freeze)
    assert said == [f"worker {victim}: no sign of it for 5 s; workers start again", "going on after round 2 with 2 workers"]
    assert 4 < times[1] - times[0] < 8  # signs of life come every half a second, and are looked at every second
    assert found.to_json() == here(*lists, options, seed=3).to_json()


@pytest.mark.slow  # a worker that has ended by itself, on a busy machine, cannot be killed
def test_a_worker_lost_among_folds_is_named_and_its_fits_are_made_again(lists, client, fleet):
    said, sent = [], replace(lists[0])  # no store: it has to be sent again, too
    workers = fleet(2, say=said.append)
    victim, pid = worker_of(client, workers, 1)

    def kill(what, done, n) -> None:
        if not said and psutil.pid_exists(pid):  # two fits may end at once
            os.kill(pid, signal.SIGKILL)

    found = there(workers, sent, None, OPTIONS["default"], seed=3, tell=kill)
    assert said[0] == GONE.format(victim)
    assert len(said) == 2
    assert found.to_json() == here(lists[0], None, OPTIONS["default"], seed=3).to_json()


@pytest.mark.slow
def test_a_fit_that_always_kills_its_worker_ends_in_one_line(fleet):
    said = []
    workers = fleet(2, timeout=120, say=said.append)
    with pytest.raises(InputError, match=r"workers were lost 3 times with 1 of 2 tasks done: do they have memory enough\?"):
        workers.results([(os.getpid,), (os.abort,)])
    assert len([line for line in said if "start again" in line]) == 2


@pytest.mark.slow  # on a busy machine the scheduler may be silent for too long
@pytest.mark.parametrize("tuner", [TUNERS[0], TUNERS[1]], ids=["spread", "whole"])
def test_a_worker_lost_while_tuning_is_named_and_the_rest_goes_on(lists, client, fleet, tuner, monkeypatch):
    said = []
    workers = fleet(2, say=said.append)
    victim, pid = worker_of(client, workers, 1)
    plain = Workers._ended

    def ended(self, futures):
        if not said and victim in workers.members:
            os.kill(pid, signal.SIGKILL)
        return plain(self, futures)

    monkeypatch.setattr(Workers, "_ended", ended)
    [found] = tune_on(workers, tuner, *lists, [RUN])
    assert said[0] == GONE.format(victim)
    assert found.to_json() == tuner.fit(*lists, RUN).to_json()


@pytest.mark.parametrize("gain", ["ter", "chrf", "errors"])
def test_any_gain_is_learnt_as_on_one_machine(lists, fleet, gain):
    """Metrics of texts, and a column of numbers that are no whole ones: sums are over blocks, wherever these are."""
    rng = np.random.default_rng(0)
    dev = lists[0]
    dev = dev.with_quality("errors", 7 * rng.random(dev.n_hyps), rng.random(dev.n_hyps), lower_is_better=True)
    options = recipe("default", gain=gain, rounds=3, **ALL_ROUNDS, **SMALL)
    assert there(fleet(4), dev, None, options, seed=1).to_json() == here(dev, None, options, seed=1).to_json()
    run = replace(RUN, gain=gain, metric=gain)
    for tuner in (Pro(), Mira(epochs=2)):
        [found] = tune_on(fleet(1), tuner, dev, None, [run])
        assert found.to_json() == tuner.fit(dev, None, run).to_json()


def test_lists_that_are_sent_are_as_they_were(lists, client, fleet):
    """They are sent once, without what they have computed, and kernels find them aligned."""
    workers, worded = fleet(2), featurize(lists[0].truncate(6), FeaturePlan.of("pt", TEMPLATES, min_count=1))[0]
    _ = worded.global_features
    assert workers.results([(looked_at, worded)] * 2) == [(worded.differences(worded), True, False)] * 2
    assert workers.handle(worded) is workers.handle(worded)


def test_a_list_with_more_features_is_sent_without_what_workers_open(lists, fleet):
    """To no more workers than there are calls."""
    few = featurize(lists[0], FeaturePlan.of("length", TEMPLATES))[0]
    workers = fleet(3)
    assert workers.results([(opened_from, few)]) == [(few.differences(few), ["unit_idx", "units.x"])]
    assert len(workers.client.who_has([workers.handle(few)]).popitem()[1]) == 1


def opened_from(lists):
    nbest, sent = opened(lists), {name for name, column in lists.changed.items() if len(column)}
    return nbest.differences(nbest), sorted(sent & {"unit_idx", "units.x", "text", "unit_ptr", "stats"})


def looked_at(nbest):
    flags = [column.flags for column in columns(nbest).values() if isinstance(column, np.ndarray)]
    return nbest.differences(nbest), all(f.aligned for f in flags), "global_features" in vars(nbest)


def test_local_workers_are_forked_from_one_process_without_threads(client):
    """It has imported their code. A thread of it could hold a lock at the fork; Arrow's allocator knows how to fork with its own."""
    [server] = {psutil.Process(pid).ppid() for pid in client.run(os.getpid).values()}
    assert server != os.getpid()
    assert any("lib_lightgbm" in file.path for file in psutil.Process(server).memory_maps())
    threads = [Path(path, "comm").read_text() for path in Path(f"/proc/{server}/task").iterdir()]
    assert len([name for name in threads if not name.startswith("jemalloc")]) == 1


def test_a_local_cluster_is_for_this_run_alone(client):
    """It listens on the loopback address only, asks for its key, and its pages tell nothing."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    heard = [c.laddr for p in processes for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert len(heard) > 8
    assert {address.ip for address in heard} == {"127.0.0.1"}
    keyless = {f"distributed.comm.tls.{name}": None for name in ("ca-file", "client.cert", "client.key")}
    with pytest.raises((OSError, TypeError)), dask.config.set(keyless):
        distributed.Client(client.scheduler.address, timeout=2)
    gc.collect()  # a client that failed and is collected while the next one starts waits for itself
    with pytest.raises(OSError, match="in"):
        distributed.Client(client.scheduler.address.replace("tls", "tcp"), timeout=2)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(client.dashboard_link.replace("status", "json/identity.json"), timeout=5)
