#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A FUSE file system with one file, whose daemon can be made to answer no more.

    hangfs.py FOLDER NAME FILE      serve FILE as FOLDER/NAME until killed
"""
import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH = 1, 2, 3, 14, 15, 17, 18, 25
INIT, OPENDIR, RELEASEDIR, ACCESS, BATCH_FORGET = 26, 27, 29, 34, 42
MNT_FORCE, MNT_DETACH = 1, 2
ROOT, FILE = 1, 2

libc = ctypes.CDLL(None, use_errno=True)


class Daemon:
    """include/uapi/linux/fuse.h, as far as running a program from it needs; in our byte order."""

    def __init__(self, name, content):
        self.name = name.encode()
        self.content = content
        self.deaf = False
        signal.signal(signal.SIGUSR1, lambda _signal, _frame: setattr(self, "deaf", True))

    def attributes(self, node):
        directory = node == ROOT
        size = 0 if directory else len(self.content)
        return struct.pack("=6Q10I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0,
                           0o40755 if directory else 0o100755, 1, 0, 0, 0, 4096, 0)

    def answer(self, opcode, node, data):
        """The body of the answer; a number is an error."""
        if opcode == INIT:
            return struct.pack("=4I2H2I2HI28x", 7, 31, 1 << 20, 0, 8, 8, 1 << 17, 1, 32, 0, 0)
        if opcode == LOOKUP:
            if data.rstrip(b"\0") != self.name:
                return errno.ENOENT
            # The name holds for an hour, the attributes not at all: each stat() asks.
            return struct.pack("=4Q2I", FILE, 1, 3600, 0, 0, 0) + self.attributes(FILE)
        if opcode == GETATTR:
            return struct.pack("=Q2I", 0, 0, 0) + self.attributes(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("=Q2I", 1, 0, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("=2QI", data)
            return self.content[offset:offset + size]
        if opcode == STATFS:
            return bytes(80)
        return b"" if opcode in (RELEASE, RELEASEDIR, FLUSH, ACCESS) else errno.ENOSYS

    def serve(self, fd):
        while True:
            request = os.read(fd, 1 << 18)
            _, opcode, unique, node = struct.unpack_from("=2I2Q", request)
            if self.deaf or opcode in (FORGET, BATCH_FORGET):
                continue
            body = self.answer(opcode, node, request[40:])
            error, body = (-body, b"") if isinstance(body, int) else (0, body)
            os.write(fd, struct.pack("=IiQ", 16 + len(body), error, unique) + body)


class Mount:
    """The file system of a daemon of our own; OSError where it cannot be mounted."""

    def __init__(self, folder, name, file):
        os.makedirs(folder)
        self.folder = folder
        self.path = os.path.join(folder, name)
        self.daemon = subprocess.Popen([sys.executable, __file__, folder, name, file],
                                       stdout=subprocess.PIPE, text=True)
        ready = self.daemon.stdout.readline().strip()
        if ready != "ready":
            self.daemon.wait()
            raise OSError(ready)

    def hang(self):
        self.daemon.send_signal(signal.SIGSTOP)

    def swallow(self):
        """Requests are taken and not answered: who waits for one cannot even be killed."""
        self.daemon.send_signal(signal.SIGUSR1)

    def close(self):
        self.daemon.kill()
        self.daemon.wait()
        libc.umount2(self.folder.encode(), MNT_FORCE | MNT_DETACH)
        self.daemon.stdout.close()


def main(folder, name, file):
    with open(file, "rb") as source:
        daemon = Daemon(name, source.read())
    try:
        fd = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        print(error, flush=True)
        return
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"hangfs", folder.encode(), b"fuse", 0, options.encode()):
        print(os.strerror(ctypes.get_errno()), flush=True)
        return
    print("ready", flush=True)
    daemon.serve(fd)


if __name__ == "__main__":
    main(*sys.argv[1:])
