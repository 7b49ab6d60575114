"""What the tests share: the models, which are beside the checkout, and a driver for each test."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

import nnburst


def _shared() -> Path:
    given = os.environ.get("NNBURST_SHARED")
    return Path(given) if given else Path(__file__).resolve().parents[4] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models and photos; a test is left out where it isn't there."""
    folder = _shared()
    if not (folder / "models").is_dir():
        if "shared" in os.environ.get("NNBURST_REQUIRE", "").split(","):
            pytest.fail(f"no models in {folder}, which NNBURST_REQUIRE names")
        pytest.skip(f"no models in {folder}")
    return folder


def path_of(shared: Path, name: str) -> str:
    """The file of a model, such as ``models/add1_float``."""
    return str(shared / name / "model.tflite")


def stop(pid: int) -> None:
    """Stops a process, and returns when all of its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # The state follows the name, which is in parentheses.
        while (thread / "stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)


@pytest.fixture(scope="session")
def mobilenet(shared: Path) -> str:
    """A small network of quantised tensors."""
    return path_of(shared, "models/mobilenet_v1_0.25_128_quant")


@pytest.fixture(scope="session")
def slow(shared: Path) -> str:
    """A network that takes some milliseconds."""
    return path_of(shared, "mlts/deeplabv3_257_float")


@pytest.fixture(params=["spawn/nnburst-cpu", "embedded/nnburst-cpu"])
def device(request: Any) -> Iterator[nnburst.Device]:
    """A device of either kind."""
    yield nnburst.Device.open(request.param)
