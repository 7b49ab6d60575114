"""TFLite's ``Interpreter`` over a driver: the same methods, keys and values.

The model is computed by a driver, by default in a process of its own: what crashes there raises
:class:`nnburst.DeviceLost` here, and the next :meth:`Interpreter.invoke` works again.
"""

from __future__ import annotations

import copy
import enum
import operator
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from ._nnburst import Burst, Compilation, Device, Frame, Model, TensorInfo, compile
from .errors import (
    DelegateRefused,
    DeviceLost,
    InvalidArgument,
    ModelNotFound,
    ModelUnreadable,
    NotPrepared,
    OutputTooSmall,
    UnsupportedModel,
)

_MOST_OPEN_BYTES = 1 << 30

Array = npt.NDArray[Any]
Details = Dict[str, Any]


class OpResolverType(enum.Enum):
    """TFLite's choices of kernels. They are accepted and mean nothing here."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class Delegate:
    """TFLite's handle of a delegate. There are none here: making one is an error."""

    def __init__(self, library: str, options: Optional[Dict[Any, Any]] = None) -> None:
        raise DelegateRefused(
            f"Failed to load delegate from {library}: models are computed by nnburst's drivers; "
            "choose one with Interpreter(device=...)"
        )


def load_delegate(library: str, options: Optional[Dict[Any, Any]] = None) -> Delegate:
    """Refuses TFLite's delegates, which this package has no use for.

    The error is a ``ValueError`` and an ``OSError``, as TFLite's are where a delegate can't be
    loaded, so that scripts with a fallback go on without one.
    """
    return Delegate(library, options)


class Interpreter:
    """Runs a .tflite model, with the methods of ``tflite_runtime.interpreter.Interpreter``.

    ``device`` is where it is computed: ``spawn/nnburst-cpu`` (a driver in a process of its own),
    ``embedded/nnburst-cpu`` (in this process), ``connect/NAME`` (a service), or a
    :class:`nnburst.Device`. ``wait``, ``realtime``, ``cpus``, ``driver_cpus`` and ``timeout`` are
    those of :meth:`nnburst.Compilation.burst`, ``cache_dir`` and ``relaxed`` those of
    :func:`nnburst.compile`.
    """

    def __init__(
        self,
        model_path: Union[str, bytes, "os.PathLike[str]", None] = None,
        model_content: Union[bytes, bytearray, memoryview, None] = None,
        experimental_delegates: Optional[Sequence[Any]] = None,
        num_threads: Optional[int] = None,
        experimental_op_resolver_type: Any = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        device: Union[str, Device] = "spawn/nnburst-cpu",
        cache_dir: Union[str, "os.PathLike[str]", None] = None,
        relaxed: bool = False,
        wait: str = "auto",
        realtime: bool = False,
        cpus: Optional[Sequence[int]] = None,
        driver_cpus: Optional[Sequence[int]] = None,
        timeout: Optional[float] = None,
    ) -> None:
        if not isinstance(experimental_op_resolver_type, enum.Enum):
            raise InvalidArgument(
                f"Unrecognized passed in op resolver type: {experimental_op_resolver_type}"
            )
        if experimental_delegates:
            raise InvalidArgument("delegates are not used here; choose a driver with device=...")
        if num_threads is not None:
            if not isinstance(num_threads, int):
                raise InvalidArgument("type of num_threads should be int")
            if num_threads < 1:
                raise InvalidArgument("num_threads should >= 1")
        self._compresses_zero_points = bool(experimental_compress_quantization_zero_points)
        if model_path and not model_content:
            try:
                self._model = Model.load(os.fsdecode(model_path))
            except FileNotFoundError as error:
                raise ModelNotFound(error.errno, "Could not open", error.filename) from None
            except OSError as error:
                # What is no file at all has words of its own, and no number.
                words = (error.errno, error.strerror, error.filename)
                raise ModelUnreadable(*(words if error.errno else (str(error),))) from None
        elif model_content and not model_path:
            self._model = Model.from_bytes(bytes(memoryview(model_content)))
        elif not model_path:
            raise InvalidArgument("`model_path` or `model_content` must be specified.")
        else:
            raise InvalidArgument("Can't both provide `model_path` and `model_content`")
        self._device = device
        self._compile_options: Dict[str, Any] = {
            "threads": num_threads or 1,
            "cache_dir": None if cache_dir is None else Path(cache_dir),
            "relaxed": relaxed,
            "keep_tensors": bool(experimental_preserve_all_tensors),
        }
        self._burst_options: Dict[str, Any] = {
            "wait": wait,
            "realtime": realtime,
            "cpus": None if cpus is None else list(cpus),
            "driver_cpus": None if driver_cpus is None else list(driver_cpus),
            "timeout": timeout,
        }
        # The values of variables with a name, which the graphs of a file have in common, and the
        # interpreters of graphs other than the first.
        self._variables: Dict[str, bytes] = {}
        self._others: Dict[int, Interpreter] = {}
        self._begin()

    def _begin(self) -> None:
        signatures = self._model.signatures
        self._shares = any(graph != self._model.subgraph for *_, graph in signatures)
        self._tensors: List[TensorInfo] = self._model.tensors
        self._inputs = [info.index for info in self._model.inputs]
        self._outputs = [info.index for info in self._model.outputs]
        self._shapes: Dict[int, Tuple[int, ...]] = {}
        # The inputs that the device is handed.
        self._handed: List[int] = []
        self._open_bytes = 1 << 20
        self._compilation: Optional[Compilation] = None
        self._burst: Optional[Burst] = None
        self._frame: Optional[Frame] = None
        self._is_stale = True

    # What the model has.

    def get_input_details(self) -> List[Details]:
        """The inputs: name, index, shape, type and quantisation of each."""
        return [self._details(index) for index in self._inputs]

    def get_output_details(self) -> List[Details]:
        """The outputs, as :meth:`get_input_details`."""
        return [self._details(index) for index in self._outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> List[Details]:
        """All tensors of the file's first graph, as :meth:`get_input_details`."""
        self._check_subgraph(subgraph_index)
        return [self._details(tensor.index) for tensor in self._tensors]

    def num_subgraphs(self) -> int:
        """The number of graphs in the file: the first one, those of signatures, and those that
        operators refer to."""
        return self._model.subgraphs

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        """The keyword's value, which means nothing here."""
        return self._compresses_zero_points

    def get_signature_list(self) -> Dict[str, Dict[str, List[str]]]:
        """The names of each signature's inputs and outputs."""
        return {
            key: {kind: sorted(names) for kind, names in signature.items()}
            for key, signature in self._get_full_signature_list().items()
        }

    def get_signature_runner(self, signature_key: Optional[str] = None) -> "SignatureRunner":
        """Something to call a signature with; the only one where no key is given."""
        if signature_key is None:
            keys = list(self._get_full_signature_list())
            if len(keys) != 1:
                raise InvalidArgument(
                    f"SignatureDef signature_key is None and model has {len(keys)} Signatures. "
                    "None is only allowed when the model has 1 SignatureDef; "
                    f"there are {', '.join(keys) or 'none'}"
                )
            signature_key = keys[0]
        return SignatureRunner(self, signature_key)

    def _of_signature(self, key: str) -> "Interpreter":
        """The interpreter of a signature's graph, which has the same variables."""
        graph = next(graph for known, _, _, graph in self._model.signatures if known == key)
        if graph == self._model.subgraph:
            return self
        if graph not in self._others:
            other = copy.copy(self)
            other._model = self._model.signature(key)
            other._others = {}
            other._begin()
            self._others[graph] = other
        return self._others[graph]

    # Scripts that print a model's operators call these, whatever their names say.

    def _get_full_signature_list(self) -> Dict[str, Dict[str, Dict[str, int]]]:
        return {
            key: {"inputs": dict(inputs), "outputs": dict(outputs)}
            for key, inputs, outputs, _ in self._model.signatures
        }

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> Details:
        self._check_subgraph(subgraph_index)
        return self._details(self._known(tensor_index))

    def _get_op_details(self, op_index: int) -> Details:
        operators = self._model.operators
        if not 0 <= op_index < len(operators):
            raise InvalidArgument(f"Invalid node index {op_index}: there are {len(operators)}")
        name, inputs, outputs = operators[op_index]
        return {
            "index": int(op_index),
            "op_name": name,
            "inputs": np.array(inputs, dtype=np.int32),
            "outputs": np.array(outputs, dtype=np.int32),
            "operand_types": [self._dtype(at) for at in inputs if at >= 0],
            "result_types": [self._dtype(at) for at in outputs],
        }

    def _get_ops_details(self) -> List[Details]:
        return [self._get_op_details(index) for index in range(len(self._model.operators))]

    # The life of an interpreter.

    def allocate_tensors(self) -> None:
        """Makes the model ready on the device, for the shapes that its inputs have now."""
        if self._is_stale or self._frame is None:
            self._open()

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Gives an input another shape, from the next :meth:`allocate_tensors` on.

        With ``strict`` only extents may change that the file leaves open.
        """
        index = operator.index(input_index)
        if index not in self._inputs:
            raise NotPrepared(f"tensor {index} is no input; there are {self._inputs}")
        extents = np.asarray(tensor_size)
        if extents.ndim != 1:
            raise InvalidArgument(f"Shape should be 1D instead of {extents.ndim}.")
        shape = tuple(int(extent) for extent in extents)
        tensor = self._tensors[index]
        if min(shape, default=0) < 0:
            raise NotPrepared(f"input {index}: shape {shape} has an extent below 0")
        if strict:
            signature = tensor.shape_signature
            fits = len(shape) == len(signature) and all(
                known in (-1, extent) for known, extent in zip(signature, shape)
            )
            if not fits:
                raise NotPrepared(
                    f"Cannot override non-dynamic dimensions of input {index}: "
                    f"{signature}, got {shape}"
                )
        if shape != self._shape(index):
            self._model.resize(index, list(shape))
            self._shapes[index] = shape
            self._is_stale = True

    def invoke(self) -> None:
        """Computes the outputs. Other threads of Python run on meanwhile."""
        if self._is_stale:
            raise RuntimeError("Invoke called on model that is not ready.")
        while True:
            frame, burst = self._ready()
            if self._shares:
                frame.set_variables(self._variables)
            try:
                burst.compute(frame)
                if self._shares:
                    self._variables.update(frame.variables())
                return
            except DeviceLost:
                # The next call starts another driver; the inputs stay.
                self._compilation = self._burst = None
                raise
            except OutputTooSmall:
                if self._open_bytes >= _MOST_OPEN_BYTES or self._compilation is None:
                    raise
                self._open_bytes *= 8
                larger = self._compilation.frame(open_bytes=self._open_bytes)
                larger.copy_from(frame)
                self._frame = larger

    def reset_all_variables(self) -> None:
        """Gives what the model keeps between invocations its first values again."""
        self._variables.clear()
        for interpreter in (self, *self._others.values()):
            if interpreter._frame is not None:
                interpreter._frame.reset()

    # Values.

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copies a value into an input, output or variable. Its type and shape have to be the
        tensor's."""
        index, value = self._known(tensor_index), np.asarray(value)
        if self._frame is None or self._is_stale:
            raise NotPrepared(
                "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first"
            )
        target = self._view(index)
        shape = self._tensors[index].shape if target is None else target.shape
        expected = self._dtype(index)
        if value.dtype != expected:
            raise InvalidArgument(
                f"Cannot set tensor: Got value of type {value.dtype.name.upper()} but expected "
                f"type {np.dtype(expected).name.upper()} for input {index}, "
                f"name: {self._tensors[index].name}"
            )
        if value.ndim != len(shape):
            raise InvalidArgument(
                f"Cannot set tensor: Dimension mismatch. Got {value.ndim} but expected "
                f"{len(shape)} for input {index}."
            )
        for axis, (got, known) in enumerate(zip(value.shape, shape)):
            if got != known:
                raise InvalidArgument(
                    f"Cannot set tensor: Dimension mismatch. Got {got} but expected {known} "
                    f"for dimension {axis} of input {index}."
                )
        if target is None:
            self._frame.set_state(index, value.tobytes())
        else:
            np.copyto(target, value, casting="same_kind")

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """A copy of a tensor's value: an input, an output, a variable or a constant; any that an
        operator computes with ``experimental_preserve_all_tensors``."""
        self._check_subgraph(subgraph_index)
        index = self._known(tensor_index)
        view = self._view(index)
        if view is not None:
            return np.array(view, dtype=self._dtype(index))
        return self._kept(index).copy()

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that returns an input or output in place, or a constant.

        Call it again after :meth:`allocate_tensors`, as with TFLite: the array that it returned
        before is that of the last allocation.
        """
        index = self._known(tensor_index)
        is_constant = self._tensors[index].is_constant
        if index not in self._inputs and index not in self._outputs and not is_constant:
            raise InvalidArgument(f"tensor {index} is neither an input nor an output")

        def in_place() -> Array:
            view = self._view(index)
            return self._kept(index) if view is None else view

        return in_place

    # What TFLite has not.

    @property
    def burst(self) -> Burst:
        """The burst that computes, for its figures: ``interpreter.burst.stats``."""
        return self._ready()[1]

    @property
    def device(self) -> Device:
        """The device that computes."""
        self._ready()
        assert self._compilation is not None
        return self._compilation.device

    def _open(self) -> None:
        try:
            compilation = self._compiled()
            frame = compilation.frame(open_bytes=self._open_bytes)
        except UnsupportedModel:
            raise
        except InvalidArgument as error:
            raise NotPrepared(str(error), code=error.code) from error
        burst = compilation.burst(**self._burst_options)
        if self._frame is not None and not self._is_stale:
            # The driver was lost. Its successor has the same inputs, and the states of the last
            # success.
            frame.copy_from(self._frame)
        self._handed = list(compilation.arguments[0])
        self._compilation, self._burst, self._frame = compilation, burst, frame
        self._is_stale = False

    def _compiled(self) -> Compilation:
        options = self._compile_options
        if self._compilation is not None:
            try:
                # Other shapes are for the driver that is there.
                return compile(self._model, self._compilation.device, **options)
            except DeviceLost:
                pass
        return compile(self._model, self._device, **options)

    def _ready(self) -> Tuple[Frame, Burst]:
        if self._burst is None and not self._is_stale:
            self._open()
        frame, burst = self._frame, self._burst
        if frame is None or burst is None:
            raise NotPrepared("Run allocate_tensors() first")
        return frame, burst

    def _allocated(self) -> Frame:
        if self._frame is None or self._is_stale:
            raise NotPrepared("Tensor data is null. Run allocate_tensors() first")
        return self._frame

    def _check_subgraph(self, subgraph_index: int) -> None:
        count = self._model.subgraphs
        if not 0 <= subgraph_index < count:
            raise InvalidArgument(
                f"subgraph_index is out of range: {subgraph_index} for the model, "
                f"which has {count} subgraphs."
            )
        if subgraph_index != 0:
            raise InvalidArgument(f"subgraph {subgraph_index} stays in the driver, only 0 does not")

    def _known(self, tensor_index: int) -> int:
        index = operator.index(tensor_index)
        if not 0 <= index < len(self._tensors):
            most = len(self._tensors) - 1
            raise InvalidArgument(f"Invalid tensor index {index} exceeds max tensor index {most}")
        return index

    def _view(self, index: int) -> Optional[Array]:
        """An input or output in place, or a tensor that is kept; ``None`` for any other."""
        if index in self._inputs:
            frame = self._allocated()
            if index in self._handed:
                return frame.inputs[self._handed.index(index)]
            # Without elements, which the device gets none of.
            return np.empty(self._shapes[index], self._dtype(index))
        if index in self._outputs:
            return self._allocated().outputs[self._outputs.index(index)]
        if self._compile_options["keep_tensors"] and self._compilation is not None:
            kept = self._compilation.arguments[1]
            if index in kept:
                return self._allocated().outputs[kept.index(index)]
        return None

    def _kept(self, index: int) -> Array:
        """A constant or a variable, to be read."""
        dtype, shape = self._dtype(index), self._tensors[index].shape
        constant = self._model.constant(index)
        if constant is not None:
            return np.frombuffer(constant, dtype=dtype).reshape(shape)
        for tensor, value in self._allocated().states():
            if tensor == index:
                return np.frombuffer(value, dtype=dtype).reshape(shape)
        raise InvalidArgument(
            f"tensor {index} ({self._tensors[index].name}) stays in the driver: inputs, outputs, "
            "variables and constants can be read, and most others with "
            "experimental_preserve_all_tensors=True"
        )

    def _dtype(self, index: int) -> Any:
        return self._tensors[index].dtype.type

    def _shape(self, index: int) -> Tuple[int, ...]:
        if index in self._shapes and (self._is_stale or index in self._inputs):
            return self._shapes[index]
        if self._compilation is not None and not self._is_stale:
            for tensors, shapes in zip(self._compilation.arguments, self._compilation.shapes):
                if index in tensors:
                    return tuple(shapes[tensors.index(index)])
        return self._tensors[index].shape

    def _details(self, index: int) -> Details:
        tensor = self._tensors[index]
        shape = self._shape(index)
        if index in self._outputs and self._frame is not None and 0 in shape:
            shape = self._frame.outputs[self._outputs.index(index)].shape
        scales = np.array(tensor.scales, dtype=np.float32)
        zero_points = np.array(tensor.zero_points, dtype=np.int32)
        is_simple = len(scales) == 1 and len(zero_points) <= 1
        zero_point = int(zero_points[0]) if len(zero_points) else 0
        return {
            "name": tensor.name,
            "index": index,
            "shape": np.array(shape, dtype=np.int32),
            "shape_signature": np.array(tensor.shape_signature or shape, dtype=np.int32),
            "dtype": self._dtype(index),
            "quantization": (float(scales[0]), zero_point) if is_simple else (0.0, 0),
            "quantization_parameters": {
                "scales": scales,
                "zero_points": zero_points,
                "quantized_dimension": tensor.channel_dimension,
                "block_size": tensor.block_size,
            },
            "sparsity_parameters": {},
        }


class InterpreterWithCustomOps(Interpreter):
    """TFLite's interpreter for custom operators, as far as drivers have them by themselves."""

    def __init__(
        self, custom_op_registerers: Optional[Sequence[Any]] = None, **kwargs: Any
    ) -> None:
        if custom_op_registerers:
            raise InvalidArgument(
                "custom_op_registerers are kernels of TFLite, which a driver can't call; "
                "operators that it has by itself need none"
            )
        super().__init__(**kwargs)


class SignatureRunner:
    """A signature of a model, to be called with its inputs by name."""

    def __init__(
        self, interpreter: Optional[Interpreter] = None, signature_key: Optional[str] = None
    ) -> None:
        if interpreter is None:
            raise InvalidArgument("None interpreter provided.")
        if not signature_key:
            raise InvalidArgument("None signature_key provided.")
        signatures = interpreter._get_full_signature_list()
        if signature_key not in signatures:
            raise InvalidArgument(
                f'Invalid signature_key provided: "{signature_key}". '
                f"There are {', '.join(signatures) or 'none'}"
            )
        self._interpreter = interpreter._of_signature(signature_key)
        self._inputs = signatures[signature_key]["inputs"]
        self._outputs = signatures[signature_key]["outputs"]

    def __call__(self, **kwargs: Any) -> Dict[str, Array]:
        """Runs the model; the outputs by their names."""
        names = ", ".join(sorted(self._inputs))
        if len(kwargs) != len(self._inputs):
            raise InvalidArgument(
                "Invalid number of inputs provided for running a SignatureDef, expected "
                f"{len(self._inputs)} vs provided {len(kwargs)}: it takes {names}"
            )
        for name in kwargs:
            if name not in self._inputs:
                raise InvalidArgument(
                    f"Invalid Input name ({name}) for SignatureDef: it takes {names}"
                )
        interpreter = self._interpreter
        for name, value in kwargs.items():
            interpreter.resize_tensor_input(self._inputs[name], np.shape(value))
        interpreter.allocate_tensors()
        for name, value in kwargs.items():
            interpreter.set_tensor(self._inputs[name], value)
        interpreter.invoke()
        return {name: interpreter.get_tensor(index) for name, index in self._outputs.items()}

    def get_input_details(self) -> Dict[str, Details]:
        """The inputs by their names, as :meth:`Interpreter.get_input_details`."""
        return {name: self._interpreter._details(at) for name, at in self._inputs.items()}

    def get_output_details(self) -> Dict[str, Details]:
        """The outputs by their names, as :meth:`Interpreter.get_input_details`."""
        return {name: self._interpreter._details(at) for name, at in self._outputs.items()}
