#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The names of functions: of every language, kind of file and source of symbols.

Truth is how the workload is written, and what binutils say about its file.
"""
import os
import platform
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from programs import (addr2line, base_name, below_main, build_as, build_rust, expect_tails, has_name,
                      run, symbols)
from rprof_e2e import (Skip, check_accounting, expect, expect_equal, is_mark, main, note,
                       record, scratch, spawn, test, total, workload)

# With other processes of the same test on two processors each has its share of them.
RATE = 1999


def profile(processes, seconds=1, *args):
    pids = ",".join(str(p.pid) for p in processes)
    result = record("-p", pids, "-F", RATE, "-d", seconds, "-U", "--stats", *args).ok()
    check_accounting(result)
    return result


# ---- languages ----------------------------------------------------------------------------------

def names_of(program, *fragments):
    """(mangled, as addr2line says) of the one function whose mangled name matches each fragment."""
    found = symbols(program)
    mangled = []
    for fragment in fragments:
        names = [n for n in found if re.search(fragment, n)]
        # Two at one address are one function: complete and base object destructors.
        expect(len({found[n] for n in names}) == 1, f"premise: {fragment}: {names} in {program}")
        mangled.append(min(names, key=lambda n: (len(n), n)))
    return mangled, addr2line(program, [found[n] for n in mangled])


def expect_chain(program, mangled, readable, looks_like):
    """The workload is one chain of calls: nearly all samples are exactly that, by name."""
    expect_equal([bool(re.search(p, n)) for p, n in zip(looks_like, readable)],
                 [True] * len(looks_like), f"premise: addr2line says {readable}")
    process = workload(program)
    for names, args in ((readable, []), (mangled, ["--no-demangle"])):
        result = profile([process], 1, *args)
        whole = 0
        for stack in result.stacks():
            frames = stack.frames
            start = frames.index(names[0]) if names[0] in frames else len(frames)
            whole += stack.count * (frames[start:] == names)
            wrong = [f for f in frames[start:] if f not in names]
            expect(not wrong, f"{wrong} are no names of {names}\n{result}")
        expect(whole > 0.95 * total(result.stacks()),
               f"{whole} of {total(result.stacks())} are {';'.join(names)}\n{result}")
        note(";".join(names))


@test()
def names_of_c_plus_plus_are_those_of_addr2line():
    program = build_as("names_cc", "names.cc", compiler="g++")
    mangled, readable = names_of(program, "^main$", "_15start", "CartI.*totalEi$", "KUli", "4shoppl",
                                 "Itemcvl", "Square4area", "BurnerD")
    # Two names at one address: either is right, the files decide.
    mangled[-1] = mangled[-1].replace("D2Ev", "D1Ev")
    expect_chain(program, mangled, readable, [
        "^main$", r"^\(anonymous namespace\)::start\(\)$",
        r"^shop::Cart<int, 2u>::total\(int\) const$", r"total\(int\) const::\{lambda\(int\)#1\}::op",
        r"^shop::operator\+\(shop::Item const&, shop::Item const&\)$",
        r"^shop::Item::operator long\(\) const$", r"^shop::Square::area\(char const\*\) const$",
        r"^shop::Burner::~Burner\(\)$"])


def rust_chain(name, prefix, flags, looks_like):
    program = build_rust(name, "names.rs", *flags)
    if not any(n.startswith(prefix) and "4shop" in n for n in symbols(program)):
        raise Skip(f"this rustc does not mangle as {prefix}")
    expect_chain(program, *names_of(program, "5names4main", "^_R(?!I).*5totalB|5total17h",
                                    "4shop4each", "Apple.*5price", "5names5grind"), looks_like)


@test()
def names_of_rust_in_legacy_mangling_are_those_of_addr2line():
    rust_chain("names_legacy", "_ZN", [], [
        "^names::main$", r"^names::shop::Cart<T>::total$", "^names::shop::each$",
        "^<names::shop::Apple as names::shop::Priced>::price$", "^names::grind$"])


@test()
def names_of_rust_in_v0_mangling_are_those_of_addr2line():
    rust_chain("names_v0", "_R", ["-C", "symbol-mangling-version=v0"], [
        "^names::main$", r"^<names::shop::Cart<names::shop::Apple>>::total$",
        r"^names::shop::each::<.*\{closure#0\}>$",
        "^<names::shop::Apple as names::shop::Priced>::price$", "^names::grind::<u64>$"])


# ---- what compilers, assemblers and linkers make ------------------------------------------------

@test()
def parts_and_copies_are_named_as_their_function():
    program = build_as("forms", "forms.c")
    parts = {base_name(n): n for n in symbols(program) if "." in n}
    expect(set(parts) >= {"chilly", "constant", "scalar", "partial"},
           f"premise: the compiler made only {parts}")
    result = profile([workload(program)])
    leaves = {}
    for stack in result.stacks():
        frames = below_main(stack.frames)
        leaves[frames[-1]] = leaves.get(frames[-1], 0) + stack.count
        expect(not any("." in f for f in frames), f"{frames}\n{result}")
        if frames[-1] == "partial":
            expect(frames[-2] in ("caller_one", "caller_two"), f"{frames}\n{result}")
        elif frames[-1] in parts:
            expect_equal(frames[:-1], ["main"], "callers")
    note(leaves)
    for name, part in parts.items():
        expect(leaves.get(name, 0) > 0.05 * total(result.stacks()), f"{part} as {name}\n{result}")


@test()
def assembly_aliases_and_ifuncs_have_their_names():
    program = build_as("labels", "labels.c")
    static = build_as("labels_static", "labels.c", "-static")
    result = profile([workload(program), workload(static)], 2)
    wanted = {"asm_unsized", "asm_label", "global_name", "fast_work"}
    for comm in ("labels", "labels_static"):
        stacks = [s for s in result.stacks() if s.comm == comm]
        seen = {}
        for stack in stacks:
            seen[stack.frames[-1]] = seen.get(stack.frames[-1], 0) + stack.count
            # The call of an IFUNC goes through a stub, too.
            expect(stack.frames[-1] in wanted | {"main"} or stack.frames[-1].endswith("@plt"),
                   f"{stack.frames}\n{result}")
        note(f"{comm}: {seen}")
        for name in wanted:
            expect(seen.get(name, 0) > 0.1 * total(stacks), f"{comm}: {name}\n{result}")


PLT_KINDS = {
    "plt_lazy": ["-Wl,-z,lazy"],
    "plt_now": ["-Wl,-z,now"],
    "plt_nopie": ["-no-pie", "-fno-pie", "-Wl,-z,lazy"],
    "plt_got": ["-DTAKE_ADDRESS", "-Wl,-z,lazy"],
    "plt_stripped": ["-s"],
}
if platform.machine() == "x86_64":
    PLT_KINDS["plt_sec"] = ["-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"]


@test()
def stubs_of_calls_to_libraries_are_called_name_at_plt():
    library = build_as("libtiny.so", "plt.c", "-DLIBRARY", "-shared", "-fPIC",
                       "-fomit-frame-pointer")
    programs = [build_as(name, "plt.c", *flags, library, f"-Wl,-rpath,{scratch()}")
                for name, flags in PLT_KINDS.items()]
    result = profile([workload(p) for p in programs], 3)
    for name in PLT_KINDS:
        stacks = [s for s in result.stacks() if s.comm == name]
        leaves = {}
        for stack in stacks:
            leaves[stack.frames[-1]] = leaves.get(stack.frames[-1], 0) + stack.count
        note(f"{name}: {leaves}")
        expect(leaves.get("tiny@plt", 0) > 0.02 * total(stacks), f"{name}: {leaves}\n{result}")
        if name == "plt_stripped":
            continue
        expect(set(leaves) <= {"main", "tiny@plt", "tiny"}, f"{name}: {leaves}\n{result}")
        wrong = [s.frames for s in stacks if s.frames[-1] != "main" and s.frames[-2] != "main"]
        expect(not wrong, f"{name}: {wrong}\n{result}")


# ---- kinds of files -----------------------------------------------------------------------------

HUGE = "-Wl,-z,max-page-size=0x200000"
LAYOUTS = {
    "huge_pie": [HUGE],
    "huge_nosep": [HUGE, "-Wl,-z,noseparate-code"],
    "huge_nopie": [HUGE, "-no-pie", "-fno-pie"],
    "huge_static": [HUGE, "-static"],
    "huge_staticpie": [HUGE, "-static-pie"],
    "nosep_nopie": ["-no-pie", "-fno-pie", "-Wl,-z,noseparate-code"],
    "sep_staticpie": ["-static-pie", "-Wl,-z,separate-code"],
    "dwarf_gz": ["-gz=zlib"],
    "no_relro": ["-Wl,-z,norelro", "-Wl,-z,execstack"],
}


def memfd_program(path):
    """Run it from memory only."""
    fd = os.memfd_create("only memory", 0)
    with open(path, "rb") as file:
        os.write(fd, file.read())
    return workload(f"/proc/self/fd/{fd}", pass_fds=[fd])


@test()
def functions_are_named_in_every_layout_of_a_file():
    wanted = {name: ["main", "spin"] for name in LAYOUTS}
    processes = [workload(build_as(name, "spin.c", *flags)) for name, flags in LAYOUTS.items()]
    expect_tails(profile(processes, 3), wanted)


@test()
def a_program_in_memory_only_is_named():
    process = memfd_program(build_as("spin_memfd", "spin.c"))
    result = profile([process])
    stacks = result.stacks()
    named = sum(s.count for s in stacks if s.frames[-2:] == ["main", "spin"])
    expect(named > 0.9 * total(stacks), f"{result}")


@test()
def a_library_mapped_twice_is_named_in_both_places():
    library = build_as("libspin.so", "spinlib.c", "-shared", "-fPIC")
    copy = shutil.copy(library, scratch("libcopy.so"))
    process = workload(build_as("twice", "twice.c"), library, copy)
    expect_tails(profile([process]), {"twice": ["main", "lib_spin", "lib_inner"]})


# ---- sources of symbols -------------------------------------------------------------------------

def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path))[1]


def stripped(program, name):
    """(stripped copy, its debug file); both carry the same build id."""
    run("objcopy", "--only-keep-debug", program, scratch(f"{name}.debug"))
    run("strip", "-s", "-o", scratch(name), program)
    return scratch(name), scratch(f"{name}.debug")


def link_debug(path, debug):
    """--add-gnu-debuglink writes down the checksum and the name without its folders."""
    run("objcopy", f"--add-gnu-debuglink={debug}", path)


class Root:
    """A folder that a process has as its root, so that the test's debug files are in no other's."""

    def __init__(self, name):
        self.path = scratch(name)
        os.makedirs(self.path, exist_ok=True)

    def put(self, file, where):
        path = os.path.join(self.path, where)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return shutil.copy(file, path)

    def by_build_id(self, file, identity):
        return self.put(file, f"usr/lib/debug/.build-id/{identity[:2]}/{identity[2:]}.debug")

    def start(self, program):
        process = spawn(["chroot", self.path, program], stdout=subprocess.PIPE, text=True)
        expect(process.stdout.readline().startswith("ready"), f"{program} in {self.path}")
        return process


def static_spin(name, *flags):
    identity = "0x" + name.encode().hex().ljust(40, "0")
    return build_as(f"{name}_whole", "spin.c", "-static", f"-Wl,--build-id={identity}", *flags)


@test()
def debug_files_in_the_root_of_the_process_give_names():
    root = Root("debugroot")
    wanted, processes = {}, []

    def add(name, place, prepare=None):
        path, debug = stripped(static_spin(name), name)
        identity = build_id(path)
        if prepare:
            prepare(path, debug)
        root.put(path, f"opt/{name}")
        place(debug, identity)
        wanted[name] = ["main", "spin"]

    add("by_build_id", root.by_build_id)
    add("compressed", root.by_build_id,
        lambda path, debug: run("objcopy", "--compress-debug-sections=zlib", debug))
    for name, where in (("link_beside", "opt"), ("link_folder", "opt/.debug"),
                        ("link_global", "usr/lib/debug/opt")):
        add(name, lambda debug, _, name=name, where=where: root.put(debug, f"{where}/{name}.debug"),
            link_debug)
    processes = [root.start(f"/opt/{name}") for name in wanted]
    expect_tails(profile(processes, 2), wanted)


@test()
def debug_files_beside_a_program_give_names():
    wanted, processes = {}, []
    for name, folder in (("beside_link", "."), ("beside_folder", ".debug")):
        path, debug = stripped(static_spin(name), name)
        link_debug(path, debug)
        where = scratch(f"{name}_home/{folder}")
        os.makedirs(where)
        shutil.move(debug, where)
        processes.append(workload(shutil.move(path, scratch(f"{name}_home"))))
        wanted[name] = ["main", "spin"]
    expect_tails(profile(processes, 2), wanted)


@test()
def a_debug_file_of_another_build_gives_no_names():
    root = Root("wrongroot")
    names = ("wrong_id", "wrong_crc")
    for name in names:
        # Where both have a build id, that decides.
        flags = () if name == "wrong_id" else ("-Wl,--build-id=none",)
        path, debug = stripped(static_spin(name, *flags), name)
        if name == "wrong_id":
            root.by_build_id(stripped(static_spin("other"), "other")[1], build_id(path))
        else:
            link_debug(path, debug)
            # Same build, same size, but not the file that was linked.
            with open(debug, "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\xff")
            root.put(debug, f"opt/{name}.debug")
        root.put(path, f"opt/{name}")
    result = profile([root.start(f"/opt/{name}") for name in names])
    for stack in result.stacks():
        named = [f for f in stack.frames if not is_mark(f) and has_name(f)]
        expect(not named, f"{stack.comm}: {named}\n{result}")


@test()
def names_in_gnu_debugdata_are_read():
    program = build_as("mini_whole", "spin.c")
    keep, mini = scratch("keep"), scratch("mini.debug")
    dynamic = set(re.findall(r" (\S+)$", run("nm", "-D", "--defined-only", program), re.MULTILINE))
    with open(keep, "w", encoding="utf-8") as file:
        file.write("\n".join(n for n in symbols(program) if n not in dynamic))
    run("objcopy", "-S", f"--keep-symbols={keep}", program, mini)
    run("xz", "-kf", mini)
    path, _ = stripped(program, "mini")
    run("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", path)
    expect_tails(profile([workload(path)]), {"mini": ["main", "spin"]})


if __name__ == "__main__":
    sys.exit(main())
