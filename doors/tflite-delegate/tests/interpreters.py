"""What the tests of the delegate share: the interpreter of the wheel at hand, models, inputs, comparisons."""
import gc
import os
import sys

import numpy as np

try:
    from tflite_runtime.interpreter import Interpreter, OpResolverType, load_delegate
    WHEEL = "tflite-runtime"
except ImportError:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate
    WHEEL = "ai-edge-litert"

LIBRARY = os.environ["NNBURST_DELEGATE"]
SHARED = os.environ["NNBURST_SHARED"]
# The interpreter's own results: its reference kernels, which are the definition of quantised operators.
REFERENCE = OpResolverType.BUILTIN_REF
# Differences of floats by sums in another order, relative to the largest value. Integers differ by 1 at least.
NEAR = 1e-5
# What differs by more: in steps for integers, or relative.
DIFFERENT = {
    # FULLY_CONNECTED of 8 bits: the sums are rounded twice in 2.14, once in later releases and in the driver.
    ("tflite-runtime", "mlperf_tiny_ad_int8"): 2,
    ("tflite-runtime", "dtln_lstm_int8"): 2,
    # Activations that are quantised on the fly, in 2.14 by another rule, turn the last bit of a sum into a step.
    ("tflite-runtime", "mobilenet_v1_0.25_128_dynq"): 0.02,
    ("ai-edge-litert", "mobilenet_v1_0.25_128_dynq"): 1e-3,
}


def bound(name):
    """How far a model's results may be from those of the interpreter's reference kernels."""
    return DIFFERENT.get((WHEEL, name), NEAR)


def model(name, folder="models"):
    return os.path.join(SHARED, folder, name, "model.tflite")


def delegate(**options):
    return load_delegate(LIBRARY, {key.replace("_", "-"): str(value) for key, value in options.items()})


def interpreter(path, delegates=None, **arguments):
    """An interpreter of a file, or of bytes; without delegates one of reference kernels."""
    arguments["model_content" if isinstance(path, bytes) else "model_path"] = path
    if delegates is None:
        arguments.setdefault("experimental_op_resolver_type", REFERENCE)
    made = Interpreter(experimental_delegates=delegates, **arguments)
    made.allocate_tensors()
    return made


def values(detail, seed):
    """Values for an input that depend on nothing but its details."""
    random = np.random.default_rng([seed, detail["index"]])
    kind, shape = detail["dtype"], detail["shape"]
    if np.issubdtype(kind, np.floating):
        return random.random(shape).astype(kind)
    if kind == np.bool_:
        return random.integers(0, 2, shape).astype(kind)
    if kind in (np.int32, np.int64):
        # They are indices as a rule.
        return random.integers(0, 3, shape).astype(kind)
    return random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True).astype(kind)


def run(it, seed=0):
    for detail in it.get_input_details():
        it.set_tensor(detail["index"], values(detail, seed))
    it.invoke()
    return [it.get_tensor(detail["index"]) for detail in it.get_output_details()]


def difference(got, want):
    """The largest difference relative to the largest value wanted; integers are to be equal."""
    worst = 0.0
    for one, other in zip(got, want, strict=True) if sys.version_info >= (3, 10) else zip(got, want):
        if one.shape != other.shape or one.dtype != other.dtype:
            return np.inf
        if np.array_equal(one, other):
            continue
        scale = 1.0
        if np.issubdtype(one.dtype, np.floating):
            scale = max(1.0, np.abs(other[np.isfinite(other)]).max(initial=0.0))
        worst = max(worst, np.abs(one.astype(np.float64) - other.astype(np.float64)).max() / scale)
    return worst


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def children():
    """Process ids of the children of this process."""
    found = []
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as listed:
            found += [int(child) for child in listed.read().split()]
    return found


def burst_threads(process="self"):
    """The threads of a process that compute what comes through bursts."""
    names = []
    for thread in os.listdir(f"/proc/{process}/task"):
        try:
            with open(f"/proc/{process}/task/{thread}/comm") as name:
                names.append(name.read().strip())
        except OSError:
            pass  # It ended meanwhile.
    return names.count("nnburst-burst")
