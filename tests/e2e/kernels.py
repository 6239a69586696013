#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Other kernels, in virtual machines: issue 2, acceptance 8; issue 5, acceptance 1 to 4.

    tests/e2e/kernels.py [KERNEL...] [WORD...]  kernels as scripts/vm.sh names them, all without;
                                                words: only scenes with such tests
    tests/e2e/kernels.py --shell KERNEL         a prompt in one, with all that the tests have there

Each is booted once for what its architecture can do: every program loads within its budget, generated
trees of C and Python are sampled, a command is run, CPUs come and go, pages age. RPROF_FULL=1: both
compilers, all interpreters, and boots of their own for lockdown and numbers of CPUs. The last lines
are one for each kernel: "s390x-6.12: N passed, N failed, N skipped".
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import FULL, Skip, main, note, test
import vm
import vmpython
import vmscenes

# Boots of their own, where a kernel has all that they ask for.
SPECIAL = ("amd64-6.12", "s390x-6.12")


def usual(kernel):
    """The scenes of the boot that every kernel has."""
    s390x = kernel.startswith("s390x")      # without a JIT
    first = vmscenes.CTree("gcc")
    scenes = [vmscenes.Loads(), vmscenes.Check({"programs"} if s390x else set()), first,
              vmscenes.Hotplug(first), vmscenes.Command(), vmscenes.Events()]
    if FULL:
        scenes += [vmscenes.CTree("clang", seed=12), vmscenes.Shapes("gcc"),
                   vmscenes.Shapes("clang"), vmscenes.BadStacks("gcc"), vmscenes.BadStacks("clang")]
    for version in ("3.11", "3.13", "3.14", "3.15") if FULL else ("3.11", "3.15"):
        scenes.append(vmpython.PyTree(f"debian-{version}"))
    if FULL:
        scenes.append(vmpython.Aging("debian-3.15"))
        if s390x:
            scenes.append(vmpython.Moving("debian-3.15"))
    return scenes + [vmscenes.Left()]


def boots(kernel, words):
    """[(name, options of vm.sh, scenes)]: those that have tests for one of the words, if there are
    any."""
    for name, options, scenes in all_boots(kernel):
        kept = [s for s in scenes if not words or
                any(word in f"{name} {what}" for what, _ in s.tests() for word in words)]
        if kept:
            needed = [] if kept[0] is scenes[0] else [vmscenes.Program()]
            yield name, options, needed + kept


def all_boots(kernel):
    yield "", [], usual(kernel)
    if FULL and kernel in SPECIAL:
        yield "one CPU", ["--smp", "1"], [vmscenes.Loads(), vmscenes.CTree(), vmscenes.Command()]
        # Some of the CPUs are not there at the start, and never come.
        yield "16 CPUs", ["--smp", "16", "--append", "maxcpus=12 lockdown=integrity"], \
            [vmscenes.Loads(), vmscenes.CTree(), vmscenes.Command()]
        yield "locked", ["--append", "lockdown=confidentiality"], \
            [vmscenes.Program(), vmscenes.Locked()]


class Counts:
    """What the tests of one kernel came to."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def run(self, function):
        try:
            function()
        except Skip:
            self.skipped += 1
            raise
        except BaseException:
            self.failed += 1
            raise
        self.passed += 1


def add_tests(kernels, words):
    """Registers them; returns {kernel: Counts}, and all machines."""
    counts = {}
    machines = [(kernel, vm.Machine(kernel, scenes, name, options), scenes)
                for kernel in kernels for name, options, scenes in boots(kernel, words)]
    fleet = vm.Fleet([machine for _, machine, _ in machines])
    for kernel, machine, scenes in machines:
        counts.setdefault(kernel, Counts())
        prefix = machine.name.replace("-", "_").replace(".", "_").replace(" ", "_")
        for scene in scenes:
            for what, check in scene.tests():
                # The first of a machine waits for it; others may be before it in the queue.
                test(3 * vm.BOOT_TIMEOUT, f"{prefix}_{what}")(
                    lambda args=(counts[kernel], fleet, machine, scene, check): judge(*args))
    return counts, [machine for _, machine, _ in machines]


def judge(counts, fleet, machine, scene, check):
    def wait_and_check():
        fleet.wait(machine)
        machine.check(scene)
        check(machine)
    counts.run(wait_and_check)


def shell(kernel):
    machine = vm.Machine(kernel, usual(kernel))
    machine.prepare()
    print(f"{kernel}: rprof-bpf, load, tree_gcc, debian-3.11, debian-3.15; \"exit\" ends it.\n"
          "Try: tree_gcc -t 2 & rprof-bpf -p $! -F 499 -d 5", flush=True)
    os.execv(vm.VM, [*machine.command(), "--shell", kernel])


if __name__ == "__main__":
    wanted = sys.argv[1:]
    if wanted[:1] == ["--shell"]:
        shell(*wanted[1:])
    chosen = [word for word in wanted if "-" in word]
    for kernel in set(chosen) - set(vm.KERNELS):
        sys.exit(f"{kernel}: no such kernel; there are {' '.join(vm.KERNELS)}")
    of_kernels, all_machines = add_tests(chosen or vm.KERNELS, [word for word in wanted if "-" not in word])
    sys.argv[1:] = []
    status = main(needs_profiler=False)
    for again in [m for m in all_machines if m.boots > 1]:
        note(f"{again.name}: its kernel panicked, booted again {again.boots - 1} times")
    for of_kernel, sums in of_kernels.items():
        print(f"{of_kernel}: {sums}")
    sys.exit(status)
