"""The configuration of an image: entrypoint, command, variables, working directory, user, stop signal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field


class ImageConfig(Struct, frozen=True):
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    stop_signal: str = ""
    architecture: str = ""

    def argv(self, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
        """Return the command line of a container, as in Kubernetes: a command replaces entrypoint and cmd, args cmd."""
        if command:
            return (*command, *args)
        return (*self.entrypoint, *(args or self.cmd))


def read_config(document: Mapping[str, Any]) -> ImageConfig:
    """Parse the configuration of a Docker or OCI image; ill-formed fields are ignored, as the layers matter more."""
    config = document.get("config") or document.get("Config") or {}
    if not isinstance(config, Mapping):
        config = {}
    return ImageConfig(
        entrypoint=_words(config.get("Entrypoint")),
        cmd=_words(config.get("Cmd")),
        env=_variables(config.get("Env")),
        workdir=_text(config.get("WorkingDir")),
        user=_text(config.get("User")),
        stop_signal=_text(config.get("StopSignal")),
        architecture=_text(document.get("architecture")),
    )


def _words(found: object) -> tuple[str, ...]:
    if isinstance(found, str):
        # The shell form, in very old images.
        return ("/bin/sh", "-c", found) if found else ()
    return tuple(str(word) for word in found) if isinstance(found, list) else ()


def _variables(found: object) -> dict[str, str]:
    variables = {}
    for line in found if isinstance(found, list) else []:
        name, equals, value = str(line).partition("=")
        if name and equals:
            variables[name] = value
    return variables


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""
