"""The options of a run as keyword arguments of Python: they have the names of the flags."""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict

from pumice.client.run_options import flags
from pumice.client.run_options.reading import FLAGS, Flags
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
_DEFAULTS: Final = {name: getattr(Flags(), name) for name in FLAGS}
_SWITCHES: Final = frozenset(name for name, value in _DEFAULTS.items() if value is False)
_LISTS: Final = frozenset(("with_", *(name for name, value in _DEFAULTS.items() if value == ())))
_PAIRS: Final = {
    "entrypoint": '{"IMAGE": "COMMAND"}',
    "env": '{"NAME": "VALUE"}',
    "image": '{"NAME": "PATH"}',
    "scale": '{"TASK": N}',
}


def flags_of(options: Mapping[str, Any], file: str) -> Flags:
    """Return the options as flags. Raises InvalidOption."""
    unknown = next((name for name in options if name not in _NAMES), None)
    if unknown is not None:
        hint = f"{did_you_mean(unknown, _NAMES)} there are {', '.join(sorted(_NAMES))}".lstrip()
        raise InvalidOption("unknown option", hint, Position(unknown))
    fields: dict[str, Any] = {"file": file}
    for name, value in options.items():
        if value is not None and name != "with_":
            fields[name] = _texts(name, value) if name in _LISTS else _text(name, value)
    return Flags(**fields)


def seconds_of(name: str, value: object) -> float:
    """Return a time that was given as a number of seconds, or as a text such as `10m`. Raises InvalidOption."""
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return flags.seconds(value, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise _refused(name, value, "a number of seconds, or a text such as 10m")
    return value


def files_of(options: Options) -> list[str]:
    """Return the files of `with_`. Raises InvalidOption."""
    return _texts("with_", options.get("with_") or ())


def _texts(name: str, value: Any) -> list[str]:
    """Return a mapping, a single value or several as a flag that is repeated."""
    if isinstance(value, Mapping) and name in _PAIRS:
        return [f"{key}={_word(name, each, f'{key}: ')}" for key, each in value.items()]
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        accepted = f"a mapping such as {_PAIRS[name]}" if name in _PAIRS else "a text, or a list of texts"
        raise _refused(name, value, accepted)
    return [_word(name, each) for each in value]


def _word(name: str, value: Any, where: str = "") -> str:
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if not isinstance(value, str | int | float):
        raise _refused(name, value, "a text", where)
    return str(value)


def _text(name: str, value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise _refused(name, value, "True or False")
        return value
    if name == "priority":
        if not isinstance(value, int) or not number:
            raise _refused(name, value, "a whole number")
        return value
    if name in _TIMES:
        if not number and not isinstance(value, str):
            raise _refused(name, value, "a number of seconds, or a text such as 10m")
        return f"{value:.9f}".rstrip("0").rstrip(".") + "s" if number else value
    if name in CHOICES and value not in CHOICES[name]:
        raise _refused(name, value, f"one of {', '.join(CHOICES[name])}")
    if isinstance(value, bool):
        raise _refused(name, value, "a text")
    return _word(name, value)


def _refused(name: str, value: object, accepted: str, where: str = "") -> InvalidOption:
    shown = value if isinstance(value, str) else repr(value)
    return InvalidOption(f"{where}{shown}: must be {accepted}", "", Position(name))
