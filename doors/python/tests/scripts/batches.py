"""Evaluates many samples by batches, and meets what a script catches."""
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path=sys.argv[1], num_threads=2)
source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
samples = np.random.RandomState(3).normal(size=[10] + list(source["shape"][1:])).astype(np.float32)
for size in (1, 4, 5):
    interpreter.resize_tensor_input(source["index"], [size] + list(source["shape"][1:]))
    interpreter.allocate_tensors()
    for at in range(0, len(samples) - size + 1, size):
        interpreter.set_tensor(source["index"], samples[at : at + size])
        interpreter.invoke()
        for row in interpreter.get_tensor(target["index"]):
            print("%.2f" % (np.abs(row).sum()))


def refused(call):
    try:
        call()
    except (ValueError, RuntimeError) as error:
        kinds = [kind.__name__ for kind in (ValueError, RuntimeError, TypeError) if isinstance(error, kind)]
        print("refused", "ValueError" in kinds or "RuntimeError" in kinds)
    except TypeError:
        print("TypeError")
    else:
        print("taken")


index = source["index"]
refused(lambda: interpreter.set_tensor(index, samples[:5].astype(np.float64)))
refused(lambda: interpreter.set_tensor(index, samples[:4]))
refused(lambda: interpreter.set_tensor(index, samples[0]))
refused(lambda: interpreter.set_tensor("input", samples[:5]))
refused(lambda: interpreter.get_tensor(-1))
refused(lambda: interpreter.get_tensor(1 << 20))
refused(lambda: interpreter.get_tensor(0.5))
refused(lambda: interpreter.resize_tensor_input(1 << 20, [1]))
refused(lambda: interpreter.reset_all_variables())
refused(lambda: Interpreter(model_path=""))
refused(lambda: Interpreter(model_path="absent.tflite"))
refused(lambda: Interpreter(model_content=b""))
refused(lambda: Interpreter(model_content=b"no model" * 10))
refused(lambda: Interpreter(model_path=sys.argv[1], num_threads=0))
refused(lambda: Interpreter(model_path=sys.argv[1], experimental_op_resolver_type=None))
refused(lambda: Interpreter(model_path=sys.argv[1]).invoke())
refused(lambda: Interpreter(model_path=sys.argv[1]).get_tensor(index))
refused(lambda: Interpreter(model_path=sys.argv[1]).reset_all_variables())
refused(lambda: interpreter.get_signature_runner("absent"))
refused(lambda: interpreter.get_tensor_details(9))


def allocate(shape):
    other = Interpreter(model_path=sys.argv[1])
    other.resize_tensor_input(index, shape)
    other.allocate_tensors()


refused(lambda: allocate([3] + list(source["shape"][1:])))
