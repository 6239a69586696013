#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The demo: profile a bundled Python and C workload of known shares, or a process given. The folded
# stacks go to stdout; what they say of the workload, for people, to stderr. Leaves nothing running.
# Called by `make demo`, as root.
#   scripts/demo.sh [PID] [SECONDS]       PYTHON=... another interpreter than this machine's
set -eu

pid=${1:-}
duration=${2:-5}
workload=
folder=
# What makes frames that can be walked on this machine, and what marks say where it is missing.
case $(uname -m) in
s390x) arch=s390 chain='back chain' chains='the back chain' ;;
*) arch=x86 chain='frame pointer' chains='frame pointers' ;;
esac

clean_up() {
	if [ -n "$workload" ]; then
		kill "$workload" 2>/dev/null || true
		wait "$workload" 2>/dev/null || true
		workload=
	fi
	[ -z "$folder" ] || rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf 'demo: %s\n' "$1" >&2; }

profile() {
	say "build/rprof-bpf -F 999 -d $duration --pid $pid"
	build/rprof-bpf -F 999 -d "$duration" --pid "$pid"
}

# Shares of the functions by the deepest one of each stack, and the stacks that came most often.
report() {
	awk '
	BEGIN {
		split("parse tokenize smooth sort_rows compare", order)
		split("15 25 30 10 20", part)
		split("main > parse|main > parse > tokenize|main > render > smooth (C)|" \
			"main > rank > sort_rows (C)|main > rank > sort_rows (C) > compare", path, "|")
		for (i = 1; i in order; i++)
			of[order[i]] = i
	}
	{
		count = $NF
		sub(/ [0-9]+$/, "")
		n = split($0, frame, ";")
		where = 0
		for (i = 1; i <= n; i++) {
			name = frame[i]
			sub(/ .*/, "", name)
			if (name in of)
				where = of[name]
		}
		got[where] += count
		sum += count
		if (NR <= 5)
			top[NR] = $0
		counts[NR] = count
	}
	END {
		if (!sum)
			exit
		printf "\ndemo: the stacks that came most often, callers first\n"
		for (i = 1; i in top; i++) {
			n = split(top[i], frame, ";")
			printf "\n  %5.1f %%\n", 100 * counts[i] / sum
			for (j = 2; j <= n; j++)
				printf "           %s\n", frame[j]
		}
		printf "\ndemo: share of the samples that ended there, and of the work by construction\n\n"
		for (i = 1; i in order; i++)
			printf "  %5.1f %%   %3d %%   %s\n", 100 * got[i] / sum, part[i], path[i]
		if (got[0])
			printf "  %5.1f %%     0 %%   elsewhere\n", 100 * got[0] / sum
	}' "$1" >&2
	cat >&2 <<-END

	demo: "[truncated: no $chain in FILE]": C functions that stood between the frames before
	demo: and behind it are not known, as FILE was built without $chains. Python functions are
	demo: all there, in their order, whatever the C code is. In a Python without $chains
	demo: (Debian's up to 3.14) sort_rows is not seen between rank and compare either.
	END
}

if [ -n "$pid" ]; then
	profile
	exit
fi

python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3
folder=$(mktemp -d)
mkfifo "$folder/ready"
"$python" tests/workloads/demo.py "build/$arch/workloads" >"$folder/ready" &
workload=$!
pid=$workload
read -r _ <"$folder/ready" || { say "the workload did not start"; exit 1; }
say "workload: process $pid: tests/workloads/demo.py, and C functions of rprofdemo.c"
profile >"$folder/out"
cat "$folder/out"
report "$folder/out"
