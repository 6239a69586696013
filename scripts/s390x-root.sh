#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints the path of a directory in the cache with what a Debian 12 machine of s390x boots from, made
# at the first call: vmlinuz, disk.img (the root with all packages that building and testing need, and
# the kernel's modules), modules/ (those that mount it, named in order of loading).
#   scripts/s390x-root.sh [--bare]
# --bare: a root with git and make alone, in which scripts/deps.sh has everything to do.
# Needs root, for the owners of the files. Programs of s390x are run here by qemu, known for that in a
# user namespace alone. Status 77: the packages cannot be had.
# Must never print the path of what is not complete, nor anything else on stdout, nor leave a mark on
# this machine outside the cache.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

suite=bookworm
kernel_suites='trixie trixie-security'
kernel_pattern='linux-image-6\.12\.[^-]*-s390x'
base=git,make,kmod
# What the disk and the network need, and what that needs before: the kernel has them as modules.
drivers='virtio_blk crc32c_generic crc16 mbcache jbd2 ext4 failover net_failover virtio_net'

skip() { say "SKIP: s390x machine: $1"; exit 77; }

# inside COMMAND...: as root of a user namespace in which programs of s390x can be run
inside() {
	mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
	magic='\x7f\x45\x4c\x46\x02\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x16'
	mask='\xff\xff\xff\xff\xff\xff\xff\xfc\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff'
	printf '%s' ":s390x:M::$magic:$mask:$(command -v qemu-s390x-static):OPF" \
		>/proc/sys/fs/binfmt_misc/register
	exec "$@"
}

# in_namespaces COMMAND...: the same users, but of a namespace of our own
in_namespaces() {
	mkfifo "$temp/go"
	# shellcheck disable=SC2016 # the inner shell's
	unshare --user sh -c 'read -r _ <"$1" && shift && exec unshare --mount --pid --fork \
		--mount-proc --kill-child "$@"' sh "$temp/go" "$0" --inside "$@" </dev/null &
	child=$!
	while [ "$(readlink "/proc/$child/ns/user")" = "$(readlink /proc/self/ns/user)" ]; do
		sleep 0.1
	done
	echo '0 0 65536' >"/proc/$child/uid_map"
	echo '0 0 65536' >"/proc/$child/gid_map"
	echo go >"$temp/go"
	status=0
	wait "$child" || status=$?
	child=''
	return "$status"
}

# packages_of: the list for mmdebstrap; of a|b the first that the release has
packages_of() {
	printf '%s' "$base"
	[ -z "$bare" ] || return 0
	for entry in $("$here/deps.sh" --list build demo test); do
		for name in $(echo "$entry" | tr '|' ' '); do
			if apt-cache -c "$temp/apt/apt.conf" show "$name" >/dev/null 2>&1; then
				printf ',%s' "$name"
				break
			fi
		done
	done
}

# get_kernel: vmlinuz and modules/ in $temp/machine, all modules in $temp/modules.tar
get_kernel() {
	# shellcheck disable=SC2086 # a list
	debian_apt_init "$temp/kernel" s390x $kernel_suites
	deb=''
	# A file of the last days can be missing while the index names it: then the next older one.
	for name in $(apt-cache -c "$temp/kernel/apt.conf" pkgnames linux-image- |
		grep -xE "$kernel_pattern" | sort -rV | head -n 4); do
		(cd "$temp" && apt-get -c kernel/apt.conf -q download "$name") >>"$temp/log" 2>&1 ||
			continue
		deb=$(echo "$temp/$name"_*.deb)
		break
	done
	[ -n "$deb" ] || skip "no package like $kernel_pattern in $kernel_suites can be had"
	mkdir -p "$temp/tree" "$temp/machine/modules"
	dpkg-deb --extract "$deb" "$temp/tree"
	mv "$temp"/tree/boot/vmlinuz-* "$temp/machine/vmlinuz"
	[ ! -d "$temp/tree/lib" ] || mv "$temp/tree/lib" "$temp/tree/usr/lib"
	release=$(ls "$temp/tree/usr/lib/modules")
	tar -C "$temp/tree" -cf "$temp/modules.tar" ./usr/lib/modules
	n=10
	for name in $drivers; do
		file=$(find "$temp/tree/usr/lib/modules" -name "$name.ko*")
		[ -n "$file" ] || die "$release: no module $name"
		case $file in
		*.xz) xz -dc "$file" ;;
		*) cat "$file" ;;
		esac >"$temp/machine/modules/$n-$name.ko"
		n=$((n + 1))
	done
}

# shellcheck disable=SC2317 # by a trap
cleanup() {
	if [ -n "$child" ]; then
		kill "$child" 2>/dev/null || :
		wait "$child" || :
	fi
	rm -rf --one-file-system "$temp"
}

if [ "${1-}" = --inside ]; then
	shift
	inside "$@"
fi
bare=''
case ${1-} in
'') ;;
--bare) bare=1 ;;
*) say "usage: s390x-root.sh [--bare]"; exit 2 ;;
esac

cache=$(cache_dir)
# Another list of packages is another root; the number counts changes of what is done here.
machine=$cache/s390x-machine-$suite-$(
	echo "$base $bare $("$here/deps.sh" --list build demo test) 1" | cksum | cut -d' ' -f1)
if [ -e "$machine/.complete" ]; then
	echo "$machine"
	exit 0
fi
[ "$(id -u)" = 0 ] || die "only root can make a root file system; run it with sudo"
for program in mmdebstrap qemu-s390x-static mke2fs xz; do
	command -v $program >/dev/null || die "$program: not found; run scripts/deps.sh vm"
done

child=''
temp=$(mktemp -d "$cache/temp.XXXXXX")
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say "making the root of a Debian $suite machine of s390x (once; all its programs are emulated)"
suites="$suite $suite-security"
! debian_targets | grep -q " $suite-updates main$" || suites="$suites $suite-updates"
# shellcheck disable=SC2086 # a list
debian_apt_init "$temp/apt" s390x $suites
debian_net_conf >"$temp/net.conf"
get_kernel
# No device nodes: a user namespace may not make them, and the machine's kernel does.
in_namespaces env TMPDIR="$temp" mmdebstrap --quiet --mode=root --variant=minbase \
	--architectures=s390x --skip=check/qemu,output/dev,output/mknod --include="$(packages_of)" \
	--aptopt="$temp/net.conf" --dpkgopt=force-unsafe-io \
	--customize-hook="tar-in '$temp/modules.tar' /" \
	--customize-hook="chroot \"\$1\" depmod $release" \
	"$suite" "$temp/root" "$temp/apt/sources.list" >>"$temp/log" 2>&1 || {
	tail -n 20 "$temp/log" >&2
	skip "mmdebstrap failed, see above (is the mirror reachable?)"
}
mke2fs -q -t ext4 -d "$temp/root" "$temp/machine/disk.img" 16G >"$temp/log" 2>&1 || {
	cat "$temp/log" >&2
	die "disk.img: mke2fs failed"
}
: >"$temp/machine/.complete"
# Somebody else may have been faster.
mv -T "$temp/machine" "$machine" 2>/dev/null || [ -e "$machine/.complete" ] ||
	die "$machine: cannot make it"
echo "$machine"
