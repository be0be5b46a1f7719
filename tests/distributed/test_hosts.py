"""Workers on other hosts: network namespaces with addresses of their own, TLS by the recipe of examples/sizing.md."""

from __future__ import annotations

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

from boostfeat.lists.store import write_store

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
    write_store(synthetic_nbest(SyntheticOptions(sentences=256, hyps=15, features=6), seed=1), folder / "dev.nbest")
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
        err = subprocess.PIPE if words[0] == "boostfeat" else subprocess.DEVNULL  # Dask logs every call: a pipe would fill up
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


def scheduler(start: Callable[..., subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    return start("bf-head", "dask", "scheduler", "--host", SCHEDULER, "--no-dashboard")


@pytest.fixture
def cluster(start: Callable[..., subprocess.Popen[bytes]]) -> dict[str, subprocess.Popen[bytes]]:
    programs = {"bf-head": scheduler(start)}
    for host in ("bf-one", "bf-two"):
        flags = ("--host", f"tls://{HOSTS[host]}", "--nthreads", 1, "--memory-limit", 0, "--no-dashboard")
        programs[host] = start(host, "dask", "worker", SCHEDULER, *flags)
    return programs


PAPER = "--recipe paper --set rule=all --set decide=score --set draws=200"
ON_HOSTS = f"--engine dask --set scheduler={SCHEDULER} --set workers=2 --set timeout=30"


def local(folder: Path, flags: str) -> bytes:
    command = [str(BIN / "boostfeat"), "induce", "dev.nbest", *flags.split(), "-o", "here.json", "-q"]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return (folder / "here.json").read_bytes()


def learn(start: Callable[..., subprocess.Popen[bytes]], flags: str) -> subprocess.Popen[bytes]:
    return start("bf-head", "boostfeat", "induce", "dev.nbest", *flags.split(), *ON_HOSTS.split(), "-o", "there.json")


def wait_for_rounds(folder: Path, running: subprocess.Popen[bytes]) -> None:
    partial = folder / "there.json.partial"
    until = time.monotonic() + 120
    while not partial.exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("flags", [f"{PAPER} --rounds 5", "--rounds 5 --min-occurrences 20"])
def test_workers_on_other_hosts_learn_the_local_model(cluster, start, folder, flags):
    running = learn(start, flags)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    assert (folder / "there.json").read_bytes() == local(folder, flags)


def test_a_worker_that_is_killed_costs_time_alone(cluster, start, folder):
    flags = f"{PAPER} --rounds 400"
    running = learn(start, flags)
    wait_for_rounds(folder, running)
    for process in descendants(cluster["bf-two"]):
        process.send_signal(signal.SIGKILL)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    assert b"10.77.0.3" in err
    assert b"with 1 worker" in err
    assert (folder / "there.json").read_bytes() == local(folder, flags)
