# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python programs in virtual machines, judged here: the generated tree, and deep idle parents."""
import collections
import re
import subprocess

from rprof_e2e import Skip, check_accounting, expect, is_mark, marked, note, scratch
import pythons
import pytree
import vm
from vmscenes import ENOUGH, FREQUENCY, Scene, to_judge

# A pass over the whole tree would take an emulated CPU seconds.
FUNCTIONS = 80
DEEP = 100


class Foreign:
    """An interpreter of scripts/python.sh, run here: by its own loader, and where it is another
    machine's by qemu-user. The part of pythons.Interpreter that pytree needs."""

    root = None

    def __init__(self, arch, name):
        done = subprocess.run([pythons.SCRIPT, "--arch", arch, name], capture_output=True,
                              text=True, check=False)
        why = done.stderr.strip().rpartition("\n")[2]
        if done.returncode == 77:
            raise Skip(f"{name}: {why}")
        expect(done.returncode == 0, f"python.sh {name}: {why}")
        root, _, path = done.stdout.strip().rpartition(" ")
        self.name = name
        self.version = tuple(map(int, name.rpartition("-")[2].split(".")))
        self._argv = [path] if root == "-" else self._by_loader(arch, root, root + path)
        self._home = None if root == "-" else root + "/usr"

    @staticmethod
    def _by_loader(arch, root, path):
        if arch == "s390x":
            return ["qemu-s390x-static", "-L", root, path]
        return [f"{root}/lib64/ld-linux-x86-64.so.2", "--library-path",
                f"{root}/usr/lib/x86_64-linux-gnu", path]

    def run(self, *args):
        home = {"PYTHONHOME": self._home} if self._home else {}
        done = subprocess.run([*self._argv, *map(str, args)], capture_output=True, text=True,
                              check=False, env=pythons.environment(**home))
        expect(done.returncode == 0, f"{self.name} {args[:2]}: {done.stderr[-2000:]}")
        return done.stdout


class OfPython(Scene):
    """A program of one interpreter; @text: of the program, from @prepare_text()."""

    def __init__(self, interpreter, kind):
        self.interpreter = interpreter
        self.name = f"{kind}_{interpreter.replace('debian-', '')}"
        self.native = interpreter.endswith("3.15")  # has back chains, or frame pointers
        self.missing = None

    def add_program(self, machine, text):
        """Where the interpreter has it; returns its path there."""
        where = scratch(f"{machine.arch}_{self.name}.py")
        with open(where, "w", encoding="utf-8") as file:
            file.write(text)
        machine.python(self.interpreter)
        path = f"/w/{self.name}/{pytree.FILE}"
        machine.add(where, f"/py/{self.interpreter}{path}")
        return path


class PyTree(OfPython):
    """The generated tree of tests/lib/pytree.py."""

    def __init__(self, interpreter, seconds=5):
        super().__init__(interpreter, "pytree")
        self.seconds = seconds
        self.tree = self.lines = None

    def prepare(self, machine):
        foreign = Foreign(machine.arch, self.interpreter)
        self.tree = pytree.Tree(7, foreign.version, FUNCTIONS)
        self.lines = self.tree.lines(foreign)
        path = self.add_program(machine, self.tree.text)
        machine.script(f"""
start {self.interpreter} {path}
run {self.name} rprof-bpf -p $target -F {FREQUENCY} -d {self.seconds} --annotate --stats
stop
""")

    def tests(self):
        found = [(f"no_edge_is_impossible_{self.name}", self.edges)]
        if self.native:
            found.append((f"merged_from_the_start_to_the_leaf_{self.name}", self.merged))
        return found

    def edges(self, machine):
        result = machine.result(self.name).ok()
        stats = check_accounting(result)
        stacks = to_judge(machine, result.stacks())
        verdict = self.tree.judge(stacks, self.lines)
        unlinked = stats.get("stopped: frame not linked yet", 0)
        whole = re.search(r"[\d.]+ ?% whole", result.err)
        note(f"{verdict}; {unlinked} not linked yet, {stats.get('unknown Python frames', 0)} frames "
             f"unknown; it says {whole[0] if whole else 'nothing of whole stacks'}")
        for stack in [s for s in stacks if not any(".py:" in f for f in s.frames)][:3]:
            note(f"without Python frames: {stack.count} of {';'.join(stack.frames)}")
        expect(verdict.samples > ENOUGH, f"only {verdict.samples} samples\n{result}")
        expect(not verdict.impossible, f"impossible: {verdict.impossible.most_common(5)}")
        expect(not verdict.strange, f"lines that the program lacks: {verdict.strange}")
        expect(not marked(stats, "marked: merge mismatch"), "native and Python frames do not fit")
        expect(verdict.whole >= 0.99 * verdict.samples - unlinked,
               f"only {verdict.whole} of {verdict.samples} from <module> on\n{result}")

    def merged(self, machine):
        """The interpreter keeps back chains or frame pointers. Its libc does not, and is the end."""
        result = machine.result(self.name)
        stacks = [s for s in result.stacks() if any(".py:" in f for f in s.frames)]
        n = sum(s.count for s in stacks)
        chain = {"amd64": "frame pointer", "s390x": "back chain"}[machine.arch]
        roots = ("_start", f"[truncated: no {chain} in libc.so.6]")
        rooted = sum(s.count for s in stacks if s.frames[0] in roots)
        unmarked = sum(s.count for s in stacks
                       if s.frames[0] in roots and not any(map(is_mark, s.user()[1:])))
        begins = collections.Counter(s.frames[0] for s in stacks).most_common(4)
        note(f"{rooted} of {n} begin at {' or '.join(roots)}, {unmarked} without another mark; "
             f"stacks by their beginning: {begins}")
        expect(unmarked >= 0.93 * n, f"only {unmarked} of {n} from {roots} on, unmarked\n{result}")


DEEP_HEAD = """\
import time


def leaf(x):
    while True:
        for i in range(1000):
            x = (x * 3 + i) & 0xffff
"""
DEEP_TAIL = """

def begin(x):
    return {leaf}


print("ready", flush=True)
print("deep", f{last}(1))
"""

# Two ways down that differ in nothing but their names, each with a leaf of its own.
MOVING_HEAD = """\
import time


def burn(x):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for i in range(500):
            x = (x * 3 + i) & 0xffff
    return x


def leaf_a(x):
    return burn(x)


def leaf_b(x):
    return burn(x)
"""
MOVING_PATHS = """\
def path_a(x):
    return {callee}(x) + 1


def path_b(x):
    return {callee}(x) + 1


def {name}(x):
    while True:
        path_a(0)
        path_b(1)
"""
MOVING_AT = 55
MOVING_SECONDS = 0.4    # on one way


def deep_program(moves=False):
    """100 functions, each called by the next; every tenth by way of C, as map() calls it. @moves: one
    of them calls the next one by two paths in turn. Returns its text, and {(name, line): [callees]}."""
    head = MOVING_HEAD.replace("SECONDS", str(MOVING_SECONDS)) if moves else DEEP_HEAD
    lines, callee = head.rstrip("\n").split("\n") + ["", ""], "begin"
    for number in range(DEEP):
        name = f"f{number}"
        if moves and number == MOVING_AT:
            lines += MOVING_PATHS.format(name=name, callee=callee).split("\n")
        else:
            call = f"max(map({callee}, (x,)))" if number % 10 == 0 else f"{callee}(x)"
            lines += [f"def {name}(x):", f"    return {call} + 1", ""]
        lines.append("")
        callee = name
    leaf = "(leaf_a, leaf_b)[x](x)" if moves else "leaf(x)"
    lines += DEEP_TAIL.format(leaf=leaf, last=DEEP - 1).strip("\n").split("\n")
    return "\n".join(lines) + "\n", deep_calls(lines)


def deep_calls(lines):
    """{(name, line): [callees]} of a program of functions without others in them."""
    calls, name, names = {}, "<module>", set()
    for line in lines:
        names.update(re.findall(r"^def (\w+)", line))
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(" "):
            name = (re.findall(r"^def (\w+)", line) or ["<module>"])[0]
        if not line.startswith("def "):
            calls[name, number] = [c for c in re.findall(r"\w+", line) if c in names]
    return calls


# Read in the kernel, while its code object could not be: marked, and no name is guessed.
UNNAMED = ("[unknown Python function]", 0)

# A sample of 100 frames takes an emulated CPU without a JIT two milliseconds: more of them, on a busy
# machine, would leave no time to read anything.
SELDOM = 199
CUT = "[truncated: stack page not resident]"


def deep_frame(text):
    """(name, line) of a Python frame; None: it is none."""
    found = re.match(r"(\S+) \(.*\.py:(\d+)\)$", text)
    if found:
        return found[1], int(found[2])
    return UNNAMED if text == UNNAMED[0] else None


class Aging(OfPython):
    """A deep stack whose idle parents lose their young bits once a second, as page aging does it.

    s390x: pages without it cannot be read by BPF; stacks are completed by user space. amd64: no
    effect (bpf-limits.md 7).
    """

    moves = False
    before = 1      # seconds, without aging

    def __init__(self, interpreter, seconds=8):
        super().__init__(interpreter, "moving" if self.moves else "aging")
        self.seconds = seconds
        self.calls = None

    def prepare(self, machine):
        Foreign(machine.arch, self.interpreter)     # or a skip
        text, self.calls = deep_program(self.moves)
        path = self.add_program(machine, text)
        machine.script(f"""
start {self.interpreter} {path}
begin {self.name} rprof-bpf -p $target -F {SELDOM} -d 200 --annotate --stats -v
said 'sampling event opened'; sleep {self.before}; aged=0
while [ $aged -lt {self.seconds} ]; do
	echo 1 > /proc/$target/clear_refs; sleep 1; aged=$((aged + 1))
done
finish; stop
""")

    def tests(self):
        return [(f"idle_parents_are_there_{self.name}", self.parents)]

    def is_possible(self, frames):
        """Is each called by the one before it, as far as they are known, and all on one way?"""
        if not self.moves and frames and frames[-1][0] not in ("leaf", UNNAMED[0]):
            return False
        leaves = {f[0][-1] for f in frames if f[0].startswith(("path_", "leaf_"))}
        return len(leaves) < 2 and all(
            UNNAMED in (caller, callee) or callee[0] in self.calls.get(caller, ())
            for caller, callee in zip(frames, frames[1:]))

    def judge(self, machine, result):
        """(samples, those that are whole); a note, and failures, of the others."""
        stats = check_accounting(result)
        n = whole = cut = unnamed = 0
        wrong, begins = [], collections.Counter()
        for stack in to_judge(machine, result.stacks()):
            frames = [f for f in map(deep_frame, stack.frames) if f]
            unnamed += stack.count if UNNAMED in frames else 0
            n += stack.count
            if not self.is_possible(frames):
                wrong.append((stack.count, frames[:3], frames[-3:]))
            elif frames and CUT not in stack.frames and (
                    frames[0][0] == "<module>" or frames[0] == UNNAMED and len(frames) > DEEP):
                whole += stack.count
            else:
                cut += stack.count
                begins[";".join(stack.frames[:2])] += stack.count
                if not any(f.startswith("[") for f in stack.frames):
                    wrong.append((stack.count, "cut, and no mark", frames[:2]))
        completed = {k: v for k, v in stats.items() if "complete" in k}
        note(f"{whole} of {n} whole, {cut} cut {begins.most_common(2)}, {unnamed} with a frame "
             f"whose code object has aged; {completed}")
        expect(n > ENOUGH, f"only {n} samples\n{result}")
        expect(not wrong, f"impossible: {wrong[:5]}")
        return n, whole

    def parents(self, machine):
        result = machine.result(self.name).ok()
        n, whole = self.judge(machine, result)
        least = 0.95 if machine.arch == "s390x" else 0.99
        expect(whole >= least * n, f"only {whole} of {n} stacks are whole\n{result}")


class Moving(Aging):
    """The same, of a thread that goes back and comes again by another of two paths: what was read of
    one must not be printed below the other. How many are whole depends on how late they are read."""

    moves = True
    before = 3      # code objects of both ways are to be known

    def tests(self):
        return [(f"no_parents_of_another_time_{self.name}", self.parents)]

    def parents(self, machine):
        result = machine.result(self.name).ok()
        _, whole = self.judge(machine, result)
        expect(whole > 0, f"not one stack is whole\n{result}")
        ways = {f for s in result.stacks() for f in map(deep_frame, s.frames) if f and
                f[0].startswith("path_")}
        expect(len(ways) == 2, f"premise: both ways were seen: {ways}")
