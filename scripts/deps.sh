#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Installs the Debian packages that building and testing need and that are missing here.
#   scripts/deps.sh [--list] [build|demo|test|vm]...          (default: build)
# --list: only says which, in one line; a|b where either will do.
# Says nothing and needs neither root nor network when all are there. Must never ask a question,
# remove a package, or touch apt's sources.
set -eu

# a|b: either will do, the first that this release has is installed.
build='gcc libc6-dev linux-libc-dev make pkgconf|pkg-config clang bpftool
	libbpf-dev libelf-dev libdw-dev zlib1g-dev liblzma-dev libzstd-dev libpopt-dev libjansson-dev libiberty-dev'
demo="$build python3 libpython3-dev"
check='libcmocka-dev python3 bpftrace linux-perf binutils clang-format procps util-linux
	libclang-rt-14-dev|libclang-rt-dev mandoc shellcheck g++ dwz libdebuginfod1t64|libdebuginfod1 xz-utils
	rustc dpkg-dev tcl perl openssl libffi-dev python3-greenlet libpython3-dev
	libc6-dbg python3-dbg mercurial meson python3-sphinx strace'
vm='qemu-system-x86 qemu-system-s390x|qemu-system-misc qemu-user-static|qemu-user
	gcc-s390x-linux-gnu busybox-static cpio mmdebstrap e2fsprogs xz-utils'

say() { printf 'deps: %s\n' "$1" >&2; }
die() { say "$1"; exit 1; }

# the entries of $wanted of which no alternative is installed
missing() {
	# shellcheck disable=SC2086 # a list
	{
		dpkg-query -W -f='${db:Status-Status} ${Package}\n'
		printf 'want %s\n' $wanted
	} | awk '
		$1 == "installed" { have[$2] = 1 }
		$1 == "want" && !asked[$2]++ {
			n = split($2, names, "|")
			for (i = 1; i <= n && !(names[i] in have); i++) {}
			if (i > n)
				print $2
		}'
}

# the first of a|b|c that apt can install; the first of all if none, so that apt names it
choose() {
	case $1 in *'|'*) ;; *) echo "$1"; return ;; esac
	for name in $(echo "$1" | tr '|' ' '); do
		if apt-get -s install --no-install-recommends "$name" >/dev/null 2>&1; then
			echo "$name"
			return
		fi
	done
	echo "${1%%|*}"
}

wanted='' list=''
if [ "${1-}" = --list ]; then
	list=1
	shift
fi
[ $# -gt 0 ] || set -- build
for set in "$@"; do
	case $set in
	build) wanted="$wanted $build" ;;
	demo) wanted="$wanted $demo" ;;
	test) wanted="$wanted $build $check" ;;
	vm) wanted="$wanted $vm" ;;
	*) say "$set: no such set of packages (build, demo, test, vm)"; exit 2 ;;
	esac
done

if [ -n "$list" ]; then
	# shellcheck disable=SC2086 # a list
	echo $wanted
	exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	# shellcheck disable=SC2086 # split on purpose
	say "not a Debian system: install the like of these yourself:$(printf ' %s' $wanted)"
	exit 0
fi

need=$(missing | tr '\n' ' ')
[ -n "$need" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	die "missing packages: ${need% }: only root can install them; run: sudo $0 $*"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1; }

say "missing: ${need% }"
if ! apt update || grep -q '^[WE]:' "$log"; then
	say "warning: apt-get update had trouble; going on with the sources that work"
	grep '^[WE]:' "$log" | sed 's/^/deps:   /' >&2 || :
fi
chosen=
for entry in $need; do
	chosen="$chosen $(choose "$entry")"
done
say "installing:$chosen"
# shellcheck disable=SC2086 # a list of names
if ! apt install -y --no-install-recommends -o Dpkg::Options::=--force-confold $chosen; then
	tail -n 30 "$log" | sed 's/^/deps:   /' >&2
	die "apt-get could not install:$chosen: see above"
fi
need=$(missing | tr '\n' ' ')
[ -z "$need" ] || die "still missing after apt-get: ${need% }"
