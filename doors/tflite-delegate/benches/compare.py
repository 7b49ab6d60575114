"""Time per inference: TFLite with XNNPACK, and the delegate with a driver in this process and in one of its own.

    NNBURST_DELEGATE=target/release/libnnburst_tflite.so NNBURST_DRIVER=$PWD/target/release/nnburst \\
        NNBURST_SHARED=../shared python doors/tflite-delegate/benches/compare.py [SECONDS] [MODEL..]

One run, one thread each, in rounds that take turns: a round calls each interpreter for some hundredths of a second and
keeps its median. Printed are the medians of the rounds in microseconds, and those of the ratios within a round with
their quartiles. MODEL is FOLDER/NAME below the shared folder; without one it is every model there, SECONDS (3) each. The
last lines name the models on which a driver takes longer than XNNPACK.
"""
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests"))
import interpreters as its  # noqa: E402

ROUNDS = 15


def made(path):
    """The interpreters by their name, ready: inputs set, warm."""
    delegates = {
        "XNNPACK": None,
        "embedded": [its.delegate(device="embedded/nnburst-cpu", log="quiet")],
        "spawn": [its.delegate(device="spawn/nnburst-cpu", log="quiet")],
    }
    found = {}
    for name, chosen in delegates.items():
        resolver = its.OpResolverType.AUTO if chosen is None else its.REFERENCE
        it = its.interpreter(path, chosen, num_threads=1, experimental_op_resolver_type=resolver)
        for seed in range(3):
            its.run(it, seed)
        found[name] = it
    return found


def median_us(it, seconds):
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter_ns()
        it.invoke()
        times.append(time.perf_counter_ns() - start)
    return np.median(times) / 1000


def every_model():
    for folder in ["models", "mlts", "tflite_zoo"]:
        for name in sorted(os.listdir(os.path.join(its.SHARED, folder))):
            if os.path.isfile(its.model(name, folder)):
                yield f"{folder}/{name}"


def microseconds(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def row(name, seconds):
    """Measures a model and prints its row; returns the medians of both ratios."""
    all_made = made(its.model(*reversed(name.split("/"))))
    rounds = [{which: median_us(it, seconds / ROUNDS / 3) for which, it in all_made.items()} for _ in range(ROUNDS)]
    cells = [f"`{name.split('/')[-1]}`"]
    cells += [microseconds(np.median([one[which] for one in rounds])) for which in all_made]
    for which in ["embedded", "spawn"]:
        low, mid, high = np.percentile([one[which] / one["XNNPACK"] for one in rounds], [25, 50, 75])
        cells.append(f"{mid:.2f} ({low:.2f}-{high:.2f})")
    crossing = np.median([one["spawn"] - one["embedded"] for one in rounds])
    cells.append(microseconds(crossing))
    print("| " + " | ".join(cells) + " |", flush=True)
    ratios = [np.median([one[which] / one["XNNPACK"] for one in rounds]) for which in ["embedded", "spawn"]]
    return ratios


def summary(which, ratios):
    slower = sorted(((ratio, name) for name, ratio in ratios.items() if ratio > 1), reverse=True)
    print(f"\n{which}: at most XNNPACK's time on {len(ratios) - len(slower)} of {len(ratios)} models, "
          f"the median of the ratios is {np.median(list(ratios.values())):.2f}")
    for ratio, name in slower:
        print(f"- {name}: {ratio:.2f}")


def main(arguments):
    seconds = float(arguments.pop(0)) if arguments and arguments[0].replace(".", "").isdigit() else 3.0
    print(f"{its.WHEEL}, one thread; microseconds, then ratios to XNNPACK's\n")
    print("| model | XNNPACK | embedded | spawn | embedded / XNNPACK | spawn / XNNPACK | spawn - embedded |")
    print("|---|---|---|---|---|---|---|")
    found = {"embedded": {}, "spawn": {}}
    left_out = []
    for name in arguments or every_model():
        try:
            found["embedded"][name], found["spawn"][name] = row(name, seconds)
        except (RuntimeError, ValueError) as error:
            # The first line names the library, the last one says why.
            left_out.append(f"- {name}: {str(error).splitlines()[-1][:200]}")
    for which, ratios in found.items():
        summary(which, ratios)
    print("\n".join(["\nleft out:", *left_out] if left_out else []))


if __name__ == "__main__":
    main(sys.argv[1:])
