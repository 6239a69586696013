#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cut `bpftool btf dump ... format c` (stdin) down to the types of a list, for gen-vmlinux.sh.

usage: vmlinux-trim.py ARCH TYPES.txt <full.h >body

Keeps bpftool's text and order. What is only pointed to is only declared: a member that is a
pointer to a struct must not pull in half the kernel. Must never drop a listed type in silence.
"""
import re
import sys

KEYWORDS = {"struct", "union", "enum"}
TOKEN = re.compile(r"[A-Za-z_]\w*|\*|[{}();,:\[\]]|[^\sA-Za-z_]+")


def declarations(text):
    """Each top-level declaration, as text; preprocessor lines are left out."""
    lines, depth = [], 0
    for line in text.splitlines():
        if not lines and (not line.strip() or line.startswith("#")):
            continue
        lines.append(line)
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines = []
    if lines:
        sys.exit("vmlinux-trim: the dump ends inside a declaration: was it cut off?")


def names(decl):
    """What a declaration defines: [("struct", "x")], a typedef's name, an enum's constants."""
    head = re.match(r"(struct|union|enum)\s+(\w+)?\s*(\{|;)", decl)
    if head:
        kind, name, opens = head.groups()
        if opens == ";":
            return []
        found = [(kind, name)] if name else []
        if kind == "enum":
            found += [("enumerator", n) for n in re.findall(r"^\t(\w+)", decl, re.M)]
        return found
    if decl.startswith("typedef"):
        pointer = re.search(r"\(\*(\w+)\)\(", decl)
        if pointer:
            return [("typedef", pointer.group(1))]
        flat = re.sub(r"__attribute__\(\(.*?\)\)", "", decl)
        plain = re.search(r"(\w+)(?:\[\w*\])*\s*;$", flat)
        # What is neither, a function returning a function pointer, is in nobody's list.
        return [("typedef", plain.group(1))] if plain else []
    return []


def uses(decl):
    """(needed whole, needed as a declaration): the types that the text of decl mentions."""
    whole, declared = set(), set()
    tokens = TOKEN.findall(decl)
    for i, token in enumerate(tokens):
        if token in KEYWORDS and i + 1 < len(tokens) and tokens[i + 1] not in ("{", ";"):
            after = tokens[i + 2] if i + 2 < len(tokens) else ";"
            (declared if after == "*" and token != "enum" else whole).add((token, tokens[i + 1]))
        elif i == 0 or tokens[i - 1] not in KEYWORDS:
            whole.add(("typedef", token))
    return whole, declared


def wanted(path, arch):
    for line in open(path, encoding="ascii"):
        words = line.split("#")[0].split()
        if words and words[0].endswith(":"):
            if words.pop(0) != arch + ":":
                continue
        if words:
            yield " ".join(words[:-1]), words[-1]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: vmlinux-trim.py ARCH TYPES.txt <full.h >body")
    arch, types = sys.argv[1:]
    decls = list(declarations(sys.stdin.read()))
    defined = {}
    for i, decl in enumerate(decls):
        for name in names(decl):
            defined.setdefault(name, i)

    forward, todo, keep = set(), [], set()
    for kind, name in wanted(types, arch):
        if kind.startswith("forward "):
            forward.add((kind.split()[1], name))
        elif (kind, name) in defined:
            todo.append(defined[kind, name])
        else:
            sys.exit(f"vmlinux-trim: {types}: no {kind} {name} in this kernel's BTF")
    while todo:
        i = todo.pop()
        if i in keep:
            continue
        keep.add(i)
        whole, declared = uses(decls[i])
        forward |= declared
        todo += [defined[n] for n in whole if n in defined]

    forward -= {n for i in keep for n in names(decls[i])}
    for kind, name in sorted(forward):
        print(f"{kind} {name};\n")
    for i in sorted(keep):
        print(decls[i] + "\n")


main()
