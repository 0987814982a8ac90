"""The protocol between engine and job-init, and between job-init and its host helper: specs and errors as data."""

from __future__ import annotations

import json
from typing import Any

from pumice.engines.local.rpc.wire import Format, Message, encode_json
from pumice.engines.local.sandbox.sandbox_errors import INTERNAL, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Guard, Mount, RootFs, Tmpfs

_LIMIT = 1 << 30  # the files of a container are in its spec
_SHARED = 1 << 12  # bytes from which the content of a file is sent once


def encode_error(error: BaseException) -> list[str]:
    if isinstance(error, StartError):
        return [error.kind, error.message]
    return [INTERNAL, f"{type(error).__name__}: {error}"]


def _decode_json(line: bytes) -> Any:
    # Given bytes, json.loads looks for the encoding first.
    return json.loads(line.decode())


def _decode_error(plain: Any) -> StartError:
    return StartError(*plain)


FORMAT = Format(encode_json, _decode_json, encode_error, _decode_error, _LIMIT)


def encode_spec(spec: ContainerSpec, sent: dict[bytes, int] | None = None) -> Message:
    """`sent` numbers long contents of files that the other side has already: pods of a job have one /etc/hosts."""
    plain: Message = spec._asdict()
    plain["env"] = dict(spec.env)
    plain["root"] = spec.root._asdict()
    plain["mounts"] = [{"kind": type(mount).__name__, **mount._asdict()} for mount in spec.mounts]
    plain["files"] = files = []
    for file in spec.files:
        number = None if sent is None or len(file.data) < _SHARED else sent.get(file.data)
        # Latin-1 maps every byte to one character.
        text = file.data.decode("latin-1") if number is None else None
        if sent is not None and number is None and len(file.data) >= _SHARED:
            number = sent[file.data] = len(sent)
        files.append([file.path, text, number, file.mode, file.shared])
    return plain


def decode_spec(plain: Message, contents: dict[int, bytes] | None = None) -> ContainerSpec:
    """`contents` has the long contents of files by their numbers, and gets those that are new."""
    lists = ("argv", "groups", "cpus", "devices", "hidden", "hidden_files", "capabilities")
    contents = {} if contents is None else contents
    files = []
    for path, text, number, mode, shared in plain["files"]:
        data = contents[number] if text is None else text.encode("latin-1")
        if number is not None:
            contents[number] = data
        files.append(File(path, data, mode, shared))
    return ContainerSpec(
        **{
            **plain,
            **{name: tuple(plain[name]) for name in lists},
            "root": RootFs(**plain["root"]),
            "mounts": tuple(map(_decode_mount, plain["mounts"])),
            "files": tuple(files),
        }
    )


def _decode_mount(plain: Message) -> Mount | Tmpfs:
    if plain.pop("kind") == "Tmpfs":
        return Tmpfs(**plain)
    return Mount(**{**plain, "guards": tuple(Guard(*guard) for guard in plain["guards"])})
