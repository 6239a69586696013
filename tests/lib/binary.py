# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What binutils say about a program: a second opinion, independent of the profiler's own code.

Where a function's burn loop and its calls are, and whether the frame pointer is up there by the
file's CFI.
"""
import bisect
import re
import subprocess


def _output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


class Program:
    def __init__(self, path, burn_constant):
        self.calls = {}         # caller -> {callee: address of the call}
        self.jumps = []         # (function, other function): tail calls
        self.burns = {}         # function -> address of its burn loop
        self._rows = self._read_cfi(path)
        self._starts = [row[0] for row in self._rows]
        self._read_code(path, f"$0x{burn_constant:x},")

    def frame_up(self, address):
        """Does the CFI say at this address that the CFA is at a fixed distance from rbp?"""
        row = bisect.bisect_right(self._starts, address) - 1
        return row >= 0 and address < self._rows[row][1] and self._rows[row][2].startswith("rbp")

    def _read_cfi(self, path):
        rows, first, start, end = [], None, 0, 0
        for line in _output("readelf", "--debug-dump=frames-interp", path).split("\n"):
            cie = re.search(r" CIE ", line)
            fde = re.search(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
            row = re.match(r"([0-9a-f]{16}) (\S+)", line)
            if cie:
                end = 0
            elif fde:
                start, end = int(fde[1], 16), int(fde[2], 16)
                # Until a row says otherwise an FDE begins as its CIE does: rsp+8 on x86-64.
                rows.append([start, end, first])
            elif row and not end:
                first = row[2]
            elif row:
                address = int(row[1], 16)
                rows[-1][1] = address
                rows.append([address, end, row[2]])
        return sorted(r for r in rows if r[0] < r[1])

    def _read_code(self, path, burn):
        function = None
        for line in _output("objdump", "-d", "--no-show-raw-insn", path).split("\n"):
            label = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
            code = re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)", line)
            if label:
                function = label[1]
            elif code and function:
                self._instruction(function, int(code[1], 16), code[2], code[3], burn)

    def _instruction(self, function, address, name, operands, burn):
        target = re.search(r"<([^+>@]+)(\+0x[0-9a-f]+)?>", operands)
        if name.startswith("imul") and operands.startswith(burn):
            self.burns[function] = address
        elif name.startswith("call") and target:
            self.calls.setdefault(function, {})[target[1]] = address
        elif name.startswith("j") and target and target[1] != function:
            self.jumps.append((function, target[1]))
