"""Every model of the shared folders: the delegate's results beside those of the interpreter's reference kernels."""
import os
import unittest

import numpy as np

import interpreters as its

# Differences of floats by sums in another order, relative to the largest value. Integers differ by 1 at least.
NEAR = 1e-5
# What differs by more, in steps or relative, with the reason.
ROUNDED_TWICE = "layers of 8 bits are rounded twice in tflite-runtime 2.14, once in later releases"
DIFFERENT = {
    ("tflite-runtime", "mlperf_tiny_ad_int8"): (2, ROUNDED_TWICE),
    ("tflite-runtime", "dtln_lstm_int8"): (2, ROUNDED_TWICE),
    # Activations that are quantised on the fly turn the last bit of a sum into a step.
    ("tflite-runtime", "mobilenet_v1_0.25_128_dynq"): (0.02, "quantised on the fly by another rule in 2.14"),
    ("ai-edge-litert", "mobilenet_v1_0.25_128_dynq"): (1e-3, "quantised on the fly"),
}
# The reference kernels have no scales of blocks and give zeros; the driver computes what the default kernels do.
NOT_COMPARED = {"qwen_fc_blockwise_quantized"}


def models():
    for folder in ["models", "mlts", "tflite_zoo"]:
        root = os.path.join(its.SHARED, folder)
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
            path = its.model(name, folder)
            if os.path.isfile(path):
                yield name, path


class Models(unittest.TestCase):
    def test_results_are_the_interpreters(self):
        compared = 0
        for name, path in models():
            with self.subTest(name):
                try:
                    plain = its.interpreter(path)
                    want = [its.run(plain, seed) for seed in range(2)]
                except (RuntimeError, ValueError) as error:
                    print(f"left out: {name} ({its.WHEEL} can't run it: {str(error).splitlines()[0][:80]})")
                    continue
                device = "spawn/nnburst-cpu" if compared % 4 == 0 else "embedded/nnburst-cpu"
                ours = its.interpreter(path, [its.delegate(device=device, log="quiet")],
                                       experimental_op_resolver_type=its.REFERENCE)
                got = [its.run(ours, seed) for seed in range(2)]
                compared += 1
                if name in NOT_COMPARED:
                    self.assertTrue(all(np.isfinite(one).all() for one in got[0]))
                    continue
                bound, _ = DIFFERENT.get((its.WHEEL, name), (None, ""))
                for one, other in zip(got, want):
                    self.assertLessEqual(its.difference(one, other), bound or NEAR)
        self.assertGreater(compared, 0)


if __name__ == "__main__":
    unittest.main()
