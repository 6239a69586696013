#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""clang-format, except that the columns of comments and backslashes behind code are the author's.

    scripts/format.py [--check] FILE...

clang-format 14 either aligns such comments block by block or pulls all of them up to the code; both
spoil tables of struct members. So lines that differ only in the blanks before /*, // or a final
backslash are left as they are. --check prints what it would change; exit status 1 if anything.
"""
import difflib
import os
import re
import subprocess
import sys

COLUMN = re.compile(r"(?<=\S)[ \t]+(/\*|//|\\$)")
CLANG_FORMAT = os.environ.get("CLANG_FORMAT", "clang-format")


def key(line):
    """A line without the choice that is the author's."""
    return COLUMN.sub(r" \1", line)


def formatted(path, source):
    text = subprocess.run([CLANG_FORMAT, "--style=file", path], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    lines = text.splitlines(keepends=True)
    result = []
    matcher = difflib.SequenceMatcher(None, [key(line) for line in source],
                                      [key(line) for line in lines], autojunk=False)
    for op, a, a_end, b, b_end in matcher.get_opcodes():
        result += source[a:a_end] if op == "equal" else lines[b:b_end]
    return result


def main(argv):
    check = "--check" in argv
    wrong = 0
    for path in argv:
        if path == "--check":
            continue
        with open(path, encoding="utf-8") as f:
            source = f.read().splitlines(keepends=True)
        result = formatted(path, source)
        if result == source:
            continue
        wrong += 1
        if check:
            sys.stdout.writelines(difflib.unified_diff(source, result, path, path + " (formatted)"))
            continue
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(result)
    return 1 if check and wrong else 0


sys.exit(main(sys.argv[1:]))
