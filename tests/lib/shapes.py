# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judges stacks of tests/workloads/shapes.c, whose every edge is known, on either architecture.

    program = shapes.build(path, arch, compiler, flags)      a binary.Program; the file is at @path
    verdict = shapes.judge(mode, text, program)              text: folded, of a run with --annotate
    verdict.check()

All modes can be sampled in one run: a line's first field is its mode. It may have run elsewhere.
"""
import collections

from rprof_e2e import expect, is_mark, note, parse_folded
import binary
import gentree
import target
import tree

HANDLED = {"work": ["run_signals"], "victim": ["work"], "victim_leaf": ["victim"],
           "prologues": ["work"], "framed": ["prologues"], "tiny": ["framed"],
           "arm": ["run_signals"],
           "on_plain": [], "plain_leaf": ["on_plain"], "on_info": [], "info_leaf": ["on_info"],
           "on_leaf": []}
HANDLERS = ("on_plain", "on_info", "on_leaf")
ROOTS = ("main", "thread_main", "co_main")

# mode: (function -> its callers in the source, who calls the C library or the vDSO). main() calls
# run_MODE, the kernel calls handlers, the C library the other roots.
MODES = {
    "signals": (HANDLED, []),
    "altstack": (dict(HANDLED, work=["run_altstack"], arm=["run_altstack"]), []),
    "vdso": ({"clock_loop": ["run_vdso"], "cpu_loop": ["run_vdso"]}, ["clock_loop", "cpu_loop"]),
    "libc": ({"libc_loop": ["run_libc"]}, ["libc_loop"]),
    "threads": ({"thread_work": ["thread_main"], "thread_leaf": ["thread_work"]}, ["run_threads"]),
    "alloca": ({"grow": ["run_alloca"], "alloca_leaf": ["grow"], "vla": ["run_alloca"],
                "vla_leaf": ["vla"], "vla_quick": ["run_alloca"], "tiny": ["grow", "vla_quick"]},
               []),
    "big": ({"big": ["run_big"], "big_leaf": ["big"], "big_quick": ["run_big"],
             "tiny": ["big_quick"], "big_alone": ["run_big"]}, []),
    "tail": ({"tail_a": ["run_tail"], "tail_b": ["tail_a"], "tail_c": ["tail_b"],
              "tail_leaf": ["tail_a", "tail_b", "tail_c"], "hop": ["run_tail"], "tiny": ["hop"]},
             []),
    "coroutine": ({"co_work": ["co_main", "run_coroutine"], "co_leaf": ["co_work"],
                   "co_yield": ["co_work"]}, ["co_yield"]),
    "longjmp": ({"jump_a": ["run_longjmp"], "jump_b": ["jump_a"], "jump_c": ["jump_b"],
                 "tiny": ["run_longjmp"]}, ["run_longjmp", "jump_c"]),
    "deep": ({"deep": ["run_deep", "deep"], "deep_leaf": ["deep"]}, []),
}
# s390x, packed.c: a layout that nothing tells from the standard one but the code. What it has
# beyond the leaf's caller may be marked, and must not be wrong.
PACKED = {"packed_outer": ["main"], "packed_mid": ["packed_outer"], "packed_leaf": ["packed_mid"]}
DEEP = 500
# The compilers must have made these as jumps, or the mode "tail" shows nothing.
TAIL_CALLS = {("tail_a", "tail_b"), ("tail_b", "tail_c"), ("hop", "tiny")}
# Of the stacks whose leaf proves its callers anywhere: native-unwind 2.6, issue 5 acceptance 2.
COMPLETE = 0.93
# From so many samples on each function is to be seen; an emulated machine may have fewer.
ENOUGH = 1000


def build_packed(path, compiler="gcc"):
    """packed.c for s390x; its mode is "packed"."""
    return binary.Program(target.build("packed.c", path, "s390", compiler), gentree.BURN_MULTIPLIER)


def build(path, arch=target.HERE, compiler="gcc", flags=None):
    flags = list(target.FRAMES[arch] if flags is None else flags)
    if compiler == "gcc":
        flags.append("-fno-ipa-icf")    # two functions that read the same would become one
    program = binary.Program(target.build("shapes.c", path, arch, compiler, flags),
                             gentree.BURN_MULTIPLIER)
    made = TAIL_CALLS & set(program.jumps)
    expect(made == TAIL_CALLS, f"premise: {compiler} made no tail call of {TAIL_CALLS - made}")
    return program


def judge(mode, text, program):
    verdict = Verdict(mode, program)
    for stack in parse_folded(text):
        if stack.comm == mode:
            verdict.add(stack)
    return verdict


class Verdict:
    """What the stacks of one mode add up to, in samples."""

    def __init__(self, mode, program):
        self.mode = mode
        self.program = program
        self.source, self.outside_callers = (PACKED, []) if mode == "packed" else MODES[mode]
        self.has_signals = "on_plain" in self.source
        self.samples = 0
        self.readable = True        # the stack that is added now
        self.own_leaves = 0         # the callers of the interrupted function are to be proven
        self.complete = 0           # of these: a root, and no mark from there on
        self.seen = collections.Counter()
        self.wrong = collections.Counter()
        self.unjustified = collections.Counter()
        self.stopped = collections.Counter()
        self.marks = collections.Counter()
        self.interrupted = collections.Counter()    # by a signal

    # ---- the source

    def is_own(self, name):
        return name in self.program.functions and "@" not in name and name != "_start"

    def callers(self, name):
        """Who may stand above @name on the stack: those that called it, not those that jumped."""
        if name == f"run_{self.mode}":
            return {"main"}
        found = set()
        for caller in self.source.get(name, []):
            calls = self.program.calls.get(caller, {})
            if name in calls or (caller == name):
                found.add(caller)
            if (caller, name) in self.program.jumps:
                found |= self.callers(caller)
        return found

    def is_edge(self, above, name):
        """Can @name, a frame of the program, have @above?"""
        if name in ROOTS:
            return not self.is_own(above)
        if name in HANDLERS:
            return not self.is_own(above)
        return above in self.callers(name)

    def calls_outside(self, above):
        """Can a frame that is not the program's be called by @above?"""
        if self.has_signals or not self.is_own(above):
            return True
        return above in self.outside_callers or above == f"run_{self.mode}"

    # ---- stacks

    def from_root(self, frames):
        for i, frame in enumerate(frames):
            if frame in ROOTS:
                if any(self.is_own(f) for f in frames[:i]):
                    return frames
                return frames[i:]
        return frames

    def add(self, stack):
        n = stack.count
        frames = self.from_root(stack.user())
        self.samples += n
        if not frames:
            return
        for name in set(frames):
            self.seen[name] += n
        self.readable = not tree.is_between_spaces(stack, self.program)
        if self.readable and (self.program.always_provable(frames[-1]) or self.mode == "vdso"):
            self.own_leaves += n
            self.complete += n * (frames[0] in ROOTS and not any(map(is_mark, frames)))
        if self.is_own(frames[0]) and frames[0] not in ROOTS:
            self.wrong[f"begins at {frames[0]}, unmarked"] += n
        for i, name in enumerate(frames[1:], 1):
            self.edge(frames, i, name, n)
        if self.mode == "deep":
            self.depth(frames, n)

    def depth(self, frames, n):
        calls = frames.count("deep")
        if calls > DEEP or (frames[-1] == "deep_leaf" and calls != DEEP and
                            not any(map(is_mark, frames))):
            self.wrong[f"{calls} frames of deep()"] += n

    def edge(self, frames, i, name, n):
        above = frames[i - 1]
        if is_mark(name):
            if name.startswith("[truncated"):
                self.wrong[f"{above} above {name}"] += n
            return
        if is_mark(above):
            self.marks[f"{above} above {name}"] += n
            self.mark(frames, i, n)
            return
        right = self.is_edge(above, name) if self.is_own(name) else self.calls_outside(above)
        if not right:
            self.wrong[f"{above} -> {name}"] += n
        if self.has_signals and self.is_own(above) and not self.is_own(name):
            self.interrupted[above] += n

    # ---- marks

    def mark(self, frames, i, n):
        """The frame at @i has a mark above it: is it true, and was it needed?"""
        name, mark = frames[i], frames[i - 1]
        child = frames[i + 1] if i + 1 < len(frames) else None
        if mark == "[caller unknown]" and i >= 2:
            self.across(frames[i - 2], name, n)
        if not self.readable or not tree.is_of_proof(mark):
            self.stopped[f"{mark} above {name}"] += n
        elif not self.is_justified(frames, i, name, child):
            self.unjustified[f"{mark} above {name} calling {child}"] += n

    def across(self, above, name, n):
        """One caller is missing, so what is above it is the caller's caller."""
        if not self.is_own(name) or name in HANDLERS or name in ROOTS:
            return
        if not any(self.is_edge(above, caller) for caller in self.callers(name)):
            self.wrong[f"{above} -> [caller unknown] -> {name}"] += n

    def is_interrupted(self, frames, i):
        """By the sample, or by a signal whose trampoline comes next."""
        return i + 1 == len(frames) or (self.has_signals and not self.is_own(frames[i + 1]) and
                                        not is_mark(frames[i + 1]))

    def is_justified(self, frames, i, name, child):
        if not self.is_own(name):
            # Libraries may be built any way. What the kernel made for a handler is known.
            return child not in HANDLERS
        if self.is_interrupted(frames, i):
            return not self.program.always_provable(name)
        if is_mark(child):
            return True
        if self.is_interrupted(frames, i + 1) and not self.program.always_provable(child):
            return True     # its caller's frame may be out of reach where it was interrupted
        return not self.program.calls_provable(name, child)

    # ---- the sum

    def expected(self):
        """Functions that some sample must be in."""
        return [name for name in self.source if name in self.program.burns]

    def __str__(self):
        return (f"{self.mode}: {self.samples} samples, wrong {sum(self.wrong.values())}, complete "
                f"{self.complete} of {self.own_leaves}, marks {dict(self.marks.most_common(3))}")

    def check(self, least=200):
        note(self)
        expect(not self.wrong, f"{self.mode}: impossible: {self.wrong.most_common(5)}")
        expect(not self.unjustified, f"{self.mode}: marks where the caller is to be proven: "
               f"{self.unjustified.most_common(5)}")
        expect(self.samples >= least, f"premise: {self.mode}: {self.samples} samples")
        expect(self.complete >= self.least_complete() * self.own_leaves,
               f"{self}: stopped {self.stopped.most_common(3)}")
        if self.samples >= ENOUGH:
            self.check_premises()

    def least_complete(self):
        """The vDSO of s390x has frames without back chain; packed frames need not be proven."""
        if self.mode == "packed" or (self.mode == "vdso" and self.program.arch == "s390"):
            return 0
        return COMPLETE

    def check_premises(self):
        missing = [name for name in self.expected() if not self.seen[name]]
        expect(not missing, f"premise: {self.mode}: no sample of {missing}")
        if self.has_signals:
            expect(self.interrupted["victim_leaf"], "premise: the leaf was never interrupted")
            expect(self.interrupted["framed"] + self.interrupted["tiny"],
                   "premise: the prologues were never interrupted")
