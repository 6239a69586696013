# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs whose names are known: building them under several names, asking binutils about them."""
import os
import re
import shutil
import subprocess

from rprof_e2e import FRAMES, ROOT, WORKLOADS, Skip, expect, is_mark, note, scratch, total


def run(*argv, **kwargs):
    """Output of a tool that must work."""
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False,
                          errors="surrogateescape", **kwargs)
    expect(done.returncode == 0, f"{' '.join(map(str, argv))}: {done.stderr}{done.stdout}")
    return done.stdout


def build_as(name, source, *flags, compiler="gcc"):
    """A workload under its own name, which is the first field of its lines; cut to 15 characters.
    What it links with may be among the flags."""
    path = source if os.path.isabs(source) else os.path.join(WORKLOADS, source)
    run(compiler, "-O2", "-g", "-pthread", f"-I{WORKLOADS}", *FRAMES, path, *flags,
        "-o", scratch(name))
    return scratch(name)


def build_rust(name, source, *flags):
    """Debian's compiler before any other: that one is in the list of packages."""
    compiler = "/usr/bin/rustc" if os.path.exists("/usr/bin/rustc") else shutil.which("rustc")
    if not compiler:
        raise Skip("no rustc")
    path = scratch(name)
    run(compiler, "-C", "opt-level=2", "-g", "-C", "force-frame-pointers=yes", *flags,
        os.path.join(WORKLOADS, source), "-o", path)
    return path


def built_from_source(name):
    """A program of Debian, built from its source with frame pointers: scripts/source-build.sh."""
    done = subprocess.run([os.path.join(ROOT, "scripts", "source-build.sh"), name],
                          capture_output=True, text=True, check=False)
    if done.returncode == 77:
        raise Skip(done.stderr.strip().split("\n")[-1])
    expect(done.returncode == 0, f"source-build.sh {name}: {done.stderr}")
    return done.stdout.strip()


def symbols(path, *flags):
    """{name: address} of the functions, as the linker has them."""
    found = re.findall(r"^([0-9a-f]+) [tTwWiu] (\S+)$", run("nm", *flags, path), re.MULTILINE)
    return {name.partition("@")[0]: int(address, 16) for address, name in found}


def addr2line(path, addresses, demangle=True):
    """What addr2line calls the functions at these addresses: those that calls were inlined into."""
    flags = ["-f", "-i", "-a"] + (["-C"] if demangle else [])
    given = "".join(f"{a:#x}\n" for a in addresses)
    names = []
    for group in run("addr2line", *flags, "-e", path, input=given).split("0x0")[1:]:
        # The address, then function and line of each; the outermost comes last.
        names.append(group.rstrip("\n").split("\n")[-2])
    expect(len(names) == len(addresses), f"premise: {len(names)} answers of addr2line")
    return names


def base_name(name):
    """Without what compilers put behind the names of parts and copies of a function."""
    return re.sub(r"(\.(cold|part|constprop|isra|lto_priv|llvm)(\.\d+)*)+$", "", name)


def count(stacks, *frames):
    """Samples whose stack has all these frames."""
    return sum(s.count for s in stacks if all(f in s.frames for f in frames))


def below_main(frames):
    """Frames from main on, without marks."""
    start = frames.index("main") if "main" in frames else 0
    return [f for f in frames[start:] if not is_mark(f)]


def has_name(frame):
    """Neither module+0xoffset nor [unknown] nor [anon]."""
    return not re.search(r"\+0x[0-9a-f]+$", frame) and not is_mark(frame)


def tail_share(stacks, *names):
    """Share of the samples that end in these frames."""
    hits = sum(s.count for s in stacks if s.frames[-len(names):] == list(names))
    return hits / max(total(stacks), 1)


def expect_tails(result, wanted, share=0.9):
    """@wanted: {comm: frames}; nearly all samples of each end so. The rest is other work: the way
    through the kernel, and the first instructions of main."""
    wrong = []
    for comm, names in wanted.items():
        stacks = [s for s in result.stacks() if s.comm == comm[:15]]
        got = tail_share(stacks, *names)
        if total(stacks) < 20 or got < share:
            sample = max(stacks, key=lambda s: s.count).frames[-4:] if stacks else "nothing"
            wrong.append(f"{comm}: {got:.1%} of {total(stacks)} end in {names}, most in {sample}")
    note(f"{len(wanted) - len(wrong)} of {len(wanted)} kinds are right")
    expect(not wrong, "\n".join(wrong) + f"\n{result.err}")
