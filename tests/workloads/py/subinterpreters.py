# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two sub-interpreters and the main one in turn in the main thread, and one in each of two threads.
ARGUMENT: shared (one GIL, any version that has them) or own (a GIL each, 3.12 and later). Before
3.13 a sub-interpreter runs with the thread state of who created it: threads create their own."""
import sys
import threading
from workload import ARGUMENTS, clock, ready, skip

OWN = ARGUMENTS[:1] == ["own"]
try:
    import _interpreters as interpreters            # 3.13
except ImportError:
    try:
        import _xxsubinterpreters as interpreters   # 3.8
    except ImportError:
        skip("no module for sub-interpreters")
if OWN and sys.version_info < (3, 12):
    skip("interpreters share the GIL before 3.12")

TEXT = """
import time
def sub_burn():
    x = 0
    for i in range(20000):
        x = (x * 3 + i) & 0xffff
def sub_{0}():
    sub_burn()
def sub_loop_{0}(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sub_{0}()
"""


def create():
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if OWN else "legacy", reqrefs=False)
    if sys.version_info >= (3, 12):
        return interpreters.create(isolated=OWN)
    return interpreters.create(isolated=False)


def run(interpreter, text):
    error = interpreters.run_string(interpreter, text)
    if error:
        raise RuntimeError(str(error))


def burn():
    x = 0
    for i in range(200000):
        x = (x * 3 + i) & 0xffff


def in_thread(interpreter, n, begun):
    if not interpreter:
        interpreter = create()
        run(interpreter, TEXT.format(n))
    begun.wait()
    more = clock()
    while more():
        run(interpreter, f"sub_loop_{n}(0.1)")


def main():
    made = {n: create() for n in "abcd"}
    for n, interpreter in made.items():
        run(interpreter, TEXT.format(n))
    if sys.version_info < (3, 13):
        made["c"] = made["d"] = None
    begun = threading.Barrier(3)
    threads = [threading.Thread(target=in_thread, args=(made[n], n, begun), daemon=True)
               for n in "cd"]
    for thread in threads:
        thread.start()
    begun.wait()
    more = clock()
    ready()
    while more():
        burn()
        for n in "ab":
            run(made[n], f"sub_loop_{n}(0.1)")
    for thread in threads:
        thread.join()


main()
