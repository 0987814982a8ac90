"""The protocol between engine and job-init, and between job-init and its host helper: specs and errors as data."""

from __future__ import annotations

import json
from typing import Any

from pumice.engines.local.rpc.wire import Format, Message, encode_json
from pumice.engines.local.sandbox.sandbox_errors import INTERNAL, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Guard, Mount, RootFs, Tmpfs

_LIMIT = 1 << 30  # the files of a container are in its spec


def encode_error(error: BaseException) -> list[str]:
    if isinstance(error, StartError):
        return [error.kind, error.message]
    return [INTERNAL, f"{type(error).__name__}: {error}"]


def _decode_error(plain: Any) -> StartError:
    return StartError(*plain)


FORMAT = Format(encode_json, json.loads, encode_error, _decode_error, _LIMIT)


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
