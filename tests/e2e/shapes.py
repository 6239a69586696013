#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stacks of hard shapes, known in full from the source, are whole or honestly marked: signals, an
alternate stack, the vDSO, threads, alloca, 100 KB frames, tail calls, coroutines, longjmp, 500
frames (issue 5, acceptance 5).
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, Failure, check_accounting, expect, main, record, scratch, test,
                       workload)
import shapes
import target

FREQUENCY = 4999
SECONDS = 30 if FULL else 4

KEPT = "-fno-omit-frame-pointer"
PROBES = "-fstack-clash-protection"
VARIANTS = {
    "x86": {"gcc": [KEPT, "-mno-omit-leaf-frame-pointer"],
            "gcc_no_leaf_option_probes": [KEPT, PROBES],
            "clang_no_leaves_probes": [KEPT, "-momit-leaf-frame-pointer", PROBES],
            "clang": [KEPT, "-mno-omit-leaf-frame-pointer"]},
    "s390": {"gcc": ["-mbackchain"], "gcc_probes": ["-mbackchain", PROBES],
             "clang": ["-mbackchain"], "clang_probes": ["-mbackchain", PROBES]},
}


def check(variant):
    program = shapes.build(scratch(variant), target.HERE, variant.split("_")[0],
                           VARIANTS[target.HERE][variant])
    pids = [workload(scratch(variant), mode).pid for mode in shapes.MODES]
    result = record("-p", ",".join(map(str, pids)), "-F", FREQUENCY, "-d", SECONDS, "--annotate",
                    "--stats").ok()
    check_accounting(result)
    wrong = []
    for mode in shapes.MODES:
        try:
            shapes.judge(mode, result.out, program).check()
        except Failure as failure:
            wrong.append(str(failure))
    expect(not wrong, "\n".join(wrong))


for one in VARIANTS[target.HERE]:
    test(60 + 3 * SECONDS, one)(lambda v=one: check(v))

if __name__ == "__main__":
    sys.exit(main())
