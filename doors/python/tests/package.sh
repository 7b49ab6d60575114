#!/usr/bin/env bash
# Archives the package's sources, builds them as pip does, installs the wheel into an environment without a toolchain, and tests it there.
# usage: package.sh FOLDER [PROGRAM]    (of the environment; cargo's profile is dev, its target folder the caller's; a command
# that is built already)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$1
export NNBURST_PROGRAM=${2:-}
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

echo "== python: the source archive, and pip wheel of it"
rm -rf "$folder/wheels" "$folder/source"
mkdir "$folder/source"
export PATH="$folder/venv/bin:$PATH"
(cd "$here" && python -c 'import build_backend, sys; build_backend.build_sdist(sys.argv[1])' "$folder/source") >"$folder/log" 2>&1 ||
    { cat "$folder/log" && exit 1; }
tar -xzf "$folder"/source/nnburst-*.tar.gz -C "$folder/source" --strip-components 1
# Built for a few runs.
mkdir -p "$folder/.cargo"
for package in burst fmq hal kernels executor; do
    printf '[profile.dev.package.nnburst-%s]\nopt-level = 0\n' "$package"
done >"$folder/.cargo/config.toml"
NNBURST_PROFILE=dev "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir "$folder/wheels" "$folder/source" || exit 1

echo "== python: the wheel, without a toolchain"
env -i HOME="$HOME" PATH="$folder/venv/bin:/usr/bin:/bin" CARGO=/nonexistent RUSTC=/nonexistent \
    "${pip[@]}" install --force-reinstall --no-deps "$folder"/wheels/nnburst-*.whl

cd "$here"
echo "== python: pytest"
"$folder/venv/bin/python" -W error -X dev -m pytest -q tests
echo "== python: types"
"$folder/venv/bin/python" -m mypy --strict -p nnburst
"$folder/venv/bin/python" -m mypy.stubtest --mypy-config-file pyproject.toml nnburst
