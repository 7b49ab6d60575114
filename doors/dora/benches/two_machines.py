#!/usr/bin/env python3
"""Dataflows across two machines: frames to the far side and results back, and how many frames a second get there.

usage: two_machines.py NODE MODEL [--dora DORA] [--at-least 5 60] [--seconds 8] [--sizes ..] [--rates ..]       (as root, with iproute2)

The machines are network namespaces with a cable (veth) between them: what dora, Zenoh and the kernel take is measured, not a wire's own time.
"""

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from scale import entry, streams

NET = "10.9.74"
# The coordinator refuses until both daemons have reported to it.
PATIENCE_S = 60


def ip(args):
    subprocess.run(["ip", *args.split()], check=True)


@contextlib.contextmanager
def machines():
    names = [f"nnb{os.getpid()}{side}" for side in "ab"]
    cables = [f"v{os.getpid() % 1_000_000}{side}" for side in "ab"]
    try:
        for name in names:
            ip(f"netns add {name}")
        ip(f"link add {cables[0]} type veth peer name {cables[1]}")
        for host, (name, cable) in enumerate(zip(names, cables), 1):
            ip(f"link set {cable} netns {name}")
            ip(f"-n {name} addr add {NET}.{host}/24 dev {cable}")
            ip(f"-n {name} link set {cable} up")
            ip(f"-n {name} link set lo up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


@contextlib.contextmanager
def daemons(options, names):
    """A coordinator, and a daemon on each machine: `A` and `B`."""
    address = f"{NET}.1"
    lines = [
        (0, f"coordinator --interface {address} --store memory"),
        (0, f"daemon --machine-id A -c {address} --zenoh-listen {address}:5456 --zenoh-no-multicast"),
        (1, f"daemon --machine-id B -c {address} --zenoh-peer tcp/{address}:5456 --zenoh-no-multicast"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = [subprocess.Popen(command(options, names[at], line), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for at, line in lines]
        try:
            yield address
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait()


def command(options, name, line):
    # With shared memory of its own, as another machine has: Zenoh hands frames over in it where it can, and no byte would pass the cable.
    own = 'mount -t tmpfs none /dev/shm && exec "$@"'
    return ["ip", "netns", "exec", name, "unshare", "--mount", "sh", "-c", own, "sh", options.dora, *line.split()]


def carried(names):
    """The bytes that came to machine B over its cable."""
    shown = subprocess.run(["ip", "-n", names[1], "-s", "-j", "link", "show", "type", "veth"], capture_output=True, check=True)
    return json.loads(shown.stdout)[0]["stats64"]["rx"]["bytes"]


def run(options, names, address, flow):
    """One dataflow: the sink's report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        (Path(folder) / "flow.yml").write_text("nodes:" + flow.replace("report.json", str(report)))
        end = time.monotonic() + PATIENCE_S
        start = command(options, names[0], f"start flow.yml --coordinator-addr {address} --attach")
        while True:
            done = subprocess.run(start, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if report.exists():
                return json.loads(report.read_text())
            if time.monotonic() > end:
                raise SystemExit(done.stdout)
            time.sleep(1)


def placed(machine, text):
    return text.replace("    path:", f"    deploy: {{ machine: {machine} }}\n    path:", 1)


def there_and_back(options, at_least):
    """A camera and a sink on one machine, the inference on the other."""
    frames = int(30 * options.seconds)
    flow = placed("A", entry(options, "camera", f"camera rate=30 frames={frames} size=224x224", "frame"))
    node = f"infer model={options.model} at-least={at_least}"
    flow += placed("B", entry(options, "infer", node, "results, done, status", [("frame", "camera/frame", 1)]))
    ends = [("results", "infer/results", 100), ("infer-status", "infer/status", 10)]
    return flow + placed("A", entry(options, "sink", "sink report=report.json", inputs=ends))


def one_way(options, size, rate):
    flow = placed("A", entry(options, "camera", f"camera rate={rate} frames={int(rate * options.seconds)} size={size}", "frame"))
    return flow + placed("B", entry(options, "sink", "sink report=report.json wait=0", inputs=[("frame", "camera/frame", 1)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("node", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("model", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--dora", default="dora")
    parser.add_argument("--at-least", type=float, nargs="*", default=[5, 60])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--sizes", nargs="*", default=["64x64", "224x224", "640x480", "1920x1080"])
    parser.add_argument("--rates", type=float, nargs="*", default=[30, 300, 3000])
    options = parser.parse_args()
    with machines() as names, daemons(options, names) as address:
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
        print("| inference | frames | results | age p50 ms | age p99 ms |\n|---|---|---|---|---|")
        for at_least in options.at_least:
            report = run(options, names, address, there_and_back(options, at_least))
            age, frames = report["age_ms"], int(30 * options.seconds)
            print(f"| {at_least:g} ms | {frames} | {report['results']} | {age['p50']:.1f} | {age['p99']:.1f} |", flush=True)
        print("\n| frame | KB | sent/s | arrived/s | MB/s | age p50 ms | age p99 ms | MB over the cable a MB that arrived |\n|---|---|---|---|---|---|---|---|")
        before = carried(names)
        for report, cells in streams(options, lambda size, rate: run(options, names, address, one_way(options, size, rate))):
            after = carried(names)
            arrived = report["results"] * 1e3 * float(cells[1])
            print(f"| {' | '.join(cells)} | {(after - before) / max(1, arrived):.2f} |", flush=True)
            before = after
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
