"""Scripts that were written for TFLite, with the line of their import changed, beside the same ones with TFLite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from conftest import path_of

SCRIPTS = Path(__file__).parent / "scripts"

# TFLite's reference kernels, which define what quantised operators give.
REFERENCE = """
from ai_edge_litert.interpreter import *
from ai_edge_litert import interpreter as module

KERNELS = module.OpResolverType.BUILTIN_REF


class Interpreter(module.Interpreter):
    def __init__(self, *arguments, experimental_op_resolver_type=KERNELS, **named):
        named["experimental_op_resolver_type"] = experimental_op_resolver_type
        super().__init__(*arguments, **named)
"""


def pictures(shared: Path) -> List[str]:
    return [str(path) for path in sorted((shared / "models" / "photos").glob("image-1?.jpeg"))[:4]]


def classified(shared: Path, model: str, *more: str) -> List[str]:
    labels = str(shared / "models" / "imagenet_labels_1001.txt")
    return ["label_image.py", "-m", path_of(shared, model), "-l", labels, "-i", pictures(shared)[0], *more]


def cases(shared: Path) -> Dict[str, List[str]]:
    def path(name: str) -> str:
        return path_of(shared, name)

    return {
        "classifier": classified(shared, "models/mobilenet_v2_1.0_224_quant", "--num_threads", "2"),
        "classifier, floats": classified(shared, "models/mobilenet_v1_0.25_128"),
        "classifier, no delegate": classified(shared, "models/mobilenet_v1_0.25_128_quant", "-e", "libedgetpu.so.1"),
        "detector": ["detect.py", path("mlts/ssd_mobilenet_v1_coco_quant"), *pictures(shared)],
        "words": ["keywords.py", path("models/micro_speech_int8"), "1"],
        "words, states": ["keywords.py", path("models/kws_svdf_float_synthetic"), "2"],
        "words, hybrid": ["keywords.py", path("mlts/mlperf_tiny_kws_int8"), "3"],
        "pose": ["pose.py", path("mlts/movenet_lightning_ptq"), *pictures(shared)],
        "speech": ["denoise.py", path("models/dtln_float_1"), path("models/dtln_float_2")],
        "batches": ["batches.py", path("mlts/mlperf_tiny_ad_float")],
        "contents, signature": ["inspect_model.py", path("models/mnist_lstm_float")],
        "contents, channels": ["inspect_model.py", path("models/mobilenet_v1_0.25_128_int8")],
        "contents, branches": ["inspect_model.py", path("models/split_concat_quant")],
    }


NAMES = [
    "classifier", "classifier, floats", "classifier, no delegate", "detector", "words", "words, states",
    "words, hybrid", "pose", "speech", "batches", "contents, signature", "contents, channels", "contents, branches",
]  # fmt: skip

NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def output(script: str, module: str, arguments: List[str], folder: Path) -> str:
    source = (SCRIPTS / script).read_text()
    changed = source.replace("ai_edge_litert.interpreter", module)
    assert source.count("\n") == changed.count("\n")
    differing = [one for one, other in zip(source.splitlines(), changed.splitlines()) if one != other]
    assert len(differing) == 1, "one line changes"
    (folder / f"{module}_{script}").write_text(changed)
    ended = subprocess.run(
        [sys.executable, str(folder / f"{module}_{script}"), *arguments],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_script_says_the_same_with_one_line_changed(shared: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("ai_edge_litert.interpreter")
    script, *arguments = cases(shared)[name]
    if "PIL" in (SCRIPTS / script).read_text():
        pytest.importorskip("PIL")
    (tmp_path / "reference.py").write_text(REFERENCE)
    theirs = output(script, "reference", arguments, tmp_path)
    ours = output(script, "nnburst", arguments, tmp_path)
    assert theirs.count("\n") >= 3, "the script has something to say"
    assert NUMBER.sub("N", ours) == NUMBER.sub("N", theirs)
    for got, expected in zip(NUMBER.findall(ours), NUMBER.findall(theirs)):
        # Sums in another order move the last digit that is written.
        assert float(got) == pytest.approx(float(expected), rel=2e-4, abs=1.1e-2 if script == "denoise.py" else 1.1e-3)
