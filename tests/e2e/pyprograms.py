#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python programs of every shape, on every interpreter (issue 4, sections 2 and 5): what is printed
of them are calls that they make and lines that they have, as the interpreter itself says
(tests/lib/pytrace.py), whole and in order; and the chains that each program is about are there.

Some programs of an interpreter run at once, below one profiler.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, Failure, Skip, expect, expect_equal, five_sigma, main, note)
import pythons
import pytrace

ENOUGH = 2000 if FULL else 500      # samples of each program
RUNS = 12
TOGETHER = 3        # more of them would leave the profiler no time


class Case:
    """program, args: of it; wants: chains of co_names, one below the other, that must be seen;
    pairs: calls that sys.setprofile() does not tell; least: share of samples with Python frames;
    needs, only, env: see pythons.py; check: a function of verdict, stacks and interpreter."""

    def __init__(self, name, program, *args, wants=(), pairs=(), least=0.99, needs=(), env=None,
                 check=None, only=None):
        self.name = name
        self.program = program
        self.args = args
        self.wants = [w.split() for w in wants]
        self.pairs = set(pairs)
        self.least = least
        self.needs = needs
        self.env = env
        self.check = check
        self.only = only


# ---- what is particular -------------------------------------------------------------------------

def whole(verdict, _stacks, _interpreter):
    """1,024 frames: <module>, repeat, main, 1,020 of descend, bottom."""
    for chain in verdict.chains:
        if "bottom" in chain:
            expect_equal(chain, ("<module>", "repeat", "main", *["descend"] * 1020, "bottom"),
                         "stack")
    expect(verdict.below("bottom"), "no samples at the bottom")


def cut(verdict, stacks, _interpreter):
    """The root end is lost, and that is said where it is."""
    for stack in stacks:
        chain = [f.short for f in pytrace.python_frames(stack)]
        if "bottom" in chain:
            expect_equal(stack.frames[0], "[truncated: stack depth]", "first frame")
            expect(len(chain) >= 1024, f"only {len(chain)} frames")
            expect_equal(set(chain[:-1]), {"descend"}, "frames below")
    expect(verdict.below("bottom"), "no samples at the bottom")


def drivers(verdict, _stacks, _interpreter):
    """500 values against 50,000: an old driver's name would show as a wrong share."""
    driven = {d: sum(n for c, n in verdict.chains.items() if (d, "endless") in zip(c, c[1:]))
              for d in ("drive_a", "drive_b")}
    n = sum(driven.values())
    share = driven["drive_a"] / n
    # Samples of one pass are not independent: a pass is longer than the time between two of them.
    expect(abs(share - 1 / 101) <= 2 * five_sigma(1 / 101, n), f"drive_a has {share:.2%} of {n}")


def named(verdict, _stacks, _interpreter):
    want = {"made/plain.py", "made/caf\u00e9.py", "made/\u0438\u043c\u044f.py",
            "made/\U00010330\U00010331.py", "\u0434\u0438\u0440/\u8def.py", "made/long.py"}
    expect(want <= verdict.places, f"no frames of {want - verdict.places}")
    name = "f" + "\u00e4\u0436" * 100
    expect(verdict.below(name), "the long name is not there as it is")


def collected(verdict, stacks, interpreter):
    """<GC> stands where the collection runs; what it calls stands above it."""
    collections = sum(s.count for s in stacks if "<GC>" in s.frames)
    by_frame = interpreter.version >= (3, 15)
    note(f"{interpreter}: <GC> in {collections} of {verdict.samples}")
    for stack in stacks:
        if "<GC>" in stack.frames:
            below = [f for f in map(pytrace.python_frame, stack.frames[:stack.frames.index("<GC>")])
                     if f]
            # A collection may begin anywhere; nearly all are asked for.
            expect(below, f"<GC> below all of Python: {stack.frames}")
    if by_frame:
        expect(collections > 0.8 * verdict.below("collect"), f"only {collections} with <GC>")
        asked = sum(s.count for s in stacks if any(
            "collect (" in a and b == "<GC>" for a, b in zip(s.frames, s.frames[1:])) or
            any("collect (" in f for f in s.frames) and "<GC>" in s.frames)
        expect(asked > 0.95 * collections, f"collect() asked for {asked} of {collections}")
        for stack in stacks:
            if any("__del__ (" in f for f in stack.frames):
                names = [f.partition(" (")[0] for f in stack.frames]
                expect(names.index("<GC>") < names.index("Final.__del__"), f"{names}")


def shared_out(verdict, _stacks, _interpreter):
    parts = {1: 0, 2: 0, 4: 0}
    for n in parts:
        parts[n] = verdict.below(f"share_{n}")
    n = sum(parts.values())
    for part, count in parts.items():
        expect(abs(count / n - part / 7) <= five_sigma(part / 7, n),
               f"share_{part}: {count} of {n}, {part / 7:.1%} expected")


def of_the_active(verdict, stacks, _interpreter):
    """Those that run in the main thread, and the one of each of two more; never below the frames of
    another."""
    for chain in verdict.chains:
        subs = {name for name in chain if re.fullmatch("sub_[a-d]", name)}
        expect(len(subs) <= 1 and not (subs and {"main", "in_thread"} & set(chain)),
               f"frames of two interpreters in {chain}")
    seen = {}
    for stack in stacks:
        for name in re.findall(r"\bsub_[a-d](?= \()", ";".join(stack.frames)):
            seen.setdefault(name, set()).add(stack.comm)
    expect_equal(sorted(seen), ["sub_a", "sub_b", "sub_c", "sub_d"], "interpreters seen")
    expect(seen["sub_a"] == seen["sub_b"] and all(len(s) == 1 for s in seen.values()) and
           len(set.union(*seen.values())) == 3, f"interpreters in threads: {seen}")


def jitted(verdict, _stacks, interpreter):
    note(f"{interpreter}: {verdict.coarse} of {verdict.samples} have coarse lines")
    expect(verdict.coarse, "no line is marked as one of jitted code")


SUB = [(None, "<module>"), (None, "<string>"), (None, "<script>"), (None, "in_thread")]
for each_of in "abcd":
    SUB += [("<module>", f"sub_loop_{each_of}"), (f"sub_loop_{each_of}", f"sub_{each_of}"),
            (f"sub_{each_of}", "sub_burn")]
SHAPES = ["main method method burn", "main of_class burn", "main static burn", "main prop burn",
          "main __call__ burn", "main __getattr__ burn", "main __add__ burn", "main method burn",
          "main __call__ __init__ burn", "main __init__ burn", "main closure enclosed burn",
          "main wrapper decorated burn", "__enter__ context burn", "__exit__ context burn",
          "wrapper dispatched burn", "wrapper dispatched_int burn", "comprehensions <genexpr> burn",
          "main class_in_function Local burn", "class_in_function method burn",
          "main <lambda> burn", "main <module> from_text burn", "main <module> burn", "main burn",
          "main defaults burn"]
GENERATORS = ["drive_b endless inside", "drive_a endless", "delegate outer inner inside",
              "expression <genexpr> inside", "send echo inside"]

CASES = [
    Case("recursion_of_1020", "recursion.py", 1020, check=whole),
    Case("recursion_of_1500", "recursion.py", 1500, check=cut),
    Case("breathing", "breathing.py", wants=["main breathe", "breathe leaf", "main wide wide"]),
    Case("generators", "generators.py", wants=GENERATORS, check=drivers),
    Case("coroutines", "coroutines.py", wants=[
        "top middle leaf burn", "consume values leaf", "consume __aenter__ leaf",
        "consume __aexit__", "main deep deep", " ".join(["deep"] * 201) + " leaf"]),
    Case("shapes", "shapes.py", wants=SHAPES),
    Case("names", "names.py", check=named, wants=[
        "plain caf\u00e9 \u0438\u043c\u044f_\u51fd\u6570 \U00010330\U00010331\U00010332 "
        "\u00e9t\u00e9 method in_file_3 burn"]),
    Case("long_table", "longtable.py", wants=["main long first burn", "main long middle burn",
                                              "main long last burn"]),
    Case("callbacks", "callbacks.py", wants=["main sort compare compare_deep",
                                             "nested compare_and_sort compare compare_deep"]),
    Case("reentered", "reenter.py", wants=[
        "main by_key key burn", "by_lt __lt__ burn", "by_del __del__ burn", "by_dict __eq__ burn",
        "by_map key burn", "by_reduce <lambda> burn", "exec_module <module> burn",
        "by_weakref on_death burn"]),
    Case("exceptions", "exceptions.py", wants=[
        "catcher passer thrower burn", "passer burn", "handler burn", "throw_in generator burn",
        " ".join(["unwind", *["deep"] * 51, "thrower burn"])]),
    Case("collections", "collect.py", 100000, check=collected, wants=["__del__ finalizer"]),
    Case("shares", "shares.py", check=shared_out),
    Case("native_threads", "nativethreads.py", least=0.7, wants=["foreign burn"],
         pairs=[(None, "foreign"), ("foreign", "burn")]),
    Case("sub_interpreters", "subinterpreters.py", "shared", least=0.9, check=of_the_active,
         pairs=SUB),
    Case("sub_interpreters_with_their_own_gil", "subinterpreters.py", "own", least=0.9,
         needs=((3, 12),), check=of_the_active, pairs=SUB),
    Case("greenlets", "greenlets.py", wants=[
        "run_a" + " deep_a" * 21 + " burn", "run_b" + " deep_b" * 6 + " burn"],
         pairs=[("run_a", "deep_a"), ("deep_a", "deep_a"), ("deep_a", "burn"), ("run_b", "deep_b"),
                ("deep_b", "deep_b"), ("deep_b", "burn"), (None, "run_a"), (None, "run_b")],
         only=lambda name: name in ("debian-3.11", "debian-3.15")),
    Case("jitted_generators", "generators.py", needs=("jit",), env={"PYTHON_JIT": "1"},
         wants=GENERATORS, check=jitted),
    Case("jitted_shapes", "shapes.py", needs=("jit",), env={"PYTHON_JIT": "1"}, wants=SHAPES),
]


# ---- some at a time -----------------------------------------------------------------------------

class Batch:
    """Cases on one interpreter, below one profiler: {name: stacks}, or why one could not run."""

    def __init__(self, interpreter, cases):
        self.interpreter = interpreter
        self.stacks = {}
        self.skipped = {}
        self.processes = {}
        for case in cases:
            if interpreter.has(case.needs):
                self._start(case)
        try:
            self._sample()
        finally:
            for process in self.processes.values():
                process.kill()

    def _start(self, case):
        try:
            self.processes[case.name] = pythons.start(self.interpreter, case.program, 0, *case.args,
                                                      env=case.env)
            self.stacks[case.name] = []
        except Skip as skip:
            self.skipped[case.name] = str(skip)

    def _sample(self):
        """Until each has enough."""
        names = {str(p.pid): name for name, p in self.processes.items()}
        for _ in range(RUNS):
            few = [pid for pid, name in names.items()
                   if sum(s.count for s in self.stacks[name]) < ENOUGH]
            if not few:
                break
            for stack in pytrace.sampled(",".join(few), 1, "-t")[0]:
                pid = re.search(r"-(\d+)/\d+$", stack.comm)[1]
                self.stacks[names[pid]].append(stack)


# What differs from version to version is the walk, and pytree.py is about that.
QUICK = ("debian-3.11", "debian-3.15")
_batches = {}       # (interpreter, number of the batch) -> Batch, or the Failure


def batch(interpreter, case):
    """The one that has the case."""
    first = CASES.index(case) // TOGETHER * TOGETHER
    key = interpreter.name, first
    if key not in _batches:
        try:
            _batches[key] = Batch(interpreter, CASES[first:first + TOGETHER])
        except Failure as failure:
            _batches[key] = failure
    if isinstance(_batches[key], Failure):
        raise Failure(f"the programs could not be profiled: {_batches[key]}")
    return _batches[key]


def judge(case, interpreter):
    done = batch(interpreter, case)
    if case.name in done.skipped:
        raise Skip(done.skipped[case.name])
    stacks = done.stacks[case.name]
    truth = pytrace.traced(interpreter, case.program, *case.args)
    truth.pairs |= case.pairs
    verdict = truth.judge(stacks)
    note(f"{interpreter}: {verdict}")
    verdict.expect_true(case.least)
    for want in case.wants:
        expect(verdict.has(*want), f"never seen: {' > '.join(want)[:300]}")
    if case.check:
        case.check(verdict, stacks, interpreter)


def register(case):
    def run(interpreter):
        judge(case, interpreter)
    run.__name__ = case.name
    pythons.each(needs=case.needs, timeout=300, only=lambda name:
                 (FULL or name in QUICK) and (not case.only or case.only(name)))(run)


for one in CASES:
    register(one)


# ---- options ------------------------------------------------------------------------------------

@pythons.each(timeout=120, only=lambda name: FULL or name in ("debian-3.11", "debian-3.15"))
def options_change_the_frames_and_nothing_else(interpreter):
    process = pythons.start(interpreter, "reenter.py")
    truth = pytrace.traced(interpreter, "reenter.py")

    def profiled(*options):
        return pytrace.sampled(process.pid, 200, *options)[0]

    for stack in profiled("--full-filenames"):
        for frame in pytrace.python_frames(stack):
            expect(re.match(r"/.*/w/\w+\.py$|<|made/", frame.place), f"no whole path: {frame}")
    lines = profiled("--no-lines")
    truth.judge(lines).expect_true()
    frames = [f for s in lines for f in pytrace.python_frames(s)]
    expect(frames and not any(f.line for f in frames), "--no-lines has lines")
    alone = profiled("--no-native")
    truth.judge(alone).expect_true()
    for stack in alone:
        others = [f for f in stack.frames if not pytrace.python_frame(f)]
        expect(set(others) <= {"<GC>"}, f"--no-native has {others}")
    every = profiled("--native-all")
    truth.judge(every).expect_true()
    evaluators = sum(s.count for s in every if "_PyEval_EvalFrameDefault" in s.frames)
    if interpreter.frame_pointers:
        expect(evaluators > 0.9 * sum(s.count for s in every), f"only {evaluators} evaluators")
        for stack in profiled():
            first = [i for i, f in enumerate(stack.frames) if pytrace.python_frame(f)]
            between = stack.frames[first[0]:first[-1]] if first else []
            expect(not [f for f in between if "PyEval" in f], f"not hidden: {between}")


if __name__ == "__main__":
    sys.exit(main())
