"""Recognises words: inputs are quantised and outputs are made floats by hand, by what the details say."""
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path=sys.argv[1], num_threads=1)
interpreter.allocate_tensors()
source = interpreter.get_input_details()[0]
target = interpreter.get_output_details()[0]
stream = np.random.RandomState(int(sys.argv[2])).uniform(0, 20, [30] + list(source["shape"]))


def as_input(features):
    if source["dtype"] == np.float32:
        return features.astype(np.float32)
    scale, zero_point = source["quantization"]
    limits = np.iinfo(source["dtype"])
    return np.clip(np.round(features / scale) + zero_point, limits.min, limits.max).astype(source["dtype"])


def as_floats(output):
    if target["dtype"] == np.float32:
        return output
    parameters = target["quantization_parameters"]
    scale, zero_point = parameters["scales"][0], parameters["zero_points"][0]
    return (output.astype(np.float32) - zero_point) * scale


for step, features in enumerate(stream):
    if step == 20:
        interpreter.reset_all_variables()
    interpreter.set_tensor(source["index"], as_input(features))
    interpreter.invoke()
    scores = as_floats(interpreter.get_tensor(target["index"]))[0]
    print(step, scores.argmax(), " ".join("%.3f" % abs(score) for score in scores))
