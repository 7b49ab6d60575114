"""The delegate in an interpreter of a wheel from PyPI, as `cargo xtask doors tflite-delegate` runs it.

    NNBURST_DELEGATE=target/debug/libnnburst_tflite.so NNBURST_DRIVER=$PWD/target/debug/nnburst \\
        NNBURST_SHARED=../shared python -m unittest discover -s doors/tflite-delegate/tests
"""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import interpreters as its

QUANT = its.model("mobilenet_v1_0.25_128_quant")
FLOAT = its.model("mobilenet_v1_0.25_128")
NEAR = its.NEAR


def operators(it):
    return [op["op_name"] for op in it._get_ops_details()]


def said(program, **environment):
    """What a program of this folder's modules writes to standard error, and how it ends."""
    ended = subprocess.run(
        [sys.executable, "-c", "import interpreters as its\n" + program],
        capture_output=True, text=True, timeout=300, cwd=os.path.dirname(os.path.abspath(__file__)),
        env={**os.environ, **environment})
    return ended.stderr, ended.returncode


class Options(unittest.TestCase):
    def refused(self, **options):
        with self.assertRaises(ValueError) as raised:
            its.delegate(**options)
        return str(raised.exception)

    def test_wrong_ones_are_refused_with_those_that_there_are(self):
        error = self.refused(thread=1)
        for key in ["device", "wait", "mode", "threads", "cache-dir", "min-nodes", "deny-ops", "model"]:
            self.assertIn(key, error)
        self.assertIn("embedded/NAME", self.refused(device="gpu"))
        self.assertIn("nnburst-cpu", self.refused(device="embedded/gpu"))
        self.assertIn("a number from 1", self.refused(max_partitions=0))

    def test_a_device_that_is_not_there_is_an_error_or_leaves_all_to_the_interpreter(self):
        error = self.refused(device="connect/nobody")
        self.assertIn("nobody", error)
        it = its.interpreter(QUANT, [its.delegate(device="connect/nobody", on_error="cpu", log="quiet")],
                             experimental_op_resolver_type=its.REFERENCE)
        self.assertEqual(its.difference(its.run(it), its.run(its.interpreter(QUANT))), 0)
        error, _ = said("its.delegate(device='spawn/nnburst-cpu')", NNBURST_DRIVER="/nowhere/nnburst")
        self.assertIn("NNBURST_DRIVER: /nowhere", error)

    def test_operators_are_left_as_asked_and_the_log_says_why(self):
        program = f"""
its.interpreter({QUANT!r}, [its.delegate(deny_ops='SOFTMAX')])
its.interpreter({QUANT!r}, [its.delegate(allow_ops='CONV_2D', min_nodes=1, max_partitions=3)])
its.interpreter({QUANT!r}, [its.delegate(log='quiet')])
"""
        written, code = said(program)
        self.assertEqual(code, 0, written)
        self.assertIn("30 of 31 operators run on embedded/nnburst-cpu, in one partition", written)
        self.assertIn("left to the interpreter: SOFTMAX (30): option deny-ops", written)
        self.assertIn("3 of 31 operators run on embedded/nnburst-cpu, in 3 partitions", written)
        self.assertIn("not in option allow-ops", written)
        self.assertEqual(written.count("operators run on"), 2, written)

    def test_a_driver_of_another_process_has_a_burst(self):
        want = its.run(its.interpreter(QUANT))
        for mode in ["auto", "burst", "sync"]:
            it = its.interpreter(QUANT, [its.delegate(device="spawn/nnburst-cpu", mode=mode, log="quiet")])
            self.assertEqual(its.difference(its.run(it), want), 0)
            self.assertEqual(its.burst_threads(its.children()[0]), mode != "sync", mode)
            del it

    def test_a_service_is_used_by_bursts_and_its_end_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            program = f"""
import os, subprocess, time
driver = subprocess.Popen([os.environ['NNBURST_DRIVER'], 'serve'], stdout=subprocess.DEVNULL)
def connected():
    for _ in range(3000):
        try:
            return its.delegate(device='connect/nnburst-cpu', log='quiet')
        except ValueError:
            time.sleep(0.02)
shared = connected()
ours = [its.interpreter({QUANT!r}, [shared]) for _ in range(2)]
want = its.run(its.interpreter({QUANT!r}))
assert all(its.difference(its.run(it), want) == 0 for it in ours)
assert its.burst_threads(driver.pid) == 2, its.burst_threads(driver.pid)
driver.kill()
driver.wait()
try:
    ours[0].invoke()
except RuntimeError as error:
    assert 'nnburst-cpu died' in str(error), error
else:
    raise AssertionError('no error')
"""
            written, code = said(program, XDG_RUNTIME_DIR=folder)
            self.assertEqual(code, 0, written)

    def test_parts_give_what_the_whole_gives(self):
        want = its.run(its.interpreter(QUANT))
        for options in [dict(deny_ops="RESHAPE"), dict(allow_ops="CONV_2D", min_nodes=1, max_partitions=99),
                        dict(deny_ops="CONV_2D", min_nodes=1, max_partitions=5), dict(mode="sync"), dict(mode="burst"),
                        dict(threads=2), dict(wait="spin"), dict(wait="block")]:
            it = its.interpreter(QUANT, [its.delegate(log="quiet", **options)], num_threads=2,
                                 experimental_op_resolver_type=its.REFERENCE)
            self.assertEqual(its.difference(its.run(it), want), 0, options)

    def test_a_cache_is_filled_and_read(self):
        with tempfile.TemporaryDirectory() as folder:
            want = its.run(its.interpreter(QUANT))
            cache = os.path.join(folder, "a", "cache")
            for _ in range(2):
                it = its.interpreter(QUANT, [its.delegate(cache_dir=cache, log="quiet")])
                self.assertEqual(its.difference(its.run(it), want), 0)
                files = sorted(os.listdir(cache))
                self.assertTrue(files)
            self.assertEqual(files, sorted(os.listdir(cache)))
        written, code = said(f"its.run(its.interpreter({QUANT!r}, [its.delegate(cache_dir='/proc/cache')]))")
        self.assertEqual(code, 0, written)
        self.assertIn("warning: nothing is cached: /proc/cache: ", written)


class Models(unittest.TestCase):
    def test_a_whole_model_is_one_operator(self):
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            it = its.interpreter(QUANT, [its.delegate(device=device, log="quiet")])
            self.assertEqual(operators(it)[-1], "DELEGATE")
            for seed in range(3):
                self.assertEqual(its.difference(its.run(it, seed), its.run(its.interpreter(QUANT), seed)), 0)

    def test_custom_operators_that_the_interpreter_has_not_are_the_drivers(self):
        # MediaPipe's Convolution2DTransposeBias, and NEG.
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "custom_operator.tflite")
        with self.assertRaisesRegex(RuntimeError, "unresolved custom op"):
            its.interpreter(path)
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            it = its.interpreter(path, [its.delegate(device=device, log="quiet")])
            (source,), (target,) = it.get_input_details(), it.get_output_details()
            it.set_tensor(source["index"], np.array([[[[1], [2]], [[3], [4]]]], np.float32))
            it.invoke()
            want = [[-1.5, -2.5, -2.5, -4.5], [-3.5, -4.5, -6.5, -8.5],
                    [-3.5, -6.5, -4.5, -8.5], [-9.5, -12.5, -12.5, -16.5]]
            self.assertEqual(it.get_tensor(target["index"])[0, :, :, 0].tolist(), want)

    def test_contents_are_found_in_memory(self):
        padding = [bytes(1 << size) for size in range(8, 20)]
        for path in [QUANT, its.model("add1_float"), its.model("hello_world_int8"), its.model("mnist_lstm_int8")]:
            with open(path, "rb") as file:
                contents = file.read()
            it = its.interpreter(contents, [its.delegate(log="quiet")])
            self.assertIn("DELEGATE", operators(it))
            self.assertLess(its.difference(its.run(it), its.run(its.interpreter(path))), NEAR, path)
            named = its.interpreter(contents, [its.delegate(model=path, log="quiet")])
            self.assertLess(its.difference(its.run(named), its.run(its.interpreter(path))), NEAR, path)
        del padding

    def test_another_file_than_the_model_is_refused(self):
        with open(QUANT, "rb") as file:
            contents = file.read()
        with self.assertRaisesRegex((RuntimeError, ValueError), "not the interpreter's model"):
            its.interpreter(contents, [its.delegate(model=FLOAT, log="quiet")])
        with self.assertRaisesRegex((RuntimeError, ValueError), "nowhere"):
            its.interpreter(contents, [its.delegate(model="/nowhere", log="quiet")])
        it = its.interpreter(contents, [its.delegate(log="quiet")])
        self.assertEqual(its.difference(its.run(it), its.run(its.interpreter(QUANT))), 0)

    def test_a_file_that_was_replaced_since_is_not_used(self):
        import shutil
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.tflite")
            shutil.copy(QUANT, path)
            # The interpreter maps the file when it is made, and only then is it known to delegates.
            opened = its.Interpreter
            made = its.delegate(log="quiet")
            it = opened(model_path=path, experimental_delegates=[made])
            shutil.copy(FLOAT, os.path.join(folder, "other"))
            os.rename(os.path.join(folder, "other"), path)
            it.resize_tensor_input(it.get_input_details()[0]["index"], [1, 128, 128, 3])
            it.allocate_tensors()
            self.assertEqual(its.difference(its.run(it), its.run(its.interpreter(QUANT))), 0)

    def test_inputs_are_resized_before_and_after(self):
        for path, sizes in [(its.model("hello_world_float"), [4, 1, 7]), (its.model("mul_quant", "tflite_zoo"), [])]:
            if not os.path.exists(path):
                continue
            plain, ours = its.interpreter(path), its.interpreter(path, [its.delegate(log="quiet")])
            for size in sizes:
                for it in [plain, ours]:
                    detail = it.get_input_details()[0]
                    it.resize_tensor_input(detail["index"], [size, *detail["shape"][1:]])
                    it.allocate_tensors()
                self.assertLess(its.difference(its.run(ours, size), its.run(plain, size)), NEAR)

    def test_open_extents_that_are_too_few_are_resized_later(self):
        # A window of eight on a line of whatever length, which the file says is one.
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "open_line.tflite")
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            it = its.interpreter(path, [its.delegate(device=device, log="quiet")])
            (source,), (target,) = it.get_input_details(), it.get_output_details()
            it.set_tensor(source["index"], np.ones([1, 1, 1, 1], np.float32))
            with self.assertRaisesRegex(RuntimeError, "filter of shape .* on an input of shape"):
                it.invoke()
            for length in [8, 21, 12]:
                it.resize_tensor_input(source["index"], [1, 1, length, 1])
                it.allocate_tensors()
                self.assertEqual(operators(it)[-1], "DELEGATE")
                line = np.arange(length, dtype=np.float32) - 5
                it.set_tensor(source["index"], line.reshape(1, 1, length, 1))
                it.invoke()
                factors = np.arange(8, dtype=np.float32) - 3.5
                starts = range(0, length - 7, 4)
                want = [max(0.0, float(line[at : at + 8] @ factors) + 0.5) for at in starts]
                self.assertEqual(it.get_tensor(target["index"]).flatten().tolist(), want)

    def test_a_network_resized_to_no_elements_is_refused_by_the_tensors_name(self):
        path = its.model("hello_world_float")
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            ours, plain = its.interpreter(path, [its.delegate(device=device, log="quiet")]), its.interpreter(path)
            detail = ours.get_input_details()[0]
            ours.resize_tensor_input(detail["index"], [0, 1])
            with self.assertRaises(RuntimeError) as raised:
                ours.allocate_tensors()
            self.assertIn(detail["name"], str(raised.exception))
            self.assertIn("has no elements", str(raised.exception))
            # Nothing is lost: other extents are taken again.
            for it in [ours, plain]:
                it.resize_tensor_input(detail["index"], [2, 1])
                it.allocate_tensors()
            self.assertLess(its.difference(its.run(ours, 2), its.run(plain, 2)), NEAR)

    def test_only_other_nodes_or_shapes_are_compiled(self):
        def compiled(program):
            written, code = said("import numpy as np\n" + program)
            self.assertEqual(code, 0, written)
            return written.count("nnburst-tflite: compiled ")

        path = its.model("hello_world_float")
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            shared = f"shared = its.delegate(log='all', device='{device}')\n"
            one = shared + f"it = its.interpreter({path!r}, [shared])\n"
            self.assertEqual(compiled(one + "for _ in range(3): it.allocate_tensors(); its.run(it)"), 1)
            resized = """
def sized(count):
    it.resize_tensor_input(it.get_input_details()[0]['index'], [count, 1])
    it.allocate_tensors()
    for seed in range(3): its.run(it, seed)
for count in SIZES: sized(count)
"""
            # Shapes that were there before are compiled already, the last eight of them.
            sizes = [([1, 1], 1), ([4], 2), ([4, 1, 4, 1, 7, 4], 3), ([*range(1, 9), *range(1, 9)], 8),
                     ([*range(1, 10), 1], 10)]
            for these, count in sizes:
                self.assertEqual(compiled(one + resized.replace("SIZES", repr(these))), count, these)
            # Interpreters of one delegate share what is compiled; other nodes or another file are compiled anew.
            two = shared + "its_alive = [its.interpreter(path, [shared]) for path in [FILES]]\nfor it in its_alive: its.run(it)"
            self.assertEqual(compiled(two.replace("FILES", f"{path!r}, {path!r}")), 1)
            self.assertEqual(compiled(two.replace("FILES", f"{path!r}, {QUANT!r}, {path!r}")), 2)
            parts = f"its.run(its.interpreter({QUANT!r}, [its.delegate(log='all', deny_ops='SOFTMAX')]))"
            self.assertEqual(compiled(parts), 1)

    def test_dynamic_tensors_stay_with_the_interpreter(self):
        path = its.model("simple_topk_op_runtime_k", "tflite_zoo")
        ours, plain = its.interpreter(path, [its.delegate(log="quiet")]), its.interpreter(path)
        for k in [3, 1, 5]:
            for it in [ours, plain]:
                for detail in it.get_input_details():
                    value = its.values(detail, 0)
                    it.set_tensor(detail["index"], np.int32(k) if value.dtype == np.int32 else value)
                it.invoke()
            outputs = [[it.get_tensor(detail["index"]) for detail in it.get_output_details()] for it in [ours, plain]]
            self.assertEqual(its.difference(*outputs), 0)
            self.assertEqual(outputs[0][0].shape[-1], k)

    def test_variables_are_kept_and_reset_in_mid_stream(self):
        for name in ["kws_svdf_float_synthetic", "dtln_lstm_int8", "mnist_lstm_int8", "mlperf_tiny_kws_hybrid"]:
            folder = "mlts" if name.startswith("mlperf") else "models"
            path = its.model(name, folder)
            for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
                ours, plain = its.interpreter(path, [its.delegate(device=device, log="quiet")]), its.interpreter(path)
                for step in range(12):
                    if step in (5, 9):
                        ours.reset_all_variables()
                        plain.reset_all_variables()
                    got, want = its.run(ours, step), its.run(plain, step)
                    self.assertLessEqual(its.difference(got, want), its.bound(name), (name, device, step))
                    if step in (0, 5, 9):
                        first = its.run(its.interpreter(path, [its.delegate(log="quiet")]), step)
                        self.assertEqual(its.difference(got, first), 0, (name, device, step))


class Lives(unittest.TestCase):
    def test_variables_with_a_name_are_a_partitions_own(self):
        # A sum that begins at [10, 20].
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "running_sum.tflite")
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            shared = its.delegate(device=device, log="quiet")
            both = [its.interpreter(path, [shared]) for _ in range(2)]
            sums = [[10.0, 20.0], [10.0, 20.0]]
            for turn in range(6):
                at = turn % 3 % 2
                it, sum_ = both[at], sums[at]
                self.assertEqual(operators(it)[-1], "DELEGATE")
                if turn == 4:
                    it.allocate_tensors()
                x = [turn + 1.0, turn * 0.5]
                it.set_tensor(it.get_input_details()[0]["index"], np.array([x], np.float32))
                it.invoke()
                sum_[:] = [sum_[0] + x[0], sum_[1] + x[1]]
                self.assertEqual(it.get_tensor(it.get_output_details()[0]["index"]).tolist(), [sum_])
            for driver in its.children() if device.startswith("spawn") else []:
                os.kill(driver, signal.SIGKILL)
                it = both[0]
                with self.assertRaisesRegex(RuntimeError, "died"):
                    it.invoke()
                it.set_tensor(it.get_input_details()[0]["index"], np.array([[1, 2]], np.float32))
                it.invoke()
                got = it.get_tensor(it.get_output_details()[0]["index"]).tolist()
                self.assertEqual(got, [[sums[0][0] + 1, sums[0][1] + 2]], "since the last success")
            # Half of what uses it is not enough.
            left = its.interpreter(path, [its.delegate(device=device, log="quiet", deny_ops="READ_VARIABLE")])
            for turn in range(3):
                left.set_tensor(left.get_input_details()[0]["index"], np.array([[1, 2]], np.float32))
                left.invoke()
                got = left.get_tensor(left.get_output_details()[0]["index"]).tolist()
                self.assertEqual(got, [[11.0 + turn, 22.0 + 2 * turn]])

    def test_two_interpreters_share_a_delegate(self):
        shared = its.delegate(log="quiet", device="spawn/nnburst-cpu")
        paths = [QUANT, FLOAT, its.model("dtln_lstm_int8")]
        ours = [its.interpreter(path, [shared]) for path in paths]
        self.assertEqual(len(its.children()), 1, "one driver")
        for it, path in zip(ours, paths):
            alone = its.interpreter(path, [its.delegate(log="quiet")])
            self.assertEqual(its.difference(its.run(it), its.run(alone)), 0)

    def test_threads_have_interpreters_of_their_own(self):
        shared = its.delegate(log="quiet")
        want = [its.run(its.interpreter(QUANT), seed) for seed in range(4)]
        wrong = []

        def work(number):
            it = its.interpreter(QUANT, [shared if number % 2 else its.delegate(log="quiet")])
            for step in range(20):
                if its.difference(its.run(it, step % 4), want[step % 4]) != 0:
                    wrong.append((number, step))

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_results_are_the_same_however_the_program_rounds_and_traps(self):
        # In a program of its own: what an operation that traps leaves is the end of it.
        program = f"""
import ctypes
libm = ctypes.CDLL("libm.so.6")
# Of <fenv.h>: FE_DOWNWARD, and FE_INVALID with FE_DIVBYZERO and FE_OVERFLOW, which Arm has no traps for.
DOWNWARD, TRAPS = {{"x86_64": (0x400, 0x0D), "aarch64": (0x800000, 0)}}[{os.uname().machine!r}]

def results(mode, traps):
    def within(run):
        libm.fesetround(mode)
        libm.feenableexcept(traps)
        result = run()
        kept = libm.fegetround() == mode and libm.fegetexcept() == traps
        libm.fedisableexcept(traps)
        libm.fesetround(0)
        assert kept, "the thread's own mode"
        return result

    it = within(lambda: its.interpreter({FLOAT!r}, [its.delegate(log="quiet")]))
    for detail in it.get_input_details():
        it.set_tensor(detail["index"], its.values(detail, 1))
    within(it.invoke)
    return it.get_tensor(it.get_output_details()[0]["index"]).tobytes()

plain = results(0, 0)
assert results(DOWNWARD, 0) == plain, "another mode of rounding"
assert results(0, TRAPS) == plain, "exceptions that end a program"
"""
        self.assertEqual(said(program), ("", 0))

    def test_an_interpreter_moves_between_threads(self):
        it = its.interpreter(QUANT, [its.delegate(log="quiet", device="spawn/nnburst-cpu")])
        want = its.run(its.interpreter(QUANT))
        for _ in range(4):
            got = []
            thread = threading.Thread(target=lambda: got.append(its.run(it)))
            thread.start()
            thread.join()
            self.assertEqual(its.difference(got[0], want), 0)

    def test_nothing_is_left_of_200_lives(self):
        def live(count):
            for number in range(count):
                device = "spawn/nnburst-cpu" if number % 20 == 0 else "embedded/nnburst-cpu"
                it = its.interpreter(QUANT, [its.delegate(log="quiet", device=device)])
                its.run(it)
                del it

        live(40)
        descriptors, resident = its.descriptors(), its.resident_kib()
        live(200)
        self.assertEqual(its.descriptors(), descriptors)
        self.assertLess(its.resident_kib() - resident, 4096)
        self.assertEqual(its.children(), [])

    def test_nothing_is_left_of_10000_calls(self):
        path = its.model("hello_world_int8")
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            it = its.interpreter(path, [its.delegate(log="quiet", device=device)])

            def calls(count):
                for seed in range(count):
                    its.run(it, seed)

            calls(1000)
            descriptors, resident = its.descriptors(), its.resident_kib()
            calls(10000)
            self.assertEqual(its.descriptors(), descriptors, device)
            self.assertLess(its.resident_kib() - resident, 1024, device)
            del it

    def test_a_killed_driver_is_an_exception_and_the_next_invoke_works(self):
        it = its.interpreter(QUANT, [its.delegate(device="spawn/nnburst-cpu", log="quiet")])
        want = its.run(it)
        for _ in range(2):
            (driver,) = its.children()
            os.kill(driver, signal.SIGKILL)
            with self.assertRaisesRegex(RuntimeError, r"driver nnburst-cpu died \(signal 9, SIGKILL\); restarted"):
                it.invoke()
            self.assertEqual(its.difference(its.run(it), want), 0)
            self.assertNotEqual(its.children(), [driver])

    def test_a_driver_is_ended_by_signals_but_not_by_the_terminals(self):
        it = its.interpreter(QUANT, [its.delegate(device="spawn/nnburst-cpu", log="quiet")])
        its.run(it)
        (driver,) = its.children()
        # Ctrl-C goes to the group of this program, which may finish what it does.
        self.assertNotEqual(os.getpgid(driver), os.getpgid(0))
        os.kill(driver, signal.SIGTERM)
        limit = time.monotonic() + 60
        with self.assertRaisesRegex(RuntimeError, "SIGTERM"):
            while time.monotonic() < limit:
                it.invoke()

    def test_all_kernels_of_a_dead_driver_go_on(self):
        shared = its.delegate(device="spawn/nnburst-cpu", log="quiet")
        ours = [its.interpreter(QUANT, [shared]) for _ in range(2)]
        want = its.run(ours[0])
        its.run(ours[1])
        os.kill(its.children()[0], signal.SIGKILL)
        with self.assertRaisesRegex(RuntimeError, "SIGKILL"):
            ours[0].invoke()
        for it in ours:
            self.assertEqual(its.difference(its.run(it), want), 0)
        self.assertEqual(len(its.children()), 1)

    def test_a_forked_child_gets_an_error_and_its_parent_no_harm(self):
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            it = its.interpreter(QUANT, [its.delegate(device=device, log="quiet")])
            want = its.run(it)
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                code = 1
                try:
                    it.invoke()
                except RuntimeError as error:
                    code = 0 if "forked" in str(error) else 2
                if code == 0:
                    # One of its own works.
                    own = its.interpreter(QUANT, [its.delegate(device=device, log="quiet")])
                    code = 0 if its.difference(its.run(own), want) == 0 else 3
                    del own, it
                os._exit(code)
            _, status = os.waitpid(child, 0)
            self.assertEqual(status, 0, device)
            self.assertEqual(its.difference(its.run(it), want), 0)

    def test_any_order_at_the_end_of_the_program(self):
        program = f"""
delegate = its.delegate(log='quiet', device='DEVICE')
it = its.interpreter({QUANT!r}, [delegate])
its.run(it)
"""
        for device in ["embedded/nnburst-cpu", "spawn/nnburst-cpu"]:
            for end in ["", "del delegate, it", "del it, delegate", "import sys; sys.exit(0)"]:
                written, code = said(program.replace("DEVICE", device) + end)
                self.assertEqual((code, written.replace("INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\n", "")),
                                 (0, ""), end)


if __name__ == "__main__":
    unittest.main()
