#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CPUs that come and go, those of this machine; runs beside no other suite."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (Profiler, Skip, build, check_accounting, expect, main, note, record, test,
                       workload)

CPU1 = "/sys/devices/system/cpu/cpu1/online"


def switch_cpu1(value):
    try:
        with open(CPU1, "w", encoding="utf-8") as file:
            file.write(value)
    except OSError as error:
        raise Skip(f"CPU 1 cannot be taken offline: {CPU1}: {error.strerror}") from None


@test()
def a_cpu_that_goes_and_comes_loses_nothing():
    process = workload(build("threads.c"), 2)
    profiler = Profiler("-p", process.pid, "-F", 999, "--stats").wait_sampling()
    time.sleep(1)
    switch_cpu1("0")
    try:
        time.sleep(1)
    finally:
        switch_cpu1("1")
    time.sleep(1.5)
    for tid in os.listdir(f"/proc/{process.pid}/task"):
        os.sched_setaffinity(int(tid), {1})
    # Everything runs on the CPU that came back: without a new event there all of it is missing.
    time.sleep(5)
    result = profiler.stop().ok()
    stats = check_accounting(result)
    note(f"missed {stats['missed']} of {stats['expected']}")
    # The CPU that came back is not sampled until the profiler notices, within a second: 1 of 11
    # CPU seconds. Had it not noticed, it would be 6.5.
    expect(abs(stats["missed"]) < 0.2 * stats["expected"], f"{result}")


@test()
def a_cpu_that_is_offline_at_the_start_is_no_error():
    process = workload(build("spin.c"))
    switch_cpu1("0")
    try:
        result = record("-p", process.pid, "-F", 999, "-d", 1, "--stats").ok()
    finally:
        switch_cpu1("1")
    check_accounting(result)


if __name__ == "__main__":
    sys.exit(main())
