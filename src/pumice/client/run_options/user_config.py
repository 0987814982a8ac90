"""Reads the user's own settings, `$XDG_CONFIG_HOME/pumice/config.toml`: consent and limits that no project may set."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from pumice.client.run_options import flags
from pumice.engines.local.options import Isolation, Network
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.state.settings import ExtraMount, Retention, config_directory
from pumice.model.problem import Position, Problem
from pumice.model.scalars import kind_of
from pumice.model.suggestions import did_you_mean
from pumice.yaml.source import read_text

FILE: Final = "config.toml"
# Lists of texts, each as the flag of the same name takes it.
_LISTS: Final = ("mount", "allow-host-path", "env")
LIMITS: Final = ("pids-limit", "log-limit", "disk-limit")
_SWITCHES: Final = ("unconfined", "allow-nested-namespaces", "workdir-read-only")
_RUNS: Final = "runs"
_RUNS_KEYS: Final = ("keep_days", "keep_per_name", "max_size", "after_reboot")
_AFTER_REBOOT: Final = ("policy", "suspend")
_PRIORITIES: Final = "priorities"
CHOICES: Final = {"network": tuple(map(str, Network)), "isolation": tuple(map(str, Isolation))}


class UserConfig(Struct, frozen=True):
    mounts: tuple[ExtraMount, ...] = ()
    allowed: tuple[Path, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    network: str = ""
    isolation: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)  # by the name of the flag
    switches: frozenset[str] = frozenset()  # those that are on, likewise
    retention: Retention = field(default_factory=Retention)
    after_reboot: str = _AFTER_REBOOT[0]
    priorities: Mapping[str, int] = field(default_factory=dict)  # by priorityClassName


def read_user_config(environ: Mapping[str, str]) -> UserConfig:
    """Read the file; empty if there is none. Raises InvalidOption with all problems."""
    directory = config_directory(environ)
    path = directory / FILE if directory is not None else None
    if path is None or not path.is_file():
        return UserConfig()
    found = _parsed(path)
    problems = [Problem(message, hint, Position(str(path))) for message, hint in _problems(found)]
    if problems:
        raise InvalidOption.of(problems)
    base = path.parent
    mounts = (flags.mount(text, base, f"{path}: mount") for text in found.get("mount", ()))
    return UserConfig(
        mounts=tuple(mounts),
        allowed=tuple(flags.host_prefix(text, base) for text in found.get("allow-host-path", ())),
        env=flags.variables(found.get("env", []), environ),
        network=found.get("network", ""),
        isolation=found.get("isolation", ""),
        limits={name: str(found[name]) for name in LIMITS if name in found},
        switches=frozenset(name for name in _SWITCHES if found.get(name)),
        retention=_retention(found.get(_RUNS, {}), f"{path}: {_RUNS}"),
        after_reboot=found.get(_RUNS, {}).get("after_reboot", _AFTER_REBOOT[0]),
        priorities=found.get(_PRIORITIES, {}),
    )


def _retention(found: Mapping[str, Any], origin: str) -> Retention:
    given = {name: found[name] for name in ("keep_days", "keep_per_name") if name in found}
    if "max_size" in found:
        given["max_size"] = flags.size(str(found["max_size"]).removesuffix("B"), f"{origin}.max_size")
    return Retention(**given)


def _runs_problems(value: object) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield f"{_RUNS}: must be a table, found {kind_of(value)}", ""
        return
    for name, each in value.items():
        if name not in _RUNS_KEYS:
            suggestion = f"{did_you_mean(name, _RUNS_KEYS)} ".lstrip()
            yield f"{_RUNS}.{name}: unknown", f"{suggestion}there are {', '.join(_RUNS_KEYS)}"
        elif name == "after_reboot":
            if each not in _AFTER_REBOOT:
                yield f"{_RUNS}.{name}: {each}: must be one of {', '.join(_AFTER_REBOOT)}", ""
        elif name != "max_size" and (not isinstance(each, int) or isinstance(each, bool) or each < 0):
            yield f"{_RUNS}.{name}: {each}: must be a whole number, 0 or more", ""


def _priorities_problems(value: object) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield f"{_PRIORITIES}: must be a table, found {kind_of(value)}", 'such as "high-priority" = 100'
        return
    for name, each in value.items():
        if not isinstance(each, int) or isinstance(each, bool):
            yield f"{_PRIORITIES}.{name}: {each}: must be a whole number", ""


def _parsed(path: Path) -> dict[str, Any]:
    text = read_text(str(path))
    if isinstance(text, Problem):
        raise InvalidOption.of([text])
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(str(error), where=Position(str(path))) from error


def _problems(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    known = (*_LISTS, *CHOICES, *LIMITS, *_SWITCHES, _RUNS, _PRIORITIES)
    for name, value in found.items():
        if name == _RUNS:
            problems.extend(_runs_problems(value))
        elif name == _PRIORITIES:
            problems.extend(_priorities_problems(value))
        elif name not in known:
            problems.append((f"{name}: unknown", f"{did_you_mean(name, known)} there are {', '.join(known)}".lstrip()))
        elif expected := _expected(name, value):
            problems.append((f"{name}: {expected}", ""))
    return problems


def _expected(name: str, value: object) -> str:
    """Return what the key takes instead of this value; empty if it takes it."""
    found = f"found {kind_of(value)}"
    if name in _LISTS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        return f"must be a list of texts, {found}"
    if name in CHOICES and value not in CHOICES[name]:
        return f"{value}: must be one of {', '.join(CHOICES[name])}"
    if name in LIMITS and (not isinstance(value, str | int) or isinstance(value, bool)):
        return f"must be a number or a text, {found}"
    if name in _SWITCHES and not isinstance(value, bool):
        return f"must be true or false, {found}"
    return ""
