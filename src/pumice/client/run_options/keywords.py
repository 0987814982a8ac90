"""The options of a run as keyword arguments of Python: they have the names of the flags."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict

from pumice.client.run_options.reading import Flags
from pumice.client.run_options.user_config import CHOICES
from pumice.engines.local.run_errors import InvalidOption
from pumice.model.problem import Position
from pumice.model.suggestions import did_you_mean

Pathlike: TypeAlias = "str | os.PathLike[str]"


class Options(TypedDict, total=False):
    """All may be left out. A time is a number of seconds, or a text such as `10m`."""

    scale: Mapping[str, int]
    env: Mapping[str, str] | Sequence[str]  # a name alone passes on your own variable
    env_file: Pathlike | Sequence[Pathlike]
    with_: Pathlike | Sequence[Pathlike]  # files with ConfigMaps, Secrets and claims
    image: Mapping[str, Pathlike]
    entrypoint: Mapping[str, str]
    mount: str | Sequence[str]
    allow_host_path: Pathlike | Sequence[Pathlike]
    ignore: str | Sequence[str]
    publish: str | Sequence[str]
    kill: str | Sequence[str]
    workdir_read_only: bool
    pull: bool
    priority: int
    hold: bool
    no_wait: bool
    max_wait: float | str
    note: str
    python: Pathlike
    fit: bool
    network: Literal["job", "outbound", "all"]
    isolation: Literal["auto", "namespaces", "process"]
    unconfined: bool
    allow_nested_namespaces: bool
    pids_limit: int
    log_limit: str | int
    disk_limit: str | int
    timeout: float | str
    keep: bool


_NAMES: Final = tuple(Options.__annotations__)
_TIMES: Final = ("max_wait", "timeout")
_LISTS: Final = frozenset(field.name for field in dataclasses.fields(Flags) if field.default == ())


def flags_of(options: Mapping[str, Any], file: str) -> Flags:
    """Return the options as flags. Raises InvalidOption."""
    unknown = next((name for name in options if name not in _NAMES), None)
    if unknown is not None:
        hint = f"{did_you_mean(unknown, _NAMES)} there are {', '.join(sorted(_NAMES))}".lstrip()
        raise InvalidOption("unknown option", hint, Position(unknown))
    fields: dict[str, Any] = {"file": file}
    for name, value in options.items():
        if value is None or name == "with_":
            continue
        if name in CHOICES and value not in CHOICES[name]:
            raise InvalidOption(f"{value}: must be one of {', '.join(CHOICES[name])}", "", Position(name))
        fields[name] = _texts(value) if name in _LISTS else _text(name, value)
    return Flags(**fields)


def files_of(options: Options) -> list[str]:
    """Return the files of `with_`."""
    return _texts(options.get("with_", ()))


def _texts(value: Any) -> list[str]:
    """Return a mapping, a single value or several as a flag that is repeated."""
    if isinstance(value, Mapping):
        return [f"{name}={os.fspath(each) if isinstance(each, os.PathLike) else each}" for name, each in value.items()]
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    return [os.fspath(each) if isinstance(each, os.PathLike) else str(each) for each in value]


def _text(name: str, value: Any) -> Any:
    if isinstance(value, bool) or name == "priority":
        return value
    if name in _TIMES and isinstance(value, int | float):
        return f"{value:.9f}".rstrip("0").rstrip(".") + "s"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
