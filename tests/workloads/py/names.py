# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Names that are ASCII, Latin-1, of the BMP, and beyond: kinds 1 (both forms), 2 and 4 of a string;
of functions, of classes before them, and of files. They are below one another: plain > café >
имя_函数 > 𐌰𐌱𐌲 > Класс.été > 𐌺𐌻.method, then a long one, and ones of code whose file name is of each
kind."""
from workload import repeat

FILES = ("made/plain.py", "made/caf\u00e9.py", "made/\u0438\u043c\u044f.py",
         "made/\U00010330\U00010331.py", "\u0434\u0438\u0440/\u8def.py")
LONG = "f" + "\u00e4\u0436" * 100


def burn():
    x = 0
    for i in range(20000):
        x = (x * 3 + i) & 0xffff
    return x


class 𐌺𐌻:
    def method(self):
        burn()
        for function in FUNCTIONS:
            function()


class Класс:
    def été(self):
        burn()
        𐌺𐌻().method()


def 𐌰𐌱𐌲():
    burn()
    Класс().été()


def имя_函数():
    burn()
    𐌰𐌱𐌲()


def café():
    burn()
    имя_函数()


def plain():
    burn()
    café()


def made(number, path, name):
    """A function of that name in a file of that name."""
    space = {"burn": burn}
    exec(compile(f"def {name}():\n    burn()\n", path, "exec"), space)  # pylint: disable=exec-used
    return space[name]


FUNCTIONS = [made(i, path, f"in_file_{i}") for i, path in enumerate(FILES)]
FUNCTIONS.append(made(9, "made/long.py", LONG))

repeat(plain)
