"""Every model of the shared folders: the delegate's results beside those of the interpreter's reference kernels."""
import os
import unittest

import numpy as np

import interpreters as its

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
                for one, other in zip(got, want):
                    self.assertLessEqual(its.difference(one, other), its.bound(name))
        self.assertGreater(compared, 0)

    def test_integers_are_the_same_but_for_one_operator(self):
        # Where TFLite's releases differ, the interpreter computes that operator in both.
        for name, folder in [("dtln_lstm_int8", "models"), ("mlperf_tiny_ad_int8", "mlts")]:
            path = its.model(name, folder)
            if not os.path.isfile(path):
                continue
            deny = {"deny_ops": "FULLY_CONNECTED"} if its.WHEEL == "tflite-runtime" else {}
            plain = its.interpreter(path)
            ours = its.interpreter(path, [its.delegate(log="quiet", min_nodes=1, **deny)],
                                   experimental_op_resolver_type=its.REFERENCE)
            for seed in range(20):
                self.assertEqual(its.difference(its.run(ours, seed), its.run(plain, seed)), 0, (name, seed))


if __name__ == "__main__":
    unittest.main()
