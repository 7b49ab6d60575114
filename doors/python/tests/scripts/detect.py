"""Finds objects in pictures, in the manner of the scripts for accelerators: inputs are written in place."""
import collections
import sys

import numpy as np
from PIL import Image
from ai_edge_litert.interpreter import Interpreter

Object = collections.namedtuple("Object", ["id", "score", "bbox"])
BBox = collections.namedtuple("BBox", ["xmin", "ymin", "xmax", "ymax"])


def input_size(interpreter):
    _, height, width, _ = interpreter.get_input_details()[0]["shape"]
    return width, height


def input_tensor(interpreter):
    return interpreter.tensor(interpreter.get_input_details()[0]["index"])()[0]


def set_input(interpreter, size, resize):
    width, height = input_size(interpreter)
    w, h = size
    scale = min(width / w, height / h)
    w, h = int(w * scale), int(h * scale)
    tensor = input_tensor(interpreter)
    tensor.fill(0)
    tensor[:h, :w] = np.reshape(resize((w, h)), (h, w, 3))
    return scale, scale


def output_tensor(interpreter, i):
    return interpreter.tensor(interpreter.get_output_details()[i]["index"])()


def get_objects(interpreter, score_threshold):
    boxes = output_tensor(interpreter, 0)[0]
    class_ids = output_tensor(interpreter, 1)[0]
    scores = output_tensor(interpreter, 2)[0]
    count = int(output_tensor(interpreter, 3)[0])

    def make(i):
        ymin, xmin, ymax, xmax = boxes[i]
        return Object(int(class_ids[i]), float(scores[i]), BBox(xmin, ymin, xmax, ymax))

    return [make(i) for i in range(count) if scores[i] >= score_threshold]


interpreter = Interpreter(sys.argv[1])
interpreter.allocate_tensors()
for name in sys.argv[2:]:
    image = Image.open(name).convert("RGB")
    set_input(interpreter, image.size, lambda size: image.resize(size, Image.BILINEAR))
    for _ in range(2):
        interpreter.invoke()
    for found in get_objects(interpreter, 0.3):
        print(found.id, "%.3f" % found.score, " ".join("%.3f" % edge for edge in found.bbox))
