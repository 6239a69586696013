#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs a command in a clone of this repository's HEAD on a Debian 12 machine of s390x with a kernel of
# 6.12, emulated: do the two commands of the README work there?
#   scripts/s390x-machine.sh [OPTION]... [COMMAND [ARGUMENT]...]      (make demo)
# Output of the command goes to stdout, its status is this script's; 77: the machine cannot be had,
# 124: timeout, 125: it could not be started or died. The machine has the network of this one, so
# scripts/deps.sh works in it. Must never end a process that it did not start.
set -eu

usage() {
	cat <<-'EOF'
	usage: s390x-machine.sh [OPTION]... [COMMAND [ARGUMENT]...]
	  --bare             a root with git and make alone, as after installation (else with all packages)
	  --disk FILE        a disk that stays as it is left; made if there is none
	  --timeout SECONDS  (7200)
	  --smp N            (2)
	  --memory MIB       (4096)
	EOF
}

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

die_start() { say "$1"; exit 125; }

# As one word of a shell
quoted() { printf "'%s' " "${1//\'/\'\\\'\'}"; }

# stage COMMAND...: the initial file system, in $work/stage
stage() {
	local stage=$work/stage repository word sysroot
	repository=$(dirname "$here")
	sysroot=$("$here/s390x-sysroot.sh")
	mkdir -p "$stage"/{bin,dev,proc,sys,root,machine/etc/apt/apt.conf.d}
	cp -L "$sysroot/bin/busybox" "$stage/bin/busybox"
	ln -s busybox "$stage/bin/sh"
	sed "s/@MARK@/$mark/" "$here/s390x-init" >"$stage/init"
	chmod 755 "$stage/init"
	cp -R "$machine/modules" "$stage/machine/"
	# The same way to the mirror as this machine's; names are resolved by it, too.
	debian_sources "${suites[@]}" >"$stage/machine/etc/apt/sources.list"
	debian_net_conf >"$stage/machine/etc/apt/apt.conf.d/98host"
	echo 'nameserver 10.0.2.3' >"$stage/machine/etc/resolv.conf"
	[ ! -e /etc/hosts ] || cp -L /etc/hosts "$stage/machine/etc/hosts"
	echo 's390x' >"$stage/machine/etc/hostname"
	# What git takes with it, and nothing else.
	git -c safe.directory="$repository" -C "$repository" bundle create -q \
		"$stage/machine/bundle" HEAD || die_start "$repository: not a git repository with a commit"
	{
		for word in http_proxy https_proxy no_proxy; do
			[ -z "${!word-}" ] || printf 'export %s=%s\n' "$word" "$(quoted "${!word}")"
		done
		# Of the tests, with processors that are emulated.
		echo "export RPROF_PATIENCE=${RPROF_PATIENCE:-10}"
		for word in "$@"; do quoted "$word"; done
		echo
	} >"$stage/machine/command"
	(cd "$stage" && find . | cpio --quiet -o -H newc -R 0:0 >"$work/initrd")
	rm -rf "$stage"
}

# boot: sets status if the machine told one
boot() {
	local ended=0 console_pid drive
	drive=file=$machine/disk.img,snapshot=on
	if [ -n "$disk" ]; then
		[ -e "$disk" ] || cp --sparse=auto --reflink=auto "$machine/disk.img" "$disk"
		drive=file=$disk
	fi
	mkfifo "$work/console"
	"$here/vm-console.pl" "$mark" "$work" <"$work/console" &
	console_pid=$!
	# What is written to a disk that does not stay lies in TMPDIR. No vectors: qemu 7.2 emulates
	# VECTOR CHECKSUM wrongly, so packets of a kernel that uses it are dropped.
	TMPDIR=$work timeout --kill-after=5 "$timeout" qemu-system-s390x -M s390-ccw-virtio -accel tcg \
		-cpu max,vx=off,vxeh=off -smp "$smp" -m "$memory" -no-reboot -nodefaults -display none -serial stdio \
		-drive "$drive,format=raw,if=none,id=disk,cache=unsafe" -device virtio-blk-ccw,drive=disk \
		-netdev user,id=net -device virtio-net-ccw,netdev=net \
		-kernel "$machine/vmlinuz" -initrd "$work/initrd" \
		-append "console=ttyS0 panic=-1 quiet loglevel=3" \
		</dev/null >"$work/console" 2>"$work/qemu.log" &
	qemu_pid=$!
	wait "$qemu_pid" || ended=$?
	qemu_pid=
	wait "$console_pid" || :

	if [ -e "$work/status" ]; then
		status=$(cat "$work/status")
	elif [ $ended = 124 ] || [ $ended = 137 ]; then
		say "no end after $timeout s: stopped"
		status=124
	else
		say "the machine died without telling a status"
		status=125
		cat "$work/boot" "$work/qemu.log" | sed 's/^/s390x-machine.sh:   /' >&2
	fi
}

# shellcheck disable=SC2317 # by a trap
cleanup() {
	if [ -n "$qemu_pid" ]; then
		kill "$qemu_pid" 2>/dev/null || : # timeout, which hands it on
		wait "$qemu_pid" || :
	fi
	rm -rf "$work"
}

bare=() disk='' timeout=7200 smp=2 memory=4096
while [ $# -gt 0 ]; do
	case $1 in
	--disk | --timeout | --smp | --memory)
		[ $# -gt 1 ] || { say "$1: needs a value"; exit 2; }
		printf -v "${1#--}" %s "$2"
		shift 2 ;;
	--bare) bare=(--bare); shift ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || set -- make demo

for program in qemu-system-s390x cpio git perl; do
	command -v $program >/dev/null || die_start "$program: not found; run scripts/deps.sh vm"
done
machine=$("$here/s390x-root.sh" "${bare[@]}") || exit
suites=(bookworm bookworm-security)
! debian_targets | grep -q ' bookworm-updates main$' || suites+=(bookworm-updates)
cache=$(cache_dir)
qemu_pid=''
work=$(mktemp -d "$cache/temp.XXXXXX")
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mark=vm-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
stage "$@"
boot
exit "$status"
