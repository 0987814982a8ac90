"""The part of a root run that stays root of the machine: the supervisor, asked by job-init over a socket of their own.

Where the ids of a job are mapped to an unused range, job-init has no rights on the machine. The supervisor opens what
is mounted into containers, with ids mapped back (an id-mapped mount), and makes control groups.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

from pumice.engines.local.rpc.wire import Message, Wire, close_all
from pumice.engines.local.sandbox import protocol, syscalls
from pumice.engines.local.sandbox.init.cgroups import Cgroups, Group, GroupLimits
from pumice.engines.local.sandbox.rootfs.mount_targets import Source, Tree

_BATCH = 100


class HostHelper:
    """Serves job-init. `namespace` is the descriptor of its user namespace."""

    def __init__(self, channel: socket.socket, namespace: int, groups: Cgroups) -> None:
        self._job_init = Wire(channel, protocol.FORMAT)
        self._namespace = namespace
        self._groups = groups
        self._made: dict[str, Group] = {}  # by number

    def serve(self) -> None:
        """Returns when job-init has ended."""
        with contextlib.suppress(ConnectionError):
            self._job_init.serve(lambda request: getattr(self, f"_do_{request['do']}")(request))

    def _do_trees(self, message: dict[str, Any]) -> tuple[Message, list[int]]:
        errors, trees = [], []
        for path, volume in message["sources"]:
            try:
                trees.append(mapped_tree(path, self._namespace, volume, below=message["below"]))
                errors.append(0)
            except OSError as error:
                errors.append(error.errno or 0)
        return {"errors": errors}, trees

    def _do_group(self, message: dict[str, Any]) -> tuple[Message, list[int]]:
        group = self._groups.group(GroupLimits(**message["limits"]))
        key = str(len(self._made)) if group.directories else ""
        self._made[key] = group
        event, members = group.oom_event(), group.open_members()
        errors, trees = self._do_trees(message)
        answer = {
            "key": key,
            "event": event is not None,
            "members": len(members),
            "directories": group.directories,
            "memory": group.memory,
            "processes": group.limits_processes,
            **errors,
        }
        return answer, [*([] if event is None else [event]), *members, *trees]

    def _do_members(self, message: dict[str, Any]) -> tuple[Message, list[int]]:
        group = self._made.get(message["group"])
        return {}, [] if group is None else group.open_members()

    def _do_remove(self, message: dict[str, Any]) -> tuple[Message, list[int]]:
        # The entry stays, so that no key is used twice.
        self._made[message["group"]].remove()
        return {}, []


def mapped_tree(path: str, namespace: int, volume: str = "", *, below: bool = True) -> int:
    """Clone a tree of the host with the ids of the job; as it is, if its file system does not support that.

    The job then sees its files as those of the overflow user.
    """
    tree = syscalls.clone_tree(path, volume, below=below)
    with contextlib.suppress(OSError):
        syscalls.map_ids(tree, namespace, below=below)
    return tree


def unmappable(paths: Sequence[str], namespace: int) -> str:
    """Return why ids cannot be mapped on one of these paths; empty if they can."""
    for path in paths:
        try:
            tree = syscalls.clone_tree(path)
        except OSError:
            # It does not exist (yet), or is closed to root as well: containers that need it say so.
            continue
        try:
            syscalls.map_ids(tree, namespace)
        except OSError as error:
            return f"the file system of {path} does not support it ({os.strerror(error.errno or 0).lower()})"
        finally:
            os.close(tree)
    return ""


class HostClient:
    """job-init's end. A lost supervisor is a ConnectionError, which ends the job."""

    def __init__(self, channel: socket.socket) -> None:
        self._host = Wire(channel, protocol.FORMAT)

    def trees(self, sources: Sequence[Source], *, below: bool = True) -> list[Tree]:
        """Return a tree for each source, or why there is none."""
        found: list[Tree] = []
        for first in range(0, len(sources), _BATCH):
            answer, descriptors = self._host.call("trees", sources=sources[first : first + _BATCH], below=below)
            found += _trees(answer["errors"], descriptors)
        return found

    def group(self, limits: GroupLimits, sources: Sequence[Source]) -> tuple[RemoteGroup, list[Tree]]:
        answer, descriptors = self._host.call("group", limits=limits._asdict(), sources=sources[:_BATCH], below=True)
        event = descriptors.pop(0) if answer["event"] else None
        members, opened = descriptors[: answer["members"]], descriptors[answer["members"] :]
        found = _trees(answer["errors"], opened)
        return RemoteGroup(self, answer, event, members), [*found, *self.trees(sources[_BATCH:])]

    def members(self, group: str) -> list[int]:
        return self._host.call("members", group=group)[1]

    def remove(self, group: str) -> None:
        """Without waiting: nothing depends on it."""
        self._host.send({"do": "remove", "group": group})


def _trees(errors: Sequence[int], descriptors: Sequence[int]) -> list[Tree]:
    left = iter(descriptors)
    return [OSError(number, os.strerror(number)) if number else next(left) for number in errors]


class RemoteGroup(Group):
    """A control group that belongs to root of the machine, so that no container can change its limits."""

    def __init__(self, client: HostClient, answer: Message, event: int | None, members: list[int]) -> None:
        super().__init__()
        self._client = client
        self._event = event
        self._members = members  # for the first process
        self._key: str = answer["key"]
        self.directories = answer["directories"]
        self.memory = answer["memory"]
        self.limits_processes = answer["processes"]

    def oom_event(self) -> int | None:
        return self._event

    def open_members(self) -> list[int]:
        members, self._members = self._members, []
        return members or (self._client.members(self._key) if self.directories else [])

    def remove(self) -> None:
        close_all(self._members)
        self._members = []
        if self.directories:
            self._client.remove(self._key)
        self.directories = []
