#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What `check` says is what a run then does: rights, the kernel, processes of all kinds."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (HERE, PATIENCE, Profiler, Skip, bpf_objects, build, end, expect,
                       expect_equal, expect_nothing_left, main, note, record, scratch, spawn,
                       state, test, total, wait_for, workload)
import hangfs

NOBODY = 65534
CODES = {"fine": 0, "degraded": 3, "impossible": 1}


def without(*capabilities):
    """A prefix that takes these capabilities away."""
    drop = ",".join(f"-{c}" for c in capabilities)
    return ("setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}")


class Findings:
    """One run of check --json, held against what a run for people says."""

    def __init__(self, *args, prefix=(), **kwargs):
        self.result = record("check", "--json", *args, prefix=prefix, **kwargs)
        self.document = json.loads(self.result.out)
        self.verdict = self.document["verdict"]
        self.all = self.document["findings"]
        self.result.ok(CODES[self.verdict])
        for finding in self.all:
            expect_equal(sorted(finding), ["advice", "group", "state", "subject", "text"],
                         "the keys of a finding")
            expect(all(isinstance(v, str) for v in finding.values()), f"{finding}")
            expect(finding["state"] == "fine" or finding["advice"], f"no advice: {finding}")
        worst = max(list(CODES).index(f["state"]) for f in self.all)
        expect_equal(self.verdict, list(CODES)[worst], "the verdict")

    def of(self, subject, group=""):
        found = [f for f in self.all if f["subject"] == subject and group in f["group"]]
        expect(found, f"nothing is said of {subject}: {self.result.out}")
        return found[0]

    def file(self, path):
        return self.of(path, ": files")

    def has(self, subject):
        return any(f["subject"] == subject for f in self.all)

    def bad(self, group):
        """What is not fine in a group: {subject}."""
        return {f["subject"] for f in self.all if f["group"] == group and f["state"] != "fine"}


def named(process, prefix=(), function="spin"):
    """Share of the samples of a run with the name of the function in it."""
    result = record("-p", process.pid, "-F", 499, "-d", 1, "-U", prefix=prefix).ok()
    stacks = result.stacks()
    return sum(s.count for s in stacks if function in s.frames) / total(stacks)


def squeeze(text):
    return re.sub(r"\s+", "", text)


@test()
def root_is_told_that_all_is_well():
    before = bpf_objects()
    found = Findings()
    note("; ".join(f"{f['subject']}: {f['text']}" for f in found.all if f["state"] != "fine"))
    expect_equal(found.bad("rights"), set(), "rights of root")
    # A busy machine, the programs of others and the settings of this one may degrade it.
    expect(found.verdict != "impossible", f"{found.result}")
    expect(re.search(r"loaded: \d+", found.of("programs")["text"]), f"{found.of('programs')}")
    came = re.match(r"(\d+) came of (\d+)", found.of("samples")["text"])
    expect(came and int(came[1]) > 0.5 * int(came[2]) > 0, f"{found.of('samples')}")
    expect_equal(found.result.err, "", "standard error")
    expect_nothing_left(before)


@test()
def text_and_json_agree():
    process = workload(build("spin.c"))
    found = Findings("-p", process.pid)
    text = record("check", "-p", process.pid).ok(CODES[found.verdict]).out
    expect(max(len(line) for line in text.split("\n")) < 80, f"too wide\n{text}")
    expect(f"verdict: {found.verdict}" in text, text)
    for finding in found.all:
        if finding["subject"] in ("samples", "virtual machine", "other BPF programs"):  # of a moment
            continue
        row = squeeze(finding["state"] + finding["subject"] + finding["text"])
        expect(row in squeeze(text), f"{finding} is not in\n{text}")
        expect(squeeze(finding["advice"]) in squeeze(text), f"{finding} is not in\n{text}")


@test()
def without_rights_they_are_named():
    process = workload(build("spin.c"))
    found = Findings("-p", process.pid, user=NOBODY, group=NOBODY, extra_groups=[])
    for name in ("CAP_BPF", "CAP_PERFMON"):
        expect_equal(found.of(name)["state"], "impossible", name)
        expect("root" in found.of(name)["advice"], f"{found.of(name)}")
    for name in ("CAP_SYS_PTRACE", "CAP_CHECKPOINT_RESTORE", "CAP_DAC_READ_SEARCH"):
        expect_equal(found.of(name)["state"], "degraded", name)
    expect_equal(found.of("programs")["state"], "impossible", "programs")
    expect(not found.has("samples"), "samples that nobody can have taken")
    expect_equal(found.result.status, 1, "exit status")
    run = record("-p", process.pid, "-d", 1, user=NOBODY, group=NOBODY, extra_groups=[])
    expect_equal(run.status, 1, "exit status of a run")


@test()
def what_sampling_needs_is_refused_in_a_run_too():
    process = workload(build("spin.c"))
    for capability in ("bpf", "perfmon"):
        prefix = without(capability, "sys_admin")
        found = Findings(prefix=prefix)
        name = f"CAP_{capability.upper()}"
        expect_equal(found.bad("rights"), {name}, "rights")
        expect_equal(found.of(name)["state"], "impossible", name)
        run = record("-p", process.pid, "-d", 1, prefix=prefix)
        expect(run.status == 1 and name in run.err, f"a run does not agree\n{run}")


@test(120)
def what_names_need_is_missing_in_a_run_too():
    """Each right, and a process whose names it takes, and one whose names it does not."""
    own = build("spin.c")
    private = scratch("private")
    os.mkdir(private, 0o700)
    shutil.copy(own, private)
    for path in (private, f"{private}/spin"):
        os.chown(path, NOBODY, NOBODY)
    os.chmod(f"{private}/spin", 0o700)
    gone = shutil.copy(own, scratch("gone"))
    plain, deleted = workload(own), workload(gone)
    stranger = workload(f"{private}/spin", user=NOBODY, group=NOBODY, extra_groups=[])
    os.unlink(gone)
    cases = (("sys_ptrace", (), stranger, f"{private}/spin", None),
             ("checkpoint_restore", ("sys_admin",), deleted, gone, plain),
             ("dac_read_search", ("dac_override",), stranger, f"{private}/spin", plain))
    for capability, others, loses, path, keeps in cases:
        prefix, name = without(capability, *others), f"CAP_{capability.upper()}"
        found = Findings("-p", loses.pid, prefix=prefix)
        share = named(loses, prefix)
        note(f"without {name}: {found.file(path)['text']}; {100 * share:.0f} % named")
        expect_equal(found.bad("rights"), {name}, "rights")
        expect_equal(found.of(name)["state"], "degraded", name)
        expect("not opened" in found.file(path)["text"], f"{found.file(path)}")
        expect(share == 0, f"{100 * share:.0f} % are named without {name}")
        expect("names: " in Findings("-p", loses.pid).file(path)["text"], "with all rights")
        expect(named(loses) > 0.9, "premise: with all rights it is named")
        if keeps:
            text = Findings("-p", keeps.pid, prefix=prefix).file(own)["text"]
            expect("names: .symtab" in text, text)
            expect(named(keeps, prefix) > 0.9, "a file that is open to all has no names")


@test()
def kernel_names_are_missing_in_a_run_too():
    prefix = without("syslog")
    found, full = Findings(prefix=prefix), Findings()
    process = workload(build("syscalls.c"))
    run = record("-p", process.pid, "-F", 999, "-d", 1, "-K", prefix=prefix).ok()
    named_frames = [f for s in run.stacks() for f in s.frames if not f.startswith("[")]
    if full.of("kernel symbols")["state"] != "fine":
        raise Skip("kernel symbols are hidden from root, too")
    if found.of("kernel symbols")["state"] == "fine":
        expect(named_frames, "said to be readable, and no frame has a name")
        return
    expect("CAP_SYSLOG" in found.of("kernel symbols")["text"], f"{found.of('kernel symbols')}")
    expect(not named_frames, f"names after all: {named_frames[:5]}")


@test()
def the_command_of_sudos_user_needs_more():
    env = dict(os.environ, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))
    expect_equal(Findings(env=env).bad("rights"), set(), "rights of root, by sudo")
    for capability in ("setuid", "setgid"):
        prefix = without(capability)
        expect_equal(Findings(prefix=prefix).bad("rights"), set(), "rights without sudo")
        found = Findings(prefix=prefix, env=env)
        expect_equal(found.bad("rights"), {f"CAP_{capability.upper()}"}, "rights")
        expect_equal(record("--", "true", prefix=prefix, env=env).status, 125, "status of a run")
        status = record("--as-root", "--", "true", prefix=prefix, env=env).status
        expect_equal(status, 0, "status of a run --as-root")


@test()
def other_programs_that_cost_samples_are_named():
    if not shutil.which("bpftrace"):
        raise Skip("no bpftrace")
    tracer = spawn(["bpftrace", "-e", "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); } "
                    "BEGIN { printf(\"go\\n\"); }"], stdout=subprocess.PIPE, text=True)
    expect(any("go" in line for line in iter(tracer.stdout.readline, "")), "no bpftrace")
    found = Findings()
    texts = [f["text"] for f in found.all if f["subject"] == "other BPF programs"]
    note("; ".join(texts))
    expect(any("sys_enter" in t and f"process {tracer.pid}" in t and "missed" in t
               for t in texts), f"not among {texts}")
    expect_equal(found.of("other BPF programs")["state"], "degraded", "state")


@test()
def its_own_samples_are_no_hazard():
    process = workload(build("spin.c"))
    other = Profiler("-p", process.pid, "-d", 20 * PATIENCE).wait_sampling()
    found = Findings("-p", process.pid)
    texts = [f["text"] for f in found.all if f["subject"] == "other BPF programs"]
    expect(not any("rprof" in t for t in texts), f"{texts}")
    expect(other.process.poll() is None, "the run that was there has ended")


@test()
def what_cannot_be_sampled_is_impossible():
    gone = spawn(["true"])
    gone.wait()
    zombie = spawn(["true"])
    wait_for(lambda: state(zombie.pid) == "Z", "a zombie")
    threads = workload(build("threads.c"), 2)
    tid = max(int(t) for t in os.listdir(f"/proc/{threads.pid}/task"))
    for pid, word in ((gone.pid, "no such process"), (zombie.pid, "zombie"),
                      (tid, f"thread of process {threads.pid}")):
        found = Findings("-p", pid)
        expect_equal(found.verdict, "impossible", f"verdict on {word}")
        expect(word in found.of("state", f"process {pid}")["text"], f"{found.result.out}")
        run = record("-p", pid, "-d", 1)
        expect_equal(run.status, 1, f"exit status of a run: {word}")


@test()
def several_processes_are_each_told_of():
    process, gone = workload(build("spin.c")), spawn(["true"])
    gone.wait()
    found = Findings("-p", f"{process.pid},{gone.pid}")
    expect_equal(found.result.status, 1, "exit status")
    expect_equal(found.of("state", f"process {process.pid}")["state"], "fine", "the first")
    expect_equal(found.of("state", f"process {gone.pid}")["state"], "impossible", "the second")


@test()
def a_kernel_thread_has_kernel_stacks():
    found = Findings("-p", 2)
    expect("kernel thread" in found.of("state", "process 2")["text"], f"{found.result.out}")
    expect_equal(found.of("state", "process 2")["state"], "fine", "state")


@test()
def a_32_bit_process_is_refused():
    source, program = scratch("narrow.c"), scratch("narrow")
    with open(source, "w", encoding="ascii") as file:
        file.write("void _start(void) { for (;;) __asm__ volatile(\"\"); }\n")
    done = subprocess.run(["gcc", "-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pie",
                           "-no-pie", source, "-o", program], capture_output=True, check=False)
    if done.returncode:
        raise Skip("no 32-bit program can be built here")
    try:
        process = spawn([program])
    except OSError as error:
        raise Skip(f"no 32-bit program runs here: {error}") from error
    wait_for(lambda: os.readlink(f"/proc/{process.pid}/exe") == program, "exec")
    found = Findings("-p", process.pid)
    expect_equal(found.of("32-bit process")["state"], "impossible", "state")
    run = record("-p", process.pid, "-F", 999, "-d", 1, "-U").ok()
    expect(any("[unsupported: 32-bit process]" in s.frames for s in run.stacks()), f"{run}")


@test()
def a_stopped_process_gives_no_samples():
    process = workload(build("spin.c"))
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: state(process.pid) == "T", "it to stop")
    found = Findings("-p", process.pid)
    expect_equal(found.of("state", f"process {process.pid}")["state"], "degraded", "state")
    expect("stopped" in found.of("state", f"process {process.pid}")["text"], "why")


@test()
def files_are_told_apart():
    plain = build("spin.c")
    bare = shutil.copy(plain, scratch("bare"))
    subprocess.run(["strip", bare], check=True)
    deleted, replaced = shutil.copy(plain, scratch("deleted")), shutil.copy(plain, scratch("new"))
    processes = {p: workload(p) for p in (plain, bare, deleted, replaced)}
    os.unlink(deleted)
    os.unlink(replaced)
    shutil.copy(bare, replaced)
    texts = {}
    for path, process in processes.items():
        finding = Findings("-p", process.pid).file(path)
        texts[path] = finding["text"]
        note(f"{os.path.basename(path)}: {finding['state']}: {finding['text']}")
    build_id = re.search(r"Build ID: (\w+)", subprocess.run(
        ["readelf", "-n", plain], capture_output=True, text=True, check=True).stdout)[1]
    chains = {"x86": "frame pointers", "s390": "back chains"}[HERE]
    expect(f"names: .symtab; {chains}" in texts[plain], texts[plain])
    expect(f"build id {build_id}" in texts[plain], texts[plain])
    expect(".symtab" not in texts[bare], texts[bare])
    expect("deleted from disk" in texts[deleted] and ".symtab" in texts[deleted], texts[deleted])
    expect("replaced on disk" in texts[replaced] and ".symtab" in texts[replaced],
           texts[replaced])


@test()
def a_name_cannot_forge_a_line():
    folder = scratch("evil;\n  fine        x\x1b[31m")
    os.mkdir(folder)
    program = shutil.copy(build("spin.c"), f"{folder}/sp\\in")
    process = workload(program)
    found = Findings("-p", process.pid)
    text = record("check", "-p", process.pid).out
    expect("\x1b" not in text and "\x1b" not in json.dumps(found.document), "an escape sequence")
    expect(not re.search(r"^  fine        x", text, re.M), f"a forged line\n{text}")
    expect(any("evil\\x3b" in f["subject"] for f in found.all), f"{found.result.out}")


@test()
def a_file_system_that_does_not_answer_does_not_hold_us():
    try:
        fs = hangfs.Mount(scratch("hang"), "spin", build("spin.c"))
    except OSError as error:
        raise Skip(f"no FUSE mount here: {error}") from error
    try:
        process = workload(fs.path)
        fs.hang()
        found = Findings("-p", process.pid, timeout=30)
    finally:
        fs.close()
    text = found.file(fs.path)["text"]
    expect("not opened" in text and "network or user-space" in text, text)


@test()
def run_time_code_needs_a_perf_map():
    source = scratch("jit.c")
    with open(source, "w", encoding="ascii") as file:
        file.write('#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>\n'
                   'int main(void) { mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | '
                   'MAP_ANONYMOUS, -1, 0); puts("ready"); fflush(stdout); pause(); }\n')
    process = workload(build(source))
    path = f"/tmp/perf-{process.pid}.map"
    try:
        found = Findings("-p", process.pid)
        expect("no " + path in found.of("run-time code")["text"], f"{found.of('run-time code')}")
        expect_equal(found.of("run-time code")["state"], "degraded", "without a map")
        with open(path, "w", encoding="ascii") as file:
            file.write("1000 10 name\n")
        found = Findings("-p", process.pid)
        expect_equal(found.of("run-time code")["state"], "fine", "with a map")
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
        found = Findings("-p", process.pid)
        expect("a link" in found.of("run-time code")["text"], f"{found.of('run-time code')}")
        os.rename(path + ".real", path)
        os.chown(path, NOBODY, NOBODY)
        found = Findings("-p", process.pid)
        expect("not read" in found.of("run-time code")["text"], f"{found.of('run-time code')}")
        os.unlink(path)
        os.mkfifo(path)
        found = Findings("-p", process.pid, timeout=30)
        expect("not read" in found.of("run-time code")["text"], f"{found.of('run-time code')}")
    finally:
        for left in (path, path + ".real"):
            if os.path.lexists(left):
                os.unlink(left)


@test()
def runtimes_are_found_by_content():
    source = scratch("runtime.c")
    with open(source, "w", encoding="ascii") as file:
        file.write('#include <stdio.h>\n#include <unistd.h>\n'
                   'struct { char cookie[8]; unsigned long version; } _PyRuntime '
                   '__attribute__((section(".PyRuntime"))) = { "xdebugpy", 0x030f00b2 };\n'
                   'int caml_frametable = 1;\n'
                   'int main(void) { puts("ready"); fflush(stdout); pause(); }\n')
    process = workload(build(source))
    found = Findings("-p", process.pid)
    expect("Python 3.15.0b2 in runtime: " in found.of("Python")["text"], f"{found.of('Python')}")
    expect_equal(found.of("Python")["state"], "degraded", "Python")
    expect(found.has("OCaml") and not found.has("Go") and not found.has("Node.js"),
           found.result.out)
    plain = Findings("-p", workload(build("spin.c")).pid)
    expect(not plain.has("Python") and not plain.has("OCaml"), plain.result.out)


@test()
def namespaces_are_named():
    process = spawn(["unshare", "-pUmr", "--fork", "--kill-child", build("sleeper.c")],
                    stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        inner = int(file.read().split()[0])
    text = Findings("-p", inner).of("namespaces")["text"]
    expect("pid: its own, where it is number 1" in text, text)
    expect("mount: its own" in text and "user: its own" in text, text)
    text = Findings("-p", workload(build("spin.c")).pid).of("namespaces")["text"]
    expect("pid: ours; mount: ours; user: ours" in text, text)


@test()
def a_pid_namespace_is_sampled_in():
    for options in (("-pf", "--mount-proc"), ("-pf",)):
        found = Findings("-p", 1, prefix=("unshare", *options))
        expect("our own" in found.of("pid namespace")["text"], f"{found.of('pid namespace')}")
        expect("came of" in found.of("samples")["text"], f"{found.of('samples')}")
        expect(found.of("samples")["state"] != "impossible", f"{found.of('samples')}")
        expect("rprof-bpf" in found.of("state", "process 1")["text"], found.result.out)
    expect("the first" in Findings().of("pid namespace")["text"], "of the host")


@test(120)
def tens_of_thousands_of_mappings_take_no_time():
    source = scratch("many.c")
    with open(source, "w", encoding="ascii") as file:
        file.write('#include <fcntl.h>\n#include <stdio.h>\n#include <sys/mman.h>\n'
                   '#include <unistd.h>\n'
                   'int main(int argc, char **argv) { int fd = open(argv[0], O_RDONLY), n = 0;\n'
                   'for (; n < 60000; n++) if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE,'
                   ' fd, (n % 2) * 8192) == MAP_FAILED) break;\n'
                   'printf("ready %d\\n", n); fflush(stdout); pause(); }\n')
    process = workload(build(source))
    one = workload(build("spin.c"))
    begin = time.monotonic()
    Findings("-p", one.pid)
    alone = time.monotonic() - begin
    begin = time.monotonic()
    found = Findings("-p", process.pid)
    took = time.monotonic() - begin
    note(f"{took:.2f} s, {alone:.2f} s with few; {found.of('mappings')['text']}")
    expect_equal(found.of("mappings")["state"], "degraded", "mappings")
    expect(took < 20 * alone + 5, f"took {took:.1f} s")
    end(process)


if __name__ == "__main__":
    sys.exit(main())
