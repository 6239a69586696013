#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes that come, change and go while they are sampled: names are those of the image that ran.

The programs of a test have different functions at the same addresses, and say themselves how much
CPU time they spent in each, so that a name of the other image or a lost one shows in the counts.
RPROF_FULL=1: 3,000 processes in 5 minutes.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from programs import build_as, count, run
from rprof_e2e import (FULL, Profiler, Skip, check_accounting, end, expect, expect_equal, main, note,
                       record, scratch, spawn, test, total, wait_for, workload)

SAME_ADDRESSES = ("-no-pie", "-fno-pie")
FUNCTIONS = ("alpha_work", "bravo_work", "carol_work", "delta_work")


def variants(*functions):
    """{function: program that burns in it}, all with the same layout."""
    return {f: build_as(f"by_{f}", "turncoat.c", f"-DNAME={f}", *SAME_ADDRESSES)
            for f in functions}


def comm_of(program):
    return os.path.basename(program)[:15]


def first_stub(program):
    """Addresses of the first stub of the PLT: it calls the loader, for no function by name."""
    found = re.search(r" \.plt +PROGBITS +([0-9a-f]+)", run("readelf", "-SW", program))
    start = int(found[1], 16) if found else 0
    return range(start, start + 16)


class Judged:
    """Samples of one program's processes: right names, wrong ones, none."""

    def __init__(self, stacks, program, function):
        self.right = self.bad = self.samples = 0
        self.wrong = collections.Counter()
        self.pids = collections.Counter()
        module = os.path.basename(program)
        no_function = {f"{module}+{address:#x}" for address in first_stub(program)}
        for stack in stacks:
            match = re.fullmatch(rf"{re.escape(comm_of(program))}(?:-(\d+))?", stack.comm)
            if not match:
                continue
            self.samples += stack.count
            nameless = [f for f in stack.frames if f.startswith(f"{module}+0x")
                        or f in ("[unknown]", "[truncated: mappings not known]")]
            # Within execve() it has its new name already, and where it was called from is gone.
            if any("execve" in f for f in stack.frames) and function not in stack.frames:
                nameless = [f for f in nameless if f != "[unknown]"]
            nameless = [f for f in nameless if f not in no_function]
            foreign = [f for f in stack.frames if f.endswith("_work") and f != function]
            for frame in {*nameless, *foreign}:
                self.wrong[frame] += stack.count
            if nameless or foreign:
                self.bad += stack.count
            elif function in stack.frames:
                self.right += stack.count
                self.pids[match[1]] += stack.count


def judge_all(result, programs):
    judged = {f: Judged(result.stacks(), p, f) for f, p in programs.items()}
    wrong = sum((j.wrong for j in judged.values()), collections.Counter())
    return judged, wrong


# ---- short lives --------------------------------------------------------------------------------

def spawn_short(programs, number, ms, at_once=None, rate=None):
    """Start @number processes of @ms CPU time each, some at a time or some per second; their pids."""
    pids, running = {}, []
    start = time.monotonic()
    for i in range(number):
        function = list(programs)[i % len(programs)]
        while at_once and len(running) >= at_once:
            running.pop(0).wait()
        if rate:
            time.sleep(max(0, start + i / rate - time.monotonic()))
            running = [p for p in running if p.poll() is None]
        process = subprocess.Popen([programs[function], str(ms)], stdout=subprocess.DEVNULL)
        running.append(process)
        pids[process.pid] = function
    for process in running:
        process.wait()
    return pids


@test(120)
def a_process_of_80_ms_keeps_its_names():
    programs = variants(*FUNCTIONS)
    profiler = Profiler("-a", "-F", 999, "--annotate", "--stats").wait_sampling()
    pids = spawn_short(programs, 200, 80, at_once=2)
    time.sleep(0.3)
    result = profiler.stop().ok()
    check_accounting(result)
    judged, wrong = judge_all(result, programs)
    samples, right, bad = (sum(getattr(j, a) for j in judged.values())
                           for a in ("samples", "right", "bad"))
    note(f"{len(pids)} processes, {samples} samples, {right} with the function's name, "
         f"without or with another's: {bad}")
    expect(samples > 200 * 80 * 0.8, f"premise: only {samples} samples\n{result}")
    expect(not wrong, f"{wrong.most_common(8)}\n{result}")
    # The rest: exec, the loader, exit, which on a busy machine are milliseconds.
    expect(right > 0.8 * samples, f"{right} of {samples} are in the program's function\n{result}")
    poor = [pid for pid, function in pids.items()
            if judged[function].pids.get(str(pid), 0) < 40]
    expect(not poor, f"{len(poor)} of 200 processes have less than half of their samples\n{result}")


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@test(600)
def thousands_of_processes_leave_nothing_behind():
    number, rate, ms = (3000, 10, 40) if FULL else (400, 50, 10)
    programs = variants(*FUNCTIONS)
    profiler = Profiler("-a", "-F", 999, "--annotate", "--stats").wait_sampling()
    spawn_short(programs, number // 3, ms, rate=rate)      # warm
    before = resident(profiler.pid), descriptors(profiler.pid)
    spawn_short(programs, number - number // 3, ms, rate=rate)
    after = resident(profiler.pid), descriptors(profiler.pid)
    time.sleep(0.3)
    result = profiler.stop().ok()
    check_accounting(result)
    judged, wrong = judge_all(result, programs)
    samples, bad = (sum(getattr(j, a) for j in judged.values()) for a in ("samples", "bad"))
    seen = sum(len(j.pids) for j in judged.values())
    late = number - number // 3
    lost = bad / max(samples, 1)
    note(f"{number} processes at {rate} a second: {samples} samples of {seen} of them, "
         f"lost names {lost:.3%}")
    note(f"resident {before[0]} KiB after a third, {after[0]} KiB at the end: "
         f"{(after[0] - before[0]) / late:+.2f} KiB a process; descriptors {before[1]}, {after[1]}")
    expect(samples > 0.7 * number * ms, f"premise: {samples} samples\n{result}")
    expect(lost < 0.01, f"lost names: {lost:.2%}: {wrong.most_common(5)}\n{result}")
    # What stays are its lines of the output, "comm-pid" and a stack each: half a KiB was measured.
    lines = len(result.stacks()) * late / number
    expect(after[0] - before[0] < 2048 + 0.75 * lines,
           f"memory grows: {before[0]} to {after[0]} KiB, with {lines:.0f} more lines")
    expect(after[1] <= before[1] + 4, f"descriptors grow: {before[1]} to {after[1]}")


# ---- other images -------------------------------------------------------------------------------

def expect_shares(result, used, margin=0.03):
    """@used: {function: CPU time in ns, as the workload says}. Their samples have the same shares."""
    stacks = result.stacks()
    got = {f: count(stacks, f) for f in used}
    named, spent = sum(got.values()), sum(used.values())
    shares = {f: (got[f] / max(named, 1), used[f] / spent) for f in used}
    note(", ".join(f"{f}: {a:.1%} of the samples, {b:.1%} of the time"
                   for f, (a, b) in shares.items()) + f"; {named} of {total(stacks)} named")
    both = sum(s.count for s in stacks if sum(f in s.frames for f in used) > 1)
    expect_equal(both, 0, f"stacks with names of two images\n{result}\n")
    expect(all(abs(a - b) < margin for a, b in shares.values()), f"{shares}\n{result}")
    expect(named > 0.96 * total(stacks), f"{named} of {total(stacks)} have a name\n{result}")


def said(text):
    """What turncoat and swaploop print: {word: number}."""
    sums = collections.Counter()
    for word, number in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE):
        if word != "ready":
            sums[word] += int(number)
    return sums


@test()
def a_program_replaced_on_disk_and_executed_anew_has_its_own_names():
    programs = variants("alpha_work", "bravo_work")
    path = shutil.copy(programs["alpha_work"], scratch("chameleon"))
    process = workload(path, 1500, path, 900)
    time.sleep(0.2)
    profiler = Profiler("-p", process.pid, "-F", 1999, "-U", "--stats").wait_sampling()
    # Deleted, and another program in its place, at the same path and the same addresses.
    os.remove(path)
    time.sleep(0.2)
    shutil.copy(programs["bravo_work"], path)
    sums = said(process.stdout.read())
    result = profiler.finish().ok()
    check_accounting(result)
    expect_equal(set(sums), set(programs), "premise: what ran")
    # Before it was attached alpha_work ran unseen.
    expected = result.stats()["expected"] * 1e9 / 1999
    sums["alpha_work"] = expected - sums["bravo_work"]
    expect_shares(result, sums)


@test()
def a_chain_of_programs_has_the_names_of_each():
    programs = variants(*FUNCTIONS)
    order = [programs[FUNCTIONS[i % 4]] for i in range(40)]
    arguments = ["50"]
    for program in order[1:]:
        arguments += [program, "50"]
    out = scratch("chain.folded")
    result = record("-F", 1999, "--annotate", "--stats", "-o", out, "--", order[0], *arguments).ok()
    sums = said(result.out)
    with open(out, encoding="utf-8") as file:
        result.out = file.read()
    check_accounting(result)
    expect_equal(set(sums), set(FUNCTIONS), "premise: what ran")
    # 40 times exec and loader in 2 s are more than elsewhere.
    stacks = result.stacks()
    judged, wrong = judge_all(result, programs)
    expect(not wrong, f"{wrong}\n{result}")
    note({f: (j.right, j.samples, round(sums[f] * 1.999e-6)) for f, j in judged.items()})
    for function, j in judged.items():
        wanted = sums[function] * 1.999e-6
        expect(abs(j.right - wanted) < 0.06 * wanted + 10,
               f"{function}: {j.right} samples, {wanted:.0f} by its own clock\n{result}")
    expect(total(stacks) > 3000, f"premise\n{result}")


@test()
def libraries_that_take_turns_at_one_address_have_their_own_names():
    libraries = [build_as(f"lib{f}.so", "swaplib.c", f"-DNAME={f}", "-shared", "-fPIC")
                 for f in FUNCTIONS[:2]]
    process = workload(build_as("swaploop", "swaploop.c"), *libraries, 50, 60)
    result = record("-p", process.pid, "-F", 1999, "-U", "--stats").ok()
    check_accounting(result)
    sums = said(process.stdout.read())
    note(f"{sums['same']} of 59 times at the same address")
    if sums["same"] < 30:
        raise Skip("the loader puts them elsewhere")
    expect_shares(result, {"alpha_work": sums["0"], "bravo_work": sums["1"]})


@test()
def a_number_that_is_used_again_has_the_names_of_its_new_owner():
    programs = variants("alpha_work", "bravo_work")
    profiler = Profiler("-a", "-F", 999, "--annotate", "--stats").wait_sampling()
    first = spawn([programs["alpha_work"], "400"], stdout=subprocess.DEVNULL)
    first.wait()
    number = first.pid
    for _ in range(100):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
                last.write(str(number - 1))
        except OSError as error:
            raise Skip(f"ns_last_pid cannot be written: {error}") from error
        second = spawn([programs["bravo_work"], "400"], stdout=subprocess.DEVNULL)
        if second.pid == number:
            break
        end(second)
    expect(second.pid == number, "premise: the number was not given out again")
    second.wait()
    time.sleep(0.2)
    result = profiler.stop().ok()
    check_accounting(result)
    judged, wrong = judge_all(result, programs)
    note({f: j.pids[str(number)] for f, j in judged.items()})
    expect(not wrong, f"{wrong}\n{result}")
    for function, j in judged.items():
        expect(j.pids[str(number)] > 300, f"{function}: {j.pids} of process {number}\n{result}")


# ---- children -----------------------------------------------------------------------------------

MS = 400
MEMBERS = {"in_parent": 1, "in_child": 1, "in_grandchild": 1, "in_daemon": 3, "spin": 1}


def family():
    """(program, program that it executes)"""
    return build_as("family", "family.c"), build_as("adopted", "shortlived.c")


def expect_members(result, members):
    stacks = result.stacks()
    got = {f: count(stacks, f) for f in MEMBERS}
    note(got)
    for function, times in MEMBERS.items():
        if function in members:
            wanted = times * MS * 0.999
            expect(0.85 * wanted < got[function] < 1.15 * wanted + 20,
                   f"{function}: {got[function]} samples of {wanted:.0f}\n{result}")
        else:
            expect_equal(got[function], 0, f"samples in {function}\n{result}\n")


@test()
def a_command_is_followed_with_all_that_it_starts():
    program, adopted = family()
    out = scratch("family.folded")
    start = time.monotonic()
    result = record("-s", "-F", 999, "-U", "--stats", "-o", out, "--", program, MS, adopted).ok(7)
    took = time.monotonic() - start
    with open(out, encoding="utf-8") as file:
        result.out = file.read()
    check_accounting(result)
    expect_members(result, MEMBERS)
    # The daemon's time alone, after a second of sleep; it ends by itself when that is over.
    expect(took > 1 + 3 * MS / 1000, f"it ended after {took:.1f} s, before the daemon\n{result}")


@test()
def a_process_is_followed_with_all_that_it_starts():
    program, adopted = family()
    process = workload(program, MS, adopted)
    result = record("-p", process.pid, "-s", "-F", 999, "-U", "--stats").ok()
    check_accounting(result)
    expect_members(result, MEMBERS)
    end(process)


@test()
def without_s_nobody_else_is_followed():
    program, adopted = family()
    process = workload(program, MS, adopted)
    result = record("-p", process.pid, "-F", 999, "-U", "--stats").ok()
    check_accounting(result)
    expect_members(result, ["in_parent"])
    end(process)
    time.sleep(1)       # for the daemon


@test()
def children_that_are_there_already_are_followed():
    child = build_as("early", "spin.c")
    parent = spawn(["sh", "-c", f'"{child}" & "{child}" & (exec "{child}") & echo; wait'],
                   stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for _ in range(4):
            parent.stdout.readline()
        result = record("-p", parent.pid, "-s", "-F", 999, "-d", 1, "-U", "-t", "--stats").ok()
        check_accounting(result)
        seen = {s.comm for s in result.stacks() if s.frames[-2:] == ["main", "spin"]}
        expect_equal(len(seen), 3, f"children seen, {seen}\n{result}\n")
    finally:
        os.killpg(parent.pid, 9)


if __name__ == "__main__":
    sys.exit(main())
