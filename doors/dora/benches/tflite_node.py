"""The node to compare with: TFLite in Python, as a user of dora would write it.

Arguments: MODEL AT_LEAST_MS. Input `frame` of RGB pixels in the model's size, outputs `results` and `status`.
"""

import sys
import time

import numpy
import pyarrow
from ai_edge_litert.interpreter import Interpreter
from dora import Node

model, at_least = sys.argv[1], float(sys.argv[2]) / 1e3
interpreter = Interpreter(model_path=model, num_threads=1)
interpreter.allocate_tensors()
picture, scores = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
node = Node()
inferred = 0
for event in node:
    if event["type"] != "INPUT":
        continue
    begun = time.monotonic()
    pixels = event["value"].to_numpy().reshape(picture["shape"])
    if picture["dtype"] == numpy.float32:
        pixels = pixels.astype(numpy.float32) / 127.5 - 1
    interpreter.set_tensor(picture["index"], pixels)
    interpreter.invoke()
    values = interpreter.get_tensor(scores["index"])[0]
    took = time.monotonic() - begun
    time.sleep(max(0.0, at_least - took))
    best = numpy.argsort(values)[-5:][::-1]
    found = [{"class": int(index), "score": float(values[index])} for index in best]
    kept = {key: event["metadata"][key] for key in ("seq", "capture_ns", "source")}
    node.send_output("results", pyarrow.array(found), {**kept, "node": "infer", "driver_us": int(took * 1e6)})
    inferred += 1
    told = {"inferred": inferred, "cpu_ms": int(time.process_time() * 1e3)}
    node.send_output("status", pyarrow.array(["counts"]), told)
