"""Every model of the shared folders: the delegate's results beside those of the interpreter's reference kernels."""
import os
import time
import unittest

import numpy as np

import interpreters as its

# The reference kernels have no scales of blocks and give zeros; the driver computes what the default kernels do.
NOT_COMPARED = {"qwen_fc_blockwise_quantized"}

# A driver in this process is called, or has a burst if asked for; one of its own always has one.
WAYS = [
    {"device": "embedded/nnburst-cpu", "mode": "auto"},
    {"device": "embedded/nnburst-cpu", "mode": "burst"},
    {"device": "spawn/nnburst-cpu"},
]


def models():
    for folder in ["models", "mlts", "tflite_zoo"]:
        root = os.path.join(its.SHARED, folder)
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
            path = its.model(name, folder)
            if os.path.isfile(path):
                yield name, path


class Models(unittest.TestCase):
    def check(self, path, name, want, options):
        """One way to the driver, by calls or by a burst: the results are the interpreter's."""
        is_spawned, has_burst = options["device"].startswith("spawn"), options.get("mode") != "auto"
        while its.burst_threads():
            time.sleep(0.001)  # Those of the last one end.
        ours = its.interpreter(path, [its.delegate(log="quiet", **options)],
                               experimental_op_resolver_type=its.REFERENCE)
        got = [its.run(ours, seed) for seed in range(2)]
        if any(op["op_name"] == "DELEGATE" for op in ours._get_ops_details()):
            bursts = its.burst_threads(its.children()[0] if is_spawned else "self")
            self.assertEqual(bursts > 0, has_burst, options)
        if name in NOT_COMPARED:
            self.assertTrue(all(np.isfinite(one).all() for one in got[0]))
            return
        for one, other in zip(got, want):
            self.assertLessEqual(its.difference(one, other), its.bound(name), options)

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
                compared += 1
                for options in WAYS:
                    self.check(path, name, want, options)
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
