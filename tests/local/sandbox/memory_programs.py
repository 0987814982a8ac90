"""Programs for Python that hold memory in many ways. Attacks hold more than 64 MiB, the others less."""

from __future__ import annotations

MIB = 1 << 20

_COMMON = """
import ctypes, mmap, os, resource, signal, socket, struct, subprocess, sys, threading, time
MIB = 1 << 20
BLOCK = bytes(MIB)
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []

def segment(size):
    # IPC_PRIVATE, IPC_CREAT
    address = libc.shmat(libc.shmget(0, size, 0o1600), None, 0)
    ctypes.memset(address, 1, size)
    return address

def fill(sender, message, size=1 << 62):
    # Until the buffer is full.
    sender.setblocking(False)
    sent = 0
    try:
        while sent < size:
            sent += sender.send(message)
    except BlockingIOError:
        pass
    return sent

def fill_connection(sender):
    # What was sent is on its way for a moment.
    sent = fill(sender, BLOCK)
    while more := (time.sleep(0.01), fill(sender, BLOCK))[1]:
        sent += more
    return sent

def pairs(kind, message, cost, close=False):
    size = 0
    while size < 96 * MIB:
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        size += fill(a, message) * cost // len(message)
        held.append(b if close else (a, b))
"""
# Longer than a test waits.
_ATTACK = f"{_COMMON}\ndef hold():\n    time.sleep(1000)\n    os._exit(0)\n"
# A small one waits for the signal to end. Its children end with it.
_HARMLESS = f"""{_COMMON}
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

def hold():
    print("ready", flush=True)
    signal.sigwait([signal.SIGUSR1])
    os._exit(0)

def fork(number, act=lambda: None):
    for _ in range(number):
        ready, done = os.pipe()
        if os.fork() == 0:
            act()
            os.close(ready)
            os.write(done, b".")
            signal.pause()
        os.read(ready, 1)
"""


def attack(program: str) -> str:
    return f"{_ATTACK}\n{program}\nhold()\n"


def harmless(program: str) -> str:
    return f"{_HARMLESS}\n{program}\nhold()\n"
