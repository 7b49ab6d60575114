#!/usr/bin/env python3
"""Requests a second and core with batches: nnburst beside TFLite with XNNPACK, in turns on one processor.

usage: batches.py NNBURST MODEL.. [--batches 1 8 32] [--rounds 3] [--seconds 1] [--cpu 1]      (needs ai-edge-litert and numpy)

NNBURST is the command, MODEL a .tflite file for one request or a folder with a model.tflite in it. Each round has a process of either side; a
figure is the median of the rounds, a ratio that of a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def theirs(model, batch, seconds):
    """Runs in a process of its own: requests a second of the interpreter's invoke."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=1)
    for given in interpreter.get_input_details():
        interpreter.resize_tensor_input(given["index"], [batch, *given["shape"][1:]])
    interpreter.allocate_tensors()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        begun = time.perf_counter()
        interpreter.invoke()
        times.append(time.perf_counter() - begun)
    print(batch / statistics.median(times[len(times) // 10 :]))


def ours(options, model, batch):
    command = [options.nnburst, "bench", model, "--mode", "inproc", "--batch", str(batch), "--duration", f"{options.seconds}s", "--json"]
    told = subprocess.run(["taskset", "-c", str(options.cpu), *command], capture_output=True, text=True)
    if told.returncode != 0:
        return None
    return batch * 1e6 / json.loads(told.stdout)["latency_us"]["p50"]


def peer(options, model, batch):
    command = [sys.executable, __file__, "--theirs", model, str(batch), str(options.seconds)]
    told = subprocess.run(["taskset", "-c", str(options.cpu), *command], capture_output=True, text=True)
    return float(told.stdout) if told.returncode == 0 else None


def main():
    if sys.argv[1:2] == ["--theirs"]:
        return theirs(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nnburst")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--cpu", type=int, default=1)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}\n| model | batch | requests/s | of those one by one | XNNPACK's requests/s | ratio |\n|---|---|---|---|---|---|")
    for folder in options.models:
        model = str(folder / "model.tflite" if folder.is_dir() else folder)
        single = None
        for batch in options.batches:
            rounds = [(ours(options, model, batch), peer(options, model, batch)) for _ in range(options.rounds)]
            mine, others = ([figure for figure in column if figure] for column in zip(*rounds))
            if not mine:
                print(f"| {folder.stem} | {batch} | refused | | | |", flush=True)
                continue
            rate = statistics.median(mine)
            single = single or rate
            other, ratio = "", ""
            if len(others) == len(mine):
                ratios = sorted(a / b for a, b in zip(mine, others))
                other = f"{statistics.median(others):.0f}"
                ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            print(f"| {folder.stem} | {batch} | {rate:.0f} | {rate / single:.2f} | {other} | {ratio} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
