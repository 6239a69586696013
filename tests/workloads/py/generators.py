# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Generators that are driven from two places: the frame is the same, its caller is not. drive_a
takes 50 values, drive_b 5,000; delegation, generator expressions and send() besides."""
from workload import repeat


def inside(x):
    for i in range(20):
        x = (x * 3 + i) & 0xffff
    return x


def endless():
    x = 1
    while True:
        x = inside(x)
        yield x


SHARED = endless()


def drive_a():
    for _ in range(50):
        next(SHARED)


def drive_b():
    for _ in range(5000):
        next(SHARED)


def inner(n):
    for i in range(n):
        yield inside(i)


def outer(n):
    got = yield from inner(n)
    return got


def delegate():
    for value in outer(200):
        inside(value)


def expression():
    return sum(inside(i) for i in range(200))


def echo():
    value = 0
    while True:
        value = yield inside(value)


ECHO = echo()
next(ECHO)


def send():
    for i in range(200):
        ECHO.send(i)


def main():
    drive_a()
    drive_b()
    delegate()
    expression()
    send()


repeat(main)
