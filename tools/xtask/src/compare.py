"""Runs the interpreter's reference kernels over the cases of a folder and compares.

    compare.py DIR      (in a Python with ai-edge-litert)

Prints a line per operator and type: cases that are equal, near, refused here, refused there, and those that differ. The
interpreter runs in processes of their own: what it does with some files is undefined, and may end it.
"""
import collections
import json
import os
import subprocess
import sys


# Whose reference kernel looks at other channels than the plain one, which interpreters have, or
# adds up stored values without their zero point. Of no elements the plain one gives anything.
PLAIN = ["LOCAL_RESPONSE_NORMALIZATION", "SUM"]
# Which fills as many rows as its last result says, and leaves the others as they were.
COUNTED = ["TFLite_Detection_PostProcess"]


def value(interpreter, detail):
    """A result; the interpreter has no way to give one without elements."""
    try:
        return interpreter.get_tensor(detail["index"])
    except ValueError as error:
        if "Invalid tensor size" not in str(error):
            raise
        import numpy as np

        return np.empty(0, detail["dtype"])


def compare(folder, case):
    """The verdict on a case, and a note."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    at = os.path.join(folder, str(case["case"]))
    try:
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        is_plain = case["operator"] in PLAIN and not case["kind"].endswith("empty")
        first = plain if is_plain else OpResolverType.BUILTIN_REF
        try:
            it = Interpreter(at + ".tflite", experimental_op_resolver_type=first, num_threads=1)
            it.allocate_tensors()
        except ValueError as error:
            # Some operators have no reference kernel.
            if "Didn't find op" not in str(error):
                raise
            it = Interpreter(at + ".tflite", experimental_op_resolver_type=plain, num_threads=1)
            it.allocate_tensors()
        for index, detail in enumerate(it.get_input_details()):
            data = np.fromfile(f"{at}.in{index}", detail["dtype"]).reshape(detail["shape"])
            it.set_tensor(detail["index"], data)
        it.invoke()
    except (ValueError, RuntimeError) as error:
        return "interpreter refuses", str(error).replace("\n", " ")[:140]
    if "refused" in case:
        return "refused", f"case {case['case']}: {case['refused']}"[:180]
    verdict, note = "equal", None
    results = it.get_output_details()
    is_counted = case["operator"] in COUNTED
    rows = int(it.get_tensor(results[-1]["index"])[0]) if is_counted else None
    for index, detail in enumerate(results):
        want = value(it, detail)
        got = np.fromfile(f"{at}.out{index}", detail["dtype"])
        if is_counted and index < len(results) - 1 and got.size == want.size:
            got, want = got.reshape(want.shape)[0, :rows].ravel(), want[0, :rows]
        want = want.ravel()
        if got.size != want.size:
            verdict, note = "differs", f"case {case['case']}: {got.size} elements, {want.size} there"
        elif got.dtype.kind in "fc":
            both_nan = np.isnan(got) & np.isnan(want)
            near = np.isclose(got, want, rtol=1e-4, atol=1e-4) | both_nan
            if not near.all():
                bad = int(np.argmin(near))
                verdict, note = "differs", f"case {case['case']}: {got[bad]} for {want[bad]} at {bad}"
            elif not ((got == want) | both_nan).all() and verdict == "equal":
                verdict = "near"
        elif not (got == want).all():
            bad, count = int(np.argmax(got != want)), int((got != want).sum())
            verdict, note = "differs", f"case {case['case']}: {count} of {got.size}, {got[bad]} for {want[bad]} at {bad}"
    return verdict, note


def run(folder, start, end):
    """The verdicts on cases from `start` on, as far as one process gets."""
    command = [sys.executable, __file__, folder, str(start), str(end)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    lines = done.stdout.decode().split("\n")
    return [json.loads(line) for line in lines[:-1] if line.startswith("[")]


def verdicts(folder, count):
    """The verdict on each case. One that ends a process has a second chance in a process of its own."""
    found = []
    while len(found) < count:
        end = min(count, len(found) + 500)
        found += run(folder, len(found), end)
        if len(found) < end:
            alone = run(folder, len(found), len(found) + 1)
            found += alone or [["interpreter ends", f"case {len(found)}: the process died"]]
    return found


def main(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        cases = json.load(file)
    rows, notes = collections.defaultdict(collections.Counter), {}
    for case, (verdict, note) in zip(cases, verdicts(folder, len(cases))):
        key = (case["operator"], case["kind"])
        rows[key][verdict] += 1
        if "route" in case:
            rows[key][case["route"]] += 1
        if note:
            notes.setdefault((verdict, key), note)
    total = collections.Counter()
    for key in sorted(rows):
        row = rows[key]
        total.update({k: v for k, v in row.items() if k not in ("NNAPI", "extension")})
        print(f"{key[0]} {key[1]}: " + ", ".join(f"{v} {k}" for k, v in sorted(row.items())))
        for verdict in ("differs", "refused", "interpreter refuses", "interpreter ends"):
            if (verdict, key) in notes:
                print(f"    {verdict}: {notes[(verdict, key)]}")
    print("total:", ", ".join(f"{v} {k}" for k, v in sorted(total.items())))
    sys.exit(1 if total["differs"] else 0)


if len(sys.argv) > 2:
    with open(os.path.join(sys.argv[1], "manifest.json"), encoding="utf-8") as manifest:
        for one in json.load(manifest)[int(sys.argv[2]):int(sys.argv[3])]:
            print(json.dumps(compare(sys.argv[1], one)), flush=True)
else:
    main(sys.argv[1])
