"""Times TFLite with XNNPACK on a network whose golden values the shared script can't read.

    interpreter.py MODEL THREADS RUNS SECONDS AMPLITUDE      (in a Python with ai-edge-litert)

Inputs are seeded numbers, floats from 0 to the amplitude. Prints one JSON object: the median of the calls in microseconds, the bare Invoke each.
"""
import gc
import json
import statistics
import sys
import time

import numpy as np
from ai_edge_litert.interpreter import Interpreter

WARM_UP = 30


def filled(detail, numbers, amplitude):
    """A tensor of the input's type: floats from 0 to the amplitude, small integers, both truths."""
    shape, kind = detail["shape"], np.dtype(detail["dtype"])
    if kind.kind == "f":
        return (numbers.random(shape) * amplitude).astype(kind)
    return numbers.integers(0, 2 if kind.kind == "b" else 100, shape).astype(kind)


def main(model, threads, runs, seconds, amplitude):
    interpreter = Interpreter(model, num_threads=threads)
    interpreter.allocate_tensors()
    numbers = np.random.default_rng(1)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], filled(detail, numbers, amplitude))
    invoke, now = interpreter._interpreter.Invoke, time.perf_counter_ns
    gc.collect()
    gc.disable()
    end = now() + int(seconds * 0.15e9)
    for _ in range(WARM_UP):
        invoke()
        if now() > end:
            break
    times, end = [], now() + int(seconds * 1e9)
    while len(times) < runs and (not times or now() < end):
        start = now()
        invoke()
        times.append(now() - start)
    print(json.dumps({"median_us": statistics.median(times) / 1e3}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
