#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The demo: profile a bundled C workload of known call tree, or a process given, and show the folded
# stacks. Leaves nothing running. Called by `make demo`, as root.
set -eu

pid=${1:-}
duration=${2:-5}
workload=

stop_workload() {
	if [ -n "$workload" ]; then
		kill "$workload" 2>/dev/null || true
		wait "$workload" 2>/dev/null || true
		workload=
	fi
}
trap stop_workload EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

arch=$(uname -m | sed 's/x86_64/x86/; s/s390x/s390/')
if [ -z "$pid" ]; then
	"build/$arch/workloads/demo" &
	workload=$!
	pid=$workload
	echo "demo: workload: process $pid; main calls parse (60 %), compress (30 %) and report (10 %)" >&2
fi
echo "demo: build/rprof-bpf -F 999 -d $duration --pid $pid" >&2
build/rprof-bpf -F 999 -d "$duration" --pid "$pid"
