#!/bin/sh
# Installs nnburst from the folder that this script is in, or takes it away again.
set -eu

usage() {
    echo "usage: ./install.sh [--prefix DIR] [--destdir DIR] [--uninstall]"
    echo "  --prefix     where programs will find it [default: /usr/local]"
    echo "  --destdir    a root that packages are made under [default: /]"
    echo "  --uninstall  take away what was installed there"
}

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
destdir=
uninstall=no
while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --destdir)
        [ $# -ge 2 ] || { usage >&2 && exit 2; }
        if [ "$1" = --prefix ]; then prefix=$2; else destdir=$2; fi
        shift
        ;;
    --prefix=*) prefix=${1#*=} ;;
    --destdir=*) destdir=${1#*=} ;;
    --uninstall) uninstall=yes ;;
    --help | -h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift
done
case $prefix in
/*) ;;
*) echo "install.sh: --prefix $prefix is not absolute" >&2 && exit 2 ;;
esac
root=${destdir%/}$prefix
list=$root/share/nnburst/installed

if [ $uninstall = yes ]; then
    [ -f "$list" ] || { echo "install.sh: nothing of nnburst is installed in $root (no $list)" >&2 && exit 1; }
    while IFS= read -r file; do
        rm -f "$root/$file"
    done <"$list"
    rm -f "$list"
    rmdir "$root/share/nnburst" 2>/dev/null || true
    echo "nnburst is no longer in $root"
    exit
fi

mkdir -p "$root/share/nnburst" || exit 1
cd "$here/files"
find . -type f | sed 's,^\./,,' | sort >"$list.new"
while IFS= read -r file; do
    mkdir -p "$root/$(dirname "$file")"
    # A program that runs from the file there keeps what it has.
    case $file in
    *.pc | *.service | *.socket) sed "s,@PREFIX@,$prefix,g" "$file" >"$root/$file.new" ;;
    *) cp "$file" "$root/$file.new" ;;
    esac
    case $file in
    bin/*) chmod 755 "$root/$file.new" ;;
    *) chmod 644 "$root/$file.new" ;;
    esac
    mv -f "$root/$file.new" "$root/$file"
done <"$list.new"
mv -f "$list.new" "$list"
echo "nnburst is installed in $root"
if [ -z "$destdir" ]; then
    if [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
        ldconfig
    fi
    echo "programs find its libraries in $prefix/lib after ldconfig, or with LD_LIBRARY_PATH=$prefix/lib"
fi
