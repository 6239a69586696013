# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What every end-to-end test needs: run the profiler and workloads, read what it wrote, TAP.

A test is a function with @test(); main() runs them in order, prints TAP, ends what a test started
(by process id, never by name) and returns the exit status. The program under test is $RPROF_BPF,
default build/rprof-bpf. RPROF_FULL=1 asks for the long versions of the tests.
"""
import ctypes
import json
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORKLOADS = os.path.join(ROOT, "tests", "workloads")
BINARY = os.path.abspath(os.environ.get("RPROF_BPF", os.path.join(ROOT, "build", "rprof-bpf")))
FULL = os.environ.get("RPROF_FULL") == "1"
# Times longer than here may everything take: where the processors are emulated.
PATIENCE = int(os.environ.get("RPROF_PATIENCE", "1"))
# Of the samples that were due so many are taken at least: emulated processors miss most of some.
LEAST = 0.9 if PATIENCE == 1 else 0.1
# This machine, as the Makefile names it.
HERE = {"x86_64": "x86", "s390x": "s390"}[platform.machine()]
# What makes frames that can be walked, on each, and here.
FRAMES_OF = {"x86": ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"),
             "s390": ("-mbackchain",)}
FRAMES = FRAMES_OF[HERE]

sys.path.insert(0, WORKLOADS)


# ---- TAP ----------------------------------------------------------------------------------------

class Skip(Exception):
    """Raised by a test that cannot run here, with the reason."""


class Failure(Exception):
    """Raised by a test that found something wrong."""


_tests = []
_started = []       # processes of the running test
_folder = None      # scratch of this suite, removed at its end


def test(timeout=60, name=None):
    """Register a test; @timeout in seconds is a bound against hanging, not an expectation."""
    def register(function):
        _tests.append((name or function.__name__, function, timeout))
        return function
    return register


def note(text):
    for line in str(text).split("\n"):
        print(f"# {line}", flush=True)


def expect(condition, text):
    if not condition:
        raise Failure(text)


def expect_equal(got, want, what):
    if got != want:
        raise Failure(f"{what}: got {got!r}, expected {want!r}")


def scratch(name=""):
    """A path in this suite's own folder under /tmp, which others may enter."""
    global _folder
    if not _folder:
        _folder = tempfile.mkdtemp(prefix="rprof-e2e-")
        os.chmod(_folder, 0o755)
    return os.path.join(_folder, name)


def _on_alarm(_signal, _frame):
    raise Failure("timed out")


def _run_test(name, function, timeout):
    """Run one test and print its verdict, then what is wrong. Returns whether all is well."""
    signal.alarm(timeout * PATIENCE)
    wrong, skipped = "", ""
    try:
        function()
    except Skip as skip:
        skipped = f" # skip {skip}"
    except Failure as failure:
        wrong = str(failure) or "failed"
    except Exception:  # a broken test is a failed test, and the next one still runs
        wrong = traceback.format_exc().rstrip()
    finally:
        signal.alarm(0)
        while _started:
            end(_started.pop())
    print(f"not ok - {name}" if wrong else f"ok - {name}{skipped}", flush=True)
    if wrong:
        note(wrong)
    return not wrong


def main(needs_profiler=True):
    """Run the registered tests: all, or those whose names contain an argument."""
    if needs_profiler and os.geteuid() != 0:
        print("1..0 # skip needs root: perf events and BPF of other processes")
        return 0
    if needs_profiler and not os.access(BINARY, os.X_OK):
        print(f"# {BINARY}: no such program: build it first (make), or set RPROF_BPF")
        return 1
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    tests = [t for t in _tests if not wanted or any(w in t[0] for w in wanted)]
    signal.signal(signal.SIGALRM, _on_alarm)
    # Ignored in a background job of a script; the profiler would leave it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"1..{len(tests)}", flush=True)
    try:
        return 0 if all([_run_test(*t) for t in tests]) else 1
    finally:
        while _started:
            end(_started.pop())
        if _folder:
            shutil.rmtree(_folder, ignore_errors=True)


# ---- processes ----------------------------------------------------------------------------------

_prctl = ctypes.CDLL(None).prctl


def _die_with_us():
    _prctl(1, signal.SIGKILL)       # PR_SET_PDEATHSIG: also where we are killed


def spawn(argv, **kwargs):
    """Popen that the end of the test ends."""
    kwargs.setdefault("preexec_fn", _die_with_us)
    process = subprocess.Popen(argv, **kwargs)
    _started.append(process)
    return process


def end(process, sig=signal.SIGKILL):
    if process.poll() is None:
        process.send_signal(sig)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def build(source, flags=FRAMES, compiler="gcc"):
    """Compile a workload (of tests/workloads, or generated) into the scratch folder."""
    path = source if os.path.isabs(source) else os.path.join(WORKLOADS, source)
    program = scratch(os.path.splitext(os.path.basename(path))[0])
    if not os.path.exists(program):
        done = subprocess.run([compiler, "-O2", f"-I{WORKLOADS}", *flags, path, "-o", program,
                               "-pthread"], capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"{compiler} {path}: {done.stderr}")
    return program


def workload(program, *args, **kwargs):
    """Start a workload; returns once it has printed its "ready" line."""
    process = spawn([program, *map(str, args)], stdout=subprocess.PIPE, text=True, **kwargs)
    ready = process.stdout.readline().split()
    expect(ready[:1] == ["ready"], f"{program} did not say that it is ready: {ready}")
    return process


def cpu_seconds(pid):
    """User and system time of the process so far, by /proc (ticks of 10 ms)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def state(pid):
    """The state letter of /proc/PID/stat, "" if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_for(condition, what, seconds=20):
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        expect(time.monotonic() < deadline, f"waited {seconds} s in vain for {what}")
        time.sleep(0.02)


def fd_kinds(pid):
    """What the descriptors of a process are, for anonymous ones: {"[signalfd]", ...}."""
    kinds = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                kinds.add(os.readlink(f"/proc/{pid}/fd/{fd}").removeprefix("anon_inode:"))
            except OSError:
                pass
    except (FileNotFoundError, ProcessLookupError):
        pass
    return kinds


# ---- the profiler -------------------------------------------------------------------------------

def others_copy():
    """The program where every user can run it, as homes are not for all."""
    copy = scratch("rprof-bpf")
    if not os.path.exists(copy):
        shutil.copy(BINARY, copy)
        os.chmod(copy, 0o755)
    return copy


class Profiler:
    """A running rprof-bpf; output goes to files, so that it can never block on us."""

    def __init__(self, *args, stdout=None, prefix=(), **kwargs):
        program = others_copy() if "user" in kwargs else BINARY
        self.argv = [*prefix, program, *map(str, args)]
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        self.process = spawn(self.argv, stdin=subprocess.DEVNULL, stdout=stdout or self._out,
                             stderr=self._err, **kwargs)
        self.pid = self.process.pid

    def wait_sampling(self):
        """Until it is in its loop: the signal descriptor is the last thing that it makes."""
        wait_for(lambda: self.process.poll() is not None or "[signalfd]" in fd_kinds(self.pid),
                 "the profiler to sample", 60)
        time.sleep(0.1)     # enabling the events, exec of a command
        return self

    def stop(self, sig=signal.SIGINT):
        self.process.send_signal(sig)
        return self.finish()

    def finish(self, timeout=120):
        try:
            self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            end(self.process)
            raise Failure(f"still running after {timeout} s: {' '.join(self.argv)}\n"
                          f"{_text(self._err)}") from None
        return Result(self.argv, self.process.returncode, _text(self._out), _text(self._err))

    def output(self):
        """What it has written to its standard output so far."""
        return _text(self._out)

    def messages(self):
        return _text(self._err)


def _text(file):
    file.seek(0)
    return file.read().decode("utf-8", "surrogateescape")


def record(*args, timeout=120, **kwargs):
    """Run the profiler to its end."""
    return Profiler(*args, **kwargs).finish(timeout)


class Result:
    def __init__(self, argv, status, out, err):
        self.argv = argv
        self.status = status
        self.out = out
        self.err = err

    def __str__(self):
        return (f"$ {' '.join(self.argv)}\nexit status {self.status}\n"
                f"-- stderr:\n{self.err[-3000:]}\n-- stdout (start):\n{self.out[:500]}")

    def ok(self, status=0):
        expect(self.status == status, f"exit status {self.status}, expected {status}\n{self}")
        return self

    def stacks(self):
        return parse_folded(self.out)

    def stats(self):
        return parse_stats(self.err)


# ---- what it may leave behind in the kernel -----------------------------------------------------

def _bpf_list(kind):
    """An object that is freed while it is listed is an error to bpftool: it is asked again."""
    for _ in range(20):
        done = subprocess.run(["bpftool", "-j", kind, "show"], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            return json.loads(done.stdout or "[]")
        time.sleep(0.05)
    raise Failure(f"bpftool {kind} show: {done.stderr or done.stdout}")


def bpf_objects():
    """All BPF programs, maps and links of the system, as {(kind, id, name)}."""
    return {(kind, entry["id"], entry.get("name", ""))
            for kind in ("prog", "map", "link") for entry in _bpf_list(kind)}


def expect_nothing_left(before):
    """BPF objects are freed some time after their last descriptor is closed: wait a little. What a
    profiler of another test has loaded meanwhile goes with it; what is left behind stays."""
    left = bpf_objects() - before

    def nothing():
        left.intersection_update(bpf_objects())
        return not left
    wait_for(nothing, "the kernel to free what the profiler loaded", 40)


# ---- what it wrote ------------------------------------------------------------------------------

KERNEL_SUFFIX = "_[k]"
# Lost after it was sent: its STACK did not arrive, or was forgotten.
UNKNOWN_STACK = "lost: unknown stack"


class Stack:
    """One folded line: comm, frames (root first, kernel last), count."""

    def __init__(self, first, frames, count):
        self.comm = first
        self.frames = frames
        self.count = count

    def user(self):
        """The frames of user space; needs a run with --annotate."""
        return [f for f in self.frames if not f.endswith(KERNEL_SUFFIX)]

    def kernel(self):
        return [f.removesuffix(KERNEL_SUFFIX) for f in self.frames if f.endswith(KERNEL_SUFFIX)]


def is_mark(frame):
    return frame.startswith("[") and frame.endswith("]")


def unescape(text):
    return re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), text)


def parse_folded(text):
    """Strict: what a flame graph script would misread is a failure here."""
    stacks = []
    if text and not text.endswith("\n"):
        raise Failure(f"the output ends within a line: {text[-80:]!r}")
    for line in text.split("\n")[:-1]:
        match = re.fullmatch(r"([^;\x00-\x1f\x7f]+(?:;[^;\x00-\x1f\x7f]+)*) ([1-9]\d*)", line)
        expect(match, f"not a folded line: {line!r}")
        expect(not re.search(r"\\(?!x[0-9a-f]{2})", line), f"a bare backslash: {line!r}")
        first, *frames = [unescape(f) for f in match[1].split(";")]
        stacks.append(Stack(first, frames, int(match[2])))
    return stacks


def total(stacks):
    return sum(s.count for s in stacks)


def parse_stats(text):
    """The summary's lines "name   integer ..." as a dict."""
    stats = {}
    for line in text.split("\n"):
        match = re.match(r"\s*([A-Za-z].*?):?\s+(-?\d+)(?:\s|$)", line)
        if match:
            stats.setdefault(match[1], int(match[2]))
    return stats


def losses(stats):
    """Samples lost before they were sent; other records that are refused are no samples."""
    return {name: n for name, n in stats.items() if name.startswith("lost: ")
            and name not in (UNKNOWN_STACK, "lost: process record refused",
                             "lost: code record refused", "lost: child process not followed")}


def marked(stats, kind="marked: "):
    return sum(n for name, n in stats.items() if name.startswith(kind))


def check_accounting(result):
    """The identities of DESIGN.md 7, exact in every run; returns the stats."""
    stats = result.stats()
    for name in ("expected", "missed", "ticks", "other", "matched", "samples", "received"):
        expect(name in stats, f"the summary has no line '{name}'\n{result}")
    lost = sum(losses(stats).values())

    def equal(left, right, what):
        expect(left == right, f"{what}: {left} != {right}\n{result}")

    equal(stats["ticks"], stats["other"] + stats["matched"], "ticks = other + matched")
    equal(stats["matched"], stats["samples"] + lost, "matched = samples + losses")
    equal(stats["samples"], stats["received"] + stats.get(UNKNOWN_STACK, 0),
          "samples sent = samples received")
    equal(stats["expected"], stats["matched"] + stats["missed"], "expected = matched + missed")
    if result.out:
        equal(total(result.stacks()), stats["received"], "sum of the counts = samples received")
    return stats


def five_sigma(share, n):
    """Five standard deviations of a share seen in n independent samples: 1 run in 1.7 million."""
    return 5 * math.sqrt(max(share * (1 - share), 1 / n) / n)
