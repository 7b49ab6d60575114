#!/usr/bin/env python3
"""Writes a .tflite classifier of 224 x 224 pictures that computes next to nothing, for trials with `at-least`.

usage: small_model.py FILE    (needs ai-edge-litert and flatbuffers)
"""

import sys

import flatbuffers
import numpy
from ai_edge_litert import schema_py_generated as schema


def tensor(name, shape, kind, buffer=0):
    made = schema.TensorT()
    made.name, made.shape, made.type, made.buffer = name, shape, kind, buffer
    made.quantization = schema.QuantizationParametersT()
    if kind == schema.TensorType.UINT8:
        made.quantization.scale, made.quantization.zeroPoint = [1.0], [0]
    return made


def model():
    """The picture's first twelve values as scores: SLICE and RESHAPE."""
    bytes_, words = schema.TensorType.UINT8, schema.TensorType.INT32
    made, graph = schema.ModelT(), schema.SubGraphT()
    made.version, made.subgraphs = 3, [graph]
    made.buffers = [schema.BufferT() for _ in range(4)]
    for buffer, values in zip(made.buffers[1:], ([0, 0, 0, 0], [1, 1, 4, 3], [1, 12])):
        buffer.data = numpy.frombuffer(numpy.array(values, dtype=numpy.int32).tobytes(), dtype=numpy.uint8)
    graph.tensors = [
        tensor(b"picture", [1, 224, 224, 3], bytes_),
        tensor(b"begin", [4], words, 1),
        tensor(b"size", [4], words, 2),
        tensor(b"part", [1, 1, 4, 3], bytes_),
        tensor(b"shape", [2], words, 3),
        tensor(b"scores", [1, 12], bytes_),
    ]
    graph.inputs, graph.outputs, graph.operators, made.operatorCodes = [0], [5], [], []
    steps = [(schema.BuiltinOperator.SLICE, [0, 1, 2], [3]), (schema.BuiltinOperator.RESHAPE, [3, 4], [5])]
    for index, (code, inputs, outputs) in enumerate(steps):
        kind, step = schema.OperatorCodeT(), schema.OperatorT()
        kind.builtinCode = kind.deprecatedBuiltinCode = code
        kind.version = 1
        step.opcodeIndex, step.inputs, step.outputs = index, inputs, outputs
        made.operatorCodes.append(kind)
        graph.operators.append(step)
    builder = flatbuffers.Builder(1024)
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(model())
