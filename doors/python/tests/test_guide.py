"""The guide's code, block after block."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


def test_the_guide_runs(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("ai_edge_litert.interpreter", "matplotlib", "PIL"):
        pytest.importorskip(module)
    models = shared / "models"
    shutil.copy(models / "mobilenet_v2_1.0_224_quant" / "model.tflite", tmp_path / "model.tflite")
    shutil.copy(models / "imagenet_labels_1001.txt", tmp_path / "labels.txt")
    shutil.copy(models / "photos" / "image-10.jpeg", tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    names: Dict[str, Any] = {"__name__": "guide"}
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    for at, block in enumerate(blocks):
        exec(compile(block, f"{GUIDE}, block {at}", "exec"), names)
    assert (tmp_path / "histogram.png").stat().st_size > 1000
    assert names["copied"].argmax() == names["best"] == names["scores"].argmax()
    said = capsys.readouterr().out
    with capsys.disabled():
        if os.environ.get("NNBURST_GUIDE_OUTPUT"):
            print(said)
    label = names["labels"][names["best"]]
    assert f"{label} in " in said and f"[['{label}'" in said
