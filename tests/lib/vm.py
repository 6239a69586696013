# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Virtual machines to test in (scripts/vm.sh): what goes in, what is done there, what comes out.

    machine = Machine("s390x-6.12", scenes)     what a scene is: vmscenes.py
    Fleet([machine]).wait(machine)
    machine.result("tree")                      as of a run of the profiler here

The guest has busybox, no compiler and no network. Its script is shell text with the functions of
PRELUDE; what they run comes back in parts by name, also when the machine dies later. It is emulated:
ten times slower than this one, and late with its timers; no time that it tells is worth anything.
"""
import atexit
import base64
import ctypes
import gzip
import os
import signal
import subprocess
import tempfile
import time

from rprof_e2e import ROOT, Failure, Result, Skip, expect, note, scratch
import vmpanic

KERNELS = ["amd64-5.10", "amd64-6.1", "amd64-6.12", "amd64-7.2", "s390x-6.1", "s390x-6.12",
           "s390x-7.2"]
ARCH = {"amd64": "x86", "s390x": "s390"}     # as the Makefile names them
VM = os.path.join(ROOT, "scripts", "vm.sh")
BOOT_TIMEOUT = 480

# part NAME: what follows on the console is of that name.
# run NAME COMMAND...: its status, output and messages.
# start COMMAND...: a workload, up to its "ready"; $target is its process. stop: ends it.
# begin NAME COMMAND...: in the background; until said TEXT: it said so; finish: ends it.
PRELUDE = r"""
part() { printf '\n==== %s\n' "$1"; }
emit() { part "$1"; gzip -c "$2" | base64; }
tell() { part "$1.status"; echo "$code"; emit "$1.out" /tmp/out; emit "$1.err" /tmp/err; }
run() {
	name=$1; shift
	"$@" > /tmp/out 2> /tmp/err; code=$?
	tell "$name"
}
tries() { tries=$((tries + 1)); [ $tries -lt "$1" ] && sleep 0.1; }
start() {
	: > /tmp/ready
	"$@" >> /tmp/ready 2>&1 & target=$!; tries=0
	until grep -q ready /tmp/ready; do
		[ -d /proc/$target ] && tries 600 || { part "start.$1"; cat /tmp/ready; break; }
	done
}
stop() { [ -d /proc/$target ] || part "ended.$target"; kill -9 $target; wait $target 2>/dev/null; }
begin() {
	name=$1; shift; : > /tmp/err
	"$@" > /tmp/out 2> /tmp/err & begun=$!
}
said() { tries=0; until grep -q "$1" /tmp/err; do tries 300 || break; done; }
finish() { kill -TERM $begun; wait $begun; code=$?; tell "$name"; }
cpu1() { echo "$1" > /sys/devices/system/cpu/cpu1/online; }
"""


def file(arch, name):
    """What make builds for that architecture."""
    return os.path.join(ROOT, "build", ARCH[arch], name)


_made = set()
_panics = vmpanic.Panics()


def make(arch, *names):
    """Builds files of build/ARCH."""
    wanted = [n for n in names if (arch, n) not in _made]
    if not wanted:
        return
    done = subprocess.run(["make", "-s", "-C", ROOT, f"ARCH={ARCH[arch]}",
                           *(f"build/{ARCH[arch]}/{n}" for n in wanted)],
                          capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"make: {done.stderr[-2000:]}")
    _made.update((arch, n) for n in wanted)


class Machine:
    """One boot of @kernel, with @scenes. @name: what the boot is about, if it is not the usual one;
    @options: of vm.sh."""

    def __init__(self, kernel, scenes, name="", options=()):
        self.kernel = kernel
        self.name = f"{kernel} {name}".strip()
        self.arch = kernel.split("-")[0]
        self.trouble = None     # the exception that it did not start by, or did not end well
        self.status = None      # of vm.sh, once it has ended
        self.parts = {}
        self.boots = 0
        self._scenes = scenes
        self._skips = {}        # scene -> why it cannot be had
        self._options = list(options)
        self._script = []
        self._process = self._files = None

    # ---- before it starts -----------------------------------------------------------------------

    def program(self, path, guest):
        """An ELF file, with its libraries."""
        self._options += ["--bin", f"{path}:{guest}"]

    def add(self, path, guest):
        """A file as it is."""
        self._options += ["--add", f"{path}:{guest}"]

    def python(self, name):
        """An interpreter of scripts/python.sh, as a command of that name."""
        self._options += ["--python", name]

    def script(self, text):
        self._script.append(text.strip())

    def command(self):
        """Of vm.sh, without what is to be run there."""
        return [VM, "--timeout", str(BOOT_TIMEOUT - 30), *self._options]

    # ---- its life -------------------------------------------------------------------------------

    def prepare(self):
        for scene in self._scenes:
            try:
                scene.prepare(self)
            except Skip as skip:
                self._skips[scene] = skip

    def start(self):
        try:
            self.prepare()
        except Exception as error:      # pylint: disable=broad-except; told by who waits for it
            self.trouble = error
            return
        self._boot()

    def _boot(self):
        self.boots += 1
        self._files = [tempfile.TemporaryFile(dir=scratch()) for _ in range(2)]
        text = "\n".join([PRELUDE, *self._script, "part end"])
        self._process = subprocess.Popen(
            [*self.command(), self.kernel, "--", "sh", "-c", text], stdin=subprocess.DEVNULL,
            stdout=self._files[0], stderr=self._files[1], preexec_fn=_term_with_us)

    def ended(self):
        if self.parts or self.trouble:
            return True
        if not self._process or self._process.poll() is None:
            return False
        self.status = self._process.returncode
        out, err = [self._text(f) for f in self._files]
        panic = vmpanic.find(out)
        if _panics.may_boot_again(self.kernel, self.boots, panic):
            note(f"{self.name}: WARNING: its kernel panicked at {panic.place} ({panic.why}), as the "
                 f"emulator makes some do: booting it again ({self.boots} of {vmpanic.AGAIN})")
            self._boot()
            return False
        for chunk in out.split("\n==== ")[1:]:
            name, _, text = chunk.partition("\n")
            self.parts[name] = text
        last = "\n".join(err.strip().split("\n")[-12:])
        if self.status == 77:
            self.trouble = Skip(last.rpartition("\n")[2])
        elif "end" not in self.parts:
            self.trouble = Failure(f"the machine came to no end (status {self.status}); after "
                                   f"{list(self.parts)[-1:]}: {out[-1500:]}\n{last}")
        return True

    @staticmethod
    def _text(stream):
        stream.seek(0)
        return stream.read().decode("utf-8", "replace").replace("\r", "")

    def end(self):
        if self._process and self._process.poll() is None:
            self._process.terminate()       # it ends its emulator
            self._process.wait()

    # ---- what came out --------------------------------------------------------------------------

    def check(self, scene):
        """Raises what the scene cannot be judged by, if there is anything."""
        if isinstance(self.trouble, Skip) or self.trouble and not self.parts:
            trouble = self.trouble
            if not isinstance(trouble, Skip):
                self.trouble = Failure("the machine did not start, see above")
            raise trouble
        if scene in self._skips:
            raise self._skips[scene]

    def text(self, name):
        """A part as it was printed."""
        expect(name in self.parts, f"no {name} came out of the machine, only {list(self.parts)}; "
               f"{self.trouble or ''}")
        return self.parts[name]

    def result(self, name):
        """Of a "run" or "begin"."""
        out, err = [gzip.decompress(base64.b64decode(self.text(f"{name}.{stream}")))
                    .decode("utf-8", "surrogateescape") for stream in ("out", "err")]
        return Result([self.name, name], int(self.text(f"{name}.status")), out, err)


def _term_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)      # PR_SET_PDEATHSIG


class Fleet:
    """Runs machines in their order, two at a time: one often waits."""

    def __init__(self, machines):
        self._waiting = list(machines)
        self._running = []
        self._limit = min(2, os.cpu_count())
        atexit.register(self._end)

    def _end(self):
        for machine in self._running:
            machine.end()

    def wait(self, machine):
        """Until it has ended, one way or another."""
        while not machine.ended():
            self._running = [m for m in self._running if not m.ended()]
            while self._waiting and len(self._running) < self._limit:
                self._running.append(self._waiting.pop(0))
                self._running[-1].start()
            time.sleep(0.1)
