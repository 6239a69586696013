# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judges stacks of a generated call tree (tests/workloads/gentree.py) on either architecture.

An edge that is printed must be in the tree; a mark may stand only where binutils (binary.Program)
does not say that the caller was there to be proven. The program may have run elsewhere, as in a
virtual machine: all that is needed is its folded output and its file.
"""
import collections

from rprof_e2e import expect, five_sigma, is_mark
import binary
import gentree
import target

# Samples outside the burn loop of a function that burns: entry, exit, calls, its early exits.
# At most about 50 of the 4,500 cycles of the smallest; where the CFI has no frame there, marks are
# right, so this share of a function's samples may be marked without telling us anything.
OUTSIDE_LOOP = 0.02


class Verdict:
    """What the stacks of one run add up to, in samples."""

    def __init__(self):
        self.samples = 0
        self.impossible = collections.Counter()     # what is wrong -> samples
        self.leaf_proven = 0                        # leaf's caller is there, nothing between
        self.marked = 0                             # any mark below main()
        self.complete = 0                           # from a root to the leaf, no mark
        self.between_spaces = 0                     # nothing could be read, and it is not our fault
        self.stopped = collections.Counter()        # marks of what was not there to be read
        self.unjustified = collections.Counter()
        self.self_samples = collections.Counter()
        self.inclusive = collections.Counter()
        self.marked_in_loop = collections.Counter()
        self.deepest = 0

    def complete_share(self):
        """Of the samples whose stack could be read at all."""
        return self.complete / max(1, self.samples - self.between_spaces)


def is_of_proof(mark):
    """Does it say that something could not be proven, not that it could not be read?"""
    return mark == "[caller unknown]" or mark.startswith(
        ("[truncated: no ", "[truncated: signal", "[truncated: frame not linked"))


def is_between_spaces(stack, program):
    """Marked where nothing could be read: between switch_to() and finish_arch_post_lock_switch()
    the kernel of s390x has not loaded the new process' address space yet. A late timer of an
    emulated machine likes to fire there."""
    return program.arch == "s390" and any(map(is_mark, stack.frames)) and \
        any(f.startswith("finish_task_switch") for f in stack.kernel())


class Judge:
    """@tree: what gentree.generate() returned; @program: a binary.Program."""

    def __init__(self, tree, program):
        self.functions = tree["functions"]
        self.roots = tree["roots"]
        self.program = program

    def parent(self, name):
        """The caller that stands on the stack; the roots stand for one another."""
        if name in self.roots:
            return None
        return self.functions[self.called(name)]["parent"] or "root"

    def called(self, name):
        """The function that was called when @name runs: it, or who jumped to it."""
        while self.functions[name].get("tail"):
            name = self.functions[name]["parent"]
        return name

    def node(self, name):
        return "root" if name in self.roots else name

    def known(self, name):
        return name in self.functions or name in self.roots

    def below_root(self, frames):
        """Frames from main() on; all of them, marks included, if the stack does not show main()."""
        for i, frame in enumerate(frames):
            if frame in self.roots:
                return frames[i:]
        return frames

    def stack(self, stack, verdict):
        n = stack.count
        verdict.samples += n
        frames = self.below_root(stack.user())
        names = [f for f in frames if not is_mark(f)]
        foreign = [f for f in names if not self.known(f)]
        if foreign or not names:
            verdict.impossible[f"not in the tree: {';'.join(frames[-3:])}"] += n
            return
        if names[0] not in self.roots and not is_mark(frames[0]):
            verdict.impossible[f"begins at {names[0]}, unmarked"] += n
        verdict.deepest = max(verdict.deepest, len(names))
        verdict.marked += n * any(is_mark(f) for f in frames)
        unreadable = is_between_spaces(stack, self.program)
        verdict.between_spaces += n * unreadable
        verdict.complete += n * (frames == names and names[0] in self.roots)
        verdict.self_samples[names[-1]] += n
        for name in set(names):
            verdict.inclusive[name] += n
        self.edges(frames, n, verdict, not unreadable)

    def edges(self, frames, n, verdict, judge_marks):
        leaf = len(frames) - 1
        for i, name in enumerate(frames):
            if name in self.roots and i:
                verdict.impossible[f"{frames[i - 1]} -> {name}"] += n
            if is_mark(name) or name in self.roots:
                verdict.leaf_proven += n * (i == leaf and not is_mark(name))
                continue
            above = frames[i - 1] if i else "[nothing]"
            if is_mark(above):
                self.mark(frames, i, n, verdict, judge_marks)
            elif self.node(above) != self.parent(name):
                verdict.impossible[f"{above} -> {name}"] += n
            elif i == leaf:
                verdict.leaf_proven += n

    def mark(self, frames, i, n, verdict, judge_it):
        """The frame at @i has a mark above it: is it true, and was it needed?"""
        name = frames[i]
        ancestor = next((f for f in reversed(frames[:i]) if not is_mark(f)), None)
        if ancestor and self.known(ancestor):
            # One frame is missing, so the next one is the caller's caller.
            caller = self.parent(name)
            beyond = self.parent(caller) if caller != "root" else None
            if self.node(ancestor) != beyond:
                verdict.impossible[f"{ancestor} -> {frames[i - 1]} -> {name}"] += n
        if not judge_it or not is_of_proof(frames[i - 1]):
            verdict.stopped[frames[i - 1]] += n
            return
        child = frames[i + 1] if i + 1 < len(frames) else None
        if child and not is_mark(child):
            if i + 2 == len(frames) and not self.program.always_provable(child):
                # Where it was interrupted its caller's frame may be out of reach.
                self.marked_leaf(child, n, verdict)
            elif self.program.calls_provable(name, self.called(child)):
                verdict.unjustified[f"{frames[i - 1]} above {name} calling {child}"] += n
            return
        if child:
            return      # the mark below says it all
        if self.program.always_provable(name):
            verdict.unjustified[f"{frames[i - 1]} above the leaf {name}"] += n
        else:
            self.marked_leaf(name, n, verdict)

    def marked_leaf(self, name, n, verdict):
        if name in self.program.burns and self.program.frame_up(self.program.burns[name]):
            verdict.marked_in_loop[name] += n


def check_marks(judge, verdict):
    """No mark where the caller is there to be proven, as far as a function's name can tell."""
    expect(not verdict.unjustified,
           f"marks where the caller is to be proven: {verdict.unjustified.most_common(5)}")
    for name, n in verdict.marked_in_loop.items():
        seen = verdict.self_samples[name]
        bound = OUTSIDE_LOOP + five_sigma(OUTSIDE_LOOP, seen)
        expect(n <= bound * seen, f"{name} is marked in {n} of {seen} samples; its frame is up "
               f"in its loop, so at most {bound:.1%} may be")


def make(path, arch=target.HERE, compiler="gcc", flags=None, seed=1):
    """Generate and compile a tree for @arch; @path: without suffix. Returns (program, Judge)."""
    tree = gentree.generate(path + ".c", seed=seed)
    flags = list(target.FRAMES[arch] if flags is None else flags)
    if compiler == "gcc":
        flags.append("-fno-ipa-icf")    # two functions that read the same would become one
    program = target.build(path + ".c", path, arch, compiler, flags)
    facts = binary.Program(program, gentree.BURN_MULTIPLIER)
    made = sorted(j for j in facts.jumps if j[0] in tree["functions"])
    wanted = sorted((d["parent"], name) for name, d in tree["functions"].items() if d["tail"])
    expect(made == wanted, f"premise: tail calls of {compiler}: {made}, the source has {wanted}")
    return program, Judge(tree, facts)
