# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Exceptions that pass through frames, are caught at several depths, thrown into generators; with
finally, and with the handlers at work."""
from workload import repeat


def burn():
    x = 0
    for i in range(1000):
        x = (x * 3 + i) & 0xffff
    return x


def thrower(kind):
    burn()
    raise kind("here")


def passer(kind):
    try:
        thrower(kind)
    finally:
        burn()


def catcher(kind):
    try:
        passer(kind)
    except ValueError:
        burn()


def outer():
    catcher(ValueError)
    try:
        catcher(KeyError)
    except KeyError as error:
        handler(error)


def handler(error):
    burn()
    return str(error)


def generator():
    while True:
        try:
            yield burn()
        except ValueError:
            burn()


GENERATOR = generator()
next(GENERATOR)


def throw_in():
    GENERATOR.throw(ValueError("in"))


def deep(left):
    if not left:
        thrower(ValueError)
    deep(left - 1)


def unwind():
    try:
        deep(50)
    except ValueError:
        burn()


def main():
    outer()
    throw_in()
    unwind()


repeat(main)
