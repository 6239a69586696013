# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is done in a virtual machine and judged here: C programs, commands, CPUs, refusals.

A scene adds to a machine what it needs (prepare), and names its tests: functions of a machine that
has ended. Emulated CPUs are slow: no share of time is judged.
"""
import re

from rprof_e2e import Failure, check_accounting, expect, expect_equal, note, scratch, total
import badstack
import shapes
import target
import tree
import vm

FREQUENCY = 499
# However little CPU time a busy machine left.
ENOUGH = 300


UNREADABLE = ("[truncated: stack page not resident]", "[Python frames not found]")


def is_of_kernel_alone(machine, stack):
    """Does it say, as it must, that its user frames cannot be had?

    s390x: in the middle of a switch to a thread the kernel has not loaded the thread's address space
    yet, so that no word of it can be read. The late timers of emulated CPUs like to fire there.
    """
    return machine.arch == "s390x" and any(mark in stack.frames for mark in UNREADABLE) and \
        any(f.startswith(("finish_task_switch", "schedule_tail")) for f in stack.kernel())


def to_judge(machine, stacks):
    """Those of which user frames can be asked for."""
    kept = [s for s in stacks if not is_of_kernel_alone(machine, s)]
    left_out = total(stacks) - total(kept)
    if left_out:
        note(f"{left_out} of {total(stacks)} samples have, and can have, no user frames")
    return kept


class Scene:
    def prepare(self, machine):
        """Add files and script."""

    def tests(self):
        """[(name, function of a machine)]"""
        return []


class Program(Scene):
    """The profiler is there."""

    def prepare(self, machine):
        vm.make(machine.arch, "rprof-bpf")
        machine.program(vm.file(machine.arch, "rprof-bpf"), "/bin/rprof-bpf")


class Loads(Program):
    """And every program loads within its budget: tests/kernel/load.c."""

    def prepare(self, machine):
        super().prepare(machine)
        vm.make(machine.arch, "tests/kernel/load")
        machine.program(vm.file(machine.arch, "tests/kernel/load"), "/bin/load")
        machine.script("part load; load")

    def tests(self):
        return [("loads_every_program", self.loads)]

    @staticmethod
    def loads(machine):
        lines = machine.text("load").strip().split("\n")
        for line in lines:
            if line.startswith("#"):
                note(line.lstrip("# "))
        expect(sum(line.startswith("ok") for line in lines) >= 4, "\n".join(lines))
        expect(not any(line.startswith("not ok") for line in lines), "\n".join(lines))


class Check(Scene):
    """`check` says what is degraded, and nothing else is. @degraded: words of its findings."""

    def __init__(self, degraded):
        self.degraded = degraded

    def prepare(self, machine):
        machine.script("run check rprof-bpf check")

    def tests(self):
        return [("check_names_what_is_degraded", self.check)]

    def check(self, machine):
        result = machine.result("check")
        # A busy host makes samples late, which is a finding of its own.
        found = {name.strip() for name in re.findall(r"^  degraded +(.{15}\S*)", result.out, re.M)}
        found -= {"samples", "virtual machine"}
        note(f"degraded: {sorted(found) or 'nothing'}")
        expect_equal(found, set(self.degraded), f"what is degraded\n{result.out}")
        expect("impossible" not in result.out, f"{result.out}")
        expect(result.status in ((3,) if self.degraded else (0, 3)), str(result))


class CTree(Scene):
    """A generated call tree of a compiler with @flags (None: those that make frames)."""

    def __init__(self, compiler="gcc", flags=None, seed=11, seconds=5):
        self.name = f"tree_{compiler}"
        self.compiler = compiler
        self.flags = flags
        self.seed = seed
        self.seconds = seconds
        self.judge = None

    def prepare(self, machine):
        program, self.judge = tree.make(scratch(f"{machine.arch}_{self.name}"),
                                        vm.ARCH[machine.arch], self.compiler, self.flags,
                                        seed=self.seed)
        machine.program(program, f"/bin/{self.name}")
        machine.script(f"""
start {self.name} -t 2
run {self.name} rprof-bpf -p $target -F {FREQUENCY} -d {self.seconds} --annotate --stats
stop
""")

    def tests(self):
        return [(f"samples_and_walks_{self.name}", self.walks)]

    def verdict(self, machine, result):
        verdict = tree.Verdict()
        for stack in to_judge(machine, result.stacks()):
            self.judge.stack(stack, verdict)
        n = max(1, verdict.samples)
        note(f"{verdict.samples} samples, deepest {verdict.deepest}, complete and unmarked "
             f"{verdict.complete / n:.2%}, impossible {sum(verdict.impossible.values())}, "
             f"stopped {dict(verdict.stopped)}")
        expect(not verdict.impossible, f"impossible: {verdict.impossible.most_common(5)}")
        tree.check_marks(self.judge, verdict)
        return verdict

    def walks(self, machine):
        result = machine.result(self.name).ok()
        stats = check_accounting(result)
        kernel = sum(s.count for s in result.stacks() if s.kernel())
        note(f"expected {stats['expected']}, missed {stats['missed']}; {kernel} samples in the "
             "kernel")
        verdict = self.verdict(machine, result)
        expect(verdict.samples > ENOUGH, f"only {verdict.samples} samples\n{result}")
        expect(verdict.deepest > 50, f"the deepest stack has {verdict.deepest} frames")
        # native-unwind.md 2.6: what the code of a prologue, an epilogue or a leaf does not prove.
        share = 0.995 if machine.arch == "amd64" else 0.93
        expect(verdict.complete >= share * verdict.samples,
               f"only {verdict.complete} of {verdict.samples} samples are complete")


class Shapes(Scene):
    """Stacks that are hard to walk (shapes.c; packed.c on s390x), one process for each."""

    def __init__(self, compiler="gcc", flags=None):
        self.name = f"shapes_{compiler}"
        self.compiler = compiler
        self.flags = flags
        self.programs = {}      # mode -> binary.Program

    def prepare(self, machine):
        arch = vm.ARCH[machine.arch]
        path = scratch(f"{machine.arch}_{self.name}")
        program = shapes.build(path, arch, self.compiler, self.flags)
        machine.program(path, f"/bin/{self.name}")
        self.programs = {mode: program for mode in shapes.MODES}
        starts = [f"{self.name} {mode}" for mode in shapes.MODES]
        if arch == "s390" and self.compiler == "gcc":
            self.programs["packed"] = shapes.build_packed(scratch("packed"))
            machine.program(scratch("packed"), "/bin/packed")
            starts.append("packed")
        machine.script("\n".join(["targets="] + [
            f"start {words}; targets=$targets,$target" for words in starts] + [f"""
run {self.name} rprof-bpf -p ${{targets#,}} -F {FREQUENCY} -d {len(starts)} --annotate --stats
for target in $(echo $targets | tr , ' '); do stop; done
"""]))

    def tests(self):
        return [(f"{self.name}_are_whole_or_marked", self.whole)]

    def whole(self, machine):
        result = machine.result(self.name).ok()
        check_accounting(result)
        stacks = to_judge(machine, result.stacks())
        text = "".join(f"{';'.join([s.comm, *s.frames])} {s.count}\n" for s in stacks)
        wrong = []
        for mode, program in self.programs.items():
            try:
                shapes.judge(mode, text, program).check(least=20)
            except Failure as failure:
                wrong.append(str(failure))
        expect(not wrong, "\n".join(wrong))


class BadStacks(Scene):
    """Threads whose stack pointers and links lead astray: badstack.c."""

    def __init__(self, compiler="gcc"):
        self.name = f"badstack_{compiler}"
        self.compiler = compiler

    def prepare(self, machine):
        program = target.build("badstack.c", scratch(f"{machine.arch}_{self.name}"),
                               vm.ARCH[machine.arch], self.compiler)
        machine.program(program, f"/bin/{self.name}")
        machine.script(f"""
start {self.name}
run {self.name} rprof-bpf -p $target -F {FREQUENCY} -d 6 --annotate --stats
stop
""")

    def tests(self):
        return [(f"what_broken_stacks_lead_to_is_not_printed_{self.name}", self.bounded)]

    def bounded(self, machine):
        result = machine.result(self.name).ok()
        check_accounting(result)
        badstack.check(to_judge(machine, result.stacks()), least=5)


class Hotplug(Scene):
    """A CPU that is offline at the start comes, goes, and comes back."""

    def __init__(self, of_tree):
        self.tree = of_tree

    def prepare(self, machine):
        machine.script(f"""
start {self.tree.name} -t 2
cpu1 0
begin hotplug rprof-bpf -p $target -F {FREQUENCY} -d 200 --annotate --stats -v
said 'CPU 0: sampling event opened'; sleep 1
cpu1 1; said 'CPU 1: sampling event opened'; sleep 1
cpu1 0; said 'CPU 1: sampling event closed'; sleep 1
cpu1 1; tries=0
until [ "$(grep -c 'CPU 1: sampling event opened' /tmp/err)" -ge 2 ]; do tries 300 || break; done
sleep 1; finish
stop
""")

    def tests(self):
        return [("follows_cpus_that_come_and_go", self.follows)]

    def follows(self, machine):
        result = machine.result("hotplug").ok()
        check_accounting(result)
        self.tree.verdict(machine, result)
        events = re.findall(r"CPU (\d+): sampling event (\w+)", result.err)
        of_1 = [what for cpu, what in events if cpu == "1"]
        expect_equal(of_1[:3], ["opened", "closed", "opened"], f"what CPU 1 did\n{result}")


class Command(Scene):
    def prepare(self, machine):
        machine.script("""
run command rprof-bpf -F 499 --stats -- \\
	sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exit 7'
""")

    def tests(self):
        return [("runs_a_command", self.runs)]

    @staticmethod
    def runs(machine):
        result = machine.result("command")
        expect_equal(result.status, 7, "status of the command")
        check_accounting(result)
        expect(any("sh" in s.comm for s in result.stacks()), f"no sample of the shell\n{result}")


class Events(Scene):
    """-e: cpu-clock is the one that there is; s390x says why cycles are not."""

    def prepare(self, machine):
        machine.script("""
run cycles rprof-bpf -e cycles -- true
run clock rprof-bpf -e cpu-clock -F 499 --stats -- \\
	sh -c 'i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done'
""")

    def tests(self):
        return [("refuses_cycles_with_the_reason", self.refuses)]

    @staticmethod
    def refuses(machine):
        result = machine.result("cycles").ok(2)
        reason = "registers" if machine.arch == "s390x" else "cpu-clock is"
        expect(reason in result.err, f"the reason is missing\n{result}")
        check_accounting(machine.result("clock").ok())


class Locked(Scene):
    """A kernel locked down to confidentiality: refused by name."""

    def prepare(self, machine):
        machine.script("""
part lockdown; cat /sys/kernel/security/lockdown || { mount -t securityfs none \\
	/sys/kernel/security && cat /sys/kernel/security/lockdown; }
run check rprof-bpf check
run refused rprof-bpf -F 99 -d 1 -a
""")

    def tests(self):
        return [("says_that_lockdown_refuses_it", self.refused)]

    @staticmethod
    def refused(machine):
        expect("[confidentiality]" in machine.text("lockdown"), machine.text("lockdown"))
        result = machine.result("refused").ok(1)
        expect("lockdown" in result.err, f"the name of what refuses is missing\n{result}")
        check = machine.result("check").ok(1)
        expect("lockdown" in check.out, str(check))


class Left(Scene):
    """Nothing of BPF or perf is left where nobody runs the profiler."""

    def prepare(self, machine):
        machine.script("""
part left; ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c 'anon_inode:\\(bpf\\|\\[perf\\)'
""")

    def tests(self):
        return [("leaves_nothing", self.leaves)]

    @staticmethod
    def leaves(machine):
        expect_equal(int(machine.text("left").split()[0]), 0, "descriptors of BPF or perf left")
