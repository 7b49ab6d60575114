"""Python's multiprocessing with the C library: a forked child gets OP_FAILED for its parent's objects, at once,
and computes with its own, while the parent's threads compute on."""
import ctypes
import multiprocessing
import os
import signal
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_void_p, sizeof

GUARD = 120  # seconds after which a process that hangs is ended
COUNT = 4
FLOATS = c_float * COUNT
TENSOR_FLOAT32, INT32, ADD, OP_FAILED = 3, 1, 0, 5

library = ctypes.CDLL("libneuralnetworks.so")
library.nnburst_lastError.restype = c_char_p


class OperandType(Structure):
    _fields_ = [("type", c_int32), ("dimensionCount", c_uint32), ("dimensions", POINTER(c_uint32)),
                ("scale", c_float), ("zeroPoint", c_int32)]


def call(name, *arguments):
    return getattr(library, "ANeuralNetworks" + name)(*arguments)


def ok(name, *arguments):
    code = call(name, *arguments)
    assert code == 0, (name, code, library.nnburst_lastError())


def device():
    wanted = os.environ.get("NNBURST_TEST_DEVICE", "nnapi-reference").encode()
    count, found, name = c_uint32(), c_void_p(), c_char_p()
    ok("_getDeviceCount", byref(count))
    for index in range(count.value):
        ok("_getDevice", c_uint32(index), byref(found))
        ok("Device_getName", found, byref(name))
        if name.value == wanted:
            return found
    raise AssertionError(f"{wanted} is not served")


class Compiled:
    """A sum of two tensors, compiled for one device, and a burst."""

    def __init__(self):
        shape = (c_uint32 * 1)(COUNT)
        floats = OperandType(TENSOR_FLOAT32, 1, shape, 0, 0)
        code = OperandType(INT32, 0, None, 0, 0)
        inputs, outputs, arguments = (c_uint32 * 2)(0, 1), (c_uint32 * 1)(3), (c_uint32 * 3)(0, 1, 2)
        self.model, self.compilation, self.burst = c_void_p(), c_void_p(), c_void_p()
        ok("Model_create", byref(self.model))
        for kind in (floats, floats, code, floats):
            ok("Model_addOperand", self.model, byref(kind))
        ok("Model_setOperandValue", self.model, 2, byref(c_int32(0)), c_size_t(4))
        ok("Model_addOperation", self.model, ADD, 3, arguments, 1, outputs)
        ok("Model_identifyInputsAndOutputs", self.model, 2, inputs, 1, outputs)
        ok("Model_finish", self.model)
        devices = (c_void_p * 1)(device())
        ok("Compilation_createForDevices", self.model, devices, c_uint32(1), byref(self.compilation))
        ok("Compilation_finish", self.compilation)
        ok("Burst_create", self.compilation, byref(self.burst))

    def run(self):
        a, b = FLOATS(1, 2, 3, 4), FLOATS(10, 20, 30, 40)
        for way in ("compute", "burstCompute", "startCompute"):
            total, execution, event = FLOATS(), c_void_p(), c_void_p()
            ok("Execution_create", self.compilation, byref(execution))
            ok("Execution_setInput", execution, 0, None, a, c_size_t(sizeof(a)))
            ok("Execution_setInput", execution, 1, None, b, c_size_t(sizeof(b)))
            ok("Execution_setOutput", execution, 0, None, total, c_size_t(sizeof(total)))
            if way == "compute":
                ok("Execution_compute", execution)
            elif way == "burstCompute":
                ok("Execution_burstCompute", execution, self.burst)
            else:
                ok("Execution_startCompute", execution, byref(event))
                ok("Event_wait", event)
                call("Event_free", event)
            assert list(total) == [11, 22, 33, 44], (way, list(total))
            call("Execution_free", execution)

    def fails(self):
        execution, burst = c_void_p(), c_void_p()
        for name, out in (("Execution_create", execution), ("Burst_create", burst)):
            code = call(name, self.compilation, byref(out))
            assert code == OP_FAILED, (name, code, library.nnburst_lastError())
        assert library.nnburst_lastError()

    def free(self):
        call("Burst_free", self.burst)
        call("Compilation_free", self.compilation)
        call("Model_free", self.model)


def child(parents, results):
    signal.alarm(GUARD)
    parents.fails()
    own = Compiled()
    own.run()
    parents.free()
    own.run()
    own.free()
    results.put("computed")


def main():
    signal.alarm(GUARD)
    context = multiprocessing.get_context("fork")
    ours = Compiled()
    ours.run()
    over = threading.Event()

    def compute():
        busy = Compiled()
        while not over.is_set():
            busy.run()
        busy.free()

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        results = context.Queue()
        process = context.Process(target=child, args=(ours, results))
        process.start()
        assert results.get(timeout=GUARD) == "computed"
        process.join(GUARD)
        assert process.exitcode == 0, process.exitcode
        ours.run()
    with context.Pool(2) as pool:
        assert pool.map(in_pool, range(4)) == [4] * 4
    over.set()
    for thread in threads:
        thread.join()
    ours.run()
    ours.free()


def in_pool(_):
    own = Compiled()
    own.run()
    own.free()
    return COUNT


if __name__ == "__main__":
    main()
