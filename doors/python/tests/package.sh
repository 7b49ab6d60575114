#!/usr/bin/env bash
# Builds the package as pip does, installs its wheel into an environment without a toolchain, and tests it there.
# usage: package.sh FOLDER    (of the environment; cargo's profile is dev, its target folder the caller's)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$1
mkdir -p "$folder"

left_out() {
    echo "left out: the tests of the Python package ($1)"
    exit 0
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || left_out "python3 is older than 3.9"
[ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv" >"$folder/log" 2>&1 || left_out "no python3-venv"
pip=("$folder/venv/bin/pip" --disable-pip-version-check --quiet)
"${pip[@]}" install 'maturin>=1.16,<2' numpy pytest mypy >"$folder/log" 2>&1 || left_out "pip can't install maturin, numpy, pytest and mypy"
# What TFLite says is compared where it can be had.
"${pip[@]}" install ai-edge-litert==2.3.0 >"$folder/log" 2>&1 || echo "left out: the comparison with TFLite (no ai-edge-litert)"
# The pictures of the guide.
"${pip[@]}" install matplotlib pillow >"$folder/log" 2>&1 || echo "left out: the guide's pictures (no matplotlib)"

echo "== python: pip wheel"
rm -rf "$folder/wheels"
PATH="$folder/venv/bin:$PATH" NNBURST_PROFILE=dev \
    "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir "$folder/wheels" "$here" || exit 1

echo "== python: the wheel, without a toolchain"
env -i HOME="$HOME" PATH="$folder/venv/bin:/usr/bin:/bin" CARGO=/nonexistent RUSTC=/nonexistent \
    "${pip[@]}" install --force-reinstall --no-deps "$folder"/wheels/nnburst-*.whl

cd "$here"
echo "== python: pytest"
"$folder/venv/bin/python" -W error -X dev -m pytest -q tests
echo "== python: types"
"$folder/venv/bin/python" -m mypy --strict -p nnburst
"$folder/venv/bin/python" -m mypy.stubtest --mypy-config-file pyproject.toml nnburst
