# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Chains of coroutines, tasks, asynchronous generators and context managers; a TaskGroup from 3.11
on."""
import asyncio
import sys
from workload import clock, ready


def burn():
    total = 0
    for i in range(5000):
        total += i
    return total


async def leaf(n):
    burn()
    await asyncio.sleep(0)
    return burn() + n


async def middle(n):
    return await leaf(n)


async def top(n):
    return await middle(n)


async def values(n):
    for i in range(n):
        yield await leaf(i)


class Manager:
    async def __aenter__(self):
        return await leaf(1)

    async def __aexit__(self, *_):
        burn()


async def consume():
    async for _ in values(5):
        burn()
    async with Manager():
        burn()
    return [v async for v in values(3)]


async def gathered():
    await asyncio.gather(*(top(i) for i in range(10)))


async def grouped():
    if sys.version_info >= (3, 11):
        async with asyncio.TaskGroup() as group:
            for i in range(10):
                group.create_task(top(i), name=f"grouped-{i}")


async def deep(left):
    if left:
        return await deep(left - 1)
    return await leaf(0)


async def main():
    more = clock()
    ready()
    while more():
        await gathered()
        await grouped()
        await consume()
        await deep(200)


asyncio.run(main())
