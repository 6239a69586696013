#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real applications of Debian in its own Python (issue 4, acceptance 2): nearly all frames have names,
and every function and line printed is in the source. RPROF_FULL=1: all of them, for longer.
RPROF_KEEP=FOLDER keeps the profiles there, to be read by people."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, Skip, check_accounting, expect, main, note, parse_folded, record,
                       scratch, test)

PYTHON = "/usr/bin/python3"
FREQUENCY = 4999
SIZE = 4 if FULL else 1
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LANG": "C.UTF-8", "HGPLAIN": "1",
       "HGRCPATH": "", "HGUSER": "test", "PYTHONDONTWRITEBYTECODE": "1"}

FRAME = re.compile(r"(.+) \((.+):(\d+)\)")

# Of the files named on standard input: {file: {qualified name: lines}}, by the Python that is profiled.
LISTER = """
import json, sys, types, warnings
warnings.simplefilter("ignore")
def walk(code, found):
    lines = found.setdefault(code.co_qualname, set())
    lines.update(line for _, _, line in code.co_lines() if line is not None)
    lines.add(code.co_firstlineno)      # a frame that has not begun
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            walk(const, found)
    return found
files = {}
for path in json.load(sys.stdin):
    try:
        with open(path, "rb") as file:
            found = walk(compile(file.read(), path, "exec", dont_inherit=True), {})
        files[path] = {name: sorted(lines) for name, lines in found.items()}
    except (OSError, SyntaxError, ValueError):
        pass                            # a template, for instance
print(json.dumps(files))
"""


def needs(*programs):
    for program in programs:
        if not os.access(program, os.X_OK):
            raise Skip(f"there is no {program}: scripts/deps.sh test installs it")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def run(*argv, text=None):
    done = subprocess.run(argv, env=ENV, input=text, capture_output=True, text=True, check=False, timeout=120)
    expect(done.returncode == 0, f"{argv}: {done.stderr[-2000:]}")
    return done.stdout


def stdlib():
    return run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").strip()


# ---- what each of them is to do ------------------------------------------------------------------

def hg():
    """The whole history of a repository, as patches."""
    needs("/usr/bin/hg")
    repository = scratch("repository")
    run("/usr/bin/hg", "init", repository)
    for commit in range(2):
        for i in range(150 * SIZE):
            write(f"{repository}/folder{i % 17}/file{i}.txt", "".join(
                f"line {j} of {i} in {commit * (j % 7)}\n" for j in range(200)))
        run("/usr/bin/hg", "-R", repository, "commit", "-A", "-q", "-m", f"commit {commit}")
    return ["/usr/bin/hg", "-R", repository, "log", "-p"]


def compileall():
    """A copy of packages of the standard library."""
    folder = scratch("library")
    library = stdlib()
    for package in ("asyncio", "email", "json", "unittest", "importlib")[:None if FULL else 2]:
        shutil.copytree(os.path.join(library, package), os.path.join(folder, package),
                        ignore=shutil.ignore_patterns("__pycache__"))
    return [PYTHON, "-m", "compileall", "-q", "-f", folder]


def meson():
    """A project of many small libraries."""
    needs("/usr/bin/meson", "/usr/bin/ninja")
    folder = scratch("project")
    names = [f"part{i}" for i in range(60 * SIZE)]
    for name in names:
        write(f"{folder}/{name}/{name}.c", f"int {name}(void) {{ return 1; }}\n")
        write(f"{folder}/{name}/meson.build", f"{name} = static_library('{name}', '{name}.c')\n" +
              f"foreach i : range(20)\n  message('{name} @0@'.format(i))\nendforeach\n")
    write(f"{folder}/meson.build", "project('generated', 'c')\n" +
          "".join(f"subdir('{name}')\n" for name in names))
    return ["/usr/bin/meson", "setup", scratch("project-build"), folder]


def sphinx():
    """A manual with code in it."""
    needs("/usr/bin/sphinx-build")
    folder = scratch("manual")
    pages = [f"page{i}" for i in range(10 * SIZE)]
    write(f"{folder}/conf.py", "project = 'generated'\n")
    write(f"{folder}/index.rst", "Generated\n=========\n\n.. toctree::\n\n" +
          "".join(f"   {page}\n" for page in pages))
    for page in pages:
        write(f"{folder}/{page}.rst", f"{page}\n{'=' * 9}\n\n" + "".join(
            f"Part {i}\n-------\n\nText with *emphasis*, ``code`` and :doc:`index`.\n\n"
            f".. code-block:: python\n\n   def function_{i}(a, b={i}):\n       return [a, b]\n\n"
            for i in range(20)))
    return ["/usr/bin/sphinx-build", "-q", folder, scratch("manual-html")]


# ---- what is judged ------------------------------------------------------------------------------

def source_of(file, library):
    """The path of what a code object's file name stands for, "" for what has no file."""
    frozen = re.fullmatch(r"<frozen ([\w.]+)>", file)
    if not frozen:
        return "" if file.startswith("<") else file
    base = os.path.join(library, frozen[1].replace(".", "/"))
    return next((p for p in (base + ".py", base + "/__init__.py") if os.path.exists(p)), "")


def list_sources(stacks):
    """{file name of code objects: {qualified name: lines}}; what has no source is not in it."""
    names = {m[2] for s in stacks for m in map(FRAME.fullmatch, s.frames) if m}
    library = stdlib()
    sources = {name: source_of(name, library) for name in names}
    files = json.loads(run(PYTHON, "-c", LISTER, text=json.dumps(
        sorted(set(filter(None, sources.values()))))))
    return {name: files[path] for name, path in sources.items() if path in files}


class Verdict:
    """What was counted, in samples, or in frames of samples."""

    def __init__(self, stacks):
        self.sources = list_sources(stacks)
        self.samples = self.with_python = self.frames = 0
        self.wrong = collections.Counter()      # no such function or line in the source
        self.generated = collections.Counter()  # no source to compare with: file
        self.roots = collections.Counter()      # where Python begins
        for stack in stacks:
            self._add(stack)

    def _add(self, stack):
        python = [f for f in (FRAME.fullmatch(f) for f in stack.frames) if f]
        self.samples += stack.count
        self.frames += len(python) * stack.count
        if python:
            self.with_python += stack.count
            self.roots[f"{python[0][1]} ({os.path.basename(python[0][2])})"] += stack.count
        for frame in python:
            name, file, line = frame.groups()
            if file not in self.sources:
                self.generated[file] += stack.count
            elif int(line) not in self.sources[file].get(name, ()):
                self.wrong[frame[0]] += stack.count

    def strange_roots(self, argv):
        """Samples that begin where no program, import or thread does. There are some: what runs when
        the interpreter ends begins anywhere."""
        usual = (f"<module> ({os.path.basename(argv[0])})", "_run_module_as_main (<frozen runpy>)",
                 "search_function (__init__.py)", "Thread._bootstrap (threading.py)")
        return collections.Counter({root: n for root, n in self.roots.items()
                                    if root not in usual and "(<frozen " not in root})


def profile(name, argv):
    out = scratch(f"{name}.folded")
    result = record("--stats", "-U", "--full-filenames", "-F", FREQUENCY, "-o", out, "--", *argv,
                    env=ENV, stdout=subprocess.DEVNULL, timeout=200).ok()
    check_accounting(result)
    with open(out, encoding="utf-8", errors="surrogateescape") as file:
        stacks = parse_folded(file.read())
    if os.environ.get("RPROF_KEEP"):
        shutil.copy(out, os.environ["RPROF_KEEP"])
        write(os.path.join(os.environ["RPROF_KEEP"], f"{name}.err"), result.err)
    return result, stacks


def application(make, quick):
    def run_it():
        argv = make()
        result, stacks = profile(make.__name__, argv)
        verdict = Verdict(stacks)
        named = float(re.search(r"symbolized +([\d.]+)%", result.err)[1])
        strange = verdict.strange_roots(argv)
        generated = sum(verdict.generated.values())
        note(f"{verdict.samples} samples, {verdict.with_python} with Python frames, "
             f"{verdict.frames} Python frames of {len(verdict.sources)} files, {generated} of generated code; "
             f"{named} % of all frames have a name")
        note(f"begin elsewhere: {dict(strange)}")
        expect(verdict.samples > 500, f"only {verdict.samples} samples")
        expect(not verdict.wrong, f"not in the source: {verdict.wrong.most_common(10)}")
        expect(generated < verdict.frames / 10, f"no source: {verdict.generated.most_common(10)}")
        expect(named >= 99, f"only {named} % of the frames have a name")
        expect(verdict.with_python > verdict.samples / 2, "most samples have no Python frames")
        expect(sum(strange.values()) <= 2 + verdict.samples / 500, "stacks that begin elsewhere")
    if quick or FULL:
        test(300, f"{make.__name__}_has_names_and_nothing_impossible")(run_it)


application(hg, True)
application(compileall, True)
application(meson, False)
application(sphinx, False)

if __name__ == "__main__":
    sys.exit(main())
