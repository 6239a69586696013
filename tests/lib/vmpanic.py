# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kernels of virtual machines that panicked, and whether that may have been the emulator's doing.

qemu's TCG lets one CPU run code that another one is patching: amd64 kernels have died at the second
byte of a nop in __schedule(), where perf had a jump written. Such a machine is booted again; one that
died in BPF code, or where this kernel did before, is not: that is a failure, whosesoever.
"""
import re

AGAIN = 2       # boots of one machine, besides the first

_SYMBOL = r"([A-Za-z_][\w.]*\+0x[0-9a-f]+)/0x[0-9a-f]+"
_BEGIN = re.compile(r"BUG: |Oops: |Oops\b|kernel BUG|Unable to handle|Kernel panic|"
                    r"general protection fault|invalid opcode|illegal operation|"
                    r"(?:specification|addressing|operation) exception")
_PLACE = re.compile(rf"RIP: [0-9a-f]+:{_SYMBOL}|Krnl PSW : [0-9a-f ]+\({_SYMBOL}\)")


class Panic:
    """place: of the instruction, "__schedule+0x411"; None: the kernel itself called panic().
    bpf: was BPF code among the calls?"""

    def __init__(self, text):
        found = _PLACE.search(text)
        self.place = found[1] or found[2] if found else None
        self.bpf = any("bpf" in symbol for symbol in re.findall(_SYMBOL, text))
        self.why = re.search(r"Kernel panic - not syncing: *(.*)", text)[1]


def find(console):
    """The panic that ended what is on @console; None: there was none."""
    if "Kernel panic - not syncing" not in console:
        return None
    # Of what was printed before, by programs, nothing counts.
    return Panic(console[_BEGIN.search(console).start():])


class Panics:
    """Those of one run of the tests."""

    def __init__(self):
        self._known = set()     # (kernel, place)

    def may_boot_again(self, kernel, boots, panic):
        """After @boots of one machine, the last of which ended by @panic, or None."""
        if not panic or panic.bpf or not panic.place or boots > AGAIN:
            return False
        known = (kernel, panic.place) in self._known
        self._known.add((kernel, panic.place))
        return not known
