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
from xml.etree import ElementTree

COLUMN = re.compile(r"(?<=\S)[ \t]+(/\*|//|\\$)")
CLANG_FORMAT = os.environ.get("CLANG_FORMAT", "clang-format")


def key(line):
    """A line without the choice that is the author's."""
    return COLUMN.sub(r" \1", line)


def clang_format(paths):
    """What clang-format makes of each file, in their order: [bytes]. One process for all, since it
    takes longer to start than to format; it answers with a document of replacements for each."""
    answer = subprocess.run([CLANG_FORMAT, "--style=file", "--output-replacements-xml", *paths],
                            check=True, stdout=subprocess.PIPE).stdout.decode()
    documents = answer.split("<?xml version='1.0'?>")[1:]
    if len(documents) != len(paths):
        sys.exit(f"{CLANG_FORMAT}: {len(documents)} answers for {len(paths)} files")
    for path, document in zip(paths, documents):
        with open(path, "rb") as f:
            text = f.read()
        # From the last to the first: the offsets are those of the file as it is.
        for edit in reversed(ElementTree.fromstring(document).findall("replacement")):
            at = int(edit.get("offset"))
            text = text[:at] + (edit.text or "").encode() + text[at + int(edit.get("length")):]
        yield text


def formatted(source, text):
    lines = text.splitlines(keepends=True)
    if lines == source:
        return source
    result = []
    matcher = difflib.SequenceMatcher(None, [key(line) for line in source],
                                      [key(line) for line in lines], autojunk=False)
    for op, a, a_end, b, b_end in matcher.get_opcodes():
        result += source[a:a_end] if op == "equal" else lines[b:b_end]
    return result


def main(argv):
    check = "--check" in argv
    wrong = 0
    paths = [path for path in argv if path != "--check"]
    # Without a file clang-format would read its standard input.
    for path, text in zip(paths, clang_format(paths) if paths else ()):
        with open(path, encoding="utf-8") as f:
            source = f.read().splitlines(keepends=True)
        result = formatted(source, text.decode())
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
