# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Three functions of one and the same code that burn 1, 2 and 4 parts of the time: their shares are
known, whatever a part costs. What calls them takes none worth speaking of."""
from workload import repeat

PART = 30000
TEXT = """
def share_{0}():
    x = 0
    for i in range({0} * PART):
        x = (x * 3 + i) & 0xffff
"""
SHARES = []
for parts in (1, 2, 4):
    exec(compile(TEXT.format(parts), "made/shares.py", "exec"))     # pylint: disable=exec-used
    SHARES.append(globals()[f"share_{parts}"])


def main():
    for share in SHARES:
        share()


repeat(main)
