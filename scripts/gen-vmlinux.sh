#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How vmlinux/*/vmlinux.h are made: a kernel's BTF, as C, cut down to vmlinux/types.txt.
#   scripts/gen-vmlinux.sh ARCH BTF_FILE [KERNEL] >vmlinux/ARCH/vmlinux.h
# ARCH is x86 or s390, KERNEL the `uname -r` of the machine that BTF_FILE was copied from (not
# needed for this machine's own). Must never run as part of a build: its output is committed.
set -eu

say() { printf 'gen-vmlinux: %s\n' "$1" >&2; }
die() { say "$1"; exit 1; }

here=$(dirname "$0")
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
	say "usage: gen-vmlinux.sh x86|s390 BTF_FILE [KERNEL] >vmlinux.h"
	exit 2
fi
arch=$1 btf=$2 kernel=${3-}

case $arch in
x86) machine=x86_64 ;;
s390) machine=s390x ;;
*) die "$arch: unknown architecture (x86 or s390)" ;;
esac
[ -r "$btf" ] || die "$btf: cannot read it (a kernel with CONFIG_DEBUG_INFO_BTF has /sys/kernel/btf/vmlinux)"
if [ -z "$kernel" ]; then
	if [ "$btf" != /sys/kernel/btf/vmlinux ] || [ "$(uname -m)" != $machine ]; then
		die "$btf: of which kernel? give its uname -r as third argument"
	fi
	kernel=$(uname -r)
fi
# Debian has it in /usr/sbin, which is not in every PATH.
PATH=$PATH:/usr/sbin
command -v bpftool >/dev/null || die "bpftool: not found; run scripts/deps.sh build"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bpftool btf dump file "$btf" format c >"$work/full.h" || die "$btf: bpftool cannot read it as BTF"
"$here/vmlinux-trim.py" "$arch" "$here/../vmlinux/types.txt" <"$work/full.h" >"$work/body.h"

cat <<EOF
/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Generated; do not edit: scripts/gen-vmlinux.sh $arch BTF_FILE $kernel
 * from the BTF of Linux $kernel, $machine, cut down to vmlinux/types.txt.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)
#endif

EOF
cat "$work/body.h"
cat <<'EOF'
#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif /* __VMLINUX_H__ */
EOF
