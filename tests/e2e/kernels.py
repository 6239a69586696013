#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Other kernels, each booted once in a virtual machine (issue 2, acceptance 8).

    tests/e2e/kernels.py KERNEL...          as scripts/vm.sh names them

On each: every program loads within its budget; where the machine is this one's architecture, a
generated call tree is sampled and judged as tree.py does, a command is run, and a CPU goes offline
and comes back under way. Emulated CPUs are slow: no share is judged here.
"""
import os
import platform
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (ROOT, Result, Skip, build, check_accounting, expect, expect_equal, main,
                       note, scratch, test)
import binary
import gentree
import tree

ARCH = {"amd64": "x86", "s390x": "s390"}
HERE = {"x86_64": "amd64", "s390x": "s390x"}.get(platform.machine())
BOOT_TIMEOUT = 400

# What the guest does. Each part prints its own marker lines; files come back between them.
GUEST = r"""
part() { echo "==== $1"; }
run() {
	name=$1; shift
	"$@" > /tmp/out 2> /tmp/err; code=$?
	part "$name.status"; echo $code; part "$name.out"; cat /tmp/out; part "$name.err"; cat /tmp/err
}
part load; /bin/load
[ -x /bin/rprof-bpf ] || exit 0
/bin/tree -t 2 > /tmp/ready & tree=$!
while ! grep -q ready /tmp/ready; do sleep 0.1; done
run tree /bin/rprof-bpf -p $tree -F 499 -d 6 --annotate --stats
( while ! grep -q 'CPU 1: sampling event opened' /tmp/err; do sleep 0.2; done
  sleep 1; echo 0 > /sys/devices/system/cpu/cpu1/online
  sleep 3; echo 1 > /sys/devices/system/cpu/cpu1/online ) &
run hotplug /bin/rprof-bpf -p $tree -F 499 -d 9 --annotate --stats -v
kill -9 $tree
run command /bin/rprof-bpf -F 499 --stats -- sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; exit 7'
part left; ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c 'anon_inode:\(bpf\|\[perf\)'
"""


class Guest:
    """One boot: the parts of its output by name."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.arch = kernel.split("-")[0]
        self.native = self.arch == HERE
        self.parts = None
        self.program = None
        self.tree = None

    def file(self, name):
        return os.path.join(ROOT, "build", ARCH[self.arch], name)

    def boot(self):
        made = subprocess.run(["make", "-s", "-C", ROOT, f"ARCH={ARCH[self.arch]}",
                               self.file("tests/kernel/load")[len(ROOT) + 1:]],
                              capture_output=True, text=True, check=False)
        expect(made.returncode == 0, f"make: {made.stderr[-2000:]}")
        argv = [os.path.join(ROOT, "scripts", "vm.sh"), "--timeout", str(BOOT_TIMEOUT - 20),
                "--bin", self.file("tests/kernel/load")]
        if self.native:
            self.tree = gentree.generate(scratch("vmtree.c"), seed=11)
            built = build(scratch("vmtree.c"))
            self.program = binary.Program(built, gentree.BURN_MULTIPLIER)
            argv += ["--bin", self.file("rprof-bpf"), "--bin", f"{built}:/bin/tree"]
        done = subprocess.run([*argv, self.kernel, "--", "sh", "-c", GUEST], capture_output=True,
                              text=True, errors="replace", check=False)
        if done.returncode == 77:
            raise Skip(done.stderr.strip().split("\n")[-1])
        self.parts = {}
        for chunk in done.stdout.split("==== ")[1:]:
            name, _, text = chunk.partition("\n")
            self.parts[name] = text
        expect("load" in self.parts, f"the machine said nothing (status {done.returncode}):\n"
               f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}")

    def result(self, name):
        expect(f"{name}.err" in self.parts, f"no output of {name}: {list(self.parts)}")
        return Result([self.kernel, name], int(self.parts[f"{name}.status"]),
                      self.parts[f"{name}.out"], self.parts[f"{name}.err"])


def loads(guest):
    guest.boot()
    lines = guest.parts["load"].strip().split("\n")
    for line in lines:
        if line.startswith("#"):
            note(line.lstrip("# "))
    expect(sum(line.startswith("ok") for line in lines) >= 4, "\n".join(lines))
    expect(not any(line.startswith("not ok") for line in lines), "\n".join(lines))


def judge(guest, result):
    verdict = tree.Verdict()
    of_tree = tree.Judge(guest.tree, guest.program)
    for stack in result.stacks():
        of_tree.stack(stack, verdict)
    note(f"{verdict.samples} samples, deepest {verdict.deepest}, caller of the leaf proven "
         f"{verdict.leaf_proven / max(1, verdict.samples):.2%}, "
         f"impossible {sum(verdict.impossible.values())}")
    expect(not verdict.impossible, f"impossible: {verdict.impossible.most_common(5)}")
    tree.check_marks(of_tree, verdict)
    return verdict


def samples_and_walks(guest):
    result = guest.result("tree").ok()
    stats = check_accounting(result)
    verdict = judge(guest, result)
    expect(verdict.samples > 500, f"only {verdict.samples} samples\n{result}")
    expect(verdict.deepest > 50, f"the deepest stack has {verdict.deepest} frames")
    expect(verdict.leaf_proven >= 0.995 * verdict.samples, "callers of leaves are missing")
    kernel = sum(s.count for s in result.stacks() if s.kernel())
    note(f"expected {stats['expected']}, missed {stats['missed']}; {kernel} samples in the kernel")


def follows_cpus_that_come_and_go(guest):
    result = guest.result("hotplug").ok()
    check_accounting(result)
    judge(guest, result)
    expect(re.search(r"CPU 1: sampling event closed", result.err), f"CPU 1 did not go\n{result}")
    expect(re.search(r"CPU 1: sampling event opened", result.err), f"or did not return\n{result}")


def runs_a_command(guest):
    result = guest.result("command")
    expect_equal(result.status, 7, "status of the command")
    check_accounting(result)
    expect(any("sh" in s.comm for s in result.stacks()), f"no sample of the shell\n{result}")


def leaves_nothing(guest):
    expect_equal(int(guest.parts["left"].split()[0]), 0, "descriptors of BPF or perf left")


def add_tests():
    for kernel in [a for a in sys.argv[1:] if not a.startswith("-")]:
        guest = Guest(kernel)
        name = kernel.replace("-", "_").replace(".", "_")
        test(BOOT_TIMEOUT, f"{name}_loads_every_program")(lambda g=guest: loads(g))
        if not guest.native:
            continue
        for check in (samples_and_walks, follows_cpus_that_come_and_go, runs_a_command,
                      leaves_nothing):
            test(60, f"{name}_{check.__name__}")(lambda g=guest, c=check: after_boot(g, c))
    sys.argv[1:] = []


def after_boot(guest, check):
    if guest.parts is None:
        raise Skip("the machine did not boot")
    check(guest)


if __name__ == "__main__":
    add_tests()
    sys.exit(main(needs_profiler=False))
