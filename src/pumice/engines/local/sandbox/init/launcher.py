"""The process that forks containers for job-init, from whose memory it was copied before the first pod.

A fork makes each page of memory that the parent writes afterwards a page to copy. For each pod job-init writes
hundreds; this process writes next to nothing. The processes that it forks are children of job-init.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import NoReturn

from pumice.engines.local.rpc.wire import Message, Wire, close_all
from pumice.engines.local.sandbox import protocol, syscalls
from pumice.engines.local.sandbox.init import child, exec_command, privileges
from pumice.engines.local.sandbox.init.child import Setup, Streams
from pumice.engines.local.sandbox.init.privileges import Limits
from pumice.engines.local.sandbox.rootfs.container_root import Parts
from pumice.engines.local.sandbox.rootfs.host_root import HostView
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.tree_stream import Copy

_BATCH = 200  # descriptors; the kernel takes 253 in one message


class Launcher:
    """job-init's end. A lost launcher is a ConnectionError, which ends the job."""

    def __init__(self, job: JobFilesystem, limits: Limits) -> None:
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            _serve(theirs, job, limits)
        theirs.close()
        self._wire = Wire(ours, protocol.FORMAT)
        self.descriptor = ours.fileno()  # readable between two calls only when the launcher has ended

    def launch(self, message: Message, descriptors: Mapping[str, Sequence[int]]) -> int:
        """Fork a process that becomes what the message says, and return its pid. The descriptors stay the caller's.

        With `pids`, the pidfd of another process, it joins its pid namespace. Raises OSError.
        """
        copies = [os.dup(each) for name in descriptors for each in descriptors[name]]
        counts = {name: len(descriptors[name]) for name in descriptors}
        while len(copies) > _BATCH:
            self._wire.send({"what": "descriptors"}, copies[:_BATCH])
            del copies[:_BATCH]
        self._wire.send({**message, "counts": counts}, copies)
        found = self._wire.receive()
        if found is None:
            raise ConnectionResetError("the launcher of the job has ended")
        answer, _ = found
        if answer["error"]:
            raise OSError(answer["error"], os.strerror(answer["error"]))
        return int(answer["pid"])


def _serve(channel: socket.socket, job: JobFilesystem, limits: Limits) -> NoReturn:
    """Fork what job-init asks for, until job-init ends, which ends this process as well."""
    # Nothing is collected: to search for garbage would copy the memory.
    gc.disable()
    exec_command.close_others([channel.fileno()])
    # Done once for all children, which unblock the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    exec_command.default_actions()
    privileges.drop_ungrantable(limits.last_capability)
    wire = Wire(channel, protocol.FORMAT)
    own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    held: list[int] = []
    while (found := wire.receive()) is not None:
        message, descriptors = found
        held += descriptors
        if message["what"] == "descriptors":
            continue
        pid, error = 0, 0
        given = iter(held)
        named = {name: [next(given) for _ in range(count)] for name, count in message["counts"].items()}
        try:
            if named["pids"]:
                syscalls.setns(named["pids"][0], syscalls.NEWPID)
            else:
                syscalls.unshare(syscalls.NEWPID)
            pid = syscalls.fork_sibling()
            if pid == 0:
                _become(message, named, job, limits)
        except OSError as refused:
            error = refused.errno or 0
        syscalls.setns(own_pid_namespace, syscalls.NEWPID)
        close_all(held)
        held.clear()
        wire.send({"pid": pid, "error": error})
    os._exit(0)


def _become(message: Message, named: dict[str, list[int]], job: JobFilesystem, limits: Limits) -> NoReturn:
    try:
        setup = Setup(protocol.decode_spec(message["spec"]), job, limits, named["groups"], message["processes"])
        streams = Streams.choose(named["streams"], named["errors"][0], message["size"])
        match message["what"]:
            case "container":
                opened = iter(named["trees"])
                trees = [OSError(each, os.strerror(each)) if each else next(opened) for each in message["trees"]]
                view = message["view"] and HostView(*message["view"])
                parts = Parts(message["files"], message["lower"], message["upper"], named["memory"][0], view, trees)
                child.become_container(setup, streams, named["namespaces"], parts)
            case "exec":
                child.become_exec(setup, streams, named["pids"][0], (message["argv"], message["env"]))
            case "copy":
                child.become_copy(setup, streams, named["pids"][0], Copy(*message["copy"]))
    finally:
        # It never returns into the loop of its parent.
        os._exit(128)
