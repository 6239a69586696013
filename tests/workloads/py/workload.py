# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the programs of this folder share. Each is started as PROGRAM.py [SECONDS [ARGUMENT...]],
prints "ready" when its loop begins, and runs until it is killed, or for so many seconds. "skip
REASON" instead of "ready": this Python has not what it is about. For 3.9 and later,
deterministic."""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
ARGUMENTS = sys.argv[2:]


def number(default):
    """The first argument."""
    return int(ARGUMENTS[0]) if ARGUMENTS else default


def ready():
    print("ready", flush=True)


def skip(reason):
    print("skip", reason, flush=True)
    sys.exit(0)


def clock():
    """A function that says whether there is time left."""
    end = time.monotonic() + SECONDS
    return lambda: not SECONDS or time.monotonic() < end


def repeat(work):
    """Print "ready" and call @work again and again."""
    more = clock()
    ready()
    while more():
        work()
