"""Fixtures that several test files share."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from synthetic import SyntheticOptions, synthetic_nbest

from boostfeat.cli import run as run_command
from boostfeat.lists.nbest import NBest

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # LightGBM's threads wait without burning the cores that others need
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # others may use the machine too
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "busy"))
REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[2] / "shared" / "real"))


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of real n-best lists and public tools' numbers; tests that need it are skipped where it is absent."""
    if not REAL.is_dir():
        pytest.skip("no real data: set BOOSTFEAT_REAL_DATA to the folder that holds it")
    return REAL


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``-m quick`` does not even import the files without a quick test: many make their lists when imported."""
    if config.option.markexpr == "quick" and collection_path.match("test_*.py"):
        return True if "pytest.mark.quick" not in collection_path.read_text(encoding="utf-8") else None
    return None


@pytest.fixture(scope="session")
def moses(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stock Moses; tests that need it are skipped where it is absent or does not run."""
    packed = real / "moses-bin" / "moses.xz"
    if not packed.exists():
        pytest.skip(f"no Moses: {packed} is not there")
    path = tmp_path_factory.mktemp("moses") / "moses"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    path.chmod(0o755)
    try:
        said = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"Moses does not run here: {error}")
    if said.returncode:
        pytest.skip(f"Moses does not run here: {said.stderr.strip()[:200]}")
    return path


@pytest.fixture(scope="session")
def moses_with_function() -> Path:
    """A Moses that was built with the feature function of ``export --to moses``: $BOOSTFEAT_MOSES."""
    path = Path(os.environ.get("BOOSTFEAT_MOSES", ""))
    if not path.is_file():
        pytest.skip("no Moses with the feature function: BOOSTFEAT_MOSES names none")
    return path


SMALL = SyntheticOptions(sentences=40, hyps=30, features=6)


@pytest.fixture(scope="session")
def dev() -> NBest:
    """A small list to learn from."""
    return synthetic_nbest(SMALL, seed=1)


@pytest.fixture(scope="session")
def select() -> NBest:
    """Another of its kind, held out."""
    return synthetic_nbest(SMALL, seed=2)


@pytest.fixture(scope="session")
def data_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of data/'s dev, select and test as stores, 20 hypotheses a sentence so that commands are quick."""
    folder, data = tmp_path_factory.mktemp("data"), Path(__file__).parents[1] / "data"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("dev", "select", "test"):
            files = (data / f"{name}.nbest.xz", "-s", data / f"{name}.src", "-r", data / f"{name}.ref")
            words = ("boostfeat", "import", *files, "--size", 20, "-o", folder / f"{name}.nbest", "-q")
            patch.setattr(sys, "argv", list(map(str, words)))
            assert run_command() == 0
    return folder


@pytest.fixture
def boostfeat(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process; gives (exit code, standard output, standard error)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["boostfeat", *map(str, arguments)])
        code = run_command()
        out, err = capsys.readouterr()
        return code, out, err.replace("boostfeat: compiling (once)\n", "")  # which kernels are compiled depends on earlier tests

    return run
