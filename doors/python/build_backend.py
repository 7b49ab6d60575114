"""The build backend: maturin's, after the command ``nnburst`` is built, which the wheel contains.

``NNBURST_PROFILE`` names cargo's profile for both (``release`` where it is not set).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Optional

import maturin
from maturin import (  # noqa: F401
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).parent
PROFILE = os.environ.get("NNBURST_PROFILE", "release")


def build_program() -> None:
    """Builds the command and puts it where the wheel takes it from."""
    # Both at once, so that what they share has the same features and is built once.
    packages = ["--package", "nnburst-cli", "--package", "nnburst-python"]
    command = ["cargo", "build", *packages, "--profile", PROFILE]
    messages = ["--message-format", "json-render-diagnostics"]
    built = subprocess.run(
        [*command, *messages], cwd=HERE, check=True, stdout=subprocess.PIPE, text=True
    )
    lines = (json.loads(line) for line in built.stdout.splitlines())
    programs = [line["executable"] for line in lines if line.get("executable")]
    folder = HERE / "python" / "nnburst" / "bin"
    folder.mkdir(exist_ok=True)
    target = folder / "nnburst"
    target.unlink(missing_ok=True)
    shutil.copy(programs[-1], target)
    # What it is debugged with would be most of the wheel.
    strip = shutil.which("strip")
    if strip:
        subprocess.run([strip, str(target)], check=True)


def build_wheel(directory: str, config: Any = None, metadata: Optional[str] = None) -> str:
    """Builds a wheel."""
    build_program()
    name: str = maturin.build_wheel(directory, with_profile(config), metadata)
    return name


def build_editable(directory: str, config: Any = None, metadata: Optional[str] = None) -> str:
    """Builds a wheel that refers to this folder."""
    build_program()
    name: str = maturin.build_editable(directory, with_profile(config), metadata)
    return name


def with_profile(config: Any) -> Any:
    """The settings of a build, with our profile added to maturin's arguments."""
    settings = dict(config or {})
    settings.setdefault("maturin.build-args", f"--profile {PROFILE}")
    return settings
