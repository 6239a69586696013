# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A process that becomes one interpreter after the other: ARGUMENTS are paths of Pythons (its own
if there are none), 0.3 s of CPU time each."""
import os
import sys
import time
from workload import ARGUMENTS, SECONDS, ready

FIRST = "RPROF_EXECS" not in os.environ
END = float(os.environ.get("RPROF_EXECS", time.monotonic() + SECONDS))


def burn():
    x = 0
    for i in range(20000):
        x = (x * 3 + i) & 0xffff


def loop():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        burn()


# A name that says which version runs.
STAGE = f"python_{sys.version_info[0]}_{sys.version_info[1]}"
exec(compile(f"def {STAGE}():\n    loop()\n", "made/stage.py", "exec"))  # pylint: disable=exec-used

if FIRST:
    ready()
globals()[STAGE]()
if not SECONDS or time.monotonic() < END:
    os.environ["RPROF_EXECS"] = str(END)
    pythons = ARGUMENTS or [sys.executable]
    os.execv(pythons[0], [pythons[0], sys.argv[0], str(SECONDS), *pythons[1:], pythons[0]])
