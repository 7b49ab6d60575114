#!/usr/bin/env python3
"""Throughput and age of one machine's dataflows: by the number of nodes that share the load, and by the frames' size and rate.

usage: scale.py NODE MODEL [--dora DORA] [--nodes 1 2 4 8] [--rate 120] [--at-least 60] [--seconds 10]

NODE is nnburst-dora-node, MODEL any classifier of pictures. An inference sleeps until `--at-least` milliseconds are over, so that eight nodes fit
a machine with two processors: what grows is what dora and the dealer take. The second table has no inference: frames go from a camera to a sink.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path

NODE = """
  - id: {id}
    path: {node}
    args: {args}
    outputs: [{outputs}]
"""


def entry(options, id, args, outputs="", inputs=()):
    text = NODE.format(id=id, node=options.node, args=args, outputs=outputs)
    if inputs:
        text += "    inputs:\n" + "".join(f"      {name}: {{ source: {source}, queue_size: {size} }}\n" for name, source, size in inputs)
    return text


def run(options, flow):
    """One dataflow: the sink's figures, and the processor time of all processes in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "flow.yml").write_text("nodes:" + flow)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([options.dora, "run", "flow.yml"], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = json.loads((Path(folder) / "report.json").read_text())
    return report, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shared(options, count):
    names = [f"n{index}" for index in range(count)]
    frames = int(options.rate * options.seconds)
    flow = entry(options, "camera", f"camera rate={options.rate} frames={frames} size=224x224", "frame")
    told = [(f"{name}-{kind}", f"{name}/{kind}", 100) for name in names for kind in ("done", "status")]
    outputs = ", ".join([f"to-{name}" for name in names] + ["lost", "status"])
    flow += entry(options, "deal", f"deal workers={'+'.join(names)}", outputs, [("frame", "camera/frame", 1), *told])
    for name in names:
        args = f"infer model={options.model} at-least={options.at_least}"
        flow += entry(options, name, args, "results, done, status", [("frame", f"deal/to-{name}", 2)])
    results = [(name, f"{name}/results", 100) for name in names]
    status = [(f"{name}-status", f"{name}/status", 10) for name in [*names, "deal"]]
    flow += entry(options, "sink", "sink report=report.json", inputs=[*results, ("lost", "deal/lost", 1000), *status])
    return run(options, flow)


def plain(options, size, rate):
    flow = entry(options, "camera", f"camera rate={rate} frames={int(rate * options.seconds)} size={size}", "frame")
    report, cpu = run(options, flow + entry(options, "sink", "sink report=report.json wait=0", inputs=[("frame", "camera/frame", 1)]))
    return {**report, "cpu_s": cpu}


def streams(options, measure):
    """Frames from a camera to a sink by size and rate: the report of each, and the cells of its row."""
    for size in options.sizes:
        width, height = map(int, size.split("x"))
        for rate in options.rates:
            report = measure(size, rate)
            arrived, kilobytes = report["results_per_second"], width * height * 3 / 1e3
            sent, age = report["sent"] / max(report["seconds"], 1e-9), report["age_ms"]
            cells = [size, f"{kilobytes:.0f}", f"{sent:.0f}", f"{arrived:.0f}", f"{arrived * kilobytes / 1e3:.0f}"]
            yield report, [*cells, f"{age['p50']:.2f}", f"{age['p99']:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("node", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("model", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--dora", default="dora")
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--rate", type=float, default=120)
    parser.add_argument("--at-least", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--sizes", nargs="*", default=["64x64", "224x224", "640x480", "1920x1080"])
    parser.add_argument("--rates", type=float, nargs="*", default=[30, 300, 3000])
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {options.at_least:g} ms each, {options.rate:g} frames a second")
    print("| nodes | results/s | dropped | age p50 ms | age p99 ms | all CPU ms/result | dealer CPU ms/frame |")
    print("|---|---|---|---|---|---|---|")
    for count in options.nodes:
        report, cpu = shared(options, count)
        age, results = report["age_ms"], report["results"]
        dealer = report["nodes"]["deal"]["cpu_ms"] / max(1, report["sent"])
        print(
            f"| {count} | {report['results_per_second']:.1f} | {report['lost'].get('dropped', 0)} | {age['p50']:.1f} | {age['p99']:.1f} "
            f"| {1e3 * cpu / max(1, results):.1f} | {dealer:.2f} |",
            flush=True,
        )
    print("\n| frame | KB | sent/s | arrived/s | MB/s | age p50 ms | age p99 ms | all CPU ms/frame |")
    print("|---|---|---|---|---|---|---|---|")
    for report, cells in streams(options, lambda size, rate: plain(options, size, rate)):
        cells.append(f"{1e3 * report['cpu_s'] / max(1, report['results']):.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
