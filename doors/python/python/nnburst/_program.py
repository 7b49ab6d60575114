"""The command ``nnburst``, which the wheel brings along."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def program() -> Path:
    """The file of the command."""
    return Path(__file__).parent / "bin" / "nnburst"


def main() -> None:
    """Runs the command in place of this process."""
    try:
        os.execv(program(), ["nnburst", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"nnburst: {program()}: {error.strerror}")
