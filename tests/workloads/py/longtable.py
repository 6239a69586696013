# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A function of 20,002 lines, whose line table is longer than 37 KiB; nearly all the time is spent
in what its lines 3, 10000 and 20002 call."""
from workload import repeat

LINES = 20000


def first():
    return burn()


def middle():
    return burn()


def last():
    return burn()


def burn():
    x = 0
    for i in range(100000):
        x = (x * 3 + i) & 0xffff
    return x


TEXT = ["def long(x):", "    x = 0"] + ["    x += 1"] * LINES
TEXT[2] = "    first()"
TEXT[9999] = "    middle()"
TEXT[LINES + 1] = "    last()"
SPACE = {"first": first, "middle": middle, "last": last}
exec(compile("\n".join(TEXT) + "\n", "made/long.py", "exec"), SPACE)  # pylint: disable=exec-used
LONG = SPACE["long"]
TABLE = getattr(LONG.__code__, "co_linetable", None) or LONG.__code__.co_lnotab
assert len(TABLE) > 37 * 1024, len(TABLE)


def main():
    LONG(0)


repeat(main)
