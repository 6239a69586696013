#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The layouts of CPython 3.9 to 3.12, which have no _Py_DebugOffsets, from the DWARF of interpreters.

    scripts/python-layouts.py generate FILE... > user/python_builtin_tables.h
    scripts/python-layouts.py check FILE...

FILE is an interpreter, a libpython or a separate debug file; which version it is follows from its
structs. `check` compares each file with the committed tables, and files of any version with what
user/python_offsets.c derives rather than reads; exit status 1 if anything differs. Needs gdb. Must
never guess: a member that DWARF does not have is absent.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = os.path.join(HERE, "..", "user", "python_fields.c")
TABLES = os.path.join(HERE, "..", "user", "python_builtin_tables.h")
ABSENT = 0xffffffff

# Row -> where it is, the first that exists: (type, member), or (type, None) for its size.
RUNTIME, INTERP, THREAD, CODE = "_PyRuntimeState", "struct _is", "struct _ts", "PyCodeObject"
FRAME, OLD_FRAME = "struct _PyInterpreterFrame", "struct _frame"
WHERE = {
    "RUNTIME.size": [(RUNTIME, None)],
    "RUNTIME.finalizing": [(RUNTIME, "_finalizing")],
    "RUNTIME.interpreters_head": [(RUNTIME, "interpreters.head")],
    "RUNTIME.tstate_current": [(RUNTIME, "gilstate.tstate_current")],
    "INTERPRETER.size": [(INTERP, None)],
    "INTERPRETER.id": [(INTERP, "id")],
    "INTERPRETER.next": [(INTERP, "next")],
    "INTERPRETER.threads_head": [(INTERP, "threads.head"), (INTERP, "tstate_head")],
    "INTERPRETER.gc": [(INTERP, "gc")],
    "THREAD.size": [(THREAD, None)],
    "THREAD.next": [(THREAD, "next")],
    "THREAD.interp": [(THREAD, "interp")],
    "THREAD.thread_id": [(THREAD, "thread_id")],
    "THREAD.native_thread_id": [(THREAD, "native_thread_id")],
    "THREAD.datastack_chunk": [(THREAD, "datastack_chunk")],
    "THREAD.status": [(THREAD, "_status")],
    "CODE.size": [(CODE, None)],
    "CODE.filename": [(CODE, "co_filename")],
    "CODE.linetable": [(CODE, "co_linetable"), (CODE, "co_lnotab")],
    "CODE.firstlineno": [(CODE, "co_firstlineno")],
    "CODE.co_code_adaptive": [(CODE, "co_code_adaptive")],
    "CODE.version": [(CODE, "co_version")],
    "OBJECT.size": [("PyObject", None)],
    "OBJECT.ob_type": [("PyObject", "ob_type")],
    "TYPE.size": [("PyTypeObject", None)],
    "TYPE.tp_name": [("PyTypeObject", "tp_name")],
    "BYTES.size": [("PyBytesObject", None)],
    "BYTES.ob_size": [("PyBytesObject", "ob_base.ob_size")],
    "BYTES.ob_sval": [("PyBytesObject", "ob_sval")],
    "UNICODE.size": [("PyUnicodeObject", None)],
    "UNICODE.state": [("PyASCIIObject", "state")],
    "UNICODE.length": [("PyASCIIObject", "length")],
    "UNICODE.hash": [("PyASCIIObject", "hash")],
    "UNICODE.asciiobject_size": [("PyASCIIObject", None)],
    "UNICODE.compactunicodeobject_size": [("PyCompactUnicodeObject", None)],
    "GC.size": [("struct _gc_runtime_state", None)],
    "GC.collecting": [("struct _gc_runtime_state", "collecting")],
}
WITH_FRAME_OBJECTS = {  # 3.9, 3.10
    "THREAD.current_frame": [(THREAD, "frame")],
    # Where its two arrays begin: nothing behind it is read.
    "FRAME.size": [(OLD_FRAME, "f_blockstack")],
    "FRAME.previous": [(OLD_FRAME, "f_back")],
    "FRAME.executable": [(OLD_FRAME, "f_code")],
    "FRAME.instr_ptr": [(OLD_FRAME, "f_lasti")],
    "CODE.qualname": [(CODE, "co_name")],
}
WITHOUT_FRAME_OBJECTS = {
    # Up to 3.12 in a structure of its own on the C stack. 3.10 has that, too, but no frame in it.
    "THREAD.current_frame": [(THREAD, "current_frame"), (THREAD, "cframe")],
    "CFRAME.size": [("_PyCFrame", None)],
    "CFRAME.current_frame": [("_PyCFrame", "current_frame")],
    "CFRAME.previous": [("_PyCFrame", "previous")],
    "FRAME.size": [(FRAME, None)],
    "FRAME.previous": [(FRAME, "previous")],
    "FRAME.executable": [(FRAME, "f_executable"), (FRAME, "f_code")],
    "FRAME.instr_ptr": [(FRAME, "instr_ptr"), (FRAME, "prev_instr")],
    "FRAME.owner": [(FRAME, "owner")],
    "FRAME.is_entry": [(FRAME, "is_entry")],
    "CODE.name": [(CODE, "co_name")],
    "CODE.qualname": [(CODE, "co_qualname")],
}
# Only checked: what is derived, and what tells versions apart.
EXTRA = {
    "localsplusnames": [(CODE, "co_localsplusnames")],
    "stacksize": [(CODE, "co_stacksize")],
    "executor": [(THREAD, "current_executor")],
    "sentinel": [(THREAD, "base_frame")],
    "cframe": [(THREAD, "cframe")],
    "lnotab": [(CODE, "co_lnotab")],
    "executors": [(CODE, "co_executors")],
    "interp_id_ref": [(CODE, "_co_unique_id")],
    "frame_objects": [(THREAD, "frame")],
}


def rows():
    with open(ROWS, encoding="utf-8") as f:
        return [".".join(found) for found in re.findall(r'\{ PYTHON_(\w+),\s+"(\w+)"', f.read())]


def dwarf(path, places):
    """{(type, member): bytes} of those that exist."""
    command = ["gdb", "-nx", "-batch", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off"]
    for i, (kind, member) in enumerate(places):
        value = f"sizeof({kind})" if member is None else f"(long)&(({kind} *)0)->{member}"
        command += ["-ex", f'printf "@ {i} %ld\\n", {value}']
    done = subprocess.run(command + [path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          timeout=300, check=False, text=True)
    return {places[int(i)]: int(value) for i, value in re.findall(r"^@ (\d+) (\d+)$", done.stdout, re.M)}


def layout(path):
    """Row or name of EXTRA -> bytes."""
    maps = [WHERE, WITH_FRAME_OBJECTS, WITHOUT_FRAME_OBJECTS, EXTRA]
    places = sorted({place for m in maps for found in m.values() for place in found},
                    key=lambda place: (place[0], place[1] or ""))
    known = dwarf(path, places)
    if (CODE, None) not in known:
        sys.exit(f"{path}: no DWARF of CPython's structs")
    frames = WITH_FRAME_OBJECTS if (THREAD, "frame") in known else WITHOUT_FRAME_OBJECTS
    found = {}
    for name, candidates in {**WHERE, **frames, **EXTRA}.items():
        for place in candidates:
            if place in known:
                found.setdefault(name, known[place])
    return found


def version_of(found):
    if "frame_objects" in found:
        return "3.9" if "lnotab" in found else "3.10"
    if "FRAME.is_entry" in found:
        return "3.11"
    if "cframe" in found:
        return "3.12"
    if "sentinel" in found:
        return "3.15"
    return "3.14" if "interp_id_ref" in found else "3.13"


def table(found):
    """Row -> word."""
    return {row: found.get(row, ABSENT) for row in rows()}


def generate(paths):
    print("""/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Generated by scripts/python-layouts.py from the DWARF of CPython's release builds for 64-bit
 * machines; not to be edited. One word per row of python_fields.c: its bytes in its struct, or
 * PYTHON_ABSENT.
 */
#ifndef RPROF_PYTHON_BUILTIN_TABLES_H
#define RPROF_PYTHON_BUILTIN_TABLES_H

#include "python_fields.h"
""")
    for path in paths:
        found = layout(path)
        print(f"static const __u32 layout_{version_of(found).replace('.', '_')}[] = {{")
        for row, word in table(found).items():
            print(f"\t{'PYTHON_ABSENT' if word == ABSENT else word}, /* {row.lower()} */")
        print("};\n")
    print("#endif")


def committed():
    """Version -> {row: word}."""
    with open(TABLES, encoding="utf-8") as f:
        text = f.read()
    tables = {}
    for version, body in re.findall(r"layout_(\w+)\[\] = \{(.*?)\};", text, re.S):
        words = re.findall(r"\t(\w+), /\* (\S+) \*/", body)
        tables[version.replace("_", ".")] = {
            row.replace(row.split(".")[0], row.split(".")[0].upper(), 1):
                ABSENT if word == "PYTHON_ABSENT" else int(word) for word, row in words}
    return tables


def derived(found, version):
    """What python_offsets.c takes for granted: (what, is, should be)."""
    minor = int(version.split(".")[1])
    rules = [
        ("unicode_object.hash", found["UNICODE.hash"], found["UNICODE.length"] + 8),
        ("type_object.tp_name", found["TYPE.tp_name"], found["OBJECT.ob_type"] + 16),
        ("the last of co_*", found["CODE.linetable"],
         max(found[f"CODE.{name}"] for name in ("filename", "qualname", "linetable", "firstlineno"))),
    ]
    if minor >= 12:
        rules += [("co_version", found["CODE.version"], found["localsplusnames"] - 4),
                  ("co_version", found["CODE.version"], found["CODE.firstlineno"] + 24),
                  ("co_stacksize", found["stacksize"], found["CODE.firstlineno"] - 4)]
    if minor >= 13:
        rules += [("compactunicodeobject_size", found["UNICODE.compactunicodeobject_size"],
                   found["UNICODE.asciiobject_size"] + 16)]
    if minor >= 14:
        rules += [("current_executor", found.get("executor"), {14: 272, 15: 304}[minor])]
    return rules


def check(paths):
    wrong = 0
    for path in paths:
        found = layout(path)
        version = version_of(found)
        differs = [f"{what}: {is_}, should be {should}" for what, is_, should in
                   derived(found, version) if is_ != should]
        for row, word in committed().get(version, {}).items():
            # Sizes change in patch releases and with options; offsets do not.
            if word != table(found)[row] and not row.endswith(".size"):
                differs.append(f"{row}: {table(found)[row]}, in the table {word}")
        print(f"{path}: {version}: {'; '.join(differs) or 'as expected'}")
        wrong += bool(differs)
    return 1 if wrong else 0


def main(argv):
    if len(argv) < 2 or argv[0] not in ("generate", "check"):
        sys.exit(__doc__)
    return generate(argv[1:]) if argv[0] == "generate" else check(argv[1:])


sys.exit(main(sys.argv[1:]))
