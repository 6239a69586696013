#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Interpreters are found wherever they are, when they are there; what cannot be read is refused by
name, and its native stacks go on."""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from pythons import each, environment, get, place, start
from rprof_e2e import (FULL, Profiler, Skip, build, check_accounting, end, expect, expect_equal,
                       main, note, record, scratch, spawn, test, total, wait_for, workload)

BURN = """import sys
print("ready", flush=True)
def burn():
    x = 0
    for i in range(1000):
        x += i
while True:
    burn()
"""

# argv: library, seconds before it is loaded, seconds before it is initialized, Python's arguments
LATE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void spin(double seconds)
{
	for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;)
		;
}
int main(int argc, char **argv)
{
	int (*run)(int, char **);
	void *library;

	puts("ready");
	fflush(stdout);
	spin(atof(argv[2]));
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	spin(atof(argv[3]));
	run = library ? (int (*)(int, char **))dlsym(library, "Py_BytesMain") : NULL;
	return run ? run(argc - 3, argv + 3) : 2;
}
"""

FAKE = r"""
#include <stdio.h>
const char *PyPy_Version = "fake";
int main(void) { puts("ready"); fflush(stdout); for (;;) ; }
"""

# argv: libraries; an interpreter of each runs Python, that of the last one in the main thread.
SEVERAL = r"""
#include <dlfcn.h>
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		void (*init)(int) = library ? dlsym(library, "Py_InitializeEx") : 0;
		int (*run)(const char *) = library ? dlsym(library, "PyRun_SimpleString") : 0;
		void *(*save)(void) = library ? dlsym(library, "PyEval_SaveThread") : 0;

		if (!init || !run || !save)
			return 2;
		init(0);
		if (i == argc - 1)
			return run("print('ready', flush=True)\nwhile True: pass");
		run("import threading, time\n"
		    "def nap():\n    while True: time.sleep(0.01)\n"
		    "threading.Thread(target=nap, daemon=True).start()\ntime.sleep(0.1)");
		save();
	}
}
"""


def write(name, text):
    path = scratch(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def findings(pid, prefix=(), **kwargs):
    """What check says of the Python of a process: {subject: finding}."""
    result = record("check", "--json", "-p", pid, prefix=prefix, **kwargs)
    return {f["subject"]: f for f in json.loads(result.out)["findings"]
            if f["group"].endswith(": runtimes")}


def version_text(interpreter):
    """As messages have it: 3.9 and 3.10 do not export which release they are."""
    major, minor, micro = interpreter.version
    return f"Python {major}.{minor}" + (f".{micro}" if minor >= 11 else "")


def found(result, pid=r"\d+"):
    """The versions that a run with -v has found in a process, in order."""
    return re.findall(rf"process {pid}: Python (\S+): interpreter", result.err)


def expect_found(pid, interpreter, prefix=()):
    said = findings(pid, prefix)
    expect("Python" in said, f"nothing is said of Python: {said}")
    expect_equal(said["Python"]["state"], "fine", said["Python"]["text"])
    expect(said["Python"]["text"].startswith(version_text(interpreter)), said["Python"]["text"])
    expect("held up on" in said["Python offsets"]["text"], said["Python offsets"]["text"])
    return said


def in_root(interpreter, source, name):
    """A file of ours where the interpreter sees it. Returns its path outside and inside."""
    inside = os.path.join(os.path.dirname(place(interpreter, BURN)), name)
    outside = (interpreter.root or "") + inside
    shutil.copy(source, outside)
    return outside, inside


def library_of(embedder):
    """Path of its libpython, below its root."""
    outside = glob.glob(embedder.root + "/usr/lib/*/libpython3.14.so.1.0")
    expect(outside, f"{embedder}: no libpython in {embedder.root}")
    return outside[0], outside[0][len(embedder.root):]


# ---- found ---------------------------------------------------------------------------------------

@each(timeout=120)
def an_interpreter_is_found(interpreter):
    process = start(interpreter, BURN)
    said = expect_found(process.pid, interpreter)
    text = said["Python"]["text"]
    expect_equal("free-threaded" in text, interpreter.free_threaded, text)
    expect_equal("debug build" in text, interpreter.debug, text)
    expect("1 thread state in 1 interpreter" in said["Python threads"]["text"],
           said["Python threads"]["text"])
    expect(not interpreter.jit or "Python JIT" in said, f"no JIT: {sorted(said)}")
    expect_equal(said["Python and native"]["state"] == "fine", interpreter.frame_pointers,
                 said["Python and native"]["text"])
    result = record("-v", "--stats", "-p", process.pid, "-d", "500ms", "-F", 499).ok()
    expect_equal(found(result, process.pid), [version_text(interpreter).split()[1]], result.err)
    check_accounting(result)


@each(needs=((3, 14),), timeout=120)
def the_table_of_asyncio_is_found(interpreter):
    process = start(interpreter, "import asyncio\n" + BURN)
    said = expect_found(process.pid, interpreter)["Python asyncio"]
    expect("is valid" in said["text"], said["text"])


@each(timeout=120)
def threads_and_interpreters_are_counted(interpreter):
    process = start(interpreter, """import threading, time
for _ in range(20):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
""")
    said = expect_found(process.pid, interpreter)
    expect("21 thread states in 1 interpreter" in said["Python threads"]["text"],
           said["Python threads"]["text"])


@test(timeout=120)
def a_deleted_executable_is_found():
    host = get("debian-3.11")
    program = shutil.copy(os.path.realpath(host.path), scratch("renamed"))
    process = workload(program, "-S", "-c", BURN, env=environment())
    os.unlink(program)
    said = expect_found(process.pid, host)
    expect("in renamed" in said["Python"]["text"], said["Python"]["text"])
    # Another program has its path.
    shutil.copy("/bin/true", program)
    expect_found(process.pid, host)
    os.unlink(program)


@test(timeout=120)
def what_cannot_be_opened_is_read_from_memory():
    """Deleted, and map_files of others is closed to us."""
    host = get("debian-3.11")
    rights = ("setpriv", "--bounding-set=-sys_admin,-checkpoint_restore",
              "--inh-caps=-sys_admin,-checkpoint_restore")
    program = shutil.copy(os.path.realpath(host.path), scratch("unopened"))
    process = workload(program, "-S", "-c", BURN, env=environment())
    os.unlink(program)
    expect_found(process.pid, host, prefix=rights)
    result = record("-v", "--stats", "-p", process.pid, "-d", "300ms", prefix=rights)
    expect_equal(len(found(result, process.pid)), 1, result.err)
    # One with a table of its own, also by its cookie alone: nothing is exported any more.
    newer = get("debian-3.14")
    outside, inside = in_root(newer, newer.root + newer.path, "unopened")
    with open(outside, "r+b") as file:
        data = file.read()
        expect(data.count(b"\0_PyRuntime\0") == 1, "no such name")
        file.seek(data.index(b"\0_PyRuntime\0") + 1)
        file.write(b"_PyRundown")
    process = workload("chroot", newer.root, inside, "-S", "-c", BURN, env=environment())
    os.unlink(outside)
    expect_found(process.pid, newer, prefix=rights)


@test(timeout=120)
def a_deleted_library_is_found():
    embedder = get("embed-3.14")
    outside, inside = in_root(embedder, library_of(embedder)[0], "libpython3.14.so.1.0")
    process = start(embedder, BURN, env={"LD_LIBRARY_PATH": os.path.dirname(inside)})
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        expect(outside in maps.read(), f"{outside} is not mapped")
    os.unlink(outside)
    said = expect_found(process.pid, embedder)
    expect("in libpython3.14.so.1.0" in said["Python"]["text"], said["Python"]["text"])


@test(timeout=120)
def a_second_library_that_is_not_initialized_is_passed_over():
    newer = get("debian-3.14")
    embedder = get("embed-3.14")
    process = start(newer, f"import ctypes\nctypes.CDLL('{library_of(embedder)[1]}')\n" + BURN)
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        expect("/libpython3.14.so" in maps.read(), "the library is not mapped")
    said = expect_found(process.pid, newer)
    expect("in python3.14" in said["Python"]["text"], said["Python"]["text"])
    result = record("-v", "--python=require", "-p", process.pid, "-d", "500ms").ok()
    expect_equal(len(found(result, process.pid)), 1, result.err)


@test(timeout=120)
def a_second_live_interpreter_is_named():
    embedder = get("embed-3.14")
    outside, inside = library_of(embedder)
    copy = in_root(embedder, outside, "libsecond.so")[1]
    program = in_root(embedder, build(write("several.c", SEVERAL), flags=("-ldl",)), "several")[1]
    process = workload("chroot", embedder.root, program, inside, copy, env=environment())
    result = record("-v", "--stats", "-p", process.pid, "-d", "1s").ok()
    expect_equal(len(found(result, process.pid)), 1, result.err)
    named = re.findall(r"Python 3\.14\S* in (\S+): live beside another interpreter", result.err)
    expect(len(named) == 1 and named[0] in (os.path.basename(inside), "libsecond.so"), result.err)
    check_accounting(result)


def hostile_elf():
    """One in which each name that is asked for has a long chain of others with its hash."""
    names = ("PyPy_Version", "pypy_main_startup", "initialize_graal_capi", "_PyRuntime",
             "PyString_Type", "PyEval_EvalFrameEx")
    chain, n_headers = 1024, 1170

    def gnu_hash(name):
        value = 5381
        for byte in name.encode():
            value = (value * 33 + byte) & 0xffffffff
        return value

    n_buckets = next(n for n in range(len(names), 1000)
                     if len({gnu_hash(name) % n for name in names}) == len(names))
    buckets = [0] * n_buckets
    for i, name in enumerate(names):
        buckets[gnu_hash(name) % n_buckets] = 1 + i * chain
    parts = [b"" for _ in range(6)]
    parts[2] = struct.pack(f"=4I{n_buckets}I", n_buckets, 1, 0, 0, *buckets) + b"".join(
        struct.pack("=I", gnu_hash(name) & ~1) * chain for name in names)
    parts[2] += bytes(-len(parts[2]) % 8)
    parts[3] = bytes(24) + struct.pack("=IBBHQQ", 1, 0x11, 0, 1, 0x1000, 8) * chain * len(names)
    parts[4] = b"\0" + b"x" * 100 + b"\0"
    at = [0, 64 + n_headers * 56]
    for size in (5 * 16, len(parts[2]), len(parts[3]), len(parts[4])):
        at.append(at[-1] + size)
    parts[1] = struct.pack("=10Q", 0x6ffffef5, at[2], 6, at[3], 5, at[4], 10, len(parts[4]), 0, 0)
    with open("/proc/self/exe", "rb") as own:
        ident = own.read(20)
    header = ident[:16] + struct.pack("=H", 3) + ident[18:20] + struct.pack(
        "=IQQQIHHHHHH", 1, 0, 64, 0, 0, 64, 56, n_headers, 64, 0, 0)

    def segment(kind, offset, vaddr, size):
        return struct.pack("=IIQQQQQQ", kind, 5, offset, vaddr, vaddr, size, size, 4096)

    # The one that counts is the last.
    parts[0] = header + segment(2, at[1], at[1], 5 * 16) + segment(1, 0, 1 << 40, 0) * (
        n_headers - 2) + segment(1, 0, 0, at[5])
    return b"".join(parts)


@test(timeout=180)
def files_that_are_hard_to_look_at_hold_nothing_up():
    """A run ends in time, and an interpreter is found beside them."""
    host = get("debian-3.11")
    folder = scratch("hard")
    os.mkdir(folder)
    content = hostile_elf()
    for i in range(900):
        with open(os.path.join(folder, str(i)), "wb") as file:
            file.write(content)
    script = write("hard.py", f"""import mmap, os
kept = []
for name in os.listdir({folder!r}):
    fd = os.open(os.path.join({folder!r}, name), os.O_RDONLY)
    kept.append(mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
    os.close(fd)
""" + BURN)
    process = workload(host.path, "-S", script, env=environment())
    result = record("-v", "--stats", "-p", process.pid, "-d", "3s", timeout=60).ok()
    expect_equal(len(found(result, process.pid)), 1, result.err)
    check_accounting(result)
    expect_found(process.pid, host)


# ---- when ----------------------------------------------------------------------------------------

@test(timeout=120)
def a_process_that_becomes_python_later_is_found():
    embedder = get("embed-3.14")
    program = build(write("late.c", LATE), flags=("-ldl",))
    inside = in_root(embedder, program, "late")[1]
    process = workload("chroot", embedder.root, inside, library_of(embedder)[1], 1, 1, "-S", "-c",
                       BURN.replace("ready", "python"), env=environment())
    profiler = Profiler("-v", "--stats", "-p", process.pid, "-F", 99).wait_sampling()
    expect_equal(process.stdout.readline(), "python\n", "it is Python now")
    began = time.monotonic()
    wait_for(lambda: "interpreter at" in profiler.messages(), "the interpreter to be found", 30)
    note(f"found {time.monotonic() - began:.2f} s after its first line")
    result = profiler.stop().ok()
    expect_equal(found(result, process.pid), [version_text(embedder).split()[1]], result.err)
    check_accounting(result)


@test(timeout=120)
def exec_into_another_version():
    first, second = get("debian-3.14"), get("debian-3.15")
    process = start(first, "execs.py", 0, second.path, first.path)
    result = record("-v", "--stats", "-p", process.pid, "-d", "3s").ok()
    versions = found(result, process.pid)
    for interpreter in (first, second):
        expect(version_text(interpreter).split()[1] in versions, f"{versions}\n{result.err}")
    expect(all(a != b for a, b in zip(versions, versions[1:])), f"{versions}")
    check_accounting(result)


@each(timeout=120)
def children_are_found(interpreter):
    process = start(interpreter, "forks.py")
    result = record("-v", "--stats", "-s", "-p", process.pid, "-d", "3s", "-F", 199).ok()
    pids = {pid for pid in re.findall(r"process (\d+): Python \S+: interpreter", result.err)}
    # On a busy machine there are few, and some end before they are looked at.
    expect(str(process.pid) in pids and len(pids) >= 3, f"{len(pids)} found\n{result.err}")
    check_accounting(result)


@test(timeout=180)
def short_lived_pythons_are_found():
    """Under -a each is met by its first sample."""
    count = 100 if FULL else 30
    host = get("debian-3.11")
    code = ("import time\ne = time.monotonic() + 0.15\nx = 0\n"
            "while time.monotonic() < e:\n    x += 1\n")
    profiler = Profiler("-a", "-v", "--stats", "-F", 99).wait_sampling()
    pids = []
    for _ in range(count):
        process = spawn([host.path, "-S", "-c", code], env=environment())
        process.wait()
        pids.append(process.pid)
    result = profiler.stop().ok()
    seen = set(re.findall(r"process (\d+): Python \S+: interpreter", result.err))
    missed = [pid for pid in pids if str(pid) not in seen]
    # On a busy machine some are not sampled before they are about to end.
    expect(len(missed) <= count // 5, f"{len(missed)} of {count} were not found: {missed}")
    check_accounting(result)


# ---- refused -------------------------------------------------------------------------------------

def expect_refused(process, text):
    """Said once, native stacks go on; with require it is an error, with off not looked at."""
    result = record("--stats", "-p", process.pid, "-d", "500ms", "-F", 499).ok()
    warnings = [w for w in result.err.split("\n") if text in w]
    expect_equal(len(warnings), 1, f"warnings of {text!r}: {result.err}")
    expect("; only native frames" in warnings[0] and f"process {process.pid}: " in warnings[0],
           warnings[0])
    expect(total(result.stacks()) > 0, f"{result}")
    check_accounting(result)
    result = record("--python=require", "-p", process.pid, "-d", "10s")
    expect_equal(result.status, 1, f"{result}")
    expect(text in result.err and not result.out, f"{result}")
    result = record("--python=off", "-p", process.pid, "-d", "300ms").ok()
    expect(text not in result.err, f"{result}")
    said = findings(process.pid)
    expect_equal(said["Python"]["state"], "degraded", f"{said}")


@test(timeout=120)
def what_exports_the_names_of_pypy_is_refused():
    library = build(write("fakepypy.c", FAKE), flags=("-rdynamic",))
    expect_refused(workload(library), "PyPy in fakepypy: not supported (CPython 3.9 to 3.15 is)")


@test(timeout=120)
def pypy_is_refused():
    if not FULL:
        raise Skip("the fake one does: RPROF_FULL=1 takes the real one")
    expect_refused(start(get("pypy-3.11"), BURN), "PyPy in libpypy3.11-c.so: not supported")


def old(pattern, text):
    found_here = glob.glob(os.path.expanduser(f"~/.pyenv/versions/{pattern}"))
    if not found_here:
        raise Skip(f"there is no ~/.pyenv/versions/{pattern}")
    expect_refused(workload(found_here[0], write("old.py", BURN.replace(
        'print("ready", flush=True)', 'sys.stdout.write("ready\\n"); sys.stdout.flush()'))), text)


@test(timeout=120)
def python_2_is_refused():
    old("2.7.*/bin/python2.7", ": Python 2 in libpython2.7.so.1.0: not supported")


@test(timeout=120)
def python_3_8_is_refused():
    old("3.8.*/bin/python3.8", ": Python 3.8 or older in libpython3.8.so.1.0: not supported")


@test(timeout=120)
def a_later_version_is_refused():
    """3.16, or what says that it is."""
    newer = get("debian-3.14")
    outside, inside = in_root(newer, newer.root + newer.path, "python3.16")
    with open(outside, "r+b") as file:
        data = file.read()
        hexa = (newer.version[1] << 16 | 3 << 24 | newer.version[2] << 8 | 0xf0)
        later = 0x031000f0
        word, new = hexa.to_bytes(8, sys.byteorder), later.to_bytes(8, sys.byteorder)
        at = data.index(b"xdebugpy" + word) + 8
        file.seek(at)
        file.write(new)
    process = workload("chroot", newer.root, inside, "-S", "-c", BURN, env=environment())
    expect_refused(process, ": Python 3.16.0 in python3.16: ")


@test(timeout=120)
def require_needs_an_interpreter():
    process = workload(build("spin.c"))
    result = record("--python=require", "-p", process.pid, "-d", "300ms")
    expect_equal(result.status, 1, f"{result}")
    expect("no Python interpreter was found" in result.err, f"{result}")
    process = start(get("debian-3.11"), BURN)
    record("--python=require", "-p", process.pid, "-d", "300ms").ok()


if __name__ == "__main__":
    sys.exit(main())
