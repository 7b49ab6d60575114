"""Memory, descriptors and threads over many calls, and little of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Tuple

import numpy as np
import pytest

import nnburst
from conftest import path_of

PAGE = os.sysconf("SC_PAGE_SIZE")


def held() -> Tuple[int, int, int]:
    """Resident bytes, descriptors and threads of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


@pytest.fixture
def add1(shared: Path) -> str:
    return path_of(shared, "models/add1_float")


def test_ten_thousand_calls_hold_nothing(add1: str) -> None:
    interpreter = nnburst.Interpreter(add1)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    value = np.ones(source["shape"], np.float32)
    burst = nnburst.compile(nnburst.Model.load(add1)).burst()

    def call() -> None:
        interpreter.set_tensor(source["index"], value)
        interpreter.invoke()
        interpreter.get_tensor(target["index"])
        burst.run(value, value)

    for _ in range(1000):
        call()
    before = held()
    for _ in range(10_000):
        call()
    after = held()
    # Threads of earlier tests end after some seconds.
    assert after[1] == before[1] and after[2] <= before[2]
    assert after[0] - before[0] < 1 << 20, (before, after)


def test_two_hundred_lives_hold_nothing(add1: str) -> None:
    def live() -> None:
        interpreter = nnburst.Interpreter(add1, device="embedded/nnburst-cpu")
        interpreter.allocate_tensors()
        interpreter.invoke()

    for _ in range(20):
        live()
    before = held()
    for _ in range(200):
        live()
    after = held()
    # Threads of the process's pool come and go.
    assert after[1] == before[1] and after[2] <= before[2] + 2
    assert after[0] - before[0] < 4 << 20, (before, after)


SCARCE = """
import resource, sys
import nnburst
limit, value, path = sys.argv[1:]
which = getattr(resource, limit)
resource.setrlimit(which, (int(value), resource.getrlimit(which)[1]))
try:
    interpreter = nnburst.Interpreter(path)
    interpreter.allocate_tensors()
    interpreter.invoke()
    print("computed")
except (nnburst.NnburstError, OSError, MemoryError) as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize(
    "limit, value",
    [
        ("RLIMIT_NOFILE", 5),
        ("RLIMIT_NOFILE", 12),
        ("RLIMIT_NOFILE", 64),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_FSIZE", 1 << 20),
        ("RLIMIT_NPROC", 1),
    ],
)
def test_little_of_everything_is_an_error_or_enough(add1: str, limit: str, value: int) -> None:
    command = [sys.executable, "-c", SCARCE, limit, str(value), add1]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("computed") or ": " in ended.stdout
