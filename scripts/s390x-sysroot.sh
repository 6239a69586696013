#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints the path of an unpacked Debian s390x tree in the cache, made at the first call: for
# s390x-linux-gnu-gcc --sysroot, for qemu-s390x-static -L (bpftool), and for libraries in VMs.
# Status 77: the packages cannot be had.
# Must never print a path of a tree that is not complete, nor anything else on stdout.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

suite=bookworm
packages=libbpf-dev,libelf-dev,libdw-dev,libpopt-dev,libjansson-dev,libiberty-dev,libc6-dev,zlib1g-dev,liblzma-dev,libzstd-dev,libcmocka-dev
packages=$packages,linux-libc-dev,bpftool,busybox-static

# A changed list is another tree; the number counts changes of what is done to it below.
cache=$(cache_dir)
root=$cache/s390x-sysroot-$suite-$(echo "$packages 2" | cksum | cut -d' ' -f1)
if [ -e "$root/.complete" ]; then
	echo "$root"
	exit 0
fi

command -v mmdebstrap >/dev/null || die "mmdebstrap: not found; run scripts/deps.sh vm"
say "unpacking s390x packages of Debian $suite (once)"
temp=$(mktemp -d "$cache/temp.XXXXXX")
trap 'chmod -R u+w "$temp"; rm -rf "$temp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
debian_net_conf >"$temp/apt.conf"
debian_sources "$suite" >"$temp/sources.list"
# Nothing is run in the tree, so that who is not root needs no user namespace either.
mode=chrootless
[ "$(id -u)" != 0 ] || mode=root
mmdebstrap --quiet --mode=$mode --variant=extract --architectures=s390x --include="$packages" \
	--aptopt="$temp/apt.conf" "$suite" "$temp/root.tar" "$temp/sources.list" >"$temp/log" 2>&1 || {
	tail -n 20 "$temp/log" >&2
	say "SKIP: s390x packages of $suite: mmdebstrap failed, see above (is the mirror reachable?)"
	exit 77
}
mkdir "$temp/root"
tar -C "$temp/root" --exclude=./dev -xf "$temp/root.tar"
# As on an installed system: /lib is /usr/lib. Links to absolute paths would lead out of the tree.
for dir in bin lib sbin; do
	mkdir -p "$temp/root/usr/$dir"
	[ ! -d "$temp/root/$dir" ] || cp -a "$temp/root/$dir/." "$temp/root/usr/$dir/"
	rm -rf "${temp:?}/root/$dir"
	ln -s "usr/$dir" "$temp/root/$dir"
done
find "$temp/root" -type l -lname '/*' -printf '%l %p\n' | while read -r target link; do
	ln -sfr "$temp/root$target" "$link"
done
: >"$temp/root/.complete"
# Somebody else may have been faster.
mv -T "$temp/root" "$root" 2>/dev/null || [ -e "$root/.complete" ] || die "$root: cannot make it"
echo "$root"
