"""Neural networks on isolated drivers, in microseconds.

With TFLite's methods, so that a script changes one line::

    import nnburst as tflite

    interpreter = tflite.Interpreter(model_path="mobilenet.tflite")
    interpreter.allocate_tensors()

or as a burst, over numpy arrays that the driver reads and writes in place::

    model = nnburst.Model.load("mobilenet.tflite")
    with nnburst.compile(model, "spawn/nnburst-cpu").burst() as burst:
        (scores,) = burst.run(picture)
"""

from __future__ import annotations

from ._nnburst import (
    Burst,
    Compilation,
    Device,
    Frame,
    Model,
    Tensor,
    TensorInfo,
    __version__,
    compile,
    devices,
    profile,
)
from .aio import AsyncBurst
from .errors import (
    DeadlineMissed,
    DelegateRefused,
    DeviceLost,
    InvalidArgument,
    ModelNotFound,
    ModelUnreadable,
    NnburstError,
    NotPrepared,
    OutputTooSmall,
    UnsupportedModel,
    UnsupportedOperator,
)
from .interpreter import (
    Delegate,
    Interpreter,
    InterpreterWithCustomOps,
    OpResolverType,
    SignatureRunner,
    load_delegate,
)

__all__ = [
    "AsyncBurst",
    "Burst",
    "Compilation",
    "DeadlineMissed",
    "Delegate",
    "DelegateRefused",
    "Device",
    "DeviceLost",
    "Frame",
    "Interpreter",
    "InterpreterWithCustomOps",
    "InvalidArgument",
    "Model",
    "ModelNotFound",
    "ModelUnreadable",
    "NnburstError",
    "NotPrepared",
    "OpResolverType",
    "OutputTooSmall",
    "SignatureRunner",
    "Tensor",
    "TensorInfo",
    "UnsupportedModel",
    "UnsupportedOperator",
    "__version__",
    "compile",
    "devices",
    "load_delegate",
    "profile",
]
