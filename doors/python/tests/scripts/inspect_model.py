"""Writes what is in a model: tensors, operators and signatures."""
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps, OpResolverType

with open(sys.argv[1], "rb") as file:
    content = file.read()
interpreter = InterpreterWithCustomOps(
    custom_op_registerers=None,
    model_content=content,
    experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    experimental_preserve_all_tensors=False,
)
print(interpreter.num_subgraphs(), "subgraphs", interpreter.get_signature_list())
for detail in interpreter.get_tensor_details():
    parameters = detail["quantization_parameters"]
    print(detail["index"], detail["name"], np.dtype(detail["dtype"]).name, *detail["shape"], *detail["shape_signature"])
    print("  ", detail["quantization"], parameters["scales"], parameters["zero_points"], parameters["quantized_dimension"],
          parameters["block_size"], detail["sparsity_parameters"])
interpreter.allocate_tensors()
for op in interpreter._get_ops_details():
    if op["op_name"] != "DELEGATE":
        print(op["index"], op["op_name"], op["inputs"], op["outputs"], op["operand_types"], op["result_types"])
if interpreter.get_signature_list():
    run = interpreter.get_signature_runner()
    shapes = {name: detail["shape"] for name, detail in run.get_input_details().items()}
    ones = {name: np.ones(shape, run.get_input_details()[name]["dtype"]) for name, shape in shapes.items()}
    for name, value in sorted(run(**ones).items()):
        print(name, value.shape, value.dtype, np.round(np.abs(value.astype(np.float64)).sum(), 3))
