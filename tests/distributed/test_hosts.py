"""Workers on other hosts: network namespaces with addresses of their own, TLS by the recipe of examples/sizing.md."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.lists.precision import with_precision
from boostfeat.lists.store import read_store, write_store

pytest.importorskip("distributed")
pytest.importorskip("cryptography")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not shutil.which("ip") or not shutil.which("openssl"), reason="ip or openssl is not installed"),
]
BIN = Path(sys.executable).parent
HOSTS = {"bf-head": "10.77.0.1", "bf-one": "10.77.0.2", "bf-two": "10.77.0.3"}
SWITCH = "bf-switch"
SCHEDULER = "tls://10.77.0.1:8786"
PAGE = Path(__file__).parents[2] / "examples" / "sizing.md"


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


@pytest.fixture(scope="module")
def network() -> Iterator[None]:
    """Three hosts on one switch."""
    try:
        ip(f"netns add {SWITCH}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    ip(f"-n {SWITCH} link add br0 type bridge")
    ip(f"-n {SWITCH} link set br0 up")
    try:
        for k, (host, address) in enumerate(HOSTS.items()):
            ip(f"netns add {host}")
            ip(f"link add bf{k} netns {SWITCH} type veth peer name eth0 netns {host}")
            ip(f"-n {SWITCH} link set bf{k} master br0 up")
            ip(f"-n {host} addr add {address}/24 dev eth0")
            ip(f"-n {host} link set eth0 up")
            ip(f"-n {host} link set lo up")
        yield
    finally:
        for name in (*HOSTS, SWITCH):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The list, and the key and configuration that the page shows."""
    folder = tmp_path_factory.mktemp("hosts")
    dev = with_precision(synthetic_nbest(SyntheticOptions(sentences=256, hyps=15, features=6), seed=1))  # as import writes it
    write_store(dev, folder / "dev.nbest")
    lines = [line[4:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("    ")]
    first = next(k for k, line in enumerate(lines) if line.startswith("openssl"))
    subprocess.run(lines[first].split(), check=True, capture_output=True, cwd=folder)
    text = (
        "\n".join(lines[first + 2 : first + 7]).replace("cert.pem", f"{folder}/cert.pem").replace("key.pem", f"{folder}/key.pem")
    )
    (folder / "tls.yaml").write_text(text + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def start(network: None, folder: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a program on a host; all end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(host: str, *words: object) -> subprocess.Popen[bytes]:
        command = ["ip", "netns", "exec", host, *map(str, words)]
        environment = {**os.environ, "DASK_CONFIG": str(folder), "PATH": f"{BIN}:{os.environ['PATH']}"}
        environment["DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP"] = "600s"  # a busy machine has no time to read
        err = subprocess.PIPE if "boostfeat" in words else subprocess.DEVNULL  # Dask logs every call: a pipe would fill up
        started.append(subprocess.Popen(command, cwd=folder, env=environment, stderr=err, stdout=subprocess.DEVNULL))
        return started[-1]

    yield run
    for process in started:
        for child in (*descendants(process), process):
            child.kill()
        process.communicate()


def descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def scheduler(start: Callable[..., subprocess.Popen[bytes]], folder: Path) -> subprocess.Popen[bytes]:
    """Start the scheduler with the code that it would import while it should answer, and wait for it."""
    about = folder / "scheduler.json"
    about.unlink(missing_ok=True)
    code = ("--preload", "boostfeat.distributed.cluster_tuning", "--scheduler-file", about)
    running = start("bf-head", "dask", "scheduler", "--host", SCHEDULER, "--no-dashboard", *code)
    until = time.monotonic() + 300
    while not about.exists():
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    return running


def worker(start: Callable[..., subprocess.Popen[bytes]], host: str, *before: str) -> subprocess.Popen[bytes]:
    flags = ("--host", f"tls://{HOSTS[host]}", "--nthreads", 1, "--memory-limit", 0, "--no-dashboard")
    return start(host, *before, "dask", "worker", SCHEDULER, *flags)


@pytest.fixture
def cluster(start: Callable[..., subprocess.Popen[bytes]], folder: Path) -> dict[str, subprocess.Popen[bytes]]:
    return {"bf-head": scheduler(start, folder), **{host: worker(start, host) for host in ("bf-one", "bf-two")}}


PAPER = "--recipe paper --set rule=all --set decide=score --set draws=200"
ON_HOSTS = f"--engine dask --set scheduler={SCHEDULER} --set workers=2 --set timeout=90"


def local(folder: Path, flags: str) -> bytes:
    command = [str(BIN / "boostfeat"), "induce", "dev.nbest", *flags.split(), "-o", "here.json", "-q"]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return (folder / "here.json").read_bytes()


def learn(
    start: Callable[..., subprocess.Popen[bytes]], flags: str, *before: str, store: str = "dev.nbest"
) -> subprocess.Popen[bytes]:
    return start("bf-head", *before, "boostfeat", "induce", store, *flags.split(), *ON_HOSTS.split(), "-o", "there.json")


def wait_for_rounds(folder: Path, running: subprocess.Popen[bytes]) -> None:
    partial = folder / "there.json.partial"
    partial.unlink(missing_ok=True)
    until = time.monotonic() + 300
    while not (partial.exists() and json.loads(partial.read_bytes())["trees"]):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("flags", [f"{PAPER} --rounds 5", "--rounds 5 --min-occurrences 20"])
def test_workers_on_other_hosts_learn_the_local_model(cluster, start, folder, flags):
    running = learn(start, flags)
    _, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert (folder / "there.json").read_bytes() == local(folder, flags)


def test_a_worker_that_is_killed_costs_time_alone(cluster, start, folder):
    flags = f"{PAPER} --rounds 120"
    running = learn(start, flags)
    wait_for_rounds(folder, running)
    for process in descendants(cluster["bf-two"]):
        process.send_signal(signal.SIGKILL)
    _, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert b"10.77.0.3" in err
    assert b"with 1 worker" in err
    assert (folder / "there.json").read_bytes() == local(folder, flags)


def test_a_worker_that_is_cut_off_costs_time_alone(cluster, start, folder):
    flags = f"{PAPER} --rounds 120"
    running = learn(start, flags)
    wait_for_rounds(folder, running)
    ip(f"-n {SWITCH} link set bf2 down")
    try:
        _, err = running.communicate(timeout=600)
    finally:
        ip(f"-n {SWITCH} link set bf2 up")
    assert running.returncode == 0, err
    assert b"10.77.0.3" in err
    assert b"with 1 worker" in err
    assert (folder / "there.json").read_bytes() == local(folder, flags)


def test_without_its_scheduler_a_run_ends_in_one_line_and_goes_on_later(cluster, start, folder):
    flags = f"{PAPER} --rounds 120"
    running = learn(start, f"{flags} -q")
    wait_for_rounds(folder, running)
    for process in cluster.values():
        for each in (*descendants(process), process):
            each.kill()
    _, err = running.communicate(timeout=600)
    assert (running.returncode, err.count(b"\n")) == (2, 1), err
    assert b"expected the scheduler to answer, found it gone" in err
    assert json.loads((folder / "there.json.partial").read_bytes())["trees"]
    scheduler(start, folder)
    for host in ("bf-one", "bf-two"):
        worker(start, host)
    running = learn(start, f"{flags} --resume")
    _, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert (folder / "there.json").read_bytes() == local(folder, flags)


def test_workers_need_no_more_than_the_parts_of_their_sentences(start, folder):
    """On each host the others' parts are no files, and on that of the command all are."""
    parts, dev = folder / "parts", read_store(folder / "dev.nbest")
    parts.mkdir()
    for k in range(4):
        write_store(dev[64 * k : 64 * k + 64], parts / f"{k}.nbest")
    scheduler(start, folder)

    def without(others: str) -> tuple[str, ...]:
        """Hide parts: a program of a namespace has mounts of its own."""
        hidden = "; ".join(f"mount --bind /dev/null {parts}/{k}.nbest" for k in others)
        return "sh", "-c", f'{hidden}; exec "$@"', "sh"

    for host, others in (("bf-one", "01"), ("bf-two", "23")):
        worker(start, host, *without(others))
    flags = f"{PAPER} --rounds 5"
    running = learn(start, flags, *without("0123"), store="parts")
    _, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert (folder / "there.json").read_bytes() == local(folder, flags)
