"""The protocol between engine and job-init: JSON packets over a socket pair, with file descriptors attached.

A packet cannot exceed the socket's buffer, which ordinary users may not enlarge, but a ConfigMap can. A long message is
therefore written to a memfd, whose descriptor is the first one attached.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from pumice.engines.local.sandbox.specs import ContainerSpec, File, Guard, Mount, RootFs, Tmpfs

Message = dict[str, Any]

_MAX_PACKET = 32 * 1024
_IN_MEMFD = b"M"
_MAX_DESCRIPTORS = 128


def send(channel: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Raises BlockingIOError if the channel is full and does not block; then nothing was sent."""
    packet = json.dumps(message).encode()
    if len(packet) <= _MAX_PACKET:
        socket.send_fds(channel, [packet], list(descriptors))
        return
    file = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(packet)
        socket.send_fds(channel, [_IN_MEMFD], [file, *descriptors])
    finally:
        os.close(file)


def receive(channel: socket.socket) -> tuple[Message, list[int]] | None:
    """None at the end of the stream."""
    packet, descriptors = _receive_packet(channel)
    if not packet:
        return None
    if packet == _IN_MEMFD:
        with os.fdopen(descriptors.pop(0), "rb") as reader:
            reader.seek(0)
            packet = reader.read()
    message: Message = json.loads(packet)
    return message, descriptors


def _receive_packet(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Like socket.recv_fds, but with MSG_CMSG_CLOEXEC: the descriptors are not inherited."""
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * descriptors.itemsize)
    packet, ancillary, _, _ = channel.recvmsg(_MAX_PACKET, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return packet, list(descriptors)


def encode_spec(spec: ContainerSpec) -> Message:
    plain: Message = spec._asdict()
    plain["env"] = dict(spec.env)
    plain["root"] = spec.root._asdict()
    plain["mounts"] = [{"kind": type(mount).__name__, **mount._asdict()} for mount in spec.mounts]
    # Latin-1 maps every byte to one character.
    plain["files"] = [[file.path, file.data.decode("latin-1"), file.mode] for file in spec.files]
    return plain


def decode_spec(plain: Message) -> ContainerSpec:
    lists = ("argv", "groups", "cpus", "devices", "hidden", "hidden_files", "capabilities")
    return ContainerSpec(
        **{
            **plain,
            **{name: tuple(plain[name]) for name in lists},
            "root": RootFs(**plain["root"]),
            "mounts": tuple(map(_decode_mount, plain["mounts"])),
            "files": tuple(File(path, data.encode("latin-1"), mode) for path, data, mode in plain["files"]),
        }
    )


def _decode_mount(plain: Message) -> Mount | Tmpfs:
    if plain.pop("kind") == "Tmpfs":
        return Tmpfs(**plain)
    return Mount(**{**plain, "guards": tuple(Guard(*guard) for guard in plain["guards"])})
