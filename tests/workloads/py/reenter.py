# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The interpreter's own C code that calls Python again: key= and __lt__ of a sort, __del__,
__hash__ and __eq__ of a dict, map(), an import hook, a weak reference's callback."""
import functools
import importlib.machinery
import sys
import types
import weakref
from workload import repeat


def burn():
    x = 0
    for i in range(300):
        x = (x * 3 + i) & 0xffff
    return x


def key(value):
    burn()
    return -value


def by_key():
    sorted(range(100), key=key)


class Ordered:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        burn()
        return self.value < other.value


def by_lt():
    sorted(Ordered(i * 37 % 50) for i in range(50))


class Dying:
    def __del__(self):
        burn()


def by_del():
    for _ in range(100):
        Dying()


class Hashed:
    def __hash__(self):
        burn()
        return 1

    def __eq__(self, other):
        burn()
        return self is other


def by_dict():
    found = {}
    for i in range(10):
        found[Hashed()] = i
    return len(found)


def by_map():
    return list(map(key, range(100)))


def by_reduce():
    return functools.reduce(lambda a, b: burn() + a + b, range(100))


class Finder:
    @staticmethod
    def find_spec(name, _path=None, _target=None):
        if name != "rprof_made":
            return None
        return importlib.machinery.ModuleSpec(name, Loader)


class Loader:
    @staticmethod
    def create_module(spec):
        return types.ModuleType(spec.name)

    @staticmethod
    def exec_module(module):
        code = compile("for _i in range(20):\n    burn()\n", "made/imported.py", "exec")
        exec(code, {"burn": burn})                      # pylint: disable=exec-used


sys.meta_path.insert(0, Finder)


def by_import():
    import rprof_made                                   # pylint: disable=import-error
    del sys.modules["rprof_made"], rprof_made


def on_death(_reference):
    burn()


def by_weakref():
    for _ in range(50):
        thing = Ordered(1)
        reference = weakref.ref(thing, on_death)
        del thing, reference


def main():
    by_key()
    by_lt()
    by_del()
    by_dict()
    by_map()
    by_reduce()
    by_import()
    by_weakref()


repeat(main)
