"""The interpreter beside TFLite's own."""

from __future__ import annotations

import inspect
import os
import signal
import time
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import nnburst
from conftest import path_of

# Integers to the bit; floats as far as sums in another order take them.
MODELS = {
    "models/add1_float": 0.0,
    "models/hello_world_int8": 0.0,
    "models/mobilenet_v1_0.25_128": 1e-5,
    "models/mobilenet_v1_0.25_128_quant": 0.0,
    "models/mobilenet_v1_0.25_128_int8": 0.0,
    "models/split_concat_quant": 0.0,
    "models/mnist_lstm_float": 1e-5,
    "models/mnist_lstm_int8": 0.0,
    "models/dtln_float_1": 1e-4,
    "models/kws_svdf_float_synthetic": 1e-4,
    "models/micro_speech_int8": 0.0,
    "mlts/mlperf_tiny_resnet8_int8": 0.0,
    "mlts/mlperf_tiny_vww_int8": 0.0,
    "tflite_zoo/simple_topk_op_runtime_k": 0.0,
    "tflite_zoo/traffic_model": None,
}


def value_for(details: Dict[str, Any], rng: np.random.Generator) -> np.ndarray:
    dtype, shape = np.dtype(details["dtype"]), details["shape"]
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.itemsize == 1 and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return rng.integers(1, 3, shape).astype(dtype)


def tflite(path: Any, **arguments: Any) -> Any:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    kernels = interpreter.OpResolverType.BUILTIN_REF
    return interpreter.Interpreter(path, experimental_op_resolver_type=kernels, **arguments)


def tflite_of(content: bytes) -> Any:
    return tflite(None, model_content=content)


def assert_same_details(theirs: Dict[str, Any], ours: Dict[str, Any], is_open: bool) -> None:
    assert set(theirs) == set(ours)
    assert theirs["dtype"] is ours["dtype"]
    assert theirs["quantization"] == ours["quantization"]
    for key in ("name", "index") + (() if is_open else ("shape", "shape_signature")):
        assert np.array_equal(theirs[key], ours[key]), (theirs["name"], key)
    for key, value in ours["quantization_parameters"].items():
        assert np.array_equal(theirs["quantization_parameters"][key], value), key


@pytest.mark.parametrize("name", MODELS)
def test_values_and_keys_are_those_of_tflite(shared: Path, name: str) -> None:
    path, bound = path_of(shared, name), MODELS[name]
    theirs, ours = tflite(path), nnburst.Interpreter(model_path=path)
    for interpreter in (theirs, ours):
        interpreter.allocate_tensors()
    for of in ("get_input_details", "get_output_details"):
        pairs = list(zip(getattr(theirs, of)(), getattr(ours, of)()))
        assert len(pairs) == len(getattr(theirs, of)())
        for expected, details in pairs:
            assert_same_details(expected, details, 0 in details["shape"])
    assert theirs.get_signature_list() == ours.get_signature_list()
    rng = np.random.default_rng(7)
    for _ in range(3):  # states are carried
        for details in ours.get_input_details():
            value = value_for(details, rng)
            theirs.set_tensor(details["index"], value)
            ours.set_tensor(details["index"], value)
        theirs.invoke()
        ours.invoke()
    for details in theirs.get_output_details():
        expected, got = (each.get_tensor(details["index"]) for each in (theirs, ours))
        assert (expected.dtype, expected.shape) == (got.dtype, got.shape)
        if bound is not None:
            np.testing.assert_allclose(got, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize(
    "name",
    [
        "models/mobilenet_v1_0.25_128_quant",
        "models/mobilenet_v1_0.25_128",
        "models/split_concat_quant",
        "models/dtln_float_1",
        "mlts/mlperf_tiny_resnet8_int8",
    ],
)
def test_intermediate_tensors_can_be_preserved(shared: Path, name: str) -> None:
    # What a network ends in is nearer: activations are larger on the way.
    path, bound = path_of(shared, name), 1e-4 if MODELS[name] else 0.0
    theirs = tflite(path, experimental_preserve_all_tensors=True)
    ours = nnburst.Interpreter(path, experimental_preserve_all_tensors=True)
    rng = np.random.default_rng(3)
    for interpreter in (theirs, ours):
        interpreter.allocate_tensors()
    for details in ours.get_input_details():
        value = value_for(details, rng)
        theirs.set_tensor(details["index"], value)
        ours.set_tensor(details["index"], value)
    for interpreter in (theirs, ours):
        interpreter.invoke()
    computed = [int(at) for each in ours._get_ops_details() for at in each["outputs"]]
    compared = 0
    for index in computed:
        try:
            got = ours.get_tensor(index)
        except nnburst.InvalidArgument:
            continue
        expected = theirs.get_tensor(index)
        assert (expected.dtype, expected.shape) == (got.dtype, got.shape)
        np.testing.assert_allclose(got, expected, rtol=bound, atol=bound, err_msg=f"{index}")
        compared += 1
    assert compared >= 0.9 * len(computed), f"{compared} of {len(computed)}"


def test_wrong_values_are_refused_as_tflite_does(mobilenet: str) -> None:
    interpreter = nnburst.Interpreter(mobilenet)
    index = interpreter.get_input_details()[0]["index"]
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()
    with pytest.raises(ValueError, match="allocate_tensors"):
        interpreter.set_tensor(index, np.zeros((1, 128, 128, 3), np.uint8))
    interpreter.allocate_tensors()
    for value, why in [
        (np.zeros((1, 128, 128, 3)), "Got value of type FLOAT64 but expected type UINT8"),
        (np.zeros((128, 128, 3), np.uint8), "Got 3 but expected 4"),
        (np.zeros((1, 128, 127, 3), np.uint8), "Got 127 but expected 128 for dimension 2"),
    ]:
        with pytest.raises(nnburst.InvalidArgument, match=why):
            interpreter.set_tensor(index, value)
    with pytest.raises(ValueError, match="stays in the driver"):
        interpreter.get_tensor(interpreter._get_ops_details()[0]["outputs"][0])


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({}, "must be specified"),
        ({"model_path": "x", "model_content": b"y"}, "Can't both provide"),
        ({"model_content": b"no model at all"}, "TFL3|identifier|file"),
        ({"model_path": "x", "num_threads": 0}, "num_threads should >= 1"),
        ({"model_path": "x", "num_threads": 1.5}, "type of num_threads should be int"),
        ({"model_path": "x", "experimental_delegates": [object()]}, "delegates"),
        ({"model_path": ""}, "must be specified"),
        ({"model_content": b""}, "must be specified"),
        ({"model_path": "x", "experimental_op_resolver_type": 7}, "Unrecognized passed in op resolver type: 7"),
    ],
)
def test_wrong_arguments_are_named(arguments: Dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        nnburst.Interpreter(**arguments)


def test_the_module_has_the_names_and_arguments_of_tflites() -> None:
    module = pytest.importorskip("ai_edge_litert.interpreter")
    for name, theirs in inspect.getmembers(module, inspect.isclass):
        ours = getattr(nnburst, name)
        for method, function in inspect.getmembers(theirs, inspect.isfunction):
            if method.startswith("_") and method != "__init__":
                continue
            got = inspect.signature(getattr(ours, method)).parameters
            wanted = list(inspect.signature(function).parameters.values())
            pairs = list(zip(wanted, got.values()))
            assert len(pairs) == len(wanted), (name, method)
            for expected, parameter in pairs:
                assert parameter.name == expected.name, (name, method)
                is_required = expected.default is inspect.Parameter.empty
                assert (parameter.default is inspect.Parameter.empty) == is_required, (name, method, parameter)


def test_what_drivers_have_no_use_for_is_refused(mobilenet: str) -> None:
    for wanted in (ValueError, OSError):  # as scripts catch them
        with pytest.raises(wanted, match="choose one with Interpreter"):
            nnburst.load_delegate("libedgetpu.so.1", {"device": "usb"})
    with pytest.raises(nnburst.InvalidArgument, match="a driver can't call"):
        nnburst.InterpreterWithCustomOps(["Register"], model_path=mobilenet)
    interpreter = nnburst.InterpreterWithCustomOps([], model_path=os.fsencode(mobilenet))
    interpreter.reset_all_variables()
    assert interpreter.num_subgraphs() == 1
    for call in (interpreter.get_tensor, interpreter.tensor, lambda at: interpreter.set_tensor(at, 0)):
        for wrong in ("input", 0.5):
            with pytest.raises(TypeError):
                call(wrong)
    with pytest.raises(ValueError, match="out of range: 1 for the model, which has 1"):
        interpreter.get_tensor_details(1)
    with pytest.raises(ValueError, match="Invalid node index 31"):
        interpreter._get_op_details(31)


def test_shapes_that_operators_cannot_take_are_refused_when_tensors_are_allocated(mobilenet: str) -> None:
    interpreter = nnburst.Interpreter(mobilenet)
    index = interpreter.get_input_details()[0]["index"]
    for shape, why in [
        ([1, 3], "operator 0 CONV_2D: a filter of shape"),
        ([2, 128, 128, 3], r"operator 29 RESHAPE: an input of shape \[2, 1, 1, 1001\]"),
        ([1, 64, 64, 3], "operator 27 AVERAGE_POOL_2D: its windows don't fit"),
    ]:
        interpreter.resize_tensor_input(index, shape)
        with pytest.raises(RuntimeError, match=why):
            interpreter.allocate_tensors()
    interpreter.resize_tensor_input(index, [1, 128, 128, 3])
    interpreter.allocate_tensors()
    interpreter.invoke()


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Could not open") as raised:
        nnburst.Interpreter(tmp_path / "absent.tflite")
    assert raised.value.filename == str(tmp_path / "absent.tflite")
    assert isinstance(raised.value, ValueError), "what scripts for TFLite expect"
    # Whatever a file can't be opened for: this is a directory.
    with pytest.raises(nnburst.ModelUnreadable) as unreadable:
        nnburst.Interpreter(tmp_path)
    assert isinstance(unreadable.value, OSError) and isinstance(unreadable.value, ValueError)
    assert str(tmp_path) in str(unreadable.value)


def test_models_are_taken_from_memory_and_constants_read(mobilenet: str) -> None:
    content = Path(mobilenet).read_bytes()
    interpreter = nnburst.Interpreter(model_content=content, device="embedded/nnburst-cpu")
    interpreter.allocate_tensors()
    weights = interpreter._get_ops_details()[0]["inputs"][1]
    theirs = tflite(mobilenet)
    theirs.allocate_tensors()
    assert np.array_equal(interpreter.get_tensor(weights), theirs.get_tensor(weights))


def test_inputs_are_resized(shared: Path) -> None:
    path = path_of(shared, "mlts/mlperf_tiny_ad_float")
    theirs, ours = tflite(path), nnburst.Interpreter(path)
    index = ours.get_input_details()[0]["index"]
    ours.allocate_tensors()
    value = np.random.default_rng(3).random((2, 640), np.float32)
    for interpreter in (theirs, ours):
        interpreter.resize_tensor_input(index, [2, 640])
    with pytest.raises(RuntimeError, match="not ready"):
        ours.invoke()
    for interpreter in (theirs, ours):
        interpreter.allocate_tensors()
        interpreter.set_tensor(index, value)
        interpreter.invoke()
    output = ours.get_output_details()[0]
    assert output["shape"].tolist() == theirs.get_output_details()[0]["shape"].tolist()
    got, expected = (each.get_tensor(output["index"]) for each in (ours, theirs))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="non-dynamic"):
        ours.resize_tensor_input(index, [3, 641], strict=True)
    with pytest.raises(RuntimeError, match="is no input"):
        ours.resize_tensor_input(9999, [1])
    with pytest.raises(ValueError, match="Shape should be 1D instead of 2"):
        ours.resize_tensor_input(index, [[1, 640]])


def test_inputs_without_elements_are_computed_with(shared: Path) -> None:
    path = path_of(shared, "models/add1_float")
    shapes = []
    for interpreter in (tflite(path), nnburst.Interpreter(path)):
        inputs = [details["index"] for details in interpreter.get_input_details()]
        for index in inputs:
            interpreter.resize_tensor_input(index, [0, 3])
        interpreter.allocate_tensors()
        for index in inputs:
            interpreter.set_tensor(index, np.zeros((0, 3), np.float32))
            assert interpreter.get_tensor(index).shape == (0, 3)
        interpreter.invoke()
        (output,) = interpreter.get_output_details()
        shapes.append(output["shape"].tolist())
        assert interpreter.get_tensor(output["index"]).shape == (0, 3)
    assert shapes[0] == shapes[1]
    with pytest.raises(ValueError, match="extent below 0"):
        nnburst.Interpreter(path).resize_tensor_input(inputs[0], [-1, 3])


def test_inputs_of_the_same_name_get_shapes_of_another_rank(shared: Path) -> None:
    content = Path(path_of(shared, "models/add1_float")).read_bytes()
    first, second = (details["name"].encode() for details in tflite_of(content).get_input_details())
    assert len(first) == len(second)
    content = content.replace(second + b"\0", first + b"\0")
    results = []
    for interpreter in (tflite_of(content), nnburst.Interpreter(model_content=content)):
        inputs = interpreter.get_input_details()
        assert inputs[0]["name"] == inputs[1]["name"]
        for details, shape in zip(inputs, ([2, 3], [1, 3])):
            interpreter.resize_tensor_input(details["index"], shape)
        interpreter.allocate_tensors()
        for at, (details, shape) in enumerate(zip(inputs, ((2, 3), (1, 3)))):
            value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) * 10**at
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        (output,) = interpreter.get_output_details()
        results.append(interpreter.get_tensor(output["index"]))
        assert output["shape"].tolist() == [2, 3]
    assert np.array_equal(*results)


def test_tensors_are_written_in_place(mobilenet: str) -> None:
    interpreter = nnburst.Interpreter(mobilenet)
    interpreter.allocate_tensors()
    index = interpreter.get_input_details()[0]["index"]
    interpreter.tensor(index)()[...] = 7
    assert (interpreter.get_tensor(index) == 7).all()
    output = interpreter.get_output_details()[0]
    interpreter.set_tensor(output["index"], np.full(output["shape"], 9, output["dtype"]))
    assert (interpreter.tensor(output["index"])() == 9).all()
    with pytest.raises(ValueError, match="Invalid tensor index 9999 exceeds"):
        interpreter.set_tensor(9999, np.zeros(1))
    weights = interpreter._get_ops_details()[0]["inputs"][1]
    assert np.array_equal(interpreter.tensor(weights)(), interpreter.get_tensor(weights))
    assert not interpreter.tensor(weights)().flags.writeable


def test_variables_are_reset_in_mid_stream(shared: Path) -> None:
    path = path_of(shared, "models/kws_svdf_float_synthetic")
    interpreter = nnburst.Interpreter(path)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.set_tensor(source["index"], value_for(source, np.random.default_rng(1)))

    def step() -> np.ndarray:
        interpreter.invoke()
        return interpreter.get_tensor(target["index"])

    first, second = step(), step()
    assert not np.array_equal(first, second)
    interpreter.reset_all_variables()
    assert np.array_equal(step(), first)
    variables = [info.index for info in nnburst.Model.load(path).tensors if info.is_variable]
    kept = {index: interpreter.get_tensor(index) for index in variables}
    assert kept
    assert np.array_equal(step(), second)
    for index, value in kept.items():
        interpreter.set_tensor(index, value)
    assert np.array_equal(step(), second)


def test_signatures_are_called_by_name(shared: Path) -> None:
    path = path_of(shared, "models/mnist_lstm_float")
    interpreter = nnburst.Interpreter(path)
    (key, names), = interpreter.get_signature_list().items()
    runner = interpreter.get_signature_runner()
    details = runner.get_input_details()
    rng = np.random.default_rng(5)
    values = {name: value_for(details[name], rng) for name in names["inputs"]}
    result = interpreter.get_signature_runner(key)(**values)
    assert sorted(result) == names["outputs"]
    with pytest.raises(ValueError, match=r"Invalid Input name \(nonsense\).*takes"):
        runner(nonsense=1)
    with pytest.raises(ValueError, match="expected 1 vs provided 0"):
        runner()
    for arguments, why in [((), "interpreter"), ((interpreter,), "signature_key"), ((interpreter, "x"), '"x"')]:
        with pytest.raises(ValueError, match=why):
            nnburst.SignatureRunner(*arguments)


def test_signatures_of_further_graphs_have_the_same_variables() -> None:
    path = Path(__file__).with_name("signatures.tflite")
    interpreter = nnburst.Interpreter(path, device="embedded/nnburst-cpu")
    assert interpreter.get_signature_list() == {
        "read": {"inputs": ["x"], "outputs": ["y"]},
        "add": {"inputs": ["a", "b", "first"], "outputs": ["sum"]},
        "set": {"inputs": ["x"], "outputs": []},
    }
    read, add, set_ = (interpreter.get_signature_runner(key) for key in ("read", "add", "set"))
    assert add.get_input_details()["b"]["index"] == 2
    one = np.ones(2, np.float32)
    assert read(x=one)["y"].tolist() == [11, 21]
    result = add(a=one, b=one * 5, first=np.array([False]))
    assert result["sum"].tolist() == [15, 25]
    assert read(x=one)["y"].tolist() == [16, 26]
    # The first graph of the interpreter itself, which has the same variables.
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], one)
    interpreter.invoke()
    output = interpreter.get_output_details()[0]["index"]
    assert interpreter.get_tensor(output).tolist() == [16, 26]
    assert set_(x=one * 3) == {}
    assert read(x=one)["y"].tolist() == [4, 4]
    assert add(a=one, b=one, first=np.array([True]))["sum"].tolist() == [4, 4]
    interpreter.reset_all_variables()
    assert add(a=one, b=one, first=np.array([True]))["sum"].tolist() == [11, 21]


def test_variables_outlive_the_driver(shared: Path) -> None:
    path = path_of(shared, "models/kws_svdf_float_synthetic")
    steady, struck = (nnburst.Interpreter(path) for _ in range(2))
    for interpreter in (steady, struck):
        interpreter.allocate_tensors()
        source = interpreter.get_input_details()[0]
        interpreter.set_tensor(source["index"], value_for(source, np.random.default_rng(1)))
        for _ in range(3):
            interpreter.invoke()
    os.kill(struck.device.driver_pid or 0, signal.SIGKILL)
    with pytest.raises(nnburst.DeviceLost):
        struck.invoke()
    target = steady.get_output_details()[0]["index"]
    for _ in range(3):
        steady.invoke()
        struck.invoke()
        assert np.array_equal(steady.get_tensor(target), struck.get_tensor(target))


def test_a_driver_is_ended_by_signals_but_not_by_the_terminals(mobilenet: str) -> None:
    interpreter = nnburst.Interpreter(mobilenet)
    interpreter.allocate_tensors()
    interpreter.invoke()
    pid = interpreter.device.driver_pid
    assert pid is not None
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGTERM)
    limit = time.monotonic() + 60
    with pytest.raises(nnburst.DeviceLost, match="SIGTERM"):
        while time.monotonic() < limit:
            interpreter.invoke()


def test_another_shape_is_for_the_same_driver(shared: Path) -> None:
    interpreter = nnburst.Interpreter(path_of(shared, "models/add1_float"))
    interpreter.allocate_tensors()
    driver = interpreter.device.driver_pid

    def resize(extent: int) -> None:
        for source in interpreter.get_input_details():
            interpreter.resize_tensor_input(source["index"], [extent])
        interpreter.allocate_tensors()
        interpreter.invoke()

    for extent in (2, 3):
        resize(extent)
        assert interpreter.device.driver_pid == driver
    os.kill(driver or 0, signal.SIGKILL)
    resize(4)
    assert interpreter.device.driver_pid != driver


def test_a_driver_that_is_killed_is_named_and_replaced(mobilenet: str) -> None:
    interpreter = nnburst.Interpreter(mobilenet)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.set_tensor(source["index"], value_for(source, np.random.default_rng(2)))
    interpreter.invoke()
    expected = interpreter.get_tensor(target["index"])
    for _ in range(2):
        pid = interpreter.device.driver_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(nnburst.DeviceLost, match=r"nnburst-cpu died .*SIGKILL"):
            interpreter.invoke()
        interpreter.invoke()
        assert np.array_equal(interpreter.get_tensor(target["index"]), expected)

