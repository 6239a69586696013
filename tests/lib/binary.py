# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What binutils say about a program: a second opinion, independent of the profiler's own code.

Where a function's burn loop and its calls are, and whether an honest profiler can prove the caller
there, by the file's CFI and code. Programs of either architecture are read on either.
"""
import bisect
import functools
import re
import shutil
import subprocess

MACHINES = {b"\x3e\x00": "x86", b"\x00\x16": "s390"}     # e_machine as it stands in the file
PREFIXES = {"x86": "x86_64-linux-gnu-", "s390": "s390x-linux-gnu-"}

X86_UP = "rbp+16"
# CFA where a word at a known place of the stack is the return address: before or after the push.
X86_PROVABLE = (X86_UP, "rsp+8", "rsp+16")
# Nothing is allocated: the caller's r14 is in r14, or in the caller's save area.
S390_AT_ENTRY = "r15+160"
# The back chain is stored: from an FPR in leaves of GCC 12, through %r1 after alloca by clang 14.
S390_CHAIN = re.compile(r"st[gd]\s+%[rf]\d+,0\((%r15|%r1)\)")
# The probes of -fstack-clash-protection: around them the new frame has no back chain yet.
# Nor can a chain be read that is still in an FPR.
S390_PROBE = re.compile(r"cg\s+%r0,-?\d+\((%r\d+,)?%r15\)|std\s+%f\d+,0\(%r15\)")


def machine(path):
    with open(path, "rb") as file:
        return MACHINES[file.read(20)[18:20]]


def output(arch, tool, *argv):
    cross = PREFIXES[arch] + tool
    return subprocess.run([cross if shutil.which(cross) else tool, *argv], capture_output=True,
                          text=True, check=True).stdout


class Program:
    """@burn_constant: the multiplier of its burn loops."""

    def __init__(self, path, burn_constant):
        self.arch = machine(path)
        self.calls = {}         # caller -> {callee: address of the call}
        self.call_sites = {}    # caller -> addresses of all its calls, those by pointer too
        self.jumps = []         # (function, other function): tail calls
        self.burns = {}         # function -> address of its burn loop
        self.functions = {}     # function -> [(address, instruction)]
        self._rows = self._read_cfi(path)       # (first address, end, CFA)
        self._starts = [row[0] for row in self._rows]
        self._chained = set()   # s390x: functions that store a back chain
        self._burn = {"x86": f"imul $0x{burn_constant:x},",
                      "s390": re.compile(rf"msgfi %r\d+,{burn_constant}$")}[self.arch]
        self._read_code(path)

    def cfa(self, address):
        """The CFA by the CFI at this address, as readelf writes it: "" if it has no row."""
        row = bisect.bisect_right(self._starts, address) - 1
        return self._rows[row][2] if row >= 0 and address < self._rows[row][1] else ""

    def frame_up(self, address):
        """At this address of a burn loop, or of a call: is the caller there to be proven?

        x86-64: the frame pointer is set, as the CFI says. s390x: nothing is allocated, or it is and
        the function stores back chains.
        """
        cfa = self.cfa(address)
        if self.arch == "x86":
            return cfa.startswith("rbp")
        return cfa == S390_AT_ENTRY or (cfa != "" and self._function_at(address) in self._chained)

    @functools.lru_cache(maxsize=None)
    def always_provable(self, name):
        """Are its callers there to be proven wherever this function is interrupted?"""
        code = [c for c in self.functions.get(name, []) if self.cfa(c[0])]     # no padding
        if self.arch == "x86":
            return bool(code) and all(self.cfa(address) in X86_PROVABLE for address, _ in code)
        if any(S390_PROBE.match(text) for _, text in code):
            return False
        return bool(code) and all(self.frame_up(address) for address, _ in code)

    def calls_provable(self, name, callee=None):
        """Is it at the call of @callee; at all calls of @name if it is not known which that was?"""
        site = self.calls.get(name, {}).get(callee)
        sites = self.call_sites.get(name, []) if site is None else [site]
        return bool(sites) and all(self.frame_up(s) for s in sites)

    def _function_at(self, address):
        at = bisect.bisect_right(self._addresses, address) - 1
        return self._names[at] if at >= 0 else None

    def _read_cfi(self, path):
        rows, first, start, end = [], None, 0, 0
        dump = output(self.arch, "readelf", "--debug-dump=frames-interp", path)
        for line in dump.split("\n"):
            cie = re.search(r" CIE ", line)
            fde = re.search(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
            row = re.match(r"([0-9a-f]{16}) (\S+)", line)
            if cie:
                end = 0
            elif fde:
                start, end = int(fde[1], 16), int(fde[2], 16)
                # Until a row says otherwise an FDE begins as its CIE does: rsp+8, r15+160.
                rows.append([start, end, first])
            elif row and not end:
                first = row[2]
            elif row:
                address = int(row[1], 16)
                rows[-1][1] = address
                rows.append([address, end, row[2]])
        return sorted(r for r in rows if r[0] < r[1])

    def _read_code(self, path):
        function = None
        for line in output(self.arch, "objdump", "-d", "--no-show-raw-insn", path).split("\n"):
            label = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
            code = re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)", line)
            if label:
                function = label[1]
                self.functions[function] = []
            elif code and function:
                self._instruction(function, int(code[1], 16), code[2], code[3])
        starts = sorted((code[0][0], name) for name, code in self.functions.items() if code)
        self._addresses = [address for address, _ in starts]
        self._names = [name for _, name in starts]

    def _is_burn(self, text):
        if self.arch == "x86":
            return text.startswith(self._burn)
        return self._burn.match(text)

    def _instruction(self, function, address, name, operands):
        target = re.search(r"<([^+>@]+)(\+0x[0-9a-f]+)?>", operands)
        text = f"{name} {operands}"
        self.functions[function].append((address, text))
        if self._is_burn(text):
            self.burns[function] = address
        elif re.match(r"call|brasl|basr|bras$", name):
            self.call_sites.setdefault(function, []).append(address)
            if target:
                self.calls.setdefault(function, {})[target[1]] = address
        elif name.startswith("j") and target and target[1] != function:
            self.jumps.append((function, target[1]))
        elif self.arch == "s390" and S390_CHAIN.match(text):
            self._chained.add(function)
