#!/usr/bin/env python3
"""Ages and processor time of nnburst's node beside a TFLite node in Python, in the same dataflow, turn by turn.

usage: against_tflite.py NODE MODEL [--dora DORA] [--python PYTHON] [--rounds 3] [--frames 300] [--rate 30] [--size 224x224]

NODE is nnburst-dora-node; PYTHON has dora-rs, pyarrow and ai-edge-litert. Each round runs both sides one after the other, so that
both have the same machine. Prints a row for each side and time of an inference.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

FLOW = """
nodes:
  - id: camera
    path: {node}
    args: camera size={size} rate={rate} frames={frames}
    outputs: [frame]
  - id: infer
    path: {path}
    args: {args}
    inputs:
      frame: {{ source: camera/frame, queue_size: 1, queue_policy: drop_oldest }}
    outputs: [results, status]
  - id: sink
    path: {node}
    args: sink report=report.json
    inputs:
      infer: {{ source: infer/results, queue_size: 100 }}
      infer-status: {{ source: infer/status, queue_size: 100 }}
"""


def run(options, side, at_least):
    """One dataflow; its figures."""
    with tempfile.TemporaryDirectory() as folder:
        if side == "nnburst":
            path, args = options.node, f"infer model={options.model} at-least={at_least} {options.options}"
        else:
            script = Path(__file__).with_name("tflite_node.py").resolve()
            path, args = options.python, f"{script} {options.model} {at_least}"
        flow = FLOW.format(path=path, args=args, **vars(options))
        (Path(folder) / "flow.yml").write_text(flow)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([options.dora, "run", "flow.yml"], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = json.loads((Path(folder) / "report.json").read_text())
    results = report["results"]
    return {
        "results": results,
        "p50": report["age_ms"]["p50"],
        "p99": report["age_ms"]["p99"],
        "driver": report["driver_ms"]["p50"],
        "node cpu": report["nodes"]["infer"]["cpu_ms"] / max(1, results),
        "all cpu": 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / options.frames,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("node", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("model", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--dora", default="dora")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--options", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--rate", type=float, default=30)
    parser.add_argument("--size", default="224x224")
    parser.add_argument("--at-least", type=float, nargs="*", default=[0, 5, 60])
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {options.frames} frames at {options.rate} Hz, medians of {options.rounds}")
    print("| inference | side | arrived | age p50 ms | age p99 ms | compute p50 ms | node CPU ms/result | all CPU ms/frame |")
    print("|---|---|---|---|---|---|---|---|")
    for at_least in options.at_least:
        sides = {"nnburst": [], "TFLite, Python": []}
        for _ in range(options.rounds):
            for side, figures in sides.items():
                figures.append(run(options, side, at_least))
        for side, figures in sides.items():
            median = {key: statistics.median(figure[key] for figure in figures) for key in figures[0]}
            name = f"{at_least:g} ms" if at_least else "as it comes"
            values = " | ".join(f"{value:.1f}" for key, value in median.items() if key != "results")
            print(f"| {name} | {side} | {median['results']:.0f} | {values} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
