"""The build backend: maturin's, after the command ``nnburst`` is built, which the wheel contains.

``NNBURST_PROFILE`` names cargo's profile for both (``release`` where it is not set), ``NNBURST_PROGRAM`` a
command of the same version that is built already.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, List, Optional

import maturin
from maturin import (  # noqa: F401
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).resolve().parent
PROFILE = os.environ.get("NNBURST_PROFILE", "release")


def build_program() -> None:
    """Builds the command and puts it where the wheel takes it from."""
    given = os.environ.get("NNBURST_PROGRAM")
    put_program(given if given else built_program())


def built_program() -> str:
    """Builds the command, and returns its path."""
    # Both at once, so that what other crates they share has the same features and is built once. The engine is
    # not: the command has what its acceptance suite tests with.
    packages = ["--package", "nnburst-cli", "--package", "nnburst-python"]
    command = ["cargo", "build", *packages, "--profile", PROFILE]
    messages = ["--message-format", "json-render-diagnostics"]
    built = subprocess.run(
        [*command, *messages], cwd=HERE, check=True, stdout=subprocess.PIPE, text=True
    )
    lines = (json.loads(line) for line in built.stdout.splitlines())
    programs: List[str] = [line["executable"] for line in lines if line.get("executable")]
    return programs[-1]


def put_program(program: str) -> None:
    """Puts the command where the wheel takes it from."""
    folder = HERE / "python" / "nnburst" / "bin"
    folder.mkdir(exist_ok=True)
    target = folder / "nnburst"
    target.unlink(missing_ok=True)
    shutil.copy(program, target)
    # What it is debugged with would be most of the wheel. Another machine's programs are stripped by
    # that machine's tools.
    prefix = os.environ.get("CARGO_BUILD_TARGET", "").replace("-unknown", "")
    strip = shutil.which(f"{prefix}-strip" if prefix else "strip")
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


def build_sdist(directory: str, config: Any = None) -> str:
    """Archives the workspace. maturin's own archive has what the library is built of, but not what
    the command is."""
    cargo = ["cargo", "locate-project", "--workspace", "--message-format", "plain"]
    workspace = Path(_said(cargo)).parent
    here = HERE.relative_to(workspace)
    files = _said(["git", "-C", str(workspace), "ls-files", "-z"]).split("\0")
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder, maturin.prepare_metadata_for_build_wheel(folder, config), "METADATA")
        about = info.read_bytes()
    version = about.partition(b"\nVersion: ")[2].split()[0].decode()
    base = f"nnburst-{version}"
    with tarfile.open(Path(directory, f"{base}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in filter(None, files):
            if (workspace / name).exists():
                archive.add(workspace / name, f"{base}/{name}", recursive=False, filter=_nobodys)
        project = _moved((HERE / "pyproject.toml").read_text(), here.as_posix())
        for name, content in [("pyproject.toml", project.encode()), ("PKG-INFO", about)]:
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return f"{base}.tar.gz"


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _moved(project: str, folder: str) -> str:
    """The project's file, for the top of an archive that has this folder further down."""
    for line, moved in [
        ('backend-path = ["."]', f'backend-path = ["{folder}"]'),
        ('readme = "README.md"', f'readme = "{folder}/README.md"'),
        ("[tool.maturin]", f'[tool.maturin]\nmanifest-path = "{folder}/Cargo.toml"'),
        ('python-source = "python"', f'python-source = "{folder}/python"'),
        ('path = "python/', f'path = "{folder}/python/'),
    ]:
        if project.count(line) != 1:
            raise ValueError(f"pyproject.toml has `{line}` {project.count(line)} times")
        project = project.replace(line, moved)
    return project


def _said(command: List[str]) -> str:
    run = subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE, text=True)
    return run.stdout.strip("\n")


def with_profile(config: Any) -> Any:
    """The settings of a build, with our profile added to maturin's arguments."""
    settings = dict(config or {})
    settings.setdefault("maturin.build-args", f"--profile {PROFILE}")
    return settings
