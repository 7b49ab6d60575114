"""The exceptions of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, Optional, Sequence, Tuple, Union


class NnburstError(Exception):
    """Whatever a driver or this package refuses or fails with."""

    code: Optional[str]
    """NNAPI's result code, such as ``OpFailed``; ``None`` where no driver was asked."""

    def __init__(self, message: str = "", *, code: Optional[str] = None) -> None:
        super().__init__(message)
        self.code = code


class DeviceLost(NnburstError, RuntimeError):
    """The driver's process died, or its connection broke: what it made is of no use any more."""


class DeadlineMissed(NnburstError, TimeoutError):
    """A call's time was over before it was done."""


class InvalidArgument(NnburstError, ValueError):
    """An argument is wrong, or comes at the wrong time."""


class OutputTooSmall(NnburstError, ValueError):
    """An output needs more room than its frame has: make one with a larger ``open_bytes``."""


@dataclass(frozen=True)
class UnsupportedOperator:
    """An operator that a device doesn't take, or that has no place in a model at all."""

    index: int
    """Its place in the file's graph."""
    name: str
    """Its name in the format, such as ``PACK``."""
    why: str
    """The reason."""

    def __iter__(self) -> Iterator[Union[int, str]]:
        """The three in turn, to be unpacked."""
        return iter((self.index, self.name, self.why))


class NotPrepared(InvalidArgument, RuntimeError):
    """An interpreter can't be prepared as it was asked to be: TFLite has a ``RuntimeError`` here."""


class DelegateRefused(OSError, InvalidArgument):
    """A delegate of TFLite was to be loaded: TFLite has an ``OSError`` or a ``ValueError`` here."""


class ModelNotFound(FileNotFoundError, ValueError):
    """There is no such file: TFLite has a ``ValueError`` here."""


class ModelUnreadable(OSError, ValueError):
    """An interpreter's file is there and can't be opened; TFLite raises ``ValueError``."""


class UnsupportedModel(NnburstError, ValueError, RuntimeError):
    """A model has operators that are not supported."""

    operators: Tuple[UnsupportedOperator, ...]
    """All of them, in the order of the file."""

    def __init__(
        self,
        message: str = "",
        *,
        operators: Sequence[Tuple[int, str, str]] = (),
        code: Optional[str] = None,
    ) -> None:
        super().__init__(message, code=code)
        self.operators = tuple(UnsupportedOperator(*operator) for operator in operators)
