#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs of Debian: built from source with frame pointers, and as they are packaged.

The names of the first kind are compared with addr2line's: the program runs a second time without
its symbols, so that the profiler prints the addresses, which addr2line then names. Both runs do
the same work, so both have the same functions with the same shares. What calls what is compared
with the code of the program.
"""
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from programs import (addr2line, base_name, below_main, built_from_source, has_name, run, symbols)
from rprof_e2e import (FULL, Skip, check_accounting, expect, five_sigma, is_mark, main, note, record,
                       scratch, test)

WORK = 5 if FULL else 1


def text_file():
    """Some megabytes that compress like text, the same in every run."""
    path = scratch("text")
    if not os.path.exists(path):
        x, words = 1, []
        for _ in range(300000 * WORK):
            x = x * 0x2545f491 % (1 << 61)
            words.append(f"word{x >> 20 & 0x3ff:x}")
        with open(path, "w", encoding="ascii") as file:
            file.write(" ".join(words))
    return path


SQL = f"""create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<{400000 * WORK})
  insert into t select i, hex(i*7919%100003) from n;
create index u on t(b);
select count(*), sum(length(x.b)) from t x join t y on x.b=y.b where y.a%3=0;
select count(*) from t x where exists (select 1 from t y where y.a = x.a*3%1000 and y.b > x.b);
select count(*) from t where b like '%7%3';
"""


def command(name, program):
    if name == "gzip":
        return ["sh", "-c", f'exec "$0" -9 -c "$1" >/dev/null', program, text_file()]
    if name == "zstd":
        return [program, "-q", "-f", "-15", "--single-thread", text_file(), "-o", scratch("zst")]
    return [program, ":memory:", SQL]


def profile(name, program, *args):
    out = scratch(f"{name}.folded")
    result = record("-F", 1999, "-U", "--stats", "-o", out, *args, "--", *command(name, program),
                    prefix=["env", "LC_ALL=C"]).ok()
    with open(out, encoding="utf-8") as file:
        result.out = file.read()
    check_accounting(result)
    return result


class Code:
    """What a program's code allows: which functions it has, and which of them call which."""

    def __init__(self, path):
        self.names = {base_name(n) for n in symbols(path)}
        self.edges = set()
        self.indirect = set()       # functions that call through a pointer: anything
        self.tails = collections.defaultdict(set)   # function -> where it jumps to
        function = None
        for line in run("objdump", "-d", "--no-show-raw-insn", path).split("\n"):
            label = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
            jump = re.match(r"\s+[0-9a-f]+:\s+(call|j\w+)\s+(.*)", line)
            if label:
                function = base_name(label[1])
            elif jump and function:
                self._jump(function, jump[1], jump[2])

    def _jump(self, function, name, operand):
        target = re.search(r"<([^+>]+)(?:\+0x[0-9a-f]+)?>$", operand)
        target = base_name(target[1]) if target and "*" not in operand else None
        if name == "call" and target:
            self.edges.add((function, target))
        elif name == "call" or (name == "jmp" and not target):
            self.indirect.add(function)
        elif target and target != function:
            self.tails[function].add(target)

    def calls(self, caller, callee):
        """Can a frame of @callee stand on one of @caller? Jumps at the end take frames away."""
        reached, todo = set(), [t for c, t in self.edges if c == caller]
        if caller in self.indirect:
            return True
        while todo:
            at = todo.pop()
            if at == callee or at in self.indirect:
                return True
            if at not in reached:
                reached.add(at)
                todo.extend(self.tails[at])
        return False


def function_shares(result, translate=base_name):
    """{function: share of samples that have it anywhere in their stack}, and the samples."""
    shares, samples = collections.Counter(), 0
    for stack in result.stacks():
        samples += stack.count
        for function in {translate(f) for f in stack.frames}:
            shares[function] += stack.count
    return {name: n / samples for name, n in shares.items()}, samples


def addresses_named(result, module, program):
    """A translation of module+0xoffset to what addr2line says."""
    frames = {f for s in result.stacks() for f in s.frames if f.startswith(f"{module}+0x")}
    frames = sorted(frames)
    names = addr2line(program, [int(f.rpartition("+")[2], 16) for f in frames])
    return {f: base_name(n) for f, n in zip(frames, names)}


def expect_named(name, result):
    """At least 95 % of the frames from main on, by samples."""
    named = frames = 0
    without = collections.Counter()
    for stack in result.stacks():
        for frame in below_main(stack.frames):
            frames += stack.count
            named += stack.count * has_name(frame)
            if not has_name(frame):
                without[frame] += stack.count
    note(f"{name}: {named / frames:.2%} of {frames} frames have names; without: "
         f"{without.most_common(3)}")
    expect(named >= 0.95 * frames, f"{name}: {named} of {frames} have names\n{result}")


def expect_possible(name, result, code):
    """No name that the program does not have, no call that its code does not make."""
    libraries = re.compile(r"@plt$|\+0x|^\[")
    wrong = collections.Counter()
    for stack in result.stacks():
        frames = stack.frames[stack.frames.index("main"):] if "main" in stack.frames else []
        frames = [base_name(f) for f in frames]
        for caller, callee in zip(frames, frames[1:]):
            if is_mark(caller) or is_mark(callee) or libraries.search(callee):
                continue
            if callee in code.names and not code.calls(caller, callee):
                wrong[f"{caller} -> {callee}"] += stack.count
    expect(not wrong, f"{name}: impossible calls: {wrong.most_common(5)}\n{result}")


def expect_same(name, named, bare, translation, code):
    got, n = function_shares(named)
    want, m = function_shares(bare, lambda frame: translation.get(frame, frame))
    off, compared = [], 0
    for function in set(translation.values()) | {f for f in got if f in code.names}:
        a, b = got.get(function, 0), want.get(function, 0)
        # 0.02: the two runs differ a little besides chance, by where caches and clocks stood.
        if abs(a - b) > 0.02 + 2 * five_sigma(max(a, b), min(n, m)):
            off.append(f"{function}: {a:.1%}, by addr2line {b:.1%}")
        compared += max(a, b) > 0.005
    note(f"{name}: {n} and {m} samples, {len(translation)} addresses, {compared} functions above "
         f"0.5 % compared with addr2line")
    expect(m > 500 and compared >= 3, f"premise: {m} samples, {compared} functions\n{bare}")
    expect(not off, f"{name}: {off}\n{named}")


def built_program(name):
    program = built_from_source(name)
    code = Code(program)
    result = profile(name, program)
    expect_named(name, result)
    expect_possible(name, result, code)
    bare = scratch(name)
    run("strip", "-s", "-o", bare, program)
    stripped = profile(name, bare)
    translation = addresses_named(stripped, name, program)
    expect_same(name, result, stripped, translation, code)


@test(900)
def gzip_has_the_names_of_addr2line():
    built_program("gzip")


@test(900)
def zstd_has_the_names_of_addr2line():
    built_program("zstd")


@test(900)
def sqlite3_has_the_names_of_addr2line():
    built_program("sqlite3")


# ---- as packaged --------------------------------------------------------------------------------

PERL = """my %h;
for my $i (1 .. @) {
    $h{"k" . $i % 997} .= join ",", sort map { $_ * $i % 7 } 1 .. 9;
    $h{"k" . $i % 997} =~ s/([0-9])+,/$1/g;
}
""".replace("@", str(60000 * WORK))
PACKAGED = {
    "perl": ["perl", "-e", PERL],
    "openssl": ["openssl", "speed", "-seconds", str(WORK), "-bytes", "4096", "sha256",
                "aes-128-cbc"],
}


def mapped_exports(frames_of):
    """Names exported by the files that lie on disk where the loader looks for libraries."""
    names = set()
    libraries = run("ldd", frames_of)
    for path in [frames_of, *re.findall(r"(/\S+) \(0x", libraries)]:
        names |= {n.partition("@")[0] for n in symbols(path, "-D")}
    return names


def packaged(name):
    argv = PACKAGED[name]
    program = run("sh", "-c", f"command -v {name} || :").strip()
    if not program:
        raise Skip(f"no {name} here")
    out = scratch(f"{name}.folded")
    result = record("-F", 999, "-U", "--stats", "-o", out, "--", *argv).ok()
    with open(out, encoding="utf-8") as file:
        result.out = file.read()
    check_accounting(result)
    exported = mapped_exports(os.path.realpath(program))
    named, other, bare = collections.Counter(), collections.Counter(), 0
    for stack in result.stacks():
        for frame in stack.frames:
            if is_mark(frame) or not has_name(frame) or frame.endswith("@plt"):
                bare += stack.count * (not is_mark(frame))
            elif frame in exported:
                named[frame] += stack.count
            else:
                other[frame] += stack.count
    note(f"{name}: {sum(named.values())} frames with exported names, {bare} without name, others: "
         f"{other.most_common(3)}")
    expect(sum(named.values()) > 20, f"{name}: no exported name\n{result}")
    # The vDSO exports its own; and nothing else has a name in a stripped file.
    others = {f for f in other if not f.startswith("__vdso_")}
    debug = subprocess.run(["sh", "-c", "ls -d /usr/lib/debug/.build-id"], check=False,
                           capture_output=True).returncode == 0
    expect(not others or debug, f"{name}: exported by no file: {sorted(others)[:5]}\n{result}")


@test(120)
def perl_as_packaged_has_its_exported_names():
    packaged("perl")


@test(120)
def openssl_as_packaged_has_its_exported_names():
    packaged("openssl")


if __name__ == "__main__":
    sys.exit(main())
