"""Runs the interpreter's reference kernels over the cases of a folder and compares.

    compare.py DIR      (in a Python with ai-edge-litert)

Prints a line per operator and type: cases that are equal, near, refused here, refused there, and those that differ.
"""
import collections
import json
import os
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def main(folder):
    rows = collections.defaultdict(collections.Counter)
    notes = {}
    for case in json.load(open(os.path.join(folder, "manifest.json"))):
        at = os.path.join(folder, str(case["case"]))
        key = (case["operator"], case["kind"])
        try:
            it = Interpreter(at + ".tflite", experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
            it.allocate_tensors()
            for index, detail in enumerate(it.get_input_details()):
                data = np.fromfile(f"{at}.in{index}", detail["dtype"]).reshape(detail["shape"])
                it.set_tensor(detail["index"], data)
            it.invoke()
        except (ValueError, RuntimeError) as error:
            rows[key]["interpreter refuses"] += 1
            notes.setdefault(("there", key), str(error).replace("\n", " ")[:140])
            continue
        if "refused" in case:
            rows[key]["refused"] += 1
            notes.setdefault(("refused", key), f"case {case['case']}: {case['refused']}"[:180])
            continue
        worst = "equal"
        for index, detail in enumerate(it.get_output_details()):
            want = it.get_tensor(detail["index"])
            got = np.fromfile(f"{at}.out{index}", detail["dtype"])
            want = want.ravel()
            if got.size != want.size:
                worst = "differs"
                notes.setdefault(("differs", key), f"case {case['case']}: {got.size} elements, {want.size} there")
            elif got.dtype.kind in "fc":
                both_nan = np.isnan(got) & np.isnan(want)
                near = np.isclose(got, want, rtol=1e-4, atol=1e-4) | both_nan
                if not near.all():
                    worst = "differs"
                    bad = int(np.argmin(near))
                    notes.setdefault(("differs", key), f"case {case['case']}: {got[bad]} for {want[bad]} at {bad}")
                elif not ((got == want) | both_nan).all() and worst == "equal":
                    worst = "near"
            elif not (got == want).all():
                worst = "differs"
                bad = int(np.argmax(got != want))
                count = int((got != want).sum())
                notes.setdefault(("differs", key), f"case {case['case']}: {count} of {got.size}, {got[bad]} for {want[bad]} at {bad}")
        rows[key][worst] += 1
        rows[key][case["route"]] += 1
    total = collections.Counter()
    for key in sorted(rows):
        row = rows[key]
        total.update({k: v for k, v in row.items() if k not in ("NNAPI", "extension")})
        print(f"{key[0]} {key[1]}: " + ", ".join(f"{v} {k}" for k, v in sorted(row.items())))
        for what in ("differs", "refused", "there"):
            if (what, key) in notes:
                print(f"    {what}: {notes[(what, key)]}")
    print("total:", ", ".join(f"{v} {k}" for k, v in sorted(total.items())))
    sys.exit(1 if total["differs"] else 0)


main(sys.argv[1])
