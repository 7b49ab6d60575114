"""The burst API."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np
import pytest

import nnburst
from conftest import path_of


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (1, 128, 128, 3), np.uint8)


def test_devices_are_listed_and_described(device: nnburst.Device) -> None:
    assert device.is_available and device.feature_level == 30 and device.type == "CPU"
    assert device.is_embedded == (device.driver_pid is None)
    assert "dev.nnburst.tflite" in device.extensions
    assert nnburst.Device.open(device.name).name == device.name
    known = [known.name for known in nnburst.devices()]
    assert "embedded/nnburst-cpu" in known
    assert [nnburst.Device.open(name).name for name in known] == known
    for wrong in ("gpu/nnburst-cpu", "spawn/gpu", "connect/nobody"):
        with pytest.raises(nnburst.InvalidArgument):
            nnburst.Device.open(wrong)


def test_frames_are_computed_in_place(device: nnburst.Device, mobilenet: str) -> None:
    model = nnburst.Model.load(mobilenet)
    compilation = nnburst.compile(model, device)
    with compilation.burst() as burst:
        frame = compilation.frame()
        frame.inputs[0][...] = picture()
        burst.compute(frame)
        (scores,) = frame.outputs
        kept = scores.copy()
        assert scores.shape == (1, 1001) and scores.dtype == np.uint8
        assert np.array_equal(burst.run(picture())[0], kept)
        frame.inputs[0][...] = picture(1)
        burst.compute(frame)
        assert not np.array_equal(scores, kept), "the array shows the memory, not a copy"
        assert 0 < frame.latency_us < 60e6
    with pytest.raises(nnburst.InvalidArgument, match="closed"):
        burst.compute(frame)


def test_arrays_outlive_what_made_them(mobilenet: str) -> None:
    compilation = nnburst.compile(nnburst.Model.load(mobilenet))
    frame = compilation.frame()
    array, exported = frame.inputs[0], np.from_dlpack(frame.input(0))
    del frame, compilation
    array[...] = 5
    assert (exported == 5).all() and np.shares_memory(array, exported)


def test_dlpack_and_the_array_interface_describe_the_memory(mobilenet: str) -> None:
    frame = nnburst.compile(nnburst.Model.load(mobilenet), "embedded/nnburst-cpu").frame()
    tensor = frame.input(0)
    interface = tensor.__array_interface__
    assert interface["shape"] == tensor.shape == (1, 128, 128, 3)
    assert interface["data"][0] == frame.inputs[0].ctypes.data
    assert tensor.__dlpack_device__() == (1, 0) and len(tensor) == 1
    taken = np.from_dlpack(tensor)
    assert taken.ctypes.data == interface["data"][0]
    # Later ones of numpy ask for a version, without which nobody says whether it may be written.
    if taken.flags.writeable:
        taken[...] = 3
        assert (frame.inputs[0] == 3).all()
    else:
        assert np.lib.NumpyVersion(np.__version__) < "2.1.0"
    for version, name in [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 1), "dltensor_versioned")]:
        # Nobody takes it.
        assert f'"{name}"' in repr(tensor.__dlpack__(max_version=version))
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=True)


def test_several_frames_are_in_flight(device: nnburst.Device, mobilenet: str) -> None:
    compilation = nnburst.compile(nnburst.Model.load(mobilenet), device)
    burst = compilation.burst(depth=3)
    frames = [compilation.frame() for _ in range(burst.depth)]
    for seed, frame in enumerate(frames):
        frame.inputs[0][...] = picture(seed)
        burst.submit(frame)
    assert burst.in_flight == burst.depth and frames[0].in_flight
    with pytest.raises(nnburst.InvalidArgument, match="in flight"):
        burst.submit(frames[0])
    with pytest.raises(nnburst.InvalidArgument, match="in flight"):
        burst.compute(compilation.frame())
    for seed, frame in enumerate(frames):
        assert burst.wait(timeout=60) is frame
    assert burst.wait() is None and burst.in_flight == 0
    for seed, frame in enumerate(frames):
        assert np.array_equal(burst.run(picture(seed))[0], frame.outputs[0])


def test_wrong_inputs_are_named(mobilenet: str) -> None:
    burst = nnburst.compile(nnburst.Model.load(mobilenet), "embedded/nnburst-cpu").burst()
    with pytest.raises(nnburst.InvalidArgument, match="2 inputs given, the model has 1"):
        burst.run(picture(), picture())
    with pytest.raises(nnburst.InvalidArgument, match=r"input 0 has shape \(3,\)"):
        burst.run(np.zeros(3, np.uint8))
    with pytest.raises(TypeError):
        burst.run(np.zeros((1, 128, 128, 3), np.float32))
    other = nnburst.compile(nnburst.Model.load(mobilenet), "embedded/nnburst-cpu")
    with pytest.raises(nnburst.InvalidArgument, match="another compilation"):
        burst.compute(other.frame())


def test_compiling_reports_progress_and_is_cached(mobilenet: str, tmp_path: Path) -> None:
    stages: List[Tuple[str, float]] = []
    model = nnburst.Model.load(mobilenet)
    for is_cached in (False, True):
        made = nnburst.compile(
            model, cache_dir=tmp_path / "a" / "cache", progress=lambda *stage: stages.append(stage)
        )
        assert made.from_cache == is_cached and made.compile_ms > 0
        assert stages[0][0] == "open" and stages[-1][0] == "ready"
        made.burst().run(picture())

    with pytest.raises(OSError, match="cache"):
        nnburst.compile(model, cache_dir="/proc/cache")

    def refuse(stage: str, seconds: float) -> None:
        raise KeyError(stage)

    with pytest.raises(KeyError):
        nnburst.compile(model, progress=refuse)


def test_unsupported_operators_are_listed(shared: Path) -> None:
    model = nnburst.Model.load(path_of(shared, "models/mobilenet_v1_0.25_128"))
    with pytest.raises(nnburst.UnsupportedModel) as raised:
        nnburst.compile(model, "embedded/nnapi-sample_quant")
    operators = raised.value.operators
    assert operators and operators[0].name == "CONV_2D" and "sample_quant" in operators[0].why
    assert [operator.index for operator in operators] == sorted({operator.index for operator in operators})


def test_figures_are_kept(mobilenet: str) -> None:
    burst = nnburst.compile(nnburst.Model.load(mobilenet)).burst()
    for _ in range(20):
        burst.run(picture())
    stats = burst.stats
    assert stats["executions"] == 20 and stats["missed_deadlines"] == 0
    latency = stats["latency_us"]
    assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
    assert stats["driver_us"]["p50"] <= latency["p99"]
    for part in ("latency", "driver", "overhead"):
        bars = burst.histogram(part)
        assert sum(count for _, count in bars) == 20 and bars == sorted(bars)
    with pytest.raises(nnburst.InvalidArgument, match="no part is called"):
        burst.histogram("nonsense")


def test_steps_are_profiled(mobilenet: str) -> None:
    profile = nnburst.profile(nnburst.Model.load(mobilenet), runs=3)
    assert len(profile["steps"]) > 20 and profile["whole_us"] > 0
    step = profile["steps"][0]
    assert step["kernel"] and step["us"] > 0 and step["operations"] > 0


def test_a_deadline_is_missed(slow: str) -> None:
    compilation = nnburst.compile(nnburst.Model.load(slow))
    burst, frame = compilation.burst(), compilation.frame()
    burst.compute(frame)
    with pytest.raises(nnburst.DeadlineMissed) as raised:
        burst.compute(frame, timeout=1e-5)
    assert isinstance(raised.value, TimeoutError) and "MissedDeadline" in str(raised.value.code)
    burst.compute(frame)
    with pytest.raises(nnburst.InvalidArgument, match="timeout"):
        burst.compute(frame, timeout=-1)


def test_other_threads_run_on_and_take_turns(slow: str) -> None:
    compilation = nnburst.compile(nnburst.Model.load(slow))
    burst = compilation.burst(wait="block")
    expected = burst.run(np.zeros(compilation.shapes[0][0], np.float32))[0]
    results: List[Any] = []

    def work() -> None:
        for _ in range(3):
            value = np.zeros(compilation.shapes[0][0], np.float32)
            results.append(np.array_equal(burst.run(value)[0], expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    turns = 0
    while any(thread.is_alive() for thread in threads):
        turns += 1
        time.sleep(0.0005)
    assert results == [True] * 12
    assert turns > 10, "this thread waited for the interpreter's lock"


# A driver that is stopped keeps its client waiting until Ctrl-C; the time of the call is a guard.
INTERRUPTED = """
import os, signal, sys, threading
import nnburst
# Jobs in the background of a shell inherit that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
compilation = nnburst.compile(nnburst.Model.load(sys.argv[1]))
burst, frame = compilation.burst(), compilation.frame()
burst.compute(frame)
pid = compilation.device.driver_pid
os.kill(pid, signal.SIGSTOP)
def interrupt():
    while not frame.in_flight:
        pass
    print("sent", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    burst.compute(frame)
except KeyboardInterrupt:
    print("interrupted", frame.in_flight)
    os.kill(pid, signal.SIGCONT)
    burst.compute(frame)
    print("computed", frame.in_flight)
"""


def test_ctrl_c_ends_a_call_and_the_burst_goes_on(mobilenet: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, mobilenet]
    # The driver is stopped all the while: without Ctrl-C the call would have no end.
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["sent", "interrupted True", "computed False"]


def in_child(burst: Any, frame: Any, results: Any) -> None:
    try:
        burst.compute(frame)
    except nnburst.NnburstError as error:
        results.put(str(error))


# From CPython 3.12 on forking beside threads is warned of; that is what is tried here.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_forked_children_are_refused(mobilenet: str) -> None:
    compilation = nnburst.compile(nnburst.Model.load(mobilenet))
    burst, frame = compilation.burst(), compilation.frame()
    burst.compute(frame)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=in_child, args=(burst, frame, results))
    child.start()
    assert "'spawn'" in results.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    burst.compute(frame)  # the parent is none the worse


def test_pickling_is_refused(mobilenet: str) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(nnburst.Model.load(mobilenet))


def test_death_is_reported_with_its_signal(mobilenet: str) -> None:
    compilation = nnburst.compile(nnburst.Model.load(mobilenet))
    burst, frame = compilation.burst(), compilation.frame()
    burst.compute(frame)
    os.kill(compilation.device.driver_pid or 0, signal.SIGKILL)
    with pytest.raises(nnburst.DeviceLost, match="nnburst-cpu died") as raised:
        for _ in range(1000):
            burst.compute(frame)
    assert raised.value.code == "DeadObject" and isinstance(raised.value, RuntimeError)
    assert not compilation.device.is_available
    assert frame.outputs[0].shape == (1, 1001), "the memory is the application's own"


def test_outputs_of_unknown_size_need_room(shared: Path) -> None:
    path = path_of(shared, "tflite_zoo/simple_topk_op_runtime_k")
    compilation = nnburst.compile(nnburst.Model.load(path), "embedded/nnburst-cpu")
    burst, frame = compilation.burst(), compilation.frame(open_bytes=1)
    for array in frame.inputs:
        array[...] = 1
    with pytest.raises(nnburst.OutputTooSmall):
        burst.compute(frame)
    larger = compilation.frame()
    larger.copy_from(frame)
    burst.compute(larger)
    assert larger.outputs[0].shape == (1, 1)


def test_the_command_is_in_the_wheel() -> None:
    program = Path(nnburst.__file__).parent / "bin" / "nnburst"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == ["nnburst", nnburst.__version__]
    script = Path(sys.executable).parent / "nnburst"
    if script.exists():
        said = subprocess.run([script, "devices"], capture_output=True, text=True, timeout=60)
        assert said.returncode == 0 and "nnburst-cpu" in said.stdout
