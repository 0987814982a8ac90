"""What engine and job-init say to each other: JSON in packets over a socket pair, with descriptors beside it.

A packet cannot be longer than the socket's buffer, which ordinary users may not enlarge, and a ConfigMap can be longer
than that. A long message therefore travels as a file in memory, whose descriptor comes first.
"""

from __future__ import annotations

import array
import dataclasses
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs, Tmpfs

Message = dict[str, Any]

_LONGEST_PACKET = 32 * 1024
_IN_MEMORY_FILE = b"M"
_MOST_DESCRIPTORS = 8


def send(channel: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """May raise BlockingIOError if the channel does not block; then nothing was sent."""
    packet = json.dumps(message).encode()
    if len(packet) <= _LONGEST_PACKET:
        socket.send_fds(channel, [packet], list(descriptors))
        return
    file = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(packet)
        socket.send_fds(channel, [_IN_MEMORY_FILE], [file, *descriptors])
    finally:
        os.close(file)


def receive(channel: socket.socket) -> tuple[Message, list[int]] | None:
    """None when the other side is gone."""
    packet, descriptors = _receive_packet(channel)
    if not packet:
        return None
    if packet == _IN_MEMORY_FILE:
        with os.fdopen(descriptors.pop(0), "rb") as reader:
            reader.seek(0)
            packet = reader.read()
    message: Message = json.loads(packet)
    return message, descriptors


def _receive_packet(channel: socket.socket) -> tuple[bytes, list[int]]:
    """As socket.recv_fds, which forgets the flag that keeps descriptors from being inherited."""
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * descriptors.itemsize)
    packet, ancillary, _, _ = channel.recvmsg(_LONGEST_PACKET, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return packet, list(descriptors)


def encode_spec(spec: ContainerSpec) -> Message:
    # Not asdict, which copies all that it finds: half of the time that hundreds of containers take to be described.
    plain: Message = {each.name: getattr(spec, each.name) for each in dataclasses.fields(spec)}
    plain["env"] = dict(spec.env)
    plain["root"] = dataclasses.asdict(spec.root)
    plain["mounts"] = [{"kind": type(mount).__name__, **dataclasses.asdict(mount)} for mount in spec.mounts]
    # Latin-1 maps every byte to one character and back.
    plain["files"] = [[file.path, file.data.decode("latin-1"), file.mode] for file in spec.files]
    return plain


def decode_spec(plain: Message) -> ContainerSpec:
    lists = ("argv", "groups", "cpus", "devices", "hidden")
    return ContainerSpec(
        **{
            **plain,
            **{name: tuple(plain[name]) for name in lists},
            "root": RootFs(**plain["root"]),
            "mounts": tuple(_mount(mount) for mount in plain["mounts"]),
            "files": tuple(File(path, data.encode("latin-1"), mode) for path, data, mode in plain["files"]),
        }
    )


def _mount(plain: Message) -> Mount | Tmpfs:
    values = {name: value for name, value in plain.items() if name != "kind"}
    return Tmpfs(**values) if plain["kind"] == "Tmpfs" else Mount(**values)
