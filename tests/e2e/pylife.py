#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python processes that change while they are profiled (issue 4, sections 3 and 5, acceptance 7):
threads come and go, forks, other versions, ends; code is freed and its memory used again; another
profiler writes to the same thread state."""
import collections
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, Profiler, build, check_accounting, end, expect, expect_equal, main,
                       marked, note, record, scratch, spawn, test, total, workload)
import pyremote
import pythons
import pytrace
import pytree
from pytrace import FIRST, sampled

# Where thread states and stacks are found in ways of their own.
LAYOUTS = ("debian-3.9", "debian-3.11", "pyenv-3.12", "debian-3.13", "debian-3.15", "ft-")


def of_layouts(name):
    return FULL or name.startswith(LAYOUTS)


def of_ends(name):
    return FULL or name in ("debian-3.11", "debian-3.15")


def names(stack):
    return [f.short for f in pytrace.python_frames(stack)]


# ---- threads -------------------------------------------------------------------------------------

@pythons.each(timeout=240, only=of_layouts)
def two_hundred_threads_are_told_apart(interpreter):
    """Each calls itself to a depth of its own: one with another's frames shows another depth."""
    # Free ones all run at once: so many that others get no time would prove no more.
    count = 24 if interpreter.free_threaded else 200
    process = pythons.start(interpreter, "threads.py", 0, count)
    stacks = sampled(process.pid, 4000, "-t", frequency=999, seconds=2)[0]
    depths = collections.defaultdict(collections.Counter)
    for stack in stacks:
        chain = names(stack)
        if chain and chain[-1] == "burn":
            depths[stack.comm][chain.count("descend")] += stack.count
    mixed = {comm: counts for comm, counts in depths.items() if len(counts) > 1}
    note(f"{interpreter}: {len(depths)} threads, {total(stacks)} samples")
    expect(not mixed, f"threads of several depths: {mixed}")
    expect(len(depths) >= 10, f"only {len(depths)} threads")
    end(process)
    truth = pytrace.traced(interpreter, "threads.py", 4)
    truth.judge(stacks).expect_true(0.9)


@pythons.each(timeout=120, only=of_layouts)
def threads_that_come_and_go(interpreter):
    process = pythons.start(interpreter, "churn.py")
    stacks = sampled(process.pid, 800, "-t")[0]
    end(process)
    truth = pytrace.traced(interpreter, "churn.py")
    verdict = truth.judge(stacks)
    threads = {s.comm for s in stacks}
    note(f"{interpreter}: {len(threads)} threads; {verdict}")
    # Their first and last moments have none, but what evaluates has.
    verdict.expect_true(0.6)
    without = sum(s.count for s in stacks
                  if not names(s) and "_PyEval_EvalFrameDefault" in s.frames)
    expect(without <= 0.03 * verdict.python, f"{without} evaluate nothing, {verdict.python} do")
    expect(verdict.has("run", "short_a", "burn"), "no short_a")
    expect(verdict.has("run", "short_b", "nested", "burn"), "no short_b")
    expect(len(threads) >= 20, f"only {len(threads)} threads")
    for comm in threads:
        roots = {n for s in stacks if s.comm == comm for n in names(s) if n.startswith("short_")}
        expect(len(roots) <= 1 or f"-{process.pid}/{process.pid}" in comm,
               f"one thread has {roots}: {comm}")


# ---- processes -----------------------------------------------------------------------------------

def forked(interpreter, *how):
    process = pythons.start(interpreter, "forks.py", 0, *how)
    stacks = sampled(process.pid, 1500, "-s", "-t", seconds=2)[0]
    end(process)
    truth = pytrace.traced(interpreter, "forks.py", *how)
    truth.pairs |= {("main", "in_child"), ("in_child", "burn")}
    verdict = truth.judge(stacks)
    note(f"{interpreter} {how}: {verdict}")
    verdict.expect_true(0.9)
    samples, named = collections.Counter(), collections.Counter()
    for stack in stacks:
        pid = int(re.search(r"-(\d+)/", stack.comm)[1])
        chain = names(stack)
        wrong = "in_child" if pid == process.pid else "in_parent"
        expect(wrong not in chain, f"{wrong} in {stack.comm}: {chain}")
        samples[pid] += stack.count
        named[pid] += stack.count * ("in_child" in chain)
    children = [pid for pid in samples if pid != process.pid and samples[pid] >= 20]
    expect(len(children) >= 3, f"only {len(children)} children: {samples}")
    poor = {pid: (named[pid], samples[pid]) for pid in children if named[pid] < 0.6 * samples[pid]}
    expect(not poor, f"children without their function: {poor}")


@pythons.each(timeout=120, only=of_layouts)
def children_keep_their_names(interpreter):
    forked(interpreter)


@pythons.each(timeout=120, only=of_ends)
def so_do_children_that_the_c_library_makes(interpreter):
    forked(interpreter, "libc")


@test(timeout=180)
def another_version_after_exec():
    first, second = pythons.get("debian-3.14"), pythons.get("debian-3.15")
    process = pythons.start(first, "execs.py", 0, second.path, first.path)
    stacks = sampled(process.pid, 2000, seconds=3)[0]
    right, whole = collections.Counter(), collections.Counter()
    for stack in stacks:
        stages = {n for n in names(stack) if n.startswith("python_3_")}
        expect(stages <= {stack.comm.replace(".", "_").replace("python3", "python_3")},
               f"{stages} in {stack.comm}")
        places = {f.place.partition("/")[0] for f in pytrace.python_frames(stack)
                  if f.place.startswith("python3.")}
        expect(places <= {stack.comm}, f"files of {places} in {stack.comm}")
        whole[stack.comm] += stack.count
        right[stack.comm] += stack.count * bool(stages)
    note(f"stages: {dict(right)} of {dict(whole)}")
    for comm in ("python3.14", "python3.15"):
        expect(right[comm] > 0.4 * whole[comm] and right[comm] > 50,
               f"{comm}: {right[comm]} of {whole[comm]} have its function")


@test(timeout=120)
def python_that_comes_by_exec_has_frames_within_a_second():
    late = pythons.get("debian-3.15")
    path = pythons.place(late, "recursion.py")
    process = spawn(["sh", "-c", 'sleep 1; exec "$@"', "sh", *late.argv, path, "4", "10"],
                    env=pythons.environment())
    result = record("-p", process.pid, "-U", "-F", 999, "--stats", prefix=FIRST).ok()
    check_accounting(result)
    mine = [s for s in result.stacks() if s.comm == "python3.15"]
    python = sum(s.count for s in mine if "descend" in names(s))
    note(f"{python} of {total(mine)} samples of 4 s have Python frames")
    expect(python > 0.65 * total(mine) and python > 100, f"{result}")


# argv: library, Python's arguments
LATE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv)
{
	void *library;
	int (*run)(int, char **);

	puts("ready");
	fflush(stdout);
	while (clock() < CLOCKS_PER_SEC / 2)
		;
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	run = library ? (int (*)(int, char **))dlsym(library, "Py_BytesMain") : NULL;
	return run ? run(argc - 1, argv + 1) : 2;
}
"""


@test(timeout=120)
def so_has_python_that_is_loaded_late():
    embedder = pythons.get("embed-3.14")
    path = pythons.place(embedder, "recursion.py")
    source = scratch("late.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(LATE)
    inside = os.path.join(os.path.dirname(path), "late")
    shutil.copy(build(source, flags=("-ldl",)), embedder.root + inside)
    folder = embedder.root + "/usr/lib"
    library = next(os.path.join(folder, d, "libpython3.14.so.1.0") for d in os.listdir(folder)
                   if os.path.exists(os.path.join(folder, d, "libpython3.14.so.1.0")))
    process = workload("chroot", embedder.root, inside, library[len(embedder.root):], path, 4, 10,
                       env=pythons.environment())
    result = record("-p", process.pid, "-U", "-F", 999, "--stats", prefix=FIRST).ok()
    check_accounting(result)
    python = sum(s.count for s in result.stacks() if "descend" in names(s))
    note(f"{python} of {total(result.stacks())} samples of 4.5 s have Python frames")
    expect(python > 0.5 * total(result.stacks()) and python > 100, f"{result}")


@pythons.each(timeout=120, only=of_layouts)
def a_shutdown_is_followed_to_its_end(interpreter):
    process = pythons.start(interpreter, "shutdown.py", 1)
    result = record("-p", process.pid, "-U", "-F", 1999, "--stats", prefix=FIRST)
    expect(result.status == 0, f"{result}")
    check_accounting(result)
    expect_equal(process.wait(), 0, "exit status of the target")
    truth = pytrace.traced(interpreter, "shutdown.py")
    truth.pairs |= {
        ("at_exit", "burn_for"), ("burn_for", "burn"), ("__del__", "burn_for"), ("run", "daemon"),
        ("daemon", "burn"), (None, "at_exit"), (None, "__del__"), ("_shutdown", "__del__"),
        ("_shutdown", "at_exit"), (None, "_shutdown"), (None, "threading.py")}
    for stack in result.stacks():
        for frame in pytrace.python_frames(stack):
            known = frame.place in ("w/shutdown.py", "w/workload.py") or (
                frame.place.startswith("python3") and not frame.place.endswith("site.py"))
            expect(known, f"a frame of {frame} at the end")
    mine = [s for s in result.stacks() if all(f.place == "w/shutdown.py"
                                              for f in pytrace.python_frames(s))]
    verdict = truth.judge(mine)
    note(f"{interpreter}: {verdict}")
    expect(not verdict.impossible and not verdict.strange, f"{verdict}")
    for chain in (("at_exit", "burn_for", "burn"), ("__del__", "burn_for", "burn")):
        expect(verdict.has(*chain), f"never seen: {' > '.join(chain)}")


SHORT = """import time
def work(end):
    x = 0
    while time.process_time() < end:
        for i in range(100):
            x = (x * 3 + i) & 0xffff
work(time.process_time() + 0.15)
"""


@pythons.each(timeout=300, only=of_ends)
def a_python_that_lives_150_ms_has_names_and_lines(interpreter):
    count = 100 if FULL else 40
    path = pythons.place(interpreter, SHORT)
    profiler = Profiler("-a", "-t", "-U", "-F", 499, "--stats", prefix=FIRST).wait_sampling()
    pids = []
    for _ in range(count):
        process = spawn([*interpreter.argv, "-S", path], env=pythons.environment())
        process.wait()
        pids.append(process.pid)
    result = profiler.stop().ok()
    check_accounting(result)
    working, named, lines = collections.Counter(), collections.Counter(), set()
    for stack in result.stacks():
        match = re.fullmatch(r"(python3.*)-(\d+)/\d+", stack.comm)
        if not match or int(match[2]) not in pids:
            continue
        frames = pytrace.python_frames(stack)
        working[int(match[2])] += stack.count
        named[int(match[2])] += stack.count * bool(frames)
        lines |= {f.line for f in frames if f.short == "work"}
    seen = [pid for pid in pids if working[pid] >= 3]
    poor = {pid: (named[pid], working[pid]) for pid in seen if named[pid] < 0.5 * working[pid]}
    share = sum(named.values()) / max(1, sum(working.values()))
    note(f"{interpreter}: {len(seen)} of {count} seen, {share:.1%} of their samples have Python "
         f"frames; {len(poor)} have few: {list(poor.values())}")
    expect(len(seen) >= 0.9 * count, f"only {len(seen)} of {count} were sampled three times")
    # One that waits for the profiler to wait for a processor has few: that is the machine.
    expect(len(poor) <= 0.05 * len(seen), f"{len(poor)} of {len(seen)} have few: {poor}")
    expect(lines <= {2, 3, 4, 5, 6} and len(lines) >= 2, f"lines of work(): {lines}")


# ---- memory that is used again -------------------------------------------------------------------

GENERATED = '''
from workload import repeat

# Texts of one size; names, and lines of the inner function, are their own.
TEXT = """
def outer_{0:05}(x):
    for i in range(100):
        x = leaf_{0:05}(x)
    return x
{1}
def leaf_{0:05}(x):
    y = x * 3
    return y & 0xffff
"""
NUMBER = 0


def run_one():
    global NUMBER
    NUMBER = (NUMBER + 1) % 100000
    space = {}
    exec(compile(TEXT.format(NUMBER, "\\n" * (NUMBER % 50)), "made/generated.py", "exec"), space)
    outer = space[f"outer_{NUMBER:05}"]
    for x in range(10):
        outer(x)


repeat(run_one)
'''


@pythons.each(timeout=120)
def code_that_is_freed_does_not_lend_its_name(interpreter):
    process = pythons.start(interpreter, GENERATED)
    stacks, stats = sampled(process.pid, 4000, frequency=4999)
    seen, pairs, unknown = set(), 0, 0
    for stack in stacks:
        unknown += stack.count * ("[unknown Python function]" in stack.frames)
        made = {}
        for frame in pytrace.python_frames(stack):
            match = re.fullmatch(r"(outer|leaf)_(\d{5})", frame.name)
            if match:
                expect(frame.place == "made/generated.py", f"{frame}")
                first = 2 if match[1] == "outer" else 7 + int(match[2]) % 50
                expect(frame.line and first <= frame.line <= first + 3,
                       f"a line of another: {frame}")
                made[match[1]] = match[2]
        if len(made) == 2:
            pairs += stack.count
            expect(made["outer"] == made["leaf"], f"a name of another: {stack.frames}")
        seen |= set(made.values())
    note(f"{interpreter}: {len(seen)} generated functions, {pairs} pairs, {unknown} of "
         f"{total(stacks)} samples with an unknown one")
    expect(len(seen) >= 50 and pairs >= 50, f"{len(seen)} functions, {pairs} pairs")
    expect(unknown <= 0.05 * total(stacks), f"{unknown} unknown of {total(stacks)}")
    expect(not marked(stats, "marked: merge mismatch"), f"{stats}")


# ---- another profiler ----------------------------------------------------------------------------

@pythons.each(needs=((3, 15),), timeout=180)
def another_profiler_changes_nothing(interpreter):
    """It writes last_profiled_frame, which the interpreter itself changes, too."""
    tree = pytree.Tree(7, interpreter.version)
    process, tstate = pyremote.start(interpreter, tree.text, name=pytree.FILE)
    where = tstate + pyremote.LAST_PROFILED_FRAME
    expect_equal(pyremote.word(process.pid, where), 0, "last_profiled_frame")
    writer = pyremote.start_writer(process.pid, tstate)
    stacks, stats = sampled(process.pid, 10000, "--verify", frequency=10000)
    values = set()
    for _ in range(20):
        values.add(pyremote.word(process.pid, where))
        time.sleep(0.002)
    expect(writer.poll() is None, "the writer ended")
    expect(values - {0}, "the writer wrote nothing")
    end(writer)
    verdict = tree.judge(stacks, tree.lines(interpreter))
    note(f"{interpreter}: {verdict}")
    expect(not verdict.impossible and not verdict.strange, f"{verdict}")
    expect(verdict.whole >= 0.999 * stats["matched"],
           f"{verdict.whole} of {stats['matched']} whole")
    expect_equal(stats["verify mismatches"], 0, "walks that differ")


if __name__ == "__main__":
    sys.exit(main())
