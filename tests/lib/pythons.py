# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python interpreters to run tests on, and programs in them.

    @each(needs=((3, 11), "frame_pointers"))
    def names_are_right(interpreter): ...

registers one test per interpreter, names_are_right_on_debian-3.15 and so on; one that cannot be had
is a skip with its reason. `make test` takes Debian's and one built from source if it is in the
cache; RPROF_FULL=1 all that scripts/python.sh knows. RPROF_PYTHONS="debian-3.15 ft-3.13" chooses by
name. """
import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile

from rprof_e2e import FULL, PATIENCE, ROOT, WORKLOADS, Skip, expect, note, spawn, test

SCRIPT = os.path.join(ROOT, "scripts", "python.sh")
PROGRAMS = os.path.join(WORKLOADS, "py")
QUICK = ["debian-3.11", "debian-3.13", "debian-3.14", "debian-3.15"]
# The first of these that is built: free-threaded ones differ the most.
BUILT = ["ft-3.15", "ft-3.14", "ft-3.13", "fp-3.13", "fp-3.11", "fp-3.14", "fp-3.9"]
# Others that are no target of the Python walker, only of its refusals: get() has them.
REFUSED = ["pypy-"]

PROBE = """
import json, sys, sysconfig
jit = getattr(sys, "_jit", None)
flags = " ".join(str(sysconfig.get_config_var(v)) for v in ("PY_CFLAGS", "CFLAGS", "BASECFLAGS"))
print(json.dumps({"version": sys.version_info[:3],
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "debug": hasattr(sys, "gettotalrefcount"), "frame_pointers": "-fno-omit-frame-pointer" in flags,
    "jit": bool(jit and jit.is_available())}))
"""


class Interpreter:
    """name: as scripts/python.sh knows it; version: three numbers; argv: what comes before the
    program; root: of its tree, None if it is the machine's; path: below the root; free_threaded,
    debug, jit (is there, not on): as it says itself; frame_pointers: as it was compiled."""

    def __init__(self, name, root, path):
        self.name = name
        self.root = root
        self.path = path
        self.argv = ["chroot", root, path] if root else [path]
        facts = json.loads(self.run("-c", PROBE))
        self.version = tuple(facts["version"])
        self.free_threaded = facts["free_threaded"]
        self.debug = facts["debug"]
        self.frame_pointers = facts["frame_pointers"]
        self.jit = facts["jit"]

    def __str__(self):
        return self.name

    def has(self, needs):
        """@needs: names of attributes, "not NAME", lowest versions as tuples of two."""
        for need in needs:
            if isinstance(need, tuple):
                if self.version < need:
                    return False
            elif bool(getattr(self, need.removeprefix("not "))) == need.startswith("not "):
                return False
        return True

    def run(self, *args, **kwargs):
        """What it prints when run to its end, which must be a good one."""
        done = subprocess.run([*self.argv, *map(str, args)], capture_output=True, text=True,
                              check=False, env=environment(), timeout=120 * PATIENCE, **kwargs)
        expect(done.returncode == 0, f"{self.name} {args[:2]}: {done.stderr[-2000:]}")
        return done.stdout


def environment(**more):
    """Of interpreters: the same wherever they run, and no files written into the trees."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **more}


# ---- which --------------------------------------------------------------------------------------

_known = {}     # name -> Interpreter, or the reason why not


def _script(*args):
    """Status, output and last line of errors of python.sh; it cleans up when it is told to end."""
    with subprocess.Popen([SCRIPT, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            out, err = process.communicate(timeout=1500 * PATIENCE)
        except BaseException:
            process.terminate()
            raise
    return process.returncode, out.strip(), err.strip().rpartition("\n")[2]


def get(name):
    """The interpreter of that name, made if need be; raises Skip with the reason."""
    if name not in _known:
        # Builds and downloads are not what the test's time is for.
        left = signal.alarm(0)
        status, where, why = _script(name)
        signal.alarm(left)
        if status == 77:
            _known[name] = why
        else:
            expect(status == 0, f"python.sh {name}: {why}")
            root, _, path = where.rpartition(" ")
            _known[name] = Interpreter(name, None if root == "-" else root, path)
    if isinstance(_known[name], str):
        raise Skip(_known[name])
    return _known[name]


def names():
    """Those that this run is about."""
    chosen = os.environ.get("RPROF_PYTHONS", "").split()
    if chosen:
        return chosen
    if FULL:
        return [n for n in _script("--list")[1].split() if not n.startswith(tuple(REFUSED))]
    built = next((n for n in BUILT if _script("--cached", n)[0] == 0), None)
    return QUICK + ([built] if built else [])


def static(name):
    """What a name says: its version, and the attributes that need no probe."""
    kind, _, version = name.partition("-")
    facts = {"version": tuple(map(int, version.split("."))), "free_threaded": kind == "ft",
             "debug": kind == "debug"}
    facts["frame_pointers"] = (kind in ("fp", "ft") or facts["version"] >= (3, 15) or
                               kind == "debug" and facts["version"] >= (3, 12))
    facts["jit"] = kind in ("debian", "debug", "embed") and facts["version"] >= (3, 14)
    return facts


def _may_have(name, needs):
    stub = type("Stub", (), static(name))()
    return Interpreter.has(stub, needs)


def interpreters(needs=()):
    """Those of this run that can be had and have the needs; a note on each that cannot be had."""
    found = []
    for name in names():
        if not _may_have(name, needs):
            continue
        try:
            found.append(get(name))
        except Skip as skip:
            note(f"no {name}: {skip}")
    return [i for i in found if i.has(needs)]


def each(needs=(), timeout=60, only=None):
    """Register a test for each interpreter of this run that has the needs; @only: a function of the
    name, if needs do not say it."""
    def register(function):
        for name in names():
            if _may_have(name, needs) and (not only or only(name)):
                def run(name=name):
                    interpreter = get(name)
                    if not interpreter.has(needs):
                        raise Skip(f"{name} is not {needs}")
                    function(interpreter)
                test(timeout=timeout, name=f"{function.__name__}_on_{name}")(run)
        return function
    return register


# ---- programs -----------------------------------------------------------------------------------

_folders = {}   # root or None -> folder of this suite in it


def _remove_folders():
    for folder in _folders.values():
        shutil.rmtree(folder, ignore_errors=True)


def place(interpreter, program, name="program.py"):
    """Put a program (the name of one of tests/workloads/py, or its text) where the interpreter can
    read it, beside workload.py. Returns the path below its root: .../w/NAME, so frames of it read
    "function (w/NAME:line)". All of it is removed when the suite ends."""
    root = interpreter.root
    if root not in _folders:
        if not _folders:
            atexit.register(_remove_folders)
        parent = os.path.join(root or "/", "tmp")
        os.makedirs(parent, exist_ok=True)
        _folders[root] = tempfile.mkdtemp(prefix="rprof-py-", dir=parent)
        os.chmod(_folders[root], 0o755)
    folder = os.path.join(tempfile.mkdtemp(dir=_folders[root]), "w")
    shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    os.chmod(os.path.dirname(folder), 0o755)
    if "\n" in program:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
    else:
        path = os.path.join(folder, program)
    return path if not root else "/" + os.path.relpath(path, root)


def start(interpreter, program, *args, name="program.py", ready=True, env=None, flags=(), **kwargs):
    """Run a program (see place()); returns the process, ended by the end of the test, once it has
    printed "ready". Its pid is the interpreter's: chroot becomes it. @flags: of the interpreter.
    @ready False: at once."""
    path = place(interpreter, program, name)
    process = spawn([*interpreter.argv, *flags, path, *map(str, args)], stdout=subprocess.PIPE,
                    text=True, env=environment(**(env or {})), **kwargs)
    if ready:
        line = process.stdout.readline()
        if line.startswith("skip"):
            raise Skip(f"{interpreter.name}: {line[4:].strip()}")
        expect(line.split()[:1] == ["ready"],
               f"{program[:60]} on {interpreter.name} did not say that it is ready: {line!r}")
    return process
