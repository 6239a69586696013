# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One function of each shape a Python function can have, each burning for itself."""
import contextlib
import functools
from workload import repeat

ROUNDS = 3000


def burn(x=0):
    for i in range(ROUNDS):
        x = (x * 3 + i) & 0xffff
    return x


class Outer:
    def method(self):
        return burn()

    @classmethod
    def of_class(cls):
        return burn()

    @staticmethod
    def static():
        return burn()

    @property
    def prop(self):
        return burn()

    def __call__(self):
        return burn()

    def __getattr__(self, name):
        return burn()

    def __add__(self, other):
        return burn()

    class Inner:
        def method(self):
            return burn()


class Child(Outer):
    def method(self):
        return super().method()


class Meta(type):
    def __call__(cls, *args):
        burn()
        return super().__call__(*args)


class Made(metaclass=Meta):
    def __init__(self):
        burn()


class Plain:
    def __init__(self):
        burn()


def closure(x):
    def enclosed():
        nonlocal x
        x = burn(x)
        return x

    return enclosed()


def decorator(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@decorator
@functools.lru_cache(maxsize=1)
def decorated(x):
    return burn(x)


@contextlib.contextmanager
def context():
    burn()
    yield
    burn()


@functools.singledispatch
def dispatched(_):
    return burn()


@dispatched.register(int)
def dispatched_int(_):
    return burn()


def comprehensions():
    a = [burn(i) for i in range(3)]
    b = {burn(i) for i in range(3)}
    c = {i: burn(i) for i in range(3)}
    d = list(burn(i) for i in range(3))
    e = [[burn(i) for i in range(j)] for j in range(3)]
    return a, b, c, d, e


def class_in_function():
    class Local:
        value = burn()

        def method(self):
            return burn()

    return Local().method()


LAMBDA = lambda x: burn(x)                              # noqa: E731
TEXT = "def from_text(x):\n    return burn(x)\n\n\nfor _i in range(3):\n    from_text(_i)\n"
EXECUTED = compile(TEXT, "made/executed.py", "exec")
EVALUATED = compile("burn(1) + burn(2)", "made/evaluated.py", "eval")
PARTIAL = functools.partial(burn, 3)


def defaults(a, b=1, *args, c=2, **kwargs):
    return burn(a + b + c)


COUNT = 0


def main():
    global COUNT
    COUNT += 1
    it = Child()
    it.method()
    it.of_class()
    it.static()
    _ = it.prop
    it()
    _ = it.missing
    _ = it + it
    Outer.Inner().method()
    Made()
    Plain()                                             # from 3.12 on: by a frame of its own
    closure(1)
    decorated(COUNT)
    with context():
        burn()
    dispatched(1)
    dispatched("text")
    comprehensions()
    class_in_function()
    LAMBDA(1)
    exec(EXECUTED, {"burn": burn})                      # pylint: disable=exec-used
    eval(EVALUATED)                                     # pylint: disable=eval-used
    eval("burn(3)")                                     # its file is "<string>"
    PARTIAL()
    defaults(1, 2, 3, c=4, d=5)
    defaults(**{"a": 1})


repeat(main)
