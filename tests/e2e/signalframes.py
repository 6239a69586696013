#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Signal frames are walked through: what a signal interrupted stands above the handler, with its own
callers, wherever it was interrupted, on which stack the handler runs, and however it returns.
"""
import collections
import os
import platform
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, build, check_accounting, expect, is_mark, main, note, record, scratch,
                       test, total, workload)

FREQUENCY = 4999
SECONDS = 20 if FULL else 2

# Each function's caller; handlers are called by the trampoline.
CALLER = {
    "work": "main", "victim_a": "work", "leaf": "victim_a", "victim_b": "work", "tiny": "victim_b",
    "on_alarm": "signal", "alarm_leaf": "on_alarm", "on_rt": "signal", "rt_leaf": "on_rt",
    "on_bare": "signal",
}
CODE = {"main", *CALLER}
INTERRUPTIBLE = CODE | {"signal"}


def frames_from_main(stack):
    """From main() on, which is where the code of the workload begins; trampolines are "signal"."""
    frames = stack.user()
    if "main" in frames:
        frames = frames[frames.index("main"):]
    return [f if f in CODE or is_mark(f) else "signal" for f in frames]


class Verdict:
    def __init__(self):
        self.samples = 0
        self.handled = 0        # with a trampoline below which a handler runs
        self.proven = 0         # and in all of these what was interrupted right above
        self.nested = 0
        self.to_main = 0        # of the handled ones, without a mark from main() on
        self.interrupted = collections.Counter()
        self.wrong = collections.Counter()

    def add(self, stack):
        frames, n = frames_from_main(stack), stack.count
        self.samples += n
        signals = [i for i, f in enumerate(frames) if f == "signal" and i + 1 < len(frames)]
        if signals:
            self.handled += n
            self.proven += n * all(i and frames[i - 1] in INTERRUPTIBLE
                                   for i in signals)
            self.to_main += n * (frames[0] == "main" and not any(map(is_mark, frames)))
            self.nested += n * (len(signals) > 1)
        for i in signals:
            self.interrupted[frames[i - 1] if i else "-"] += n
        for above, name in zip(frames, frames[1:]):
            if is_mark(above) or is_mark(name):
                continue
            # Anything may be interrupted, handlers and trampolines too.
            right = (name == "signal" and above in INTERRUPTIBLE) or above == CALLER.get(name)
            if not right:
                self.wrong[f"{above} -> {name}"] += n
        self.across_marks(frames, n)

    def across_marks(self, frames, n):
        """One caller is missing at a mark, so what is above it is the caller's caller."""
        for above, mark, name in zip(frames, frames[1:], frames[2:]):
            if mark != "[caller unknown]" or CALLER.get(name) in ("signal", None):
                continue
            caller = CALLER[name]
            if CALLER.get(caller) != above and CALLER.get(caller) != "signal":
                self.wrong[f"{above} -> {mark} -> {name}"] += n


def check(compiler, flags, *arguments):
    program = build("sigframes.c", ("-fno-omit-frame-pointer", *flags), compiler)
    os.rename(program, scratch("run"))
    process = workload(scratch("run"), *arguments)
    result = record("-p", process.pid, "-F", FREQUENCY, "-d", SECONDS, "--annotate",
                    "--stats").ok()
    check_accounting(result)
    verdict = Verdict()
    for stack in result.stacks():
        verdict.add(stack)
    n = verdict.samples
    note(f"{n} samples, {verdict.handled} in handlers, {verdict.nested} nested; what was "
         f"interrupted is there in {verdict.proven}, all of it in {verdict.to_main}")
    note(f"interrupted: {verdict.interrupted.most_common()}")
    expect(not verdict.wrong, f"impossible: {verdict.wrong.most_common(5)}\n{result}")
    expect(n > 1000 and verdict.handled > 0.1 * n, f"premise: hardly a handler\n{result}")
    expect(verdict.nested > 10, f"premise: {verdict.nested} samples of nested handlers")
    for name in ("leaf", "tiny", "alarm_leaf", "on_alarm"):
        expect(verdict.interrupted[name], f"premise: {name} was never interrupted")
    expect(verdict.proven >= 0.995 * verdict.handled,
           f"what was interrupted is missing in {verdict.handled - verdict.proven}\n{result}")
    expect(verdict.to_main >= 0.97 * verdict.handled,
           f"marks in {verdict.handled - verdict.to_main} of {verdict.handled}\n{result}")


@test()
def what_a_signal_interrupts_is_above_its_handler():
    check("gcc", ["-fcf-protection=full"])


@test()
def handlers_on_a_signal_stack():
    check("gcc", ["-fcf-protection=none"], "altstack")


@test()
def handlers_that_return_through_a_trampoline_without_rules():
    check("gcc", [], "bare")


@test()
def handlers_of_clang():
    check("clang", [], "altstack")


@test()
def what_is_not_proven_is_not_followed():
    """handler.c: the interrupted code uses the frame pointer register for something else."""
    result = record("-p", workload(build("handler.c")).pid, "-F", 999, "-d", 2, "-U",
                    "--stats").ok()
    check_accounting(result)
    inside = [s for s in result.stacks() if s.frames[-1] == "spin_in_handler"]
    bad = sum(s.count for s in result.stacks() if "never_called" in s.frames)
    hits = sum(s.count for s in inside if s.frames[-4] == "victim" and s.frames[-2] == "handler"
               and s.frames[:-4] == ["[truncated: no frame pointer in handler]", "main"])
    note(f"{hits} of {total(inside)} samples of the handler show victim, and main above it")
    expect(not bad, f"never_called is printed in {bad}\n{result}")
    expect(total(inside) > 100, f"premise: hardly a sample of the handler\n{result}")
    expect(hits == total(inside), f"{result}")


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print("1..0 # skip signal frames are followed on x86-64 only")
        sys.exit(0)
    sys.exit(main())
