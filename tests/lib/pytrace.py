# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a Python program does, as its interpreter says: run once under sys.setprofile(), it tells
each call (who, in which line, whom) and each line that any of its code has, of the standard
library's files that it uses, too. And a judge of what a profiler printed of it.

    truth = traced(interpreter, "reenter.py")
    verdict = truth.judge(stacks)

Names are those of co_qualname, of co_name before 3.11. A frame of Python reads "name (place:line)",
its place being the last two components of its path.
"""
import collections
import json
import re

import pythons
from rprof_e2e import check_accounting, expect, expect_equal, is_mark, record, total

# argv: the program and its arguments. Lines of codes that ran, and of those that they hold.
TRACER = r"""
import dis, json, os, sys, threading, types
path, own, leave, first = sys.argv[1], sys.argv[0], os._exit, os.getpid()
calls, roots, lines, walked = set(), set(), set(), set()
generators = set()

def name(code):
    place = "/".join(code.co_filename.rsplit("/", 2)[-2:])
    return getattr(code, "co_qualname", code.co_name), place

def walk(code):
    if code in walked:
        return
    walked.add(code)
    starts = code.co_lines() if hasattr(code, "co_lines") else dis.findlinestarts(code)
    lines.update((*name(code), line[-1]) for line in starts if line[-1] is not None)
    lines.add((*name(code), code.co_firstlineno))       # a frame that has not begun
    if code.co_flags & 0x2a0:
        generators.add((*name(code), code.co_firstlineno))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            walk(const)

def event(frame, kind, _):
    while kind in ("call", "return") and frame:
        walk(frame.f_code)
        caller = frame.f_back
        if not caller or caller.f_code.co_filename == own:
            roots.add(name(frame.f_code))
            return
        call = (*name(caller.f_code), caller.f_lineno, *name(frame.f_code))
        if call in calls and kind == "return":
            return
        calls.add(call)
        frame, kind = caller, "return"

def end(status):
    sys.setprofile(None)
    if os.getpid() == first:
        # A thread has run some of these before it is told of.
        for thing in [threading, *vars(threading).values()]:
            for function in vars(thing).values() if hasattr(thing, "__dict__") else ():
                if isinstance(function, types.FunctionType):
                    walk(function.__code__)
        print("\n" + json.dumps([sorted(x) for x in (calls, roots, lines, generators)]), flush=True)
    leave(status)

os._exit = end
sys.argv = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    code = compile(file.read(), path, "exec", dont_inherit=True)
module = types.ModuleType("__main__")
sys.modules["__main__"] = module
threading.setprofile(event)
sys.setprofile(event)
try:
    exec(code, module.__dict__)
except SystemExit:
    pass
end(0)
"""

# A thread has run some of its own beginning before it is told of.
THREADS = ("/threading.py", "/_weakrefset.py")


class Truth:
    """calls: {(caller, place, line, callee, place)}; roots: {(name, place)}; lines: {(name, place,
    line)}; pairs: what a test adds: {(caller, callee)}, {(None, root)}, {(None, place of any)}."""

    def __init__(self, calls, roots, lines, generators):
        self.calls = {tuple(c) for c in calls}
        self.roots = {tuple(r) for r in roots}
        self.lines = {tuple(x) for x in lines}
        self.generators = {tuple(g) for g in generators}
        self.coarse = {(c[:2], c[3:]) for c in self.calls}
        self.places = {x[:2] for x in self.lines}
        self.pairs = set()

    def judge(self, stacks, verdict=None):
        verdict = verdict or Verdict()
        for stack in stacks:
            self._judge(stack, verdict)
        return verdict

    def _judge(self, stack, verdict):
        chain = python_frames(stack)
        verdict.samples += stack.count
        verdict.python += stack.count if chain else 0
        for frame in chain:
            if not self._is_place(frame):
                verdict.strange[f"{frame}"] += stack.count
        for caller, callee in zip(chain, chain[1:]):
            if not self._may_call(caller, callee, callee is chain[-1]):
                verdict.impossible[f"{caller} -> {callee}"] += stack.count
        if chain and not is_cut(stack) and not self._is_root(chain[0], len(chain) == 1):
            verdict.impossible[f"nothing -> {chain[0]}"] += stack.count
        verdict.marks.update({m: stack.count for m in set(filter(is_mark, stack.frames))})
        verdict.places.update(f.place for f in chain)
        verdict.coarse += any(f.coarse for f in chain) * stack.count
        verdict.chains[tuple(f.short for f in chain)] += stack.count

    def _is_place(self, frame):
        if (None, frame.place) in self.pairs:
            return True
        if frame.line is None or frame.coarse:
            return (frame.name, frame.place) in self.places
        return (frame.name, frame.place, frame.line) in self.lines

    def _is_root(self, frame, leaf):
        return ((frame.name, frame.place) in self.roots or (None, frame.short) in self.pairs or
                leaf and self._is_new(frame))

    def _is_new(self, frame):
        """A generator that is being made: an event is told only when it runs."""
        return (frame.name, frame.place, frame.line) in self.generators

    def _may_call(self, caller, callee, leaf):
        if (caller.short, callee.short) in self.pairs or leaf and self._is_new(callee):
            return True
        if all(f.place.endswith(THREADS) for f in (caller, callee)):
            return True
        ends = (caller.name, caller.place), (callee.name, callee.place)
        if caller.coarse or caller.line is None:
            return ends in self.coarse
        return (*ends[0], caller.line, *ends[1]) in self.calls


class Verdict:
    """Numbers of samples. python: with frames of Python; coarse: with lines of jitted code;
    impossible: by calls that are none; strange: by lines that no code has; marks: by mark; chains:
    by all names, as co_name has them. places: of all frames."""

    def __init__(self):
        self.samples = self.python = self.coarse = 0
        self.impossible = collections.Counter()
        self.strange = collections.Counter()
        self.marks = collections.Counter()
        self.chains = collections.Counter()
        self.places = set()

    def __str__(self):
        return (f"{self.samples} samples, {self.python} with Python frames, impossible: "
                f"{self.impossible.most_common(5)}, strange: {self.strange.most_common(5)}")

    def has(self, *names):
        """Whether some stack has these frames one below the other."""
        return any(names == chain[i:i + len(names)] for chain in self.chains
                   for i in range(len(chain)))

    def below(self, name):
        """Samples with a frame of that name."""
        return sum(n for chain, n in self.chains.items() if name in chain)

    def expect_true(self, least=0.99):
        """Nothing impossible, nothing strange, all known, and Python frames in nearly all."""
        expect(self.samples > 0, "no samples")
        expect(not self.impossible, f"calls that are none: {self.impossible.most_common(8)}")
        expect(not self.strange, f"lines that no code has: {self.strange.most_common(8)}")
        for mark in ("[merge mismatch]", "[unknown Python function]"):
            expect(not self.marks[mark], f"{mark} in {self.marks[mark]} samples")
        expect(self.python >= least * self.samples,
               f"{self.python} of {self.samples} samples have Python frames")


class Frame(collections.namedtuple("Frame", "name place line coarse")):
    """coarse: its line is that of the region that is compiled (JIT)."""

    @property
    def short(self):
        return self.name.rpartition(".")[2]

    def __str__(self):
        return f"{self.name} ({self.place}:{'~' if self.coarse else ''}{self.line})"


def python_frame(text):
    found = re.fullmatch(r"(.+) \((.*?(?:\.py|>))(?::(~?)(\d+))?\)", text)
    if not found:
        return None
    return Frame(found[1], found[2], int(found[4]) if found[4] else None, bool(found[3]))


def python_frames(stack):
    return [f for f in map(python_frame, stack.frames) if f]


def is_cut(stack):
    """Whether the root end of its Python frames is missing, and says so."""
    return not {"[truncated: stack depth]", "[truncated: frame not linked yet]"}.isdisjoint(
        stack.frames)


def traced(interpreter, program, *args, seconds=0.2):
    path = pythons.place(interpreter, TRACER, "tracer.py")
    if "\n" in program:
        target = pythons.place(interpreter, program)
    else:
        target = path.replace("tracer.py", program)
    out = interpreter.run(path, target, seconds, *args)
    expect_equal("ready" in out.split("\n"), True, f"{program} did not begin: {out[:200]}")
    return Truth(*json.loads(out.rstrip("\n").rpartition("\n")[2]))


# What is tested is not what a busy machine leaves to the profiler.
FIRST = ("nice", "-n", "-19")


def sampled(pids, samples, *options, frequency=1999, seconds=1, runs=12):
    """Profile until there are so many samples, however busy the machine is: stacks and statistics.
    Each run begins anew, with all that a profiler does not know when it begins."""
    stacks, sums = [], collections.Counter()
    for _ in range(runs):
        result = record("-p", pids, "-U", "-F", frequency, "-d", f"{seconds * 1000:.0f}ms",
                        "--stats", *options, prefix=FIRST).ok()
        sums.update(check_accounting(result))
        stacks += result.stacks()
        if total(stacks) >= samples:
            break
    return stacks, sums
