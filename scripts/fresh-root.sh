#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs a command in a clone of this repository's HEAD in a new minimal Debian root: does what the
# README says work where nothing is installed?   (needs root; kernel and network are the machine's)
#   scripts/fresh-root.sh [--keep] [--suite SUITE] [COMMAND [ARGUMENT]...]   (make demo DURATION=3)
# Its status is the command's; 125: the root could not be made. Must never mount anything where
# the machine sees it, remove a tree that something is mounted in, or leave a process behind.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

die_start() { say "$1"; exit 125; }

# inside ROOT COMMAND...: in a mount namespace of its own, leader of a process group of its own
inside() {
	root=$1
	shift
	# A mount of its own, so that what runs inside can make mount namespaces (unshare -m).
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount --rbind /dev "$root/dev"
	# What is not there outside either may fail.
	for fs in tracefs:kernel/tracing debugfs:kernel/debug bpf:fs/bpf cgroup2:fs/cgroup; do
		mount -t "${fs%%:*}" "${fs%%:*}" "$root/sys/${fs#*:}" 2>/dev/null || :
	done
	status=0
	# shellcheck disable=SC2016 # the inner shell's
	env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		LANG=C.UTF-8 TERM=dumb ${http_proxy:+"http_proxy=$http_proxy"} \
		${https_proxy:+"https_proxy=$https_proxy"} ${no_proxy:+"no_proxy=$no_proxy"} \
		chroot "$root" sh -c 'cd /root/rprof-bpf && exec "$@"' sh "$@" || status=$?
	# Whoever the command left behind is in this group.
	trap '' TERM
	kill -TERM 0
	exit $status
}

# make_base: the minimal root, packed; only complete ones get their name
make_base() {
	command -v mmdebstrap >/dev/null || die_start "mmdebstrap: not found; run scripts/deps.sh vm"
	say "making a minimal root of Debian $suite (once)"
	suites="$suite $suite-security"
	! debian_targets | grep -q " $suite-updates main$" || suites="$suites $suite-updates"
	# shellcheck disable=SC2086 # a list
	debian_sources $suites >"$temp/sources.list" || exit 125
	debian_net_conf >"$temp/apt.conf"
	mmdebstrap --quiet --mode=root --variant=minbase --include=git,make,ca-certificates \
		--aptopt="$temp/apt.conf" "$suite" "$temp/base.tar" "$temp/sources.list" \
		>"$temp/log" 2>&1 || {
		tail -n 20 "$temp/log" >&2
		die_start "minimal root of $suite: mmdebstrap failed, see above"
	}
	sum=$(sha256sum <"$temp/base.tar")
	mv "$temp/base.tar" "$base"
	echo "$sum" >"$base.sha256"
}

# shellcheck disable=SC2317 # by a trap
cleanup() {
	if [ -n "$child" ]; then
		# The group, whose leader lives, for it is waited for below; it may not be one yet.
		kill -s TERM -- "-$child" 2>/dev/null || kill -s TERM "$child" 2>/dev/null || :
		wait "$child" || :
	fi
	if [ -n "$keep" ] && [ -d "$temp/root/root/rprof-bpf" ]; then
		say "kept: $temp/root"
	else
		rm -rf --one-file-system "$temp"
	fi
}

if [ "${1-}" = --inside ]; then
	shift
	inside "$@"
fi

keep='' suite=bookworm
while [ $# -gt 0 ]; do
	case $1 in
	--keep) keep=1; shift ;;
	--suite) suite=${2:?--suite needs a value}; shift 2 ;;
	-*) say "usage: fresh-root.sh [--keep] [--suite SUITE] [COMMAND [ARGUMENT]...]"; exit 2 ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || set -- make demo DURATION=3
[ "$(id -u)" = 0 ] || die_start "only root can make a root file system; run it with sudo"

cache=$(cache_dir)
base=$cache/fresh-root-$suite.tar
child=''
temp=$(mktemp -d "$cache/temp.XXXXXX")
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ ! -e "$base" ] || [ "$(sha256sum <"$base")" != "$(cat "$base.sha256" 2>/dev/null)" ]; then
	make_base
fi
root=$temp/root
mkdir "$root"
tar -C "$root" --exclude='./dev/*' -xf "$base" || die_start "$base: cannot unpack it"
for file in resolv.conf hosts; do
	[ ! -e /etc/$file ] || cp -L /etc/$file "$root/etc/$file"
done
# What git takes with it, and nothing else; by way of a bundle, which does not mind another owner.
repository=$(dirname "$here")
git -c safe.directory="$repository" -C "$repository" bundle create -q "$temp/bundle" HEAD ||
	die_start "$repository: not a git repository with a commit"
git init -q -b main "$root/root/rprof-bpf"
git -C "$root/root/rprof-bpf" fetch -q "$temp/bundle" HEAD
git -C "$root/root/rprof-bpf" reset -q --hard FETCH_HEAD

setsid unshare --mount --propagation private "$0" --inside "$root" "$@" </dev/null &
child=$!
status=0
wait "$child" || status=$?
child=''
exit "$status"
