#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints the path of a tree with packages of another Debian release unpacked, made at the first call
# and kept in the cache: the root of a container, whose libraries are not this machine's.
#   scripts/debian-tree.sh [--arch ARCH] SUITE PACKAGE...
# --arch: Debian's name of an architecture; that of this machine without it.
# Status 77: the packages cannot be had. Must never print the path of a tree that is not complete,
# nor anything else on stdout, nor run what is in it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

native=$(dpkg --print-architecture)
arch=$native
if [ "${1-}" = --arch ]; then
	arch=${2:?--arch: needs a value}
	shift 2
fi
suite=${1:?usage: debian-tree.sh [--arch ARCH] SUITE PACKAGE...}
shift
cache=$(cache_dir)
name=$suite
[ "$arch" = "$native" ] || name=$suite-$arch
root=$cache/tree-$name-$(echo "$* 1" | cksum | cut -d' ' -f1)
if [ -e "$root/.complete" ]; then
	echo "$root"
	exit 0
fi

say "unpacking of Debian $name (once): $*"
temp=$(mktemp -d "$cache/temp.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
debian_apt_init "$temp/apt" "$arch" "$suite"
(cd "$temp" && apt-get -c apt/apt.conf -q download "$@") >"$temp/log" 2>&1 || {
	tail -n 5 "$temp/log" >&2
	say "SKIP: packages of $name: apt-get failed, see above (is the mirror reachable?)"
	exit 77
}
# As on an installed system: /lib is /usr/lib.
for dir in bin lib lib64 sbin; do
	mkdir -p "$temp/root/usr/$dir"
	ln -s "usr/$dir" "$temp/root/$dir"
done
for package in "$temp"/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -C "$temp/root" --keep-directory-symlink -xf -
done
chmod 755 "$temp/root"
: >"$temp/root/.complete"
# Somebody else may have been faster.
mv -T "$temp/root" "$root" 2>/dev/null || [ -e "$root/.complete" ] || die "$root: cannot make it"
echo "$root"
