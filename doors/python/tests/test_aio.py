"""Bursts in asyncio."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any, List, Set, Tuple

import numpy as np
import pytest

import nnburst
from conftest import stop


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (1, 128, 128, 3), np.uint8)


@pytest.fixture
def compilation(mobilenet: str) -> nnburst.Compilation:
    return nnburst.compile(nnburst.Model.load(mobilenet))


def test_tasks_share_a_burst(compilation: nnburst.Compilation) -> None:
    with compilation.burst() as burst:
        expected = [burst.run(picture(seed))[0] for seed in range(4)]

    async def task(burst: nnburst.AsyncBurst, seed: int) -> None:
        frame = compilation.frame()
        for _ in range(20):
            frame.inputs[0][...] = picture(seed)
            assert await burst.compute(frame) is frame
            assert np.array_equal(frame.outputs[0], expected[seed])
            (scores,) = await burst.run(picture(seed))
            assert np.array_equal(scores, expected[seed])

    async def main() -> None:
        for depth in (1, 3):
            async with nnburst.AsyncBurst(compilation, depth=depth) as burst:
                await asyncio.gather(*(task(burst, seed) for seed in range(4)))
                assert burst.stats["executions"] == 160
                assert sum(count for _, count in burst.histogram()) == 160

    asyncio.run(main())


def descriptors() -> Set[Tuple[str, str]]:
    """The open descriptors by number, and what they are."""
    numbers = os.listdir("/proc/self/fd")
    # The folder's own is gone by now.
    paths = [(number, f"/proc/self/fd/{number}") for number in numbers]
    return {(number, os.readlink(path)) for number, path in paths if os.path.islink(path)}


def test_the_loop_runs_on_and_no_call_has_a_thread(compilation: nnburst.Compilation) -> None:
    async def main() -> None:
        async with nnburst.AsyncBurst(compilation) as burst:
            frame = compilation.frame()
            await burst.compute(frame)
            threads, before = len(os.listdir("/proc/self/task")), descriptors()
            ticks: List[int] = []

            async def tick() -> None:
                while True:
                    ticks.append(1)
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            for _ in range(1000):
                await burst.compute(frame)
            ticking.cancel()
            assert len(ticks) >= 1000
            assert len(os.listdir("/proc/self/task")) <= threads
            after = descriptors()
            assert after - before == set()
            # Whoever gave the driver the frame's memory may still have had it after the first call.
            gone = [what for _, what in before - after]
            assert gone in ([], ["/memfd:nnburst-memory (deleted)"])

    asyncio.run(main())


def test_cancelled_tasks_leave_the_frame_until_it_is_done(
    compilation: nnburst.Compilation,
) -> None:
    async def main() -> None:
        async with nnburst.AsyncBurst(compilation) as burst:
            frame = compilation.frame()
            await burst.compute(frame)
            pid = compilation.device.driver_pid or 0
            stop(pid)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(burst.compute(frame), 0.05)
            assert frame.in_flight
            with pytest.raises(nnburst.DeadlineMissed):
                await burst.run(picture(), timeout=0.02)
            os.kill(pid, signal.SIGCONT)
            other = compilation.frame()
            await burst.compute(other)
            assert not frame.in_flight
            await burst.compute(frame)

    asyncio.run(main())


def test_calls_behind_a_missed_deadline_wait(compilation: nnburst.Compilation) -> None:
    async def main() -> None:
        async with nnburst.AsyncBurst(compilation) as burst:
            await burst.run(picture())
            pid = compilation.device.driver_pid or 0
            stop(pid)
            with pytest.raises(nnburst.DeadlineMissed):
                await burst.run(picture(), timeout=0.02)
            behind = [asyncio.create_task(burst.run(picture())) for _ in range(3)]
            await asyncio.sleep(0.02)
            assert not any(task.done() for task in behind)
            os.kill(pid, signal.SIGCONT)
            await asyncio.wait_for(asyncio.gather(*behind), 60)

    asyncio.run(main())


def test_death_reaches_every_task(compilation: nnburst.Compilation) -> None:
    async def main() -> None:
        burst = nnburst.AsyncBurst(compilation, depth=2)
        await burst.run(picture())
        pid = compilation.device.driver_pid or 0
        stop(pid)
        tasks = [asyncio.create_task(burst.run(picture())) for _ in range(4)]
        await asyncio.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert all(isinstance(end, nnburst.DeviceLost) for end in ends), ends
        assert "SIGKILL" in str(ends[0])
        burst.close()
        with pytest.raises(nnburst.InvalidArgument, match="closed"):
            await burst.run(picture())

    asyncio.run(main())


def test_closing_fails_what_waits(compilation: nnburst.Compilation) -> None:
    async def main() -> None:
        burst = nnburst.AsyncBurst(compilation)
        await burst.run(picture())
        pid = compilation.device.driver_pid or 0
        stop(pid)
        task = asyncio.create_task(burst.run(picture()))
        await asyncio.sleep(0.02)
        os.kill(pid, signal.SIGCONT)
        burst.close()
        with pytest.raises(nnburst.InvalidArgument, match="closed"):
            await task

    asyncio.run(main())


def test_a_burst_goes_from_loop_to_loop(compilation: nnburst.Compilation) -> None:
    burst = nnburst.AsyncBurst(compilation)
    results = [asyncio.run(burst.run(picture()))[0] for _ in range(3)]
    assert all(np.array_equal(result, results[0]) for result in results)
    burst.close()


def test_frames_of_an_ended_loop_keep_nobody_waiting(compilation: nnburst.Compilation) -> None:
    burst = nnburst.AsyncBurst(compilation)
    asyncio.run(burst.run(picture()))
    pid = compilation.device.driver_pid or 0

    async def leave(frame: nnburst.Frame) -> None:
        task = asyncio.create_task(burst.compute(frame))
        await asyncio.sleep(0)
        task.cancel()

    async def await_another() -> None:
        frame = compilation.frame()
        assert await asyncio.wait_for(burst.compute(frame), 60) is frame

    left = compilation.frame()
    stop(pid)
    asyncio.run(leave(left))
    assert left.in_flight
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.1)  # The driver has it done before the next loop looks.
    asyncio.run(await_another())
    assert not left.in_flight

    # A loop that is closed with a task that waits.
    stop(pid)
    loop = asyncio.new_event_loop()
    coroutine = burst.compute(left)
    task: Any = loop.create_task(coroutine)
    task._log_destroy_pending = False
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    os.kill(pid, signal.SIGCONT)
    asyncio.run(await_another())
    assert not left.in_flight
    burst.close()
    coroutine.close()


def test_many_calls_at_once_share_few_frames(compilation: nnburst.Compilation) -> None:
    async def main() -> None:
        async with nnburst.AsyncBurst(compilation) as burst:
            (want,) = await burst.run(picture())
            before = descriptors()
            calls = [asyncio.ensure_future(burst.run(picture())) for _ in range(300)]
            await asyncio.sleep(0.01)
            assert len(descriptors() - before) < 64
            for call in calls[::7]:
                call.cancel()
            results = await asyncio.gather(*calls, return_exceptions=True)
            for at, result in enumerate(results):
                if at % 7 == 0 and isinstance(result, asyncio.CancelledError):
                    continue
                assert not isinstance(result, BaseException), result
                assert np.array_equal(result[0], want)
            # Whoever was cancelled has left no frame behind that is never back.
            again = await asyncio.gather(*(burst.run(picture()) for _ in range(20)))
            assert all(np.array_equal(scores, want) for (scores,) in again)
            with pytest.raises(nnburst.InvalidArgument, match="0 inputs given"):
                await burst.run()

    asyncio.run(main())


def test_who_waits_for_a_frame_hears_of_the_end(compilation: nnburst.Compilation) -> None:
    async def main() -> None:
        burst = nnburst.AsyncBurst(compilation)
        await burst.run(picture())
        pid = compilation.device.driver_pid or 0
        stop(pid)
        calls = [asyncio.ensure_future(burst.run(picture())) for _ in range(20)]
        await asyncio.sleep(0)  # each has begun: the first ones have the frames
        with pytest.raises(nnburst.DeadlineMissed, match="no frame was free"):
            await burst.run(picture(), timeout=0.05)
        os.kill(pid, signal.SIGCONT)
        burst.close()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, nnburst.InvalidArgument) for end in ends), ends

    asyncio.run(main())
