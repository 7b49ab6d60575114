#!/usr/bin/env bash
# Installs, uses and purges the packages of `cargo xtask dist` in a fresh tree of Debian 12, and the archive in an empty folder.
# usage: packages.sh DIST [ARCH]     (as root, with debootstrap; what it unpacks lies in a temporary folder)
# Another machine's packages, such as arm64, take qemu-user-static and that machine's cross compiler.
set -euo pipefail
dist=$(cd "$1" && pwd)
machine=${2:-$(dpkg --print-architecture)}
root=$(cd "$(dirname "$0")/../../.." && pwd)
here=$(mktemp -d)
tree=$here/tree
serving=
cc=cc
emulator=/proc/sys/fs/binfmt_misc/nnburst-$machine
registered=

# Only what was mounted is unmounted before the tree is removed.
finish() {
    [ -z "$serving" ] || kill "$serving" 2>/dev/null || true
    for mounted in proc dev/shm; do
        mountpoint -q "$tree/$mounted" && umount "$tree/$mounted"
    done
    [ -z "$registered" ] || echo -1 >"$emulator"
    rm -rf --one-file-system "$here"
}
trap finish EXIT

fail() {
    echo "packages: $*" >&2
    exit 1
}

in_tree() {
    chroot "$tree" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}

echo "== packages: checksums and lintian"
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error --suppress-tags bad-distribution-in-changes-file "$dist"/*.deb
else
    echo "left out: lintian is not installed"
fi

# Has the kernel run programs of arm64 by qemu, inside of trees as well (F), until this script ends.
emulate() {
    [ "$machine" = arm64 ] || fail "no emulator is known for $machine"
    cc=aarch64-linux-gnu-gcc
    [ -e /proc/sys/fs/binfmt_misc/status ] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    [ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || return 0
    local magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    local mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf '%s' ":nnburst-$machine:M::$magic:$mask:$(command -v qemu-aarch64-static):F" >/proc/sys/fs/binfmt_misc/register
    registered=yes
}

echo "== packages: a fresh tree of $machine"
[ "$machine" = "$(dpkg --print-architecture)" ] || emulate
# What plugins and the wheel plug into.
hosts=
if compgen -G "$dist/gstreamer1.0-nnburst_*" >/dev/null; then hosts=,gstreamer1.0-tools,libgstreamer-plugins-base1.0-0; fi
wheel=$(compgen -G "$dist/nnburst-*.whl" || true)
if [ -n "$wheel" ]; then hosts=$hosts,python3-venv,python3-numpy; fi
if [ -n "${NNBURST_DEBIAN_TREE:-}" ]; then
    cp -a "$NNBURST_DEBIAN_TREE" "$tree"
else
    debootstrap --arch="$machine" --variant=minbase ${hosts:+--include="${hosts#,}"} bookworm "$tree" >"$here/log" 2>&1 ||
        { tail -5 "$here/log" && fail "debootstrap"; }
fi
mount -t proc proc "$tree/proc"
mkdir -p "$tree/dev/shm"
mount -t tmpfs tmpfs "$tree/dev/shm"
in_tree dpkg-query -W -f '${Package}\n' >"$here/before"
(cd "$tree" && find etc usr var/lib -not -path '*/dpkg/*' | sort) >"$here/files-before"

echo "== packages: install"
mkdir "$tree/packages"
cp "$dist"/*.deb "$tree/packages"
debs=$(cd "$dist" && ls ./*_"$machine".deb)
# shellcheck disable=SC2046,SC2086
in_tree dpkg --install $(printf 'packages/%s ' $debs) >"$here/log" 2>&1 || { cat "$here/log" && fail "dpkg --install"; }
in_tree dpkg --verify

echo "== packages: use"
in_tree nnburst --version
in_tree nnburst devices >"$here/devices"
grep -q 'nnburst-cpu' "$here/devices" || fail "no driver nnburst-cpu"
in_tree test -f /usr/share/man/man1/nnburst.1.gz || fail "no manual"
in_tree getent passwd nnburst >/dev/null || fail "no user nnburst"
in_tree getent group nnburst >/dev/null || fail "no group nnburst"
# A program that is built against the tree's own headers and library, by another user of the tree.
triplet=$($cc -print-multiarch)
flags=$(PKG_CONFIG_SYSROOT_DIR=$tree PKG_CONFIG_LIBDIR=$tree/usr/lib/$triplet/pkgconfig pkg-config --cflags --libs neuralnetworks)
# shellcheck disable=SC2086
"$cc" "$root/ndk/examples/add1.c" $flags -L "$tree/usr/lib/$triplet" -o "$tree/usr/local/bin/add1"
in_tree setpriv --reuid=nobody --regid=nogroup --clear-groups /usr/local/bin/add1
# A driver for the whole machine, as the unit starts it; a member of its group calls it, others may not.
in_tree useradd --groups nnburst --create-home camera
in_tree useradd --create-home stranger
in_tree sh -c 'echo "service-dir = /run/nnburst" >/etc/nnburst/nnburst.conf'
python3 "$root/tools/xtask/tests/socket_activate.py" "$tree" /run/nnburst/nnburst-cpu.sock nnburst /usr/bin/nnburst serve >"$here/serve" 2>&1 &
serving=$!
for _ in $(seq 100); do grep -q 'serves on' "$here/serve" && break || sleep 0.1; done
grep -q 'serves on' "$here/serve" || { cat "$here/serve" && fail "serve"; }
in_tree setpriv --reuid=camera --regid=camera --init-groups env HOME=/home/camera nnburst bench --builtin add1 --device nnburst-cpu --runs 200 >"$here/bench" 2>&1 ||
    { cat "$here/bench" && fail "a member of the group can't use the driver"; }
if in_tree setpriv --reuid=stranger --regid=stranger --init-groups env HOME=/home/stranger nnburst run --builtin add1 --device nnburst-cpu >"$here/stranger" 2>&1; then
    fail "a stranger may use the driver"
fi
grep -qi 'permission' "$here/stranger" || { cat "$here/stranger" && fail "a stranger isn't told why"; }
kill "$serving" 2>/dev/null || true
wait "$serving" || true
serving=

if [ -n "$hosts" ] && in_tree test -x /usr/bin/gst-inspect-1.0; then
    in_tree gst-inspect-1.0 nnbinference >"$here/log" 2>&1 || { cat "$here/log" && fail "no element nnbinference"; }
fi
if [ -n "$wheel" ]; then
    cp "$wheel" "$tree/packages"
    in_tree python3 -m venv --system-site-packages /packages/venv
    in_tree /packages/venv/bin/pip install --quiet --no-index "/packages/$(basename "$wheel")"
    in_tree /packages/venv/bin/python -c 'import nnburst; print("python:", [device.name for device in nnburst.devices()])'
fi

echo "== packages: install again over themselves, then purge"
# shellcheck disable=SC2046,SC2086
in_tree dpkg --install $(printf 'packages/%s ' $debs) >"$here/log" 2>&1 || { cat "$here/log" && fail "upgrade"; }
in_tree sh -c 'mkdir -p /var/lib/nnburst && touch /var/lib/nnburst/figures'
in_tree rm /etc/nnburst/nnburst.conf
# shellcheck disable=SC2046,SC2086
in_tree dpkg --purge $(for deb in $debs; do dpkg-deb --field "$dist/$deb" Package; done) >"$here/log" 2>&1 || { cat "$here/log" && fail "purge"; }
rm -rf "$tree/packages" "$tree/usr/local/bin/add1"
in_tree dpkg-query -W -f '${Package}\n' | diff "$here/before" - || fail "packages are left"
(cd "$tree" && find etc usr var/lib -not -path '*/dpkg/*' | sort) >"$here/files-after"
# Users stay, with their files; so does what dpkg and the loader keep of every package.
left=$(comm -13 "$here/files-before" "$here/files-after" | grep -Ev '^etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$' || true)
[ -z "$left" ] || fail "files are left: $left"

echo "== packages: the archive"
export QEMU_LD_PREFIX=$tree # where an emulator finds the loader
tar -xf "$dist"/nnburst-*.tar.xz -C "$here"
prefix=$here/opt/nn
"$here"/nnburst-*-linux-gnu/install.sh --prefix "$prefix" >"$here/log"
"$prefix/bin/nnburst" --version
grep -q "$prefix/bin/nnburst serve" "$prefix/lib/systemd/user/nnburst@.service" || fail "the unit names another program"
flags=$(PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig pkg-config --cflags --libs neuralnetworks)
# shellcheck disable=SC2086
"$cc" "$root/ndk/examples/add1.c" $flags -o "$here/add1"
LD_LIBRARY_PATH=$prefix/lib "$here/add1"
"$here"/nnburst-*-linux-gnu/install.sh --prefix "$prefix" --uninstall
[ -z "$(find "$prefix" -type f)" ] || fail "the archive's script leaves $(find "$prefix" -type f)"
echo "packages: all passed"
