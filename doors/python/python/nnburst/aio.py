"""Bursts for asyncio: ``await burst.compute(frame)``.

The event loop watches an eventfd that becomes readable when a frame is back. One thread of the
process sleeps for all bursts, and no call has a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np
import numpy.typing as npt

from ._nnburst import AsyncCore, Compilation, Frame
from .errors import DeadlineMissed, InvalidArgument

# A driver that is stopped says nothing when the time is over; the burst gives it up so much later.
_GRACE = 0.15


class AsyncBurst:
    """A burst whose frames are awaited, by the tasks of one event loop.

    The options are those of :meth:`nnburst.Compilation.burst`. As many frames are in flight as
    ``depth`` allows; others follow in the order of their calls::

        async with nnburst.AsyncBurst(compilation, depth=2) as burst:
            await burst.compute(frame)
    """

    def __init__(
        self,
        compilation: Compilation,
        *,
        wait: str = "auto",
        depth: int = 1,
        timeout: Optional[float] = None,
        driver_cpus: Optional[Sequence[int]] = None,
        realtime: bool = False,
    ) -> None:
        self._compilation = compilation
        self._timeout = timeout
        self._core = AsyncCore.open(
            compilation,
            wait=wait,
            depth=depth,
            driver_cpus=None if driver_cpus is None else list(driver_cpus),
            realtime=realtime,
        )
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._fd = self._core.fileno()
        self._waiting = 0
        # The frames of `run`: a frame has descriptors, and calls may be many more than these last.
        self._most_frames = max(4, 2 * depth)
        self._made_frames = 0
        self._frames: List[Frame] = []
        self._borrowers: Deque["asyncio.Future[Frame]"] = deque()
        self._abandoned: Set["asyncio.Future[Frame]"] = set()

    async def compute(self, frame: Frame, *, timeout: Optional[float] = None) -> Frame:
        """Executes a frame and returns it.

        A task that is cancelled leaves the frame with the driver until that is done with it.
        """
        future = self._start(frame, timeout)
        if future.done():
            # A result that is there already must not keep other tasks from their turn.
            await asyncio.sleep(0)
        return await future

    def _start(self, frame: Frame, timeout: Optional[float]) -> "asyncio.Future[Frame]":
        loop = self._watch()
        future: "asyncio.Future[Frame]" = loop.create_future()
        timeout = self._timeout if timeout is None else timeout
        self._core.submit(frame, future, timeout=timeout)
        self._waiting += 1
        if self._waiting == 1:
            loop.add_reader(self._fd, self._take)
        if timeout is not None:
            loop.call_later(timeout + _GRACE, self._take)
        self._take()
        return future

    async def run(
        self, *inputs: npt.ArrayLike, timeout: Optional[float] = None
    ) -> Tuple[npt.NDArray[Any], ...]:
        """Executes the model on these inputs, and returns copies of the outputs.

        Of many calls at once only some have a frame; the others wait for one in the order of their
        calls, which counts towards ``timeout``.
        """
        timeout = self._timeout if timeout is None else timeout
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        frame = await self._borrow(timeout)
        try:
            _fill(frame, inputs)
        except BaseException:
            self._give_back(frame)
            raise
        if deadline is not None:
            timeout = max(0.0, deadline - asyncio.get_running_loop().time())
        try:
            future = self._start(frame, timeout)
        except BaseException:
            self._give_back(frame)
            raise
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                # The driver has the frame until it is done with it.
                self._abandoned.add(future)
            else:
                self._give_back(frame)
            raise
        except BaseException:
            self._give_back(frame)
            raise
        outputs = tuple(output.copy() for output in frame.outputs)
        self._give_back(frame)
        return outputs

    async def _borrow(self, timeout: Optional[float]) -> Frame:
        loop = self._watch()
        if self._frames:
            return self._frames.pop()
        if self._made_frames < self._most_frames:
            frame = self._compilation.frame()
            self._made_frames += 1
            return frame
        future: "asyncio.Future[Frame]" = loop.create_future()
        self._borrowers.append(future)
        timer = None if timeout is None else loop.call_later(timeout, _miss, future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._give_back(future.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _give_back(self, frame: Frame) -> None:
        while self._borrowers:
            borrower = self._borrowers.popleft()
            if not borrower.done() and not borrower.get_loop().is_closed():
                borrower.set_result(frame)
                return
        self._frames.append(frame)

    @property
    def stats(self) -> Dict[str, Any]:
        """The figures of all executions so far, as :attr:`nnburst.Burst.stats`."""
        return self._core.stats

    def histogram(self, part: str = "latency") -> List[Tuple[float, int]]:
        """The histogram of a part of the latency, as :meth:`nnburst.Burst.histogram`."""
        return self._core.histogram(part)

    def close(self) -> None:
        """Closes the burst. Calls in flight fail, and their frames are lost."""
        if self._waiting and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._waiting = 0
        self._abandoned.clear()
        futures = [*self._core.close(), *self._borrowers]
        self._borrowers.clear()
        for future in futures:
            if not future.done() and not future.get_loop().is_closed():
                future.set_exception(InvalidArgument("the burst was closed"))

    async def __aenter__(self) -> "AsyncBurst":
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def _watch(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._waiting and self._loop is not None and not self._loop.is_closed():
                raise InvalidArgument("the burst is awaited in another event loop")
            self._loop = loop
            if self._waiting:
                # Frames whose tasks ended with their loop are with the driver still.
                loop.add_reader(self._fd, self._take)
        return loop

    def _take(self) -> None:
        """Hands frames back that are done; called by the loop when the descriptor is readable."""
        if not self._waiting:
            return
        for future, _frame, error in self._core.finished():
            self._waiting -= 1
            if future in self._abandoned:
                self._abandoned.remove(future)
                self._give_back(_frame)
            if future.done() or future.get_loop().is_closed():
                continue  # its task was cancelled, or ended with its loop
            if error is None:
                future.set_result(_frame)
            else:
                future.set_exception(error)
        if not self._waiting and self._loop is not None:
            self._loop.remove_reader(self._fd)


def _fill(frame: Frame, inputs: Sequence[npt.ArrayLike]) -> None:
    if len(inputs) != len(frame.inputs):
        raise InvalidArgument(f"{len(inputs)} inputs given, the model has {len(frame.inputs)}")
    for at, (array, value) in enumerate(zip(frame.inputs, inputs)):
        value = np.asarray(value)
        if value.shape != array.shape:
            raise InvalidArgument(f"input {at} has shape {value.shape}, expected {array.shape}")
        np.copyto(array, value, casting="same_kind")


def _miss(future: "asyncio.Future[Frame]") -> None:
    if not future.done():
        future.set_exception(DeadlineMissed("no frame was free in time"))
